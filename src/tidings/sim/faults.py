"""Faults as values: what goes wrong, when, and for how long.

A fault has a beginning and an end, so a plan of faults says by itself when trouble is over; a protocol's promises are
judged after that. A plan is drawn from the seed before the run (`drawing.py`), prints as one line for each fault, is
read back from that text or from JSON, and can be made smaller: drop a fault, or shorten it. That is what lets `hunt`
reduce a failure to the two or three faults that cause it.

    2.5..7.1 crash n3                     n3 stops, and starts again with the state it had
    2.5..7.1 crash n3 forgetting          ... with an empty one; what it had saved is on its disk
    2.5.. crash n3                        n3 does not come back
    3..9 pause n1                         n1 does nothing, and catches up afterwards
    4..8 partition n1,n2                  nothing passes between these and all others
    4..8 partition n1,n2 outgoing         they hear the others, who do not hear them; `incoming` is the reverse
    1..5 clog n4                          what n4 sends and what is sent to it waits, and then comes at once
    0..9 clock n2 offset=0.5 drift=0.001  the clock of n2 jumps, then gains a millisecond a second
    3..6 slow-disk n2 delay=2             whatever n2 saves or loads takes that long
    2..8 corrupt n3 probability=0.05      bits are flipped in this share of the frames that n3 sends

Faults may overlap. A node is up when no crash holds it down, and comes back empty if one of those that held it was
`forgetting`. A clock never goes back: at the end of its fault the drift stops, and the clock stays ahead; only at time
0, before the node starts, may it be set behind.
"""

import math
import re
from typing import ClassVar

import msgspec

from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.sim.churn import FOR_EVER, Absence

FAULTS_MAX = 100_000
"""Faults of one plan; churn among thousands of nodes needs tens of thousands."""

SHOWN_MAX = 40
"""Faults that are printed; of more, the rest is counted."""

NODE_NAME = re.compile(r"[^\s,;=|]+")


class Timed(msgspec.Struct, frozen=True, tag_field="fault", forbid_unknown_fields=True):
    """What all faults have. `until` is the moment at which it is over."""

    at: float
    until: float

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        if not (0 <= self.at < self.until and self.at < math.inf):
            raise UsageError(f"{self.span()} {self.kind}: a fault begins at 0 or later, and ends after it began")
        if not all(NODE_NAME.fullmatch(node) for node in self.nodes):
            raise UsageError(f"{self.span()} {self.kind}: name the nodes it strikes, without spaces in a name")

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        """Who is struck."""
        raise NotImplementedError

    def words(self) -> list[str]:
        """What follows the names of the nodes in the text form."""
        return []

    def span(self) -> str:
        return f"{self.at:.12g}..{'' if self.until == FOR_EVER else f'{self.until:.12g}'}"

    def __str__(self) -> str:
        return " ".join([self.span(), self.kind, ",".join(self.nodes), *self.words()])


class Crash(Timed, frozen=True, tag="crash"):
    node: NodeId
    forgetting: bool = False

    kind = "crash"

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        return (self.node,)

    def words(self) -> list[str]:
        return ["forgetting"] if self.forgetting else []


class Pause(Timed, frozen=True, tag="pause"):
    node: NodeId

    kind = "pause"

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        return (self.node,)


class Partition(Timed, frozen=True, tag="partition"):
    """`direction` is seen from the nodes that are cut off: "both", "outgoing" or "incoming"."""

    side: tuple[NodeId, ...]
    direction: str = "both"

    kind = "partition"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.direction not in DIRECTIONS:
            raise UsageError(f"{self.span()} partition: direction {self.direction!r}; give {' or '.join(DIRECTIONS)}")

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        return self.side

    def words(self) -> list[str]:
        return [] if self.direction == "both" else [self.direction]

    def cuts(self, sender: NodeId, to: NodeId) -> bool:
        sends, hears = sender in self.side, to in self.side
        return sends != hears and self.direction != ("incoming" if sends else "outgoing")


class Clog(Timed, frozen=True, tag="clog"):
    node: NodeId

    kind = "clog"

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        return (self.node,)


