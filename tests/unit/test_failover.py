"""Gossip around failed brokers, message by message (dependable.md 3.3), and its baselines."""

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from tests.worlds.desk import Desk, of
from tidings.machine.effects import Drop, Send
from tidings.machine.inputs import Received
from tidings.machine.message import Contact
from tidings.model.bounds import CYCLE_AHEAD_MAX
from tidings.model.errors import UsageError
from tidings.nodes.broker import BrokerNode, BrokerParams
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.protocols.gossip.failover.failover import NOT_LINKED, NOT_NOTICED, TOO_FAR_AHEAD, GossipFailover
from tidings.protocols.gossip.failover.introduction import Introduce
from tidings.protocols.gossip.failover.links import USER
from tidings.protocols.gossip.failover.messages import (
    GossipAsked,
    GossipOffered,
    GossipPublications,
    LevelMember,
    LevelReport,
    LevelView,
    SiblingAnswer,
    SiblingHeartbeat,
    SiblingMember,
    SiblingView,
    ViewAnswer,
    ViewRequest,
)
from tidings.protocols.gossip.failover.neighbourhood import Nearby, NearbyBroker, Neighbourhood, PublicationsBeyond
from tidings.protocols.gossip.failover.params import FailoverParams, NeighbourhoodParams, RandomViewsParams
from tidings.protocols.gossip.failover.propagation import NO_VIEW
from tidings.protocols.gossip.failover.random_views import RandomGossip, RandomViews
from tidings.protocols.gossip.failover.retransmission import KEPT_TOO_LONG, NO_ROOM_TO_KEEP, OFFERS
from tidings.protocols.gossip.failover.similarity import filters_of, vector_of
from tidings.protocols.overlay.dhtree.dhtree import DhTreeParams
from tidings.protocols.routing.params import PopularityName, RoutingParams
from tidings.protocols.routing.router import Router
from tidings.pubsub.notes import CycleEnded
from tidings.pubsub.publications import Publications, encode_head
from tidings.pubsub.signals import (
    LinkFailed,
    LinkUnwanted,
    LinkWanted,
    NeighbourDown,
    NeighbourUp,
    PeerDown,
    PeerUp,
    Placed,
    Rescued,
    Stranded,
)


class Counts:
    """A routing that has counted so many, and has passed these."""

    def __init__(self, counts: Mapping[str, int] | None = None, passed: tuple[tuple[str, int], ...] = ()) -> None:
        self.counts, self.passed = counts or {}, passed
        self.sent: dict[str, list[Publications]] = {}

    def subscription_counts(self) -> Mapping[str, int]:
        return self.counts

    def publication_rates(self) -> Mapping[str, float]:
        return {}

    def filter_texts(self) -> tuple[str, ...]:
        return ("x = 1", "x = 2")

    def sent_lately(self, now: float, neighbour: str) -> list[Publications]:
        return self.sent.get(neighbour, [])

    def has_passed(self, advertisement: str, number: int) -> bool:
        return (advertisement, number) in self.passed

    def wanted_by(self, neighbour: str) -> tuple[str, ...]:
        return (f"{neighbour[0]} = 1",)


def batch(*numbers: int, payload: bytes = b"x", **attributes: Any) -> Publications:
    head = encode_head(attributes or {"x": 1})
    return Publications("p", "p/1@o", 0.5, 0, numbers, tuple(head for _ in numbers), tuple(payload for _ in numbers))


def level(*names: str, members: tuple[str, ...] = ()) -> LevelView:
    return LevelView(names, tuple(LevelMember(Contact(name), 1) for name in members), ())


def desk(routes: Counts | None = None, depth: int = 5, **params: Any) -> Desk[GossipFailover]:
    """b, with "up" above, "c" and "d" below; at depth 5."""
    made = Desk(GossipFailover("b", FailoverParams(**params), routes or Counts(), Random(1)))
    made.handle(Placed("up", depth))
    for peer in ("up", "c", "d"):
        made.handle(PeerUp(peer, 1, address=f"{peer}:1"))
        made.handle(NeighbourUp(peer, 1))
    return made


