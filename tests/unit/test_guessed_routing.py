"""Semi-probabilistic routing, message by message (dependable.md 3.3.7)."""

from typing import Any

import pytest

from tests.worlds.desk import Desk, drops, of
from tidings.lab.dependable.failover.failing_runs import FailingRun, TreeSetting
from tidings.machine.effects import Deliver, Effect, Send
from tidings.machine.inputs import Received
from tidings.model.errors import UsageError
from tidings.model.language.parser import parse
from tidings.protocols.routing.around import NOT_ASCENDING
from tidings.protocols.routing.guess import (
    NO_NEIGHBOUR,
    GuessedPublications,
    GuessedRouting,
    GuessedRoutingParams,
    NearFilters,
)
from tidings.pubsub.client import Arrived
from tidings.pubsub.publications import Publications, encode_head
from tidings.pubsub.signals import Forward, Matched, NeighbourDown, NeighbourUp, Unwant, Want
from tidings.sim.node import SimulatedNode
from tidings.sim.observers import Observer


def batch(*values: int, first: int = 1) -> Publications:
    heads = tuple(encode_head({"x": value}) for value in values)
    numbers = tuple(range(first, first + len(values)))
    return Publications("p", "p/1@a", 0.0, 0, numbers, heads, (b"",) * len(values))


def desk(*neighbours: str, **params: Any) -> Desk[GuessedRouting]:
    made = Desk(GuessedRouting("m", GuessedRoutingParams(**params)))
    for each in neighbours:
        made.handle(NeighbourUp(each, 1))
    return made


def told(effects: list[Effect]) -> dict[str, tuple[tuple[str, int], ...]]:
    return {each.to: each.message.filters for each in of(Send, effects) if isinstance(each.message, NearFilters)}


def sent(effects: list[Effect]) -> dict[str, tuple[int, ...]]:
    carried = [each for each in of(Send, effects) if isinstance(each.message, GuessedPublications)]
    return {each.to: each.message.batch.numbers for each in carried}


def test_a_filter_is_told_as_far_as_the_horizon_and_not_back() -> None:
    made = desk("p", "q", horizon=2)
    made.handle(Want(("c", 1), parse("x = 1")))
    made.handle(Received("p", NearFilters((("x = 2", 1), ("x = 3", 2)))))
    effects = made.advance(1.0)
    assert told(effects) == {"p": (("x = 1", 1),), "q": (("x = 1", 1), ("x = 2", 2))}
    made.handle(Unwant(("c", 1)))
    assert told(made.advance(2.0)) == {"p": (), "q": (("x = 2", 2),)}
    made.handle(NeighbourDown("p", 1))
    assert told(made.advance(3.0)) == {"q": ()}


def test_an_event_goes_where_somebody_near_wants_it_and_to_a_share_of_the_others_by_chance() -> None:
    made = desk("p", "q", "r", "s", share=0.0)
    made.handle(Received("q", NearFilters((("x = 1", 1),))))
    assert sent(made.handle(Forward(batch(1, 2)))) == {"q": (1,)}
    made = desk("p", "q", "r", "s", share=0.6)
    made.handle(Received("q", NearFilters((("x = 1", 1),))))
    found = sent(made.handle(Received("p", GuessedPublications(batch(1)))))
    assert "q" in found and "p" not in found and len(found) == 2, "0.6 of three"
    assert len(sent(made.handle(Received("p", GuessedPublications(batch(2, first=2)))))) == 2, "two by chance"


def test_it_is_delivered_once_and_strangers_are_not_heard() -> None:
    made = desk("p", "q")
    made.handle(Want(("c", 1), parse("x = 1")))
    (matched,) = of(Matched, made.handle(Received("p", GuessedPublications(batch(1)))))
    assert matched.batch.numbers == (1,)
    assert not made.handle(Received("q", GuessedPublications(batch(1))))
    assert drops(made.handle(Received("z", GuessedPublications(batch(1))))) == [NO_NEIGHBOUR]
    twice = Publications("p", "p/1@a", 0.0, 0, (3, 3), batch(1, 1).heads, (b"", b""))
    assert drops(made.handle(Received("p", GuessedPublications(twice)))) == [NOT_ASCENDING]
    made.handle(Received("p", NearFilters((("x = ", 1),))))
    assert not made.machine.near["p"], "what is no filter is left out"


@pytest.mark.parametrize("wrong", [{"horizon": 0}, {"share": 1.5}, {"gathered_for": 0.0}, {"numbers_window": 0}])
def test_parameters_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"^{next(iter(wrong))}"):
        GuessedRoutingParams(**wrong)


def test_in_a_ring_a_filter_that_is_taken_back_is_forgotten_in_the_end() -> None:
    """Each hears it from the other, a hop further away each time."""
    made = desk("p", "q", horizon=3)
    made.handle(Received("p", NearFilters((("x = 1", 1),))))
    hops = [told(made.advance(1.0))["q"][0][1]]
    for step in range(2, 5):
        made.handle(Received("p", NearFilters(() if step > 3 else (("x = 1", step),))))
        hops += [each[1] for each in told(made.advance(float(step))).get("q", ())]
    assert hops == [2, 3] and not made.machine.near["p"]


class Came(Observer):
    def __init__(self) -> None:
        self.pairs: list[tuple[str, str, int]] = []

    def on_effects(self, now: float, node: SimulatedNode, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Deliver) and isinstance(effect.item, Arrived):
                self.pairs += [(node.id, effect.item.publisher, number) for number in effect.item.numbers]


@pytest.mark.parametrize(("horizon", "brings_all"), [(16, True), (1, False)])
def test_with_a_horizon_beyond_the_tree_nothing_is_guessed_and_with_a_near_one_much_is_lost(
    horizon: int, brings_all: bool
) -> None:
    came = Came()
    setting = TreeSetting(failover="guessed", horizon=horizon, brokers=24, degree=4, rate=0.0, duration=8.0)
    run = FailingRun(setting, 1, (came,))
    run.publish()
    run.simulator.run(run.until)
    assert len(came.pairs) == len(set(came.pairs)), "twice"
    assert (len(came.pairs) == len(run.due)) == brings_all and came.pairs
