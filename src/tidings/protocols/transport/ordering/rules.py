"""What to wait for, and how long: which entries of a publication record are for us, and how late they may come.

**How long**: the distribution of delay differences. The problem. Event n is here, n - 1 is not. It may be lost, or
slower. How much slower can it be? The two clocks know nothing of each other, so a delay cannot be measured; the
*difference* of two delays can, because the offset of the clocks is in both:

    x = (arrival of a - arrival of b) - (departure of a - departure of b) = delay of a - delay of b

The idea. Delay in a broker is nearly exponential, so the difference of two delays through one broker has a Laplace
distribution, and through several brokers it is a sum of such. Sums of more than two have no closed form, and the sum of
two fits well enough up to eight. Its density, distribution and mean size are

    f(x) = (|x| + b) / (4 b^2) e^(-|x|/b)        F(x) = 1 - (2b + x) / (4b) e^(-x/b)  for x >= 0        E|x| = 3b/2

so the scale b is estimated by beta = 2/3 of the mean |x| over the last `samples` differences. An event that was sent
delta before the one at hand comes later than tau from now with probability 1 - F(tau + delta); so we wait for

    tau = c beta - delta,        c = F^-1(1 - P_t) / b = -(W(-4 P_t / e^2) + 2),        W the lower branch of Lambert's

with P_t the share of errors that is allowed. That is the form `exact`. Three forms were printed, each with another
sign; the one of the appendix, b (2 - W), amounts to 4b more. It waits longer and keeps nearly everything in order,
where the exact one does what P_t says, which in a dense stream is less than users expect. Both can be had, and what
they do is measured in tests/scenarios/test_transport_ordering.py.

Two other models need no such distribution. Chebyshev's inequality holds for any: a symmetric x exceeds t with
probability at most var / (2 t^2). The empirical one takes the quantile of the samples themselves; since x is symmetric,
x > t is half as likely as |x| > t.

A clock that is set makes one sample absurd. It is left out if it is above a second and ten times the scale; three in a
row are no clock, they are the network.

**What**: our filters as Bloom rows. A record says of each event only its Bloom row. An event that one of our filters
matches has all bits of at least one of the filter's conjunctions (`matching/bloom.py`); so a row that lacks some bit of
each of them is certainly not ours, and any other may be. The rows of our filters are computed when the application
subscribes; what a row means is remembered, for events repeat themselves.

Two rows say nothing: 0, which publishers write for events with too many attributes, and one with more than `FILL_MAX`
of its bits set, which would seem to be for everybody. Whoever accepts every event by his bits wants those too; for all
others they are as if the record did not reach so far.

Where rows tell ranges (`rows.py`), a row must also have some step of each range that a conjunction asks for.

Source: the transport specification, 3.3.2 to 3.3.6, X-1, X-4, G-9.
"""

import math
from collections.abc import Callable

from tidings.matching.bloom import FILL_MAX, BloomProfile, fill_of
from tidings.model.filter import Filter
from tidings.protocols.transport.headers import Data
from tidings.protocols.transport.params import OrderingParams
from tidings.protocols.transport.rows import Masks, may_be_in, range_masks, rows_of_filter

APPENDIX_SCALES = 4.0
"""What the appendix' form adds to the exact one, in units of b."""

ITERATIONS_MAX = 50
PRECISION = 1e-14

STEP_MIN = 1.0
STEP_SCALES = 10.0
"""A difference above both, the second in units of beta, is a clock that was set."""
STEPS_MAX = 2
"""In a row; what comes then is believed."""


def lower_lambert(z: float) -> float:
    """W with W e^W = z and W <= -1, for -1/e <= z < 0."""
    if z > -0.1:
        first = math.log(-z)
        second = math.log(-first)
        w = first - second + second / first
    else:
        p = -math.sqrt(max(0.0, 2.0 * (1.0 + math.e * z)))
        w = -1.0 + p - p * p / 3.0 + 11.0 / 72.0 * p**3
    for _ in range(ITERATIONS_MAX):
        power = math.exp(w)
        error = w * power - z
        slope = power * (w + 1.0)
        if not slope:
            return w
        # Halley's step: Newton's, corrected by the curvature.
        step = error / (slope - (w + 2.0) * error / (2.0 * w + 2.0))
        w -= step
        if abs(step) < PRECISION * abs(w):
            return w
    return w


