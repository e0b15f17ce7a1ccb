r"""Text that others chose, where people see it.

A terminal obeys what is printed on it: an escape sequence moves the cursor or hides what stands above, a carriage
return writes over the line, a bidirectional mark turns it round; a log line that holds a line break is two lines. So
nothing from outside is shown as it came.

*Names* (of clients, brokers, groups, principals) are read by people everywhere and compared by eye. They have no such
characters at all: `PRINTABLE` is the rule, checked where a name comes in, over the wire or from a program. The rule is
a list of ranges and not what this Python knows of Unicode, because two nodes must agree on it.

*Everything else* (values of attributes, reasons, filters) may hold any text, and is escaped where it is shown:
`printable` for terminals and logs, `markup` for SVG and HTML.
"""

import re
from html import escape

from tidings.model.bounds import NAME_CHARS_MAX
from tidings.model.errors import UsageError

HIDDEN = (
    # C0 and DEL, C1, soft hyphen.
    r"\x00-\x1f\x7f-\x9f\xad"
    # Marks of scripts that are no letters; the zero-width and bidirectional ones; separators of lines and paragraphs.
    r"\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    r"\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff"
    # Surrogates, controls of notations, tags.
    r"\ud800-\udfff\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff"
)
PRINTABLE = rf"\A(?:[ -~]*|[^{HIDDEN}]*)\Z"
"""What a name consists of, as a regular expression, of which the first half is the quick one; how long a name is, is
said besides."""

printable_syntax = re.compile(f"[^{HIDDEN}]*")


def check_printable(what: str, name: str) -> str:
    """The name; UsageError if it is none that others may see."""
    if not isinstance(name, str) or not 1 <= len(name) <= NAME_CHARS_MAX:
        raise UsageError(f"{what}: {name!r:.60} is no name; give a text of 1 to {NAME_CHARS_MAX} characters")
    if not printable_syntax.fullmatch(name):
        raise UsageError(f"{what}: {printable(name)!r:.80} has characters that cannot be seen; leave them out")
    return name


def printable(text: str) -> str:
    r"""With `\x1b` and the like in place of what a terminal would obey, or nobody see. A line break is such a thing."""
    if text.isprintable() and printable_syntax.fullmatch(text):
        return text
    return "".join([each if is_seen(each) else escaped(each) for each in text])


def is_seen(character: str) -> bool:
    return character.isprintable() and printable_syntax.fullmatch(character) is not None


def escaped(character: str) -> str:
    number = ord(character)
    if number < 0x100:
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character, f"\\x{number:02x}")
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def markup(text: str) -> str:
    """The same for SVG and HTML, inside elements and attributes."""
    return escape(printable(text))
