"""What evaluating an expression gives, and the casts that operators and functions share.

Every CESQL operator is total: it always has a value, and besides it perhaps an error. A filter matches only on TRUE
without error. While an expression is evaluated, a plain value means "no error" and an `EvaluationOutcome` means "this
value, with this error", so that the usual case allocates nothing.
"""

from typing import Literal, TypeAlias

import msgspec

from tidings.model.bounds import INTEGER_MAX, INTEGER_MIN
from tidings.model.values import Value, number_of

ErrorKind: TypeAlias = Literal["math", "cast", "missingFunction", "functionEvaluation", "missingAttribute"]


class EvaluationOutcome(msgspec.Struct, frozen=True):
    value: Value
    error: ErrorKind | None = None


Result: TypeAlias = Value | EvaluationOutcome


def integer_of(value: Value) -> int | None:
    """The value as an integer, decimals cut off; None if it is no number or beyond 64 bit."""
    number = number_of(value)
    if number is None:
        return None
    integer = int(number)
    return integer if INTEGER_MIN <= integer <= INTEGER_MAX else None