def probability(x: float, scale: float) -> float:
    """F(x): that a difference is at most x."""
    size = abs(x)
    tail = (2.0 * scale + size) / (4.0 * scale) * math.exp(-size / scale)
    return 1.0 - tail if x >= 0 else tail


def quantile(p: float, scale: float) -> float:
    """The x with F(x) = p, for 0.5 <= p < 1."""
    return -scale * (lower_lambert(4.0 * math.exp(-2.0) * (p - 1.0)) + 2.0)


class DelayDifferences:
    """Sizes of the last `size` differences of delays, and their sum."""

    __slots__ = ("place", "size", "steps", "total", "values")

    def __init__(self, size: int) -> None:
        self.size = size
        self.values: list[float] = []
        self.place = 0
        self.total = 0.0
        self.steps = 0
        """Differences in a row that were taken for a clock that was set."""

    def push(self, difference: float) -> None:
        """Its size counts, not its sign."""
        value = difference if difference >= 0.0 else -difference
        if value > STEP_MIN and self.is_step(value):
            return
        self.steps = 0
        values, place = self.values, self.place
        if len(values) < self.size:
            values.append(value)
            self.total += value
            return
        self.total += value - values[place]
        values[place] = value
        place += 1
        if place == self.size:
            # What rounding left in the running sum is gone once a round.
            self.place, self.total = 0, math.fsum(values)
        else:
            self.place = place

    def is_step(self, value: float) -> bool:
        if self.values and value > STEP_SCALES * self.scale and self.steps < STEPS_MAX:
            self.steps += 1
            return True
        return False

    @property
    def scale(self) -> float:
        """beta; 0 before the first sample."""
        return 2.0 * self.total / (3.0 * len(self.values)) if self.values else 0.0

    def resized(self, size: int) -> "DelayDifferences":
        """The newest samples, as many as fit."""
        made = DelayDifferences(size)
        for value in (self.values[self.place :] + self.values[: self.place])[-size:]:
            made.values.append(value)
        made.total = math.fsum(made.values)
        return made


Model = Callable[[DelayDifferences], float]
"""How much later than another an event may come, in seconds, with the share of errors that is allowed."""


def model_of(params: OrderingParams) -> Model:
    violation = params.violation
    match params.latch_model:
        case "laplace2":
            factor = latch_factor(violation, params.quantile)
            return lambda delays: factor * delays.scale
        case "chebyshev":
            return lambda delays: chebyshev_quantile(delays.values, violation)
        case "empirical":
            return lambda delays: empirical_quantile(delays.values, violation)


def latch_factor(violation: float, form: str) -> float:
    """c: the quantile in units of the scale."""
    exact = quantile(1.0 - violation, 1.0)
    return exact + APPENDIX_SCALES if form == "appendix" else exact


def chebyshev_quantile(sizes: list[float], violation: float) -> float:
    if not sizes:
        return 0.0
    variance = math.fsum(size * size for size in sizes) / len(sizes)
    return math.sqrt(variance / (2.0 * violation))


def empirical_quantile(sizes: list[float], violation: float) -> float:
    if not sizes:
        return 0.0
    place = math.ceil((1.0 - 2.0 * violation) * len(sizes))
    return sorted(sizes)[place - 1] if place else 0.0


MEANINGS_MAX = 4096
"""Rows whose meaning is remembered; when there are more, all are forgotten."""

Subscriptions = tuple[int, ...]


