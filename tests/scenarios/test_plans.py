"""Plans carried out under load, in the simulator: nothing lost, nothing twice, and whoever dies on the way."""

from functools import partial
from random import Random

import msgspec
import pytest

from tests.worlds.planned import random_tree, tree, with_changes
from tests.worlds.planned_brokers import LoadedNetwork, broker_of, mine_of, network_of, tree_now
from tidings.machine.inputs import Received
from tidings.machine.message import Contact
from tidings.planning.operations import Action
from tidings.planning.plan import TopologyPlan
from tidings.planning.quick import quick_plan
from tidings.planning.tree import OverlayTree, is_tree
from tidings.protocols.coordination.messages import (
    AbortPlan,
    ActionOrder,
    CarryOut,
    Engage,
    PlanAnswered,
    PlanAsked,
    ResumePlan,
)
from tidings.pubsub.client import PublishBatch
from tidings.pubsub.publications import encode_head


def drawn(seed: str) -> tuple[Random, OverlayTree, TopologyPlan]:
    rng = Random(seed)
    initial = random_tree(rng, rng.randint(3, 7))
    found = quick_plan(initial, with_changes(rng, initial, rng.randint(1, 2)), rng)
    assert found is not None
    return rng, initial, found.plan


LINE = tree("b1-b2 b2-b3 b3-b4 b4-b5")
SHIFTED = tree("b1-b2 b2-b3 b2-b4 b2-b5")
STEPS = (
    (Action("shift", ("b5", "b4", "b3")),),
    (Action("shift", ("b5", "b3", "b2")), Action("shift", ("b4", "b3", "b2"))),
)
PLAN = TopologyPlan(LINE, SHIFTED, STEPS)


