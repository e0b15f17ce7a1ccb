"""The publisher's side of congestion control: what may leave, what waits, what is withheld (transport 3.7.6, 3.10)."""

import math
from random import Random
from typing import Any, cast

import msgspec
import pytest

from tests.worlds.desk import Desk
from tidings.machine.effects import Deliver, Drop, Effect, Note
from tidings.matching.bloom import bits_of_event
from tidings.model.event import Event
from tidings.model.language.parser import parse
from tidings.model.values import Value
from tidings.protocols.transport.congestion.paced import interests_of
from tidings.protocols.transport.congestion.sender import (
    CONTROL_MAX,
    CONTROL_WITHHELD,
    FORGED_FLOW,
    NOT_FOR_US,
    OTHER_PROFILE,
    TOO_MUCH_FEEDBACK,
    WITHHELD,
    Sender,
)
from tidings.protocols.transport.headers import Data
from tidings.protocols.transport.limits import SHARE_MIN, FeedbackBudget
from tidings.protocols.transport.marks import Kind
from tidings.protocols.transport.messages import Acknowledgement, Feedback, FlowReport
from tidings.protocols.transport.params import CongestionParams, TransportParams
from tidings.protocols.transport.signals import (
    WRITTEN_LATE,
    Admitted,
    CarriedEvent,
    Configure,
    Departed,
    Heard,
    Leaving,
    Listen,
    Quality,
    Told,
    Unneeded,
)
from tidings.pubsub.notes import FlowChanged, Transmitted, Withheld
from tidings.pubsub.publications import encode_head

ME = 7
SPORT: dict[str, Value] = {"news": "sport"}
TEAM: dict[str, Value] = {"team": "Y"}
OTHER: dict[str, Value] = {"news": "weather"}
BOTH = {**SPORT, **TEAM}
ROUND_TRIP = 0.05


class SenderDesk(Desk[Sender]):
    """A sender and its timers; the test says what is to leave and what receivers report."""

    def __init__(self, **congestion: Any) -> None:
        self.params = TransportParams(is_paced=True, congestion=CongestionParams(**congestion))
        self.asked = 0
        self.left: list[tuple[float, Leaving]] = []
        self.sequence = 0
        self.notes: list[Note] = []
        self.drops: list[Drop] = []
        self.qualities: list[Quality] = []
        super().__init__(Sender(ME, self.params, Random(1)))

    def perform(self, effect: Effect) -> None:
        match effect:
            case Admitted(outgoing, flows):
                self.left.append((self.now, outgoing))
                if outgoing.kind is Kind.DATA:
                    self.sequence += 1
                    header = Data(ME, self.sequence, self.now, flows=flows)
                    self.handle(Departed(self.sequence, header, outgoing.head, b"", outgoing.bits))
            case Note():
                self.notes.append(effect)
            case Drop():
                self.drops.append(effect)
            case Deliver(Quality() as quality):
                self.qualities.append(quality)

    def rates(self) -> list[float]:
        """What the application was told of flows; infinite where one is not limited any more."""
        return [quality.value for quality in self.qualities if quality.what == "rate"]

    def outgoing(self, attributes: dict[str, Any], kind: Kind = Kind.DATA, ticket: Any = None) -> Leaving:
        bits = bits_of_event(Event(attributes), self.params.profile)
        if kind in WRITTEN_LATE:
            self.asked += 1
            return Leaving(kind, bits=bits, ticket=self.asked)
        return Leaving(kind, encode_head(attributes), b"", bits, ticket)

    def publish(self, attributes: dict[str, Any] = SPORT, ticket: Any = None) -> list[Effect]:
        return self.handle(self.outgoing(attributes, ticket=ticket))

    def report_of(self, text: str, quota: float) -> FlowReport:
        is_exact = self.params.congestion.covering == "exact"
        (interest,) = interests_of(parse(text), self.params.profile, is_exact=is_exact)
        return FlowReport(interest.flow, quota, interest.bits, interest.text)

    def report(self, who: int, text: str, quota: float, round_trip: float = ROUND_TRIP, **how: Any) -> list[Effect]:
        reports = (self.report_of(text, quota),)
        sent = how.pop("sent", self.now)
        message = Feedback(who, ME, sent, round_trip, reports, self.params.profile.size_bytes, **how)
        return self.handle(Told(message, CarriedEvent(b"", b"")))

    def left_since(self, time: float, kind: Kind = Kind.DATA) -> int:
        return sum(1 for at, outgoing in self.left if at >= time and outgoing.kind is kind)

    def offer(self, attributes: dict[str, Any], rate: float, until: float, keep: Any = None) -> None:
        """At even distances; `keep` is asked now and then."""
        at, place = self.now, 0
        while at + 1.0 / rate <= until:
            at += 1.0 / rate
            place += 1
            self.advance(at)
            self.publish(attributes, ticket=place)
            if keep is not None and place % max(1, int(rate / 10)) == 0:
                keep()
        self.advance(until)


