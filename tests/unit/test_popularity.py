"""Which streams are popular: the gain table and its evaluation, from the text of PopSub."""

import pytest

from tests.properties.test_routing_census import distances
from tests.worlds.routers import RoutingModel
from tidings.protocols.routing.census import NOBODY, Tally
from tidings.protocols.routing.popularity import Popularity, gain_of


class Behind:
    """What is counted, by hand."""

    def __init__(self, **tallies: tuple[int, int]) -> None:
        self.tallies = {name: Tally(*tally) for name, tally in tallies.items()}

    def __call__(self, neighbour: str, advertisement: str) -> Tally:
        return self.tallies.get(advertisement, NOBODY)


def table(capacity: float = 100.0, phi: float = 0.1, **tallies: tuple[int, int]) -> Popularity:
    return Popularity(capacity, phi, Behind(**tallies))


def flags(popularity: Popularity) -> dict[str, bool]:
    return {advertisement: stream.is_popular for (_, advertisement), stream in sorted(popularity.streams.items())}


def offer(popularity: Popularity, **counts: int) -> None:
    for advertisement, count in counts.items():
        popularity.offer("l", advertisement, count)


@pytest.mark.spec("S-49")
def test_gains_of_the_examples() -> None:
    # 1.2: ten subscriptions at one hop against one at two. 5.2: red and blue, and red at B4 without its own clients.
    assert gain_of(Tally(10, 10)) == 10 and gain_of(Tally(1, 2)) == 0.5
    assert gain_of(Tally(4, 2 + 2 + 3 + 3)) == 1.6
    assert gain_of(Tally(1, 3)) == pytest.approx(1 / 3)
    assert gain_of(Tally(2, 2)) == 2
    assert gain_of(NOBODY) == 0


@pytest.mark.spec("S-49", "S-50", "S-51")
def test_gains_of_the_example_as_brokers_count_them() -> None:
    """5.2: B1 publishes; B1-B2, B2-B3, B2-B4, and two brokers behind B4. Red is wanted at B3, B4 and behind B4."""
    from random import Random

    edges = [("b1", "b2"), ("b2", "b3"), ("b2", "b4"), ("b4", "b5"), ("b4", "b6")]
    model = RoutingModel(Random(1), "advertisement", "plain", 7, True, edges, popularity="batching")
    for red_at, number in (("b4", 1), ("b4", 2), ("b5", 3), ("b6", 4)):
        model.want((red_at, number), "x < 3")
    model.want(("b5", 5), "x > 6 AND x < 7")
    model.offer("b1", "red", "x < 3")
    model.offer("b1", "blue", "x > 6 AND x < 7")
    model.world.settle()

    def gain(broker: str, neighbour: str, advertisement: str) -> float:
        census = model.routers[broker].census
        assert census is not None
        return gain_of(census.toward(neighbour, advertisement))

    assert gain("b1", "b2", "red") == 4 / 2.5, "hops 2, 2, 3, 3"
    assert gain("b1", "b2", "blue") == pytest.approx(1 / 3)
    assert gain("b4", "b5", "red") + gain("b4", "b6", "red") == 2, "two at one hop; its own clients do not count"
    assert gain("b4", "b2", "red") == 0
    assert distances(model, "b1")["b5"] == 3
    model.want(("b3", 6), "x < 3")
    model.world.settle()
    assert gain("b1", "b2", "red") == 25 / 12
    model.unwant(("b3", 6))
    model.world.settle()
    assert gain("b1", "b2", "red") == 4 / 2.5, "as before"


@pytest.mark.spec("S-53")
def test_everything_begins_as_popular() -> None:
    popularity = table(a=(1, 1))
    assert popularity.offer("l", "a", 1) and popularity.offer("l", "unknown", 1)
    assert all(stream.rate == 0 and stream.is_popular for stream in popularity.streams.values())


@pytest.mark.spec("S-54", "S-57")
def test_the_best_fill_the_share_and_the_one_that_crosses_the_limit_is_popular_still() -> None:
    popularity = table(a=(1, 4), b=(8, 8), c=(4, 4), d=(2, 2))
    offer(popularity, a=10, b=10, c=14, d=10)
    evaluation = popularity.evaluate(2.0)
    assert flags(popularity) == {"a": False, "b": True, "c": True, "d": False}, "5 a second, and 7, of 10"
    assert (evaluation.popular, evaluation.rate, evaluation.popular_rate) == (2, 22, 12)
    assert evaluation.gain == pytest.approx((5 * 8 + 7 * 4) / 12)
    assert popularity.gain_min == 4
    # Rates are those of the last interval alone.
    offer(popularity, a=2, b=2, c=2, d=2)
    popularity.evaluate(2.0)
    assert all(flags(popularity).values())


@pytest.mark.spec("S-54")
def test_one_is_popular_however_little_is_for_the_tree() -> None:
    popularity = table(capacity=1.0, phi=0.001, a=(1, 4), b=(8, 8))
    offer(popularity, a=1000, b=1000)
    popularity.evaluate(1.0)
    assert flags(popularity) == {"a": False, "b": True}


