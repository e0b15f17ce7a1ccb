"""An LSTree, message by message."""

from random import Random
from typing import Any, get_args

import pytest

from tests.worlds.desk import Desk, drops, of, sent
from tidings.machine.effects import Save, Send
from tidings.machine.inputs import Fired, Input, Loaded, Received
from tidings.machine.message import Contact
from tidings.machine.streams import random_stream
from tidings.model.errors import UsageError
from tidings.model.identity import at
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.protocols.overlay.lstree import kinship, lstree, seeker
from tidings.protocols.overlay.lstree.caches import FORMER_KEPT, GlobalCache
from tidings.protocols.overlay.lstree.lstree import LsTree
from tidings.protocols.overlay.lstree.messages import (
    ChildLeave,
    ColourUpdate,
    ContactPing,
    ContactPong,
    DepthsSpent,
    GlobalUpdate,
    MergeHint,
    ParentAccept,
    ParentRefuse,
    ParentRequest,
    RefusalReason,
    RegionalUpdate,
)
from tidings.protocols.overlay.lstree.order import BrokerPlace, Colour, lowered
from tidings.protocols.overlay.lstree.params import BASELINES, INSTANCES, LsTreeParams
from tidings.protocols.overlay.lstree.search import ParentSearch
from tidings.protocols.routing.params import RepairName, RoutingParams
from tidings.pubsub.notes import Reattached
from tidings.pubsub.signals import (
    Level,
    LinkFailed,
    LinkUnwanted,
    LinkWanted,
    NeighbourDown,
    NeighbourReplaced,
    NeighbourUp,
    PeerDown,
    PeerUp,
)

RED = Colour(3, "r")


class TreeDesk(Desk[LsTree]):
    def __init__(self, *contacts: str, **params: Any) -> None:
        super().__init__(LsTree("m", LsTreeParams(contacts=contacts, **params), Random(1)))
        self.epoch = 0

    def up(self, name: str, address: str = "", asked: str = "") -> list[Any]:
        self.epoch += 1
        return self.handle(PeerUp(name, self.epoch, address=address, asked=asked))

    def hears(self, sender: str, message: Any) -> list[Any]:
        return self.handle(Received(sender, message))

    def at(self, colour: Colour, depth: float) -> "TreeDesk":
        self.machine.kin.place = BrokerPlace(colour, depth)
        return self

    def request(self) -> ParentRequest:
        """The last one that was sent."""
        return [effect.message for effect in self.told(Send) if isinstance(effect.message, ParentRequest)][-1]

    @property
    def mode(self) -> str:
        return self.machine.kin.mode.value

    def asked(self) -> str:
        assert self.machine.seeker.asked is not None
        return self.machine.seeker.asked.contact.node

    def asked_or_nobody(self) -> str:
        return "" if self.machine.seeker.asked is None else self.asked()

    def attached(self, colour: Colour = RED, depth: float = 1.0, siblings: tuple[str, ...] = ()) -> "TreeDesk":
        """Below p, which is below g."""
        self.up("p")
        ancestors = (Contact("p"), Contact("g"))
        accept = ParentAccept(self.request().number, colour, depth, ancestors, tuple(map(Contact, siblings)))
        self.hears("p", accept)
        return self

    def answers(self, reason: RefusalReason, *contacts: str) -> list[Any]:
        number = self.machine.seeker.asked
        assert number is not None
        return self.hears(self.asked(), ParentRefuse(number.number, reason, tuple(map(Contact, contacts))))


def request(colour: Colour = RED, depth: float = 3.0, number: int = 5, **fields: Any) -> ParentRequest:
    wishes = {"breaks_max": False, "breaks_min": False, "is_root": False, "replaces": "", **fields}
    return ParentRequest(number, colour, depth, **wishes)


def root(**params: Any) -> TreeDesk:
    return TreeDesk(**params)


def answer(effects: list[Any], to: str) -> Any:
    return sent(effects, ParentAccept | ParentRefuse, to)[0]  # type: ignore[arg-type]


# Names of reconfigurations.


def test_the_one_above_hears_which_link_the_new_one_takes_the_place_of() -> None:
    """The name is that under which the child lost its last link above, so that both ends of the new one know it."""
    desk = root()
    desk.up("x")
    assert of(NeighbourUp, desk.hears("x", request(RED, 3.0, replaces="x/7"))) == []
    desk.up("y")
    taken = desk.hears("y", request(Colour(), 0.0, replaces="y/7"))
    assert [(up.neighbour, up.reconfiguration) for up in of(NeighbourUp, taken)] == [("y", "y/7")]


# Searches in a hurry.


def hurried() -> TreeDesk:
    """Its parent is lost, its grandparent refused, and now it asks a sibling."""
    desk = TreeDesk("p", ahead_after=2, ancestor_share=1.0).attached(siblings=("s", "t"))
    desk.handle(PeerDown("p", 1, "gone"))
    desk.up("g")
    desk.answers(RefusalReason.NOT_VIABLE)
    desk.up(desk.asked())
    return desk


