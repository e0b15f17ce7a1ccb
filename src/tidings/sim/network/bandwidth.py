"""Links of limited bandwidth, each with a queue of limited length before it.

A packet that finds the link busy waits; one that finds the queue full is dropped (drop-tail). Its delay is the wait
plus the time to put its bits on the link, and then whatever the rules inside say:

    Bandwidth(Constant(0.02), rate_bps=10e6, queue_bytes_max=64_000)

Which packets share a link is said by `link_of`. By default each ordered pair has its own; `by_sender` gives each node
one uplink; `lambda sender, to: "bottleneck"` makes all share one. Other flows may use the same link (`tcp.py`).

A queue serves packets in the order in which they are offered, so this rule stands around those that lose or delay: a
packet passes the queue first and meets its other fate on the wire.

A stream is not dropped: what does not fit into the queue waits at the sender, and only when too much waits there is
the stream ended (`STREAM_OVERFULL`).
"""

from collections.abc import Callable, Hashable

from tidings.machine.effects import Transport
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.sim.network.rule import STREAM_OVERFULL, Fates, LostPacket, Rule, Wrapper, check_positive, later

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
