"""The few tables that metrics work on, made from a trace.

Rows are selected by `Family.rows`; here their fields are taken out of `detail`, which is JSON text. A field that is
missing, or of another type than it should be, is null, and so are all fields of a detail that is no JSON object (one
that was too long to be kept, for instance).

Two kinds of row tell of events: `publish` and `deliver` rows with the message "Event", which share the event's key. A
`deliver` row says in its detail who published it, under which number, and for which subscription it came; protocols add
what they know besides: `hops` it made between brokers, `via` which way it came, `repaired` if it was recovered after a
loss, `latch` and `hold` (how long it was to wait for earlier ones, and did).

All other facts come as notes. A note's name is the `message` of its row, what it says is in `detail`; the modules of
the families list the notes they read. Times and spans there are seconds.
"""

from typing import TYPE_CHECKING

from tidings.spark.metrics.values import millionths

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVENT = "Event"
PUBLISH, DELIVER = ("publish", EVENT), ("deliver", EVENT)
SEND, RECEIVE, DROP = ("send", None), ("receive", None), ("drop", None)

DATA_MESSAGES = ("Block", "Delivery", "DirectPublish", "History", "Publications", "Publish", "PullReply", "Update")
"""Messages that carry events, or blocks of files; all others are control messages."""

IS_DATA = f"message IN ({', '.join(repr(name) for name in DATA_MESSAGES)})"
IS_PUBLISH, IS_DELIVER = "kind = 'publish'", "kind = 'deliver'"

TIME_US = f"{millionths('time')} AS time_us"


def is_note(name: str) -> str:
    return f"(kind = 'note' AND message = '{name}')"


def note(name: str) -> tuple[str, str]:
    """For `Family.reads`."""
    return "note", name


def with_fields(rows: "DataFrame", fields: str, where: str | None = None) -> "DataFrame":
    """The columns of a trace, the time in microseconds, and `said`, a struct of the fields (`a BIGINT, b STRING`); text
    is only parsed where the condition holds."""
    parsed = f"from_json(detail, '{fields}')"
    said = parsed if where is None else f"CASE WHEN {where} THEN {parsed} END"
    return rows.selectExpr("run", "time", "node", "kind", "message", "key", "size_bytes", TIME_US, f"{said} AS said")


def due_pairs(expected: "DataFrame") -> "DataFrame":
    """What is due: run, key, node, and `is_due`, which is true. A pair may be there twice, as it may in `expected`."""
    return expected.where("key IS NOT NULL AND node IS NOT NULL").selectExpr("run", "key", "node", "true AS is_due")
