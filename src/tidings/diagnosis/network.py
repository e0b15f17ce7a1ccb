"""What many brokers report, as one network.

`Reported` holds the tables of one broker; `Network` those of all that answered, and who did not. All questions are pure
functions: how the tables were fetched does not matter, so the same questions can be asked of a simulated network.

Events travel over *neighbours*, the links that the overlay chose. Where brokers route with tables these form a tree.
Taking one link out of a tree cuts it in two sides, and nearly every question about tables is one about the sides of a
link. Where brokers route by destination (`DESTINATIONS`) any links will do.

All brokers of a network are asked about themselves by

    network = await crawl(["127.0.0.1:7411"])

Every broker tells where its neighbours are; `crawl` goes from one to the next until nobody is left, and reports who did
not answer as well. What it finds is of about the same moment, not of exactly the same.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import msgspec

from tidings.model.errors import UsageError
from tidings.model.filter import Filter
from tidings.model.language.parser import parse
from tidings.net.inspector import Inspector, InspectorAccess, NotInspected
from tidings.pubsub.rows import (
    AdvertisementRow,
    BrokerRow,
    ClientRow,
    DestinationRow,
    LinkRow,
    PopularityRow,
    PublisherRow,
    QueueRow,
    RouteRow,
    Row,
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
    streams: tuple[PopularityRow, ...] = ()


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

    @property
    def departed(self) -> list[Unreached]:
        """Those whom nobody configured and nobody is linked with any more, which found their place by themselves: the
        others do without them, and who left is no fault."""
        rows = [link for each in self.brokers.values() for link in each.links if link.is_configured or link.is_up]
        held = {name for link in rows for name in (link.broker, link.address) if name}
        free = {name for name, each in self.brokers.items() if each.broker.colour}
        return [
            each
            for each in self.unreached
            if each.told_by in free and not each.is_refused and not {each.broker, each.address} & held
        ]

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


BROKERS_MAX = 10_000
"""Brokers that are visited in one crawl."""

PARALLEL_MAX = 16
"""Brokers that are asked at the same time."""

TABLES: dict[str, type[Row]] = {
    "links": LinkRow,
    "clients": ClientRow,
    "subscriptions": SubscriptionRow,
    "advertisements": AdvertisementRow,
    "routes": RouteRow,
    "destinations": DestinationRow,
    "transport": TransportRow,
    "queues": QueueRow,
    "publishers": PublisherRow,
    "streams": PopularityRow,
}
"""What `Reported` holds beside the broker's own row."""


async def crawl(
    addresses: Sequence[str],
    access: InspectorAccess | None = None,
    tables: Sequence[str] = tuple(TABLES),
    log: Any = None,
) -> Network:
    """All brokers that can be reached from these. `tables` are fetched besides the links."""
    return await Crawl(access, tuple(dict.fromkeys(("links", *tables))), log).run(addresses)


class Crawl:
    def __init__(self, access: InspectorAccess | None, tables: Sequence[str], log: Any) -> None:
        self.access, self.tables, self.log = access, tables, log
        self.reported: dict[str, Reported] = {}
        self.unreached: list[Unreached] = []
        self.tried: set[str] = set()

    async def run(self, addresses: Sequence[str]) -> Network:
        waiting = [(address, "", "") for address in dict.fromkeys(addresses)]
        while waiting and len(self.tried) < BROKERS_MAX:
            now, waiting = waiting[:PARALLEL_MAX], waiting[PARALLEL_MAX:]
            self.tried.update(address for address, _, _ in now)
            for found in await asyncio.gather(*(self.visit(*each) for each in now)):
                queued = {address for address, _, _ in waiting}
                waiting += [each for each in self.beyond(found) if each[0] not in queued]
        # By name, so that two looks at the same network are told in the same words.
        reported = [self.reported[name] for name in sorted(self.reported)]
        return Network(reported, sorted(self.unreached, key=lambda each: each.address))

    async def visit(self, address: str, broker: str, told_by: str) -> Reported | None:
        if broker in self.reported:
            return None
        try:
            async with Inspector(address, self.access, self.log) as inspector:
                reported = await report(inspector, self.tables)
        except NotInspected as problem:
            self.unreached.append(Unreached(address, problem.reason, broker, told_by, problem.is_refused))
            return None
        except UsageError as problem:
            # An address that a broker told us, and that we cannot or may not call.
            if not told_by:
                raise
            self.unreached.append(Unreached(address, str(problem), broker, told_by))
            return None
        if reported.broker.broker in self.reported:
            return None
        self.reported[reported.broker.broker] = reported
        self.tried.add(reported.broker.listen)
        return reported

    def beyond(self, reported: Reported | None) -> list[tuple[str, str, str]]:
        """Whom this broker knows and we have not tried."""
        if reported is None:
            return []
        name = reported.broker.broker
        return [
            (link.address, link.broker, name)
            for link in reported.links
            if link.address and link.address not in self.tried and link.broker not in self.reported
        ]


async def report(inspector: Inspector, tables: Sequence[str]) -> Reported:
    (own,) = await inspector.table("broker", BrokerRow)
    found: dict[str, Any] = {name: tuple(await inspector.table(name, TABLES[name])) for name in tables}
    return Reported(broker=own, **found)
