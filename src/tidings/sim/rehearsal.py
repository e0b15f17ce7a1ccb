"""A plan is carried out in the simulator before it is carried out: the network's own tree, tables and traffic.

Brokers of the same names, linked by today's tree, with what the real ones say of themselves: the filters of their
clients, the advertisements of their publishers, how many events a second those publish, and one event of each, which
is published again and again. Latencies are those that are known, and otherwise all the same small one. The events flow
for a moment, then the plan is carried out, and they flow on for a moment behind it.

What it answers: how long the plan takes, how much later events are meanwhile, and whether all of them come, once and in
order. What it does not: how long programs compute, and what other work their machines have. Rates above `RATE_MAX` in
all are scaled down, and filters beyond `FILTERS_MAX` left out; both are told.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from tidings.machine.effects import Effect, Send
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.model.language.parser import parse
from tidings.nodes.broker import BrokerNode, BrokerParams
from tidings.nodes.client import ClientNode
from tidings.planning.checker import problem_in
from tidings.planning.plan import TopologyPlan
from tidings.planning.traffic import Traffic
from tidings.planning.tree import OverlayTree
from tidings.protocols.access.params import GuestParams
from tidings.protocols.coordination.messages import CarryOut
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.overlay.scripted import ScriptedParams
from tidings.protocols.routing.params import ReductionName, RoutingParams, StrategyName
from tidings.pubsub.client import Arrived, OpenAdvertisement, OpenSubscription, PublishBatch, Took
from tidings.pubsub.publications import encode_head
from tidings.sim.checkers import Checker, Judges
from tidings.sim.network.latency import Matrix
from tidings.sim.node import Draws, SimulatedNode
from tidings.sim.observers import Observer
from tidings.sim.simulator import Simulator

SETTLED_AT, BEFORE, BEHIND, LOOK_PERIOD = 5.0, 2.0, 2.0, 1.0
"""Seconds."""
PLAN_TIME_MAX = 600.0
RATE_MAX, FILTERS_MAX = 200.0, 2_000


class RehearsedOffer(msgspec.Struct, frozen=True):
    """A publisher: what it advertises, an event of it, and how many it publishes a second."""

    filter: str
    attributes: dict[str, Any]
    rate: float


class RehearsedBroker(msgspec.Struct, frozen=True):
    filters: tuple[str, ...] = ()
    offers: tuple[RehearsedOffer, ...] = ()


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    state: str
    """That of the plan: done, aborted, or how far it came within `PLAN_TIME_MAX`."""
    problem: str
    seconds: float
    messages: int
    """Sent from the beginning of the plan to its end."""
    events: int
    deliveries: int
    lost: int
    twice: int
    """Or out of order."""
    p99_before: float
    """The 99th percentile of latency, in seconds; 0 where nothing was delivered."""
    p99_during: float
    scaled: float
    """The share of the measured rates at which events were published."""
    left_out: int
    """Filters that were too many."""


class Audience(Checker):
    """What was published, and what came."""

    def __init__(self) -> None:
        self.published: dict[NodeId, list[float]] = {}
        self.came: dict[tuple[NodeId, int, NodeId], int] = {}
        self.latencies: list[tuple[float, float]] = []
        self.twice = 0

    def delivered(self, now: float, node: SimulatedNode, item: Any) -> None:
        if not isinstance(item, Arrived):
            return
        publisher = item.publisher.partition("/")[0]
        key = node.id, item.subscription, publisher
        for number in item.numbers:
            if number <= self.came.get(key, 0):
                self.twice += 1
            else:
                self.came[key] = number
            at = self.published[publisher][number - 1]
            self.latencies.append((at, now - at))
        node.world.inject(now, node.id, Took(item.subscription, len(item.numbers)))

    @property
    def deliveries(self) -> int:
        return len(self.latencies)

    def p99(self, begin: float, end: float) -> float:
        """Of what was published in between."""
        found = sorted(latency for at, latency in self.latencies if begin <= at < end)
        return found[min(len(found) - 1, int(0.99 * len(found)))] if found else 0.0


class MessageCount(Observer):
    count = 0
    is_on = False

    def on_effects(self, now: float, node: SimulatedNode, effects: list[Effect]) -> None:
        if self.is_on and isinstance(node.machine, BrokerNode):
            self.count += sum(type(each) is Send for each in effects)


def rehearse(
    plan: TopologyPlan,
    brokers: Mapping[NodeId, RehearsedBroker],
    traffic: Traffic,
    deployer: NodeId,
    *,
    strategy: StrategyName = "advertisement",
    reduction: ReductionName = "covering",
    seed: int = 1,
) -> Rehearsal:
    if problem := problem_in(plan):
        raise UsageError(f"the plan is not sound: {problem}")
    audience, words = Audience(), MessageCount()
    both = {way: value for (a, b), value in traffic.latencies.items() for way in ((a, b), (b, a))}
    world = Simulator(seed, Matrix(both, default=traffic.latency_otherwise), observers=[Judges([audience]), words])
    routing = RoutingParams(strategy=strategy, reduction=reduction, engine="plain", repair="shift")
    for name in sorted({*plan.initial.brokers, *plan.goal.brokers}):
        world.add(name, partial(rehearsed_broker, plan.initial, name, routing))
    offers, expected, left_out = add_clients(world, brokers)
    rate = sum(each.rate for each in offers.values())
    scaled = min(1.0, RATE_MAX / rate) if rate else 1.0
    begin = SETTLED_AT + BEFORE
    publish(world, audience, offers, scaled, SETTLED_AT, begin)
    world.run(begin)
    words.is_on = True
    world.inject(begin, deployer, CarryOut(plan))
    until, row = begin, None
    while until < begin + PLAN_TIME_MAX and (row is None or row.state not in ("done", "aborted")):
        publish(world, audience, offers, scaled, until, until + LOOK_PERIOD)
        until += LOOK_PERIOD
        world.run(until)
        machine = world.node(deployer).machine
        assert isinstance(machine, BrokerNode)
        row = next(iter(machine.coordination.deployer.plan_rows(world.now)), None)
    words.is_on = False
    publish(world, audience, offers, scaled, until, until + BEHIND)
    world.run(until + BEHIND + PLAN_TIME_MAX / 10)
    assert row is not None
    due = sum(len(audience.published.get(publisher, ())) for publishers in expected for publisher in publishers)
    return Rehearsal(
        state=row.state,
        problem=row.problem,
        seconds=row.seconds,
        messages=words.count,
        events=sum(map(len, audience.published.values())),
        deliveries=audience.deliveries,
        lost=due - audience.deliveries + audience.twice,
        twice=audience.twice,
        p99_before=audience.p99(SETTLED_AT, begin),
        p99_during=audience.p99(begin, begin + row.seconds),
        scaled=scaled,
        left_out=left_out,
    )


def rehearsed_broker(tree: OverlayTree, name: NodeId, routing: RoutingParams, draws: Draws) -> BrokerNode:
    near = tuple(tree.neighbours()[name]) if name in tree.brokers else ()
    params = BrokerParams(overlay=ScriptedParams(neighbours=near), routing=routing)
    return BrokerNode(name, params, draws("access"))


def rehearsed_client(at: NodeId, name: NodeId, draws: Draws) -> ClientNode:
    return ClientNode(name, GuestParams(brokers=(at,)), SessionParams(), draws("access"))


def add_clients(
    world: Simulator, brokers: Mapping[NodeId, RehearsedBroker]
) -> tuple[dict[NodeId, RehearsedOffer], list[list[NodeId]], int]:
    """Publishers by name; for each filter those whose events it matches; how many filters were too many."""
    offers: dict[NodeId, RehearsedOffer] = {}
    wanted: list[str] = []
    left_out = 0
    for at, broker in sorted(brokers.items()):
        for place, offer in enumerate(broker.offers):
            name = f"p{place} {at}"
            offers[name] = offer
            world.add(name, partial(rehearsed_client, at, name))
            world.inject(1.0, name, OpenAdvertisement("offer", offer.filter))
        room = max(0, FILTERS_MAX - len(wanted))
        taken = list(dict.fromkeys(broker.filters))[:room]
        left_out += len(dict.fromkeys(broker.filters)) - len(taken)
        for place, filter in enumerate(taken):
            name = f"s{place} {at}"
            world.add(name, partial(rehearsed_client, at, name))
            world.inject(2.0, name, OpenSubscription("want", filter))
        wanted += taken
    return offers, [matched(filter, offers) for filter in wanted], left_out


def matched(filter: str, offers: Mapping[NodeId, RehearsedOffer]) -> list[NodeId]:
    parsed = parse(filter)
    return [name for name, offer in offers.items() if parsed.matches(Event(offer.attributes))]


def publish(
    world: Simulator,
    audience: Audience,
    offers: Mapping[NodeId, RehearsedOffer],
    scaled: float,
    begin: float,
    end: float,
) -> None:
    for place, (name, offer) in enumerate(offers.items()):
        if offer.rate <= 0:
            continue
        period = 1.0 / (offer.rate * scaled)
        mine: list[float] = audience.published.setdefault(name, [])
        at = mine[-1] + period if mine else begin + period * (place + 1) / (len(offers) + 1)
        while at < end:
            mine.append(at)
            world.inject(at, name, PublishBatch(1, (encode_head(offer.attributes),), (b"",)))
            at += period
