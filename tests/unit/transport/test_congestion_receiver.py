"""The subscriber's side of congestion control: what counts, what is reported, when, to whom (transport 3.6, 3.7)."""

from random import Random
from typing import Any

import pytest

from tests.worlds.desk import Desk
from tidings.machine.effects import Effect, SetTimer
from tidings.machine.inputs import Fired
from tidings.model.language.parser import parse
from tidings.model.values import Value
from tidings.protocols.transport.congestion.paced import interests_of
from tidings.protocols.transport.congestion.receiver import Receiver
from tidings.protocols.transport.headers import Data, FlowMark
from tidings.protocols.transport.marks import Kind, unmark
from tidings.protocols.transport.messages import Acknowledgement, Feedback, decode_control
from tidings.protocols.transport.params import CongestionParams, TransportParams
from tidings.protocols.transport.signals import (
    CarriedEvent,
    EventLost,
    GapSeen,
    Heard,
    Leaving,
    Listen,
    RoundTrip,
    StopListening,
    Stream,
    StreamGone,
)
from tidings.pubsub.notes import FeedbackSent, LossEvent
from tidings.pubsub.publications import decode_head, encode_head

ME, PUBLISHER = 9, 7
STREAM: Stream = ("p", PUBLISHER)
ROUND_TRIP = 0.1


class ReceiverDesk(Desk[Receiver]):
    """A receiver; the test says what comes and when. Subscription n wants `kind = n`."""

    def __init__(self, subscriptions: int = 1, round_trip: float = ROUND_TRIP, **congestion: Any) -> None:
        self.params = TransportParams(congestion=CongestionParams(**congestion))
        super().__init__(Receiver(ME, self.params, Random(1)))
        self.sequence = 0
        for number in range(1, subscriptions + 1):
            self.listen(number, f"kind = {number}")
        self.round_trip = round_trip

    def listen(self, number: int, text: str, **how: Any) -> list[Effect]:
        return self.handle(Listen(number, parse(text), is_paced=True, **how))

    def flow(self, text: str) -> int:
        (interest,) = interests_of(parse(text), self.params.profile)
        return interest.flow

    def hear(
        self,
        subscriptions: tuple[int, ...] = (1,),
        sequence: int | None = None,
        flows: tuple[FlowMark, ...] = (),
        rate: float = 0.0,
        head: bytes = b"\x80",
    ) -> list[Effect]:
        self.sequence = self.sequence + 1 if sequence is None else sequence
        header = Data(PUBLISHER, self.sequence, self.now, rate, bool(flows), flows)
        return self.handle(Heard(STREAM, self.sequence, header, CarriedEvent(head, b"", subscriptions=subscriptions)))

    def mark(self, number: int = 1, limiting: int = ME) -> FlowMark:
        return FlowMark(self.flow(f"kind = {number}"), limiting, 0.05)

    def stream(
        self, rates: dict[int, int], seconds: float = 1.0, limited: tuple[int, ...] = (), loses: bool = False
    ) -> None:
        """Events of each subscription at its rate for so long, at even distances; the last tick is left to the test."""
        if not self.machine.sessions:
            self.hear((next(iter(rates)),))
            self.handle(RoundTrip(STREAM, self.round_trip))
        begin = self.now
        times = sorted(
            (begin + (place + 1) / rate, number)
            for number, rate in rates.items()
            for place in range(int(rate * seconds))
        )
        ticks = [begin + ROUND_TRIP * (place + 1) for place in range(round(seconds / ROUND_TRIP) - 1)]
        for time, number in sorted([*times, *((tick, 0) for tick in ticks)]):
            self.now = time
            if number:
                self.hear((number,), flows=(self.mark(number),) if number in limited else ())
            else:
                self.handle(Fired(("tick", STREAM)))
        self.now = begin + seconds

    def tick(self) -> list[Effect]:
        return self.handle(Fired(("tick", STREAM)))

    def lose(self) -> list[Effect]:
        return self.handle(EventLost(STREAM, self.sequence, 0, self.now, (1,)))

    @property
    def session(self) -> Any:
        return self.machine.sessions[STREAM]


def feedback_in(effects: list[Effect]) -> list[Feedback]:
    found = []
    for effect in effects:
        if isinstance(effect, Leaving) and effect.kind is Kind.FEEDBACK:
            message, _ = decode_control(effect.payload)
            assert isinstance(message, Feedback)
            found.append(message)
    return found


