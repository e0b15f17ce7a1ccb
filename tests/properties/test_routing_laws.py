"""Laws of propagation, answers and hostile neighbours, for routers in random trees."""

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.properties.test_routing import REDUCTIONS, STRATEGIES, act
from tests.worlds.brokers import BrokerWorld, random_tree, side_of
from tests.worlds.routers import HEADS, TEXTS, RoutingModel, events_of
from tidings.machine.inputs import Fired, Received
from tidings.machine.message import Message
from tidings.model.language.parser import parse
from tidings.protocols.routing.messages import (
    AdvertisementAdded,
    AdvertisementRemoved,
    ChangesInstalled,
    ChangesNotInstalled,
    Counted,
    Installed,
    NotInstalled,
    NotReached,
    PartTold,
    PublicationsSkipped,
    PublicationsTaken,
    Reached,
    SubscriptionAdded,
    SubscriptionRemoved,
    TableChanges,
    TablesBegun,
    TablesTaken,
    TablesTold,
)
from tidings.protocols.routing.params import ReductionName, RoutingParams, StrategyName
from tidings.protocols.routing.router import Router
from tidings.pubsub.publications import Publications
from tidings.pubsub.signals import NeighbourDown, NeighbourUp, Offer, Want

CHANGES = (SubscriptionAdded, SubscriptionRemoved, AdvertisementAdded, AdvertisementRemoved)
seeds = st.integers(0, 2**32)


def pattern_tree(edges: list[tuple[str, str]], names: set[str]) -> set[str]:
    """The brokers on the ways between these."""
    return {
        name
        for edge in edges
        for name in edge
        if name in names or sum(bool(names & set(side_of(edges, near, name))) for near in near_of(edges, name)) > 1
    }


def near_of(edges: list[tuple[str, str]], name: str) -> list[str]:
    return [second if first == name else first for first, second in edges if name in (first, second)]


def distance(edges: list[tuple[str, str]], start: str, ends: set[str]) -> int:
    reached, steps = {start}, 0
    while not reached & ends:
        reached |= {near for name in reached for near in near_of(edges, name)}
        steps += 1
    return steps


@pytest.mark.spec("D-14", "D-15")
@given(seeds)
def test_a_subscription_travels_to_the_pattern_tree_and_an_unsubscription_to_what_is_left_of_it(seed: int) -> None:
    rng = Random(seed)
    model = RoutingModel(rng, "subscription", "plain", rng.randint(2, 10))
    model.world.rest()
    wanting: set[str] = set()
    for _ in range(12):
        name = rng.choice(model.names)
        model.world.crossed.clear()
        others = wanting - {name}
        if name in wanting:
            model.unwant((name, 1))
        else:
            model.want((name, 1), "x = 3")
        model.world.rest()
        kinds = Counter(kind for edge in model.world.crossed.elements() for kind in edge[2:])
        kind = "SubscriptionRemoved" if name in wanting else "SubscriptionAdded"
        if others:
            expected = distance(model.edges, name, pattern_tree(model.edges, others) | others)
        else:
            expected = len(model.names) - 1
        assert kinds[kind] == expected == kinds["Installed"]
        assert kinds["SubscriptionRemoved"] + kinds["SubscriptionAdded"] == expected
        wanting ^= {name}


@pytest.mark.spec("D-10", "D-13")
@given(seeds)
def test_no_event_crosses_a_link_twice_and_flooding_uses_each_link_once(seed: int) -> None:
    rng = Random(seed)
    strategies: tuple[StrategyName, ...] = ("flooding", "subscription", "advertisement")
    for strategy in strategies:
        model = RoutingModel(rng, strategy, "covering", rng.randint(1, 8))
        model.world.rest()
        for number, name in enumerate(rng.choices(model.names, k=4)):
            model.want((name, number), rng.choice(TEXTS))
        model.offer(rng.choice(model.names), "p", "TRUE")
        model.world.rest()
        place = rng.randrange(30)
        model.publish("p", [place])
        model.world.rest()
        carried = {edge[:2]: n for edge, n in model.world.crossed.items() if edge[2] == "Publications"}
        assert set(carried.values()) <= {1} and not any((to, sender) in carried for sender, to in carried)
        if strategy == "flooding":
            assert len(carried) == len(model.names) - 1
        for key, (_, text) in model.wants.items():
            assert len(model.delivered.get(key, [])) == (place in events_of(text))


@pytest.mark.spec("S-96")
@given(seeds)
def test_every_change_has_one_answer_and_none_before_everything_behind_has_answered(seed: int) -> None:
    rng = Random(seed)
    model = RoutingModel(rng, rng.choice(["subscription", "advertisement"]), "covering", rng.randint(2, 7))
    told: set[tuple[str, str, int]] = set()
    answered: set[tuple[str, str, int]] = set()

    def watch(sender: str, to: str, message: Any) -> None:
        if isinstance(message, CHANGES):
            assert (sender, to, message.number) not in told
            told.add((sender, to, message.number))
        elif isinstance(message, Installed | NotInstalled):
            assert (to, sender, message.number) in told, "an answer to nothing"
            assert (to, sender, message.number) not in answered, "a second answer"
            answered.add((to, sender, message.number))

    model.world.watch = watch
    for _ in range(25):
        act(model, rng)
        model.world.run(rng.choice([0, 1, 3]))
    model.world.rest()
    assert told == answered
    ticket = model.offer(rng.choice(model.names), "last", "TRUE")
    while ticket not in model.settled:
        assert model.world.step()
        knowing = [name for name, router in model.routers.items() if "last" in router.tables.offers]
    assert sorted(knowing) == sorted(model.names)
    assert model.settled[ticket].brokers_count == len(model.names) == len(model.settled[ticket].brokers)


