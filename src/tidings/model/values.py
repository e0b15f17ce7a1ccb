"""Attribute values and the three ways a filter may read one.

A value is a bool, a 64-bit integer, a finite float or a string. CESQL compares by casting: `sequence = 5` also holds
for the string '5', `flag = 1` for TRUE, `code LIKE '23_'` for the number 234. Instead of casting at every comparison we
say once what each value *reads as*:

    value           as number         as text        as truth
    5, 5.0          5                 '5'            -
    2.5             2.5               '2.5'          -
    TRUE            1                 'true'         TRUE
    '5', '05'       5                 '5', '05'      -
    'TRUE', 'true'  -                 itself         TRUE
    'IBM'           -                 'IBM'          -

A constraint tests exactly one of these readings, and where a reading does not exist it does not hold, negated or not.
So negation is a complement inside one reading, and a filter is a set of values for each attribute: that is what makes
covering, merging and the index exact (`constraint.py`).

Numbers are one type: an integer and a float of the same exact value are the same number, and read as the same text.
The numbers that exist are the 64-bit integers and the finite doubles; `next_number` and `previous_number` step through
them, so `x > 5` is the closed interval from `next_number(5)`.
"""

import math
import re

from tidings.model.bounds import (
    ATTRIBUTE_NAME_CHARS_MAX,
    INTEGER_MAX,
    INTEGER_MIN,
    NUMBER_TEXT_CHARS_MAX,
    STRING_BYTES_MAX,
)
from tidings.model.errors import UsageError

Number = int | float
Value = bool | int | float | str

INTEGER_SYNTAX = re.compile(r"[+-]?[0-9]+", re.ASCII)
DECIMAL_SYNTAX = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
NAME_SYNTAX = re.compile(r"(?![0-9]+[eE][0-9]+(?![A-Za-z0-9_.]))[0-9]*[A-Za-z_][A-Za-z0-9_.]*", re.ASCII)
TRUTHS = {"true": True, "false": False}


def check_name(name: object) -> str:
    """The attribute name itself, or a UsageError that says what a name may be."""
    if not isinstance(name, str) or not NAME_SYNTAX.fullmatch(name):
        raise UsageError(
            f"attribute name {name!r:.80}: use ASCII letters, digits, underscore and dot, "
            "with a letter or underscore first or right after leading digits, and let it not read as a number"
        )
    if len(name) > ATTRIBUTE_NAME_CHARS_MAX:
        raise UsageError(
            f"attribute name {name[:40]!r}...: {len(name)} characters, at most {ATTRIBUTE_NAME_CHARS_MAX} are allowed"
        )
    return name


def check_value(name: str, value: object) -> Value:
    """The value itself, or a UsageError that names the attribute and the bound it breaks."""
    kind = type(value)
    if kind is bool:
        return value  # type: ignore[return-value]
    if kind is int:
        if not INTEGER_MIN <= value <= INTEGER_MAX:  # type: ignore[operator]
            raise UsageError(f"attribute {name!r}: integer beyond 64 bit; send it as a string or a float")
        return value  # type: ignore[return-value]
    if kind is float:
        if not math.isfinite(value):  # type: ignore[arg-type]
            raise UsageError(f"attribute {name!r}: {value} is not a finite number; leave the attribute out instead")
        return value  # type: ignore[return-value]
    if kind is str:
        return check_string(name, value)  # type: ignore[arg-type]
    raise UsageError(f"attribute {name!r}: a value is a bool, int, float or str, not {kind.__name__}")


def check_string(name: str, value: str) -> str:
    if value.isascii():
        size_bytes = len(value)
    else:
        try:
            size_bytes = len(value.encode())
        except UnicodeEncodeError:
            raise UsageError(f"attribute {name!r}: the string holds a lone surrogate and has no UTF-8 form") from None
    if size_bytes > STRING_BYTES_MAX:
        raise UsageError(
            f"attribute {name!r}: string of {size_bytes} bytes, at most {STRING_BYTES_MAX} are allowed; "
            "put it into the payload"
        )
    return value


def number_of(value: Value) -> Number | None:
    """The value read as a number, or None."""
    if isinstance(value, str):
        return number_from_text(value)
    return int(value) if isinstance(value, bool) else value


def number_from_text(text: str) -> Number | None:
    if len(text) > NUMBER_TEXT_CHARS_MAX or not DECIMAL_SYNTAX.fullmatch(text):
        return None
    if INTEGER_SYNTAX.fullmatch(text):
        integer = int(text)
        return integer if INTEGER_MIN <= integer <= INTEGER_MAX else None
    decimal = float(text)
    return decimal if math.isfinite(decimal) else None


def text_of(value: Value) -> str:
    """The value read as text; every value has one."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    number = canonical_number(value)
    return repr(number)


def truth_of(value: Value) -> bool | None:
    """The value read as a truth, or None. Numbers have none: CESQL casts them only when asked by BOOL()."""
    if isinstance(value, bool):
        return value
    return TRUTHS.get(value.lower()) if isinstance(value, str) and len(value) <= 5 else None


def canonical_number(number: Number) -> Number:
    """One spelling for one number: an integral double inside 64 bit becomes the integer."""
    if isinstance(number, float) and number.is_integer() and INTEGER_MIN <= number <= INTEGER_MAX:
        return int(number)
    return number


def next_number(number: Number) -> Number:
    """The smallest number that exists above `number`; infinity above the largest double."""
    if number == math.inf:
        return number
    above = float(number)  # rounds to nearest, so it may lie on either side of a large integer
    while above <= number:
        above = math.nextafter(above, math.inf)
    if number < INTEGER_MIN or number >= INTEGER_MAX:
        return canonical_number(above)
    integer = math.floor(number) + 1
    return canonical_number(min(integer, above))


def previous_number(number: Number) -> Number:
    """The largest number that exists below `number`; minus infinity below the smallest double."""
    if number == -math.inf:
        return number
    below = float(number)
    while below >= number:
        below = math.nextafter(below, -math.inf)
    if number <= INTEGER_MIN:
        return canonical_number(below)
    integer = INTEGER_MAX if number > INTEGER_MAX else math.ceil(number) - 1
    return canonical_number(max(integer, below))
