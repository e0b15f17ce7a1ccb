"""How often a stream loses something: loss events, and the events received between them.

Losses come in bursts, and what slows a sender down should be the bursts: all losses within one round trip are one *loss
event*. A *loss interval* is the number of events received from one loss event to the next; the loss event rate p is 1
over the mean of the last few. Of those the newest count most (weights 1, 1, 1, 1, .8, .6, .4, .2), and the interval
that is still open counts as soon as it raises the mean: so a long time without losses speeds a flow up before the next
loss closes it. The plain mean of closed intervals stands beside it as a baseline.

A receiver does not see every loss. What it has not received and no publication record tells about may have been for it
or not. An event behind such a gap counts only with the probability that nothing was lost,

    (1 - rho) ^ uncovered        rho: the share of the publisher's events that are for us

or, as the two baselines say, fully (optimistic), or as a loss (pessimistic).

What comes later than ordering would wait for it seemed lost and was not. If all losses of the last loss event come
after all, that event is taken back.

The first interval says little, since it begins before the flow had found its rate. In its place may stand another one
(`sessions.py`, G-17).

Source: the transport specification, 3.6.2.
"""

from collections import deque

from tidings.protocols.transport.params import CongestionParams

BLAMED_MAX = 1000
"""Losses of one loss event that are remembered by number. If there are more, all of them will hardly come late."""


def weights_of(count: int) -> tuple[float, ...]:
    """TFRC's: 1 for the newer half, then falling in equal steps."""
    half = count // 2
    return tuple(1.0 if place < half else 1.0 - (place - half + 1) / (count - half + 1) for place in range(count))


class LossIntervals:
    """Of one stream."""

    __slots__ = ("before", "blamed", "closed", "event_at", "is_weighted", "open", "owed", "uncovered_gap", "weights")

    def __init__(self, params: CongestionParams) -> None:
        self.open = 0.0
        """The interval since the last loss event, in events."""
        self.closed: deque[float] = deque(maxlen=params.loss_events)
        """Newest first."""
        self.event_at: float | None = None
        """When the last loss event began."""
        self.blamed: dict[int, None] = {}
        """The losses of the last loss event."""
        self.before: tuple[float | None, float] = (None, 0.0)
        """The beginning of the loss event before the last one, and the interval between them."""
        self.owed = 0
        """Events behind gaps in which something seemed lost. They count if it comes after all."""
        self.is_weighted = params.intervals == "weighted"
        self.uncovered_gap = params.uncovered_gap
        self.weights = weights_of(params.loss_events) if self.is_weighted else (1.0,) * params.loss_events

    def arrived_late(self) -> None:
        """After a later one."""
        if self.owed:
            self.owed -= 1
            self.open += 1.0
        self.open += 1.0

    def take_back(self, sequence: int) -> None:
        """What was taken for lost has come. If no other loss was seen at that time, there was none."""
        del self.blamed[sequence]
        if not self.blamed and self.closed:
            self.closed.popleft()
            self.event_at, interval = self.before
            self.open += interval

    def arrived_behind(self, uncovered: int, relevant: int, rho: float) -> bool:
        """An event behind a gap; True if the gap itself is to be taken for a loss."""
        if relevant:
            self.owed += 1
        elif not uncovered or self.uncovered_gap == "optimistic":
            self.open += 1.0
        elif self.uncovered_gap == "fractional":
            self.open += (1.0 - rho) ** uncovered
        else:
            return True
        return False

    def lost(self, now: float, round_trip: float, first: float | None = None, sequence: int = -1) -> bool:
        """One event is lost; True if a loss event begins with it. `first` is used for the first interval."""
        self.owed = 0
        if self.event_at is not None and now - self.event_at < round_trip:
            if self.blamed and len(self.blamed) < BLAMED_MAX:
                self.blamed[sequence] = None
            return False
        self.blamed, self.before = {sequence: None}, (self.event_at, self.open)
        is_first = self.event_at is None and first is not None
        self.closed.appendleft(first if is_first and first is not None else max(1.0, self.open))
        self.event_at, self.open = now, 1.0
        return True

    @property
    def mean(self) -> float | None:
        """None before the first loss."""
        if not self.closed:
            return None
        closed = weighted_mean(self.closed, self.weights)
        if not self.is_weighted:
            return closed
        newest = [self.open, *self.closed][: len(self.weights)]
        return max(closed, weighted_mean(newest, self.weights))

    @property
    def loss_event_rate(self) -> float:
        mean = self.mean
        return 0.0 if mean is None else min(1.0, 1.0 / mean)


def weighted_mean(values: deque[float] | list[float], weights: tuple[float, ...]) -> float:
    total = weight_total = 0.0
    for value, weight in zip(values, weights, strict=False):
        total += value * weight
        weight_total += weight
    return total / weight_total