def test_after_some_that_came_to_nothing_links_to_all_others_are_asked_for_ahead() -> None:
    desk = hurried()
    effects = desk.answers(RefusalReason.MAXDEGREE, "x", "y")
    assert {each.contact.node for each in of(LinkWanted, effects)} >= {"x", "y"}


def test_whoever_is_linked_first_is_asked_first_and_the_others_keep_their_turn() -> None:
    desk = hurried()
    desk.answers(RefusalReason.MAXDEGREE, "x", "y")
    waited_for = desk.asked()
    other = "x" if waited_for == "y" else "y"
    assert sent(desk.up(other), ParentRequest, other)
    desk.up(waited_for)
    assert sent(desk.answers(RefusalReason.NOT_VIABLE), ParentRequest, waited_for)


def test_who_was_asked_for_a_link_ahead_and_did_not_answer_is_not_waited_for_again() -> None:
    desk = hurried()
    desk.answers(RefusalReason.MAXDEGREE, "x", "y")
    first, waited_until = desk.asked(), desk.timers["request"]
    assert waited_until > desk.now
    desk.fire_next()
    assert desk.now == waited_until and desk.asked() != first
    assert desk.timers["request"] == waited_until, "both had the same time"


def test_links_that_were_asked_for_ahead_are_let_go_when_a_place_is_found() -> None:
    desk = hurried()
    wanted = {each.contact.node for each in of(LinkWanted, desk.answers(RefusalReason.MAXDEGREE, "x", "y"))}
    found = desk.asked()
    desk.up(found)
    accept = ParentAccept(desk.request().number, RED, 0.5, (Contact(found),), ())
    let_go = {each.broker for each in of(LinkUnwanted, desk.hears(found, accept))}
    assert wanted - {found} <= let_go and found not in let_go


def test_who_could_not_be_below_us_while_both_look_is_asked_by_us_before_we_become_a_root() -> None:
    desk = TreeDesk("p", ancestor_share=1.0).attached(depth=1.0).at(RED, 3.1)
    desk.handle(PeerDown("p", 1, "gone"))
    desk.up("x")
    effects = desk.hears("x", request(RED, 3.0))
    assert answer(effects, "x").reason is RefusalReason.BUSY
    assert desk.asked() == "g" and not sent(effects, ParentRequest, "x"), "one is asked at a time"
    desk.up("g")
    asked = sent(desk.answers(RefusalReason.NOT_VIABLE), ParentRequest, "x")
    assert asked and desk.mode == "searching"
    desk.hears("x", ParentAccept(asked[0].number, RED, 3.0, (Contact("x"),), ()))
    assert desk.mode == "attached" and desk.machine.seeker.elections == 0


def test_several_that_are_busy_are_not_waited_for_one_after_the_other() -> None:
    desk = TreeDesk("p", ancestor_share=1.0).attached(siblings=("s",))
    desk.handle(PeerDown("p", 1, "gone"))
    desk.up("g")
    desk.answers(RefusalReason.BUSY)
    desk.up("s")
    desk.now += 0.1
    desk.answers(RefusalReason.BUSY)
    while desk.asked_or_nobody() not in ("g", "s"):
        desk.handle(LinkFailed(desk.asked(), "is dead")) if desk.asked_or_nobody() else desk.fire_next()
    first = desk.asked()
    desk.now += 0.3
    again = desk.answers(RefusalReason.NOT_VIABLE)
    (other,) = {"g", "s"} - {first}
    assert sent(again, ParentRequest, other), "its time is over already"


def elected() -> TreeDesk:
    """Its parent is lost, c is below it, and nobody was found: a root, who knows x, y and z."""
    desk = TreeDesk("p").attached()
    desk.up("c")
    desk.hears("c", request(RED, 9.0))
    desk.handle(PeerDown("p", 1, "gone"))
    while desk.mode == "searching":
        desk.handle(LinkFailed(desk.asked(), "is dead"))
    assert desk.mode == "root"
    desk.machine.exchange.cache.add([Contact("x"), Contact("y"), Contact("z")])
    return desk


def test_a_root_that_lost_somebody_asks_all_it_knows_at_once_of_which_tree_they_are() -> None:
    desk = elected()
    effects = desk.handle(Fired("merge"))
    wanted = {each.contact.node for each in of(LinkWanted, effects)}
    assert desk.mode == "merging" and {"x", "y", "z"} <= wanted
    ours = desk.machine.kin.place.colour
    for node in "xyz":
        assert sent(desk.up(node), ContactPing, node) == [ContactPing(ours)]
    assert desk.asked() == "x", "who is linked first"
    # z is of a tree that wins, and the next to be asked.
    desk.hears("z", ContactPong(Colour(9, "q")))
    assert sent(desk.answers(RefusalReason.NOT_VIABLE), ParentRequest, "z")


