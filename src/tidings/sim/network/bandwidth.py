"""Links of limited bandwidth, each with a queue of limited length before it.

A packet that finds the link busy waits; one that finds the queue full is dropped (drop-tail). Its delay is the wait
plus the time to put its bits on the link, and then whatever the rules inside say:

    Bandwidth(Constant(0.02), rate_bps=10e6, queue_bytes_max=64_000)

Which packets share a link is said by `link_of`. By default each ordered pair has its own; `by_sender` gives each node
one uplink; `lambda sender, to: "bottleneck"` makes all share one. Other flows may use the same link (`TcpFlow`).

A queue serves packets in the order in which they are offered, so this rule stands around those that lose or delay: a
packet passes the queue first and meets its other fate on the wire.

A stream is not dropped: what does not fit into the queue waits at the sender, and only when too much waits there is
the stream ended (`STREAM_OVERFULL`).

**TCP connections** that always have something to send are competition for the packets of a simulation. A flow keeps a
window of packets on their way through a link with a drop-tail queue, the same that the messages of the simulation use
(`Bandwidth.link`). Each packet that arrives is acknowledged after a round trip and lets the window grow; a packet that
is dropped is noticed a round trip later, when those behind it are acknowledged, and the window shrinks, once for all
packets that were lost from the same window; acknowledgements are selective. A loss with fewer than
`DUPLICATES_NEEDED` packets behind it, and the loss of a packet that was sent again, are noticed by nothing but the
time: after `TIMEOUT_ROUND_TRIPS`, twice as long each time in a row, one packet is sent, and the window starts from
there.

Reno: one packet more for each acknowledgement until the first loss, then one more in a round trip; half after a loss.
Its rate at a small loss rate p is (packet / round trip) * sqrt(3 / 2p) where losses come evenly, and some 7 % more
where they come at random.

CUBIC (RFC 9438): the window follows C * (t - K)**3 + W around the window W of the last loss, and shrinks to 0.7 of it;
at short round trips, where Reno would be faster, it grows as Reno would.
"""

import math
from collections import deque
from collections.abc import Callable, Hashable
from enum import Enum

import msgspec

from tidings.machine.effects import Transport
from tidings.machine.streams import RandomStream
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.sim.network.rule import (
    STREAM_OVERFULL,
    Fates,
    LostPacket,
    Rule,
    Wrapper,
    check_positive,
    check_probability,
    later,
)
from tidings.sim.queue import Queue

HEADERS_BYTES = 40
"""What IP and TCP add to a message."""

SEND_QUEUE_BYTES_MAX = 8 * 2**20
"""What a stream may keep at the sender, beyond the queue of the link; as much as a host on sockets does by default."""

QUEUE_FULL = LostPacket("queue is full")

LinkOf = Callable[[NodeId, NodeId], Hashable]


def by_pair(sender: NodeId, to: NodeId) -> Hashable:
    return sender, to


def by_sender(sender: NodeId, to: NodeId) -> Hashable:
    return sender


class DropTail:
    """A link and the queue before it. Offers come in the order of time."""

    def __init__(self, rate_bps: float, queue_bytes_max: float) -> None:
        check_positive("rate_bps", rate_bps)
        if queue_bytes_max < 0:
            raise UsageError(f"queue_bytes_max: {queue_bytes_max} must not be below 0")
        self.rate_bps, self.queue_bytes_max = rate_bps, queue_bytes_max
        self.free_at = 0.0
        """When everything accepted so far is on the link."""
        self.accepted = self.dropped = self.accepted_bytes = 0

    def wait(self, now: float) -> float:
        """How long a packet that is offered now waits for the link."""
        return max(0.0, self.free_at - now)

    def backlog_bytes(self, now: float) -> float:
        return self.wait(now) * self.rate_bps / 8

    def offer(self, now: float, size_bytes: int, buffer_bytes: float = 0.0) -> float | None:
        """After how long the packet has left completely; None if it is dropped. An idle link takes any packet."""
        wait = self.wait(now)
        if wait and wait * self.rate_bps / 8 + size_bytes > self.queue_bytes_max + buffer_bytes:
            self.dropped += 1
            return None
        self.accepted += 1
        self.accepted_bytes += size_bytes
        delay = wait + size_bytes * 8 / self.rate_bps
        self.free_at = now + delay
        return delay


