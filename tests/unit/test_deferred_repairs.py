"""The rules of the repairs that wait, one link at a time (dynamic-topologies.md 3.4 to 3.7)."""

import warnings
from collections import Counter
from random import Random

import pytest

from tests.unit.test_routing_repairs import TOLD, changes_told, joined, router_with_neighbours
from tidings.machine.effects import CancelTimer, Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Received
from tidings.model.errors import UsageError
from tidings.model.language.parser import parse
from tidings.nodes.choices import OverlayParams, make_parts
from tidings.protocols.overlay.dhtree.dhtree import DhTreeParams
from tidings.protocols.overlay.lstree.params import LsTreeParams
from tidings.protocols.overlay.scripted import ScriptedParams
from tidings.protocols.overlay.spanning_tree import SpanningTreeParams
from tidings.protocols.routing.messages import SubscriptionAdded, SubscriptionRemoved, TablesBegun, TablesTold
from tidings.protocols.routing.params import RepairName, RoutingParams
from tidings.protocols.routing.repairs.choice import REPAIRS, TimesWarning
from tidings.protocols.routing.repairs.informed import (
    ACTIVE_ALREADY,
    NO_SUCH_LINK,
    InformedRepair,
    digests_of,
    wanted_alone,
)
from tidings.protocols.routing.repairs.messages import Activate, Flush, PathEdit, PathEdited
from tidings.protocols.routing.repairs.notified import PASSED_ON_ALREADY, NotifiedRepair
from tidings.protocols.routing.repairs.path import OTHER_CHANGE, PathRepair
from tidings.protocols.routing.repairs.timed import TimedRepair
from tidings.protocols.routing.router import Router
from tidings.protocols.routing.state import NO_NEIGHBOUR, OVERTAKEN
from tidings.protocols.routing.tables import Ghost
from tidings.pubsub.signals import NeighbourDown, NeighbourReplaced, NeighbourUp, Want

GHOST = Ghost("n", "r1")
EXPIRED = Fired(("unsubscribe", GHOST))
LOST = NeighbourDown("n", 1, reconfiguration="r1")
LEFT = (("k", "x = 1"), ("m", "x = 1"), ("k", "x = 2"), ("m", "x = 3"))
TAKEN_BACK = Counter({(to, SubscriptionRemoved, text): 1 for to, text in LEFT})
"""What n alone wanted, and what k or m have from nobody but each other then."""


def came(router: Router, neighbour: str, reconfiguration: str = "") -> list[Effect]:
    """The neighbour comes and begins its tables; what it is told."""
    effects = router.handle(2.0, NeighbourUp(neighbour, 1, reconfiguration))
    return effects + router.handle(2.0, Received(neighbour, TablesBegun(1, router.lives)))


def told_to(effects: list[Effect], neighbour: str) -> set[str]:
    return {text for to, kind, text in changes_told(effects) if to == neighbour and kind is SubscriptionAdded}


# TDU.


@pytest.mark.spec("D-27")
def test_nothing_is_taken_back_before_the_time_is_over_and_then_what_nobody_wants() -> None:
    router = router_with_neighbours(TimedRepair)
    lost = router.handle(1.0, LOST)
    assert changes_told(lost) == Counter() and SetTimer(("unsubscribe", GHOST), 2.5) in lost
    # k comes to want what n wanted: it stays told to the others.
    router.handle(1.2, Received("k", SubscriptionAdded(7, "x = 1")))
    assert changes_told(router.handle(2.5, EXPIRED)) == TAKEN_BACK - Counter([("m", SubscriptionRemoved, "x = 1")])


@pytest.mark.spec("D-29", "D-30")
def test_an_end_of_both_links_tells_over_the_new_one_what_others_want_and_not_what_the_lost_one_did() -> None:
    router = router_with_neighbours(TimedRepair)
    router.handle(1.0, LOST)
    told = told_to(came(router, "new"), "new")
    assert "x = 1" not in told, "known from the lost link alone"
    assert told == {"x = 2", "x = 5", "x = 3", "x = 6", "x = 4", "x = 7"}, "of intact links, and of clients"


@pytest.mark.spec("D-31")
def test_who_has_no_neighbour_left_forgets_at_once_and_has_nothing_to_take_back() -> None:
    router = router_with_neighbours(TimedRepair)
    router.handle(1.0, NeighbourDown("n", 1, reconfiguration="r0"))
    router.handle(1.0, NeighbourDown("k", 1))
    lost = router.handle(1.0, NeighbourDown("m", 1))
    assert not router.tables.ghosts and not [each for each in lost if isinstance(each, SetTimer)]
    assert CancelTimer(("unsubscribe", Ghost("n", "r0"))) in lost
    assert told_to(came(router, "new"), "new") == {"x = 4", "x = 7"}
    assert changes_told(router.handle(9.0, Fired(("unsubscribe", Ghost("n", "r0"))))) == Counter()