def test_a_root_does_not_ask_one_who_says_that_he_is_of_its_own_tree() -> None:
    desk = elected()
    desk.handle(Fired("merge"))
    for node in "xyz":
        desk.up(node)
    desk.hears("y", ContactPong(desk.machine.kin.place.colour))
    assert sent(desk.answers(RefusalReason.NOT_VIABLE), ParentRequest, "z")


# Places and colours.


@pytest.mark.spec("D-79")
def test_the_first_broker_is_a_root_with_a_colour_of_its_own_and_a_new_one_may_join_anybody() -> None:
    desk = root()
    assert desk.mode == "root"
    assert desk.machine.kin.place == BrokerPlace(Colour(1, "m"), 0.0)
    desk.up("x")
    assert isinstance(answer(desk.hears("x", request(Colour(), 0.0)), "x"), ParentAccept)


@pytest.mark.spec("D-79")
def test_a_new_root_adds_its_name_to_the_colour_that_it_had() -> None:
    desk = TreeDesk("p").attached()
    depth = desk.machine.kin.place.depth
    desk.handle(PeerDown("p", 1, "gone"))
    for _ in range(2):
        desk.handle(LinkFailed(desk.asked(), "no answer"))
    assert desk.mode == "root"
    assert desk.machine.kin.place == BrokerPlace(Colour(4, "m"), depth)


@pytest.mark.spec("D-77")
def test_a_candidate_lowers_its_depth_to_be_above_one_that_is_less_deep() -> None:
    """Fig. 10.2: node 3.1 below one at less than 2.9 takes 3."""
    desk = TreeDesk("p").attached(depth=2.5).at(RED, 3.1)
    desk.up("x")
    accept = answer(desk.hears("x", request(RED, 3.0)), "x")
    assert isinstance(accept, ParentAccept) and 2.5 < accept.depth < 3.0
    assert desk.machine.kin.place.depth == accept.depth
    assert lowered(2.5, 2.5 + 1e-12) is None


@pytest.mark.spec("D-78")
def test_a_candidate_that_searches_is_busy_if_it_had_to_be_lowered_and_accepts_if_not() -> None:
    desk = TreeDesk("p").attached(depth=1.0).at(RED, 3.1)
    desk.handle(PeerDown("p", 1, "gone"))
    assert desk.mode == "searching"
    desk.up("x")
    desk.up("y")
    assert answer(desk.hears("x", request(RED, 3.0)), "x").reason is RefusalReason.BUSY
    assert isinstance(answer(desk.hears("y", request(RED, 3.2)), "y"), ParentAccept)
    assert desk.machine.kin.place == BrokerPlace(RED, 3.1)


def test_with_whole_numbers_nobody_waits_for_one_who_could_never_make_room() -> None:
    desk = TreeDesk("p", is_integer=True).attached(depth=1.0).at(RED, 3.0)
    desk.handle(PeerDown("p", 1, "gone"))
    assert desk.mode == "searching"
    desk.up("x")
    assert answer(desk.hears("x", request(RED, 3.0)), "x").reason is RefusalReason.NOT_VIABLE


@pytest.mark.spec("D-76")
@pytest.mark.spec("D-80")
def test_a_colour_is_taken_from_the_one_above_alone_and_only_a_later_one() -> None:
    desk = TreeDesk("p").attached()
    desk.up("c")
    desk.hears("c", request(RED, 9.0))
    later, before = ColourUpdate(Colour(4, "r"), 7.0), desk.machine.kin.place
    assert drops(desk.hears("c", later)) == [lstree.NOT_FROM_ABOVE]
    assert drops(desk.hears("p", ColourUpdate(Colour(2, "r"), 0.1))) == [lstree.NOT_LATER]
    assert drops(desk.hears("p", ColourUpdate(RED, 5.0))) == [lstree.NOT_LATER]
    assert desk.machine.kin.place == before
    effects = desk.hears("p", later)
    place = desk.machine.kin.place
    assert place.colour == Colour(4, "r") and 7.0 < place.depth <= 8.0
    assert sent(effects) == [ColourUpdate(place.colour, place.depth)]
    desk.hears("p", RegionalUpdate((Contact("p"),), (), 9.0))
    assert desk.machine.kin.place == place


def test_a_colour_that_no_tree_can_have_reached_is_not_believed() -> None:
    desk = TreeDesk("p").attached()
    assert drops(desk.hears("p", ColourUpdate(Colour(2**40, "r"), 0.0))) == [lstree.NOT_LATER]
    desk.up("x")
    effects = desk.hears("x", request(Colour(2**40, "x"), 0.0, is_root=True))
    assert drops(effects) == [lstree.TOO_FAR_AHEAD] and answer(effects, "x").reason is RefusalReason.NOT_VIABLE
    assert not sent(effects, MergeHint)


# What a candidate answers.


