"""Events on the air: once for all neighbours that want them, or flooded; and what repairs say passes neighbours."""

import math
from collections import Counter
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from tests.worlds.desk import drops, of, sent
from tests.worlds.radios import AIR, NOTICED, RadioWorld, walkers
from tidings.machine.effects import BROADCAST, Effect, Send, Transport
from tidings.machine.inputs import Fired, Received
from tidings.machine.streams import random_stream
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.model.language.parser import parse
from tidings.nodes.broker import BrokerNode, BrokerParams
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.protocols.overlay.overlay import AllPeersParams
from tidings.protocols.overlay.witree.messages import RouteReply
from tidings.protocols.routing.around import PASSED_ALREADY
from tidings.protocols.routing.carriage.aired import AiredPublications
from tidings.protocols.routing.messages import SubscriptionAdded, SubscriptionRemoved, TableChanges, TablesBegun
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.radio_flood import (
    NOT_ASCENDING,
    TOO_MANY_WAIT,
    FloodedPublications,
    RadioFlooding,
    RadioFloodingParams,
)
from tidings.protocols.routing.repairs.informed import NO_WAY_TO_LINK
from tidings.protocols.routing.repairs.messages import Activate
from tidings.protocols.routing.router import Router
from tidings.pubsub.client import Arrived, OpenSubscription
from tidings.pubsub.publications import Publications, encode_head
from tidings.pubsub.requests import Publish
from tidings.pubsub.signals import Forward, Matched, NeighbourDown, NeighbourReplaced, NeighbourUp, Want
from tidings.sim.network.radio import Radio
from tidings.sim.node import Draws, SimulatedNode
from tidings.sim.observers import Observer
from tidings.sim.simulator import Simulator

PLAIN: dict[str, Any] = {"engine": "plain", "strategy": "subscription", "advertises": False, "acknowledges": False}
ON_AIR = RoutingParams(carriage="aired", repair="informed", unsubscribe_after=2.0, subscribe_after=2.0, **PLAIN)


def batch(value: int = 1, numbers: tuple[int, ...] = (1,), payload: bytes = b"") -> Publications:
    count = len(numbers)
    head = encode_head({"x": value})
    return Publications("pub", "pub/1@a", 0.0, 0, numbers, (head,) * count, (payload,) * count)


def router(**params: Any) -> Router:
    """Neighbours p, q and r; q and r want x = 1, r wants x = 2 as well."""
    machine = Router("m", RoutingParams(**{**PLAIN, "carriage": "aired", **params}))
    for name in "pqr":
        machine.handle(0.0, NeighbourUp(name, 1))
        machine.handle(0.0, Received(name, TablesBegun(1, machine.lives)))
    for name, value in (("q", 1), ("r", 1), ("r", 2)):
        machine.handle(0.0, Received(name, SubscriptionAdded(1, f"x = {value}")))
    return machine


def test_one_transmission_is_for_all_neighbours_that_want_it_and_nobody_else_takes_it() -> None:
    machine = router()
    effects = machine.handle(1.0, Received("p", AiredPublications(("m", "z"), batch())))
    assert effects == [Send(BROADCAST, AiredPublications(("q", "r"), batch()), Transport.DATAGRAM)]
    assert machine.handle(1.0, Received("p", AiredPublications(("z",), batch(numbers=(2,))))) == []
    assert machine.handle(1.0, Received("stranger", AiredPublications(("m",), batch(numbers=(2,))))) == []
    assert drops(machine.handle(1.0, Received("p", AiredPublications(("m",), batch())))) == [PASSED_ALREADY]


def test_what_is_too_large_for_the_air_goes_over_the_links() -> None:
    large = batch(payload=bytes(2000))
    effects = router().handle(1.0, Forward(large))
    assert [(each.to, each.transport) for each in of(Send, effects)] == [
        ("q", Transport.STREAM),
        ("r", Transport.STREAM),
    ]


