"""All workloads by name, so that commands and experiments can list them, make them, and read them back."""

from collections.abc import Mapping

import msgspec

from tidings.model.errors import UsageError
from tidings.workloads.content import TypedContent
from tidings.workloads.dependable import Geps, Itt, PopSub, Psdg
from tidings.workloads.interests import Readership, SocialGraph
from tidings.workloads.latencies import LatencyTree
from tidings.workloads.machines import Machines
from tidings.workloads.patterns import Patterns
from tidings.workloads.popularity import Drifting, StarPopularity
from tidings.workloads.quotes import Quotes
from tidings.workloads.recorded import Birdstrikes, Feeds, Flights, Quakes, Stars, StockQuotes
from tidings.workloads.topology_changes import TopologyChange
from tidings.workloads.transport import RareMatches, RisingLoad, SharedInterests
from tidings.workloads.workload import Workload

Synthetic = (
    TypedContent
    | Geps
    | PopSub
    | Itt
    | TopologyChange
    | Psdg
    | RisingLoad
    | RareMatches
    | SharedInterests
    | Patterns
    | Readership
    | SocialGraph
    | Quotes
    | Drifting
    | Machines
)
Real = StarPopularity | LatencyTree | Flights | Quakes | Birdstrikes | Feeds | Stars | StockQuotes
AnyWorkload = Synthetic | Real

WORKLOADS: Mapping[str, type[Workload]] = {
    str(kind.__struct_config__.tag): kind for kind in (*Synthetic.__args__, *Real.__args__)
}
"""Name to class. Every parameter has a default, so `WORKLOADS[name]()` is a workload."""


def make(name: str, parameters: Mapping[str, object] | None = None) -> Workload:
    """The workload of that name with these parameters, checked; text is read as a number where a number is meant."""
    if name not in WORKLOADS:
        raise UsageError(f"there is no workload {name!r}; choose from {', '.join(sorted(WORKLOADS))}")
    kind, given = WORKLOADS[name], dict(parameters or {})
    for unknown in sorted(given.keys() - set(kind.__struct_fields__)):
        raise UsageError(f"{name} has no parameter {unknown!r}; it has {', '.join(kind.__struct_fields__)}")
    try:
        return msgspec.convert({**given, "type": name}, kind, strict=False)
    except msgspec.ValidationError as problem:
        raise UsageError(f"{name}: {problem}") from None


def describe(name: str) -> str:
    """One sentence."""
    return (WORKLOADS[name].__doc__ or "").partition("\n")[0]


def encode(workload: Workload) -> str:
    return msgspec.json.encode(workload, order="sorted").decode()


def decode(text: str) -> Workload:
    """What `encode` wrote."""
    try:
        workload: Workload = msgspec.json.decode(text, type=AnyWorkload)
    except msgspec.ValidationError as problem:
        raise UsageError(f"this is no workload: {problem}") from None
    return workload
