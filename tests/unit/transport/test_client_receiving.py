"""What a transport client receives: one event for several subscriptions, what is to be taken, repairs and history."""

from typing import Any

import msgspec
import pytest

from tests.worlds.desk import drops, items, sent
from tests.worlds.transport_client import ALL, OFF, ORDERED, RELIABLE, ClientDesk, Other, receipt
from tidings.machine.inputs import LinkDown
from tidings.protocols.delivery.messages import (
    QUEUE_FULL,
    Delivery,
    Fetch,
    Look,
    Refusal,
    Subscribe,
    Taken,
    Unsubscribe,
)
from tidings.protocols.inspection.messages import TransportReport
from tidings.protocols.transport.adapter.own import (
    HOLES_MAX,
    NOTHING_THERE,
    PAGES_MAX,
    READINGS_MAX,
    RECALLS_MAX,
    TRIES_MAX,
    StoredEvents,
)
from tidings.protocols.transport.adapter.traffic import GIVEN_MAX, WindowLedger, contents_of, packed
from tidings.protocols.transport.carrier import Carried, Modes, Own, SetModes, Subscribed
from tidings.protocols.transport.headers import decode_data
from tidings.protocols.transport.marks import OF, Kind, head_of, mark
from tidings.protocols.transport.messages import LossRepair, encode_control
from tidings.protocols.transport.params import OrderingParams, RecoveryParams, TransportParams
from tidings.protocols.transport.signals import CarriedEvent, Handed, Quality, Recall, Recalled
from tidings.pubsub.client import (
    Arrived,
    CloseSubscription,
    Ended,
    Fetched,
    HistoryRead,
    MarksReply,
    Missed,
    OpenSubscription,
    ReadHistory,
    ReadMarks,
    Took,
)
from tidings.pubsub.pages import NO_PAGE, page_of
from tidings.pubsub.publications import encode_head
from tidings.pubsub.rows import TransportRow

STREAM = ("pub", 7)


def values(effects: list[Any], kind: type = Arrived) -> list[tuple[int, bytes]]:
    """Subscription and payload of each event that is handed over."""
    return [(item.subscription, payload) for item in items(effects, kind) for payload in item.payloads]


# Events.


@pytest.mark.spec("T-16")
def test_an_event_arrives_without_mark_and_header() -> None:
    desk = ClientDesk(ORDERED)
    number = desk.subscribe()
    other = Other()
    effects = desk.hear(other.delivery([other.make(1), other.make(2)], number))
    heads = encode_head({"x": 1}), encode_head({"x": 2})
    assert items(effects) == [Arrived(number, "pub", 50.0, (1, 2), heads, (b"1", b"2"))]


@pytest.mark.spec("T-16")
def test_an_event_of_a_publisher_without_a_transport_arrives_as_it_is() -> None:
    desk = ClientDesk(ALL)
    number = desk.subscribe()
    head = encode_head({"x": 1})
    effects = desk.hear(Delivery("plain", 50.0, (1,), (head,), (b"payload",), ((number,),)))
    assert items(effects) == [Arrived(number, "plain", 50.0, (1,), (head,), (b"payload",))]


def test_an_event_for_several_subscriptions_is_one_event_to_the_transport() -> None:
    desk = ClientDesk(ORDERED)
    one, two = desk.subscribe("x >= 0", ticket="one"), desk.subscribe("x >= 2", ticket="two")
    other = Other()
    both = other.delivery([other.make(1), other.make(2)], one)
    effects = desk.hear(msgspec.structs.replace(both, matched=((one,), (one, two))))
    assert values(effects) == [(one, b"1"), (one, b"2"), (two, b"2")]
    assert drops(effects) == []
    (stream,) = desk.client.state().streams
    assert (stream.publisher, stream.delivered) == ("pub", 2)


def test_a_subscription_that_is_not_ordered_gets_events_at_once_and_bare() -> None:
    desk = ClientDesk(ORDERED)
    number = desk.subscribe(modes=Modes(is_ordered=False))
    other = Other()
    other.make(1)
    effects = desk.hear(other.delivery([other.make(2)], number))
    assert values(effects) == [(number, b"2")]