def hear(made: Desk[Any], sender: str, message: Any) -> list[Any]:
    return made.handle(Received(sender, message))


def report(made: Desk[GossipFailover], sender: str, *levels: LevelView, depth: int = 6, **more: Any) -> None:
    hear(made, sender, LevelReport(1, depth, levels, **more))


def linked(made: Desk[Any], *names: str) -> None:
    for name in names:
        made.handle(PeerUp(name, 1, address=f"{name}:1"))


def cycle(made: Desk[GossipFailover], *silent: str) -> list[Any]:
    """One whole cycle; who is asked answers, but for these."""
    made.advance(made.timers["cycle"])
    asked = [each.to for each in of(Send, made.effects) if isinstance(each.message, SiblingHeartbeat)]
    for node in asked:
        if node not in silent:
            hear(made, node, SiblingAnswer(made.machine.views.cycle, made.machine.horizon.group))
    return made.advance(made.timers["answers"])


def sent(effects: list[Any], kind: type) -> list[str]:
    return [each.to for each in of(Send, effects) if isinstance(each.message, kind)]


# Views.


def test_members_are_linked_asked_and_told_and_the_silent_are_suspected() -> None:
    made = desk()
    made.handle(Introduce((Contact("s", "s:1"), Contact("t", "t:1")), cycle=7))
    assert made.told(LinkWanted) == [LinkWanted(Contact("s", "s:1"), USER), LinkWanted(Contact("t", "t:1"), USER)]
    linked(made, "s", "t")
    effects = cycle(made, "t")
    assert sent(effects, SiblingView) == ["s"]
    assert made.machine.views.failures == {"t": 7} and list(made.machine.views.members) == ["s"]
    assert sent(effects, LevelReport) == ["up", "c", "d"]


def test_a_broker_answers_with_its_group_and_is_no_sibling_of_another_group() -> None:
    made = desk()
    linked(made, "s")
    assert hear(made, "s", SiblingHeartbeat(3)) == [Send("s", SiblingAnswer(3, 3))]
    made.handle(Introduce((Contact("s"),)))
    hear(made, "s", SiblingAnswer(3, 7))
    assert made.machine.views.members == {} and made.machine.views.failures == {}


@pytest.mark.spec("S-31")
def test_the_parent_view_is_the_siblings_of_the_one_above_and_the_child_view_those_of_all_below() -> None:
    made = desk(level_members=3)
    report(made, "up", level("up", members=("u1", "u2")), depth=4)
    report(made, "c", level("c", members=("k1", "k2")))
    report(made, "d", level("d", members=("k2", "k3")))
    assert [each.contact.node for each in made.machine.horizon.view_of(False)] == ["u1", "u2"]
    assert [each.contact.node for each in made.machine.horizon.view_of(True)] == ["k1", "k2", "k3"]


@pytest.mark.spec("S-21")
def test_the_root_has_no_parent_view_and_a_leaf_no_child_view() -> None:
    made = Desk(GossipFailover("b", FailoverParams(), Counts(), Random(1)))
    made.handle(Placed(None, 0))
    assert made.machine.horizon.view_of(False) == () and made.machine.horizon.view_of(True) == ()


@pytest.mark.spec("S-32")
def test_members_are_asked_for_their_views_when_the_one_above_failed() -> None:
    made = desk()
    report(made, "up", level("up", members=("u1", "u2")), depth=4)
    linked(made, "u1", "u2")
    assert sent(cycle(made), ViewRequest) == []
    made.handle(NeighbourDown("up", 1))
    made.handle(PeerDown("up", 1))
    effects = cycle(made)
    assert sent(effects, ViewRequest) == ["u1", "u2"]
    hear(made, "u1", ViewAnswer(2, (LevelMember(Contact("u3"), 5),)))
    cycle(made)
    assert {each.contact.node for each in made.machine.horizon.view_of(False)} == {"u1", "u3"}


