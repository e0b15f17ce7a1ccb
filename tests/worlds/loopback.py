"""What tests of the client share: brokers on loopback, and a relay that cuts connections at named messages.

Nothing sleeps to let time pass: tests wait for something to happen, and a time-out ends those that wait in vain.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from pathlib import Path
from random import SystemRandom
from typing import Any, Literal

import msgspec
import pytest

import tidings
from tests.worlds.sockets import PATIENT, QUIET, WAIT_MAX
from tidings import NotReachable
from tidings.model.identity import at
from tidings.net import Address, Host, Tls
from tidings.net.client.connection import Connecting
from tidings.nodes.broker import BrokerNode, BrokerParams
from tidings.protocols.access.judge import Judge, open_judge
from tidings.protocols.access.params import AccessParams
from tidings.protocols.coordination.params import CoordinationParams
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.overlay.scripted import ScriptedParams
from tidings.protocols.overlay.spanning_tree import SpanningTreeParams
from tidings.protocols.routing.params import RoutingParams
from tidings.wire import FrameReader, decode, frame

ANYWHERE: Address = ("127.0.0.1", 0)


def connect(url: str, **options: Any) -> Connecting:
    """As the client of an application, with all the time it needs unless `timeout` says otherwise."""
    return tidings.connect(url, **{"timeout": WAIT_MAX, **options})


async def refusal(url: str, words: str, **options: Any) -> NotReachable:
    """What a client says when it gives up, with these words: one that had too little time to hear of the reason tries
    again, for longer."""
    timeout = 0.1
    while True:
        with pytest.raises(NotReachable) as problem:
            await connect(url, timeout=timeout, **options)
        if words in str(problem.value):
            return problem.value
        timeout *= 2


class Broker(Host):
    """A broker on loopback; `node` can be looked at. The fast engine is compiled when it is first used, and answers
    nobody meanwhile, so whoever wants it prepares it before."""

    def __init__(
        self,
        name: str = "broker",
        links: Iterable[Address] = (),
        listen: Address = ANYWHERE,
        storage: Path | None = None,
        judge: Judge = open_judge,
        tls: Tls | None = None,
        engine: Literal["fast", "plain"] = "plain",
        is_steered: bool = False,
        **delivery: Any,
    ) -> None:
        offset = time.time() - time.monotonic()
        peers = {at(*address): address for address in links}
        params = BrokerParams(
            access=AccessParams(links=tuple(peers), clock_offset=offset, retry_max=0.2, attach_timeout=WAIT_MAX),
            overlay=ScriptedParams(takes_configured=True, is_durable=storage is not None)
            if is_steered
            else SpanningTreeParams(),
            routing=RoutingParams(engine=engine, ack_timeout=WAIT_MAX, repair="shift" if is_steered else "resuming"),
            coordination=CoordinationParams(is_durable=storage is not None),
            delivery=EdgeParams(
                clock_offset=offset, is_durable=storage is not None, **{"reading_timeout": WAIT_MAX, **delivery}
            ),
        )
        # Whoever is steered has to be found by others.
        said = (lambda: "{}:{}".format(*self.address)) if is_steered else (lambda: "")
        self.node = BrokerNode(name, params, SystemRandom(), judge, address=said)
        super().__init__(
            name, self.node, listen=listen, peers=peers, params=PATIENT, storage=storage, tls=tls, log=QUIET
        )

    @property
    def url(self) -> str:
        return url_of(self.address)

    async def crash(self) -> None:
        """End without a word to anybody."""
        self.fail(RuntimeError("crashed by a test"))
        await self.stop()


def url_of(*addresses: Address) -> str:
    return "tidings://" + ",".join(f"{host}:{port}" for host, port in addresses)


class Cut(msgspec.Struct, frozen=True):
    """Where a connection is to break: at the n-th message of a kind that goes one way, before or after it passes."""

    way: Literal["to broker", "to client"]
    message: type
    when: Literal["before", "after"] = "before"
    nth: int = 1
    kind: str = ""
    """Of answers: what they answer."""

    def __str__(self) -> str:
        name = self.message.__name__
        what = f"{name}({self.kind})" if self.kind else name
        return f"{self.when} {what} {self.nth} {self.way}"


class Relay:
    """Passes frames on between clients and a broker, and breaks the connection where `cut` says, once."""

    def __init__(self, broker: Callable[[], Address], cut: Cut | None = None) -> None:
        self.broker, self.cut = broker, cut
        self.on_cut: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.has_cut = asyncio.Event()
        self.seen = 0
        self.tasks: set[asyncio.Task[None]] = set()
        self.writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> "Relay":
        self.server = await asyncio.start_server(self.serve, *ANYWHERE)
        self.address: Address = self.server.sockets[0].getsockname()[:2]
        return self

    async def __aexit__(self, *problem: Any) -> None:
        self.server.close()
        for task in list(self.tasks):
            task.cancel()
        for writer in self.writers:
            writer.transport.abort()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            there_reader, there_writer = await asyncio.open_connection(*self.broker())
        except OSError:
            writer.transport.abort()
            return
        self.writers.append(there_writer)
        for way, source, target in (
            ("to broker", reader, there_writer),
            ("to client", there_reader, writer),
        ):
            task = asyncio.create_task(self.pump(way, source, target, (writer, there_writer)))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def pump(self, way: str, source: asyncio.StreamReader, target: asyncio.StreamWriter, both: Any) -> None:
        frames = FrameReader()
        with suppress(OSError):
            while data := await source.read(65536):
                for body in frames.feed(data):
                    is_here = self.is_here(way, body)
                    if is_here and self.cut is not None and self.cut.when == "before":
                        await self.break_off(both)
                        return
                    target.write(frame(self.passed(way, body)))
                    if is_here:
                        # With its end, so that what was passed on arrives before the break is seen.
                        target.close()
                        await target.wait_closed()
                        await self.break_off(both)
                        return
                await target.drain()
        for writer in both:
            writer.close()

    def passed(self, way: str, body: bytes) -> bytes:
        """What becomes of a frame on its way."""
        return body

    def is_here(self, way: str, body: bytes) -> bool:
        cut = self.cut
        if cut is None or self.has_cut.is_set() or way != cut.way:
            return False
        message = decode(body)
        if type(message) is not cut.message or (cut.kind and message.kind != cut.kind):
            return False
        self.seen += 1
        return self.seen == cut.nth

    def break_all(self) -> None:
        """Break every connection, whatever is on its way."""
        for writer in self.writers:
            writer.transport.abort()
        self.writers.clear()

    async def break_off(self, both: Iterable[asyncio.StreamWriter]) -> None:
        self.has_cut.set()
        for writer in both:
            writer.transport.abort()
        if self.on_cut is not None:
            await self.on_cut()
