"""How each broker is spoken to: connect, subscribe, and events as bytes that need no more work when they are sent."""

import json
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from bench.brokers.content import Sample
from bench.brokers.servers import MOSQUITTO, NATS, REDIS, TIDINGS
from tidings.protocols.access.messages import Attach, Attached
from tidings.protocols.delivery.messages import Advertise, PublishMessage, Subscribe, Taken
from tidings.pubsub.client import Receipt
from tidings.wire.frames import FrameReader, frame
from tidings.wire.handshake import Heartbeat, hello
from tidings.wire.registry import decode, encode

TIMEOUT_SECONDS = 120.0
EVERYTHING = "t"
"""The topic of everything; topic "t.5" is the sixth of those into which an attribute was cut."""

Chunk = Callable[[int], bytes]
"""A few events as bytes, given how many were sent before them."""


class Dialect(Protocol):
    def subscriber(self, port: int, name: str, topic: str, filter: str) -> socket.socket:
        """A connection on which everything of that topic (or, if the broker can, of that filter) arrives."""

    def publisher(self, port: int) -> socket.socket: ...

    def chunk(self, samples: Sequence[Sample], topics: Sequence[str]) -> Chunk: ...

    def taken(self, count: int) -> bytes:
        """What a subscriber says when it took so many; empty if nothing."""

    def sign_of_life(self) -> bytes:
        """What every client says once a second; empty if nothing."""


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 21)
    return connection


def read_until(connection: socket.socket, ending: bytes) -> bytes:
    data = b""
    while not data.endswith(ending):
        piece = connection.recv(4096)
        if not piece:
            raise ConnectionError(f"the broker closed the connection behind {data[-200:]!r}")
        data += piece
    return data


class Nats:
    def open(self, port: int) -> socket.socket:
        connection = connect(port)
        read_until(connection, b"\r\n")
        connection.sendall(b"CONNECT " + json.dumps({"verbose": False, "pedantic": False}).encode() + b"\r\nPING\r\n")
        read_until(connection, b"PONG\r\n")
        return connection

    def subscriber(self, port: int, name: str, topic: str, filter: str) -> socket.socket:
        connection = self.open(port)
        connection.sendall(f"SUB {topic} 1\r\nPING\r\n".encode())
        read_until(connection, b"PONG\r\n")
        return connection

    def publisher(self, port: int) -> socket.socket:
        return self.open(port)

    def chunk(self, samples: Sequence[Sample], topics: Sequence[str]) -> Chunk:
        parts = []
        for sample, topic in zip(samples, topics, strict=True):
            body = sample.head + sample.payload
            parts.append(f"PUB {topic} {len(body)}\r\n".encode() + body + b"\r\n")
        data = b"".join(parts)
        return lambda sent: data

    def taken(self, count: int) -> bytes:
        return b""

    def sign_of_life(self) -> bytes:
        return b""


class Mqtt:
    def packet(self, kind: int, body: bytes) -> bytes:
        length, size = b"", len(body)
        while True:
            size, rest = divmod(size, 128)
            length += bytes([rest | (0x80 if size else 0)])
            if not size:
                return bytes([kind]) + length + body

    def open(self, port: int, name: str) -> socket.socket:
        connection = connect(port)
        client = name.encode()
        body = b"\x00\x04MQTT\x04\x02\x00\x00" + struct.pack(">H", len(client)) + client
        connection.sendall(self.packet(0x10, body))
        answer = connection.recv(4)
        assert answer[:1] == b"\x20" and answer[3:] == b"\x00", f"Mosquitto refused: {answer!r}"
        return connection

    def subscriber(self, port: int, name: str, topic: str, filter: str) -> socket.socket:
        connection = self.open(port, name)
        asked = topic.encode()
        connection.sendall(self.packet(0x82, b"\x00\x01" + struct.pack(">H", len(asked)) + asked + b"\x00"))
        assert connection.recv(5)[:1] == b"\x90"
        return connection

    def publisher(self, port: int) -> socket.socket:
        return self.open(port, "publisher")

    def chunk(self, samples: Sequence[Sample], topics: Sequence[str]) -> Chunk:
        packets = []
        for sample, topic in zip(samples, topics, strict=True):
            asked = topic.encode()
            packets.append(self.packet(0x30, struct.pack(">H", len(asked)) + asked + sample.head + sample.payload))
        data = b"".join(packets)
        return lambda sent: data

    def taken(self, count: int) -> bytes:
        return b""

    def sign_of_life(self) -> bytes:
        return b""


