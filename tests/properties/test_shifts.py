"""Links that take each other's place while clients do what they like: nothing is lost, doubled or overtaken."""

from itertools import count, product
from random import Random
from typing import Any

import pytest

from tests.properties.test_routing import REDUCTIONS, PromisingModel, act
from tests.properties.test_routing_repairs import ScriptedModel
from tidings.machine.effects import Note
from tidings.machine.inputs import Signal
from tidings.machine.message import Contact
from tidings.planning.concurrency import TreeSides
from tidings.planning.operations import shift
from tidings.planning.tree import link
from tidings.protocols.routing.params import ReductionName, StrategyName
from tidings.protocols.routing.repairs.shift import NAME
from tidings.pubsub.signals import NeighbourWanted, ShiftBegun, ShiftOver, ShiftStopped

SHIFTED_IN = 60.0
FITTING: list[tuple[StrategyName, ReductionName]] = list(product(("subscription", "advertisement"), REDUCTIONS))


class ShiftingModel(PromisingModel, ScriptedModel):
    """Brokers whose links move one end at a time, as a plan moves them."""

    def __init__(self, rng: Random, size: int, *more: Any, **params: Any) -> None:
        self.shifts = count(1)
        self.over: dict[str, dict[str, ShiftOver]] = {}
        self.under_way: dict[str, tuple[str, str, str]] = {}
        super().__init__(rng, "shift", size, *more, **params)

    def hear(self, name: str, signal: Signal | Note) -> None:
        super().hear(name, signal)
        if isinstance(signal, ShiftOver):
            assert name not in self.over.setdefault(signal.shift, {}), "a shift was over twice"
            self.over[signal.shift][name] = signal

    def publish(self, advertisement: str, places: list[int], receipt: bool = False) -> int | None:
        """Nobody can be asked for a receipt who does not know the advertisement yet."""
        is_known = self.offer_tickets[advertisement] in self.settled
        return super().publish(advertisement, places, receipt and is_known)

    def draw_shift(self) -> tuple[str, str, str] | None:
        """A mover, an old and a new neighbour; beside others that are under way, where a deployer would have it so."""
        under_way = [
            shift(*drawn) for name, drawn in self.under_way.items() if len(self.over.get(name, {})) < len(drawn)
        ]
        # On which side of one that is under way somebody is can be asked of the old link as well as of the new one.
        links = {link(*each) for each in self.edges} | {link(*each.brokers[:2]) for each in under_way}
        sides = TreeSides(sorted(links - {link(each.brokers[0], each.brokers[2]) for each in under_way}))
        possible = [
            (mover, old, new)
            for a, b in self.edges
            for mover, old in ((a, b), (b, a))
            for new in self.near(old)
            if new != mover
            and self.is_quiet(mover, old, new)
            and all(sides.do_fit(shift(mover, old, new), other) for other in under_way)
        ]
        return self.rng.choice(possible) if possible else None

    def is_quiet(self, *names: str) -> bool:
        """Whether earlier shifts have let go of their links."""
        return all(set(self.routers[name].links) == set(self.near(name)) for name in names) and not any(
            self.routers[name].repair.stands_in(other) for name in names for other in names
        )

    def begin_shift(self) -> str | None:
        drawn = self.draw_shift()
        if drawn is None:
            return None
        mover, old, new = drawn
        name = f"{NAME}{next(self.shifts)}"
        self.under_way[name] = drawn
        begun = ShiftBegun(name, mover, old, new, SHIFTED_IN)
        for broker in self.rng.sample(drawn, 3):
            self.world.tell(broker, begun)
            self.world.run(self.rng.choice([0, 1]))
        self.world.tell(mover, NeighbourWanted(Contact(new), name))
        self.edges.remove((mover, old) if (mover, old) in self.edges else (old, mover))
        self.edges.append((mover, new))
        return name

    def check_promises(self) -> None:
        for key, owed in self.owed.items():
            missed = set(owed) - set(self.delivered.get(key, []))
            assert not missed, f"{key} did not get {sorted(missed)}"
        assert [settled for settled in self.settled.values() if settled.problem] == []
        assert len(self.settled) >= len(self.wants)

    def check_shifts(self) -> None:
        for name, brokers in self.under_way.items():
            assert sorted(self.over[name]) == sorted(brokers)
            assert all(over.is_done for over in self.over[name].values()), self.over[name]


def play(model: ShiftingModel, rng: Random) -> None:
    for _ in range(rng.randint(3, 12)):
        act(model, rng)
    model.world.run(rng.choice([0, 10, 1000]))
    for _ in range(rng.randint(5, 30)):
        if rng.random() < 0.3:
            model.begin_shift()
        for _ in range(rng.choice([0, 1, 3])):
            act(model, rng)
            model.world.run(rng.choice([0, 0, 1, 3, 30]))
        # Nobody waits so long in between that an acknowledgement which is under way counts as missing.
        if min(model.world.timers.values(), default=SHIFTED_IN) < model.world.now + 1.0 and rng.random() < 0.4:
            model.world.fire()


@pytest.mark.spec("S-90")
@pytest.mark.parametrize(("strategy", "reduction"), FITTING)
def test_shifts_under_load_lose_nothing_double_nothing_and_keep_the_order(
    strategy: StrategyName, reduction: ReductionName, examples: int
) -> None:
    for seed in range(max(8, examples // 20)):
        rng = Random(f"shift {strategy} {reduction} {seed}")
        turn = rng.choice([1, 3, 64])
        model = ShiftingModel(rng, rng.randint(3, 9), strategy, reduction, turn_entries=turn)
        play(model, rng)
        model.world.settle()
        model.check_shifts()
        model.check_promises()


@pytest.mark.spec("S-91")
@pytest.mark.parametrize(("strategy", "reduction"), FITTING)
def test_after_shifts_routing_is_that_of_a_fresh_overlay_on_the_new_tree(
    strategy: StrategyName, reduction: ReductionName, examples: int
) -> None:
    for seed in range(max(8, examples // 20)):
        rng = Random(f"shifted {strategy} {reduction} {seed}")
        model = ShiftingModel(rng, rng.randint(3, 9), strategy, reduction, turn_entries=rng.choice([1, 3, 64]))
        play(model, rng)
        model.check_end()
        model.check_shifts()


@pytest.mark.spec("S-92")
def test_a_shift_that_is_stopped_before_it_is_decided_leaves_the_old_tree_working(examples: int) -> None:
    for seed in range(max(30, examples // 5)):
        rng = Random(f"stopped {seed}")
        model = ShiftingModel(rng, rng.randint(3, 7), "advertisement", "plain")
        for _ in range(rng.randint(3, 12)):
            act(model, rng)
        model.world.rest()
        before = list(model.edges)
        begun = model.begin_shift()
        if begun is None:
            continue
        for _ in range(rng.randint(0, 40)):
            if rng.random() < 0.3:
                act(model, rng)
            if not model.world.step() and model.world.timers:
                model.world.fire()
        model.world.tell(rng.choice(model.under_way[begun]), ShiftStopped(begun, "for the test"))
        model.world.settle()
        over = model.over[begun]
        assert len({each.is_done for each in over.values()}) == 1, "done at one broker, and not at another"
        if not over[model.under_way[begun][0]].is_done:
            model.edges = before
        model.check_promises()
        model.check_end()
