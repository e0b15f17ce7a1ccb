"""Friendship and pulses, message by message."""

from typing import Any

import pytest

from tidings.machine.effects import CancelTimer, Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received
from tidings.machine.message import Message
from tidings.machine.streams import random_stream
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.protocols.feeds.candidates import Candidates
from tidings.protocols.feeds.friendship import Friendship
from tidings.protocols.feeds.messages import (
    FeedMessage,
    FriendAnswered,
    FriendAsked,
    FriendRemoved,
    ProfileAsked,
    ProfileTold,
    PulseEcho,
    PulsePing,
)
from tidings.protocols.feeds.own import OwnStanding
from tidings.protocols.feeds.params import FriendshipParams, PulseParams
from tidings.protocols.feeds.profile import interests_of, to_bytes
from tidings.protocols.feeds.pulse import NOT_PINGED, Pulse
from tidings.pubsub.feeds import (
    Ancestry,
    AuditsContinual,
    CoordinateFixed,
    FeedsChanged,
    FriendsChanged,
    NodeMet,
    PeerSilent,
    PeerWatched,
    ProbeWanted,
    PulseAnswered,
    PulseHeard,
    RootPlace,
    Versions,
)

FEEDS = ("http://a", "http://b", "http://c", "http://d")
V = Versions(1, 1)


class Play:
    """One machine, and what it answers."""

    def __init__(self, **params: Any) -> None:
        self.own = OwnStanding("n")
        self.friendship = Friendship(self.own, FriendshipParams(**params), PulseParams(), random_stream(1))
        self.friendship.start(0.0)
        self.do(CoordinateFixed((0.0, 0.0), 1))
        self.do(FeedsChanged(FEEDS))

    def do(self, input: Input, now: float = 1.0) -> list[Effect]:
        effects = self.friendship.handle(now, input)
        self.friendship.check()
        return effects

    def hear(self, sender: NodeId, message: Message, now: float = 1.0) -> list[Effect]:
        return self.do(Received(sender, message), now)

    def befriend(self, node: NodeId, *feeds: str, at: float = 0.1) -> list[Effect]:
        """By an audit from its beginning to its end."""
        self.do(NodeMet(node))
        self.do(Fired("audit"))
        self.hear(node, profile(*feeds, at=at))
        return self.hear(node, FriendAnswered(V, True, ()))


def profile(*feeds: str, at: float = 0.1, versions: Versions = V) -> ProfileTold:
    return ProfileTold(versions, to_bytes(interests_of(feeds)), (at, 0.0))


def sent(effects: list[Effect], kind: type[Message]) -> list[NodeId]:
    return [it.to for it in effects if isinstance(it, Send) and isinstance(it.message, kind)]


@pytest.mark.spec("P-23")
def test_a_change_of_what_is_read_bumps_the_version_and_nothing_else_changes_the_profile() -> None:
    play = Play()
    versions, interests = play.own.versions, play.own.interests
    play.befriend("x", *FEEDS)
    assert (play.own.versions, play.own.interests) == (versions, interests)
    play.do(FeedsChanged(FEEDS[:2]))
    assert play.own.versions.interests == versions.interests + 1
    assert play.own.interests == interests_of(FEEDS[:2]), "built anew: what is given up leaves no bit"


@pytest.mark.spec("P-26")
def test_every_message_carries_the_versions_of_its_sender() -> None:
    kinds = subclasses(FeedMessage)
    assert len(kinds) > 20
    assert all(kind.__struct_fields__[0] == "versions" for kind in kinds)
    play = Play()
    play.do(NodeMet("x"))
    (ask,) = [it for it in play.do(Fired("audit")) if isinstance(it, Send)]
    assert isinstance(ask.message, FeedMessage) and ask.message.versions == play.own.versions == Versions(1, 1)


def subclasses(kind: type) -> list[type]:
    return kind.__subclasses__()


@pytest.mark.spec("P-27")
def test_news_of_a_friend_are_fetched_once_from_it() -> None:
    play = Play()
    play.befriend("x", *FEEDS)
    newer = Versions(2, 1)
    first = play.hear("x", FriendAsked(newer))
    again = play.hear("x", FriendAsked(newer))
    assert sent(first, ProfileAsked) == ["x"] and sent(again, ProfileAsked) == []
    play.hear("x", profile(FEEDS[0], versions=newer))
    assert play.friendship.friends["x"].interests == interests_of(FEEDS[:1])
    assert sent(play.hear("x", FriendAsked(newer)), ProfileAsked) == []
    assert sent(play.hear("stranger", FriendAsked(newer)), ProfileAsked) == [], "from friends only"


