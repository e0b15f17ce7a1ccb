"""Times as people write them: 5m ago, or an instant."""

import re
from datetime import UTC, datetime

from tidings.model.errors import UsageError

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
