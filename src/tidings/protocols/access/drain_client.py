"""Who asks a broker to be drained: the other side of `drain.py`, in a client of an admin."""

import msgspec

from tidings.machine.effects import Deliver, Drop, Effect, Send
from tidings.machine.inputs import Input, Received, Request, Signal
from tidings.model.identity import NodeId
from tidings.protocols.access.messages import DrainAnswered, DrainAsked
from tidings.pubsub.signals import PeerDown

NOT_ASKED = "answers what was not asked"


class AskDrain(Request, frozen=True):
    """Have this broker drained, or with `is_on` false no more."""

    broker: NodeId
    is_on: bool


class DrainReply(msgspec.Struct, frozen=True):
    """Delivered when the broker has answered, or was lost before."""

    problem: str
    """Empty where it does what it was asked."""


class DrainAsker:
    """`inject(AskDrain("b1", True))`; the `DrainReply` is delivered. One question at a time: a new one takes the place
    of the last."""

    messages: tuple[type, ...] = (DrainAnswered,)
    hears: tuple[type, ...] = (AskDrain, PeerDown)
    tells: tuple[type[Signal], ...] = ()

    def __init__(self) -> None:
        self.broker: NodeId | None = None
        self.number = 0

    def start(self, now: float) -> list[Effect]:
        self.broker = None
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case AskDrain(broker, is_on):
                self.number += 1
                self.broker = broker
                return [Send(broker, DrainAsked(self.number, is_on))]
            case Received(sender, DrainAnswered(number, problem)) if (sender, number) == (self.broker, self.number):
                self.broker = None
                return [Deliver(DrainReply(problem))]
            case PeerDown(broker, _, reason) if broker == self.broker:
                self.broker = None
                return [Deliver(DrainReply(f"the link broke before it answered: {reason}"))]
            case Received(_, message):
                return [Drop(message, NOT_ASKED)]
        return []

    def check(self) -> None:
        pass
