"""Routing against one who sees everything, under random interleavings."""

from itertools import product
from random import Random
from typing import Any

import pytest

from tests.worlds.brokers import side_of
from tests.worlds.routers import TEXTS, RoutingModel, events_of, filter_of
from tidings.protocols.routing.params import ReductionName, StrategyName
from tidings.pubsub.signals import SubscriptionKey, Want

STRATEGIES: tuple[StrategyName, ...] = ("flooding", "subscription", "hierarchical", "advertisement")
REDUCTIONS: tuple[ReductionName, ...] = ("plain", "covering", "merging")
combinations = pytest.mark.parametrize(("strategy", "reduction"), list(product(STRATEGIES, REDUCTIONS)))

SEEDS_MIN = 8
TESTS = 3


def seeds(examples: int) -> range:
    """The examples asked for are shared among the combinations and the three tests that try all of them."""
    return range(max(SEEDS_MIN, -(-examples // (len(STRATEGIES) * len(REDUCTIONS) * TESTS))))


def act(model: RoutingModel, rng: Random) -> None:
    """Somebody does something."""
    kind = rng.random()
    name = rng.choice(model.names)
    if kind < 0.35:
        model.want((name, rng.randrange(4)), rng.choice(TEXTS))
    elif kind < 0.5 and model.wants:
        model.unwant(rng.choice(list(model.wants)))
    elif kind < 0.65 and len(model.offers) < 6:
        model.offer(name, f"p{next(model.tickets)}", rng.choice(TEXTS))
    elif kind < 0.75 and model.offers:
        model.unoffer(rng.choice(list(model.offers)))
    elif model.offers:
        advertisement = rng.choice(list(model.offers))
        places = sorted(events_of(model.offers[advertisement][1]))
        model.publish(advertisement, [rng.choice(places) for _ in range(rng.randint(1, 4))], receipt=rng.random() < 0.5)


def change_links(model: RoutingModel, rng: Random) -> None:
    """A link breaks or leaves the tree, and what it joined is joined again, perhaps elsewhere, perhaps at once."""
    first, second = edge = rng.choice(model.edges)
    is_soft = rng.random() < 0.3
    (model.world.leave if is_soft else model.world.cut)(first, second)
    model.edges.remove(edge)
    if rng.random() < 0.7:
        model.world.run(rng.randrange(20))
    if is_soft:
        model.world.join(first, second)
    else:
        if model.strategy != "hierarchical":
            first = rng.choice(side_of(model.edges, first))
            second = rng.choice(side_of(model.edges, second))
        model.world.link(first, second)
    model.edges.append((first, second))


@pytest.mark.spec("D-11", "D-12", "D-13", "D-16", "D-18", "D-19", "S-4", "S-5", "S-8", "S-9", "S-10")
@combinations
def test_at_rest_every_table_is_right_and_everything_is_delivered_once(
    strategy: StrategyName, reduction: ReductionName, examples: int
) -> None:
    for seed in seeds(examples):
        rng = Random(f"storm {seed}")
        model = RoutingModel(rng, strategy, reduction, rng.randint(1, 8), checks=seed % 4 == 0)
        for _ in range(rng.randint(5, 40)):
            act(model, rng)
            model.world.run(rng.choice([0, 0, 1, 3, 30]))
        model.world.rest()
        assert not model.world.timers
        model.check_rest()
        model.check_deliveries()
        assert all(not settled.problem for settled in model.settled.values())


@combinations
def test_whatever_happened_to_the_links_the_tables_are_right_when_it_is_over(
    strategy: StrategyName, reduction: ReductionName, examples: int
) -> None:
    for seed in seeds(examples):
        rng = Random(f"links {seed}")
        model = RoutingModel(rng, strategy, reduction, rng.randint(2, 7), checks=seed % 4 == 0)
        for _ in range(rng.randint(5, 30)):
            act(model, rng)
            if rng.random() < 0.3:
                change_links(model, rng)
            model.world.run(rng.choice([0, 0, 1, 3, 30]))
        model.world.settle()
        model.check_rest()
        model.check_deliveries()


@combinations
def test_without_acknowledgements_tables_and_deliveries_are_the_same(
    strategy: StrategyName, reduction: ReductionName, examples: int
) -> None:
    for seed in seeds(examples)[: SEEDS_MIN // 2]:
        rng = Random(f"silent {seed}")
        model = RoutingModel(
            rng, strategy, reduction, rng.randint(2, 7), checks=True, acknowledges=False, repair="strawman"
        )
        for _ in range(rng.randint(5, 30)):
            tickets = len(model.settled)
            act(model, rng)
            assert not model.world.timers and len(model.settled) >= tickets
            if rng.random() < 0.3:
                change_links(model, rng)
            model.world.run(rng.choice([0, 0, 1, 3, 30]))
        model.world.rest()
        model.check_rest()
        model.check_deliveries()
        kinds = {kind for _, _, kind in model.world.crossed}
        assert not kinds & {"Installed", "NotInstalled", "Reached", "NotReached"}


class PromisingModel(RoutingModel):
    """Notes what each subscription must get: events accepted after its receipt, of publishers that its broker knew when
    it was asked, or that have a receipt themselves."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.asked: dict[SubscriptionKey, tuple[int, set[str]]] = {}
        self.offer_tickets: dict[str, int] = {}
        self.owed: dict[SubscriptionKey, list[tuple[str, int]]] = {}

    def want(self, key: SubscriptionKey, text: str) -> int:
        known = set(self.routers[key[0]].tables.offers)
        self.owed.pop(key, None)
        self.asked[key] = next(self.tickets), known
        self.wants[key] = key[0], text
        self.world.tell(key[0], Want(key, filter_of(text), self.asked[key][0]))
        return self.asked[key][0]

    def unwant(self, key: SubscriptionKey) -> int:
        del self.asked[key]
        self.owed.pop(key, None)
        return super().unwant(key)

    def offer(self, name: str, advertisement: str, text: str) -> int:
        ticket = self.offer_tickets[advertisement] = super().offer(name, advertisement, text)
        return ticket

    def publish(self, advertisement: str, places: list[int], receipt: bool = False) -> int | None:
        entitled = [
            key
            for key, (ticket, known) in self.asked.items()
            if ticket in self.settled and (advertisement in known or self.offer_tickets[advertisement] in self.settled)
        ]
        before = len(self.published)
        answer = super().publish(advertisement, places, receipt)
        for publisher, number in list(self.published)[before:]:
            for key in entitled:
                if self.published[publisher, number] in events_of(self.wants[key][1]):
                    self.owed.setdefault(key, []).append((publisher, number))
        return answer


@pytest.mark.spec("S-9", "S-10")
@combinations
def test_after_the_receipt_nothing_is_missed(strategy: StrategyName, reduction: ReductionName, examples: int) -> None:
    for seed in seeds(examples):
        rng = Random(f"receipts {seed}")
        model = PromisingModel(rng, strategy, reduction, rng.randint(2, 7))
        model.world.rest()
        for _ in range(rng.randint(10, 50)):
            act(model, rng)
            model.world.run(rng.choice([0, 0, 1, 1, 3, 8]))
        model.world.rest()
        for key, owed in model.owed.items():
            missed = set(owed) - set(model.delivered.get(key, []))
            assert not missed, f"seed {seed}: {key} did not get {sorted(missed)}"
        assert all(not settled.problem for settled in model.settled.values())
        assert len(model.settled) >= len(model.wants)


def test_imperfect_merging_tells_more_than_is_wanted_and_delivers_the_same(examples: int) -> None:
    for seed in seeds(examples):
        rng = Random(f"imperfect {seed}")
        strategy: StrategyName = rng.choice(["subscription", "advertisement"])
        model = RoutingModel(rng, strategy, "merging", rng.randint(2, 6), merge_share_max=0.3, merge_group_max=4)
        for _ in range(30):
            act(model, rng)
            model.world.run(rng.choice([0, 1, 3, 30]))
        model.world.rest()
        model.check_rest()
        model.check_deliveries()