SPORT_TEXT, TEAM_TEXT = "news = 'sport'", "team = 'Y'"


@pytest.mark.spec("T-88")
def test_without_reports_everything_leaves_at_once() -> None:
    desk = SenderDesk()
    event = desk.outgoing(SPORT)
    assert desk.handle(event) == [Admitted(event)]


@pytest.mark.spec("T-88", "T-94")
def test_an_event_of_no_flow_never_waits() -> None:
    desk = SenderDesk()
    desk.report(1, SPORT_TEXT, 20.0)
    desk.offer(SPORT, 500.0, 1.0)
    assert desk.machine.withheld > 0
    event = desk.outgoing(OTHER)
    assert desk.handle(event)[0] == Admitted(event)


@pytest.mark.spec("T-89")
def test_an_event_of_several_flows_takes_a_token_of_each_or_none() -> None:
    desk = SenderDesk()
    desk.report(1, SPORT_TEXT, 1000.0)
    desk.report(2, TEAM_TEXT, 20.0)
    sport, team = desk.machine.table.rows.values()
    assert (sport.bucket.tokens, team.bucket.tokens) == (2.0, 2.0)
    desk.publish(BOTH)
    assert (sport.bucket.tokens, team.bucket.tokens) == (1.0, 1.0)
    desk.publish(BOTH)
    desk.publish(BOTH)
    assert len(desk.left) == 2
    assert (sport.bucket.tokens, team.bucket.tokens) == (0.0, 0.0)
    desk.now = 0.01
    desk.publish(SPORT)
    assert desk.machine.controller.is_ready(sport, desk.now)
    assert len(desk.left) == 2


@pytest.mark.spec("T-90")
@pytest.mark.parametrize("quota", [30.0, 100.0, 437.0])
def test_a_flow_is_no_faster_than_its_quota(quota: float) -> None:
    desk = SenderDesk()
    desk.report(1, SPORT_TEXT, quota)
    desk.offer(SPORT, 900.0, 4.0)
    count = desk.left_since(0.0)
    assert quota * 4.0 * 0.99 <= count <= quota * 4.0 + max(2.0, quota * ROUND_TRIP)


@pytest.mark.spec("T-91")
def test_controlled_events_name_their_flows_and_limiting_receivers() -> None:
    desk = SenderDesk()
    desk.now = 5.0
    desk.report(1, SPORT_TEXT, 100.0, sent=3.0)
    desk.report(2, TEAM_TEXT, 50.0, sent=9.0)
    admitted, note = desk.publish(BOTH)
    assert isinstance(admitted, Admitted)
    assert [(mark.limiting, mark.feedback_travel) for mark in admitted.flows] == [(2, -4.0), (1, 2.0)]
    assert note == Transmitted(admitted.flows[0].flow)
    (admitted, _) = desk.publish(SPORT)
    assert [mark.limiting for mark in admitted.flows] == [1]
    assert desk.publish(OTHER) == [Admitted(desk.outgoing(OTHER))]


@pytest.mark.spec("T-91")
def test_a_single_header_names_only_the_slowest_flow() -> None:
    desk = SenderDesk(limiting_header="single")
    desk.report(1, SPORT_TEXT, 100.0)
    desk.report(2, TEAM_TEXT, 50.0)
    admitted, _ = desk.publish(BOTH)
    assert [mark.limiting for mark in admitted.flows] == [2]


