"""The trees of feeds, message by message: joining, updates, leaving.

The node under test is "n"; places are on a line, and the publisher "pub" is at 0.
"""

from typing import Any

import pytest

from tidings.machine.effects import CancelTimer, Deliver, Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received
from tidings.machine.message import Message
from tidings.machine.streams import random_stream
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.protocols.feeds import updates
from tidings.protocols.feeds.forest import Forest
from tidings.protocols.feeds.messages import (
    AdoptChild,
    ChangeParent,
    FeedUpdate,
    ItemSubmitted,
    JoinAccepted,
    JoinDenied,
    JoinForwarded,
    ParentLeft,
    ParentLet,
    RejoinAt,
    TreeJoin,
    UpdatesAsked,
    UpdatesPulled,
    UpdateText,
    VoidUpdate,
)
from tidings.protocols.feeds.own import OwnStanding
from tidings.protocols.feeds.params import TreeParams
from tidings.pubsub.feeds import (
    AllLeft,
    Ancestry,
    FeedItem,
    FeedsChanged,
    ItemsMissed,
    JoinEnded,
    JoinWanted,
    LeaveAll,
    OfferFeed,
    PeerSilent,
    PeerWatched,
    PublishItem,
    PulseAnswered,
    PulseHeard,
    RootPlace,
    SubscribeFeed,
    UnsubscribeFeed,
    Versions,
)

F = "http://f"
V = Versions()
ROOT = RootPlace("pub", 0, (0.0,))


class Signatures:
    """A signature is the key and the data, as far as this test is concerned."""

    def verify(self, public_key: bytes, signature: bytes, data: bytes) -> bool:
        return signature == public_key[:4] + data[:8]


class Grown:
    """A node at `place` that reads F below `chain`; the publisher itself where `place` is 0."""

    def __init__(
        self, place: float = 0.5, chain: tuple[NodeId, ...] = ("p", "pub"), key: bytes = b"", **params: Any
    ) -> None:
        self.friends: list[NodeId] = []
        self.name = "n" if place else "pub"
        own = OwnStanding(self.name)
        own.place = (place,)
        self.forest = Forest(own, lambda feed: self.friends, TreeParams(**params), random_stream(5), Signatures())
        self.forest.start(0.0)
        self.now = 1.0
        if not place:
            self.do(OfferFeed(F, ("second",), key))
        elif chain:
            self.do(SubscribeFeed(F, "pub", key))
            self.do(JoinWanted(F))
            self.attach(*chain)

    def attach(self, *chain: NodeId) -> list[Effect]:
        tree = self.forest.trees[F]
        assert tree.attempt is not None
        if tree.attempt.target != chain[0]:
            self.hear(tree.attempt.target, JoinForwarded(V, F, chain[0]))
        effects = self.hear(chain[0], JoinAccepted(V, F, ROOT, chain[1:]))
        tree.log.settle()
        return effects

    def do(self, input: Input, now: float | None = None) -> list[Effect]:
        self.now = now or self.now
        effects = self.forest.handle(self.now, input)
        self.forest.check()
        return effects

    def hear(self, sender: NodeId, message: Message) -> list[Effect]:
        return self.do(Received(sender, message))

    def join(self, node: NodeId, place: float, purpose: Any = "first") -> Message:
        """What it is told."""
        effects = self.hear(node, TreeJoin(V, F, (place,), 0, 0, 0, purpose))
        (answer,) = [it.message for it in effects if isinstance(it, Send) and it.to == node]
        return answer

    @property
    def tree(self) -> Any:
        return self.forest.trees[F]


def update(number: int, payload: bytes = b"x", signature: bytes = b"") -> FeedUpdate:
    return FeedUpdate(V, F, UpdateText(number, 9.0, payload, signature))


def sent(effects: list[Effect], kind: type[Message]) -> list[NodeId]:
    return [it.to for it in effects if isinstance(it, Send) and isinstance(it.message, kind)]


def message(effects: list[Effect], kind: Any) -> Any:
    (found,) = [it.message for it in effects if isinstance(it, Send) and isinstance(it.message, kind)]
    return found


def is_rejoin(effect: Effect) -> bool:
    return isinstance(effect, SetTimer) and isinstance(effect.key, tuple) and effect.key[0] == "rejoin"


