"""Faults as values: what goes wrong, when, and for how long.

A fault has a beginning and an end, so a plan of faults says by itself when trouble is over; what a protocol promises is
judged after that. A plan is drawn from the seed before the run (`fault_schedule.py`), prints as one line for each
fault, is read back from that text, and can be made smaller: drop a fault, or shorten it. That is what lets `hunt`
reduce a failure to the two or three faults that cause it.

    2.5..7.1 crash n3                     n3 stops, and starts again with the state it had
    2.5..7.1 crash n3 forgetting          ... with an empty one; what it had saved is on its disk
    2.5..7.1 crash n3 silent              its neighbours are not told (the power went, not the process)
    2.5.. crash n3                        n3 does not come back
    3..9 pause n1                         n1 does nothing, and catches up afterwards
    4..8 partition n1,n2                  nothing passes between these and all others
    4..8 partition n1,n2 outgoing         they hear the others, who do not hear them; `incoming` is the reverse
    1..5 clog n4                          what n4 sends and what is sent to it waits, and then comes at once
    0..9 clock n2 offset=0.5 drift=0.001  the clock of n2 jumps, then gains a millisecond a second
    3..6 slow-disk n2 delay=2             whatever n2 saves or loads takes that long
    3..6 full-disk n2                     n2 can save nothing; what is there stays
    4..8 break n1,n2                      the connection between the two breaks, and once more when this is over
    2..8 corrupt n3 probability=0.05      bits are flipped in this share of the frames that n3 sends

Faults may overlap. A node is up when no crash holds it down, and comes back empty if one of those that held it was
`forgetting`. A clock never goes back: at the end of its fault the drift stops, and the clock stays ahead; only at time
0, before the node starts, may it be set behind.

`parse_plan` reads what `str(fault)` and `plan.text()` write, and what a person types. Whatever is wrong is said with
the text of the fault and what is allowed in that place.
"""

import math
import re
from collections.abc import Callable
from typing import ClassVar

import msgspec

from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.workloads.churn import FOR_EVER, Absence

FAULTS_MAX = 100_000
"""Faults of one plan; churn among thousands of nodes needs tens of thousands."""

NODE_NAME = re.compile(r"[^\s,;=]+")
CRASH_WORDS = ("forgetting", "silent")
DIRECTIONS = ("both", "outgoing", "incoming")


class Timed(msgspec.Struct, frozen=True):
    """What all faults have. `until` is the moment at which it is over."""

    at: float
    until: float

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        self.require(0 <= self.at < self.until and self.at < math.inf, "it begins at 0 or later, and ends after that")
        self.require(bool(self.nodes), "name the nodes that it strikes")
        self.require(all(NODE_NAME.fullmatch(node) for node in self.nodes), "a node's name has no space, comma or =")

    def require(self, holds: bool, otherwise: str) -> None:
        if not holds:
            raise UsageError(f"fault {str(self)!r}: {otherwise}")

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        raise NotImplementedError

    def words(self) -> list[str]:
        """What follows the nodes in the text form."""
        return []

    def __str__(self) -> str:
        until = "" if self.until == FOR_EVER else number_text(self.until)
        return " ".join([f"{number_text(self.at)}..{until}", self.kind, ",".join(self.nodes), *self.words()])


class Striking(Timed, frozen=True):
    """A fault of one node."""

    node: NodeId

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        return (self.node,)


class Crash(Striking, frozen=True):
    forgetting: bool = False
    silent: bool = False

    kind = "crash"

    def words(self) -> list[str]:
        return [name for name in CRASH_WORDS if getattr(self, name)]


class Pause(Striking, frozen=True):
    kind = "pause"


class Partition(Timed, frozen=True):
    """`direction` is seen from the nodes that are cut off."""

    side: tuple[NodeId, ...]
    direction: str = "both"

    kind = "partition"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.direction in DIRECTIONS, f"its direction is {', '.join(DIRECTIONS)}")

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        return self.side

    def words(self) -> list[str]:
        return [] if self.direction == "both" else [self.direction]

    def cuts(self, sender: NodeId, to: NodeId) -> bool:
        sends, hears = sender in self.side, to in self.side
        return sends != hears and self.direction != ("incoming" if sends else "outgoing")


class Break(Timed, frozen=True):
    """What was on its way between the two is lost, and both ends hear of it at once."""

    one: NodeId
    other: NodeId

    kind = "break"

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        return self.one, self.other


class Clog(Striking, frozen=True):
    kind = "clog"


class Skew(Striking, frozen=True):
    """Seconds by which the clock jumps, and seconds that it then gains (or loses, below 0) in each second."""

    offset: float = 0.0
    drift: float = 0.0

    kind = "clock"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(math.isfinite(self.offset), "an offset is a number of seconds")
        self.require(self.offset >= 0 or self.at == 0, "an offset below 0 is possible at time 0 only")
        self.require(-1 < self.drift < math.inf, "a drift of -1 or less would stop the clock")

    def words(self) -> list[str]:
        return [f"offset={number_text(self.offset)}", f"drift={number_text(self.drift)}"]


class SlowDisk(Striking, frozen=True):
    delay: float

    kind = "slow-disk"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(0 <= self.delay < math.inf, "its delay is a number of seconds from 0")

    def words(self) -> list[str]:
        return [f"delay={number_text(self.delay)}"]


class FullDisk(Striking, frozen=True):
    kind = "full-disk"


class Corrupt(Striking, frozen=True):
    probability: float

    kind = "corrupt"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(0 <= self.probability <= 1, "a probability is a number from 0 to 1")

    def words(self) -> list[str]:
        return [f"probability={number_text(self.probability)}"]


Fault = Crash | Pause | Partition | Break | Clog | Skew | SlowDisk | FullDisk | Corrupt


