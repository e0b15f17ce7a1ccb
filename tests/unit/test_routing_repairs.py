"""What a lost and a new link mean for the tables, one link at a time."""

from collections import Counter
from typing import ClassVar

import pytest

from tidings.machine.effects import Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Received
from tidings.machine.message import Message
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.model.language.parser import parse
from tidings.protocols.routing.messages import SubscriptionAdded, SubscriptionRemoved, TablesBegun
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.repairs.choice import MakeRepair
from tidings.protocols.routing.repairs.strawman import Strawman
from tidings.protocols.routing.repairs.timed import TimedRepair
from tidings.protocols.routing.router import Router
from tidings.protocols.routing.state import NO_NEIGHBOUR
from tidings.protocols.routing.subscriptions import RoutingSubscriptions
from tidings.protocols.routing.tables import Ghost
from tidings.pubsub.publications import encode_head
from tidings.pubsub.signals import Level, NeighbourDown, NeighbourReplaced, NeighbourUp, Want

HEAD = encode_head({"x": 1})
TOLD = {"n": ("x = 1", "x = 2", "x = 3", "x = 4"), "k": ("x = 2", "x = 5"), "m": ("x = 3", "x = 6")}
WANTED = ("x = 4", "x = 7")


def joined(router: Router, neighbour: str) -> list[Effect]:
    """The neighbour comes and begins its tables; what it is told."""
    effects = router.handle(0.0, NeighbourUp(neighbour, 1))
    return effects + router.handle(0.0, Received(neighbour, TablesBegun(1, router.lives)))


def router_with_neighbours(repair: MakeRepair = Strawman, **params: int) -> Router:
    """Neighbours n, k and m that want some patterns in common with others and some alone; so do our clients."""
    router = Router("me", RoutingParams("subscription", "plain", engine="plain", **params), repair)  # type: ignore[arg-type]
    for neighbour, texts in TOLD.items():
        joined(router, neighbour)
        for number, text in enumerate(texts, start=1):
            router.handle(0.0, Received(neighbour, SubscriptionAdded(number, text)))
    for number, text in enumerate(WANTED):
        router.handle(0.0, Want(("client", number), parse(text)))
    return router


def changes_told(effects: list[Effect], but: str = "") -> Counter[tuple[str, type, str]]:
    """The changes of filters that neighbours are told, each with how often."""
    return Counter(
        (effect.to, type(effect.message), effect.message.filter)
        for effect in effects
        if isinstance(effect, Send)
        and effect.to != but
        and isinstance(effect.message, SubscriptionAdded | SubscriptionRemoved)
    )


def told_by(router: Router, but: str) -> dict[str, set[str]]:
    return {name: set(link.filters) for name, link in router.links.items() if name != but}


@pytest.mark.spec("D-23")
def test_a_lost_neighbour_is_one_that_took_back_everything() -> None:
    losing, hearing = router_with_neighbours(), router_with_neighbours()
    lost = losing.handle(1.0, NeighbourDown("n", 1))
    heard: list[Effect] = []
    for number, text in enumerate(TOLD["n"], start=10):
        heard += hearing.handle(1.0, Received("n", SubscriptionRemoved(number, text)))
    assert changes_told(lost, but="n") == changes_told(heard, but="n")
    # x = 1 was wanted by nobody else; x = 2, 3 and 4 by one other each, who alone is told.
    removed = [("k", "x = 1"), ("m", "x = 1"), ("k", "x = 2"), ("m", "x = 3")]
    assert changes_told(lost) == Counter({(to, SubscriptionRemoved, text): 1 for to, text in removed})
    for name in ("k", "m"):
        assert losing.tables.texts[name] == hearing.tables.texts[name]
    assert losing.tables.hops == hearing.tables.hops
    assert told_by(losing, but="n") == told_by(hearing, but="n")
    losing.check()
    hearing.check()


@pytest.mark.spec("D-24")
def test_a_new_neighbour_is_told_each_pattern_once_and_none_that_it_alone_wants() -> None:
    router = router_with_neighbours()
    everything = {text for texts in (*TOLD.values(), WANTED) for text in texts}
    assert changes_told(joined(router, "new")) == Counter({("new", SubscriptionAdded, text): 1 for text in everything})
    # What it then wants alone is told to the others and not to it; what others want as well it knows already.
    told = router.handle(0.0, Received("new", SubscriptionAdded(1, "x = 9")))
    assert changes_told(told) == Counter({(name, SubscriptionAdded, "x = 9"): 1 for name in ("n", "k", "m")})
    assert changes_told(router.handle(0.0, Received("new", SubscriptionAdded(2, "x = 7")))) == Counter()
    # It comes anew without having been seen to go.
    again = router.handle(0.0, Received("new", TablesBegun(2, router.lives)))
    assert changes_told(again) == Counter(
        {("new", SubscriptionAdded, text): 1 for text in everything}
        | {(name, SubscriptionRemoved, "x = 9"): 1 for name in ("n", "k", "m")}
    )
    router.check()


# Ghosts.