class Skew(Timed, frozen=True, tag="clock"):
    """Seconds by which the clock jumps, and seconds that it gains (or loses, below 0) in each second."""

    node: NodeId
    offset: float = 0.0
    drift: float = 0.0

    kind = "clock"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(self.offset) and (self.offset >= 0 or self.at == 0)):
            raise UsageError(f"{self.span()} clock: offset {self.offset}; below 0 it is possible at time 0 only")
        if not -1 < self.drift < math.inf:
            raise UsageError(f"{self.span()} clock: drift {self.drift} would stop the clock; give more than -1")

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        return (self.node,)

    def words(self) -> list[str]:
        return [f"offset={self.offset:.12g}", f"drift={self.drift:.12g}"]


class SlowDisk(Timed, frozen=True, tag="slow-disk"):
    node: NodeId
    delay: float

    kind = "slow-disk"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.delay < math.inf:
            raise UsageError(f"{self.span()} slow-disk: delay {self.delay} is no span of time; give seconds from 0")

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        return (self.node,)

    def words(self) -> list[str]:
        return [f"delay={self.delay:.12g}"]


class Corrupt(Timed, frozen=True, tag="corrupt"):
    node: NodeId
    probability: float

    kind = "corrupt"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.probability <= 1:
            raise UsageError(f"{self.span()} corrupt: probability {self.probability}; give a number from 0 to 1")

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        return (self.node,)

    def words(self) -> list[str]:
        return [f"probability={self.probability:.12g}"]


DIRECTIONS = ("both", "outgoing", "incoming")

Fault = Crash | Pause | Partition | Clog | Skew | SlowDisk | Corrupt


class FaultPlan(msgspec.Struct, frozen=True):
    """Faults in order of their beginning."""

    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        if len(self.faults) > FAULTS_MAX:
            raise UsageError(f"a plan of {len(self.faults)} faults, at most {FAULTS_MAX} are allowed")
        if any(later.at < fault.at for fault, later in zip(self.faults, self.faults[1:], strict=False)):
            raise UsageError("the faults of a plan stand in order of their beginning; use plan_of")

    @property
    def over_at(self) -> float:
        """When the last fault is over; one that lasts for ever counts with its beginning."""
        return max((fault.at if fault.until == FOR_EVER else fault.until for fault in self.faults), default=0.0)

    def text(self) -> str:
        """One line, from which `parse_plan` reads the same plan."""
        return "; ".join(str(fault) for fault in self.faults)

    def lines(self) -> list[str]:
        """For people: a line for each fault, of very many only the first."""
        shown = [str(fault) for fault in self.faults[:SHOWN_MAX]]
        more = len(self.faults) - len(shown)
        return [*shown, f"... and {more} more"] if more else shown

    def without(self, places: range) -> "FaultPlan":
        return FaultPlan(tuple(fault for place, fault in enumerate(self.faults) if place not in places))

    def shortened(self, place: int) -> "FaultPlan | None":
        """The fault at this place takes half its time; None when that is less than a millisecond, or it never ends."""
        fault = self.faults[place]
        until = round(fault.at + (fault.until - fault.at) / 2, 3)
        if fault.until == FOR_EVER or not fault.at < until < fault.until:
            return None
        shorter = msgspec.structs.replace(fault, until=until)
        return FaultPlan((*self.faults[:place], shorter, *self.faults[place + 1 :]))

    def among(self, nodes: tuple[NodeId, ...]) -> "FaultPlan":
        """What is left of the plan when only these nodes exist."""
        there = set(nodes)
        kept: list[Fault] = []
        for fault in self.faults:
            if isinstance(fault, Partition):
                side = tuple(node for node in fault.side if node in there)
                if side:
                    kept.append(msgspec.structs.replace(fault, side=side))
            elif fault.node in there:
                kept.append(fault)
        return FaultPlan(tuple(kept))


def plan_of(faults: list[Fault]) -> FaultPlan:
    """The plan of these faults; those that begin together stay in the order in which they are given."""
    return FaultPlan(tuple(sorted(faults, key=lambda fault: fault.at)))


def crashes_of(absences: list[Absence], forgetting: bool = False) -> list[Fault]:
    """Churn as faults."""
    return [Crash(absence.begin, absence.end, absence.node, forgetting) for absence in absences]
