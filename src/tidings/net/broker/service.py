"""A broker as a service: its node on a host, with storage, metrics and a place for watchers, from one configuration.

    async with BrokerService(load_config(None, {"listen": "127.0.0.1:0"})) as service:
        print(service.address)
        await service.wait()

Inside `async with` it is ready: it has read its store, and every configured link is either up with all tables told, or
was tried in vain once (it is tried again for ever). Leaving it is graceful: nobody new is served, what was begun is
finished within `drain_timeout`, everybody hears goodbye.

Who may come in follows from the configuration. With authorities, whoever shows a token that one of them signed; with
principals and TLS, whoever the list names, since the certificate proves the name; with neither, everybody. The lists
are read again when they change (`rights.py`), and whoever comes in or is refused is written down (`audit.py`).
"""

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import SystemRandom
from types import TracebackType
from typing import Any, Self

import msgspec

from tidings import __version__
from tidings.matching.index.index import prepare
from tidings.model.errors import UsageError
from tidings.model.identity import at
from tidings.net.addresses import address_text
from tidings.net.audit import Audit, make_audit_logger
from tidings.net.broker.capacity import measure_capacity
from tidings.net.broker.config import Config, plain
from tidings.net.broker.forecast import LOOK_PERIOD as FORECAST_PERIOD
from tidings.net.broker.forecast import ForecastFile
from tidings.net.broker.health import HealthServer
from tidings.net.broker.rights import LOOK_PERIOD, Rights
from tidings.net.host import Host
from tidings.net.keys import read_token_file, signature_check, signer
from tidings.net.logs import make_logger
from tidings.net.metrics import make_registry
from tidings.net.timers import clock_offset
from tidings.net.tls import Address, check_bearer
from tidings.nodes.broker import BrokerNode, BrokerParams
from tidings.protocols.access.access import Rejudge
from tidings.protocols.access.judge import Role, Verdict, open_judge
from tidings.protocols.delivery.edge.edge import Close, EdgeClosed
from tidings.protocols.overlay.dhtree.dhtree import DhTreeParams
from tidings.protocols.overlay.lstree.params import LsTreeParams
from tidings.protocols.routing.params import RoutingParams
from tidings.pubsub.requests import CapacityMeasured, RatesForeseen
from tidings.pubsub.rows import BrokerRow, CounterRow, Gauge, SettingRow
from tidings.trace.writers import open_writer


class BrokerCollector:
    """For a registry of prometheus_client; numbers are read when somebody asks."""

    def __init__(
        self, node: BrokerNode, config: Config, why_not_ready: Callable[[], str], rights: Rights | None = None
    ) -> None:
        self.node, self.config, self.why_not_ready, self.rights = node, config, why_not_ready, rights

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily

        families: dict[str, GaugeMetricFamily] = {}
        for gauge in self.gauges():
            family = families.get(gauge.name)
            if family is None:
                labels = ["node", *gauge.labels]
                family = families[gauge.name] = GaugeMetricFamily(f"tidings_{gauge.name}", gauge.meaning, labels=labels)
            family.add_metric([self.node.node_id, *gauge.labels.values()], gauge.value)
        yield from families.values()

    def gauges(self) -> Iterator[Gauge]:
        yield Gauge("ready", "1 if the broker may be sent traffic", not self.why_not_ready())
        yield from self.node.gauges()
        if self.rights is not None:
            yield from self.rights.gauges()
        for setting in self.config.show():
            if isinstance(setting.value, int | float) and not isinstance(setting.value, bool):
                yield Gauge("setting", "bounds and time-outs, in seconds", setting.value, {"name": setting.name})


def counter_rows(registry: Any) -> Iterator[CounterRow]:
    """Everything that a registry shows, for inspection."""
    for family in registry.collect():
        for sample in family.samples:
            yield CounterRow(name=sample.name, labels=dict(sample.labels), value=float(sample.value))


READY_TIMEOUT = 10.0
"""Seconds after which a broker serves although a link is up whose tables are not told: better than never."""

READY_LOOK_PERIOD = 0.01
"""Seconds between two looks at whether it is ready."""


