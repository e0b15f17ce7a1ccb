"""What recovery knows of one publisher: its last events, who takes part, how far away they are, and how long to wait.

**Timers that learn**, as in SRM. The problem. When an event is lost for many at once, all of them would ask, and all
who have it would answer. Each therefore waits a random time, drawn from

    [first * d, (first + spread) * d]          d: the distance, in seconds

and does nothing when it hears another do it. A narrow spread is quick and makes duplicates; a wide one is slow.

The idea. The two numbers (C1 and C2 for requests, D1 and D2 for repairs) follow two moving averages: how many
duplicates there were for one loss, and how long it took until the first was sent, in units of d. Too many duplicates
widen both; few duplicates and long waits narrow them. Who has sent first waits a little less the next time; so those
near the loss come to ask, and those near the askers to answer, and the others are quiet.

They change once for each loss that told something new, not for each timer: of a hundred events lost in one burst nobody
knows more than of one.

**Distances**: half a round trip, since no two clocks agree (G-12). To a publisher it is told by `RoundTrip`. To other
receivers it is found without a message of its own: a repair brings back the time at which its request left, and how
long the repairer kept it; so the requester knows the way to the repairer. Its next request brings back in turn the time
at which that repair left; so the repairer knows the way to the requester. Both are times of one's own clock.

What is claimed by others, or follows from what they bring back, is kept between `DISTANCE_MIN` and `DISTANCE_MAX`.

Source: the transport specification, 3.5.6, after the adaptive timers of SRM.
"""

import math
from collections import deque
from random import Random

from tidings.protocols.transport.params import RecoveryParams
from tidings.protocols.transport.recovery.cache import CacheRoom, Ring
from tidings.protocols.transport.signals import Stream

DISTANCE_MIN, DISTANCE_MAX = 0.001, 5.0
"""Seconds. Timers are no finer than the first; nobody who is further away than the second is worth waiting for."""

PEERS_MAX = 1000
"""Other receivers whose distance is remembered; beyond it the one heard of longest ago is forgotten."""

GAIN = 0.25


def clamped(seconds: float) -> float:
    return min(DISTANCE_MAX, max(DISTANCE_MIN, seconds))


class Distances:
    def __init__(self, params: RecoveryParams) -> None:
        self.configure(params)
        self.publishers: dict[Stream, float] = {}
        self.peers: dict[int, float] = {}

    def configure(self, params: RecoveryParams) -> None:
        self.first = clamped(params.distance_first)

    def of(self, stream: Stream) -> float:
        """To its publisher; before anything was measured, a guess."""
        return self.publishers.get(stream, self.first)

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


DUPLICATES_AIM, DELAY_AIM, MARGIN = 1.0, 1.0, 0.1
FEW_DUPLICATES = 0.25
FIRST_MIN, SPREAD_MIN = 0.5, 1.0
REQUEST_FIRST_MAX = 2.0
GROUP_MIN, GROUP_MAX = 2, 100
"""Nodes that are counted at least, and at most: their names are claims, and must not widen timers without end."""

FARTHER = 1.5
"""A duplicate from so many times our own distance says that we are the near one."""


def repair_first_max(group: int) -> float:
    return max(FIRST_MIN, math.log10(group))


class Tuner:
    """One pair of numbers, of one stream. `is_fixed`: they stay as they are."""

    __slots__ = ("delay", "duplicates", "first", "has_news", "is_closest", "is_fixed", "spread")

    def __init__(self, first: float, spread: float, is_fixed: bool) -> None:
        self.first, self.spread, self.is_fixed = first, spread, is_fixed
        self.duplicates = self.delay = 0.0
        self.has_news = False
        """Whether a loss ended since the numbers changed."""
        self.is_closest = False

    def draw(self, rng: Random, distance: float) -> float:
        return rng.uniform(self.first * distance, (self.first + self.spread) * distance)

    @property
    def mean(self) -> float:
        """Of what is drawn, in units of the distance."""
        return self.first + self.spread / 2

    @property
    def longest(self) -> float:
        return self.first + self.spread

    def adapt(self, first_max: float, group: int) -> None:
        """Before a new timer."""
        if self.is_fixed or not self.has_news:
            return
        if self.is_closest:
            self.spread -= 0.1
        if self.duplicates >= DUPLICATES_AIM:
            self.first += 0.1
            self.spread += 0.5
        elif self.duplicates < DUPLICATES_AIM - MARGIN:
            if self.delay > DELAY_AIM:
                self.spread -= 0.1
            if self.duplicates < FEW_DUPLICATES:
                self.first -= 0.05
        else:
            self.first += 0.05
        self.has_news = self.is_closest = False
        self.keep_bounds(first_max, group)

    def keep_bounds(self, first_max: float, group: int) -> None:
        self.first = min(first_max, max(FIRST_MIN, self.first))
        self.spread = min(float(max(GROUP_MIN, group)), max(SPREAD_MIN, self.spread))

    def sent_first(self) -> None:
        """Nobody was quicker."""
        if not self.is_fixed:
            self.first = max(FIRST_MIN, self.first - 0.1)

    def outran(self) -> None:
        """The one that was slower is much farther away."""
        self.is_closest = True

    def ended(self, duplicates: int, delay: float) -> None:
        """One loss is over; `delay` is in units of the distance."""
        self.duplicates += GAIN * (duplicates - self.duplicates)
        self.delay += GAIN * (delay - self.delay)
        self.has_news = True