def test_what_comes_for_a_second_subscription_later_reaches_it_all_the_same() -> None:
    desk = ClientDesk(ORDERED)
    one, two = desk.subscribe(ticket="one"), desk.subscribe("x < 9", ticket="two")
    other = Other()
    events = [other.make(1), other.make(2)]
    assert values(desk.hear(other.delivery(events, one))) == [(one, b"1"), (one, b"2")]
    effects = desk.hear(other.delivery(events, two))
    assert values(effects) == [(two, b"1"), (two, b"2")]
    assert drops(effects) == []


def test_stored_events_from_before_the_first_one_that_came_reach_the_subscription_that_asked_for_them() -> None:
    desk = ClientDesk(ORDERED)
    one = desk.subscribe(ticket="one")
    other = Other()
    old = [other.make(value) for value in range(3)]
    desk.hear(other.delivery([other.make(3)], one))
    two = desk.subscribe(ticket="two", since=1.0, guarantee="reference")
    effects = desk.hear(other.delivery(old, two))
    assert values(effects, Carried) == [(two, b"0"), (two, b"1"), (two, b"2")]
    assert items(effects, Carried)[0].way == "late"


def test_what_is_held_back_says_for_how_long() -> None:
    desk = ClientDesk(TransportParams(ordering=OrderingParams(mode="static", static_latch=0.5)))
    number = desk.subscribe()
    other = Other()
    desk.hear(other.delivery([other.make(0)], number))
    other.make(1)
    assert values(desk.hear(other.delivery([other.make(2)], number))) == []
    effects = desk.advance(1.0)
    (carried,) = items(effects, Carried)
    assert (carried.payloads, carried.numbers, carried.way) == ((b"2",), (3,), "direct")
    assert (carried.latch, carried.held) == (0.5, 0.5)


# What the application has to take.


def window(desk: ClientDesk, number: int) -> tuple[int, int]:
    """What the session takes for held by the application, and what it has not told its broker."""
    receiving = desk.client.session.receiving[number]
    return receiving.held, receiving.taken


def test_messages_of_transports_that_the_filter_matches_are_taken_by_nobody_and_count_as_taken() -> None:
    desk = ClientDesk(ORDERED)
    number = desk.subscribe("TRUE")
    digest = head_of({OF: 7}, Kind.DIGEST), Other().publishing.digest(0.0)
    other = Other()
    first = other.make(1)
    other.published += 1
    effects = desk.hear(other.delivery([first, (2, *digest), other.make(3)], number))
    assert values(effects) == [(number, b"1"), (number, b"3")]
    assert window(desk, number) == (2, 1)


def test_a_header_that_cannot_be_read_is_dropped_and_counts_as_taken() -> None:
    desk = ClientDesk(ORDERED)
    number = desk.subscribe()
    effects = desk.hear(Delivery("pub", 5.0, (1,), (mark(encode_head({"x": 1}), Kind.DATA),), (b"?",), ((number,),)))
    assert items(effects) == []
    assert drops(effects) == ["its transport header cannot be read"]
    assert window(desk, number) == (0, 1)


def test_what_the_transports_own_subscriptions_bring_is_taken_at_once() -> None:
    desk = ClientDesk(ALL)
    (inbox,) = [number for number, key in desk.client.own.keys.items() if key == "inbox"]
    step = desk.client.session.receiving[inbox].step
    event = head_of({OF: 7}, Kind.DIGEST), Other().publishing.digest(0.0)
    numbers = tuple(range(1, step + 1))
    effects = desk.hear(Delivery("pub", 5.0, numbers, (event[0],) * step, (event[1],) * step, ((inbox,),)))
    assert sent(effects, Taken) == [Taken(inbox, step)]
    assert items(effects) == []


def test_a_late_event_that_policy_drops_counts_as_taken() -> None:
    desk = ClientDesk(TransportParams(ordering=OrderingParams(mode="static", static_latch=0.5, late_policy="drop")))
    number = desk.subscribe()
    other = Other()
    first, second, third = other.make(1), other.make(2), other.make(3)
    desk.hear(other.delivery([first], number))
    desk.hear(other.delivery([third], number))
    desk.advance(1.0)
    # The session itself lets nothing come back below its position, so the transport is asked.
    effects = desk.client.arrived(2.0, [Arrived(number, "pub", 50.0, (second[0],), (second[1],), (second[2],))])
    assert values(effects) == [] and "came after a later event of its publisher" in drops(effects)
    assert window(desk, number)[1] == 1


