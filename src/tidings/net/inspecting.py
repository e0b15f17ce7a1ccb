"""Ask brokers about themselves, one or all of them.

    async with Inspector("127.0.0.1:7411") as inspector:
        links = await inspector.table("links", LinkRow)

    network = await crawl(["127.0.0.1:7411"])

Every broker tells where its neighbours are; `crawl` goes from one to the next until nobody is left, and reports who did
not answer as well. What it finds is of about the same moment, not of exactly the same.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from random import SystemRandom
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from tidings.machine.node import Node
from tidings.model.errors import UsageError
from tidings.model.identity import at
from tidings.net.addresses import parse_address
from tidings.net.errors import ClientError
from tidings.net.host import Host
from tidings.net.keys import principal_of_token
from tidings.net.params import HostParams
from tidings.net.tls import Tls
from tidings.protocols.access.guest import Guest
from tidings.protocols.access.judging import BEHIND_PRINCIPAL
from tidings.protocols.access.params import GuestParams
from tidings.protocols.inspection.asking import Answer, Ask, Asking
from tidings.protocols.inspection.inspection import NOT_PERMITTED
from tidings.protocols.inspection.network import Network, Reported, Unreached
from tidings.protocols.inspection.rows import (
    AdvertisementRow,
    BrokerRow,
    ClientRow,
    LinkRow,
    PublisherRow,
    QueueRow,
    RouteRow,
    Row,
    SubscriptionRow,
    TransportRow,
)
from tidings.pubsub.signals import PeerDown, PeerUp, TurnedAway

ANSWER_TIMEOUT = 10.0
"""Seconds for a broker to let us in, and then for each table."""

BROKERS_MAX = 10_000
"""Brokers that are visited in one crawl."""

PARALLEL_MAX = 16
"""Brokers that are asked at the same time."""

RowKind = TypeVar("RowKind", bound=Row)

TABLES: dict[str, type[Row]] = {
    "links": LinkRow,
    "clients": ClientRow,
    "subscriptions": SubscriptionRow,
    "advertisements": AdvertisementRow,
    "routes": RouteRow,
    "transport": TransportRow,
    "queues": QueueRow,
    "publishers": PublisherRow,
}
"""What `Reported` holds beside the broker's own row."""


class NotInspected(ClientError):
    """A broker did not answer; `is_refused` tells a closed door from nobody at home."""

    def __init__(self, address: str, reason: str, is_refused: bool) -> None:
        advice = "show a token with the role admin" if is_refused else "is it started? is the address right?"
        what = "does not let us look" if is_refused else "is not reachable"
        super().__init__(f"the broker at {address} {what}: {reason}; {advice}")
        self.address, self.reason, self.is_refused = address, reason, is_refused


class Access(msgspec.Struct, frozen=True):
    """How we come in."""

    token: bytes = b""
    sign: Callable[[bytes], bytes] | None = None
    """With the key to which the token is bound."""
    tls: Tls | None = None
    principal: str = ""
    """Whose certificate that is; our name begins with it."""
    insecure: bool = False


class Inspector:
    """One broker, to be asked for its tables. `broker` is its name, once it has let us in."""

    def __init__(self, address: str, access: Access | None = None, log: Any = None) -> None:
        access = access or Access()
        self.address, place = address, parse_address(address, "broker")
        peer = at(*place)
        # Whoever shows a token or a certificate is named after its principal.
        principal = principal_of_token(access.token) if access.token else access.principal or "inspector"
        name = f"{principal}{BEHIND_PRINCIPAL}{secrets.token_hex(4)}"
        guest = Guest(name, GuestParams(brokers=(peer,), credentials=access.token), SystemRandom(), access.sign)
        self.host = Host(
            name,
            Node({"access": guest, "asking": Asking()}),
            listen=None,
            peers={peer: place},
            params=HostParams(drain_timeout=1.0),
            tls=access.tls,
            insecure=access.insecure,
            log=log or quiet_logger(),
        )
        self.broker = ""

    async def __aenter__(self) -> Self:
        await self.host.start()
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                while not self.broker:
                    self.take(await self.host.items.get())
        except TimeoutError:
            await self.host.stop()
            raise NotInspected(self.address, f"no answer within {ANSWER_TIMEOUT:g} s", False) from None
        except BaseException:
            await self.host.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.host.stop()

    def take(self, item: Any) -> None:
        match item:
            case PeerUp(broker):
                self.broker = broker
            case TurnedAway(_, reason):
                raise NotInspected(self.address, reason, True)
            case PeerDown(_, _, reason):
                raise NotInspected(self.address, reason, False)

    async def table(self, table: str, kind: type[RowKind], argument: str = "") -> list[RowKind]:
        self.host.inject(Ask(self.broker, table, argument))
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                while not isinstance(item := await self.host.items.get(), Answer):
                    self.take(item)
        except TimeoutError:
            raise NotInspected(self.address, f"no answer within {ANSWER_TIMEOUT:g} s", False) from None
        if item.problem:
            raise NotInspected(self.address, item.problem, item.problem.startswith(NOT_PERMITTED))
        return [row for page in item.pages for row in msgspec.json.decode(page, type=list[kind])]  # type: ignore[valid-type]

    async def report(self, tables: Sequence[str] = tuple(TABLES)) -> Reported:
        (own,) = await self.table("broker", BrokerRow)
        found: dict[str, Any] = {name: tuple(await self.table(name, TABLES[name])) for name in tables}
        return Reported(broker=own, **found)


async def crawl(
    addresses: Sequence[str], access: Access | None = None, tables: Sequence[str] = tuple(TABLES), log: Any = None
) -> Network:
    """All brokers that can be reached from these. `tables` are fetched besides the links."""
    return await Crawl(access, tuple(dict.fromkeys(("links", *tables))), log).run(addresses)


class Crawl:
    def __init__(self, access: Access | None, tables: Sequence[str], log: Any) -> None:
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
                reported = await inspector.report(self.tables)
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


def quiet_logger() -> Any:
    """Whoever inspects hears of problems as errors, not as lines in a log."""
    import logging

    import structlog

    silent = structlog.make_filtering_bound_logger(logging.CRITICAL)
    return structlog.wrap_logger(structlog.ReturnLogger(), processors=[], wrapper_class=silent)
