"""The client-side baselines."""

import math
from typing import Any

import pytest

from tests.worlds.edge import head
from tidings.machine.effects import Deliver, Drop, Send, SetTimer
from tidings.machine.inputs import Fired, Received
from tidings.model.errors import UsageError
from tidings.protocols.delivery.baselines import (
    NOT_BEHIND,
    NOT_CONNECTED,
    NOT_OUR_BROKER,
    NOT_USED,
    TOO_EARLY,
    UNKNOWN_SUBSCRIPTION,
    PlainParams,
    PlainSession,
)
from tidings.protocols.delivery.messages import Advertise, Delivery, PublishMessage, Subscribe, Taken, Unsubscribe
from tidings.pubsub.client import (
    Accepted,
    Arrived,
    Begun,
    CloseSubscription,
    Confirmed,
    Failed,
    OpenAdvertisement,
    OpenSubscription,
    PublishBatch,
    Receipt,
)
from tidings.pubsub.notes import Promised, ReceiptAsked, Released
from tidings.pubsub.signals import PeerDown, PeerUp


def connected(timeout: float = 2.0) -> PlainSession:
    session = PlainSession(PlainParams(timeout))
    session.start(0.0)
    session.handle(0.0, PeerUp("b", 1))
    return session


def delivery(publisher: str, accepted_at: float, *numbers: int, matched: Any = ((1,),)) -> Received:
    heads = tuple(head(number) for number in numbers)
    return Received("b", Delivery(publisher, accepted_at, numbers, heads, (b"",) * len(numbers), matched))


def arrived(effects: list[Any]) -> list[tuple[int, ...]]:
    return [e.item.numbers for e in effects if isinstance(e, Deliver) and isinstance(e.item, Arrived)]


@pytest.mark.spec("S-117")
def test_a_subscription_counts_as_installed_when_its_time_is_over() -> None:
    session = connected(timeout=2.0)
    effects = session.handle(1.0, OpenSubscription("t", "x >= 0"))
    assert effects[0] == Deliver(Begun("t", 1))
    assert effects[1].message == Subscribe(1, "x >= 0", "none", None, (), False, "", "wait", 10_000, 1024)
    assert effects[2] == SetTimer(("settled", "subscribe", 1), 3.0)
    receipt = Receipt("subscribe", 1, ("b",), 1, 1.1, "x >= 0")
    assert session.handle(1.2, Received("b", receipt)) == [Promised(1, "installed"), Deliver(receipt)]
    assert session.handle(3.0, Fired(("settled", "subscribe", 1))) == [Deliver(Confirmed("t", None))]
    session.check()


@pytest.mark.spec("S-117")
def test_a_publication_is_kept_until_its_time_is_over() -> None:
    session = connected(timeout=2.0)
    assert session.handle(0.0, OpenAdvertisement("a", "x >= 0"))[1] == Send("b", Advertise(1, "x >= 0"))
    effects = session.handle(1.0, PublishBatch(1, (head(1), head(2)), (b"", b""), "p"))
    assert effects[1] == Send("b", PublishMessage(1, 1, False, (head(1), head(2)), (b"", b"")))
    assert effects[3] == ReceiptAsked(1, 2)
    assert session.handle(1.5, PublishBatch(1, (head(3),), (b"",))) == [
        Send("b", PublishMessage(1, 3, False, (head(3),), (b"",)))
    ]
    assert list(session.kept) == [2]
    assert session.handle(3.0, Fired(("settled", "publish", 2))) == [Released(1), Deliver(Confirmed("p", None))]
    assert session.kept == {}
    session.check()


@pytest.mark.spec("S-117")
def test_what_was_accepted_before_the_time_asked_for_is_discarded_at_the_client() -> None:
    session = connected()
    session.handle(5.0, OpenSubscription("t", "x >= 0", guarantee="reference"))
    effects = session.handle(5.1, delivery("p", 4.9, 1, 2))
    assert arrived(effects) == []
    assert [effect.reason for effect in effects if isinstance(effect, Drop)] == [TOO_EARLY, TOO_EARLY]
    assert Send("b", Taken(1, 2)) in effects
    assert arrived(session.handle(5.2, delivery("p", 5.0, 3))) == [(3,)]


@pytest.mark.spec("S-117")
def test_what_is_not_behind_the_given_numbers_is_discarded_at_the_client() -> None:
    session = connected()
    session.handle(5.0, OpenSubscription("t", "x >= 0", guarantee="reference", after=(("p", 7),)))
    effects = session.handle(5.1, delivery("p", 1.0, 6, 7, 8, 9))
    assert arrived(effects) == [(8, 9)]
    assert [effect.reason for effect in effects if isinstance(effect, Drop)] == [NOT_BEHIND, NOT_BEHIND]
    assert arrived(session.handle(5.2, delivery("q", 4.0, 1))) == []


def test_without_a_reference_whatever_comes_is_taken() -> None:
    session = connected()
    session.handle(5.0, OpenSubscription("t", "x >= 0"))
    session.handle(5.0, OpenSubscription("u", "x >= 0"))
    effects = session.handle(5.1, delivery("p", 0.0, 1, 2, matched=((1,), (1, 2))))
    assert arrived(effects) == [(1, 2), (2,)]


def test_what_is_ended_is_not_delivered_any_more() -> None:
    session = connected()
    session.handle(0.0, OpenSubscription("t", "x >= 0"))
    assert session.handle(1.0, CloseSubscription("c", 1)) == [
        Send("b", Unsubscribe(1)),
        Deliver(Confirmed("c", None)),
    ]
    assert session.handle(1.0, delivery("p", 0.0, 1)) == [Drop(delivery("p", 0.0, 1).message, UNKNOWN_SUBSCRIPTION)]


def test_nothing_outlives_the_connection() -> None:
    session = connected()
    session.handle(0.0, OpenSubscription("t", "x >= 0"))
    down = PeerDown("b", 1)
    assert session.handle(1.0, down) == [Deliver(down), Deliver(Failed("t", NOT_CONNECTED))]
    for request in (OpenSubscription("t", "x >= 0"), OpenAdvertisement("t", "x >= 0"), CloseSubscription("t", 1)):
        assert session.handle(1.0, request) == [Deliver(Failed("t", NOT_CONNECTED))]
    assert isinstance(session.handle(1.0, PublishBatch(1, (head(1),), (b"",)))[0], Drop)
    assert session.handle(2.0, Fired(("settled", "subscribe", 1))) == []


def test_strangers_and_what_is_not_used_are_dropped() -> None:
    session = connected()
    assert session.handle(1.0, Received("z", Accepted(1))) == [Drop(Accepted(1), NOT_OUR_BROKER)]
    assert session.handle(1.0, Received("b", Accepted(1))) == [Drop(Accepted(1), NOT_USED)]


@pytest.mark.parametrize("params", [{"timeout": 0.0}, {"timeout": math.inf}, {"clock_offset": math.nan}])
def test_parameters_that_make_no_sense_are_refused_by_name(params: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=f"^{next(iter(params))}:"):
        PlainParams(**params)
