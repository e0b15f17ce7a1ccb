"""Every bound and every time-out of a host, in one place.

Two families. The bounds keep memory finite whatever peers and applications do; what goes beyond one is dropped with a
reason or answered with an error, and counted. The time-outs decide when something that stays silent is given up.
"""

import math
from collections.abc import Mapping
from enum import Enum

import msgspec

from tidings.model.bounds import FRAME_BYTES_MAX
from tidings.model.errors import UsageError
from tidings.protocols.access.params import AccessParams
from tidings.wire.frames import HEAD_BYTES

DATAGRAM_BYTES_LIMIT = 65_507
"""No UDP datagram over IPv4 carries more."""


class InboxPolicy(Enum):
    """What happens when the application does not take what was delivered, and the inbox is full."""

    PAUSE = "pause"
    """Stop reading from all links, so that the senders' queues fill. What timers and datagrams deliver is dropped."""

    DROP_NEWEST = "drop newest"
    DROP_OLDEST = "drop oldest"


class HostParams(msgspec.Struct, frozen=True, kw_only=True):
    inbox_max: int = 10_000
    """Delivered items that wait for the application."""

    inbox_policy: InboxPolicy = InboxPolicy.PAUSE

    queue_messages_max: int = 10_000
    """Messages that wait to be sent to one peer."""

    queue_bytes_max: int = 8 * 1024 * 1024
    """Bytes that wait to be sent to one peer; at least one frame."""

    write_buffer_bytes: int = 256 * 1024
    """Bytes handed to the transport before we wait for the peer to read; they come on top of the queue."""

    streams_max: int = 1024
    """Streams that are up at the same time, links or not; those of strangers do not count."""

    address_connections_max: int = 512
    """Connections at the same time that came from one address."""

    strangers_max: int = 64
    """Connections at the same time by which we were called, and which are not let in yet: no stream, or one of which
    the machine does not know yet whose it is."""

    stranger_patience: float = 0.5
    """Seconds for which a stranger keeps its place although others of its address want to come in. When there are too
    many, one of the address that has most of them gives way: to callers of another address at once, to those of its own
    only after this, since somebody who is just saying who he is needs a moment."""

    connect_timeout: float = 5.0
    """Seconds from the first packet to a stream that is up, when we call; above `heartbeat_period`, since the other end
    may look for that long whether an earlier connection still lives."""

    handshake_timeout: float = 5.0
    """Seconds that a caller has until its stream is up, that of TLS included."""

    backoff_first: float = 0.1
    """Seconds before the second attempt to connect; each further one waits twice as long, less a random part."""

    backoff_max: float = 30.0
    """Longest wait between two attempts. A stream that did not last this long does not end the series."""

    heartbeat_period: float = 2.0
    """Seconds without anything to send after which a heartbeat is sent."""

    silence_max: float = 6.0
    """Seconds without a sign of the peer after which a stream is taken for dead; at least two heartbeat periods."""

    drain_timeout: float = 5.0
    """Seconds that a stream which is closed on purpose has to hand over what waits in its queue."""

    turn: float = 0.005
    """Seconds for which peers that ask for much are served before others are looked at, see `turns.py`. Well below what
    somebody who asks for little is willing to wait."""

    datagram_bytes_max: int = 1200
    """Longest message sent or taken as one datagram. This much passes nearly every path in one piece."""

    compute_workers: int = 2
    """Threads that run `Compute`."""

    learned_max: int = 10_000
    """Nodes whose address was learned from the machine (`Know`) and not configured; beyond it the one learned longest
    ago gives way."""

    computations_max: int = 256
    """Computations under way or waiting."""

    saves_max: int = 10_000
    """Saves and loads that wait for the disk."""

    def __post_init__(self) -> None:
        for name in SPANS:
            span = getattr(self, name)
            if not (math.isfinite(span) and span > 0):
                raise UsageError(f"{name}: {span} is no span of time; give seconds above 0")
        for name in COUNTS:
            if getattr(self, name) < 1:
                raise UsageError(f"{name}: {getattr(self, name)} leaves no room; give at least 1")
        if self.queue_bytes_max < FRAME_BYTES_MAX + HEAD_BYTES:
            raise UsageError(
                f"queue_bytes_max: {self.queue_bytes_max} is less than a frame; give at least "
                f"{FRAME_BYTES_MAX + HEAD_BYTES}"
            )
        if self.silence_max < 2 * self.heartbeat_period:
            raise UsageError(
                f"silence_max: {self.silence_max} would take a live peer for dead; give at least twice "
                f"heartbeat_period, {2 * self.heartbeat_period}"
            )
        if self.connect_timeout <= self.heartbeat_period:
            raise UsageError(f"connect_timeout: {self.connect_timeout} is not above heartbeat_period; make it longer")
        if self.backoff_max < self.backoff_first:
            raise UsageError(f"backoff_max: {self.backoff_max} is below backoff_first; give at least that")
        if self.datagram_bytes_max > DATAGRAM_BYTES_LIMIT:
            raise UsageError(f"datagram_bytes_max: {self.datagram_bytes_max}; UDP carries {DATAGRAM_BYTES_LIMIT}")


def check_windows(host: HostParams, windows: Mapping[str, Mapping[str, int]]) -> None:
    """What machines let be on the way to one peer, by the kind of peer and the setting that says so, each with one
    message beyond it, must fit the queue of a link; otherwise links end by their own traffic, again and again."""
    for peer, settings in windows.items():
        needed = sum(settings.values()) + len(settings) * (FRAME_BYTES_MAX + HEAD_BYTES)
        if needed >= host.queue_bytes_max:
            named = ", ".join(f"{name} = {value}" for name, value in settings.items())
            raise UsageError(
                f"host.queue_bytes_max: {host.queue_bytes_max} is too little for what may be on the way to one {peer} "
                f"({named}, and a message beyond each); give more than {needed}, or make these windows smaller"
            )


def check_places(host: HostParams, access: AccessParams) -> None:
    """What the host holds has to agree with what access serves."""
    served, strangers = access.clients_max + access.peers_max, host.strangers_max + access.links_wanted_max
    if host.streams_max < served:
        raise UsageError(
            f"[host] streams_max: {host.streams_max} is less than clients_max and peers_max of [access] together, "
            f"{served}; raise it, or lower those"
        )
    if access.strangers_max < strangers:
        raise UsageError(
            f"[access] strangers_max: {access.strangers_max} is less than strangers_max of [host] and links_wanted_max "
            f"together, {strangers}; raise it, or lower those"
        )


SPANS = (
    "stranger_patience",
    "connect_timeout",
    "handshake_timeout",
    "backoff_first",
    "backoff_max",
    "heartbeat_period",
    "silence_max",
    "drain_timeout",
    "turn",
)
COUNTS = (
    "inbox_max",
    "queue_messages_max",
    "write_buffer_bytes",
    "streams_max",
    "address_connections_max",
    "strangers_max",
    "datagram_bytes_max",
    "compute_workers",
    "computations_max",
    "learned_max",
    "saves_max",
)
