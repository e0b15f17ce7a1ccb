"""Peers that bring each other feeds, as whole networks in the simulator."""

from itertools import pairwise

import pytest

from tests.worlds.peers import PEERS, World, reading
from tidings.protocols.feeds.params import TreeParams
from tidings.pubsub.feeds import FeedItem, OfferFeed, SubscribeFeed, UnsubscribeFeed
from tidings.sim.library import find
from tidings.sim.scenario import run_scenario

F = "http://f/"


@pytest.mark.spec("P-50")
@pytest.mark.spec("P-51")
@pytest.mark.spec("P-59")
@pytest.mark.spec("P-65")
@pytest.mark.spec("P-84")
@pytest.mark.parametrize("seed", range(3))
def test_through_crashes_partitions_and_departures_trees_stay_trees_and_nobody_gets_what_he_does_not_read(
    seed: int,
) -> None:
    result = run_scenario(find("feeds").scenario({}), seed, check="every")
    assert result.passed, result.problems
    assert result.judged["edges"] > 50 and result.judged["deliveries"] > 200


@pytest.mark.spec("P-58")
def test_a_join_ends_within_the_height_of_where_it_began_and_of_the_tree() -> None:
    world = World(40, TreeParams(children_max=2, rejoin_period=float("inf")))
    for place, node in enumerate(PEERS[:40]):
        if place:
            world.at(30.0 + place * 3, node, SubscribeFeed(F, PEERS[0]))
    world.at(28.0, PEERS[0], OfferFeed(F))
    world.run(300.0)
    heights = [world.peer(node).forest.trees[F].height for node in PEERS[:40]]
    assert max(heights) >= 4, "two children each"
    # One more, who begins at the deepest: it climbs and descends once at most.
    deepest = heights.index(max(heights))
    hops = world.hops_of_join("late", F, PEERS[deepest])
    assert hops <= max(heights) + max(heights)


@pytest.mark.spec("P-73")
def test_a_dead_parent_is_noticed_after_15_to_45_seconds_and_nothing_waits_longer() -> None:
    """Twelve failures at phases of their own; a chain, so that each is the only parent of one."""
    delays: list[float] = []
    for seed in range(12):
        world = World(5, TreeParams(children_max=1, rejoin_period=float("inf")), seed)
        world.at(28.0, PEERS[0], OfferFeed(F))
        for place in range(1, 5):
            world.at(30.0 + place * 5, PEERS[place], SubscribeFeed(F, PEERS[0]))
        world.run(200.0 + seed * 7.3)
        chain = max((world.peer(node).forest.trees[F].chain for node in PEERS[1:5]), key=len)
        leaf = next(node for node in PEERS[1:5] if len(world.peer(node).forest.trees[F].chain) == 4)
        died_at = world.simulator.now
        world.simulator.crash(chain[0], is_silent=True)
        world.publish(PEERS[0], F, died_at + 0.5)
        world.run(died_at + 80.0)
        (late,) = [it.at - died_at for it in world.delivered(leaf) if isinstance(it.item, FeedItem)]
        delays.append(late)
    assert all(15.0 <= it <= 45.0 + 10.0 for it in delays)
    assert 22.0 <= sum(delays) / len(delays) <= 40.0, "30 on average, and a join"


@pytest.mark.spec("P-80")
@pytest.mark.spec("P-81")
def test_a_virgin_asks_a_publisher_every_20_seconds_twelve_times_and_then_all_others() -> None:
    world = World(16, TreeParams(rejoin_period=float("inf")))
    feeds = [f"http://f{number}/" for number in range(15)]
    for node, feed in zip(PEERS[1:16], feeds, strict=True):
        world.at(28.0, node, OfferFeed(feed))
    for feed, node in zip(feeds, PEERS[1:16], strict=True):
        world.at(30.0, PEERS[0], SubscribeFeed(feed, node))
    joins = world.watch_joins(PEERS[0])
    world.run(400.0)
    times = [at for at, _ in joins]
    assert len({feed for _, feed in joins}) == 15
    assert all(later - earlier >= 20.0 - 1e-6 for earlier, later in pairwise(times[:12]))
    assert max(times[12:]) - min(times[12:]) < 1.0 and len(times[:12]) == 12
    assert [feed for _, feed in joins] != feeds, "in random order"
    assert reading(world.peer(PEERS[0])) == feeds


