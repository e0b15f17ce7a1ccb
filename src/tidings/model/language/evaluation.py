"""Evaluating an expression on the attributes of one event, exactly as CESQL says.

An expression is turned once into nested functions (`prepared`) and these are kept for the expressions used last, so
that a filter without a normal form costs little more than its operators. Each returns a plain value, or an
`EvaluationOutcome` when there is an error as well.

What decides:
- A missing attribute is the error missingAttribute. An operator whose operand failed fails with the same error, the
  left one's first, and has the zero value of its kind: 0, FALSE or the empty string.
- `=` and `!=` cast the left operand to the type of the right one. Order comparisons compare numbers; only if the right
  operand is a string that is no number, and the left one is not a number by its form, do they compare texts by code
  point.
- AND and OR go from left to right and stop as soon as the answer is known. An operand that failed is unknown:
  FALSE AND unknown is FALSE, TRUE OR unknown is TRUE, in either order and without error; otherwise the first error
  stands. XOR and NOT of unknown are unknown.
- IN casts each choice to the type of the operand; a choice that cannot be cast is not equal, which is no error.
- Arithmetic on integers stays in 64 bit (beyond it: 0 and a math error) and truncates towards zero; as soon as one
  operand is a float it is done in floats, and a result that is not finite is a math error.

What it costs is counted as work (`model/work.py`): each part of the expression a little, strings by their length where
they are gone through. `model/weight.py` says in advance what that may be at most.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, TypeAlias

from tidings.model.bounds import STRING_BYTES_MAX
from tidings.model.language.expression import (
    And,
    Arithmetic,
    Attribute,
    Call,
    Compare,
    Exists,
    Expression,
    In,
    Like,
    Literal,
    Negate,
    Not,
    Or,
    Xor,
    is_number_by_form,
    walk,
)
from tidings.model.language.functions import (
    TESTS,
    EvaluationOutcome,
    Result,
    calculate,
    equality,
    exclusive,
    find_function,
    is_equal_choice,
    number_order,
    order,
)
from tidings.model.sets.patterns import FIND_CHARS, ROW_BITS, pattern_matches
from tidings.model.values import Value, text_of, truth_of
from tidings.model.work import WORK

__all__ = ["Attributes", "EvaluationOutcome", "Prepared", "evaluate", "is_true", "prepared"]

Attributes: TypeAlias = Mapping[str, Value]
Prepared: TypeAlias = Callable[[Attributes], Result]

PREPARED_MAX = 4096
"""Expressions kept in prepared form, the least recently used one makes room."""

PART_UNITS = 16
"""Work that each part of an expression counts for, beside the strings that it goes through."""

CONCATENATED_CHARS_MAX = 2 * STRING_BYTES_MAX
"""Characters of all strings of a function together; with more it does nothing."""

SPECVERSION = "1.0"
"""The CloudEvents version of every event; `specversion` has this value whether or not it is spelled out."""


def evaluate(expression: Expression, attributes: Attributes) -> EvaluationOutcome:
    result = prepared(expression)(attributes)
    return result if isinstance(result, EvaluationOutcome) else EvaluationOutcome(result)


def is_true(expression: Expression, attributes: Attributes) -> bool:
    """Whether a filter of this expression matches: its value reads as TRUE, and there was no error."""
    result = prepared(expression)(attributes)
    return not isinstance(result, EvaluationOutcome) and truth_of(result) is True


def prepare(expression: Expression) -> Prepared:
    preparation: Callable[[Any], Prepared] = PREPARATIONS[type(expression)]
    return preparation(expression)


@lru_cache(PREPARED_MAX)
def prepared(expression: Expression) -> Prepared:
    """For a whole expression; what its parts cost without strings is counted here, once."""
    run, units = prepare(expression), PART_UNITS * len(list(walk(expression)))

    def counted(attributes: Attributes) -> Result:
        WORK.units += units
        return run(attributes)

    return counted


def prepare_literal(literal: Literal) -> Prepared:
    value = literal.value
    return lambda attributes: value


def prepare_attribute(attribute: Attribute) -> Prepared:
    name = attribute.name
    if name == "specversion":
        return lambda attributes: SPECVERSION

    def read(attributes: Attributes) -> Result:
        value = attributes.get(name)
        return MISSING if value is None else value

    return read


MISSING = EvaluationOutcome(False, "missingAttribute")


def prepare_exists(exists: Exists) -> Prepared:
    name = exists.name
    return lambda attributes: name in attributes or name == "specversion"


def prepare_not(negation: Not) -> Prepared:
    operand = prepare(negation.operand)

    def negate(attributes: Attributes) -> Result:
        result = operand(attributes)
        if isinstance(result, EvaluationOutcome):
            return EvaluationOutcome(False, result.error)
        truth = truth_of(result)
        return EvaluationOutcome(True, "cast") if truth is None else not truth

    return negate


def prepare_and(conjunction: And) -> Prepared:
    return prepare_junction(conjunction.operands, decisive=False)


def prepare_or(disjunction: Or) -> Prepared:
    return prepare_junction(disjunction.operands, decisive=True)


def prepare_junction(operands: tuple[Expression, ...], decisive: bool) -> Prepared:
    """`decisive` is the truth that settles the answer wherever it turns up."""
    parts = tuple(prepare(operand) for operand in operands)

    def decide(attributes: Attributes) -> Result:
        failure = None
        for part in parts:
            result = part(attributes)
            truth = truth_of_result(result)
            if truth is decisive:
                return decisive
            if truth is None and failure is None:
                failure = EvaluationOutcome(False, result.error if isinstance(result, EvaluationOutcome) else "cast")
        return (not decisive) if failure is None else failure

    return decide


def truth_of_result(result: Result) -> bool | None:
    return None if isinstance(result, EvaluationOutcome) else truth_of(result)


def prepare_xor(exclusion: Xor) -> Prepared:
    return prepare_pair(exclusion.left, exclusion.right, False, exclusive)


def prepare_compare(comparison: Compare) -> Prepared:
    test = TESTS[comparison.operator]
    apply: Callable[[Value, Value], Result | None]
    if comparison.operator in ("=", "!="):
        apply = partial(equality, test)
    elif is_number_by_form(comparison.left):
        apply = partial(number_order, test)
    else:
        apply = partial(order, test)
    if compares_texts(comparison.left, comparison.right):
        apply = partial(count_compared, apply)
    return prepare_pair(comparison.left, comparison.right, False, apply)


def compares_texts(left: Expression, right: Expression) -> bool:
    """Whether both may be long strings: a literal is short, and with a number texts are only read as one."""
    return not (isinstance(left, Literal) or is_number_by_form(left)) and not (
        isinstance(right, Literal) or is_number_by_form(right)
    )


def count_compared(apply: Callable[[Value, Value], Result | None], left: Value, right: Value) -> Result | None:
    if type(left) is str and type(right) is str:
        WORK.units += 2 * (min(len(left), len(right)) // ROW_BITS)
    return apply(left, right)


def prepare_arithmetic(arithmetic: Arithmetic) -> Prepared:
    return prepare_pair(arithmetic.left, arithmetic.right, 0, partial(calculate, arithmetic.operator))


def prepare_pair(
    left: Expression, right: Expression, zero: Value, apply: Callable[[Value, Value], Result | None]
) -> Prepared:
    """A strict operator with two operands; `apply` answers None when a cast fails."""
    first, second = prepare(left), prepare(right)
    uncastable = EvaluationOutcome(zero, "cast")

    def run(attributes: Attributes) -> Result:
        x, y = first(attributes), second(attributes)
        if isinstance(x, EvaluationOutcome):
            return EvaluationOutcome(zero, x.error)
        if isinstance(y, EvaluationOutcome):
            return EvaluationOutcome(zero, y.error)
        result = apply(x, y)
        return uncastable if result is None else result

    return run


def prepare_negate(negation: Negate) -> Prepared:
    return prepare_arithmetic(Arithmetic("-", Literal(0), negation.operand))


def prepare_like(like: Like) -> Prepared:
    operand, pattern = prepare(like.operand), like.pattern

    def compare(attributes: Attributes) -> Result:
        result = operand(attributes)
        if isinstance(result, EvaluationOutcome):
            return EvaluationOutcome(False, result.error)
        return pattern_matches(pattern, text_of(result))

    return compare


def prepare_in(membership: In) -> Prepared:
    operand = prepare(membership.operand)
    choices = tuple(prepare(choice) for choice in membership.choices)
    has_texts = any(compares_texts(membership.operand, choice) for choice in membership.choices)

    def search(attributes: Attributes) -> Result:
        value = operand(attributes)
        if isinstance(value, EvaluationOutcome):
            return EvaluationOutcome(False, value.error)
        failure = None
        for choice in choices:
            result = choice(attributes)
            if isinstance(result, EvaluationOutcome):
                failure = failure or EvaluationOutcome(False, result.error)
            else:
                if has_texts and type(value) is str and type(result) is str:
                    WORK.units += 2 * (min(len(value), len(result)) // ROW_BITS)
                if is_equal_choice(value, result):
                    return True
        return False if failure is None else failure

    return search


def prepare_call(call: Call) -> Prepared:
    function = find_function(call.function, len(call.arguments))
    if function is None:
        return lambda attributes: EvaluationOutcome(False, "missingFunction")
    arguments, invoke = tuple(prepare(argument) for argument in call.arguments), function.call
    if not function.passes:
        return lambda attributes: invoke([argument(attributes) for argument in arguments])
    passes = function.passes

    def run(attributes: Attributes) -> Result:
        values = [argument(attributes) for argument in arguments]
        chars = sum([len(value) for value in values if type(value) is str])
        WORK.units += passes * (min(chars, CONCATENATED_CHARS_MAX) // FIND_CHARS)
        return invoke(values)

    return run


PREPARATIONS: dict[type, Callable[[Any], Prepared]] = {
    Literal: prepare_literal,
    Attribute: prepare_attribute,
    Exists: prepare_exists,
    Not: prepare_not,
    And: prepare_and,
    Or: prepare_or,
    Xor: prepare_xor,
    Compare: prepare_compare,
    Arithmetic: prepare_arithmetic,
    Negate: prepare_negate,
    Like: prepare_like,
    In: prepare_in,
    Call: prepare_call,
}