class BrokerService:
    """`address` is where it listens, `http_address` where it is watched, once it has started."""

    def __init__(self, config: Config, log: Any = None) -> None:
        config.check_asking()
        self.config, self.tls = config, config.tls
        settings = config.settings
        peers = {at(*address): address for address in (*config.links, *config.join)}
        contacts = tuple(at(*address) for address in config.join)
        offset = clock_offset() + settings.clock_shift
        is_durable = settings.data is not None
        overlay = config.build("overlay", clock_offset=offset, contacts=contacts, is_durable=is_durable)
        params = BrokerParams(
            access=config.build(
                "access",
                # An overlay that has no use for contacts is linked with them.
                links=tuple(peers) if not hasattr(overlay, "contacts") else tuple(at(*each) for each in config.links),
                credentials=read_token_file(settings.token) if settings.token else b"",
                clock_offset=offset,
            ),
            overlay=overlay,
            routing=config.build("routing"),
            delivery=config.build("delivery", clock_offset=offset, is_durable=is_durable),
            inspection=config.build("inspection"),
            groups=config.build("groups"),
            # Who finds other links by himself gains by knowing soon that one is dead.
            failover=config.build("failover"),
            coordination=config.build("coordination", is_durable=is_durable),
            presence=config.build("presence") if isinstance(overlay, LsTreeParams | DhTreeParams) else None,
        )
        for address in (config.listen, *config.links, *config.join, *config.hears.values()):
            check_bearer(address, self.tls, params.access.credentials, is_bound=settings.token_key is not None)
        self.rights = None if config.is_open else Rights(config, self.tls is not None)
        self.watching: asyncio.Task[None] | None = None
        self.foreseeing: asyncio.Task[None] | None = None
        self.one_at_a_time = asyncio.Lock()
        self.node = BrokerNode(
            config.name,
            params,
            SystemRandom(),
            judge=self.rights or (open_judge if config.is_local else everybody),
            signatures=signature_check,
            sign=signer(settings.token_key) if settings.token_key else None,
            address=lambda: config.public_for(self.address),
            own=self.describe,
            views={"counters": lambda _: counter_rows(self.registry), "settings": lambda _: setting_rows(config)},
        )
        self.trace = open_writer(settings.trace) if settings.trace is not None else None
        audit_log = (
            make_audit_logger(config.name, settings.log, settings.audit) if log is None or settings.audit else log
        )
        self.audit = Audit(audit_log, lambda node: self.host.address_of(node), time.monotonic)
        self.host = Host(
            config.name,
            self.node,
            listen=config.listen,
            peers={**peers, **config.hears},
            params=config.build("host"),
            tls=self.tls,
            insecure=settings.insecure,
            storage=config.storage,
            trace=self.trace,
            log=log or make_logger(config.name, settings.log),
            observers=self.audit.performers,
        )
        self.registry = make_registry(self.host)
        self.registry.register(BrokerCollector(self.node, config, self.why_not_ready, self.rights))
        self.health: HealthServer | None = None
        if config.http is not None:
            self.health = HealthServer(
                config.http,
                self.registry,
                why_not_healthy=self.why_not_healthy,
                why_not_ready=self.why_not_ready,
                insecure=settings.insecure,
            )

    # Beginning and end.

    async def start(self) -> None:
        self.host.log.info("preparing the index; the first time on a machine it is compiled, which takes a while")
        await asyncio.to_thread(prepare, self.config.build("routing").engine)
        places = self.host.params.streams_max + self.host.params.strangers_max
        if problem := allow_descriptors(places + DESCRIPTORS_KEPT):
            self.host.log.warning("fewer connections than streams_max can be open", problem=problem)
        self.config.keep_overlay()
        try:
            await self.host.start()
            await self.measure()
            if self.health is not None:
                await self.health.start()
            async with asyncio.timeout(READY_TIMEOUT):
                while self.why_not_ready() and self.host.is_running:
                    await asyncio.sleep(READY_LOOK_PERIOD)
        except TimeoutError:
            self.host.log.warning("serving although not ready", reason=self.why_not_ready())
        except BaseException:
            await self.leave()
            raise
        if self.rights is not None:
            self.watching = asyncio.get_running_loop().create_task(self.watch_rights(self.rights))
        routing = self.config.build("routing")
        if isinstance(routing, RoutingParams) and routing.popularity != "off" and routing.forecast:
            file = ForecastFile(Path(routing.forecast), routing.forecast_interval)
            self.foreseeing = asyncio.get_running_loop().create_task(self.foresee(file))

    async def foresee(self, file: ForecastFile) -> None:
        """Tell routing by popularity what is expected of each interval."""
        while self.host.is_running:
            if file.has_changed():
                try:
                    await asyncio.to_thread(file.read)
                    self.host.log.info("read what is forecast", intervals=len(file.rates))
                except UsageError as problem:
                    self.host.log.error("what was forecast before holds", problem=str(problem))
            rates = file.due(time.time() + self.config.settings.clock_shift)
            if rates is not None and self.host.is_running:
                self.host.inject(RatesForeseen(rates))
            await asyncio.sleep(FORECAST_PERIOD)

    async def measure(self) -> None:
        """Routing by popularity has to know how much this broker can forward."""
        routing = self.config.build("routing")
        if isinstance(routing, RoutingParams) and routing.popularity != "off" and routing.capacity is None:
            units = await asyncio.to_thread(measure_capacity)
            self.host.log.info("measured how much this broker can forward", publications_per_second=round(units))
            self.host.inject(CapacityMeasured(units))

    async def stop(self) -> None:
        """Finish what was begun, then leave."""
        try:
            if self.host.is_running:
                async with asyncio.timeout(self.host.params.drain_timeout):
                    self.host.inject(Close())
                    while not isinstance(await self.host.items.get(), EdgeClosed):
                        pass
        except TimeoutError:
            self.host.log.warning("requests were still under way when we left")
        finally:
            await self.leave()

    async def leave(self) -> None:
        for task in (self.watching, self.foreseeing):
            if task is not None:
                task.cancel()
        await self.host.stop()
        if self.health is not None:
            await self.health.stop()
        if self.trace is not None:
            self.trace.close()

    async def wait(self) -> None:
        """Return when it has stopped; raise what made it fail."""
        await self.host.wait()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.stop()
        if self.host.failure is not None and error is None:
            raise self.host.failure

    # Rights that change.

    async def watch_rights(self, rights: Rights) -> None:
        while self.host.is_running:
            if rights.has_changed():
                await self.reload_rights()
            await asyncio.sleep(LOOK_PERIOD)

    async def reload_rights(self) -> None:
        """Read who may do what again, and judge everybody who is in by it."""
        if self.rights is None:
            self.host.log.info("rights are not read again: this broker asks nobody who he is")
            return
        async with self.one_at_a_time:
            reading = await asyncio.to_thread(self.rights.read)
            revoked = [] if reading is None else self.rights.take(reading)
        if reading is None:
            self.host.log.error("rights are as before: a file cannot be used", problem=self.rights.problem)
            self.audit.write("error", "rights not read", reason=self.rights.problem)
            return
        listed = None if reading.principals is None else len(reading.principals)
        tenants = len(reading.tenants.by_name)
        self.audit.write("info", "rights read", principals=listed, tenants=tenants, revoked=len(reading.revoked))
        for each in revoked:
            self.audit.write("info", "token revoked", principal=each.principal, token=each.id)
        if self.host.is_running:
            self.host.inject(Rejudge())

    # What it says of itself.

    @property
    def address(self) -> Address:
        return self.host.address

    @property
    def http_address(self) -> Address | None:
        return self.health.address if self.health is not None else None

    def why_not_healthy(self) -> str:
        if self.host.failure is not None:
            return f"the broker failed: {type(self.host.failure).__name__}"
        return "" if self.host.is_running else "the broker does not run"

    def why_not_ready(self) -> str:
        return self.node.why_not_ready() or self.why_not_healthy()

    def describe(self, row: BrokerRow) -> BrokerRow:
        return msgspec.structs.replace(
            row,
            version=__version__,
            listen=self.config.public_for(self.address),
            http=address_text(self.http_address) if self.http_address else "",
            not_ready=self.why_not_ready(),
        )


DESCRIPTORS_KEPT = 64
"""Open files besides connections: storage, health, logs, what Python opens."""


def allow_descriptors(count: int) -> str:
    """Ask the operating system for so many open files; why that many are not possible, if they are not."""
    if sys.platform == "win32":
        return ""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most < count:
        return (
            f"{hard} open files are allowed and {count} are wanted; raise the limit (ulimit -n), or lower streams_max"
        )
    return ""


def everybody(peer: str, role: Role, credentials: bytes, now: float) -> Verdict | str:
    """As the open judge; but who comes from elsewhere is not shown the tables of the broker for that."""
    return Verdict(peer)


def setting_rows(config: Config) -> Iterator[SettingRow]:
    for each in config.show():
        yield SettingRow(name=each.name, value=str(plain(each.value)), origin=each.origin)