@pytest.mark.spec("D-83")
@pytest.mark.spec("D-84")
def test_degrees_are_kept_unless_somebody_insists_and_nobody_may_insist_on_a_circle() -> None:
    desk = TreeDesk("p", instance="RUmDGM", degree_max=3, degree_min=2).attached()
    desk.at(RED, 2.0)
    for name in "abcdx":
        desk.up(name)
    few = answer(desk.hears("x", request()), "x")
    assert few == ParentRefuse(5, RefusalReason.MINDEGREE, (Contact("p"),))
    assert isinstance(answer(desk.hears("a", request(breaks_min=True)), "a"), ParentAccept)
    assert isinstance(answer(desk.hears("b", request()), "b"), ParentAccept)
    many = answer(desk.hears("x", request()), "x")
    assert many.reason is RefusalReason.MAXDEGREE and {each.node for each in many.contacts} == {"a", "b"}
    assert isinstance(answer(desk.hears("c", request(breaks_max=True)), "c"), ParentAccept)
    assert isinstance(answer(desk.hears("d", request(breaks_max=True)), "d"), ParentAccept)
    assert len(answer(desk.hears("x", request()), "x").contacts) == 3
    circle = answer(desk.hears("x", request(depth=0.5, breaks_max=True, breaks_min=True)), "x")
    assert circle.reason is RefusalReason.NOT_VIABLE


@pytest.mark.spec("D-91")
def test_a_broker_that_searches_keeps_a_place_free_for_the_one_above() -> None:
    desk = TreeDesk("p", degree_max=3).attached().at(RED, 2.0)
    for name in "abx":
        desk.up(name)
    for name in "ab":
        desk.hears(name, request())
    desk.handle(PeerDown("p", 1, "gone"))
    assert len(desk.machine.neighbours) == 2
    assert answer(desk.hears("x", request()), "x").reason is RefusalReason.MAXDEGREE


@pytest.mark.spec("D-97")
def test_a_root_of_the_same_a_winning_and_a_losing_tree() -> None:
    desk = TreeDesk("p").attached().at(RED, 2.0)
    desk.up("x")
    same = desk.hears("x", request(RED, 0.0, is_root=True))
    assert answer(same, "x").reason is RefusalReason.NOT_VIABLE and not sent(same, MergeHint)
    wins = desk.hears("x", request(Colour(4, "x"), 0.0, is_root=True))
    assert answer(wins, "x").reason is RefusalReason.NOT_VIABLE
    assert sent(wins, MergeHint, "p") == [MergeHint(Contact("x"), Colour(4, "x"))]
    assert isinstance(answer(desk.hears("x", request(Colour(2, "x"), 0.0, is_root=True)), "x"), ParentAccept)


def test_a_root_that_hears_of_a_tree_above_its_own_asks_to_be_below() -> None:
    desk = root()
    desk.up("c")
    desk.hears("c", request(Colour(), 0.0))
    effects = desk.hears("c", MergeHint(Contact("x", "h:1"), Colour(2, "x")))
    assert of(LinkWanted, effects) == [LinkWanted(Contact("x", "h:1"), "overlay")]
    assert desk.mode == "merging"
    (asked,) = sent(desk.up("x"), ParentRequest)
    assert asked.is_root and asked.colour == Colour(1, "m")
    desk.answers(RefusalReason.NOT_VIABLE)
    assert desk.mode == "root" and desk.machine.kin.place.colour == Colour(1, "m")


def test_two_that_are_new_are_busy_for_each_other() -> None:
    desk = TreeDesk("p")
    desk.up("x")
    assert answer(desk.hears("x", request(Colour(), 0.0)), "x").reason is RefusalReason.BUSY


def test_the_one_above_is_never_taken_below() -> None:
    desk = TreeDesk("p").attached().at(RED, 2.0)
    assert answer(desk.hears("p", request(RED, 9.0)), "p").reason is RefusalReason.NOT_VIABLE


def test_depths_that_are_used_up_are_given_out_anew_by_the_root() -> None:
    desk = TreeDesk("p").attached(depth=2.0).at(RED, 3.0)
    desk.up("x")
    effects = desk.hears("x", request(RED, 2.0 + 1e-12))
    assert answer(effects, "x").reason is RefusalReason.NOT_VIABLE and sent(effects, DepthsSpent, "p")
    above = root()
    above.up("c")
    above.hears("c", request(Colour(), 0.0))
    above.now = 100.0
    assert sent(above.hears("c", DepthsSpent()), ColourUpdate) == [ColourUpdate(Colour(2, "m"), 0.0)]
    assert not sent(above.hears("c", DepthsSpent())), "not twice in a row"
    assert drops(above.hears("c", DepthsSpent())) == []


# The search.


def search(instance: str = "RDGM", **known: tuple[str, ...]) -> ParentSearch:
    lists = {name: list(map(Contact, names)) for name, names in known.items()}
    return ParentSearch(LsTreeParams(instance=instance), random_stream(1), **lists)  # type: ignore[arg-type]


def nobody(node: str) -> bool:
    return False