@pytest.mark.spec("S-87", "S-90")
def test_plans_are_carried_out_under_load_and_nothing_is_lost_doubled_or_overtaken(examples: int) -> None:
    for seed in range(max(6, examples // 50)):
        _, initial, plan = drawn(f"plan {seed}")
        network = LoadedNetwork(initial, seed, until=8.0)
        network.carry_out(5.0, plan, initial.brokers[0])
        network.world.run(20.0)
        row = network.state(initial.brokers[0])
        assert (row.state, row.problem, row.actions_done) == ("done", "", len(plan.actions))
        assert tree_now(network.world, initial.brokers) == set(plan.goal.links)
        assert network.missing() == {} and network.failed == []


@pytest.mark.spec("S-89")
def test_brokers_and_deployers_that_die_at_any_moment_leave_a_tree_and_the_plan_is_done(examples: int) -> None:
    """G-40: who dies before the decision is waited for, who dies after it has moved; nobody does anything by hand."""
    for seed in range(max(8, examples // 40)):
        rng, initial, plan = drawn(f"killed {seed}")
        network, deployer = LoadedNetwork(initial, seed, until=8.0, rate=5.0), initial.brokers[0]
        network.carry_out(5.0, plan, deployer)
        victim = rng.choice([deployer, rng.choice(initial.brokers)])
        at = 5.0 + rng.random() * 1.2
        network.world.call_at(at, partial(network.world.crash, victim))
        network.world.call_at(at + rng.choice([0.05, 0.5, 3.0]), partial(network.world.restart, victim, False))
        network.world.run(40.0)
        assert network.state(deployer).state == "done", (seed, network.state(deployer))
        assert tree_now(network.world, initial.brokers) == set(plan.goal.links), seed
        for name in initial.brokers:
            network.world.inject(40.0, f"c-{name}", PublishBatch(1, (encode_head({"x": name}),), (b"",)))
        network.world.run(45.0)
        for mine in network.got.values():
            assert all(mine_of(mine, f"c-{name}")[-1] == network.accepted[f"c-{name}"] for name in initial.brokers)


def test_a_broker_that_does_not_come_back_has_the_plan_aborted_and_a_tree_is_left() -> None:
    world = network_of(LINE)
    world.inject(2.0, "b1", CarryOut(PLAN))
    world.call_at(2.1, partial(world.crash, "b3"))
    world.run(60.0)
    (row,) = broker_of(world, "b1").coordination.deployer.plan_rows(world.now)
    assert row.state == "aborted" and row.problem
    world.restart("b3", False)
    world.run(70.0)
    assert is_tree(tree_now(world, LINE.brokers), LINE.brokers)
    world.inject(70.0, "b1", ResumePlan())
    world.run(90.0)
    (row,) = broker_of(world, "b1").coordination.deployer.plan_rows(world.now)
    assert row.state == "done" and tree_now(world, LINE.brokers) == set(SHIFTED.links)


@pytest.mark.spec("S-88")
@pytest.mark.parametrize("at", [2.02, 2.1, 2.2, 2.3, 2.4, 2.6])
def test_a_plan_that_is_aborted_at_any_moment_leaves_a_tree(at: float) -> None:
    network = LoadedNetwork(LINE, 1, until=9.0)
    network.carry_out(5.0, PLAN, "b2")
    network.world.inject(at + 3.0, "b2", AbortPlan("for the test"))
    network.world.run(30.0)
    assert network.state("b2").state in ("aborted", "done")
    assert is_tree(tree_now(network.world, LINE.brokers), LINE.brokers)
    assert network.missing() == {}


def test_a_second_deployer_is_refused_and_hears_by_whom() -> None:
    world = network_of(LINE)
    world.inject(2.0, "b1", CarryOut(PLAN))
    world.inject(2.3, "b4", CarryOut(PLAN))
    world.run(30.0)
    (first,) = broker_of(world, "b1").coordination.deployer.plan_rows(world.now)
    (second,) = broker_of(world, "b4").coordination.deployer.plan_rows(world.now)
    assert (first.state, second.state) == ("done", "aborted")
    assert "takes part in plan 'b1-1' of b1" in second.problem
    assert tree_now(world, LINE.brokers) == set(SHIFTED.links)


@pytest.mark.spec("S-85")
def test_new_brokers_come_as_leaves_and_others_go() -> None:
    goal = tree("b1-b2 b2-b3 b3-b4 b4-b6")
    steps = ((Action("append", ("b6", "b4")),), (Action("detach", ("b5", "b4")),))
    world = network_of(LINE, more=("b6",))
    world.inject(2.0, "b1", CarryOut(TopologyPlan(LINE, goal, steps)))
    world.run(30.0)
    (row,) = broker_of(world, "b1").coordination.deployer.plan_rows(world.now)
    assert (row.state, row.problem) == ("done", "")
    assert tree_now(world, (*LINE.brokers, "b6")) == set(goal.links)
    assert broker_of(world, "b5").overlay.neighbours == []


def test_a_plan_that_does_not_begin_with_the_tree_that_there_is_is_not_begun() -> None:
    world = network_of(tree("b1-b2 b1-b3 b3-b4 b4-b5"))
    world.inject(2.0, "b1", CarryOut(PLAN))
    world.run(20.0)
    (row,) = broker_of(world, "b1").coordination.deployer.plan_rows(world.now)
    assert row.state == "aborted" and row.actions_done == 0
    assert "the network is not the tree of the plan: the link b1 - b3 is there" in row.problem


def test_what_is_asked_in_vain_is_answered_with_the_reason() -> None:
    world = network_of(LINE)
    world.run(2.0)
    coordination = broker_of(world, "b1").coordination
    unsound = TopologyPlan(LINE, SHIFTED, STEPS[:1])
    assert coordination.requested(2.0, CarryOut(unsound))[0].startswith("the plan is not sound")
    assert coordination.requested(2.0, AbortPlan())[0] == "no plan is carried out here; see `plan status`"
    assert coordination.requested(2.0, ResumePlan())[0].startswith("there is no plan here that was aborted")
    assert coordination.carried(2.0, PlanAsked(1, "carry out", b"[1"))[0].startswith("the plan cannot be read")
    stranger = coordination.handle(2.0, Received("m", PlanAsked(1, "abort")))
    assert not any(isinstance(getattr(each, "message", None), PlanAnswered) for each in stranger)


def test_strangers_and_brokers_that_may_not_steer_move_nothing() -> None:
    world = network_of(LINE)
    world.run(2.0)
    coordination = broker_of(world, "b4").coordination
    order = ActionOrder("p", 0, "shift", (Contact("b4"), Contact("b3"), Contact("b2")))
    assert [type(each).__name__ for each in coordination.handle(2.0, Received("nobody", Engage("p")))] == ["Drop"]
    (answer,) = coordination.handle(2.0, Received("b3", order))
    assert not answer.message.is_done
    coordination.agent.params = msgspec.structs.replace(coordination.params, deployers=("b1",))
    (answer,) = coordination.handle(2.0, Received("b3", Engage("p")))
    assert "coordination.deployers" in answer.message.problem
    world.run(10.0)
    assert tree_now(world, LINE.brokers) == set(LINE.links)


def test_what_would_not_survive_a_crash_is_not_reported_as_done() -> None:
    """A disk is full for a while: the deployer builds on nothing that may be undone."""
    world = network_of(LINE)
    world.run(2.0)
    world.node("b5").disk.is_full = True
    world.inject(2.0, "b1", CarryOut(PLAN))
    world.run(6.0)
    deployer = broker_of(world, "b1").coordination.deployer
    assert not any("b5" in each.reported for each in deployer.kept.work)
    world.node("b5").disk.is_full = False
    world.run(30.0)
    (row,) = deployer.plan_rows(world.now)
    assert row.state == "done" and tree_now(world, LINE.brokers) == set(SHIFTED.links)
    for name in LINE.brokers:
        world.crash(name)
        world.restart(name, True)
    world.run(50.0)
    assert tree_now(world, LINE.brokers) == set(SHIFTED.links)


@pytest.mark.spec("S-89", "S-92")
@pytest.mark.parametrize("victim", LINE.brokers)
def test_whoever_is_killed_at_any_step_is_back_in_the_plan_within_ten_seconds(victim: str) -> None:
    """The deployer is b2. A plan that had not begun when somebody died may be given up instead; nobody does a thing."""
    for place in range(6):
        world = network_of(LINE, seed=place, latency=0.02)
        at = 2.05 + place * 0.29
        world.inject(2.0, "b2", CarryOut(PLAN))
        world.call_at(at, partial(world.crash, victim))
        world.call_at(at + 0.5, partial(world.restart, victim, False))
        world.run(at + 10.5)
        (row,) = broker_of(world, "b2").coordination.deployer.plan_rows(world.now)
        tree_after = tree_now(world, LINE.brokers)
        if row.state == "aborted":
            assert row.actions_done == 0 and tree_after == set(LINE.links), (at, row)
        else:
            assert (row.state, tree_after) == ("done", set(SHIFTED.links)), (at, row)