@pytest.mark.spec("T-75")
@pytest.mark.parametrize("offset", [-1000.0, 0.0, 1000.0])
def test_the_travel_of_feedback_cancels_the_difference_of_clocks(offset: float) -> None:
    desk = SenderDesk()
    desk.now = 2000.0
    up, down = 0.03, 0.05
    desk.report(1, SPORT_TEXT, 100.0, sent=desk.now - up + offset)
    admitted, _ = desk.publish(SPORT)
    received_at = desk.now + down + offset
    assert admitted.flows[0].feedback_travel + received_at - desk.now == pytest.approx(up + down)


@pytest.mark.spec("T-92")
def test_a_flow_that_nobody_confirms_is_free_after_the_time_out() -> None:
    desk = SenderDesk()
    desk.report(1, SPORT_TEXT, 20.0)
    desk.offer(SPORT, 100.0, 4.9)
    assert len(desk.machine.states()) == 1
    desk.advance(5.1)
    assert desk.machine.states() == ()
    assert desk.rates()[-1] == math.inf
    before = len(desk.left)
    desk.publish(SPORT)
    assert len(desk.left) == before + 1


@pytest.mark.spec("T-94")
def test_a_disjoint_flow_keeps_its_rate() -> None:
    desk = SenderDesk()
    desk.report(1, SPORT_TEXT, 20.0)
    for place in range(1000):
        desk.advance((place + 1) * 0.002)
        desk.publish(SPORT if place % 2 else TEAM)
    teams = [at for at, outgoing in desk.left if outgoing.head == encode_head(TEAM)]
    assert len(teams) == 500
    assert desk.left_since(0.0) - len(teams) <= 20.0 * 2.0 + 2.0


@pytest.mark.spec("T-95")
def test_each_flow_keeps_its_order_and_others_may_overtake() -> None:
    desk = SenderDesk(queue_max=500)
    desk.report(1, SPORT_TEXT, 25.0)
    desk.report(2, TEAM_TEXT, 60.0)
    for ticket in range(90):
        desk.publish((SPORT, BOTH, TEAM)[ticket % 3], ticket)
    desk.publish(OTHER, 90)
    assert desk.left[-1][1].ticket == 90
    desk.advance(3.9)
    tickets = [cast(int, outgoing.ticket) for _, outgoing in desk.left if outgoing.ticket != 90]
    sport = [ticket for ticket in tickets if ticket % 3 in (0, 1)]
    team = [ticket for ticket in tickets if ticket % 3 in (1, 2)]
    assert len(tickets) == 90
    assert sport == sorted(sport) and team == sorted(team)


@pytest.mark.spec("T-95")
def test_numbers_are_given_to_events_when_they_leave() -> None:
    desk = SenderDesk(queue_max=5)
    desk.report(1, SPORT_TEXT, 20.0)
    for ticket in range(50):
        desk.publish(SPORT, ticket)
    desk.advance(2.0)
    assert desk.sequence == len(desk.left) == 7
    assert desk.machine.withheld == 43


@pytest.mark.parametrize(("overflow", "kept"), [("drop_oldest", [0, 1, 7, 8, 9]), ("drop_newest", [0, 1, 2, 3, 4])])
def test_what_does_not_fit_the_queue_is_withheld(overflow: str, kept: list[int]) -> None:
    desk = SenderDesk(queue_max=3, overflow=overflow)
    desk.report(1, SPORT_TEXT, 20.0)
    for ticket in range(10):
        desk.publish(SPORT, ticket)
    desk.advance(1.0)
    assert [outgoing.ticket for _, outgoing in desk.left] == kept
    assert [drop.reason for drop in desk.drops] == [WITHHELD] * 5
    assert sum(isinstance(note, Withheld) for note in desk.notes) == 5
    assert sum(quality.what == "withheld" for quality in desk.qualities) == 5
    assert desk.machine.withheld == 5


def test_events_wait_in_a_flow_that_covers_theirs_in_the_same_order() -> None:
    desk = SenderDesk()
    desk.report(1, SPORT_TEXT + " AND team = 'Y'", 25.0)
    for ticket in range(10):
        desk.publish(BOTH, ticket)
    desk.report(2, "TRUE", 20.0)
    assert [state.receiver for state in desk.machine.states()] == [2]
    desk.advance(2.0)
    assert [outgoing.ticket for _, outgoing in desk.left] == list(range(10))


