"""Columns as attributes: which types a column may have, and which values.

    byte, short, int, long    an integer
    float, double             a number; a float is the double of exactly the same value
    string                    a string (also char and varchar)
    boolean                   TRUE or FALSE
    null                      the attribute is absent

Other types have no one reading as an attribute, so they are refused where a filter asks for such a column, with what to
cast it to: only the caller knows whether a decimal may be rounded and how a timestamp is to be spelled. Columns that
no filter asks for are not looked at and may hold anything.

A row has to be an event that somebody could have published, or its answer would depend on which filter is asked
first. So what `Event` refuses is refused here, for the columns that filters ask for: NaN and infinity, a string over
64 KiB, and a context attribute of CloudEvents that is empty or no string or, for `time`, no RFC 3339 time.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tidings.model.bounds import ATTRIBUTES_MAX, STRING_BYTES_MAX
from tidings.model.errors import UsageError
from tidings.model.event import CONTEXT_NAMES, check_context

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

TYPES = ("byte", "short", "integer", "long", "float", "double", "string", "char", "varchar", "boolean")
"""Spark's names of the types that a column may have."""

ADVICE = {
    "decimal": "cast it to double, or to string if its digits matter",
    "timestamp": "write it as text, such as date_format(column, \"yyyy-MM-dd'T'HH:mm:ss'Z'\") for times in UTC",
    "timestamp_ntz": "write it as text, such as date_format(column, \"yyyy-MM-dd'T'HH:mm:ss'Z'\") for times in UTC",
    "date": "cast it to string",
    "binary": "it can be no attribute; leave it out of the filters or decode it to string",
    "void": "cast it to the type it would have",
    "null": "cast it to the type it would have",
}
ADVICE_ELSE = "take out the fields that filters ask for, as columns of their own"


def attribute_columns(columns: Sequence[tuple[str, "DataType"]], names: Sequence[str]) -> list[int]:
    """Where the columns stand that filters ask for by these names; UsageError if one cannot be an attribute."""
    wanted = set(names)
    found: dict[str, int] = {}
    for place, (name, kind) in enumerate(columns):
        if name not in wanted:
            continue
        if name in found:
            raise UsageError(f"events: two columns are called {name!r}, for which filters ask; rename one of them")
        check_type(name, kind)
        found[name] = place
    return list(found.values())


def check_type(name: str, kind: "DataType") -> None:
    told = kind.typeName()
    if told not in TYPES:
        advice = ADVICE.get(told, ADVICE_ELSE)
        raise UsageError(f"events: filters ask for column {name!r}, which has type {kind.simpleString()}; {advice}")
    if name in CONTEXT_NAMES and told not in ("string", "char", "varchar"):
        raise UsageError(
            f"events: column {name!r} is a context attribute of CloudEvents and has to be a string, "
            f"not {kind.simpleString()}; cast it or rename it"
        )


def check_values(columns: Mapping[str, Any]) -> None:
    """UsageError if a row is no event that could be published."""
    for name, column in columns.items():
        if pa.types.is_floating(column.type):
            if not pc.all(pc.is_finite(column)).as_py() and column.null_count < len(column):
                raise UsageError(f"events: column {name!r} holds NaN or infinity; put null where there is no number")
        elif not (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
            check_strings(name, column)
    if len(columns) > ATTRIBUTES_MAX and max(filled_counts(columns)) > ATTRIBUTES_MAX:
        raise UsageError(
            f"events: a row has more than {ATTRIBUTES_MAX} attributes that filters ask for, which no event has; "
            "match the subscriptions in parts"
        )


def check_strings(name: str, column: Any) -> None:
    lengths = pc.min_max(pc.binary_length(column)).as_py()
    if (lengths["max"] or 0) > STRING_BYTES_MAX:
        raise UsageError(
            f"events: column {name!r} holds a string of {lengths['max']} bytes, at most {STRING_BYTES_MAX} are allowed"
        )
    if name in CONTEXT_NAMES and (lengths["min"] == 0 or name == "time"):
        for text in pc.unique(column.drop_null()).to_pylist():
            check_context(name, text)


def filled_counts(columns: Mapping[str, Any]) -> list[int]:
    """For each row how many columns hold a value."""
    counts = None
    for column in columns.values():
        filled = column.is_valid().cast(pa.int32())
        counts = filled if counts is None else pc.add(counts, filled)
    return [0] if counts is None else [0, *counts.to_pylist()]
