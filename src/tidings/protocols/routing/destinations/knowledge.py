"""What every broker knows of all brokers: their links and what their clients may want; and how news spreads.

Both are lists with a version that only their own broker raises. What is news is passed on to all other neighbours, so
it reaches everybody; what is older than what we know is answered with the newer, to the one who told it. A broker that
was started anew hears what it told in an earlier life, and raises its version above that. When there are more brokers
than `brokers_max`, one that cannot be reached is forgotten, and if all can be reached the new one is not learned.
"""

from typing import Any

from tidings.machine.effects import Drop, Effect, Send
from tidings.matching.bloom import message_bits_match_filter_bits
from tidings.model.bounds import VERSION_MAX
from tidings.model.errors import UsageError
from tidings.model.filter import Filter
from tidings.model.identity import NodeId
from tidings.protocols.routing.destinations.messages import LinkState, Predicates
from tidings.protocols.routing.destinations.params import DestinationParams
from tidings.protocols.routing.destinations.predicates import Rows, rows_from_bytes, rows_of, rows_to_bytes
from tidings.protocols.routing.destinations.topology import KnownTopology

OTHER_PROFILE = "its Bloom rows are of another profile than ours; all brokers need the same"
BAD_ROWS = "its Bloom rows are none of its profile"
TOO_MANY_BROKERS = "as many brokers as are allowed are known already"


class Knowledge:
    def __init__(self, node_id: NodeId, params: DestinationParams) -> None:
        self.node_id, self.params = node_id, params
        self.neighbours: list[NodeId] = []
        self.topology = KnownTopology(node_id)
        self.topology.put(node_id, 0, ())
        self.rows: dict[NodeId, tuple[int, Rows]] = {node_id: (0, ())}
        """For each broker the version of its predicates, and they themselves."""

    # About ourselves.

    def links_changed(self, neighbours: list[NodeId]) -> list[Effect]:
        self.neighbours = neighbours
        self.topology.put(self.node_id, self.topology.versions[self.node_id] + 1, tuple(neighbours))
        return self.flood(self.link_state(self.node_id))

    def wants_changed(self, filters: list[Filter]) -> list[Effect]:
        version, rows = self.rows[self.node_id]
        changed = rows_of(filters, self.params.profile, self.params.rows_max)
        if changed == rows:
            return []
        self.rows[self.node_id] = version + 1, changed
        return self.flood(self.predicates(self.node_id))

    def tell_all(self, neighbour: NodeId) -> list[Effect]:
        """What a new neighbour has to know."""
        links = [Send(neighbour, self.link_state(broker)) for broker in self.topology.lists if broker != self.node_id]
        return [*links, *(Send(neighbour, self.predicates(broker)) for broker in self.rows)]

    def flood(self, message: LinkState | Predicates, but: NodeId | None = None) -> list[Effect]:
        return [Send(neighbour, message) for neighbour in self.neighbours if neighbour != but]

    def link_state(self, broker: NodeId) -> LinkState:
        return LinkState(broker, self.topology.versions[broker], self.topology.lists[broker])

    def predicates(self, broker: NodeId) -> Predicates:
        profile, (version, rows) = self.params.profile, self.rows[broker]
        encoded = rows_to_bytes(rows, profile)
        return Predicates(broker, version, profile.bits, profile.hashes, profile.seed, encoded)

    # From others.

    def hear(self, sender: NodeId, message: LinkState | Predicates) -> list[Effect]:
        is_link_state = isinstance(message, LinkState)
        known = self.version_of(message.broker, is_link_state)
        if message.broker == self.node_id:
            return self.overrule(message, known)
        if message.version <= known:
            mine = self.link_state if is_link_state else self.predicates
            return [Send(sender, mine(message.broker))] if message.version < known else []
        if isinstance(message, LinkState):
            return self.learn_links(sender, message)
        return self.learn_predicates(sender, message)

    def version_of(self, broker: NodeId, is_link_state: bool) -> int:
        if is_link_state:
            return self.topology.versions.get(broker, -1)
        return self.rows[broker][0] if broker in self.rows else -1

    def overrule(self, message: LinkState | Predicates, known: int) -> list[Effect]:
        """An earlier life of ours told this; or it is our own word, come back."""
        is_link_state = isinstance(message, LinkState)
        mine = self.link_state if is_link_state else self.predicates
        if not known <= message.version < VERSION_MAX or message == mine(self.node_id):
            return []
        if is_link_state:
            self.topology.put(self.node_id, message.version + 1, tuple(self.neighbours))
        else:
            self.rows[self.node_id] = message.version + 1, self.rows[self.node_id][1]
        return self.flood(mine(self.node_id))

    def learn_links(self, sender: NodeId, message: LinkState) -> list[Effect]:
        if not self.has_room(message.broker, self.topology.lists):
            return [Drop(message, TOO_MANY_BROKERS)]
        self.topology.put(message.broker, message.version, message.neighbours)
        return self.flood(message, but=sender)

    def learn_predicates(self, sender: NodeId, message: Predicates) -> list[Effect]:
        profile = self.params.profile
        if (message.bits, message.hashes, message.seed) != (profile.bits, profile.hashes, profile.seed):
            return [Drop(message, OTHER_PROFILE)]
        try:
            rows = rows_from_bytes(message.rows, profile)
        except UsageError:
            return [Drop(message, BAD_ROWS)]
        if not self.has_room(message.broker, self.rows):
            return [Drop(message, TOO_MANY_BROKERS)]
        self.rows[message.broker] = message.version, rows
        return self.flood(message, but=sender)

    def has_room(self, broker: NodeId, table: dict[NodeId, Any]) -> bool:
        """Whether the table may hold this broker; one that cannot be reached may have to go."""
        if broker in table or len(table) < self.params.brokers_max:
            return True
        routes = self.topology.routes()
        gone = next((it for it in table if it not in routes and it != self.node_id), None)
        if gone is None:
            return False
        self.topology.forget(gone)
        self.rows.pop(gone, None)
        return True

    # What it is good for.

    def may_want(self, bits: int) -> tuple[NodeId, ...]:
        """The other brokers that can be reached and may want an event of these bits."""
        return tuple(
            broker
            for broker in self.topology.routes()
            if broker in self.rows and any(message_bits_match_filter_bits(bits, row) for row in self.rows[broker][1])
        )

    def check(self) -> None:
        most = self.params.brokers_max
        assert len(self.topology.lists) <= most, "more brokers are known than brokers_max allows"
        assert len(self.rows) <= most, "rows of more brokers than brokers_max allows"
        own = self.topology.lists[self.node_id]
        assert own == tuple(sorted(self.neighbours)), "our own links are told wrongly"
