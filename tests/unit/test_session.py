"""The client's end of delivery, step by step, without any broker."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.desk import Desk, drops, items, sent
from tidings.machine.effects import CancelTimer, Deliver, Disconnect, Drop, Effect, Note, Send, SetTimer
from tidings.machine.inputs import Fired, Received, Unread
from tidings.machine.streams import random_stream
from tidings.model.bounds import FRAME_BYTES_MAX, PUBLICATIONS_MAX, PUBLISHERS_MAX
from tidings.model.errors import UsageError
from tidings.protocols.delivery.messages import (
    QUEUE_FULL,
    Advertise,
    Beginning,
    Delivery,
    PublisherLife,
    PublishMessage,
    Refusal,
    Subscribe,
    Taken,
    Unadvertise,
    Unsubscribe,
)
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.delivery.session.progress import MAY_BE_TOLD, REPEATED, WINDOW_IGNORED
from tidings.protocols.delivery.session.publications import NUMBERS_USED
from tidings.protocols.delivery.session.session import (
    NOT_OUR_BROKER,
    RECEIPT_LOST,
    UNKNOWN_SUBSCRIPTION,
    WINDOW_FULL,
    Session,
)
from tidings.protocols.delivery.session.standings import CLOSED, NO_SUCH, NOT_ASKED, TOO_MANY
from tidings.pubsub.client import (
    Accepted,
    Arrived,
    Begun,
    CloseAdvertisement,
    CloseSubscription,
    Confirmed,
    Declined,
    Ended,
    Failed,
    Missed,
    OpenAdvertisement,
    OpenSubscription,
    PublishBatch,
    ReadMarks,
    Receipt,
    Took,
)
from tidings.pubsub.notes import Acknowledged, Promised, ReceiptAsked, Released, Twin
from tidings.pubsub.signals import PeerDown, PeerUp, TurnedAway
from tidings.wire import encode


class Client(Desk[Session]):
    """A session that is talked to, and checked after each step."""

    def __init__(self, first_publication: int = 1, life: str = "", **params: Any) -> None:
        rng = random_stream(1, "session")
        super().__init__(Session(SessionParams(**params), rng, first_publication, life=life))
        assert self.effects == []

    def hear(self, message: Any, sender: str = "b") -> list[Effect]:
        return self.handle(Received(sender, message))

    def up(self, broker: str = "b", epoch: int = 1) -> list[Any]:
        """The messages that a new broker is sent."""
        delivered, *rest = self.handle(PeerUp(broker, epoch))
        assert delivered == Deliver(PeerUp(broker, epoch))
        return sent(rest)

    def down(self, reason: str = "broken") -> list[Effect]:
        delivered, *rest = self.handle(PeerDown("b", 1, reason))
        assert delivered == Deliver(PeerDown("b", 1, reason))
        return rest


def receipt(kind: Any, number: int, at: float = 50.0, filter: str = "") -> Receipt:
    return Receipt(kind, number, ("b",), 1, at, filter)


def subscribe(number: int = 1, **changes: Any) -> Subscribe:
    fields: dict[str, Any] = {
        "filter": "x > 1",
        "guarantee": "installed",
        "since": None,
        "after": (),
        "is_continued": False,
        "group": "",
        "policy": "wait",
        "queue_max": 10_000,
        "window": 1024,
    }
    return Subscribe(number, **(fields | changes))


def delivery(*numbers: int, publisher: str = "p", matched: Any = ((1,),)) -> Delivery:
    return Delivery(publisher, 60.0, numbers, (b"h",) * len(numbers), (b"",) * len(numbers), matched)


def arrived(*numbers: int, publisher: str = "p", subscription: int = 1) -> Arrived:
    return Arrived(subscription, publisher, 60.0, numbers, (b"h",) * len(numbers), (b"",) * len(numbers))


def attached(**params: Any) -> Client:
    client = Client(**params)
    assert client.up() == []
    return client


def subscribed(window: int = 1024, policy: Any = "wait", **request: Any) -> Client:
    client = attached()
    client.handle(OpenSubscription("s", "x > 1", window=window, policy=policy, **request))
    client.hear(receipt("subscribe", 1))
    return client


def advertised(**params: Any) -> Client:
    client = attached(**params)
    client.handle(OpenAdvertisement("a", "TRUE"))
    client.hear(receipt("advertise", 1))
    return client


def publish(*payloads: bytes, ticket: Any = None) -> PublishBatch:
    return PublishBatch(1, (b"h",) * len(payloads), payloads, ticket)


# Subscriptions.


def test_a_subscription_is_numbered_asked_for_and_confirmed() -> None:
    client = attached()
    assert client.handle(OpenSubscription("s", "x > 1")) == [Deliver(Begun("s", 1)), Send("b", subscribe())]
    assert client.hear(receipt("subscribe", 1)) == [
        Promised(1, "installed"),
        Deliver(Confirmed("s", receipt("subscribe", 1))),
    ]


def test_what_a_subscription_may_rely_on_is_noted_once() -> None:
    client = attached()
    client.handle(OpenSubscription("s", "x > 1", "reference", since=4.5, after=(("p", 7), ("q", 0)), group="g"))
    notes = [note for note in client.hear(receipt("subscribe", 1)) if isinstance(note, Note)]
    behind = [Promised(1, "reference", None, publisher, number) for publisher, number in (("p", 8), ("q", 1))]
    assert notes == [Promised(1, "reference", 4.5), *behind, Twin(1, "g")]
    client.down()
    client.up()
    assert client.hear(receipt("subscribe", 1)) == []
    client.handle(OpenSubscription("t", "x > 1", "none"))
    assert client.hear(receipt("subscribe", 2)) == [Deliver(Confirmed("t", receipt("subscribe", 2)))]


def test_what_is_asked_for_without_a_broker_is_said_when_there_is_one() -> None:
    client = Client()
    assert client.handle(OpenSubscription("s", "x > 1")) == [Deliver(Begun("s", 1))]
    assert client.up() == [subscribe()]


def test_numbers_ascend_and_are_not_used_twice() -> None:
    client = attached()
    for number in (1, 2):
        assert items(client.handle(OpenSubscription("s", "x > 1"))) == [Begun("s", number)]
        client.handle(CloseSubscription("c", number))
        client.hear(receipt("unsubscribe", number))
    assert items(client.handle(OpenSubscription("s", "x > 1"))) == [Begun("s", 3)]


def test_events_are_handed_out_with_their_subscription() -> None:
    client = subscribed()
    assert client.hear(delivery(1, 2)) == [Deliver(arrived(1, 2))]


def test_a_batch_is_divided_among_the_subscriptions_that_match() -> None:
    client = subscribed()
    client.handle(OpenSubscription("t", "x > 2"))
    effects = client.hear(delivery(1, 2, 3, matched=((1,), (1, 2), (2,))))
    assert effects == [Deliver(arrived(1, 2)), Deliver(arrived(2, 3, subscription=2))]


def test_after_a_break_a_subscription_continues_behind_what_it_has() -> None:
    client = subscribed()
    client.hear(delivery(3, 4))
    client.hear(delivery(7, publisher="q"))
    assert client.down() == []
    assert client.up("c", 1) == [subscribe(guarantee="reference", is_continued=True, after=(("p", 4), ("q", 7)))]


def test_positions_that_do_not_fit_a_message_go_ahead_of_it() -> None:
    client = subscribed(window=8192)
    names = [f"{number:05d}" + "x" * 200 for number in range(PUBLISHERS_MAX + 1000)]
    for name in names:
        client.hear(delivery(1, publisher=name))
    client.handle(Took(1, len(names)))
    client.down()
    *behind, again = client.up()
    assert isinstance(again, Subscribe)
    assert {each.subscription for each in behind} == {1}
    assert [name for part in (*(each.positions for each in behind), again.after) for name, _ in part] == names
    assert all(len(encode(message)) < FRAME_BYTES_MAX for message in (*behind, again))
    assert drops(client.hear(delivery(1, publisher=names[0]))) == [REPEATED]


def test_beyond_a_bound_the_position_of_the_publisher_silent_longest_is_forgotten_and_that_is_told_once() -> None:
    client = attached(positions_max=3)
    client.handle(OpenSubscription("s", "x > 1"))
    client.hear(receipt("subscribe", 1))
    for name in ("p", "q", "r", "p"):
        assert items(client.hear(delivery(1 if name != "p" else 7, publisher=name)), Missed) == []
    (missed,) = items(client.hear(delivery(1, publisher="s")), Missed)
    assert "more than 3 publishers" in missed.reason
    assert items(client.hear(delivery(1, publisher="t")), Missed) == []
    client.down()
    (again,) = client.up()
    assert [name for name, _ in again.after] == ["p", "s", "t"]
    client.handle(CloseSubscription("u", 1))
    assert client.machine.positions_kept.count == 0


def test_an_unconfirmed_subscription_begins_anew_after_a_break() -> None:
    client = attached()
    client.handle(OpenSubscription("s", "x > 1"))
    client.down()
    assert client.up() == [subscribe()]
    assert items(client.hear(receipt("subscribe", 1))) == [Confirmed("s", receipt("subscribe", 1))]


def test_the_first_receipt_is_the_mark_across_all_breaks() -> None:
    client = subscribed()
    for epoch in (2, 3):
        client.down()
        assert client.up("b", epoch) == [subscribe(guarantee="reference", is_continued=True)]
        assert client.hear(receipt("subscribe", 1, at=50.0 + epoch)) == []


def test_a_subscription_continues_behind_where_it_began() -> None:
    client = attached()
    client.handle(OpenSubscription("t", "x > 1"))
    assert client.hear(Beginning(1, (("p", 7), ("q", 0)))) == []
    client.hear(receipt("subscribe", 1))
    client.hear(delivery(8))
    assert drops(client.hear(Beginning(1, (("r", 7),)))) == [UNKNOWN_SUBSCRIPTION], "after the receipt it has begun"
    client.down()
    assert client.up() == [subscribe(guarantee="reference", is_continued=True, after=(("q", 0), ("p", 8)))]


def test_a_reference_keeps_its_own_beginning() -> None:
    client = subscribed(guarantee="reference", since=20.0, after=(("p", 3), ("r", 9)))
    client.hear(delivery(5))
    client.down()
    assert client.up() == [subscribe(guarantee="reference", since=20.0, is_continued=True, after=(("p", 5), ("r", 9)))]


def test_what_came_before_the_receipt_is_not_asked_for_again() -> None:
    client = attached()
    client.handle(OpenSubscription("t", "x > 1", "reference", since=20.0))
    client.hear(delivery(4, 5))
    client.down()
    assert client.up() == [subscribe(guarantee="reference", since=20.0, after=(("p", 5),))]
    client.hear(receipt("subscribe", 1))
    client.down()
    assert client.up() == [subscribe(guarantee="reference", since=20.0, is_continued=True, after=(("p", 5),))]


def test_what_may_have_been_told_before_a_break_is_told_as_an_upper_bound() -> None:
    client = subscribed()
    told = Missed(1, "p", 2, "forgotten")
    bound = Missed(1, "p", 2, "forgotten" + MAY_BE_TOLD)
    assert client.hear(told) == client.hear(told) == [Deliver(told)], "over one link each is told once"
    client.down()
    client.up()
    assert client.hear(Missed(1, "q", 2, "forgotten")) == [Deliver(Missed(1, "q", 2, "forgotten"))]
    assert client.hear(told) == [Deliver(bound)]
    assert client.hear(bound) == [Deliver(bound)]
    assert client.hear(Missed(1, "p", 0, "forgotten")) == [Deliver(Missed(1, "p", 0, "forgotten"))]
    client.hear(delivery(3))
    assert client.hear(told) == [Deliver(told)], "a position says now what is known"


def test_what_may_have_been_told_before_a_refusal_is_told_as_an_upper_bound() -> None:
    client = attached()
    client.handle(OpenSubscription("s", "x > 1", "reference"))
    told, bound = Missed(1, "p", 2, "forgotten"), Missed(1, "p", 2, "forgotten" + MAY_BE_TOLD)
    (timer,) = client.hear(Refusal("subscribe", 1, "busy", True))
    assert client.hear(told) == [Deliver(told)], "an answer to what was refused may still come"
    assert isinstance(timer, SetTimer)
    client.now = timer.at
    client.handle(Fired(timer.key))
    assert client.hear(told) == [Deliver(bound)]
    other, other_bound = Missed(1, "q", 2, "forgotten"), Missed(1, "q", 2, "forgotten" + MAY_BE_TOLD)
    assert client.hear(other) == [Deliver(other)], "it may be an answer to what was refused too"
    assert client.hear(other) == [Deliver(other_bound)]
    client.hear(receipt("subscribe", 1))
    assert client.hear(Missed(1, "r", 2, "forgotten")) == [Deliver(Missed(1, "r", 2, "forgotten"))]
    assert client.hear(Missed(1, "r", 2, "forgotten")) == [Deliver(Missed(1, "r", 2, "forgotten"))]


def test_a_reference_behind_positions_only_continues_since_its_receipt_for_others() -> None:
    client = subscribed(guarantee="reference", after=(("p", 3),))
    client.down()
    assert client.up() == [subscribe(guarantee="reference", is_continued=True, after=(("p", 3),))]


def test_a_subscription_without_guarantee_starts_again_with_what_comes() -> None:
    client = subscribed(guarantee="none")
    client.hear(delivery(5))
    client.down()
    assert client.up() == [subscribe(guarantee="none")]


def test_what_comes_twice_is_handed_out_once() -> None:
    client = subscribed()
    client.hear(delivery(1, 2, 3))
    assert client.hear(delivery(2, 3, 4, 5)) == [Drop(delivery(2, 3, 4, 5), REPEATED), Deliver(arrived(4, 5))]
    assert drops(client.hear(delivery(4, 5))) == [REPEATED]
    assert items(client.hear(delivery(4, publisher="q"))) == [arrived(4, publisher="q")]


def test_numbers_in_no_order_are_handed_out_ascending_or_not_at_all() -> None:
    client = subscribed()
    assert items(client.hear(delivery(2, 1, 2, 4, 4))) == [arrived(2, 4)]


def test_without_a_promise_what_comes_late_is_handed_out_too_and_only_once() -> None:
    client = subscribed(guarantee="none")
    assert items(client.hear(delivery(1, 4))) == [arrived(1, 4)]
    assert items(client.hear(delivery(3))) == [arrived(3)]
    assert client.hear(delivery(2, 3, 5)) == [Drop(delivery(2, 3, 5), REPEATED), Deliver(arrived(2, 5))]
    assert drops(client.hear(delivery(1, 2, 4))) == [REPEATED]


def test_the_broker_is_told_in_steps_of_half_a_window_what_was_taken() -> None:
    client = subscribed(window=10)
    client.hear(delivery(*range(1, 11)))
    assert client.handle(Took(1, 4)) == []
    assert client.handle(Took(1, 1)) == [Send("b", Taken(1, 5))]
    assert client.handle(Took(1, 5)) == [Send("b", Taken(1, 5))]


def test_the_broker_is_told_when_much_was_taken_and_nothing_is_left() -> None:
    client = subscribed(window=1000)
    client.hear(Delivery("p", 1.0, (1, 2), (b"\x80", b"\x80"), (bytes(50_000), bytes(50_000)), ((1,),)))
    assert client.handle(Took(1, 1)) == []
    assert client.handle(Took(1, 1)) == [Send("b", Taken(1, 2))]
    client.hear(delivery(3))
    assert client.handle(Took(1, 1)) == []


def test_repetitions_count_as_taken_so_that_the_window_does_not_close() -> None:
    client = subscribed(window=4)
    client.hear(delivery(1, 2))
    client.handle(Took(1, 2))
    effects = client.hear(delivery(1, 2))
    assert sent(effects) == [Taken(1, 2)]


def test_what_came_over_an_earlier_link_is_not_reported_as_taken() -> None:
    client = subscribed(window=4)
    client.hear(delivery(1, 2, 3))
    client.down()
    client.up()
    client.hear(delivery(4, 5, 6, 7))
    assert client.handle(Took(1, 3)) == []
    assert client.handle(Took(1, 2)) == [Send("b", Taken(1, 2))]


def test_while_a_window_is_held_the_subscription_is_not_made_again() -> None:
    client = subscribed(window=2)
    client.hear(delivery(1, 2))
    client.down()
    assert client.up() == []
    (again,) = sent(client.handle(Took(1, 1)))
    assert again == subscribe(window=2, guarantee="reference", is_continued=True, after=(("p", 2),))
    assert items(client.hear(delivery(3, 4))) == [arrived(3, 4)]


def test_a_broker_that_ignores_the_window_is_left() -> None:
    client = subscribed(window=2)
    effects = client.hear(delivery(1, 2, 3))
    assert effects == [Drop(delivery(1, 2, 3), WINDOW_IGNORED), Disconnect("b", WINDOW_IGNORED)]


def test_unsubscribing_ends_the_events_at_once_and_is_confirmed() -> None:
    client = subscribed()
    assert client.handle(CloseSubscription("u", 1)) == [Send("b", Unsubscribe(1))]
    assert drops(client.hear(delivery(1))) == [UNKNOWN_SUBSCRIPTION]
    assert items(client.hear(receipt("unsubscribe", 1))) == [Confirmed("u", receipt("unsubscribe", 1))]
    assert items(client.handle(CloseSubscription("v", 1))) == [Failed("v", NO_SUCH)]


def test_a_broker_that_knows_no_such_subscription_ends_it_as_well() -> None:
    client = subscribed()
    client.handle(CloseSubscription("u", 1))
    assert items(client.hear(Refusal("unsubscribe", 1, "no such", False))) == [Confirmed("u", None)]


def test_a_break_ends_a_subscription_that_is_being_closed() -> None:
    client = subscribed()
    client.handle(CloseSubscription("u", 1))
    assert client.down() == [Deliver(Confirmed("u", None))]
    assert client.up() == []


def test_closing_without_a_broker_needs_no_answer() -> None:
    client = subscribed()
    client.down()
    assert client.handle(CloseSubscription("u", 1)) == [Deliver(Confirmed("u", None))]


def test_closing_before_the_receipt_tells_both_who_wait() -> None:
    client = attached()
    client.handle(OpenSubscription("s", "x > 1"))
    assert client.handle(CloseSubscription("u", 1)) == [Deliver(Failed("s", CLOSED)), Send("b", Unsubscribe(1))]
    assert drops(client.hear(receipt("subscribe", 1))) == [NOT_ASKED]


def test_a_refusal_for_good_is_told_and_forgets_the_request() -> None:
    client = attached()
    client.handle(OpenSubscription("s", "x > 1"))
    assert client.hear(Refusal("subscribe", 1, "no", False)) == [Deliver(Failed("s", "no", False))]
    client.down()
    assert client.up() == []


def test_a_refusal_that_may_pass_is_retried_with_growing_waits_and_a_bound() -> None:
    client = attached(retry_first=1.0, retry_max=4.0, retries_max=3)
    client.handle(OpenSubscription("s", "x > 1"))
    for longest in (1.0, 2.0, 4.0):
        (timer,) = client.hear(Refusal("subscribe", 1, "busy", True))
        assert isinstance(timer, SetTimer)
        assert timer.key == ("retry", "subscribe", 1)
        assert longest / 2 < timer.at - client.now <= longest
        client.now = timer.at
        assert client.handle(Fired(timer.key)) == [Send("b", subscribe())]
    assert client.hear(Refusal("subscribe", 1, "busy", True))[-1] == Deliver(Failed("s", "busy", True))


def test_a_break_makes_a_retry_superfluous() -> None:
    client = attached()
    client.handle(OpenSubscription("s", "x > 1"))
    client.hear(Refusal("subscribe", 1, "busy", True))
    assert client.down() == [CancelTimer(("retry", "subscribe", 1))]
    assert client.handle(Fired(("retry", "subscribe", 1))) == []


def test_a_subscription_that_a_new_broker_refuses_has_ended() -> None:
    client = subscribed()
    client.down()
    client.up()
    effects = client.hear(Refusal("subscribe", 1, "not permitted", False))
    assert effects == [Deliver(Ended("subscribe", 1, "not permitted"))]


def test_what_the_broker_could_not_give_is_told() -> None:
    client = subscribed()
    missed = Missed(1, "p", 3, "queue full")
    assert client.hear(missed) == [Deliver(missed)]
    assert drops(client.hear(Missed(9, "p", 3, "queue full"))) == [UNKNOWN_SUBSCRIPTION]


def test_a_subscription_that_wants_it_so_ends_when_it_is_too_slow() -> None:
    client = subscribed(policy="disconnect")
    effects = client.hear(Missed(1, "p", 3, QUEUE_FULL))
    assert items(effects) == [Missed(1, "p", 3, QUEUE_FULL), Ended("subscribe", 1, f"too slow: {QUEUE_FULL}")]
    client.down()
    assert client.up() == []


def test_what_history_has_forgotten_is_no_reason_to_end_for_one_who_is_not_too_slow() -> None:
    client = subscribed(policy="disconnect")
    missed = Missed(1, "p", 3, "older publications were asked for than are stored")
    assert client.hear(missed) == [Deliver(missed)]


def test_more_subscriptions_than_allowed_are_refused_here() -> None:
    client = attached(subscriptions_max=1)
    client.handle(OpenSubscription("s", "x > 1"))
    assert client.handle(OpenSubscription("t", "x > 1")) == [Deliver(Failed("t", TOO_MANY))]


# Advertisements and publications.


def test_publications_are_numbered_kept_until_accepted_and_sent_again() -> None:
    client = advertised()
    assert sent(client.handle(publish(b"1", b"2"))) == [PublishMessage(1, 1, False, (b"h", b"h"), (b"1", b"2"))]
    assert sent(client.handle(publish(b"3"))) == [PublishMessage(1, 3, False, (b"h",), (b"3",))]
    assert client.hear(Accepted(1)) == [Deliver(Accepted(1))]
    client.down()
    again = [PublishMessage(1, 2, False, (b"h",), (b"2",)), PublishMessage(1, 3, False, (b"h",), (b"3",))]
    assert client.up() == [Advertise(1, "TRUE"), *again]
    client.hear(Accepted(3))
    client.down()
    assert client.up() == [Advertise(1, "TRUE")]


def test_publications_begin_with_the_number_that_was_given() -> None:
    client = advertised(first_publication=1000)
    assert sent(client.handle(publish(b"1"))) == [PublishMessage(1, 1000, False, (b"h",), (b"1",))]
    assert client.hear(Accepted(1000)) == [Deliver(Accepted(1000))]


def test_accepting_what_was_accepted_is_dropped() -> None:
    client = advertised()
    client.handle(publish(b"1"))
    assert drops(client.hear(Accepted(0))) == [NOT_ASKED]


def test_numbers_that_somebody_else_has_used_are_refused_and_nobody_waits_for_them() -> None:
    client = advertised()
    client.handle(publish(b"1"))
    client.handle(publish(b"2", ticket="t"))
    effects = client.hear(Accepted(5))
    assert drops(effects) == [NUMBERS_USED]
    assert items(effects) == [Declined((1, 2), NUMBERS_USED), Failed("t", NUMBERS_USED), Accepted(2)]
    assert client.machine.publishing.count == 0


def test_a_broker_hears_first_which_life_of_the_client_publishes() -> None:
    client = Client(life="k3v9")
    client.handle(OpenAdvertisement("a", "TRUE"))
    client.handle(publish(b"1"))
    first, second, third = client.up()
    assert first == PublisherLife("k3v9")
    assert second == Advertise(1, "TRUE") and isinstance(third, PublishMessage)


def test_advertisements_come_first_then_publications_then_subscriptions() -> None:
    client = Client()
    client.handle(OpenSubscription("s", "x > 1"))
    client.handle(OpenAdvertisement("a", "TRUE"))
    client.handle(publish(b"1"))
    assert client.up() == [Advertise(1, "TRUE"), PublishMessage(1, 1, False, (b"h",), (b"1",)), subscribe()]


def test_publications_that_the_broker_cannot_read_are_declined_and_never_sent_again() -> None:
    client = advertised()
    client.handle(publish(b"1"))
    bad = PublishMessage(1, 2, True, (b"h", b"h"), (b"2", b"3"))
    assert bad in sent(client.handle(publish(b"2", b"3", ticket="t")))
    client.handle(publish(b"4"))
    assert bad in client.machine.unanswered()
    effects = client.handle(Unread("b", bad, "too long"))
    assert items(effects) == [Declined((2, 3), "too long"), Failed("t", "too long")]
    assert client.handle(Unread("b", bad, "too long")) == [], "once is enough"
    client.down()
    void = PublishMessage(0, 2, False, (b"\x80", b"\x80"), (b"", b""))
    first, last = PublishMessage(1, 1, False, (b"h",), (b"1",)), PublishMessage(1, 4, False, (b"h",), (b"4",))
    assert client.up() == [Advertise(1, "TRUE"), first, void, last]
    assert client.hear(Declined((2, 3), "under no advertisement")) == [], "the application knows already"
    assert client.hear(Accepted(4)) == [Deliver(Accepted(4))]
    assert client.hear(Declined((2,), "x")) == [Deliver(Declined((2,), "x"))], "nothing is remembered of it"


def test_requests_that_the_broker_cannot_read_are_refused_and_never_made_again() -> None:
    client = Client()
    client.handle(OpenSubscription("s", "x > 1"))
    client.handle(OpenAdvertisement("a", "TRUE"))
    client.handle(ReadMarks("m", "TRUE"))
    for message, ticket in zip(client.up(), ("a", "s", "m"), strict=True):
        assert items(client.handle(Unread("b", message, "no"))) == [Failed(ticket, "no")]
    client.down()
    assert client.up() == []


def test_an_advertisement_that_leaves_and_cannot_be_read_is_gone() -> None:
    client = advertised()
    client.handle(publish(b"1"))
    client.handle(CloseAdvertisement("c", 1))
    assert items(client.handle(Unread("b", Advertise(1, "TRUE"), "no"))) == [Confirmed("c", None)]
    client.down()
    assert client.up() == [PublishMessage(1, 1, False, (b"h",), (b"1",))]


def test_a_full_window_refuses_more_until_some_is_accepted() -> None:
    client = advertised(window_publications=2)
    client.handle(publish(b"1", b"2"))
    assert not client.machine.publishing.has_room(1, 1)
    effects = client.handle(publish(b"3", ticket="t"))
    assert (drops(effects), items(effects)) == ([WINDOW_FULL], [Failed("t", WINDOW_FULL)])
    client.hear(Accepted(1))
    assert client.machine.publishing.has_room(1, 1)


def test_the_window_counts_bytes_but_one_publication_always_fits_alone() -> None:
    client = advertised(window_bytes=10)
    assert client.machine.publishing.has_room(1, 1000)
    client.handle(publish(b"x" * 100))
    assert not client.machine.publishing.has_room(1, 1)


def test_many_publications_leave_in_messages_of_bounded_length() -> None:
    client = advertised(window_publications=10_000)
    parts = sent(client.handle(publish(*[b""] * (PUBLICATIONS_MAX + 1), ticket="t")))
    assert [(it.first, len(it.heads)) for it in parts] == [(1, PUBLICATIONS_MAX), (PUBLICATIONS_MAX + 1, 1)]
    assert client.hear(receipt("publish", PUBLICATIONS_MAX + 1)) == []
    assert items(client.hear(receipt("publish", PUBLICATIONS_MAX))) == [
        Confirmed("t", receipt("publish", PUBLICATIONS_MAX))
    ]


def test_a_receipt_for_publications_finds_who_asked() -> None:
    client = advertised()
    effects = client.handle(publish(b"1", b"2", ticket="t"))
    message = PublishMessage(1, 1, True, (b"h", b"h"), (b"1", b"2"))
    assert effects == [Deliver(Begun("t", 1)), ReceiptAsked(1, 2), Send("b", message)]
    assert client.hear(receipt("publish", 2)) == [Acknowledged(1), Deliver(Confirmed("t", receipt("publish", 2)))]
    assert drops(client.hear(receipt("publish", 2))) == [NOT_ASKED]


def test_a_receipt_that_a_break_swallowed_comes_over_the_next_link() -> None:
    client = advertised()
    client.handle(publish(b"1", ticket="t"))
    client.handle(publish(b"2", ticket="u"))
    client.hear(Accepted(1))
    assert client.down() == []
    first, second = (PublishMessage(1, number, True, (b"h",), (b"%d" % number,)) for number in (1, 2))
    assert client.up() == [Advertise(1, "TRUE"), first, second]
    assert drops(client.hear(Accepted(1))) == [NOT_ASKED]
    assert items(client.hear(receipt("publish", 1))) == [Confirmed("t", receipt("publish", 1))]
    assert items(client.hear(receipt("publish", 2))) == [Confirmed("u", receipt("publish", 2))]
    client.hear(Accepted(2))
    client.down()
    assert client.up() == [Advertise(1, "TRUE")]


def test_a_receipt_that_cannot_be_asked_for_again_is_told_as_unknown() -> None:
    client = advertised(window_bytes=5)
    for number, ticket in enumerate("tu", 1):
        client.handle(publish(b"123", ticket=ticket))
        client.hear(Accepted(number))
    assert client.down() == [Released(2), Deliver(Failed("u", RECEIPT_LOST))], "there was no room for it"
    client.up()
    client.handle(CloseAdvertisement("v", 1))
    client.hear(receipt("unadvertise", 1))
    assert client.down() == [Released(1), Deliver(Failed("t", RECEIPT_LOST))], "its advertisement is gone"


def test_a_refused_receipt_and_declined_publications_are_told() -> None:
    client = advertised()
    client.handle(publish(b"1", ticket="t"))
    assert client.hear(Declined((1,), "outside")) == [Deliver(Declined((1,), "outside"))]
    refused = client.hear(Refusal("publish", 1, "outside", False))
    assert refused == [Released(1), Deliver(Failed("t", "outside", False))]
    assert drops(client.hear(Refusal("publish", 1, "outside", False))) == [NOT_ASKED]


def test_publishing_under_no_advertisement_is_given_up() -> None:
    client = attached()
    assert drops(client.handle(publish(b"1"))) == [NO_SUCH]


def test_an_advertisement_is_withdrawn_behind_its_publications_also_after_a_break() -> None:
    client = advertised()
    client.handle(publish(b"1"))
    assert client.handle(CloseAdvertisement("w", 1)) == [Send("b", Unadvertise(1))]
    assert drops(client.handle(publish(b"2"))) == [NO_SUCH]
    client.down()
    assert client.up() == [Advertise(1, "TRUE"), PublishMessage(1, 1, False, (b"h",), (b"1",)), Unadvertise(1)]
    client.hear(Accepted(1))
    client.down()
    assert client.up() == [Unadvertise(1)]
    assert items(client.hear(receipt("unadvertise", 1))) == [Confirmed("w", receipt("unadvertise", 1))]


def test_an_advertisement_is_withdrawn_when_its_publications_are_accepted() -> None:
    """Until then another broker may have to be asked for it."""
    client = advertised()
    client.handle(publish(b"1"))
    client.handle(CloseAdvertisement("w", 1))
    assert client.hear(receipt("unadvertise", 1)) == []
    client.down()
    again = [Advertise(1, "TRUE"), PublishMessage(1, 1, False, (b"h",), (b"1",)), Unadvertise(1)]
    assert client.up("d") == again
    assert client.hear(receipt("unadvertise", 1), "d") == []
    done = [Accepted(1), Confirmed("w", receipt("unadvertise", 1))]
    assert items(client.hear(Accepted(1), "d")) == done
    client.down("d")
    assert client.up() == []


def test_an_advertisement_refused_for_now_is_retried() -> None:
    client = attached()
    client.handle(OpenAdvertisement("a", "TRUE"))
    (timer,) = client.hear(Refusal("advertise", 1, "busy", True))
    assert client.handle(Fired(timer.key)) == [Send("b", Advertise(1, "TRUE"))]
    assert items(client.hear(Refusal("advertise", 1, "no", False))) == [Failed("a", "no", False)]


# The broker.


def test_what_anybody_else_says_is_dropped() -> None:
    client = subscribed()
    assert drops(client.hear(delivery(1), sender="x")) == [NOT_OUR_BROKER]
    client.down()
    assert drops(client.hear(delivery(1))) == [NOT_OUR_BROKER]


def test_the_application_hears_that_it_was_turned_away() -> None:
    assert Client().handle(TurnedAway("b", "who are you")) == [Deliver(TurnedAway("b", "who are you"))]


@pytest.mark.parametrize(
    "answer",
    [
        *(receipt(kind, 9) for kind in ("subscribe", "unsubscribe", "advertise", "unadvertise", "publish")),
        *(Refusal(kind, 9, "no", True) for kind in ("subscribe", "unsubscribe", "advertise", "unadvertise", "publish")),
    ],
)
def test_answers_that_were_not_asked_for_are_dropped(answer: Any) -> None:
    assert drops(subscribed().hear(answer)) == [NOT_ASKED]


def test_a_session_that_starts_again_waits_for_a_broker() -> None:
    client = subscribed()
    client.hear(delivery(1))
    client.machine.start(9.0)
    client.machine.check()
    assert client.up() == [subscribe(guarantee="reference", is_continued=True, after=(("p", 1),))]


@pytest.mark.parametrize(
    "wrong",
    [{"window_bytes": 0}, {"retry_first": 0.0}, {"retry_max": 0.1}, {"retries_max": -1}, {"retry_max": float("nan")}],
)
def test_parameters_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        SessionParams(**wrong)


class PlainBroker:
    """Keeps what is published and gives it, behind the positions, to whoever subscribes: the model in the property."""

    def __init__(self) -> None:
        self.published: list[bytes] = []
        self.through = 0
        self.sent: int | None = None
        """The position of the subscriber; None while there is none."""

    def hear(self, message: Any) -> list[Any]:
        match message:
            case PublishMessage(_, first, _, _, payloads):
                for number, payload in enumerate(payloads, first):
                    if number > self.through:
                        self.through = number
                        self.published.append(payload)
                return [Accepted(self.through)]
            case Subscribe(number, _, _, _, after):
                self.sent = dict(after).get("p", 0)
                return [receipt("subscribe", number)]
            case Advertise(number):
                return [receipt("advertise", number)]
        return []

    def deliver(self, count: int, overlap: int) -> list[Any]:
        if self.sent is None:
            return []
        begin = max(0, self.sent - overlap)
        chosen = self.published[begin : self.sent + count]
        self.sent = begin + len(chosen)
        numbers = tuple(range(begin + 1, begin + 1 + len(chosen)))
        return [Delivery("p", 60.0, numbers, (b"h",) * len(chosen), tuple(chosen), ((1,),))] if chosen else []


steps = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 4)),
        st.tuples(st.just("to broker"), st.integers(0, 5)),
        st.tuples(st.just("to client"), st.integers(0, 5)),
        st.tuples(st.just("deliver"), st.integers(1, 5), st.integers(0, 2)),
        st.tuples(st.just("break")),
        st.tuples(st.just("take"), st.integers(1, 5)),
    ),
    max_size=60,
)


@given(steps)
def test_whatever_breaks_everything_published_arrives_once_and_in_order(script: list[Any]) -> None:
    client, broker = Client(), PlainBroker()
    out: list[Any] = []
    back: list[Any] = []
    received: list[bytes] = []
    held = published = 0

    def take(input: Any) -> None:
        nonlocal held
        for effect in client.handle(input):
            if isinstance(effect, Send):
                out.append(effect.message)
            elif isinstance(effect, Deliver) and isinstance(effect.item, Arrived):
                received.extend(effect.item.payloads)
                held += len(effect.item.payloads)

    def run(step: Any) -> None:
        nonlocal published, held
        match step:
            case ("publish", count):
                take(publish(*[str(published + place).encode() for place in range(count)]))
                published += count
            case ("to broker", count):
                for message in out[:count]:
                    back.extend(broker.hear(message))
                del out[:count]
            case ("to client", count):
                arriving = back[:count]
                del back[:count]
                for message in arriving:
                    take(Received("b", message))
            case ("deliver", count, overlap):
                back.extend(broker.deliver(count, overlap))
            case ("break",):
                take(PeerDown("b", 1, "broken"))
                out.clear()
                back.clear()
                broker.sent = None
                take(PeerUp("b", 1))
            case ("take", count):
                count = min(count, held)
                held -= count
                take(Took(1, count))

    take(PeerUp("b", 1))
    take(OpenAdvertisement("a", "TRUE"))
    take(OpenSubscription("s", "TRUE", window=1000))
    run(("to broker", 2))
    run(("to client", 2))
    for step in script:
        run(step)
    for step in (("break",), ("to broker", 1000), ("to client", 1000), ("deliver", 1000, 0), ("to client", 1000)):
        run(step)
    assert received == [str(number).encode() for number in range(published)]


small = st.integers(0, 4)
kinds = st.sampled_from(["subscribe", "unsubscribe", "advertise", "unadvertise", "publish"])
batches = st.lists(small, max_size=4).map(tuple)
nonsense = st.one_of(
    st.builds(receipt, kinds, small),
    st.builds(Refusal, kinds, small, st.just("no"), st.booleans()),
    st.builds(Accepted, small),
    st.builds(Declined, batches, st.just("no")),
    st.builds(lambda numbers, matched: delivery(*numbers, matched=(matched,)), batches, batches),
    st.builds(Missed, small, st.just("p"), small, st.just("lost")),
)
tickets = st.one_of(st.none(), st.builds(object))
requests = st.one_of(
    st.builds(
        OpenSubscription,
        st.just("s"),
        st.just("x > 1"),
        window=st.integers(1, 4),
        policy=st.sampled_from(["wait", "disconnect"]),
    ),
    st.builds(CloseSubscription, st.just("c"), small),
    st.builds(OpenAdvertisement, st.just("a"), st.just("TRUE")),
    st.builds(CloseAdvertisement, st.just("w"), small),
    st.builds(lambda number, ticket: PublishBatch(number, (b"h",), (b"",), ticket), small, tickets),
    st.builds(Took, small, small),
    st.builds(PeerUp, st.just("b"), small),
    st.builds(PeerDown, st.just("b"), small),
    st.builds(Fired, st.tuples(st.just("retry"), st.sampled_from(["subscribe", "advertise"]), small)),
)


@given(st.lists(st.one_of(nonsense, requests), max_size=40))
def test_whatever_a_broker_says_the_session_stays_whole_and_hands_out_nothing_twice(script: list[Any]) -> None:
    client = Client(subscriptions_max=3, advertisements_max=3)
    seen: set[tuple[int, str, int]] = set()
    for step in script:
        is_message = type(step) in Session.messages
        if isinstance(step, PeerUp) and client.machine.broker is not None:
            continue
        for item in items(client.handle(Received("b", step) if is_message else step)):
            if isinstance(item, Arrived):
                arriving = [(item.subscription, item.publisher, number) for number in item.numbers]
                assert len(set(arriving)) == len(arriving)
                assert seen.isdisjoint(arriving)
                seen.update(arriving)
