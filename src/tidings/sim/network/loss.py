"""What goes wrong with packets: they get lost, come twice, or overtake each other.

A stream hides these troubles and pays with time. A lost packet is sent again after `RETRANSMIT_AFTER` seconds, then
after twice that, and so on; a duplicate is thrown away, and a packet that overtook another waits for it. So a rule here
that meets a packet of a stream adds delay, and breaks the stream only when all retransmissions were lost too.
"""

from tidings.machine.effects import Transport
from tidings.model.identity import NodeId
from tidings.sim.network.latency import Distribution
from tidings.sim.network.rule import (
    RETRANSMISSIONS_MAX,
    RETRANSMIT_AFTER,
    STREAM_GIVEN_UP,
    Fates,
    LostPacket,
    Rule,
    Wrapper,
    check_probability,
    later,
)

NOISE = LostPacket("lost by noise")


class Losing(Wrapper):
    """Base of rules that lose packets; a subclass says which."""

    lost = NOISE

    def is_lost(self, now: float, wait: float, sender: NodeId, to: NodeId) -> bool:
        """Whether what is sent `wait` seconds from now is lost."""
        raise NotImplementedError

    def fate(self, now: float, sender: NodeId, to: NodeId, size_bytes: int, transport: Transport) -> Fates:
        if not self.is_lost(now, 0.0, sender, to):
            return self.inner.fate(now, sender, to, size_bytes, transport)
        if transport is Transport.DATAGRAM:
            return self.lost
        waited = 0.0
        for retransmission in range(RETRANSMISSIONS_MAX):
            waited += RETRANSMIT_AFTER * 2**retransmission
            if not self.is_lost(now, waited, sender, to):
                return later(self.inner.fate(now + waited, sender, to, size_bytes, transport), waited)
        return STREAM_GIVEN_UP

    def reach(self, now: float, sender: NodeId, to: NodeId, size_bytes: int) -> list[tuple[NodeId, Fates]] | None:
        heard = self.inner.reach(now, sender, to, size_bytes)
        if heard is None:
            return None
        return [(node, self.lost if fates and self.is_lost(now, 0.0, sender, node) else fates) for node, fates in heard]


class Loss(Losing):
    """Each packet is lost with the same probability, whatever happened to the others."""

    def __init__(self, inner: Rule, probability: float) -> None:
        super().__init__(inner)
        check_probability("probability", probability)
        self.probability = probability

    def is_lost(self, now: float, wait: float, sender: NodeId, to: NodeId) -> bool:
        return self.draws(sender).random() < self.probability


class Duplication(Wrapper):
    """A datagram arrives twice with this probability, each copy after a delay of its own."""

    def __init__(self, inner: Rule, probability: float) -> None:
        super().__init__(inner)
        check_probability("probability", probability)
        self.probability = probability

    def fate(self, now: float, sender: NodeId, to: NodeId, size_bytes: int, transport: Transport) -> Fates:
        fates = self.inner.fate(now, sender, to, size_bytes, transport)
        if transport is Transport.STREAM or self.draws(sender).random() >= self.probability:
            return fates
        return (*fates, *self.inner.fate(now, sender, to, size_bytes, transport)) or fates


class Reordering(Wrapper):
    """A datagram takes a detour with this probability, `detour` longer, so that later ones overtake it."""

    def __init__(self, inner: Rule, probability: float, detour: Distribution) -> None:
        super().__init__(inner)
        check_probability("probability", probability)
        self.probability, self.detour = probability, detour

    def fate(self, now: float, sender: NodeId, to: NodeId, size_bytes: int, transport: Transport) -> Fates:
        fates = self.inner.fate(now, sender, to, size_bytes, transport)
        rng = self.draws(sender)
        if rng.random() >= self.probability:
            return fates
        return later(fates, self.detour.draw(rng))
