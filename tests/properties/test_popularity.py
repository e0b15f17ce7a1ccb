"""Routing by popularity against routing without: the invariants PO-1 to PO-8 of PopSub."""

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.test_routing import PromisingModel, act, change_links
from tests.worlds.brokers import side_of
from tests.worlds.routers import RoutingModel, events_of, filter_of
from tidings.machine.effects import Send
from tidings.machine.inputs import Received
from tidings.model.errors import UsageError
from tidings.protocols.routing.carriage.batching import BatchingCarriage
from tidings.protocols.routing.carriage.popular import PopularCarriage
from tidings.protocols.routing.census import Tally
from tidings.protocols.routing.params import PopularityName, RoutingParams
from tidings.protocols.routing.popularity import BAND, Popularity
from tidings.protocols.routing.requests import NOT_ACKNOWLEDGED
from tidings.pubsub.gathered import GatheredPublications, join, taken_apart, with_times
from tidings.pubsub.publications import Publications
from tidings.pubsub.signals import SubscriptionKey

SCARCE: dict[str, Any] = {"capacity": 1.0, "phi": 0.05, "ack_timeout": 1e6, "evaluated_every": 0.2}
"""Hardly anything is for the tree."""

WAYS: tuple[PopularityName, ...] = ("batching",)
ways = pytest.mark.parametrize("way", WAYS)


class PopularModel(PromisingModel):
    """Publishers are accepted at the time of the world."""

    def __init__(self, rng: Random, size: int, **params: Any) -> None:
        RoutingModel.__init__(
            self, rng, "advertisement", rng.choice(["plain", "covering", "merging"]), size, True, **params
        )
        self.asked: dict[Any, Any] = {}
        self.offer_tickets: dict[str, int] = {}
        self.owed: dict[Any, list[tuple[str, int]]] = {}
        self.do_ways_change = False

    def take(self, name: str, key: SubscriptionKey, publisher: str, number: int) -> None:
        """Where a way has become known anew, what waited on it comes again, or late (`routing/passage.py`); by its
        number delivery drops it, and so do we."""
        has_passed = any(who == publisher and other >= number for who, other in self.delivered.get(key, ()))
        if not (self.do_ways_change and has_passed):
            super().take(name, key, publisher, number)

    def offer(self, name: str, advertisement: str, text: str) -> int:
        """All at the same brokers, so that streams compete."""
        return super().offer(self.names[next(self.tickets) % min(2, len(self.names))], advertisement, text)

    def carriages(self) -> dict[str, PopularCarriage]:
        found = {name: router.carrier.carriage for name, router in self.routers.items()}
        return {name: carriage for name, carriage in found.items() if isinstance(carriage, PopularCarriage)}

    def diverted(self) -> int:
        return sum(carriage.diverted["diverted"] for carriage in self.carriages().values())


def storm(model: PopularModel, rng: Random, links_change: float = 0.0, rounds: int | None = None) -> None:
    """Clients do something, most often publish; links may change; time passes."""
    model.do_ways_change = model.do_ways_change or links_change > 0
    for _ in range(rounds or rng.randint(40, 90)):
        if rng.random() < 0.4:
            act(model, rng)
        if rng.random() < links_change:
            change_links(model, rng)
        for _ in range(rng.randint(0, 8) if model.offers else 0):
            advertisement = rng.choice(list(model.offers))
            model.publish(advertisement, [rng.choice(sorted(events_of(model.offers[advertisement][1])))])
        model.world.run(rng.choice([0, 0, 1, 3, 8, 40]))
        for _ in range(rng.choice([0, 1, 3, 6])):
            if any(key != "unanswered" for _, key in model.world.timers):
                model.world.fire()


# The evaluation alone.

TALLIES = st.builds(lambda count, hops: Tally(count, count * hops), st.integers(1, 50), st.integers(1, 9))


