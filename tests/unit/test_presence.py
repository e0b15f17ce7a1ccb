"""PresenceWatch, message by message: silent is not gone, and nobody is gone on one word alone."""

import pytest

from tidings.machine.effects import Disconnect, Drop, Effect, ProbeNode, Send
from tidings.machine.inputs import Fired, NodeProbed, Received
from tidings.machine.message import Contact
from tidings.model.bounds import INQUIRERS_MAX, INQUIRIES_MAX
from tidings.model.errors import UsageError
from tidings.protocols.presence.messages import Beacon, ReachAnswer, ReachQuestion
from tidings.protocols.presence.params import PresenceParams
from tidings.protocols.presence.presence import GONE, NOT_A_NEIGHBOUR, PresenceWatch
from tidings.pubsub.notes import NeighbourGone, NeighbourSilent
from tidings.pubsub.signals import NeighbourDown, NeighbourUp, PeerUp

SILENT_AT = 10.4
"""When "x" is, which was last heard at 10."""


def watching(*others: str, params: PresenceParams | None = None) -> PresenceWatch:
    """Neighbours "x" and these; all of them were heard at 10, the others at 10.3 again."""
    presence = PresenceWatch("b", params or PresenceParams())
    presence.start(0.0)
    for node in ("x", *others):
        presence.handle(10.0, PeerUp(node, 1, address=f"{node}:1"))
        presence.handle(10.0, NeighbourUp(node, 1))
        presence.handle(10.0, Received(node, Beacon()))
    for node in others:
        presence.handle(10.3, Received(node, Beacon()))
    return presence


def falls_silent(presence: PresenceWatch) -> list[Effect]:
    return presence.handle(SILENT_AT, Fired(("silent", "x")))


def asked(effects: list[Effect]) -> list[str]:
    return [each.to for each in effects if isinstance(each, Send) and isinstance(each.message, ReachQuestion)]


def test_every_neighbour_is_sent_a_beacon_each_period() -> None:
    presence = watching("y")
    sent = presence.handle(10.2, Fired("beacon"))
    assert [each for each in sent if isinstance(each, Send)] == [Send("x", Beacon()), Send("y", Beacon())]


def test_a_silent_neighbour_is_looked_for_and_keeps_its_link() -> None:
    effects = falls_silent(watching("y", "z"))
    assert NeighbourSilent("x", 2) in effects and ProbeNode("x", 0.3, "x:1") in effects
    assert asked(effects) == ["y", "z"]
    assert not any(isinstance(each, Disconnect) for each in effects)


def test_it_is_gone_when_we_and_all_bystanders_find_nobody() -> None:
    presence = watching("y", "z")
    falls_silent(presence)
    assert presence.handle(10.7, NodeProbed("x", False, "x:1")) == []
    assert not any(isinstance(it, Disconnect) for it in presence.handle(10.75, Received("y", ReachAnswer("x", False))))
    effects = presence.handle(10.8, Received("z", ReachAnswer("x", False)))
    assert Disconnect("x", GONE) in effects
    (note,) = [each for each in effects if isinstance(each, NeighbourGone)]
    assert (note.neighbour, note.confirmed, round(note.silent_for, 6)) == ("x", 2, 0.8)
    presence.check()


@pytest.mark.parametrize("says_so", ["our probe", "a bystander"])
def test_where_something_listens_nobody_is_gone(says_so: str) -> None:
    presence = watching("y", "z")
    falls_silent(presence)
    presence.handle(10.5, NodeProbed("x", says_so == "our probe", "x:1"))
    presence.handle(10.6, Received("y", ReachAnswer("x", says_so == "a bystander")))
    effects = presence.handle(10.7, Received("z", ReachAnswer("x", False)))
    effects += presence.handle(10.88, Fired(("confirm", "x")))
    assert not any(isinstance(each, Disconnect) for each in effects)
    # And it is looked for again.
    assert ProbeNode("x", 0.3, "x:1") in presence.handle(11.9, Fired(("confirm", "x")))


def test_who_hears_others_does_not_take_its_own_word_for_it() -> None:
    presence = watching("y")
    falls_silent(presence)
    presence.handle(10.7, NodeProbed("x", False, "x:1"))
    presence.handle(10.85, Received("y", Beacon()))
    effects = presence.handle(10.88, Fired(("confirm", "x")))
    assert not any(isinstance(each, Disconnect) for each in effects) and asked(effects) == ["y"]


def test_who_hears_nobody_else_has_its_own_word_alone() -> None:
    presence = watching()
    falls_silent(presence)
    assert Disconnect("x", GONE) in presence.handle(10.7, NodeProbed("x", False, "x:1"))


