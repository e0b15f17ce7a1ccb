"""One life of a node: from its start to its crash.

A process carries out what its machine asks for, and hands it what happens. Everything that is on its way to a node
belongs to the life it was sent to: an entry of the queue names a method of the process, so when the process is dead the
entry finds nobody, and a node that starts again begins with nothing in the air (what it saved is on its `disk`).

A message that was sent while the node was down, and arrives after it came up, is delivered: it was sent to the node.

This is the innermost loop of every simulation, which is why hot paths are written out. What is only sometimes wanted (a
trace, messages as bytes, checks) is behind `watch`, which is None where nobody watches.
"""

import math
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidings.machine.effects import (
    BROADCAST,
    Admit,
    CancelTimer,
    CancelTransfer,
    Compute,
    Connect,
    Deliver,
    Disconnect,
    Drop,
    Effect,
    Know,
    Load,
    Note,
    ProbeNode,
    Save,
    Send,
    SetTimer,
    Transfer,
    Transport,
)
from tidings.machine.inputs import Computed, Fired, Input, Received, Signal, TimerKey
from tidings.machine.node import Machine, visitor_messages
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.sim.frames import Damaged, why_lost
from tidings.sim.hardware import Clock
from tidings.sim.network.rule import reason_of
from tidings.sim.queue import Action, Standstill
from tidings.sim.streams import LINK_BROKEN, SimulatedLink, SimulatedStream

if TYPE_CHECKING:
    from tidings.sim.node import SimulatedNode
    from tidings.sim.simulator import Simulator

DATAGRAM = Transport.DATAGRAM

NODE_DOWN = "node is down"
NO_SUCH_NODE = "no such node"
NOBODY_HEARS = "nobody hears it"
NO_BROADCAST = "a stream has one receiver"
HELD_FULL = "too much waits for a paused node"

Alarm = tuple[TimerKey, float]
"""A timer that was set: its name, and when it is due by the clock of the node. Two settings are two objects."""


