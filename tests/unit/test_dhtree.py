"""The tree from a ring: the reference tree, who is next to whom, agreement of both ends, the ring by its messages."""

from itertools import pairwise

import pytest

from tests.worlds.rings import has_cycle
from tidings.machine.effects import CancelTimer, Drop, Send, SetTimer
from tidings.machine.inputs import Fired, Received
from tidings.machine.message import Contact
from tidings.model.bounds import RING_PATH_MAX
from tidings.model.errors import UsageError
from tidings.protocols.overlay.dhtree.agreements import UNWISHED, TreeAgreements
from tidings.protocols.overlay.dhtree.dhtree import NOT_A_PEER, DhTree, DhTreeParams
from tidings.protocols.overlay.dhtree.messages import (
    AskRing,
    FindOwner,
    OwnerFound,
    RingMember,
    RingTold,
    TreeUnwish,
    TreeWish,
)
from tidings.protocols.overlay.dhtree.neighbours import KeyOwners, owners_of, tree_of
from tidings.protocols.overlay.dhtree.reference import Arc, ReferenceTree
from tidings.protocols.overlay.dhtree.ring import NOWHERE, TOO_FAR, KeyRing, RingParams
from tidings.pubsub.signals import LinkWanted, NeighbourDown, NeighbourUp, PeerUp

EXAMPLE = ReferenceTree(arity=2, levels=4)
"""Its keys are 0 to 14; the source counts from 1."""


def edges(*hosts: int) -> set[tuple[int, int]]:
    """Parent and child, by the source's keys."""
    tree = tree_of(EXAMPLE, {str(host): host - 1 for host in hosts})
    return {(int(it.parent.broker), int(name)) for name, it in tree.items() if it.parent is not None}


@pytest.mark.spec("D-107")
def test_the_worked_example_gives_its_trees() -> None:
    """Dynamic-topologies.md 3.10.6: five hosts, one joins, another one fails."""
    arcs = {owner.broker: [key + 1 for key in range(15) if key in owner.arc] for owner in owners_of(keys_of(5, 9, 13))}
    assert arcs["9"] == [6, 7, 8, 9]
    tops = [
        EXAMPLE.topmost(Arc(after - 1, host - 1)) + 1 for after, host in ((15, 5), (5, 9), (9, 11), (11, 13), (13, 15))
    ]
    assert tops == [4, 8, 10, 12, 14]
    assert edges(5, 9, 11, 13, 15) == {(9, 5), (9, 13), (13, 11), (13, 15)}
    # The source prints 6 for the topmost key of 5 then; it is 5.
    assert EXAMPLE.topmost(Arc(3, 4)) + 1 == 5
    assert edges(4, 5, 9, 11, 13, 15) == {(9, 4), (4, 5), (9, 13), (13, 11), (13, 15)}
    assert edges(5, 9, 11, 15) == {(9, 5), (9, 15), (15, 11)}


def keys_of(*hosts: int) -> dict[str, int]:
    return {str(host): host - 1 for host in hosts}


@pytest.mark.spec("D-111")
@pytest.mark.parametrize(("arity", "levels"), [(2, 6), (3, 5), (4, 5), (5, 4)])
def test_at_most_one_child_lies_outside_the_interval_to_the_parent_and_on_the_far_side(arity: int, levels: int) -> None:
    reference = ReferenceTree(arity, levels)
    nodes = list(reference.nodes())
    assert sorted(node.key for node in nodes) == list(range(reference.keys))
    for node in nodes[1:]:
        *_, parent, found = reference.way_to(node.key)
        assert found == node
        children = [child.key for child in reference.children(node)]
        between = range(min(node.key, parent.key), max(node.key, parent.key))
        outside = [key for key in children if key not in between]
        assert len(outside) <= 1
        assert all((key < node.key) == (node.key < parent.key) for key in outside)
        assert len(children) in (0, arity)


@pytest.mark.spec("D-114")
def test_every_key_has_one_owner_and_a_broker_can_list_its_keys_which_have_no_holes() -> None:
    owners = KeyOwners(EXAMPLE, owners_of(keys_of(3, 4, 9, 15)))
    found = {key: owners.of(key) for key in range(EXAMPLE.keys)}
    assert all(owner is not None and key in owner.arc for key, owner in found.items())
    for owner in owners.at.values():
        mine = [key for key, other in found.items() if other == owner]
        assert mine == [key for key in range(EXAMPLE.keys) if key in owner.arc]
        steps = sum((after - before) % EXAMPLE.keys != 1 for before, after in pairwise(mine))
        assert steps <= 1


def test_an_arc_goes_around_the_end_of_the_ring() -> None:
    arc = Arc(12, 2)
    assert [key for key in range(15) if key in arc] == [0, 1, 2, 13, 14]
    assert arc.meets(2, 5) and not arc.meets(3, 12) and Arc(4, 6).meets(0, 14)
    assert arc.covers(13, 14) and arc.covers(0, 2) and not arc.covers(0, 14) and not arc.covers(2, 3)
    assert all(key in Arc(4, 4) for key in range(15)) and Arc(4, 4).covers(0, 14)


@pytest.mark.parametrize(("arity", "levels"), [(1, 30), (2, 0), (2, 60)])
def test_a_reference_tree_that_cannot_be_is_refused(arity: int, levels: int) -> None:
    with pytest.raises(UsageError, match="reference tree"):
        DhTreeParams(arity=arity, levels=levels)


# TreeAgreement.


def agreements() -> TreeAgreements:
    made = TreeAgreements()
    made.peer_up("b")
    return made