def delivered(effects: list[Effect]) -> list[int]:
    return [it.item.number for it in effects if isinstance(it, Deliver) and isinstance(it.item, FeedItem)]


# Being asked.


@pytest.mark.spec("P-52")
def test_who_does_not_read_the_feed_denies() -> None:
    assert Grown(chain=()).join("j", 0.6) == JoinDenied(V, F)


@pytest.mark.spec("P-53")
def test_who_is_nearer_to_the_publisher_is_sent_to_the_parent() -> None:
    assert Grown().join("j", 0.4) == JoinForwarded(V, F, "p")


@pytest.mark.spec("P-54")
def test_with_room_whoever_is_farther_is_taken() -> None:
    grown = Grown()
    assert grown.join("j", 0.6) == JoinAccepted(V, F, ROOT, ("p", "pub"))
    assert list(grown.tree.children) == ["j"]


@pytest.mark.spec("P-55")
def test_where_all_children_are_nearer_the_one_nearest_to_whoever_asks_is_next() -> None:
    grown = Grown()
    for number in range(5):
        grown.join(f"c{number}", 0.6 + number / 100)
    assert grown.join("j", 0.9) == JoinForwarded(V, F, "c4")
    assert len(grown.tree.children) == 5


@pytest.mark.spec("P-56")
def test_else_the_farthest_child_gives_way_and_is_sent_to_the_one_nearest_to_it() -> None:
    grown = Grown()
    for number in range(5):
        grown.join(f"c{number}", 0.6 + number / 10)
    effects = grown.hear("j", TreeJoin(V, F, (0.95,), 0, 0, 0, "first"))
    assert sent(effects, JoinAccepted) == ["j"]
    assert message(effects, ChangeParent) == ChangeParent(V, F, "j"), "0.95 is nearest to 1.0, the newcomer among them"
    assert sorted(grown.tree.children) == ["c0", "c1", "c2", "c3", "j"]
    nearer = grown.hear("k", TreeJoin(V, F, (0.55,), 0, 0, 0, "first"))
    assert message(nearer, ChangeParent).node == "c3", "0.9 is nearest to 0.95"


@pytest.mark.spec("P-57")
def test_who_gave_way_joins_there_and_leaves_out_its_next_rejoin() -> None:
    grown = Grown(chain=("p", "q", "pub"))
    effects = grown.hear("p", ChangeParent(V, F, "c"))
    assert sent(effects, TreeJoin) == ["c"] and grown.tree.parent == ""
    grown.attach("c", "p", "q", "pub")
    assert sent(grown.do(Fired(("rejoin", F))), TreeJoin) == []
    assert sent(grown.do(Fired(("rejoin", F))), TreeJoin) != []


def test_ties_are_broken_by_name() -> None:
    grown = Grown()
    assert grown.join("a", 0.5) == JoinForwarded(V, F, "p") and isinstance(grown.join("z", 0.5), JoinAccepted)


def test_who_has_no_place_itself_gives_none_away() -> None:
    grown = Grown()
    grown.do(PeerSilent("p"))
    assert grown.join("j", 0.6) == JoinForwarded(V, F, "pub")


# Asking.


@pytest.mark.spec("P-78")
def test_the_nearest_friend_that_reads_it_is_asked_first_and_the_publisher_only_without_one() -> None:
    grown = Grown(chain=())
    grown.do(SubscribeFeed(F, "pub"))
    grown.friends = ["near", "far"]
    assert sent(grown.do(JoinWanted(F)), TreeJoin) == ["near"]
    without = Grown(chain=())
    without.do(SubscribeFeed(F, "pub"))
    assert sent(without.do(JoinWanted(F)), TreeJoin) == ["pub"]


@pytest.mark.spec("P-79")
def test_a_friend_that_only_seems_to_read_it_denies_and_the_next_is_asked() -> None:
    grown = Grown(chain=())
    grown.do(SubscribeFeed(F, "pub"))
    grown.friends = ["near", "far"]
    grown.do(JoinWanted(F))
    assert sent(grown.hear("near", JoinDenied(V, F)), TreeJoin) == ["far"]
    assert sent(grown.hear("far", JoinDenied(V, F)), TreeJoin) == ["pub"]


