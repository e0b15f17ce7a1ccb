"""Dispatchers on a scripted tree in the simulator, whose links are replaced at chosen times.

The setting of dynamic-topologies.md 3.15: a hop takes 0.1 ms, a new link is there 0.1 s after the old one is gone, and
whoever waits waits for 0.15 s.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from tests.worlds.brokers import Edge, side_of
from tidings.machine.effects import Effect, Send
from tidings.machine.node import Machine
from tidings.model.identity import NodeId
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.protocols.overlay.scripted import ScriptedParams, rewiring
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.router import Router
from tidings.pubsub.client import CloseSubscription, OpenSubscription
from tidings.sim.network.latency import Constant
from tidings.sim.node import Draws, SimulatedNode
from tidings.sim.observers import Observer
from tidings.sim.simulator import Simulator
from tidings.trace.writer import Writer

HOP = 0.0001
REPAIR_AFTER = 0.1
WAIT = 0.15
SET_UP = 1.0
LINK_SET_UP = 10 * HOP
"""By then a new link is there, and both ends have begun to speak."""


def golden_params(**params: Any) -> RoutingParams:
    chosen: dict[str, Any] = {
        "strategy": "subscription",
        "reduction": "plain",
        "acknowledges": False,
        "advertises": False,
        "unsubscribe_after": WAIT,
        "subscribe_after": WAIT,
        "activation": "symmetric",
        "is_tuned": False,
        "engine": "plain",
        **params,
    }
    return RoutingParams(**chosen)


class SentMessages(Observer):
    """Everything that is sent, oldest first."""

    def __init__(self) -> None:
        self.sends: list[tuple[float, NodeId, Send]] = []

    def on_effects(self, now: float, node: SimulatedNode, effects: list[Effect]) -> None:
        self.sends += [(now, node.id, effect) for effect in effects if type(effect) is Send]

    def count(self, since: float = 0.0) -> Counter[str]:
        return Counter(type(send.message).__name__ for at, _, send in self.sends if at >= since)

    def of(self, kind: type, since: float = 0.0) -> list[tuple[NodeId, NodeId, Any]]:
        return [
            (name, send.to, send.message) for at, name, send in self.sends if at >= since and type(send.message) is kind
        ]


def make_dispatcher(
    name: NodeId, neighbours: tuple[NodeId, ...], params: RoutingParams, kind: type[Dispatcher], draws: Draws
) -> Machine:
    overlay = ScriptedParams(neighbours=neighbours)
    return kind(name, DispatcherParams(overlay=overlay, routing=params), draws("links"))


class RewiredTree:
    """`edges` are those of the tree as it is going to be when everything that was asked is done."""

    def __init__(
        self,
        edges: Sequence[Edge],
        params: RoutingParams,
        seed: int = 1,
        trace: Writer | None = None,
        checking: bool = True,
        observers: Sequence[Observer] = (),
        kind: type[Dispatcher] = Dispatcher,
    ) -> None:
        self.edges, self.sent = list(edges), SentMessages()
        watching = (self.sent, *observers)
        self.simulator = Simulator(seed, Constant(HOP), checking=checking, trace=trace, observers=watching)
        self.wants: dict[tuple[NodeId, int], str] = {}
        self.given: Counter[NodeId] = Counter()
        self.changes = 0
        for name in self.names:
            self.simulator.add(name, partial(make_dispatcher, name, self.near(name), params, kind))

    @property
    def names(self) -> list[NodeId]:
        return sorted({end for edge in self.edges for end in edge})

    def near(self, name: NodeId) -> tuple[NodeId, ...]:
        return tuple(b if a == name else a for a, b in self.edges if name in (a, b))

    def router(self, name: NodeId) -> Router:
        machine: Any = self.simulator.nodes[name].machine
        router = machine.routing
        assert isinstance(router, Router)
        return router

    def want(self, at: float, name: NodeId, text: str) -> int:
        self.given[name] += 1
        self.wants[name, self.given[name]] = text
        self.simulator.inject(at, name, OpenSubscription(None, text))
        return self.given[name]

    def unwant(self, at: float, name: NodeId, number: int) -> None:
        del self.wants[name, number]
        self.simulator.inject(at, name, CloseSubscription(None, number))

    def way(self, first: NodeId, last: NodeId) -> list[NodeId]:
        """The brokers from one to the other in the tree, both included."""
        if first == last:
            return [first]
        for second in self.near(first):
            if last in side_of(self.edges, second, without=first):
                rest = RewiredTree.__new__(RewiredTree)
                rest.edges = [edge for edge in self.edges if first not in edge]
                return [first, *rest.way(second, last)]
        raise AssertionError("no way")

    def replace(self, at: float, old: Edge, new: Edge) -> str:
        """The old link goes, and the new one, whose ends stand in the same order, comes a while later."""
        self.changes += 1
        name = f"r{self.changes}"
        self.edges = [edge for edge in self.edges if set(edge) != set(old)]
        head, tail = self.way(old[0], new[0]), self.way(new[1], old[1])
        self.edges.append(new)
        steps_at = (at, at + REPAIR_AFTER, at + REPAIR_AFTER + LINK_SET_UP)
        for when, steps in zip(steps_at, rewiring(name, head, tail), strict=True):
            for broker, request in steps:
                self.simulator.inject(when, broker, request)
        return name

    def tables(self) -> dict[NodeId, dict[NodeId, set[str]]]:
        return {
            name: {other: set(self.router(name).tables.texts[other]) for other in sorted(self.router(name).links)}
            for name in self.names
        }

    def right_tables(self) -> dict[NodeId, dict[NodeId, set[str]]]:
        """INV-R2: a pattern is wanted of a neighbour just when a broker on its side has a client that wants it."""
        return {
            name: {
                other: {text for (broker, _), text in self.wants.items() if broker in side_of(self.edges, other, name)}
                for other in sorted(self.near(name))
            }
            for name in self.names
        }
