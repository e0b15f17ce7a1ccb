"""Laws of replaced links (dynamic-topologies.md 3.2.3, 3.6.2, 3.7), on random trees; and neighbours that lie."""

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.test_routing_repairs import ScriptedModel
from tests.worlds.brokers import random_tree, side_of
from tests.worlds.rewired import HOP, REPAIR_AFTER, SET_UP, WAIT, RewiredTree, golden_params
from tidings.machine.effects import Effect, Send
from tidings.machine.inputs import Input, Received
from tidings.model.filter import Filter
from tidings.nodes.dispatcher import Dispatcher
from tidings.protocols.overlay.scripted import AddNeighbour, RemoveNeighbour
from tidings.protocols.routing.messages import SubscriptionAdded, SubscriptionRemoved
from tidings.protocols.routing.params import RepairName
from tidings.protocols.routing.repairs.informed import digests_of, wanted_alone, wanted_without
from tidings.protocols.routing.repairs.messages import Activate, Flush, PathEdit, PathEdited
from tidings.protocols.routing.repairs.path import PathRepair
from tidings.protocols.routing.tables import Ghost
from tidings.sim.node import SimulatedNode
from tidings.sim.observers import Observer

PATTERNS = ("x = 1", "x = 2", "x = 3", "x = 8")
NAMES: tuple[RepairName, ...] = ("strawman", "timed", "notified", "informed", "path")
seeds = st.integers(0, 2**32)


class HeardMessages(Observer):
    """What each has received, in its order."""

    def __init__(self) -> None:
        self.kinds: dict[str, list[tuple[float, str]]] = {}

    def on_input(self, now: float, node: SimulatedNode, input: Input) -> None:
        if isinstance(input, Received):
            self.kinds.setdefault(node.id, []).append((now, type(input.message).__name__))


class FlushesLost(Dispatcher):
    """No `Flush` of it ever arrives."""

    def handle(self, now: float, input: Input) -> list[Effect]:
        effects = super().handle(now, input)
        return [each for each in effects if not (isinstance(each, Send) and isinstance(each.message, Flush))]


class Replaced:
    """A tree at rest, before and after one of its links was replaced."""

    def __init__(self, seed: int, kind: type[Dispatcher] = Dispatcher, **params: Any) -> None:
        rng = Random(seed)
        names = [f"d{place}" for place in range(rng.randint(3, 10))]
        rng.shuffle(names)
        self.heard = HeardMessages()
        self.tree = RewiredTree(random_tree(names, rng), golden_params(**params), observers=(self.heard,), kind=kind)
        for name in names:
            for text in PATTERNS:
                if rng.random() < 0.3:
                    self.tree.want(SET_UP / 2, name, text)
        self.tree.simulator.run(SET_UP)
        self.before, edges = self.tree.tables(), self.tree.edges
        old = rng.choice(edges)
        rest = [edge for edge in edges if edge != old]
        sides = side_of(rest, old[0]), side_of(rest, old[1])
        pairs = [(near, far) for near in sides[0] for far in sides[1] if {near, far} != {*old}]
        self.old, self.new = old, rng.choice(pairs)
        self.name = self.tree.replace(SET_UP, self.old, self.new)
        self.head = self.tree.way(self.old[0], self.new[0])
        self.tail = self.tree.way(self.new[1], self.old[1])
        self.tree.simulator.run(SET_UP + 1.0)
        self.after = self.tree.tables()

    def changed(self) -> set[str]:
        return {name for name in self.before if entries(self.before[name]) != entries(self.after[name])}

    def told(self) -> Counter[tuple[str, str, str, str]]:
        return Counter(
            (sender, to, type(message).__name__, message.filter)
            for kind in (SubscriptionAdded, SubscriptionRemoved)
            for sender, to, message in self.tree.sent.of(kind, since=SET_UP)
        )


def entries(table: dict[str, set[str]]) -> set[tuple[str, str]]:
    return {(neighbour, text) for neighbour, texts in table.items() for text in texts}


@pytest.mark.spec("D-63")
@given(seeds, st.sampled_from(NAMES))
def test_only_brokers_on_the_path_have_other_tables_afterwards(seed: int, repair: RepairName) -> None:
    play = Replaced(seed, repair=repair)
    assert play.after == play.tree.right_tables()
    assert play.changed() <= {*play.head, *play.tail}


