"""Working out the parts of an expression that no event can change.

`price > 20 * 5` becomes `price > 100`, and `5 < x` becomes `x > 5`, so that the normal form sees an attribute on the
left and a literal on the right wherever there is such a form. A constant part that fails (`1 / 0`) stays as it is: it
fails for every event. Folding never changes the outcome, and folding again changes nothing.
"""

from collections.abc import Callable
from typing import Any

from tidings.model.language.evaluation import SPECVERSION, prepare
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
    all_of,
    any_of,
)
from tidings.model.language.outcome import EvaluationOutcome

MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def fold(expression: Expression) -> Expression:
    return FOLDS[type(expression)](expression)


def worked_out(expression: Expression, *parts: Expression) -> Expression:
    """The literal that `expression` stands for, if all its parts are literals and it does not fail."""
    if all(isinstance(part, Literal) for part in parts):
        result = prepare(expression)({})
        if not isinstance(result, EvaluationOutcome):
            return Literal(result)
    return expression


def fold_compare(comparison: Compare) -> Expression:
    left, right, operator = fold(comparison.left), fold(comparison.right), comparison.operator
    if isinstance(left, Literal) and not isinstance(right, Literal):
        if operator in MIRRORED and not isinstance(left.value, str):
            return Compare(MIRRORED[operator], right, left)
    elif left is comparison.left and right is comparison.right and not isinstance(left, Literal):
        return comparison
    return worked_out(Compare(operator, left, right), left, right)


def fold_pair(kind: type[Xor]) -> Callable[[Xor], Expression]:
    def fold_both(pair: Xor) -> Expression:
        left, right = fold(pair.left), fold(pair.right)
        return worked_out(kind(left, right), left, right)

    return fold_both


def fold_arithmetic(arithmetic: Arithmetic) -> Expression:
    left, right = fold(arithmetic.left), fold(arithmetic.right)
    return worked_out(Arithmetic(arithmetic.operator, left, right), left, right)


def fold_unary(kind: type[Not] | type[Negate]) -> Callable[[Any], Expression]:
    def fold_operand(unary: Not | Negate) -> Expression:
        operand = fold(unary.operand)
        return worked_out(kind(operand), operand)

    return fold_operand


def fold_like(like: Like) -> Expression:
    operand = fold(like.operand)
    return worked_out(Like(operand, like.pattern), operand)


def fold_in(membership: In) -> Expression:
    operand, choices = fold(membership.operand), tuple(map(fold, membership.choices))
    return worked_out(In(operand, choices), operand, *choices)


def fold_call(call: Call) -> Expression:
    arguments = tuple(map(fold, call.arguments))
    return worked_out(Call(call.function, arguments), *arguments)


FOLDS: dict[type, Callable[[Any], Expression]] = {
    Literal: lambda literal: literal,
    Attribute: lambda attribute: Literal(SPECVERSION) if attribute.name == "specversion" else attribute,
    Exists: lambda exists: Literal(True) if exists.name == "specversion" else exists,
    Not: fold_unary(Not),
    And: lambda conjunction: all_of(map(fold, conjunction.operands)),
    Or: lambda disjunction: any_of(map(fold, disjunction.operands)),
    Xor: fold_pair(Xor),
    Compare: fold_compare,
    Arithmetic: fold_arithmetic,
    Negate: fold_unary(Negate),
    Like: fold_like,
    In: fold_in,
    Call: fold_call,
}
