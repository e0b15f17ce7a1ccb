"""Who is linked to whom, as every broker tells everybody; and from that the next hop to each.

Each broker's list of neighbours has a version, which only that broker raises. A link counts when both of its ends list
it: so the list of a broker that has died, and that nobody takes back, leads nowhere. Routes are shortest by hops. When
all know the same links, every hop brings a message nearer to its destination, so none goes in circles.
"""

from tidings.model.identity import NodeId


class KnownTopology:
    def __init__(self, node_id: NodeId) -> None:
        self.node_id = node_id
        self.versions: dict[NodeId, int] = {}
        self.lists: dict[NodeId, tuple[NodeId, ...]] = {}
        self.hops: dict[NodeId, NodeId] | None = None

    def put(self, broker: NodeId, version: int, neighbours: tuple[NodeId, ...]) -> None:
        self.versions[broker], self.lists[broker] = version, tuple(sorted(set(neighbours)))
        self.hops = None

    def forget(self, broker: NodeId) -> None:
        if broker in self.lists:
            del self.lists[broker], self.versions[broker]
            self.hops = None

    def is_link(self, one: NodeId, other: NodeId) -> bool:
        return other in self.lists.get(one, ()) and one in self.lists.get(other, ())

    def routes(self) -> dict[NodeId, NodeId]:
        """The first hop towards every broker that can be reached; nearer ones first."""
        if self.hops is None:
            self.hops = {}
            ring = [it for it in self.lists.get(self.node_id, ()) if self.is_link(self.node_id, it)]
            self.hops.update((it, it) for it in ring)
            while ring:
                further: list[NodeId] = []
                for broker in ring:
                    for other in self.lists[broker]:
                        if other != self.node_id and other not in self.hops and self.is_link(broker, other):
                            self.hops[other] = self.hops[broker]
                            further.append(other)
                ring = further
        return self.hops
