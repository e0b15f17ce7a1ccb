"""lpbcast (2.2; specification 3.2): views, leaving, rounds, and what was lost once."""

from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.machine.effects import Drop, Send
from tidings.machine.inputs import Fired, Received
from tidings.machine.message import Contact
from tidings.model.errors import UsageError
from tidings.protocols.gossip.groups import NOT_IN_GROUP, GossipGroups
from tidings.protocols.gossip.lpbcast import GroupGossip, GroupPull, GroupPush, Lpbcast, LpbcastParams, Member
from tidings.pubsub.gathered import GatheredPublications
from tidings.pubsub.publications import Publications
from tidings.pubsub.signals import (
    GroupHeard,
    GroupJoined,
    GroupLeft,
    GroupSaid,
    GroupViewed,
    LinkUnwanted,
    LinkWanted,
    PeerDown,
    PeerUp,
)

GROUP = "p/1@m0"
NOTHING_LOST: dict[str, Any] = {"fanout": 2, "view_max": 10}


def batch_of(*numbers: int, at: float = 1.0) -> Publications:
    return Publications("p", GROUP, at, 0, numbers, (b"\x80",) * len(numbers), (b"",) * len(numbers))


def member(name: str, **params: Any) -> Lpbcast:
    return Lpbcast(GROUP, "p", Contact(name), 1, LpbcastParams(**params), Random(name), source="m0")


class Members:
    """A group in rounds: messages of a round arrive in the same round, and those that `loses` draws do not."""

    def __init__(self, size: int, rng: Random, loses: float = 0.0, **params: Any) -> None:
        self.rng, self.loses = rng, loses
        self.all = {f"m{place}": member(f"m{place}", **params) for place in range(size)}
        for name, each in self.all.items():
            # As when a group is opened: everybody knows the source, and tells it.
            if name != "m0":
                each.meet([Contact("m0")])
                self.hear("m0", each.gossip())

    def hear(self, to: str, gossip: GroupGossip, sender: str = "") -> None:
        if self.rng.random() < self.loses or to not in self.all:
            return
        _, pull = self.all[to].hear(gossip)
        if pull is not None and sender in self.all:
            for push in self.all[sender].give(pull):
                if self.rng.random() >= self.loses:
                    self.all[to].take([push.said])
        answer = self.all[to].answer(sender, gossip)
        if answer is not None:
            self.hear(sender, answer, to)

    def round(self) -> None:
        for name, each in self.all.items():
            for to, gossip in each.round(self.all):
                self.hear(to, gossip, name)
        for each in self.all.values():
            each.check()

    def having(self, number: int) -> int:
        return sum(number in each.heard for each in self.all.values())


@pytest.mark.spec("S-13")
@given(st.integers(0, 2**32))
def test_a_view_is_bounded_and_never_has_the_member_itself(seed: int) -> None:
    rng = Random(seed)
    each = member("m0", view_max=4, known_max=6)
    for _ in range(30):
        names = [f"m{rng.randrange(12)}" for _ in range(rng.randint(0, 8))]
        members = tuple(Member(Contact(name), rng.randrange(3)) for name in names)
        left = tuple((f"m{rng.randrange(12)}", rng.randrange(3)) for _ in range(rng.randint(0, 4)))
        each.hear(GroupGossip(GROUP, members, left, (), ()))
        assert len(each.view) <= 4 and "m0" not in each.view
        each.check()


@pytest.mark.spec("S-14")
@pytest.mark.parametrize("seed", range(5))
def test_a_member_that_leaves_disappears_from_all_views(seed: int) -> None:
    members = Members(30, Random(seed))
    for _ in range(10):
        members.round()
    gone = members.all.pop("m7")
    assert any("m7" in each.view for each in members.all.values())
    for to in list(gone.view)[:2]:
        members.hear(to, gone.leave())
    for _ in range(30):
        members.round()
    assert not any("m7" in each.view or "m7" in each.known for each in members.all.values())


def test_one_that_comes_back_is_not_thrown_out_by_old_news() -> None:
    each = member("m0")
    each.learn([Member(Contact("m1"), 1)])
    each.forget([("m1", 1)])
    assert "m1" not in each.view
    each.learn([Member(Contact("m1"), 1)])
    assert "m1" not in each.view, "somebody has not heard that it left"
    each.learn([Member(Contact("m1"), 2)])
    each.forget([("m1", 1)])
    assert "m1" in each.view, "its next life"


@pytest.mark.spec("S-15")
def test_what_is_said_reaches_all_in_a_number_of_rounds_that_grows_with_the_logarithm() -> None:
    """Fanout 2, views of 10, nothing is lost: of 200 publications at least 99 % reach all 64 within 4 log2 n rounds."""
    rounds, size, complete, tried = 24, 64, 0, 0
    for seed in range(10):
        members = Members(size, Random(seed), **NOTHING_LOST)
        for _ in range(6):
            members.round()
        numbers = count(1)
        said = [next(numbers) for _ in range(20)]
        for number in said:
            members.all["m0"].say(batch_of(number))
        for _ in range(rounds):
            members.round()
        tried += len(said)
        complete += sum(members.having(number) == size for number in said)
    assert complete >= 0.99 * tried