def test_a_ghost_is_no_reason_to_tell_a_filter_and_one_to_leave_it_told() -> None:
    router = router_with_neighbours(TimedRepair)
    ghost = Ghost("n", "r1")
    lost = router.handle(1.0, NeighbourDown("n", 1, reconfiguration="r1"))
    assert changes_told(lost) == Counter() and SetTimer(("unsubscribe", ghost), 2.5) in lost
    assert list(router.tables.texts[ghost]) == list(TOLD["n"])
    told = changes_told(joined(router, "new"))
    assert ("new", SubscriptionAdded, "x = 1") not in told, "only the ghost wants it"
    assert told[("new", SubscriptionAdded, "x = 2")] == 1
    router.check()
    removed = changes_told(router.handle(2.0, Fired(("unsubscribe", ghost))))
    taken_back = [("k", "x = 1"), ("m", "x = 1"), ("k", "x = 2"), ("m", "x = 3")]
    assert removed == Counter({(to, SubscriptionRemoved, text): 1 for to, text in taken_back})
    assert not router.tables.ghosts
    router.check()


def test_no_event_goes_to_a_ghost() -> None:
    router = router_with_neighbours(TimedRepair)
    assert router.tables.link_index.match_heads_links([HEAD]) == [("n",)]
    router.handle(1.0, NeighbourDown("n", 1))
    assert router.tables.link_index.match_heads_links([HEAD]) == [()]


def test_more_ghosts_than_are_allowed_settle_the_oldest_first() -> None:
    router = router_with_neighbours(TimedRepair, ghosts_max=1)
    router.handle(1.0, NeighbourDown("n", 1, reconfiguration="r1"))
    told = changes_told(router.handle(1.0, NeighbourDown("k", 1, reconfiguration="r2")))
    assert list(router.tables.ghosts) == [Ghost("k", "r2")]
    assert told[("m", SubscriptionRemoved, "x = 1")] == 1
    assert router.handle(2.0, Fired(("unsubscribe", Ghost("n", "r1")))) == []
    router.check()


def test_a_router_started_again_remembers_no_ghosts() -> None:
    router = router_with_neighbours(TimedRepair)
    router.handle(1.0, NeighbourDown("n", 1))
    router.start(5.0)
    assert not router.tables.ghosts and router.tables.filters.keys() == set(WANTED)
    router.check()


# What a repair hears.


class Poke(Message, frozen=True):
    about: str


class Listening(Strawman):
    """Hears from everybody, and notes what it is told."""

    needs: ClassVar[Level] = Level.PATHS
    messages: ClassVar[tuple[type[Message], ...]] = (Poke,)

    def __init__(self, subscriptions: RoutingSubscriptions) -> None:
        super().__init__(subscriptions)
        self.heard: list[object] = []

    def replaced(self, now: float, replaced: NeighbourReplaced) -> list[Effect]:
        self.heard.append(replaced)
        return [Send(replaced.near, Poke(replaced.reconfiguration))]

    def receive(self, now: float, sender: NodeId, message: Message) -> list[Effect]:
        self.heard.append((sender, message))
        return []


def listening() -> tuple[Router, Listening]:
    router = Router("me", RoutingParams(engine="plain"), Listening)
    assert isinstance(router.repair, Listening)
    return router, router.repair


def test_a_repair_hears_its_own_messages_from_everybody_and_nobody_else_does() -> None:
    router, repair = listening()
    assert Poke in router.messages and Poke not in Router("me").messages
    assert router.handle(0.0, Received("stranger", Poke("r1"))) == []
    assert repair.heard == [("stranger", Poke("r1"))]
    message = SubscriptionAdded(1, "x = 1")
    assert router.handle(0.0, Received("stranger", message)) == [Drop(message, NO_NEIGHBOUR)]
    assert Router("me").handle(0.0, Received("stranger", Poke("r1"))) == [Drop(Poke("r1"), NO_NEIGHBOUR)]


def test_a_repair_hears_which_link_replaces_which() -> None:
    router, repair = listening()
    replaced = NeighbourReplaced("r1", "n", "near", "far", ("me", "near", "far", "n"))
    assert router.handle(0.0, replaced) == [Send("near", Poke("r1"))]
    assert repair.heard == [replaced]


def test_what_a_repair_holds_back_is_told_when_it_lets_go() -> None:
    router = router_with_neighbours()
    router.handle(0.0, NeighbourUp("new", 1, "r1"))
    link = router.links["new"]
    assert link.reconfiguration == "r1"
    link.holds_back = lambda text: text in ("x = 1", "x = 2")
    told = changes_told(router.handle(0.0, Received("new", TablesBegun(1, router.lives))))
    assert ("new", SubscriptionAdded, "x = 1") not in told and ("new", SubscriptionAdded, "x = 3") in told
    router.check()
    link.holds_back = None
    effects: list[Effect] = []
    router.subscriptions.reconcile_link(0.0, link, ("x = 1", "x = 2"), effects)
    assert changes_told(router.state.outbox.take()) == Counter(
        {("new", SubscriptionAdded, text): 1 for text in ("x = 1", "x = 2")}
    )
    router.check()


def test_a_router_refuses_an_overlay_that_tells_too_little_and_says_what_fits() -> None:
    router, _ = listening()
    router.check_overlay("scripted", Level.PATHS, is_tree=True)
    with pytest.raises(UsageError, match=r"all brokers between .* use one of: strawman\b"):
        router.check_overlay("spanning-tree", Level.LINKS, is_tree=True)
    with pytest.raises(UsageError, match="needs links that form a tree"):
        Router("me").check_overlay("all-peers", Level.LINKS, is_tree=False)
