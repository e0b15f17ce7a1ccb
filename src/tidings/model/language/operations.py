"""What the operators of an expression do with two values, casts included. None stands for a cast that fails.

Which cast an operator makes is said in `evaluation.py`.
"""

import math
import operator
from collections.abc import Callable
from typing import Any, TypeAlias

from tidings.model.bounds import INTEGER_MAX, INTEGER_MIN
from tidings.model.language.outcome import EvaluationOutcome, Result
from tidings.model.values import Number, Value, number_of, text_of, truth_of


def exclusive(left: Value, right: Value) -> bool | None:
    x, y = truth_of(left), truth_of(right)
    return None if x is None or y is None else x is not y


Test: TypeAlias = Callable[[Any, Any], bool]
TESTS: dict[str, Test] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def equality(test: Test, left: Value, right: Value) -> bool | None:
    if isinstance(right, str):
        return test(text_of(left), right)
    cast = truth_of(left) if isinstance(right, bool) else number_of(left)
    return None if cast is None else test(cast, right)


def order(test: Test, left: Value, right: Value) -> bool | None:
    if isinstance(right, str) and number_of(right) is None:
        return test(text_of(left), right)
    return number_order(test, left, right)


def number_order(test: Test, left: Value, right: Value) -> bool | None:
    x, y = number_of(left), number_of(right)
    return None if x is None or y is None else test(x, y)


def calculate(sign: str, left: Value, right: Value) -> Result | None:
    x, y = number_of(left), number_of(right)
    if x is None or y is None:
        return None
    if isinstance(x, int) and isinstance(y, int):
        return calculate_integer(sign, x, y)
    return calculate_float(sign, float(x), float(y))


MATH_ERROR = EvaluationOutcome(0, "math")


def calculate_integer(sign: str, x: int, y: int) -> Result:
    if sign in "/%":
        if y == 0:
            return MATH_ERROR
        quotient = abs(x) // abs(y) if (x < 0) == (y < 0) else -(abs(x) // abs(y))
        return settled(quotient if sign == "/" else x - y * quotient)
    return settled(SIMPLE_ARITHMETIC[sign](x, y))


def calculate_float(sign: str, x: float, y: float) -> Result:
    if sign in "/%":
        if y == 0:
            return MATH_ERROR
        return settled(x / y if sign == "/" else math.fmod(x, y))
    return settled(SIMPLE_ARITHMETIC[sign](x, y))


SIMPLE_ARITHMETIC: dict[str, Callable[[Any, Any], Number]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}


def settled(number: Number) -> Result:
    """The number if it exists (64-bit integer or finite double), else a math error."""
    exists = math.isfinite(number) if isinstance(number, float) else INTEGER_MIN <= number <= INTEGER_MAX
    return number if exists else MATH_ERROR


def is_equal_choice(value: Value, choice: Value) -> bool:
    if isinstance(value, str):
        return value == text_of(choice)
    if isinstance(value, bool):
        return truth_of(choice) is value
    return number_of(choice) == value