@pytest.mark.spec("S-33")
@pytest.mark.spec("S-42")
@pytest.mark.parametrize("levels", [1, 6])
def test_a_cycle_turns_to_at_most_r_and_twice_r_prime_others(levels: int) -> None:
    """GE-6, at defaults 22: with as many siblings as there may be, and the views of both sides asked for."""
    made = desk(levels=levels)
    many = tuple(Contact(f"s{place}") for place in range(20))
    made.handle(Introduce(many))
    members = tuple(f"u{place}" for place in range(12))
    below = tuple(f"k{place}" for place in range(12))
    report(made, "up", level("up", members=members), depth=4)
    report(made, "c", level("c", members=below))
    linked(made, *(contact.node for contact in many), *members, *below)
    for gone in ("up", "c", "d"):
        made.handle(NeighbourDown(gone, 1))
    for _ in range(3):
        effects = cycle(made)
        (ended,) = of(CycleEnded, effects)
        asked = {each.to for each in of(Send, effects)}
        assert len(asked) <= ended.messages <= 22


def test_views_grow_when_many_fail_and_shrink_when_none_do() -> None:
    made = desk(adapts=True, siblings=2, siblings_max=5)
    made.handle(Introduce((Contact("s"), Contact("t"))))
    linked(made, "s", "t")
    cycle(made, "t")
    assert made.machine.views.size == 4
    for _ in range(20):
        cycle(made)
    assert made.machine.views.size == 2


def test_a_group_is_changed_only_when_the_place_lasts() -> None:
    made = desk(place_after=10.0)
    made.handle(Placed(None, 0))
    assert made.machine.horizon.group == 3 and made.machine.horizon.is_above("up"), "an orphan is no root yet"
    made.handle(Placed("up", 5))
    assert "place" not in made.timers
    made.handle(Placed(None, 0))
    made.advance(made.timers["place"])
    assert made.machine.horizon.group == 0


def test_who_is_below_is_introduced_to_who_is_beside() -> None:
    made = desk()
    told = {each.to: each.message for each in of(Send, cycle(made)) if isinstance(each.message, LevelReport)}
    assert told["c"].introduced[0] == (Contact("d", "d:1"),) and told["up"].introduced == ()
    child = Desk(GossipFailover("c", FailoverParams(), Counts(), Random(2)))
    child.handle(Placed("b", 6))
    child.handle(PeerUp("b", 1))
    child.handle(NeighbourUp("b", 1))
    hear(child, "b", told["c"])
    assert list(child.machine.views.members) == ["d"]


def test_an_overlay_that_counts_no_hops_is_counted_for() -> None:
    made = Desk(GossipFailover("c", FailoverParams(), Counts(), Random(2)))
    made.handle(PeerUp("b", 1))
    made.handle(NeighbourUp("b", 1))
    made.handle(Placed("b", None))
    hear(made, "b", LevelReport(1, 1, (level("b"),)))
    assert made.machine.horizon.depth == 2


# Around a failure.


@pytest.mark.spec("S-35")
def test_what_cannot_go_down_goes_to_the_child_view_and_what_cannot_go_up_to_the_parent_view() -> None:
    made = desk()
    report(made, "up", level("up", members=("u1", "u2")), depth=4)
    report(made, "c", level("c", members=("k1", "k2")), level("x", "y"))
    linked(made, "u1", "u2", "k1", "k2")
    told = made.handle(Stranded("c", batch(1)))
    message = GossipPublications(batch(1), "c", True, 1, (("x", "y"),))
    assert told == [Send("k1", message), Send("k2", message)]
    told = made.handle(Stranded("up", batch(2)))
    assert sent(told, GossipPublications) == ["u1", "u2"]


def test_what_cannot_go_up_goes_to_the_others_below_the_one_that_failed_too() -> None:
    made = desk()
    beside = ((Contact("o1"), Contact("b")),)
    report(made, "up", level("up", members=("u1",)), depth=4, introduced=beside)
    linked(made, "u1", "o1")
    assert sent(made.handle(Stranded("up", batch(2))), GossipPublications) == ["u1", "o1"]


