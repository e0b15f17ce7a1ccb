"""From text to filters: `parse` for filters, `parse_expression` for any CESQL expression.

Everything that is wrong with a text is a `FilterSyntaxError`, which shows the place with a caret and says in words what
was expected there. Length, number of tokens and depth are bounded, so that no text takes long to accept or reject.

CESQL calls an unknown function, or one with the wrong number of arguments, an error of evaluation; `parse_expression`
keeps to that. A filter with such a call could never match, so `parse` refuses it and suggests a name.
"""

from difflib import get_close_matches
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, cast

from tidings.model.bounds import EXPRESSION_DEPTH_MAX, FILTER_TEXT_BYTES_MAX
from tidings.model.errors import FilterSyntaxError, UsageError
from tidings.model.filter import Filter
from tidings.model.language.expression import Call, Expression, depth_of, walk
from tidings.model.language.functions import FUNCTIONS, Function, find_function
from tidings.model.language.lexer import tokens_of
from tidings.model.language.normal_form import normalise

if TYPE_CHECKING:
    from lark import Lark


FILTERS_KEPT, FILTER_CHARS_KEPT_MAX = 4096, 256
"""Filters that are remembered by their text, and how long a text may be for it: the same few are read again and again,
by the parts of a broker and, in a simulation, by all its brokers."""


def parse(text: str) -> Filter:
    """The filter that the text says; `FilterSyntaxError` shows where the text is wrong."""
    if isinstance(text, str) and len(text) <= FILTER_CHARS_KEPT_MAX:
        return parse_once(text)
    return parse_anew(text)


def parse_anew(text: str) -> Filter:
    expression = parse_expression(text)
    check_calls(text, expression)
    try:
        return normalise(expression)
    except UsageError as problem:
        raise FilterSyntaxError(str(problem), text, 0) from None


parse_once = lru_cache(FILTERS_KEPT)(parse_anew)


def parse_expression(text: str) -> Expression:
    """The syntax tree of the text, for `evaluate`."""
    check_length(text)
    from lark.exceptions import UnexpectedToken

    from tidings.model.language.grammar import TokenProblem

    try:
        expression = cast(Expression, parser().parse(text))
    except UnexpectedToken as error:
        at_end = error.token.type == "$END"
        raise syntax_error(text, None if at_end else error.token.start_pos, set(error.expected)) from None
    except TokenProblem as error:
        raise FilterSyntaxError(error.problem, text, error.token.start_pos) from None
    if depth_of(expression) > EXPRESSION_DEPTH_MAX:
        raise FilterSyntaxError(f"nested deeper than {EXPRESSION_DEPTH_MAX} levels: write it flatter", text, 0)
    return expression


@cache
def parser() -> "Lark":
    from tidings.model.language.grammar import build_parser

    return build_parser()


def check_length(text: str) -> None:
    if not isinstance(text, str):
        raise UsageError(f"filter text must be a str, not {type(text).__name__}")
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError as error:
        raise FilterSyntaxError("lone surrogate, which has no UTF-8 form", text, error.start) from None
    if size_bytes > FILTER_TEXT_BYTES_MAX:
        raise FilterSyntaxError(
            f"filter of {size_bytes} bytes, at most {FILTER_TEXT_BYTES_MAX} are allowed", text, FILTER_TEXT_BYTES_MAX
        )


def check_calls(text: str, expression: Expression) -> None:
    """Refuse calls that no function answers. The calls of a tree stand in the same order as in its text."""
    calls = [call for call in walk(expression) if isinstance(call, Call)]
    for place, call in enumerate(calls):
        if find_function(call.function, len(call.arguments)) is None:
            raise FilterSyntaxError(problem_with(call), text, call_positions(text)[place])


def call_positions(text: str) -> list[int]:
    tokens = list(tokens_of(text))
    return [name.start_pos for name, sign in pairwise(tokens) if name.type == "NAME" and sign.type == "OPEN"]


def problem_with(call: Call) -> str:
    functions = FUNCTIONS.get(call.function)
    if functions is None:
        similar = get_close_matches(call.function[:40], FUNCTIONS, n=3)
        advice = f"did you mean {' or '.join(similar)}?" if similar else f"there are {', '.join(FUNCTIONS)}"
        return f"unknown function {call.function[:40]}: {advice}"
    counts = " or ".join(arity_words(function) for function in functions)
    return f"{call.function} takes {counts}, not {len(call.arguments)}"


def arity_words(function: Function) -> str:
    count = len(function.parameters)
    return f"{'at least ' if function.rest else ''}{count} argument{'' if count == 1 else 's'}"


def syntax_error(text: str, position: int | None, expected: set[str]) -> FilterSyntaxError:
    """`position` None is the end of the text."""
    if not text.strip(" \t\r\n"):
        return FilterSyntaxError("the filter is empty: expected a condition such as price > 100, or TRUE", text, 0)
    opened = unclosed_parenthesis(text, position)
    wanted = "expected " + expected_words(expected, opened)
    if position is None:
        if opened is not None and "CLOSE" in expected:
            return FilterSyntaxError("this parenthesis is not closed: expected )", text, opened.position)
        return FilterSyntaxError(f"the filter ends too early: {wanted}", text, len(text.rstrip(" \t\r\n")))
    word = next(token.value for token in tokens_of(text) if token.start_pos == position)
    found = f"unexpected {word[:40]}"
    if word.upper() in FOREIGN_WORDS:
        return FilterSyntaxError(f"{found}: {FOREIGN_WORDS[word.upper()]}", text, position)
    if word == ")" and opened is None:
        return FilterSyntaxError("this parenthesis was never opened", text, position)
    return FilterSyntaxError(f"{found}: {wanted}", text, position)


class Opened(NamedTuple):
    """A parenthesis; a list follows it if it belongs to IN or to a function."""

    position: int
    is_list: bool


def unclosed_parenthesis(text: str, position: int | None) -> Opened | None:
    """The innermost parenthesis that is still open at `position`."""
    opened: list[Opened] = []
    before = ""
    for token in tokens_of(text):
        if token.start_pos == position:
            break
        if token.type == "OPEN":
            opened.append(Opened(token.start_pos, before in ("NAME", "IN")))
        elif token.type == "CLOSE":
            opened.pop()
        before = token.type
    return opened[-1] if opened else None


FOREIGN_WORDS = {
    "IS": "write EXISTS name or NOT EXISTS name to ask whether an attribute is there",
    "BETWEEN": "write x >= 1 AND x <= 5",
    "ILIKE": "write LOWER(x) LIKE 'pattern'",
    "DIV": "write /",
    "MOD": "write %",
}


def expected_words(expected: set[str], opened: Opened | None) -> str:
    """What the parser expected, without what would fit only elsewhere (it does not tell apart its contexts)."""
    if expected == {"NAME"}:
        return "an attribute name"
    if expected == {"STRING"}:
        return "a pattern in quotes"
    if expected == {"OPEN"}:
        return "( and a list of values"
    if expected == {"LIKE", "IN"}:
        return "LIKE or IN"
    words = ["a value, an attribute name, NOT or ("] if "NUMBER" in expected else []
    words += ["an operator such as =, LIKE, IN, AND or OR"] if "BINARY" in expected else []
    words += ["a comma"] if "COMMA" in expected and opened is not None and opened.is_list else []
    words += [")"] if "CLOSE" in expected and opened is not None else []
    words += ["the end"] if "$END" in expected and opened is None else []
    return ", or ".join(words)
