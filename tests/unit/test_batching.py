"""Batching, input by input: what waits, what leaves, and what must not be overtaken."""

from typing import Any

import pytest

from tidings.machine.effects import CancelTimer, Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Received
from tidings.model.language.parser import parse
from tidings.protocols.routing.carriage.batching import BatchingCarriage
from tidings.protocols.routing.messages import (
    AdvertisementAdded,
    Counted,
    PublicationsSkipped,
    SubscriptionAdded,
    TablesBegun,
)
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.parcels import LINK_GONE
from tidings.protocols.routing.router import Router
from tidings.pubsub.client import Latency
from tidings.pubsub.gathered import GatheredPublications
from tidings.pubsub.publications import Publications, encode_head
from tidings.pubsub.rows import PopularityRow
from tidings.pubsub.signals import Forward, Matched, NeighbourDown, NeighbourUp, Offer, Unoffer, Want

POPULAR, RARE = encode_head({"kind": "popular"}), encode_head({"kind": "rare"})
GAINS = {"popular": (8, 8), "rare": (1, 4)}


def of(name: str, *numbers: int, at: float = 0.0, receipt: int = 0) -> Publications:
    head = encode_head({"kind": name.rstrip("0123456789")})
    count = len(numbers)
    return Publications("p", f"p/{name}@b", at, receipt, numbers, (head,) * count, (b"",) * count)


def broker(**params: Any) -> Router:
    """Behind q there are eight subscriptions at one hop for what is popular, and one at two for what is rare."""
    router = Router("b", RoutingParams(engine="plain", popularity="batching", capacity=1.0, phi=0.1, **params))
    router.handle(0.0, NeighbourUp("q", 1))
    router.handle(0.0, Received("q", TablesBegun(1, router.lives)))
    for name in ("popular", "rare", "rare2"):
        router.handle(0.0, Offer(f"p/{name}@b", "p", parse(f"kind = '{name.rstrip('2')}'")))
        router.handle(0.0, Received("q", SubscriptionAdded(1, f"kind = '{name.rstrip('2')}'")))
        count, hops = GAINS[name.rstrip("2")]
        router.handle(0.0, Received("q", Counted(f"p/{name}@b", count, hops)))
    return router


def scarce(**params: Any) -> Router:
    """One in which it is decided what is popular: the gains are 8 and 0.25."""
    router = broker(**params)
    router.handle(0.0, Forward(of("popular", 1)))
    router.handle(0.0, Forward(of("rare", 2)))
    router.handle(2.0, Fired("popularity"))
    carriage = router.carrier.carriage
    assert isinstance(carriage, BatchingCarriage) and carriage.popularity.gain_min == 8
    return router


def sent(effects: list[Effect]) -> list[Any]:
    return [effect.message for effect in effects if isinstance(effect, Send)]


def numbers_of(message: Any) -> tuple[int, ...]:
    batch = message.batch if isinstance(message, GatheredPublications) else message
    return tuple(batch.numbers)


def asked(latency: Latency) -> Router:
    """As `scarce`, where this is asked for what few want."""
    router = scarce()
    router.handle(2.0, Offer("p/rare@b", "p", parse("kind = 'rare'"), latency=latency))
    return router


def test_what_is_to_come_soon_never_waits_and_is_popular_before_others() -> None:
    router = asked("low")
    (left,) = sent(router.handle(2.1, Forward(of("rare", 3))))
    assert numbers_of(left) == (3,), "though few want it"
    router.handle(2.1, Forward(of("popular", 4)))
    router.handle(4.0, Fired("popularity"))
    # There is room for one stream, and it is the first now; the other one, of more gain, is batched. One is enough.
    (left,) = sent(router.handle(4.1, Forward(of("popular", 5))))
    assert isinstance(left, GatheredPublications)
    carriage = router.carrier.carriage
    assert isinstance(carriage, BatchingCarriage)
    assert [(row.advertisement, row.latency, row.way) for row in carriage.rows()] == [
        ("p/rare@b", "low", "tree"),
        ("p/popular@b", "any", "batching"),
    ]
    # When it is withdrawn nothing is asked for it any more.
    router.handle(4.2, Unoffer("p/rare@b"))
    assert carriage.latencies == {}
    router.check()


