"""What a receiver knows of one publisher: how fast its flows come, what is lost, and what of each it can take.

Once in a round trip the rate that TCP would have (`rates.py`) is compared with what came:

    more came     the allowed rate is divided among our flows by max-min; those that get less than they have are cut
    less came     flows that we limit may grow, by a share `alpha` of what they have, and together not beyond the
                  allowed rate; the others are left alone

An event that belongs to several of our flows counts in each of them, since the publisher takes a token of each; it
counts once in what came altogether. Where flows overlap, what is divided is therefore larger by the same factor.

We limit a flow when the publisher says so: its events name the flow and its limiting receiver.

**What a receiver wants, cut into flows.** A publisher tells flows apart by Bloom rows, and a row stands for one
conjunction: an event of the flow has all of its bits. So each conjunction of a filter is a flow of its own;
conjunctions with equal rows are the same one. A filter of very many conjunctions is one flow whose row has the bits
that all of them share, and is then wider than the filter.

For an event we know the subscriptions that it came for, and need the flows. Where every filter has one conjunction that
is a table (`FlowInterests.of`, remembered for each combination of subscriptions); where one has several, the attributes
of the event are read.

Source: the transport specification, 3.7.2 and 3.7.3.
"""

import math

import msgspec
import xxhash

from tidings.matching.bloom import BloomProfile, bits_of_tags, filter_bits_cover, tags_of_filter
from tidings.model.bounds import ASKED_FILTER_BYTES_MAX
from tidings.model.errors import UsageError
from tidings.model.filter import Filter
from tidings.model.language.parser import parse
from tidings.model.sets.conjunction import Conjunction
from tidings.model.values import Value
from tidings.protocols.transport.congestion.rates import LossIntervals, Meter, allowed_rate, loss_rate_at, share_max_min
from tidings.protocols.transport.headers import Data
from tidings.protocols.transport.messages import FlowReport
from tidings.protocols.transport.params import CongestionParams
from tidings.protocols.transport.rows import kept
from tidings.protocols.transport.signals import Stream
from tidings.pubsub.publications import BadPublication, read_head

CONJUNCTIONS_MAX = 16
"""Flows of one filter; beyond it there is one for all."""

REMEMBERED_MAX = 1024
"""Combinations of subscriptions whose flows are remembered."""

WEIGHT_MIN, WEIGHT_MAX = 1e-3, 1e3
"""Priorities further apart would leave one side nothing."""


class FlowInterest(msgspec.Struct, frozen=True):
    """A flow that we want. `text` is its filter, where flows are compared by filters and not by bits."""

    flow: int
    bits: int
    text: str = ""
    priority: float = 1.0


def flow_of(bits: int, text: str, size_bytes: int) -> int:
    """The number of a flow: the same for all who want it."""
    return xxhash.xxh32_intdigest(bits.to_bytes(size_bytes, "little") + text.encode())


def interests_of(
    filter: Filter, profile: BloomProfile, priority: float = 1.0, is_exact: bool = False, topic_attribute: str = ""
) -> tuple[FlowInterest, ...]:
    """In the order of the conjunctions. Filters that match nothing have none."""
    parts: list[tuple[int, Filter]]
    rows = [bits_of_tags(kept(tags, topic_attribute), profile) for tags in tags_of_filter(filter)]
    if len(rows) > CONJUNCTIONS_MAX:
        common = rows[0]
        for row in rows:
            common &= row
        parts = [(common, filter)]
    else:
        parts = [(row, Filter((part,), filter.residual)) for row, part in zip(rows, filter.conjunctions, strict=True)]
    priority = min(WEIGHT_MAX, max(WEIGHT_MIN, priority))
    found = []
    for bits, part in parts:
        text = part.text() if is_exact else ""
        if len(text.encode()) > ASKED_FILTER_BYTES_MAX:
            text = ""
        found.append(FlowInterest(flow_of(bits, text, profile.size_bytes), bits, text, priority))
    return tuple(found)


