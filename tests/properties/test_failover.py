"""Gossip around failed brokers in whole networks of dispatchers: GE-1 to GE-7 over random trees and failures
(dependable.md 3.3.7, invariants)."""

from collections import Counter
from functools import cache, partial
from typing import Any

import pytest

from tidings.lab.dependable.failover.failing_runs import HOP, FailingRun, TreeSetting, failover_of
from tidings.machine.effects import Deliver, Effect, Send
from tidings.machine.streams import random_stream
from tidings.nodes.dispatcher import Dispatcher
from tidings.protocols.gossip.failover.failover import GossipFailover
from tidings.protocols.gossip.failover.levels import group_of
from tidings.protocols.gossip.failover.messages import GossipPublications
from tidings.pubsub.client import Arrived
from tidings.pubsub.notes import CycleEnded
from tidings.sim.network.latency import Constant
from tidings.sim.node import SimulatedNode
from tidings.sim.observers import Observer
from tidings.sim.simulator import Simulator

BROKERS = 24
SEEDS = (1, 2)
SYSTEMS = ("gossip", "random", "neighbourhood")


class Seen(Observer):
    """What was delivered, what went around, and the invariants of all machines every second."""

    period = 1.0

    def __init__(self) -> None:
        self.delivered: Counter[tuple[str, str, int]] = Counter()
        self.gossip = 0
        self.cycles: list[int] = []
        self.told: Counter[tuple[str, str, str, int, str]] = Counter()
        """Who told whom which publication around which failure."""
        self.told_at = 0.0
        self.run: FailingRun | None = None

    def on_effects(self, now: float, node: SimulatedNode, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Deliver) and isinstance(effect.item, Arrived):
                item = effect.item
                self.delivered.update((node.id, f"{item.publisher}/{item.subscription}", each) for each in item.numbers)
            elif isinstance(effect, Send) and isinstance(effect.message, GossipPublications):
                self.gossip += 1
                self.told_at, batch = now, effect.message.batch
                self.told.update(
                    (node.id, effect.to, batch.advertisement, each, effect.message.failed) for each in batch.numbers
                )
            elif isinstance(effect, CycleEnded):
                self.cycles.append(effect.messages)

    def on_period(self, now: float, world: Simulator) -> None:
        assert self.run is not None
        group_by_name = {name: group_of(depth, 3) for name, depth in zip(self.run.names, self.run.depths, strict=True)}
        for name, group in group_by_name.items():
            part = failover_of(world, name)
            if part is not None:
                part.check()
                members = {group_by_name[member] for member in part.views.members}
                assert members <= {group}, "GE-3: a sibling of another group"


@cache
def played(failover: str, seed: int, failed: tuple[int, ...] = (), back: bool = False, **settings: Any) -> Seen:
    """A run in which these brokers fail before anything is published, and come back or not."""
    setting = TreeSetting(failover=failover, brokers=BROKERS, degree=4, rate=0.0, begin=12.0, duration=8.0, **settings)
    seen = Seen()
    run = seen.run = FailingRun(setting, seed, (seen,))
    for place in failed:
        run.simulator.call_at(11.5, partial(run.simulator.crash, run.names[place]))
        if back:
            run.simulator.call_at(16.0, partial(run.simulator.restart, run.names[place], True))
    run.publish()
    run.simulator.run(run.until)
    return seen


def inner(seed: int, count: int) -> tuple[int, ...]:
    """Some brokers that are neither the root nor leaves."""
    run = FailingRun(TreeSetting(brokers=BROKERS, degree=4, rate=0.0), seed)
    chosen = [place for place in range(1, BROKERS) if place not in run.leaves]
    return tuple(random_stream(seed, "failing").sample(chosen, min(count, len(chosen))))


@pytest.mark.spec("S-34")
@pytest.mark.parametrize("seed", SEEDS)
def test_without_failures_it_is_the_tree(seed: int) -> None:
    """GE-1, and GE-6 for every broker and cycle."""
    tree, gossip = played("tree", seed), played("gossip", seed)
    assert gossip.delivered == tree.delivered and len(tree.delivered) > 0
    assert gossip.gossip == 0
    assert gossip.cycles and max(gossip.cycles) <= 22, "GE-6"


@pytest.mark.spec("S-37")
@pytest.mark.parametrize("failover", SYSTEMS)
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_delivered_twice_whatever_fails(failover: str, seed: int) -> None:
    """GE-2 and GE-7."""
    seen = played(failover, seed, inner(seed, 4), back=True)
    assert seen.delivered and max(seen.delivered.values()) == 1


