"""The syntax tree of a filter expression: small frozen structs, one per kind of node.

A tree is what the text says, before any normal form. It is evaluated by `evaluation.py` (exactly, with CESQL's casts
and errors), turned into constraints by `normal_form.py`, and printed back. Nodes remember their hash,
so that looking a tree up in a cache does not walk it.

Printing gives text that parses back to an equal filter. A constraint becomes the expression that says it, a conjunction
their AND, a filter the OR of its conjunctions; the expression is then printed with as few parentheses as its operators
allow. Numbers print the shorter of two equal ends: `x > 5` rather than `x >= 5.000000000000001`, since no number lies
between. A filter with a residual expression prints that: the normal form beside it follows from it.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from tidings.model.language.lexer import quoted
from tidings.model.sets.constraint import Constraint, Interval, NumberSet
from tidings.model.sets.texts import TextSet
from tidings.model.values import Number, Value, next_number, number_of, previous_number, text_of, truth_of

if TYPE_CHECKING:
    from tidings.model.filter import Filter
    from tidings.model.sets.conjunction import Conjunction


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


def filter_text(filter: "Filter") -> str:
    return expression_text(filter_expression(filter))


def conjunction_text(conjunction: "Conjunction") -> str:
    return expression_text(conjunction_expression(conjunction))


def constraint_text(constraint: Constraint) -> str:
    return expression_text(constraint_expression(constraint))


def filter_expression(filter: "Filter") -> Expression:
    """An expression that says what the filter says."""
    if filter.residual is not None:
        return filter.residual
    if not filter.conjunctions:
        return Literal(False)
    return any_of(conjunction_expression(conjunction) for conjunction in filter.conjunctions)


def conjunction_expression(conjunction: "Conjunction") -> Expression:
    return all_of(map(constraint_expression, conjunction)) if conjunction else Literal(True)


def constraint_expression(constraint: Constraint) -> Expression:
    if not constraint.present:
        return Not(Exists(constraint.name))
    attribute = Attribute(constraint.name)
    parts: list[Expression] = []
    if constraint.number is not None:
        parts.append(number_expression(attribute, constraint.number))
    if constraint.text is not None:
        parts.extend(text_expressions(attribute, constraint.text))
    if constraint.truth is not None:
        parts.append(Compare("=", attribute, Literal(constraint.truth)))
    return all_of(parts) if parts else Exists(constraint.name)


def number_expression(attribute: Attribute, numbers: NumberSet) -> Expression:
    if numbers.is_everything():
        return Or((Compare("<", attribute, Literal(0)), Compare(">=", attribute, Literal(0))))
    holes = single_holes(numbers)
    if holes:
        ends = interval_expressions(attribute, (numbers.intervals[0][0], numbers.intervals[-1][1]))
        return all_of([*ends, *(Compare("!=", attribute, Literal(hole)) for hole in holes)])
    return any_of(all_of(interval_expressions(attribute, interval)) for interval in numbers.intervals)


def single_holes(numbers: NumberSet) -> list[Number]:
    """The numbers missing between least and greatest, if each of them stands alone; else none."""
    holes = []
    for (_, high), (low, _) in zip(numbers.intervals, numbers.intervals[1:], strict=False):
        hole = next_number(high)
        if next_number(hole) != low:
            return []
        holes.append(hole)
    return holes


def interval_expressions(attribute: Attribute, interval: Interval) -> Iterator[Expression]:
    low, high = interval
    if low == high:
        yield Compare("=", attribute, Literal(low))
        return
    if low != -math.inf:
        yield Compare(*shorter_end(attribute, low, ">=", ">", previous_number(low)))
    if high != math.inf:
        yield Compare(*shorter_end(attribute, high, "<=", "<", next_number(high)))


def shorter_end(
    attribute: Attribute, end: Number, closed: str, opened: str, neighbour: Number
) -> tuple[str, Attribute, Literal]:
    if math.isfinite(neighbour) and len(repr(neighbour)) < len(repr(end)):
        return opened, attribute, Literal(neighbour)
    return closed, attribute, Literal(end)


def text_expressions(attribute: Attribute, texts: TextSet) -> Iterator[Expression]:
    if texts.include is not None:
        yield membership(attribute, texts.include)
        return
    if texts.low:
        yield low_end(attribute, texts)
    if texts.high is not None:
        yield high_end(attribute, texts.high)
    yield from (Like(attribute, pattern) for pattern in texts.likes)
    yield from (Not(Like(attribute, pattern)) for pattern in texts.unlikes)
    if len(texts.exclude) > 1 and all(map(is_plain, texts.exclude)):
        yield Not(In(attribute, tuple(map(Literal, texts.exclude))))
    else:
        yield from (Compare("!=", attribute, Literal(text)) for text in texts.exclude)


def membership(attribute: Attribute, texts: tuple[str, ...]) -> Expression:
    if len(texts) > 1 and all(map(is_plain, texts)):
        return In(attribute, tuple(map(Literal, texts)))
    return any_of(Compare("=", attribute, Literal(text)) for text in texts)


def is_plain(text: str) -> bool:
    """Whether IN, which casts it to the type of the attribute's value, means just this text by it."""
    number, truth = number_of(text), truth_of(text)
    return (number is None or text_of(number) == text) and (truth is None or text_of(truth) == text)