@pytest.mark.spec("T-58")
def test_a_repaired_event_is_no_debt_to_the_broker_and_does_not_come_twice() -> None:
    desk = ClientDesk(RELIABLE)
    number = desk.subscribe()
    other = Other()
    first, lost, third = other.make(1), other.make(2), other.make(3)
    desk.hear(other.delivery([first, third], number))
    desk.advance(1.0)
    data, _ = decoded(lost[2])
    repair = LossRepair(55, 0.0, desk.client.transport.node_id, 0.0, 0.0, data)
    bare = encode_head({"x": 2})
    brought = mark(bare, Kind.REPAIR), encode_control(repair, b"2")
    effects = desk.hear(Delivery("cat", 60.0, (9,), (brought[0],), (brought[1],), ((number,),)))
    (carried,) = items(effects, Carried)
    assert (carried.way, carried.publisher, carried.numbers) == ("repaired", "pub", (0,))
    assert (carried.heads, carried.payloads) == ((bare,), (b"2",))
    held, taken = window(desk, number)
    assert (held, taken) == (2, 1), "the repair itself came over the subscription, and is taken"
    desk.handle(Took(number, 3))
    assert window(desk, number) == (0, 3)
    again = desk.client.arrived(3.0, [Arrived(number, "pub", 50.0, (lost[0],), (lost[1],), (lost[2],))])
    assert values(again) == [] and drops(again) == ["received already"]


def decoded(payload: bytes) -> Any:
    return decode_data(payload)


def test_the_ledger_lets_what_was_lent_be_paid_first() -> None:
    ledger = WindowLedger()
    handed = Handed(CarriedEvent(b"", b"", subscriptions=(1, 2)), STREAM, 5, "repaired")
    ledger.lend(handed)
    assert ledger.took(Took(1, 3)) == Took(1, 2)
    assert ledger.took(Took(1, 3)) == Took(1, 3)
    assert ledger.took(Took(2, 1)) is None
    assert ledger.given[STREAM, 5] == (1, 2)
    for sequence in range(GIVEN_MAX + 5):
        ledger.lend(Handed(handed.content, STREAM, sequence, "history"))
    ledger.check()
    ledger.forget(1)
    assert ledger.took(Took(1, 1)) == Took(1, 1)


def test_deliveries_are_taken_apart_and_put_together() -> None:
    one = Arrived(1, "p", 5.0, (1, 2), (b"a", b"b"), (b"1", b"2"))
    two = Arrived(2, "p", 5.0, (2, 3), (b"b", b"c"), (b"2", b"3"))
    own = Arrived(9, "p", 5.0, (3,), (b"c",), (b"3",))
    found = contents_of([one, two, own], {9: "inbox"})
    assert [(each.number, each.head, each.subscriptions) for each in found] == [
        (1, b"a", (1,)),
        (2, b"b", (1, 2)),
        (3, b"c", (2,)),
    ]
    together = packed([Handed(content, STREAM, content.number) for content in found])
    assert items(together) == [
        Arrived(1, "p", 5.0, (1,), (b"a",), (b"1",)),
        Arrived(1, "p", 5.0, (2,), (b"b",), (b"2",)),
        Arrived(2, "p", 5.0, (2,), (b"b",), (b"2",)),
        Arrived(2, "p", 5.0, (3,), (b"c",), (b"3",)),
    ]


# Subscriptions.


def test_a_subscription_is_listened_to_with_the_filter_that_was_installed() -> None:
    desk = ClientDesk(RELIABLE)
    (message,) = sent(desk.handle(OpenSubscription("s", "x >= 0")), Subscribe)
    assert not desk.client.subscriptions
    desk.hear(receipt("subscribe", message.number, "x >= 5"))
    assert desk.client.subscriptions[message.number].filter == "x >= 5"
    assert message.number in desk.client.transport.recovery.reliable


