"""The overlay that is told its neighbours, request by request."""

from random import Random

import pytest

from tests.worlds.brokers import BrokerWorld
from tidings.machine.effects import Drop, Load, Send
from tidings.machine.inputs import Loaded, Received, Signal
from tidings.machine.message import Contact
from tidings.protocols.overlay import scripted
from tidings.protocols.overlay.messages import Linked, Unlinked
from tidings.protocols.overlay.scripted import (
    AddNeighbour,
    RemoveNeighbour,
    ScriptedOverlay,
    ScriptedParams,
    TellReplaced,
    rewiring,
)
from tidings.pubsub.signals import (
    Level,
    LinkUnwanted,
    LinkWanted,
    NeighbourDown,
    NeighbourReplaced,
    NeighbourUp,
    PeerDown,
    PeerUp,
)


def linked(name: str = "b") -> ScriptedOverlay:
    """Asked for a neighbour, and linked with it."""
    overlay = ScriptedOverlay("a")
    overlay.handle(0.0, AddNeighbour(Contact(name)))
    overlay.handle(0.0, PeerUp(name, 1))
    assert overlay.neighbours == [name]
    return overlay


def test_a_link_that_is_asked_for_is_wanted_of_access_and_told_to_the_other_end() -> None:
    overlay = ScriptedOverlay("a")
    contact = Contact("b", "host:7")
    assert overlay.handle(0.0, AddNeighbour(contact, "r1")) == [LinkWanted(contact, "overlay")]
    assert overlay.why_unsettled() == "not yet linked with b"
    assert overlay.handle(0.0, PeerUp("b", 1)) == [Send("b", Linked(1, "r1")), NeighbourUp("b", 1, "r1")]
    assert overlay.why_unsettled() == ""
    assert overlay.handle(0.0, AddNeighbour(contact, "r2")) == []
    overlay.check()


def test_the_other_end_takes_the_neighbour_when_it_hears_of_it() -> None:
    overlay = ScriptedOverlay("b")
    assert overlay.handle(0.0, PeerUp("a", 1)) == []
    assert overlay.handle(0.0, Received("a", Linked(1, "r1"))) == [NeighbourUp("a", 1, "r1")]
    down = [NeighbourDown("a", 1, scripted.REMOVED, "r2"), Send("a", Unlinked(1, "r2"))]
    assert overlay.handle(0.0, Received("a", Unlinked(0, "r2"))) == down
    overlay.check()


def test_the_first_neighbours_are_asked_for_at_the_start() -> None:
    overlay = ScriptedOverlay("a", ScriptedParams(neighbours=("b", "c")))
    assert overlay.start(0.0) == [LinkWanted(Contact("b"), "overlay"), LinkWanted(Contact("c"), "overlay")]
    assert overlay.why_unsettled() == "not yet linked with b, c"


def test_a_neighbour_that_is_let_go_is_taken_again_only_after_its_answer() -> None:
    overlay = linked()
    removed = overlay.handle(0.0, RemoveNeighbour("b", "r1"))
    assert removed == [NeighbourDown("b", 1, scripted.REMOVED, "r1"), Send("b", Unlinked(0, "r1"))]
    assert overlay.handle(0.0, AddNeighbour(Contact("b"), "r2")) == [LinkWanted(Contact("b"), "overlay")]
    assert not overlay.neighbours
    overlay.check()
    answered = overlay.handle(0.0, Received("b", Unlinked(1, "r1")))
    assert answered == [Send("b", Linked(2, "r2")), NeighbourUp("b", 2, "r2")]
    overlay.check()


def test_the_link_is_given_back_when_both_ends_know_that_it_is_not_wanted() -> None:
    overlay = linked()
    assert LinkUnwanted("b", "overlay") not in overlay.handle(0.0, RemoveNeighbour("b"))
    assert overlay.handle(0.0, Received("b", Unlinked(1, ""))) == [LinkUnwanted("b", "overlay")]
    never_up = ScriptedOverlay("a", ScriptedParams(neighbours=("b",)))
    assert never_up.handle(0.0, RemoveNeighbour("b")) == [LinkUnwanted("b", "overlay")]
    broken = linked()
    broken.handle(0.0, RemoveNeighbour("b"))
    assert broken.handle(0.0, PeerDown("b", 1)) == [LinkUnwanted("b", "overlay")]


