"""Transport: order, recovery and congestion control in the clients, over any network that publishes and subscribes.

The parts, and what each is for:

    shim          headers, marks, numbers; each event once
    round_trips   how far away each publisher is
    ordering      events of each publisher in its order; what is missing
    recovery      lost events, from whoever has them
    receiver      what this node can take, told to publishers
    sender        what this node may send, as its receivers say
    tally         what was lost and what became of it, for whoever looks

They meet through signals only (`signals.py`), and each runs whether or not the others do anything: what a subscription
wants is said by `Listen`, what this node does as a publisher by `TransportParams`, and both can change at any time. A
node without any of it has no transport, and its bytes are those of the plain network.

What comes from above are the inputs `PublishEvent`, `Listen`, `StopListening`, `Configure`; from below `Caught` and
`Recalled`. What goes up is in `Deliver` effects: `Handed`, `Quality`; what goes down are the effects `Emit`, `Watch`,
`Unwatch`, `Recall`, which whoever embeds the transport carries out. Timers are those of any machine.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from tidings.machine.effects import Deliver, Effect
from tidings.machine.inputs import Input
from tidings.machine.node import Node
from tidings.protocols.transport.congestion.receiver import Receiver
from tidings.protocols.transport.congestion.sender import Sender
from tidings.protocols.transport.ordering.ordering import Ordering
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.recovery.recovery import Recovery
from tidings.protocols.transport.round_trips import RoundTrips
from tidings.protocols.transport.shim import Shim
from tidings.protocols.transport.signals import (
    Admitted,
    Caught,
    Departed,
    Emit,
    Heard,
    Leaving,
    PublishEvent,
    Recall,
    TransportPart,
    Unwatch,
    Watch,
)
from tidings.protocols.transport.views import LossTally


class TransportNode(Node):
    """`TransportNode(node_id, TransportParams(), rng)`; `node_id` is a number of 32 bits that nobody else has, drawn
    anew for each life of a process, since sequence numbers begin at 0."""

    def __init__(self, node_id: int, params: TransportParams, rng: Random) -> None:
        self.node_id, self.params = node_id, params
        self.shim = Shim(node_id, params, rng)
        self.round_trips = RoundTrips(node_id, params, rng)
        self.ordering = Ordering(node_id, params, rng)
        self.recovery = Recovery(node_id, params, rng)
        self.receiver = Receiver(node_id, params, rng)
        self.sender = Sender(node_id, params, rng)
        self.tally = LossTally(node_id, params, rng)
        parts: dict[str, TransportPart] = {
            "shim": self.shim,
            "round_trips": self.round_trips,
            "ordering": self.ordering,
            "recovery": self.recovery,
            "receiver": self.receiver,
            "sender": self.sender,
            "tally": self.tally,
        }
        super().__init__(parts, tells=(Emit, Watch, Unwatch, Recall))
        self.direct: dict[type, tuple[tuple[str, Callable[[float, Any], list[Effect]]], ...]] = {
            kind: tuple((name, parts[name].handlers[kind]) for name, _ in self.hearers[kind])
            for kind in (Heard, Leaving, Admitted, Departed)
        }
        """Who hears of each event, and how."""

    def handle(self, now: float, input: Input) -> list[Effect]:
        # These come for each event, and are the shim's alone.
        if type(input) is Caught:
            return self.settle(now, "shim", self.shim.caught(now, input))
        if type(input) is PublishEvent:
            return self.settle(now, "shim", self.shim.publish(now, input))
        return super().handle(now, input)

    def settle(self, now: float, name: str, effects: list[Effect]) -> list[Effect]:
        """As any node does it: all who hear a signal first, what they answer then. What comes with every event goes the
        short way, for nearly always nearly all parts have nothing to say to it."""
        out: list[Effect] = []
        for place, effect in enumerate(effects):
            kind = type(effect)
            if kind is Deliver or kind is Emit:
                out.append(effect)
                continue
            hearers = self.direct.get(kind)
            if hearers is None:
                return out + super().settle(now, name, effects[place:])
            answered = []
            for other, hear in hearers:
                if other != name:
                    answers = hear(now, effect)
                    if answers:
                        answered.append((other, answers))
            for other, answers in answered:
                if len(answers) == 1 and type(answers[0]) is Deliver:
                    out += answers
                else:
                    out += self.settle(now, other, answers)
        return out

    # What whoever embeds it may ask.

    @property
    def is_limiting(self) -> bool:
        """Whether receivers limit any of our flows."""
        return self.sender.is_limiting

    def has_room(self, head: bytes, payload: bytes) -> bool:
        """Whether an event of these bytes would leave, or have a place in the queue of each of its flows."""
        if not self.sender.is_limiting or not self.shim.params.is_ordered:
            return True
        leaving = self.shim.outgoing(PublishEvent(head, payload))
        return leaving is None or self.sender.has_room(leaving)
