"""A network of routers beside one who sees everything: what each table should hold, and who should get what."""

from functools import cache
from itertools import count
from random import Random

from tests.worlds.brokers import BrokerWorld, Edge, random_tree, side_of
from tidings.machine.effects import Note
from tidings.machine.inputs import Signal
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.language.parser import parse
from tidings.protocols.routing.params import ReductionName, RoutingParams, StrategyName
from tidings.protocols.routing.repairs.choice import MakeRepair
from tidings.protocols.routing.router import Router
from tidings.pubsub.publications import Publications, encode_head
from tidings.pubsub.signals import Forward, Matched, Offer, Settled, SubscriptionKey, Unoffer, Unwant, Want

EVENTS = [
    Event({"x": x, **({"y": y} if y else {})}) for x in (0, 1, 2, 3, 4, 5, 6.5, 8) for y in ("", "a", "ab", "b", "c")
]
HEADS = [encode_head(event.attributes) for event in EVENTS]

TEXTS = (
    *("TRUE", "x >= 0", "x >= 2", "x >= 4", "x < 6", "x < 3", "x >= 2 AND x < 6", "x >= 1 AND x < 4", "x = 3"),
    *("y = 'a'", "y = 'b'", "y IN ('a', 'b')", "y LIKE 'a%'", "y = 'a' AND x < 3", "y = 'a' AND x >= 3"),
    *("y = 'b' AND x >= 3", "y LIKE 'a%' AND x > 4", "x = 1 OR x = 2", "x IN (1, 2)", "x = 1 OR y = 'b'"),
    *("NOT EXISTS y", "EXISTS y", "y != 'c'", "LENGTH(y) > 1", "x < 6 AND LENGTH(y) > 1", "x > 1 AND x <= 2"),
    *("y = 'a' OR y = 'b'", "x >= 2 AND EXISTS y", "x = 8", "x > 6 AND x < 7"),
)
"""Filters that cover, meet and miss each other in every way, some of them the same set in other words."""


@cache
def filter_of(text: str) -> Filter:
    return parse(text)


@cache
def events_of(filter_text: str) -> frozenset[int]:
    filter = filter_of(filter_text)
    return frozenset(place for place, event in enumerate(EVENTS) if filter.matches(event))


