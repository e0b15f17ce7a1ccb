"""The syntax tree of a filter expression: small frozen structs, one per kind of node.

A tree is what the text says, before any normal form. It is evaluated by `evaluation.py` (exactly, with CESQL's casts
and errors), turned into constraints by `normal_form.py`, and printed back by `text` there.
"""

from typing import Union

import msgspec

from tidings.model.values import Value


class Literal(msgspec.Struct, frozen=True, tag=True):
    value: Value


class Attribute(msgspec.Struct, frozen=True, tag=True):
    name: str


class Exists(msgspec.Struct, frozen=True, tag=True):
    name: str


class Not(msgspec.Struct, frozen=True, tag=True):
    operand: "Expression"


class And(msgspec.Struct, frozen=True, tag=True):
    """Two or more operands, in the order written."""

    operands: tuple["Expression", ...]


class Or(msgspec.Struct, frozen=True, tag=True):
    operands: tuple["Expression", ...]


class Xor(msgspec.Struct, frozen=True, tag=True):
    left: "Expression"
    right: "Expression"


class Compare(msgspec.Struct, frozen=True, tag=True):
    """`operator` is one of = != < <= > >= (the text form <> is read as !=)."""

    operator: str
    left: "Expression"
    right: "Expression"


class Arithmetic(msgspec.Struct, frozen=True, tag=True):
    """`operator` is one of + - * / %."""

    operator: str
    left: "Expression"
    right: "Expression"


class Negate(msgspec.Struct, frozen=True, tag=True):
    """Unary minus on anything but a literal number, which is folded when parsed."""

    operand: "Expression"


class Like(msgspec.Struct, frozen=True, tag=True):
    """NOT LIKE is `Not(Like(...))`, and NOT IN likewise."""

    operand: "Expression"
    pattern: str


class In(msgspec.Struct, frozen=True, tag=True):
    operand: "Expression"
    choices: tuple["Expression", ...]


class Call(msgspec.Struct, frozen=True, tag=True):
    """A function by its upper-case name."""

    function: str
    arguments: tuple["Expression", ...]


Expression = Union[Literal, Attribute, Exists, Not, And, Or, Xor, Compare, Arithmetic, Negate, Like, In, Call]
