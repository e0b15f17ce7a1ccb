"""The tree from a ring, for any brokers: its laws, that machines come to it through crashes and joins, and liars."""

from random import Random
from statistics import mean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.message_strategies import of_message
from tests.worlds.rings import RingWorld, has_cycle
from tidings.machine.effects import Send
from tidings.machine.inputs import Received
from tidings.machine.message import Contact
from tidings.machine.streams import random_stream
from tidings.protocols.overlay.dhtree import messages
from tidings.protocols.overlay.dhtree.dhtree import DhTree, DhTreeParams
from tidings.protocols.overlay.dhtree.messages import RingMember
from tidings.protocols.overlay.dhtree.neighbours import Places, tree_of
from tidings.protocols.overlay.dhtree.reference import ReferenceTree
from tidings.pubsub.signals import PeerDown, PeerUp

REFERENCES = ReferenceTree(2, 8), ReferenceTree(3, 6), ReferenceTree(4, 5), ReferenceTree(2, 30)


def random_tree(reference: ReferenceTree, count: int, rng: Random) -> dict[str, Places]:
    keys: dict[str, int] = {}
    while len(keys) < count:
        key = rng.randrange(reference.keys)
        keys[f"h{key}"] = key
    return tree_of(reference, keys)


def links_of(tree: dict[str, Places]) -> set[tuple[str, str]]:
    return {(it.parent.broker, name) for name, it in tree.items() if it.parent is not None}


@pytest.mark.spec("D-108", "D-109")
@pytest.mark.parametrize("reference", REFERENCES, ids=str)
def test_both_ends_agree_and_the_tree_spans_all(reference: ReferenceTree, examples: int) -> None:
    rng = random_stream(1, "dhtree", str(reference))
    for _ in range(examples):
        count = rng.randrange(1, min(150, reference.keys))
        tree = random_tree(reference, count, rng)
        assert links_of(tree) == {(name, child.broker) for name, it in tree.items() for child in it.children}
        assert len(links_of(tree)) == count - 1 and not has_cycle(links_of(tree))
        assert not any(it.unknown for it in tree.values())
        if reference.arity == 2:
            assert max(len(it.children) for it in tree.values()) <= 2
            assert max(len(it.neighbours) for it in tree.values()) <= 3


@pytest.mark.spec("D-110")
def test_with_four_children_few_brokers_have_more_and_fewer_as_keys_are_used() -> None:
    """At hosts of about half of the 21,845 keys, and more."""
    reference = ReferenceTree(4, 8)
    above = []
    for count in (10_000, 16_000, 20_000):
        tree = random_tree(reference, count, random_stream(count))
        above.append(sum(len(it.children) > 4 for it in tree.values()) / count)
    assert above[0] <= 0.02 and above == sorted(above, reverse=True)


@pytest.mark.spec("D-113")
def test_few_links_change_when_a_broker_comes_or_goes_however_many_there_are() -> None:
    """A join adds, and a leave removes, 2 to 3 links on average; the brokers concerned are as few at 120 as at 10."""
    reference, concerned = ReferenceTree(2, 8), {}
    for count in (10, 120):
        rng = random_stream(count, "changes")
        keys = rng.sample(range(reference.keys), count + 1)
        added, ends = [], []
        for _ in range(200):
            before = links_of(tree_of(reference, {str(key): key for key in keys[:-1]}))
            after = links_of(tree_of(reference, {str(key): key for key in keys}))
            added.append(len(after - before))
            ends.append(len({end for link in before ^ after for end in link}))
            others = [key for key in range(reference.keys) if key not in keys]
            keys = [*rng.sample(keys[:-1], count), rng.choice(others)]
        assert 2 <= mean(added) <= 3
        concerned[count] = mean(ends)
    assert concerned[120] < 1.5 * concerned[10]


@pytest.mark.spec("D-3", "D-112")
@pytest.mark.parametrize("seed", range(4))
def test_machines_come_to_the_tree_of_all_who_live_through_crashes_and_joins(seed: int) -> None:
    world = RingWorld(seed, 16, DhTreeParams(arity=2 + seed % 2 * 2, levels=20 - seed % 2 * 8))
    world.run_until_right(30.0)
    for _ in range(3):
        for name in world.rng.sample(world.living, 4):
            world.crash(name)
        for _ in range(3):
            world.join()
        world.run_until_right(60.0)
        near = {name: overlay.neighbours for name, overlay in world.overlays().items()}
        assert all(name in near[other] for name, others in near.items() for other in others)
    world.simulator.check()