class Process:
    __slots__ = (
        "arrivals",
        "arrived",
        "asks",
        "clock",
        "disk",
        "drained_at",
        "fate",
        "fire_now",
        "fired",
        "hasty_at",
        "hasty_count",
        "held",
        "id",
        "is_dead",
        "is_running",
        "links",
        "lose",
        "machine",
        "measure",
        "node",
        "push",
        "received",
        "sent",
        "station",
        "streams",
        "timers",
        "watch",
        "world",
    )

    def __init__(self, world: "Simulator", node: "SimulatedNode", machine: Machine) -> None:
        self.world, self.node, self.machine = world, node, machine
        self.id: NodeId = node.id
        self.asks = visitor_messages(machine) if world.params.has_visitors else ()
        """All that somebody may say to this machine of whom it is not known who that is; empty where names count."""
        self.clock: Clock | None = node.clock
        self.disk = node.disk
        self.station = None
        if node.processing is not None:
            self.station = node.processing.begin(world.seed, node.id, node.lives, world.jitter)
        self.timers: dict[TimerKey, Alarm] = {}
        self.streams: dict[NodeId, SimulatedStream] = {}
        self.drained_at: dict[NodeId, float] = {}
        """When everything has arrived that is on its way to a node on streams that were closed."""
        self.links: dict[NodeId, SimulatedLink] = {}
        self.held: deque[tuple[Action, Any]] = deque()
        """What happened while the node is paused, to be caught up with."""
        self.is_running, self.is_dead = True, False
        self.sent = self.received = self.fired = 0
        self.hasty_at, self.hasty_count = -math.inf, 0
        """When a timer was last set for the moment in which it was set, and how many were in that moment."""
        # Looked up once: each of these is used for every message.
        self.arrivals, self.push, self.measure = world.arrivals, world.push, world.measure
        self.fate, self.lose = world.network.fate, world.lose
        self.watch = world.watch
        self.arrived: Action = self.receive if world.frames is None else self.receive_frame
        self.fire_now: Action = self.fire

    def start(self, now: float) -> None:
        effects = self.machine.start(now if self.clock is None else self.clock.read(now))
        if self.watch is not None:
            if self.watch.on_effects is not None:
                self.watch.on_effects(now, self.node, effects)
            if self.watch.frames is not None:
                effects = self.watch.frames.seal_all(now, self.id, effects)
        self.carry_out(now, effects)

    def receive(self, now: float, received: Received) -> None:
        """A message is here."""
        if not self.is_running:
            self.receive_otherwise(now, received)
        elif self.station is None:
            self.received += 1
            self.step(now, received)
        else:
            self.queue_up(now, received)

    def receive_frame(self, now: float, received: Received) -> None:
        """The same where messages are bytes, which may be damaged; those of streams end there."""
        damaged = received.message
        if not self.is_running or not isinstance(damaged, Damaged):
            self.receive(now, received)
        else:
            self.lose(now, received.sender, self.id, damaged, why_lost(damaged))

    def receive_otherwise(self, now: float, received: Received) -> None:
        if self.is_dead:
            self.lose(now, received.sender, self.id, received.message, NODE_DOWN)
        elif self.is_overfull():
            self.lose(now, received.sender, self.id, received.message, HELD_FULL)
        else:
            self.held.append((self.arrived, received))

    def is_overfull(self) -> bool:
        return len(self.held) >= self.world.params.held_max

    def queue_up(self, now: float, received: Received) -> None:
        """A message waits for a worker, and is handled when that one is done with it."""
        station = self.station
        assert station is not None
        if station.takes is not None and not isinstance(received.message, station.takes):
            self.received += 1
            self.step(now, received)
            return
        done_at = station.admit(now)
        if done_at is None:
            self.lose(now, received.sender, self.id, received.message, station.FULL)
        else:
            self.push(done_at, self.finish, received)

    def finish(self, now: float, received: Received) -> None:
        if not self.is_running:
            if self.is_dead:
                self.lose(now, received.sender, self.id, received.message, NODE_DOWN)
            else:
                self.held.append((self.finish, received))
            return
        self.received += 1
        self.step(now, received)

    def fire(self, now: float, alarm: Alarm) -> None:
        key = alarm[0]
        if self.timers.get(key) is not alarm:
            self.world.stale -= 1
            return
        if not self.is_running:
            self.held.append((self.fire_now, alarm))
            return
        del self.timers[key]
        self.fired += 1
        self.step(now, Fired(key))

    def take(self, now: float, input: Input) -> None:
        """Anything else that happens to the node: links, answers to its requests, what its application wants."""
        if self.is_running:
            self.step(now, input)
        elif not self.is_dead:
            self.held.append((self.take, input))

    def step(self, now: float, input: Input) -> None:
        watch, clock = self.watch, self.clock
        if watch is not None:
            if watch.frames is not None and type(input) is Received:
                input = watch.frames.open(input)
            if watch.on_input is not None:
                watch.on_input(now, self.node, input)
        try:
            effects = self.machine.handle(now if clock is None else clock.read(now), input)
            if effects:
                if watch is not None:
                    if watch.on_effects is not None:
                        watch.on_effects(now, self.node, effects)
                    if watch.frames is not None:
                        effects = watch.frames.seal_all(now, self.id, effects)
                self.carry_out(now, effects)
        except Exception as problem:
            # The trace of the call does not say which node it was.
            problem.add_note(f"in node {self.id!r} at {now!r}, handling {input!r:.300}")
            raise
        if watch is not None and watch.on_step is not None:
            watch.on_step(now, self.node)

    def carry_out(self, now: float, effects: list[Effect]) -> None:
        for effect in effects:
            if type(effect) is Send:
                self.send(now, effect)
            elif type(effect) is SetTimer:
                self.arm(now, effect.key, effect.at)
            else:
                self.perform(now, effect)

    def perform(self, now: float, effect: Effect) -> None:
        """Any effect but the two most frequent ones."""
        kind = type(effect)
        (PERFORM.get(kind) or performer_of(kind, effect))(self, now, effect)

    def send(self, now: float, effect: Send) -> None:
        to, message = effect.to, effect.message
        size_bytes = 0 if self.measure is None else self.measure(message)
        self.sent += 1
        if effect.transport is not DATAGRAM:
            stream = self.streams.get(to)
            if stream is None:
                if to == BROADCAST:
                    self.lose(now, self.id, to, message, NO_BROADCAST)
                    return
                stream = self.world.open_stream(now, self, to)
            stream.send(now, message, size_bytes)
            return
        arrived = self.arrivals.get(to)
        if arrived is None:
            self.send_elsewhere(now, to, message, size_bytes)
            return
        fates = self.fate(now, self.id, to, size_bytes, DATAGRAM)
        if not fates:
            self.lose(now, self.id, to, message, reason_of(fates))
            return
        received = Received(self.id, message, size_bytes)
        if len(fates) > 1:
            self.world.duplicated += len(fates) - 1
        for delay in fates:
            self.push(now + delay, arrived, received)

    def send_elsewhere(self, now: float, to: NodeId, message: Any, size_bytes: int) -> None:
        """To everybody in reach; to nobody, if it is the name of no node."""
        if to != BROADCAST:
            self.lose(now, self.id, to, message, NO_SUCH_NODE)
            return
        reach = self.world.network.reach(now, self.id, to, size_bytes)
        if reach is None:
            others = [other for other in self.arrivals if other != self.id]
            reach = [(other, self.fate(now, self.id, other, size_bytes, DATAGRAM)) for other in others]
        if not reach:
            self.lose(now, self.id, to, message, NOBODY_HEARS)
            return
        received = Received(self.id, message, size_bytes)
        self.sent += len(reach) - 1
        for hearer, fates in reach:
            arrived = self.arrivals.get(hearer)
            if arrived is None or not fates:
                self.lose(now, self.id, hearer, message, NO_SUCH_NODE if arrived is None else reason_of(fates))
                continue
            self.world.duplicated += len(fates) - 1
            for delay in fates:
                self.push(now + delay, arrived, received)

    def arm(self, now: float, key: TimerKey, at: float) -> None:
        if key in self.timers:
            self.world.note_stale()
        alarm = self.timers[key] = (key, at)
        due = at if self.clock is None else self.clock.when(at)
        if due <= now:
            self.note_haste(now, key)
            due = now
        try:
            self.push(due, self.fire_now, alarm)
        except (ValueError, OverflowError):
            raise UsageError(f"node {self.id!r} set the timer {key!r} to {at!r}, which is no time") from None

    def note_haste(self, now: float, key: TimerKey) -> None:
        """A timer for now: fine once, but one that is set for now whenever it fires keeps time from going on."""
        if now != self.hasty_at:
            self.hasty_at, self.hasty_count = now, 0
        self.hasty_count += 1
        if self.hasty_count > (most := self.world.params.timers_at_once_max):
            raise Standstill(
                f"time stands still at {now!r}: node {self.id!r} set {self.hasty_count} timers for that very moment, "
                f"{key!r} the last of them, and timers_at_once_max is {most}; a machine must do something when its "
                f"timer fires, or set it for later"
            )

    def disarm(self, now: float, cancel: CancelTimer) -> None:
        if self.timers.pop(cancel.key, None) is not None:
            self.world.note_stale()

    def set_clock(self, now: float, clock: Clock) -> None:
        """The clock changes; what was to fire at a reading still fires at that reading."""
        self.clock = clock
        for key, at in list(self.timers.values()):
            self.arm(now, key, at)

    def deliver(self, now: float, deliver: Deliver) -> None:
        self.node.keep(now, deliver.item)

    def connect(self, now: float, connect: Connect) -> None:
        self.world.links.connect(now, self, connect.neighbour)

    def disconnect(self, now: float, disconnect: Disconnect) -> None:
        self.world.links.disconnect(now, self, disconnect.neighbour, disconnect.reason)

    def probe(self, now: float, probe: ProbeNode) -> None:
        self.world.links.probe(now, self, probe)

    def admit(self, now: float, admit: Admit) -> None:
        self.world.links.admit(now, self, admit)

    def compute(self, now: float, compute: Compute) -> None:
        """The job is done at once; its result takes the time that the job says."""
        try:
            computed = Computed(compute.key, compute.job.run())
        except Exception as problem:
            computed = Computed(compute.key, error=f"{type(problem).__name__}: {problem}")
        self.push(now + compute.job.seconds, self.take, computed)

    def transfer(self, now: float, transfer: Transfer) -> None:
        self.sent += 1
        self.world.transfers.start(now, self, transfer)

    def cancel_transfer(self, now: float, cancel: CancelTransfer) -> None:
        self.world.transfers.cancel(now, self, cancel.key)

    def save(self, now: float, save: Save) -> None:
        self.push(self.disk.request(now), self.complete_save, save)

    def complete_save(self, now: float, save: Save) -> None:
        if not self.is_dead:
            self.take(now, self.disk.save(save))

    def load(self, now: float, load: Load) -> None:
        self.push(self.disk.request(now), self.complete_load, load)

    def complete_load(self, now: float, load: Load) -> None:
        if not self.is_dead:
            self.take(now, self.disk.load(load))

    def drop(self, now: float, drop: Drop) -> None:
        given_up = self.world.given_up
        given_up[drop.reason] = given_up.get(drop.reason, 0) + 1

    def ignore(self, now: float, effect: Effect) -> None:
        """A note is for the trace, a name is enough to reach a node, and a signal found nobody to hear it."""

    def resume(self, now: float) -> None:
        self.is_running = True
        while self.held and self.is_running:
            action, argument = self.held.popleft()
            action(now, argument)

    def die(self, now: float) -> None:
        self.is_running, self.is_dead = False, True
        self.world.note_stale(len(self.timers))
        self.timers.clear()
        while self.held:
            action, argument = self.held.popleft()
            if isinstance(argument, Received):
                action(now, argument)
        self.world.transfers.abandon(now, self)
        for stream in self.streams.values():
            stream.broken = stream.broken or LINK_BROKEN
        # The collector is off during a run; without these cycles the process goes when the last message to it does.
        self.streams.clear()
        del self.arrived, self.fire_now


PERFORM: dict[type, Callable[[Any, float, Any], None]] = {
    CancelTimer: Process.disarm,
    Deliver: Process.deliver,
    Connect: Process.connect,
    Disconnect: Process.disconnect,
    Compute: Process.compute,
    Transfer: Process.transfer,
    CancelTransfer: Process.cancel_transfer,
    Save: Process.save,
    Load: Process.load,
    Drop: Process.drop,
    Know: Process.ignore,
    ProbeNode: Process.probe,
    Admit: Process.admit,
}
"""How each other kind of effect is carried out; it grows by one entry for each type of signal and of note."""


def performer_of(kind: type, effect: Effect) -> Callable[[Any, float, Any], None]:
    if not issubclass(kind, Signal | Note):
        raise UsageError(f"{effect!r:.200} is no effect; return what tidings.machine.effects defines")
    PERFORM[kind] = Process.ignore
    return Process.ignore