class RoutingModel:
    def __init__(
        self,
        rng: Random,
        strategy: StrategyName,
        reduction: ReductionName,
        size: int,
        checks: bool = False,
        edges: list[Edge] | None = None,
        make_repair: MakeRepair | None = None,
        **params: object,
    ) -> None:
        self.rng, self.strategy, self.reduction = rng, strategy, reduction
        self.names = [f"b{place}" for place in range(size)]
        self.edges = random_tree(self.names, rng) if edges is None else edges
        self.parents = {second: first for first, second in self.edges} if strategy == "hierarchical" else {}
        self.routers = {
            name: Router(
                name,
                RoutingParams(strategy, reduction, self.parents.get(name), engine="plain", **params),  # type: ignore[arg-type]
                make_repair,
            )
            for name in self.names
        }
        self.world = BrokerWorld(dict(self.routers), rng, checks=checks)
        self.world.listen = self.hear
        self.wants: dict[SubscriptionKey, tuple[str, str]] = {}
        self.offers: dict[str, tuple[str, str]] = {}
        self.numbers = count(1)
        self.tickets = count(1)
        self.settled: dict[int, Settled] = {}
        self.published: dict[tuple[str, int], int] = {}
        self.delivered: dict[SubscriptionKey, list[tuple[str, int]]] = {}
        for first, second in self.edges:
            self.world.link(first, second)

    # What clients do.

    def want(self, key: SubscriptionKey, text: str) -> int:
        """A client at the broker that the key names wants this; the ticket."""
        ticket = next(self.tickets)
        self.wants[key] = key[0], text
        self.world.tell(key[0], Want(key, filter_of(text), ticket))
        return ticket

    def unwant(self, key: SubscriptionKey) -> int:
        ticket = next(self.tickets)
        name, _ = self.wants.pop(key)
        self.world.tell(name, Unwant(key, ticket))
        return ticket

    def offer(self, name: str, advertisement: str, text: str) -> int:
        """A publisher named like its advertisement offers such events at that broker."""
        ticket = next(self.tickets)
        self.offers[advertisement] = name, text
        self.world.tell(name, Offer(advertisement, advertisement, filter_of(text), ticket))
        return ticket

    def unoffer(self, advertisement: str) -> int:
        ticket = next(self.tickets)
        name, _ = self.offers.pop(advertisement)
        self.world.tell(name, Unoffer(advertisement, ticket))
        return ticket

    def publish(self, advertisement: str, places: list[int], receipt: bool = False) -> int | None:
        """Publish these of the EVENTS; all of them must be events that were offered."""
        ticket = next(self.tickets) if receipt else None
        name, _ = self.offers[advertisement]
        numbers = tuple(next(self.numbers) for _ in places)
        for number, place in zip(numbers, places, strict=True):
            self.published[advertisement, number] = place
        heads = tuple(HEADS[place] for place in places)
        batch = Publications(advertisement, advertisement, 1.0, 0, numbers, heads, (b"",) * len(numbers))
        self.world.tell(name, Forward(batch, ticket))
        return ticket

    def hear(self, name: str, signal: Signal | Note) -> None:
        match signal:
            case Settled(ticket):
                assert ticket not in self.settled, "a ticket was settled twice"
                self.settled[ticket] = signal  # type: ignore[index]
            case Matched(batch, wanted):
                assert len(wanted) == len(batch.numbers)
                for number, keys in zip(batch.numbers, wanted, strict=True):
                    assert len(set(keys)) == len(keys)
                    for key in keys:
                        self.take(name, key, batch.publisher, number)

    def take(self, name: str, key: SubscriptionKey, publisher: str, number: int) -> None:
        """Nothing false, nothing twice, and everything of one publisher in its order."""
        assert key in self.wants and self.wants[key][0] == name, "delivered for a subscription that is no more"
        assert self.published[publisher, number] in events_of(self.wants[key][1]), "delivered what does not match"
        got = self.delivered.setdefault(key, [])
        last = max((other for who, other in got if who == publisher), default=0)
        assert number > last, "delivered twice, or out of order"
        got.append((publisher, number))

    # What one who sees everything expects.

    def offered_behind(self, name: str, without: str | None = None) -> list[str]:
        side = set(side_of(self.edges, name, without))
        return [text for broker, text in self.offers.values() if broker in side]

    def wanted_behind(self, name: str, without: str | None = None) -> dict[str, str]:
        """What is wanted there, by canonical text."""
        side = set(side_of(self.edges, name, without))
        return {filter_of(text).text(): text for broker, text in self.wants.values() if broker in side}

    def expected(self, at: str, neighbour: str) -> dict[str, str]:
        """What the neighbour tells a broker without any reduction."""
        wanted = self.wanted_behind(neighbour, without=at)
        match self.strategy:
            case "flooding":
                return {}
            case "subscription":
                return wanted
            case "hierarchical":
                return wanted if self.parents.get(neighbour) == at else {}
            case "advertisement":
                offered = [filter_of(text) for text in self.offered_behind(at, without=neighbour)]
                return {
                    canonical: text
                    for canonical, text in wanted.items()
                    if any(filter_of(text).overlaps(filter) for filter in offered)
                }

    def check_rest(self) -> None:
        """Nothing is under way: every table is as it should be."""
        for name, router in self.routers.items():
            router.check()
            assert router.why_unsettled() == ""
            near = {b if a == name else a for a, b in self.edges if name in (a, b)}
            assert router.links.keys() == near
            assert not any(router.ledger.unanswered.values()) and not router.ledger.is_timed
            self.check_offers(name, router)
            for neighbour in near:
                self.check_wanted(name, router, neighbour)

    def check_offers(self, name: str, router: Router) -> None:
        reachable = set(side_of(self.edges, name))
        expected = {key: broker for key, (broker, _) in self.offers.items() if broker in reachable}
        assert router.tables.offers.keys() == expected.keys()
        for advertisement, broker in expected.items():
            if broker == name:
                assert advertisement in router.tables.offers_of[None]
                assert router.hop_toward(advertisement) is None
            else:
                hop = router.hop_toward(advertisement)
                assert hop is not None and broker in side_of(self.edges, hop, without=name)
                assert list(router.tables.offers[advertisement]) == [hop]
            chosen = router.tables.chosen(advertisement)
            assert chosen is not None and chosen[1].filter == filter_of(self.offers[advertisement][1])

    def check_wanted(self, name: str, router: Router, neighbour: str) -> None:
        expected, told = self.expected(name, neighbour), router.tables.texts[neighbour]
        if self.reduction == "plain":
            assert told.keys() == expected.keys()
            return
        filters = [router.tables.filters[text] for text in told]
        for wide in filters:
            assert not any(wide is not other and wide.covers(other) for other in filters), "one told covers another"
        if self.strategy == "advertisement":
            possible = {e for text in self.offered_behind(name, without=neighbour) for e in events_of(text)}
        else:
            possible = set(range(len(EVENTS)))
        wanted = {place for text in expected.values() for place in events_of(text)}
        matched = {place for place, event in enumerate(EVENTS) if any(each.matches(event) for each in filters)}
        assert wanted & possible <= matched, "something wanted is not told"
        if self.reduction == "covering":
            assert told.keys() <= expected.keys()
        if not router.params.merge_share_max:
            assert matched & possible <= wanted, "something is told that nobody wants"

    def check_deliveries(self) -> None:
        """Publish everything that is offered; each subscription gets what it wants, once."""
        self.delivered.clear()
        published: dict[str, list[tuple[int, int]]] = {}
        for advertisement, (_, text) in self.offers.items():
            places = self.rng.sample(sorted(events_of(text)), min(8, len(events_of(text))))
            first = len(self.published)
            self.publish(advertisement, places)
            numbers = [number for _, number in list(self.published)[first:]]
            published[advertisement] = list(zip(numbers, places, strict=True))
        self.world.rest()
        for key, (name, text) in self.wants.items():
            reachable = set(side_of(self.edges, name))
            expected = sorted(
                (advertisement, number)
                for advertisement, events in published.items()
                if self.offers[advertisement][0] in reachable
                for number, place in events
                if place in events_of(text)
            )
            assert sorted(self.delivered.get(key, [])) == expected
