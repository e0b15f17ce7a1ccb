"""One transport on an asyncio loop, over a carrier.

The transport is a machine (`protocols/transport`). What it wants is done here: `Emit` goes to the carrier, through a
queue that one task empties; timers are those of the loop; what it asks for (`Ask`) and what the application listens to
are filters that every arriving message is held against, exactly, since the carrier knows none. A message that nothing
asks for goes no further. A carrier has no history, so `Recall` is answered with that.

Guaranteed: the machine is never entered twice, and hears of messages in the order in which the carrier brings them. The
queue to the carrier is bounded: an application that publishes waits for room, and what the transport itself would send
beyond it is dropped, and counted, as if the network had lost it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any

from tidings.machine.effects import CancelTimer, Deliver, Drop, Note, SetTimer
from tidings.machine.inputs import Fired, Input
from tidings.model.filter import Filter
from tidings.model.language.parser import parse
from tidings.net.carriers.carrier import BadFrame, Carrier, join, split
from tidings.net.counts import Counts
from tidings.net.logs import make_logger
from tidings.net.stepping import Stepper
from tidings.net.timers import Timers
from tidings.net.waiting import Waiters
from tidings.protocols.transport.marking import Kind, unmark
from tidings.protocols.transport.signals import Ask, Caught, Content, Emit, Recall, Recalled, Unask
from tidings.protocols.transport.transport import TransportNode
from tidings.pubsub.publications import BadPublication, event_of

OUTGOING_MAX = 10_000
"""Messages that wait for the carrier."""

NO_MESSAGE = "no message of a transport"
NO_EVENT = "no event"
CARRIER_FULL = "more waits for the carrier than allowed"
NOT_TAKEN = "the carrier did not take it"
NO_HISTORY = "this carrier has no history"


class Runner:
    """`deliver(item)` is called for whatever the transport hands up."""

    def __init__(self, transport: TransportNode, carrier: Carrier, deliver: Callable[[Any], None]) -> None:
        self.transport, self.carrier = transport, carrier
        self.loop = asyncio.get_running_loop()
        self.counts = Counts()
        self.subscriptions: dict[int, Filter] = {}
        """What the application listens to."""
        self.asked: dict[Hashable, Filter] = {}
        """What the transport asks for itself."""
        self.outgoing: deque[bytes] = deque()
        self.room, self.work = Waiters(), Waiters()
        self.idle = asyncio.Event()
        self.idle.set()
        self.error: Exception | None = None
        self.timers = Timers(self.loop, lambda at, key: self.stepper.take(Fired(key)))
        performers: dict[type, Callable[[Any], None]] = {
            Emit: self.emit,
            SetTimer: lambda effect: self.timers.set(effect.key, effect.at),
            CancelTimer: lambda effect: self.timers.cancel(effect.key),
            Deliver: lambda effect: deliver(effect.item),
            Drop: lambda effect: self.stepper.count(effect.reason),
            Note: lambda effect: None,
            Ask: self.ask,
            Unask: self.unask,
            Recall: self.recall,
        }
        name = f"transport {transport.node_id:08x}"
        log = make_logger(name, "warning")
        self.stepper = Stepper(
            name, transport, self.loop.time, self.counts, log, None, performers, failed=self.machine_failed
        )
        self.sending: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self.carrier.open(self.arrived)
        self.sending = asyncio.create_task(self.send())
        self.stepper.start()

    async def stop(self) -> None:
        """What was published is with the carrier then."""
        self.stepper.stop()
        self.timers.clear()
        if self.sending is not None:
            await self.idle.wait()
            self.sending.cancel()
            await asyncio.gather(self.sending, return_exceptions=True)
        await self.carrier.close()

    def take(self, input: Input) -> None:
        """For the machine."""
        if self.error is not None:
            raise self.error
        self.stepper.take(input)

    async def wait_for_room(self) -> None:
        while len(self.outgoing) >= OUTGOING_MAX:
            await self.room.wait()

    # From the carrier.

    def arrived(self, data: bytes) -> None:
        self.counts.datagrams_received += 1
        try:
            head, payload = split(data)
            bare, kind = unmark(head)
            subscriptions = self.wanted_by(bare) if kind in (None, Kind.DATA, Kind.REPAIR) else ()
            if not subscriptions and not (self.asked and kind is not None and self.is_asked(head)):
                return
        except BadFrame:
            self.stepper.count(NO_MESSAGE)
        except BadPublication:
            self.stepper.count(NO_EVENT)
        else:
            self.stepper.take(Caught(Content(head, payload, subscriptions=subscriptions)))

    def wanted_by(self, head: bytes) -> tuple[int, ...]:
        event = event_of(head, b"")
        return tuple([number for number, filter in self.subscriptions.items() if filter.matches(event)])

    def is_asked(self, head: bytes) -> bool:
        event = event_of(head, b"")
        return any(filter.matches(event) for filter in self.asked.values())

    # What the machine wants.

    def ask(self, ask: Ask) -> None:
        self.asked[ask.key] = parse(ask.filter)

    def unask(self, unask: Unask) -> None:
        self.asked.pop(unask.key, None)

    def recall(self, recall: Recall) -> None:
        self.stepper.take_soon(Recalled(recall.stream, recall.sequence, (), NO_HISTORY))

    def emit(self, emit: Emit) -> None:
        if len(self.outgoing) >= OUTGOING_MAX and emit.kind is not Kind.DATA:
            self.stepper.count(CARRIER_FULL)
            return
        self.outgoing.append(join(emit.head, emit.payload))
        self.idle.clear()
        self.work.wake_one()

    async def send(self) -> None:
        while True:
            while self.outgoing:
                try:
                    await self.carrier.publish(self.outgoing[0])
                    self.counts.datagrams_sent += 1
                except (OSError, ValueError):
                    self.stepper.count(NOT_TAKEN)
                self.outgoing.popleft()
                self.room.wake_one()
            self.idle.set()
            await self.work.wait()

    def machine_failed(self, error: Exception) -> None:
        self.error = error
        self.stepper.stop()
        self.timers.clear()
        self.loop.call_exception_handler({"message": "the transport failed", "exception": error})
