"""The transport over NATS: order, recovery and pace for what core NATS carries as well as it can.

    async with connect_over_nats("nats://localhost", network="lab", reliable=True) as client:
        ...

One subject, `tidings.NETWORK`, carries everything of a network. Core NATS keeps nothing: what a server or a connection
cannot take in time is gone, and after a reconnection what was sent meanwhile is. That is what the transport is for.
Needs the package nats-py: pip install 'tidings[nats]'.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidings.net.carriers.client import CarrierClient
from tidings.net.carriers.runner import check_name
from tidings.net.client.transport import Ordered
from tidings.net.errors import HostError, NotReachable
from tidings.protocols.transport.params import TransportParams

if TYPE_CHECKING:
    from nats.aio.client import Client as Connection

CONNECT_TIMEOUT = 5.0
"""Seconds in which a server must have answered."""
RECONNECT_WAIT = 0.5
"""Seconds between two attempts to reach a server."""


class NatsNetwork:
    """`NatsNetwork("nats://localhost:4222", "lab")`; several servers are separated by commas."""

    def __init__(self, url: str, network: str) -> None:
        check_name(network)
        self.servers, self.subject = url.split(","), f"tidings.{network}"
        self.connection: Connection

    async def open(self, arrived: Callable[[bytes], None]) -> None:
        try:
            import nats
            from nats.errors import Error
        except ModuleNotFoundError:
            raise HostError("NATS is spoken with nats-py; install it with: pip install 'tidings[nats]'") from None

        async def bring(message: Any) -> None:
            arrived(message.data)

        async def ignore(error: Exception) -> None:
            """Messages that a slow connection lost are found missing by the transport."""

        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                self.connection = await nats.connect(
                    servers=self.servers,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=RECONNECT_WAIT,
                    error_cb=ignore,
                )
                await self.connection.subscribe(self.subject, cb=bring)
                await self.connection.flush()
        except (OSError, Error):
            raise NotReachable(f"no NATS server answers at {', '.join(self.servers)}; is it running?") from None

    async def publish(self, data: bytes) -> None:
        from nats.errors import Error

        try:
            await self.connection.publish(self.subject, data)
        except Error as problem:
            raise OSError(str(problem)) from None

    async def close(self) -> None:
        await self.connection.drain()


def connect_over_nats(
    url: str = "nats://localhost:4222",
    *,
    network: str,
    ordered: Ordered = True,
    reliable: bool = False,
    paced: bool = False,
    transport: TransportParams | None = None,
) -> CarrierClient:
    """A client for `async with`. All who name the same network on the same servers reach each other."""
    return CarrierClient(
        NatsNetwork(url, network), ordered=ordered, reliable=reliable, paced=paced, transport=transport
    )