def test_what_is_closed_or_ended_is_not_listened_to_any_more() -> None:
    desk = ClientDesk(RELIABLE)
    one, two = desk.subscribe(ticket="one"), desk.subscribe(ticket="two", policy="disconnect")
    assert {one, two} <= set(desk.client.transport.shim.subscriptions)
    effects = desk.handle(CloseSubscription("c", one))
    assert Unsubscribe(one) in sent(effects)
    assert one not in desk.client.transport.shim.subscriptions
    assert items(desk.hear(Missed(two, "pub", 3, "forgotten")), Ended) == []
    effects = desk.hear(Missed(two, "pub", 3, QUEUE_FULL))
    assert len(items(effects, Ended)) == 1
    assert two not in desk.client.transport.shim.subscriptions
    assert two not in desk.client.transport.recovery.reliable


def test_a_subscription_of_the_transport_that_is_refused_is_left_out_in_silence() -> None:
    desk = ClientDesk(ALL)
    (inbox,) = [number for number, key in desk.client.own.keys.items() if key == "inbox"]
    assert items(desk.hear(Refusal("subscribe", inbox, "not permitted", False))) == []
    assert "inbox" not in desk.client.own.wanted
    assert items(desk.hear(Missed(inbox, "pub", 3, "full"))) in ([], [Missed(inbox, "pub", 3, "full")])


@pytest.mark.spec("T-102")
def test_recovery_and_pacing_of_a_subscription_are_switched_on_and_off_on_their_own() -> None:
    desk = ClientDesk(ORDERED)
    number = desk.subscribe()
    transport = desk.client.transport
    is_on = []
    for modes in (Modes(True, True, False), Modes(True, True, True), Modes(True, False, True), Modes()):
        desk.handle(SetModes(number, modes))
        is_on.append((number in transport.recovery.reliable, number in transport.sender.paced))
    assert is_on == [(True, False), (True, True), (False, True), (False, False)]
    desk.handle(SetModes(99, Modes()))


# History.


def lossy(desk: ClientDesk) -> tuple[int, Other, list[Any]]:
    """A subscription that lost the second of three events, and asks others in vain."""
    number = desk.subscribe()
    other = Other()
    events = [other.make(value, at=value / 10) for value in range(1, 4)]
    desk.hear(other.delivery([events[0]], number))
    desk.hear(other.delivery([events[2]], number))
    return number, other, events


FEW_ROUNDS = TransportParams(is_reliable=True, recovery=RecoveryParams(rounds_max=1, distance_first=0.01))


def test_a_loss_that_nobody_repairs_is_read_from_history_and_says_so() -> None:
    desk = ClientDesk(FEW_ROUNDS)
    number, _, events = lossy(desk)
    effects = desk.advance(5.0)
    (fetch,) = sent(effects, Fetch)
    assert (fetch.filter, fetch.publisher, fetch.after, fetch.through) == ("x >= 0", "pub", 1, 2)
    (loss,) = [item for item in items(effects, Quality) if item.what == "lost"]
    assert (loss.stream, loss.sequence, loss.subscriptions) == (STREAM, 1, (number,))
    page = Fetched(fetch.number, 2, False, False, page_of((51.0,), (2,), (events[1][1],), (events[1][2],)))
    effects = desk.hear(page)
    head = encode_head({"x": 2})
    assert items(effects, Carried) == [Carried(number, "pub", 51.0, (2,), (head,), (b"2",), "history", 0.0, 0.0)]
    (stream,) = desk.client.state().streams
    assert (stream.lost, stream.recovered, stream.from_history, stream.given_up) == (1, 1, 1, 0)


@pytest.mark.parametrize("answer", ["refused", "empty"])
def test_a_loss_that_history_does_not_have_is_given_up_and_said_for_whom(answer: str) -> None:
    desk = ClientDesk(FEW_ROUNDS)
    number, _, _ = lossy(desk)
    (fetch,) = sent(desk.advance(5.0), Fetch)
    if answer == "refused":
        effects = desk.hear(Refusal("read", fetch.number, "not reachable", True))
    else:
        effects = desk.hear(Fetched(fetch.number, 2, True, False, NO_PAGE))
    (given_up,) = items(effects)
    assert (given_up.what, given_up.sequence, given_up.subscriptions) == ("given_up", 1, (number,))
    (stream,) = desk.client.state().streams
    assert (stream.lost, stream.given_up) == (1, 1)


