"""What all metrics are written in: the tables they work on, made from a trace, and pieces of SQL for numbers.

Rows are selected by `Family.rows`; here their fields are taken out of `detail`, which is JSON text. A field that is
missing, or of another type than it should be, is null, and so are all fields of a detail that is no JSON object (one
that was too long to be kept, for instance).

Two kinds of row tell of events: `publish` and `deliver` rows with the message "Event", which share the event's key. A
`deliver` row says in its detail who published it, under which number, and for which subscription it came; protocols add
what they know besides: `hops` it made between brokers, `via` which way it came, `repaired` if it was recovered after a
loss, `latch` and `hold` (how long it was to wait for earlier ones, and did).

All other facts come as notes, whose kinds and fields `pubsub/notes.py` defines: metrics name the class of a note, and
take names and types of fields from it. Times and spans are seconds.

**Numbers that come out the same however the rows are spread.** Sums of floats depend on the order in which they are
added. So everything that is added up is an integer: a time in microseconds, a ratio in millionths. A percentile is
exact, but of values that are first cut to four significant digits; the table of distinct values that Spark keeps for it
then has some thousands of entries for each power of ten, however many values there are. Between two neighbouring values
it is interpolated, as numpy does by default: the median of 1 and 2 is 1.5. With a share in hundredths that is a whole
number of hundredths, to which it is rounded because of the last digits of a float. Each function takes and gives the
text of an SQL expression.
"""

from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import TYPE_CHECKING, get_args, get_type_hints

from tidings.machine.effects import Note, note_name
from tidings.model.errors import UsageError
from tidings.trace.things import IN_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DIGITS = 4
"""Significant digits that a percentile sees."""

HUNDRED = 100
"""Shares of percentiles are whole hundredths."""

MILLION = 1_000_000
CUT_POWERS = range(1, 16)
"""Powers of ten by which a value may have to be cut: microseconds of three hundred years have 16 digits."""


def millionths(value: str) -> str:
    """The nearest whole number of millionths; of seconds, microseconds."""
    return f"floor(({value}) * {MILLION}D + 0.5D)"


def cut(value: str) -> str:
    """An integer without what follows its first four digits."""
    cases = " ".join(
        f"WHEN abs({value}) < {10 ** (DIGITS + power)} THEN {value} - {value} % {10**power}" for power in CUT_POWERS
    )
    return f"CASE WHEN abs({value}) < {10**DIGITS} THEN {value} {cases} END"


def percentiles(value: str, *shares: float, times: str = "") -> str:
    """An array, one percentile for each share; null if there are no values. A row counts once, or so many times."""
    asked = f"{cut(value)}, array({', '.join(f'{share}D' for share in shares)})"
    exact = f"percentile({asked}, {times})" if times else f"percentile({asked})"
    return f"transform({exact}, each -> floor(each * {HUNDRED}D + 0.5D) / {HUNDRED}D)"


def percentile(value: str, share: float) -> str:
    return f"{percentiles(value, share)}[0]"


def seconds(microseconds: str) -> str:
    return f"({microseconds}) / {MILLION}"


def fraction(millionths: str) -> str:
    return f"({millionths}) / {MILLION}"


def mean(value: str) -> str:
    """Null if there is nothing to average."""
    return f"try_divide(sum({value}), count({value}))"


def rounded(value: str) -> str:
    """As an integer, so that it can be summed again."""
    return f"floor({value} + 0.5D)"


def rounded_mean(value: str) -> str:
    return rounded(mean(value))


def spread(name: str, value: str, *per_cent: int, unit: Callable[[str], str] = str) -> dict[str, str]:
    """The columns `name_mean`, and `name_p50` and so on for these percentiles."""
    found = percentiles(value, *(each / 100 for each in per_cent))
    places = {f"{name}_p{each}": unit(f"{found}[{place}]") for place, each in enumerate(per_cent)}
    return {f"{name}_mean": unit(mean(value)), **places}


def when(condition: str, value: str) -> str:
    """Null where the condition does not hold."""
    return f"CASE WHEN {condition} THEN {value} END"


def share(part: str, whole: str) -> str:
    """Null if the whole is nothing."""
    return f"try_divide({part}, {whole})"


def jain(value: str, count: str) -> str:
    """Jain's index of fairness, (sum x)^2 / (n sum x^2): 1 if all have the same, 1/n if one has everything. Squares are
    decimals: a long overflows at three thousand million."""
    total = f"CAST(sum({value}) AS DOUBLE)"
    squares = f"sum(CAST({value} AS DECIMAL(18, 0)) * CAST({value} AS DECIMAL(18, 0)))"
    return f"try_divide({total} * {total}, {count} * CAST({squares} AS DOUBLE))"


EVENT = "Event"
PUBLISH, DELIVER = ("publish", EVENT), ("deliver", EVENT)
SEND, RECEIVE, DROP = ("send", None), ("receive", None), ("drop", None)

DATA_MESSAGES = ("Block", "Delivery", "DirectPublish", "History", "Publications", "Publish", "PullReply", "Update")
"""Messages that carry events, or blocks of files; all others are control messages."""

IS_DATA = f"message IN ({', '.join(repr(name) for name in DATA_MESSAGES)})"
IS_DELIVER = "kind = 'deliver'"

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

TIME_US = f"{millionths('time')} AS time_us"


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


def with_fields(rows: "DataFrame", fields: str, where: str | None = None, *, also: Sequence[str] = ()) -> "DataFrame":
    """The columns of a trace that most metrics read (and `also` these), the time in microseconds, and `said`, a struct
    of the fields (`fields_of`); text is only parsed where the condition holds."""
    parsed = f"from_json(detail, '{fields}')"
    said = parsed if where is None else f"CASE WHEN {where} THEN {parsed} END"
    columns = ("run", "time", "node", "kind", "message", "key", "size_bytes", *also)
    return rows.selectExpr(*columns, TIME_US, f"{said} AS said")


def due_pairs(expected: "DataFrame") -> "DataFrame":
    """What is due: run, key, node, and `is_due`, which is true. A pair may be there twice, as it may in `expected`."""
    return expected.where("key IS NOT NULL AND node IS NOT NULL").selectExpr("run", "key", "node", "true AS is_due")
