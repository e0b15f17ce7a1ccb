r"""Filter text cut into tokens.

One regular expression names every token. What it cannot name is an error that points at the place: an unclosed string,
a character that means nothing here, or an operator of another language, for which it tells ours.

Strings stand in single or double quotes. A backslash is an ordinary character, except right before the quote mark that
would close the string: there `\'` is the mark itself and `\\` is one backslash, as in `'it\'s'` and `'C:\\'`. (CESQL
has the first rule, which leaves no way to end a string with a backslash; hence the second.) The escapes of LIKE
patterns pass through.

Names follow `values.NAME_SYNTAX`. What begins with a digit is a number if all of it reads as one: `1e5` and `1e+5` are
numbers, `1e5x` is a name.
"""

import re
from collections.abc import Iterator
from typing import ClassVar

import msgspec

from tidings.model.bounds import FILTER_TOKENS_MAX
from tidings.model.errors import FilterSyntaxError

KEYWORDS = frozenset({"AND", "OR", "XOR", "NOT", "LIKE", "IN", "EXISTS", "TRUE", "FALSE"})
BINARY_KEYWORDS = frozenset({"AND", "OR", "XOR"})
TOKEN_KINDS = (
    *("NAME", "NUMBER", "STRING", "BINARY", "MINUS", "OPEN", "CLOSE", "COMMA"),
    *("NOT", "LIKE", "IN", "EXISTS", "TRUE", "FALSE"),
)

TOKEN_SYNTAX = re.compile(
    r"""[ \t\r\n]*(?:
      (?P<NUMBER>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_.]))
    | (?P<NAME>[0-9]*[A-Za-z_][A-Za-z0-9_.]*)
    | (?P<STRING>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    | (?P<BINARY><>|[!<>]=|=(?!=)|[<>+*/%])
    | (?P<MINUS>-)
    | (?P<OPEN>\()
    | (?P<CLOSE>\))
    | (?P<COMMA>,)
    | (?P<UNKNOWN>.)
    )""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)

CONTEXT_NAMES = frozenset({"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema"})
"""The CloudEvents attributes, whose names CESQL reads in either case; all other names keep theirs."""

FOREIGN_OPERATORS = {
    "==": "write = to compare",
    "&&": "write AND",
    "||": "write OR",
    "&": "write AND",
    "|": "write OR",
    "!": "write NOT",
    "^": "write XOR",
}


class LexerToken(msgspec.Struct, frozen=True):
    """Kind, text and place. lark copies the other fields to the token that ends the text; nobody reads them."""

    type: str
    value: str
    start_pos: int
    line: ClassVar[None] = None
    column: ClassVar[None] = None
    end_line: ClassVar[None] = None
    end_column: ClassVar[None] = None
    end_pos: ClassVar[None] = None


def tokens_of(text: str) -> Iterator[LexerToken]:
    """The tokens in order; operators and keywords carry their canonical spelling."""
    for count, match in enumerate(TOKEN_SYNTAX.finditer(text.rstrip(" \t\r\n"))):
        kind = match.lastgroup
        assert kind is not None
        value, position = match[kind], match.start(kind)
        if kind == "NAME":
            word = value.upper()
            if word in KEYWORDS:
                kind, value = ("BINARY" if word in BINARY_KEYWORDS else word), word
        elif kind == "UNKNOWN":
            raise unknown_token(text, position)
        if count == FILTER_TOKENS_MAX:
            raise FilterSyntaxError(
                f"more than {FILTER_TOKENS_MAX} words and signs: split the filter into several", text, position
            )
        yield LexerToken(kind, value, position)


def count_tokens(text: str) -> int:
    return sum(1 for _ in TOKEN_SYNTAX.finditer(text))


def unknown_token(text: str, position: int) -> FilterSyntaxError:
    character = text[position]
    if character in "'\"":
        return FilterSyntaxError(f"this string is not closed: expected {character} at its end", text, position)
    for operator, advice in FOREIGN_OPERATORS.items():
        if text.startswith(operator, position):
            return FilterSyntaxError(f"{operator} is not an operator here: {advice}", text, position)
    if character in "0123456789.":
        word = re.compile(r"[A-Za-z0-9_.]+").match(text, position)
        assert word is not None
        return FilterSyntaxError(f"{word[0][:40]} is neither a number nor a name", text, position)
    return FilterSyntaxError(f"unexpected character {character!r}: strings stand in quotes", text, position)


def attribute_name(name: str) -> str:
    """The name of the attribute that a name in a filter means."""
    return name.lower() if name.lower() in CONTEXT_NAMES else name


def string_value(token_text: str) -> str:
    """The string that a quoted token stands for."""
    mark, body = token_text[0], token_text[1:-1]
    if "\\" not in body:
        return body
    return UNESCAPE[mark].sub(lambda match: "\\" * (len(match[1]) // 2) + match[2], body)


def quoted(text: str) -> str:
    """The token that stands for the string."""
    return "'" + ESCAPE.sub(lambda match: match[1] * 2 + ("\\'" if match[2] else ""), text) + "'"


UNESCAPE = {mark: re.compile(rf"(\\+)({mark}|\Z)") for mark in "'\""}
ESCAPE = re.compile(r"(?<!\\)(\\*)('|\Z)")