@given(
    st.lists(st.tuples(TALLIES, st.lists(st.integers(0, 40), min_size=1, max_size=4)), min_size=1, max_size=12),
    st.floats(0.01, 1.0),
)
def test_what_is_popular_is_the_beginning_of_the_list_by_gain_and_fills_its_share(
    streams: list[tuple[Tally, list[int]]], phi: float
) -> None:
    """PO-4 and PO-8."""
    tallies = {str(place): tally for place, (tally, _) in enumerate(streams)}
    popularity = Popularity(100.0, phi, lambda _, advertisement: tallies[advertisement])
    for interval in range(4):
        for place, (_, counts) in enumerate(streams):
            if counts[interval % len(counts)]:
                popularity.offer("l", str(place), counts[interval % len(counts)])
        popularity.evaluate(1.0)
        keys = popularity.sorted_keys()
        gains = [popularity.gain(*key) for key in keys]
        assert gains == sorted(gains, reverse=True)
        popular = [popularity.streams[key].is_popular for key in keys]
        assert popular == sorted(popular, reverse=True), "PO-4: no stream is before a better one"
        filled = sum(stream.rate for stream in popularity.streams.values() if stream.is_popular)
        assert all(popular) or filled >= (1 - BAND) * popularity.target, "PO-8"
        assert not keys or popular[0], "one is popular"
        popularity.check()


# Gathered publications.


def batches_of(times: list[float]) -> list[Publications]:
    return [
        Publications("p", "p/1@b", time, 0, (number,), (b"\x80",), (b"%d" % number,))
        for number, time in enumerate(times, 1)
    ]