def test_where_events_may_be_lost_on_the_way_no_guarantee_is_given() -> None:
    for params in (RoutingParams(carriage="aired"), RoutingParams(transport=Transport.DATAGRAM)):
        assert BrokerNode("b", BrokerParams(routing=params), Random(1)).edge.is_best_effort
    assert not BrokerNode("b", BrokerParams(), Random(1)).edge.is_best_effort


def test_what_a_repair_tells_the_new_link_passes_from_neighbour_to_neighbour() -> None:
    machine = router(repair="informed", flush="none")
    machine.handle(1.0, NeighbourDown("p", 1, "gone", "m/1"))
    (told,) = of(Send, machine.handle(2.0, NeighbourReplaced("m/1", "p", "c", "d", way=("m", "q", "c"))))
    assert told.to == "q" and isinstance(told.message, Activate) and told.message.way == ("c",)
    other = router(repair="informed", flush="none")
    (passed,) = of(Send, other.handle(2.0, Received("q", Activate("m/1", "d", b"", b"", ("r",)))))
    assert passed == Send("r", Activate("m/1", "d", b"", b"", ()))
    assert drops(other.handle(2.0, Received("q", Activate("m/1", "d", b"", b"", ("z",))))) == [NO_WAY_TO_LINK]


class Sends(Observer):
    def __init__(self) -> None:
        self.all: list[tuple[float, SimulatedNode, Send]] = []
        self.met: dict[NodeId, set[NodeId]] = {}

    def on_effects(self, now: float, node: SimulatedNode, effects: list[Effect]) -> None:
        machine: Any = node.machine
        for effect in effects:
            if isinstance(effect, Send):
                self.all.append((now, node, effect))
                is_near = effect.to == BROADCAST or effect.to in machine.parts["access"].peers
                # Goodbyes are said on links that are gone already.
                was_near = isinstance(effect.message, RouteReply) or effect.to in self.met.get(node.id, ())
                assert is_near or was_near, f"{node.id} sends {effect} to one that is not in reach"
        self.met.setdefault(node.id, set()).update(machine.parts["access"].peers)


@pytest.mark.spec("D-119")
def test_events_are_on_the_air_tables_over_links_and_nothing_is_sent_further_than_to_who_is_in_reach() -> None:
    sends = Sends()
    world = RadioWorld(5, walking=25, speed=3.0, width=600.0, routing=ON_AIR, is_watched=False, observers=[sends])
    simulator, draw = world.simulator, random_stream(5, "events")
    world.run(20.0)
    names = list(world.trees)
    for name in names[::2]:
        simulator.inject(simulator.now, name, OpenSubscription(None, f"x = {draw.below(4)}"))
    for _ in range(200):
        simulator.inject(simulator.now, draw.choice(names), Publish(Event({"x": draw.below(4)})))
        world.run(0.25)
    kinds = {(type(each.message), each.transport, each.to == BROADCAST) for _, _, each in sends.all}
    assert (AiredPublications, Transport.DATAGRAM, True) in kinds
    assert not any(kind in (Publications, AiredPublications) and not is_air for kind, _, is_air in kinds)
    tables = [kind for kind in kinds if kind[0] in (SubscriptionAdded, SubscriptionRemoved, TableChanges)]
    assert tables and all(transport is Transport.STREAM for _, transport, _ in tables)
    where = world.position
    for at, node, send in sends.all:
        if isinstance(send.message, RouteReply) and send.transport is Transport.DATAGRAM:
            # It was heard a guard delay and a walk ago, and has moved since.
            assert math.dist(where(node.id, at), where(send.to, at)) < AIR.reach + 2 * 3.0
    assert sum(len(simulator.delivered(name)) for name in names) > 100


