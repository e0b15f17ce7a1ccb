"""How far a query is behind its publishers.

Spark reports, with the progress of each micro-batch, where the batch ended and how far brokers had come when we last
asked (`sources[...].endOffset` and `latestOffset`; also in listeners and in Spark's UI). Python sources cannot add
numbers of their own to that, so the difference is taken here.
"""

from typing import TYPE_CHECKING, Any

import msgspec

from tidings.spark.live.offsets import Offset

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


def lag(query: "StreamingQuery") -> dict[str, int]:
    """For each publisher, how many of its numbers were not read yet when the query last reported; 0 for none. Numbers
    have holes, so that there may be fewer events. Empty before the first report."""
    progress = query.lastProgress
    behind: dict[str, int] = {}
    for source in progress["sources"] if progress is not None else ():
        end, latest = position(source["endOffset"]), position(source["latestOffset"])
        if latest is None:
            continue
        read = end.after if end is not None else {}
        for publisher, through in sorted(latest.after.items()):
            behind[publisher] = max(0, through - read.get(publisher, 0))
    return behind


def position(reported: Any) -> Offset | None:
    """None for what a source of another format reports."""
    try:
        if isinstance(reported, str):
            return msgspec.json.decode(reported, type=Offset)
        return msgspec.convert(reported, Offset)
    except (msgspec.ValidationError, msgspec.DecodeError):
        return None
