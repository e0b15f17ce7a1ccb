import math
from typing import Any

import pytest

from tidings.machine.effects import Deliver, Drop, Effect, Send, SetTimer, Transport
from tidings.machine.inputs import Fired, LinkUp, Received
from tidings.machine.node import Machine
from tidings.machine.streams import random_stream
from tidings.model.bounds import GOSSIP_KEY_CHARS_MAX, GOSSIP_KEYS_MAX
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.protocols.teaching.gossip import (
    EVICTED,
    KEY_TOO_LONG,
    NO_KEY,
    SEEN_ALREADY,
    Digest,
    Gossip,
    GossipParams,
    GossipRepair,
    GossipRequest,
)
from tidings.protocols.teaching.ping import Probe
from tidings.pubsub.requests import Publish


def named(number: int) -> Event:
    return Event({"source": "/a", "id": str(number)})


def key(number: int) -> tuple[str, str]:
    return ("/a", str(number))


def keys(*numbers: int) -> tuple[tuple[str, str], ...]:
    return tuple(key(number) for number in numbers)


def holding(*numbers: int, **params: Any) -> Gossip:
    gossip = Gossip(["b", "c"], GossipParams(**params), random_stream(1, "a", "gossip"))
    gossip.start(0.0)
    for number in numbers:
        gossip.handle(0.0, Publish(named(number)))
    return gossip


def test_the_first_round_comes_within_one_period() -> None:
    machine: Machine = holding()
    (timer,) = machine.start(10.0)
    assert timer.key == "round"
    assert 10 <= timer.at < 11


def test_a_published_event_is_delivered_here_and_offered_to_one_neighbour() -> None:
    gossip = holding()
    assert gossip.handle(1.0, Publish(named(1))) == [Deliver(named(1))]
    digest, timer = gossip.handle(2.0, Fired("round"))
    assert digest in [Send("b", Digest(keys(1))), Send("c", Digest(keys(1)))]
    assert timer == SetTimer("round", 3.0)


def test_every_neighbour_gets_its_turn() -> None:
    gossip = holding(1)
    assert {gossip.handle(second, Fired("round"))[0].to for second in range(20)} == {"b", "c"}


def test_who_holds_nothing_or_knows_nobody_says_nothing() -> None:
    assert holding().handle(1.0, Fired("round")) == [SetTimer("round", 2.0)]
    alone = Gossip([], GossipParams(), random_stream(1))
    alone.handle(0.0, Publish(named(1)))
    assert alone.handle(1.0, Fired("round")) == [SetTimer("round", 2.0)]


def test_what_is_missing_is_asked_for() -> None:
    gossip = holding(1, 3)
    assert gossip.handle(1.0, Received("b", Digest(keys(1, 2, 3, 4)))) == [Send("b", GossipRequest(keys(2, 4)))]
    assert gossip.handle(1.0, Received("b", Digest(keys(1, 3)))) == []


def test_a_request_is_answered_with_what_is_held() -> None:
    gossip = holding(1, 2, transport=Transport.DATAGRAM)
    assert gossip.handle(1.0, Received("b", GossipRequest(keys(2, 9, 2)))) == [
        Send("b", GossipRepair(named(2)), Transport.DATAGRAM)
    ]


def test_a_repair_is_delivered_once() -> None:
    gossip = holding()
    assert gossip.handle(1.0, Received("b", GossipRepair(named(1)))) == [Deliver(named(1))]
    assert gossip.handle(1.0, Received("c", GossipRepair(named(1)))) == [Drop(named(1), SEEN_ALREADY)]


def test_what_was_asked_for_is_not_asked_for_again_until_the_request_is_taken_for_lost() -> None:
    gossip = holding(ask_again_after=3.0)
    assert gossip.handle(1.0, Received("b", Digest(keys(1)))) == [Send("b", GossipRequest(keys(1)))]
    assert gossip.handle(2.0, Received("c", Digest(keys(1, 2)))) == [Send("c", GossipRequest(keys(2)))]
    assert gossip.handle(4.0, Received("c", Digest(keys(1, 2)))) == [Send("c", GossipRequest(keys(1)))]