@pytest.mark.spec("P-28")
def test_there_are_six_friends_at_most() -> None:
    play = Play()
    for number in range(12):
        play.befriend(f"x{number}", *FEEDS, at=1.0 / (number + 1))
        assert len(play.friendship.friends) <= 6
    assert len(play.friendship.friends) == 6


@pytest.mark.spec("P-29")
@pytest.mark.spec("P-44")
def test_twelve_fans_are_accepted_as_they_come_and_no_more() -> None:
    play = Play()
    answers = [play.hear(f"f{number}", FriendAsked(V)) for number in range(14)]
    verdicts = [it.message.is_accepted for each in answers for it in each if isinstance(it, Send)]
    assert verdicts == [True] * 12 + [False] * 2 and list(play.friendship.fans) == [f"f{it}" for it in range(12)]
    play.do(Fired(("fan", "f3")))
    (answer,) = [it for it in play.hear("f13", FriendAsked(V)) if isinstance(it, Send)]
    assert answer.message.is_accepted


@pytest.mark.spec("P-30")
def test_of_121_candidates_the_one_heard_of_longest_ago_goes() -> None:
    play = Play()
    for number in range(120):
        play.do(NodeMet(f"c{number}"), now=float(number))
    play.do(NodeMet("c0"), now=500.0)
    play.do(NodeMet("new"), now=501.0)
    assert len(play.friendship.candidates) == 120
    assert "c1" not in play.friendship.candidates and "c0" in play.friendship.candidates


class Trees:
    def feeds_below(self, parent: NodeId) -> tuple[str, ...]:
        return ("http://a",) if parent == "parent" else ()

    def ancestries_for(self, child: NodeId, feeds: Any) -> tuple[Ancestry, ...]:
        return tuple(Ancestry(it, RootPlace("r", 0, (0.0,)), ("r",), 9) for it in feeds if child == "child")


def pulse_of(play: Play) -> Pulse:
    pulse = Pulse(play.own, play.friendship, Trees(), PulseParams(), random_stream(2))
    pulse.start(0.0)
    return pulse


@pytest.mark.spec("P-33")
def test_a_friend_is_pinged_every_30_seconds_and_has_15_to_answer() -> None:
    play = Play()
    play.befriend("x", *FEEDS)
    pulse = pulse_of(play)
    (first,) = pulse.handle(10.0, PeerWatched("x"))
    assert isinstance(first, SetTimer) and 10.0 <= first.at <= 40.0
    effects = pulse.handle(20.0, Fired(("ping", "x")))
    assert Send("x", PulsePing(V, 1, ("x",), (), True)) in effects
    assert SetTimer(("ping", "x"), 50.0) in effects and SetTimer(("silent", "x"), 35.0) in effects
    answered = pulse.handle(21.0, Received("x", PulseEcho(V, 1, ("y",), (), True)))
    assert CancelTimer(("silent", "x")) in answered and PulseAnswered("x", ("y",), (), (), True) in answered
    pulse.handle(50.0, Fired(("ping", "x")))
    assert PeerSilent("x") in pulse.handle(65.0, Fired(("silent", "x")))


def test_an_answer_that_was_not_asked_for_is_dropped() -> None:
    play = Play()
    echo = PulseEcho(V, 1, ("y",), (), True)
    assert Drop(echo, NOT_PINGED) in pulse_of(play).handle(1.0, Received("x", echo))


@pytest.mark.spec("P-34")
def test_a_fan_that_is_silent_for_45_seconds_is_forgotten_and_nobody_is_looked_for() -> None:
    play = Play()
    assert SetTimer(("fan", "f"), 46.0) in play.hear("f", FriendAsked(V), now=1.0)
    assert SetTimer(("fan", "f"), 75.0) in play.do(PulseHeard("f", (), (), True), now=30.0)
    assert play.do(Fired(("fan", "f")), now=75.0) == []
    assert "f" not in play.friendship.fans


@pytest.mark.spec("P-35")
def test_a_friend_that_fails_is_replaced_at_once() -> None:
    play = Play()
    play.befriend("x", *FEEDS)
    play.do(NodeMet("c"))
    effects = play.do(PeerSilent("x"))
    assert FriendsChanged(()) in effects and sent(effects, ProfileAsked) == ["c"]


