"""Large tables of lost neighbours are forgotten in turns, whatever the repair, and nothing goes there meanwhile."""

from collections import Counter

import pytest

from tests.unit.test_routing_repairs import HEAD, joined
from tidings.machine.effects import Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Received
from tidings.protocols.routing.messages import (
    SubscriptionAdded,
    SubscriptionRemoved,
    TableChanges,
    TablesBegun,
    TablesTaken,
)
from tidings.protocols.routing.packets import changes_of
from tidings.protocols.routing.params import RepairName, RoutingParams
from tidings.protocols.routing.repairs.informed import wanted_alone, wanted_without
from tidings.protocols.routing.router import Router
from tidings.protocols.routing.tables import Ghost
from tidings.pubsub.publications import Publications
from tidings.pubsub.signals import NeighbourDown, NeighbourUp

FILTERS, TURN, COMMON = 300, 16, 10
TEXTS = [f"x = {number}" for number in range(FILTERS)]
WAITING: tuple[RepairName, ...] = ("timed", "notified", "informed")
EVERY: tuple[RepairName, ...] = ("strawman", *WAITING)


class TableDesk:
    """n wants all of them, k and m the first ten of them as well; timers are fired by hand."""

    def __init__(self, repair: RepairName, wait: float = 1.5) -> None:
        params = RoutingParams(
            *("subscription", "plain"),
            repair=repair,
            engine="plain",
            turn_entries=TURN,
            unsubscribe_after=wait,
            advertises=False,
        )
        self.router, self.now, self.timers = Router("me", params), 0.0, dict[object, float]()
        for name, texts in {"n": TEXTS, "k": TEXTS[:COMMON], "m": TEXTS[:COMMON]}.items():
            self.take(joined(self.router, name))
            for number, text in enumerate(texts, start=1):
                self.take(self.router.handle(0.0, Received(name, SubscriptionAdded(number, text))))
        self.turns()

    def take(self, effects: list[Effect]) -> Counter[type]:
        told: Counter[type] = Counter()
        for effect in effects:
            match effect:
                case SetTimer(key, at):
                    self.timers[key] = at
                case Send(_, SubscriptionAdded() | SubscriptionRemoved() as message):
                    told[type(message)] += 1
                case Send(_, TableChanges() as message):
                    told.update(type(change) for change in changes_of(message))
        return told

    def turns(self) -> list[Counter[type]]:
        """Until nothing is left to do; what was told in each of them. Neighbours take whatever they are told."""
        steps = []
        while self.timers.pop("turn", None) is not None:
            self.now += 0.001
            steps.append(self.take(self.router.handle(self.now, Fired("turn"))))
            self.router.check()
            for name, link in list(self.router.links.items()):
                taken = TablesTaken(link.flow.window.sent_bytes)
                self.take(self.router.handle(self.now, Received(name, taken)))
        return steps

    def lose(self, reconfiguration: str = "r1") -> Counter[type]:
        return self.take(self.router.handle(self.now, NeighbourDown("n", 1, reconfiguration=reconfiguration)))

    def expire(self) -> Counter[type]:
        (key,) = [key for key in self.timers if isinstance(key, tuple) and key[0] == "unsubscribe"]
        self.now = self.timers.pop(key)
        return self.take(self.router.handle(self.now, Fired(key)))


@pytest.mark.parametrize("repair", EVERY)
@pytest.mark.parametrize("is_parted", [False, True], ids=["at once", "when all is the ghost's"])
def test_no_step_takes_back_more_than_a_turn_and_in_the_end_all_is_taken_back(
    repair: RepairName, is_parted: bool
) -> None:
    desk = TableDesk(repair)
    steps = [desk.lose()]
    if is_parted:
        steps += desk.turns()
    if repair != "strawman":
        assert not sum(steps, Counter()), "nothing is taken back yet"
        steps.append(desk.expire())
    steps += desk.turns()
    assert max(step[SubscriptionRemoved] for step in steps) <= 2 * TURN
    # k and m told each other's ten; the rest came from n alone.
    assert sum(steps, Counter()) == {SubscriptionRemoved: 2 * (FILTERS - COMMON)}
    assert desk.router.tables.texts.keys() == {None, "k", "m"} and not desk.router.tables.ghosts
    assert len(steps) >= FILTERS // TURN


@pytest.mark.parametrize("repair", EVERY)
def test_no_event_goes_to_a_neighbour_that_is_being_forgotten(repair: RepairName) -> None:
    desk = TableDesk(repair)
    desk.lose()
    batch = Publications("p", "p", 1.0, 0, (1,), (HEAD,), (b"",))
    sent = [each.to for each in desk.router.handle(desk.now, Received("k", batch)) if isinstance(each, Send)]
    assert "m" in sent and "n" not in sent


@pytest.mark.parametrize("repair", EVERY)
def test_one_that_is_back_in_the_middle_begins_anew(repair: RepairName) -> None:
    desk = TableDesk(repair)
    desk.lose()
    desk.take(desk.router.handle(desk.now, Fired("turn")))
    desk.take(joined_again(desk))
    desk.router.check()
    assert not desk.router.tables.texts["n"] and not desk.router.tables.parting
    desk.take(desk.router.handle(desk.now, Received("n", SubscriptionAdded(1, TEXTS[-1]))))
    if repair != "strawman":
        desk.expire()
    desk.turns()
    assert list(desk.router.tables.texts["n"]) == [TEXTS[-1]] and not desk.router.tables.ghosts
    assert set(desk.router.links["k"].filters) == {*TEXTS[:COMMON], TEXTS[-1]}


def joined_again(desk: TableDesk) -> list[Effect]:
    up = desk.router.handle(desk.now, NeighbourUp("n", 2))
    return [*up, *desk.router.handle(desk.now, Received("n", TablesBegun(7, desk.router.lives)))]


@pytest.mark.parametrize("repair", WAITING)
def test_what_a_repair_asks_of_a_ghost_does_not_depend_on_how_far_it_is(repair: RepairName) -> None:
    ghost, found = Ghost("n", "r1"), []
    for turns in (0, 3, 1000):
        desk = TableDesk(repair)
        desk.lose()
        for _ in range(turns):
            if desk.timers.pop("turn", None) is None:
                break
            desk.take(desk.router.handle(desk.now, Fired("turn")))
        tables = desk.router.tables
        found.append((set(wanted_alone(tables, ghost)), set(wanted_without(tables, ghost))))
    assert found[0] == found[1] == found[2]
    assert found[0] == (set(TEXTS[COMMON:]), set())
