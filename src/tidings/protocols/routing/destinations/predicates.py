"""Who may want what: the filters of a broker's clients as Bloom rows, and the rows of all brokers.

A row stands for one conjunction of a filter (`matching/bloom.py`): a message whose bits include those of the row may
match. A row with fewer bits lets more through, so everything that is left out here, to keep to a bound, costs messages
that nobody wants and never one that somebody does:

- a row that includes all bits of another of the same broker is not needed beside it;
- a conjunction with so many tags that its row would be refused as too full is shortened to its first tags;
- a broker with more rows than `rows_max` has one empty row instead, and gets everything.
"""

from collections.abc import Iterable

from tidings.matching.bloom import (
    FILL_MAX,
    BloomProfile,
    bits_of_tags,
    fill_of,
    filter_bits_cover,
    row_from_bytes,
    row_to_bytes,
)
from tidings.matching.tags import tags_of_filter
from tidings.model.filter import Filter

Rows = tuple[int, ...]
EVERYTHING: Rows = (0,)


def rows_of(filters: Iterable[Filter], profile: BloomProfile, rows_max: int) -> Rows:
    """Ascending, so that equal sets of filters give equal rows."""
    rows = {row_of_tags(tags, profile) for filter in filters for tags in tags_of_filter(filter)}
    needed: list[int] = []
    for row in sorted(rows, key=lambda row: (row.bit_count(), row)):
        if not any(filter_bits_cover(wide, row) for wide in needed):
            needed.append(row)
            if len(needed) > rows_max:
                return EVERYTHING
    return tuple(sorted(needed))


def row_of_tags(tags: tuple[str, ...], profile: BloomProfile) -> int:
    row = 0
    for tag in tags:
        fuller = row | bits_of_tags((tag,), profile)
        if fill_of(fuller, profile) > FILL_MAX:
            break
        row = fuller
    return row


def rows_to_bytes(rows: Rows, profile: BloomProfile) -> bytes:
    return b"".join(row_to_bytes(row, profile) for row in rows)


def rows_from_bytes(data: bytes, profile: BloomProfile) -> Rows:
    """UsageError where the bytes are no rows of this profile."""
    size = profile.size_bytes
    return tuple(row_from_bytes(data[place : place + size], profile) for place in range(0, len(data), size))