def test_nobody_answers_so_the_next_is_asked_and_at_last_it_is_tried_again_later() -> None:
    grown = Grown(chain=())
    grown.do(SubscribeFeed(F, "pub"))
    grown.friends = ["near"]
    grown.do(JoinWanted(F))
    assert sent(grown.do(Fired(("join", F))), TreeJoin) == ["pub"]
    effects = grown.do(Fired(("join", F)))
    assert JoinEnded(F, False) in effects
    (retry,) = [it for it in effects if isinstance(it, SetTimer)]
    assert retry.key == ("retry", F) and 1.0 < retry.at <= 6.0
    grown.friends = []
    assert sent(grown.do(Fired(("retry", F)), retry.at), TreeJoin) == ["pub"]


@pytest.mark.spec("P-60")
def test_a_node_knows_the_place_of_the_publisher_and_its_ancestors_and_every_answer_of_the_parent_renews_them() -> None:
    grown = Grown()
    assert (grown.tree.chain, grown.tree.root_place) == (("p", "pub"), (0.0,))
    grown.do(PulseAnswered("p", (), (F,), (Ancestry(F, ROOT, ("q", "r", "pub"), 0),), False))
    assert grown.tree.chain == ("p", "q", "r", "pub")


@pytest.mark.spec("P-61")
def test_a_parent_that_fails_is_replaced_and_a_child_that_fails_is_deleted() -> None:
    grown = Grown(chain=("p", "q", "pub"))
    grown.join("c", 0.9)
    assert grown.do(Fired(("child", F, "c")), 50.0) == [] and not grown.tree.children
    effects = grown.do(PeerSilent("p"))
    assert sent(effects, TreeJoin) == ["q"], "the nearest ancestor that is left"
    assert message(effects, TreeJoin).purpose == "repair"


def test_a_child_that_pings_stays() -> None:
    grown = Grown()
    grown.join("c", 0.9)
    assert grown.do(PulseHeard("c", (), (F,), False), 30.0) == [SetTimer(("child", F, "c"), 75.0)]


def test_a_parent_that_does_not_know_us_is_asked_again() -> None:
    grown = Grown()
    assert sent(grown.do(PulseAnswered("p", (), (F,), (), False)), TreeJoin) == ["p"]


@pytest.mark.spec("P-59")
def test_whoever_would_be_above_itself_is_refused() -> None:
    grown = Grown()
    assert any(isinstance(it, Drop) for it in grown.hear("pub", TreeJoin(V, F, (0.9,), 0, 0, 0, "first")))
    grown.do(PeerSilent("p"))
    grown.hear("pub", JoinForwarded(V, F, "x"))
    effects = grown.hear("x", JoinAccepted(V, F, ROOT, ("y", "n", "pub")))
    assert sent(effects, ParentLeft) == ["x"] and grown.tree.parent == ""
    grown = Grown()
    effects = grown.do(PulseAnswered("p", (), (F,), (Ancestry(F, ROOT, ("n", "pub"), 0),), False))
    assert sent(effects, TreeJoin) == ["pub"]


# Rejoining.


@pytest.mark.spec("P-66")
def test_every_ten_minutes_an_ancestor_that_is_not_the_parent_is_asked() -> None:
    grown = Grown(chain=("p", "q", "pub"))
    effects = grown.do(Fired(("rejoin", F)), 700.0)
    assert SetTimer(("rejoin", F), 1300.0) in effects
    assert sent(effects, TreeJoin) in (["q"], ["pub"]) and message(effects, TreeJoin).purpose == "rejoin"


@pytest.mark.spec("P-67")
def test_higher_ancestors_are_drawn_as_rarely_as_the_law_says() -> None:
    joins = Grown().forest.joins
    drawn = [joins.draw_ancestor(4) for _ in range(20_000)]
    expected = {2: 0.8065, 3: 0.1613, 4: 0.0323}
    square = sum((drawn.count(it) - 20_000 * share) ** 2 / (20_000 * share) for it, share in expected.items())
    assert square < 13.8, "chi-square with two degrees of freedom, p = 0.001"
    assert {joins.draw_ancestor(2) for _ in range(100)} == {2}


@pytest.mark.spec("P-68")
@pytest.mark.parametrize("chain", [("pub",), ()])
def test_the_root_and_its_children_never_rejoin(chain: tuple[NodeId, ...]) -> None:
    grown = Grown(chain=chain) if chain else Grown(place=0.0)
    assert sent(grown.do(Fired(("rejoin", F))), TreeJoin) == []