def test_neighbours_are_those_of_whom_both_ends_say_the_same() -> None:
    ours = agreements()
    assert ours.want("b", (7, 3)) == [Send("b", TreeWish(7, 3))]
    assert ours.wished("b", TreeWish(5, 7)) == []
    assert ours.wished("b", TreeWish(3, 7)) == [NeighbourUp("b", 1)]
    ours.check(7)


def test_what_is_taken_back_is_said_anew_only_when_the_other_end_has_heard_of_it() -> None:
    ours = agreements()
    ours.want("b", (7, 3))
    ours.wished("b", TreeWish(3, 7))
    assert ours.want("b", (9, 3)) == [NeighbourDown("b", 1, UNWISHED), Send("b", TreeUnwish())]
    assert ours.wished("b", TreeWish(3, 7)) == []
    assert ours.unwished("b") == [Send("b", TreeWish(9, 3))]
    assert ours.wished("b", TreeWish(3, 9)) == [NeighbourUp("b", 2)]


def test_who_hears_that_it_is_taken_back_answers_and_says_again_what_it_wants() -> None:
    ours = agreements()
    ours.want("b", (7, 3))
    ours.wished("b", TreeWish(3, 7))
    assert ours.unwished("b") == [NeighbourDown("b", 1, UNWISHED), Send("b", TreeUnwish()), Send("b", TreeWish(7, 3))]
    assert ours.neighbours == []


# The ring.


def ring(key: int, **params: int) -> KeyRing:
    made = KeyRing("a", EXAMPLE, RingParams(**params))
    made.member = RingMember(Contact("a"), key)
    made.start(0.0)
    return made


def member(name: str, key: int) -> RingMember:
    return RingMember(Contact(name), key)


def test_whoever_is_alone_has_all_keys_and_asks_the_first_peer_for_its_own() -> None:
    made = ring(4)
    assert made.arc == Arc(4, 4)
    effects = made.peer_up(1.0, "b", "host:7")
    assert effects == [SetTimer(("search", 1), 2.0), Send("b", FindOwner(4, 1, ("a",)))]
    found = made.receive(1.1, "b", OwnerFound(1, (), member("b", 9), 9))
    assert found[0] == CancelTimer(("search", 1)) and Send("b", AskRing(4)) in found
    # The address is known from the link, and who is next behind us is linked.
    assert LinkWanted(Contact("b", "host:7"), "ring") in found
    assert made.arc is None
    made.check()


def test_who_stood_before_us_hears_at_once_of_somebody_in_between() -> None:
    made = ring(9)
    for name in ("b", "c"):
        made.peer_up(0.0, name, "")
    made.receive(0.0, "b", AskRing(2))
    effects = made.receive(0.0, "c", AskRing(5))
    assert made.arc == Arc(5, 9)
    told = [effect for effect in effects if isinstance(effect, Send) and isinstance(effect.message, RingTold)]
    assert [(each.to, each.message.predecessor) for each in told] == [("c", member("c", 5)), ("b", member("c", 5))]
    # Somebody further away is not believed to be nearer.
    made.receive(0.0, "b", AskRing(2))
    assert made.arc == Arc(5, 9)


def test_a_search_goes_on_and_its_answer_comes_back_the_same_way() -> None:
    made = ring(4)
    for name in ("b", "z"):
        made.peer_up(0.0, name, "")
    made.receive(0.0, "b", AskRing(2))
    made.receive(0.0, "z", AskRing(12))
    assert made.receive(0.0, "z", FindOwner(3, 5, ("q", "z"))) == [
        Send("z", OwnerFound(5, ("q",), member("a", 4), 2)),
    ]
    assert made.receive(0.0, "z", OwnerFound(5, ("q", "b"), member("z", 12), 7)) == [
        Send("b", OwnerFound(5, ("q",), member("z", 12), 7))
    ]
    gone = OwnerFound(5, ("q",), member("z", 12), 7)
    assert made.receive(0.0, "z", gone) == [Drop(gone, NOWHERE)]
    endless = FindOwner(9, 5, (*(f"n{place}" for place in range(RING_PATH_MAX - 1)), "z"))
    assert made.receive(0.0, "z", endless) == [Drop(endless, TOO_FAR)]


def test_a_dead_successor_is_replaced_by_the_next_one_at_once() -> None:
    made = ring(4)
    for name in ("b", "c"):
        made.peer_up(0.0, name, "")
    made.choose_successors([member("b", 6), member("c", 9)])
    assert Send("c", AskRing(4)) in made.lose(1.0, "b")
    assert [each.contact.node for each in made.successors] == ["c"]


def test_of_two_at_the_same_key_the_later_name_moves() -> None:
    made = KeyRing("b", EXAMPLE, RingParams())
    made.start(0.0)
    key = made.key
    made.peer_up(0.0, "a", "")
    made.receive(0.0, "a", AskRing(key))
    assert made.attempt == 1
    stays = KeyRing("a", EXAMPLE, RingParams())
    stays.start(0.0)
    stays.receive(0.0, "b", AskRing(stays.key))
    assert stays.attempt == 0


# The overlay.


def test_alone_it_is_settled_and_strangers_are_not_heard() -> None:
    overlay = DhTree("a")
    overlay.start(0.0)
    assert overlay.why_unsettled() == "" and overlay.neighbours == []
    stranger = TreeWish(1, 2)
    assert overlay.handle(0.0, Received("x", stranger)) == [Drop(stranger, NOT_A_PEER)]
    overlay.handle(0.0, PeerUp("b", 1))
    overlay.handle(0.5, Fired("refresh"))
    overlay.check()


def test_the_judge_of_cycles_sees_one() -> None:
    assert has_cycle([("a", "b"), ("b", "c"), ("a", "c")])
    assert not has_cycle([("a", "b"), ("b", "c"), ("d", "e")])