@pytest.mark.parametrize("size", [20, 150])
def test_in_a_large_group_whoever_knows_only_the_source_hears_everything_too(size: int) -> None:
    """What is said while the group is being opened has reached all before those leave who leave first."""
    members = Members(size, Random(1))
    for number in range(1, 11):
        members.all["m0"].say(batch_of(number))
        members.round()
    for _ in range(LpbcastParams().linger_rounds):
        members.round()
    late = [name for name, each in members.all.items() if len(each.heard) < 10]
    assert not late, f"{len(late)} of {size} lack something"


def test_whoever_lacks_what_went_around_long_ago_is_answered_once_in_a_round() -> None:
    each = member("m0", answered_after=2, answers_max=2, redirected_max=1)
    each.meet([Contact("m1")])
    each.say(batch_of(1))
    behind = GroupGossip(GROUP, (), (), (), ())
    assert each.answer("m1", behind) is None, "it is still going around"
    each.round(["m1"])
    each.round(["m1"])
    answer = each.answer("m1", behind)
    assert answer is not None and answer.digest == (1,) and answer.said == ()
    assert each.answer("m1", behind) is None, "it was answered"
    # Not who has it, who came later, or who leaves.
    assert each.answer("m2", GroupGossip(GROUP, (), (), (1,), ())) is None
    assert each.answer("m2", GroupGossip(GROUP, (), (), (), (), floor=1)) is None
    assert each.answer("m2", GroupGossip(GROUP, (), (("m2", 1),), (), ())) is None
    assert each.answer("m2", behind) is not None
    redirected = each.answer("m3", behind)
    assert redirected is not None and redirected.digest == () and redirected.members, "others may bring it"
    assert each.answer("m4", behind) is None
    each.round(["m1"])
    assert each.answer("m1", behind) is not None
    each.check()


@pytest.mark.spec("S-16")
def test_what_was_lost_once_is_fetched_by_the_digest() -> None:
    source, other = member("m0"), member("m1")
    source.meet([Contact("m1")])
    source.say(batch_of(1, 2, 3))
    ((to, lost),) = source.round(["m1"])
    assert to == "m1" and lost.said[0].batch.numbers == (1, 2, 3)
    # The next round says nothing new, and names what was said.
    ((_, next_one),) = source.round(["m1"])
    assert next_one.said == () and next_one.digest == (1, 2, 3)
    new, pull = other.hear(next_one)
    assert new == [] and pull == GroupPull(GROUP, (1, 2, 3))
    pushes = source.give(pull)
    assert [number for push in pushes for each in other.take([push.said]) for number in each.numbers] == [1, 2, 3]
    assert other.hear(next_one) == ([], None)


@pytest.mark.parametrize("seed", range(3))
def test_with_a_third_of_all_messages_lost_everything_still_arrives(seed: int) -> None:
    members = Members(30, Random(seed), loses=0.3)
    for number in range(1, 20):
        members.all["m0"].say(batch_of(number))
        members.round()
    for _ in range(40):
        members.round()
    assert all(members.having(number) == 30 for number in range(1, 20))


def test_bounds_hold_and_what_is_below_the_floor_counts_as_heard() -> None:
    each = member("m0", said_max=3, heard_max=5, kept_max=4)
    for number in range(1, 11):
        assert each.say(batch_of(number)) != []
        each.check()
    assert list(each.said) == [8, 9, 10] and sorted(each.heard) == [6, 7, 8, 9, 10] and each.floor == 5
    assert each.say(batch_of(4)) == []
    assert [push.said.batch.numbers for push in each.give(GroupPull(GROUP, (1, 6, 8)))] == [(8,)]
    small = member("m0", kept_bytes_max=3)
    small.say(batch_of(*range(1, 9)))
    assert small.kept_bytes <= 3 and len(small.kept) == 3
    for wrong in ({"interval": 0.0}, {"fanout": 0}, {"fanout": 11}, {"known_max": 32}):
        with pytest.raises(UsageError, match=f"^{next(iter(wrong))}"):
            LpbcastParams(**wrong)


NAMES = st.sampled_from(["m0", "m1", "x"])
SAID = st.builds(
    lambda group, publisher, numbers, time: GatheredPublications(
        Publications(publisher, group, time, 0, tuple(numbers), (b"\x80",) * len(numbers), (b"x",) * len(numbers)),
        (time,) * len(numbers),
    ),
    st.sampled_from([GROUP, "other"]),
    st.sampled_from(["p", "q"]),
    st.lists(st.integers(0, 9), max_size=4),
    st.floats(-1e9, 1e9),
)
NUMBERS = st.lists(st.integers(0, 2**63 - 1), max_size=5).map(tuple)
LIES = st.one_of(
    st.builds(
        GroupGossip,
        st.sampled_from([GROUP, "other"]),
        st.lists(st.builds(Member, st.builds(Contact, NAMES), st.integers(0, 2**63 - 1)), max_size=5).map(tuple),
        st.lists(st.tuples(NAMES, st.integers(0, 2**63 - 1)), max_size=5).map(tuple),
        NUMBERS,
        st.lists(SAID, max_size=1).map(tuple),
    ),
    st.builds(GroupPull, st.just(GROUP), NUMBERS),
    st.builds(GroupPush, st.just(GROUP), SAID),
)