def refuse(it: ParentSearch, contact: Contact, letter: str, reason: RefusalReason, *contacts: str) -> None:
    it.ask(0.0, contact, letter, 1)
    it.refused(reason, map(Contact, contacts))


@pytest.mark.spec("D-84")
@pytest.mark.spec("D-85")
@pytest.mark.parametrize(
    ("instance", "order"),
    [
        ("RMG", "R M G"),
        ("RDGM", "R D G M"),
        ("DRGM", "R D G M"),
        ("RUmDGM", "R U m D G M"),
        ("DUmRGM", "R D U m G M"),
        ("RDUmGM", "R D U m G M"),
        ("RDGUmM", "R D G U m M"),
    ],
)
def test_the_first_strategy_of_the_instance_that_knows_somebody_is_followed(instance: str, order: str) -> None:
    """After a refusal of each kind by the only one of the region, every cache holds one."""
    it = search(instance, ancestors=("g",), anybody=("far",))
    (first, letter) = it.pick(nobody) or pytest.fail("nobody")
    refuse(it, first, letter, RefusalReason.MAXDEGREE, "down")
    if "m" in instance:
        it.offers["m"]["low"] = Contact("low")
        it.learn("U", [Contact("up")], 10)
    letters = [letter]
    while (found := it.pick(nobody)) is not None:
        letters.append(found[1])
    assert " ".join(letters) == order


@pytest.mark.spec("D-86")
def test_the_region_gives_an_ancestor_half_of_the_time() -> None:
    draws, ancestors = random_stream(3), 0
    for _ in range(2000):
        it = ParentSearch(LsTreeParams(), draws, ancestors=[Contact("g")], siblings=[Contact("s")])
        found = it.pick(nobody)
        ancestors += found is not None and found[0].node == "g"
    assert 900 < ancestors < 1100


@pytest.mark.spec("D-87")
def test_a_candidate_that_is_busy_is_asked_three_times_more() -> None:
    desk = TreeDesk("p")
    desk.up("p")
    for _ in range(3):
        desk.answers(RefusalReason.BUSY)
        assert not desk.machine.seeker.asked
        desk.handle(Fired("busy"))
        assert desk.asked() == "p"
    assert desk.mode == "searching"
    desk.answers(RefusalReason.BUSY)
    assert desk.mode == "root"


def test_nobody_is_asked_twice_but_by_those_who_insist() -> None:
    it = search("RDGM", ancestors=("g",), anybody=("g", "far"))
    contact, letter = it.pick(nobody) or pytest.fail("nobody")
    refuse(it, contact, letter, RefusalReason.MAXDEGREE, "g", "far")
    names = []
    while (found := it.pick(nobody)) is not None:
        names.append((found[0].node, found[1]))
    assert names == [("far", "D"), ("g", "M")]


def test_a_search_asks_so_many_and_then_only_those_who_may_be_asked_again() -> None:
    it = ParentSearch(LsTreeParams(candidates_max=2), random_stream(1), anybody=[Contact(str(n)) for n in range(9)])
    assert [it.pick(nobody) is not None for _ in range(3)] == [True, True, False]


@pytest.mark.spec("D-93")
def test_instances_are_orders_of_strategies_and_keep_the_rules() -> None:
    for instance in (*INSTANCES, *BASELINES):
        LsTreeParams(instance=instance)
    assert not LsTreeParams(instance="RDGM").has_degree_min and LsTreeParams(instance="RUmDGM").has_degree_min
    for wrong in ("RDM", "RGD", "GRM", "RDMGMm", "RUDGM", "RDGMUm", "RXGM", "", "RRGM", "RGDM"):
        with pytest.raises(UsageError, match="instance"):
            LsTreeParams(instance=wrong)


def test_parameters_that_make_no_sense_are_refused() -> None:
    for wrong in ({"degree_max": 1}, {"merge_period": 0.0}, {"gossip_again": 0.6}, {"contacts": ("a", "a")}):
        with pytest.raises(UsageError):
            LsTreeParams(**wrong)

    # The least degree says nothing where no strategy asks for it.
    assert LsTreeParams(degree_max=2).degree_max == 2
    with pytest.raises(UsageError):
        LsTreeParams(instance="RUmDGM", degree_max=2)


# Being below somebody, and losing it.


def test_a_request_travels_on_a_link_that_is_asked_for_and_given_back_if_it_is_refused() -> None:
    desk = TreeDesk("p")
    assert of(LinkWanted, [effect for _, effect in desk.all]) == [LinkWanted(Contact("p"), "overlay")]
    assert not of(Send, [effect for _, effect in desk.all])
    (asked,) = sent(desk.up("p"), ParentRequest, "p")
    assert asked.colour == Colour() and not asked.is_root and asked.replaces == ""
    assert of(LinkUnwanted, desk.answers(RefusalReason.NOT_VIABLE)) == [LinkUnwanted("p", "overlay")]


