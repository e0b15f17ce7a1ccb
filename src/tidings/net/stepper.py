"""The machine takes its steps: one input at a time, then its effects in order.

An input that arises while a step is taken (a link that ends because the machine asked for it) waits until all effects
of that step are carried out. So a handler is never entered twice, and answers come after questions. Answers that the
world gives at once go through `take_soon` instead, behind everything else that waits: a machine that asks the same
again must not keep the loop from its sockets.

Time never goes back, and a timer never sees a time before its own, though loops wake up to a tick early.

What is dropped is counted and written to the trace here, with everything else that happens to the node.

The parts of a host need little of it (`HostWorld`). They know nothing else of it, and nothing of each other.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tidings.machine.effects import Drop, Note
from tidings.machine.inputs import Input, Signal
from tidings.machine.node import Machine
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.net.counts import HostCounts
from tidings.net.params import HostParams
from tidings.trace.record import Kind, Record, TraceError
from tidings.trace.things import LostMessage
from tidings.trace.writer import Writer
from tidings.wire.handshake import Unreadable


class HostWorld(Protocol):
    node_id: NodeId
    loop: asyncio.AbstractEventLoop
    params: HostParams
    counts: HostCounts
    log: Any
    is_traced: bool

    def clock(self) -> float: ...

    def step(self, input: Input) -> None:
        """Something happened to the machine."""
        ...

    def step_soon(self, input: Input) -> None:
        """The answer to an order that could be given at once."""
        ...

    def lost(self, to: NodeId, message: Any, reason: str) -> None:
        """A message could not be sent."""
        ...

    def called_unreadable(self, peer: NodeId, complaint: Unreadable) -> None:
        """The peer could not read a message of ours."""
        ...


Performers = Mapping[type, Callable[[Any], None]]

UNPERFORMED = (Signal, Note)
"""Effects that nothing need be done for: a note is for the trace, and a signal found nobody to hear it."""


class Stepper:
    """`performers` carry out effects, by their type; `failed(error)` hears of a machine that raised."""

    def __init__(
        self,
        node_id: NodeId,
        machine: Machine,
        clock: Callable[[], float],
        counts: HostCounts,
        log: Any,
        trace: Writer | None,
        performers: Performers,
        failed: Callable[[Exception], None],
    ) -> None:
        self.node_id, self.machine, self.clock, self.counts, self.log = node_id, machine, clock, counts, log
        self.trace, self.performers, self.failed = trace, performers, failed
        self.latest = 0.0
        self.pending: deque[Input] = deque()
        self.is_stepping = self.is_running = False

    def start(self) -> None:
        self.is_running = True
        self.work(None)

    def take(self, input: Input) -> None:
        if self.is_stepping:
            self.pending.append(input)
        elif self.is_running:
            self.work(input)

    def take_soon(self, input: Input) -> None:
        asyncio.get_running_loop().call_soon(self.take, input)

    def stop(self) -> None:
        self.is_running = False
        self.pending.clear()

    def work(self, input: Input | None) -> None:
        """A step, and those that arise from it; None is the start of the machine."""
        self.is_stepping = True
        began = first = self.latest = max(self.latest, self.clock())
        try:
            while True:
                if input is None:
                    effects = self.machine.start(began)
                else:
                    self.counts.inputs += 1
                    if self.trace is not None:
                        self.record(input)
                    try:
                        effects = self.machine.handle(began, input)
                    except Exception as error:
                        error.add_note(f"in node {self.node_id!r}, handling {input!r:.300}")
                        raise
                    self.counts.handle_seconds += self.clock() - began
                for effect in effects:
                    if self.trace is not None:
                        self.record(effect)
                    performer = self.performers.get(type(effect))
                    if performer is not None:
                        performer(effect)
                    elif not isinstance(effect, UNPERFORMED):
                        raise UsageError(f"{effect!r:.200} is no effect; return what tidings.machine.effects defines")
                if not self.pending or not self.is_running:
                    break
                input = self.pending.popleft()
                began = self.latest = max(self.latest, self.clock())
        except Exception as error:
            self.failed(error)
        finally:
            self.is_stepping = False
            self.counts.step_seconds += self.clock() - first

    def lost(self, to: NodeId, message: Any, reason: str) -> None:
        """A message could not be sent."""
        self.count(reason, to)
        self.record(LostMessage(to, message, reason))

    def give_up(self, item: Any, reason: str) -> None:
        """Something else was dropped by the world."""
        self.count(reason)
        self.record(Drop(item, reason))

    def count(self, reason: str, peer: NodeId | None = None) -> None:
        if self.counts.drop(reason):
            self.log.warning("first drop for this reason", reason=reason, peer=peer)

    def write(self, kind: Kind, **fields: Any) -> None:
        self.latest = max(self.latest, self.clock())
        self.record(Record(time=self.latest, node=self.node_id, kind=kind, **fields))

    def record(self, thing: Any) -> None:
        """Into the trace, if there is one. A trace that cannot be written must not stop the node."""
        if self.trace is None:
            return
        try:
            self.trace.record(self.latest, self.node_id, thing)
        except TraceError as problem:
            self.trace = None
            self.log.error("no trace from here on", problem=str(problem))