@pytest.mark.spec("D-33")
def test_a_neighbour_that_is_back_in_time_keeps_what_it_says_now() -> None:
    router = router_with_neighbours(TimedRepair)
    router.handle(1.0, LOST)
    came(router, "n")
    router.handle(2.0, Received("n", SubscriptionAdded(1, "x = 1")))
    assert changes_told(router.handle(2.5, EXPIRED)) == Counter(
        {("k", SubscriptionRemoved, "x = 2"): 1, ("m", SubscriptionRemoved, "x = 3"): 1}
    )
    assert list(router.tables.texts["n"]) == ["x = 1"]


@pytest.mark.spec("D-34")
def test_what_two_lost_neighbours_wanted_goes_with_the_second() -> None:
    router = router_with_neighbours(TimedRepair)
    router.handle(0.0, Received("k", SubscriptionAdded(9, "x = 1")))
    router.handle(1.0, LOST)
    router.handle(1.2, NeighbourDown("k", 1, reconfiguration="r2"))
    assert ("m", SubscriptionRemoved, "x = 1") not in changes_told(router.handle(2.5, EXPIRED))
    last = changes_told(router.handle(2.7, Fired(("unsubscribe", Ghost("k", "r2")))))
    assert last[("m", SubscriptionRemoved, "x = 1")] == 1


# NDU.


@pytest.mark.spec("D-35")
def test_news_of_the_new_link_follows_the_filters_over_it() -> None:
    router = router_with_neighbours(NotifiedRepair)
    sends = [effect for effect in came(router, "new", "r1") if isinstance(effect, Send) and effect.to == "new"]
    assert [type(each.message) for each in sends[-2:]] == [TablesTold, Flush]
    assert [each.message for each in sends if isinstance(each.message, Flush)] == [Flush("r1", "me")]
    assert not [each for each in came(router, "other") if isinstance(each, Send) and isinstance(each.message, Flush)]


@pytest.mark.spec("D-37")
def test_news_ends_the_waiting_where_it_is_for_and_goes_on_from_elsewhere() -> None:
    router = router_with_neighbours(NotifiedRepair)
    router.handle(1.0, LOST)
    flushed = router.handle(1.1, Received("k", Flush("r1", "far")))
    assert CancelTimer(("unsubscribe", GHOST)) in flushed and changes_told(flushed) == TAKEN_BACK
    assert not [each for each in flushed if isinstance(each, Send) and isinstance(each.message, Flush)]
    elsewhere = router.handle(1.2, Received("k", Flush("r9", "far")))
    assert elsewhere == [Send("m", Flush("r9", "far"))]
    assert router.handle(1.3, Received("m", Flush("r9", "far"))) == [Drop(Flush("r9", "far"), PASSED_ON_ALREADY)]
    assert router.handle(1.3, Received("stranger", Flush("r8", "x"))) == [Drop(Flush("r8", "x"), NO_NEIGHBOUR)]


# ILA.


def informed(activation: str = "symmetric") -> Router:
    router = router_with_neighbours(InformedRepair)
    assert isinstance(router.repair, InformedRepair)
    router.repair.params = RoutingParams("subscription", "plain", activation=activation)  # type: ignore[arg-type]
    return router


@pytest.mark.spec("D-40")
def test_the_near_end_of_the_new_link_hears_which_filters_only_the_lost_neighbour_wanted() -> None:
    router = informed()
    router.handle(1.0, LOST)
    assert wanted_alone(router.tables, GHOST) == ["x = 1"]
    replaced = router.handle(1.1, NeighbourReplaced("r1", "n", "near", "far"))
    assert replaced == [Send("near", Activate("r1", "far", digests_of(["x = 1"])))]


@pytest.mark.spec("D-41", "D-47")
def test_an_activated_link_is_told_all_but_what_is_held_back_and_then_the_news() -> None:
    router = informed()
    assert told_to(came(router, "new", "r1"), "new") == set(), "not before it is activated"
    # x = 2 is wanted by n and k, x = 4 by n and our own client.
    held_back = digests_of(["x = 1", "x = 2", "x = 4"])
    effects = router.handle(2.1, Received("a", Activate("r1", "new", held_back)))
    assert told_to(effects, "new") == {"x = 3", "x = 4", "x = 5", "x = 6", "x = 7"}
    assert effects[-1] == Send("new", Flush("r1", "me"))
    assert SetTimer(("subscribe", "new", "r1"), 3.6) in effects
    # What it alone wants is never told to it.
    assert told_to(router.handle(2.2, Received("new", SubscriptionAdded(1, "x = 9"))), "new") == set()
    router.check()


