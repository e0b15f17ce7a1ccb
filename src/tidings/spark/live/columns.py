"""Which columns an event has, and conditions on them as filters.

    publisher string, number long          who published it (with its life), under which of its numbers: no two events
                                           share both
    accepted_at timestamp                  when the network took it from its publisher
    id, source, type, subject, datacontenttype, dataschema string, time timestamp            CloudEvents
    one column for each attribute          string, long, double or boolean, or a type made of these (`casts.py`)
    payload binary                         or what `payloadFormat` makes of it (`casts.py`)

A schema that is given may name any of them in any order; names that are not listed above are attributes. Where none is
given, attributes come from what publishers have advertised: `magnitude >= 4 AND place LIKE '%Chile%'` makes a double
and a string. A number is always a double, since an advertisement bounds values and says nothing about fractions;
whoever wants a long gives a schema. An attribute that is advertised in several ways, or only as existing, is a string,
which every value can be read as.

**A column reads values as a filter does** (`model/values.py`): 5 in a string column is "5", "5" in a double column is
5.0, TRUE in a long column is 1. A value that has no such reading (the text IBM in a double column, 2.5 in a long one)
is null. So a condition on a column and the same condition in a filter mean the same, and Spark's conditions can be
given to the broker.

`id` and `source` of an event that has none are its number and its publisher, as everywhere.

**Conditions of Spark become filters of ours**, so that brokers leave out what nobody wants. A batch read of `where
price > 100` hands us the condition `GreaterThan(("price",), 100.0)` before it reads. Of each we say one of three
things:

    exact       the filter holds for exactly the rows for which the condition is true; Spark need not look again
    wider       it holds for those rows and perhaps for some more; the broker applies it, and Spark looks again
    nothing     the condition has no filter; Spark looks alone

Where a value has no reading the column is null and the filter does not hold, negated or not. That is how SQL treats
null, so most conditions are exact, and so are their negations. What is not, and why:

- `long` columns: 2.5 has a number but is null in the column. Bounds are wider; equality with an integer is exact. So it
  is with narrower integers, in which large ones are null. Other types that are cast: nothing.
- Texts that read as numbers, in an order: `code < '9'` compares numbers in our language, texts in Spark. Nothing.
- Numbers from 2**53 on: integers there round to doubles when a `double` column takes them. Such conditions are nothing.
- `id` and `source` are filled in where an event has none. Filters for them also let those through, and are wider.
- `IS NULL` of a number or a truth: an attribute of another type is null too, and no filter asks for that. Nothing.
- `time` and what the network says of an event (publisher, number, accepted_at), `payload`: no attributes. Nothing.

Nothing here is decided from the text of a condition: each becomes a filter by the builder of filters, and the property
test compares both on events with values of every type.
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import and_, or_

import msgspec
from pyspark.sql import datasource
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidings.model.errors import UsageError
from tidings.model.event import CONTEXT_NAMES
from tidings.model.filter import Filter
from tidings.model.language.builder import NamedAttribute, attr
from tidings.model.language.expression import Compare, Literal, all_of, any_of
from tidings.model.language.normal_form import normalise
from tidings.model.language.parser import parse
from tidings.model.sets.constraint import Constraint
from tidings.model.values import Value, check_name, number_of

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

ATTRIBUTE_TYPES: dict[type[DataType], type | None] = {
    **{StringType: str, LongType: int, DoubleType: float, BooleanType: bool},
    **dict.fromkeys((ByteType, ShortType, IntegerType), int),
    **dict.fromkeys((FloatType, DateType, TimestampType, DecimalType), None),
}
"""As what a condition on a column of this type sees the attribute; None where the two compare otherwise."""
INSTEAD = "string, bigint, double, boolean, a narrower number, decimal, date or timestamp"


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
    if field.name == PAYLOAD:
        return Column(field.name, None)
    if fixed is not None:
        if field.dataType != fixed:
            raise UsageError(
                f"schema: the column {field.name} is {fixed.simpleString()}, not {field.dataType.simpleString()}"
            )
        is_text = field.name in CONTEXT_NAMES and field.name != TIME
        return Column(field.name, str if is_text else None)
    told = type(field.dataType)
    if told not in ATTRIBUTE_TYPES or (told is StringType and field.dataType != StringType()):
        raise UsageError(
            f"schema: the attribute {field.name} cannot be {field.dataType.simpleString()}; make it {INSTEAD}, and "
            "cast it behind the read"
        )
    return Column(field.name, ATTRIBUTE_TYPES[told])


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


WHOLE_FROM = 2.0**53
"""Below this an integer and its double are the same number."""

VALUES_MAX = 100
"""Values of IN; with more of them the text of a filter becomes too long in most cases."""


class Translated(msgspec.Struct, frozen=True):
    filter: Filter
    is_exact: bool


Kinds = Mapping[str, type]
"""What each attribute's column reads."""


def kinds_of(columns: Iterable[Column]) -> dict[str, type]:
    return {it.name: it.kind for it in columns if it.kind is not None}


