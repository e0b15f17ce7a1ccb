"""The grammar of filter text, read by lark (LALR), and the building of the tree.

The grammar says what may follow what; how operators group is in `PRECEDENCES`, applied while operands arrive
(`Chain`). That way a term takes two reductions instead of one for each level of precedence, which keeps the time to
accept or reject a text in its bound.

How operators group, tightest first: unary minus; * / %; + -; comparisons, LIKE and IN; NOT; AND; XOR; OR. Equal ones
group from the left. This is what SQL does. The CESQL specification orders its operators in two ways that contradict
each other (the tables of its text, and its grammar, which reads `a AND b OR c` as `a AND (b OR c)`), and no conformance
case depends on it. By CESQL's grammar `NOT x = 1` is `(NOT x) = 1`, which fails unless x reads as a truth, and for a
truth has the same answer as `NOT (x = 1)`.

This module imports lark; `parser.py` loads it on first use.
"""

from collections.abc import Iterator
from typing import Any

import lark
from lark.lexer import Lexer

from tidings.model.bounds import ATTRIBUTE_NAME_CHARS_MAX, INTEGER_MAX, INTEGER_MIN, NUMBER_TEXT_CHARS_MAX
from tidings.model.language.expression import (
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
    Xor,
    all_of,
    any_of,
)
from tidings.model.language.lexer import TOKEN_KINDS, LexerToken, attribute_name, string_value, tokens_of
from tidings.model.values import INTEGER_SYNTAX

GRAMMAR = f"""
start: chain
chain: operand                               -> first
     | chain BINARY operand                  -> further
     | chain MINUS operand                   -> further
     | chain LIKE STRING                     -> like
     | chain NOT LIKE STRING                 -> unlike
     | chain IN OPEN list CLOSE              -> among
     | chain NOT IN OPEN list CLOSE          -> not_among
operand: NAME                                -> attribute
     | NUMBER                                -> number
     | STRING                                -> string
     | TRUE                                  -> true
     | FALSE                                 -> false
     | EXISTS NAME                           -> exists
     | OPEN chain CLOSE                      -> group
     | NAME OPEN CLOSE                       -> call
     | NAME OPEN list CLOSE                  -> call
     | MINUS operand                         -> minus
     | NOT operand                           -> negation
list: chain                                  -> first_in_list
     | list COMMA chain                      -> further_in_list
%declare {" ".join(TOKEN_KINDS)}
"""

PRECEDENCES = {
    **{"OR": 1, "XOR": 2, "AND": 3, "NOT": 4},
    **dict.fromkeys(("=", "!=", "<>", "<", "<=", ">", ">="), 5),
    **dict.fromkeys(("+", "-"), 6),
    **dict.fromkeys(("*", "/", "%"), 7),
}
COMPARISON_PRECEDENCE = PRECEDENCES["="]


class TokenProblem(Exception):
    """A token that is right in form and wrong in content; `parser.py` turns it into a message with a caret."""

    def __init__(self, problem: str, token: LexerToken) -> None:
        self.problem, self.token = problem, token
        super().__init__(problem)


class Negated:
    """An operand with NOT in front, whose reach is settled when the next operator is seen."""

    def __init__(self, operand: Any) -> None:
        self.operand, self.count = operand, 1
        if type(operand) is Negated:
            self.operand, self.count = operand.operand, operand.count + 1


class Chain:
    """Operands and operators from left to right; what binds tighter than the operator to come is built at once."""

    def __init__(self, operand: Any) -> None:
        self.operands: list[Expression] = []
        self.operators: list[str] = []
        self.push(operand)

    def push(self, operand: Any) -> None:
        if type(operand) is Negated:
            self.operators.extend(["NOT"] * operand.count)
            operand = operand.operand
        self.operands.append(settled(operand))

    def extend(self, operator: str, operand: Any) -> None:
        precedence = PRECEDENCES[operator]
        self.reduce(precedence + 1 if operator in ("AND", "OR") else precedence)
        self.operators.append(operator)
        self.push(operand)

    def reduce(self, precedence: int) -> None:
        """Build every waiting operator of at least this precedence."""
        operators, operands = self.operators, self.operands
        while operators and PRECEDENCES[operators[-1]] >= precedence:
            operator, right = operators.pop(), operands.pop()
            if operator == "NOT":
                operands.append(Not(right))
            elif operator in ("AND", "OR"):
                count = 1
                while operators and operators[-1] == operator:
                    operators.pop()
                    count += 1
                operands[-count:] = [(all_of if operator == "AND" else any_of)((*operands[-count:], right))]
            else:
                operands.append(binary(operator, operands.pop(), right))

    def replace_last(self, wrap: Any) -> None:
        """Put LIKE or IN behind what was read last."""
        self.reduce(COMPARISON_PRECEDENCE)
        self.operands[-1] = wrap(self.operands[-1])

    def finish(self) -> Expression:
        self.reduce(0)
        return self.operands[0]


def binary(operator: str, left: Expression, right: Expression) -> Expression:
    if operator == "XOR":
        return Xor(left, right)
    if PRECEDENCES[operator] == COMPARISON_PRECEDENCE:
        return Compare("!=" if operator == "<>" else operator, left, right)
    return Arithmetic(operator, left, right)