def low_end(attribute: Attribute, texts: TextSet) -> Expression:
    """`s > 'm'` where the set begins at 'm\\0'. Comparing with text that reads as a number would compare numbers."""
    low = texts.low
    if low.endswith("\0") and number_of(low[:-1]) is None:
        return Compare(">", attribute, Literal(low[:-1]))
    if number_of(low) is None:
        return Compare(">=", attribute, Literal(low))
    above = Compare(">=", attribute, Literal(low + "\0"))
    return any_of((Compare("=", attribute, Literal(low)), above)) if low in texts else above


def high_end(attribute: Attribute, high: str) -> Expression:
    """`s <= 'm'` where the set ends before 'm\\0'."""
    if high.endswith("\0") and number_of(high[:-1]) is None:
        return Compare("<=", attribute, Literal(high[:-1]))
    if number_of(high) is None:
        return Compare("<", attribute, Literal(high))
    return all_of((Compare("<", attribute, Literal(high + "\0")), Compare("!=", attribute, Literal(high))))


OR, XOR, AND, NOT, COMPARISON, SUM, PRODUCT, OPERAND = range(1, 9)
"""How tight an expression holds together; as in `grammar.PRECEDENCES`."""


def expression_text(expression: Expression) -> str:
    return spell(expression)[0]


def spell(expression: Expression) -> tuple[str, int]:
    """The text, and how tight it holds together."""
    return SPELLINGS[type(expression)](expression)


def within(expression: Expression, tightness: int) -> str:
    """The text, in parentheses unless it holds together at least so tight."""
    text, own = spell(expression)
    return text if own >= tightness else f"({text})"


def spell_literal(literal: Literal) -> tuple[str, int]:
    value = literal.value
    if isinstance(value, str):
        return quoted(value), OPERAND
    return (str(value).upper() if isinstance(value, bool) else repr(value)), OPERAND


def spell_not(negation: Not) -> tuple[str, int]:
    match negation.operand:
        case Like(operand, pattern):
            return f"{within(operand, COMPARISON)} NOT LIKE {quoted(pattern)}", COMPARISON
        case In(operand, choices):
            return f"{within(operand, COMPARISON)} NOT IN {spell_list(choices)}", COMPARISON
    return f"NOT {within(negation.operand, NOT)}", NOT


def spell_compare(comparison: Compare) -> tuple[str, int]:
    left, right = within(comparison.left, COMPARISON), within(comparison.right, SUM)
    return f"{left} {comparison.operator} {right}", COMPARISON


def spell_arithmetic(arithmetic: Arithmetic) -> tuple[str, int]:
    tightness = SUM if arithmetic.operator in "+-" else PRODUCT
    left, right = within(arithmetic.left, tightness), within(arithmetic.right, tightness + 1)
    return f"{left} {arithmetic.operator} {right}", tightness


def spell_list(items: tuple[Expression, ...]) -> str:
    return f"({', '.join(map(expression_text, items))})"


SPELLINGS: dict[type, Callable[[Any], tuple[str, int]]] = {
    Literal: spell_literal,
    Attribute: lambda attribute: (attribute.name, OPERAND),
    Exists: lambda exists: (f"EXISTS {exists.name}", OPERAND),
    Not: spell_not,
    And: lambda each: (" AND ".join(within(operand, NOT) for operand in each.operands), AND),
    Or: lambda each: (" OR ".join(within(operand, XOR) for operand in each.operands), OR),
    Xor: lambda each: (f"{within(each.left, XOR)} XOR {within(each.right, AND)}", XOR),
    Compare: spell_compare,
    Arithmetic: spell_arithmetic,
    Negate: lambda negation: (f"-{within(negation.operand, OPERAND)}", OPERAND),
    Like: lambda like: (f"{within(like.operand, COMPARISON)} LIKE {quoted(like.pattern)}", COMPARISON),
    In: lambda each: (f"{within(each.operand, COMPARISON)} IN {spell_list(each.choices)}", COMPARISON),
    Call: lambda call: (f"{call.function}{spell_list(call.arguments)}", OPERAND),
}
