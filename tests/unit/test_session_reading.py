"""Reading, and numbers of the application's own: the client's end, step by step."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.message_strategies import of_message
from tests.worlds.desk import Desk, of, sent
from tidings.machine.effects import Deliver, Drop, Effect, Send
from tidings.machine.inputs import Received
from tidings.machine.streams import random_stream
from tidings.model.errors import UsageError
from tidings.protocols.delivery.messages import Advertise, Fetch, Look, PublishMessage, Refusal
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.delivery.session.session import Session
from tidings.protocols.delivery.session.standings import NOT_ASKED, PARTS_MAX, TOO_LONG, TOO_MANY
from tidings.pubsub.client import (
    Accepted,
    Begun,
    Failed,
    Fetched,
    HistoryRead,
    MarksRead,
    MarksReply,
    OpenAdvertisement,
    OpenSubscription,
    PublishBatch,
    ReadHistory,
    ReadMarks,
    Receipt,
    StopReading,
)
from tidings.pubsub.pages import page_of
from tidings.pubsub.signals import PeerDown, PeerUp

UP, DOWN = PeerUp("b", 1), PeerDown("b", 1, "broken")
PAGE = Fetched(1, 9, False, False, page_of((2.5,), (7,), (b"\x80",), (b"x",)))


class Client(Desk[Session]):
    def __init__(self, *numbers: Any, **params: Any) -> None:
        super().__init__(Session(SessionParams(**params), random_stream(1, "session"), *numbers))

    def hear(self, message: Any) -> list[Effect]:
        return self.handle(Received("b", message))


def marks(number: int = 1, name: str = "p", is_last: bool = True) -> MarksReply:
    return MarksReply(number, ((name, 0, 9),), (), (), is_last)


def test_a_reading_is_numbered_sent_and_answered_once() -> None:
    client = Client()
    client.handle(UP)
    assert client.handle(ReadMarks("t", "x > 1")) == [Deliver(Begun("t", 1)), Send("b", Look(1, "x > 1"))]
    asked = ReadHistory("u", "x > 1", "p", 3, None, 9, 100)
    assert client.handle(asked) == [Deliver(Begun("u", 2)), Send("b", Fetch(2, "x > 1", "p", 3, None, 9, 100))]
    assert client.hear(marks()) == [Deliver(MarksRead("t", (marks(),)))]
    page = Fetched(2, 9, False, False, page_of((2.5,), (7,), (b"\x80",), (b"x",)))
    assert client.hear(page) == [Deliver(HistoryRead("u", page))]
    assert client.hear(page) == [Drop(page, NOT_ASKED)]
    assert client.hear(marks()) == [Drop(marks(), NOT_ASKED)]


def test_a_reading_without_an_answer_is_asked_of_the_next_broker() -> None:
    client = Client()
    client.handle(ReadMarks("t", "x > 1"))
    assert sent(client.handle(UP)) == [Look(1, "x > 1")]
    client.hear(marks(is_last=False))
    client.handle(DOWN)
    assert sent(client.handle(PeerUp("b", 2))) == [Look(1, "x > 1")]
    assert client.hear(marks(name="q")) == [Deliver(MarksRead("t", (marks(name="q"),)))]
    client.handle(DOWN)
    assert sent(client.handle(PeerUp("b", 3))) == []


def test_an_answer_in_several_messages_is_delivered_whole() -> None:
    client = Client()
    client.handle(UP)
    client.handle(ReadMarks("t", "x > 1"))
    assert client.hear(marks(is_last=False)) == []
    assert client.hear(marks(name="q")) == [Deliver(MarksRead("t", (marks(is_last=False), marks(name="q"))))]


def test_an_answer_without_an_end_is_given_up() -> None:
    client = Client()
    client.handle(UP)
    client.handle(ReadMarks("t", "x > 1"))
    for _ in range(PARTS_MAX - 1):
        assert of(Deliver, client.hear(marks(is_last=False))) == []
    assert client.hear(marks(is_last=False)) == [Deliver(Failed("t", TOO_LONG))]


def test_a_refusal_ends_a_reading() -> None:
    client = Client()
    client.handle(UP)
    client.handle(ReadMarks("t", "x > 1"))
    refusal = Refusal("read", 1, "not reachable", True)
    assert client.hear(refusal) == [Deliver(Failed("t", "not reachable", True))]
    assert client.hear(refusal) == [Drop(refusal, NOT_ASKED)]


def test_answers_of_the_wrong_kind_are_dropped() -> None:
    client = Client()
    client.handle(UP)
    client.handle(ReadMarks("t", "x > 1"))
    client.handle(OpenSubscription("s", "x > 1"))
    assert client.hear(PAGE) == [Drop(PAGE, NOT_ASKED)]
    receipt = Receipt("read", 1, (), 0, 1.0, "")
    assert client.hear(receipt) == [Drop(receipt, NOT_ASKED)]
    client.handle(StopReading(1))
    client.handle(ReadHistory("u", "x > 1", "p", 3, None, 9, 100))
    assert client.hear(marks(2)) == [Drop(marks(2), NOT_ASKED)]


def test_no_more_is_read_at_a_time_than_allowed_and_what_is_stopped_makes_room() -> None:
    client = Client(readings_max=1)
    client.handle(ReadMarks("t", "x > 1"))
    assert client.handle(ReadMarks("u", "x > 1")) == [Deliver(Failed("u", TOO_MANY))]
    assert client.handle(StopReading(1)) == []
    assert client.handle(ReadMarks("v", "x > 1")) == [Deliver(Begun("v", 2))]
    with pytest.raises(UsageError, match="readings_max"):
        SessionParams(readings_max=0)


def test_what_an_earlier_process_published_counts_as_accepted() -> None:
    client = Client(5, True)
    client.handle(UP)
    assert sent(client.handle(OpenAdvertisement("a", "x > 1"))) == [Advertise(1, "x > 1", 5)]
    client.handle(PublishBatch(1, (b"h", b"h"), (b"", b"")))
    assert client.hear(Accepted(100)) == [Deliver(Accepted(6))]
    assert client.machine.publishing.count == 0
    assert client.hear(Accepted(100)) == [Drop(Accepted(100), NOT_ASKED)]
    (message,) = sent(client.handle(PublishBatch(1, (b"h",), (b"",))))
    assert isinstance(message, PublishMessage) and message.first == 7
    assert client.hear(Accepted(101)) == [Deliver(Accepted(7))]


@given(st.booleans(), st.lists(st.one_of([of_message(kind) for kind in Session.messages]), max_size=20))
def test_no_message_of_a_broker_raises(is_repeating: bool, heard: list[Any]) -> None:
    client = Client(1, is_repeating)
    client.handle(UP)
    client.handle(OpenAdvertisement("a", "x > 1"))
    client.handle(OpenSubscription("s", "x > 1"))
    client.handle(PublishBatch(1, (b"h", b"h"), (b"", b"")))
    client.handle(ReadMarks("t", "x > 1"))
    client.handle(ReadHistory("u", "x > 1", "p", 3, None, 9, 100))
    for message in heard:
        client.hear(message)
