"""Congestion control under anything that may happen: reports of liars, any order of events, any losses."""

from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.desk import Desk
from tidings.machine.effects import Drop, Effect
from tidings.matching.bloom import BloomProfile, bits_of_event
from tidings.model.event import Event
from tidings.model.language.parser import parse
from tidings.protocols.transport.congestion.flows import FlowTable, ReceiverClaim
from tidings.protocols.transport.congestion.paced import FlowInterest, covers, flow_of, interests_of
from tidings.protocols.transport.congestion.rates import LossIntervals, allowed_rate, loss_rate_at, share_max_min
from tidings.protocols.transport.congestion.receiver import Receiver
from tidings.protocols.transport.congestion.sender import Sender
from tidings.protocols.transport.headers import Data, FlowMark
from tidings.protocols.transport.marks import Kind
from tidings.protocols.transport.messages import Acknowledgement, Feedback, FlowReport, decode_control
from tidings.protocols.transport.params import CongestionParams, TransportParams
from tidings.protocols.transport.signals import (
    Admitted,
    CarriedEvent,
    Configure,
    Departed,
    EventLost,
    GapSeen,
    Heard,
    Leaving,
    Listen,
    RoundTrip,
    StopListening,
    Stream,
    StreamGone,
    Told,
)
from tidings.pubsub.publications import encode_head

PROFILE = BloomProfile(bits=64)
TEXTS = ("TRUE", "a = 1", "b = 1", "a = 1 AND b = 1", "a = 2", "a = 1 AND c = 1", "b < 5")
EVENTS: tuple[dict[str, Any], ...] = (
    {"a": 1},
    {"a": 1, "b": 1},
    {"b": 1},
    {"a": 2},
    {"a": 1, "b": 1, "c": 1},
    {"d": 1},
)
rates = st.floats(0.0, 1e7)
seeds = st.integers(0, 2**48)


@given(st.lists(st.floats(0.0, 1e6), max_size=12), st.floats(0.0, 1e7), seeds)
@pytest.mark.spec("T-78")
def test_max_min_gives_all_there_is_and_nobody_more_than_it_has(wants: list[float], total: float, seed: int) -> None:
    rng = Random(seed)
    weights = [rng.choice((0.5, 1.0, 3.0)) for _ in wants]
    shares = share_max_min(wants, total, weights)
    assert all(0.0 <= share <= want for share, want in zip(shares, wants, strict=True))
    assert sum(shares) == pytest.approx(min(total, sum(wants)), rel=1e-9, abs=1e-6)
    cut = [share / weight for share, want, weight in zip(shares, wants, weights, strict=True) if share < want]
    assert max(cut, default=0.0) <= min(cut, default=0.0) * (1 + 1e-6) + 1e-9
    for share, want, weight in zip(shares, wants, weights, strict=True):
        if share == want and cut:
            assert share / weight <= min(cut) * (1 + 1e-6) + 1e-9


@given(st.floats(1e-8, 1.0), st.floats(0.001, 3.0))
@pytest.mark.spec("T-70")
def test_more_losses_and_longer_round_trips_are_slower(p: float, round_trip: float) -> None:
    rate = allowed_rate(p, round_trip)
    assert allowed_rate(min(1.0, p * 1.01), round_trip) <= rate
    assert allowed_rate(p, round_trip * 1.01) < rate
    assert loss_rate_at(rate, round_trip) == pytest.approx(p, rel=1e-5)


@given(st.lists(st.tuples(st.sampled_from(["in_order", "late", "gap", "lost"]), st.integers(0, 40)), max_size=200))
def test_a_loss_event_rate_is_a_share(happenings: list[tuple[str, int]]) -> None:
    history, now = LossIntervals(CongestionParams()), 0.0
    for what, number in happenings:
        now += number / 100.0
        match what:
            case "in_order":
                history.open += 1.0
            case "late":
                history.arrived_late()
                if number in history.blamed:
                    history.take_back(number)
            case "gap":
                history.arrived_behind(number, number % 3, 0.3)
            case "lost":
                history.lost(now, 0.1, sequence=number)
        assert 0.0 <= history.loss_event_rate <= 1.0
        assert history.owed >= 0 and len(history.closed) <= 8


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, len(TEXTS) - 1), st.integers(1, 9)), max_size=60),
    st.booleans(),
)
@pytest.mark.spec("T-83", "T-84", "T-86", "T-87")
def test_the_table_holds_no_row_that_another_makes_superfluous(
    reports: list[tuple[int, int, int]], is_exact: bool
) -> None:
    congestion = CongestionParams(covering="exact" if is_exact else "bits")
    table = FlowTable(TransportParams(is_paced=True, profile=PROFILE, congestion=congestion))
    for place, (who, text, level) in enumerate(reports):
        (interest,) = interests_of(parse(TEXTS[text]), PROFILE, is_exact=is_exact)
        before = {key: (row.limiting, row.quota) for key, row in table.rows.items()}
        report = FlowReport(interest.flow, level * 10.0, interest.bits, interest.text)
        assert not isinstance(table.report(float(place), ReceiverClaim(who, who, 0.0, 0.1), report, report.quota), str)
        rows = list(table.rows.values())
        for row in rows:
            assert not any(table.covers(other, row) and other.quota < row.quota for other in rows if other is not row)
            limiting, quota = before.get(row.key, (who, row.quota))
            assert row.quota <= quota or limiting == who, "only its limiting receiver raises a rate"
        covering = [row.quota for row in rows if table.covers(row, probe_of(table, report, is_exact))]
        assert covering and min(covering) <= report.quota, "what was reported is kept to"


