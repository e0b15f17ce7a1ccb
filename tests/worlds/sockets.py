"""What tests on real sockets share: puppets on hosts, and a peer made of bare bytes.

Nothing here sleeps to let time pass: tests wait for something to happen, and a time-out ends those that wait in vain.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
import structlog

from tests.worlds.puppets import Do, Puppet
from tidings.machine.effects import Effect
from tidings.net import Address, Host, HostParams
from tidings.wire import FrameReader, decode, encode, frame
from tidings.wire.handshake import Goodbye, Heartbeat, Hello

WAIT_MAX = 300.0
"""Seconds after which a test that waits has failed; far above what anything here takes on the slowest machine."""

POLL_PERIOD = 0.002

PATIENT = HostParams(
    connect_timeout=WAIT_MAX,
    handshake_timeout=WAIT_MAX,
    backoff_first=0.01,
    backoff_max=0.1,
    heartbeat_period=0.1,
    silence_max=WAIT_MAX,
    drain_timeout=WAIT_MAX,
)
"""Nothing times out, however slow the machine is. A test in which something does says so with `patient`."""


def patient(**spans_and_bounds: Any) -> HostParams:
    """As `PATIENT`, but for these."""
    return msgspec.structs.replace(PATIENT, **spans_and_bounds)


QUIET = structlog.wrap_logger(
    structlog.ReturnLogger(), processors=[], wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL)
)

Result = TypeVar("Result")


def play(scenario: Coroutine[Any, Any, Result]) -> Result:
    """Run a scenario to its end, or fail it when it takes too long."""

    async def bounded() -> Result:
        async with asyncio.timeout(WAIT_MAX):
            return await scenario

    return asyncio.run(bounded())


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(POLL_PERIOD)


def puppet_host(name: str, *first: Effect, clings: bool = False, params: HostParams = PATIENT, **more: Any) -> Host:
    return Host(name, Puppet(*first, delivers=True, clings=clings), params=params, log=QUIET, **more)


def order(host: Host, *effects: Effect) -> None:
    host.inject(Do(effects))


async def heard(host: Host, kind: type[Result], **fields: Any) -> Result:
    """The next input of this kind, with these fields, that the host's puppet got; others are passed over."""
    while True:
        item = await host.items.get()
        if isinstance(item, kind) and all(getattr(item, name) == value for name, value in fields.items()):
            return item


async def acquaint(*hosts: Host) -> None:
    """Tell every host where all others are."""
    for host in hosts:
        for other in hosts:
            if other is not host:
                await host.learn(other.node_id, other.address)


class BarePeer:
    """A connection to a host on which a test says whatever it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.frames = FrameReader()
        self.messages: list[Any] = []

    @classmethod
    async def call(cls, address: Address) -> "BarePeer":
        return cls(*await asyncio.open_connection(*address))

    @classmethod
    async def introduced(cls, address: Address, name: str, epoch: int = 1, link: bool = True) -> "BarePeer":
        """With both Hellos exchanged. If `name` is larger than that of the host, it is the host that decides."""
        peer = await cls.call(address)
        peer.say(Hello(name, capabilities=("link",) if link else (), epoch=epoch))
        assert isinstance(await peer.hear(), Hello)
        return peer

    def say(self, message: Any) -> None:
        self.writer.write(frame(encode(message)))

    async def hear(self, *kinds: type) -> Any:
        """The next message, of one of these kinds if any are named."""
        while True:
            while self.messages:
                message = self.messages.pop(0)
                if not kinds or isinstance(message, kinds):
                    return message
            data = await self.reader.read(65536)
            assert data, "the host closed the connection"
            self.messages += [decode(body) for body in self.frames.feed(data)]

    async def goodbye(self) -> str:
        """The reason with which the host ends this connection; it is closed after that."""
        reason: str = (await self.hear(Goodbye)).reason
        while await self.reader.read(65536):
            pass
        await self.close()
        return reason

    async def accepted(self) -> None:
        await self.hear(Heartbeat)

    async def close(self) -> None:
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()
