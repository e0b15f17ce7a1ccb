"""A WiTree, message by message, and a few brokers on a radio that stand where they are put."""

from random import Random
from typing import Any

import pytest

from tests.worlds.desk import Desk, drops, of, sent
from tests.worlds.radios import RadioWorld
from tidings.machine.effects import BROADCAST, Effect, Send, Transport
from tidings.machine.inputs import Fired, Received
from tidings.model.bounds import RADIO_DISTANCE_MAX, RADIO_PATH_MAX
from tidings.model.errors import UsageError
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.protocols.overlay.witree import responder, witree
from tidings.protocols.overlay.witree.messages import (
    GroupHello,
    LinkMended,
    OtherGroup,
    RadioHello,
    RadioJoin,
    RadioJoined,
    RadioLeave,
    RadioRefused,
    RootCheck,
    RootChecked,
    RootHandover,
    RouteReply,
    RouteRequest,
    TreeHello,
)
from tidings.protocols.overlay.witree.params import WiTreeParams
from tidings.protocols.overlay.witree.witree import WiTree
from tidings.protocols.routing.params import RoutingParams
from tidings.pubsub.notes import LinkChanged, Reattached
from tidings.pubsub.signals import (
    LinkFailed,
    LinkUnwanted,
    LinkWanted,
    NeighbourDown,
    NeighbourReplaced,
    NeighbourUp,
    PeerDown,
    PeerUp,
)


class RadioDesk(Desk[WiTree]):
    def __init__(self, **params: Any) -> None:
        super().__init__(WiTree("m", WiTreeParams(**params), Random(1)))

    def up(self, name: str) -> list[Effect]:
        return self.handle(PeerUp(name, 1))

    def hears(self, sender: str, message: Any) -> list[Effect]:
        return self.handle(Received(sender, message))

    def leading(self) -> "RadioDesk":
        """Nobody has replied."""
        self.advance(3.1)
        assert self.machine.branches.is_leader
        return self

    def attached(self, distance: int = 2) -> "RadioDesk":
        """Below p, in the tree of l."""
        number = self.machine.mender.search.number if self.machine.mender.search else 0
        self.hears("p", RouteReply("m", number, "p", distance - 1, ()))
        self.advance(self.now + 1.0)
        join = sent(self.up("p"), RadioJoin, "p")[0]
        self.hears("p", RadioJoined(join.number, "l", 1, distance))
        assert self.machine.branches.above == "p"
        return self

    def below(self, name: str, number: int = 9, replaces: str = "") -> list[Effect]:
        """It asks, and there is a leader."""
        self.up(name)
        effects = self.hears(name, RadioJoin(number, replaces))
        if sent(effects, RootCheck, "p"):
            effects = self.hears("p", RootChecked(name, number, (), True))
        return effects

    @property
    def number(self) -> int:
        assert self.machine.mender.search is not None
        return self.machine.mender.search.number


def request(requester: str = "x", number: int = 4, distance: int = 3, **fields: Any) -> RouteRequest:
    chosen = {"leader": "l", "target": "", "steps": 0, **fields}
    return RouteRequest(requester, number, chosen["leader"], distance, chosen["target"], chosen["steps"])


def on_air(effects: list[Effect], kind: type) -> list[Any]:
    return [each.message for each in of(Send, effects) if each.to == BROADCAST and isinstance(each.message, kind)]


# Looking for a place.


@pytest.mark.spec("D-117")
def test_a_request_without_reply_is_repeated_twice_and_then_there_is_another_leader() -> None:
    desk = RadioDesk()
    assert [message.number for message in on_air(desk.effects, RouteRequest)] == [1]
    desk.advance(3.1)
    asked = [each for each in desk.told(Send) if isinstance(each.message, RouteRequest)]
    assert [each.message.number for each in asked] == [1, 2, 3]
    assert all(each.transport is Transport.DATAGRAM for each in asked)
    assert desk.machine.branches.is_leader and desk.machine.why_unsettled() == ""


def test_the_reply_nearest_to_the_leader_is_taken_and_of_those_the_one_with_the_shortest_path() -> None:
    desk = RadioDesk()
    for end, distance, path in (("a", 5, ()), ("b", 2, ("c", "d")), ("e", 2, ()), ("f", 2, ("c",))):
        desk.hears("z", RouteReply("m", desk.number, end, distance, path))
    assert of(LinkWanted, desk.advance(1.0))[0].contact.node == "e"
    assert of(LinkWanted, desk.handle(LinkFailed("e", "gone")))[:1] == []
    assert desk.machine.mender.search is not None and desk.machine.mender.search.tries == 1