def test_where_nobody_is_known_it_is_said_to_be_lost() -> None:
    made = Desk(GossipFailover("b", FailoverParams(), Counts(), Random(1)))
    assert made.handle(Stranded("c", batch(1))) == [Drop(batch(1), NO_VIEW)]


@pytest.mark.spec("S-36")
def test_gossip_goes_two_hops_and_who_gets_it_routes_it_too() -> None:
    made = desk()
    report(made, "c", level("c", members=("k1",)))
    linked(made, "k1", "s")
    told = hear(made, "s", GossipPublications(batch(1), "f", True, 1))
    assert sent(told, GossipPublications) == ["k1"] and of(Rescued, told) == [Rescued(batch(1))]
    (onward,) = of(Send, told)
    assert onward.message.left == 0
    last = hear(made, "s", GossipPublications(batch(2), "f", True, 0))
    assert sent(last, GossipPublications) == [] and of(Rescued, last) == [Rescued(batch(2))]


@pytest.mark.spec("S-37a")
@pytest.mark.parametrize(("literal", "relays"), [(False, ["k1"]), (True, [])])
def test_who_had_it_by_the_tree_tells_it_on_all_the_same_and_once(literal: bool, relays: list[str]) -> None:
    made = desk(Counts(passed=(("p/1@o", 1),)), literal_seen=literal)
    report(made, "c", level("c", members=("k1",)))
    linked(made, "k1", "s")
    message = GossipPublications(batch(1), "f", True, 1)
    assert sent(hear(made, "s", message), GossipPublications) == relays
    assert sent(hear(made, "s", message), GossipPublications) == []
    other = GossipPublications(batch(1), "another", True, 1)
    assert sent(hear(made, "s", other), GossipPublications) == relays, "another failure is another duty"


@pytest.mark.spec("S-40")
def test_two_failures_in_a_row_are_passed_by_over_the_second_level() -> None:
    """The example of 4.5: B5 and B10 below it are down; B7 sees 10 failed on its first level and uses the second."""
    made = desk()
    failed = LevelView(("k1",), (LevelMember(Contact("k2"), 1),), (("b10", 1),))
    report(made, "c", level("c", members=("s",)), failed, level(members=("g1",)))
    # Levels of one below: its own first. b10 stands on the second.
    report(made, "d", level("d"), failed, level(members=("g1",)))
    linked(made, "s", "g1", "k2")
    told = hear(made, "s", GossipPublications(batch(1), "b5", True, 1, ((), ("b10", "b11"), ("b20",))))
    assert made.machine.horizon.levels_beyond(True)[1].failures == (("b10", 1),)
    assert sent(told, GossipPublications) == ["s"], "nobody failed of whom the first level speaks"
    told = hear(made, "s", GossipPublications(batch(2), "b5", True, 1, (("b9",), ("b10",), ("b20",))))
    assert sent(told, GossipPublications) == ["s"]
    report(made, "c", LevelView(("c",), (), (("b10", 1),)), level(members=("g1",)))
    report(made, "d", level("d"))
    told = hear(made, "s", GossipPublications(batch(3), "b5", True, 1, (("b10", "b11"), ("b20",))))
    assert sent(told, GossipPublications) == ["g1"]


def test_a_link_is_asked_for_where_there_is_none_and_let_go_when_it_is_idle() -> None:
    made = desk()
    report(made, "c", level("c"), level(members=("g1",)))
    made.machine.views.failures["b10"] = 1
    linked(made, "s")
    told = hear(made, "s", GossipPublications(batch(1), "f", True, 1, (("b10",), ("b20",))))
    assert LinkWanted(Contact("g1"), USER) in told and sent(told, GossipPublications) == []
    assert sent(made.handle(PeerUp("g1", 1)), GossipPublications) == ["g1"]
    for _ in range(5):
        cycle(made)
    assert LinkUnwanted("g1", USER) in made.told(LinkUnwanted)


