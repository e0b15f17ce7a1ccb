"""The simulated world: nodes, a network between them, and time that jumps from one event to the next.

    simulator = Simulator(seed=7, network=Constant(0.05))
    simulator.add("a", lambda draws: Ping(["b"], PingParams(), draws("ping")))
    simulator.add("b", lambda draws: Ping(["a"], PingParams(), draws("ping")))
    simulator.run(until=10.0)
    simulator.delivered("a")

The machines are the ones that run on sockets, unmodified. Everything that happens is an entry of one queue, ordered by
(time, ticket), and all chance comes from the seed; so the same seed gives the same run, to the byte of its trace,
whatever the hash seed or the version of Python. Adding a node changes nothing for the draws of the others.

What may be done to a node while the run goes on (crash, restart, pause, a clock that is off, a slow disk) is a method
here or an attribute of `nodes[...]`; call it between two runs, or at a time inside one through `call_at`.

Whoever wants to know what happens is an observer (`observers.py`); a trace is one. In checking mode every message goes
through its bytes, so that nodes share nothing but messages (`frames.py` tells what that finds), and the state of each
machine is checked now and then. A run then takes two to three times as long. The size of a message is that of its
bytes. Without checking it is taken only if the network needs it, and is otherwise given as 0, since encoding a message
only to measure it would be a good part of its cost.

Every packet is accounted for: sent + duplicated = received + lost + in flight; a loss has a reason, and is counted.
The garbage collector is off during a run, because a simulation creates millions of objects and no cycles.
"""

import gc
import math
from collections.abc import Callable, Sequence
from heapq import heapify, heapreplace
from typing import Any

import msgspec

from tidings.machine.effects import Transport
from tidings.machine.inputs import Input
from tidings.machine.streams import RandomStream, random_stream
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.sim.frames import Frames, Sealed, measure, measure_sealed
from tidings.sim.hardware import Clock, Processing
from tidings.sim.network.flows import BulkTransfers
from tidings.sim.network.rule import Rule, reason_of
from tidings.sim.node import Draws, Make, SimulatedDelivery, SimulatedNode
from tidings.sim.observers import Hooks, Invariants, Observer, WholeTrace, check_state
from tidings.sim.process import NO_SUCH_NODE, Process
from tidings.sim.queue import Action, Entry, LadderQueue, Queue
from tidings.sim.streams import HANDSHAKE_BYTES, LINK_BROKEN, SimulatedLinks, SimulatedStream
from tidings.sim.visits import VisitedLinks
from tidings.trace.record import Record
from tidings.trace.writer import Writer

STALE_MAX = 10_000
"""Timers set and then replaced or cancelled that may wait in the queue before they are looked for and removed."""