@pytest.mark.spec("D-115")
def test_who_loses_the_one_above_looks_for_a_place_and_who_loses_one_below_does_not() -> None:
    desk = RadioDesk().attached()
    desk.below("c")
    effects = desk.handle(PeerDown("c", 1, "gone"))
    assert of(NeighbourDown, effects) and not sent(effects, RouteRequest)
    desk.below("d", 12)
    effects = desk.handle(PeerDown("p", 1, "gone"))
    assert [type(effect) for effect in effects[:3]] == [LinkChanged, NeighbourDown, LinkUnwanted]
    assert (
        on_air(effects, RouteRequest)
        == sent(effects, RouteRequest, "d")
        == [RouteRequest("m", desk.number, "l", 2, "", 0)]
    )


@pytest.mark.spec("D-116")
def test_the_new_link_may_be_far_from_the_lost_one_and_links_on_the_way_to_it_are_turned() -> None:
    """x is lost to b; of x and c, c alone can hear d."""
    places = {"l": (0.0, 0.0), "b": (150.0, 0.0), "x": (300.0, 0.0), "c": (300.0, 150.0)}
    world = RadioWorld(1, places, is_bare=True)
    world.run(20.0)
    world.places["d"] = (150.0, 150.0)
    world.radio.nodes.append("d")
    world.add("d")
    world.run(20.0)
    assert world.links() == [("b", "d"), ("b", "l"), ("b", "x"), ("c", "x")]
    leader = world.leaders()[0]
    if leader in ("x", "c"):
        pytest.fail("the part that is lost must not have the leader")
    ups = len(world.watcher.ups)
    world.places["x"] = (360.0, 0.0)
    world.run(8.0)
    assert world.links() == [("b", "d"), ("b", "l"), ("c", "d"), ("c", "x")]
    assert (world.trees["c"].branches.above, world.trees["x"].branches.above) == ("d", "c")
    ((at, replaced),) = world.watcher.replaced
    assert at == "x"
    assert (replaced.lost, replaced.near, replaced.far, replaced.way) == ("b", "c", "d", ("x", "c"))
    told = [(name, up.neighbour, up.reconfiguration) for name, up in world.watcher.ups[ups:]]
    assert sorted(told) == [("c", "d", replaced.reconfiguration), ("d", "c", replaced.reconfiguration)]


def test_a_handover_makes_the_next_on_the_path_the_root_and_the_last_asks() -> None:
    desk = RadioDesk().attached()
    desk.below("c")
    effects = desk.hears("p", RootHandover("d", ("c",), "x/1", ("x",), "", 0))
    assert sent(effects) == [RootHandover("d", (), "x/1", ("x", "p"), "", 0)]
    assert desk.machine.branches.above == "c" and not of(NeighbourDown, effects)
    other = RadioDesk().attached()
    assert of(LinkWanted, other.hears("p", RootHandover("d", (), "x/1", ("x",), "", 0)))[0].contact.node == "d"
    effects = other.up("d")
    (join,) = sent(effects, RadioJoin, "d")
    assert join.replaces == "x/1"
    effects = other.hears("d", RadioJoined(join.number, "l", 2, 4))
    assert of(NeighbourUp, effects)[0].reconfiguration == "x/1"
    assert sent(effects, TreeHello, "p") == [TreeHello("l", 2, 5)]
    assert sent(effects, LinkMended, "p") == [LinkMended("x/1", ("x",), ("x", "p", "m"), "d")]


def test_a_handover_on_a_path_that_is_gone_makes_the_root_look_for_itself() -> None:
    desk = RadioDesk().attached()
    effects = desk.hears("p", RootHandover("d", ("gone",), "x/1", ("x",), "", 0))
    assert on_air(effects, RouteRequest) and sent(effects, RouteRequest, "p")
    assert drops(desk.hears("p", RootHandover("d", (), "", (), "", 0))) == [witree.NOT_FROM_ABOVE]


def test_who_lost_the_link_tells_routing_which_took_its_place_and_nobody_else_does() -> None:
    desk = RadioDesk().attached()
    desk.below("c")
    link = of(NeighbourDown, desk.handle(PeerDown("p", 1, "gone")))[0].reconfiguration
    desk.hears("c", RouteReply("m", desk.number, "d", 1, ("c",)))
    desk.advance(desk.now + 1.0)
    assert desk.machine.branches.above == "c"
    effects = desk.hears("c", LinkMended(link, (), ("m", "c"), "d"))
    assert effects == [NeighbourReplaced(link, "p", "c", "d", way=("m", "c")), Reattached(1.0, "radio", 2)]
    assert desk.hears("c", LinkMended(link, (), ("m", "c"), "d")) == []
    assert desk.hears("c", LinkMended("other/1", (), (), "d")) == []


