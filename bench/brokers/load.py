"""The load: one publisher and any number of subscribers, in one process that does as little as possible.

Events are sent in chunks as fast as the deliveries come back: never more than a window of them is on the way, so that
nobody's queue overflows. Counting begins after a while, when everything runs, and lasts for a given time.
"""

import selectors
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import quantiles
from typing import Any

from bench.brokers.content import MARK
from bench.brokers.dialects import Chunk, Dialect
from bench.brokers.servers import Server

READ_BYTES = 1 << 18
TAKEN_EVERY = 4096
"""A subscriber of ours says that it took something when it took so many."""

STALLED_SECONDS_MAX = 120.0


@dataclass(frozen=True)
class Load:
    """Chunks of events in a circle, each with how many events it has and how many deliveries these cause."""

    chunks: Sequence[Chunk]
    events: Sequence[int]
    deliveries: Sequence[int]
    window: int
    """Deliveries that may be on the way."""


@dataclass(frozen=True)
class Rates:
    deliveries: int
    seconds: float
    cpu_seconds: float

    @property
    def per_second(self) -> float:
        return self.deliveries / self.seconds

    @property
    def per_cpu_second(self) -> float:
        return self.deliveries / max(self.cpu_seconds, 0.01)


class Subscriber:
    """Counts the marks that arrive, also those that arrive in two pieces."""

    def __init__(self, connection: socket.socket, dialect: Dialect) -> None:
        self.connection, self.dialect = connection, dialect
        self.tail = b""
        self.count = self.not_told = 0

    def read(self) -> int:
        try:
            data = self.connection.recv(READ_BYTES)
        except BlockingIOError:
            return 0
        if not data:
            raise ConnectionError("the broker closed the connection of a subscriber")
        count = data.count(MARK)
        if self.tail:
            count += (self.tail + data[: len(MARK) - 1]).count(MARK)
        self.tail = (self.tail + data)[-len(MARK) + 1 :] if len(data) < len(MARK) else data[-len(MARK) + 1 :]
        self.count += count
        self.not_told += count
        if self.not_told >= TAKEN_EVERY:
            self.tell()
        return count

    def tell(self) -> None:
        say(self.connection, self.dialect.taken(self.not_told))
        self.not_told = 0


def say(connection: socket.socket, words: bytes) -> None:
    if words:
        connection.setblocking(True)
        connection.sendall(words)
        connection.setblocking(False)


class Blast:
    """Sends and counts for as long as it is told."""

    def __init__(self, dialect: Dialect, publisher: socket.socket, subscribers: Sequence[socket.socket]) -> None:
        self.dialect, self.publisher = dialect, publisher
        self.alive_at = time.perf_counter()
        self.subscribers = [Subscriber(connection, dialect) for connection in subscribers]
        self.sent = self.expected = self.received = self.next_chunk = 0
        self.pending: Any = b""
        self.selector = selectors.DefaultSelector()
        for subscriber in self.subscribers:
            subscriber.connection.setblocking(False)
            self.selector.register(subscriber.connection, selectors.EVENT_READ, subscriber)
        publisher.setblocking(False)
        self.selector.register(publisher, selectors.EVENT_READ | selectors.EVENT_WRITE, None)
        self.is_writing = True

    def run(self, load: Load, server: Server, warm_up: float, seconds: float) -> Rates:
        begin = time.perf_counter()
        self.drive(load, begin + warm_up)
        counted, cpu, started = self.received, server.cpu_seconds(), time.perf_counter()
        self.drive(load, started + seconds)
        rates = Rates(self.received - counted, time.perf_counter() - started, server.cpu_seconds() - cpu)
        self.drain()
        return rates

    def drive(self, load: Load, until: float) -> None:
        """Until then, and until something was delivered."""
        before = self.received
        while time.perf_counter() < until or self.received == before:
            self.turn(load)
            if time.perf_counter() > until + STALLED_SECONDS_MAX:
                raise RuntimeError("nothing is delivered any more")

    def turn(self, load: Load) -> None:
        for key, mask in self.selector.select(0.05):
            if key.data is not None:
                self.received += key.data.read()
            elif mask & selectors.EVENT_READ:
                self.hear()
        self.write(load)
        if time.perf_counter() > self.alive_at + 1.0:
            self.show_life()

    def show_life(self) -> None:
        self.alive_at = time.perf_counter()
        for subscriber in self.subscribers:
            say(subscriber.connection, self.dialect.sign_of_life())

    def hear(self) -> None:
        """What is said to the publisher is of no interest, but it has to be read."""
        try:
            if not self.publisher.recv(READ_BYTES):
                raise ConnectionError("the broker closed the connection of the publisher")
        except BlockingIOError:
            return

    def write(self, load: Load) -> None:
        may_write = self.pending or self.expected - self.received < load.window
        if may_write and not self.pending:
            place = self.next_chunk % len(load.chunks)
            self.pending = memoryview(load.chunks[place](self.sent))
            self.sent += load.events[place]
            self.expected += load.deliveries[place]
            self.next_chunk += 1
        if self.pending:
            with suppress(BlockingIOError):
                self.pending = self.pending[self.publisher.send(self.pending) :]
        if bool(may_write) != self.is_writing:
            self.is_writing = bool(may_write)
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self.is_writing else 0)
            self.selector.modify(self.publisher, events, None)

    def drain(self) -> None:
        """Everything that was sent has to arrive: a broker that drops is noticed."""
        if self.pending:
            self.publisher.setblocking(True)
            self.publisher.sendall(self.pending)
            self.publisher.setblocking(False)
            self.pending = b""
        heard_at = time.perf_counter()
        while self.received < self.expected:
            for key, mask in self.selector.select(0.1):
                if key.data is not None:
                    self.received += key.data.read()
                    heard_at = time.perf_counter()
                elif mask & selectors.EVENT_READ:
                    self.hear()
            if time.perf_counter() - heard_at > STALLED_SECONDS_MAX:
                raise RuntimeError(f"{self.expected - self.received} of {self.expected} deliveries did not arrive")
        assert self.received == self.expected, f"{self.received} deliveries instead of {self.expected}"

    def close(self) -> None:
        self.selector.close()
        self.publisher.close()
        for subscriber in self.subscribers:
            subscriber.connection.close()


def latencies(blast: Blast, chunk: Chunk, count: int) -> tuple[float, float]:
    """One event at a time, from the first byte sent to the last received: p50 and p99 in microseconds."""
    subscriber = blast.subscribers[0]
    taken = []
    for _ in range(count):
        data = chunk(blast.sent)
        begin = time.perf_counter()
        blast.publisher.sendall(data)
        blast.sent += 1
        blast.expected += 1
        subscriber.connection.setblocking(True)
        while not subscriber.read():
            pass
        taken.append(time.perf_counter() - begin)
        subscriber.connection.setblocking(False)
        blast.received += 1
        blast.hear()
    cuts = quantiles(taken, n=100)
    return cuts[49] * 1e6, cuts[98] * 1e6
