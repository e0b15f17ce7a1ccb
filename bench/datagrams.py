"""The plainest best-effort network: UDP between named addresses. Every message goes to every other address."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

Address = tuple[str, int]


class DatagramCarrier(asyncio.DatagramProtocol):
    """`DatagramCarrier(("10.0.0.1", 7000), [("10.0.0.2", 7000)])`: a carrier (`net/carriers/carrier.py`)."""

    def __init__(self, address: Address, others: Sequence[Address]) -> None:
        self.address, self.others = address, list(others)
        self.sent_bytes = self.received_bytes = 0
        self.arrived: Callable[[bytes], None]
        self.transport: asyncio.DatagramTransport

    async def open(self, arrived: Callable[[bytes], None]) -> None:
        self.arrived = arrived
        loop = asyncio.get_running_loop()
        self.transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=self.address)

    def datagram_received(self, data: bytes, address: Address) -> None:
        self.received_bytes += len(data)
        self.arrived(data)

    def error_received(self, error: Exception) -> None:
        """Nobody listens there yet; that is a loss like any other."""

    async def publish(self, data: bytes) -> None:
        for address in self.others:
            with suppress(OSError):
                self.transport.sendto(data, address)
                self.sent_bytes += len(data)

    async def close(self) -> None:
        self.transport.close()