@pytest.mark.spec("P-69")
def test_rejoins_begin_when_all_trees_are_joined() -> None:
    grown = Grown(chain=())
    for feed in (F, "http://g"):
        grown.do(SubscribeFeed(feed, "pub"))
        grown.do(JoinWanted(feed))
    first = grown.hear("pub", JoinAccepted(V, F, ROOT, ()))
    second = grown.hear("pub", JoinAccepted(V, "http://g", ROOT, ()))
    timers = [[it.key for it in each if isinstance(it, SetTimer) and is_rejoin(it)] for each in (first, second)]
    assert timers == [[], [("rejoin", F), ("rejoin", "http://g")]]
    assert all(1.0 <= it.at <= 601.0 for it in second if isinstance(it, SetTimer) and is_rejoin(it))


@pytest.mark.spec("P-70")
def test_a_parent_is_left_only_when_there_is_another() -> None:
    grown = Grown(chain=("p", "q", "pub"))
    effects = grown.do(Fired(("rejoin", F)), 700.0)
    (target,) = sent(effects, TreeJoin)
    assert grown.tree.parent == "p" and delivered(grown.hear("p", update(5))) == [5]
    effects = grown.hear(target, JoinAccepted(V, F, ROOT, ()))
    assert sent(effects, ParentLeft) == ["p"] and grown.tree.parent == target
    assert delivered(grown.hear("p", update(6))) == [6], "what was under way counts"
    grown.hear("p", ParentLet(V, F))
    assert delivered(grown.hear("p", update(7))) == []


# Updates.


@pytest.mark.spec("P-62")
def test_updates_go_to_all_children_and_duplicates_nowhere() -> None:
    grown = Grown()
    for node in ("c", "d"):
        grown.join(node, 0.9)
    effects = grown.hear("p", update(1))
    assert sent(effects, FeedUpdate) == ["c", "d"] and delivered(effects) == [1]
    again = grown.hear("p", update(1))
    assert sent(again, FeedUpdate) == [] and delivered(again) == [] and Drop(1, updates.KNOWN) in again


@pytest.mark.spec("P-63")
def test_after_each_join_what_is_missing_is_pulled_and_pushed_on() -> None:
    grown = Grown()
    grown.join("c", 0.9)
    for number in (1, 2, 4):
        grown.hear("p", update(number))
    grown.do(PeerSilent("p"))
    effects = grown.attach("r", "pub")
    assert message(effects, UpdatesAsked) == UpdatesAsked(V, F, 4, (3,)) and PeerWatched("r") in effects
    pulled = grown.hear("r", UpdatesPulled(V, F, (update(3).update, update(5).update), 5))
    assert delivered(pulled) == [3, 5] and sent(pulled, FeedUpdate) == ["c", "c"]


def test_what_is_pushed_may_overtake_what_was_asked_for_at_first_and_nothing_is_lost() -> None:
    grown = Grown(chain=())
    grown.do(SubscribeFeed(F, "pub"))
    grown.do(JoinWanted(F))
    grown.hear("pub", JoinAccepted(V, F, ROOT, ()))
    grown.join("c", 0.9)
    assert delivered(grown.hear("pub", update(8))) == [8]
    asked = message(grown.hear("c", UpdatesAsked(V, F, 0, ())), UpdatesPulled)
    assert [it.number for it in asked.updates] == [8] and asked.latest == 0, "older ones are to come"
    pulled = grown.hear("pub", UpdatesPulled(V, F, tuple(update(it).update for it in (5, 6, 7)), 8))
    assert delivered(pulled) == [5, 6, 7] and sent(pulled, FeedUpdate) == ["c"] * 3
    assert grown.tree.log.missing() == () and grown.tree.log.floor == 8
    grown.hear("pub", update(10))
    assert grown.tree.log.missing() == (9,)


@pytest.mark.spec("P-64")
def test_the_last_ten_updates_are_kept() -> None:
    grown = Grown()
    for number in range(1, 16):
        grown.hear("p", update(number))
    answer = message(grown.hear("c", UpdatesAsked(V, F, 0, ())), UpdatesPulled)
    assert [it.number for it in answer.updates] == list(range(6, 16))


