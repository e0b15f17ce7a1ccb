"""Rates: what comes, what TCP would take, and who gets how much of it.

**The response function.** A flow that loses a share p of its events (counted in loss events, below) and whose answers
take a round trip of t seconds is as fast as a TCP connection would be if it sends

    T = 1 / (t (sqrt(2 p / 3) + 12 sqrt(3 p / 8) p (1 + 32 p p)))        events a second

Without losses there is no limit. Sizes do not occur: an event is what TCP calls a packet (G-16).

**Loss intervals.** Losses come in bursts, and what slows a sender down should be the bursts: all losses within one
round trip are one *loss event*. A *loss interval* is the number of events received from one loss event to the next; the
loss event rate p is 1 over the mean of the last few. Of those the newest count most (weights 1, 1, 1, 1, .8, .6, .4,
.2), and the interval that is still open counts as soon as it raises the mean: so a long time without losses speeds a
flow up before the next loss closes it. The plain mean of closed intervals stands beside it as a baseline.

A receiver does not see every loss. What it has not received and no publication record tells about may have been for it
or not. An event behind such a gap counts only with the probability that nothing was lost,

    (1 - rho) ^ uncovered        rho: the share of the publisher's events that are for us

or, as the two baselines say, fully (optimistic), or as a loss (pessimistic).

What comes later than ordering would wait for it seemed lost and was not. If all losses of the last loss event come
after all, that event is taken back.

The first interval says little, since it begins before the flow had found its rate. In its place may stand another one
(`paced.py`, G-17).

**Meters.** Counting is all that is done for an event. The rate is asked for once in a round trip; then the count of
that moment is kept, and those older than the window go. So the window is as exact as the asking is frequent.

**Shares.** One rate for several flows, max-min: each flow gets what it has, unless that is more than an equal part of
what is left; the flows that want least are served first, and what they leave is divided among the rest. With priorities
a part is not equal but as large as its weight says (F-9).

Source: the transport specification, 3.6.1, 3.6.2, 3.7.3.
"""

import math
from collections import deque
from collections.abc import Sequence

from tidings.protocols.transport.params import CongestionParams

LOSS_MIN = 1e-9
"""Loss rates below this are not told apart from it when the function is inverted."""

HALVINGS = 60
"""Steps of the search for a loss rate: each halves what is open, of nine decades."""


def cost_of_loss(p: float) -> float:
    """Round trips per event: the part of the response function that depends on losses only."""
    return math.sqrt(2.0 * p / 3.0) + 12.0 * math.sqrt(3.0 * p / 8.0) * p * (1.0 + 32.0 * p * p)


def allowed_rate(p: float, round_trip: float) -> float:
    """Events a second; infinity where nothing is lost."""
    return 1.0 / (round_trip * cost_of_loss(p)) if p > 0.0 else math.inf


def loss_rate_at(rate: float, round_trip: float) -> float:
    """The loss event rate at which `allowed_rate` is `rate`; between LOSS_MIN and 1."""
    if rate <= 0.0:
        return 1.0
    wanted = 1.0 / (rate * round_trip)
    low, high = LOSS_MIN, 1.0
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        if cost_of_loss(middle) < wanted:
            low = middle
        else:
            high = middle
    return math.sqrt(low * high)


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


MOMENTS_MAX = 64
"""Moments that are kept: more than reports fit in a window; if they come faster, the window is shorter."""

SPAN_MIN = 0.01
"""Seconds below which a count says nothing about a rate."""


class Meter:
    __slots__ = ("count", "moments", "rate")

    def __init__(self, now: float) -> None:
        self.count = 0
        self.moments: deque[tuple[float, int]] = deque([(now, 0)], maxlen=MOMENTS_MAX)
        self.rate = 0.0
        """As of the last measurement."""

    def measure(self, now: float, window: float) -> float:
        """Over the last `window` seconds, or since the meter is there."""
        moments = self.moments
        while len(moments) > 1 and now - moments[1][0] >= window:
            moments.popleft()
        since, count = moments[0]
        if now - since >= SPAN_MIN:
            self.rate = (self.count - count) / (now - since)
        if now > moments[-1][0]:
            moments.append((now, self.count))
        return self.rate


def share_max_min(rates: Sequence[float], total: float, weights: Sequence[float]) -> list[float]:
    """What each may have, in the order of `rates`; together `total`, or all that they want if that is less."""
    shares = [0.0] * len(rates)
    remaining, weight_left = total, sum(weights)
    for place in sorted(range(len(rates)), key=lambda place: rates[place] / weights[place]):
        part = remaining * weights[place] / weight_left
        shares[place] = min(rates[place], part)
        remaining = max(0.0, remaining - shares[place])
        weight_left -= weights[place]
    return shares