@given(st.lists(LIES, max_size=20))
def test_a_liar_in_the_group_makes_nothing_raise_and_nothing_come_twice(lies: list[Any]) -> None:
    groups = GossipGroups("m0", LpbcastParams(), Random(1))
    groups.handle(0.0, PeerUp("x", 1))
    groups.handle(0.0, GroupJoined(GROUP, "p"))
    heard: list[int] = []
    for lie in lies:
        for effect in groups.handle(1.0, Received("x", lie)):
            if isinstance(effect, GroupHeard):
                assert (effect.batch.advertisement, effect.batch.publisher) == (GROUP, "p")
                heard += effect.batch.numbers
        groups.check()
    assert len(heard) == len(set(heard))


# The part of a node.


def test_a_group_begins_with_links_to_its_members_and_an_introduction() -> None:
    groups = GossipGroups("a", LpbcastParams(interval=2.0), Random(1))
    timer, wanted, viewed = groups.handle(1.0, GroupJoined(GROUP, "p", (Contact("m0", "h:1"),), through=7))
    assert getattr(timer, "key", None) == ("round", GROUP)
    assert wanted == LinkWanted(Contact("m0", "h:1"), "group")
    assert viewed == GroupViewed(GROUP, (Contact("a"), Contact("m0", "h:1")))
    (introduced,) = groups.handle(1.1, PeerUp("m0", 1))
    assert isinstance(introduced, Send) and isinstance(introduced.message, GroupGossip)
    assert introduced.message.members[0].contact == Contact("a")
    # What was said before it joined is not asked for.
    gossip = GroupGossip(GROUP, (), (), (6, 7, 8), (GatheredPublications(batch_of(9), (1.0,)),))
    heard, pull = groups.handle(1.2, Received("m0", gossip))
    assert heard == GroupHeard(batch_of(9)) and pull == Send("m0", GroupPull(GROUP, (8,)))
    push = GroupPush(GROUP, GatheredPublications(batch_of(8), (1.0,)))
    assert groups.handle(1.3, Received("m0", push)) == [GroupHeard(batch_of(8))]
    assert groups.handle(1.3, Received("m0", push)) == []
    assert groups.handle(1.3, Received("stranger", push)) == [Drop(push, NOT_IN_GROUP)]
    groups.check()


def test_whoever_leaves_stays_some_rounds_and_then_lets_go_of_its_links() -> None:
    groups = GossipGroups("a", LpbcastParams(linger_rounds=2), Random(1))
    groups.handle(1.0, GroupJoined(GROUP, "p", (Contact("m0"),)))
    groups.handle(1.0, PeerUp("m0", 1))
    assert groups.handle(2.0, GroupLeft(GROUP)) == []
    assert GROUP in groups.groups
    groups.handle(3.0, Fired(("round", GROUP)))
    effects = groups.handle(4.0, Fired(("round", GROUP)))
    (last,) = [each.message for each in effects if isinstance(each, Send) and each.message.left]
    assert last.left[0][0] == "a" and LinkUnwanted("m0", "group") in effects and not groups.groups
    # Whoever joins again meanwhile stays.
    groups.handle(5.0, GroupJoined(GROUP, "p", (Contact("m0"),)))
    groups.handle(5.0, GroupLeft(GROUP))
    groups.handle(5.1, GroupJoined(GROUP, "p", (Contact("m0"),)))
    for at in range(6, 12):
        groups.handle(float(at), Fired(("round", GROUP)))
    assert GROUP in groups.groups
    groups.check()


def test_a_link_that_is_there_already_is_not_asked_for_until_it_goes() -> None:
    groups = GossipGroups("a", LpbcastParams(), Random(1))
    groups.handle(0.0, PeerUp("m0", 1))
    effects = groups.handle(1.0, GroupJoined(GROUP, "p", (Contact("m0"),)))
    assert not any(isinstance(effect, LinkWanted) for effect in effects)
    assert groups.handle(2.0, PeerDown("m0", 1)) == [LinkWanted(Contact("m0"), "group")]
    said = groups.handle(2.0, GroupSaid(batch_of(1)))
    assert said == []
    other = Publications("p", "other", 1.0, 0, (1,), (b"\x80",), (b"",))
    assert groups.handle(2.0, GroupSaid(other)) == [Drop(other, NOT_IN_GROUP)]