def test_what_waits_for_a_link_that_does_not_come_is_said_to_be_lost() -> None:
    made = desk()
    report(made, "c", level("c", members=("k1",)))
    made.handle(Stranded("c", batch(1)))
    assert [type(each.item) for each in of(Drop, made.handle(LinkFailed("k1", "refused")))] == [GossipPublications]


def test_nothing_goes_around_before_anybody_has_noticed() -> None:
    made = desk(notice_after=1.0)
    report(made, "c", level("c", members=("k1",)))
    linked(made, "k1")
    made.handle(NeighbourDown("c", 1))
    assert made.handle(Stranded("c", batch(1))) == [Drop(batch(1), NOT_NOTICED)]
    made.advance(made.now + 1.0)
    assert sent(made.handle(Stranded("c", batch(1))), GossipPublications) == ["k1"]


def test_filters_may_be_compared_instead_of_counts() -> None:
    made = desk(measure="filters")
    cycle(made)
    assert made.machine.scale.vector == vector_of(filters_of(["x = 2", "x = 1"]))
    assert made.machine.scale.rank(vector_of(filters_of(["x = 2", "x = 3"]))) == 1


def test_large_ones_are_offered_and_sent_to_who_lacks_them() -> None:
    made = desk(push_bytes_max=100)
    report(made, "c", level("c", members=("k1",)))
    linked(made, "k1")
    large = batch(1, payload=b"x" * 200)
    assert made.handle(Stranded("c", large)) == [Send("k1", GossipOffered("p/1@o", (1,), "c"))]
    other = desk(Counts(passed=(("p/1@o", 2),)))
    linked(other, "s")
    assert hear(other, "s", GossipOffered("p/1@o", (1, 2), "c")) == [Send("s", GossipAsked("p/1@o", (1,), "c"))]
    assert hear(other, "s", GossipOffered("p/1@o", (1,), "c")) == [], "asked for already"
    (given,) = of(Send, hear(made, "k1", GossipAsked("p/1@o", (1,), "c")))
    assert given.message.batch == large
    assert of(Drop, hear(made, "k1", GossipAsked("p/1@o", (9,), "c")))


def later(made: Desk[GossipFailover], cycles: int) -> list[Any]:
    """What was done in so many cycles."""
    return made.advance(made.now + cycles * made.machine.params.period)


def test_what_a_neighbour_missed_is_offered_when_it_is_back_and_given_when_it_asks() -> None:
    counts = Counts()
    made = desk(counts)
    counts.sent["c"] = [batch(1)]
    made.handle(NeighbourDown("c", 1))
    made.handle(Stranded("c", batch(2, 3)))
    made.handle(NeighbourDown("d", 1))
    made.handle(Stranded("d", batch(4)))
    made.handle(NeighbourUp("c", 2))
    made.handle(PeerUp("c", 2))
    offered = [each for each in of(Send, later(made, OFFERS + 3)) if isinstance(each.message, GossipOffered)]
    assert offered == [Send("c", GossipOffered("p/1@o", (1, 2, 3), "c"))] * OFFERS
    made.machine.check()
    assert [name[0] for name in made.machine.retransmission.kept] == ["d"], "it has what it did not ask for"
    # Asked for while it is kept, it goes to who lacks it alone, and no further.
    made.handle(NeighbourDown("c", 2))
    made.handle(Stranded("c", batch(5)))
    (given,) = of(Send, hear(made, "c", GossipAsked("p/1@o", (5,), "c")))
    assert given.message == GossipPublications(batch(5), "c", True, 0)
    assert of(Drop, hear(made, "c", GossipAsked("p/1@o", (4,), "c"))), "that is kept for another one"


