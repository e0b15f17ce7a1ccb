"""Frames: messages that travel as their bytes, and frames that are damaged on the way.

In checking mode a message is encoded when it is sent and decoded when it arrives. So the receiver gets a copy that
nobody else has, its size is the true one, and these mistakes of a machine do not stay hidden until it meets a socket:

- a message that has no bytes, or does not come back from them as it was;
- a message that was changed after it was sent: its bytes are compared once more when it arrives.

Each is an assertion, since a machine that does such a thing is wrong, whatever its peers do.

A node whose frames are corrupted by a fault has bits of them flipped as they leave. The receiver decodes what arrived.
Either `decode` refuses it, or the damage made another well-formed message, which the checksum of a real transport would
have stopped; in both cases the message is lost, with its reason, and a stream it came on is broken. `decode` may refuse
in its own way only: any other exception is a mistake of ours, and ends the run.
"""

from typing import Any

from tidings.machine.effects import Effect, Send, Transport
from tidings.machine.inputs import Received
from tidings.machine.message import Message
from tidings.machine.streams import RandomStream, random_stream
from tidings.model.identity import NodeId
from tidings.sim.faults import Corrupt, FaultPlan
from tidings.wire.codec import BadMessage
from tidings.wire.registry import decode, encode

REFUSED = "corrupt frame, refused by decode"
STOPPED = "corrupt frame, stopped by a checksum"

BITS_FLIPPED_MAX = 3
"""Bits of a frame that one fault flips: one to this many."""


class Sealed(Message, frozen=True):
    """A message on its way: the object that was sent, and its bytes when it was."""

    message: Message
    data: bytes


class Damaged(Sealed, frozen=True):
    """A message whose bytes are not what was sent."""


class DamagedInStream(Damaged, frozen=True):
    """The stream that brought it is closed for it."""


class Frames:
    """Every message through its bytes."""

    def seal_all(self, now: float, sender: NodeId, effects: list[Effect]) -> list[Effect]:
        seal = self.seal
        return [seal(now, sender, effect) if type(effect) is Send else effect for effect in effects]

    def seal(self, now: float, sender: NodeId, send: Send) -> Send:
        data = encode(send.message)
        try:
            copy = decode(data)
        except BadMessage as problem:
            copy = problem
        assert copy == send.message, f"{send.message!r:.200} does not come back from its bytes as it was: {copy!r:.200}"
        return Send(send.to, Sealed(send.message, data), send.transport)

    def open(self, received: Received) -> Received:
        assert isinstance(received.message, Sealed)
        message, data = received.message.message, received.message.data
        assert encode(message) == data, f"{message!r:.200} was changed after it was sent"
        return Received(received.sender, decode(data), received.size_bytes)


class CorruptibleFrames(Frames):
    """Some of them damaged, as a plan of faults wants it."""

    def __init__(self, plan: FaultPlan, seed: int) -> None:
        self.faults = [fault for fault in plan.faults if isinstance(fault, Corrupt)]
        self.draws: dict[NodeId, RandomStream] = {
            fault.node: random_stream(seed, "faults", "corrupted frames", fault.node) for fault in self.faults
        }

    def seal(self, now: float, sender: NodeId, send: Send) -> Send:
        send = super().seal(now, sender, send)
        if not self.faults or not self.strikes(now, sender):
            return send
        damaged = Damaged if send.transport is Transport.DATAGRAM else DamagedInStream
        assert isinstance(send.message, Sealed)
        data = self.damage(sender, send.message.data)
        return Send(send.to, damaged(send.message.message, data), send.transport)

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


def measure(message: Any) -> int:
    return len(encode(message))


def measure_sealed(sealed: Sealed) -> int:
    return len(sealed.data)


def why_lost(damaged: Damaged) -> str:
    try:
        decode(damaged.data)
    except BadMessage:
        return REFUSED
    return STOPPED