@pytest.mark.spec("D-42", "D-44")
def test_when_the_time_is_over_what_is_still_wanted_is_told_and_nothing_else() -> None:
    router = informed()
    came(router, "new", "r1")
    router.handle(2.1, Received("a", Activate("r1", "new", digests_of(["x = 1", "x = 2", "x = 8"]))))
    # Figure 6.4(b): somebody subscribes meanwhile to what is held back. x = 2 is taken back by both who wanted it.
    waiting = router.handle(2.2, Received("k", SubscriptionAdded(8, "x = 8")))
    assert told_to(waiting, "new") == set()
    for neighbour in ("n", "k"):
        router.handle(2.3, Received(neighbour, SubscriptionRemoved(9, "x = 2")))
    assert told_to(router.handle(3.6, Fired(("subscribe", "new", "r1"))), "new") == {"x = 1", "x = 8"}
    router.check()


@pytest.mark.spec("D-46")
def test_a_link_that_is_not_up_under_that_name_is_not_activated() -> None:
    router = informed()
    before = list(router.links)
    for message in (Activate("r1", "new", b""), Activate("r1", "k", b"")):
        assert router.handle(1.0, Received("a", message)) == [Drop(message, NO_SUCH_LINK)]
    came(router, "new", "r1")
    router.handle(1.0, Received("a", Activate("r1", "new", b"")))
    again = Activate("r1", "new", digests_of(["x = 1"]))
    assert router.handle(1.0, Received("a", again)) == [Drop(again, ACTIVE_ALREADY)]
    assert list(router.links) == [*before, "new"]


@pytest.mark.spec("D-53")
def test_an_end_of_both_links_holds_back_itself_and_tells_its_new_neighbour_what_to() -> None:
    """As a child on a tree with parents: the parent n has failed, and `new` is the next. The other neighbours of n, who
    hear of no new link, send nothing."""
    router = informed("asymmetric")
    lost = router.handle(1.0, LOST)
    assert not [each for each in lost if isinstance(each, Send) and isinstance(each.message, Activate)]
    assert router.handle(1.1, NeighbourReplaced("r1", "n", "me", "new")) == []
    effects = came(router, "new", "r1")
    others = ["x = 5", "x = 6", "x = 7"]
    assert Send("new", Activate("r1", "me", digests_of(others))) in effects
    assert "x = 1" not in told_to(effects, "new") and set(others) <= told_to(effects, "new")


def test_an_end_of_both_links_keeps_nobody_waiting_where_siblings_count() -> None:
    """n has failed; a sibling has gone below us, and wants what we had from n alone: the new one hears it at once."""
    router = informed("siblings")
    router.handle(1.0, LOST)
    router.handle(1.1, NeighbourReplaced("r1", "n", "me", "new"))
    came(router, "new", "r1")
    late = router.handle(2.2, Received("k", SubscriptionAdded(8, "x = 1")))
    assert told_to(late, "new") == {"x = 1"}
    router.check()


# RP.


def head(texts: tuple[str, ...] = ("x = 1",)) -> PathEdit:
    return PathEdit("r1", ("a", "n", "me", "k", "c", "d"), 4, texts, texts)


@pytest.mark.spec("D-57")
def test_what_somebody_else_wants_stays_and_what_is_added_is_the_same_along_the_head() -> None:
    router = router_with_neighbours(PathRepair)
    texts = ("x = 1", "x = 2", "x = 3", "x = 4")
    sends = [each for each in router.handle(1.0, Received("n", head(texts))) if isinstance(each, Send)]
    passed = [each.message for each in sends if isinstance(each.message, PathEdit)]
    # x = 2 is wanted by the next alone, x = 3 by m, x = 4 by a client.
    assert passed == [PathEdit("r1", head().path, 4, texts, ("x = 1", "x = 2"))]
    assert next(each.message for each in sends if each.to == "n") == PathEdited("r1", False)
    assert set(texts) <= set(router.tables.texts["k"]) and not router.tables.texts["n"]
    router.check()