def quotas_in(effects: list[Effect]) -> dict[int, float]:
    return {report.flow: report.quota for message in feedback_in(effects) for report in message.reports}


@pytest.mark.spec("T-98c", "T-72", "T-71")
def test_the_worked_example_of_the_loss_interval() -> None:
    desk = ReceiverDesk()
    desk.hear(sequence=10, rate=100.0)
    desk.handle(RoundTrip(STREAM, 0.1))
    intervals = desk.session.intervals
    assert intervals.open == 1.0
    desk.hear(sequence=11, rate=100.0)
    assert intervals.open == 2.0
    desk.hear(sequence=14, rate=100.0)
    desk.handle(GapSeen(STREAM, 14, 2, 0, 0))
    assert intervals.open == 3.0
    desk.session.meter.rate = 10.0
    desk.hear(sequence=20, rate=100.0)
    desk.handle(GapSeen(STREAM, 20, 5, 3, 0))
    assert intervals.open == pytest.approx(3.729)
    desk.session.is_first_open = False
    desk.now = 1.0
    desk.hear(sequence=23, rate=100.0)
    desk.handle(GapSeen(STREAM, 23, 2, 0, 1))
    (note,) = desk.handle(EventLost(STREAM, 21, 0, 0.9, (1,)))
    assert isinstance(note, LossEvent) and note.publisher == "p"
    assert list(intervals.closed) == [pytest.approx(3.729)]
    assert intervals.open == 1.0
    desk.now = 1.05
    desk.hear(sequence=25, rate=100.0)
    desk.handle(GapSeen(STREAM, 25, 1, 0, 1))
    assert desk.handle(EventLost(STREAM, 24, 0, 1.0, (1,))) == []
    assert intervals.open == 1.0
    assert len(intervals.closed) == 1


@pytest.mark.spec("T-73")
def test_rho_is_what_we_receive_of_what_is_published() -> None:
    desk = ReceiverDesk()
    desk.stream({1: 20})
    desk.tick()
    desk.hear(rate=200.0)
    assert desk.session.rho() == pytest.approx(desk.session.meter.rate / 200.0)
    assert desk.session.meter.rate == pytest.approx(20.0, rel=0.2)


@pytest.mark.spec("T-77")
def test_a_tick_comes_once_in_a_round_trip_and_for_each_publisher() -> None:
    desk = ReceiverDesk(round_trip=0.25)
    desk.hear()
    assert desk.handle(RoundTrip(STREAM, 0.25)) == [SetTimer(("tick", STREAM), 0.25)]
    desk.now = 0.25
    desk.hear()
    assert desk.tick()[0] == SetTimer(("tick", STREAM), 0.5)
    other: Stream = ("q", 8)
    header = Data(8, 1, 0.0)
    desk.handle(Heard(other, 1, header, CarriedEvent(b"\x80", b"", subscriptions=(1,))))
    assert desk.handle(RoundTrip(other, 0.1)) == [SetTimer(("tick", other), 0.35)]


@pytest.mark.spec("T-77")
def test_ticks_are_never_closer_than_their_least_distance() -> None:
    desk = ReceiverDesk()
    desk.hear()
    assert desk.handle(RoundTrip(STREAM, 0.001)) == [SetTimer(("tick", STREAM), 0.02)]


def test_ticks_grow_rare_while_nothing_comes_and_come_back_with_the_first_event() -> None:
    desk = ReceiverDesk()
    desk.stream({1: 10})
    waits = []
    for _ in range(6):
        (timer, *_) = desk.tick()
        waits.append(round(timer.at - desk.now, 6))
        desk.now = timer.at
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert SetTimer(("tick", STREAM), desk.now + 0.1) in desk.hear()


@pytest.mark.spec("T-78", "T-81")
def test_what_is_too_much_is_cut_where_most_comes() -> None:
    desk = ReceiverDesk(subscriptions=3)
    desk.stream({1: 10, 2: 40, 3: 150}, seconds=2.0)
    desk.session.intervals.closed.extend([1.0 / loss_for(120.0)])
    desk.session.intervals.open = 1.0
    quotas = quotas_in(desk.tick())
    assert list(quotas) == [desk.flow("kind = 3")]
    small, middle, large = (desk.session.rows[desk.flow(f"kind = {number}")] for number in (1, 2, 3))
    assert (small.quota, middle.quota) == (small.meter.rate, middle.meter.rate)
    assert large.quota == pytest.approx(70.0, rel=0.1) and large.meter.rate == pytest.approx(150.0, rel=0.1)
    assert small.quota + middle.quota + large.quota == pytest.approx(desk.session.allowed)
    assert desk.session.allowed == pytest.approx(120.0)