@pytest.mark.spec("S-38")
@pytest.mark.parametrize("seed", SEEDS)
def test_what_goes_around_goes_in_no_loop_while_it_is_remembered_for_four_diameters(seed: int) -> None:
    """GE-7. A client publishes once a second, so a window of one number remembers an event for a second, which is more
    than four times as long as one takes from any broker to any other, around failures or not. Nobody tells anybody the
    same twice, and all is quiet four diameters behind the last event."""
    setting: dict[str, Any] = {"event_rate": 1.0, "rescue_window": 1}
    seen = played("gossip", seed, inner(seed, 4), **setting)
    assert seen.run is not None
    four_diameters = 4 * 2 * (1 + max(seen.run.depths)) * HOP
    assert 1.0 / setting["event_rate"] >= four_diameters
    assert seen.told and max(seen.told.values()) == 1
    assert max(seen.delivered.values()) == 1
    assert seen.told_at <= max(at for at, _, _ in seen.run.ways) + four_diameters


@pytest.mark.parametrize("seed", SEEDS)
def test_with_brokers_that_stay_away_nothing_is_lost_that_the_tree_delivers(seed: int) -> None:
    """GE-5."""
    failed = inner(seed, 3)
    tree, gossip = played("tree", seed, failed), played("gossip", seed, failed)
    assert gossip.delivered.keys() >= tree.delivered.keys()
    assert gossip.gossip > 0


@pytest.mark.parametrize("seed", [2, 3])
def test_what_a_failed_broker_and_those_behind_it_missed_comes_when_it_is_back(seed: int) -> None:
    """FW-1: everything that was accepted is delivered after recovery, once, and nothing is stored for it elsewhere. The
    failed brokers are not those of clients, or their clients could not publish."""
    failed = inner(seed, 5)
    without, with_it = (played("gossip", seed, failed, True, kept_for=kept_for) for kept_for in (0.0, 60.0))
    owed = played("tree", seed)
    assert with_it.run is not None
    with_it.run.simulator.run(with_it.run.until + 20.0)
    assert without.delivered.keys() < owed.delivered.keys(), "gossip alone brings it all, so this shows nothing"
    assert with_it.delivered == owed.delivered


@pytest.mark.parametrize("seed", SEEDS)
def test_whoever_is_back_is_taken_for_failed_by_nobody(seed: int) -> None:
    """GE-4: no record of a broker that lives is left for long. Here links are ended by one end alone, and are missing
    for a moment now and then, so that there is always a young one."""
    seen = played("gossip", seed, inner(seed, 4), back=True)
    assert seen.run is not None
    world = seen.run.simulator
    world.run(world.now + 60.0)
    for name in seen.run.names:
        part = failover_of(world, name)
        assert part is not None
        assert all(at > part.views.cycle - 5 for at in part.views.failures.values()), "an old suspicion"


@pytest.mark.spec("S-18")
def test_counters_count_on_every_broker_of_the_way() -> None:
    """X-5, and as the source has it at both ends too: with one subscription for each advertisement, every broker from
    the subscriber's to the publisher's counts one; when it is gone, none."""
    from tidings.pubsub.client import CloseSubscription, OpenAdvertisement, OpenSubscription

    run = FailingRun(TreeSetting(brokers=13, degree=3, rate=0.0, is_balanced=True), 1)
    simulator = Simulator(1, Constant(HOP))
    for name in run.names:
        simulator.add(name, run.simulator.node(name).make)
    subscriber, publisher = run.names[run.leaves[-1]], run.names[0]
    simulator.inject(1.0, publisher, OpenAdvertisement(None, "class = 'c1'"))
    simulator.inject(2.0, subscriber, OpenSubscription(None, "class = 'c1' AND x1 > 3"))
    simulator.run(6.0)
    way, place = {run.leaves[-1]}, run.leaves[-1]
    while place:
        place = run.parents[place]
        way.add(place)
    assert counted(simulator, run) == {run.names[each] for each in way}
    simulator.inject(7.0, subscriber, CloseSubscription("closing", 1))
    simulator.run(10.0)
    assert counted(simulator, run) == set()


def counted(simulator: Simulator, run: FailingRun) -> set[str]:
    found = set()
    for name in run.names:
        machine = simulator.node(name).machine
        assert isinstance(machine, Dispatcher) and isinstance(machine.failover, GossipFailover)
        if machine.failover.routes.subscription_counts():
            found.add(name)
    return found