def test_what_is_kept_for_the_lost_is_bounded_in_time_and_in_bytes_and_said_to_be_given_up() -> None:
    made = desk(kept_for=10.0, kept_bytes_max=250)
    made.handle(NeighbourDown("c", 1))
    effects = made.handle(Stranded("c", batch(*range(1, 5), payload=b"x" * 90)))
    assert [drop.reason for drop in of(Drop, effects)][:2] == [NO_ROOM_TO_KEEP] * 2
    given_up = [drop for drop in of(Drop, later(made, 8)) if drop.reason == KEPT_TOO_LONG]
    assert [drop.item.numbers for drop in given_up] == [(3,), (4,)] and not made.machine.retransmission.kept
    none = desk(kept_for=0.0)
    none.handle(NeighbourDown("c", 1))
    none.handle(Stranded("c", batch(1)))
    assert not none.machine.retransmission.kept


def test_what_was_kept_for_us_is_asked_for_again_and_not_what_passed() -> None:
    made = desk(Counts(passed=(("p/1@o", 2),)))
    linked(made, "c")
    for _ in range(2):
        asked = hear(made, "c", GossipOffered("p/1@o", (1, 2), made.machine.node_id))
        assert asked == [Send("c", GossipAsked("p/1@o", (1,), made.machine.node_id))]


def test_strangers_and_claims_that_cannot_be_are_dropped() -> None:
    made = desk()
    assert of(Drop, hear(made, "nobody", SiblingHeartbeat(1)))[0].reason == NOT_LINKED
    linked(made, "s")
    made.handle(Introduce((), cycle=5))
    effects = hear(made, "s", SiblingHeartbeat(6 + CYCLE_AHEAD_MAX))
    assert of(Drop, effects)[0].reason == TOO_FAR_AHEAD
    assert of(Drop, hear(made, "s", LevelReport(5, 3, (level("s"),))))
    assert of(Drop, hear(made, "s", ViewAnswer(3, ())))


# Baselines.


@pytest.mark.spec("S-36")
def test_random_views_tell_everybody_they_know_for_three_hops() -> None:
    made = Desk(RandomViews("b", RandomViewsParams(members=2), Random(1)))
    made.handle(Introduce((Contact("s"), Contact("t"))))
    linked(made, "s", "t")
    told = made.handle(Stranded("c", batch(1)))
    assert sorted(sent(told, RandomGossip)) == ["s", "t"] and of(Send, told)[0].message.left == 2
    told = hear(made, "s", RandomGossip(batch(2), "c", 1))
    assert of(Rescued, told) and of(Send, told)[0].message.left == 0
    assert sent(hear(made, "s", RandomGossip(batch(2), "c", 1)), RandomGossip) == []
    assert sent(hear(made, "s", RandomGossip(batch(3), "c", 0)), RandomGossip) == []


def neighbourhoods(delta: int) -> dict[int, Neighbourhood]:
    """The 13 brokers of X-4, after as many cycles as news needs."""
    above = {2: 1, 3: 1, 4: 2, 5: 2, 6: 3, 7: 3, 8: 4, 9: 4, 10: 5, 11: 5, 12: 7, 13: 7}
    near: dict[int, list[int]] = {place: [] for place in range(1, 14)}
    for one, other in above.items():
        near[one].append(other)
        near[other].append(one)
    made = {place: Neighbourhood(f"b{place}", NeighbourhoodParams(delta=delta), Counts()) for place in near}
    for place, part in made.items():
        part.start(0.0)
        for other in range(1, 14):
            if other != place:
                part.handle(0.0, PeerUp(f"b{other}", 1))
        for other in near[place]:
            part.handle(0.0, NeighbourUp(f"b{other}", 1))
    for _ in range(delta + 2):
        news = [(place, each) for place, part in made.items() for each in of(Send, part.tend())]
        for place, each in news:
            made[int(each.to[1:])].handle(0.0, Received(f"b{place}", each.message))
    for part in made.values():
        part.check()
    return made


