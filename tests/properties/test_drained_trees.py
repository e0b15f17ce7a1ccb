"""Brokers that are drained become leaves of the tree before they are stopped, and nobody misses a place meanwhile."""

import pytest

from tests.properties.test_spanning_tree import TreeNetwork, parts
from tests.worlds.brokers import ordered
from tests.worlds.trees import TreeWorld
from tidings.machine.streams import RandomStream, random_stream
from tidings.protocols.overlay.lstree.params import LsTreeParams
from tidings.protocols.overlay.spanning_tree import SpanningTreeParams
from tidings.pubsub.signals import DrainChanged

QUICK = LsTreeParams(request_timeout=0.5, merge_period=5.0, gossip_period=10.0, nearer_period=0.0)


def drain(world: TreeWorld, name: str, is_on: bool = True) -> None:
    world.simulator.inject(world.simulator.now, name, DrainChanged(is_on))


@pytest.mark.parametrize("seed", range(6))
def test_a_broker_of_an_lstree_that_is_drained_becomes_a_leaf_and_nobody_has_to_search(seed: int) -> None:
    """One after the other, the root among them, is drained, stopped and missed by nobody."""
    draw = random_stream(seed, "drained")
    world = TreeWorld(seed, 18, QUICK)
    world.run(15.0)
    world.assert_one_tree()
    for _ in range(8):
        name = world.roots[0] if draw.random() < 0.4 else draw.choice(world.names)
        repairs = {each: world.trees[each].seeker.repairs for each in world.names}
        drain(world, name)
        for _ in range(200):
            world.run(0.1)
            if len(world.trees[name].neighbours) <= 1:
                break
        assert len(world.trees[name].neighbours) == 1
        world.run(1.0)
        assert {each: world.trees[each].seeker.repairs for each in world.names} == repairs, "somebody searched"
        assert len(world.trees[name].neighbours) == 1, "somebody came below it"
        world.assert_one_tree()
        below = list(world.trees[name].kin.below)
        world.crash(name)
        world.run(5.0)
        world.assert_one_tree()
        others = [each for each in world.names if each not in below and each in repairs]
        assert all(world.trees[each].seeker.repairs == repairs[each] for each in others), "somebody missed it"


def test_a_star_comes_off_the_broker_in_its_middle_and_may_come_back() -> None:
    """All but one are below it, with degrees that forbid more neighbours than it has."""
    world = TreeWorld(3, 12, LsTreeParams(degree_max=11, nearer_period=0.0, instance="RDGM"))
    world.run(10.0)
    middle = max(world.names, key=lambda name: len(world.trees[name].neighbours))
    drain(world, middle)
    world.run(20.0)
    assert len(world.trees[middle].neighbours) == 1
    world.assert_one_tree()
    drain(world, middle, is_on=False)
    world.add("new")
    world.run(10.0)
    world.assert_one_tree()


def test_two_brokers_keep_each_other() -> None:
    world = TreeWorld(1, 2, QUICK)
    world.run(10.0)
    for name in world.names:
        drain(world, name)
    world.run(10.0)
    world.assert_one_tree()
    world.add("new")
    world.run(10.0)
    world.assert_one_tree()
    assert max(world.degrees().values()) <= 2, "it comes below one of them, for want of others"


def links_of(draw: RandomStream, count: int) -> list[tuple[str, str]]:
    """A connected graph with some links more than a tree has."""
    names = [f"n{number}" for number in range(count)]
    links = {ordered(names[at], names[draw.below(at)]) for at in range(1, count)}
    for _ in range(count // 2):
        one, other = draw.sample(names, 2)
        links.add(ordered(one, other))
    return sorted(links)


@pytest.mark.parametrize("seed", range(12))
def test_a_broker_of_a_spanning_tree_that_is_drained_becomes_a_leaf_where_others_have_other_ways(seed: int) -> None:
    draw = random_stream(seed, "drained")
    links = links_of(draw, 4 + draw.below(10))
    names = sorted({name for link in links for name in link})
    network = TreeNetwork(names, draw, SpanningTreeParams())
    for link in links:
        network.link(*link)
    network.settle()
    network.judge()
    for name in draw.sample(names, min(3, len(names))):
        left = [link for link in links if name not in link]
        is_needed = len(parts({it: None for it in names if it != name}, left)) > 1
        network.tell(name, DrainChanged(True))
        network.settle()
        network.judge()
        if not is_needed:
            assert len(network.trees[name].neighbours) == 1
        network.tell(name, DrainChanged(False))
        network.settle()
        network.judge()
