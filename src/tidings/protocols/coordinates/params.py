"""What can be set about coordinates."""

import math

import msgspec

from tidings.machine.effects import Transport
from tidings.model.bounds import PLACE_DIMENSIONS_MAX
from tidings.model.errors import UsageError


class CoordinateParams(msgspec.Struct, frozen=True, kw_only=True):
    dimensions: int = 4
    """Of the space; the same in the whole network."""

    place_gain: float = 0.25
    """The part of the way that a measurement moves us, where both ends are equally sure (`c_c`)."""

    error_gain: float = 0.25
    """The weight of a measurement in the estimate of our error (`c_e`)."""

    window: int = 4
    """Round trips to one node that are remembered."""

    percentile: float = 0.25
    """Which of them counts, from 0 for the least."""

    rounds: int = 10
    """How often each landmark is probed before the place is fixed."""

    spacing: float = 0.2
    """Seconds between rounds; `rounds` of these are what a session begins with."""

    patience: float = 1.0
    """Seconds that answers to the last round have."""

    landmark_rounds: int = 100
    """How often a landmark probes the others before its own place is fixed."""

    distance_max: float = 10.0
    """Seconds; places and round trips beyond it are nobody's."""

    error_max: float = 10.0
    """The estimate of an error is never larger."""

    nodes_max: int = 1000
    """Nodes whose round trips are remembered, and landmarks."""

    transport: Transport = Transport.DATAGRAM

    def __post_init__(self) -> None:
        if not 1 <= self.dimensions <= PLACE_DIMENSIONS_MAX:
            raise UsageError(f"dimensions: {self.dimensions}; give 1 to {PLACE_DIMENSIONS_MAX}")
        for name in ("place_gain", "error_gain"):
            if not 0 < getattr(self, name) <= 1:
                raise UsageError(f"{name}: {getattr(self, name)} is no part of a whole; give above 0 up to 1")
        if not 0 <= self.percentile <= 1:
            raise UsageError(f"percentile: {self.percentile}; give 0 to 1")
        for name in ("spacing", "patience", "distance_max", "error_max"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"{name}: {getattr(self, name)}; give a number above 0")
        for name in ("window", "rounds", "landmark_rounds", "nodes_max"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}: {getattr(self, name)}; give at least 1")
