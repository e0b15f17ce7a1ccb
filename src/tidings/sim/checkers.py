"""Checkers: what a run must not do, and what it must have done by its end.

A checker is told what happens and judges it; machines know nothing of it. There are two sorts, and one object may be
both. **Safety** is judged at each moment, whatever faults last: `delivered` raises `CheckFailed`, which ends the run at
once, so that the trace ends with the mistake. **Liveness** is judged once, after all faults are over and the network
had time to settle: `at_end` answers with everything that is missing.

What a node remembers matters for both. A node that crashed *forgetting* may deliver an event again, and need not have
what it delivered in an earlier life; so checkers keep what a node delivered by its *memory*, which is the machine
object: it stays the same in a restart that keeps the state.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from tidings.machine.effects import Deliver, Effect
from tidings.machine.inputs import Fired, Input, Received
from tidings.machine.node import Machine
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.protocols.teaching.ping import PeerRecovered, PeerSuspected
from tidings.pubsub.requests import Publish
from tidings.sim.node import SimulatedNode
from tidings.sim.observers import Observer
from tidings.sim.simulator import Simulator
from tidings.sim.topologies import Topology

PROBLEMS_MAX = 20
"""Missing things that are listed; of more, the rest is counted."""


class Problem(msgspec.Struct, frozen=True):
    """What a checker found, of which node, and when."""

    checker: str
    text: str
    node: NodeId = ""
    time: float = 0.0

    def __str__(self) -> str:
        where = f" at {self.node}" if self.node else ""
        return f"{self.checker}: {self.text} (t={self.time:.3f}{where})"


class CheckFailed(Exception):
    """A safety checker found something; the run ends."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class Checker:
    """Base of all: finds nothing. One object serves one run."""

    name = "checker"

    def requested(self, now: float, node: SimulatedNode, input: Input) -> None:
        """The application, or the world, gave this input to a node that is up; not called for messages and timers."""

    def delivered(self, now: float, node: SimulatedNode, item: Any) -> None:
        """The machine of a node hands this to its application."""

    def at_end(self, world: Simulator) -> list[Problem]:
        """What is missing."""
        return []

    def figures(self) -> dict[str, int]:
        """How much of what was judged."""
        return {}

    def fail(self, now: float, node: NodeId, text: str) -> CheckFailed:
        return CheckFailed(Problem(self.name, text, node, now))


class Judges(Observer):
    """Tells checkers what applications ask for and what they get."""

    def __init__(self, checkers: list[Checker]) -> None:
        self.checkers = checkers

    def on_input(self, now: float, node: SimulatedNode, input: Input) -> None:
        if type(input) is not Received and type(input) is not Fired:
            for checker in self.checkers:
                checker.requested(now, node, input)

    def on_effects(self, now: float, node: SimulatedNode, effects: list[Effect]) -> None:
        for effect in effects:
            if type(effect) is Deliver:
                for checker in self.checkers:
                    checker.delivered(now, node, effect.item)


class Memories:
    """What each node delivered within its present memory."""

    def __init__(self) -> None:
        self.kept: dict[NodeId, tuple[Machine | None, dict[Any, None]]] = {}

    def of(self, node: SimulatedNode) -> dict[Any, None]:
        memory = self.kept.get(node.id)
        if memory is None or memory[0] is not node.machine:
            memory = self.kept[node.id] = (node.machine, {})
        return memory[1]


class NothingFalse(Checker):
    """An event that is delivered was published before, and is the same to the last byte."""

    name = "nothing false"

    def __init__(self) -> None:
        self.published: dict[Any, Event] = {}

    def requested(self, now: float, node: SimulatedNode, input: Input) -> None:
        if isinstance(input, Publish):
            self.published.setdefault(input.event.key, input.event)

    def delivered(self, now: float, node: SimulatedNode, item: Any) -> None:
        if isinstance(item, Event) and self.published.get(item.key) != item:
            why = "published otherwise" if item.key in self.published else "published by nobody"
            raise self.fail(now, node.id, f"delivers {key_text(item.key)}, which was {why}")


class NoDuplicates(Checker):
    """No node delivers an event twice while it remembers."""

    name = "no duplicates"

    def __init__(self) -> None:
        self.memories = Memories()

    def delivered(self, now: float, node: SimulatedNode, item: Any) -> None:
        if isinstance(item, Event):
            memory = self.memories.of(node)
            if item.key in memory:
                raise self.fail(now, node.id, f"delivers {key_text(item.key)} a second time")
            memory[item.key] = None


