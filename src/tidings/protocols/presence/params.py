"""The times of `presence.py`, and how many are asked."""

import math

import msgspec

from tidings.model.bounds import BYSTANDERS_MAX
from tidings.model.errors import UsageError


class PresenceParams(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that is gone is known to be after about `silent_after` and `confirm_within` together."""

    beacon_period: float = 0.2
    """Seconds between two beacons to each neighbour."""

    silent_after: float = 0.4
    """Seconds without a beacon after which a neighbour is silent, and is looked for; at least one and a half periods,
    so that one that is a little late is nothing."""

    probe_timeout: float = 0.3
    """Seconds in which something that listens answers a probe: more than the longest round trip there is."""

    confirm_within: float = 0.48
    """Seconds in which bystanders answer; more than `probe_timeout`, by the time of a question and its answer."""

    ask_again: float = 1.0
    """Seconds after which a neighbour that is silent, and not gone, is looked for again."""

    bystanders: int = 3
    """Neighbours that are asked whether they reach it."""

    stood_still_after: float = 0.1
    """A timer that fires so many seconds late means that it was we who did not listen."""

    def __post_init__(self) -> None:
        for name in ("beacon_period", "silent_after", "probe_timeout", "confirm_within", "ask_again"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"{name}: {getattr(self, name)} is no span of time; give seconds above 0")
        if self.silent_after < 1.5 * self.beacon_period:
            raise UsageError(
                f"silent_after: {self.silent_after} would take a neighbour for silent that is not; give at least "
                f"{1.5 * self.beacon_period:g}, one and a half times beacon_period"
            )
        if self.confirm_within <= self.probe_timeout:
            raise UsageError(f"confirm_within: {self.confirm_within} is not above probe_timeout; make it longer")
        if not 0 < self.stood_still_after < math.inf:
            raise UsageError(f"stood_still_after: {self.stood_still_after} is no span of time; give seconds above 0")
        if not 0 <= self.bystanders <= BYSTANDERS_MAX:
            raise UsageError(f"bystanders: {self.bystanders} is out of bounds; give 0 to {BYSTANDERS_MAX}")
