"""Random waypoint: inside the rectangle, at a walker's pace, the same whenever and in whatever order one asks."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.model.errors import UsageError
from tidings.sim.network.radio import RandomWaypoint, WaypointParams

PARAMS = WaypointParams(width=300.0, height=100.0, speed_min=1.0, speed_max=3.0, pause_max=10.0)
TIMES = st.lists(st.floats(0, 5000), min_size=1, max_size=30)


@given(TIMES, st.integers(0, 1000))
def test_positions_do_not_depend_on_the_order_of_the_questions(times: list[float], seed: int) -> None:
    asked, in_order = RandomWaypoint(PARAMS, seed), RandomWaypoint(PARAMS, seed)
    answers = {time: asked.position("a", time) for time in times}
    for time in sorted(times):
        assert in_order.position("a", time) == answers[time]
    for x, y in answers.values():
        assert 0 <= x <= 300
        assert 0 <= y <= 100


@given(st.floats(0, 2000), st.floats(0.001, 50), st.integers(0, 1000))
def test_nobody_is_faster_than_the_largest_speed(time: float, span: float, seed: int) -> None:
    walk = RandomWaypoint(PARAMS, seed)
    distance = math.dist(walk.position("a", time), walk.position("a", time + span))
    assert distance <= 3.0 * span * (1 + 1e-9) + 1e-6


def test_a_walk_depends_on_the_seed_and_the_name_only() -> None:
    one, other = RandomWaypoint(PARAMS, 7), RandomWaypoint(PARAMS, 7)
    for node in ("a", "b", "c"):
        one.position(node, 500.0)
    assert one.position("b", 123.0) == other.position("b", 123.0)
    assert one.position("b", 123.0) != one.position("a", 123.0)
    assert one.position("b", 123.0) != RandomWaypoint(PARAMS, 8).position("b", 123.0)


def test_everybody_walks_and_pauses() -> None:
    walk = RandomWaypoint(PARAMS, 3)
    steps = [math.dist(walk.position("a", time), walk.position("a", time + 1)) for time in range(2000)]
    assert sum(step == 0 for step in steps) > 50
    assert sum(step > 0.9 for step in steps) > 1000


def test_without_pauses_and_with_one_speed_the_pace_is_constant() -> None:
    walk = RandomWaypoint(WaypointParams(speed_min=2.0, speed_max=2.0, pause_max=0.0), 1)
    leg = RandomWaypoint(WaypointParams(speed_min=2.0, speed_max=2.0, pause_max=0.0), 1)
    leg.position("a", 0.0)
    end = leg.walks["a"].leg.end
    assert math.dist(walk.position("a", 0.0), walk.position("a", end / 2)) == pytest.approx(end)


def test_only_the_present_leg_is_remembered() -> None:
    walk = RandomWaypoint(PARAMS, 1)
    for time in range(0, 100_000, 500):
        walk.position("a", time)
    assert list(walk.walks) == ["a"]


def test_impossible_walks_are_refused() -> None:
    for wrong in (
        lambda: WaypointParams(width=0),
        lambda: WaypointParams(speed_min=0.0),
        lambda: WaypointParams(speed_min=3.0, speed_max=2.0),
        lambda: WaypointParams(pause_max=-1),
        lambda: RandomWaypoint(PARAMS, 1).position("a", -1.0),
    ):
        with pytest.raises(UsageError):
            wrong()
