"""What commands have in common: how they print, how they end, and how people write times.

They print plain lines that read well without colour, or one JSON value; each kind of problem has its exit code; a time
is 5m (ago), or an instant.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import msgspec
import typer

from tidings.model.errors import UsageError
from tidings.net.errors import ClientError, Closed, HostError, NotPermitted, NotReachable
from tidings.net.inspector import NotInspected

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


CODES: tuple[tuple[type[UsageError], int], ...] = (
    (NotPermitted, NOT_PERMITTED),
    (NotReachable, NOT_REACHABLE),
    (Closed, NOT_REACHABLE),
    (ClientError, NO),
    (HostError, MACHINE),
)
"""The first that fits holds."""


def exit_code(problem: UsageError) -> int:
    if isinstance(problem, NotInspected):
        return NOT_PERMITTED if problem.is_refused else NOT_REACHABLE
    return next((code for kind, code in CODES if isinstance(problem, kind)), USAGE)


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


def print_json(answer: object) -> None:
    print(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())


def json_line(answer: object) -> str:
    return msgspec.json.encode(answer).decode()


def table_lines(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as they need to be, the last one open."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *rows)
    ]
