"""What many brokers report, as one network.

`Reported` holds the tables of one broker; `Network` those of all that answered, and who did not. Everything here is
pure: how the tables were fetched does not matter, so the same questions can be asked of a simulated network.

Events travel over *neighbours*, the links that the overlay chose. Where brokers route with tables these form a tree.
Taking one link out of a tree cuts it in two sides, and nearly every question about tables is one about the sides of a
link. Where brokers route by destination (`DESTINATIONS`) any links will do.
"""

from collections import deque
from collections.abc import Iterator
from functools import cached_property

import msgspec

from tidings.model.filter import Filter
from tidings.model.language.parser import parse
from tidings.pubsub.rows import (
    AdvertisementRow,
    BrokerRow,
    ClientRow,
    DestinationRow,
    LinkRow,
    PublisherRow,
    QueueRow,
    RouteRow,
    SubscriptionRow,
    TransportRow,
)

DESTINATIONS = "destinations"
"""The kind of routing that has no tables along the way: every broker knows all others."""


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    """The tables of one broker."""

    broker: BrokerRow
    links: tuple[LinkRow, ...] = ()
    clients: tuple[ClientRow, ...] = ()
    subscriptions: tuple[SubscriptionRow, ...] = ()
    advertisements: tuple[AdvertisementRow, ...] = ()
    routes: tuple[RouteRow, ...] = ()
    destinations: tuple[DestinationRow, ...] = ()
    transport: tuple[TransportRow, ...] = ()
    queues: tuple[QueueRow, ...] = ()
    publishers: tuple[PublisherRow, ...] = ()


class Unreached(msgspec.Struct, frozen=True):
    """A broker that should be there and did not answer."""

    address: str
    problem: str
    broker: str = ""
    told_by: str = ""
    """The broker that named the address; empty if it was ours."""
    is_refused: bool = False
    """Whether it answered, and did not let us look."""


class Network:
    """`brokers` by name, in the order in which they were found."""

    def __init__(self, reported: list[Reported], unreached: list[Unreached] | None = None) -> None:
        self.brokers = {each.broker.broker: each for each in reported}
        self.unreached = list(unreached or ())
        self.parsed: dict[str, Filter] = {}
        self.covered: dict[tuple[str, str], bool] = {}
        self.overlapped: dict[tuple[str, str], bool] = {}

    def filter(self, text: str) -> Filter:
        """Many brokers report the same filters."""
        if text not in self.parsed:
            self.parsed[text] = parse(text)
        return self.parsed[text]

    def covers(self, wide: str, narrow: str) -> bool:
        """The same pairs of filters meet at every link of the network; each is compared once."""
        pair = wide, narrow
        if pair not in self.covered:
            self.covered[pair] = wide == narrow or self.filter(wide).covers(self.filter(narrow))
        return self.covered[pair]

    def overlaps(self, one: str, other: str) -> bool:
        pair = one, other
        if pair not in self.overlapped:
            self.overlapped[pair] = self.filter(one).overlaps(self.filter(other))
        return self.overlapped[pair]

    @cached_property
    def neighbours(self) -> dict[str, tuple[str, ...]]:
        """The tree: for each broker the reported brokers that it routes to, where both ends say so."""
        said = {
            name: {link.broker for link in each.links if link.is_neighbour and link.is_up}
            for name, each in self.brokers.items()
        }
        return {
            name: tuple(other for other in self.brokers if other in others and name in said[other])
            for name, others in said.items()
        }

    def links(self) -> Iterator[tuple[str, str]]:
        """Every link of the tree, once in each direction."""
        for name, others in self.neighbours.items():
            for other in others:
                yield name, other

    def side(self, near: str, far: str = "") -> tuple[str, ...]:
        """The brokers on the near side of the link to `far`; all that can be reached if none is given."""
        found = {near: None}
        waiting = deque([near])
        while waiting:
            name = waiting.popleft()
            for other in self.neighbours[name]:
                if other not in found and (name, other) != (near, far):
                    found[other] = None
                    waiting.append(other)
        return tuple(found)

    def parts(self) -> list[tuple[str, ...]]:
        """The brokers that can reach each other; one part if the network is whole."""
        found: list[tuple[str, ...]] = []
        for name in self.brokers:
            if not any(name in part for part in found):
                found.append(self.side(name))
        return found

    def is_tree(self, part: tuple[str, ...]) -> bool:
        return sum(len(self.neighbours[name]) for name in part) == 2 * (len(part) - 1)

    def way(self, begin: str, end: str) -> tuple[str, ...]:
        """The brokers from one to the other, both included; empty if there is no way."""
        before = {begin: ""}
        waiting = deque([begin])
        while waiting and end not in before:
            name = waiting.popleft()
            for other in self.neighbours[name]:
                if other not in before:
                    before[other] = name
                    waiting.append(other)
        if end not in before:
            return ()
        way = [end]
        while way[-1] != begin:
            way.append(before[way[-1]])
        return tuple(reversed(way))

    def destinations(self, broker: str) -> dict[str, DestinationRow]:
        return {row.broker: row for row in self.brokers[broker].destinations}

    def told_to(self, near: str, far: str) -> tuple[str, ...]:
        """The filters that `near` says it told `far`."""
        return tuple(row.filter for row in self.brokers[near].routes if row.is_ours and row.neighbour == far)

    def heard_from(self, near: str, far: str) -> tuple[str, ...]:
        """The filters that `near` says it has from `far`."""
        return tuple(row.filter for row in self.brokers[near].routes if not row.is_ours and row.neighbour == far)
