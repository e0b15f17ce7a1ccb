"""What goes wrong with packets: they get lost one by one or in bursts, come twice, or overtake each other.

A stream hides these troubles and pays with time. A lost packet is sent again after `RETRANSMIT_AFTER` seconds, then
after twice that, and so on; a duplicate is thrown away, and a packet that overtook another waits for it. So a rule here
that meets a packet of a stream adds delay, and breaks the stream only when all retransmissions were lost too.
"""

from collections import deque

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
    check_positive,
    check_probability,
    later,
)

NOISE = LostPacket("lost by noise")
BURST = LostPacket("lost in a burst")


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


class BurstyLoss(Losing):
    """Losses in bursts (Gilbert and Elliott): each ordered pair is in a good or in a bad state, each with its loss.

    The state is one of time, not of packets: it stays good for `good_for` seconds on average and bad for `bad_for`,
    both exponentially distributed, so that a pair that says little meets the same weather as one that says much. In the
    long run `bad_for / (good_for + bad_for)` of the time is bad.
    """

    lost = BURST

    def __init__(
        self, inner: Rule, good_for: float, bad_for: float, loss_when_bad: float = 1.0, loss_when_good: float = 0.0
    ) -> None:
        super().__init__(inner)
        check_positive("good_for", good_for)
        check_positive("bad_for", bad_for)
        check_probability("loss_when_bad", loss_when_bad)
        check_probability("loss_when_good", loss_when_good)
        self.spans = {False: good_for, True: bad_for}
        self.loss = {False: loss_when_good, True: loss_when_bad}
        self.weather: dict[tuple[NodeId, NodeId], deque[tuple[float, bool]]] = {}
        """Per pair the spans from now on, each as its end and whether it is bad. Retransmissions look ahead."""

    def is_lost(self, now: float, wait: float, sender: NodeId, to: NodeId) -> bool:
        rng = self.draws(sender)
        spans = self.weather.get((sender, to))
        if spans is None:
            is_bad = rng.random() < self.spans[True] / (self.spans[False] + self.spans[True])
            spans = self.weather[sender, to] = deque([(now + rng.expovariate(1 / self.spans[is_bad]), is_bad)])
        while spans[-1][0] <= now + wait:
            end, is_bad = spans[-1]
            spans.append((end + rng.expovariate(1 / self.spans[not is_bad]), not is_bad))
        while spans[0][0] <= now:
            spans.popleft()
        is_bad = next(is_bad for end, is_bad in spans if end > now + wait)
        return rng.random() < self.loss[is_bad]


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