class WantedRows:
    """The filters of this node that want order."""

    def __init__(self, profile: BloomProfile, topic_attribute: str = "", tells_ranges: bool = False) -> None:
        self.profile, self.topic_attribute, self.tells_ranges = profile, topic_attribute, tells_ranges
        self.filters: dict[int, Filter] = {}
        self.listening: dict[int, float] = {}
        """For each of them since when."""
        self.rows: dict[int, tuple[int, ...]] = {}
        self.ranges: dict[int, dict[int, tuple[tuple[Masks, ...], ...]]] = {}
        """For each subscription and row the ranges of the conjunctions that have this row."""
        self.unlimited: Subscriptions = ()
        """Those that want every event, as far as bits can say."""
        self.meanings: dict[int, Subscriptions | None] = {}
        self.passed_over: set[bytes] = set()
        """Rows as they stand in records, of events that are for none of us."""

    def add(self, subscription: int, filter: Filter, now: float = 0.0) -> bool:
        """Whether this is news."""
        if self.filters.get(subscription) == filter:
            return False
        self.listening[subscription] = now
        self.filters[subscription] = filter
        self.prepare(subscription, filter)
        self.changed()
        return True

    def prepare(self, subscription: int, filter: Filter) -> None:
        self.rows[subscription] = rows_of_filter(filter, self.profile, self.topic_attribute)
        self.ranges.pop(subscription, None)
        if not self.tells_ranges:
            return
        by_row: dict[int, list[tuple[Masks, ...]]] = {}
        for conjunction in filter.conjunctions:
            (row,) = rows_of_filter(Filter((conjunction,)), self.profile, self.topic_attribute)
            by_row.setdefault(row, []).append(range_masks(conjunction, self.profile))
        if any(masks for ranges in by_row.values() for masks in ranges):
            self.ranges[subscription] = {row: tuple(ranges) for row, ranges in by_row.items()}

    def remove(self, subscription: int) -> bool:
        if self.filters.pop(subscription, None) is None:
            return False
        del self.rows[subscription], self.listening[subscription]
        self.ranges.pop(subscription, None)
        self.changed()
        return True

    def changed(self) -> None:
        without_ranges = {
            subscription: rows for subscription, rows in self.rows.items() if subscription not in self.ranges
        }
        self.unlimited = tuple(subscription for subscription, rows in without_ranges.items() if 0 in rows)
        self.meanings.clear()
        self.passed_over.clear()

    def configure(self, profile: BloomProfile, topic_attribute: str = "", tells_ranges: bool = False) -> None:
        if (profile, topic_attribute, tells_ranges) == (self.profile, self.topic_attribute, self.tells_ranges):
            return
        self.profile, self.topic_attribute, self.tells_ranges = profile, topic_attribute, tells_ranges
        for subscription, filter in self.filters.items():
            self.prepare(subscription, filter)
        self.changed()

    def is_passed_over(self, header: Data, most: int) -> bool:
        """Whether none of the newest `most` entries of a record is for us. This is asked for each event that we get of
        a stream of which we want a part, so no entry is made a value for it."""
        if header.is_compressed or header.row_bytes != self.profile.size_bytes:
            return False
        record, width, passed_over = header.record, 4 + header.row_bytes, self.passed_over
        for place in range(4, most * width, width):
            row = record[place : place + width - 4]
            if row in passed_over:
                continue
            if self.matching(int.from_bytes(row, "little")) != ():
                return False
            if len(passed_over) >= MEANINGS_MAX:
                passed_over.clear()
            passed_over.add(row)
        return True

    def matching(self, bits: int) -> Subscriptions | None:
        """The subscriptions that an event of this row may be for; None where the row does not say."""
        try:
            return self.meanings[bits]
        except KeyError:
            pass
        if len(self.meanings) >= MEANINGS_MAX:
            self.meanings.clear()
        meaning = self.meanings[bits] = self.read(bits)
        return meaning

    def read(self, bits: int) -> Subscriptions | None:
        if not self.is_readable(bits):
            return self.unlimited or None
        return tuple(
            subscription
            for subscription, rows in self.rows.items()
            if any(bits & row == row and self.may_be_in_range(subscription, row, bits) for row in rows)
        )

    def may_be_in_range(self, subscription: int, row: int, bits: int) -> bool:
        ranges = self.ranges.get(subscription)
        if ranges is None:
            return True
        return any(all(may_be_in(bits, masks) for masks in conjunction) for conjunction in ranges[row])

    def is_readable(self, bits: int) -> bool:
        return bits != 0 and fill_of(bits, self.profile) <= FILL_MAX