@pytest.mark.spec("P-36")
@pytest.mark.spec("P-38")
def test_each_friend_that_an_answer_names_gets_a_vote_and_is_heard_of_now() -> None:
    play = Play()
    play.do(PulseAnswered("x", ("c", "d"), (), (), True), now=5.0)
    play.do(PulseAnswered("y", ("c",), (), (), True), now=9.0)
    known = play.friendship.candidates.known
    assert (known["c"].votes, known["c"].heard_at) == (2, 9.0) and (known["d"].votes, known["d"].heard_at) == (1, 5.0)
    play = Play()
    pulse = pulse_of(play)
    (answer,) = [it for it in pulse.handle(1.0, Received("z", PulsePing(V, 3, (), (), False))) if isinstance(it, Send)]
    play.befriend("x", *FEEDS)
    (later,) = [it for it in pulse.handle(1.0, Received("z", PulsePing(V, 4, (), (), False))) if isinstance(it, Send)]
    assert answer.message.friends == () and later.message.friends == ("x",)


@pytest.mark.spec("P-37")
def test_who_is_met_is_a_candidate_with_one_vote_and_nothing_is_asked_of_it() -> None:
    play = Play()
    assert play.do(NodeMet("c")) == []
    candidate = play.friendship.candidates.known["c"]
    assert (candidate.votes, candidate.audited, candidate.profile) == (1, False, None)


@pytest.mark.spec("P-39")
def test_candidates_are_never_pinged() -> None:
    play = Play()
    play.do(NodeMet("c"))
    pulse = pulse_of(play)
    pulse.handle(0.0, PeerWatched("c"))
    assert not any(isinstance(it, Send) for it in pulse.handle(5.0, Fired(("ping", "c"))))
    assert pulse.peers == {}


@pytest.mark.spec("P-40")
def test_an_audit_every_30_seconds_looks_at_the_candidate_with_most_votes() -> None:
    play = Play()
    for node in ("c", "d", "d", "e"):
        play.do(NodeMet(node))
    effects = play.do(Fired("audit"), now=60.0)
    assert sent(effects, ProfileAsked) == ["d"] and SetTimer("audit", 90.0) in effects


@pytest.mark.spec("P-41")
def test_an_audit_marks_its_candidate_and_fetches_the_profile_if_it_is_unknown() -> None:
    play = Play()
    play.do(NodeMet("c"))
    assert sent(play.do(Fired("audit")), ProfileAsked) == ["c"]
    assert play.friendship.candidates.known["c"].audited
    play.hear("c", profile(*FEEDS))
    play.hear("c", FriendAnswered(V, False, ()))
    play.friendship.candidates.reset()
    effects = play.do(Fired("audit"))
    assert sent(effects, ProfileAsked) == [] and sent(effects, FriendAsked) == ["c"]


@pytest.mark.spec("P-42")
def test_with_room_any_candidate_will_do() -> None:
    play = Play()
    play.do(NodeMet("c"))
    play.do(Fired("audit"))
    assert sent(play.hear("c", profile("http://something/else", at=3.0)), FriendAsked) == ["c"]


def full(play: Play) -> None:
    """Six friends with one feed in common each; the sixth is by far the farthest."""
    for number in range(6):
        play.befriend(f"x{number}", FEEDS[0], at=0.1 if number < 5 else 2.0)


@pytest.mark.spec("P-43")
def test_with_a_full_set_the_best_exchange_is_made_if_it_gains_more_than_a_hundredth() -> None:
    play = Play()
    full(play)
    play.do(NodeMet("same"))
    play.do(Fired("audit"))
    assert sent(play.hear("same", profile(FEEDS[0], at=2.0)), FriendAsked) == [], "no gain"
    play.do(NodeMet("slightly"))
    play.do(Fired("audit"))
    assert sent(play.hear("slightly", profile(FEEDS[0], at=1.9)), FriendAsked) == [], "less than 1 %"
    effects = play.befriend("near", FEEDS[0], at=0.1)
    assert "near" in play.friendship.friends and "x5" not in play.friendship.friends
    assert sent(effects, FriendRemoved) == ["x5"]


@pytest.mark.spec("P-45")
def test_the_answer_names_the_friends_whatever_it_says() -> None:
    play = Play()
    play.befriend("x", *FEEDS)
    answers = [play.hear(f"f{number}", FriendAsked(V))[0] for number in range(13)]
    assert [(it.message.is_accepted, it.message.friends) for it in answers if isinstance(it, Send)] == [
        *[(True, ("x",))] * 12,
        (False, ("x",)),
    ]
    play.hear("q", FriendAnswered(V, False, ("told",)))
    assert "told" in play.friendship.candidates


