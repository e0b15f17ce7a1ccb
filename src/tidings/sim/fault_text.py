"""Fault plans from text: what `str(fault)` and `plan.text()` write, read back, and what a person types.

The form is shown at the top of `faults.py`. Whatever is wrong is said with the text of the fault and what is allowed
in that place.
"""

import re
from collections.abc import Callable

from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.sim.faults import (
    CRASH_WORDS,
    DIRECTIONS,
    Clog,
    Corrupt,
    Crash,
    Fault,
    FaultPlan,
    Partition,
    Pause,
    Skew,
    SlowDisk,
    plan_of,
)
from tidings.workloads.churn import FOR_EVER

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
    Clog.kind: read_striking(Clog),
    Skew.kind: read_striking(Skew, "offset", "drift"),
    SlowDisk.kind: read_striking(SlowDisk, "delay"),
    Corrupt.kind: read_striking(Corrupt, "probability"),
}
