"""Popularity in networks of dispatchers, in time: batches, direct delivery, gossip; every event arrives once."""

from collections import Counter
from functools import partial
from random import Random
from typing import Any

import pytest

from tests.worlds.brokers import random_tree
from tidings.model.event import Event
from tidings.model.language.parser import parse
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.protocols.access.open_door import OpenDoorParams
from tidings.protocols.gossip.lpbcast import LpbcastParams
from tidings.protocols.routing.carriage.popular import PopularCarriage
from tidings.protocols.routing.params import PopularityName, RoutingParams
from tidings.pubsub.client import Arrived, CloseSubscription, Latency, OpenAdvertisement, OpenSubscription, PublishBatch
from tidings.pubsub.publications import encode_head
from tidings.sim.network.latency import Constant
from tidings.sim.node import Draws
from tidings.sim.simulator import Simulator

WAYS: tuple[PopularityName, ...] = ("batching", "direct", "gossip", "asked")
LATENCIES: tuple[Latency, ...] = ("any", "low", "cheap")
"""What is asked for the kinds, by turns, where it makes a difference."""
KINDS = 6


class PopularNetwork:
    """Dispatchers on a tree; `b0` publishes events of each kind, under an advertisement each. Hardly anything is for
    the tree."""

    def __init__(self, way: PopularityName, size: int, rng: Random, **params: Any) -> None:
        self.way, self.names = way, [f"b{place}" for place in range(size)]
        self.edges = random_tree(self.names, rng)
        self.simulator = Simulator(rng.getrandbits(32), Constant(0.01))
        routing = RoutingParams(
            engine="plain", popularity=way, **{"capacity": 1.0, "phi": 0.05, "evaluated_every": 1.0, **params}
        )
        for name in self.names:
            links = OpenDoorParams(links=tuple(second for first, second in self.edges if first == name))
            made = DispatcherParams(links=links, routing=routing, groups=LpbcastParams(interval=0.5))
            self.simulator.add(name, partial(make, name, made))
        self.wants: dict[tuple[str, int], str] = {}
        self.owed: dict[tuple[str, int], list[bytes]] = {}
        self.published = 0
        self.tickets = 0

    def dispatcher(self, name: str) -> Dispatcher:
        machine = self.simulator.nodes[name].machine
        assert isinstance(machine, Dispatcher)
        return machine

    def carriage(self, name: str) -> PopularCarriage:
        carriage = self.dispatcher(name).routing.carrier.carriage
        assert isinstance(carriage, PopularCarriage)
        return carriage

    def run(self, seconds: float) -> None:
        self.simulator.run(self.simulator.now + seconds)

    def ask(self, name: str, request: Any) -> None:
        self.simulator.inject(self.simulator.now, name, request)

    def advertise(self, kinds: int = KINDS) -> None:
        for kind in range(kinds):
            latency = LATENCIES[kind % len(LATENCIES)] if self.way == "asked" else "any"
            self.ask("b0", OpenAdvertisement(f"a{kind}", f"kind = {kind}", latency))

    def subscribe(self, name: str, text: str) -> tuple[str, int]:
        number = sum(1 for other, _ in [*self.wants, *self.gone()] if other == name) + 1
        self.wants[name, number] = text
        self.ask(name, OpenSubscription(f"s{number}", text))
        return name, number

    def gone(self) -> list[tuple[str, int]]:
        return [key for key in self.owed if key not in self.wants]

    def unsubscribe(self, key: tuple[str, int]) -> None:
        self.owed.setdefault(key, [])
        del self.wants[key]
        self.ask(key[0], CloseSubscription(f"u{key[1]}", key[1]))

    def publish(self, kind: int, x: int) -> None:
        self.published += 1
        payload = b"%d" % self.published
        event = Event({"kind": kind, "x": x})
        for key, text in self.wants.items():
            if parse(text).matches(event):
                self.owed.setdefault(key, []).append(payload)
        self.ask("b0", PublishBatch(kind + 1, (encode_head(event.attributes),), (payload,)))

    def got(self, key: tuple[str, int]) -> list[bytes]:
        items = [each.item for each in self.simulator.delivered(key[0])]
        mine = [item for item in items if isinstance(item, Arrived) and item.subscription == key[1]]
        return [payload for item in mine for payload in item.payloads]

    def check(self) -> None:
        for name in self.names:
            self.dispatcher(name).check()


def make(name: str, params: DispatcherParams, draws: Draws) -> Dispatcher:
    return Dispatcher(name, params, draws("links"))


ways = pytest.mark.parametrize("way", WAYS)


@ways
@pytest.mark.spec("S-67")
def test_every_event_arrives_once_whoever_comes_and_goes(way: PopularityName, examples: int) -> None:
    """PO-2 and PO-7, across all changes between popular and not, with subscriptions that come late."""
    diverted = 0
    for seed in range(max(8, examples // 20)):
        rng = Random(f"{way} {seed}")
        network = PopularNetwork(way, rng.randint(3, 9), rng)
        network.run(1.0)
        network.advertise()
        network.run(1.0)
        for _ in range(rng.randint(3, 12)):
            network.subscribe(rng.choice(network.names), f"kind = {rng.randrange(KINDS)}")
        network.run(2.0)
        for _ in range(40):
            chance = rng.random()
            if chance < 0.15:
                # Settled before anything is published: what comes earlier is not owed.
                network.subscribe(
                    rng.choice(network.names), f"kind = {rng.randrange(KINDS)} AND x > {rng.randrange(4)}"
                )
                network.run(1.0)
            elif chance < 0.2 and network.wants:
                network.run(8.0)
                network.unsubscribe(rng.choice(list(network.wants)))
                network.run(1.0)
            # What is popular changes: now one kind comes often, now another.
            busy = rng.randrange(KINDS)
            for _ in range(rng.randint(0, 12)):
                network.publish(busy if rng.random() < 0.4 else rng.randrange(KINDS), rng.randrange(6))
                network.run(rng.choice([0.0, 0.05, 0.2]))
            network.run(rng.choice([0.1, 0.5, 2.0]))
        network.run(30.0)
        network.check()
        for key in network.wants:
            got, owed = Counter(network.got(key)), Counter(network.owed.get(key, []))
            assert max(got.values(), default=1) == 1, f"seed {seed}: {key} got something twice"
            assert not owed - got, f"seed {seed}: {key} wants {network.wants[key]} and missed {sorted(owed - got)}"
        diverted += network.carriage("b0").diverted["diverted"]
    assert diverted > 100, "hardly anything left the tree, so nothing was tried"