@pytest.mark.spec("S-55")
def test_all_of_a_capacity_with_little_to_do_is_for_everything() -> None:
    popularity = table(capacity=1000.0, phi=1.0, a=(1, 4), b=(8, 8))
    offer(popularity, a=100, b=100)
    popularity.evaluate(1.0)
    assert all(flags(popularity).values())


@pytest.mark.spec("S-56")
def test_within_a_tenth_of_the_share_nothing_changes_unless_gains_do() -> None:
    popularity = table(a=(1, 4), b=(8, 8), c=(4, 4))
    offer(popularity, a=10, b=5, c=5)
    popularity.evaluate(1.0)
    assert flags(popularity) == {"a": False, "b": True, "c": True}
    for more in (1, -1):
        offer(popularity, a=10, b=5 + more, c=5)
        before = flags(popularity)
        popularity.evaluate(1.0)
        assert flags(popularity) == before, "11 or 9 of 10"
    # b alone would fill the share, were it not for the band.
    offer(popularity, a=10, b=10, c=1)
    popularity.evaluate(1.0)
    assert flags(popularity) == {"a": False, "b": True, "c": True}
    offer(popularity, a=10, b=10, c=2)
    popularity.evaluate(1.0)
    assert flags(popularity) == {"a": False, "b": True, "c": False}
    behind = popularity.behind
    assert isinstance(behind, Behind)
    behind.tallies["a"] = Tally(9, 9)
    offer(popularity, a=10, b=10, c=1)
    popularity.evaluate(1.0)
    assert flags(popularity) == {"a": True, "b": False, "c": False}


@pytest.mark.spec("S-58")
def test_priorities_come_first_and_cheap_ones_last() -> None:
    ranks = {"low": 0, "cheap": 2}
    popularity = Popularity(
        100.0, 0.1, Behind(a=(4, 4), low=(1, 4), cheap=(9, 9)), lambda advertisement: ranks.get(advertisement, 1)
    )
    offer(popularity, a=5, low=5, cheap=5)
    popularity.evaluate(1.0)
    assert flags(popularity) == {"a": True, "cheap": False, "low": True}


def test_what_is_silent_is_forgotten_and_a_lost_link_too(monkeypatch: pytest.MonkeyPatch) -> None:
    popularity = table(a=(1, 1), b=(2, 2))
    offer(popularity, a=1)
    popularity.offer("m", "b", 1)
    popularity.evaluate(1.0)
    popularity.evaluate(1.0)
    assert len(popularity.streams) == 2 and popularity.evaluate(1.0).streams == 0
    popularity.offer("m", "b", 1)
    popularity.forget("m")
    assert not popularity.streams
    monkeypatch.setattr("tidings.protocols.routing.popularity.STREAMS_MAX", 1)
    assert popularity.offer("m", "b", 1) and popularity.offer("m", "a", 3)
    assert popularity.uncounted == 3
    popularity.check()


@pytest.mark.spec("S-60")
def test_a_batch_is_as_good_as_one_publication_of_the_least_popular_stream() -> None:
    popularity = table(a=(1, 4), b=(8, 8), c=(4, 4))
    assert popularity.batch_size("l", "a") == float("inf"), "nothing is popular yet"
    offer(popularity, a=10, b=10, c=10)
    popularity.evaluate(2.0)
    assert popularity.gain_min == 4
    assert popularity.batch_size("l", "a") == 16 and popularity.batch_size("l", "unknown") == float("inf")


def test_what_is_foreseen_counts_in_place_of_what_was() -> None:
    """A stream that is about to grow takes the room of one that is about to end, before either has."""
    foreseen: dict[str, float] = {}
    popularity = Popularity(100.0, 0.1, Behind(a=(9, 9), b=(8, 8), c=(7, 7)), foreseen=foreseen.get)
    offer(popularity, a=20, b=20, c=20)
    popularity.evaluate(2.0)
    assert flags(popularity) == {"a": True, "b": False, "c": False}, "10 a second each, and room for 10"
    foreseen |= {"a": 1.0, "b": 2.0}
    offer(popularity, a=20, b=20, c=20)
    popularity.evaluate(2.0)
    assert flags(popularity) == {"a": True, "b": True, "c": True}, "1, 2, and c is the one that crosses the limit"
    foreseen["a"] = 50.0
    offer(popularity, a=20, b=20, c=20)
    popularity.evaluate(2.0)
    assert flags(popularity) == {"a": True, "b": False, "c": False}


def test_of_what_is_foreseen_a_link_gets_the_share_that_it_had() -> None:
    popularity = Popularity(100.0, 0.1, Behind(a=(9, 9)), foreseen=lambda advertisement: 30.0)
    popularity.offer("l", "a", 20)
    popularity.offer("m", "a", 5)
    popularity.measure(1.0)
    assert popularity.expect() == {("l", "a"): 30.0, ("m", "a"): 7.5}