def test_an_answer_that_comes_too_late_is_undone_at_the_other_end() -> None:
    desk = RadioDesk()
    desk.hears("p", RouteReply("m", desk.number, "p", 1, ()))
    desk.advance(1.0)
    (join,) = sent(desk.up("p"), RadioJoin, "p")
    desk.advance(1.6)
    effects = desk.hears("p", RadioJoined(join.number, "l", 1, 2))
    assert sent(effects) == [RadioLeave()] and not of(NeighbourUp, effects)


# Taking others in.


@pytest.mark.spec("D-115")
def test_a_broker_that_hears_the_request_from_above_is_in_that_part_passes_it_on_and_never_replies() -> None:
    desk = RadioDesk().attached(distance=5)
    desk.below("c")
    assert desk.hears("other", request(distance=9)) and ("guard", "x") in desk.timers
    effects = desk.hears("p", request(distance=9, steps=1))
    assert on_air(effects, RouteRequest) == sent(effects, RouteRequest, "c") == [request(distance=9, steps=2)]
    assert desk.hears("p", request(distance=9, steps=1)) == []
    assert not sent(desk.advance(desk.now + 1.0), RouteReply)
    assert sent(desk.hears("c", RootCheck("y", 1, ("c",))), RootChecked) == [RootChecked("y", 1, (), False)]
    desk.hears("p", TreeHello("l", 2, 3))
    assert desk.machine.branches.mark is None


@pytest.mark.spec("D-115")
def test_who_is_nearer_to_the_leader_replies_after_a_moment_to_the_nearest_that_was_heard() -> None:
    desk = RadioDesk().attached(distance=2)
    desk.hears("far", request(steps=3))
    desk.hears("near", request(steps=1))
    desk.hears("later", request(steps=1))
    effects = desk.advance(desk.now + 0.2)
    assert of(Send, effects)[-1] == Send("near", RouteReply("x", 4, "m", 2, ()), Transport.DATAGRAM)


@pytest.mark.spec("D-115")
def test_who_is_not_nearer_replies_only_if_there_is_a_leader_above() -> None:
    for has_leader in (True, False):
        desk = RadioDesk().attached(distance=3)
        desk.hears("s", request(distance=3))
        effects = desk.advance(desk.now + 0.2)
        assert sent(effects, RootCheck, "p") == [RootCheck("x", 4, ("m",))] and not sent(effects, RouteReply)
        effects = desk.hears("p", RootChecked("x", 4, (), has_leader))
        assert len(sent(effects, RouteReply, "s")) == has_leader


def test_a_tree_that_is_to_be_joined_replies_at_once_and_others_do_not() -> None:
    desk = RadioDesk().attached(distance=7)
    desk.hears("s", request("z", distance=0, leader="z", target="l"))
    assert sent(desk.advance(desk.now + 0.2), RouteReply, "s")
    desk.hears("s", request("y", distance=0, leader="y", target="other"))
    assert not sent(desk.advance(desk.now + 0.2), RouteReply)


def test_a_reply_goes_up_to_the_requester_link_by_link() -> None:
    desk = RadioDesk().attached()
    assert drops(desk.hears("d", RouteReply("x", 4, "d", 1, ()))) == [responder.OF_ANOTHER_PART]
    desk.hears("p", request())
    (passed,) = of(Send, desk.hears("d", RouteReply("x", 4, "d", 1, ())))
    assert passed == Send("p", RouteReply("x", 4, "d", 1, ("m",)))
    long = RouteReply("x", 4, "d", 1, tuple("a" * RADIO_PATH_MAX))
    assert drops(desk.hears("d", long)) == [responder.PATH_TOO_LONG]


@pytest.mark.spec("D-115")
def test_nobody_is_taken_in_before_the_leader_is_known_to_be_above() -> None:
    desk = RadioDesk().attached()
    desk.up("c")
    effects = desk.hears("c", RadioJoin(9, ""))
    assert sent(effects) == [RootCheck("c", 9, ("m",))] and desk.machine.neighbours == ["p"]
    refused = desk.hears("p", RootChecked("c", 9, (), False))
    assert sent(refused) == [RadioRefused(9)]
    desk.hears("c", RadioJoin(10, ""))
    effects = desk.hears("p", RootChecked("c", 10, (), True))
    assert sent(effects, RadioJoined, "c") == [RadioJoined(10, "l", 1, 3)]
    assert of(NeighbourUp, effects)[0].neighbour == "c"


