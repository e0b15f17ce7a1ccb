"""Sets of strings: a finite list, or what is left of all strings under a range, patterns and exclusions.

    include     exactly these strings; then every other field is empty (the canonical form of a finite set)
    low, high   low <= s < high in code-point order; '' and None stand for no end.
                `s > 'm'` is low 'm\\0', `s <= 'm'` is high 'm\\0': no string lies between 'm' and 'm\\0'
    likes       LIKE patterns that must all match
    unlikes     LIKE patterns none of which may match
    exclude     strings that are not in the set
"""

import msgspec


class TextSet(msgspec.Struct, frozen=True):
    """A set of strings; tuples are sorted and free of duplicates."""

    include: tuple[str, ...] | None = None
    low: str = ""
    high: str | None = None
    likes: tuple[str, ...] = ()
    unlikes: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