def test_what_may_be_cheap_is_the_last_to_be_popular() -> None:
    router = scarce()
    router.handle(2.0, Offer("p/popular@b", "p", parse("kind = 'popular'"), latency="cheap"))
    router.handle(2.1, Forward(of("rare", 3)))
    router.handle(2.1, Forward(of("popular", 4)))
    router.handle(4.0, Fired("popularity"))
    router.handle(4.1, Forward(of("rare", 5)))
    left = sent(router.handle(4.1, Forward(of("popular", 6))))[-1]
    assert isinstance(left, GatheredPublications), "whatever its gain"


@pytest.mark.spec("S-53")
def test_before_anything_is_evaluated_everything_goes_by_the_tree() -> None:
    router = broker()
    assert router.handle(0.0, Forward(of("rare", 1))) == [SetTimer("popularity", 2.0), Send("q", of("rare", 1))]
    router.check()


@pytest.mark.spec("S-60")
def test_a_batch_leaves_when_its_time_is_over() -> None:
    router = scarce()
    assert router.handle(2.1, Forward(of("rare", 3, at=2.1))) == [SetTimer(("batch", "q", "p"), 5.1)]
    assert router.handle(2.2, Forward(of("rare", 4, 5, at=2.2))) == []
    router.check()
    cancelled, left = router.handle(5.1, Fired(("batch", "q", "p")))
    assert cancelled == CancelTimer(("batch", "q", "p"))
    assert isinstance(left, Send)
    assert left.message == GatheredPublications(of("rare", 3, 4, 5, at=2.2), (2.1, 2.2, 2.2))
    assert router.handle(5.2, Forward(of("rare", 6, at=5.2)))[0] == SetTimer(("batch", "q", "p"), 8.2), "the next one"


@pytest.mark.spec("S-60")
def test_a_batch_leaves_when_it_is_as_good_as_the_least_popular_stream() -> None:
    router = scarce()
    for number in range(3, 3 + 31):
        assert sent(router.handle(2.1, Forward(of("rare", number)))) == []
    (left,) = sent(router.handle(2.1, Forward(of("rare", 34))))
    assert numbers_of(left) == tuple(range(3, 35)), "8 / 0.25"
    assert set(left.times) == {0.0}, "when it was accepted"
    # A batch that is large from the beginning does not wait at all (G-29).
    (left,) = sent(router.handle(2.2, Forward(of("rare", *range(35, 70)))))
    assert numbers_of(left) == tuple(range(35, 70))


@pytest.mark.spec("S-62")
def test_nothing_of_a_publisher_overtakes_what_waits_of_it() -> None:
    router = scarce()
    router.handle(2.1, Forward(of("rare", 3)))
    assert [numbers_of(each) for each in sent(router.handle(2.1, Forward(of("popular", 4))))] == [(3,), (4,)]
    router.handle(2.2, Forward(of("rare", 5)))
    # Another advertisement of the same publisher: its numbers are of the same row.
    assert [numbers_of(each) for each in sent(router.handle(2.2, Forward(of("rare2", 6))))] == [(5,), (6,)]
    # One with a receipt does not wait.
    router.handle(2.3, Forward(of("rare", 7)))
    told = sent(router.handle(2.3, Forward(of("rare", 8), ticket="t")))
    assert [numbers_of(each) for each in told] == [(7,), (8,)] and told[1].receipt
    # Nor does a mark that something was left out, or the word that the advertisement is withdrawn.
    router.handle(2.4, Forward(of("rare", 9)))
    (batch, *others) = sent(router.handle(2.4, Unoffer("p/rare@b")))
    assert numbers_of(batch) == (9,) and [type(each).__name__ for each in others] == ["AdvertisementRemoved"]
    router.check()


