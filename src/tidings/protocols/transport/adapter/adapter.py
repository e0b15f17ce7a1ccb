"""Adapter: a client with a transport, over any carrier.

The carrier may give more than a best-effort network: a session keeps what no broker has accepted, and continues across
breaks. What can still get lost is what a broker drops for a slow subscriber, or a subscription without a guarantee
misses while there is no link; what can come late is what several subscriptions of one client share. The transport finds
such losses and repairs them, and lets receivers slow down publishers, end to end. Here the two meet.

    application       OpenSubscription, PublishBatch, Took, ...      Arrived, Carried, Confirmed, Quality, ...
                      |                                              ^
    transport         Listen, PublishEvent                           Handed
                      Emit, Watch, Recall                            Caught, Recalled
                      |                                              ^
    carrier           PublishBatch, OpenSubscription, ReadHistory    Arrived, HistoryRead        (`carrier.py`)

    traffic.py        publications into events and back; tickets; what waits for the window; what came, event by event
    own.py            what the transport wants itself: subscriptions, an advertisement, lost events from history

A subscription is listened to once it is confirmed, with the filter that was really installed. Requests that the
transport has no part in (marks, history, advertisements) pass as they are, and so do their answers. Timers carry the
name of the side that set them.

Guaranteed: what the carrier guarantees, event by event and for each subscription; nothing more is promised of what the
carrier does not promise, only tried. Not guaranteed: that an event which a broker dropped for one subscription, and
delivered for another one of this client, is missed by anybody: the transport has it.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec

from tidings.machine.effects import CancelTimer, Deliver, Drop, Effect, Note, SetTimer
from tidings.machine.inputs import Fired, Input, Request, Signal, TimerKey
from tidings.model.language.parser import parse
from tidings.protocols.transport.adapter.own import HoleKey, OwnNeeds, StoredEvents
from tidings.protocols.transport.adapter.traffic import BACKLOG_FULL, BROUGHT, Intake, Sendings, WindowLedger, packed
from tidings.protocols.transport.carrier import (
    Carrier,
    OpenCarried,
    Order,
    Own,
    RoomMade,
    SetModes,
    Subscribed,
    modes_of,
)
from tidings.protocols.transport.marks import Kind
from tidings.protocols.transport.shim import BAD_EVENT
from tidings.protocols.transport.signals import (
    Caught,
    Configure,
    Emit,
    FoundLosses,
    Handed,
    Leaving,
    Listen,
    PublishEvent,
    Quality,
    Recall,
    Recalled,
    StopListening,
    Unwatch,
    Watch,
)
from tidings.protocols.transport.transport import TransportNode
from tidings.protocols.transport.views import TransportState, state_of
from tidings.pubsub.client import (
    Accepted,
    Arrived,
    Begun,
    CloseSubscription,
    Confirmed,
    Declined,
    Ended,
    Failed,
    HistoryRead,
    MarksRead,
    Missed,
    OpenSubscription,
    PublishBatch,
    Took,
)
from tidings.pubsub.signals import PeerUp


class Adapter:
    """`Adapter(carrier, TransportNode(...))`. The parts can be looked at; inputs go through `handle`."""

    hears: tuple[type[Signal], ...] = (Emit, Watch, Unwatch, Recall)
    tells: tuple[type[Signal], ...] = (Caught, Recalled, FoundLosses)
    """From and to the transport inside."""

    def __init__(self, carrier: Carrier, transport: TransportNode) -> None:
        self.carrier, self.transport, self.params = carrier, transport, transport.params
        self.window = Sendings(carrier.window, self.params)
        self.is_publishing = False
        self.ledger, self.own = WindowLedger(), OwnNeeds()
        self.intake = Intake(transport, self.ledger, self.own.keys, carrier.repeats)
        self.opening: dict[Any, OpenCarried] = {}
        """Subscriptions that are not confirmed yet, by ticket."""
        self.numbers: dict[Any, int] = {}
        """Their numbers."""
        self.subscriptions: dict[int, Subscribed] = {}
        self.stored = StoredEvents(carrier, transport, self.subscriptions)
        self.requests: dict[type, Callable[[float, Any], list[Effect]]] = {
            Fired: self.fired,
            OpenSubscription: lambda now, request: self.open(now, OpenCarried(request, modes_of(self.params))),
            OpenCarried: self.open,
            CloseSubscription: self.close,
            SetModes: self.set_modes,
            Configure: self.configure,
            PublishBatch: self.publish,
            Took: self.took,
        }
        self.answers: dict[type, Callable[[float, Any], list[Effect]]] = {
            Begun: self.begun,
            Confirmed: self.confirmed,
            Failed: self.failed,
            HistoryRead: self.history_read,
            MarksRead: self.marks_read,
            Ended: self.ended,
            Accepted: self.accepted,
            Declined: self.declined,
            Missed: self.missed,
            PeerUp: self.served,
        }
        self.orders: dict[type, Callable[[float, Any], list[Effect]]] = {
            Watch: lambda now, order: self.perform(now, self.own.ask(order)),
            Unwatch: lambda now, order: self.perform(now, self.own.unask(order.key)),
            Recall: lambda now, order: self.perform(now, self.stored.recall(order)),
            Recalled: self.tell,
            FoundLosses: self.tell,
            PublishBatch: self.speak,
            Drop: self.dropped,
        }

    def start(self, now: float) -> list[Effect]:
        self.stored.holes.clear()
        return self.hear(now, self.carrier.start(now)) + self.perform(now, self.transport.start(now))

    def handle(self, now: float, input: Input) -> list[Effect]:
        handler = self.requests.get(type(input))
        if handler is not None:
            return handler(now, input)
        return self.hear(now, self.carrier.handle(now, input))

    def fired(self, now: float, fired: Fired) -> list[Effect]:
        side, key = cast(tuple[str, TimerKey], fired.key)
        if side == "carrier":
            return self.hear(now, self.carrier.handle(now, Fired(key)))
        if side == "hole":
            return self.perform(now, self.stored.look(cast(HoleKey, key)))
        return self.tell(now, fired)

    def tell(self, now: float, input: Input) -> list[Effect]:
        """The transport."""
        return self.perform(now, self.transport.handle(now, input))

    def ask(self, now: float, request: Request) -> list[Effect]:
        """The carrier."""
        return self.hear(now, self.carrier.handle(now, request))

    def speak(self, now: float, request: PublishBatch) -> list[Effect]:
        """For the transport itself; the numbers of what it publishes are remembered."""
        window = self.carrier.window
        first = window.next
        told = self.carrier.handle(now, request)
        if window.next > first:
            self.own.published.append((first, window.next - 1))
        return self.hear(now, told)

    # What the carrier tells.

    def hear(self, now: float, effects: list[Effect]) -> list[Effect]:
        out: list[Effect] = []
        has_arrived = False
        for effect in effects:
            if type(effect) is Deliver:
                if type(effect.item) is Arrived:
                    if not has_arrived:
                        # All of one step at once: an event that is for several subscriptions is one event.
                        has_arrived = True
                        items = [it.item for it in effects if type(it) is Deliver and type(it.item) is Arrived]
                        out += self.arrived(now, items)
                    continue
                hear = self.answers.get(type(effect.item))
                out += [effect] if hear is None else hear(now, effect.item)
            elif type(effect) is SetTimer:
                out.append(SetTimer(("carrier", effect.key), effect.at))
            elif type(effect) is CancelTimer:
                out.append(CancelTimer(("carrier", effect.key)))
            else:
                out.append(effect)
        return out

    def arrived(self, now: float, items: Sequence[Arrived]) -> list[Effect]:
        for item in items:
            self.stored.saw(item.publisher, item.numbers[-1])
        out = self.perform(now, self.intake.catch(now, items))
        for took in self.ledger.take_consumed():
            out += self.ask(now, took)
        return out

    def begun(self, now: float, item: Begun) -> list[Effect]:
        if type(item.ticket) is Own:
            self.own.begun(item.ticket, item.number)
            return []
        if item.ticket in self.opening:
            self.numbers[item.ticket] = item.number
        return [Deliver(item)]

    def confirmed(self, now: float, item: Confirmed) -> list[Effect]:
        ticket, receipt = item.ticket, item.receipt
        if type(ticket) is Own:
            if ticket.what == "advertise":
                return self.perform(now, self.own.confirmed(receipt)) + self.off_if_forbidden(now)
            return self.window.answered(ticket, receipt, "") if ticket.what == "piece" else []
        opening = self.opening.pop(ticket, None)
        if opening is None:
            return [Deliver(item)]
        number = self.numbers.pop(ticket)
        filter = receipt.filter if receipt is not None and receipt.filter else opening.request.filter
        self.subscriptions[number] = Subscribed(filter, opening.modes)
        return [Deliver(item), *self.listen(now, number)]

    def failed(self, now: float, item: Failed) -> list[Effect]:
        ticket = item.ticket
        if type(ticket) is not Own:
            self.opening.pop(ticket, None)
            self.numbers.pop(ticket, None)
            return [Deliver(item)]
        match ticket.what:
            case "piece":
                return self.window.answered(ticket, None, item.reason)
            case "advertise":
                self.own.forbid(item.reason)
                return self.off_if_forbidden(now)
            case "ask":
                self.own.refused(ticket.key)
            case "recall" | "hole" | "marks":
                return self.perform(now, self.stored.failed(now, ticket, item.reason))
        return []

    def ended(self, now: float, item: Ended) -> list[Effect]:
        if item.kind == "advertise" and item.number == self.own.advertisement:
            self.own.forbid(item.reason)
            return self.off_if_forbidden(now)
        if item.kind == "subscribe" and item.number in self.own.keys:
            self.own.refused(self.own.keys[item.number])
            return []
        if item.kind == "subscribe" and item.number in self.subscriptions:
            return [*self.forget(now, item.number), Deliver(item)]
        return [Deliver(item)]

    def accepted(self, now: float, item: Accepted) -> list[Effect]:
        return [*self.send_on(now), Deliver(item)]

    def declined(self, now: float, item: Declined) -> list[Effect]:
        numbers = tuple([number for number in item.numbers if not self.own.is_ours(number)])
        told: list[Effect] = [Deliver(Declined(numbers, item.reason))] if numbers else []
        if len(numbers) == len(item.numbers):
            return told
        self.own.forbid(item.reason)
        return told + self.off_if_forbidden(now)

    def served(self, now: float, item: PeerUp) -> list[Effect]:
        effects: list[Effect] = [Deliver(item)]
        if self.own.problem:
            # Another broker may know better.
            self.own.problem = ""
            effects += self.modes_changed(now)
        return effects

    def missed(self, now: float, item: Missed) -> list[Effect]:
        if item.subscription in self.own.keys:
            return []
        subscribed = self.subscriptions.get(item.subscription)
        is_mended = subscribed is not None and subscribed.modes.is_reliable and self.params.recovery.uses_history
        return [Deliver(item), *(self.stored.missed(now, item) if is_mended else ())]

    def marks_read(self, now: float, item: MarksRead) -> list[Effect]:
        if type(item.ticket) is not Own:
            return [Deliver(item)]
        return self.perform(now, self.stored.marks_read(now, item.ticket, item.parts))

    def history_read(self, now: float, item: HistoryRead) -> list[Effect]:
        if type(item.ticket) is not Own:
            return [Deliver(item)]
        return self.perform(now, self.stored.read(now, item.ticket, item.page))

    # What the transport orders.

    def perform(self, now: float, orders: Sequence[Order]) -> list[Effect]:
        out: list[Effect] = []
        handed: list[Handed] = []
        events: list[Emit] = []
        messages: list[Emit] = []
        for effect in orders:
            if type(effect) is Deliver:
                item = effect.item
                if type(item) is Handed:
                    if item.way in BROUGHT:
                        self.ledger.lend(item)
                    handed.append(item)
                else:
                    out.append(Deliver(self.for_whom(item)) if type(item) is Quality else effect)
            elif type(effect) is Emit:
                (events if effect.kind is Kind.DATA else messages).append(effect)
            elif isinstance(effect, Note):
                out.append(effect)
            else:
                order = self.orders.get(type(effect))
                if order is not None:
                    out += order(now, effect)
                elif isinstance(effect, Request):
                    out += self.ask(now, effect)
                else:
                    out.append(effect)
        if handed:
            out += packed(handed)
        if events:
            out += self.left(now, events)
        if messages:
            out += self.perform(now, self.own.publish(messages))
        return out

    def for_whom(self, quality: Quality) -> Quality:
        """With the subscriptions that a loss concerns."""
        stream, sequence = quality.stream, quality.sequence
        if stream is None or quality.subscriptions or quality.what != "lost":
            return quality
        return Quality("lost", stream, sequence, quality.value, self.transport.tally.for_whom(stream, sequence))

    def dropped(self, now: float, drop: Drop) -> list[Effect]:
        item = drop.item
        if type(item) is PublishEvent and drop.reason == BAD_EVENT:
            # No event to us; the broker says so, with its number.
            return self.perform(now, [Emit(item.head, item.payload, Kind.DATA, item.ticket)])
        if type(item) is Leaving and item.kind is Kind.DATA:
            return [drop, *self.window.lost(item.ticket)]
        return [drop]

    # Publications of the application.

    def publish(self, now: float, request: PublishBatch) -> list[Effect]:
        if not request.heads or not self.carrier.takes(request):
            # The carrier says why not.
            return self.ask(now, request)
        number = self.window.begin(request)
        effects: list[Effect] = []
        handle = self.transport.handle
        for head, payload in zip(request.heads, request.payloads, strict=True):
            effects += handle(now, PublishEvent(head, payload, number))
        self.is_publishing = True
        performed = self.perform(now, effects)
        self.is_publishing = False
        return performed

    def left(self, now: float, emits: Sequence[Emit]) -> list[Effect]:
        """These have come out of the transport."""
        effects: list[Effect] = []
        for emit in self.window.put(emits):
            effects += [Drop(emit, BACKLOG_FULL), *self.window.lost(emit.ticket)]
        effects += self.send_on(now)
        # Whoever waits for a place in a queue may have one now.
        return effects if self.is_publishing else [*effects, Deliver(RoomMade())]

    def send_on(self, now: float) -> list[Effect]:
        """To the carrier, as far as its window allows."""
        effects: list[Effect] = []
        while self.window.backlog and (piece := self.window.take()) is not None:
            sending, request = piece
            told = self.carrier.handle(now, request)
            sending.last = self.carrier.window.next - 1
            effects += self.hear(now, told)
        return effects

    # Subscriptions and their modes.

    def open(self, now: float, request: OpenCarried) -> list[Effect]:
        self.opening[request.request.ticket] = request
        return self.ask(now, request.request)

    def close(self, now: float, request: CloseSubscription) -> list[Effect]:
        return self.forget(now, request.number) + self.ask(now, request)

    def forget(self, now: float, number: int) -> list[Effect]:
        self.ledger.forget(number)
        self.stored.forget(number)
        return self.tell(now, StopListening(number)) if self.subscriptions.pop(number, None) is not None else []

    def took(self, now: float, request: Took) -> list[Effect]:
        told = self.ledger.took(request)
        return [] if told is None else self.ask(now, told)

    def set_modes(self, now: float, request: SetModes) -> list[Effect]:
        subscribed = self.subscriptions.get(request.subscription)
        if subscribed is None:
            return []
        subscribed.modes = request.modes
        return self.listen(now, request.subscription)

    def listen(self, now: float, number: int) -> list[Effect]:
        subscribed = self.subscriptions[number]
        modes, may_speak = subscribed.modes, not self.own.problem
        request = Listen(
            number,
            parse(subscribed.filter),
            modes.is_ordered,
            modes.is_reliable and may_speak,
            modes.is_paced and may_speak,
            modes.priority,
        )
        return self.tell(now, request)

    def configure(self, now: float, request: Configure) -> list[Effect]:
        self.params = params = request.params
        self.window.configure(params)
        if self.own.problem:
            params = msgspec.structs.replace(params, is_reliable=False, is_paced=False)
        return self.tell(now, Configure(params))

    def off_if_forbidden(self, now: float) -> list[Effect]:
        return self.modes_changed(now) if self.own.problem else []

    def modes_changed(self, now: float) -> list[Effect]:
        """What may be on is another thing than before."""
        effects = self.configure(now, Configure(self.params))
        for number in list(self.subscriptions):
            effects += self.listen(now, number)
        return effects

    # Seen from outside.

    def state(self) -> TransportState:
        return state_of(self.transport, self.own.problem)

    def check(self) -> None:
        self.carrier.check()
        self.transport.check()
        for part in (self.window, self.ledger, self.own, self.stored):
            part.check()