def test_who_looks_for_a_place_takes_nobody_in_and_neither_does_one_whose_part_does() -> None:
    desk = RadioDesk()
    desk.up("c")
    assert sent(desk.hears("c", RadioJoin(9, ""))) == [RadioRefused(9)]
    other = RadioDesk().attached()
    other.hears("p", request())
    other.up("c")
    assert sent(other.hears("c", RadioJoin(9, ""))) == [RadioRefused(9)]
    assert sent(other.hears("p", RadioJoin(9, ""))) == [RadioRefused(9)]


def test_nobody_has_more_neighbours_than_are_allowed() -> None:
    desk = RadioDesk(neighbours_max=2).leading()
    answers = [sent(desk.below(name, number), object, name)[0] for number, name in enumerate("abc", 1)]
    assert [type(answer) for answer in answers] == [RadioJoined, RadioJoined, RadioRefused]


@pytest.mark.spec("D-6")
def test_the_loss_of_the_old_link_is_told_before_the_gain_of_the_new_although_it_was_not_noticed() -> None:
    desk = RadioDesk().leading()
    desk.below("x", 3)
    effects = desk.below("c", 4, replaces="x/3")
    told = [effect for effect in effects if isinstance(effect, NeighbourDown | NeighbourUp)]
    assert [(type(each), each.neighbour, each.reconfiguration) for each in told] == [
        (NeighbourDown, "x", "x/3"),
        (NeighbourUp, "c", "x/3"),
    ]


def test_a_walk_to_the_root_is_answered_by_it_and_the_answer_finds_its_way_back() -> None:
    leader = RadioDesk().leading()
    leader.below("c")
    assert sent(leader.hears("c", RootCheck("x", 1, ("a", "c")))) == [RootChecked("x", 1, ("a",), True)]
    assert drops(leader.hears("p", RootCheck("x", 1, ("p",)))) == [witree.NOT_A_PEER]
    desk = RadioDesk().attached()
    desk.below("c")
    assert sent(desk.hears("c", RootCheck("x", 1, ("a", "c"))), RootCheck, "p") == [RootCheck("x", 1, ("a", "c", "m"))]
    assert sent(desk.hears("p", RootChecked("x", 1, ("a", "c"), True)), RootChecked, "c") == [
        RootChecked("x", 1, ("a",), True)
    ]
    assert sent(desk.hears("c", RootCheck("x", 1, ("m", "c")))) == [RootChecked("x", 1, ("m",), False)]
    assert drops(desk.hears("c", RootChecked("x", 1, (), True))) == [responder.NOT_ASKED]
    assert drops(desk.hears("p", RootChecked("x", 1, ("stranger",), True))) == [responder.NOT_ASKED]


# Leaders and their hellos.


def test_a_leader_is_heard_in_its_whole_tree_and_on_the_air_and_each_tells_its_own_distance() -> None:
    desk = RadioDesk().leading()
    desk.below("c")
    effects = [effect for _ in range(6) for effect in (*desk.hears("c", RadioHello()), *desk.advance(desk.now + 0.9))]
    assert TreeHello("m", 2, 1) in sent(effects, TreeHello, "c")
    assert GroupHello("m", 2) in on_air(effects, GroupHello)
    other = RadioDesk().attached()
    other.below("c")
    effects = other.hears("p", TreeHello("l", 2, 6))
    assert sent(effects, TreeHello, "c") == [TreeHello("l", 2, 7)]
    assert other.hears("p", TreeHello("l", 2, 6)) == []
    assert on_air(other.advance(other.now + 0.02), GroupHello) == [GroupHello("l", 2)]
    assert drops(other.hears("c", TreeHello("l", 3, 1))) == [witree.NOT_FROM_ABOVE]


def test_a_distance_beyond_all_bounds_is_that_of_a_circle() -> None:
    desk = RadioDesk().attached()
    effects = desk.hears("p", TreeHello("l", 2, RADIO_DISTANCE_MAX))
    assert of(NeighbourDown, effects)[0].reason == witree.ROUND and sent(effects, RadioLeave, "p")


@pytest.mark.spec("D-117")
def test_of_two_leaders_the_one_with_the_greater_name_gives_way_by_the_same_procedure() -> None:
    desk = RadioDesk().leading()
    desk.below("c")
    assert desk.hears("z", GroupHello("z", 1)) == []
    desk.hears("c", OtherGroup("b"))
    effects = desk.advance(desk.now + 1.1)
    (asked,) = on_air(effects, RouteRequest)
    assert (asked.requester, asked.leader, asked.target) == ("m", "m", "b")
    desk.hears("c", RouteReply("m", asked.number, "d", 3, ("c",)))
    effects = desk.advance(desk.now + 1.0)
    assert sent(effects, RootHandover, "c") == [RootHandover("d", (), "", (), "b", 2)]


