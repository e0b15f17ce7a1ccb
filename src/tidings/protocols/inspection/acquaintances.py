"""The other brokers that a broker knows: linked with it now, once, or never yet though they should be.

Who asks about a network goes from broker to broker, and wants to hear of those that are gone as well. So a broker that
was linked once is remembered, with its address and why it left; and a link that is configured and never came up is
shown with the address that was tried and the reason.
"""

from collections.abc import Callable, Iterable

import msgspec

from tidings.machine.inputs import Input, LinkDown, LinkUp
from tidings.model.identity import ADDRESS_MARK, NodeId
from tidings.pubsub.rows import LinkRow
from tidings.pubsub.signals import LinkFailed, NeighbourDown, NeighbourUp, PeerDown, PeerUp

NOT_YET = "not reached yet"


class LinkSeen(msgspec.Struct):
    """What is known of another broker."""

    address: str = ""
    is_up: bool = False
    is_neighbour: bool = False
    problem: str = ""


class Acquaintances:
    """`configured` are the links to keep up, by name or by address (`identity.at`)."""

    def __init__(
        self, configured: Iterable[NodeId], is_synchronised: Callable[[NodeId], bool], brokers_max: int
    ) -> None:
        self.configured: dict[NodeId, NodeId | None] = dict.fromkeys(configured)
        """Who answers under it, if that is known."""
        self.problems: dict[NodeId, str] = {}
        """Why a configured link is down, or was last."""
        self.is_synchronised, self.brokers_max = is_synchronised, brokers_max
        self.links: dict[NodeId, LinkSeen] = {}

    def forget_links(self) -> None:
        for link in self.links.values():
            link.is_up = link.is_neighbour = False

    def hear(self, input: Input) -> None:
        match input:
            case PeerUp(broker, _, _, address):
                link = self.link(broker)
                link.is_up, link.problem, link.address = True, "", address or link.address
            case PeerDown(broker, _, reason) if broker in self.links:
                link = self.links[broker]
                link.is_up, link.is_neighbour, link.problem = False, False, reason
            case NeighbourUp(neighbour):
                link = self.link(neighbour)
                link.is_up = link.is_neighbour = True
            case NeighbourDown(neighbour) if neighbour in self.links:
                self.links[neighbour].is_neighbour = False
            case LinkUp(neighbour, _, asked):
                for name in (neighbour, asked):
                    if name in self.configured:
                        self.configured[name] = neighbour
                        self.problems.pop(name, None)
            case LinkDown(neighbour, _, reason) | LinkFailed(neighbour, reason):
                self.explain(neighbour, reason)

    def explain(self, name: NodeId, reason: str) -> None:
        """Why a broker that is down does not come up."""
        for configured, broker in self.configured.items():
            if name in (configured, broker):
                self.problems[configured] = reason
        link = self.links.get(self.configured.get(name) or name)
        if link is not None and not link.is_up and reason:
            link.problem = reason

    def link(self, broker: NodeId) -> LinkSeen:
        if broker not in self.links:
            gone = [name for name, link in self.links.items() if not link.is_up]
            if len(self.links) >= self.brokers_max and gone:
                del self.links[gone[0]]
            self.links[broker] = LinkSeen()
        return self.links[broker]

    def rows(self) -> list[LinkRow]:
        configured = set(self.configured.values())
        rows = [
            LinkRow(
                broker=broker,
                address=link.address,
                is_configured=broker in configured,
                is_up=link.is_up,
                is_neighbour=link.is_neighbour,
                is_synchronised=link.is_neighbour and self.is_synchronised(broker),
                problem=link.problem,
            )
            for broker, link in sorted(self.links.items())
        ]
        missing = [name for name, broker in self.configured.items() if broker not in self.links]
        return [*rows, *(missing_row(name, self.problems.get(name, NOT_YET)) for name in missing)]

    def check(self) -> None:
        assert all(link.is_up for link in self.links.values() if link.is_neighbour), "a neighbour without a link"


def missing_row(name: NodeId, problem: str) -> LinkRow:
    address = name.removeprefix(ADDRESS_MARK)
    return LinkRow(
        broker=name if address == name else "",
        address="" if address == name else address,
        is_configured=True,
        problem=problem,
    )