def test_what_was_asked_for_later_is_not_undone_by_an_older_removal() -> None:
    """b is asked for a again before it hears that a let go: a has not heard of that, so it holds."""
    overlay = ScriptedOverlay("b")
    overlay.handle(0.0, PeerUp("a", 1))
    overlay.handle(0.0, Received("a", Linked(1, "")))
    overlay.handle(0.0, AddNeighbour(Contact("a"), "r2"))
    effects = overlay.handle(0.0, Received("a", Unlinked(0, "r1")))
    assert effects == [
        NeighbourDown("a", 1, scripted.REMOVED, "r1"),
        Send("a", Unlinked(1, "r1")),
        Send("a", Linked(1, "r2")),
        NeighbourUp("a", 2, "r2"),
    ]
    # Heard of, it is undone.
    effects = overlay.handle(0.0, Received("a", Unlinked(1, "r3")))
    assert LinkUnwanted("a", "overlay") in effects and not overlay.neighbours
    overlay.check()


def test_a_stream_that_breaks_takes_the_neighbour_down_until_it_is_back() -> None:
    overlay = linked()
    assert overlay.handle(0.0, PeerDown("b", 1, "cut")) == [NeighbourDown("b", 1, "cut")]
    assert overlay.handle(0.0, PeerUp("b", 2)) == [Send("b", Linked(1, "")), NeighbourUp("b", 2)]
    assert overlay.start(9.0) == [
        NeighbourDown("b", 2, scripted.STARTED_AGAIN),
        LinkWanted(Contact("b"), "overlay"),
    ]
    overlay.check()


def test_what_no_peer_says_is_dropped() -> None:
    overlay = ScriptedOverlay("a")
    assert overlay.handle(0.0, Received("x", Linked(1, ""))) == [Drop(Linked(1, ""), scripted.NOT_A_PEER)]
    overlay.handle(0.0, PeerUp("b", 1))
    assert overlay.handle(0.0, Received("b", Unlinked(1, ""))) == [Drop(Unlinked(1, ""), scripted.NOT_LINKED)]


def test_a_rewiring_says_what_to_ask_of_whom_and_when() -> None:
    """Figure 5.5 of the source: the link (a, b) gives way to (c, d)."""
    broken, linked, told = rewiring("r1", head=("a", "e", "f", "c"), tail=("d", "g", "b"))
    assert broken == [("a", RemoveNeighbour("b", "r1")), ("b", RemoveNeighbour("a", "r1"))]
    path = ("a", "e", "f", "c", "d", "g", "b")
    assert linked == [("c", AddNeighbour(Contact("d"), "r1")), ("d", AddNeighbour(Contact("c"), "r1"))]
    assert told == [
        ("a", TellReplaced("r1", "b", "c", "d", path)),
        ("b", TellReplaced("r1", "a", "d", "c", path[::-1])),
    ]
    assert ScriptedOverlay("a").handle(0.0, told[0][1]) == [NeighbourReplaced("r1", "b", "c", "d", path)]
    assert ScriptedOverlay.level is Level.PATHS


def scripted_world(names: str, seed: int) -> BrokerWorld:
    """All have a stream to all."""
    world = BrokerWorld({name: ScriptedOverlay(name) for name in names}, Random(seed), up=PeerUp, down=PeerDown)
    for first in names:
        for second in names:
            if first < second:
                world.link(first, second)
    world.rest()
    return world


def overlay_of(world: BrokerWorld, name: str) -> ScriptedOverlay:
    overlay = world.nodes[name]
    assert isinstance(overlay, ScriptedOverlay)
    return overlay


def told(world: BrokerWorld, name: str, reconfiguration: str) -> list[tuple[type[Signal], str]]:
    """The neighbours that came and went under this name, in order."""
    return [
        (type(signal), signal.neighbour)
        for node, signal in world.heard
        if node == name
        and isinstance(signal, NeighbourUp | NeighbourDown)
        and signal.reconfiguration == reconfiguration
    ]


@pytest.mark.spec("D-6")
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(
    ("tree", "head", "tail"),
    [
        (["ab", "ae", "ef", "fc", "bg", "gd"], "aefc", "dgb"),
        (["ab", "bc"], "a", "cb"),
        (["ab", "ca"], "ac", "b"),
    ],
)
def test_every_node_loses_the_old_neighbour_before_it_gains_the_new_one(
    tree: list[str], head: str, tail: str, seed: int
) -> None:
    world = scripted_world("abcdefg", seed)
    for edge in tree:
        world.tell(edge[0], AddNeighbour(Contact(edge[1])))
    world.rest()
    for phase in rewiring("r1", tuple(head), tuple(tail)):
        for name, request in phase:
            world.tell(name, request)
            world.run(world.rng.randrange(4))
    world.rest()
    first, near, far, last = head[0], head[-1], tail[0], tail[-1]
    expected: dict[str, list[tuple[type[Signal], str]]] = {name: [] for name in world.nodes}
    expected[first].append((NeighbourDown, last))
    expected[last].append((NeighbourDown, first))
    expected[near].append((NeighbourUp, far))
    expected[far].append((NeighbourUp, near))
    assert {name: told(world, name, "r1") for name in world.nodes} == expected
    assert far in overlay_of(world, near).neighbours and last not in overlay_of(world, first).neighbours