def probe_of(table: FlowTable, report: FlowReport, is_exact: bool) -> Any:
    from tidings.protocols.transport.congestion.flows import LimitedFlow

    key, filter = table.key_of(report)
    return LimitedFlow(key, report.bits, filter, 0.0)


class Gate(Desk[Sender]):
    """A sender under test: what was given to it and what became of each."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        congestion = CongestionParams(
            queue_max=rng.choice((1, 3, 50)),
            overflow=rng.choice(("drop_oldest", "drop_newest")),
            covering=rng.choice(("bits", "exact")),
            control=rng.choice(("equation", "equation", "window")),
            limiting_header=rng.choice(("list", "single")),
            acknowledgements=rng.random() < 0.3,
            slow_start=rng.random() < 0.3,
            flows_max=rng.choice((2, 4096)),
        )
        self.params = TransportParams(is_paced=True, profile=PROFILE, congestion=congestion)
        self.given: dict[int, dict[str, Any]] = {}
        self.left: list[Any] = []
        self.dropped: list[Any] = []
        self.sequence = 0
        super().__init__(Sender(7, self.params, Random(seed)))

    def perform(self, effect: Effect) -> None:
        match effect:
            case Admitted(outgoing):
                self.left.append(outgoing.ticket)
                if outgoing.kind is Kind.DATA:
                    self.sequence += 1
                    header = Data(7, self.sequence, self.now)
                    self.handle(Departed(self.sequence, header, outgoing.head, b"", outgoing.bits))
            case Drop(Leaving() as outgoing, _):
                self.dropped.append(outgoing.ticket)

    def step(self) -> None:
        rng = self.rng
        match rng.choices(("publish", "report", "nonsense", "wait", "acknowledge", "configure"), (50, 15, 8, 20, 6, 1))[
            0
        ]:
            case "publish":
                ticket = len(self.given)
                attributes = self.given[ticket] = rng.choice(EVENTS)
                bits = bits_of_event(Event(attributes), PROFILE)
                kind = rng.choice((Kind.DATA, Kind.DATA, Kind.DATA, Kind.REPAIR))
                self.handle(Leaving(kind, encode_head(attributes), b"", bits, ticket))
            case "report":
                is_exact = self.params.congestion.covering == "exact"
                (interest,) = interests_of(parse(rng.choice(TEXTS)), PROFILE, is_exact=is_exact)
                report = FlowReport(interest.flow, rng.choice((0.0, 20.0, 100.0, 1e6)), interest.bits, interest.text)
                is_release = rng.random() < 0.1
                self.tell(Feedback(rng.randrange(4), 7, self.now, 0.05, (report,), 8, is_release))
            case "nonsense":
                bits = rng.getrandbits(rng.choice((4, 64, 100)))
                text = rng.choice(("", "a = ", "a = 1"))
                size_bytes = 8 if bits < 2**64 else 16
                flow = flow_of(bits, text, size_bytes) if rng.random() < 0.5 else rng.getrandbits(32)
                report = FlowReport(flow, rng.choice((0.0, 1e-30, 1e7)), bits, text)
                stamp = rng.choice((0.0, self.now, 1e9, 9e12))
                round_trip = rng.choice((0.0, 1e-9, 3600.0))
                self.tell(Feedback(rng.getrandbits(32), rng.choice((7, 7, 8)), stamp, round_trip, (report,) * 3, 8))
            case "wait":
                self.advance(self.now + rng.choice((0.0, 0.001, 0.01, 0.1, 1.0, 7.0)))
            case "acknowledge":
                flows = [state.flow for state in self.machine.states()] or [1]
                numbers = rng.randrange(2**32) if rng.random() < 0.3 else self.sequence, rng.randrange(100)
                self.tell(Acknowledgement(rng.randrange(4), 7, rng.choice(flows), *numbers, rng.getrandbits(32)))
            case "configure":
                self.handle(Configure(self.params))

    def tell(self, message: Any) -> None:
        self.handle(Told(message, CarriedEvent(b"", b"")))


@given(seeds)
@pytest.mark.spec("T-95")
def test_everything_leaves_once_or_is_dropped_and_flows_keep_their_order(seed: int) -> None:
    gate = Gate(seed)
    for _ in range(120):
        gate.step()
    gate.advance(gate.now + 30.0)
    gate.advance(gate.now + 300.0)
    assert sorted(gate.left + gate.dropped) == sorted(gate.given), "all flows have ended, so nothing waits"
    assert len(set(gate.left)) == len(gate.left)


@given(seeds)
@pytest.mark.spec("T-89", "T-95")
def test_events_of_one_flow_never_overtake_each_other(seed: int) -> None:
    gate = Gate(seed)
    gate.handle(Configure(TransportParams(is_paced=True, profile=PROFILE, congestion=CongestionParams(queue_max=500))))
    texts = ("a = 1", "b = 1")
    for place, text in enumerate(texts):
        (interest,) = interests_of(parse(text), PROFILE)
        gate.tell(Feedback(place, 7, 0.0, 0.05, (FlowReport(interest.flow, 30.0, interest.bits),), 8))
    for ticket in range(80):
        attributes = gate.given[ticket] = gate.rng.choice(EVENTS)
        bits = bits_of_event(Event(attributes), PROFILE)
        gate.handle(Leaving(Kind.DATA, encode_head(attributes), b"", bits, ticket))
        gate.advance(gate.now + gate.rng.choice((0.0, 0.0, 0.01)))
    gate.advance(gate.now + 4.0)
    for text in texts:
        filter = parse(text)
        flow = [ticket for ticket in gate.left if filter.matches(Event(gate.given[ticket]))]
        assert flow == sorted(flow)
        assert flow == [ticket for ticket, attributes in gate.given.items() if filter.matches(Event(attributes))]


class Ear(Desk[Receiver]):
    """A receiver under test, with its timers."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        congestion = CongestionParams(
            suppression=rng.random() < 0.3,
            slow_start=rng.random() < 0.3,
            acknowledgements=rng.random() < 0.3,
            covering=rng.choice(("bits", "exact")),
            uncovered_gap=rng.choice(("fractional", "pessimistic", "optimistic")),
        )
        super().__init__(Receiver(9, TransportParams(profile=PROFILE, congestion=congestion), Random(seed)))
        self.streams: list[Stream] = [("p", 1), ("", 2)]
        self.sequences = dict.fromkeys(self.streams, 0)
        self.feedback: list[tuple[float, Feedback]] = []

    def perform(self, effect: Effect) -> None:
        match effect:
            case Leaving(Kind.FEEDBACK, _, payload):
                message, _ = decode_control(payload)
                assert isinstance(message, Feedback)
                self.feedback.append((self.now, message))

    def step(self) -> None:
        rng, stream = self.rng, self.rng.choice(self.streams)
        sequence = self.sequences[stream]
        match rng.choices(
            ("hear", "gap", "lost", "round_trip", "wait", "listen", "stop", "gone"), (50, 8, 8, 5, 25, 6, 2, 1)
        )[0]:
            case "hear":
                step = rng.choice((1, 1, 1, 2, 7, -2))
                self.sequences[stream] = sequence = max(0, sequence + step)
                numbers = tuple(sorted(rng.sample(range(len(TEXTS)), rng.randrange(4))))
                flows = [
                    row.interest.flow for session in self.machine.sessions.values() for row in session.rows.values()
                ]
                marks = tuple(FlowMark(flow, rng.choice((9, 9, 3)), 0.01) for flow in flows if rng.random() < 0.5)
                header = Data(stream[1], sequence, self.now, rng.choice((0.0, 100.0, 1e7)), bool(marks), marks)
                head = rng.choice((encode_head(rng.choice(EVENTS)), b"", b"\xff"))
                self.handle(Heard(stream, sequence, header, CarriedEvent(head, b"", subscriptions=numbers)))
            case "gap":
                self.handle(GapSeen(stream, sequence, 5, rng.choice((0, 3, 5)), rng.choice((0, 0, 1))))
            case "lost":
                self.handle(EventLost(stream, sequence, 0, self.now, rng.choice(((), (1,), (99,)))))
            case "round_trip":
                self.handle(RoundTrip(stream, rng.choice((1e-6, 0.03, 0.2, 5.0))))
            case "wait":
                self.advance(self.now + rng.choice((0.0, 0.005, 0.05, 0.5)))
            case "listen":
                number = rng.randrange(len(TEXTS))
                is_paced = rng.random() < 0.8
                self.handle(Listen(number, parse(TEXTS[number]), is_paced=is_paced, priority=rng.choice((1.0, 5.0))))
            case "stop":
                self.handle(StopListening(rng.randrange(len(TEXTS))))
            case "gone":
                self.handle(StreamGone(stream))


def interest_of(report: FlowReport) -> FlowInterest:
    return FlowInterest(report.flow, report.bits, report.filter)


@given(seeds)
@pytest.mark.spec("T-98", "T-98b")
def test_reports_are_rare_sensible_and_not_superfluous(seed: int) -> None:
    ear = Ear(seed)
    for number in range(len(TEXTS)):
        ear.handle(Listen(number, parse(TEXTS[number]), is_paced=True))
    for _ in range(200):
        ear.step()
    times: dict[int, list[float]] = {}
    for now, message in ear.feedback:
        assert all(0.5 <= report.quota <= 1e7 for report in message.reports)
        if message.is_release:
            continue
        times.setdefault(message.publisher, []).append(now)
        for one in message.reports:
            for other in message.reports:
                if one is not other and covers(interest_of(other), interest_of(one)):
                    assert other.quota > one.quota
    for moments in times.values():
        assert all(later - earlier >= 0.02 - 1e-9 for earlier, later in pairwise(moments))