def test_when_too_much_is_asked_for_nothing_more_is() -> None:
    gossip = holding(keys_max=2, asked_max=3)
    assert gossip.handle(1.0, Received("b", Digest(keys(1, 2, 3)))) == [Send("b", GossipRequest(keys(1, 2)))]
    assert gossip.handle(1.0, Received("b", Digest(keys(4, 5)))) == [Send("b", GossipRequest(keys(4)))]
    assert gossip.handle(1.0, Received("b", Digest(keys(6)))) == []
    gossip.handle(1.5, Received("b", GossipRepair(named(1))))
    assert gossip.handle(1.6, Received("b", Digest(keys(6)))) == [Send("b", GossipRequest(keys(6)))]
    gossip.check()


def test_a_digest_names_no_more_than_fits_and_in_time_everything() -> None:
    gossip = holding(*range(10), keys_max=3)
    told: set[tuple[str, str]] = set()
    for second in range(60):
        digest = gossip.handle(second, Fired("round"))[0].message
        assert len(set(digest.keys)) == 3
        told.update(digest.keys)
    assert told == set(keys(*range(10)))


def test_a_request_for_too_many_is_answered_for_as_many_as_fit() -> None:
    gossip = holding(*range(10), keys_max=3)
    assert len(gossip.handle(1.0, Received("b", GossipRequest(keys(*range(10)))))) == 3


def test_the_oldest_event_makes_room_and_is_not_taken_in_again() -> None:
    gossip = holding(1, 2, held_max=2)
    assert gossip.handle(1.0, Publish(named(3))) == [Deliver(named(3)), Drop(named(1), EVICTED)]
    assert list(gossip.held) == list(keys(2, 3))
    assert gossip.handle(1.0, Received("b", Digest(keys(1)))) == []
    assert gossip.handle(1.0, Received("b", GossipRepair(named(1)))) == [Drop(named(1), SEEN_ALREADY)]
    gossip.check()


def test_a_name_is_forgotten_only_after_as_many_others_as_promised() -> None:
    gossip = holding(*range(5), held_max=2, seen_max=4)
    assert gossip.handle(1.0, Received("b", Digest(keys(0, 1)))) == [Send("b", GossipRequest(keys(0)))]
    gossip.check()


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"id": "1"}, NO_KEY),
        ({"source": "/a"}, NO_KEY),
        ({"source": "/a", "id": "x" * (GOSSIP_KEY_CHARS_MAX + 1)}, KEY_TOO_LONG),
        ({"source": "x" * (GOSSIP_KEY_CHARS_MAX + 1), "id": "1"}, KEY_TOO_LONG),
    ],
)
def test_an_event_that_no_digest_can_name_is_dropped_with_a_reason(attributes: dict[str, Any], reason: str) -> None:
    event = Event(attributes)
    assert holding().handle(1.0, Publish(event)) == [Drop(event, reason)]
    assert holding().handle(1.0, Received("b", GossipRepair(event))) == [Drop(event, reason)]


def test_a_restart_asks_again_for_what_was_under_way() -> None:
    gossip = holding()
    asked: list[Effect] = [Send("b", GossipRequest(keys(1)))]
    assert gossip.handle(1.0, Received("b", Digest(keys(1)))) == asked
    gossip.start(1.1)
    assert gossip.handle(1.2, Received("b", Digest(keys(1)))) == asked


def test_other_inputs_are_ignored() -> None:
    others: tuple[Any, ...] = (LinkUp("b"), Fired("other"), Received("b", Probe(1)), "nonsense")
    for input in others:
        assert holding(1).handle(1.0, input) == []


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"period": 0.0}, "period"),
        ({"ask_again_after": math.nan}, "ask_again_after"),
        ({"held_max": 0}, "held_max"),
        ({"held_max": 10, "seen_max": 9}, "seen_max"),
        ({"keys_max": 0}, "keys_max"),
        ({"keys_max": GOSSIP_KEYS_MAX + 1, "asked_max": 10_000}, "keys_max"),
        ({"keys_max": 10, "asked_max": 9}, "asked_max"),
    ],
)
def test_parameters_that_make_no_sense_are_refused_by_name(params: dict[str, Any], name: str) -> None:
    with pytest.raises(UsageError, match=f"^{name}:"):
        GossipParams(**params)
