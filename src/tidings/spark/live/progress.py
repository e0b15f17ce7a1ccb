"""How far a query is behind its publishers, and whom it cannot ask.

Spark reports, with the progress of each micro-batch, where the batch ended and how far brokers had come when we last
asked: `sources[...].endOffset` and `latestOffset`, also in listeners and in Spark's UI, beside its own rates
(`inputRowsPerSecond`, `processedRowsPerSecond`). Python sources cannot add numbers of their own to that (what reads a
stream for Spark 4.3, `PythonMicroBatchStream`, is none of those that may: it does not implement
`ReportsSourceMetrics`, and what a task tells Spark of a Python source are the figures of its worker alone). So what
there is more to say stands in `latestOffset`, and the difference is taken here:

    {"after": {"desk": 4713}, "absent": ["b"], "unreachable": 2}

    spark.streams.addListener(LagListener())          # a line in the log for each report; or LagListener(take)

tells with each report how far behind a query is, and how fast it goes.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from pyspark.sql.streaming.listener import StreamingQueryListener

from tidings.spark.live.offsets import FoundMarks, Offset

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("tidings.spark.live")


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
    return behind_of(sources_of(query.lastProgress))


def absent_brokers(query: "StreamingQuery") -> list[str]:
    """Brokers that could not be asked when the query last reported: what is stored there is read when they are back."""
    return absent_of(sources_of(query.lastProgress))


def sources_of(progress: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    return list(progress["sources"]) if progress is not None else []


def behind_of(sources: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    behind: dict[str, int] = {}
    for source in sources:
        end, latest = read_report(source["endOffset"], Offset), read_report(source["latestOffset"], MarksReached)
        if latest is None:
            continue
        read = end.after if end is not None else {}
        for publisher, through in sorted(latest.after.items()):
            behind[publisher] = max(0, through - read.get(publisher, 0))
    return behind


def absent_of(sources: Iterable[Mapping[str, Any]]) -> list[str]:
    found = (read_report(source["latestOffset"], MarksReached) for source in sources)
    return sorted({broker for latest in found if latest is not None for broker in latest.absent})


class QueryLag(msgspec.Struct, frozen=True):
    """What a report says of a query that reads from brokers."""

    query: str
    """Its name, or its id if it has none."""
    batch: int
    behind: dict[str, int]
    """As `lag`."""
    absent: list[str]
    """As `absent_brokers`."""
    rows: int
    rows_per_second_in: float
    rows_per_second_done: float


def query_lag(progress: Mapping[str, Any]) -> QueryLag | None:
    """None for a query that reads nothing from brokers."""
    sources = sources_of(progress)
    ours = [it for it in sources if read_report(it["latestOffset"], MarksReached) is not None]
    if not ours:
        return None
    return QueryLag(
        query=progress["name"] or str(progress["id"]),
        batch=progress["batchId"],
        behind=behind_of(ours),
        absent=absent_of(ours),
        rows=sum(it["numInputRows"] for it in ours),
        # Spark has no number for the rate of the first batch.
        rows_per_second_in=sum(rate_of(it["inputRowsPerSecond"]) for it in ours),
        rows_per_second_done=sum(rate_of(it["processedRowsPerSecond"]) for it in ours),
    )


def rate_of(told: float | None) -> float:
    return told if told is not None and isfinite(told) else 0.0


def log_lag(told: QueryLag) -> None:
    log.info(
        "query %s, batch %d: %d rows, %.0f a second in, %.0f done; %d numbers of %d publishers behind; absent: %s",
        *(told.query, told.batch, told.rows, told.rows_per_second_in, told.rows_per_second_done),
        *(sum(told.behind.values()), sum(1 for it in told.behind.values() if it), ", ".join(told.absent) or "nobody"),
    )


class LagListener(StreamingQueryListener):
    """Hands what each report says to `take`."""

    def __init__(self, take: Callable[[QueryLag], None] = log_lag) -> None:
        self.take = take

    def onQueryProgress(self, event: Any) -> None:
        told = query_lag(event.progress)
        if told is not None:
            self.take(told)

    def onQueryStarted(self, event: Any) -> None:
        """There is nothing to say yet."""

    def onQueryIdle(self, event: Any) -> None:
        """Nothing is new."""

    def onQueryTerminated(self, event: Any) -> None:
        """Spark says that itself."""


Report = TypeVar("Report", Offset, MarksReached)


def read_report(reported: Any, kind: type[Report]) -> Report | None:
    """None for what a source of another format reports."""
    try:
        if isinstance(reported, str):
            return msgspec.json.decode(reported, type=kind)
        return msgspec.convert(reported, kind)
    except (msgspec.ValidationError, msgspec.DecodeError):
        return None