class FaultPlan(msgspec.Struct, frozen=True):
    """Faults in order of their beginning; `plan_of` puts them into it."""

    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        if len(self.faults) > FAULTS_MAX:
            raise UsageError(f"a plan of {len(self.faults)} faults, at most {FAULTS_MAX} are allowed")

    @property
    def over_at(self) -> float:
        """When the last fault is over; one that lasts for ever counts with its beginning."""
        return max((fault.at if fault.until == FOR_EVER else fault.until for fault in self.faults), default=0.0)

    def text(self) -> str:
        """One line, from which `parse_plan` reads the same plan."""
        return "; ".join(str(fault) for fault in self.faults)

    def without(self, places: range) -> "FaultPlan":
        return FaultPlan(tuple(fault for place, fault in enumerate(self.faults) if place not in places))

    def shortened(self, place: int) -> "FaultPlan | None":
        """The fault at this place takes half its time; None when it cannot be cut to whole milliseconds."""
        fault = self.faults[place]
        if fault.until == FOR_EVER:
            return None
        until = round((fault.at + fault.until) / 2, 3)
        if not fault.at < until < fault.until:
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
            elif there.issuperset(fault.nodes):
                kept.append(fault)
        return FaultPlan(tuple(kept))


def plan_of(faults: list[Fault]) -> FaultPlan:
    """The plan of these faults; those that begin together stay in the order in which they are given."""
    return FaultPlan(tuple(sorted(faults, key=lambda fault: fault.at)))


def crashes_of(absences: list[Absence], forgetting: bool = False) -> list[Fault]:
    """Churn as faults, in whole milliseconds; what is shorter is left out."""
    spans = [(round(absence.begin, 3), round(absence.end, 3), absence.node) for absence in absences]
    return [Crash(begin, end, node, forgetting) for begin, end, node in spans if begin < end]


def number_text(value: float) -> str:
    """The shortest text from which the same number is read."""
    return repr(float(value)).removesuffix(".0")


FAULT_TEXT = re.compile(r"(?P<at>[^\s.]\S*?)\.\.(?P<until>\S*)\s+(?P<kind>\S+)\s+(?P<nodes>\S+)(?P<words>(\s+\S+)*)")
EXAMPLE = "write a fault as in: 2.5..7.1 crash n3 forgetting"

Reader = Callable[[float, float, tuple[NodeId, ...], list[str]], Fault]


def parse_plan(text: str) -> FaultPlan:
    """Faults apart by semicolons or line ends."""
    return plan_of([parse_fault(part.strip()) for part in re.split(r"[;\n]", text) if part.strip()])


def parse_fault(text: str) -> Fault:
    found = FAULT_TEXT.fullmatch(text)
    if found is None:
        raise UsageError(f"fault {text!r}: {EXAMPLE}")
    read = READERS.get(found["kind"])
    if read is None:
        raise UsageError(f"fault {text!r}: there is no {found['kind']!r}; the kinds are {', '.join(READERS)}")
    try:
        at = float(found["at"])
        until = float(found["until"]) if found["until"] else FOR_EVER
    except ValueError:
        raise UsageError(f"fault {text!r}: its times are no numbers; {EXAMPLE}") from None
    try:
        return read(at, until, tuple(found["nodes"].split(",")), found["words"].split())
    except UsageError:
        raise
    except ValueError as problem:
        raise UsageError(f"fault {text!r}: {problem}") from None


def read_crash(at: float, until: float, nodes: tuple[NodeId, ...], words: list[str]) -> Fault:
    if not set(CRASH_WORDS).issuperset(words):
        raise ValueError(f"after the node of a crash comes nothing, or {' and '.join(CRASH_WORDS)}")
    return Crash(at, until, only(nodes), **dict.fromkeys(words, True))


def read_partition(at: float, until: float, nodes: tuple[NodeId, ...], words: list[str]) -> Fault:
    if len(words) > 1:
        raise ValueError(f"after the nodes of a partition comes at most one of {', '.join(DIRECTIONS)}")
    return Partition(at, until, nodes, *words)


def read_break(at: float, until: float, nodes: tuple[NodeId, ...], words: list[str]) -> Fault:
    if len(nodes) != 2 or words:
        raise ValueError("this strikes the connection of two nodes; write both of them, and nothing else")
    return Break(at, until, *nodes)


def read_striking(kind: Callable[..., Fault], *names: str) -> Reader:
    """A fault of one node that takes these numbers."""

    def read(at: float, until: float, nodes: tuple[NodeId, ...], words: list[str]) -> Fault:
        settings = dict(word.split("=", 1) for word in words if "=" in word)
        if list(settings) != [word.partition("=")[0] for word in words] or not set(names).issuperset(settings):
            allowed = " ".join(f"{name}=NUMBER" for name in names) or "nothing"
            raise ValueError(f"{' '.join(words)!r} is not known here; after the node comes {allowed}")
        try:
            return kind(at, until, only(nodes), **{name: float(value) for name, value in settings.items()})
        except TypeError:
            raise ValueError(f"{' and '.join(names)} is missing") from None

    return read


def only(nodes: tuple[NodeId, ...]) -> NodeId:
    if len(nodes) != 1:
        raise ValueError("this strikes one node; write a fault for each")
    return nodes[0]


READERS: dict[str, Reader] = {
    Crash.kind: read_crash,
    Pause.kind: read_striking(Pause),
    Partition.kind: read_partition,
    Break.kind: read_break,
    Clog.kind: read_striking(Clog),
    Skew.kind: read_striking(Skew, "offset", "drift"),
    SlowDisk.kind: read_striking(SlowDisk, "delay"),
    FullDisk.kind: read_striking(FullDisk),
    Corrupt.kind: read_striking(Corrupt, "probability"),
}
