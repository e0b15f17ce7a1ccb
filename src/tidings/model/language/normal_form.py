"""From expressions to the normal form: a disjunction of conjunctions of constraints.

CESQL knows three answers: true, false, and unknown (an attribute is missing, a cast fails). A filter matches only on
true. So we ask of every expression "when is it true?" and, under a NOT, "when is it false?"; each answer is a set of
events, and what belongs to neither is unknown. NOT exchanges the two questions; AND is true when all operands are, and
false when one is; OR the other way round; XOR takes one of each. At the bottom stand single conditions, which
`constraint_for` turns into constraints.

A condition without such a form is unknown at least when an attribute is missing that it cannot do without; the term
keeps that and is marked inexact. If an inexact term remains in the end, or there were too many terms (`terms.py`), the
filter carries the whole expression as its residual, and the terms are its approximation from above.

The form is canonical: equal texts up to order, spelling of numbers, double negation and the like give equal filters. It
is not the shortest: `Filter.simplify` looks for that. Nor is it always shorter than what it was made from: multiplied
out, a filter may have more words, or more bytes, than a text may have. Then the expression is kept as the residual here
too, because a filter that cannot be said cannot be told to another broker; where even that is too long to be written as
we write it, the filter is refused.

Before that, the parts of an expression that no event can change are worked out. `price > 20 * 5` becomes `price > 100`,
and `5 < x` becomes `x > 5`, so that the normal form sees an attribute on the left and a literal on the right wherever
there is such a form. A constant part that fails (`1 / 0`) stays as it is: it fails for every event. Folding never
changes the outcome, and folding again changes nothing.

The smallest conditions. A condition such as `x > 5` has a constraint for when it is
true, and another for when it is false; when the attribute is absent or cannot be read that way it is neither.
It gives the one asked for, or None where there is none: for conditions that compare attributes with each
other, calculate, or call functions.

Those that are less plain than they look:
- `5 = x` casts 5 to the type of x. It is true just when the text of x is '5'; when it is false has no such form.
- `x IN (...)` casts each choice to the type of x. For plain choices (`is_plain`) it asks for one of these
  texts; with a choice such as TRUE or '05' it has no form.
"""

import re
from collections.abc import Callable
from typing import Any

from tidings.model.bounds import EXPRESSION_DEPTH_MAX, FILTER_TEXT_BYTES_MAX, FILTER_TOKENS_MAX
from tidings.model.errors import UsageError
from tidings.model.filter import Filter, canonical_filter
from tidings.model.language.evaluation import SPECVERSION, evaluate, prepare
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
    depth_of,
    filter_expression,
    is_number_by_form,
    is_plain,
    is_truth_by_form,
    parts_of,
    walk,
)
from tidings.model.language.functions import EvaluationOutcome
from tidings.model.language.lexer import count_tokens
from tidings.model.language.terms import (
    ANYTHING,
    TEXT_STEPS,
    TRUE,
    Term,
    Work,
    both,
    either,
    fitted,
    is_evidently_empty,
)
from tidings.model.sets.conjunction import ordered
from tidings.model.sets.constraint import Constraint, NumberSet, above, at_least, at_most, below, equal_to
from tidings.model.sets.texts import TextSet, after, before, like, none_of, one_of, starting_at, unlike, up_to
from tidings.model.values import Number, Value, number_of, text_of, truth_of
from tidings.model.work import uncounted

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


def normalise(expression: Expression) -> Filter:
    """The filter that matches exactly when the expression is TRUE without error; UsageError if it has no text."""
    filter = normal_form(expression)
    if not is_sayable(filter):
        raise UsageError(
            f"filter of {len(filter.text().encode())} bytes when it is written out, at most {FILTER_TEXT_BYTES_MAX} "
            f"(with {FILTER_TOKENS_MAX} words and signs, {EXPRESSION_DEPTH_MAX} levels deep) are allowed; split it "
            "into several"
        )
    return filter


def normal_form(expression: Expression) -> Filter:
    """The same, whether or not its text can be parsed."""
    with uncounted():
        folded, work = fold(expression), Work()
        terms = fitted(NormalConditions(work).when(folded, True), work)
    residual = None if all(exact for _, exact in terms) else as_truth(folded)
    filter = canonical_filter([ordered(constraints) for constraints, _ in terms], residual)
    return filter if residual is not None or is_sayable(filter) else Filter(filter.conjunctions, as_truth(folded))