def test_a_rate_is_told_when_it_changes_by_a_tenth() -> None:
    desk = SenderDesk()
    for quota in (100.0, 105.0, 109.0, 112.0, 60.0):
        desk.report(1, SPORT_TEXT, quota)
    assert desk.rates() == [100.0, 112.0, 60.0]
    assert [quality.value for quality in desk.qualities] == [100.0, 112.0, 60.0]
    assert [note.size for note in desk.notes if isinstance(note, FlowChanged)] == [1, 1, 1]


def test_a_quota_of_nothing_lets_one_event_pass_in_a_round_trip() -> None:
    desk = SenderDesk()
    desk.report(1, SPORT_TEXT, 0.0, round_trip=0.1)
    (state,) = desk.machine.states()
    assert state.quota == pytest.approx(10.0)
    desk.report(2, TEAM_TEXT, 0.0, round_trip=3000.0)
    assert desk.machine.states()[1].quota == 0.5


def test_a_receiver_that_leaves_frees_its_flow() -> None:
    desk = SenderDesk()
    desk.report(1, SPORT_TEXT, 20.0)
    for ticket in range(20):
        desk.publish(SPORT, ticket)
    desk.report(1, SPORT_TEXT, 0.0, is_release=True)
    assert [outgoing.ticket for _, outgoing in desk.left] == list(range(20))
    assert desk.machine.states() == ()


@pytest.mark.spec("T-96")
def test_exact_flows_take_tokens_of_events_that_really_match() -> None:
    desk = SenderDesk(covering="exact")
    desk.report(1, "price < 100", 20.0)
    for _ in range(20):
        desk.publish({"price": 150})
    assert len(desk.left) == 20
    for _ in range(20):
        desk.publish({"price": 50})
    assert len(desk.left) == 22


def test_an_event_whose_bits_say_nothing_belongs_to_its_flows_all_the_same() -> None:
    desk = SenderDesk()
    desk.report(1, SPORT_TEXT, 20.0)
    for _ in range(10):
        desk.handle(Leaving(Kind.DATA, encode_head(SPORT), b"", 0))
    assert len(desk.left) == 2


@pytest.mark.spec("T-102")
def test_pacing_is_switched_off_at_run_time_and_everything_leaves() -> None:
    desk = SenderDesk()
    desk.report(1, SPORT_TEXT, 20.0)
    for ticket in range(20):
        desk.publish(SPORT, ticket)
    desk.handle(Configure(TransportParams(is_paced=False)))
    assert [outgoing.ticket for _, outgoing in desk.left] == list(range(20))
    desk.report(1, SPORT_TEXT, 20.0)
    assert desk.machine.states() == ()
    desk.handle(Configure(TransportParams(is_paced=True)))
    desk.report(1, SPORT_TEXT, 20.0)
    assert len(desk.machine.states()) == 1


# Requests and repairs.


@pytest.mark.spec("T-99")
def test_requests_and_repairs_take_tokens_of_the_flows_of_their_event() -> None:
    desk = SenderDesk(control_min=1000.0)
    desk.report(1, SPORT_TEXT, 20.0)
    for kind in (Kind.REQUEST, Kind.REPAIR) * 5:
        desk.handle(desk.outgoing(SPORT, kind))
    assert len(desk.left) == 2
    desk.handle(desk.outgoing(OTHER, Kind.REPAIR))
    assert len(desk.left) == 3
    desk.advance(1.0)
    assert len(desk.left) == 11
    assert desk.drops == []


@pytest.mark.spec("T-99")
def test_requests_and_repairs_are_a_small_share_of_what_is_received() -> None:
    desk = SenderDesk(control_share=0.05)
    for place in range(4000):
        desk.advance(place * 0.001)
        desk.handle(Heard(("p", 1), place, Data(1, place, 0.0), CarriedEvent(b"", b"")))
        if place % 4 == 0:
            desk.handle(desk.outgoing(OTHER, Kind.REQUEST))
    count = desk.left_since(0.0, Kind.REQUEST)
    assert 0.8 * 0.05 * 4000 <= count <= 1.1 * 0.05 * 4000