@pytest.mark.spec("D-64")
@given(seeds)
def test_what_replaces_the_entries_of_one_end_is_on_its_side_of_the_path_alone(seed: int) -> None:
    play = Replaced(seed, repair="strawman")
    path = [*play.head, *play.tail]
    for name in play.after:
        new = entries(play.after[name]) - entries(play.before[name])
        if name in play.head:
            assert {neighbour for neighbour, _ in new} <= {path[path.index(name) + 1]}
        elif name in play.tail:
            assert {neighbour for neighbour, _ in new} <= {path[path.index(name) - 1]}
        else:
            assert not new


@pytest.mark.spec("D-54", "D-55", "D-56")
@given(seeds)
def test_edits_walk_once_along_the_path_and_nobody_else_changes_a_table(seed: int) -> None:
    play = Replaced(seed, repair="path")
    assert play.after == play.tree.right_tables()
    counts = play.tree.sent.count(since=SET_UP)
    head = play.head if play.old[0] < play.old[1] else play.tail
    assert counts["PathEdit"] == len(play.head) + len(play.tail) - 1
    assert counts["PathEdited"] == len(head) - 1
    assert play.changed() <= {*play.head, *play.tail}


@pytest.mark.spec("D-52")
@given(seeds)
def test_one_end_that_tells_for_both_does_as_well_as_two(seed: int) -> None:
    two, one = (Replaced(seed, repair="informed", activation=form) for form in ("symmetric", "asymmetric"))
    assert two.after == one.after == two.tree.right_tables()
    assert two.told() == one.told()
    # Of a link that is replaced alone there are no siblings.
    assert Replaced(seed, repair="informed", activation="siblings").after == two.after


@pytest.mark.spec("D-36")
@given(seeds)
def test_news_comes_to_the_ends_of_the_old_link_behind_all_that_the_new_one_has_told(seed: int) -> None:
    play = Replaced(seed, repair="notified")
    for end in play.old:
        heard = [kind for at, kind in play.heard.kinds.get(end, ()) if at >= SET_UP]
        assert heard.count("Flush") == 1, "each end of the new link has news for one end of the old"
        assert "SubscriptionAdded" not in heard[heard.index("Flush") :]


@pytest.mark.spec("D-38")
@given(seeds)
def test_where_all_news_is_lost_there_is_the_timer(seed: int) -> None:
    """Message by message, and at the same times, as with TDU."""
    timed, silent = Replaced(seed, repair="timed"), Replaced(seed, repair="notified", flush="none")
    lost = Replaced(seed, kind=FlushesLost, repair="notified")
    assert timed.tree.sent.sends == lost.tree.sent.sends == silent.tree.sent.sends
    assert timed.after == lost.after == silent.after


def paid(seed: int, **times: Any) -> int:
    """Filters that a replaced link makes to be told and taken back, without news."""
    return Replaced(seed, repair="informed", flush="none", **times).told().total()


