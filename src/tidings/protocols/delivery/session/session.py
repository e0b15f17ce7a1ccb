"""Session: the client's end of delivery, which outlives the connections it runs over.

The problem. An application subscribes and publishes once. Connections break, brokers are restarted, and it is then
served by another broker that has never heard of it. Nothing that was promised may get lost, and nothing come twice.

The idea. The client keeps what a broker needs to know of it: its advertisements, its subscriptions with how far each
has come, and the publications that no broker has accepted yet. Whenever a broker begins to serve us (`PeerUp`, from
access), all of it is said again, under the same numbers: advertisements first, then publications, then subscriptions
with their positions. The broker recognises publications that it had already; we recognise those that reach us twice. So
brokers need no memory of clients that left. A broker that is drained is left when the next one has confirmed all of it
(`departure.py`).

State. `advertisements` and `subscriptions`, which are asked for until they are confirmed (`standings.py`); for each
subscription its positions and what the application has not taken (`progress.py`); `publishing`, the window of
publications that are not accepted, and `receipts`, those of publications that are still to come (`publications.py`);
`readings`, what the application wants to read of history (`standings.py`).

Numbers. Publications are numbered from `first_publication` on. They are those of this process alone: where its name is
not (the application chose it, and may have used it before, or uses it twice), it is told from others by its `life`, a
word drawn at random, which each broker hears first. No clock decides then what is new and what is a repetition. An
application that can repeat what it published gives the same number to the same publication in each of its lives
(`is_repeating`, and no `life`): then the broker may have accepted more than this process has sent, and that is fine.
Where it is not, somebody else has used our numbers, and the application hears that these publications are refused.

Messages. Those of `delivery/messages.py` between client and broker. What the application took is told with `Taken` in
steps of half a window, or when much was taken and nothing is left, not for each event; what has arrived with
`DeliveriesTaken`, in steps of bytes. Timer ("retry", kind, number): a request that was refused for now is made again,
`retries_max` times, with waits that double.

Guaranteed, for what the broker's histories still hold: an installed subscription gets everything that is accepted
anywhere after its receipt, once, across any number of breaks; a publication that `PublishBatch` was taken for reaches a
broker, once, as long as this process lives; its receipt comes over the next link if one breaks, as long as no more than
`window_bytes` wait for theirs (otherwise the application hears `Failed`, though they are on their way). Not guaranteed:
anything for subscriptions with guarantee "none" while there is no link. What a broker could not keep is told with
`Missed`.

A message that the broker cannot read (`Unread`) is not sent again: what was asked with it counts as refused, and
publications in it as declined. Their numbers are used up with publications under no advertisement, which every broker
declines, so that nobody takes them for lost. What an application asks and hears is in `pubsub/client.py`.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from random import Random
from typing import Any

from tidings.machine.effects import Deliver, Drop, Effect, Send
from tidings.machine.inputs import Fired, Input, Received, Signal, Unread
from tidings.machine.message import Message
from tidings.machine.window import TakenBytes
from tidings.model.bounds import TEXT_CHARS_MAX
from tidings.model.identity import NodeId
from tidings.protocols.delivery.messages import (
    QUEUE_FULL,
    Advertise,
    Beginning,
    DeliveriesTaken,
    Delivery,
    PublisherLife,
    PublishMessage,
    Refusal,
    Unadvertise,
    Unsubscribe,
)
from tidings.protocols.delivery.session.departure import OURSELVES, Departure, LeftBrokers, asked_of
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.delivery.session.progress import (
    COUNTED,
    PositionsKept,
    SubscriptionReceiving,
    promises,
    shares_of,
)
from tidings.protocols.delivery.session.publications import Outbound, Receipts, accept, refuse_unread
from tidings.protocols.delivery.session.standings import (
    ASKED_WITH,
    NO_SUCH,
    SessionReadings,
    Standing,
    Standings,
)
from tidings.protocols.delivery.sizes import TAKEN_STEP_BYTES, size_of
from tidings.pubsub.client import (
    Accepted,
    Begun,
    CloseAdvertisement,
    CloseSubscription,
    Declined,
    Failed,
    Fetched,
    MarksReply,
    Missed,
    Namesake,
    OpenAdvertisement,
    OpenSubscription,
    PublishBatch,
    ReadHistory,
    ReadMarks,
    Receipt,
    Replied,
    SendReply,
    StopReading,
    Ticket,
    Took,
)
from tidings.pubsub.signals import Parted, PeerDown, PeerUp, TurnedAway

NOT_OUR_BROKER = "comes from a node that does not serve us"
UNKNOWN_SUBSCRIPTION = "for a subscription that is not there any more"
WINDOW_FULL = "as much as is allowed waits to be accepted by the broker; wait until some is"
RECEIPT_LOST = "the link broke before the receipt came; the broker has accepted the publications and passes them on"
TOO_SLOW = "too slow"
"""How the reason begins for which a subscription with the policy "disconnect" ends."""


class Session:
    """`Session(SessionParams(), rng)`. A process that comes back under the name of an earlier one has another `life`,
    or is `is_repeating`."""

    messages: tuple[type, ...] = (*COUNTED, Refusal, Accepted, Declined, Missed, Namesake)
    hears: tuple[type, ...] = (
        *(PeerUp, PeerDown, TurnedAway, Unread),
        *(OpenSubscription, CloseSubscription, OpenAdvertisement, CloseAdvertisement, PublishBatch, Took),
        *(ReadMarks, ReadHistory, StopReading, SendReply),
    )
    tells: tuple[type[Signal], ...] = (Parted,)

    def __init__(
        self,
        params: SessionParams,
        rng: Random,
        first_publication: int = 1,
        is_repeating: bool = False,
        life: str = "",
    ) -> None:
        assert not (life and is_repeating), "what is repeated is no life of its own"
        self.params, self.is_repeating, self.life = params, is_repeating, life
        self.broker: NodeId | None = None
        self.departure: Departure | None = None
        self.left = LeftBrokers()
        self.arriving = TakenBytes(TAKEN_STEP_BYTES)
        self.advertisements = Standings("advertise", "unadvertise", params.advertisements_max, params, rng, self.send)
        self.subscriptions = Standings("subscribe", "unsubscribe", params.subscriptions_max, params, rng, self.send)
        self.positions_kept = PositionsKept(params.positions_max)
        self.receiving: dict[int, SubscriptionReceiving] = {}
        """The subscriptions that are open, by number."""
        self.first_publication = first_publication
        self.publishing = Outbound(params.window_publications, params.window_bytes, first_publication)
        self.receipts = Receipts(params.window_bytes)
        self.readings = SessionReadings(params.readings_max, rng, self.send)
        self.handlers: dict[type, Callable[[float, Any], list[Effect]]] = {
            Fired: self.retry,
            PeerUp: self.served,
            PeerDown: self.left_alone,
            TurnedAway: lambda now, signal: [Deliver(signal)],
            Unread: self.unread,
            OpenSubscription: self.open_subscription,
            CloseSubscription: self.close_subscription,
            OpenAdvertisement: self.open_advertisement,
            CloseAdvertisement: lambda now, request: self.advertisements.close(request.ticket, request.number),
            PublishBatch: self.publish,
            Took: self.took,
            Receipt: self.confirmed,
            Refusal: self.refused,
            Accepted: self.accepted,
            Declined: self.declined,
            Delivery: self.delivered,
            Missed: self.missed,
            Namesake: self.found_namesake,
            Replied: lambda now, message: [Deliver(message)],
            Beginning: self.begins,
            ReadMarks: self.readings.read_marks,
            ReadHistory: self.readings.read_history,
            SendReply: self.readings.reply,
            StopReading: lambda now, request: self.readings.close(request.number),
            MarksReply: self.readings.marks,
            Fetched: self.readings.fetched,
        }

    def start(self, now: float) -> list[Effect]:
        self.broker = self.departure = None
        for receiving in self.receiving.values():
            receiving.link_lost()
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        departure = self.departure
        if departure is None:
            return self.take(now, input)
        if type(input) is Received and input.sender == departure.broker:
            effects = departure.hear(input.message, self.receiving, self.receipts)
        else:
            effects = self.take(now, input)
            if type(input) is Received and input.sender == self.broker:
                departure.answered(input.message)
        asked = asked_of(self.advertisements, self.receiving)
        is_over = self.departure is not None and departure.is_over(self.publishing, self.receipts, asked)
        return [*effects, Parted(departure.broker)] if is_over else effects

    def take(self, now: float, input: Input) -> list[Effect]:
        heard: Input | Message = input
        if type(input) is Received:
            if input.sender != self.broker:
                return [Drop(input.message, NOT_OUR_BROKER)]
            heard = input.message
            if type(heard) in COUNTED:
                total_bytes = self.arriving.take(size_of(heard))
                if total_bytes is not None:
                    return [Send(self.broker, DeliveriesTaken(total_bytes)), *self.handlers[type(heard)](now, heard)]
        handler = self.handlers.get(type(heard))
        return [] if handler is None else handler(now, heard)

    def send(self, *messages: Any) -> list[Effect]:
        """To the broker; without one, it is said when there is one."""
        return [] if self.broker is None else [Send(self.broker, message) for message in messages]

    def retry(self, now: float, fired: Fired) -> list[Effect]:
        match fired.key:
            case ("retry", "subscribe", int(number)):
                return self.subscriptions.retry(number)
            case ("retry", "advertise", int(number)):
                return self.advertisements.retry(number)
        return []

    # A broker comes and goes.

    def served(self, now: float, signal: PeerUp) -> list[Effect]:
        effects = self.depart() if signal.leaving and signal.leaving == self.broker else []
        self.broker, self.arriving = signal.broker, TakenBytes(TAKEN_STEP_BYTES)
        self.readings.link_lost()
        for receiving in self.receiving.values():
            receiving.is_asked, receiving.times_asked = receiving.may_ask, 0
        if self.departure is not None:
            self.departure.awaited.update(asked_of(self.advertisements, self.receiving))
        return [Deliver(signal), *effects, *self.send(*self.unanswered(with_receipts=self.departure is None))]

    def depart(self) -> list[Effect]:
        """The broker that serves us goes on to, beside the next one."""
        assert self.broker is not None
        effects = self.unlink()
        self.departure = Departure(self.broker, self.arriving, self.publishing, self.receipts)
        self.left.add(self.broker)
        return effects

    def parted(self) -> list[Effect]:
        """The broker that we left is gone, and what it has not said it will not say."""
        assert self.departure is not None
        accepted, again = self.departure.accepted, self.departure.unanswered(self.receipts)
        self.departure = None
        lost = self.receipts.lost(accepted, self.advertisements.all)
        return [*self.give_up_receipts(lost), *self.send(*again)]

    def unanswered(self, with_receipts: bool = True) -> list[Message]:
        """What the next broker has to be told; and of what is accepted, that its receipt is still to come."""
        accepted = self.receipts.kept.values() if with_receipts else ()
        unsettled = [sent.message for sent in (*accepted, *self.publishing.kept)]
        needed = {message.advertisement for message in unsettled}
        advertisements = list(self.advertisements.all.values())
        again: list[Message] = [PublisherLife(self.life)] if self.life else []
        opened = [it for it in advertisements if it.number in needed or not it.is_leaving]
        again += [message for it in opened for message in it.opening()]
        again += unsettled
        again += [it.closing for it in advertisements if it.is_leaving]
        again += [message for it in self.receiving.values() if it.may_ask for message in it.subscribe()]
        return [*again, *(reading.message for reading in self.readings.open.values())]

    def unread(self, now: float, input: Unread) -> list[Effect]:
        message: Any = input.message
        if type(message) is PublishMessage:
            return refuse_unread(self.publishing, self.receipts, message, input.reason[:TEXT_CHARS_MAX], self.broker)
        kind = ASKED_WITH.get(type(message))
        if kind is None:
            return []
        if kind == "advertise" and self.advertisements.is_leaving(message.number):
            return self.advertisements.finish(message.number, None)
        return self.refused(now, Refusal(kind, message.number, input.reason[:TEXT_CHARS_MAX], may_retry=False))

    def ask(self, receiving: SubscriptionReceiving) -> Sequence[Message]:
        receiving.is_asked = self.broker is not None
        return receiving.subscribe()

    def left_alone(self, now: float, signal: PeerDown) -> list[Effect]:
        if self.departure is not None and signal.broker == self.departure.broker:
            return self.parted()
        effects: list[Effect] = [Deliver(signal)]
        if self.broker is None:
            return effects
        effects += self.unlink()
        self.broker = None
        lost = self.receipts.lost(self.publishing.through, self.advertisements.all)
        return effects + self.give_up_receipts(lost)

    def unlink(self) -> list[Effect]:
        for receiving in self.receiving.values():
            receiving.link_lost()
        effects = self.advertisements.link_lost() + self.subscriptions.link_lost()
        # A broker forgets the subscriptions of a client whose link is gone; its advertisements it keeps for a while.
        return effects + self.subscriptions.forget_leaving()

    def give_up_receipts(self, lost: Collection[Ticket]) -> list[Effect]:
        return [*self.receipts.give_up(lost), *(Deliver(Failed(ticket, RECEIPT_LOST)) for ticket in lost)]

    # What the application asks for.

    def open_subscription(self, now: float, request: OpenSubscription) -> list[Effect]:
        number = self.subscriptions.next
        receiving = SubscriptionReceiving(number, request, self.positions_kept)
        effects = self.subscriptions.open(
            Standing(number, request.ticket, lambda: self.ask(receiving), Unsubscribe(number))
        )
        if self.subscriptions.is_open(number):
            self.receiving[number] = receiving
        return effects

    def close_subscription(self, now: float, request: CloseSubscription) -> list[Effect]:
        self.stop_receiving(request.number)
        effects = self.subscriptions.close(request.ticket, request.number)
        return effects if self.broker is not None else effects + self.subscriptions.forget_leaving()

    def stop_receiving(self, number: int) -> None:
        if number in self.receiving:
            self.receiving.pop(number).close()

    def open_advertisement(self, now: float, request: OpenAdvertisement) -> list[Effect]:
        number = self.advertisements.next
        told, closing = partial(Advertise, number, request.filter, self.first_publication), Unadvertise(number)

        def opening() -> list[Message]:
            return [told(self.publishing.elsewhere(self.broker), request.latency)]

        return self.advertisements.open(Standing(number, request.ticket, opening, closing))

    def publish(self, now: float, request: PublishBatch) -> list[Effect]:
        if not self.takes(request):
            reason = WINDOW_FULL if self.advertisements.is_open(request.advertisement) else NO_SUCH
            told = [] if request.ticket is None else [Deliver(Failed(request.ticket, reason))]
            return [Drop(request, reason), *told]
        first = self.publishing.next
        made = self.publishing.add(request.advertisement, request.heads, request.payloads, request.ticket)
        effects: list[Effect] = []
        if request.ticket is not None and made:
            effects += [Deliver(Begun(request.ticket, first)), self.receipts.wait_for(request.ticket, made)]
        if self.broker is not None:
            for sent in made:
                effects.append(Send(self.broker, sent.message))
        return effects

    def takes(self, request: PublishBatch) -> bool:
        """Whether it would be sent, or kept until there is a broker."""
        standing = self.advertisements.all.get(request.advertisement)
        if standing is None or standing.is_leaving:
            return False
        size_bytes = sum(map(len, request.heads)) + sum(map(len, request.payloads))
        return self.publishing.has_room(len(request.heads), size_bytes)

    def position(self, subscription: int, publisher: str) -> int | None:
        """The number up to which the subscription has what it gets of this publisher; None if it is not open."""
        receiving = self.receiving.get(subscription)
        return None if receiving is None else receiving.positions.get(publisher, 0)

    def took(self, now: float, request: Took) -> list[Effect]:
        receiving = self.receiving.get(request.subscription)
        if receiving is None:
            return []
        receiving.take(request.count)
        if not receiving.is_asked and receiving.may_ask and self.broker is not None:
            return self.send(*self.ask(receiving))
        return self.send(receiving.tell_taken()) if receiving.is_due else []

    # What the broker answers.

    def accepted(self, now: float, message: Accepted) -> list[Effect]:
        told = accept(self.publishing, self.receipts, message, self.broker, self.is_repeating)
        return told + self.advertisements.settle(self.publishing.has_under) if self.advertisements.withdrawn else told

    def declined(self, now: float, message: Declined) -> list[Effect]:
        numbers = tuple([number for number in message.numbers if number not in self.publishing.voided])
        return [Deliver(Declined(numbers, message.reason))] if numbers else []

    def confirmed(self, now: float, receipt: Receipt) -> list[Effect]:
        if receipt.kind == "publish":
            return self.receipts.came(receipt)
        if receipt.kind in ("advertise", "unadvertise"):
            return self.advertisements.confirmed(receipt, self.publishing.has_under(receipt.number))
        if receipt.kind in ("read", "reply"):
            return self.readings.confirmed(receipt)
        receiving = self.receiving.get(receipt.number)
        if receiving is None or receipt.kind != "subscribe" or not receiving.confirm(receipt):
            return self.subscriptions.confirmed(receipt)
        return [*promises(receiving.number, receiving.request), *self.subscriptions.confirmed(receipt)]

    def found_namesake(self, now: float, message: Namesake) -> list[Effect]:
        return [Drop(message, OURSELVES) if self.left.is_ourselves(message, self.life) else Deliver(message)]

    def begins(self, now: float, message: Beginning) -> list[Effect]:
        receiving = self.receiving.get(message.subscription)
        if receiving is None or receiving.receipt is not None:
            return [Drop(message, UNKNOWN_SUBSCRIPTION)]
        receiving.begin(message.positions)
        return receiving.tell_short()

    def refused(self, now: float, refusal: Refusal) -> list[Effect]:
        if refusal.kind == "publish":
            return self.receipts.refused(refusal)
        if refusal.kind in ("read", "reply"):
            return self.readings.refused(refusal)
        if refusal.kind in ("advertise", "unadvertise"):
            return self.advertisements.refused(now, refusal)
        effects = self.subscriptions.refused(now, refusal)
        if not self.subscriptions.is_open(refusal.number):
            self.stop_receiving(refusal.number)
        return effects

    # Events.

    def delivered(self, now: float, message: Delivery) -> list[Effect]:
        assert self.broker is not None
        effects: list[Effect] = []
        for number, chosen in shares_of(message.matched).items() if message.numbers else ():
            receiving = self.receiving.get(number)
            if receiving is None or not receiving.is_asked:
                effects.append(Drop(message, UNKNOWN_SUBSCRIPTION))
            else:
                effects += receiving.arrived(message, chosen, self.broker)
        return effects

    def missed(self, now: float, message: Missed) -> list[Effect]:
        receiving = self.receiving.get(message.subscription)
        if receiving is None:
            return [Drop(message, UNKNOWN_SUBSCRIPTION)]
        message = receiving.tell_missed(message)
        if receiving.request.policy != "disconnect" or not message.reason.startswith(QUEUE_FULL):
            return [Deliver(message)]
        # The broker is about to turn us out; what else we asked for goes on with the next link, this does not.
        self.stop_receiving(message.subscription)
        return [Deliver(message), *self.subscriptions.end(message.subscription, f"{TOO_SLOW}: {message.reason}")]

    def check(self) -> None:
        self.advertisements.check()
        self.subscriptions.check()
        self.publishing.check()
        open_ones = [number for number in self.subscriptions.all if self.subscriptions.is_open(number)]
        assert open_ones == list(self.receiving), "the open subscriptions are not those that receive"
        self.receipts.check(self.publishing.next)
        self.readings.check()
        for receiving in self.receiving.values():
            receiving.check()
            assert self.broker is not None or not receiving.is_asked, "asked nobody"
        assert self.departure is None or self.departure.broker != self.broker, "leaves its own broker"
