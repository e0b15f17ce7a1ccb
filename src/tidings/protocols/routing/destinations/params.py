"""The bounds of routing by destination."""

import math
from typing import Literal

import msgspec

from tidings.machine.effects import Transport
from tidings.matching.bloom import BloomProfile
from tidings.model.bounds import PREDICATE_ROWS_BYTES_MAX
from tidings.model.errors import UsageError


class DestinationParams(msgspec.Struct, frozen=True, tag_field="kind", tag="destinations"):
    profile: BloomProfile = BloomProfile()
    """The same at all brokers of a network."""

    brokers_max: int = 1000
    """Brokers that are known; those beyond it are not heard, and not told of."""

    rows_max: int = 4096
    """Bloom rows of one broker; one with more gets every event. Together they fit a message."""

    announce_after: float = 0.05
    """Seconds in which changes of what our clients want are gathered into one flood."""

    rate_max: float = 50_000.0
    """Publications a second that a link takes."""

    queue_max: int = 1000
    """Publications that wait for one neighbour."""

    transport: Transport = Transport.STREAM
    """How publications travel from broker to broker: as datagrams, a link may lose or reorder some. What brokers tell
    of themselves always goes over streams."""

    memo_max: int = 10_000
    """Heads whose destinations are remembered."""

    engine: Literal["fast", "plain"] | None = None
    """Engine of the index of our clients' filters; None is the best that is installed."""

    def __post_init__(self) -> None:
        if not 1 <= self.rows_max <= PREDICATE_ROWS_BYTES_MAX // self.profile.size_bytes:
            most = PREDICATE_ROWS_BYTES_MAX // self.profile.size_bytes
            raise UsageError(f"rows_max: {self.rows_max} rows do not fit a message; give 1 to {most}")
        for name in ("announce_after", "rate_max"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise UsageError(f"{name}: {getattr(self, name)} cannot be used; give a number above 0")
        for name in ("brokers_max", "queue_max", "memo_max"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}: {getattr(self, name)} is too small; give at least 1")