@pytest.mark.spec("P-65")
def test_who_gave_a_feed_up_is_sent_nothing_of_it_any_more() -> None:
    """It reads until those who may still send have let go, so what is under way is no noise."""
    grown = Grown()
    effects = grown.do(UnsubscribeFeed(F))
    assert sent(effects, ParentLeft) == ["p"] and FeedsChanged(()) in effects
    assert delivered(grown.hear("p", update(1))) == [1]
    grown.hear("p", ParentLet(V, F))
    assert F not in grown.forest.trees
    with pytest.raises(AssertionError):
        grown.hear("p", update(2))
    assert grown.forest.updates.noise == 1, "which is what the simulator looks for"


def test_an_update_from_somebody_who_is_no_parent_is_dropped_and_he_is_told() -> None:
    effects = Grown().hear("stranger", update(1))
    assert delivered(effects) == [] and sent(effects, ParentLeft) == ["stranger"]


@pytest.mark.spec("P-75")
def test_a_secondary_publisher_publishes_through_the_master() -> None:
    second = Grown()
    effects = second.do(PublishItem(F, b"news", 3.0))
    submitted = message(effects, ItemSubmitted)
    assert sent(effects, ItemSubmitted) == ["pub"]
    master = Grown(place=0.0)
    master.join("c", 0.3)
    published = master.hear("second", submitted)
    assert delivered(published) == [1] and sent(published, FeedUpdate) == ["c"]
    assert delivered(master.hear("third", submitted)) == [], "only those who are named"


@pytest.mark.spec("P-76")
def test_a_void_update_shows_what_is_missing_at_the_end_and_one_ancestor_after_the_other_is_asked() -> None:
    grown = Grown(chain=("p", "q", "pub"))
    grown.join("c", 0.9)
    grown.hear("p", update(1))
    effects = grown.hear("p", VoidUpdate(V, F, 3))
    assert sent(effects, VoidUpdate) == ["c"] and SetTimer(("gap", F), 2.0) in effects
    asked = [sent(grown.do(Fired(("gap", F))), UpdatesAsked) for _ in range(3)]
    assert asked == [["p"], ["q"], ["pub"]]
    assert delivered(grown.hear("pub", UpdatesPulled(V, F, (update(2).update,), 3))) == [2]
    assert grown.do(Fired(("gap", F))) == [Deliver(ItemsMissed(F, 3, 3))], "and what nobody has is told"


def test_a_publisher_says_now_and_then_which_number_is_the_latest() -> None:
    grown = Grown(place=0.0)
    grown.join("c", 0.3)
    grown.do(PublishItem(F, b"x", 1.0))
    effects = grown.do(Fired(("void", F)), 60.0)
    assert message(effects, VoidUpdate).latest == 1 and SetTimer(("void", F), 120.0) in effects


def signed(number: int, payload: bytes = b"x") -> FeedUpdate:
    data = updates.signed_bytes(F, number, 9.0, payload)
    return update(number, payload, b"kkkk" + data[:8])


@pytest.mark.spec("P-77")
def test_with_a_key_what_is_not_signed_is_neither_delivered_nor_sent_on() -> None:
    grown = Grown(key=b"k" * 32)
    grown.join("c", 0.9)
    for wrong in (update(1), update(1, signature=b"kkkkwrong")):
        effects = grown.hear("p", wrong)
        assert delivered(effects) == [] and sent(effects, FeedUpdate) == [] and Drop(1, updates.UNSIGNED) in effects
    effects = grown.hear("p", signed(1))
    assert delivered(effects) == [1] and sent(effects, FeedUpdate) == ["c"]
    with pytest.raises(UsageError, match="signature"):
        Grown(place=0.0, key=b"k" * 32).do(PublishItem(F, b"x", 1.0))


# Leaving.


@pytest.mark.spec("P-71")
def test_who_leaves_gives_its_parent_the_child_nearest_to_the_publisher_even_beyond_the_bound() -> None:
    grown = Grown()
    grown.join("c", 0.7)
    grown.join("d", 0.6)
    effects = grown.do(UnsubscribeFeed(F))
    assert message(effects, AdoptChild) == AdoptChild(V, F, "d", (0.6,)) and sent(effects, AdoptChild) == ["p"]
    parent = Grown()
    for number in range(5):
        parent.join(f"c{number}", 0.6)
    effects = parent.hear("c0", AdoptChild(V, F, "heir", (0.8,)))
    assert sent(effects, JoinAccepted) == ["heir"] and len(parent.tree.children) == 6
    child = Grown(chain=("p", "q", "pub"))
    effects = child.hear("q", JoinAccepted(V, F, ROOT, ("pub",)))
    assert child.tree.chain == ("q", "pub") and sent(effects, ParentLeft) == ["p"], "unasked, by an ancestor"


