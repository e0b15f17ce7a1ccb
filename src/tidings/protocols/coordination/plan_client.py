"""Who asks a broker to carry a plan out: the other side of `coordination.py`, in a client of an admin."""

import msgspec

from tidings.machine.effects import Deliver, Drop, Effect, Send
from tidings.machine.inputs import Input, Received, Request, Signal
from tidings.model.identity import NodeId
from tidings.protocols.coordination.messages import PlanAnswered, PlanAsked, Verb
from tidings.pubsub.signals import PeerDown

NOT_ASKED = "answers what was not asked"


class AskPlan(Request, frozen=True):
    """Have this broker carry a plan out (`AskedPlan` as JSON), abort it, or go on with it."""

    broker: NodeId
    verb: Verb
    plan: bytes = b""


class PlanReply(msgspec.Struct, frozen=True):
    """Delivered when the broker has answered, or was lost before."""

    plan: str
    problem: str
    """Empty where it does what it was asked."""


class PlanAsker:
    """`inject(AskPlan("b1", "abort"))`; the `PlanReply` is delivered. One question at a time."""

    messages: tuple[type, ...] = (PlanAnswered,)
    hears: tuple[type, ...] = (AskPlan, PeerDown)
    tells: tuple[type[Signal], ...] = ()

    def __init__(self) -> None:
        self.broker: NodeId | None = None
        self.number = 0

    def start(self, now: float) -> list[Effect]:
        self.broker = None
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case AskPlan(broker, verb, plan):
                self.number += 1
                self.broker = broker
                return [Send(broker, PlanAsked(self.number, verb, plan))]
            case Received(sender, PlanAnswered(number, plan, problem)) if (sender, number) == (
                self.broker,
                self.number,
            ):
                self.broker = None
                return [Deliver(PlanReply(plan, problem))]
            case PeerDown(broker, _, reason) if broker == self.broker:
                self.broker = None
                return [Deliver(PlanReply("", f"the link broke before it answered: {reason}"))]
            case Received(_, message):
                return [Drop(message, NOT_ASKED)]
        return []

    def check(self) -> None:
        pass