@pytest.mark.spec("P-82")
def test_who_is_met_while_joining_becomes_a_friend_within_a_minute() -> None:
    world = World(10, TreeParams())
    world.at(28.0, PEERS[0], OfferFeed(F))
    for place in range(1, 10):
        world.at(30.0 + place, PEERS[place], SubscribeFeed(F, PEERS[0]))
    world.run(60.0)
    counts = [len(world.peer(node).friendship.friends) for node in PEERS[1:10]]
    assert all(1 <= count <= 6 for count in counts) and sum(counts) >= 36


@pytest.mark.spec("P-83")
@pytest.mark.parametrize("alive", [True, False])
def test_who_comes_back_probes_the_friends_it_had_and_begins_anew_if_none_answers(alive: bool) -> None:
    world = World(8, TreeParams())
    world.at(28.0, PEERS[0], OfferFeed(F))
    for place in range(1, 8):
        world.at(30.0 + place, PEERS[place], SubscribeFeed(F, PEERS[0]))
    world.run(150.0)
    friends = world.peer(PEERS[7]).friendship.friend_names()
    assert len(friends) >= 4
    world.simulator.crash(PEERS[7])
    for node in friends if not alive else friends[1:]:
        if node != PEERS[0]:
            world.simulator.crash(node)
    world.run(220.0)
    joins = world.watch_joins(PEERS[7])
    world.simulator.restart(PEERS[7], keep_state=True)
    world.run(300.0)
    back = world.peer(PEERS[7])
    assert back.forest.trees[F].parent, "joined again"
    assert bool(back.friendship.friends) or not alive
    assert joins


@pytest.mark.spec("P-126")
def test_the_load_of_a_node_is_at_most_one_and_beta_copies_for_each_update() -> None:
    world = World(30, TreeParams(rejoin_period=float("inf")))
    world.at(28.0, PEERS[0], OfferFeed(F))
    for place in range(1, 30):
        world.at(30.0 + place, PEERS[place], SubscribeFeed(F, PEERS[0]))
    world.run(300.0)
    before = {node: world.load(node) for node in PEERS[:30]}
    for number in range(10):
        world.publish(PEERS[0], F, 301.0 + number)
    world.run(320.0)
    loads = [world.load(node) - before[node] for node in PEERS[:30]]
    assert max(loads) <= 10 * (1 + 5) and sum(loads) == 10 * (29 + 29)


# The shape only, of P-127: 36 peers that stay.
def test_a_steady_peer_says_less_than_two_words_a_second() -> None:
    world = World(40, TreeParams())
    feeds = [f"http://f{number}/" for number in range(4)]
    for feed, node in zip(feeds, PEERS, strict=False):
        world.at(28.0, node, OfferFeed(feed))
    for place in range(4, 40):
        for number in range(1 + place % 4):
            world.at(30.0 + place, PEERS[place], SubscribeFeed(feeds[number], PEERS[number]))
    world.run(600.0)
    before = {node: world.words(node) for node in PEERS[4:40]}
    world.run(1200.0)
    rates = sorted((world.words(node) - before[node]) / 600.0 for node in PEERS[4:40])
    assert rates[len(rates) // 2] < 2.0
    by_feeds = [
        [rate for place, rate in zip(range(4, 40), world.rates(before, 600.0), strict=True) if place % 4 == n]
        for n in range(4)
    ]
    means = [sum(each) / len(each) for each in by_feeds]
    slope = (means[3] - means[0]) / 3
    assert 0.02 < slope < 0.45


def test_a_departure_loses_nothing_to_those_below() -> None:
    world = World(20, TreeParams(children_max=2, rejoin_period=float("inf")))
    world.at(28.0, PEERS[0], OfferFeed(F))
    for place in range(1, 20):
        world.at(30.0 + place, PEERS[place], SubscribeFeed(F, PEERS[0]))
    world.run(200.0)
    leavers = [node for node in PEERS[1:20] if world.peer(node).forest.trees[F].children][:4]
    for number, node in enumerate(leavers):
        world.at(210.0 + number * 3, node, UnsubscribeFeed(F))
    for number in range(40):
        world.publish(PEERS[0], F, 205.0 + number)
    world.run(300.0)
    for node in PEERS[1:20]:
        numbers = [it.item.number for it in world.delivered(node) if isinstance(it.item, FeedItem)]
        if node not in leavers:
            assert sorted(numbers) == list(range(1, 41)), node
        else:
            assert F not in world.peer(node).forest.trees
            assert numbers == list(range(1, len(numbers) + 1))
