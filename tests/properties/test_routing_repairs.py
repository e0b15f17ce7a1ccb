"""Repairs on random trees whose links are replaced: whatever is deferred, the tables are right in the end."""

from itertools import count, product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.test_routing import REDUCTIONS, STRATEGIES, act, change_links
from tests.worlds.brokers import BrokerWorld, Edge, random_tree, side_of
from tests.worlds.routers import RoutingModel
from tidings.machine.node import Node
from tidings.protocols.overlay.scripted import ScriptedOverlay, ScriptedParams, Step, rewiring
from tidings.protocols.routing.params import ActivationName, FlushName, ReductionName, RepairName, StrategyName
from tidings.protocols.routing.repairs.choice import MakeRepair
from tidings.protocols.routing.repairs.strawman import Strawman
from tidings.protocols.routing.repairs.timed import TimedRepair
from tidings.pubsub.signals import LinkUnwanted, LinkWanted, PeerDown, PeerUp

REPAIRS: tuple[MakeRepair, ...] = (Strawman, TimedRepair)
seeds = st.integers(0, 2**32)
PATTERNS = ("x = 1", "x = 2", "x = 3", "x = 8")

Tables = dict[str, dict[str, list[str]]]


def tables_of(model: RoutingModel) -> Tables:
    """For each broker and neighbour the patterns that are wanted there."""
    return {
        name: {neighbour: sorted(router.tables.texts[neighbour]) for neighbour in sorted(router.links)}
        for name, router in model.routers.items()
    }


def right_tables(model: RoutingModel) -> Tables:
    """INV-R2: a pattern is wanted of a neighbour just when a broker on its side has a client that wants it."""
    near: dict[str, list[str]] = {name: [] for name in model.names}
    for first, second in model.edges:
        near[first].append(second)
        near[second].append(first)
    return {
        name: {
            neighbour: sorted(
                {
                    text
                    for broker, text in model.wants.values()
                    if broker in side_of(model.edges, neighbour, without=name)
                }
            )
            for neighbour in sorted(near[name])
        }
        for name in model.names
    }


def subscribed(rng: Random, size: int, repair: MakeRepair, checks: bool = True) -> RoutingModel:
    """A random tree at rest, in which each broker's clients want some patterns."""
    model = RoutingModel(rng, "subscription", "plain", size, checks=checks, make_repair=repair)
    for name in model.names:
        for number, text in enumerate(PATTERNS):
            if rng.random() < 0.3:
                model.want((name, number), text)
    model.world.rest()
    return model


def draw_substitution(model: RoutingModel, rng: Random) -> tuple[tuple[str, str], tuple[str, str]]:
    """A link of the tree, and another that joins what it joined."""
    old = rng.choice(model.edges)
    rest = [edge for edge in model.edges if edge != old]
    new = rng.choice(side_of(rest, old[0])), rng.choice(side_of(rest, old[1]))
    return old, new


def connect(model: RoutingModel, rng: Random) -> None:
    """Add links until the rest of the tree is a tree again."""
    while len(reached := side_of(model.edges, model.names[0])) < len(model.names):
        first = rng.choice(reached)
        second = rng.choice([name for name in model.names if name not in reached])
        model.world.link(first, second)
        model.edges.append((first, second))


@given(seeds)
def test_after_any_substitutions_that_end_in_a_tree_every_table_is_right(seed: int) -> None:
    for repair in REPAIRS:
        rng = Random(seed)
        model = subscribed(rng, rng.randint(2, 10), repair)
        for _ in range(rng.randint(1, 6)):
            for edge in rng.sample(model.edges, min(len(model.edges), rng.randint(1, 2))):
                model.world.cut(*edge)
                model.edges.remove(edge)
            model.world.run(rng.choice([0, 3, 50]))
            if model.world.timers and rng.random() < 0.3:
                model.world.fire()
            connect(model, rng)
            model.world.run(rng.choice([0, 3, 50]))
        model.world.settle()
        assert tables_of(model) == right_tables(model)
        assert not any(router.tables.ghosts for router in model.routers.values())


