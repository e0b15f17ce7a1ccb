"""What a broker has of a publisher's numbers, and what it knows to be missing.

A publisher that moves leaves a part of its publications at each broker. Each of them can tell which numbers it *holds*
(they passed through its hands and are stored, or were declined) and which it *lacks* (it forgot them, or the publisher
published them elsewhere). What one lacks another may hold; what is left then is lost, and whoever reads must be told.

An extent is a pair: the numbers behind the first, up to and including the second.
"""

from collections.abc import Iterable

Extent = tuple[int, int]


def without(extents: Iterable[Extent], others: Iterable[Extent]) -> list[Extent]:
    """The numbers of the extents that are in none of the others."""
    left = [extent for extent in extents if extent[0] < extent[1]]
    for begin, end in others:
        if begin < end:
            pieces = [piece for first, last in left for piece in ((first, min(last, begin)), (max(first, end), last))]
            left = [piece for piece in pieces if piece[0] < piece[1]]
    return left


def within(extents: Iterable[Extent], begin: int, end: int) -> list[Extent]:
    """What of them lies behind `begin` and not behind `end`."""
    cut = [(max(first, begin), min(last, end)) for first, last in extents]
    return [extent for extent in cut if extent[0] < extent[1]]
