"""What is estimated of a plan, and what then happens, in the simulator: latencies drawn for every pair of brokers."""

from functools import partial
from random import Random

from tests.worlds.planned import pairs, random_tree, with_changes
from tests.worlds.planned_brokers import broker_of, steered_broker
from tidings.machine.effects import Effect, Send
from tidings.planning.estimate import PlanEstimate, estimate
from tidings.planning.quick import quick_plan
from tidings.planning.traffic import Traffic
from tidings.protocols.coordination.messages import CarryOut
from tidings.pubsub.rows import PlanRow
from tidings.sim.network.latency import Matrix
from tidings.sim.node import SimulatedNode
from tidings.sim.observers import Observer
from tidings.sim.simulator import Simulator

BEGIN_AT, WITHIN = 5.0, 0.25


class Words(Observer):
    """Messages from the beginning of the plan on."""

    count = 0

    def on_effects(self, now: float, node: SimulatedNode, effects: list[Effect]) -> None:
        if now >= BEGIN_AT:
            self.count += sum(type(each) is Send for each in effects)


def carried_out(seed: int) -> tuple[PlanEstimate, PlanRow, int] | None:
    rng = Random(f"estimate {seed}")
    today = random_tree(rng, rng.randint(4, 12))
    found = quick_plan(today, with_changes(rng, today, rng.randint(1, 3)), rng)
    assert found is not None
    if not found.plan.actions:
        return None
    latencies = {each: rng.uniform(0.010, 0.050) for each in pairs(today)}
    both = {way: latency for (a, b), latency in latencies.items() for way in ((a, b), (b, a))}
    words, deployer = Words(), rng.choice(today.brokers)
    world = Simulator(seed, Matrix(both, default=0.03), observers=[words])
    for name in today.brokers:
        world.add(name, partial(steered_broker, today, name))
    world.inject(BEGIN_AT, deployer, CarryOut(found.plan))
    world.run(60.0)
    (row,) = broker_of(world, deployer).coordination.deployer.plan_rows(world.now)
    return estimate(found.plan, Traffic({}, latencies), deployer), row, words.count


def test_time_and_messages_of_a_plan_are_estimated_within_a_quarter(examples: int) -> None:
    for seed in range(max(10, examples // 100)):
        measured = carried_out(seed)
        if measured is None:
            continue
        told, row, words = measured
        assert row.state == "done"
        assert abs(told.seconds / row.seconds - 1) <= WITHIN, (seed, told.seconds, row.seconds)
        assert abs(told.messages / words - 1) <= WITHIN, (seed, told.messages, words)