class Convergence(Checker):
    """At the end every node that is up has each event that a node remembers which it can be reached from.

    Nodes that are down for good may have cut the topology in pieces; then each piece is judged for itself.
    """

    name = "convergence"

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.memories = Memories()

    def delivered(self, now: float, node: SimulatedNode, item: Any) -> None:
        if isinstance(item, Event):
            self.memories.of(node)[item.key] = None

    def at_end(self, world: Simulator) -> list[Problem]:
        return [
            problem
            for piece in pieces_up(world, self.topology)
            for problem in self.judge([world.nodes[id] for id in piece], world.now)
        ]

    def judge(self, piece: list[SimulatedNode], now: float) -> list[Problem]:
        held = dict.fromkeys(key for node in piece for key in self.memories.of(node))
        return [
            Problem(self.name, f"{key_text(key)} is held elsewhere and did not arrive", node.id, now)
            for node in piece
            for key in held
            if key not in self.memories.of(node)
        ]


def pieces_up(world: Simulator, topology: Topology) -> list[list[NodeId]]:
    """The nodes that are up, by which of them can reach each other over links between such nodes."""
    up = {id for id, node in world.nodes.items() if node.process is not None}
    nodes = tuple(node for node in topology.nodes if node in up)
    edges = tuple(edge for edge in topology.edges if edge.a in up and edge.b in up)
    return Topology(topology.name, nodes, edges).parts()


def key_text(key: tuple[str | None, str | None]) -> str:
    source, id = key
    return f"event {id} of {source}"


class Arrival(Checker):
    """At the end every node that is up has delivered each event that was published at a node that was up."""

    name = "arrival"

    def __init__(self) -> None:
        self.published: dict[Any, None] = {}
        self.arrived: dict[NodeId, set[Any]] = {}

    def requested(self, now: float, node: SimulatedNode, input: Input) -> None:
        if isinstance(input, Publish):
            self.published[input.event.key] = None

    def delivered(self, now: float, node: SimulatedNode, item: Any) -> None:
        if isinstance(item, Event):
            self.arrived.setdefault(node.id, set()).add(item.key)

    def at_end(self, world: Simulator) -> list[Problem]:
        return [
            Problem(self.name, f"{key_text(key)} was published and did not arrive", node.id, world.now)
            for node in world.nodes.values()
            if node.process is not None
            for key in self.published
            if key not in self.arrived.get(node.id, ())
        ]


class RightSuspicion(Checker):
    """Nobody suspects a stranger; at the end each node that is up suspects exactly those neighbours that are down."""

    name = "right suspicion"

    def __init__(self, topology: Topology) -> None:
        self.neighbours = topology.neighbours()
        self.suspected = Memories()

    def delivered(self, now: float, node: SimulatedNode, item: Any) -> None:
        if not isinstance(item, PeerSuspected | PeerRecovered):
            return
        suspects = self.suspected.of(node)
        if item.neighbour not in self.neighbours[node.id]:
            raise self.fail(now, node.id, f"speaks of {item.neighbour}, which is no neighbour")
        if isinstance(item, PeerSuspected) == (item.neighbour in suspects):
            raise self.fail(now, node.id, f"says twice in a row the same of {item.neighbour}")
        if isinstance(item, PeerSuspected):
            suspects[item.neighbour] = None
        else:
            del suspects[item.neighbour]

    def at_end(self, world: Simulator) -> list[Problem]:
        is_up = {id: node.process is not None for id, node in world.nodes.items()}
        return [
            Problem(self.name, f"{other} is {'up' if is_up.get(other) else 'down'}, and judged wrongly", id, world.now)
            for id, node in world.nodes.items()
            if is_up[id]
            for other in self.neighbours[id]
            if is_up.get(other, False) == (other in self.suspected.of(node))
        ]


def receipts_hold(topology: Topology) -> Checker:
    # The library is made of scenarios, which are judged by checkers.
    from tidings.sim.library.brokers import CALM_PATIENCE, ReceiptsHold

    return ReceiptsHold(CALM_PATIENCE)


CHECKERS: dict[str, Callable[[Topology], Checker]] = {
    "nothing_false": lambda topology: NothingFalse(),
    "no_duplicates": lambda topology: NoDuplicates(),
    "convergence": Convergence,
    "arrival": lambda topology: Arrival(),
    "right_suspicion": RightSuspicion,
    "receipts_hold": receipts_hold,
}
"""By the name under which a scenario file asks for them."""