def loss_for(rate: float) -> float:
    from tidings.protocols.transport.congestion.rates import loss_rate_at

    return loss_rate_at(rate, ROUND_TRIP)


@pytest.mark.spec("T-79", "T-81")
def test_flows_that_we_limit_grow_by_a_share_of_what_they_have() -> None:
    desk = ReceiverDesk(subscriptions=2)
    desk.stream({1: 10, 2: 40}, seconds=2.0, limited=(1,))
    desk.session.intervals.closed.extend([1.0 / loss_for(1000.0)])
    quotas = quotas_in(desk.tick())
    rows = {row.interest.flow: row for row in desk.session.rows.values()}
    first, second = rows[desk.flow("kind = 1")], rows[desk.flow("kind = 2")]
    assert quotas == {desk.flow("kind = 1"): pytest.approx(1.5 * first.meter.rate)}
    assert second.quota == second.meter.rate


@pytest.mark.spec("T-79")
def test_flows_that_we_limit_divide_what_is_left() -> None:
    desk = ReceiverDesk(subscriptions=2)
    desk.stream({1: 100, 2: 40}, seconds=2.0, limited=(1, 2))
    total = desk.session.meter.rate
    desk.session.intervals.closed.extend([1.0 / loss_for(total + 10.0)])
    desk.session.intervals.open = 1.0
    before = {row.interest.flow: row.meter.rate for row in desk.session.rows.values()}
    quotas = quotas_in(desk.tick())
    left = desk.session.allowed - desk.session.meter.rate
    after = {row.interest.flow: row.meter.rate for row in desk.session.rows.values()}
    assert before.keys() == quotas.keys()
    for flow, quota in quotas.items():
        assert quota == pytest.approx(after[flow] + left / 2.0, rel=1e-5)


@pytest.mark.spec("T-80", "T-81")
def test_who_limits_nothing_and_gets_no_more_than_is_fair_is_silent() -> None:
    desk = ReceiverDesk(subscriptions=2)
    desk.stream({1: 10, 2: 40}, seconds=1.0)
    desk.session.intervals.closed.extend([1.0 / loss_for(1000.0)])
    assert feedback_in(desk.tick()) == []


@pytest.mark.spec("T-80")
def test_who_loses_nothing_is_silent() -> None:
    desk = ReceiverDesk()
    desk.stream({1: 500}, seconds=1.0)
    assert [type(effect) for effect in desk.tick()] == [SetTimer]


def test_the_limiting_flag_follows_the_header() -> None:
    desk = ReceiverDesk()
    desk.hear()
    (row,) = desk.session.rows.values()
    for flows, is_limiting in (
        ((desk.mark(),), True),
        ((desk.mark(limiting=4),), False),
        ((FlowMark(1, ME, 0.0), desk.mark()), True),
        ((), False),
    ):
        desk.hear(flows=flows)
        assert row.is_limiting is is_limiting


@pytest.mark.spec("T-98")
def test_there_is_one_report_in_a_round_trip_and_none_for_a_loss_by_itself() -> None:
    desk = ReceiverDesk()
    desk.stream({1: 100}, seconds=1.0, limited=(1,))
    effects: list[Effect] = []
    for _ in range(20):
        desk.now += 0.001
        effects += desk.hear(flows=(desk.mark(),)) + desk.lose()
    assert feedback_in(effects) == []
    effects = desk.tick()
    assert len(feedback_in(effects)) == 1
    assert [note.publisher for note in effects if isinstance(note, FeedbackSent)] == ["p"]
    assert min(effect.at for effect in effects if isinstance(effect, SetTimer)) >= desk.now + ROUND_TRIP - 1e-9


def test_feedback_is_addressed_to_the_publisher() -> None:
    desk = ReceiverDesk()
    desk.stream({1: 100}, seconds=0.5, limited=(1,))
    (sent,) = [effect for effect in desk.tick() if isinstance(effect, Leaving)]
    head, kind = unmark(sent.head)
    assert kind is Kind.FEEDBACK
    assert decode_head(head) == {"tidings_to": PUBLISHER}
    (message,) = feedback_in([sent])
    assert (message.subscriber, message.publisher) == (ME, PUBLISHER)
    assert message.sent == pytest.approx(desk.now)
    assert message.round_trip == pytest.approx(ROUND_TRIP)