@given(st.lists(st.sampled_from([1.0, 2.0, 3.0]), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_what_is_gathered_comes_apart_as_it_was_accepted(times: list[float], rng: Random) -> None:
    times = sorted(times)
    joined = join(batches_of(times))
    assert joined.times == tuple(times) and joined.batch.accepted_at == times[-1]
    apart = taken_apart(joined)
    assert [(part.accepted_at, number) for part in apart for number in part.numbers] == [
        (time, number) for number, time in enumerate(times, 1)
    ]
    kept = sorted(rng.sample(range(len(times)), rng.randint(1, len(times))))
    part = Publications(
        "p",
        "p/1@b",
        times[-1],
        0,
        tuple(place + 1 for place in kept),
        tuple(b"\x80" for _ in kept),
        tuple(b"" for _ in kept),
    )
    again = with_times(part, dict(zip(joined.batch.numbers, joined.times, strict=True)))
    parts = taken_apart(again)
    assert [(each.accepted_at, number) for each in parts for number in each.numbers] == [
        (times[place], place + 1) for place in kept
    ]


# Networks.


@ways
def test_where_everything_is_popular_traffic_is_as_without(way: PopularityName, examples: int) -> None:
    """PO-1."""
    for seed in range(max(4, examples // 100)):
        crossed: list[Counter[Any]] = []
        for popularity in ("off", way):
            rng = Random(f"all popular {seed}")
            model = PopularModel(rng, rng.randint(2, 7), popularity=popularity, census=True, phi=1.0)
            for _ in range(rng.randint(10, 40)):
                act(model, rng)
                model.world.rest()
            model.world.settle()
            crossed.append(model.world.crossed)
        assert crossed[0] == crossed[1]


@ways
@pytest.mark.spec("S-62", "S-67")
def test_nothing_is_missed_after_the_receipt_and_nothing_comes_twice_or_out_of_order(
    way: PopularityName, examples: int
) -> None:
    """PO-2, PO-6, PO-7: what is asserted of routing without popularity holds with it (`RoutingModel.take` asserts
    that nothing comes twice, false, or out of the order of its publisher)."""
    diverted = 0
    for seed in range(max(20, examples // 8)):
        rng = Random(f"popular {way} {seed}")
        model = PopularModel(rng, rng.randint(2, 7), popularity=way, **SCARCE)
        model.world.settle()
        storm(model, rng)
        model.world.settle()
        for key, owed in model.owed.items():
            missed = set(owed) - set(model.delivered.get(key, []))
            assert not missed, f"seed {seed}: {key} did not get {sorted(missed)}"
        problems = {settled.problem for settled in model.settled.values()} - {"", NOT_ACKNOWLEDGED}
        assert not problems
        diverted += model.diverted()
    assert diverted > 100, "hardly anything left the tree, so nothing was tried"


@ways
def test_when_links_have_changed_everything_arrives_again(way: PopularityName, examples: int) -> None:
    for seed in range(max(8, examples // 20)):
        rng = Random(f"popular links {way} {seed}")
        model = PopularModel(rng, rng.randint(2, 7), popularity=way, **SCARCE)
        storm(model, rng, links_change=0.2)
        model.world.settle()
        model.check_rest()
        for name in model.names:
            for advertisement, (home, text) in model.offers.items():
                census = model.routers[name].census
                assert census is not None
                wanting = [at for at, other in model.wants.values() if filter_of(other).overlaps(filter_of(text))]
                assert name != home or sum(
                    tally.subscriptions for tally in census.behind(advertisement).values()
                ) == len([at for at in wanting if at in reach(model, home)])
        for _ in range(3):
            model.delivered.clear()
            publish_everything(model)
            model.world.settle()
            expect_everything(model)


def reach(model: RoutingModel, name: str) -> set[str]:
    return set(side_of(model.edges, name))


def publish_everything(model: RoutingModel) -> None:
    for advertisement, (_, text) in model.offers.items():
        for place in sorted(events_of(text))[:4]:
            model.publish(advertisement, [place])


def expect_everything(model: RoutingModel) -> None:
    for key, (name, text) in model.wants.items():
        owed = Counter(
            advertisement
            for advertisement, (home, offered) in model.offers.items()
            if home in reach(model, name)
            for place in sorted(events_of(offered))[:4]
            if place in events_of(text)
        )
        assert Counter(publisher for publisher, _ in model.delivered.get(key, [])) == owed


def test_nothing_waits_for_its_batch_longer_than_it_may(examples: int) -> None:
    """PO-5."""
    waited = 0
    for seed in range(max(8, examples // 20)):
        rng = Random(f"waiting {seed}")
        model = PopularModel(rng, rng.randint(2, 6), popularity="batching", **SCARCE)
        longest = model.routers["b0"].params.batched_for
        begun: dict[Any, float] = {}
        for _ in range(60):
            storm(model, rng, rounds=1)
            waiting = {
                (name, neighbour, publisher, buffer.batches[0].numbers[0])
                for name, carriage in model.carriages().items()
                if isinstance(carriage, BatchingCarriage)
                for neighbour, mine in carriage.buffers.items()
                for publisher, buffer in mine.items()
            }
            begun = {key: begun.get(key, model.world.now) for key in waiting}
            waited += len(begun)
            assert all(model.world.now - at <= longest for at in begun.values())
    assert waited > 5


# Neighbours that lie.


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(-1e300, 1e300)), max_size=8), st.integers(0, 2**62))
def test_gathered_publications_of_a_liar_harm_nobody(numbers: list[tuple[int, float]], count: int) -> None:
    rng = Random(1)
    model = PopularModel(rng, 3, popularity="batching", edges=[("b0", "b1"), ("b1", "b2")], **SCARCE)
    model.offer("b0", "p", "TRUE")
    model.want(("b2", 1), "TRUE")
    model.world.settle()
    batch = Publications(
        "p",
        "p",
        1.0,
        count % 3,
        tuple(number for number, _ in numbers),
        tuple(b"\x80" for _ in numbers),
        tuple(b"" for _ in numbers),
    )
    lie = GatheredPublications(batch, tuple(time for _, time in numbers))
    router = model.routers["b1"]
    router.handle(1.0, Received("stranger", lie))
    effects = router.handle(1.0, Received("b0", lie))
    router.check()
    sent = [effect.message for effect in effects if isinstance(effect, Send) and effect.to == "b2"]
    told = [message.batch if isinstance(message, GatheredPublications) else message for message in sent]
    passed = [number for each in told if isinstance(each, Publications) for number in each.numbers]
    assert passed == sorted(set(passed)), "passed on twice, or in another order"


def test_settings_that_do_not_fit_are_refused_with_the_rule() -> None:
    for wrong, why in (
        ({"popularity": "batching", "carriage": "aired"}, "^popularity: .*carriage 'plain'"),
        ({"popularity": "batching", "strategy": "subscription"}, "^popularity: .*strategy 'advertisement'"),
        ({"phi": 0.0}, "^phi:"),
        ({"capacity": -1.0}, "^capacity:"),
        ({"batched_for": 0.0}, "^batched_for:"),
    ):
        with pytest.raises(UsageError, match=why):
            RoutingParams(**wrong)
