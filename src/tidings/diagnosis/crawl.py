"""Ask all brokers of a network about themselves.

    network = await crawl(["127.0.0.1:7411"])

Every broker tells where its neighbours are; `crawl` goes from one to the next until nobody is left, and reports who did
not answer as well. What it finds is of about the same moment, not of exactly the same.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from tidings.diagnosis.network import Network, Reported, Unreached
from tidings.model.errors import UsageError
from tidings.net.inspector import Inspector, InspectorAccess, NotInspected
from tidings.pubsub.rows import (
    AdvertisementRow,
    BrokerRow,
    ClientRow,
    DestinationRow,
    LinkRow,
    PublisherRow,
    QueueRow,
    RouteRow,
    Row,
    SubscriptionRow,
    TransportRow,
)

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
