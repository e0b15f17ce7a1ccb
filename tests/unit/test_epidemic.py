"""What a broken link has stranded, and the epidemic that brings it around (dynamic-topologies.md 3.13)."""

from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worlds.brokers import random_tree, side_of
from tests.worlds.rewired import HOP, LINK_SET_UP, SET_UP, golden_params
from tidings.machine.effects import Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Received
from tidings.machine.node import Machine
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.protocols.overlay.scripted import ScriptedParams, rewiring
from tidings.protocols.rescue.epidemic import NO_NEIGHBOUR, NO_ROOM, SEEN_MAX, EpidemicParams, EventEpidemic
from tidings.protocols.rescue.messages import StrandedDigest, StrandedPublication, StrandedRequest
from tidings.pubsub.client import Arrived, OpenSubscription
from tidings.pubsub.publications import Publications
from tidings.pubsub.requests import Publish
from tidings.pubsub.signals import NeighbourDown, NeighbourUp, Rescued, Stranded
from tidings.sim.network.latency import Constant
from tidings.sim.node import Draws
from tidings.sim.simulator import Simulator

NAME = ("p/1@a", 7)


def batch_of(*numbers: int) -> Publications:
    heads, payloads = tuple(b"\x80" for _ in numbers), tuple(b"x" for _ in numbers)
    return Publications("p", "p/1@a", 0.5, 0, numbers, heads, payloads)


def holder(*numbers: int, **params: Any) -> EventEpidemic:
    epidemic = EventEpidemic("a", EpidemicParams(**params), Random(1))
    epidemic.handle(0.0, NeighbourUp("n", 1))
    if numbers:
        epidemic.handle(0.0, Stranded("lost", batch_of(*numbers)))
    return epidemic


def test_what_is_stranded_is_told_to_a_neighbour_given_to_who_asks_and_carried_on_there() -> None:
    first, second = holder(7), holder()
    (told, again) = first.handle(0.1, Fired("round"))
    assert told == Send("n", StrandedDigest((NAME,))) and isinstance(again, SetTimer)
    (asked,) = second.handle(0.2, Received("n", StrandedDigest((NAME,))))
    assert asked == Send("n", StrandedRequest((NAME,)))
    (given_away,) = first.handle(0.3, Received("n", StrandedRequest((NAME,))))
    assert isinstance(given_away, Send) and isinstance(given_away.message, StrandedPublication)
    effects = second.handle(0.4, Received("n", given_away.message))
    assert Rescued(batch_of(7), "n") in effects
    assert second.handle(0.5, Received("n", StrandedDigest((NAME,)))) == []
    assert not [each for each in second.handle(0.5, Received("n", given_away.message)) if isinstance(each, Rescued)]


def test_a_digest_is_answered_by_what_is_held_besides_and_an_answer_is_not() -> None:
    epidemic = holder(7)
    assert epidemic.handle(0.1, Received("n", StrandedDigest(()))) == [Send("n", StrandedDigest((NAME,), True))]
    assert epidemic.handle(0.1, Received("n", StrandedDigest((), True))) == []


def test_a_new_neighbour_is_told_at_once() -> None:
    assert holder(7).handle(0.1, NeighbourUp("m", 2)) == [Send("m", StrandedDigest((NAME,)))]


def test_all_copies_die_together() -> None:
    first, second = holder(7, keep_for=2.0), holder(keep_for=2.0)
    (given_away,) = first.handle(1.5, Received("n", StrandedRequest((NAME,))))
    assert isinstance(given_away, Send)
    second.handle(1.5, Received("n", given_away.message))
    for epidemic in (first, second):
        assert epidemic.handle(2.1, Fired("round")) == [] and not epidemic.held
        assert epidemic.handle(2.2, Received("n", StrandedDigest((NAME,)))) == [], "infected again"


def test_strangers_are_not_heard() -> None:
    message = StrandedDigest((NAME,))
    assert holder(7).handle(0.1, Received("stranger", message)) == [Drop(message, NO_NEIGHBOUR)]


def test_parameters_that_do_not_fit_are_refused() -> None:
    for wrong in (
        {"period": 0.0},
        {"period": 5.0, "keep_for": 1.0},
        {"events_max": 0},
        {"events_max": 5000},
        {"bytes_max": 0},
    ):
        with pytest.raises(UsageError):
            EpidemicParams(**wrong)
    with pytest.raises(UsageError, match="rescue_window"):
        DispatcherParams(rescue=EpidemicParams())