def recall(sequence: int = 5, after: int = 10, before: int = 20) -> Recall:
    return Recall(STREAM, sequence, 1, after, before)


def page(has_more: bool, through: int, *numbers: int) -> Fetched:
    count = len(numbers)
    return Fetched(1, through, False, has_more, page_of((5.0,) * count, numbers, (b"h",) * count, (b"p",) * count))


def stored_events() -> StoredEvents:
    client = ClientDesk().client
    return StoredEvents(client.carrier, client.transport, {1: Subscribed("TRUE", Modes())})


def test_pages_of_history_are_read_to_the_end_but_not_for_ever() -> None:
    events = stored_events()
    (request,) = events.recall(recall())
    assert isinstance(request, ReadHistory) and (request.after, request.through) == (10, 19)
    (following,) = events.read(0.0, Own("recall", recall()), page(True, 12, 11, 12))
    assert isinstance(following, ReadHistory) and following.after == 12
    (answer,) = events.read(0.0, Own("recall", recall()), page(False, 19, 15))
    assert isinstance(answer, Recalled) and [each.number for each in answer.contents] == [11, 12, 15]
    events.recall(recall())
    answers = [events.read(0.0, Own("recall", recall()), page(True, 11 + count)) for count in range(PAGES_MAX)]
    assert isinstance(answers[-1][0], Recalled) and isinstance(answers[-2][0], ReadHistory)
    assert events.read(0.0, Own("recall", recall()), page(False, 19)) == []
    assert events.failed(0.0, Own("recall", recall()), "gone") == []


def test_only_so_much_is_read_at_a_time() -> None:
    events = stored_events()
    asked = [request for sequence in range(RECALLS_MAX) for request in events.recall(recall(sequence))]
    assert len(asked) == READINGS_MAX and all(isinstance(request, ReadHistory) for request in asked)
    (refused,) = events.recall(recall(RECALLS_MAX))
    assert isinstance(refused, Recalled) and refused.problem
    events.check()
    failed, *more = events.failed(0.0, Own("recall", recall(0)), "gone")
    assert isinstance(failed, Recalled) and failed.problem == "gone" and len(more) == 1


def test_without_an_upper_bound_history_is_read_up_to_what_came_last() -> None:
    events = stored_events()
    assert events.recall(recall(before=0)) == [Recalled(STREAM, 5, (), NOTHING_THERE)]
    events.saw("pub", 25)
    (request,) = events.recall(recall(before=0))
    assert isinstance(request, ReadHistory) and request.through == 25


def dropped_by_the_broker(desk: ClientDesk) -> tuple[int, Other]:
    """A subscription that got the first of ten events and then heard that some were dropped."""
    number = desk.subscribe()
    other = Other(params=TransportParams(record=1))
    for value in range(10):
        other.make(value)
    desk.hear(other.delivery(other.made[:1], number))
    assert items(desk.hear(Missed(number, "pub", 8, "full"))) == [Missed(number, "pub", 8, "full")]
    return number, other


def stored(fetch: Fetch, other: Other, first: int, last: int, has_more: bool = False) -> Fetched:
    numbers, heads, payloads = (tuple(column) for column in zip(*other.made[first - 1 : last], strict=True))
    return Fetched(fetch.number, last, False, has_more, page_of((51.0,) * len(numbers), numbers, heads, payloads))


