"""A plan is carried out in the simulator first, with the network's own tables and traffic."""

import pytest

from tests.worlds.planned import tree
from tidings.cli.plan_text import lines_of_rehearsal
from tidings.model.errors import UsageError
from tidings.planning.operations import Action
from tidings.planning.plan import TopologyPlan
from tidings.planning.traffic import Traffic
from tidings.sim.rehearsal import RehearsedBroker, RehearsedOffer, rehearse

LINE, GOAL = tree("b1-b2 b2-b3 b3-b4"), tree("b1-b2 b2-b3 b2-b4")
PLAN = TopologyPlan(LINE, GOAL, ((Action("shift", ("b4", "b3", "b2")),),))
BROKERS = {
    "b1": RehearsedBroker(offers=(RehearsedOffer("x >= 0", {"x": 7}, 50.0),)),
    "b4": RehearsedBroker(filters=("x > 3", "x > 9"), offers=(RehearsedOffer("y = 1", {"y": 1}, 20.0),)),
    "b2": RehearsedBroker(filters=("y = 1",)),
}
FAR = Traffic({}, {("b1", "b2"): 0.02, ("b2", "b3"): 0.02, ("b3", "b4"): 0.02, ("b2", "b4"): 0.02})


def test_a_rehearsal_tells_time_delay_and_that_nothing_is_lost() -> None:
    found = rehearse(PLAN, BROKERS, FAR, "b1")
    assert (found.state, found.lost, found.twice, found.left_out, found.scaled) == ("done", 0, 0, 0, 1.0)
    assert found.deliveries == found.events > 0, "x > 9 matches no event, each of the others one publisher's"
    assert 0.05 < found.p99_before < 0.1 < found.p99_during < 0.4
    assert 0.2 < found.seconds < 2.0
    text = "\n".join(lines_of_rehearsal(found))
    assert "0 lost, 0 twice" in text and "before" in text


def test_rates_beyond_what_is_played_are_scaled_and_it_is_told() -> None:
    busy = {"b1": RehearsedBroker(offers=(RehearsedOffer("x >= 0", {"x": 7}, 1000.0),)), "b4": BROKERS["b4"]}
    found = rehearse(PLAN, busy, FAR, "b2")
    assert found.lost == 0 and 0.19 < found.scaled < 0.2
    assert any("of the measured rate" in line for line in lines_of_rehearsal(found))


def test_a_plan_that_is_not_sound_is_not_tried() -> None:
    with pytest.raises(UsageError, match="the plan is not sound"):
        rehearse(TopologyPlan(LINE, GOAL, ()), BROKERS, FAR, "b1")
