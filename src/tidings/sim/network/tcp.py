"""TCP connections that always have something to send, as competition for the packets of a simulation.

A flow keeps a window of packets on their way through a link with a drop-tail queue, the same that the messages of the
simulation use (`Bandwidth.link`). Each packet that arrives is acknowledged after a round trip and lets the window grow;
a packet that is dropped is noticed a round trip later, when those behind it are acknowledged, and the window shrinks,
once for all packets that were lost from the same window. All losses are found by duplicate acknowledgements, with
selective ones: there are no time-outs, so at windows of a few packets a flow is a little too fast.

Reno: one packet more for each acknowledgement until the first loss, then one more in a round trip; half after a loss.
Its rate at a loss rate p is (packet / round trip) * sqrt(3 / 2p).

CUBIC (RFC 9438): the window follows C * (t - K)**3 + W around the window W of the last loss, and shrinks to 0.7 of it;
at short round trips, where Reno would be faster, it grows as Reno would.
"""

import math
from enum import Enum

import msgspec

from tidings.machine.streams import RandomStream
from tidings.model.errors import UsageError
from tidings.sim.network.bandwidth import DropTail
from tidings.sim.network.rule import check_positive, check_probability
from tidings.sim.queue import Queue

CUBIC_SCALE, CUBIC_KEEPS = 0.4, 0.7
RENO_KEEPS = 0.5
WINDOW_MIN = 2.0


class TcpVariant(Enum):
    RENO = "reno"
    CUBIC = "cubic"


class TcpParams(msgspec.Struct, frozen=True):
    round_trip: float
    """Seconds without any waiting."""
    variant: TcpVariant = TcpVariant.RENO
    packet_bytes: int = 1500
    loss: float = 0.0
    """Probability that a packet is lost beside the queue."""
    window_max: float = 10_000.0
    """Packets; the receiver's limit."""

    def __post_init__(self) -> None:
        check_positive("round_trip", self.round_trip)
        check_positive("packet_bytes", self.packet_bytes)
        check_probability("loss", self.loss)
        if self.window_max < WINDOW_MIN:
            raise UsageError(f"window_max: {self.window_max} is too small; give at least {WINDOW_MIN}")


class TcpFlow:
    """`TcpFlow(simulator.queue, network.link("bottleneck"), TcpParams(0.05), rng).start(now)`"""

    def __init__(self, queue: Queue, link: DropTail, params: TcpParams, rng: RandomStream) -> None:
        self.queue, self.link, self.params, self.rng = queue, link, params, rng
        self.window = WINDOW_MIN
        self.threshold = math.inf
        """Below it the window doubles in a round trip."""
        self.window_before, self.shrunk_at = 0.0, 0.0
        self.in_flight = 0
        self.next_number = 0
        self.recovered_from = 0
        """Losses of packets before this number belong to the last time the window shrank."""
        self.acknowledged = self.lost = self.shrinkings = 0
        self.is_running = False

    def start(self, now: float) -> None:
        self.is_running = True
        self.fill(now)

    def stop(self) -> None:
        """Send nothing more; what is on its way arrives."""
        self.is_running = False

    def fill(self, now: float) -> None:
        while self.is_running and self.in_flight < int(self.window):
            self.send(now)

    def send(self, now: float) -> None:
        params, number = self.params, self.next_number
        self.next_number += 1
        self.in_flight += 1
        wait = self.link.wait(now)
        delay = self.link.offer(now, params.packet_bytes)
        # Without it, flows of equal round trips fall into step and one may always find the queue full.
        back = params.round_trip + self.rng.random() * params.packet_bytes * 8 / self.link.rate_bps
        if delay is None or (params.loss and self.rng.random() < params.loss):
            self.queue.push(now + wait + back, self.miss, number)
        else:
            self.queue.push(now + delay + back, self.acknowledge, number)

    def acknowledge(self, now: float, number: int) -> None:
        self.in_flight -= 1
        self.acknowledged += 1
        if self.window < self.threshold:
            self.window += 1
        elif self.params.variant is TcpVariant.RENO:
            self.window += 1 / self.window
        else:
            self.window += max(0.0, self.cubic_target(now) - self.window) / self.window
        self.window = min(self.window, self.params.window_max)
        self.fill(now)

    def cubic_target(self, now: float) -> float:
        """What the window should be a round trip from now."""
        since, round_trip = now - self.shrunk_at, self.params.round_trip + self.link.wait(now)
        rise = math.pow(self.window_before * (1 - CUBIC_KEEPS) / CUBIC_SCALE, 1 / 3)
        cubic = CUBIC_SCALE * (since + round_trip - rise) ** 3 + self.window_before
        as_reno = self.window_before * CUBIC_KEEPS + 3 * (1 - CUBIC_KEEPS) / (1 + CUBIC_KEEPS) * since / round_trip
        return min(max(cubic, as_reno), 1.5 * self.window)

    def miss(self, now: float, number: int) -> None:
        self.in_flight -= 1
        self.lost += 1
        if number >= self.recovered_from:
            keeps = RENO_KEEPS if self.params.variant is TcpVariant.RENO else CUBIC_KEEPS
            self.window_before, self.shrunk_at = self.window, now
            self.window = self.threshold = max(WINDOW_MIN, self.window * keeps)
            self.recovered_from = self.next_number
            self.shrinkings += 1
        self.fill(now)
