"""How a flow is kept to its rate: what the sender asks whoever controls it, and the token bucket.

    Controller      may an event of this flow leave now, and if not, when? What has left; what was reported
    TokenBuckets    the equation: receivers say the rate, the publisher keeps to it
    Windows         (window.py) the alternative: the publisher finds out itself, by what is acknowledged

A token bucket fills at the flow's quota and holds what may go in one round trip, at least two: events come in clusters,
and a flow that was idle for a moment may catch up.

With acknowledgements (F-3a) the publisher knows exactly what its limiting receiver lost, and lowers the quota to what
TCP would have with those losses. It never raises it: the receiver may know of reasons that we do not see.
"""

from typing import Protocol

from tidings.protocols.transport.buckets import Bucket
from tidings.protocols.transport.congestion.flows import Key, LimitedFlow
from tidings.protocols.transport.congestion.rates import LossIntervals, allowed_rate, loss_rate_at
from tidings.protocols.transport.congestion.window import FlowLedger
from tidings.protocols.transport.formats import Acknowledgement
from tidings.protocols.transport.params import CongestionParams

BUCKET_MIN = 2.0
"""Tokens that a bucket holds at least."""

WAIT_MIN = 1e-4
"""Seconds to the next question, at least; flows that are faster send several at a time."""


class Controller(Protocol):
    def added(self, row: LimitedFlow, now: float) -> None: ...

    def reported(self, row: LimitedFlow, now: float) -> None:
        """Its quota, or its limiting receiver, is another."""

    def removed(self, row: LimitedFlow) -> None: ...

    def is_ready(self, row: LimitedFlow, now: float) -> bool: ...

    def ready_at(self, row: LimitedFlow, now: float) -> float:
        """When to ask again; infinity if only an acknowledgement helps."""

    def take(self, row: LimitedFlow, now: float) -> None: ...

    def departed(self, row: LimitedFlow, sequence: int, now: float) -> None: ...

    def acknowledged(self, row: LimitedFlow, message: Acknowledgement, now: float) -> int:
        """How many were lost."""

    def deadline(self) -> float | None:
        """When `check_deadlines` must be asked, though nothing happens."""

    def check_deadlines(self, now: float) -> list[Key]:
        """Rows whose events were given up, so that others may leave."""

    def rate_of(self, row: LimitedFlow) -> float: ...


class TokenBuckets:
    def __init__(self, params: CongestionParams) -> None:
        self.params = params
        self.watched: dict[Key, tuple[FlowLedger, LossIntervals]] = {}
        """Flows whose losses are known exactly."""

    def added(self, row: LimitedFlow, now: float) -> None:
        row.bucket = Bucket(now, row.quota, BUCKET_MIN)

    def reported(self, row: LimitedFlow, now: float) -> None:
        self.fill(row, now)

    def removed(self, row: LimitedFlow) -> None:
        self.watched.pop(row.key, None)

    def fill(self, row: LimitedFlow, now: float) -> None:
        bucket = row.bucket
        bucket.rate = self.rate_of(row) if self.watched else row.quota
        bucket.depth = max(BUCKET_MIN, bucket.rate * row.round_trip)
        bucket.fill(now)

    def is_ready(self, row: LimitedFlow, now: float) -> bool:
        if now > row.bucket.filled_at:
            self.fill(row, now)
        return row.bucket.has_token

    def ready_at(self, row: LimitedFlow, now: float) -> float:
        if self.is_ready(row, now):
            return now
        row.bucket.rate = self.rate_of(row)
        return max(now + WAIT_MIN, row.bucket.next_at)

    def take(self, row: LimitedFlow, now: float) -> None:
        row.bucket.tokens -= 1.0

    def rate_of(self, row: LimitedFlow) -> float:
        watched = self.watched.get(row.key) if self.watched else None
        if watched is None or not row.round_trip:
            return row.quota
        return min(row.quota, allowed_rate(watched[1].loss_event_rate, row.round_trip))

    # Acknowledgements.

    def departed(self, row: LimitedFlow, sequence: int, now: float) -> None:
        if not self.params.acknowledgements:
            return
        if row.key not in self.watched:
            self.watched[row.key] = FlowLedger(), LossIntervals(self.params)
        self.watched[row.key][0].departed(sequence, now)

    def acknowledged(self, row: LimitedFlow, message: Acknowledgement, now: float) -> int:
        watched = self.watched.get(row.key)
        if watched is None:
            return 0
        ledger, intervals = watched
        arrived, lost = ledger.acknowledge(message)
        self.fill(row, now)
        intervals.open += len(arrived)
        for _ in lost:
            first = 1.0 / loss_rate_at(row.quota / 2.0, row.round_trip) if row.round_trip else None
            intervals.lost(now, row.round_trip, first)
        return len(lost)

    def deadline(self) -> float | None:
        return None

    def check_deadlines(self, now: float) -> list[Key]:
        return []