@pytest.mark.spec("T-98b")
def test_of_two_flows_one_inside_the_other_only_the_wider_is_reported() -> None:
    desk = ReceiverDesk(subscriptions=0)
    desk.listen(1, "news = 'sport'")
    desk.listen(2, "news = 'sport' AND team = 'Y'")
    desk.hear((1, 2))
    desk.handle(RoundTrip(STREAM, ROUND_TRIP))
    for _ in range(200):
        desk.now += 0.005
        desk.hear((1, 2))
    desk.session.intervals.closed.extend([1.0 / loss_for(50.0)])
    desk.session.intervals.open = 1.0
    quotas = quotas_in(desk.tick())
    assert list(quotas) == [desk.flow("news = 'sport'")]


def test_an_event_of_two_flows_counts_once_in_what_comes() -> None:
    desk = ReceiverDesk(subscriptions=2)
    desk.hear((1, 2))
    desk.handle(RoundTrip(STREAM, ROUND_TRIP))
    for _ in range(100):
        desk.now += 0.01
        desk.hear((1, 2))
    desk.tick()
    assert desk.session.meter.rate == pytest.approx(100.0, rel=0.02)
    assert [row.meter.rate for row in desk.session.rows.values()] == pytest.approx([100.0, 100.0], rel=0.02)


def test_a_filter_with_alternatives_is_a_flow_for_each_of_them() -> None:
    desk = ReceiverDesk(subscriptions=0)
    desk.listen(1, "kind = 1 OR size = 2")
    events: tuple[dict[str, Value], ...] = ({"kind": 1}, {"size": 2}, {"kind": 3, "size": 2})
    for attributes in events:
        desk.hear(head=encode_head(attributes))
    counts = {row.interest.flow: row.meter.count for row in desk.session.rows.values()}
    assert counts == {desk.flow("kind = 1"): 1, desk.flow("size = 2"): 2}


def test_priorities_decide_how_much_of_a_cut_a_flow_takes() -> None:
    desk = ReceiverDesk(subscriptions=0)
    desk.listen(1, "kind = 1", priority=3.0)
    desk.listen(2, "kind = 2")
    desk.stream({1: 100, 2: 100}, seconds=2.0)
    desk.session.intervals.closed.extend([1.0 / loss_for(100.0)])
    desk.session.intervals.open = 1.0
    quotas = quotas_in(desk.tick())
    assert quotas[desk.flow("kind = 1")] == pytest.approx(3.0 * quotas[desk.flow("kind = 2")])


def test_no_quota_is_below_one_event_in_a_round_trip() -> None:
    desk = ReceiverDesk()
    desk.stream({1: 200}, seconds=1.0)
    desk.session.intervals.closed.extend([1.0])
    desk.session.intervals.open = 1.0
    assert desk.session.allowed < 1.0
    assert quotas_in(desk.tick()) == {desk.flow("kind = 1"): pytest.approx(10.0)}


def test_a_subscription_that_ends_releases_the_flows_that_it_limits() -> None:
    desk = ReceiverDesk(subscriptions=2)
    desk.stream({1: 10, 2: 10}, seconds=0.5, limited=(1,))
    (message,) = feedback_in(desk.handle(StopListening(1)))
    assert message.is_release
    assert [report.flow for report in message.reports] == [desk.flow("kind = 1")]
    assert desk.handle(StopListening(2)) != []
    assert desk.machine.sessions == {}


@pytest.mark.spec("T-102")
def test_pacing_is_switched_for_each_subscription_at_any_time() -> None:
    desk = ReceiverDesk()
    desk.stream({1: 10}, seconds=0.5, limited=(1,))
    (message,) = feedback_in(desk.handle(Listen(1, parse("kind = 1"), is_paced=False)))
    assert message.is_release
    assert desk.hear() == []
    assert desk.machine.sessions == {}
    desk.listen(1, "kind = 1")
    desk.hear()
    assert list(desk.machine.sessions) == [STREAM]


def test_events_and_losses_of_other_subscriptions_do_not_count() -> None:
    desk = ReceiverDesk()
    desk.hear((1,))
    desk.hear((5,))
    desk.handle(EventLost(STREAM, 1, 0, 0.0, (5,)))
    assert desk.session.meter.count == 1
    assert desk.session.intervals.loss_event_rate == 0.0


def test_losses_before_the_first_round_trip_count_once_it_is_known() -> None:
    desk = ReceiverDesk()
    for _ in range(50):
        desk.now += 0.01
        desk.hear()
    desk.lose()
    desk.handle(RoundTrip(STREAM, ROUND_TRIP))
    assert 0.49 * desk.session.meter.rate <= desk.session.allowed <= 1.01 * desk.session.meter.rate