def is_sayable(filter: Filter) -> bool:
    """Whether its text is within the bounds of texts."""
    text = filter.text()
    if filter.residual is not None and depth_of(filter.residual) > EXPRESSION_DEPTH_MAX:
        return False
    # A word has at least one character, and a character at most four bytes.
    if len(text) <= min(FILTER_TOKENS_MAX, FILTER_TEXT_BYTES_MAX // 4):
        return True
    return len(text.encode()) <= FILTER_TEXT_BYTES_MAX and count_tokens(text) <= FILTER_TOKENS_MAX


def conjunction_of(left: Filter, right: Filter) -> Filter:
    return combined(all_of((filter_expression(left), filter_expression(right))))


def disjunction_of(left: Filter, right: Filter) -> Filter:
    return combined(any_of((filter_expression(left), filter_expression(right))))


def negation_of(filter: Filter) -> Filter:
    """Matches where the filter is false. Where it is unknown, for want of an attribute, neither matches."""
    return combined(Not(filter_expression(filter)))


def combined(expression: Expression) -> Filter:
    if depth_of(expression) > EXPRESSION_DEPTH_MAX:
        raise UsageError(f"filter nested deeper than {EXPRESSION_DEPTH_MAX} levels: combine fewer filters")
    return normalise(expression)


def as_truth(expression: Expression) -> Expression:
    """An expression whose value is TRUE when that of `expression` reads as TRUE."""
    return expression if is_truth_by_form(expression) else Compare("=", expression, Literal(True))


FALSE = Literal(False)


def operands_of(exclusion: Xor) -> list[Expression]:
    """The operands of a chain of XOR, which groups from the left."""
    operands: list[Expression] = []
    rest: Expression = exclusion
    while isinstance(rest, Xor):
        operands.append(rest.right)
        rest = rest.left
    return [rest, *reversed(operands)]


GAPS = re.compile("[%_]+")


def steps_for(condition: Expression) -> int:
    """What its constraint costs; patterns and ranges of texts are put into canonical form."""
    match condition:
        case Like(_, pattern):
            return TEXT_STEPS + 2 * len(GAPS.findall(pattern))
        case Compare(operator, _, Literal(str())) if operator not in ("=", "!="):
            return TEXT_STEPS
    return 1


class NormalConditions:
    """Answers "when?" for the parts of one expression, each part once."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.answers: dict[tuple[int, bool], list[Term]] = {}

    def when(self, expression: Expression, positive: bool) -> list[Term]:
        """The terms under which the expression is true, or false if not `positive`."""
        key = (id(expression), positive)
        if key not in self.answers:
            self.answers[key] = self.work_out(expression, positive)
        return self.answers[key]

    def work_out(self, expression: Expression, positive: bool) -> list[Term]:
        match expression:
            case Not(operand):
                return self.when(operand, not positive)
            case And(operands) | Or(operands):
                combine = both if isinstance(expression, And) is positive else either
                return combine([self.when(operand, positive) for operand in operands], self.work)
            case Xor():
                return self.when_exclusive(expression, positive)
            case Literal(value):
                return [TRUE] if truth_of(value) is positive else []
        return self.when_condition(expression, positive)

    def when_exclusive(self, exclusion: Xor, positive: bool) -> list[Term]:
        """An odd number of the operands is true (an even one, if not `positive`), and none of them unknown.

        The chain is taken from left to right rather than by recursion, which would go as deep as it is long.
        """
        odd, even, work = *self.both_ways(FALSE), self.work
        for operand in operands_of(exclusion):
            true, false = self.both_ways(operand)
            if not work.can_pay(1):
                return [ANYTHING]
            odd, even = (
                either([both([odd, false], work), both([even, true], work)], work),
                either([both([odd, true], work), both([even, false], work)], work),
            )
        return odd if positive else even

    def both_ways(self, expression: Expression) -> tuple[list[Term], list[Term]]:
        return self.when(expression, True), self.when(expression, False)

    def when_condition(self, condition: Expression, positive: bool) -> list[Term]:
        if self.work.can_pay(steps_for(condition)):
            constraint = constraint_for(condition, positive)
            if constraint is not None:
                return [] if is_evidently_empty(constraint) else [({constraint.name: constraint}, True)]
        if is_number_by_form(condition) and not is_truth_by_form(condition):
            return []
        if not any(isinstance(part, Attribute | Exists) for part in walk(condition)):
            outcome = evaluate(condition, {})
            return [TRUE] if outcome.error is None and truth_of(outcome.value) is positive else []
        return [({name: Constraint(name) for name in names_needed(condition)}, False)]


OPPOSITES = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}

NUMBER_SETS: dict[str, Callable[[Number], NumberSet]] = {
    "=": equal_to,
    "!=": lambda number: equal_to(number).complement(),
    "<": below,
    "<=": at_most,
    ">": above,
    ">=": at_least,
}

TEXT_SETS: dict[str, Callable[[str], TextSet]] = {
    "=": lambda text: one_of((text,)),
    "!=": lambda text: none_of((text,)),
    "<": before,
    "<=": up_to,
    ">": after,
    ">=": starting_at,
}


def constraint_for(condition: Expression, positive: bool) -> Constraint | None:
    """What it takes for the condition to be true (or false, if not `positive`); None if that is no constraint."""
    conversion = CONVERSIONS.get(type(condition))
    return None if conversion is None else conversion(condition, positive)


def from_attribute(attribute: Attribute, positive: bool) -> Constraint:
    return Constraint(attribute.name, truth=positive)


def from_exists(exists: Exists, positive: bool) -> Constraint:
    return Constraint(exists.name, present=positive)


def from_like(condition: Like, positive: bool) -> Constraint | None:
    if not isinstance(condition.operand, Attribute):
        return None
    return on_text(condition.operand.name, (like if positive else unlike)(condition.pattern))


def from_in(condition: In, positive: bool) -> Constraint | None:
    if not isinstance(condition.operand, Attribute):
        return None
    texts = []
    for choice in condition.choices:
        if not isinstance(choice, Literal) or not is_plain_choice(choice.value):
            return None
        texts.append(text_of(choice.value))
    return on_text(condition.operand.name, (one_of if positive else none_of)(texts))


def is_plain_choice(value: Value) -> bool:
    return is_plain(value) if isinstance(value, str) else not isinstance(value, bool)


def from_compare(comparison: Compare, positive: bool) -> Constraint | None:
    operator = comparison.operator if positive else OPPOSITES[comparison.operator]
    match comparison.left, comparison.right:
        case Attribute(name), Literal(value):
            return compared(name, operator, value)
        case Literal(value), Attribute(name) if operator == "=" and is_plain_choice(value):
            return on_text(name, one_of((text_of(value),)))
    return None


def compared(name: str, operator: str, value: Value) -> Constraint:
    if operator in ("=", "!="):
        if isinstance(value, bool):
            return Constraint(name, truth=value if operator == "=" else not value)
        if isinstance(value, str):
            return on_text(name, TEXT_SETS[operator](value))
    number = number_of(value)
    if number is None:
        assert isinstance(value, str)
        return on_text(name, TEXT_SETS[operator](value))
    return Constraint(name, number=NUMBER_SETS[operator](number))


def on_text(name: str, texts: TextSet) -> Constraint:
    """Every value has a text, so asking for any text is asking for the attribute."""
    return Constraint(name) if texts.is_everything() else Constraint(name, text=texts)


CONVERSIONS: dict[type, Callable[[Any, bool], Constraint | None]] = {
    Attribute: from_attribute,
    Exists: from_exists,
    Like: from_like,
    In: from_in,
    Compare: from_compare,
}


def names_needed(condition: Expression) -> list[str]:
    """Attributes without which the condition is unknown, sorted."""
    names: set[str] = set()
    waiting = [condition]
    while waiting:
        current = waiting.pop()
        if isinstance(current, Attribute):
            names.add(current.name)
        elif isinstance(current, In):
            waiting.append(current.operand)  # a choice that is missing does no harm if another one is equal
        elif not isinstance(current, And | Or):  # those may be decided by the operands that are there
            waiting.extend(parts_of(current))
    return sorted(names)
