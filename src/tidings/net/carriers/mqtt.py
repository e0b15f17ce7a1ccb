"""The transport over MQTT: any server of version 3.1.1, at quality of service 0, which promises nothing.

    async with connect_over_mqtt("mqtt://localhost", network="lab", reliable=True) as client:
        ...

One topic, `tidings/NETWORK`, carries everything of a network. Of MQTT hardly anything is needed (connect, subscribe,
publish, ping), so it is spoken here and no library is. A packet is a byte that says what it is, the length of the rest
in seven bits at a time, and the rest. A connection that breaks is made again, and what was sent meanwhile is lost.
"""

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

from tidings.net.carriers.client import CarrierClient
from tidings.net.carriers.runner import check_name
from tidings.net.client.transport import Ordered
from tidings.net.errors import NotReachable
from tidings.protocols.transport.params import TransportParams

PORT = 1883
CONNECT_TIMEOUT = 5.0
"""Seconds in which a server must have answered."""
RECONNECT_WAIT = 0.5
"""Seconds between two attempts to reach a server again."""
KEEP_ALIVE = 30
"""Seconds after which a server that heard nothing may end the connection; we ping three times as often."""

PACKET_BYTES_MAX = 2 * 1024 * 1024
LENGTH_BYTES_MAX = 4
BUFFER_BYTES_MAX = 1024 * 1024

CONNECT, CONNACK, PUBLISH, SUBSCRIBE, SUBACK, PING, DISCONNECT = 0x10, 0x20, 0x30, 0x82, 0x90, 0xC0, 0xE0
CLEAN_SESSION = 2


class MqttNetwork:
    """`MqttNetwork("mqtt://localhost:1883", "lab")`."""

    def __init__(self, url: str, network: str) -> None:
        check_name(network)
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "localhost", parts.port or PORT
        self.topic = text_of(f"tidings/{network}")
        self.writer: asyncio.StreamWriter | None = None
        self.reading: asyncio.Task[None] | None = None
        self.pinging: asyncio.Task[None] | None = None

    async def open(self, arrived: Callable[[bytes], None]) -> None:
        try:
            reader = await self.connect()
        except (OSError, EOFError, ValueError):
            raise NotReachable(f"no MQTT server answers at {self.host}:{self.port}; is it running?") from None
        self.reading = asyncio.create_task(self.read(reader, arrived))
        self.pinging = asyncio.create_task(self.ping())

    async def connect(self) -> asyncio.StreamReader:
        """A connection that is subscribed."""
        async with asyncio.timeout(CONNECT_TIMEOUT):
            reader, writer = await asyncio.open_connection(self.host, self.port)
            name = text_of(f"tidings-{secrets.token_hex(6)}")
            hello = text_of("MQTT") + bytes((4, CLEAN_SESSION)) + KEEP_ALIVE.to_bytes(2) + name
            subscribe = (1).to_bytes(2) + self.topic + b"\0"
            writer.write(packet(CONNECT, hello) + packet(SUBSCRIBE, subscribe))
            for wanted in (CONNACK, SUBACK):
                kind, answer = await read_packet(reader)
                if kind != wanted or answer[-1:] != b"\0":
                    writer.close()
                    raise ValueError("the server refused us")
        self.writer = writer
        return reader

    async def read(self, reader: asyncio.StreamReader, arrived: Callable[[bytes], None]) -> None:
        behind = len(self.topic)
        while True:
            try:
                while True:
                    kind, body = await read_packet(reader)
                    if kind & 0xF0 == PUBLISH and body.startswith(self.topic):
                        arrived(body[behind:])
            except (OSError, EOFError, ValueError):
                self.drop_connection()
            while self.writer is None:
                await asyncio.sleep(RECONNECT_WAIT)
                with suppress(OSError, EOFError, ValueError):
                    reader = await self.connect()

    def drop_connection(self) -> None:
        if self.writer is not None:
            self.writer.close()
            self.writer = None

    async def ping(self) -> None:
        while True:
            await asyncio.sleep(KEEP_ALIVE / 3)
            if self.writer is not None:
                self.writer.write(packet(PING, b""))

    async def publish(self, data: bytes) -> None:
        if self.writer is None:
            raise OSError("not connected")
        self.writer.write(packet(PUBLISH, self.topic + data))
        if self.writer.transport.get_write_buffer_size() > BUFFER_BYTES_MAX:
            await self.writer.drain()

    async def close(self) -> None:
        for task in (self.reading, self.pinging):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if self.writer is not None:
            with suppress(OSError):
                self.writer.write(packet(DISCONNECT, b""))
                await self.writer.drain()
                self.writer.close()
                await self.writer.wait_closed()


def connect_over_mqtt(
    url: str = "mqtt://localhost:1883",
    *,
    network: str,
    ordered: Ordered = True,
    reliable: bool = False,
    paced: bool = False,
    transport: TransportParams | None = None,
) -> CarrierClient:
    """A client for `async with`. All who name the same network on the same server reach each other."""
    return CarrierClient(
        MqttNetwork(url, network), ordered=ordered, reliable=reliable, paced=paced, transport=transport
    )


def text_of(text: str) -> bytes:
    return len(text.encode()).to_bytes(2) + text.encode()


def packet(kind: int, body: bytes) -> bytes:
    length, left = bytearray(), len(body)
    while left > 0x7F:
        length.append(left & 0x7F | 0x80)
        left >>= 7
    length.append(left)
    return bytes((kind,)) + bytes(length) + body


async def read_packet(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """What it is, and its body; ValueError for what is too long."""
    (kind,) = await reader.readexactly(1)
    length = 0
    for place in range(LENGTH_BYTES_MAX):
        (byte,) = await reader.readexactly(1)
        length |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    if length > PACKET_BYTES_MAX:
        raise ValueError(f"a packet of {length} bytes")
    return kind, await reader.readexactly(length)
