"""Edge: a broker's service to its clients.

The problem. A client wants to say once what it offers and what it wants, to know when the network has taken note, and
then to rely on it: what it publishes reaches whoever asked, and what it asked for reaches it, from a definite moment on
and without holes.

The idea. The edge stands between clients and routing. Routing carries filters and publications through the network and
says when a change is in place everywhere; the edge turns that into receipts and guarantees (PSDG). Its parts:

    acceptance.py      what publishers here say: numbers, repetitions, advertisements
    publishers.py      what is known of each, and stored (`history.py`)
    references.py      history for others: questions on their way, answers
    flows.py           how much of that is on the way to each neighbour; `exchange.py` hears what they say
    subscriptions.py   what subscribers here say, and what arrives for them
    questions.py       history for us: whom to ask, what to do with the answers
    beginnings.py      behind which numbers subscriptions begin
    readings.py        history for clients that do not subscribe; `inquiries.py` answers their brokers
    namesakes.py       who else publishes under the name of a client here
    replies.py         answers to an event, back to its publisher
    admission.py       what gets through to a subscription, and what happens when its client is slow

This module receives, hands on to the parts, and answers clients. A request waits for routing under a ticket; when it is
settled the client gets its `Receipt`, or a `Refusal` that says whether to try again. Unsubscribing and unadvertising
take effect when they arrive here; the receipt tells that the network knows too, or will when the last publication
under a withdrawn advertisement is forgotten.

Signals. Hears of clients from access, of neighbours from the overlay, and `Settled`, `Known`, `Forgotten`, `Matched`
from routing; tells routing `Want`, `Unwant`, `Offer`, `Unoffer`, `Forward`.
Timers. "sweep": history may be too old. "ask": a question for history was not answered. "begin": one for where to
begin. "held", "answers": there was no time to ask, or to answer. "read": a reading. "reply": one. ("save", name).
Requests. `Close`: nobody new is served, requests that are outstanding are waited for; then `EdgeClosed` is delivered.
A durable edge reads its store when it starts. Until then all that happens waits in order, up to `deferred_max`.

Source: PSDG, spec 3.6; graceful shutdown from 3.6 section 7.2 (S-121).
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tidings.machine.effects import Deliver, Disconnect, Drop, Effect, Load, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Loaded, Received, Request, Saved, Signal
from tidings.model.identity import NodeId
from tidings.protocols.delivery.edge.acceptance import Acceptance
from tidings.protocols.delivery.edge.admission import Admission, ServedSubscription
from tidings.protocols.delivery.edge.beginnings import Beginnings
from tidings.protocols.delivery.edge.clients import BadRequest, Requests, ServedClient, TenantUses, refused
from tidings.protocols.delivery.edge.exchange import HistoryExchange
from tidings.protocols.delivery.edge.flows import HistoryFlows
from tidings.protocols.delivery.edge.history import Engine
from tidings.protocols.delivery.edge.inquiries import Inquiries
from tidings.protocols.delivery.edge.namesakes import Namesakes
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.edge.publishers import Publishers
from tidings.protocols.delivery.edge.questions import Fetching
from tidings.protocols.delivery.edge.readings import ServedReadings
from tidings.protocols.delivery.edge.references import NOT_A_NEIGHBOUR, References, Routes
from tidings.protocols.delivery.edge.replies import Replies
from tidings.protocols.delivery.edge.saves import Saves
from tidings.protocols.delivery.edge.subscriptions import ServedSubscriptions
from tidings.protocols.delivery.edge.views import gauges_of, views_of
from tidings.protocols.delivery.messages import (
    Advertise,
    Behind,
    DeliveriesTaken,
    Fetch,
    Look,
    PublisherLife,
    PublishMessage,
    Refusal,
    ReplyMessage,
    Subscribe,
    Taken,
    Unadvertise,
    Unsubscribe,
)
from tidings.pubsub.client import Guarantee, Kind, Receipt
from tidings.pubsub.notes import HistoryUnreadable
from tidings.pubsub.rows import Gauge, View
from tidings.pubsub.signals import (
    ClientDown,
    ClientUp,
    Forgotten,
    Forward,
    Known,
    Matched,
    NeighbourDown,
    NeighbourUp,
    Offer,
    Settled,
    Skipped,
    Unoffer,
    Unwant,
    Want,
)

NOT_A_CLIENT = "comes from a node that is no client of this broker"
CLOSING = "this broker is shutting down; connect to another one"
STARTING = "this broker is starting and has too much to do; connect again later"
CLIENT_LEFT = "the client left before the answer"
NO_PROMISE = (
    "this network is best effort: it promises nothing, and keeps nothing that could be fetched later; subscribe with "
    "the guarantee 'none' and the policy 'drop oldest', 'drop newest' or 'disconnect'"
)
NO_HISTORY = "this network is best effort: what is stored at one broker cannot be read at another; subscribe instead"


class Close(Request, frozen=True):
    """Request: serve nobody new, and say when everything that was begun is done."""


class EdgeClosed(msgspec.Struct, frozen=True):
    """Nothing is outstanding any more: the broker can be stopped without breaking a promise."""


class Edge:
    """`Edge("a", EdgeParams(), routes)`; `routes` knows the way to publishers. What is published and
    read in great numbers is sifted by the compiled index where the engine is "fast", or None and there is one. Where
    routing `is_best_effort` nothing can be promised, and whoever asks for a promise is refused. Where it `overtakes`,
    what comes for subscriptions without a promise may be out of order."""

    messages: tuple[type, ...] = (
        *(Subscribe, Behind, Unsubscribe, Advertise, Unadvertise, PublisherLife, PublishMessage),
        *(Taken, DeliveriesTaken, Look, Fetch, ReplyMessage),
        *HistoryExchange.messages,
    )
    hears: tuple[type, ...] = (
        *(Matched, Settled, Known, Forgotten, Skipped),
        *(ClientUp, ClientDown, NeighbourUp, NeighbourDown),
        Close,
    )
    tells: tuple[type[Signal], ...] = (Want, Unwant, Offer, Unoffer, Forward)

    def __init__(
        self,
        node_id: NodeId,
        params: EdgeParams,
        routes: Routes,
        engine: Engine | None = "plain",
        is_best_effort: bool = False,
        overtakes: bool = False,
    ) -> None:
        self.node_id, self.params, self.is_best_effort = node_id, params, is_best_effort
        self.clients: dict[NodeId, ServedClient] = {}
        self.requests = Requests()
        self.uses = TenantUses()
        self.publishers = Publishers(node_id, params, self.uses, engine)
        self.flows = HistoryFlows(params)
        self.references = References(node_id, params, routes, self.publishers, self.flows)
        self.saves = Saves(params, self.publishers, self.references.groups)
        self.namesakes = Namesakes(node_id, self.publishers, self.references)
        self.acceptance = Acceptance(params, self.requests, self.publishers, self.namesakes)
        admission = Admission(params, is_best_effort, overtakes)
        self.fetching = Fetching(node_id, params, self.references, admission)
        self.inquiries = Inquiries(node_id, params, self.references)
        self.readings = ServedReadings(node_id, params, self.fetching, self.inquiries)
        self.beginnings = Beginnings(node_id, params, self.fetching, self.inquiries, self.readings.number)
        self.subscriptions = ServedSubscriptions(params, self.requests, admission, self.fetching, self.beginnings)
        self.replies = Replies(node_id, params, self.fetching, self.namesakes, self.readings.number)
        hearing = self.inquiries, self.subscriptions, self.readings, self.beginnings, self.namesakes, self.replies
        self.exchange = HistoryExchange(self.references, *hearing)
        self.is_loading = self.is_closing = self.is_closed = False
        self.sweep_at: float | None = None
        self.deferred: list[Input] = []
        self.handlers: dict[type, Callable[[float, Any], list[Effect]]] = {
            Received: self.receive,
            Matched: self.subscriptions.pass_on,
            Settled: self.settle,
            Known: self.known,
            Forgotten: self.forgotten,
            Skipped: self.subscriptions.skipped,
            ClientUp: self.client_up,
            ClientDown: self.client_down,
            NeighbourUp: self.neighbour_up,
            NeighbourDown: self.neighbour_down,
            Saved: lambda now, saved: self.saves.hear(now, saved.name, saved.error),
            Fired: self.fire,
            Close: self.close,
        }
        self.hearers: dict[type, Callable[[float, ServedClient, Any], list[Effect]]] = {
            PublishMessage: self.publish,
            Taken: self.subscriptions.take,
            DeliveriesTaken: self.subscriptions.arrived,
            Subscribe: self.subscribe,
            Behind: self.subscriptions.behind,
            Unsubscribe: self.unsubscribe,
            Advertise: self.advertise,
            Unadvertise: self.unadvertise,
            PublisherLife: self.acceptance.live,
            ReplyMessage: self.replies.reply,
            Look: lambda now, client, asked: self.read(client, asked, lambda: self.readings.look(now, client, asked)),
            Fetch: lambda now, client, asked: self.read(client, asked, lambda: self.readings.fetch(now, client, asked)),
        }

    def start(self, now: float) -> list[Effect]:
        """After a crash that kept the state nobody is connected, and what routing was asked is forgotten."""
        effects: list[Effect] = []
        for client in list(self.clients.values()):
            effects += self.part_with(now, client)
        self.requests.waiting.clear()
        self.subscriptions.start()
        self.flows.clear()
        self.readings.start(now)
        self.beginnings.start()
        self.replies.start()
        self.is_closing = self.is_closed = False
        self.sweep_at = None
        if self.params.is_durable:
            self.publishers.forget_all()
            self.is_loading = True
            return [*effects, Load("")]
        offered = self.publishers.offered.values()
        effects += [Offer(each.id, each.publisher.name, each.filter, latency=each.latency) for each in offered]
        return effects + self.arm_sweep(now)

    def handle(self, now: float, input: Input) -> list[Effect]:
        if self.is_loading:
            return self.handle_early(now, input)
        handler = self.handlers.get(type(input))
        if handler is None:
            return []
        effects = handler(now, input)
        if self.beginnings.waiting:
            effects = effects + self.beginnings.flush(now)
        while self.fetching.placed:
            placed, self.fetching.placed = self.fetching.placed, []
            effects = effects + self.subscriptions.give_receipts(now, placed)
        if self.flows.ready:
            effects = effects + self.flows.flush(now)
        if self.references.unsaved:
            effects, self.references.unsaved = [*effects, *self.references.unsaved], []
        if self.is_closing and not self.is_closed:
            return effects + self.finish_closing()
        return effects

    def handle_early(self, now: float, input: Input) -> list[Effect]:
        """Everything waits until the store is read."""
        if type(input) is Loaded:
            self.is_loading = False
            effects: list[Effect] = []
            if input.error is not None:
                effects.append(HistoryUnreadable(input.error))
            effects += [*self.references.groups.load(now, input.entries)]
            effects += [*self.publishers.load(now, input.entries), *self.arm_sweep(now)]
            deferred, self.deferred = self.deferred, []
            return effects + [effect for each in deferred for effect in self.handle(now, each)]
        if type(input) not in self.handlers:
            return []
        if len(self.deferred) < self.params.deferred_max:
            self.deferred.append(input)
            return []
        leaving = [Disconnect(input.sender, STARTING)] if type(input) is Received else []
        return [Drop(input, STARTING), *leaving]

    # Who is there.

    def client_up(self, now: float, up: ClientUp) -> list[Effect]:
        effects: list[Effect] = []
        if up.client in self.clients:
            effects += self.part_with(now, self.clients[up.client])
        if self.is_closing:
            return [*effects, Disconnect(up.client, CLOSING)]
        use, window = self.uses.arrive(up.tenant), self.params.client_window_bytes
        client = self.clients[up.client] = ServedClient(up, window, use)
        self.publishers.arrive(client)
        return effects

    def client_down(self, now: float, down: ClientDown) -> list[Effect]:
        client = self.clients.get(down.client)
        return [] if client is None else self.part_with(now, client)

    def part_with(self, now: float, client: ServedClient) -> list[Effect]:
        del self.clients[client.name]
        for part in (self.readings, self.namesakes, self.replies):
            part.leave(client)
        return [*self.subscriptions.leave(now, client), *self.publishers.leave(now, client)]

    def neighbour_up(self, now: float, up: NeighbourUp) -> list[Effect]:
        self.readings.absences.come_back(now, up.neighbour)
        return self.flows.open(up.neighbour)

    def neighbour_down(self, now: float, down: NeighbourDown) -> list[Effect]:
        return self.flows.close(down.neighbour)

    def known(self, now: float, known: Known) -> list[Effect]:
        effects = [*self.subscriptions.learn(now, known), *self.beginnings.learn(now, known.publisher)]
        return [*effects, *self.readings.learn(now, known), *self.namesakes.learn(known)]

    def forgotten(self, now: float, forgotten: Forgotten) -> list[Effect]:
        self.namesakes.unlearn(forgotten.advertisement)
        self.readings.note_absence(now, forgotten)
        effects = self.fetching.unlearn(now, forgotten.advertisement)
        self.beginnings.unlearn(forgotten.advertisement)
        return [*effects, *self.readings.unlearn(now, forgotten.advertisement)]

    # What others say.

    def receive(self, now: float, received: Received) -> list[Effect]:
        message = received.message
        hear = self.hearers.get(type(message))
        if hear is None and received.sender in self.clients:
            return [Drop(message, NOT_A_NEIGHBOUR)]
        if hear is None:
            return self.exchange.receive(now, received.sender, message)
        client = self.clients.get(received.sender)
        return [Drop(message, NOT_A_CLIENT)] if client is None else hear(now, client, message)

    def publish(self, now: float, client: ServedClient, asked: PublishMessage) -> list[Effect]:
        if self.is_closing:
            # Not declined: the client keeps it and publishes it elsewhere.
            return [Drop(asked, CLOSING)]
        return self.acceptance.publish(now, client, asked)

    def subscribe(self, now: float, client: ServedClient, asked: Subscribe) -> list[Effect]:
        def carry_out() -> list[Effect]:
            if self.is_best_effort and (asked.guarantee != "none" or asked.policy == "wait"):
                raise BadRequest(NO_PROMISE)
            return self.subscriptions.subscribe(now, client, asked)

        return self.attempt(client, "subscribe", asked.number, carry_out)

    def advertise(self, now: float, client: ServedClient, asked: Advertise) -> list[Effect]:
        effects = self.attempt(client, "advertise", asked.number, lambda: self.acceptance.advertise(now, client, asked))
        return [*self.arm_sweep(now), *effects]

    def attempt(
        self, client: ServedClient, kind: Kind, number: int, carry_out: Callable[[], list[Effect]]
    ) -> list[Effect]:
        if self.is_closing:
            return [Send(client.name, Refusal(kind, number, CLOSING, may_retry=True))]
        try:
            return carry_out()
        except BadRequest as problem:
            return refused(client, kind, number, problem)

    def read(self, client: ServedClient, asked: Look | Fetch, carry_out: Callable[[], list[Effect]]) -> list[Effect]:
        # Also while we are closing: nobody waits for readings, and whoever hears no answer asks the next broker.
        try:
            if self.is_best_effort:
                raise BadRequest(NO_HISTORY)
            return carry_out()
        except BadRequest as problem:
            return refused(client, "read", asked.number, problem)

    def unsubscribe(self, now: float, client: ServedClient, asked: Unsubscribe) -> list[Effect]:
        effects = self.subscriptions.unsubscribe(now, client, asked)
        return self.nothing_to_end(now, client, "unsubscribe", asked.number) if effects is None else effects

    def unadvertise(self, now: float, client: ServedClient, asked: Unadvertise) -> list[Effect]:
        effects, is_awaited = self.acceptance.unadvertise(client, asked)
        return effects if is_awaited else effects + self.nothing_to_end(now, client, "unadvertise", asked.number)

    def nothing_to_end(self, now: float, client: ServedClient, kind: Kind, number: int) -> list[Effect]:
        """Nobody has to be waited for: what is not there is ended already, and a client that repeats its request gets
        its receipt; or the rest happens later by itself."""
        receipt = Receipt(kind, number, (self.node_id,), 1, now + self.params.clock_offset, "", self.promise)
        return client.put(receipt)

    def settle(self, now: float, settled: Settled) -> list[Effect]:
        request = self.requests.take(settled.ticket)
        if request is None:
            return []
        client = request.client
        subscription = request.subject if isinstance(request.subject, ServedSubscription) else None
        is_superseded = request.kind == "subscribe" and not self.subscriptions.is_current(subscription)
        if self.clients.get(client.name) is not client or is_superseded:
            return [Drop(settled, CLIENT_LEFT)]
        if settled.problem:
            if subscription is not None:
                self.fetching.forget_kept(subscription)
            return [Send(client.name, request.refusal(settled, may_retry=not self.is_best_effort))]
        promise = self.promise if subscription is None else subscription.guarantee
        receipt = request.receipt(settled, now + self.params.clock_offset, promise)
        return client.put(receipt) if subscription is None else self.subscriptions.settled(now, subscription, receipt)

    @property
    def promise(self) -> Guarantee:
        """Of requests that name none themselves."""
        return "none" if self.is_best_effort else "installed"

    # Timers, the end.

    def fire(self, now: float, fired: Fired) -> list[Effect]:
        match fired.key:
            case "sweep":
                self.sweep_at = None
                return [*self.references.groups.sweep(now), *self.publishers.sweep(now), *self.arm_sweep(now)]
            case "ask":
                return self.fetching.ask_again(now)
            case "begin":
                return self.beginnings.ask_again(now)
            case "held":
                return self.subscriptions.go_on(now)
            case "answers":
                self.flows.go_on()
            case "read":
                return self.readings.expire(now)
            case "reply":
                return self.replies.expire(now)
            case ("save", str(name)):
                return self.saves.again(name)
        return []

    def arm_sweep(self, now: float) -> list[Effect]:
        at, numbers = now + self.params.sweep_period, self.publishers.numbers
        if not (self.publishers.all or self.references.groups.all):
            if not numbers.marks:
                return []
            at = max(at, numbers.expires_at - self.params.clock_offset)
        if self.sweep_at is not None and self.sweep_at <= at:
            return []
        self.sweep_at = at
        return [SetTimer("sweep", at)]

    def close(self, now: float, close: Close) -> list[Effect]:
        self.is_closing = True
        return []

    def finish_closing(self) -> list[Effect]:
        is_saving = any(publisher.saving for publisher in self.publishers.all.values())
        if self.requests.waiting or self.beginnings.asked or is_saving:
            return []
        self.is_closed = True
        return [Deliver(EdgeClosed())]

    # What others may look at.

    def why_unsettled(self) -> str:
        if self.is_loading:
            return "the store is being read"
        return "shutting down" if self.is_closing else ""

    def views(self) -> dict[str, View]:
        return views_of(self)

    def gauges(self) -> Iterator[Gauge]:
        return gauges_of(self)

    def check(self) -> None:
        histories = self.publishers, self.flows, self.references, self.fetching, self.readings
        for part in (*histories, self.subscriptions, self.namesakes, self.beginnings, self.replies):
            part.check()
        assert len(self.deferred) <= self.params.deferred_max, "more waits than deferred_max allows"
        assert self.is_loading or not self.deferred, "something waits for nothing"
        for client in self.clients.values():
            mine = self.subscriptions.of_client.get(client.name, {}).values()
            pending = sum(each.outlet.pending_bytes for each in mine)
            assert not (client.answers and client.window.has_room), "an answer waits although there is room"
            assert pending == client.pending_bytes <= self.params.pending_bytes_max, "pending bytes are miscounted"