@pytest.mark.spec("D-26")
@given(seeds)
def test_it_does_not_matter_whether_the_loss_or_the_gain_is_told_first(seed: int) -> None:
    for repair in REPAIRS:
        results = []
        for is_loss_first in (True, False):
            rng, changes = Random(seed), Random(seed)
            model = subscribed(rng, rng.randint(3, 9), repair)
            for _ in range(3):
                old, new = draw_substitution(model, changes)
                while set(old) == set(new):
                    old, new = draw_substitution(model, changes)
                if is_loss_first:
                    model.world.cut(*old)
                model.world.link(*new)
                if not is_loss_first:
                    model.world.cut(*old)
                model.edges.remove(old)
                model.edges.append(new)
                model.world.settle()
            assert tables_of(model) == right_tables(model)
            results.append(tables_of(model))
        assert results[0] == results[1]


@pytest.mark.parametrize(("strategy", "reduction"), list(product(STRATEGIES, REDUCTIONS)))
def test_a_repair_that_defers_is_right_with_every_strategy_and_reduction(
    strategy: StrategyName, reduction: ReductionName, examples: int
) -> None:
    for seed in range(max(6, examples // 100)):
        rng = Random(f"deferred {seed}")
        model = RoutingModel(rng, strategy, reduction, rng.randint(2, 7), checks=True, make_repair=TimedRepair)
        for _ in range(rng.randint(5, 30)):
            act(model, rng)
            if rng.random() < 0.3:
                change_links(model, rng)
            model.world.run(rng.choice([0, 0, 1, 3, 30]))
            if model.world.timers and rng.random() < 0.2:
                model.world.fire()
        model.world.settle()
        model.check_rest()
        model.check_deliveries()


def way_between(edges: list[Edge], first: str, last: str) -> list[str]:
    """The brokers from one to the other in a tree, both included."""
    if first == last:
        return [first]
    for second in [b if a == first else a for a, b in edges if first in (a, b)]:
        if last in side_of(edges, second, without=first):
            return [first, *way_between([edge for edge in edges if first not in edge], second, last)]
    raise AssertionError("no way")


class ScriptedModel(RoutingModel):
    """Brokers of a scripted overlay and routing, all with streams to all; somebody plans where the tree goes. `edges`
    is the tree as it is planned."""

    def __init__(
        self,
        rng: Random,
        repair: RepairName,
        size: int,
        strategy: StrategyName = "subscription",
        reduction: ReductionName = "plain",
        **params: object,
    ) -> None:
        super().__init__(rng, strategy, reduction, size, edges=[], repair=repair, **params)  # type: ignore[arg-type]
        self.edges = random_tree(self.names, rng)
        self.parents = {}
        nodes = {
            name: Node(
                {"overlay": ScriptedOverlay(name, ScriptedParams(self.near(name))), "routing": router},
                tells=(LinkWanted, LinkUnwanted, *router.tells),
            )
            for name, router in self.routers.items()
        }
        self.world = BrokerWorld(dict(nodes), rng, PeerUp, PeerDown, checks=True)
        self.world.listen = self.hear
        self.changes = count(1)
        self.removed: list[set[str]] = []
        """Links that were let go, until that is done."""
        for place, name in enumerate(self.names):
            for other in self.names[:place]:
                self.world.link(name, other)
        self.world.rest()

    def near(self, name: str) -> tuple[str, ...]:
        return tuple(b if a == name else a for a, b in self.edges if name in (a, b))

    def plan(self) -> list[list[Step]]:
        """One link that is up is replaced by another: what is to be asked of whom, in phases. A script that asks again
        for what it has just let go, or the other way round, does not know what it gets."""
        up = [(a, b) for a, b in self.edges if b in self.routers[a].links and a in self.routers[b].links]
        if not up:
            return []
        old = self.rng.choice(up)
        rest = [edge for edge in self.edges if edge != old]
        near, far = self.rng.choice(side_of(rest, old[0])), self.rng.choice(side_of(rest, old[1]))
        if far in self.routers[near].links or near in self.routers[far].links or {near, far} in self.removed:
            return []
        self.removed.append({*old})
        self.edges = rest
        head, tail = way_between(self.edges, old[0], near), way_between(self.edges, far, old[1])
        self.edges.append((near, far))
        return list(rewiring(f"r{next(self.changes)}", head, tail))

    def ask(self, steps: list[Step]) -> None:
        for name, request in steps:
            self.world.tell(name, request)

    def is_linked(self) -> bool:
        return all(set(router.links) == set(self.near(name)) for name, router in self.routers.items())

    def link_all(self) -> None:
        """Until the overlay has carried out what was asked."""
        while not self.is_linked():
            assert self.world.step(), "the overlay does not come to what was planned"
        self.removed.clear()

    def check_end(self) -> None:
        self.world.settle()
        assert not any(router.tables.ghosts for router in self.routers.values())
        self.check_rest()
        self.check_deliveries()


NAMES: tuple[RepairName, ...] = ("strawman", "timed", "notified", "informed", "path")
FITTING = [
    (strategy, reduction)
    for strategy, reduction in product(STRATEGIES, REDUCTIONS)
    if strategy in ("subscription", "advertisement")
]


def play_one_by_one(model: ScriptedModel, is_acting: bool) -> None:
    """Links are replaced one after the other, and while routing repairs its tables clients do what they like."""
    for _ in range(model.rng.randint(3, 12)):
        act(model, model.rng)
    model.world.rest()
    for _ in range(model.rng.randint(1, 4)):
        model.world.rest()
        phases = model.plan()
        if not phases:
            continue
        broken, linked, told = phases
        model.ask(broken)
        for steps in (linked, told):
            for _ in range(model.rng.choice([0, 1, 3]) if is_acting else 0):
                act(model, model.rng)
                model.world.run(model.rng.choice([0, 1, 5]))
            model.world.run(model.rng.choice([0, 5, 100]))
            model.ask(steps)
            if steps is linked:
                model.link_all()
        for _ in range(model.rng.choice([0, 2, 5]) if is_acting else 0):
            model.world.run(model.rng.choice([0, 1, 2, 5]))
            act(model, model.rng)
        while model.world.timers and model.rng.random() < 0.3:
            model.world.fire()
    model.check_end()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("strategy", "reduction"), FITTING)
def test_every_repair_leaves_right_tables_with_every_strategy_and_reduction(
    name: RepairName, strategy: StrategyName, reduction: ReductionName, examples: int
) -> None:
    """The oracle is the one that sees everything, with covering and merging as without (3.2.5)."""
    for seed in range(max(3, examples // 100)):
        rng = Random(f"{name} {strategy} {reduction} {seed}")
        flush: FlushName = "path" if name == "path" and seed % 2 else "flood"
        activation: ActivationName = ("asymmetric", "symmetric", "siblings")[seed % 3]
        size, turn = rng.randint(2, 8), rng.choice([1, 3, 64])
        model = ScriptedModel(
            *(rng, name, size, strategy, reduction), flush=flush, activation=activation, turn_entries=turn
        )
        play_one_by_one(model, is_acting=True)


@pytest.mark.spec("D-25", "D-32")
@pytest.mark.parametrize("name", NAMES)
def test_overlapping_replacements_leave_right_tables(name: RepairName, examples: int) -> None:
    """Up to eight links are under replacement at the same time, with (un)subscriptions and publications in between, and
    timers fire at any moment. `test_repairs_in_time.py` has 400 changes a second in time."""
    for seed in range(max(12, examples // 30)):
        rng = Random(f"overlapping {name} {seed}")
        model = ScriptedModel(rng, name, rng.randint(3, 12), turn_entries=rng.choice([1, 3, 64]))
        for _ in range(5):
            act(model, rng)
        waiting: list[list[list[Step]]] = []
        for _ in range(rng.randint(4, 24)):
            if rng.random() < 0.5 and len(waiting) < 8 and (phases := model.plan()):
                waiting.append(phases)
            if waiting:
                phases = rng.choice(waiting)
                model.ask(phases.pop(0))
                waiting = [each for each in waiting if each]
            if rng.random() < 0.5:
                act(model, rng)
            model.world.run(rng.choice([0, 1, 3, 30]))
            if model.world.timers and rng.random() < 0.3:
                model.world.fire()
        for phases in waiting:
            for steps in phases:
                model.ask(steps)
                model.world.run(rng.choice([0, 1, 3]))
        model.check_end()
