"""The syntax tree of a filter expression: small frozen structs, one per kind of node.

A tree is what the text says, before any normal form. It is evaluated by `evaluation.py` (exactly, with CESQL's casts
and errors), turned into constraints by `normal_form.py`, and printed back by `text_form.py`. Nodes remember their hash,
so that looking a tree up in a cache does not walk it.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, TypeAlias

import msgspec

from tidings.model.values import Value


class Literal(msgspec.Struct, frozen=True, tag=True, eq=False):
    value: Value

    def __eq__(self, other: object) -> bool:
        """TRUE, 1 and 1.0 are three literals: comparisons cast by type, and 7.0 / 2 is not 7 / 2."""
        return isinstance(other, Literal) and type(self.value) is type(other.value) and self.value == other.value

    def __hash__(self) -> int:
        return hash((type(self.value).__name__, self.value))


class Attribute(msgspec.Struct, frozen=True, tag=True, cache_hash=True):
    name: str


class Exists(msgspec.Struct, frozen=True, tag=True, cache_hash=True):
    name: str


class Not(msgspec.Struct, frozen=True, tag=True, cache_hash=True):
    operand: "Expression"


class And(msgspec.Struct, frozen=True, tag=True, cache_hash=True):
    """Two or more operands, in the order written."""

    operands: tuple["Expression", ...]


class Or(msgspec.Struct, frozen=True, tag=True, cache_hash=True):
    operands: tuple["Expression", ...]


class Xor(msgspec.Struct, frozen=True, tag=True, cache_hash=True):
    left: "Expression"
    right: "Expression"


class Compare(msgspec.Struct, frozen=True, tag=True, cache_hash=True):
    """`operator` is one of = != < <= > >= (the text form <> is read as !=)."""

    operator: str
    left: "Expression"
    right: "Expression"


class Arithmetic(msgspec.Struct, frozen=True, tag=True, cache_hash=True):
    """`operator` is one of + - * / %."""

    operator: str
    left: "Expression"
    right: "Expression"


class Negate(msgspec.Struct, frozen=True, tag=True, cache_hash=True):
    """Unary minus on anything but a literal number, which is folded when parsed."""

    operand: "Expression"


class Like(msgspec.Struct, frozen=True, tag=True, cache_hash=True):
    """NOT LIKE is `Not(Like(...))`, and NOT IN likewise."""

    operand: "Expression"
    pattern: str


class In(msgspec.Struct, frozen=True, tag=True, cache_hash=True):
    operand: "Expression"
    choices: tuple["Expression", ...]


class Call(msgspec.Struct, frozen=True, tag=True, cache_hash=True):
    """A function by its upper-case name."""

    function: str
    arguments: tuple["Expression", ...]


Expression: TypeAlias = (
    Literal | Attribute | Exists | Not | And | Or | Xor | Compare | Arithmetic | Negate | Like | In | Call
)


TRUTH_FUNCTIONS = frozenset({"BOOL", "IS_INT", "IS_FLOAT", "IS_BOOL"})
NUMBER_FUNCTIONS = frozenset({"LENGTH", "ABS", "INT", "FLOAT"})


def parts_of(expression: Expression) -> tuple[Expression, ...]:
    """The expressions directly inside, in the order written."""
    return PARTS[type(expression)](expression)


PARTS: dict[type, Callable[[Any], tuple[Expression, ...]]] = {
    Literal: lambda literal: (),
    Attribute: lambda attribute: (),
    Exists: lambda exists: (),
    Not: lambda negation: (negation.operand,),
    And: lambda conjunction: conjunction.operands,
    Or: lambda disjunction: disjunction.operands,
    Xor: lambda exclusion: (exclusion.left, exclusion.right),
    Compare: lambda comparison: (comparison.left, comparison.right),
    Arithmetic: lambda arithmetic: (arithmetic.left, arithmetic.right),
    Negate: lambda negation: (negation.operand,),
    Like: lambda like: (like.operand,),
    In: lambda membership: (membership.operand, *membership.choices),
    Call: lambda call: call.arguments,
}


def all_of(operands: Iterable[Expression]) -> Expression:
    """AND of the operands; ANDs among them are taken apart."""
    parts = (operand.operands if isinstance(operand, And) else (operand,) for operand in operands)
    flat = tuple(chain.from_iterable(parts))
    return flat[0] if len(flat) == 1 else And(flat)


def any_of(operands: Iterable[Expression]) -> Expression:
    """OR of the operands; ORs among them are taken apart."""
    parts = (operand.operands if isinstance(operand, Or) else (operand,) for operand in operands)
    flat = tuple(chain.from_iterable(parts))
    return flat[0] if len(flat) == 1 else Or(flat)


def walk(expression: Expression) -> Iterator[Expression]:
    """Every expression inside and the expression itself, in the order written; safe for any depth."""
    waiting = [expression]
    while waiting:
        current = waiting.pop()
        yield current
        waiting.extend(reversed(parts_of(current)))


def depth_of(expression: Expression) -> int:
    """Levels of nesting; safe for any depth."""
    depth, level = 0, [expression]
    while level:
        depth, level = depth + 1, [part for current in level for part in parts_of(current)]
    return depth


def is_number_by_form(expression: Expression) -> bool:
    """Whether it is a number (or a truth, which counts as 0 or 1) whatever the event says."""
    match expression:
        case Literal(value):
            return not isinstance(value, str)
        case Attribute():
            return False
        case Call(function, _):
            return function in NUMBER_FUNCTIONS or is_truth_by_form(expression)
    return True


def is_truth_by_form(expression: Expression) -> bool:
    """Whether its value is always TRUE or FALSE."""
    match expression:
        case Literal(value):
            return isinstance(value, bool)
        case Attribute() | Arithmetic() | Negate():
            return False
        case Call(function, _):
            return function in TRUTH_FUNCTIONS
    return True
