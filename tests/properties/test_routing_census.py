"""The census against one who counts everybody, under churn."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.test_routing import act, change_links
from tests.worlds.brokers import side_of
from tests.worlds.routers import RoutingModel, filter_of
from tidings.machine.effects import Drop, Send, SetTimer
from tidings.machine.inputs import Fired, Received
from tidings.model.errors import UsageError
from tidings.model.language.parser import parse
from tidings.protocols.routing.census import TOO_MANY_COUNTED, Tally
from tidings.protocols.routing.messages import AdvertisementAdded, Counted, TablesBegun
from tidings.protocols.routing.params import ReductionName, RoutingParams, StrategyName
from tidings.protocols.routing.popularity import gain_of
from tidings.protocols.routing.repairs.timed import TimedRepair
from tidings.protocols.routing.router import Router
from tidings.pubsub.signals import NeighbourDown, NeighbourUp, Want

STRATEGIES: tuple[StrategyName, ...] = ("flooding", "subscription", "advertisement")
REDUCTIONS: tuple[ReductionName, ...] = ("plain", "covering", "merging")


def distances(model: RoutingModel, name: str) -> dict[str, int]:
    """Hops from this broker to every one that it can reach."""
    far = {name: 0}
    for broker in side_of(model.edges, name):
        for first, second in model.edges:
            for near, other in ((first, second), (second, first)):
                if near == broker and other not in far:
                    far[other] = far[broker] + 1
    return far


def right_census(model: RoutingModel, name: str, advertisement: str) -> dict[str | None, Tally]:
    """For each side but that of the publisher: how many want something of it, and how far away they are."""
    home, text = model.offers[advertisement]
    far = distances(model, name)
    sides: dict[str | None, list[str]] = {None: [name]}
    for first, second in model.edges:
        for near, other in ((first, second), (second, first)):
            if near == name and home not in side_of(model.edges, other, without=name):
                sides[other] = side_of(model.edges, other, without=name)
    census: dict[str | None, Tally] = {}
    for side, brokers in sides.items():
        wanting = [
            far[broker]
            for broker, wanted in model.wants.values()
            if broker in brokers and filter_of(wanted).overlaps(filter_of(text))
        ]
        if wanting:
            census[side] = Tally(len(wanting), sum(wanting))
    return census


@pytest.mark.spec("S-52")
@given(st.integers(0, 2**32))
def test_at_rest_every_count_is_that_of_one_who_sees_everything(seed: int) -> None:
    rng = Random(seed)
    repair = rng.choice([None, TimedRepair])
    model = RoutingModel(
        rng,
        rng.choice(STRATEGIES),
        rng.choice(REDUCTIONS),
        rng.randint(1, 7),
        checks=True,
        make_repair=repair,
        census=True,
    )
    for _ in range(rng.randint(5, 30)):
        act(model, rng)
        if rng.random() < 0.2 and model.edges:
            change_links(model, rng)
        model.world.run(rng.choice([0, 0, 1, 3, 30]))
        if model.world.timers and rng.random() < 0.3:
            model.world.fire()
    model.world.settle()
    for name, router in model.routers.items():
        reachable = set(side_of(model.edges, name))
        assert router.census is not None
        for advertisement, (home, _) in model.offers.items():
            if home in reachable:
                right = right_census(model, name, advertisement)
                assert router.census.behind(advertisement) == right
                for side, tally in right.items():
                    if side is not None:
                        gain = tally.subscriptions / (tally.hop_sum / tally.subscriptions)
                        assert gain_of(router.census.toward(side, advertisement)) == pytest.approx(gain), "PO-3"


def counting(**params: int) -> Router:
    """Behind p is a publisher, behind q others may want something."""
    router = Router("b", RoutingParams(engine="plain", census=True, **params))  # type: ignore[arg-type]
    for neighbour in "pq":
        router.handle(0.0, NeighbourUp(neighbour, 1))
        router.handle(0.0, Received(neighbour, TablesBegun(1, router.lives)))
    router.handle(0.0, Received("p", AdvertisementAdded(1, "p/1", "p", "x > 0", "p", 1)))
    router.handle(0.1, Fired("census"))
    return router


def test_what_is_told_adds_up_and_each_is_one_hop_further() -> None:
    router = counting()
    effects = router.handle(1.0, Received("q", Counted("p/1", 3, 5)))
    assert effects == [SetTimer("census", 1.1)]
    assert SetTimer("census", 1.1) not in router.handle(1.0, Want(("c", 1), parse("x > 7")))
    router.handle(1.0, Want(("c", 2), parse("x < 0")))
    assert router.handle(1.1, Fired("census")) == [Send("p", Counted("p/1", 4, 9))]
    assert router.census is not None
    assert router.census.behind("p/1") == {None: Tally(1, 0), "q": Tally(3, 5)}
    router.check()


def test_a_lost_neighbour_counts_no_more_and_nothing_is_told_twice() -> None:
    router = counting()
    router.handle(1.0, Received("q", Counted("p/1", 3, 5)))
    router.handle(1.1, Fired("census"))
    router.handle(2.0, NeighbourDown("q", 1))
    assert router.handle(2.1, Fired("census")) == [Send("p", Counted("p/1", 0, 0))]
    router.handle(3.0, Received("p", AdvertisementAdded(2, "p/1", "p", "x > 0", "p", 2)))
    assert router.handle(3.1, Fired("census")) == []
    router.check()


def test_counts_of_a_neighbour_are_bounded_and_without_a_census_there_are_none() -> None:
    router = counting(advertisements_max=1)
    router.handle(1.0, Received("q", Counted("p/1", 3, 5)))
    message = Counted("p/2", 3, 5)
    assert router.handle(1.0, Received("q", message)) == [Drop(message, TOO_MANY_COUNTED)]
    assert Router("b").census is None
    with pytest.raises(UsageError, match=r"^census_after:"):
        RoutingParams(census_after=0.0)


def test_a_router_started_again_counts_from_its_own_clients() -> None:
    router = counting()
    router.handle(1.0, Received("q", Counted("p/1", 3, 5)))
    router.start(2.0)
    assert router.census is not None and router.census.behind("p/1") == {}
    router.check()