@pytest.mark.spec("T-99")
def test_a_few_requests_a_second_are_always_allowed_and_others_wait() -> None:
    desk = SenderDesk(control_min=2.0)
    for _ in range(10):
        desk.handle(desk.outgoing(OTHER, Kind.REQUEST))
    assert desk.left_since(0.0, Kind.REQUEST) == 2
    desk.advance(2.001)
    assert desk.left_since(0.0, Kind.REQUEST) == 6
    assert desk.drops == []
    desk.advance(5.0)
    assert desk.left_since(0.0, Kind.REQUEST) == 10


@pytest.mark.spec("T-99")
def test_publisher_that_receives_nothing_may_repair_a_share_of_what_it_publishes() -> None:
    """At a loss of 5 % and 1000 events a second 50 are asked of it each second."""
    desk = SenderDesk()
    for place in range(4000):
        desk.advance(place * 0.001)
        desk.publish(OTHER)
        if place % 20 == 0:
            desk.handle(desk.outgoing(SPORT, Kind.REPAIR))
    assert desk.left_since(0.0, Kind.REPAIR) == 200


@pytest.mark.spec("T-99")
def test_requests_that_wait_are_bounded() -> None:
    desk = SenderDesk(control_min=2.0)
    for _ in range(CONTROL_MAX + 10):
        desk.handle(desk.outgoing(OTHER, Kind.REQUEST))
    assert {drop.reason for drop in desk.drops} == {CONTROL_WITHHELD}
    assert len(desk.drops) == 8


@pytest.mark.spec("T-99")
def test_what_is_needless_by_now_takes_nobodys_turn() -> None:
    desk = SenderDesk(control_min=2.0)
    waiting = [desk.outgoing(OTHER, Kind.REQUEST) for _ in range(5)]
    for leaving in waiting:
        desk.handle(leaving)
    for leaving in waiting[2:4]:
        desk.handle(Unneeded(leaving.kind, leaving.ticket))
    desk.advance(0.501)
    assert [outgoing.ticket for _, outgoing in desk.left] == [1, 2, 5]


@pytest.mark.spec("T-99")
def test_what_is_needless_by_now_takes_no_token_of_its_flows() -> None:
    desk = SenderDesk(control_min=1000.0)
    desk.report(1, SPORT_TEXT, 20.0)
    waiting = [desk.outgoing(SPORT, Kind.REPAIR) for _ in range(6)]
    for leaving in waiting:
        desk.handle(leaving)
    gone = len(desk.left)
    for leaving in waiting[gone:-1]:
        desk.handle(Unneeded(leaving.kind, leaving.ticket))
    desk.advance(0.06)
    assert [outgoing.ticket for _, outgoing in desk.left[gone:]] == [6]


@pytest.mark.spec("T-99", "T-102")
def test_without_congestion_control_requests_leave_at_once() -> None:
    desk = SenderDesk(control_min=2.0)
    desk.handle(Configure(msgspec.structs.replace(desk.params, is_paced=False)))
    for _ in range(50):
        desk.handle(desk.outgoing(OTHER, Kind.REQUEST))
    assert desk.left_since(0.0, Kind.REQUEST) == 50
    desk.handle(Listen(1, parse("TRUE"), is_paced=True))
    for _ in range(50):
        desk.handle(desk.outgoing(OTHER, Kind.REQUEST))
    assert desk.left_since(0.0, Kind.REQUEST) < 60


@pytest.mark.parametrize("kind", [Kind.FEEDBACK, Kind.ECHO_REQUEST, Kind.ECHO_REPLY, Kind.ACKNOWLEDGEMENT, Kind.DIGEST])
def test_what_control_itself_needs_never_waits(kind: Kind) -> None:
    desk = SenderDesk()
    desk.report(1, "TRUE", 1.0)
    for _ in range(50):
        desk.handle(desk.outgoing(SPORT, kind))
    assert len(desk.left) == 50


# Strangers.