@pytest.mark.spec("S-43")
def test_a_neighbourhood_of_delta_one_reaches_two_hops() -> None:
    """X-6, but for broker 6 and 7: from 2 these are three hops away, and 3 is two."""
    broker = neighbourhoods(1)[2]
    known = {int(name[1:]) for branch in broker.branches.values() for name in branch.brokers} | {1, 4, 5}
    assert known == {4, 5, 8, 9, 10, 11, 1, 3}


@pytest.mark.spec("S-43")
def test_a_neighbourhood_sends_past_delta_failures_and_drops_behind_more() -> None:
    broker = neighbourhoods(1)[2]
    broker.handle(0.0, NeighbourDown("b5", 1))
    broker.handle(0.0, PeerDown("b5", 1))
    wanted = batch(1, b=1)
    told = of(Send, broker.handle(0.0, Stranded("b5", wanted)))
    assert [each.to for each in told] == ["b10", "b11"]
    assert all(each.message == PublicationsBeyond(wanted, "b5") for each in told)
    for gone in ("b10", "b11"):
        broker.handle(0.0, PeerDown(gone, 1))
    effects = broker.handle(0.0, Stranded("b5", wanted))
    assert of(Send, effects) == [] and len(of(Drop, effects)) == 2
    assert broker.handle(0.0, Received("b4", PublicationsBeyond(wanted, "b5"))) == [Rescued(wanted, "b5")]


def test_a_neighbourhood_sends_to_nobody_who_does_not_want_it() -> None:
    broker = neighbourhoods(1)[2]
    broker.handle(0.0, PeerDown("b5", 1))
    assert broker.handle(0.0, Stranded("b5", batch(1, z=1))) == []


def test_a_neighbour_tells_of_nobody_but_itself_through_others() -> None:
    made = Desk(Neighbourhood("b", NeighbourhoodParams(), Counts()))
    stranger = Nearby((NearbyBroker(Contact("x"), "y", 2, ()),))
    assert of(Drop, hear(made, "y", stranger)) and made.machine.branches == {}


# Composition.