def settled(operand: Any) -> Expression:
    """The operand as a tree. A token is 2**63, legal only as what a minus sign turns into the least integer."""
    if type(operand) is Negated:
        inner = settled(operand.operand)
        for _ in range(operand.count):
            inner = Not(inner)
        return inner
    if type(operand) is LexerToken:
        raise TokenProblem("integer beyond 64 bit: write it with a decimal point", operand)
    return operand  # type: ignore[no-any-return]


class TreeBuilder:
    """What each line of the grammar builds; lark calls the method named behind its arrow with the parts."""

    def start(self, parts: list[Any]) -> Expression:
        return parts[0].finish()  # type: ignore[no-any-return]

    def first(self, parts: list[Any]) -> Chain:
        return Chain(parts[0])

    def further(self, parts: list[Any]) -> Chain:
        chain, operator, operand = parts
        chain.extend(operator.value, operand)
        return chain  # type: ignore[no-any-return]

    def like(self, parts: list[Any]) -> Chain:
        chain, pattern = parts[0], string_value(parts[-1].value)
        chain.replace_last(lambda operand: Like(operand, pattern))
        return chain  # type: ignore[no-any-return]

    def unlike(self, parts: list[Any]) -> Chain:
        chain, pattern = parts[0], string_value(parts[-1].value)
        chain.replace_last(lambda operand: Not(Like(operand, pattern)))
        return chain  # type: ignore[no-any-return]

    def among(self, parts: list[Any]) -> Chain:
        chain, choices = parts[0], tuple(parts[-2])
        chain.replace_last(lambda operand: In(operand, choices))
        return chain  # type: ignore[no-any-return]

    def not_among(self, parts: list[Any]) -> Chain:
        chain, choices = parts[0], tuple(parts[-2])
        chain.replace_last(lambda operand: Not(In(operand, choices)))
        return chain  # type: ignore[no-any-return]

    def attribute(self, parts: list[LexerToken]) -> Attribute:
        return Attribute(name_of(parts[0]))

    def exists(self, parts: list[LexerToken]) -> Exists:
        return Exists(name_of(parts[1]))

    def number(self, parts: list[LexerToken]) -> Literal | LexerToken:
        return number_literal(parts[0])

    def string(self, parts: list[LexerToken]) -> Literal:
        return Literal(string_value(parts[0].value))

    def true(self, parts: list[LexerToken]) -> Literal:
        return Literal(True)

    def false(self, parts: list[LexerToken]) -> Literal:
        return Literal(False)

    def group(self, parts: list[Any]) -> Expression:
        return parts[1].finish()  # type: ignore[no-any-return]

    def call(self, parts: list[Any]) -> Call:
        return Call(parts[0].value.upper(), tuple(parts[2]) if len(parts) == 4 else ())

    def minus(self, parts: list[Any]) -> Expression:
        operand = parts[1]
        if type(operand) is LexerToken:
            return Literal(-int(operand.value))
        operand = settled(operand)
        if isinstance(operand, Literal) and not isinstance(operand.value, bool | str) and operand.value != INTEGER_MIN:
            return Literal(-operand.value)
        return Negate(operand)

    def negation(self, parts: list[Any]) -> Negated:
        return Negated(parts[1])

    def first_in_list(self, parts: list[Any]) -> list[Expression]:
        return [parts[0].finish()]

    def further_in_list(self, parts: list[Any]) -> list[Expression]:
        parts[0].append(parts[2].finish())
        return parts[0]  # type: ignore[no-any-return]


def name_of(token: LexerToken) -> str:
    if len(token.value) > ATTRIBUTE_NAME_CHARS_MAX:
        raise TokenProblem(
            f"name of {len(token.value)} characters, at most {ATTRIBUTE_NAME_CHARS_MAX} are allowed", token
        )
    return attribute_name(token.value)


def number_literal(token: LexerToken) -> Literal | LexerToken:
    if len(token.value) > NUMBER_TEXT_CHARS_MAX:
        raise TokenProblem(f"number of {len(token.value)} digits, at most {NUMBER_TEXT_CHARS_MAX} are allowed", token)
    if not INTEGER_SYNTAX.fullmatch(token.value):
        decimal = float(token.value)
        if decimal == float("inf"):
            raise TokenProblem("this number is too large: at most 1.7976931348623157e308", token)
        return Literal(decimal)
    integer = int(token.value)
    if integer > INTEGER_MAX + 1:
        raise TokenProblem("integer beyond 64 bit: write it with a decimal point", token)
    return token if integer > INTEGER_MAX else Literal(integer)


class TokenSource(Lexer):
    """Hands our tokens to lark."""

    def __init__(self, lexer_conf: object) -> None:
        pass

    def lex(self, data: Any) -> Iterator[Any]:  # type: ignore[override]
        return tokens_of(str(data))


def build_parser() -> lark.Lark:
    return lark.Lark(GRAMMAR, parser="lalr", lexer=TokenSource, transformer=TreeBuilder(), maybe_placeholders=False)