@pytest.mark.parametrize(("before", "share"), [(10, 0.5), (5000, 1.0)])
def test_the_first_loss_halves_a_young_flow_and_leaves_an_old_one_as_it_is(before: int, share: float) -> None:
    desk = ReceiverDesk()
    desk.hear()
    desk.handle(RoundTrip(STREAM, ROUND_TRIP))
    for _ in range(100):
        desk.now += 0.005
        desk.hear()
    desk.session.intervals.open = float(before)
    desk.lose()
    assert desk.session.allowed == pytest.approx(share * desk.session.meter.rate, rel=0.01)


def test_a_round_trip_may_be_known_before_the_first_event() -> None:
    desk = ReceiverDesk()
    assert desk.handle(RoundTrip(STREAM, 0.2)) == []
    assert desk.hear() == [SetTimer(("tick", STREAM), 0.2)]


def test_an_event_that_comes_after_it_was_given_up_was_no_loss() -> None:
    desk = ReceiverDesk()
    desk.stream({1: 100}, seconds=0.5)
    desk.handle(EventLost(STREAM, desk.sequence + 1, 0, desk.now, (1,)))
    assert desk.session.intervals.loss_event_rate > 0.0
    desk.hear()
    assert desk.session.intervals.loss_event_rate == 0.0
    assert desk.session.intervals.open > 50.0


def test_a_stream_that_is_gone_is_forgotten() -> None:
    desk = ReceiverDesk()
    desk.stream({1: 10}, seconds=0.5)
    desk.handle(StreamGone(STREAM))
    assert desk.machine.sessions == {}
    assert desk.tick() == []


def test_what_can_be_seen() -> None:
    desk = ReceiverDesk()
    desk.stream({1: 100}, seconds=1.0, limited=(1,))
    desk.tick()
    (row,) = desk.machine.states()
    assert (
        row.publisher == STREAM[0]
        and row.is_limiting
        and row.rate == pytest.approx(100.0, rel=0.02)
        and row.quota == pytest.approx(1.5 * row.rate)
    )


def test_with_slow_start_flows_are_reported_from_the_beginning_at_twice_their_rate() -> None:
    desk = ReceiverDesk(slow_start=True)
    desk.stream({1: 100}, seconds=1.0)
    quotas = quotas_in(desk.tick())
    assert quotas == {desk.flow("kind = 1"): pytest.approx(200.0, rel=0.02)}
    desk.lose()
    desk.now += 0.1
    assert desk.session.is_starting is False


def test_a_report_is_left_to_whoever_makes_it_first() -> None:
    desk = ReceiverDesk(suppression=True)
    desk.stream({1: 200}, seconds=1.0)
    desk.session.intervals.closed.extend([1.0 / loss_for(50.0)])
    effects = desk.tick()
    assert feedback_in(effects) == []
    (wait,) = [effect for effect in effects if isinstance(effect, SetTimer) and effect.key == ("report", STREAM)]
    assert desk.now <= wait.at <= desk.now + ROUND_TRIP
    desk.hear(flows=(FlowMark(desk.flow("kind = 1"), 55, 0.03),))
    desk.now = wait.at
    assert desk.handle(Fired(("report", STREAM))) == []


def test_a_report_that_nobody_else_makes_is_made() -> None:
    desk = ReceiverDesk(suppression=True)
    desk.stream({1: 200}, seconds=1.0)
    desk.session.intervals.closed.extend([1.0 / loss_for(50.0)])
    desk.session.intervals.open = 1.0
    desk.tick()
    desk.hear()
    (message,) = feedback_in(desk.handle(Fired(("report", STREAM))))
    assert [report.flow for report in message.reports] == [desk.flow("kind = 1")]


def test_a_limiting_receiver_acknowledges_what_came_and_what_did_not() -> None:
    desk = ReceiverDesk(acknowledgements=True)
    desk.hear(sequence=100)
    assert desk.hear(sequence=101, flows=(desk.mark(limiting=4),)) == []
    (sent,) = desk.hear(sequence=104, flows=(desk.mark(),))
    message, _ = decode_control(sent.payload)
    assert isinstance(message, Acknowledgement)
    assert (message.through, message.received, message.flow) == (104, 3, desk.flow("kind = 1"))
    assert message.missing & 0b1111 == 0b0011