@pytest.mark.spec("S-122")
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"repair": "strawman"}, "repair 'strawman' forgets"),
        ({"repair": "shift"}, "waits for those that go by the tree only"),
        ({"strategy": "subscription"}, "choose strategy 'advertisement'"),
        ({"strategy": "flooding", "advertises": False}, "choose strategy 'advertisement'"),
    ],
)
def test_what_does_not_fit_is_refused_by_the_name_of_the_rule(wrong: Mapping[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match="S-122") as problem:
        RoutingParams(failover="gossip", **wrong)
    assert says in str(problem.value)
    with pytest.raises(UsageError, match="S-122"):
        Dispatcher("b", DispatcherParams(failover=FailoverParams(), routing=RoutingParams(**wrong)), Random(1))


@pytest.mark.spec("S-122")
@pytest.mark.parametrize("way", ["direct", "gossip", "asked"])
def test_events_that_leave_the_tree_do_not_go_with_links_that_give_way_to_others(way: PopularityName) -> None:
    with pytest.raises(UsageError, match=r"rule S-122.*choose popularity 'off' or 'batching'"):
        RoutingParams(repair="shift", popularity=way)
    assert RoutingParams(repair="shift", popularity="batching").repair == "shift"


@pytest.mark.spec("S-122")
def test_an_overlay_without_a_root_is_refused_by_the_name_of_the_rule() -> None:
    params = BrokerParams(overlay=DhTreeParams(), routing=RoutingParams(failover="gossip"))
    with pytest.raises(UsageError, match=r"S-122.*spanning-tree or lstree"):
        BrokerNode("b", params, Random(1))


@pytest.mark.spec("S-122")
def test_failover_alone_chooses_what_it_needs() -> None:
    dispatcher = Dispatcher("b", DispatcherParams(routing=RoutingParams(failover="gossip")), Random(1))
    broker = BrokerNode("b", BrokerParams(routing=RoutingParams(failover="gossip", rescue_window=7)), Random(1))
    assert isinstance(dispatcher.routing, Router) and isinstance(broker.routing, Router)
    chosen, kept = dispatcher.routing.params, broker.routing.params
    assert chosen.rescue_window and chosen.census and not chosen.is_apart, "nothing is promised by a dispatcher"
    assert kept.rescue_window == 7 and kept.census and kept.is_apart
    assert isinstance(dispatcher.failover, GossipFailover) and isinstance(broker.failover, GossipFailover)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"period": 0.0}, {"answer_within": 3.0}, {"siblings": 0}, {"siblings": 30}, {"levels": 99}, {"hops": 0}),
        *({"notice_after": -1.0}, {"waiting_max": 0}, {"push_bytes_max": -1}),
    ],
)
def test_parameters_that_make_no_sense_are_refused(wrong: Mapping[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        FailoverParams(**wrong)


# Lies.


def test_who_claims_to_be_like_everybody_has_one_place_in_each_view() -> None:
    """A forged vector: the liar stands first, once, and gets as much of what goes around as others in the view."""
    made = desk(Counts({"p/1@o": 4, "q/1@o": 2}), siblings=3, siblings_max=3)
    linked(made, "liar", "s1", "s2", "s3")
    cycle(made)
    huge = (("p/1@o", 2**62), ("q/1@o", 2**62))
    others = tuple(
        SiblingMember(Contact(name), 1, (("p/1@o", place),)) for place, name in enumerate(("s1", "s2", "s3"), start=1)
    )
    for _ in range(3):
        hear(made, "liar", SiblingView(1, made.machine.horizon.group, huge, others, (), ()))
    assert list(made.machine.views.members) == ["liar", "s3", "s2"]
    top = made.machine.own_level().members[0]
    assert top.contact.node == "liar" and top.score == 6, "no more than all that we have"
    report(made, "c", level("c", members=("liar", "k1", "k2")))
    linked(made, "k1", "k2")
    told = sent(made.handle(Stranded("c", batch(1))), GossipPublications)
    assert sorted(told) == ["k1", "k2", "liar"]


def test_whatever_fits_the_types_of_messages_raises_nothing() -> None:
    """A peer that says anything, in any order, leaves every invariant whole."""
    rng = Random(5)
    made = desk()
    names = ("b", "c", "d", "up", "s", "t")
    linked(made, "s", "t")

    def contact() -> Contact:
        return Contact(rng.choice(names), rng.choice(("", "h:1")))

    def records() -> tuple[tuple[str, int], ...]:
        return tuple((rng.choice(names), rng.choice((0, 3, 2**62))) for _ in range(rng.randint(0, 4)))

    def any_level() -> LevelView:
        members = tuple(LevelMember(contact(), rng.choice((0, 2**62))) for _ in range(rng.randint(0, 5)))
        return LevelView(tuple(rng.choices(names, k=2)), members, records())

    def message() -> Any:
        number, group = rng.choice((0, 1, 9, 2**62)), rng.choice((0, 3, 4, 2**31))
        members = tuple(SiblingMember(contact(), number, records()) for _ in range(rng.randint(0, 5)))
        said = LevelMember(contact(), number)
        return rng.choice(
            (
                SiblingHeartbeat(number),
                SiblingAnswer(number, group),
                SiblingView(number, group, records(), members, records(), records()),
                LevelReport(number, group, (any_level(), any_level()), ((contact(),), (contact(), contact()))),
                ViewRequest(number),
                ViewAnswer(group, (said,)),
                GossipPublications(batch(1, 2), rng.choice(names), rng.random() < 0.5, rng.randint(0, 8), (names,)),
                GossipPublications(batch(2, 1), rng.choice(names), True, 1),
                GossipOffered("p/1@o", (1, 1), rng.choice(names)),
                GossipAsked("p/1@o", (7,), rng.choice(names)),
            )
        )

    for _ in range(600):
        hear(made, rng.choice(names), message())
        if rng.random() < 0.1:
            made.fire_next()
    assert made.machine.views.cycle <= 2**62 + 600