class Bandwidth(Wrapper):
    needs_sizes = True

    def __init__(
        self,
        inner: Rule,
        rate_bps: float,
        queue_bytes_max: float = 64 * 1024,
        link_of: LinkOf = by_pair,
        headers_bytes: int = HEADERS_BYTES,
    ) -> None:
        super().__init__(inner)
        DropTail(rate_bps, queue_bytes_max)
        self.rate_bps, self.queue_bytes_max = rate_bps, queue_bytes_max
        self.link_of, self.headers_bytes = link_of, headers_bytes
        self.links: dict[Hashable, DropTail] = {}

    def link(self, name: Hashable) -> DropTail:
        """The link of this name, as `link_of` gives it; its rate may be changed while the run goes on."""
        link = self.links.get(name)
        if link is None:
            link = self.links[name] = DropTail(self.rate_bps, self.queue_bytes_max)
        return link

    def fate(self, now: float, sender: NodeId, to: NodeId, size_bytes: int, transport: Transport) -> Fates:
        is_stream = transport is Transport.STREAM
        link = self.link(self.link_of(sender, to))
        wait = link.offer(now, size_bytes + self.headers_bytes, SEND_QUEUE_BYTES_MAX if is_stream else 0.0)
        if wait is None:
            return STREAM_OVERFULL if is_stream else QUEUE_FULL
        return later(self.inner.fate(now + wait, sender, to, size_bytes, transport), wait)


CUBIC_SCALE, CUBIC_KEEPS = 0.4, 0.7
RENO_KEEPS = 0.5
WINDOW_MIN = 2.0

DUPLICATES_NEEDED = 3
TIMEOUT_ROUND_TRIPS = 4.0
"""As the TCP response function has it."""
TIMEOUT_DOUBLINGS_MAX = 6


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
        self.unnoticed: deque[int] = deque()
        """Numbers of lost packets, in the order of sending."""
        self.to_repeat = 0
        """Lost packets that are to be sent again."""
        self.repeated: set[int] = set()
        """Numbers under which lost packets were sent again; for membership only."""
        self.timeouts_in_row = 0
        self.acknowledged = self.lost = self.shrinkings = self.timeouts = 0
        self.is_running = self.is_stalled = False

    def start(self, now: float) -> None:
        self.is_running = True
        self.fill(now)

    def stop(self) -> None:
        """Send nothing more; what is on its way arrives."""
        self.is_running = False

    def fill(self, now: float) -> None:
        while self.is_running and not self.is_stalled and self.in_flight < int(self.window):
            self.send(now)

    def send(self, now: float) -> None:
        params, number = self.params, self.next_number
        self.next_number += 1
        self.in_flight += 1
        if self.to_repeat:
            self.to_repeat -= 1
            self.repeated.add(number)
        wait = self.link.wait(now)
        delay = self.link.offer(now, params.packet_bytes)
        # Without it, flows of equal round trips fall into step and one may always find the queue full.
        back = params.round_trip + self.rng.random() * params.packet_bytes * 8 / self.link.rate_bps
        if delay is None or (params.loss and self.rng.random() < params.loss):
            self.unnoticed.append(number)
            self.queue.push(now + wait + back, self.miss, number)
        else:
            self.queue.push(now + delay + back, self.acknowledge, number)

    def acknowledge(self, now: float, number: int) -> None:
        self.in_flight -= 1
        self.acknowledged += 1
        self.repeated.discard(number)
        if not self.is_stalled:
            self.timeouts_in_row = 0
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
        self.unnoticed.remove(number)
        is_repeated = number in self.repeated
        self.repeated.discard(number)
        if number >= self.recovered_from:
            behind = self.next_number - number - 1 - sum(other > number for other in self.unnoticed)
            keeps = RENO_KEEPS if self.params.variant is TcpVariant.RENO else CUBIC_KEEPS
            self.window_before, self.shrunk_at = self.window, now
            self.window = self.threshold = max(WINDOW_MIN, self.window * keeps)
            self.recovered_from = self.next_number
            self.shrinkings += 1
            if is_repeated or behind < DUPLICATES_NEEDED:
                self.stall(now)
        self.to_repeat += 1
        self.fill(now)

    def stall(self, now: float) -> None:
        """Until the time is out, which counts from when the lost packet was sent."""
        round_trip = self.params.round_trip + self.link.wait(now)
        timeout = TIMEOUT_ROUND_TRIPS * round_trip * 2 ** min(self.timeouts_in_row, TIMEOUT_DOUBLINGS_MAX)
        self.is_stalled, self.window = True, 1.0
        self.timeouts_in_row += 1
        self.timeouts += 1
        self.queue.push(now + timeout - round_trip, self.resume, None)

    def resume(self, now: float, _: None) -> None:
        self.is_stalled, self.window = False, 1.0
        self.recovered_from = self.next_number
        self.fill(now)
