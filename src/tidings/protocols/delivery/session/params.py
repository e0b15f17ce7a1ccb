"""The bounds and times of a session."""

import math

import msgspec

from tidings.model.errors import UsageError

COUNTS = (
    "window_publications",
    "window_bytes",
    "subscriptions_max",
    "advertisements_max",
    "positions_max",
    "readings_max",
)


class SessionParams(msgspec.Struct, frozen=True, kw_only=True):
    window_publications: int = 16_384
    """Publications that may wait to be accepted by the broker."""

    window_bytes: int = 4 * 1024 * 1024
    """Bytes of them. All of it is sent again after a break, so it must fit the queue of a link."""

    subscriptions_max: int = 1000
    advertisements_max: int = 1000

    positions_max: int = 200_000
    """Publishers of which it is known how far they have come, for all subscriptions together; all of it is said again
    after a break, so it must fit the queue of a link. Beyond it those are forgotten that were silent longest, and the
    application is told: after a break their events may come twice."""

    readings_max: int = 64
    """Requests to read what is stored that are not answered yet; no more than the broker allows a client."""

    retry_first: float = 0.2
    """Seconds before a request that was refused for now is made again; each further time twice as long, less a random
    part of up to half."""

    retry_max: float = 5.0
    """Longest wait; at least `retry_first`."""

    retries_max: int = 8
    """How often a request is made again before the application is told."""

    def __post_init__(self) -> None:
        for name in COUNTS:
            if getattr(self, name) < 1:
                raise UsageError(f"{name}: {getattr(self, name)} leaves no room; give at least 1")
        for name in ("retry_first", "retry_max"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise UsageError(f"{name}: {getattr(self, name)} is no span of time; give seconds above 0")
        if self.retry_max < self.retry_first:
            raise UsageError(f"retry_max: {self.retry_max} is below retry_first; give at least {self.retry_first}")
        if self.retries_max < 0:
            raise UsageError(f"retries_max: {self.retries_max}; give 0 for none, or more")

    def retry_wait(self, retries: int, chance: float) -> float:
        """How long to wait after so many refusals; `chance` in [0, 1)."""
        return min(self.retry_max, self.retry_first * 2.0**retries) * (1 - chance / 2)
