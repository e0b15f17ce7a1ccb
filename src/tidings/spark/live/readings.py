"""Attributes out of heads, the plain way: head after head to a dict, and value after value to what a column reads.

A column reads a value as a filter does (`model/values.py`): 5 as a text is "5", "5" as a double is 5.0. A value that
has no such reading is null and counted (`misread`), or an error in mode FAILFAST. A head that does not decode (a broker
lets none in) has only nulls, and is counted too.

This is what `scan.py` does for a whole page at once, and what it asks about every head that is unusual.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pyarrow

from tidings.model.bounds import INTEGER_MAX, INTEGER_MIN
from tidings.model.errors import UsageError
from tidings.model.values import Value, number_of, text_of, truth_of
from tidings.pubsub.publications import BadPublication, decode_head

Wanted = Mapping[str, type]
"""What each attribute that has a column is read as."""

MICROSECONDS = pyarrow.timestamp("us", tz="UTC")
MILLION = 1_000_000
ARROW_TYPES: dict[type, pyarrow.DataType] = {
    str: pyarrow.string(),
    int: pyarrow.int64(),
    float: pyarrow.float64(),
    bool: pyarrow.bool_(),
    datetime: MICROSECONDS,
}


class PlainReader:
    def __init__(self, wanted: Wanted, fails_on_type: bool) -> None:
        self.wanted, self.fails_on_type = wanted, fails_on_type
        self.misread = 0

    def read(self, heads: Sequence[bytes]) -> dict[str, pyarrow.Array]:
        """An array for each wanted attribute, an entry for each head."""
        rows = [self.decode(head) for head in heads]
        return {
            name: pyarrow.array([self.read_value(name, kind, row) for row in rows], ARROW_TYPES[kind])
            for name, kind in self.wanted.items()
        }

    def decode(self, head: bytes) -> dict[str, Value]:
        try:
            return decode_head(head)
        except BadPublication as problem:
            if self.fails_on_type:
                raise UsageError(f"an event does not decode: {problem}") from None
            self.misread += 1
            return {}

    def read_value(self, name: str, kind: type, row: dict[str, Value]) -> Value | None:
        value = row.get(name)
        if value is None:
            return None
        read = READINGS[kind](value)
        if read is None:
            self.misread += 1
            if self.fails_on_type:
                raise UsageError(
                    f"attribute {name}: {value!r:.80} is nothing for a column of {kind.__name__}; choose another type, "
                    'or leave mode "FAILFAST" to get null'
                )
        return read


def read_integer(value: Value) -> int | None:
    number = number_of(value)
    if number is None or (isinstance(number, float) and not number.is_integer()):
        return None
    return int(number) if INTEGER_MIN <= number <= INTEGER_MAX else None


def read_double(value: Value) -> float | None:
    number = number_of(value)
    return None if number is None else float(number)


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_time(value: Value) -> int | None:
    """Of RFC 3339: microseconds since 1970; a leap second is the one after it. None for years that nobody can count
    to."""
    text = str(value).upper()
    is_leap = text[17:19] == "60"
    if is_leap:
        text = f"{text[:17]}59{text[19:]}"
    whole, _, rest = text[19:].partition(".")
    digits = ""
    if not whole:
        digits = rest.rstrip("Z").partition("+")[0].partition("-")[0]
        text = text[:19] + rest[len(digits) :]
    try:
        instant = datetime.fromisoformat(text)
        micros = (instant - EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        return None
    return micros + int(digits[:6].ljust(6, "0") if digits else 0) + (MILLION if is_leap else 0)


READINGS: dict[type, Callable[[Value], Value | None]] = {
    str: text_of,
    int: read_integer,
    float: read_double,
    bool: truth_of,
    datetime: read_time,
}