@pytest.mark.spec("D-58")
def test_what_the_next_took_back_before_it_knew_is_not_believed() -> None:
    router = router_with_neighbours(PathRepair)
    router.handle(1.0, Received("n", head()))
    early = SubscriptionRemoved(5, "x = 1")
    assert Drop(early, OVERTAKEN) in router.handle(1.1, Received("k", early)) and "x = 1" in router.tables.texts["k"]
    router.handle(1.1, Received("k", SubscriptionRemoved(6, "x = 5")))
    assert "x = 5" not in router.tables.texts["k"], "others are"
    router.handle(1.2, Received("k", PathEdited("r1", False)))
    router.handle(1.3, Received("k", SubscriptionRemoved(7, "x = 1")))
    assert "x = 1" not in router.tables.texts["k"]
    router.check()


@pytest.mark.spec("D-60", "D-61")
def test_the_far_end_takes_back_what_nobody_wants_any_more_and_tells_the_rest_when_old_routes_are_gone() -> None:
    router = router_with_neighbours(PathRepair)
    assert told_to(came(router, "c", "r1"), "c") == set()
    edit = PathEdit("r1", ("a", "c", "me", "k", "b"), 1, ("x = 5", "x = 9"), ())
    entered = router.handle(2.1, Received("c", edit))
    assert changes_told(entered) == Counter([("c", SubscriptionRemoved, "x = 9")])
    assert Send("k", PathEdit("r1", edit.path, 1, (), ())) in entered
    told = told_to(router.handle(2.2, Received("k", Flush("r1", "b"))), "c")
    everything = {text for texts in TOLD.values() for text in texts} | {"x = 4", "x = 7"}
    assert told == everything - {"x = 5"}
    router.check()


@pytest.mark.spec("D-62")
def test_another_reconfiguration_on_the_same_brokers_is_refused_and_tables_are_set_right() -> None:
    router = router_with_neighbours(PathRepair)
    router.handle(1.0, Received("n", head()))
    other = PathEdit("r2", ("a", "n", "me", "m", "c", "d"), 4, ("x = 8",), ())
    refused = router.handle(1.1, Received("n", other))
    assert Send("n", PathEdited("r2", True)) in refused and Drop(other, OTHER_CHANGE) in refused
    # n takes us for wanting x = 8, and hears that we do not.
    assert changes_told(refused) == Counter([("n", SubscriptionRemoved, "x = 8")])
    router.check()


# Which repair on which overlay, and with which times.


OVERLAYS: dict[str, OverlayParams] = {
    "scripted": ScriptedParams(),
    "lstree": LsTreeParams(),
    "dhtree": DhTreeParams(),
    "spanning-tree": SpanningTreeParams(),
}
REFUSED = {
    "scripted": (),
    "lstree": ("path", "shift"),
    "dhtree": ("notified", "informed", "path", "shift"),
    "spanning-tree": ("notified", "informed", "path", "shift"),
}


@pytest.mark.spec("D-7")
@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("name", REPAIRS)
def test_a_node_is_not_made_where_the_overlay_tells_too_little(name: RepairName, overlay: str) -> None:
    params = RoutingParams(repair=name)
    if name not in REFUSED[overlay]:
        make_parts("b", OVERLAYS[overlay], params, Random(1))
        return
    fitting = ", ".join(each for each in REPAIRS if each not in REFUSED[overlay])
    with pytest.raises(UsageError, match=f"repair: {name} needs to know .* {overlay} .* use one of: {fitting}$"):
        make_parts("b", OVERLAYS[overlay], params, Random(1))


@pytest.mark.spec("D-48")
def test_times_that_do_not_fit_are_warned_of_when_a_node_is_made() -> None:
    late = RoutingParams(repair="informed", unsubscribe_after=0.25, subscribe_after=0.15, reconnect_after=0.1)
    with pytest.warns(TimesWarning, match="raise subscribe_after"):
        make_parts("b", ScriptedParams(), late, Random(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitting = RoutingParams(repair="informed", unsubscribe_after=0.24, subscribe_after=0.15, reconnect_after=0.1)
        make_parts("b", ScriptedParams(), fitting, Random(1))


def test_a_client_that_subscribes_meanwhile_is_told_at_once() -> None:
    """The exception for own clients, which stands in the prose of the source alone (G-6)."""
    router = informed()
    came(router, "new", "r1")
    router.handle(2.1, Received("a", Activate("r1", "new", digests_of(["x = 1"]))))
    assert told_to(router.handle(2.2, Want(("client", 9), parse("x = 1"))), "new") == {"x = 1"}


def test_joined_neighbours_without_a_reconfiguration_are_told_everything_at_once() -> None:
    router = informed()
    assert "x = 1" in told_to(joined(router, "new"), "new")
