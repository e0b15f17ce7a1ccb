"""The few tables that metrics work on, made from a trace.

Rows are selected by `Family.rows`; here their fields are taken out of `detail`, which is JSON text. A field that is
missing, or of another type than it should be, is null, and so are all fields of a detail that is no JSON object (one
that was too long to be kept, for instance).

Two kinds of row tell of events: `publish` and `deliver` rows with the message "Event", which share the event's key. A
`deliver` row says in its detail who published it, under which number, and for which subscription it came; protocols add
what they know besides: `hops` it made between brokers, `via` which way it came, `repaired` if it was recovered after a
loss, `latch` and `hold` (how long it was to wait for earlier ones, and did).

All other facts come as notes, whose kinds and fields `pubsub/notes.py` defines: metrics name the class of a note, and
take names and types of fields from it. Times and spans are seconds.
"""

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import TYPE_CHECKING, get_args, get_type_hints

from tidings.machine.effects import Note, note_name
from tidings.model.errors import UsageError
from tidings.spark.metrics.values import millionths
from tidings.trace.things import IN_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVENT = "Event"
PUBLISH, DELIVER = ("publish", EVENT), ("deliver", EVENT)
SEND, RECEIVE, DROP = ("send", None), ("receive", None), ("drop", None)

DATA_MESSAGES = ("Block", "Delivery", "DirectPublish", "History", "Publications", "Publish", "PullReply", "Update")
"""Messages that carry events, or blocks of files; all others are control messages."""

IS_DATA = f"message IN ({', '.join(repr(name) for name in DATA_MESSAGES)})"
IS_DELIVER = "kind = 'deliver'"

TIME_US = f"{millionths('time')} AS time_us"

Fields = Mapping[str, str]

DELIVERED: Fields = {
    "publisher": "STRING",
    "number": "BIGINT",
    "subscription": "STRING",
    "accepted_at": "DOUBLE",
    "hops": "BIGINT",
    "via": "STRING",
    "repaired": "BOOLEAN",
    "latch": "DOUBLE",
    "hold": "DOUBLE",
    "late": "BOOLEAN",
}
"""What a `deliver` row says of an event."""

REROUTING: Fields = {"reconfiguration": "STRING", "patterns": "BIGINT"}
"""What messages say that a reconfiguration makes brokers send: its name, and the filters that the message carries."""

SQL_TYPES = {str: "STRING", int: "BIGINT", float: "DOUBLE", bool: "BOOLEAN"}


def is_note(kind: type[Note]) -> str:
    return f"(kind = 'note' AND message = '{note_name(kind)}')"


def note(kind: type[Note]) -> tuple[str, str]:
    """For `Family.reads`."""
    return "note", note_name(kind)


def fields_of(*sources: type[Note] | Fields, only: str = "") -> str:
    """The fields of these notes and rows for `with_fields`: all of them, or those that are named."""
    known = [source if isinstance(source, Mapping) else note_fields(source) for source in sources]
    names = only.split() or list(dict.fromkeys(name for fields in known for name in fields))
    columns = []
    for name in names:
        types = {fields[name] for fields in known if name in fields}
        # A number is as good as its digits.
        chosen = {"STRING"} if types == {"STRING", "BIGINT"} else types
        if len(chosen) != 1:
            raise UsageError(f"fields_of: no field {name}, or one of two types; tidings.pubsub.notes defines them")
        columns.append(f"`{name}` {chosen.pop()}")
    return ", ".join(columns)


def note_fields(kind: type[Note]) -> Fields:
    """What is in the detail of its rows, as far as metrics can read it."""
    found = {}
    for name, hint in get_type_hints(kind).items():
        plain = next(part for part in get_args(hint) if part is not NoneType) if isinstance(hint, UnionType) else hint
        if plain in SQL_TYPES and name not in IN_COLUMNS:
            found[name] = SQL_TYPES[plain]
    return found


def with_fields(rows: "DataFrame", fields: str, where: str | None = None) -> "DataFrame":
    """The columns of a trace, the time in microseconds, and `said`, a struct of the fields (`fields_of`); text is only
    parsed where the condition holds."""
    parsed = f"from_json(detail, '{fields}')"
    said = parsed if where is None else f"CASE WHEN {where} THEN {parsed} END"
    return rows.selectExpr("run", "time", "node", "kind", "message", "key", "size_bytes", TIME_US, f"{said} AS said")


def due_pairs(expected: "DataFrame") -> "DataFrame":
    """What is due: run, key, node, and `is_due`, which is true. A pair may be there twice, as it may in `expected`."""
    return expected.where("key IS NOT NULL AND node IS NOT NULL").selectExpr("run", "key", "node", "true AS is_due")
