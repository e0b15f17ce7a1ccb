"""Blocks of the arena, and what stands in a record (`layout.py` draws it)."""

import numpy as np

from tidings.matching.index.kernels.layout import (
    ABSENT,
    ATOM_HOMES,
    CLASSES,
    EDGES,
    FREE,
    LEFT_OPEN,
    LINE,
    PAGE_WORDS,
    POSITION,
    RECORD_BODY,
    SMALL_WORDS,
    TOP,
    IndexStore,
    Integer,
    Real,
    inner,
    integer,
)


@inner
def block_class(size: Integer) -> Integer:
    """Which list of free blocks this size belongs to: one for each size up to SMALL_WORDS, and one for each number of
    pages beyond. All blocks of a list are as large as its largest size, so any of them will do."""
    return size if size <= SMALL_WORDS else SMALL_WORDS + (size + PAGE_WORDS - 1) // PAGE_WORDS


@inner
def take_block(store: IndexStore, size: Integer) -> Integer:
    """A block of at least `size` words; the caller made sure that there is room (see MARGIN)."""
    words = store.words
    kind = FREE + block_class(size)
    block = words[kind]
    # The first word of a free block is the offset of the next free one of its class.
    if block != 0:
        words[kind] = words[block]
        return block
    block = words[TOP]
    # From the top. Large blocks begin with a cache line (up to seven words are lost for that) and are whole pages, as
    # their class says.
    if size > SMALL_WORDS:
        block += (words[LINE] - block) & 7
        size = (size + PAGE_WORDS - 1) // PAGE_WORDS * PAGE_WORDS
    words[TOP] = block + size
    return block


@inner
def give_block(store: IndexStore, block: Integer, size: Integer) -> None:
    """Put a block before the others of its class; `size` is the one it was taken with."""
    words = store.words
    kind = FREE + block_class(size)
    words[block] = words[kind]
    words[kind] = block


@inner
def dimension_count(store: IndexStore, record: Integer) -> Integer:
    """A record begins at word `record`, which is half `2 * record`; the lowest byte of half 1 counts its dimensions."""
    return integer(store.halves[2 * record + 1] & 255)


@inner
def atom_count(store: IndexStore, record: Integer) -> Integer:
    """The next byte of half 1."""
    return integer(store.halves[2 * record + 1] >> 8 & 255)


@inner
def position_of(store: IndexStore, record: Integer) -> Integer:
    """Where it stands in its chunk: what half 1 has above the flags."""
    return integer(store.halves[2 * record + 1] >> POSITION)


@inner
def chunk_of(store: IndexStore, record: Integer) -> Integer:
    """The chunk of a record, or ~home if it is alone in its cluster."""
    return integer(store.halves[2 * record + 2])


@inner
def next_of_filter(store: IndexStore, record: Integer) -> Integer:
    """The records of a filter are a ring: the last leads to the first, a single one to itself."""
    return integer(store.halves[2 * record + 3])


@inner
def names_of(record: Integer) -> Integer:
    """Where its dimensions and atoms begin, as an index of halves."""
    return 2 * (record + RECORD_BODY)


@inner
def bounds_of(record: Integer, dimensions: Integer, atoms: Integer) -> Integer:
    """Where its bounds begin, as an index of doubles: low and high of the first dimension, of the second, ... They
    follow the names, two of which share a word."""
    return record + RECORD_BODY + (dimensions + atoms + 1) // 2


@inner
def record_words(dimensions: Integer, atoms: Integer) -> Integer:
    """The size of a record: fixed halves, names, bounds."""
    return RECORD_BODY + (dimensions + atoms + 1) // 2 + 2 * dimensions


@inner
def interval_of(store: IndexStore, record: Integer, home: Integer) -> tuple[Real, Real]:
    """The interval of the dimension that a cluster is about; everything for a cluster of an atom."""
    if home < ATOM_HOMES:
        dimensions, names = dimension_count(store, record), names_of(record)
        bounds = bounds_of(record, dimensions, atom_count(store, record))
        for i in range(dimensions):
            if store.halves[names + i] == home // CLASSES:
                return store.floats[bounds + 2 * i], store.floats[bounds + 2 * i + 1]
    return -np.inf, np.inf


@inner
def key_of(store: IndexStore, record: Integer, home: Integer) -> Real:
    """By what the records of an interval cluster are ordered: the lower bound, or the upper where there is no lower."""
    if home >= ATOM_HOMES:
        return 0.0
    low, high = interval_of(store, record, home)
    return high if home % CLASSES == LEFT_OPEN else low


@inner
def bucket_of(store: IndexStore, edges: Integer, number: Real) -> Integer:
    """How many of the edges at this place lie at or below a number; ABSENT if it is none."""
    if np.isnan(number):
        return ABSENT
    # Binary search: all edges before `low` are at or below the number, all from `high` on are above it. Where the two
    # meet is the answer, 0 to EDGES, and never ABSENT.
    low, high = 0, EDGES
    while low < high:
        middle = (low + high) >> 1
        if store.floats[edges + middle] <= number:
            low = middle + 1
        else:
            high = middle
    return low
