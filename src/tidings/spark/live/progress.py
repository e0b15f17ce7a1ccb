"""How far a query is behind its publishers, and whom it cannot ask.

Spark reports, with the progress of each micro-batch, where the batch ended and how far brokers had come when we last
asked: `sources[...].endOffset` and `latestOffset`, also in listeners and in Spark's UI, beside its own rates
(`inputRowsPerSecond`, `processedRowsPerSecond`). Python sources cannot add numbers of their own to that (what reads a
stream for Spark 4.3 does not report metrics of its source), so what there is more to say stands in `latestOffset`, and
the difference is taken here:

    {"after": {"desk": 4713}, "absent": ["b"], "unreachable": 2}
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from tidings.spark.live.offsets import FoundMarks, Offset

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class MarksReached(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How far publishers had come."""

    after: dict[str, int]
    absent: list[str] = []
    """Brokers that should have answered and did not."""
    unreachable: int = 0
    """Publishers of which nothing is known because of that."""


def reached(found: FoundMarks) -> dict[str, Any]:
    """For Spark."""
    after = {mark.publisher: mark.through for mark in found.marks}
    made: dict[str, Any] = msgspec.to_builtins(MarksReached(after, sorted(found.absent), len(found.unreachable)))
    return made


def lag(query: "StreamingQuery") -> dict[str, int]:
    """For each publisher, how many of its numbers were not read yet when the query last reported; 0 for none. Numbers
    have holes, so that there may be fewer events. Empty before the first report."""
    behind: dict[str, int] = {}
    for source in sources_of(query):
        end, latest = read_report(source["endOffset"], Offset), read_report(source["latestOffset"], MarksReached)
        if latest is None:
            continue
        read = end.after if end is not None else {}
        for publisher, through in sorted(latest.after.items()):
            behind[publisher] = max(0, through - read.get(publisher, 0))
    return behind


def absent_brokers(query: "StreamingQuery") -> list[str]:
    """Brokers that could not be asked when the query last reported: what is stored there is read when they are back."""
    found = (read_report(source["latestOffset"], MarksReached) for source in sources_of(query))
    return sorted({broker for latest in found if latest is not None for broker in latest.absent})


def sources_of(query: "StreamingQuery") -> Iterator[Any]:
    progress = query.lastProgress
    return iter(progress["sources"] if progress is not None else ())


Report = TypeVar("Report", Offset, MarksReached)


def read_report(reported: Any, kind: type[Report]) -> Report | None:
    """None for what a source of another format reports."""
    try:
        if isinstance(reported, str):
            return msgspec.json.decode(reported, type=kind)
        return msgspec.convert(reported, kind)
    except (msgspec.ValidationError, msgspec.DecodeError):
        return None
