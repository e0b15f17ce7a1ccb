"""A carried client: the transport on top of a client's session with our brokers.

The session gives more than a best-effort network: it keeps what no broker has accepted, and continues across breaks.
What can still get lost is what a broker drops for a slow subscriber, or a subscription without a guarantee misses while
there is no link; what can come late is what several subscriptions of one client share. The transport finds such losses
and repairs them, and lets receivers slow down publishers, end to end. That is what is wired up here; nothing is
decided.

    application       OpenSubscription, PublishBatch, Took, ...      Arrived, Carried, Confirmed, Quality, ...
                      |                                              ^
    transport         Listen, PublishEvent                           Handed
                      Emit, Ask, Recall                              Caught, Recalled
                      |                                              ^
    session           PublishBatch, OpenSubscription, ReadHistory    Arrived, HistoryRead

    publishing.py     what is on its way through the transport; windows
    posting.py        batches into events and back; tickets
    receiving.py      what the application has to take; events into batches
    catching.py       deliveries into events
    asking.py         the transport's own subscriptions and advertisement
    recalling.py      lost events from the history of brokers
    mending.py        what brokers say they dropped, from the same history
    telling.py        what the transport looks like, for the broker to show

A subscription is listened to once it is confirmed, with the filter that was really installed. Requests that the
transport has no part in (marks, history, advertisements) pass as they are, and so do their answers. Timers carry the
name of the side that set them.

Guaranteed: what the session guarantees, event by event and for each subscription; nothing more is promised of what the
session does not promise, only tried. Not guaranteed: that an event which a broker dropped for one subscription, and
delivered for another one of this client, is missed by anybody: the transport has it.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, cast

import msgspec

from tidings.machine.effects import CancelTimer, Deliver, Drop, Effect, Note, SetTimer
from tidings.machine.inputs import Fired, Input, TimerKey
from tidings.model.identity import NodeId
from tidings.model.language.parser import parse
from tidings.nodes.carried.asking import Asking, Request
from tidings.nodes.carried.catching import Catching
from tidings.nodes.carried.items import Modes, OpenCarried, Own, SetModes
from tidings.nodes.carried.mending import Key, Mending
from tidings.nodes.carried.posting import Posting
from tidings.nodes.carried.publishing import Sendings
from tidings.nodes.carried.recalling import Recalls
from tidings.nodes.carried.receiving import BROUGHT, Ledger, Packing
from tidings.nodes.carried.telling import TELL_PERIOD, Telling
from tidings.nodes.client import ClientNode
from tidings.protocols.access.params import GuestParams
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.transport.formats import HEADER_BYTES
from tidings.protocols.transport.marking import DATA_TAIL, Kind
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.shim import BAD_EVENT
from tidings.protocols.transport.signals import (
    Ask,
    Configure,
    Emit,
    Handed,
    Listen,
    Outgoing,
    PublishEvent,
    Quality,
    Recall,
    Recalled,
    StopListening,
    Unask,
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


class Subscribed(msgspec.Struct):
    """A subscription of the application that is confirmed: what it matches, as installed, and its modes."""

    filter: str
    modes: Modes


class CarriedClient:
    """`CarriedClient("ann", GuestParams(brokers=("b",)), SessionParams(), rng, TransportParams(), transport_rng)`. The
    parts can be looked at; inputs go through `handle`."""

    def __init__(
        self,
        node_id: NodeId,
        access: GuestParams,
        delivery: SessionParams,
        rng: Random,
        params: TransportParams,
        transport_rng: Random,
        sign: Callable[[bytes], bytes] | None = None,
        first_publication: int = 1,
    ) -> None:
        self.client = ClientNode(node_id, access, delivery, rng, sign, first_publication)
        self.guest, self.session, self.messages = self.client.guest, self.client.session, self.client.messages
        self.params = params
        self.transport = TransportNode(transport_rng.getrandbits(32), params, transport_rng)
        self.publishing = Sendings(self.session.publishing, overhead_of(params))
        self.ledger, self.asking, self.recalls, self.telling = Ledger(), Asking(), Recalls(), Telling()
        both = self.client, self.transport, self.from_session, self.from_transport
        self.posting = Posting(self.publishing, *both)
        self.catching = Catching(self.transport, self.ledger, self.recalls, self.asking.keys)
        self.mending = Mending(*both, self.filter_of)
        self.opening: dict[Any, Modes] = {}
        """Modes of subscriptions that are not confirmed yet, by ticket."""
        self.numbers: dict[Any, int] = {}
        """Their numbers."""
        self.subscriptions: dict[int, Subscribed] = {}
        self.handlers: dict[type, Callable[[float, Any], list[Effect]]] = {
            Fired: self.fired,
            OpenSubscription: lambda now, request: self.open(now, OpenCarried(request, modes_of(self.params))),
            OpenCarried: self.open,
            CloseSubscription: self.close,
            SetModes: self.set_modes,
            Configure: self.configure,
            PublishBatch: lambda now, request: self.posting.publish(now, request),
            Took: self.took,
        }
        self.items: dict[type, Callable[[float, Any], list[Effect]]] = {
            Begun: self.begun,
            Confirmed: self.confirmed,
            Failed: self.failed,
            HistoryRead: self.history_read,
            MarksRead: lambda now, item: self.mending.marks_read(now, item) if is_own(item) else [Deliver(item)],
            Ended: self.ended,
            Accepted: self.accepted,
            Declined: self.declined,
            Missed: self.missed,
            PeerUp: self.served,
        }
        self.performers: dict[type, Callable[[float, Any], list[Effect]]] = {
            Ask: lambda now, ask: self.request(now, self.asking.ask(ask)),
            Unask: lambda now, unask: self.request(now, self.asking.unask(unask.key)),
            Recall: self.recall,
            Drop: self.dropped,
            SetTimer: lambda now, timer: [SetTimer(("transport", timer.key), timer.at)],
            CancelTimer: lambda now, timer: [CancelTimer(("transport", timer.key))],
        }

    def start(self, now: float) -> list[Effect]:
        self.mending.holes.clear()
        effects = self.from_session(now, self.client.start(now)) + self.from_transport(now, self.transport.start(now))
        return [*effects, SetTimer(("telling", "tell"), now + TELL_PERIOD)]

    def handle(self, now: float, input: Input) -> list[Effect]:
        handler = self.handlers.get(type(input))
        if handler is not None:
            return handler(now, input)
        return self.from_session(now, self.client.handle(now, input))

    def fired(self, now: float, fired: Fired) -> list[Effect]:
        side, key = cast(tuple[str, TimerKey], fired.key)
        if side == "client":
            return self.from_session(now, self.client.handle(now, Fired(key)))
        if side == "telling":
            told = self.telling.tell(self.session.broker, self.state())
            return [*told, SetTimer(("telling", "tell"), now + TELL_PERIOD)]
        if side == "mending":
            return self.mending.look(now, cast(Key, key))
        return self.from_transport(now, self.transport.handle(now, Fired(key)))

    def request(self, now: float, requests: Sequence[Request]) -> list[Effect]:
        """Of the session, for the transport itself."""
        effects: list[Effect] = []
        for request in requests:
            before = self.session.publishing.next
            effects += self.from_session(now, self.client.handle(now, request))
            if type(request) is PublishBatch and self.session.publishing.next > before:
                self.asking.sent(before, self.session.publishing.next - 1)
        return effects

    # What the session tells.

    def from_session(self, now: float, effects: list[Effect]) -> list[Effect]:
        out: list[Effect] = []
        has_arrived = False
        for effect in effects:
            kind = type(effect)
            if kind is Deliver:
                if type(effect.item) is Arrived:
                    if not has_arrived:
                        has_arrived = True
                        items = [it.item for it in effects if type(it) is Deliver and type(it.item) is Arrived]
                        out += self.arrived(now, items)
                    continue
                hear = self.items.get(type(effect.item))
                out += [effect] if hear is None else hear(now, effect.item)
            elif kind is SetTimer:
                out.append(SetTimer(("client", effect.key), effect.at))
            elif kind is CancelTimer:
                out.append(CancelTimer(("client", effect.key)))
            else:
                out.append(effect)
        return out

    def arrived(self, now: float, items: Sequence[Arrived]) -> list[Effect]:
        out = self.from_transport(now, self.catching.catch(now, items))
        for took in self.ledger.take_consumed():
            out += self.from_session(now, self.client.handle(now, took))
        return out

    def begun(self, now: float, item: Begun) -> list[Effect]:
        if type(item.ticket) is Own:
            self.asking.begun(item.ticket, item.number)
            return []
        if item.ticket in self.opening:
            self.numbers[item.ticket] = item.number
        return [Deliver(item)]

    def confirmed(self, now: float, item: Confirmed) -> list[Effect]:
        ticket = item.ticket
        if type(ticket) is Own:
            if ticket.what == "advertise":
                return self.request(now, self.asking.confirmed(item.receipt)) + self.off_if_forbidden(now)
            return self.posting.piece_done(ticket, item.receipt, "") if ticket.what == "piece" else []
        if ticket not in self.opening or item.receipt is None:
            return [Deliver(item)]
        modes, number = self.opening.pop(ticket), self.numbers.pop(ticket)
        filter = item.receipt.filter or self.session.receiving[number].request.filter
        self.subscriptions[number] = Subscribed(filter, modes)
        return [Deliver(item), *self.listen(now, number)]

    def failed(self, now: float, item: Failed) -> list[Effect]:
        ticket = item.ticket
        if type(ticket) is not Own:
            self.opening.pop(ticket, None)
            self.numbers.pop(ticket, None)
            return [Deliver(item)]
        match ticket.what:
            case "piece":
                return self.posting.piece_done(ticket, None, item.reason)
            case "recall":
                return self.recalled(now, self.recalls.failed(ticket.key, item.reason))  # type: ignore[arg-type]
            case "advertise":
                self.asking.forbid(item.reason)
                return self.off_if_forbidden(now)
            case "ask":
                self.asking.refused(ticket.key, item.reason)
            case "mend" | "marks":
                return self.mending.look_again(now, cast(Key, ticket.key))
        return []

    def history_read(self, now: float, item: HistoryRead) -> list[Effect]:
        if type(item.ticket) is not Own:
            return [Deliver(item)]
        if item.ticket.what == "mend":
            return self.mending.read(now, cast(Key, item.ticket.key), item.page)
        answer = self.recalls.read(item.ticket.key, item.page)  # type: ignore[arg-type]
        if answer is None or type(answer) is Recalled:
            return self.recalled(now, answer)
        return self.from_session(now, self.client.handle(now, answer))

    def ended(self, now: float, item: Ended) -> list[Effect]:
        if item.kind == "advertise" and item.number == self.asking.advertisement:
            self.asking.forbid(item.reason)
            return self.off_if_forbidden(now)
        if item.kind == "subscribe" and item.number in self.asking.keys:
            self.asking.refused(self.asking.keys[item.number], item.reason)
            return []
        if item.kind == "subscribe" and self.subscriptions.pop(item.number, None) is not None:
            self.ledger.forget(item.number)
            self.mending.forget(item.number)
            return [*self.from_transport(now, self.transport.handle(now, StopListening(item.number))), Deliver(item)]
        return [Deliver(item)]

    def accepted(self, now: float, item: Accepted) -> list[Effect]:
        return [*self.posting.send_on(now), Deliver(item)]

    def declined(self, now: float, item: Declined) -> list[Effect]:
        numbers = tuple([number for number in item.numbers if not self.asking.is_ours(number)])
        told: list[Effect] = [Deliver(Declined(numbers, item.reason))] if numbers else []
        if len(numbers) == len(item.numbers):
            return told
        self.asking.forbid(item.reason)
        return told + self.off_if_forbidden(now)

    def missed(self, now: float, item: Missed) -> list[Effect]:
        if item.subscription in self.asking.keys:
            return []
        subscribed = self.subscriptions.get(item.subscription)
        is_mended = subscribed is not None and subscribed.modes.is_reliable and self.params.recovery.uses_history
        return [Deliver(item), *(self.mending.missed(now, item) if is_mended else ())]

    def served(self, now: float, item: PeerUp) -> list[Effect]:
        effects: list[Effect] = [Deliver(item)]
        self.telling.forget()
        if self.asking.problem:
            self.asking.allow()
            effects += self.modes_changed(now)
        return effects

    # What the transport orders.

    def from_transport(self, now: float, effects: list[Effect]) -> list[Effect]:
        out: list[Effect] = []
        packing = Packing()
        events: list[Emit] = []
        messages: list[Emit] = []
        for effect in effects:
            kind = type(effect)
            if kind is Deliver:
                item = effect.item
                if type(item) is Handed:
                    if item.way in BROUGHT:
                        self.ledger.lend(item)
                    packing.add(item)
                else:
                    out.append(Deliver(self.for_whom(item)) if type(item) is Quality else effect)
            elif kind is Emit:
                (events if effect.kind is Kind.DATA else messages).append(effect)
            elif kind is Note:
                out.append(effect)
            else:
                perform = self.performers.get(kind)
                out += [effect] if perform is None else perform(now, effect)
        out += packing.done()
        if events:
            out += self.posting.left(now, events)
        if messages:
            requests, dropped = self.asking.publish(messages)
            out += dropped + self.request(now, requests)
        return out

    def for_whom(self, quality: Quality) -> Quality:
        """With the subscriptions that a loss concerns."""
        stream, sequence = quality.stream, quality.sequence
        if stream is None or quality.subscriptions or quality.what != "lost":
            return quality
        return Quality("lost", stream, sequence, quality.value, self.transport.tally.for_whom(stream, sequence))

    def recall(self, now: float, recall: Recall) -> list[Effect]:
        problem = self.recalls.ask(recall, self.filter_of(recall.subscription))
        if problem:
            return self.recalled(now, Recalled(recall.stream, recall.sequence, (), problem))
        return self.read_on(now)

    def recalled(self, now: float, answer: Recalled | None) -> list[Effect]:
        effects = [] if answer is None else self.from_transport(now, self.transport.handle(now, answer))
        return effects + self.read_on(now)

    def read_on(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for request in list(self.recalls.begin()):
            effects += self.from_session(now, self.client.handle(now, request))
        return effects

    def dropped(self, now: float, drop: Drop) -> list[Effect]:
        item = drop.item
        if type(item) is PublishEvent and drop.reason == BAD_EVENT:
            # No event to us; the broker says so, with its number.
            return self.from_transport(now, [Emit(item.head, item.payload, Kind.DATA, item.ticket)])
        if type(item) is Outgoing and item.kind is Kind.DATA:
            return [drop, *self.posting.lost(item.ticket)]
        return [drop]

    def took(self, now: float, request: Took) -> list[Effect]:
        told = self.ledger.took(request)
        return [] if told is None else self.from_session(now, self.client.handle(now, told))

    # Subscriptions and their modes.

    def open(self, now: float, request: OpenCarried) -> list[Effect]:
        self.opening[request.request.ticket] = request.modes
        return self.from_session(now, self.client.handle(now, request.request))

    def close(self, now: float, request: CloseSubscription) -> list[Effect]:
        effects: list[Effect] = []
        if self.subscriptions.pop(request.number, None) is not None:
            effects = self.from_transport(now, self.transport.handle(now, StopListening(request.number)))
        self.ledger.forget(request.number)
        self.mending.forget(request.number)
        return effects + self.from_session(now, self.client.handle(now, request))

    def set_modes(self, now: float, request: SetModes) -> list[Effect]:
        subscribed = self.subscriptions.get(request.subscription)
        if subscribed is None:
            return []
        subscribed.modes = request.modes
        return self.listen(now, request.subscription)

    def filter_of(self, number: int) -> str | None:
        """Of a subscription of the application that is confirmed."""
        subscribed = self.subscriptions.get(number)
        return None if subscribed is None else subscribed.filter

    def listen(self, now: float, number: int) -> list[Effect]:
        subscribed = self.subscriptions[number]
        modes, may_speak = subscribed.modes, not self.asking.problem
        request = Listen(
            number,
            parse(subscribed.filter),
            modes.is_ordered,
            modes.is_reliable and may_speak,
            modes.is_paced and may_speak,
            modes.priority,
        )
        return self.from_transport(now, self.transport.handle(now, request))

    def configure(self, now: float, request: Configure) -> list[Effect]:
        self.params = request.params
        self.publishing.overhead_bytes = overhead_of(request.params)
        params = request.params
        if self.asking.problem:
            params = msgspec.structs.replace(params, is_reliable=False, is_paced=False)
        return self.from_transport(now, self.transport.handle(now, Configure(params)))

    def off_if_forbidden(self, now: float) -> list[Effect]:
        return self.modes_changed(now) if self.asking.problem else []

    def modes_changed(self, now: float) -> list[Effect]:
        """What may be on is another thing than before."""
        effects = self.configure(now, Configure(self.params))
        for number in list(self.subscriptions):
            effects += self.listen(now, number)
        return effects

    # Seen from outside.

    def state(self) -> TransportState:
        return state_of(self.transport, self.asking.problem)

    def check(self) -> None:
        self.client.check()
        self.transport.check()
        for part in (self.publishing, self.ledger, self.asking, self.recalls, self.mending):
            part.check()


def is_own(item: MarksRead) -> bool:
    return type(item.ticket) is Own


def modes_of(params: TransportParams) -> Modes:
    return Modes(params.is_ordered, params.is_reliable, params.is_paced)


def overhead_of(params: TransportParams) -> int:
    """About the bytes that mark and header add to an event."""
    if not params.is_ordered:
        return 0
    return HEADER_BYTES + params.record * (4 + params.profile.size_bytes) + len(DATA_TAIL) + 2