def test_feedback_that_cannot_be_meant_is_dropped() -> None:
    desk = SenderDesk()
    size_bytes = desk.params.profile.size_bytes
    report = desk.report_of(SPORT_TEXT, 20.0)
    for message, reason in (
        (Feedback(1, 99, 0.0, 0.1, (report,), size_bytes), NOT_FOR_US),
        (Feedback(1, ME, 0.0, 0.1, (FlowReport(report.flow, 20.0, 1 << 300),), 60), OTHER_PROFILE),
        (Feedback(1, ME, 0.0, 0.1, (FlowReport(report.flow, 20.0, 2**256 - 1),), size_bytes), OTHER_PROFILE),
        (Feedback(1, ME, 0.0, 0.1, (FlowReport(report.flow + 1, 20.0, report.bits),), size_bytes), FORGED_FLOW),
    ):
        desk.drops.clear()
        desk.handle(Told(message, CarriedEvent(b"", b"")))
        assert [drop.reason for drop in desk.drops] == [reason]
    assert desk.machine.states() == ()


def test_a_filter_that_cannot_be_read_is_dropped() -> None:
    from tidings.protocols.transport.congestion.paced import flow_of

    desk = SenderDesk(covering="exact")
    text = "price <<<"
    report = FlowReport(flow_of(5, text, desk.params.profile.size_bytes), 20.0, 5, text)
    desk.handle(Told(Feedback(1, ME, 0.0, 0.1, (report,), desk.params.profile.size_bytes), CarriedEvent(b"", b"")))
    assert desk.machine.states() == ()
    assert len(desk.drops) == 1


def test_of_a_flood_of_feedback_only_so_much_is_read() -> None:
    desk = SenderDesk(sources_per_second=50.0)
    for place in range(1000):
        desk.report(1, f"a = {place}", 20.0)
    assert len(desk.machine.states()) <= 50
    assert {drop.reason for drop in desk.drops} == {TOO_MUCH_FEEDBACK}


def test_one_source_cannot_use_up_what_others_need() -> None:
    budget = FeedbackBudget(100.0)
    for second in range(3):
        now = float(second)
        refused = [budget.admits(now + 0.001, "honest", 0, False)]
        flood = sum(budget.admits(now + 0.002, "liar", 0, False) for _ in range(1000))
        refused += [budget.admits(now + 0.5 + place / 100.0, "honest", 0, False) for place in range(40)]
    assert all(refused)
    assert flood == 50


@pytest.mark.parametrize("quota", [0.0, 1.0])
def test_a_liar_holds_a_flow_below_its_share_no_longer_than_the_time_out(quota: float) -> None:
    desk = SenderDesk(flow_timeout=2.0)

    def lie() -> None:
        desk.report(66, SPORT_TEXT, quota, round_trip=2.0)

    lie()
    desk.offer(SPORT, 400.0, 1.0, keep=lie)
    assert len(desk.left) <= 3
    desk.offer(SPORT, 400.0, 6.0, keep=lie)
    assert desk.left_since(2.0) >= 0.95 * 400.0 * 4.0 * SHARE_MIN


def test_a_liar_with_many_names_and_filters_gains_no_more() -> None:
    desk = SenderDesk(flow_timeout=2.0)
    lies = iter(range(10_000))

    def lie() -> None:
        place = next(lies)
        text = "TRUE" if place % 3 == 0 else SPORT_TEXT if place % 3 == 1 else "news <> 'x'"
        desk.report(1000 + place, text, 0.0, round_trip=2.0)

    lie()
    desk.offer(SPORT, 200.0, 2.0, keep=lie)
    before = len(desk.left)
    desk.offer(SPORT, 200.0, 6.0, keep=lie)
    assert len(desk.left) - before >= 0.95 * 200.0 * 4.0 * SHARE_MIN


def test_a_liar_that_falls_silent_is_forgotten() -> None:
    desk = SenderDesk(flow_timeout=2.0)
    desk.report(66, SPORT_TEXT, 0.0, round_trip=0.1)
    desk.offer(SPORT, 100.0, 2.1)
    before = len(desk.left)
    desk.offer(SPORT, 100.0, 3.1)
    assert len(desk.left) - before >= 99