steps = st.lists(
    st.tuples(st.sampled_from(["strand", "digest", "ask", "give", "up", "down"]), st.integers(0, 60)), max_size=80
)


@given(steps)
def test_little_is_held_and_nothing_raises(played: list[tuple[str, int]]) -> None:
    epidemic = holder(events_max=5, bytes_max=12)
    dropped: list[Effect] = []
    for place, (step, number) in enumerate(played):
        now = 0.1 * place
        match step:
            case "strand":
                effects = epidemic.handle(now, Stranded("lost", batch_of(number, number + 1)))
                dropped += [each for each in effects if isinstance(each, Drop)]
            case "digest":
                epidemic.handle(now, Received("n", StrandedDigest((("p/1@a", number), ("p/1@a", number)))))
            case "ask":
                epidemic.handle(now, Received("n", StrandedRequest((("p/1@a", number),))))
            case "give":
                given_away = StrandedPublication("p", "p/1@a", 0.5, number, b"\x80", b"x" * number, 9.0)
                epidemic.handle(now, Received("n", given_away))
            case "up":
                epidemic.handle(now, NeighbourUp("n", place))
            case "down":
                epidemic.handle(now, NeighbourDown("n", place))
        epidemic.check()
        assert len(epidemic.seen) <= SEEN_MAX
    assert all(isinstance(each, Drop) and each.reason == NO_ROOM for each in dropped)


# In a network.


def make_rescuer(name: NodeId, near: tuple[NodeId, ...], rescue: EpidemicParams | None, draws: Draws) -> Machine:
    window = 1000 if rescue is not None else 0
    routing = golden_params(repair="timed", unsubscribe_after=1.0, rescue_window=window)
    params = DispatcherParams(overlay=ScriptedParams(near), routing=routing, rescue=rescue)
    return Dispatcher(name, params, draws("links"))


def missed_and_repeated(seed: int, rescue: EpidemicParams | None) -> tuple[int, int]:
    """A link of a tree is gone for 0.3 s, and all want all that anybody publishes meanwhile."""
    rng = Random(seed)
    names = [f"d{place:02}" for place in range(12)]
    edges = random_tree(names, rng)
    simulator = Simulator(seed, Constant(HOP), checking=True)
    for name in names:
        near = tuple(b if a == name else a for a, b in edges if name in (a, b))
        simulator.add(name, partial(make_rescuer, name, near, rescue))
        simulator.inject(SET_UP / 2, name, OpenSubscription(None, "x > 0"))
    old = rng.choice(edges)
    rest = [edge for edge in edges if edge != old]
    near_end, far_end = rng.choice(side_of(rest, old[0])), rng.choice(side_of(rest, old[1]))
    while {near_end, far_end} == {*old}:
        near_end, far_end = rng.choice(side_of(rest, old[0])), rng.choice(side_of(rest, old[1]))
    head, tail = way(rest, old[0], near_end), way(rest, far_end, old[1])
    times = SET_UP, SET_UP + 0.3, SET_UP + 0.3 + LINK_SET_UP
    for at, asked in zip(times, rewiring("r1", head, tail), strict=True):
        for broker, request in asked:
            simulator.inject(at, broker, request)
    # None is on a wire when the link breaks: nobody could know of those.
    for number in range(40):
        simulator.inject(SET_UP + 0.005 + 0.01 * number, rng.choice(names), Publish(Event({"x": number + 1})))
    simulator.run(SET_UP + 5.0)
    got = {name: [each.item for each in simulator.delivered(name) if isinstance(each.item, Arrived)] for name in names}
    counts = [sum(len(item.numbers) for item in items) for items in got.values()]
    distinct = [len({(item.publisher, number) for item in items for number in item.numbers}) for items in got.values()]
    return sum(40 - count for count in distinct), sum(counts) - sum(distinct)


def way(edges: list[tuple[str, str]], first: str, last: str) -> list[str]:
    if first == last:
        return [first]
    for second in [b if a == first else a for a, b in edges if first in (a, b)]:
        if last in side_of(edges, second, without=first):
            return [first, *way([edge for edge in edges if first not in edge], second, last)]
    raise AssertionError("no way")


@settings(max_examples=6)
@given(st.integers(0, 2**32))
def test_what_a_broken_link_strands_reaches_everybody_once(seed: int) -> None:
    missed, _ = missed_and_repeated(seed, None)
    assert missed > 0
    assert missed_and_repeated(seed, EpidemicParams(period=0.05)) == (0, 0)
