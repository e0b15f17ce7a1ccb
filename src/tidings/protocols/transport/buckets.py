"""How often something may happen: tokens that come at a steady rate, and a bounded number of them at hand.

The same bucket keeps a flow to its quota, requests and repairs to their share, and requesters to what one may ask. Rate
and depth may change at any time; they hold from the last filling on.
"""

from collections.abc import Hashable

EARLY = 1e-6
"""Part of a token that may be missing: a timer that was set for the time of a token must find it."""


class Bucket:
    __slots__ = ("depth", "filled_at", "rate", "tokens")

    def __init__(self, now: float, rate: float, depth: float) -> None:
        """`rate` tokens a second, at most `depth` of them at a time; it begins full."""
        self.rate, self.depth = rate, max(1.0, depth)
        self.tokens, self.filled_at = self.depth, now

    def fill(self, now: float) -> None:
        self.tokens = min(self.depth, self.tokens + max(0.0, now - self.filled_at) * self.rate)
        self.filled_at = now

    @property
    def has_token(self) -> bool:
        """As of the last filling."""
        return self.tokens >= 1.0 - EARLY

    @property
    def next_at(self) -> float:
        """When there will be a token, while there is none."""
        return self.filled_at + (1.0 - self.tokens) / self.rate

    def take(self, now: float) -> bool:
        return self.book(now, 0.0) is not None

    def book(self, now: float, wait_max: float) -> float | None:
        """Take a token, perhaps one that is yet to come: the seconds until it does. None if that is too long."""
        self.fill(now)
        wait = max(0.0, 1.0 - self.tokens) / self.rate
        if wait > wait_max:
            return None
        self.tokens -= 1.0
        return wait


class Buckets:
    """One for each name, for the `count_max` that were heard of last. Who is forgotten begins with a full one: the
    names are claims, and whoever claims many is stopped by a bucket for all."""

    def __init__(self, rate: float, depth: float, count_max: int) -> None:
        self.rate, self.depth, self.count_max = rate, depth, count_max
        self.by_name: dict[Hashable, Bucket] = {}

    def take(self, now: float, name: Hashable) -> bool:
        bucket = self.by_name.pop(name, None) or Bucket(now, self.rate, self.depth)
        self.by_name[name] = bucket
        if len(self.by_name) > self.count_max:
            del self.by_name[next(iter(self.by_name))]
        return bucket.take(now)

    def check(self) -> None:
        assert len(self.by_name) <= self.count_max, "more names are remembered than the bound allows"
