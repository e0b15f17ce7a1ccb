"""The smallest conditions of an expression, as constraints.

A condition such as `x > 5` has a constraint for when it is true, and another for when it is false; when the attribute
is absent or cannot be read that way it is neither. `constraint_for` gives the one asked for, or None where there is
none: for conditions that compare attributes with each other, calculate, or call functions.

Those that are less plain than they look:
- `5 = x` casts 5 to the type of x. It is true just when the text of x is '5'; when it is false has no such form.
- `x IN (...)` casts each choice to the type of x. For plain choices (`text_form.is_plain`) it asks for one of these
  texts; with a choice such as TRUE or '05' it has no form.
"""

from collections.abc import Callable
from typing import Any

from tidings.model.language.expression import (
    And,
    Attribute,
    Compare,
    Exists,
    Expression,
    In,
    Like,
    Literal,
    Or,
    parts_of,
)
from tidings.model.language.text_form import is_plain
from tidings.model.sets.constraint import Constraint
from tidings.model.sets.numbers import NumberSet, above, at_least, at_most, below, equal_to
from tidings.model.sets.texts import TextSet, after, before, like, none_of, one_of, starting_at, unlike, up_to
from tidings.model.values import Number, Value, number_of, text_of

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