def test_an_honest_slow_receiver_is_not_overruled() -> None:
    desk = SenderDesk(flow_timeout=2.0)

    def report() -> None:
        desk.report(1, SPORT_TEXT, 30.0)

    report()
    desk.offer(SPORT, 200.0, 10.0, keep=report)
    assert len(desk.left) <= 302


# Windows.


class Acknowledging(SenderDesk):
    """The receiver of the flow has all events that leave, but for those in `lost`, a round trip later."""

    def __init__(self, **congestion: Any) -> None:
        self.lost: set[int] = set()
        self.answered = 0
        super().__init__(**congestion)

    def answer(self) -> None:
        """All that left so far."""
        flow = self.machine.states()[0].flow
        for sequence in range(self.answered + 1, self.sequence + 1):
            if sequence not in self.lost:
                missing = sum(1 << back for back in range(32) if sequence - 1 - back in self.lost)
                received = sequence - sum(number < sequence for number in self.lost)
                message = Acknowledgement(1, ME, flow, sequence, received, missing)
                self.handle(Told(message, CarriedEvent(b"", b"")))
        self.answered = self.sequence


def test_a_window_lets_only_so_many_be_on_their_way() -> None:
    desk = Acknowledging(control="window")
    desk.report(1, SPORT_TEXT, 80.0)
    for ticket in range(30):
        desk.publish(SPORT, ticket)
    assert len(desk.left) == 4
    desk.now = 0.05
    first = desk.sequence
    desk.answered = 0
    desk.answer()
    assert len(desk.left) - first in (4, 5)


def test_a_window_is_halved_once_for_losses_of_one_round_trip() -> None:
    desk = Acknowledging(control="window")
    desk.report(1, SPORT_TEXT, 400.0)
    for ticket in range(60):
        desk.publish(SPORT, ticket)
    assert desk.sequence == 20
    desk.lost = {2, 5}
    desk.now = 0.05
    before = desk.machine.states()[0].rate
    desk.answer()
    assert desk.machine.states()[0].rate == pytest.approx(before / 2.0, rel=0.15)


def test_a_window_without_answers_begins_again_at_one() -> None:
    desk = Acknowledging(control="window")
    desk.report(1, SPORT_TEXT, 400.0)
    for ticket in range(60):
        desk.publish(SPORT, ticket)
    desk.advance(0.3)
    assert len(desk.left) == 21
    assert desk.machine.states()[0].rate == pytest.approx(1.0 / ROUND_TRIP)


def test_with_acknowledgements_exact_losses_lower_the_rate() -> None:
    desk = Acknowledging(acknowledgements=True, queue_max=1000)
    desk.report(1, SPORT_TEXT, 400.0)
    desk.lost = set(range(5, 1000, 10))
    for place in range(200):
        desk.advance(place * 0.005)
        desk.publish(SPORT)
        if place % 10 == 9:
            desk.answer()
    (state,) = desk.machine.states()
    assert state.quota == 400.0
    assert state.rate < 200.0


def test_acknowledgements_of_others_are_not_heard() -> None:
    desk = Acknowledging(control="window")
    desk.report(1, SPORT_TEXT, 80.0)
    for ticket in range(30):
        desk.publish(SPORT, ticket)
    flow = desk.machine.states()[0].flow
    for sequence in range(1, 5):
        desk.handle(Told(Acknowledgement(66, ME, flow, sequence, sequence, 0), CarriedEvent(b"", b"")))
    assert len(desk.left) == 4


# Slow start.


def test_with_slow_start_a_publisher_doubles_its_rate_until_nothing_waits() -> None:
    desk = SenderDesk(slow_start=True)
    desk.offer(SPORT, 100.0, 3.0)
    counts = [sum(begin <= at < begin + 0.2 for at, _ in desk.left) for begin in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0)]
    assert counts[0] <= 5 and counts[-1] >= 19
    assert desk.machine.states() == ()


def test_slow_start_ends_with_the_first_report() -> None:
    desk = SenderDesk(slow_start=True)
    desk.offer(SPORT, 100.0, 0.1)
    desk.report(1, TEAM_TEXT, 50.0)
    assert [state.receiver for state in desk.machine.states()] == [1]
    before = len(desk.left)
    desk.publish(SPORT)
    assert len(desk.left) > before
    assert not math.isinf(desk.machine.states()[0].quota)
