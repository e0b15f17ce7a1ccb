"""What operators and functions of expressions do with values, and what comes of it.

Every CESQL operator is total: it always has a value, and besides it perhaps an error. A filter matches only on TRUE
without error. While an expression is evaluated, a plain value means "no error" and an `EvaluationOutcome` means "this
value, with this error", so that the usual case allocates nothing.

Operators take two values, and cast them; None stands for a cast that fails. Which cast an operator makes is said in
`evaluation.py`.

The built-in functions are those of CESQL, and FLOAT and IS_FLOAT for the numbers with decimals that we add. A function
is found by its upper-case name and the number of arguments. Arguments are cast to the kinds of its parameters first;
one that cannot be cast, or that already failed, makes the call fail with the zero value of the function's kind.
Positions and lengths count characters (code points), from 1.

CESQL leaves open what INT does with decimals: here it cuts them off (`INT(2.7)` is 2). IS_INT, IS_FLOAT and IS_BOOL ask
whether the value reads as a whole number, as a number, as a truth.
"""

import math
import operator
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec

from tidings.model.bounds import INTEGER_MAX, INTEGER_MIN, STRING_BYTES_MAX
from tidings.model.values import Number, Value, canonical_number, number_of, text_of, truth_of

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


Cast = Callable[[Value], Value | None]


class Function(msgspec.Struct, frozen=True):
    """`parameters` casts the arguments one by one, `rest` any further ones; `zero` is the value of a failed call.
    `passes` says how often it counts as work to go through its strings, compared with `str.find`, and `growth` how many
    times as long as its longest string the answer may be; None for as long as all of them together."""

    run: Callable[..., Result]
    zero: Value
    parameters: tuple[Cast, ...] = ()
    rest: Cast | None = None
    passes: int = 0
    growth: int | None = 1

    def takes(self, count: int) -> bool:
        return count == len(self.parameters) or (count > len(self.parameters) and self.rest is not None)

    def call(self, arguments: list[Result]) -> Result:
        values: list[Any] = []
        for place, argument in enumerate(arguments):
            if isinstance(argument, EvaluationOutcome):
                return EvaluationOutcome(self.zero, argument.error)
            cast = self.parameters[place] if place < len(self.parameters) else self.rest
            assert cast is not None
            value = cast(argument)
            if value is None:
                return EvaluationOutcome(self.zero, "cast")
            values.append(value)
        return self.run(*values)


def as_it_is(value: Value) -> Value:
    return value


def bounded(text: str) -> Result:
    """Strings grow no longer than an event may carry, so evaluating costs a bounded time and space."""
    if len(text) * 4 <= STRING_BYTES_MAX or len(text.encode()) <= STRING_BYTES_MAX:
        return text
    return EvaluationOutcome("", "functionEvaluation")


def concatenate(*texts: str) -> Result:
    return join_with("", *texts)


def join_with(separator: str, *texts: str) -> Result:
    if sum(map(len, texts)) + len(separator) * len(texts) > 2 * STRING_BYTES_MAX:
        return EvaluationOutcome("", "functionEvaluation")
    return bounded(separator.join(texts))


def left_part(text: str, count: int) -> Result:
    return text[:count] if count >= 0 else EvaluationOutcome(text, "functionEvaluation")


def right_part(text: str, count: int) -> Result:
    if count < 0:
        return EvaluationOutcome(text, "functionEvaluation")
    return text[max(0, len(text) - count) :]


def substring(text: str, position: int, length: int = INTEGER_MAX) -> Result:
    if not -len(text) <= position <= len(text) or length < 0:
        return EvaluationOutcome("", "functionEvaluation")
    if position == 0:
        return ""
    start = position - 1 if position > 0 else len(text) + position
    return text[start : start + length]


def absolute(number: Number) -> Result:
    if abs(number) > INTEGER_MAX and isinstance(number, int):
        return EvaluationOutcome(INTEGER_MAX, "math")
    return abs(number)


def cast_truth(value: Value) -> Result:
    if isinstance(value, (int, float)):
        return value != 0
    truth = truth_of(value)
    return EvaluationOutcome(False, "cast") if truth is None else truth


def is_whole(value: Value) -> bool:
    number = number_of(value)
    return number is not None and isinstance(canonical_number(number), int)


CASE_PASSES, CASE_GROWTH = 20, 3
"""Letters that are not ASCII are looked up one by one, and one may become three."""

FUNCTIONS: dict[str, tuple[Function, ...]] = {
    "LENGTH": (Function(len, 0, (text_of,)),),
    "CONCAT": (Function(concatenate, "", rest=text_of, passes=1, growth=None),),
    "CONCAT_WS": (Function(join_with, "", (text_of,), rest=text_of, passes=1, growth=None),),
    "LOWER": (Function(lambda text: bounded(text.lower()), "", (text_of,), passes=CASE_PASSES, growth=CASE_GROWTH),),
    "UPPER": (Function(lambda text: bounded(text.upper()), "", (text_of,), passes=CASE_PASSES, growth=CASE_GROWTH),),
    "TRIM": (Function(str.strip, "", (text_of,), passes=1),),
    "LEFT": (Function(left_part, "", (text_of, integer_of), passes=1),),
    "RIGHT": (Function(right_part, "", (text_of, integer_of), passes=1),),
    "SUBSTRING": (
        Function(substring, "", (text_of, integer_of), passes=1),
        Function(substring, "", (text_of, integer_of, integer_of), passes=1),
    ),
    "ABS": (Function(absolute, 0, (number_of,)),),
    "INT": (Function(as_it_is, 0, (integer_of,)),),
    "FLOAT": (Function(float, 0.0, (number_of,)),),
    "STRING": (Function(as_it_is, "", (text_of,)),),
    "BOOL": (Function(cast_truth, False, (as_it_is,)),),
    "IS_INT": (Function(is_whole, False, (as_it_is,)),),
    "IS_FLOAT": (Function(lambda value: number_of(value) is not None, False, (as_it_is,)),),
    "IS_BOOL": (Function(lambda value: truth_of(value) is not None, False, (as_it_is,)),),
}


def find_function(name: str, count: int) -> Function | None:
    """The function of that upper-case name that takes `count` arguments."""
    return next((function for function in FUNCTIONS.get(name, ()) if function.takes(count)), None)