def random_message(rng: Random) -> Message:
    """Of every kind that a router receives; numbers and names are few, so that some of it means something here."""
    number, text = rng.randrange(8), rng.choice([*TEXTS, "no AND filter", "time > 'a'", "id = ''", "EXISTS type"])
    advertisement, publisher = rng.choice([("p/1", "p"), ("q/1", "q"), ("q/1", "p")])
    heads = tuple(rng.choice([*HEADS, b"", b"\x80", b"\xc1"]) for _ in range(rng.randrange(4)))
    numbers = tuple(rng.randrange(20) for _ in heads)
    publications = Publications(publisher, advertisement, 1.0, rng.randrange(3), numbers, heads, heads)
    return rng.choice(
        [
            SubscriptionAdded(number, text),
            SubscriptionRemoved(number, text),
            AdvertisementAdded(number, advertisement, publisher, text, rng.choice("ab"), number),
            AdvertisementRemoved(number, advertisement),
            Installed(number, ("a",), rng.randrange(9)),
            NotInstalled(number, "no"),
            Reached(number),
            NotReached(number, "no"),
            Counted(advertisement, number, 2 * number),
            PublicationsTaken(1000 * number),
            PublicationsSkipped(publisher, advertisement, number),
            TablesTold(),
            publications,
            replace(publications, numbers=tuple(sorted(numbers))),
            TablesBegun(rng.randrange(3), rng.randrange(4)) if rng.random() < 0.3 else TablesTold(),
            TablesBegun(rng.randrange(3), rng.randrange(4), rng.randbytes(rng.choice([0, 3, 8, 16])), b"12345678"),
            TableChanges(
                (AdvertisementAdded(number, advertisement, publisher, text, "a", number),),
                (AdvertisementRemoved(number, advertisement),),
                (SubscriptionAdded(number, text), SubscriptionAdded(number, "x > 2")),
                (SubscriptionRemoved(number, text),),
                (PartTold(rng.random() < 0.5, 0, 1),),
            ),
            PartTold(rng.random() < 0.5, number, rng.choice([1, 3, 8, 4096])),
            TablesTaken(100 * number),
            ChangesInstalled((number, 1), ("a",), 1),
            ChangesNotInstalled((number, 1), "no"),
        ]
    )


@given(seeds)
def test_no_message_of_a_neighbour_breaks_a_router(seed: int) -> None:
    rng = Random(seed)
    strategy: StrategyName = rng.choice(STRATEGIES)
    reduction: ReductionName = rng.choice(REDUCTIONS)
    router = Router("me", RoutingParams(strategy, reduction, engine="plain", census=rng.random() < 0.5))
    for neighbour in "ab":
        router.handle(0.0, NeighbourUp(neighbour, 1))
        router.handle(0.0, Received(neighbour, TablesBegun(1, router.lives)))
    router.handle(0.0, Want(("c", 1), parse("x > 1")))
    router.handle(0.0, Offer("p/1", "p", parse("x < 9")))
    for _ in range(40):
        router.handle(0.0, Received(rng.choice("abx"), random_message(rng)))
        router.check()
    for neighbour in "ab":
        router.handle(1.0, NeighbourDown(neighbour, 1))
        router.check()
        router.handle(40.0, Fired(("rest", neighbour)))
    while router.handle(40.0, Fired("turn")):
        router.check()
    assert not router.ledger.unanswered and not router.state.covers.filters
    assert router.tables.texts.keys() == {None}


@given(seeds)
def test_a_run_is_reproduced_by_its_seed(seed: int) -> None:
    runs = []
    for _ in range(2):
        rng = Random(seed)
        model = RoutingModel(rng, "advertisement", "merging", 4)
        sent: list[tuple[str, str, Any]] = []
        model.world.watch = lambda sender, to, message, sent=sent: sent.append((sender, to, message))  # type: ignore[misc]
        for _ in range(15):
            act(model, rng)
            model.world.run(3)
        model.world.rest()
        runs.append((sent, model.world.heard))
    assert runs[0] == runs[1]


def test_the_random_trees_are_trees() -> None:
    for seed in range(50):
        names = [f"b{place}" for place in range(1 + seed % 9)]
        edges = random_tree(names, Random(seed))
        assert len(edges) == len(names) - 1 and set(side_of(edges, names[0])) == set(names)


def test_a_world_in_which_nothing_is_under_way_is_at_rest() -> None:
    world = BrokerWorld({}, Random(0))
    world.rest()
    assert not world.step()
