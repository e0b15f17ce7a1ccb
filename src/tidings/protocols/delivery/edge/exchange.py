"""What brokers say to each other about history, and for clients of each other: each message to its part.

A question is answered or goes further; an answer that has still a way to go is passed back, one for us is heard.
Whatever comes is released to its sender (`flows.py`) when it is out of the way here, also if it makes no sense:
otherwise the window of that link would stay shorter for ever.
"""

from typing import Any

from tidings.machine.effects import Drop, Effect
from tidings.model.identity import NodeId
from tidings.protocols.delivery.edge.beginnings import Beginnings
from tidings.protocols.delivery.edge.inquiries import Inquiries
from tidings.protocols.delivery.edge.namesakes import Namesakes
from tidings.protocols.delivery.edge.readings import ServedReadings
from tidings.protocols.delivery.edge.references import NOT_A_NEIGHBOUR, References
from tidings.protocols.delivery.edge.replies import Replies
from tidings.protocols.delivery.edge.subscriptions import ServedSubscriptions
from tidings.protocols.delivery.messages import (
    FetchedFar,
    FetchFar,
    History,
    HistoryBegun,
    HistoryTaken,
    LookFar,
    MarksFar,
    NamesakeFar,
    PackedReferences,
    Reference,
    ReplyFar,
    ReplySettledFar,
)


class HistoryExchange:
    messages: tuple[type, ...] = (
        *(Reference, PackedReferences, History, HistoryBegun, HistoryTaken),
        *(LookFar, MarksFar, FetchFar, FetchedFar),
        *(NamesakeFar, ReplyFar, ReplySettledFar),
    )

    def __init__(
        self,
        references: References,
        inquiries: Inquiries,
        subscriptions: ServedSubscriptions,
        readings: ServedReadings,
        beginnings: Beginnings,
        namesakes: Namesakes,
        replies: Replies,
    ) -> None:
        self.references, self.flows, self.inquiries = references, references.flows, inquiries
        self.subscriptions, self.readings, self.beginnings = subscriptions, readings, beginnings
        self.namesakes, self.replies = namesakes, replies

    def receive(self, now: float, sender: NodeId, message: Any) -> list[Effect]:
        match message:
            case Reference():
                return self.references.pass_on(now, sender, message)
            case PackedReferences():
                return self.references.pass_on_all(now, sender, message)
            case LookFar():
                return self.inquiries.look(sender, message)
            case FetchFar():
                return self.inquiries.fetch(sender, message)
            case NamesakeFar():
                return self.namesakes.hear(sender, message)
            case ReplyFar():
                return self.replies.pass_on(sender, message)
            case HistoryBegun():
                self.flows.begin(sender, message)
            case HistoryTaken():
                self.flows.hear(now, sender, message)
            case History() | MarksFar() | FetchedFar() | ReplySettledFar() if message.path:
                return self.references.come_back(sender, message)
            case History() | MarksFar() | FetchedFar() | ReplySettledFar():
                taken = self.flows.release(self.flows.origin_of(sender, message))
                if sender not in self.references.neighbours:
                    return [Drop(message, NOT_A_NEIGHBOUR), *taken]
                return [*taken, *self.hear(now, message)]
        return []

    def hear(self, now: float, answer: History | MarksFar | FetchedFar | ReplySettledFar) -> list[Effect]:
        """An answer for us."""
        match answer:
            case History():
                return self.subscriptions.hear(now, answer)
            case MarksFar():
                return [] if self.beginnings.hear(answer) else self.readings.hear_marks(now, answer)
            case FetchedFar():
                return self.readings.hear_page(answer)
            case ReplySettledFar():
                return self.replies.hear(now, answer)