class FlowInterests:
    """Of the paced subscriptions of this node."""

    def __init__(self) -> None:
        self.subscriptions: dict[int, tuple[Filter, tuple[FlowInterest, ...]]] = {}
        self.remembered: dict[tuple[int, ...], tuple[FlowInterest, ...] | None] = {}
        """None: it depends on the event."""

    def put(self, subscription: int, filter: Filter, interests: tuple[FlowInterest, ...]) -> None:
        self.subscriptions[subscription] = filter, interests
        self.remembered.clear()

    def remove(self, subscription: int) -> None:
        self.subscriptions.pop(subscription, None)
        self.remembered.clear()

    def flows(self) -> dict[int, FlowInterest]:
        """All that are wanted; where several subscriptions want the same, with the highest priority."""
        found: dict[int, FlowInterest] = {}
        for _, interests in self.subscriptions.values():
            for interest in interests:
                known = found.get(interest.flow)
                if known is None or known.priority < interest.priority:
                    found[interest.flow] = interest
        return found

    def is_paced(self, subscriptions: tuple[int, ...]) -> bool:
        """Is it for a paced subscription? Without subscriptions nobody knows, and it is taken for one."""
        return not subscriptions or any(number in self.subscriptions for number in subscriptions)

    def of(self, subscriptions: tuple[int, ...], head: bytes) -> tuple[FlowInterest, ...]:
        """The flows of an event that came for these, each once."""
        if subscriptions not in self.remembered:
            if len(self.remembered) >= REMEMBERED_MAX:
                self.remembered.clear()
            self.remembered[subscriptions] = self.find(subscriptions)
        known = self.remembered[subscriptions]
        return self.read(subscriptions, head) if known is None else known

    def find(self, subscriptions: tuple[int, ...]) -> tuple[FlowInterest, ...] | None:
        found: dict[int, FlowInterest] = {}
        for number in subscriptions:
            if number in self.subscriptions:
                _, interests = self.subscriptions[number]
                if len(interests) > 1:
                    return None
                found.update((interest.flow, interest) for interest in interests)
        return tuple(found.values())

    def read(self, subscriptions: tuple[int, ...], head: bytes) -> tuple[FlowInterest, ...]:
        try:
            attributes = read_head(head).attributes
        except BadPublication:
            return ()
        found: dict[int, FlowInterest] = {}
        for number in subscriptions:
            filter, interests = self.subscriptions.get(number, (None, ()))
            if filter is None:
                continue
            if len(interests) == 1:
                found[interests[0].flow] = interests[0]
                continue
            for conjunction, interest in zip(filter.conjunctions, interests, strict=True):
                if accepts(conjunction, attributes):
                    found[interest.flow] = interest
        return tuple(found.values())


def accepts(conjunction: Conjunction, attributes: dict[str, Value]) -> bool:
    return all(constraint.accepts(attributes.get(constraint.name)) for constraint in conjunction)


SAME_QUOTA = 1e-6
"""Share by which two quotas differ that are the same on the wire."""

QUOTA_MIN = 0.5
"""Events a second below which no flow is held: without events nobody would learn that there is room again (G-26)."""

ROUND_TRIP_FIRST = 0.5
"""Seconds within which losses are one loss event while no round trip is known."""

START_GROWTH = 1.0
"""Growth in a round trip during slow start: a flow doubles."""

SEEN_BITS = 32
"""Numbers before the highest of which an acknowledgement tells."""
SEEN_MASK = (2 << SEEN_BITS) - 1


def quota_floor(round_trip: float) -> float:
    """One event in a round trip, as TCP has; never less than QUOTA_MIN."""
    return max(QUOTA_MIN, 1.0 / round_trip) if round_trip > 0.0 else QUOTA_MIN