def test_a_mark_goes_behind_what_waits() -> None:
    router = scarce()
    router.handle(2.1, Forward(of("rare", 3)))
    carriage = router.carrier.carriage
    mark = PublicationsSkipped("p", "p/rare@b", 4)
    assert [type(each).__name__ for each in sent(carriage.skip(mark, ["q"]))] == [
        "GatheredPublications",
        "PublicationsSkipped",
    ]


def test_what_waits_for_a_lost_link_is_dropped() -> None:
    router = scarce(repair="strawman")
    router.handle(2.1, Forward(of("rare", 3)))
    effects = router.handle(2.2, NeighbourDown("q", 1))
    assert Drop(of("rare", 3), LINK_GONE) in effects and CancelTimer(("batch", "q", "p")) in effects
    router.check()


def test_what_is_more_than_may_wait_leaves_at_once() -> None:
    router = scarce(batched_bytes_max=0)
    assert [numbers_of(each) for each in sent(router.handle(2.1, Forward(of("rare", 3))))] == [(3,)]
    router.check()


@pytest.mark.spec("S-61", "S-68")
def test_a_batch_is_cut_by_destination_on_its_way_and_does_not_wait_again() -> None:
    """b passes on what r and s want of it, at once, and its own clients get each as it was accepted."""
    router = Router("b", RoutingParams(engine="plain", popularity="batching", capacity=1.0, phi=0.01))
    for neighbour in "qrs":
        router.handle(0.0, NeighbourUp(neighbour, 1))
        router.handle(0.0, Received(neighbour, TablesBegun(1, router.lives)))
    router.handle(0.0, Received("q", AdvertisementAdded(1, "p/a@q", "p", "TRUE", "q", 1)))
    router.handle(0.0, Received("r", SubscriptionAdded(1, "x < 3")))
    router.handle(0.0, Received("s", SubscriptionAdded(1, "x > 1")))
    router.handle(0.0, Want(("c", 1), parse("x > 2")))

    def batch(*numbers: int, at: float) -> Publications:
        heads = tuple(encode_head({"x": number}) for number in numbers)
        return Publications("p", "p/a@q", at, 0, numbers, heads, (b"",) * len(numbers))

    given = GatheredPublications(batch(1, 2, 3, at=9.0), (7.0, 8.0, 9.0))
    effects = router.handle(1.0, Received("q", given))
    told = {effect.to: effect.message for effect in effects if isinstance(effect, Send)}
    assert told == {
        "r": GatheredPublications(batch(1, 2, at=9.0), (7.0, 8.0)),
        "s": GatheredPublications(batch(2, 3, at=9.0), (8.0, 9.0)),
    }
    assert [effect for effect in effects if isinstance(effect, Matched)] == [Matched(batch(3, at=9.0), ((("c", 1),),))]


def test_what_is_seen_of_it() -> None:
    router = scarce()
    router.handle(2.1, Forward(of("rare", 3)))
    rows = list(router.views()["streams"](""))
    assert rows[0] == PopularityRow(
        neighbour="q",
        advertisement="p/popular@b",
        publisher="p",
        subscriptions=8,
        hops=1.0,
        gain=8.0,
        rate=0.5,
        way="tree",
    )
    assert isinstance(rows[1], PopularityRow) and (rows[1].gain, rows[1].way) == (0.25, "batching")
    gauges = {(gauge.name, gauge.labels.get("way", "")): gauge.value for gauge in router.gauges()}
    assert gauges["popularity_publications", "diverted"] == 1 and gauges["popularity_publications", "tree"] == 0
    assert gauges["popularity_streams_popular", ""] == 1 and gauges["popularity_target", ""] == pytest.approx(0.1)