@pytest.mark.spec("D-3")
@pytest.mark.parametrize("seed", range(60))
def test_at_rest_both_ends_see_the_same_whatever_was_asked_and_broke(seed: int) -> None:
    world = scripted_world("abcd", seed)
    world.checks = True
    rng = world.rng
    for _ in range(40):
        first, second = rng.sample("abcd", 2)
        pair = min(first, second), max(first, second)
        kind = rng.random()
        if kind < 0.4:
            world.tell(first, AddNeighbour(Contact(second)))
        elif kind < 0.75:
            world.tell(first, RemoveNeighbour(second))
        elif pair in world.epochs:
            world.cut(*pair)
        else:
            world.link(*pair)
            # Access has both ends know each other before anything else is said on a link.
            for name in pair:
                while world.news[name]:
                    world.tell(name, world.news[name].popleft())
        world.run(rng.choice([0, 0, 1, 4]))
    world.rest()
    for name in world.nodes:
        for other in overlay_of(world, name).neighbours:
            assert name in overlay_of(world, other).neighbours
    # Now that nothing is under way, what is asked for holds, at whichever end.
    for first, second in list(world.epochs):
        asked, other = rng.sample([first, second], 2)
        for request, holds in ((AddNeighbour(Contact(other)), True), (RemoveNeighbour(other), False)):
            world.tell(asked, request)
            world.rest()
            assert (other in overlay_of(world, asked).neighbours) is holds
            assert (asked in overlay_of(world, other).neighbours) is holds


def test_to_remove_what_is_not_there_does_nothing() -> None:
    assert ScriptedOverlay("a").handle(0.0, RemoveNeighbour("nobody")) == []


MOVED = b'{"wanted":[["b2","host:2"]],"left":["b3"]}'


def durable() -> ScriptedOverlay:
    overlay = ScriptedOverlay("b4", ScriptedParams(takes_configured=True, is_durable=True))
    assert overlay.start(0.0) == [Load(scripted.KEPT)]
    return overlay


def test_a_configured_broker_that_is_there_before_the_disk_has_answered_is_taken_then() -> None:
    overlay = durable()
    assert overlay.handle(0.0, PeerUp("b3", 1, address="host:3")) == []
    overlay.handle(0.0, Loaded(scripted.KEPT))
    assert overlay.neighbours == ["b3"]
    overlay.check()


def test_a_broker_that_was_left_by_a_plan_is_not_taken_again_though_it_is_there_before_the_disk_has_answered() -> None:
    overlay = durable()
    assert overlay.handle(0.0, PeerUp("b3", 1, address="host:3")) == []
    effects = overlay.handle(0.0, Loaded(scripted.KEPT, ((scripted.KEPT, MOVED),)))
    assert effects == [LinkWanted(Contact("b2", "host:2"), "overlay")]
    overlay.handle(0.0, PeerUp("b2", 2, is_configured=False))
    assert overlay.neighbours == ["b2"]
    overlay.check()


def test_who_was_left_and_says_before_the_disk_has_answered_that_it_is_a_neighbour_is_told_that_it_is_none() -> None:
    overlay = durable()
    overlay.handle(0.0, PeerUp("b3", 1, address="host:3"))
    assert overlay.handle(0.0, Received("b3", Linked(1, ""))) == [NeighbourUp("b3", 1, "")]
    effects = overlay.handle(0.0, Loaded(scripted.KEPT, ((scripted.KEPT, MOVED),)))
    down = [NeighbourDown("b3", 1, scripted.REMOVED, ""), Send("b3", Unlinked(1, ""))]
    assert effects == [LinkWanted(Contact("b2", "host:2"), "overlay"), *down]
    assert overlay.neighbours == []
    overlay.check()


def test_who_was_configured_and_went_before_the_disk_had_answered_is_taken_when_it_is_back() -> None:
    overlay = durable()
    overlay.handle(0.0, PeerUp("b3", 1, address="host:3"))
    overlay.handle(0.0, PeerDown("b3", 1, "gone"))
    overlay.handle(0.0, Loaded(scripted.KEPT))
    assert overlay.neighbours == []
    overlay.handle(0.0, PeerUp("b3", 2, address="host:3"))
    assert overlay.neighbours == ["b3"]