@pytest.mark.spec("D-117")
def test_the_trees_of_two_leaders_that_come_near_each_other_are_one() -> None:
    places = {"a": (0.0, 0.0), "b": (150.0, 0.0), "y": (800.0, 0.0), "z": (950.0, 0.0)}
    world = RadioWorld(2, places, is_bare=True)
    world.run(20.0)
    assert len(world.leaders()) == 2
    world.places |= {"y": (300.0, 0.0), "z": (450.0, 0.0)}
    world.run(15.0)
    world.assert_trees()
    assert world.links() == [("a", "b"), ("b", "y"), ("y", "z")] and len(world.leaders()) == 1


def test_a_member_passes_the_news_of_another_leader_up_once_in_a_while() -> None:
    desk = RadioDesk().attached()
    assert sent(desk.hears("s", GroupHello("a", 1)), OtherGroup, "p") == [OtherGroup("a")]
    assert desk.hears("t", GroupHello("a", 1)) == []
    assert desk.hears("t", GroupHello("z", 1)) == []
    desk.hears("p", RadioHello())
    assert drops(desk.hears("p", OtherGroup("a"))) == [witree.NOT_FROM_BELOW]


# Hearing each other.


def test_a_neighbour_that_is_silent_is_asked_over_its_link_and_then_lost() -> None:
    desk = RadioDesk().leading()
    desk.below("c")
    effects = desk.advance(desk.now + 2.9)
    assert sent(effects, RadioHello, "c") == [RadioHello(True)] and not of(NeighbourDown, effects)
    desk.hears("c", RadioHello())
    effects = desk.advance(desk.now + 5.0)
    assert of(NeighbourDown, effects)[0].reason == witree.SILENT and sent(effects, RadioLeave, "c")


def test_who_is_asked_answers_and_says_so_if_it_is_no_neighbour() -> None:
    desk = RadioDesk().leading()
    desk.below("c")
    assert sent(desk.hears("c", RadioHello(True))) == [RadioHello()]
    desk.up("d")
    assert sent(desk.hears("d", RadioHello(True))) == [RadioLeave()]
    assert desk.hears("stranger", RadioHello(True)) == []


def test_who_was_heard_on_the_air_for_another_reason_says_no_hello() -> None:
    desk = RadioDesk().attached()
    desk.hears("p", TreeHello("l", 2, 2))
    desk.advance(desk.now + 0.3)
    assert not on_air(desk.handle(Fired("hello")), RadioHello)
    desk.advance(desk.now + 0.6)
    assert on_air(desk.handle(Fired("hello")), RadioHello)


def test_the_one_above_is_lost_when_no_hello_of_the_leader_has_come_through_it_for_three_times() -> None:
    desk = RadioDesk().attached()
    lost: list[NeighbourDown] = []
    while not lost and desk.now < 30.0:
        desk.hears("p", RadioHello())
        lost = of(NeighbourDown, desk.advance(desk.now + 1.0))
    assert lost[0].reason == witree.NO_LEADER_HEARD and 16.0 < desk.now < 19.0


def test_a_restart_forgets_neighbours_and_keeps_epochs() -> None:
    desk = RadioDesk().leading()
    desk.below("c")
    effects = desk.note(desk.machine.start(desk.now))
    assert of(NeighbourDown, effects) and on_air(effects, RouteRequest) and desk.machine.neighbours == []
    desk.advance(desk.now + 3.1)
    assert of(NeighbourUp, desk.below("c", 1))[0].epoch == 2


def test_parameters_that_make_no_sense_are_refused() -> None:
    for wrong in ({"hello_period": 0.0}, {"collect_for": 0.3}, {"retries": -1}, {"neighbours_max": 0}):
        with pytest.raises(UsageError):
            WiTreeParams(**wrong)


@pytest.mark.spec("D-7")
def test_a_repair_along_the_path_is_refused_since_the_path_is_not_told() -> None:
    with pytest.raises(UsageError, match="path"):
        Dispatcher("a", DispatcherParams(overlay=WiTreeParams(), routing=RoutingParams(repair="path")), Random(1))
    Dispatcher("a", DispatcherParams(overlay=WiTreeParams(), routing=RoutingParams(repair="informed")), Random(1))