class PacedFlow:
    """One of our flows, from one publisher."""

    __slots__ = ("interest", "is_limiting", "meter", "quota", "refrained", "refreshed")

    def __init__(self, interest: FlowInterest, now: float) -> None:
        self.interest = interest
        self.meter = Meter(now)
        self.is_limiting = False
        """Whether the publisher says that we limit this flow."""
        self.quota = math.inf
        self.refreshed: tuple[int, float] = (0, 0.0)
        """The receiver that limits this flow, and the travel of its last feedback, as the publisher told."""
        self.refrained = 0
        """Reports in a row that we left to others (F-4)."""


class PacedStream:
    def __init__(self, stream: Stream, now: float, params: CongestionParams) -> None:
        self.stream, self.params = stream, params
        self.rows: dict[int, PacedFlow] = {}
        """By flow."""
        self.routes: dict[tuple[int, ...], tuple[PacedFlow, ...]] = {}
        """The rows of events that came for these subscriptions, where no event needs to be read for it."""
        self.meter = Meter(now)
        """Of all that is paced, each event once."""
        self.intervals = LossIntervals(params)
        self.round_trip = 0.0
        """0: not known."""
        self.last = -1
        self.joined = -1
        self.is_last_paced = False
        """Whether the last event that came behind a gap was one of a paced subscription."""
        self.seen = 0
        """Bit i: number `last - i` has come."""
        self.publish_rate = 0.0
        self.is_first_open = True
        """No loss so far that was followed by a known round trip."""
        self.ticks_idle = 0
        self.count_at_tick = 0
        self.limiting_count = 0
        self.reported_at = -math.inf
        self.waiting: dict[int, tuple[int, float]] = {}
        """Flows whose report waits, and who had limited each by then (F-4)."""

    @property
    def window(self) -> float:
        return max(self.params.meter_window, self.round_trip)

    @property
    def period(self) -> float:
        return max(self.params.tick_min, self.round_trip)

    @property
    def allowed(self) -> float:
        """What TCP would have, events a second."""
        return allowed_rate(self.intervals.loss_event_rate, self.round_trip) if self.round_trip else math.inf

    def rho(self) -> float:
        """The share of the publisher's events that are for us: of what it says to send, or else of its numbers."""
        if self.publish_rate > 0.0 and self.meter.rate > 0.0:
            return min(1.0, self.meter.rate / self.publish_rate)
        return min(1.0, self.meter.count / max(1, self.last - self.joined + 1))

    def arrived(self, sequence: int, is_paced: bool) -> None:
        """Which numbers came. What comes behind a gap counts when ordering has told what the gap is."""
        step = sequence - self.last
        if step == 1:
            self.seen = (self.seen << 1 | 1) & SEEN_MASK
            self.last = sequence
            if is_paced:
                self.intervals.open += 1.0
        elif step > 1:
            self.seen = (self.seen << min(step, SEEN_BITS + 1) | 1) & SEEN_MASK
            self.last, self.is_last_paced = sequence, is_paced
        else:
            if step >= -SEEN_BITS:
                self.seen |= 1 << -step
            if is_paced:
                self.intervals.arrived_late()
        if self.params.takes_back and sequence in self.intervals.blamed:
            self.intervals.take_back(sequence)
            self.is_first_open = self.is_first_open or not self.intervals.closed

    def hear_marks(self, rows: tuple[PacedFlow, ...], header: Data, node_id: int) -> None:
        """Do we limit the flows of this event? Those that its header does not list, we do not (G-20)."""
        named = {mark.flow: mark for mark in header.flows}
        for row in rows:
            mark = named.get(row.interest.flow)
            is_limiting = mark is not None and mark.limiting == node_id
            if mark is not None:
                row.refreshed = (mark.limiting, mark.feedback_travel)
            if is_limiting != row.is_limiting:
                row.is_limiting = is_limiting
                self.limiting_count += 1 if is_limiting else -1

    def lose(self, now: float, sequence: int = -1) -> bool:
        """Something is lost; True if a loss event begins."""
        first = self.first_interval(now, self.intervals.open) if self.is_first_open and self.round_trip else None
        is_event = self.intervals.lost(now, self.round_trip or ROUND_TRIP_FIRST, first, sequence)
        if is_event and self.round_trip:
            self.is_first_open = False
        return is_event

    def learn_round_trip(self, now: float, seconds: float) -> bool:
        """True if it is the first one. Losses that came before it are now worth an interval."""
        is_first, self.round_trip = not self.round_trip, seconds
        if is_first and self.intervals.closed and self.is_first_open:
            measured = sum(self.intervals.closed)
            self.intervals.closed.clear()
            self.intervals.closed.append(self.first_interval(now, measured))
            self.is_first_open = False
        return is_first

    def first_interval(self, now: float, measured: float) -> float:
        """What stands for the time before the first loss: as long as lets us have half of what came (G-17). Where so
        much was received without a loss that it would allow more, then more, but not beyond what came."""
        rate = self.meter.measure(now, self.window)
        half, whole = (1.0 / loss_rate_at(rate / part, self.round_trip) for part in (2.0, 1.0))
        return half if self.params.first_interval == "half" else max(half, min(whole, measured))

    # Once in a round trip.

    def assess(self, now: float) -> tuple[float, float]:
        """Sets the quota of each row; returns the allowed rate and what came."""
        rows = list(self.rows.values())
        total = self.meter.measure(now, self.window)
        rates = [row.meter.measure(now, self.window) for row in rows]
        allowed = self.allowed
        if allowed < total:
            overlap = sum(rates) / total if self.params.scales_overlap else 1.0
            weights = [row.interest.priority for row in rows]
            for row, share in zip(rows, share_max_min(rates, allowed * overlap, weights), strict=True):
                row.quota = share
        elif allowed > total:
            self.grow(rows, allowed, total)
        return allowed, total

    def grow(self, rows: list[PacedFlow], allowed: float, total: float) -> None:
        is_starting = self.is_starting
        growth = START_GROWTH if is_starting else self.params.alpha
        growing = [row for row in rows if row.is_limiting or is_starting]
        for row in rows:
            row.quota = row.meter.rate
        for row in growing:
            row.quota += min(growth * row.meter.rate, (allowed - total) / len(growing))

    @property
    def is_starting(self) -> bool:
        return self.params.slow_start and not self.intervals.closed

    def reported(self) -> list[PacedFlow]:
        """Rows that the publisher must hear of: that we limit, or that come faster than we can take; none that
        another one of them covers with no higher quota (T-98b)."""
        is_starting = self.is_starting
        rows = [
            row
            for row in self.rows.values()
            if row.is_limiting or row.quota < row.meter.rate or (is_starting and row.meter.rate > 0.0)
        ]
        if len(rows) < 2:
            return rows
        floor = quota_floor(self.period)
        return [
            row
            for place, row in enumerate(rows)
            if not any(is_included(row, other, other_place < place, floor) for other_place, other in enumerate(rows))
        ]

    def report_of(self, row: PacedFlow) -> FlowReport:
        interest, floor = row.interest, quota_floor(self.period)
        return FlowReport(interest.flow, max(floor, row.quota), interest.bits, interest.text)


def is_included(row: PacedFlow, other: PacedFlow, is_earlier: bool, floor: float) -> bool:
    """Does `other` cover `row`, with no higher quota? Of two equal ones the earlier stays."""
    if other is row or not covers(other.interest, row.interest):
        return False
    quota, other_quota = max(floor, row.quota), max(floor, other.quota)
    if math.isclose(other_quota, quota, rel_tol=SAME_QUOTA):
        return is_earlier or not covers(row.interest, other.interest)
    return other_quota < quota


def covers(wide: FlowInterest, narrow: FlowInterest) -> bool:
    if wide.text and narrow.text:
        wide_filter, narrow_filter = parsed(wide.text), parsed(narrow.text)
        if wide_filter is not None and narrow_filter is not None:
            return wide_filter.covers(narrow_filter)
    return filter_bits_cover(wide.bits, narrow.bits)


def parsed(text: str) -> Filter | None:
    """None for what is no filter."""
    try:
        return parse(text)
    except UsageError:
        return None