def test_bystanders_that_fall_silent_themselves_are_not_waited_for() -> None:
    presence = watching("y")
    falls_silent(presence)
    presence.handle(10.7, NodeProbed("x", False, "x:1"))
    presence.handle(10.7, Fired(("silent", "y")))
    assert Disconnect("x", GONE) in presence.handle(10.88, Fired(("confirm", "x")))


def test_one_that_is_heard_again_is_out_of_suspicion() -> None:
    presence = watching("y")
    falls_silent(presence)
    presence.handle(10.5, Received("x", Beacon()))
    effects = presence.handle(10.7, NodeProbed("x", False, "x:1"))
    effects += presence.handle(10.75, Received("y", ReachAnswer("x", False)))
    effects += presence.handle(10.88, Fired(("confirm", "x")))
    assert not any(isinstance(each, Disconnect) for each in effects)


def test_who_stood_still_itself_suspects_nobody() -> None:
    presence = watching("y")
    effects = presence.handle(12.4, Fired(("silent", "x")))
    assert not any(isinstance(each, ProbeNode | NeighbourSilent) for each in effects)
    assert presence.watched["x"].heard_at == presence.watched["y"].heard_at == 12.4


def test_a_bystander_answers_from_what_it_hears_or_probes() -> None:
    presence = watching("y")
    assert Send("y", ReachAnswer("x", True)) in presence.handle(10.3, Received("y", ReachQuestion(Contact("x"))))
    stranger = ReachQuestion(Contact("far", "far:1"))
    effects = presence.handle(10.3, Received("y", stranger))
    assert effects[-1] == ProbeNode("far", 0.3, "far:1")
    presence.handle(10.3, Received("x", stranger))
    told = presence.handle(10.6, NodeProbed("far", False, "far:1"))
    assert told == [Send("y", ReachAnswer("far", False)), Send("x", ReachAnswer("far", False))]


def test_where_a_neighbour_is_only_it_says_itself() -> None:
    """Somebody who asks for it elsewhere, where nothing listens, has no word in it."""
    presence = watching("y")
    falls_silent(presence)
    asked = presence.handle(10.5, Received("y", ReachQuestion(Contact("x", "nowhere:1"))))
    assert [each for each in asked if isinstance(each, ProbeNode)] == [ProbeNode("x", 0.3, "x:1")]
    presence.handle(10.6, NodeProbed("x", False, "nowhere:1"))
    effects = presence.handle(10.7, Received("y", ReachAnswer("x", False)))
    effects += presence.handle(10.88, Fired(("confirm", "x")))
    assert not any(isinstance(each, Disconnect) for each in effects)


def test_who_asks_with_another_address_spoils_no_answer_for_others() -> None:
    presence = watching("y", "z")
    for asker, address in (("y", "nowhere:1"), ("z", "far:1")):
        presence.handle(10.3, Received(asker, ReachQuestion(Contact("far", address))))
    assert presence.handle(10.5, NodeProbed("far", False, "nowhere:1")) == [Send("y", ReachAnswer("far", False))]
    assert presence.handle(10.5, NodeProbed("far", True, "far:1")) == [Send("z", ReachAnswer("far", True))]


def test_questions_of_others_are_bounded() -> None:
    names = [f"n{number}" for number in range(INQUIRERS_MAX + 1)]
    presence = watching(*names)
    for number in range(INQUIRIES_MAX + 10):
        effects = presence.handle(10.3, Received("n0", ReachQuestion(Contact(f"far{number}"))))
    assert isinstance(effects[-1], Drop) and len(presence.inquiries) == INQUIRIES_MAX
    for name in names:
        presence.handle(10.3, Received(name, ReachQuestion(Contact("far0"))))
    presence.check()


def test_only_neighbours_are_listened_to() -> None:
    presence = watching()
    question, answer = ReachQuestion(Contact("x")), ReachAnswer("x", False)
    assert presence.handle(10.1, Received("stranger", question)) == [Drop(question, NOT_A_NEIGHBOUR)]
    assert presence.handle(10.1, Received("stranger", answer)) == [Drop(answer, NOT_A_NEIGHBOUR)]


def test_one_that_is_no_neighbour_any_more_is_not_watched() -> None:
    presence = watching()
    presence.handle(10.1, NeighbourDown("x", 1))
    assert falls_silent(presence) == [] and presence.handle(10.5, Fired("beacon")) == []


@pytest.mark.parametrize(
    ("wrong", "names"),
    [
        ({"silent_after": 0.2}, "silent_after"),
        ({"confirm_within": 0.2}, "confirm_within"),
        ({"bystanders": 17}, "bystanders"),
        ({"beacon_period": 0.0}, "beacon_period"),
    ],
)
def test_times_that_do_not_fit_are_refused(wrong: dict[str, float], names: str) -> None:
    with pytest.raises(UsageError, match=names):
        PresenceParams(**wrong)  # type: ignore[arg-type]
