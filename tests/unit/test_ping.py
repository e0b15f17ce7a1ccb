import math
from typing import Any

import pytest

from tidings.machine.effects import Deliver, Drop, Effect, Send, SetTimer, Transport
from tidings.machine.inputs import Fired, LinkUp, Received
from tidings.machine.node import Machine
from tidings.machine.streams import random_stream
from tidings.model.errors import UsageError
from tidings.protocols.teaching.gossip import Digest
from tidings.protocols.teaching.ping import (
    ALREADY_ANSWERED,
    NEVER_SENT,
    NOT_A_NEIGHBOUR,
    TOO_LATE,
    Echo,
    PeerRecovered,
    PeerSuspected,
    Ping,
    PingParams,
    Probe,
)

SUSPECTED: list[Effect] = [PeerSuspected("b"), Deliver(PeerSuspected("b"))]
RECOVERED: list[Effect] = [PeerRecovered("b"), Deliver(PeerRecovered("b"))]


def started(neighbours: list[str], **params: Any) -> Ping:
    ping = Ping(neighbours, PingParams(**params), random_stream(1, "a", "ping"))
    ping.start(0.0)
    return ping


def play_rounds(ping: Ping, first: int, last: int, answered: bool = False) -> list[Effect]:
    """Rounds at these seconds; what was told in them."""
    told: list[Effect] = []
    for second in range(first, last + 1):
        told += [effect for effect in ping.handle(second, Fired("round")) if not isinstance(effect, Send | SetTimer)]
        if answered:
            told += ping.handle(second + 0.25, Received("b", Echo(ping.round)))
        ping.check()
    return told


def test_the_first_round_comes_within_one_period() -> None:
    machine: Machine = Ping(["b"], PingParams(period=4.0), random_stream(1))
    (timer,) = machine.start(100.0)
    assert timer.key == "round"
    assert 100 <= timer.at < 104


def test_a_round_probes_every_neighbour_and_sets_the_next() -> None:
    ping = started(["b", "c"], period=2.0, transport=Transport.STREAM)
    effects = ping.handle(1.0, Fired("round"))
    assert effects == [
        Send("b", Probe(ping.round), Transport.STREAM),
        Send("c", Probe(ping.round), Transport.STREAM),
        SetTimer("round", 3.0),
    ]


def test_a_probe_is_answered_to_anybody_who_asks() -> None:
    assert started([]).handle(1.0, Received("stranger", Probe(9))) == [Send("stranger", Echo(9), Transport.DATAGRAM)]


def test_an_answer_is_counted_as_a_round_trip() -> None:
    ping = started(["b"])
    for second, delay in ((1, 0.5), (2, 0.25), (3, 0.375)):
        ping.handle(second, Fired("round"))
        assert ping.handle(second + delay, Received("b", Echo(ping.round))) == []
    b = ping.neighbours["b"]
    assert (b.round_trips, b.last, b.shortest) == (3, 0.375, 0.25)


def test_a_silent_neighbour_is_suspected_after_as_many_unanswered_probes() -> None:
    ping = started(["b"], misses=3)
    assert play_rounds(ping, 1, 3) == []
    assert ping.suspects == []
    assert play_rounds(ping, 4, 4) == SUSPECTED
    assert ping.suspects == ["b"]


def test_a_suspect_is_told_of_once() -> None:
    ping = started(["b"], misses=1)
    assert play_rounds(ping, 1, 20) == SUSPECTED


def test_one_answer_in_time_keeps_suspicion_away() -> None:
    ping = started(["b"], misses=2)
    assert play_rounds(ping, 1, 1, answered=True) + play_rounds(ping, 2, 3) == []
    assert play_rounds(ping, 4, 4, answered=True) == SUSPECTED + RECOVERED


def test_a_suspect_is_probed_on_and_recovers_with_its_answer() -> None:
    ping = started(["b"], misses=2)
    assert play_rounds(ping, 1, 9) == SUSPECTED
    assert ping.handle(9.5, Received("b", Echo(ping.round))) == RECOVERED
    assert ping.suspects == []
    assert play_rounds(ping, 10, 11) == []
    assert play_rounds(ping, 12, 12) == SUSPECTED


def test_a_slow_answer_counts_as_long_as_its_round_is_remembered() -> None:
    ping = started(["b"], misses=3)
    play_rounds(ping, 1, 1)
    first = ping.round
    play_rounds(ping, 2, 3)
    assert ping.handle(3.9, Received("b", Echo(first))) == []
    assert ping.neighbours["b"].last == 2.9
    play_rounds(ping, 4, 9)
    assert ping.handle(9.9, Received("b", Echo(first + 1))) == [Drop(Echo(first + 1), TOO_LATE)]


def test_answers_that_say_nothing_are_dropped_with_a_reason() -> None:
    ping = started(["b"])
    play_rounds(ping, 1, 1, answered=True)
    echo, future = Echo(ping.round), Echo(ping.round + 1)
    assert ping.handle(1.5, Received("b", echo)) == [Drop(echo, ALREADY_ANSWERED)]
    assert ping.handle(1.5, Received("b", future)) == [Drop(future, NEVER_SENT)]
    assert ping.handle(1.5, Received("z", echo)) == [Drop(echo, NOT_A_NEIGHBOUR)]
    assert ping.neighbours["b"].round_trips == 1


def test_an_answer_to_a_former_life_is_not_taken_for_one_to_this() -> None:
    former = Ping(["b"], PingParams(), random_stream(1, "a", "ping", "first life"))
    play_rounds(former, 1, 2)
    present = Ping(["b"], PingParams(), random_stream(1, "a", "ping", "second life"))
    play_rounds(present, 3, 4)
    (drop,) = present.handle(4.5, Received("b", Echo(former.round)))
    assert isinstance(drop, Drop)


def test_a_node_that_was_down_does_not_blame_its_neighbours() -> None:
    ping = started(["b"], misses=2)
    play_rounds(ping, 1, 2)
    assert ping.start(100.0) != []
    assert play_rounds(ping, 101, 102) == []
    assert play_rounds(ping, 103, 103) == SUSPECTED


def test_other_inputs_are_ignored() -> None:
    ping = started(["b"])
    others: tuple[Any, ...] = (LinkUp("b"), Fired("other"), Received("b", Digest(())), "nonsense")
    for input in others:
        assert ping.handle(1.0, input) == []


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"period": 0.0}, "period"),
        ({"period": math.inf}, "period"),
        ({"period": math.nan}, "period"),
        ({"misses": 0}, "misses"),
    ],
)
def test_parameters_that_make_no_sense_are_refused_by_name(params: dict[str, Any], name: str) -> None:
    with pytest.raises(UsageError, match=f"^{name}:"):
        PingParams(**params)