class SimulatorParams(msgspec.Struct, frozen=True, kw_only=True):
    """All times in seconds."""

    connect_timeout: float = 3.0
    """After this a `Connect` that nobody answers comes back as `LinkDown`."""
    silence_timeout: float = 20.0
    """After this an end of a link notices that the other vanished without a word."""
    save_delay: float = 0.005
    """How long a `Save` or a `Load` takes, if the disk of the node does not say otherwise."""
    jitter: float = 0.0
    """Up to this much is added to every event, drawn from the seed, so that seeds differ even where nothing is left to
    chance. 0 is off; a microsecond is enough."""
    has_visitors: bool = False
    """Whether machines are asked who is there before a name counts, as on sockets (`visits.py`)."""
    held_max: int = 100_000
    """Messages and injected inputs that wait for a paused node."""
    timers_at_once_max: int = 100_000
    """Timers that a node may set for the moment in which it sets them, before time goes on; with more the run ends in
    `Standstill`, which names the node and the timer."""
    delivered_max: int = 1_000_000
    """Deliveries that are kept for each node; further ones are only counted."""

    def __post_init__(self) -> None:
        for name in ("connect_timeout", "silence_timeout", "save_delay", "jitter"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UsageError(f"{name}: {getattr(self, name)} is no span of time; give seconds from 0")
        for name in ("held_max", "timers_at_once_max", "delivered_max"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}: {getattr(self, name)} is too small; give at least 1")


class Counters(msgspec.Struct, frozen=True):
    """What happened up to now."""

    sent: int
    """Packets that machines sent; a broadcast counts once for each node that is in reach."""
    duplicated: int
    received: int
    lost: dict[str, int]
    """Packets that the world lost, by reason."""
    in_flight: int
    fired: int
    """Timers that came due."""
    delivered: int
    given_up: dict[str, int]
    """What machines dropped themselves, by reason."""
    refused: int
    """Injected inputs that found the node down, or paused with too much waiting for it."""


class Simulator:
    def __init__(
        self,
        seed: int,
        network: Rule,
        checking: bool = False,
        trace: Writer | None = None,
        params: SimulatorParams = SimulatorParams(),  # noqa: B008 - a frozen value
        queue: Queue | None = None,
        observers: Sequence[Observer] = (),
        frames: Frames | None = None,
    ) -> None:
        """`checking` is short for `frames` and `Invariants` now and then, `trace` for `WholeTrace`. `queue` is for
        tests that compare the two; the fast one is the default."""
        self.seed, self.network, self.params = seed, network, params
        network.begin(seed)
        self.queue: Queue = LadderQueue() if queue is None else queue
        self.nodes: dict[NodeId, SimulatedNode] = {}
        self.arrivals: dict[NodeId, Action] = {}
        """What is called when a message arrives at a node that is sent to it now."""
        self.links = VisitedLinks(self) if params.has_visitors else SimulatedLinks(self)
        self.transfers = BulkTransfers(self)
        self.lost: dict[str, int] = {}
        self.given_up: dict[str, int] = {}
        self.duplicated = self.refused = 0
        self.stale, self.stale_max = 0, STALE_MAX
        self.frames = Frames() if frames is None and checking else frames
        self.measure: Callable[[Any], int] | None = measure if network.needs_sizes else None
        if self.frames is not None:
            self.measure = measure_sealed
        self.observers = [*([] if trace is None else [WholeTrace(trace)]), *observers]
        if checking:
            self.observers.append(Invariants(is_rare=True))
        self.hooks = Hooks(self.observers, self.frames)
        self.watch = self.hooks if self.hooks.concern_processes() else None
        """What processes have to call; None where nobody watches them."""
        self.jitter = params.jitter
        self.jitter_stream = random_stream(seed, "jitter")
        self.push: Callable[[float, Action, Any], None] = self.push_late if params.jitter else self.queue.push
        self.periods = [(observer.period, place) for place, observer in enumerate(self.observers) if observer.period]
        """When which observer is to be called next; a heap."""
        heapify(self.periods)

    @property
    def now(self) -> float:
        return self.queue.now

    def add(
        self, id: NodeId, make: Make, at: float | None = None, processing: Processing | None = None
    ) -> SimulatedNode:
        """A new node, which starts at the time `at` (now, if it is left out)."""
        if id in self.nodes:
            raise UsageError(f"there is a node {id!r} already; restart it, or give the new one another name")
        node = self.nodes[id] = SimulatedNode(self, id, make)
        node.processing = processing
        self.schedule(self.now if at is None else at, self.start, node)
        return node

    def start(self, now: float, node: SimulatedNode) -> None:
        # It may have been started by hand before its time came.
        if node.lives == 0:
            self.begin(now, node, keep_state=False)

    def begin(self, now: float, node: SimulatedNode, keep_state: bool) -> None:
        self.write(now, node.id, "start", detail=f'{{"life":{node.lives}}}')
        node.begin(now, keep_state)

    def inject(self, at: float, id: NodeId, input: Input) -> None:
        """Something happens to a node: a request of its application, mostly."""
        self.schedule(at, self.node(id).inject, input)

    def call_at(self, at: float, call: Callable[[], object]) -> None:
        """Do something to the world at that time, such as crashing a node."""
        self.schedule(at, lambda now, _: call(), None)

    def run(self, until: float) -> None:
        """Let everything happen that is due up to and including `until`; inf is until nothing is left to happen."""
        if not until >= self.now:
            raise UsageError(f"until: {until} has passed, it is {self.now}; time does not go back")
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            while self.periods and self.periods[0][0] <= until and (until < math.inf or len(self.queue)):
                at, place = self.periods[0]
                self.queue.run(at)
                self.observers[place].on_period(at, self)
                heapreplace(self.periods, (at + self.observers[place].period, place))
            self.queue.run(until)
        finally:
            if was_enabled:
                gc.enable()

    def crash(self, id: NodeId, reason: str = "crash", is_silent: bool = False) -> None:
        """The node stops at once: its timers are gone, and so is what is on its way to it.

        Its links break. The other ends hear of it as soon as the network carries the news, or, when the crash is silent
        (the power went, the cable was cut), only after `silence_timeout`.
        """
        node, now = self.node(id), self.now
        if (process := node.process) is None:
            return
        node.end(now)
        self.links.crash(now, process, reason, is_silent)
        self.write(now, id, "stop", reason=reason)

    def restart(self, id: NodeId, keep_state: bool) -> None:
        """A new life for a node that is down: with the state it had, or with a machine that is made anew."""
        node = self.node(id)
        if node.process is not None:
            raise UsageError(f"node {id!r} is up; crash it before restarting it")
        self.begin(self.now, node, keep_state)

    def pause(self, id: NodeId) -> None:
        """The node does nothing until it is resumed; what happens to it waits."""
        if (process := self.node(id).process) is not None:
            process.is_running = False

    def resume(self, id: NodeId) -> None:
        if (process := self.node(id).process) is not None:
            process.resume(self.now)

    def set_clock(self, id: NodeId, offset: float = 0.0, drift: float = 0.0) -> None:
        """What the machine of the node is told of time; see `Clock`."""
        node = self.node(id)
        node.clock = Clock(offset, drift)
        if node.process is not None:
            node.process.set_clock(self.now, node.clock)

    def break_link(self, one: NodeId, other: NodeId, reason: str = "broken", noticed_after: float = 0.0) -> bool:
        """Break the link between two nodes, if they have one, with all that is on its way. Tells whether they had."""
        links = self.links.between(one, other)
        for link in links:
            self.links.breaks(self.now, link, reason, noticed_after)
        return bool(links)

    def delivered(self, id: NodeId) -> list[SimulatedDelivery]:
        """What the machine of this node handed to its application, over all its lives."""
        return self.node(id).delivered

    def counters(self) -> Counters:
        nodes = self.nodes.values()
        sent, received = sum(node.sent for node in nodes), sum(node.received for node in nodes)
        return Counters(
            sent=sent,
            duplicated=self.duplicated,
            received=received,
            lost=dict(sorted(self.lost.items())),
            in_flight=sent + self.duplicated - received - sum(self.lost.values()),
            fired=sum(node.fired for node in nodes),
            delivered=sum(node.delivered_count for node in nodes),
            given_up=dict(sorted(self.given_up.items())),
            refused=self.refused,
        )

    def check(self) -> None:
        """Check the state of every machine that is up."""
        for node in self.nodes.values():
            if node.process is not None:
                check_state(self.now, node)

    def node(self, id: NodeId) -> SimulatedNode:
        if id not in self.nodes:
            raise UsageError(f"there is no node {id!r}; add it first")
        return self.nodes[id]

    def draws(self, id: NodeId, life: int) -> Draws:
        def draws(purpose: str) -> RandomStream:
            return random_stream(self.seed, "node", id, life, purpose)

        return draws

    def schedule(self, at: float, action: Action, argument: Any) -> None:
        if not self.now <= at < math.inf:
            raise UsageError(f"at: {at} is no time to come, it is {self.now}; give one from now on")
        self.push(at, action, argument)

    def push_late(self, time: float, action: Action, argument: Any) -> None:
        self.queue.push(time + self.jitter * self.jitter_stream.random(), action, argument)

    def open_stream(self, now: float, sender: Process, to: NodeId) -> SimulatedStream:
        """A stream without a link, by its first message."""
        if to not in self.nodes or not self.links.opens_streams(sender):
            stream = SimulatedStream(self, sender, to, now)
            stream.broken = LINK_BROKEN if to in self.nodes else NO_SUCH_NODE
            return stream
        there = self.network.fate(now, sender.id, to, HANDSHAKE_BYTES, Transport.STREAM)
        back = self.network.fate(now, to, sender.id, HANDSHAKE_BYTES, Transport.STREAM)
        stream = SimulatedStream(self, sender, to, now + sum(there[:1]) + sum(back[:1]))
        if there and back:
            stream.take_over()
        else:
            stream.broken = reason_of(back if there else there)
        return stream

    def lose(self, now: float, sender: NodeId, to: NodeId, message: Any, reason: str) -> None:
        self.lost[reason] = self.lost.get(reason, 0) + 1
        if self.hooks.on_loss is not None:
            original = message.message if isinstance(message, Sealed) else message
            self.hooks.on_loss(now, sender, to, original, reason)

    def write(self, now: float, id: NodeId, kind: Any, **fields: Any) -> None:
        if self.hooks.on_record is not None:
            self.hooks.on_record(Record(time=now, node=id, kind=kind, **fields))

    def note_stale(self, count: int = 1) -> None:
        """A timer in the queue will do nothing. When there are many, they are removed, to have their memory back."""
        self.stale += count
        if self.stale > self.stale_max:
            self.queue.discard(is_stale)
            self.stale = 0
            self.stale_max = max(STALE_MAX, len(self.queue))


def is_stale(entry: Entry) -> bool:
    _, _, action, argument = entry
    if getattr(action, "__func__", None) is not Process.fire:
        return False
    timers = action.__self__.timers  # type: ignore[attr-defined]
    return timers.get(argument[0]) is not argument