def test_two_rings_that_were_parted_become_one() -> None:
    world = RingWorld(3, 6)
    world.run_until_right(30.0)
    part = world.living[:3]
    # The first contacts of the others are of the same part from now on, as if nobody had ever heard of these.
    for name, overlay in world.overlays().items():
        for other in list(overlay.ring.peers):
            if (name in part) != (other in part):
                world.simulator.break_link(name, other)
    world.run_until_right(60.0)


kinds = [messages.FindOwner, messages.OwnerFound, messages.AskRing, messages.RingTold]
kinds += [messages.TreeWish, messages.TreeUnwish, messages.TreeChanged]


@given(st.lists(st.tuples(st.sampled_from("bcd"), st.one_of(*map(of_message, kinds))), max_size=40), st.data())
def test_nothing_that_peers_say_breaks_it(said: list[tuple[str, Any]], data: st.DataObject) -> None:
    overlay = DhTree("a", DhTreeParams(levels=6))
    overlay.start(0.0)
    now = 0.0
    for name in "bcd":
        overlay.handle(now, PeerUp(name, 1))
    for sender, message in said:
        now += 0.1
        if data.draw(st.integers(0, 9)) == 0:
            overlay.handle(now, PeerDown(sender, 1))
            overlay.handle(now, PeerUp(sender, 2))
        for effect in overlay.handle(now, Received(sender, message)):
            assert not isinstance(effect, Send) or effect.to in "bcd"
        overlay.check()
    assert len(overlay.claims) <= len(overlay.owners) + 1


def test_a_liar_draws_links_to_itself_and_makes_no_cycle_among_the_others() -> None:
    """It says to stand wherever it likes, and to be whatever anybody takes it for."""
    world = RingWorld(5, 10, checking=False)
    world.run_until_right(30.0)
    world.is_lied_to = True
    liar = world.names[4]
    rng = random_stream(1, "liar")
    honest = world.overlays()
    keys = honest[liar].reference.keys
    for _ in range(300):
        victim = rng.choice(sorted(honest[liar].ring.peers))
        claim = rng.choice(
            (
                messages.AskRing(rng.randrange(keys)),
                messages.TreeWish(rng.randrange(keys), honest[victim].seat or 0),
                messages.TreeUnwish(),
                messages.TreeChanged(),
            )
        )
        world.simulator.inject(world.simulator.now, victim, Received(liar, claim))
        world.simulator.run(world.simulator.now + 0.05)
        links = {link for link in world.links() if liar not in link}
        assert not has_cycle(links)
    world.simulator.check()
    # When it stops, all is as it should be.
    world.run_until_right(60.0)


@settings(max_examples=12)
@given(st.data())
def test_whatever_a_liar_says_of_the_ring_there_is_no_cycle_and_nothing_of_it_lasts(data: st.DataObject) -> None:
    """Owners, successors and places that are not, also of brokers that are not, told to those it is linked with."""
    world = RingWorld(data.draw(st.integers(0, 20)), 9, checking=False)
    world.run_until_right(30.0)
    world.is_lied_to = True
    liar = world.names[data.draw(st.integers(0, 8))]
    honest = world.overlays()[liar]
    keys = st.integers(0, honest.reference.keys - 1)
    contacts = st.builds(Contact, st.sampled_from([*world.names, "nobody", "no one"]))
    members = st.builds(RingMember, contacts, keys)
    lies = st.one_of(
        st.builds(messages.RingTold, keys, st.none() | members, st.lists(members, max_size=4).map(tuple)),
        st.builds(messages.AskRing, keys),
        st.builds(messages.FindOwner, keys, st.integers(0, 50), st.just((liar,))),
        st.builds(messages.TreeWish, keys, keys),
        *map(of_message, kinds),
    )
    for _ in range(data.draw(st.integers(1, 25))):
        victim = data.draw(st.sampled_from(sorted(honest.ring.peers)))
        overlay = world.overlays()[victim]
        asked = st.sampled_from([*overlay.ring.searches, 1])
        answers = st.builds(messages.OwnerFound, asked, st.just(()), members, keys)
        world.simulator.inject(world.simulator.now, victim, Received(liar, data.draw(lies | answers)))
        world.simulator.run(world.simulator.now + data.draw(st.sampled_from([0.01, 0.1, 1.0])))
        assert not has_cycle({link for link in world.links() if liar not in link})
        if not honest.ring.peers:
            break
    world.crash(liar)
    world.is_lied_to = False
    world.run_until_right(120.0)
    world.simulator.run(world.simulator.now + 60.0)
    world.simulator.check()
    for overlay in world.overlays().values():
        neighbours = {*overlay.neighbours, *overlay.claims, *(each.contact.node for each in overlay.ring.known())}
        assert neighbours <= set(world.living), "somebody who is not there"
