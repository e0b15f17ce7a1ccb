"""What can be seen of recovery from outside."""

from typing import TYPE_CHECKING

import msgspec

from tidings.protocols.transport.signals import Stream

if TYPE_CHECKING:
    from tidings.protocols.transport.recovery.recovery import Recovery


class StreamOverview(msgspec.Struct, frozen=True):
    stream: Stream
    cache_size: int
    """K: the events that are kept at most."""
    entries: int
    requests: int
    """Requests heard for what we have, or once had."""
    hits: int
    group: int
    distance: float


class RecoveryOverview(msgspec.Struct, frozen=True):
    streams: tuple[StreamOverview, ...]
    asked_for: int
    """Losses that we ask for now."""
    requests_sent: int
    requests_heard: int
    repairs_sent: int
    repairs_heard: int
    repairs_suppressed: int
    repairs_refused: int
    """For being too many."""
    recovered: int
    given_up: int
    mistaken: int
    """Repairs of what seemed to be for us by its Bloom row, and was not."""


def overview_of(recovery: "Recovery") -> RecoveryOverview:
    streams = tuple(
        StreamOverview(
            stream,
            state.ring.capacity,
            len(state.ring.order),
            state.requests_heard,
            state.hits,
            state.group_size,
            recovery.distance(stream),
        )
        for stream, state in recovery.streams.items()
    )
    return RecoveryOverview(
        streams,
        len(recovery.losses.asking.losses),
        recovery.losses.asking.sent,
        recovery.requests_heard,
        recovery.answering.sent,
        recovery.repairs_heard,
        recovery.answering.suppressed,
        recovery.answering.refused,
        recovery.recovered_count,
        recovery.losses.given_up,
        recovery.mistaken,
    )
