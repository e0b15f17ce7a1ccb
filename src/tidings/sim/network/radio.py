"""Radio: who is near enough hears, and all who are near share the air.

A packet takes the air for as long as its bits last. A node that wants to send listens first, and waits while it hears
somebody (carrier sense), then a random number of slots more (back-off). Two nodes that begin in the same slot do not
hear each other in time, and neither do two that are out of each other's reach but not out of the receiver's (hidden
terminals); their packets overlap at the receiver. The first is received, the other is lost there (capture); a node that
sends hears nothing itself. A packet to one node that was lost is sent again a few times with longer back-off, as 802.11
does; a packet to all (`BROADCAST`) is sent once.

Whether a packet is lost is decided when it is sent, against all that is in the air or waits for it by then; the first
is the one that was decided first.

`Earshot` is a network in which it is given who hears whom, without places and without collisions.

Where nodes are is asked of `position(node, now)`, for instance of `RandomWaypoint`.

**Random waypoint**: nodes walk about. A node stands at a place for a while, draws
another place in the rectangle and a speed, walks there in a straight line, and begins again. Everything it draws comes
from a stream of its own, so its walk depends on the seed and on its name only.

`position(node, now)` may be asked for any time in any order, and gives the same answer each time. Only the leg that a
node is on is remembered; who asks for a time before it makes the walk start over, which costs time, not memory. A run
asks forward.

Two properties of the model that are easily forgotten. Nodes start spread evenly, and gather around the middle as time
goes on (who walks through a rectangle passes its middle). And the slowest walkers take longest, so with a least speed
near zero the network comes to a standstill; hence speeds have a bound below.
Source: the random waypoint model as described by Camp, Boleng and Davies (2002); the slowing down is Yoon, Liu and
Noble (2003).
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from tidings.machine.effects import BROADCAST, Transport
from tidings.machine.streams import RandomStream, random_stream
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.sim.network.rule import Fates, LostPacket, Rule, Wrapper, check_positive

Point = tuple[float, float]
"""Metres from the lower left corner."""

SPEED_MIN = 0.001
"""Metres a second below which nobody walks."""


class WaypointParams(msgspec.Struct, frozen=True):
    width: float = 1000.0
    height: float = 1000.0
    """Metres."""

    speed_min: float = 1.0
    speed_max: float = 2.0
    """Metres a second; a speed is drawn uniformly for each leg."""

    pause_max: float = 60.0
    pause_min: float = 0.0
    """Seconds; how long a node stands before a leg is drawn uniformly between these."""

    def __post_init__(self) -> None:
        for name in ("width", "height"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"{name}: {getattr(self, name)} is no length; give metres above 0")
        if not SPEED_MIN <= self.speed_min <= self.speed_max < math.inf:
            raise UsageError(
                f"speed_min {self.speed_min}, speed_max {self.speed_max}: give {SPEED_MIN} <= speed_min <= speed_max"
            )
        if not 0 <= self.pause_min <= self.pause_max < math.inf:
            raise UsageError(
                f"pause_min {self.pause_min}, pause_max {self.pause_max}: give seconds, 0 <= pause_min <= pause_max"
            )


class Leg(msgspec.Struct, frozen=True):
    """Stand at `origin` from `begin`, leave at `leave`, be at `target` at `end`."""

    begin: float
    leave: float
    end: float
    origin: Point
    target: Point


class Walk:
    """One node's walk, as far as it has been followed."""

    def __init__(self, params: WaypointParams, rng: RandomStream) -> None:
        self.params, self.rng = params, rng
        self.leg = self.next_leg(0.0, self.place())

    def advance(self, now: float) -> Leg:
        while self.leg.end <= now:
            self.leg = self.next_leg(self.leg.end, self.leg.target)
        return self.leg

    def next_leg(self, begin: float, origin: Point) -> Leg:
        params, rng = self.params, self.rng
        leave = begin + rng.uniform(params.pause_min, params.pause_max)
        target = self.place()
        speed = rng.uniform(params.speed_min, params.speed_max)
        end = leave + math.dist(origin, target) / speed
        # Two places drawn alike would make a leg without length, and a walk that never gets on.
        return Leg(begin, leave, max(end, math.nextafter(begin, math.inf)), origin, target)

    def place(self) -> Point:
        return self.rng.uniform(0.0, self.params.width), self.rng.uniform(0.0, self.params.height)


class RandomWaypoint:
    """`RandomWaypoint(WaypointParams(), seed=7).position("n3", 12.5)`"""

    def __init__(self, params: WaypointParams, seed: int) -> None:
        self.params, self.seed = params, seed
        self.walks: dict[NodeId, Walk] = {}

    def position(self, node: NodeId, now: float) -> Point:
        if not 0 <= now < math.inf:
            raise UsageError(f"position of {node} at {now}: a walk begins at time 0")
        walk = self.walks.get(node)
        if walk is None or now < walk.leg.begin:
            walk = self.walks[node] = Walk(self.params, random_stream(self.seed, "mobility", node))
        leg = walk.advance(now)
        if now <= leg.leave:
            return leg.origin
        share = (now - leg.leave) / (leg.end - leg.leave)
        (x, y), (to_x, to_y) = leg.origin, leg.target
        return x + (to_x - x) * share, y + (to_y - y) * share


METRES_PER_SECOND = 299_792_458.0

OUT_OF_RANGE = LostPacket("out of range")
COLLISION = LostPacket("collision on the air")
AIR_BUSY = LostPacket("air is busy for too long")

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


class Earshot(Wrapper):
    """Who hears whom is given, and nothing else is: packets pass between these pairs, and a broadcast reaches everybody
    who is paired with its sender."""

    def __init__(self, inner: Rule, pairs: Iterable[tuple[NodeId, NodeId]]) -> None:
        super().__init__(inner)
        self.near: dict[NodeId, dict[NodeId, None]] = {}
        for a, b in pairs:
            self.near.setdefault(a, {})[b] = None
            self.near.setdefault(b, {})[a] = None

    def fate(self, now: float, sender: NodeId, to: NodeId, size_bytes: int, transport: Transport) -> Fates:
        is_near = to in self.near.get(sender, ())
        return self.inner.fate(now, sender, to, size_bytes, transport) if is_near else OUT_OF_RANGE

    def reach(self, now: float, sender: NodeId, to: NodeId, size_bytes: int) -> list[tuple[NodeId, Fates]] | None:
        if to != BROADCAST:
            return None
        near = self.near.get(sender, {})
        return [(name, self.inner.fate(now, sender, name, size_bytes, Transport.DATAGRAM)) for name in near]


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