class Flooded(Observer):
    def __init__(self) -> None:
        self.said: Counter[tuple[NodeId, str, int]] = Counter()
        self.heard: set[tuple[NodeId, str, int]] = set()

    def on_input(self, now: float, node: SimulatedNode, input: Any) -> None:
        if isinstance(input, Received) and isinstance(input.message, FloodedPublications):
            told = input.message.batch
            self.heard.add((node.id, told.publisher, told.numbers[0]))

    def on_effects(self, now: float, node: SimulatedNode, effects: list[Effect]) -> None:
        for message in sent(effects, FloodedPublications):
            self.said[node.id, message.batch.publisher, message.batch.numbers[0]] += 1


def make_flooding(name: NodeId, draws: Draws) -> Dispatcher:
    params = DispatcherParams(overlay=AllPeersParams(), routing=RadioFloodingParams(engine="plain"))
    return Dispatcher(name, params, draws("links"))


@pytest.mark.spec("D-121")
def test_everybody_who_hears_a_flooded_event_says_it_once_and_everybody_who_wants_it_has_it_once() -> None:
    names, walk, flooded = [f"n{number:02}" for number in range(30)], walkers(3, 1.0, 500.0, 500.0), Flooded()
    simulator = Simulator(3, Radio(names, walk, AIR), params=NOTICED, observers=[flooded])
    for name in names:
        simulator.add(name, partial(make_flooding, name))
    for name in names[::2]:
        simulator.inject(0.5, name, OpenSubscription(None, "x > 0"))
    for number in range(40):
        simulator.inject(1.0 + number * 0.2, names[number % 7], Publish(Event({"x": 1})))
    simulator.run(20.0)
    own = set(flooded.said) - flooded.heard
    assert set(flooded.said.values()) == {1}
    assert flooded.heard <= set(flooded.said) and all(node == publisher for node, publisher, _ in own)
    for name in names[::2]:
        came = [each.item for each in simulator.delivered(name) if isinstance(each.item, Arrived)]
        numbers = [(item.publisher, number) for item in came for number in item.numbers]
        assert len(numbers) == len(set(numbers)) > 30


def test_flooding_forgets_nonsense_and_says_what_it_cannot_keep() -> None:
    machine = RadioFlooding("m", RadioFloodingParams(waiting_max=1, engine="plain"))
    machine.handle(0.0, Want(("c", 1), parse("x = 1")))
    effects = machine.handle(0.0, Received("a", FloodedPublications(batch())))
    assert of(Matched, effects)
    assert machine.handle(0.0, Received("b", FloodedPublications(batch()))) == []
    assert drops(machine.handle(0.0, Received("a", FloodedPublications(batch(numbers=(2,)))))) == [TOO_MANY_WAIT]
    assert drops(machine.handle(0.0, Received("a", FloodedPublications(batch(numbers=(5, 4)))))) == [NOT_ASCENDING]
    assert sent(machine.handle(0.1, Fired(("flood", 1))), FloodedPublications) == [FloodedPublications(batch())]
    with pytest.raises(UsageError):
        RadioFloodingParams(jitter=0.0)
    Dispatcher("a", DispatcherParams(overlay=AllPeersParams(), routing=RadioFloodingParams()), Random(1))


@pytest.mark.spec("D-120")
def test_walkers_stay_in_a_square_kilometre_pause_for_five_seconds_and_hear_200_metres() -> None:
    for speed in (0.2, 1.0, 2.0):
        walk = walkers(7, speed)
        places = [walk("n", number / 10) for number in range(40_000)]
        assert all(0 <= x <= 1000 and 0 <= y <= 1000 for x, y in places)
        steps = [math.dist(one, other) * 10 for one, other in pairwise(places)]
        assert max(steps) == pytest.approx(speed)
        runs = "".join("s" if step < 1e-9 else "m" for step in steps).split("m")
        stands = [len(run) for run in runs if run]
        assert stands and all(48 <= count <= 50 for count in stands)
    near = Radio(["a", "b", "c"], lambda name, _: {"a": (0.0, 0.0), "b": (200.0, 0.0), "c": (200.1, 0.0)}[name], AIR)
    near.begin(1)
    assert [name for name, fates in near.reach(0.0, "a", BROADCAST, 30) or [] if fates] == ["b"]