@pytest.mark.spec("D-49")
def test_without_news_there_is_one_step_where_the_two_times_meet(examples: int) -> None:
    """Eq. 6.1: it is at T_u = T_s + t_rep, and T_s = T_u - t_rep, but for the time in which a filter spreads. In E8 and
    E9 the lab measures how high it is."""
    near, heights = 20 * HOP, set[bool]()
    for seed in range(max(8, examples // 10)):
        kept, early = paid(seed), paid(seed, subscribe_after=0.0)
        for rest in (near, 0.4):
            assert paid(seed, subscribe_after=WAIT - REPAIR_AFTER + rest) == kept
            assert paid(seed, unsubscribe_after=REPAIR_AFTER + WAIT + rest) == early
        for less in (near, 0.04):
            assert paid(seed, subscribe_after=WAIT - REPAIR_AFTER - less) == early
            assert paid(seed, unsubscribe_after=REPAIR_AFTER + WAIT - less) == kept
        assert kept <= early
        heights.add(kept < early)
    assert heights == {False, True}


@pytest.mark.spec("D-50", "D-51")
@given(seeds)
def test_one_end_knows_what_the_other_has_from_it_alone(seed: int) -> None:
    rng = Random(seed)
    model = ScriptedModel(rng, "informed", rng.randint(2, 8))
    for name in model.names:
        for number, text in enumerate(PATTERNS):
            if rng.random() < 0.3:
                model.want((name, number), text)
    model.world.rest()
    first, last = rng.choice(model.edges)
    sides = model.wanted_behind(first, last), model.wanted_behind(last, first)
    both = {text for text in PATTERNS if all(text in side for side in sides)}
    model.ask([(first, RemoveNeighbour(last, "r1")), (last, RemoveNeighbour(first, "r1"))])
    here, there = model.routers[first].tables, model.routers[last].tables
    ours, theirs = Ghost(last, "r1"), Ghost(first, "r1")
    assert set(wanted_without(here, ours)) == set(wanted_alone(there, theirs))
    alone = set(wanted_alone(here, ours))
    assert not alone & set(wanted_without(here, ours))
    assert not both & (alone | set(wanted_without(here, ours)))


class Believing(PathRepair):
    """The mutant: it believes what the next on the path said before it knew."""

    def pass_on(self, now: float, edit: PathEdit, place: int, filters: dict[str, Filter], effects: list[Any]) -> None:
        super().pass_on(now, edit, place, filters, effects)
        for link in self.subscriptions.links.values():
            link.disbelieves = None

    def check(self) -> None: ...


def goes_wrong(seed: int, make_repair: type[PathRepair] | None) -> bool:
    """Clients change their minds while the edits are on their way."""
    rng = Random(f"path {seed}")
    model = ScriptedModel(rng, "path", rng.randint(5, 9), make_repair=make_repair)

    def change_minds() -> None:
        for _ in range(rng.randint(1, 4)):
            key = rng.choice(model.names), rng.randrange(2)
            if key in model.wants:
                model.unwant(key)
            else:
                model.want(key, PATTERNS[key[1]])
            model.world.run(rng.randrange(4))

    try:
        for _ in range(4):
            change_minds()
            model.world.rest()
            for steps in model.plan():
                change_minds()
                model.ask(steps)
                if isinstance(steps[0][1], AddNeighbour):
                    model.link_all()
                    model.world.run(60)
            change_minds()
            model.world.settle()
            model.check_rest()
    except AssertionError:
        return True
    return False


@pytest.mark.spec("D-59")
def test_who_subscribes_meanwhile_is_served_and_would_not_be_without_disbelief() -> None:
    tried = range(40)
    assert not any(goes_wrong(seed, None) for seed in tried)
    assert any(goes_wrong(seed, Believing) for seed in tried)


# Neighbours that lie.


def lie(rng: Random, model: ScriptedModel, liar: str) -> Any:
    names, texts = [*model.names, "stranger"], (*PATTERNS, "x >= 0", "no filter at (all")
    reconfiguration = rng.choice(["r1", "r2", "r3", "other"])
    some = tuple(rng.sample(texts, rng.randint(0, 3)))
    match rng.randrange(4):
        case 0:
            return Flush(reconfiguration, rng.choice(names))
        case 1:
            onward = rng.choice([None, b"", digests_of(some), b"odd"])
            return Activate(reconfiguration, rng.choice(names), digests_of(some) + rng.choice([b"", b"odd"]), onward)
        case 2:
            path = tuple(rng.sample(names, rng.randint(2, len(names))))
            return PathEdit(reconfiguration, path, rng.randrange(len(path) + 2), some, tuple(rng.sample(texts, 2)))
    return PathEdited(reconfiguration, rng.random() < 0.5)


@pytest.mark.parametrize("repair", ["notified", "informed", "path"])
def test_a_neighbour_that_lies_makes_no_phantom_and_no_wrong_entry_that_lasts_elsewhere(
    repair: RepairName, examples: int
) -> None:
    for seed in range(max(10, examples // 50)):
        rng = Random(f"liar {repair} {seed}")
        model = ScriptedModel(rng, repair, rng.randint(3, 8))
        liar = rng.choice(model.names)
        for name in model.names:
            for number, text in enumerate(PATTERNS):
                if rng.random() < 0.3:
                    model.want((name, number), text)
        for _ in range(rng.randint(1, 3)):
            for steps in model.plan():
                for _ in range(rng.randint(0, 4)):
                    victim = rng.choice([name for name in model.names if name != liar])
                    model.world.tell(victim, Received(liar, lie(rng, model, liar)))
                    model.world.run(rng.randrange(4))
                model.ask(steps)
                model.world.run(rng.choice([0, 5, 50]))
            model.link_all()
        model.world.settle()
        for name, router in model.routers.items():
            assert set(router.links) == set(model.near(name)), "a phantom"
            assert not router.tables.ghosts
            for neighbour in router.links:
                # What the liar itself is taken to want, and what it hears, is its own affair.
                if liar not in (name, neighbour):
                    behind = side_of(model.edges, neighbour, without=name)
                    told = set(router.tables.texts[neighbour])
                    if liar not in behind:
                        assert told == wanted_at(model, behind), "a wrong entry lasts"
                    # Whoever is behind it depends on what it says of them.
                    rest = [edge for edge in model.edges if liar not in edge]
                    assert wanted_at(model, side_of(rest, neighbour, without=name)) <= told, "an entry is missing"


def wanted_at(model: ScriptedModel, brokers: list[str]) -> set[str]:
    return {text for broker, text in model.wants.values() if broker in brokers}
