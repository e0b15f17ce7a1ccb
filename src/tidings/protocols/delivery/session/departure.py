"""How a session leaves a broker that is drained: the next one serves it before this one is let go of.

The problem. When a link breaks, what was on its way is asked for again over the next one, and meanwhile nothing comes.
A broker that is drained still works: nobody has to wait, and nothing that only it can say need be lost.

The idea. Everything is said to the next broker, as after a break: it alone decides from now on what is accepted, and
answers what is asked. Of the broker that we leave four things still count: events, receipts of publications, replies,
and that something was missed. Both deliver, each without holes behind the positions that we had, so whatever comes
first is taken and the other is a repetition. We have left (`Parted`) when the next broker has confirmed what stands,
which means that the network knows it, when it has accepted what was not accepted, and when the receipts are there of
what the old one has accepted: it knows how far that has come. Where it goes without giving them, the next one is asked.

What the guarantee "none" may lose. Nothing is asked for again there; what comes from the old broker until the next one
has the subscription in place is taken, so only what overtakes both is lost.

State. `awaited`: what the next broker has to confirm. `tickets`: requests of which the old broker is to send the
receipt. `deaf`: subscriptions for which it has given something up; it does so because nobody tells it any more what was
taken. The next broker delivers that, and so what comes behind it must wait.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from tidings.machine.effects import Deliver, Drop, Effect, Send
from tidings.machine.message import Message
from tidings.machine.window import TakenBytes
from tidings.model.identity import LIFE_MARK, NodeId
from tidings.protocols.delivery.messages import DeliveriesTaken, Delivery, Refusal
from tidings.protocols.delivery.session.progress import COUNTED, SubscriptionReceiving, shares_of
from tidings.protocols.delivery.session.publications import Outbound, Receipts
from tidings.protocols.delivery.session.standings import Standings
from tidings.protocols.delivery.sizes import size_of
from tidings.pubsub.client import Kind, Missed, Namesake, Receipt, Replied

LEFT = "from a broker that we are leaving; the next one answers"
OURSELVES = "the namesake is this process, at the broker that it left"

LEFT_MAX = 8
"""Brokers that are remembered as left."""

Awaited = tuple[Kind, int]


class Departure:
    """`broker` is left; `through` is the last number that is not accepted yet."""

    def __init__(self, broker: NodeId, arriving: TakenBytes, publishing: Outbound, receipts: Receipts) -> None:
        self.broker, self.arriving, self.through = broker, arriving, publishing.next - 1
        self.accepted = publishing.through
        """The last number that it has accepted, as far as we were told."""
        self.tickets = receipts.behind(self.accepted)
        self.awaited: set[Awaited] = set()
        self.deaf: set[int] = set()

    # What the broker that we leave still says.

    def hear(self, message: Any, receiving: dict[int, SubscriptionReceiving], receipts: Receipts) -> list[Effect]:
        effects: list[Effect] = []
        if type(message) in COUNTED and (total := self.arriving.take(size_of(message))) is not None:
            effects.append(Send(self.broker, DeliveriesTaken(total)))
        return effects + self.take(message, receiving, receipts)

    def take(self, message: Any, receiving: dict[int, SubscriptionReceiving], receipts: Receipts) -> list[Effect]:
        match message:
            case Delivery():
                return self.delivered(message, receiving) if message.numbers else []
            case Receipt("publish"):
                return receipts.came(message)
            case Refusal("publish", number, _, may_retry) if receipts.awaited.get(number) in self.tickets:
                if not may_retry or number not in receipts.kept:
                    return receipts.refused(message)
                # The next broker is asked, when this one is gone.
                self.tickets.pop(receipts.awaited[number], None)
            case Replied():
                return [Deliver(message)]
            case Missed() if (missing := receiving.get(message.subscription)) is not None:
                self.deaf.add(message.subscription)
                if missing.seen is not None:
                    return [Deliver(missing.tell_missed(message))]
        return [Drop(message, LEFT)]

    def delivered(self, message: Delivery, receiving: dict[int, SubscriptionReceiving]) -> list[Effect]:
        effects: list[Effect] = []
        for number, chosen in shares_of(message.matched).items():
            wanting = receiving.get(number)
            if wanting is None or number in self.deaf:
                effects.append(Drop(message, LEFT))
            else:
                effects += wanting.arrived_late(message, chosen, self.broker)
        return effects

    def unanswered(self, receipts: Receipts) -> list[Message]:
        """What it accepted, and went without a receipt: to be said to the next one."""
        return [sent.message for last, sent in receipts.kept.items() if last <= self.accepted]

    # What the next one says.

    def answered(self, message: Any) -> None:
        match message:
            case Receipt(kind, number):
                self.awaited.discard((kind, number))
            case Refusal(kind, number, _, may_retry) if not may_retry:
                self.awaited.discard((kind, number))

    def is_over(self, publishing: Outbound, receipts: Receipts, asked: Iterable[Awaited]) -> bool:
        """`asked` is what the next broker carries out for us, or is to."""
        if publishing.through < self.through or any(ticket in receipts.parts for ticket in self.tickets):
            return False
        return not self.awaited or self.awaited.isdisjoint(asked)


def asked_of(advertisements: Standings, receiving: dict[int, SubscriptionReceiving]) -> Iterator[Awaited]:
    """What a broker has to confirm."""
    for each in advertisements.all.values():
        yield ("unadvertise" if each.is_leaving else "advertise"), each.number
    for subscription in receiving.values():
        if subscription.is_asked:
            yield "subscribe", subscription.number


class LeftBrokers:
    """Brokers that were left, and are no namesakes' for that."""

    def __init__(self) -> None:
        self.brokers: list[NodeId] = []

    def add(self, broker: NodeId) -> None:
        self.brokers = [*(it for it in self.brokers if it != broker), broker][-LEFT_MAX:]

    def is_ourselves(self, message: Namesake, life: str) -> bool:
        """Whoever has no life is known by the name alone, and is still advertised where it was."""
        return not life and LIFE_MARK not in message.publisher and message.broker in self.brokers