NUMBERS_MAX = 512
"""Last events whose numbers, ours and the carrier's, are remembered; a loss is noticed within fewer."""

DOUBT_GAIN, DOUBTFUL = 0.125, 0.5

LATE_ECHO = 600.0
"""Seconds after which a repair is too old to tell a distance: clocks drift."""


class RecoveryStream:
    def __init__(
        self, stream: Stream, params: RecoveryParams, budget: CacheRoom, distances: Distances, size: int
    ) -> None:
        self.stream, self.distances = stream, distances
        self.ring = Ring(budget, size)
        self.requests = Tuner(params.c1, params.c2, not params.tuning)
        self.repairs = Tuner(repair_first_max(GROUP_MIN), SPREAD_MIN, not params.tuning)
        if params.tuning:
            self.requests.keep_bounds(REQUEST_FIRST_MAX, GROUP_MIN)
        self.group: dict[int, None] = {}
        """Others that were heard asking or answering."""
        self.first = -1
        """The number from which on we follow it; -1 before."""
        self.numbers: deque[tuple[int, int]] = deque(maxlen=NUMBERS_MAX)
        self.doubt = 0.0
        """The share of what seemed lost lately and was not for us, as its repair showed."""
        self.last_repair = 0, 0.0, 0.0
        """Who repaired last, when it sent that, when we heard it: brought back in the next request, so that the
        repairer knows how far away we are."""
        self.requests_heard = self.hits = 0

    def configure(self, params: RecoveryParams) -> None:
        for tuner in (self.requests, self.repairs):
            tuner.is_fixed = not params.tuning
        if params.tuning:
            self.requests.keep_bounds(REQUEST_FIRST_MAX, self.group_size)
        else:
            self.requests.first, self.requests.spread = params.c1, params.c2

    def joined(self, node: int) -> None:
        if len(self.group) < GROUP_MAX:
            self.group[node] = None

    @property
    def distance(self) -> float:
        return self.distances.of(self.stream)

    @property
    def group_size(self) -> int:
        """With ourselves."""
        return max(GROUP_MIN, len(self.group) + 1)

    def repaired(self, is_for_us: bool) -> None:
        self.doubt += DOUBT_GAIN * ((not is_for_us) - self.doubt)

    @property
    def is_doubtful(self) -> bool:
        return self.doubt > DOUBTFUL

    def numbers_around(self, sequence: int) -> tuple[int, int]:
        """The carrier's numbers of the nearest events before and behind; 0 where none is known."""
        before = max((known for known in self.numbers if known[0] < sequence), default=(0, 0))
        behind = min((known for known in self.numbers if known[0] > sequence), default=(0, 0))
        return before[1], behind[1]

    def echo(self, now: float) -> tuple[int, float, float]:
        """Repairer, when it sent, how long ago we heard it."""
        repairer, sent, heard_at = self.last_repair
        held = now - heard_at
        return (repairer, sent, held) if repairer and held <= LATE_ECHO else (0, 0.0, 0.0)

    def check(self) -> None:
        assert len(self.group) <= GROUP_MAX, "the group is larger than GROUP_MAX"
        self.ring.check()
        if not self.requests.is_fixed:
            assert 0.5 <= self.requests.first <= REQUEST_FIRST_MAX, "C1 is out of bounds"
            assert 1.0 <= self.requests.spread <= self.group_size, "C2 is out of bounds"
            assert 0.5 <= self.repairs.first <= repair_first_max(self.group_size), "D1 is out of bounds"
            assert 1.0 <= self.repairs.spread <= self.group_size, "D2 is out of bounds"