@pytest.mark.spec("P-46")
def test_after_a_denial_the_next_is_audited_only_if_there_is_room() -> None:
    play = Play()
    for node in ("c", "c", "d"):
        play.do(NodeMet(node))
    play.do(Fired("audit"))
    play.hear("c", profile(*FEEDS))
    assert sent(play.hear("c", FriendAnswered(V, False, ())), ProfileAsked) == ["d"]
    crowded = Play()
    full(crowded)
    for node in ("c", "c", "d"):
        crowded.do(NodeMet(node))
    crowded.do(Fired("audit"))
    crowded.hear("c", profile(*FEEDS, at=0.01))
    assert sent(crowded.hear("c", FriendAnswered(V, False, ())), ProfileAsked) == []


@pytest.mark.spec("P-47")
@pytest.mark.parametrize("change", ["came", "failed", "gave us up"])
def test_any_change_of_friends_gives_all_candidates_another_chance(change: str) -> None:
    play = Play()
    play.befriend("x", *FEEDS)
    for node in ("c", "c"):
        play.do(NodeMet(node))
    play.do(Fired("audit"))
    play.hear("c", profile(*FEEDS))
    assert play.friendship.candidates.known["c"].audited
    if change == "came":
        play.do(NodeMet("d"))
        play.hear("c", FriendAnswered(V, True, ()))
        assert play.friendship.candidates.known["d"].votes == 0
        return
    play.hear("c", FriendAnswered(V, False, ()))
    play.friendship.candidates.known["c"].audited, play.friendship.candidates.known["c"].votes = True, 5
    play.friendship.auditing = None
    play.do(NodeMet("more"))
    play.do(PeerSilent("x") if change == "failed" else PulseAnswered("x", (), (), (), False))
    known = play.friendship.candidates.known
    assert known["c"].votes == 0 and known["more"].votes == 0


@pytest.mark.spec("P-48")
def test_who_accepts_us_is_a_friend_and_who_asks_us_is_a_fan() -> None:
    play = Play()
    play.hear("f", FriendAsked(V))
    play.befriend("x", *FEEDS)
    assert list(play.friendship.fans) == ["f"] and list(play.friendship.friends) == ["x"]


@pytest.mark.spec("P-49")
def test_audits_of_peers_that_start_together_have_phases_of_their_own() -> None:
    phases = []
    for number in range(20):
        friendship = Friendship(OwnStanding("n"), FriendshipParams(), PulseParams(), random_stream(number))
        (timer,) = friendship.start(0.0)
        assert isinstance(timer, SetTimer) and 0 <= timer.at <= 30
        phases.append(timer.at)
    assert len(set(phases)) == 20 and max(phases) > 20 and min(phases) < 10


def test_a_candidate_that_does_not_answer_is_forgotten_and_the_next_one_asked() -> None:
    play = Play()
    for node in ("c", "c", "d"):
        play.do(NodeMet(node))
    play.do(Fired("audit"))
    effects = play.do(Fired("unanswered"))
    assert "c" not in play.friendship.candidates and sent(effects, ProfileAsked) == ["d"]


def test_who_accepts_too_late_is_told_that_it_is_not_wanted() -> None:
    play = Play()
    assert sent(play.hear("late", FriendAnswered(V, True, ())), FriendRemoved) == ["late"]


def test_one_peer_is_pinged_once_for_all_its_roles_and_a_stale_one_on_demand() -> None:
    play = Play()
    pulse = pulse_of(play)
    effects = pulse.handle(0.0, ProbeWanted("parent"))
    (ping,) = [it.message for it in effects if isinstance(it, Send)]
    assert ping == PulsePing(V, 1, (), ("http://a",), False)
    assert pulse.handle(0.0, PeerWatched("parent")) == []


def test_the_answer_to_a_child_says_how_we_stand() -> None:
    effects = pulse_of(Play()).handle(0.0, Received("child", PulsePing(V, 1, (), ("http://a",), False)))
    (echo,) = [it.message for it in effects if isinstance(it, Send)]
    assert [it.chain for it in echo.ancestries] == [("r",)]


def test_continual_audits_follow_each_other() -> None:
    play = Play()
    assert play.do(AuditsContinual(True), now=5.0) == [SetTimer("audit", 5.0)]
    assert SetTimer("audit", 5.5) in play.do(Fired("audit"), now=5.0)


def test_most_votes_win_then_the_latest_then_the_name() -> None:
    candidates = Candidates(10)
    for now, node in ((1.0, "a"), (2.0, "b"), (2.0, "c"), (3.0, "d"), (4.0, "a")):
        candidates.hear(now, node)
    order = []
    while (first := candidates.next_audit()) is not None:
        candidates.known[first].audited = True
        order.append(first)
    assert order == ["a", "d", "c", "b"]


@pytest.mark.parametrize("wrong", [{"friends_max": 0}, {"friends_max": 1000}, {"gain": -0.1}, {"audit_period": 0.0}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        FriendshipParams(**wrong)
