"""What commands have in common: how they print, how they end, and how people write times.

They print plain lines that read well without colour, or one JSON value; a time is 5m (ago), or an instant. What those
have in common that talk to a broker stands in `reach.py`, so that others need not load it.
"""

import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from json import dumps as json_string
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tidings.model.errors import UsageError
from tidings.model.escapes import printable

if TYPE_CHECKING:
    from rich.text import Text

OK = 0
"""Done; for a question, yes."""
NO = 1
"""For a question, no; something was found wrong, or did not succeed."""
USAGE = 2
"""Called wrongly."""
NOT_REACHABLE = 3
"""No broker answers there."""
NOT_PERMITTED = 4
"""A broker does not let us in, or not do this."""
MACHINE = 5
"""This machine refuses: a port that is taken, a file that cannot be used."""


UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


def read_span(text: str, option: str) -> float:
    """30s, 5m, 12h, 30d."""
    found = SPAN.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{option} {text}: write a span as 30s, 5m, 12h or 30d")
    return float(found[1]) * UNITS[found[2]]


def read_instant(text: str, option: str, now: float) -> float:
    """A time of day in seconds: a span before now, seconds since 1970, or an ISO time (UTC if it names no zone)."""
    text = text.strip()
    if SPAN.fullmatch(text):
        return now - read_span(text, option)
    try:
        return float(text)
    except ValueError:
        pass
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{option} {text}: give a span such as 5m, a time such as 2026-11-15T09:30:00Z, or seconds since 1970"
        ) from None
    return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp()


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")]


def show(*lines: str, to_stderr: bool = False) -> None:
    """Print these lines, each of them one line, whatever is in it."""
    print("\n".join(map(printable, lines)), file=sys.stderr if to_stderr else sys.stdout, flush=True)


def print_json(answer: object) -> None:
    print(in_ascii(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode()))


def json_line(answer: object) -> str:
    return in_ascii(msgspec.json.encode(answer).decode())


BEYOND_ASCII = re.compile(r"[^\n -~]")


def in_ascii(json: str) -> str:
    """Other characters stand inside strings only, and have escapes there."""
    return BEYOND_ASCII.sub(lambda found: json_string(found[0])[1:-1].replace("\x7f", "\\u007f"), json)


def table_lines(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as they need to be, the last one open."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *rows)
    ]


def drawn(cells: Sequence[str]) -> "list[Text]":
    """The same cells for a table of rich, which would read square brackets as orders."""
    from rich.text import Text

    return [Text(printable(cell)) for cell in cells]