@pytest.mark.spec("D-6")
def test_the_loss_of_the_one_above_is_told_before_the_gain_of_another_under_one_name() -> None:
    desk = TreeDesk("p").attached()
    (up,) = desk.told(NeighbourUp)
    assert up == NeighbourUp("p", 1, "")
    lost = desk.handle(PeerDown("p", 1, "gone"))
    (down,) = of(NeighbourDown, lost)
    assert down.reconfiguration and down == NeighbourDown("p", 1, "gone", down.reconfiguration)
    assert of(LinkUnwanted, lost) == [LinkUnwanted("p", "overlay")]
    assert desk.asked() == "g"
    desk.now = 0.5
    (asked,) = sent(desk.up("g"), ParentRequest, "g")
    assert asked.replaces == down.reconfiguration and asked.colour == RED
    effects = desk.hears("g", ParentAccept(asked.number, RED, 0.5, (Contact("g"),), ()))
    assert of(NeighbourUp, effects) == [NeighbourUp("g", 2, down.reconfiguration)]
    assert of(NeighbourReplaced, effects) == [NeighbourReplaced(down.reconfiguration, "p", "m", "g")]
    assert of(Reattached, effects) == [Reattached(0.5, "regional", 1)]


def test_the_other_end_knows_the_name_of_the_lost_link_without_being_told() -> None:
    above = root()
    above.up("m2")
    below = LsTree("m2", LsTreeParams(contacts=("m",)), Random(2))
    below.start(0.0)
    (sends,) = [effect for effect in below.handle(0.0, PeerUp("m", 1)) if isinstance(effect, Send)]
    accept = answer(above.hears("m2", sends.message), "m2")
    below.handle(0.0, Received("m", accept))
    (here,) = of(NeighbourDown, below.handle(1.0, PeerDown("m", 1, "cut")))
    (there,) = of(NeighbourDown, above.handle(PeerDown("m2", 1, "cut")))
    assert here.reconfiguration == there.reconfiguration != ""


@pytest.mark.spec("D-92")
def test_an_acceptance_that_comes_too_late_is_answered_by_leaving() -> None:
    desk = TreeDesk("p", "q")
    first = desk.asked()
    desk.up(first)
    late = desk.request()
    desk.handle(Fired("request"))
    assert desk.asked() != first
    effects = desk.hears(first, ParentAccept(late.number, RED, 1.0, (Contact(first),), ()))
    assert sent(effects, ChildLeave, first) and not of(NeighbourUp, effects)
    above = root()
    above.up("x")
    above.hears("x", request(Colour(), 0.0))
    assert of(NeighbourDown, above.hears("x", ChildLeave("x/5"))) and not above.machine.neighbours


def test_who_leaves_what_it_asked_for_first_stays_where_it_asked_again() -> None:
    """Over a link that somebody else keeps; the answers to all requests may come at once, and late."""
    above, below = root(), Desk(LsTree("x", LsTreeParams(contacts=("m",)), Random(2)))
    above.up("x")
    (first,) = sent(below.handle(PeerUp("m", 1)), ParentRequest, "m")
    below.handle(Fired("request"))
    (second,) = sent(below.handle(Fired("merge")), ParentRequest, "m")
    accepts = [answer(above.hears("x", each), "x") for each in (first, second)]
    left = [each for accept in accepts for each in sent(below.handle(Received("m", accept)), ChildLeave, "m")]
    assert left == [ChildLeave(kinship.link_name("x", first.number))] and below.machine.neighbours == ["m"]
    assert drops(above.hears("x", left[0])) == [lstree.LEFT_BEFORE] and above.machine.neighbours == ["x"]


def test_one_that_asks_again_is_a_neighbour_anew() -> None:
    desk = root()
    desk.up("x")
    desk.hears("x", request(Colour(), 0.0, number=1))
    effects = desk.hears("x", request(Colour(), 0.0, number=2))
    down, up = (each for each in effects if isinstance(each, NeighbourDown | NeighbourUp))
    assert (down.epoch, up.epoch) == (1, 2)
    # The acceptance is on the link before anything that routing says of the new neighbour.
    accepts = [isinstance(each, Send) and type(each.message) is ParentAccept for each in effects]
    assert effects.index(up) > accepts.index(True)


def test_an_acceptance_that_may_not_be_is_refused() -> None:
    desk = TreeDesk("p").attached(depth=1.0).at(RED, 2.0)
    desk.handle(PeerDown("p", 1, "gone"))
    desk.up("g")
    number = desk.request().number
    effects = desk.hears("g", ParentAccept(number, RED, 5.0, (Contact("g"),), ()))
    assert drops(effects) == [seeker.NOT_VALID] and sent(effects, ChildLeave, "g") and not desk.machine.neighbours


