"""How long to wait before asking or answering: timers that learn from what is heard, as in SRM.

The problem. When an event is lost for many at once, all of them would ask, and all who have it would answer. Each
therefore waits a random time, drawn from

    [first * d, (first + spread) * d]          d: the distance, in seconds

and does nothing when it hears another do it. A narrow spread is quick and makes duplicates; a wide one is slow.

The idea. The two numbers (C1 and C2 for requests, D1 and D2 for repairs) follow two moving averages: how many
duplicates there were for one loss, and how long it took until the first was sent, in units of d. Too many duplicates
widen both; few duplicates and long waits narrow them. Who has sent first waits a little less the next time; so those
near the loss come to ask, and those near the askers to answer, and the others are quiet.

They change once for each loss that told something new, not for each timer: of a hundred events lost in one burst nobody
knows more than of one.

Source: the transport specification, 3.5.6, after the adaptive timers of SRM.
"""

import math
from random import Random

DUPLICATES_AIM, DELAY_AIM, MARGIN = 1.0, 1.0, 0.1
FEW_DUPLICATES = 0.25
GAIN = 0.25
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
