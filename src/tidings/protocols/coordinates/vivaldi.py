"""A place in a space in which distances are round trips: the arithmetic of Vivaldi, without messages.

Each node is a weight on springs. A round trip that was measured to another node is how long the spring between them
wants to be; each measurement moves us a part of the way. How large a part depends on who is surer of its place: each
keeps an estimate `error` of how wrong its distances are, in parts of the distance.

    w = e_i / (e_i + e_j);  e_i <- e_s c_e w + e_i (1 - c_e w);  x_i <- x_i + c_c w (rtt - |x_i - x_j|) unit(x_i - x_j)

Single measurements lie: a packet waits in a queue, a process does not run. So what counts for each remote node is a low
percentile of its last few (the filter of Ledlie, Gardner and Seltzer).

The space is plain Euclidean, without a height: what builds trees on distances needs the triangle inequality exactly
(Patel thesis, section 4.5.3). Source: Dabek, Cox, Kaashoek, Morris 2004; constants of peer-to-peer.md 3B.2, G-1, G-2.
"""

import math
from collections import deque
from random import Random

from tidings.machine.message import Place
from tidings.model.identity import NodeId
from tidings.protocols.coordinates.params import CoordinateParams

TINY = 1e-9
"""Seconds within which two places are one."""


class Vivaldi:
    def __init__(self, params: CoordinateParams, rng: Random) -> None:
        self.params, self.rng = params, rng
        self.place: Place = (0.0,) * params.dimensions
        self.error = 1.0
        self.measured: dict[NodeId, deque[float]] = {}
        """The last round trips to each node."""

    def observe(self, node: NodeId, round_trip: float, place: Place, error: float) -> bool:
        """Whether it was one that can be: what a liar or a clock that jumped says is left out."""
        params = self.params
        if len(place) != params.dimensions or not 0 < round_trip <= params.distance_max or not 0 <= error < math.inf:
            return False
        if math.hypot(*place) > params.distance_max:
            return False
        round_trip = self.filtered(node, round_trip)
        apart = math.dist(self.place, place)
        weight = self.error / (self.error + error) if self.error + error > 0 else 0.5
        sample_error = min(abs(apart - round_trip) / round_trip, params.error_max)
        gain = params.error_gain * weight
        self.error = min(sample_error * gain + self.error * (1 - gain), params.error_max)
        step = params.place_gain * weight * (round_trip - apart)
        direction = self.direction(place, apart)
        self.place = tuple(mine + step * part for mine, part in zip(self.place, direction, strict=True))
        return True

    def filtered(self, node: NodeId, round_trip: float) -> float:
        params = self.params
        last = self.measured.get(node)
        if last is None:
            if len(self.measured) >= params.nodes_max:
                del self.measured[next(iter(self.measured))]
            last = self.measured[node] = deque(maxlen=params.window)
        last.append(round_trip)
        return sorted(last)[int(params.percentile * (len(last) - 1))]

    def direction(self, place: Place, apart: float) -> Place:
        """Away from that place; anywhere, if we are at it."""
        if apart > TINY:
            return tuple((mine - theirs) / apart for mine, theirs in zip(self.place, place, strict=True))
        drawn = [self.rng.uniform(-1.0, 1.0) for _ in self.place]
        length = math.hypot(*drawn) or 1.0
        return tuple(part / length for part in drawn)
