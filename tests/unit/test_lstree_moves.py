"""A broker that has its place and looks for a nearer one, message by message."""

from typing import Any

from tests.unit.test_lstree import RED, TreeDesk, answer, request
from tests.worlds.desk import of, sent
from tidings.machine.effects import Send
from tidings.machine.inputs import Fired
from tidings.machine.message import Contact
from tidings.protocols.overlay.lstree.messages import (
    ChildLeave,
    ColourUpdate,
    ContactPing,
    ContactPong,
    ParentAccept,
    ParentRefuse,
    ParentRequest,
    RefusalReason,
)
from tidings.protocols.overlay.lstree.order import Colour
from tidings.pubsub.signals import LinkUnwanted, LinkWanted, NeighbourDown, NeighbourReplaced, NeighbourUp, PeerDown


def looking(**params: Any) -> TreeDesk:
    """Below p, beside s and t; it is time to look."""
    wishes: dict[str, Any] = {"nearer_period": 60.0, "nearer_first": 5.0, **params}
    desk = TreeDesk("p", **wishes).attached(depth=1.0, siblings=("s", "t"))
    desk.up("s")
    desk.up("t")
    desk.handle(Fired("nearer"))
    return desk


def measured(desk: TreeDesk, **round_trips: float) -> list[Any]:
    """Each answers after so long; then all have had their time."""
    begin = desk.now
    for name, seconds in sorted(round_trips.items(), key=lambda each: each[1]):
        desk.now = begin + seconds
        desk.hears(name, ContactPong(RED))
    desk.now = begin + 1.0
    return desk.handle(Fired("pinged"))


def requests(effects: list[Any]) -> list[tuple[str, ParentRequest]]:
    return [(each.to, each.message) for each in of(Send, effects) if isinstance(each.message, ParentRequest)]


def test_a_look_measures_the_one_above_and_those_around() -> None:
    desk = looking()
    assert {each.to for each in of(Send, desk.effects) if isinstance(each.message, ContactPing)} == {"p", "s", "t"}
    assert {each.contact.node for each in of(LinkWanted, desk.effects)} >= {"g", "s", "t"}


def test_it_goes_below_the_nearest_and_one_link_takes_the_place_of_the_other() -> None:
    desk = looking()
    ((to, asked),) = requests(measured(desk, p=0.1, s=0.05, t=0.01))
    place, link = desk.machine.kin.place, desk.machine.kin.above
    assert link is not None
    assert to == "t" and (asked.colour, asked.depth) == (place.colour, place.depth)
    assert not asked.breaks_max and not asked.breaks_min and not asked.is_root and asked.replaces == link.link
    effects = desk.hears("t", ParentAccept(asked.number, RED, 1.2, (Contact("t"), Contact("p")), ()))
    # The loss before the gain (D-6), and the one that is left hears of it.
    (down,), (up,) = of(NeighbourDown, effects), of(NeighbourUp, effects)
    assert effects.index(down) < effects.index(up) and (down.neighbour, up.neighbour) == ("p", "t")
    assert down.reconfiguration == up.reconfiguration == asked.replaces
    assert of(NeighbourReplaced, effects) == [NeighbourReplaced(asked.replaces, "p", "m", "t")]
    assert sent(effects, ChildLeave, "p") and desk.machine.neighbours == ["t"]
    # The word that it leaves is said before the link is let go.
    assert effects.index(Send("p", ChildLeave(asked.replaces))) < effects.index(LinkUnwanted("p", "overlay"))
    assert desk.machine.mover.moves == 1


def test_who_is_hardly_nearer_is_not_asked() -> None:
    assert not requests(measured(looking(), p=0.1, s=0.08, t=0.09))
    assert not requests(measured(looking(nearer_least=0.002), p=0.002, s=0.0005, t=0.0005))
    assert not requests(measured(looking(), s=0.01, t=0.01)), "the one above was not measured"


def test_looks_come_ever_later_and_never_where_they_are_not_asked_for() -> None:
    desk = looking(nearer_first=4.0, nearer_period=20.0)
    waits = []
    for _ in range(5):
        begin = desk.now
        measured(desk, p=0.01)
        waits.append(desk.timers["nearer"] - desk.now)
        desk.now = begin + 100.0
        desk.handle(Fired("nearer"))
    assert all(most <= wait <= 2 * most for wait, most in zip(waits, (8.0, 16.0, 20.0, 20.0, 20.0), strict=True))
    assert "nearer" not in TreeDesk("p", nearer_period=0.0).attached().timers


def test_those_below_whoever_has_enough_neighbours_are_measured_next() -> None:
    desk = looking()
    ((_, asked),) = requests(measured(desk, p=0.1, t=0.01))
    refusal = ParentRefuse(asked.number, RefusalReason.MAXDEGREE, (Contact("x"), Contact("y")))
    assert {each.contact.node for each in of(LinkWanted, desk.hears("t", refusal))} >= {"x", "y"}
    desk.up("x")
    ((to, _),) = requests(measured(desk, p=0.1, x=0.02))
    assert to == "x"
    desk.handle(Fired("moving"))
    assert desk.machine.mover.asked is None and "nearer" in desk.timers and desk.machine.neighbours == ["p"]


def test_while_a_request_is_out_the_place_stands_still() -> None:
    """L-INV3: whoever would have it lowered hears that we are busy; a new colour from above makes the request void."""
    desk = looking()
    ((to, asked),) = requests(measured(desk, p=0.1, t=0.01))
    place = desk.machine.kin.place
    desk.up("c")
    refused = answer(desk.hears("c", request(RED, place.depth - 0.001)), "c")
    assert isinstance(refused, ParentRefuse) and refused.reason is RefusalReason.BUSY
    blue = Colour(4, "b")
    assert of(LinkUnwanted, desk.hears("p", ColourUpdate(blue, 2.0))) == [LinkUnwanted("t", "overlay")]
    late = desk.hears(to, ParentAccept(asked.number, RED, 0.5, (Contact("t"),), ()))
    assert sent(late, ChildLeave, "t") and not of(NeighbourUp, late) and desk.machine.neighbours == ["p"]


def test_who_loses_the_one_above_searches_and_asks_the_nearest_beside_first() -> None:
    desk = looking(ancestor_share=0.0)
    ((to, asked),) = requests(measured(desk, p=0.1, s=0.09, t=0.01))
    assert to == "t"
    desk.handle(PeerDown("p", 1, "gone"))
    again = [message for name, message in requests(desk.effects) if name == "t"]
    assert desk.asked() == "t" and again and again[0].number != asked.number
    late = desk.hears("t", ParentAccept(asked.number, RED, 0.5, (Contact("t"),), ()))
    assert not of(NeighbourUp, late)


def test_an_acceptance_that_may_not_be_leaves_everything_as_it_was() -> None:
    desk = looking()
    ((_, asked),) = requests(measured(desk, p=0.1, t=0.01))
    below = desk.machine.kin.place.depth + 1.0
    effects = desk.hears("t", ParentAccept(asked.number, RED, below, (Contact("t"),), ()))
    assert sent(effects, ChildLeave, "t") and not of(NeighbourUp, effects) and desk.machine.neighbours == ["p"]
