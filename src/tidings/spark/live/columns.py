"""Which columns an event has.

    publisher string, number long          who published it, under which of its numbers: no two events share both
    accepted_at timestamp                  when the network took it from its publisher
    id, source, type, subject, datacontenttype, dataschema string, time timestamp            CloudEvents
    one column for each attribute          string, long, double or boolean
    payload binary

A schema that is given may name any of them in any order; names that are not listed above are attributes. Where none is
given, attributes come from what publishers have advertised: `magnitude >= 4 AND place LIKE '%Chile%'` makes a double
and a string. A number is always a double, since an advertisement bounds values and says nothing about fractions;
whoever wants a long gives a schema. An attribute that is advertised in several ways, or only as existing, is a string,
which every value can be read as.

**A column reads values as a filter does** (`model/values.py`): 5 in a string column is "5", "5" in a double column is
5.0, TRUE in a long column is 1. A value that has no such reading (the text IBM in a double column, 2.5 in a long one)
is null. So a condition on a column and the same condition in a filter mean the same, and Spark's conditions can be
given to the broker (`predicates.py`).

`id` and `source` of an event that has none are its number and its publisher, as everywhere.
"""

from collections.abc import Iterable

import msgspec
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidings.model.errors import UsageError
from tidings.model.event import CONTEXT_NAMES
from tidings.model.language.parser import parse
from tidings.model.sets.constraint import Constraint
from tidings.model.values import check_name

PUBLISHER, NUMBER, ACCEPTED_AT, PAYLOAD, TIME = "publisher", "number", "accepted_at", "payload", "time"
FILLED_IN = ("id", "source")
"""Attributes that every event has in the end."""

FIXED: dict[str, DataType] = {
    PUBLISHER: StringType(),
    NUMBER: LongType(),
    ACCEPTED_AT: TimestampType(),
    **{name: TimestampType() if name == TIME else StringType() for name in CONTEXT_NAMES},
    PAYLOAD: BinaryType(),
}
OF_THE_NETWORK = (PUBLISHER, NUMBER, ACCEPTED_AT)
"""What the network says of an event, rather than the event itself."""

ATTRIBUTE_TYPES: dict[type[DataType], type] = {StringType: str, LongType: int, DoubleType: float, BooleanType: bool}
INSTEAD = "string, bigint, double or boolean"


class Column(msgspec.Struct, frozen=True):
    """`kind` is the reading that an attribute's column takes; None for what is no plain attribute."""

    name: str
    kind: type | None


def columns_of(schema: StructType) -> tuple[Column, ...]:
    """The columns of a schema that can be read; UsageError says which cannot."""
    seen: dict[str, str] = {}
    for field in schema.fields:
        check_name(field.name)
        if seen.setdefault(field.name.lower(), field.name) != field.name:
            raise UsageError(
                f"schema: {seen[field.name.lower()]} and {field.name} differ only in case; keep one of them"
            )
    return tuple(column_of(field) for field in schema.fields)


def column_of(field: StructField) -> Column:
    fixed = FIXED.get(field.name)
    if fixed is not None:
        if field.dataType != fixed:
            raise UsageError(
                f"schema: the column {field.name} is {fixed.simpleString()}, not {field.dataType.simpleString()}"
            )
        is_text = field.name in CONTEXT_NAMES and field.name != TIME
        return Column(field.name, str if is_text else None)
    kind = ATTRIBUTE_TYPES.get(type(field.dataType))
    if kind is None or (kind is str and field.dataType != StringType()):
        raise UsageError(
            f"schema: the attribute {field.name} cannot be {field.dataType.simpleString()}; make it {INSTEAD}, and "
            "cast it behind the read"
        )
    return Column(field.name, kind)


def infer_schema(offers: Iterable[str]) -> StructType:
    """The schema of the events that these filters advertise."""
    readings: dict[str, set[type]] = {}
    for text in offers:
        for conjunction in parse(text).conjunctions:
            for constraint in conjunction:
                if constraint.present and constraint.name not in FIXED:
                    readings.setdefault(constraint.name, set()).add(reading_of(constraint))
    types = {float: DoubleType(), bool: BooleanType(), str: StringType()}
    schema = StructType()
    for name, fixed in FIXED.items():
        if name != PAYLOAD:
            schema.add(name, fixed)
    taken = {name.lower() for name in FIXED}
    for name, kinds in sorted(readings.items()):
        # Spark does not tell such names apart; whoever wants the second one names it in a schema.
        if name.lower() not in taken:
            taken.add(name.lower())
            schema.add(name, types[kinds.pop()] if len(kinds) == 1 else StringType())
    return schema.add(PAYLOAD, FIXED[PAYLOAD])


def reading_of(constraint: Constraint) -> type:
    if constraint.text is None and constraint.truth is not None and constraint.number is None:
        return bool
    if constraint.text is None and constraint.truth is None and constraint.number is not None:
        return float
    return str
