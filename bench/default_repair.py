"""`python -m bench.default_repair`: which repair is the best for brokers as they start, on an LSTree that breaks.

    python -m bench.default_repair                    60 dispatchers, two seeds
    python -m bench.default_repair --strategy subscription

Every dispatcher routes as a broker does by default (advertisements, covering) and wants 5 of 200 filters; five of them
publish ten events a second in all. Every ten seconds one that others are below dies, and another one joins; 30 times.
Shown are, for each repair, filters that were told or taken back, bytes about tables, events that came to where nobody
wanted them, and messages with events, the same ones for all repairs.
"""

import argparse
import sys
from typing import Any

from tests.worlds.trees import TreeWorld
from tidings.machine.effects import Drop, Effect, Send
from tidings.machine.streams import random_stream
from tidings.model.event import Event
from tidings.protocols.overlay.lstree.params import LsTreeParams
from tidings.protocols.routing.carrier import UNWANTED
from tidings.protocols.routing.messages import SubscriptionAdded, SubscriptionRemoved, TableChanges
from tidings.protocols.routing.packets import changes_of
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.router import Router
from tidings.pubsub.client import OpenAdvertisement, OpenSubscription
from tidings.pubsub.publications import Publications
from tidings.pubsub.requests import Publish
from tidings.sim.node import SimulatedNode
from tidings.sim.observers import Observer
from tidings.wire import encode

REPAIRS: dict[str, dict[str, Any]] = {
    "strawman": {"repair": "strawman"},
    "resuming (default)": {"repair": "resuming"},
    "resuming, fixed": {"repair": "resuming", "is_tuned": False},
    "timed": {"repair": "timed"},
    "informed, siblings": {"repair": "informed", "activation": "siblings", "flush": "none"},
}
FILTERS, WANTED, PUBLISHERS, DEATHS, BETWEEN = 200, 5, 5, 30, 10.0
SPACING, SETTLE = 0.05, 5.0


class RepairCosts(Observer):
    def __init__(self) -> None:
        self.is_counting = False
        self.filters = self.bytes = self.in_vain = self.messages = 0

    def on_effects(self, now: float, node: SimulatedNode, effects: list[Effect]) -> None:
        for effect in effects if self.is_counting else ():
            match effect:
                case Send(_, Publications()):
                    self.messages += 1
                case Send(_, message) if isinstance(message, Router.messages):
                    self.bytes += len(encode(message))
                    changes = changes_of(message) if isinstance(message, TableChanges) else (message,)
                    self.filters += sum(isinstance(each, SubscriptionAdded | SubscriptionRemoved) for each in changes)
                case Drop(Publications() as batch, reason) if reason == UNWANTED:
                    self.in_vain += len(batch.numbers)


def measure(seed: int, nodes: int, routing: RoutingParams, comes_back: bool) -> RepairCosts:
    costs, draws = RepairCosts(), random_stream(seed, "default repair")
    # Nobody moves, so that all repairs see the same trees.
    overlay = LsTreeParams(nearer_period=0.0)
    world = TreeWorld(seed, nodes, overlay, routing=routing, spacing=SPACING, is_watched=False, observers=[costs])
    simulator = world.simulator

    def want(name: str, after: float) -> None:
        for _ in range(WANTED):
            simulator.inject(simulator.now + after, name, OpenSubscription(None, f"x = {draws.below(FILTERS)}"))

    world.run(nodes * SPACING + SETTLE)
    publishers = draws.sample(world.names, PUBLISHERS)
    for name in world.names:
        want(name, 0.0)
    for name in publishers:
        simulator.inject(simulator.now, name, OpenAdvertisement(None, "TRUE"))
    world.run(SETTLE)
    costs.is_counting = True
    for number in range(DEATHS):
        inner = [name for name in world.names if name not in publishers and world.trees[name].kin.below]
        victim = draws.choice(inner)
        world.crash(victim)
        for _ in range(round(2 * BETWEEN)):
            for name in publishers:
                simulator.inject(simulator.now, name, Publish(Event({"x": draws.below(FILTERS)})))
            world.run(0.5)
        if comes_back:
            simulator.restart(victim, keep_state=False)
            want(victim, 1.0)
        else:
            world.add(f"new{number}")
            want(f"new{number}", 1.0)
    return costs


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.default_repair", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--strategy", choices=["advertisement", "subscription"], default="advertisement")
    parser.add_argument("--back", action="store_true", help="who died is started again, and no other one joins")
    arguments = parser.parse_args()
    print(f"{'':<20}{'filters':>10}{'bytes':>12}{'in vain':>10}{'messages':>12}")
    for name, params in REPAIRS.items():
        routing = RoutingParams(strategy=arguments.strategy, engine="plain", **params)
        found = [measure(seed, arguments.nodes, routing, arguments.back) for seed in range(1, arguments.seeds + 1)]
        total = [sum(getattr(each, field) for each in found) for field in ("filters", "bytes", "in_vain", "messages")]
        print(f"{name:<20}{total[0]:>10,}{total[1]:>12,}{total[2]:>10,}{total[3]:>12,}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
