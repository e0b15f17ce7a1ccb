"""Out of reach and gone, in whole networks: brokers that stand still for two seconds stay, brokers that die without a
word are known to be gone within one.

The network is that of an LSTree whose world says nothing of silent deaths for 20 s, 20 to 80 ms one way.
"""

from functools import partial

import pytest

from tests.worlds.trees import TreeWorld, internet, make_dispatcher
from tidings.machine.effects import Effect
from tidings.machine.streams import random_stream
from tidings.nodes.dispatcher import DispatcherParams
from tidings.protocols.overlay.lstree.params import LsTreeParams
from tidings.protocols.presence.params import PresenceParams
from tidings.protocols.routing.params import RoutingParams
from tidings.pubsub.notes import NeighbourGone
from tidings.sim.node import SimulatedNode
from tidings.sim.observers import Observer
from tidings.sim.simulator import Simulator

PAUSE = 2.0


class Verdicts(Observer):
    """Who was taken for gone, by whom and when."""

    def __init__(self) -> None:
        self.gone: list[tuple[float, str, str]] = []

    def on_effects(self, now: float, node: SimulatedNode, effects: list[Effect]) -> None:
        self.gone += [(now, node.id, each.neighbour) for each in effects if isinstance(each, NeighbourGone)]


def network(seed: int, count: int) -> tuple[TreeWorld, Verdicts]:
    world, verdicts = TreeWorld(seed, is_watched=False), Verdicts()
    world.simulator = Simulator(seed, internet(), observers=[verdicts])
    for number in range(count):
        contacts = tuple(f"d{each}" for each in range(min(number, 3)))
        params = DispatcherParams(
            overlay=LsTreeParams(contacts=contacts), routing=RoutingParams(engine="plain"), presence=PresenceParams()
        )
        world.simulator.add(f"d{number}", partial(make_dispatcher, f"d{number}", params), at=number * 0.05)
    world.run(count * 0.05 + 5.0)
    world.assert_one_tree()
    return world, verdicts


def pause_some(world: TreeWorld, rounds: int, at_once: int, seed: int) -> int:
    draws, count = random_stream(seed, "pauses"), 0
    for _ in range(rounds):
        paused = draws.sample(world.names, at_once)
        for name in paused:
            world.simulator.pause(name)
        world.run(PAUSE)
        for name in paused:
            world.simulator.resume(name)
        world.run(1.0)
        count += len(paused)
    return count


def detections(world: TreeWorld, verdicts: Verdicts, rounds: int, at_once: int, seed: int) -> list[float]:
    """Seconds from each silent crash until each former neighbour that lives knows of it."""
    draws, seconds = random_stream(seed, "crashes"), list[float]()
    for _ in range(rounds):
        crashed = draws.sample(world.names, at_once)
        watchers = {(other, name) for name in crashed for other in world.trees[name].neighbours if other not in crashed}
        at, before = world.simulator.now, len(verdicts.gone)
        world.crash(*crashed, is_silent=True)
        world.run(5.0)
        told = {(watcher, gone): when - at for when, watcher, gone in verdicts.gone[before:]}
        assert told.keys() <= watchers, "somebody who lives was taken for gone"
        assert watchers <= told.keys(), "somebody who died was not missed"
        seconds += told.values()
        world.assert_one_tree()
    return sorted(seconds)


def test_brokers_that_stand_still_are_not_gone() -> None:
    world, verdicts = network(1, 30)
    links = world.links()
    assert pause_some(world, rounds=8, at_once=4, seed=1) == 32
    assert verdicts.gone == [] and world.links() == links


def test_brokers_that_die_silently_are_gone_within_a_second() -> None:
    world, verdicts = network(2, 40)
    seconds = detections(world, verdicts, rounds=8, at_once=2, seed=2)
    assert len(seconds) > 15 and seconds[-1] <= 1.0


@pytest.mark.long
def test_of_a_thousand_pauses_at_most_one_is_taken_for_a_death() -> None:
    world, verdicts = network(3, 60)
    assert pause_some(world, rounds=125, at_once=8, seed=3) == 1000
    assert len(verdicts.gone) <= 1
    died = detections(world, verdicts, rounds=12, at_once=3, seed=3)
    assert died[int(0.99 * len(died))] <= 1.0
