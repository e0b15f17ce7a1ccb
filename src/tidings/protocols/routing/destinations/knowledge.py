"""What every broker knows of all brokers: their links and what their clients may want; and how news spreads.

Both are lists with a version that only their own broker raises. What is news is passed on to all other neighbours, so
it reaches everybody; what is older than what we know is answered with the newer, to the one who told it. A broker that
was started anew hears what it told in an earlier life, and raises its version above that. When there are more brokers
than `brokers_max`, one that cannot be reached is forgotten, and if all can be reached the new one is not learned.

*Links.* Who is linked to whom, as every broker tells everybody; and from that the next hop to each. Each broker's list
of neighbours has a version, which only that broker raises. A link counts when both of its ends list it: so the list of
a broker that has died, and that nobody takes back, leads nowhere. Routes are shortest by hops. When all know the same
links, every hop brings a message nearer to its destination, so none goes in circles.

*Wishes.* Who may want what: the filters of a broker's clients as Bloom rows, and the rows of all brokers.

A row stands for one conjunction of a filter (`matching/bloom.py`): a message whose bits include those of the row may
match. A row with fewer bits lets more through, so everything that is left out here, to keep to a bound, costs messages
that nobody wants and never one that somebody does:

- a row that includes all bits of another of the same broker is not needed beside it;
- a conjunction with so many tags that its row would be refused as too full is shortened to its first tags;
- a broker with more rows than `rows_max` has one empty row instead, and gets everything.
"""

from collections.abc import Iterable
from typing import Any

from tidings.machine.effects import Drop, Effect, Send
from tidings.matching.bloom import (
    FILL_MAX,
    BloomProfile,
    bits_of_tags,
    fill_of,
    filter_bits_cover,
    row_from_bytes,
    row_to_bytes,
    tags_of_filter,
)
from tidings.model.bounds import VERSION_MAX
from tidings.model.errors import UsageError
from tidings.model.filter import Filter
from tidings.model.identity import NodeId
from tidings.protocols.routing.destinations.messages import LinkState, Predicates
from tidings.protocols.routing.destinations.params import DestinationParams


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


Rows = tuple[int, ...]
EVERYTHING: Rows = (0,)


def rows_of(filters: Iterable[Filter], profile: BloomProfile, rows_max: int) -> Rows:
    """Ascending, so that equal sets of filters give equal rows."""
    rows = {row_of_tags(tags, profile) for filter in filters for tags in tags_of_filter(filter)}
    needed: list[int] = []
    for row in sorted(rows, key=lambda row: (row.bit_count(), row)):
        if not any(filter_bits_cover(wide, row) for wide in needed):
            needed.append(row)
            if len(needed) > rows_max:
                return EVERYTHING
    return tuple(sorted(needed))


def row_of_tags(tags: tuple[str, ...], profile: BloomProfile) -> int:
    row = 0
    for tag in tags:
        fuller = row | bits_of_tags((tag,), profile)
        if fill_of(fuller, profile) > FILL_MAX:
            break
        row = fuller
    return row


def rows_to_bytes(rows: Rows, profile: BloomProfile) -> bytes:
    return b"".join(row_to_bytes(row, profile) for row in rows)


def rows_from_bytes(data: bytes, profile: BloomProfile) -> Rows:
    """UsageError where the bytes are no rows of this profile."""
    size = profile.size_bytes
    return tuple(row_from_bytes(data[place : place + size], profile) for place in range(0, len(data), size))


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
        # `message_bits_match_filter_bits` of every row, in place: each event is held against the rows of all brokers.
        missing, found = ~bits, []
        for broker in self.topology.routes():
            for row in self.rows[broker][1] if broker in self.rows else ():
                if not row & missing:
                    found.append(broker)
                    break
        return tuple(found)

    def check(self) -> None:
        most = self.params.brokers_max
        assert len(self.topology.lists) <= most, "more brokers are known than brokers_max allows"
        assert len(self.rows) <= most, "rows of more brokers than brokers_max allows"
        own = self.topology.lists[self.node_id]
        assert own == tuple(sorted(self.neighbours)), "our own links are told wrongly"