@pytest.mark.spec("P-72")
def test_the_other_children_rejoin_there_and_are_served_until_they_have_gone() -> None:
    grown = Grown()
    for node, place in (("c", 0.7), ("d", 0.6), ("e", 0.8)):
        grown.join(node, place)
    effects = grown.do(UnsubscribeFeed(F), 100.0)
    assert sent(effects, RejoinAt) == ["c", "e"]
    assert all(it.message.node == "d" for it in effects if isinstance(it, Send) and isinstance(it.message, RejoinAt))
    assert SetTimer(("left", F), 130.0) in effects
    assert sent(grown.hear("p", update(1)), FeedUpdate) == ["c", "d", "e"]
    for node in ("c", "d"):
        assert sent(grown.hear(node, ParentLeft(V, F)), ParentLeft) == []
    assert sent(grown.hear("e", ParentLeft(V, F)), ParentLeft) == ["p"], "when the last has gone"
    assert CancelTimer(("left", F)) in grown.hear("p", ParentLet(V, F)) and F not in grown.forest.trees


def test_after_thirty_seconds_the_rest_has_to_find_out_for_itself() -> None:
    grown = Grown()
    grown.join("c", 0.7)
    grown.do(UnsubscribeFeed(F), 100.0)
    assert sent(grown.do(Fired(("left", F)), 130.0), ParentLeft) == ["p"]
    grown.do(Fired(("left", F)), 135.0)
    assert F not in grown.forest.trees


def test_a_child_whose_parent_leaves_rejoins_where_it_is_told_and_keeps_the_parent_meanwhile() -> None:
    grown = Grown(chain=("p", "q", "pub"))
    effects = grown.hear("p", RejoinAt(V, F, "heir"))
    assert sent(effects, TreeJoin) == ["heir"] and grown.tree.parent == "p"


def test_leaving_everything_is_over_when_all_have_let_go() -> None:
    grown = Grown()
    grown.do(LeaveAll())
    assert Deliver(AllLeft()) in grown.hear("p", ParentLet(V, F))


def test_who_subscribes_again_while_it_leaves_stays() -> None:
    grown = Grown()
    grown.join("c", 0.7)
    grown.do(UnsubscribeFeed(F))
    assert FeedsChanged((F,)) in grown.do(SubscribeFeed(F, "pub"))
    assert not grown.tree.is_leaving and grown.tree.parent == "p"


def test_calls_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError, match="not read here"):
        Grown(chain=()).do(UnsubscribeFeed(F))
    with pytest.raises(UsageError, match="not read here"):
        Grown(chain=()).do(PublishItem(F, b"x", 1.0))
    with pytest.raises(UsageError, match="already"):
        Grown().do(OfferFeed(F))
    with pytest.raises(UsageError):
        TreeParams(children_max=0)
    with pytest.raises(UsageError, match="raise feeds_max"):
        Grown(chain=(), feeds_max=1).do(SubscribeFeed(F)) and Grown(feeds_max=1).do(SubscribeFeed("http://g"))


@pytest.mark.spec("P-74")
def test_in_a_full_tree_requests_to_rejoin_are_as_many_at_each_height_as_the_sum_says() -> None:
    """A full tree of height 4 with five children each, 781 nodes; 200 periods of draws as nodes make them."""
    beta, height, periods = 5, 4, 200
    joins, asked = Grown().forest.joins, [0] * (height + 1)
    for level in range(2, height + 1):
        for _ in range(periods * beta**level // 10):
            asked[level - joins.draw_ancestor(level)] += 1
    for level in range(height - 1):
        weights = [sum(beta**-steps for steps in range(2, lower + 1)) for lower in range(level + 2, height + 1)]
        expected = sum(1 / weight for weight in weights)
        measured = asked[level] * 10 / periods / beta**level
        assert measured == pytest.approx(expected, rel=0.1), f"height {level}"
