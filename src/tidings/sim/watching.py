"""Processes under the eyes of checkers, and frames that are damaged on the way.

A run of a scenario makes its processes of the class that `watched` builds: before a machine takes an input and after it
answered, the checkers of the run are told. In checking mode messages travel as bytes, and a node whose frames are
corrupted by a fault has bits of them flipped as they leave. The receiver decodes what arrived. Either `decode` refuses
it, or the damage made another well-formed message, which the checksum of a real transport would have stopped; in both
cases the message is lost, with its reason, and a stream it came on is broken. `decode` may refuse in its own way only:
any other exception is a mistake of ours, and ends the run.
"""

from typing import Any

from tidings.machine.effects import Deliver, Effect, Send, Transport
from tidings.machine.inputs import Fired, Input, Received
from tidings.machine.streams import Stream, random_stream
from tidings.model.identity import NodeId
from tidings.sim.checkers import Checker
from tidings.sim.faults import Corrupt, FaultPlan
from tidings.sim.observing import ObservedProcess, Sealed
from tidings.sim.process import Process
from tidings.wire.errors import BadMessage
from tidings.wire.registry import decode

REFUSED = "corrupt frame, refused by decode"
STOPPED = "corrupt frame, stopped by a checksum"

BITS_FLIPPED_MAX = 3
"""Bits of a frame that one fault flips: one to this many."""


class Damaged(Sealed):
    """A message whose bytes are not what was sent."""

    __slots__ = ()


class DamagedInStream(Damaged):
    __slots__ = ()


class Corruption:
    """Which frames are damaged, and how."""

    def __init__(self, plan: FaultPlan, seed: int) -> None:
        self.faults = [fault for fault in plan.faults if isinstance(fault, Corrupt)]
        self.draws: dict[NodeId, Stream] = {
            fault.node: random_stream(seed, "faults", "corrupted frames", fault.node) for fault in self.faults
        }

    def strikes(self, now: float, sender: NodeId) -> bool:
        return any(
            fault.node == sender and fault.at <= now < fault.until and self.draws[sender].random() < fault.probability
            for fault in self.faults
        )

    def damage(self, sender: NodeId, data: bytes) -> bytes:
        """The same bytes with some bits flipped; never the same."""
        rng, damaged = self.draws[sender], bytearray(data)
        for bit in rng.sample(range(8 * len(data)), rng.randint(1, BITS_FLIPPED_MAX)):
            damaged[bit // 8] ^= 1 << bit % 8
        return bytes(damaged)


def watched(checkers: list[Checker], corruption: Corruption) -> type[Process]:
    """The class of the processes of one run."""
    step_checkers = [checker for checker in checkers if checker.watches_steps]

    class WatchedProcess(ObservedProcess):
        __slots__ = ()

        def step(self, now: float, input: Input) -> None:
            if type(input) is not Received and type(input) is not Fired:
                for checker in checkers:
                    checker.requested(now, self.node, input)
            super().step(now, input)
            for checker in step_checkers:
                checker.stepped(now, self.node)

        def carry_out(self, now: float, effects: list[Effect]) -> None:
            for effect in effects:
                if type(effect) is Deliver:
                    for checker in checkers:
                        checker.delivered(now, self.node, effect.item)
            super().carry_out(now, effects)

        def send(self, now: float, effect: Send) -> None:
            if corruption.faults and self.checking and corruption.strikes(now, self.id):
                damaged = Damaged if effect.transport is Transport.DATAGRAM else DamagedInStream
                message, data = effect.message
                effect = Send(effect.to, damaged(message, corruption.damage(self.id, data)), effect.transport)
            super().send(now, effect)

        def receive(self, now: float, received: Received) -> None:
            if self.is_running and isinstance(received.message, Damaged):
                self.refuse(now, received.sender, received.message)
            else:
                super().receive(now, received)

        def refuse(self, now: float, sender: NodeId, damaged: Damaged) -> None:
            reason = why_lost(damaged.data)
            self.lose(now, sender, self.id, damaged, reason)
            if isinstance(damaged, DamagedInStream):
                self.break_off(sender, reason)

        def break_off(self, sender: NodeId, reason: str) -> None:
            """A stream that carried nonsense is closed."""
            if self.world.break_link(sender, self.id, reason):
                return
            process = self.world.nodes[sender].process
            stream = None if process is None else process.streams.get(self.id)
            if stream is not None:
                stream.reset()

    return WatchedProcess


def why_lost(data: Any) -> str:
    try:
        decode(data)
    except BadMessage:
        return REFUSED
    return STOPPED
