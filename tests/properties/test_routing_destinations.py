"""Routing by destination on any graph: who wants an event gets it once, and nobody else does."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.message_strategies import of_message
from tests.worlds.brokers import BrokerWorld, Edge, ordered, side_of
from tidings.machine.effects import Drop, Effect, Send
from tidings.machine.inputs import Fired, Input, Received
from tidings.machine.streams import RandomStream, random_stream
from tidings.matching.bloom import BloomProfile, message_bits_match_filter_bits
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.language.parser import parse
from tidings.protocols.routing.destinations.knowledge import Knowledge
from tidings.protocols.routing.destinations.messages import Directed, LinkState, Predicates
from tidings.protocols.routing.destinations.params import DestinationParams
from tidings.protocols.routing.destinations.router import NO_ROUTE, DestinationRouter, Queues
from tidings.pubsub.publications import Publications, encode_head
from tidings.pubsub.signals import Forward, Matched, NeighbourDown, NeighbourUp, SubscriptionKey, Unwant, Want
from tidings.wire import decode, encode

Delivered = dict[tuple[str, int], list[tuple[SubscriptionKey, ...]]]


class Network(BrokerWorld):
    """Both ends hear of a link at once."""

    def __init__(self, names: list[str], rng: RandomStream, params: DestinationParams) -> None:
        self.params = params
        self.routers = {name: watched(name, params) for name in names}
        self.wants: dict[str, dict[SubscriptionKey, Filter]] = {name: {} for name in names}
        self.delivered: Delivered = {}
        self.numbers = 0
        super().__init__(dict(self.routers), rng, checks=True)

    def link(self, first: str, second: str) -> None:
        if ordered(first, second) not in self.epochs:
            super().link(first, second)
            self.hear(first, second)
            self.hear(second, first)

    def cut(self, first: str, second: str) -> None:
        if ordered(first, second) in self.epochs:
            super().cut(first, second)
            self.hear(first, second)
            self.hear(second, first)

    def restart(self, name: str) -> None:
        self.wants[name] = {}
        self.routers[name] = watched(name, self.params)
        self.crash(name, self.routers[name])

    def want(self, name: str, number: int, filter: Filter) -> None:
        self.wants[name][f"client of {name}", number] = filter
        self.tell(name, Want((f"client of {name}", number), filter))

    def unwant(self, name: str, number: int) -> None:
        self.wants[name].pop((f"client of {name}", number), None)
        self.tell(name, Unwant((f"client of {name}", number)))

    def publish(self, name: str, events: list[Event]) -> list[int]:
        numbers = tuple(range(self.numbers, self.numbers + len(events)))
        self.numbers += len(events)
        heads = tuple(encode_head(event.attributes) for event in events)
        self.tell(name, Forward(Publications("p", "p/1", 0.0, 0, numbers, heads, tuple(b"x" for _ in events))))
        return list(numbers)

    def tell(self, name: str, input: Input) -> list[Effect]:
        effects = super().tell(name, input)
        check_split(name, self.routers[name], input, effects)
        for effect in effects:
            if isinstance(effect, Matched):
                for number, keys in zip(effect.batch.numbers, effect.wanted, strict=True):
                    self.delivered.setdefault((name, number), []).append(tuple(keys))
        return effects

    def judge(self, home: str, numbers: list[int], events: list[Event]) -> None:
        for number, event in zip(numbers, events, strict=True):
            for name in self.routers:
                keys = tuple(key for key, filter in self.wants[name].items() if filter.matches(event))
                expected = [set(keys)] if keys and name in side_of(self.epochs, home) else []
                assert [set(given) for given in self.delivered.get((name, number), [])] == expected


class WatchedQueues(Queues):
    """Remembers what was put in, whether or not it has left."""

    def __init__(self, params: DestinationParams) -> None:
        super().__init__(params)
        self.copies: list[Directed] = []

    def put(self, now: float, neighbour: str, message: Directed) -> list[Effect]:
        self.copies.append(message)
        return super().put(now, neighbour, message)


def watched(name: str, params: DestinationParams) -> DestinationRouter:
    made = DestinationRouter(name, params)
    made.queues = WatchedQueues(params)
    return made


def check_split(name: str, machine: DestinationRouter, input: Any, effects: list[Effect]) -> None:
    """T-11: the destinations are shared out among the copies, with none left out and none given twice."""
    assert isinstance(machine.queues, WatchedQueues)
    copies, machine.queues.copies = machine.queues.copies, []
    lost = [effect.item for effect in effects if isinstance(effect, Drop) and effect.reason == NO_ROUTE]
    match input:
        case Received(_, Directed(destinations)):
            shared = [other for copy in copies + lost for other in copy.destinations]
            assert sorted(shared) == sorted(set(destinations) - {name})


FILTERS = [
    *("a = 1", "a = 2 AND b = 'x'", "b = 'y'", "a > 1", "EXISTS c", "a = 1 OR c = TRUE", "NOT EXISTS a", "b LIKE 'x%'"),
    *("a = 2", "c = FALSE AND a = 3", "TRUE", "LENGTH(b) > 1"),
]
filters = st.sampled_from([parse(text) for text in FILTERS])
events = st.builds(
    Event,
    st.fixed_dictionaries(
        {}, optional={"a": st.integers(1, 3), "b": st.sampled_from(["x", "y", "xy"]), "c": st.booleans()}
    ),
)
profiles = st.sampled_from([BloomProfile(), BloomProfile(bits=64, hashes=2), BloomProfile(bits=16, hashes=1)])


BATCH = Publications("p", "p/1", 0.0, 0, (1,), (encode_head({"a": 1}),), (b"",))


def edges_of(names: list[str], rng: RandomStream) -> list[Edge]:
    """Connected, with some links more than a tree has."""
    tree = [(name, names[rng.below(place)]) for place, name in enumerate(names) if place]
    more = [(one, other) for one in names for other in names if one < other and rng.random() < 0.2]
    return list(dict.fromkeys((min(edge), max(edge)) for edge in tree + more))


@pytest.mark.spec("T-10", "T-11", "T-12")
@given(
    st.integers(0, 2**32),
    st.integers(1, 8),
    st.lists(st.tuples(st.integers(0, 7), st.integers(1, 4), filters), max_size=12),
    st.lists(st.tuples(st.integers(0, 7), st.lists(events, min_size=1, max_size=4)), min_size=1, max_size=6),
    profiles,
)
def test_every_broker_that_wants_an_event_gets_it_exactly_once_and_nobody_else_does(
    seed: int,
    size: int,
    wants: list[tuple[int, int, Filter]],
    batches: list[tuple[int, list[Event]]],
    profile: BloomProfile,
) -> None:
    rng = random_stream(seed, "drp")
    names = [f"n{number}" for number in range(size)]
    network = Network(names, rng, DestinationParams(profile=profile))
    for one, other in edges_of(names, rng):
        network.link(one, other)
    for place, number, filter in wants:
        network.want(names[place % size], number, filter)
    network.settle()
    published = [(names[place % size], some, network.publish(names[place % size], some)) for place, some in batches]
    network.settle()
    for home, some, numbers in published:
        network.judge(home, numbers, some)


@pytest.mark.spec("T-10", "T-12")
@given(
    st.integers(0, 2**32),
    st.integers(2, 7),
    st.lists(st.tuples(st.integers(0, 6), st.integers(1, 3), filters), min_size=1, max_size=20),
    st.lists(events, min_size=1, max_size=4),
)
def test_after_any_changes_of_links_brokers_and_subscriptions_the_same_holds_again(
    seed: int, size: int, wants: list[tuple[int, int, Filter]], some: list[Event]
) -> None:
    rng = random_stream(seed, "drp changes")
    names = [f"n{number}" for number in range(size)]
    network = Network(names, rng, DestinationParams())
    edges = edges_of(names, rng)
    for one, other in edges:
        network.link(one, other)
    for place, number, filter in wants:
        name, (one, other) = names[place % size], rng.choice(edges)
        change = rng.below(6)
        if change == 0:
            network.cut(one, other)
        elif change <= 2:
            network.link(one, other)
        elif change == 3:
            network.unwant(name, number)
        elif change == 4:
            network.restart(name)
        network.want(name, number, filter)
        for _ in range(rng.below(20)):
            network.go_on()
        network.publish(rng.choice(names), some)
    network.settle()
    network.delivered.clear()
    home = rng.choice(names)
    numbers = network.publish(home, some)
    network.settle()
    network.judge(home, numbers, some)


names_drawn = st.sampled_from(["a", "b", "m", "z"])
said_by_brokers = st.one_of(
    st.builds(LinkState, names_drawn, st.integers(0, 3), st.lists(names_drawn, max_size=3).map(tuple)),
    st.builds(Predicates, names_drawn, st.integers(0, 3), st.just(16), st.just(1), st.just(0), st.binary(max_size=6)),
    st.builds(Directed, st.lists(names_drawn, min_size=1, max_size=3).map(tuple), st.integers(0, 3), st.just(BATCH)),
    *[of_message(kind) for kind in (LinkState, Predicates)],
)
inputs = st.one_of(
    st.builds(NeighbourUp, names_drawn, st.integers(1, 3)),
    st.builds(NeighbourDown, names_drawn, st.integers(1, 3)),
    st.builds(Received, names_drawn, said_by_brokers),
    st.builds(Received, names_drawn, said_by_brokers),
    st.builds(Want, st.tuples(st.just("c"), st.integers(1, 2)), filters),
    st.builds(Forward, st.just(BATCH)),
    st.sampled_from([Fired("announce"), Fired(("serve", "a")), Fired(("serve", "b"))]),
)


@given(st.lists(inputs, max_size=30))
def test_nothing_that_brokers_say_breaks_the_router(said: list[Input]) -> None:
    params = DestinationParams(profile=BloomProfile(bits=16, hashes=1), brokers_max=3, queue_max=2, rate_max=1.0)
    machine = DestinationRouter("m", params)
    machine.start(0.0)
    for input in said:
        for effect in machine.handle(1.0, input):
            if isinstance(effect, Send):
                assert decode(encode(effect.message)) == effect.message
            assert not isinstance(effect, Drop) or effect.reason
        machine.check()


bits = st.sets(st.integers(0, 11), max_size=6).map(lambda places: sum(1 << place for place in places))


@given(bits, st.lists(st.lists(bits, max_size=4), min_size=1, max_size=5))
def test_who_may_want_an_event_is_who_has_a_row_that_matches_it(event: int, tables: list[list[int]]) -> None:
    knowledge = Knowledge("a", DestinationParams())
    names = [f"n{place}" for place in range(len(tables))]
    knowledge.topology.put("a", 1, tuple(names))
    for name, rows in zip(names, tables, strict=True):
        knowledge.topology.put(name, 1, ("a",))
        knowledge.rows[name] = 1, tuple(rows)
    wanting = [
        name
        for name, rows in zip(names, tables, strict=True)
        if any(message_bits_match_filter_bits(event, row) for row in rows)
    ]
    assert sorted(knowledge.may_want(event)) == wanting