def translate(condition: datasource.Filter, kinds: Kinds) -> Translated | None:
    """None if there is no filter for it."""
    try:
        is_negated = isinstance(condition, Not)
        found = translate_plain(condition.child if isinstance(condition, Not) else condition, kinds, is_negated)
        if found is None:
            return None
        # What cannot be said within the bounds of a filter's text could not be sent.
        parse(found.filter.text())
        return found
    except UsageError:
        return None


def translate_plain(condition: datasource.Filter, kinds: Kinds, is_negated: bool) -> Translated | None:
    path: tuple[str, ...] = getattr(condition, "attribute", ())
    if len(path) != 1 or path[0] not in kinds:
        return None
    name, kind = path[0], kinds[path[0]]
    attribute = attr[name]
    match condition:
        case IsNull() | IsNotNull():
            is_absence = isinstance(condition, IsNull) is not is_negated
            return translate_null(name, kind, attribute, is_absence)
        case EqualTo(_, value) if fits(value, kind):
            found = Translated(differs(attribute, value) if is_negated else attribute == value, True)
        case EqualNullSafe(_, value) if fits(value, kind) and not is_negated:
            found = Translated(attribute == value, True)
        case In(_, values) if 0 < len(values) <= VALUES_MAX and all(fits(value, kind) for value in values):
            found = Translated(listed(attribute, values, is_negated), True)
        case LessThan(_, value) | LessThanOrEqual(_, value) | GreaterThan(_, value) | GreaterThanOrEqual(_, value):
            # Our language compares with a text that reads as a number as with that number.
            if not fits(value, kind) or kind is bool or (kind is str and number_of(value) is not None):
                return None
            found = Translated(compared(condition, attribute, value, is_negated), kind is not int)
        case StringStartsWith(_, text) | StringEndsWith(_, text) | StringContains(_, text) if kind is str:
            found = Translated(with_text(condition, attribute, text, is_negated), True)
        case _:
            return None
    if kind is int and is_negated:
        found = Translated(found.filter, False)
    if name in FILLED_IN:
        return Translated(found.filter | attribute.absent(), False)
    return found


def translate_null(name: str, kind: type, attribute: NamedAttribute, is_absence: bool) -> Translated | None:
    if name in FILLED_IN:
        return None
    if is_absence:
        return Translated(attribute.absent(), True) if kind is str else None
    if kind is str:
        return Translated(attribute.exists(), True)
    if kind is bool:
        return Translated(attribute.is_true() | attribute.is_false(), True)
    return Translated((attribute < 0) | (attribute >= 0), kind is float)


def fits(value: object, kind: type) -> bool:
    """Is it a value of the column's own type, and one that filters and columns compare alike?"""
    if kind is float:
        return type(value) in (int, float) and abs(value) < WHOLE_FROM  # type: ignore[arg-type]
    return type(value) is kind


def differs(attribute: NamedAttribute, value: Value) -> Filter:
    return attribute == (not value) if isinstance(value, bool) else attribute != value


def listed(attribute: NamedAttribute, values: Iterable[Value], is_negated: bool) -> Filter:
    """IN of our language casts each element to the type of the value; Spark compares with each, and so do we here."""
    if any(isinstance(value, bool) for value in values):
        each = [differs(attribute, value) if is_negated else attribute == value for value in values]
        return reduce(and_ if is_negated else or_, each)
    sign, joined = ("!=", all_of) if is_negated else ("=", any_of)
    return normalise(joined(Compare(sign, attribute.expression(), Literal(value)) for value in values))


def compared(condition: datasource.Filter, attribute: NamedAttribute, value: Value, is_negated: bool) -> Filter:
    match condition:
        case LessThan():
            return attribute >= value if is_negated else attribute < value
        case LessThanOrEqual():
            return attribute > value if is_negated else attribute <= value
        case GreaterThan():
            return attribute <= value if is_negated else attribute > value
    return attribute < value if is_negated else attribute >= value


def with_text(condition: datasource.Filter, attribute: NamedAttribute, text: str, is_negated: bool) -> Filter:
    match condition:
        case StringStartsWith():
            found = attribute.prefix(text)
        case StringEndsWith():
            found = attribute.suffix(text)
        case _:
            found = attribute.contains(text)
    # Only of those that have a text, which all have that exist.
    return ~found & attribute.exists() if is_negated else found


def push(filter: str, conditions: Iterable[datasource.Filter], kinds: Kinds) -> tuple[str, list[datasource.Filter]]:
    """The filter narrowed by the conditions, and those of them that Spark has to look at (again)."""
    narrowed, left = parse(filter), []
    for condition in conditions:
        found = translate(condition, kinds)
        both = None if found is None else conjoined(narrowed, found.filter)
        if found is None or both is None:
            left.append(condition)
            continue
        narrowed = both
        if not found.is_exact:
            left.append(condition)
    return narrowed.text(), left


def conjoined(one: Filter, other: Filter) -> Filter | None:
    """Both, or None where the text of both is too long."""
    try:
        both = one & other
        return both if parse(both.text()) == both else None
    except UsageError:
        return None
