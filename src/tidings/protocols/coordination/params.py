"""The bounds and times of carrying plans out."""

import math

import msgspec

from tidings.model.errors import UsageError
from tidings.model.identity import NodeId


class CoordinationParams(msgspec.Struct, frozen=True, kw_only=True):
    deployers: tuple[NodeId, ...] | None = None
    """Brokers whose orders are followed; None for every broker that was let in as a peer."""

    step_timeout: float = 30.0
    """Seconds in which the agents of an action have to report; then the plan is aborted."""

    engage_timeout: float = 10.0
    """Seconds in which every broker of a plan has to say that it takes part, or that it is done with it."""

    prepare_timeout: float = 10.0
    """Seconds from the order for a shift to the moment at which both ends of the new link are ready; a shift that takes
    longer is given up, and the old link stays. At most `step_timeout`."""

    is_durable: bool = False
    """Whether what a plan has come to survives a crash of the broker that carries it out."""

    ask_again_after: float = 1.0
    """Seconds after which an order, or a question for a decision, is repeated where there was no answer."""

    neighbours_max: int = 64
    """Neighbours that a broker may have, also for the moment of a shift; one that would have more refuses it."""

    def __post_init__(self) -> None:
        for name in ("step_timeout", "engage_timeout", "prepare_timeout", "ask_again_after"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise UsageError(f"{name}: {getattr(self, name)} is no span of time; give seconds above 0")
        if self.prepare_timeout > self.step_timeout:
            raise UsageError(
                f"prepare_timeout: {self.prepare_timeout} s is more than step_timeout {self.step_timeout} s, after "
                "which nobody waits for the shift; give less"
            )
        if self.neighbours_max < 1:
            raise UsageError(f"neighbours_max: {self.neighbours_max} leaves no room; give at least 1")