class Redis:
    def command(self, *words: bytes) -> bytes:
        return b"*%d\r\n" % len(words) + b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])

    def subscriber(self, port: int, name: str, topic: str, filter: str) -> socket.socket:
        connection = connect(port)
        connection.sendall(self.command(b"SUBSCRIBE", topic.encode()))
        read_until(connection, b":1\r\n")
        return connection

    def publisher(self, port: int) -> socket.socket:
        return connect(port)

    def chunk(self, samples: Sequence[Sample], topics: Sequence[str]) -> Chunk:
        data = b"".join(
            [
                self.command(b"PUBLISH", topic.encode(), sample.head + sample.payload)
                for sample, topic in zip(samples, topics, strict=True)
            ]
        )
        return lambda sent: data

    def taken(self, count: int) -> bytes:
        return b""

    def sign_of_life(self) -> bytes:
        return b""


class Tidings:
    """Our own wire format. A publish frame holds the number of its first publication as eight bytes, which are the only
    ones that change when the chunk is sent again."""

    WINDOW, QUEUE_MAX = 65_536, 100_000

    def open(self, port: int, name: str) -> socket.socket:
        connection = connect(port)
        connection.sendall(frame(encode(hello(name, capabilities=("link",)))))
        reader = FrameReader()
        # The end with the smaller name takes the connection with its first heartbeat: that is the broker.
        self.wait_for(connection, reader, Heartbeat)
        connection.sendall(frame(encode(Attach("client", b""))))
        self.wait_for(connection, reader, Attached)
        return connection

    def wait_for(self, connection: socket.socket, reader: FrameReader, kind: type) -> Any:
        while True:
            data = connection.recv(1 << 16)
            if not data:
                raise ConnectionError(f"our broker closed the connection before it said {kind.__name__}")
            for body in reader.feed(data):
                message = decode(body)
                if type(message) is kind:
                    return message
                if kind is Receipt and type(message).__name__ == "Refusal":
                    raise ConnectionError(message.reason)

    def subscriber(self, port: int, name: str, topic: str, filter: str) -> socket.socket:
        connection = self.open(port, name)
        wanted = Subscribe(1, filter, "installed", None, (), False, "", "wait", self.QUEUE_MAX, self.WINDOW)
        connection.sendall(frame(encode(wanted)))
        self.wait_for(connection, FrameReader(), Receipt)
        return connection

    def publisher(self, port: int) -> socket.socket:
        connection = self.open(port, "publisher")
        connection.sendall(frame(encode(Advertise(1, "TRUE"))))
        self.wait_for(connection, FrameReader(), Receipt)
        return connection

    def chunk(self, samples: Sequence[Sample], topics: Sequence[str]) -> Chunk:
        heads, payloads = tuple(s.head for s in samples), tuple(s.payload for s in samples)
        body = encode(PublishMessage(1, 0, False, heads, payloads))
        prefix = encode(PublishMessage(1, 0, False, (), ()))[: -len(msgspec.msgpack.encode((0, False, (), ()))) + 1]
        number_at = len(prefix) + 1
        rest = body[len(prefix) + 1 :]
        opening = struct.pack(">I", len(prefix) + 9 + len(rest)) + prefix + b"\xcf"
        assert body[number_at - 1 : number_at] == b"\x00"
        return lambda sent: opening + struct.pack(">Q", sent + 1) + rest

    def taken(self, count: int) -> bytes:
        return frame(encode(Taken(1, count)))

    def sign_of_life(self) -> bytes:
        return frame(encode(Heartbeat()))


DIALECTS: dict[str, Dialect] = {TIDINGS: Tidings(), NATS: Nats(), MOSQUITTO: Mqtt(), REDIS: Redis()}
