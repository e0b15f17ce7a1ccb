"""Runs in which a client library is involved: what receiving costs, and zenoh, which cannot be spoken to by hand."""

import socket
import subprocess
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import IO, Self

from bench.brokers.content import Sample, plain_samples
from bench.brokers.dialects import DIALECTS, EVERYTHING
from bench.brokers.load import Rates
from bench.brokers.measures import FORWARDED_SAMPLES, Plan
from bench.brokers.servers import ZENOH, Server
from bench.brokers.zenoh_router import session

CHUNK_EVENTS = 256

WINDOW = 16 * CHUNK_EVENTS
"""Events on the way to the receiver."""


class Receiver:
    """The other process, and how far it is."""

    def __init__(self, broker: str, port: int, count: int, clients: int) -> None:
        command = [sys.executable, "-m", "bench.brokers.receivers", broker, str(port), str(count), str(clients)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.lines: IO[str] = self.process.stdout
        self.received, self.cpu_us = 0, 0.0
        if self.lines.readline() != "ready\n":
            self.process.wait()
            raise RuntimeError(f"the receiver for {broker} did not start")

    def hear(self) -> None:
        line = self.lines.readline()
        if not line:
            raise RuntimeError("the receiver ended early")
        if line.startswith("cpu "):
            self.cpu_us = float(line.split()[1])
        else:
            self.received = int(line)

    def finish(self) -> float:
        while not self.cpu_us:
            self.hear()
        return self.cpu_us

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.process.kill()
        self.lines.close()
        self.process.wait()


def receiving(broker: str, plan: Plan) -> float:
    """CPU time of a client for an event received, in microseconds."""
    with Server(broker) as server, Receiver(broker, server.port, plan.received, 1) as receiver:
        if broker == ZENOH:
            feed(receiver, plan.received, 1, zenoh_sender(server.port))
            return receiver.finish()
        with DIALECTS[broker].publisher(server.port) as publisher:
            feed(receiver, plan.received, 1, raw_sender(broker, publisher))
            # Not before: a connection that is closed with something unread takes with it what is on its way.
            return receiver.finish()


def forward_zenoh(subscribers: int, plan: Plan) -> Rates:
    """Through the router, with the library on both sides; only the router's CPU time counts."""
    count = plan.received // subscribers
    with Server(ZENOH) as server, Receiver(ZENOH, server.port, count, subscribers) as receiver:
        send = zenoh_sender(server.port)
        cpu, began = server.cpu_seconds(), time.perf_counter()
        feed(receiver, count, subscribers, send)
        receiver.finish()
        return Rates(count * subscribers, time.perf_counter() - began, server.cpu_seconds() - cpu)


def feed(receiver: Receiver, count: int, clients: int, send: Callable[[int, int], None]) -> None:
    sent = 0
    while sent < count:
        while (sent - WINDOW) * clients > receiver.received:
            receiver.hear()
        size = min(CHUNK_EVENTS, count - sent)
        send(sent, size)
        sent += size


def raw_sender(broker: str, publisher: socket.socket) -> Callable[[int, int], None]:
    dialect, samples = DIALECTS[broker], plain_samples(FORWARDED_SAMPLES)

    def send(sent: int, size: int) -> None:
        part: list[Sample] = samples[:size]
        publisher.sendall(dialect.chunk(part, [EVERYTHING] * size)(sent))
        publisher.setblocking(False)
        try:
            publisher.recv(1 << 16)
        except BlockingIOError:
            return
        finally:
            publisher.setblocking(True)

    return send


def zenoh_sender(port: int) -> Callable[[int, int], None]:
    import zenoh

    kept = session("client", port)
    publisher = kept.declare_publisher(EVERYTHING, congestion_control=zenoh.CongestionControl.BLOCK)
    bodies = [sample.head + sample.payload for sample in plain_samples(CHUNK_EVENTS)]

    def send(sent: int, size: int) -> None:
        assert kept is not None
        for body in bodies[:size]:
            publisher.put(body)

    return send
