"""Mobility: where a node is at a time, when nodes walk about.

Random waypoint: a node stands at a place for a while, draws another place in the rectangle and a speed, walks there in
a straight line, and begins again. Everything it draws comes from a stream of its own, so its walk depends on the seed
and on its name only.

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

import msgspec

from tidings.machine.streams import RandomStream, random_stream
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId

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
    """Seconds; how long a node stands before a leg is drawn uniformly up to this."""

    def __post_init__(self) -> None:
        for name in ("width", "height"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"{name}: {getattr(self, name)} is no length; give metres above 0")
        if not SPEED_MIN <= self.speed_min <= self.speed_max < math.inf:
            raise UsageError(
                f"speed_min {self.speed_min}, speed_max {self.speed_max}: give {SPEED_MIN} <= speed_min <= speed_max"
            )
        if not 0 <= self.pause_max < math.inf:
            raise UsageError(f"pause_max: {self.pause_max} is no span of time; give seconds from 0")


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
        leave = begin + rng.uniform(0.0, params.pause_max)
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
