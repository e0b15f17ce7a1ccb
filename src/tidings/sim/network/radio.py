"""Radio: who is near enough hears, and all who are near share the air.

A packet takes the air for as long as its bits last. A node that wants to send listens first, and waits while it hears
somebody (carrier sense), then a random number of slots more (back-off). Two nodes that begin in the same slot do not
hear each other in time, and neither do two that are out of each other's reach but not out of the receiver's (hidden
terminals); their packets overlap at the receiver. The first is received, the other is lost there (capture); a node that
sends hears nothing itself. A packet to one node that was lost is sent again a few times with longer back-off, as 802.11
does; a packet to all (`BROADCAST`) is sent once.

Whether a packet is lost is decided when it is sent, against all that is in the air or waits for it by then; the first
is the one that was decided first.

Where nodes are is asked of `position(node, now)`, for instance of `mobility.RandomWaypoint`.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from tidings.machine.effects import BROADCAST, Transport
from tidings.model.identity import NodeId
from tidings.sim.network.rule import Fates, LostPacket, Rule, check_positive

METRES_PER_SECOND = 299_792_458.0

OUT_OF_RANGE = LostPacket("out of range")
COLLISION = LostPacket("collision on the air")
AIR_BUSY = LostPacket("air is busy for too long")

Point = tuple[float, float]
PositionOf = Callable[[NodeId, float], Point]


class RadioParams(msgspec.Struct, frozen=True):
    reach: float = 100.0
    """Metres at which a packet can be received."""
    sense_reach: float = 200.0
    """Metres at which a sender is heard, and disturbs; at least `reach`."""
    rate_bps: float = 2e6
    headers_bytes: int = 58
    """What the air adds to a packet: MAC and IP headers; the preamble is counted as its bits."""
    slot: float = 20e-6
    """Seconds in which nobody hears that another has begun."""
    slots: int = 32
    """The first back-off is drawn from this many slots; doubled for each time that a packet is sent again."""
    tries: int = 7
    """How often a packet to one node is sent."""
    wait_max: float = 2.0
    """Seconds that a packet may wait for the air."""

    def __post_init__(self) -> None:
        for name in ("reach", "rate_bps", "slot", "slots", "tries", "wait_max"):
            check_positive(name, getattr(self, name))
        check_positive("sense_reach - reach + 1", self.sense_reach - self.reach + 1)


class Transmission(NamedTuple):
    sender: NodeId
    place: Point
    begin: float
    end: float


class Radio(Rule):
    needs_sizes = True

    def __init__(self, nodes: Sequence[NodeId], position: PositionOf, params: RadioParams | None = None) -> None:
        self.nodes, self.position, self.params = list(nodes), position, params or RadioParams()
        self.air: deque[Transmission] = deque()
        """What is in the air or waits for it, in the order of sending; what has ended is forgotten."""

    def fate(self, now: float, sender: NodeId, to: NodeId, size_bytes: int, transport: Transport) -> Fates:
        here, there = self.position(sender, now), self.position(to, now)
        fates: Fates = COLLISION
        begin = now
        for repeat in range(self.params.tries):
            sent = self.transmit(now, begin, sender, here, size_bytes, repeat)
            if sent is None:
                return AIR_BUSY
            fates = self.arrival(now, sent, to, there)
            if fates or math.dist(here, there) > self.params.reach:
                break
            begin = sent.end
        return fates

    def reach(self, now: float, sender: NodeId, to: NodeId, size_bytes: int) -> list[tuple[NodeId, Fates]] | None:
        if to != BROADCAST:
            return None
        here = self.position(sender, now)
        places = [(node, self.position(node, now)) for node in self.nodes if node != sender]
        near = [(node, place) for node, place in places if math.dist(here, place) <= self.params.reach]
        sent = self.transmit(now, now, sender, here, size_bytes, 0)
        if sent is None:
            return [(node, AIR_BUSY) for node, _ in near]
        return [(node, self.arrival(now, sent, node, place)) for node, place in near]

    def transmit(
        self, now: float, begin: float, sender: NodeId, here: Point, size_bytes: int, repeat: int
    ) -> Transmission | None:
        """Wait for the air, from `begin` on, then take it; None if that would take too long."""
        params = self.params
        while self.air and self.air[0].end < now:
            self.air.popleft()
        heard = [other for other in self.air if math.dist(other.place, here) <= params.sense_reach]
        length = (size_bytes + params.headers_bytes) * 8 / params.rate_bps
        rng, slots = self.draws(sender), params.slots * 2**repeat
        begin += rng.below(slots) * params.slot if repeat else 0.0
        while (busy := self.first_conflict(heard, sender, begin, begin + length)) is not None:
            begin = busy.end + rng.below(slots) * params.slot
        if begin - now > params.wait_max:
            return None
        sent = Transmission(sender, here, begin, begin + length)
        self.air.append(sent)
        return sent

    def first_conflict(
        self, heard: list[Transmission], sender: NodeId, begin: float, end: float
    ) -> Transmission | None:
        for other in heard:
            is_too_new = other.sender != sender and abs(other.begin - begin) < self.params.slot
            if other.begin < end and begin < other.end and not is_too_new:
                return other
        return None

    def arrival(self, now: float, sent: Transmission, to: NodeId, there: Point) -> Fates:
        distance = math.dist(sent.place, there)
        if distance > self.params.reach:
            return OUT_OF_RANGE
        for other in self.air:
            overlaps = other is not sent and other.begin < sent.end and sent.begin < other.end
            if overlaps and (other.sender == to or math.dist(other.place, there) <= self.params.sense_reach):
                return COLLISION
        return (sent.end - now + distance / METRES_PER_SECOND,)