@pytest.mark.spec("D-88")
def test_what_is_known_of_the_region_comes_from_the_one_above_and_goes_on_only_if_it_changed() -> None:
    desk = TreeDesk("p").attached(siblings=("s",))
    desk.up("c", "c:1")
    accept = answer(desk.hears("c", request(RED, 9.0)), "c")
    assert accept.ancestors == (Contact("m"), Contact("p"), Contact("g"))
    chain = (Contact("p"), Contact("h"), Contact("i"), Contact("j"))
    told = sent(desk.hears("p", RegionalUpdate(chain, (Contact("s"), Contact("m")), 0.9)))
    assert [each.ancestors for each in told] == [(Contact("m"), Contact("p"), Contact("h"))]
    region = desk.machine.kin.regional
    assert region.ancestors == chain[:3] and region.siblings == (Contact("s"),)
    assert not sent(desk.hears("p", RegionalUpdate(chain, (), 0.8)))
    assert desk.machine.kin.above is not None and desk.machine.kin.above.depth == 0.8
    assert drops(desk.hears("c", RegionalUpdate(chain, (), 0.1))) == [lstree.NOT_FROM_ABOVE]
    assert not {"region", "regional"} & {str(key) for key in desk.timers}


# Contacts.


@pytest.mark.spec("D-90")
def test_contacts_are_passed_on_and_tried_every_250_seconds_and_who_is_dead_is_not_kept() -> None:
    desk = TreeDesk("p").attached()
    cache = desk.machine.exchange.cache
    cache.add(Contact(f"k{number}") for number in range(30))
    assert len(cache.entries) == 10
    begun = desk.timers["gossip"]
    assert 0 <= begun <= 250
    desk.now = begun
    effects = desk.handle(Fired("gossip"))
    assert desk.timers["gossip"] == begun + 250
    assert sent(effects, GlobalUpdate, "p")
    tried = [wanted.contact.node for wanted in of(LinkWanted, effects)]
    assert set(cache.entries) <= set(tried)
    alive, dead = tried[0], tried[1]
    assert sent(desk.up(alive), ContactPing, alive)
    assert of(LinkUnwanted, desk.hears(alive, ContactPong(RED))) == [LinkUnwanted(alive, "overlay")]
    desk.handle(LinkFailed(dead, "refused"))
    desk.now += 1.0
    desk.handle(Fired("pinged"))
    assert list(cache.entries) == [alive] and dead in cache.former
    assert not desk.machine.exchange.pinged


def test_a_pong_of_another_tree_is_told_to_the_root() -> None:
    desk = TreeDesk("p").attached()
    desk.up("x")
    effects = desk.hears("x", ContactPing(Colour(7, "x")))
    assert sent(effects, ContactPong, "x") == [ContactPong(RED)]
    assert sent(effects, MergeHint, "p") == [MergeHint(Contact("x"), Colour(7, "x"))]


def test_the_cache_is_bounded_whatever_is_told() -> None:
    cache = GlobalCache("m", 3, random_stream(1))
    cache.add([Contact("m"), Contact(at("h", 1)), Contact("?7"), *(Contact(str(number)) for number in range(50))])
    assert len(cache.entries) == 3 and "m" not in cache
    for number in range(100):
        cache.silent(0.0, Contact(f"s{number}"))
    assert len(cache.former) == 9


def test_ten_thousand_that_came_and_left_for_good_leave_next_to_nothing_behind() -> None:
    living = [f"live{number}" for number in range(8)]
    desk = root(children_max=200, degree_max=200)
    for node in living:
        desk.up(node)
        desk.hears(node, request(Colour(), 0.0))
    for number in range(10_000):
        gone = f"gone{number}"
        desk.up(gone, address=f"10.0.0.1:{number}")
        desk.hears(gone, request(Colour(), 0.0))
        desk.hears(living[number % 8], GlobalUpdate((Contact(gone, f"10.0.0.1:{number}"),)))
        desk.handle(PeerDown(gone, desk.epoch, "gone"))
    assert desk.machine.neighbours == living
    for _ in range(8):
        # Whoever is kept is tried, and only the living answer.
        desk.now += 250.0
        for each in of(LinkWanted, desk.handle(Fired("gossip"))):
            if each.contact.node.startswith("gone"):
                desk.handle(LinkFailed(each.contact.node, "is dead"))
        desk.handle(Fired("pinged"))
    kept = repr([vars(part) for part in (desk.machine.kin, desk.machine.exchange, desk.machine.seeker)])
    kept += repr([vars(part) for part in (desk.machine.exchange.cache, desk.machine.mover, desk.machine.drain)])
    assert desk.machine.exchange.cache.entries.keys().isdisjoint(f"gone{number}" for number in range(10_000))
    assert kept.count("gone") <= 4 * FORMER_KEPT
    assert len(desk.machine.exchange.cache.former) <= FORMER_KEPT