def test_what_the_broker_says_it_dropped_is_read_from_history_page_by_page() -> None:
    desk = ClientDesk(RELIABLE)
    number, other = dropped_by_the_broker(desk)
    desk.hear(other.delivery(other.made[9:], number))
    (fetch,) = [each for each in sent(desk.advance(1.2), Fetch) if each.through == 10]
    assert (fetch.publisher, fetch.after) == ("pub", 1)
    effects = desk.hear(stored(fetch, other, 2, 6, has_more=True))
    (fetch,) = sent(effects, Fetch)
    assert (fetch.after, fetch.through) == (6, 10)
    effects += desk.hear(stored(fetch, other, 7, 10))
    brought = [(number, b"%d" % value) for value in range(1, 9)]
    assert values(effects, Carried) == brought
    assert {item.way for item in items(effects, Carried)} == {"history"}
    assert not desk.client.stored.holes
    (stream,) = desk.client.state().streams
    assert (stream.lost, stream.recovered, stream.from_history) == (8, 8, 8)


def test_where_nothing_came_since_the_marks_say_how_far_to_read() -> None:
    desk = ClientDesk(RELIABLE)
    number, other = dropped_by_the_broker(desk)
    (look,) = sent(desk.advance(1.2), Look)
    effects = desk.hear(MarksReply(look.number, (("pub", 0, 9),), (), (), True))
    (fetch,) = sent(effects, Fetch)
    assert (fetch.after, fetch.through) == (1, 9)
    effects = desk.hear(stored(fetch, other, 2, 9))
    assert values(effects, Carried) == [(number, b"%d" % value) for value in range(1, 9)]
    assert not desk.client.stored.holes


def test_what_is_not_found_is_looked_for_a_few_times_only() -> None:
    desk = ClientDesk(RELIABLE)
    dropped_by_the_broker(desk)
    looks = 0
    for step in range(1, 1000):
        for look in sent(desk.advance(step / 4), Look):
            looks += 1
            desk.hear(Refusal("read", look.number, "not reachable", True))
    assert looks == TRIES_MAX
    assert not desk.client.stored.holes


def test_a_subscription_that_is_not_reliable_or_is_closed_is_not_mended() -> None:
    desk = ClientDesk(ORDERED)
    dropped_by_the_broker(desk)
    assert not desk.client.stored.holes
    desk = ClientDesk(RELIABLE)
    number, _ = dropped_by_the_broker(desk)
    desk.handle(CloseSubscription("c", number))
    assert sent(desk.advance(5.0), Look) == []
    desk = ClientDesk(RELIABLE)
    number, _ = dropped_by_the_broker(desk)
    for place in range(HOLES_MAX + 5):
        desk.hear(Missed(number, f"other {place}", 1, "full"))
    assert len(desk.client.stored.holes) == HOLES_MAX


def test_what_the_application_reads_itself_passes_as_it_is() -> None:
    desk = ClientDesk(ALL)
    effects = desk.handle(ReadHistory("mine", "TRUE", "pub", 1, None, 9, 100))
    (fetch,) = sent(effects, Fetch)
    answer = Fetched(fetch.number, 9, False, False, NO_PAGE)
    assert items(desk.hear(answer)) == [HistoryRead("mine", answer)]
    assert sent(desk.handle(ReadMarks("marks", "TRUE")))


# What can be seen.


def test_the_client_tells_its_broker_how_its_transport_fares_and_says_nothing_twice() -> None:
    desk = ClientDesk(ALL)
    number = desk.subscribe()
    other = Other()
    desk.hear(other.delivery([other.make(1)], number))
    (report,) = sent(desk.advance(2.0), TransportReport)
    rows = msgspec.json.decode(report.rows, type=list[TransportRow])
    assert [(row.kind, row.publisher) for row in rows][:2] == [("client", ""), ("stream", "pub")]
    assert rows[0].modes == "ordered reliable paced"
    assert sent(desk.advance(4.0), TransportReport) == []


def test_a_broker_that_serves_the_client_again_is_told_again() -> None:
    desk = ClientDesk(ALL)
    assert len(sent(desk.advance(2.0), TransportReport)) == 1
    desk.handle(LinkDown("b", desk.epoch))
    desk.advance(3.9)
    desk.attach()
    assert len(sent(desk.advance(4.0), TransportReport)) == 1


def test_a_transport_that_is_off_changes_nothing_that_arrives() -> None:
    desk = ClientDesk(OFF)
    number = desk.subscribe(modes=Modes(is_ordered=False))
    other = Other()
    assert values(desk.hear(other.delivery([other.make(1)], number))) == [(number, b"1")]
