"""How far away others are: half a round trip, since no two clocks agree (G-12 of the transport specification).

To a publisher it is told by `RoundTrip`. To other receivers it is found without a message of its own: a repair brings
back the time at which its request left, and how long the repairer kept it; so the requester knows the way to the
repairer. Its next request brings back in turn the time at which that repair left; so the repairer knows the way to the
requester. Both are times of one's own clock.

What is claimed by others, or follows from what they bring back, is kept between `DISTANCE_MIN` and `DISTANCE_MAX`.
"""

from tidings.protocols.transport.signals import Stream

DISTANCE_MIN, DISTANCE_MAX = 0.001, 5.0
"""Seconds. Timers are no finer than the first; nobody who is further away than the second is worth waiting for."""

PEERS_MAX = 1000
"""Other receivers whose distance is remembered; beyond it the one heard of longest ago is forgotten."""

GAIN = 0.25


def clamped(seconds: float) -> float:
    return min(DISTANCE_MAX, max(DISTANCE_MIN, seconds))


class Distances:
    def __init__(self) -> None:
        self.publishers: dict[Stream, float] = {}
        self.peers: dict[int, float] = {}

    def round_trip(self, stream: Stream, seconds: float) -> None:
        self.publishers[stream] = clamped(seconds / 2)

    def exchanged(self, now: float, peer: int, sent: float, held: float) -> None:
        """`peer` answered what we sent at `sent`, after it had kept it for `held`."""
        elapsed = now - sent - held
        if not (sent > 0.0 and 0.0 <= elapsed <= 2 * DISTANCE_MAX):
            return
        distance = clamped(elapsed / 2)
        known = self.peers.pop(peer, distance)
        self.peers[peer] = known + GAIN * (distance - known)
        if len(self.peers) > PEERS_MAX:
            del self.peers[next(iter(self.peers))]

    def check(self) -> None:
        assert len(self.peers) <= PEERS_MAX, "more peers are remembered than PEERS_MAX"
        for distance in (*self.publishers.values(), *self.peers.values()):
            assert DISTANCE_MIN <= distance <= DISTANCE_MAX, "a distance beyond all bounds"