def test_contacts_are_stored_and_found_again() -> None:
    desk = TreeDesk("p", is_durable=True)
    assert desk.machine.seeker.search is None
    desk.handle(Loaded("contacts", ()))
    desk.attached()
    desk.up("c", "c:1")
    desk.hears("c", request(RED, 9.0))
    (saved,) = of(Save, desk.advance(5.0))
    again = TreeDesk(is_durable=True)
    again.handle(Loaded("contacts", ((saved.name, saved.data),)))
    assert {"p", "c"} <= {contact.node for contact in (*again.machine.exchange.cache.entries.values(), Contact("p"))}
    assert again.machine.exchange.cache.entries["c"] == Contact("c", "c:1")
    broken = TreeDesk(is_durable=True)
    broken.handle(Loaded("contacts", (("contacts", b"\xff"),)))
    assert broken.mode == "root"


def test_a_contact_of_which_only_the_address_is_known_is_asked_when_its_name_is() -> None:
    address = at("h", 7)
    desk = TreeDesk(address)
    assert desk.told(LinkWanted) == [LinkWanted(Contact(address), "join")]
    assert desk.mode == "searching"
    (asked,) = sent(desk.up("p", "h:7", asked=address), ParentRequest, "p")
    effects = desk.hears("p", ParentAccept(asked.number, RED, 0.0, (Contact("p"),), ()))
    assert of(LinkUnwanted, effects) == [LinkUnwanted(address, "join")]
    assert desk.machine.neighbours == ["p"]


def test_a_broker_whose_contacts_do_not_answer_begins_alone_and_joins_them_when_they_do() -> None:
    one, other = at("h", 7), at("i", 7)
    desk = TreeDesk(one, other)
    desk.handle(LinkFailed(one, "refused"))
    assert desk.mode == "searching"
    desk.handle(LinkFailed(other, "refused"))
    assert desk.mode == "root" and not desk.told(LinkUnwanted)
    (asked,) = sent(desk.up("p", asked=other), ParentRequest, "p")
    # Nobody was ever below it, so it comes as one that is new.
    assert asked.colour == Colour() and not asked.is_root


def test_repairs_that_need_to_know_the_path_are_refused_and_all_others_run_on_it() -> None:
    assert LsTree.level is Level.REPLACEMENTS and LsTree.is_tree
    names = get_args(RepairName)
    assert {"strawman", "timed", "notified", "informed", "path"} <= set(names)
    for name in names:
        params = DispatcherParams(overlay=LsTreeParams(), routing=RoutingParams(repair=name, engine="plain"))
        if name in ("path", "shift"):
            with pytest.raises(UsageError, match="lstree"):
                Dispatcher("d", params, Random(1))
        else:
            Dispatcher("d", params, Random(1))


def test_what_strangers_and_others_say_is_dropped_with_a_reason() -> None:
    desk = TreeDesk("p").attached()
    assert drops(desk.hears("x", request())) == [lstree.NOT_A_PEER]
    desk.up("x")
    cases: list[tuple[Any, str]] = [
        (ChildLeave("x/1"), lstree.NOT_FROM_BELOW),
        (MergeHint(Contact("y"), RED), lstree.NOT_FROM_BELOW),
        (DepthsSpent(), lstree.NOT_FROM_BELOW),
        (GlobalUpdate(()), lstree.NOT_A_NEIGHBOUR),
        (ContactPong(RED), lstree.NOT_ASKED),
        (ParentRefuse(1, RefusalReason.BUSY, ()), lstree.NOT_ASKED),
    ]
    for message, reason in cases:
        assert drops(desk.hears("x", message)) == [reason]
    assert kinship.link_name("m", 1) == "m/1"


def test_a_start_after_a_crash_begins_anew_with_the_contacts_there_were() -> None:
    desk = TreeDesk("p").attached()
    effects: list[Input] = desk.note(desk.machine.start(10.0))  # type: ignore[assignment]
    assert of(NeighbourDown, effects)[0].neighbour == "p"  # type: ignore[arg-type]
    assert desk.machine.kin.place == BrokerPlace() and not desk.machine.neighbours
    assert desk.asked() == "p"


def test_after_two_that_do_not_answer_all_others_are_linked_at_once_and_the_first_that_is_up_is_asked() -> None:
    desk = TreeDesk("a", "b", "c", "d", "e")
    tried = [desk.asked()]
    desk.handle(LinkFailed(tried[0], "no answer"))
    tried.append(desk.asked())
    effects = desk.handle(LinkFailed(tried[1], "no answer"))
    others = {"a", "b", "c", "d", "e"} - set(tried)
    assert {wanted.contact.node for wanted in of(LinkWanted, effects)} == others
    waiting = desk.asked()
    quick = sorted(others - {waiting})[0]
    (asked,) = sent(desk.up(quick), ParentRequest, quick)
    # The one whose turn it was is asked later, the links of all others are let go when the search ends.
    effects = desk.hears(quick, ParentAccept(asked.number, RED, 0.0, (Contact(quick),), ()))
    assert {each.broker for each in of(LinkUnwanted, effects)} == others - {quick}
    assert desk.machine.neighbours == [quick] and list(desk.machine.kin.wanted) == [quick]
