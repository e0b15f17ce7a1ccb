"""Chunks: up to 512 records with rows of bits that rule most of them out.

Records stand at positions 0, 1, 2, ... For each code that its records use (a dimension, or an attribute compared with
single strings) a chunk has BUCKETS rows: bit i is clear if the record at position i asks for something
that misses the bucket. Bits of free positions are set in all rows and clear in `alive`, so putting a record only
clears bits of rows, and taking one out only sets them. Small chunks have no rows.
"""

from tidings.matching.index.kernels.layout import (
    ATOM_HOMES,
    BUCKETS,
    BUCKETS_AT,
    CANDIDATES_AT,
    CHUNK_BODY,
    CHUNK_CAPACITY,
    CHUNK_COUNT,
    CHUNK_GROUPS,
    CHUNK_HOME,
    CHUNK_WORDS,
    CHUNKS,
    CLEAR,
    DIMENSION_AT,
    DIMENSION_EDGES,
    DIMENSION_PARITY,
    DIRECT_RECORDS,
    EDGES,
    GROUPS_MAX,
    MEMBERS_AT,
    NUMBER_CODES,
    PICKED_AT,
    POSITION,
    ROW,
    USAGE_AT,
    USERS_AT,
    ZERO,
    IndexStore,
    Integer,
    inner,
    integer,
    load,
    stay_apart,
    trailing_zeros,
)
from tidings.matching.index.kernels.records import (
    atom_count,
    bounds_of,
    bucket_of,
    dimension_count,
    give_block,
    names_of,
    take_block,
)


@inner
def width_of(capacity: Integer) -> Integer:
    """Words per row."""
    return (capacity + 63) >> 6


@inner
def references_of(store: IndexStore, chunk: Integer) -> Integer:
    """Where the record offsets of a chunk begin, as an index of halves."""
    return 2 * (chunk + CHUNK_BODY + width_of(store.words[chunk + CHUNK_CAPACITY]))


@inner
def codes_of(store: IndexStore, chunk: Integer) -> Integer:
    """Where its row codes begin: behind the alive bits and the references, two of which share a word."""
    capacity = store.words[chunk + CHUNK_CAPACITY]
    return chunk + CHUNK_BODY + width_of(capacity) + (capacity + 1) // 2


@inner
def rows_of(chunk: Integer, codes: Integer, groups: Integer) -> Integer:
    """Where its rows begin: behind the codes, at the next multiple of eight words from the beginning of the chunk. Row
    `bucket` of group g is `width` words at (g * BUCKETS + bucket) * width from there."""
    return chunk + ((codes - chunk + groups + 7) & ~7)


@inner
def change_bits(
    store: IndexStore, row: Integer, width: Integer, bit: Integer, first: Integer, last: Integer, setting: Integer
) -> None:
    """Clear, or set again, a bit in the rows of all buckets but first to last. `row` is the word of bucket 0 that has
    the bit; that of the next bucket lies `width` words further."""
    words = store.words
    for bucket in range(BUCKETS):
        if bucket < first or bucket > last:
            if setting:
                words[row + bucket * width] |= bit
            else:
                words[row + bucket * width] &= ~bit


@inner
def change_rows(store: IndexStore, chunk: Integer, record: Integer, position: Integer, setting: Integer) -> None:
    """Clear the bits by which the rows rule a record out, or set them again."""
    stay_apart()
    words, halves = store.words, store.halves
    groups = words[chunk + CHUNK_GROUPS]
    if groups == 0:
        return
    width = width_of(words[chunk + CHUNK_CAPACITY])
    codes = codes_of(store, chunk)
    rows = rows_of(chunk, codes, groups) + (position >> 6)
    bit = integer(1) << (position & 63)
    dimensions, atoms, names = dimension_count(store, record), atom_count(store, record), names_of(record)
    bounds = bounds_of(record, dimensions, atoms)
    # A record that does not mention what a group is about keeps its bit in all rows: it is not ruled out. An interval
    # keeps it in the buckets that it touches, even partly, so nothing that matches is ever ruled out; and never in
    # ABSENT, which is above all buckets of numbers. A string keeps it in the bucket of its atom alone.
    for group in range(groups):
        code = words[codes + group]
        row = rows + group * BUCKETS * width
        if code < NUMBER_CODES:
            edges = words[DIMENSION_AT + (code >> 1)] + DIMENSION_EDGES + (code & 1) * EDGES
            for i in range(dimensions):
                if halves[names + i] == code >> 1:
                    first = bucket_of(store, edges, store.floats[bounds + 2 * i])
                    last = bucket_of(store, edges, store.floats[bounds + 2 * i + 1])
                    change_bits(store, row, width, bit, first, last, setting)
        else:
            for i in range(names + dimensions, names + dimensions + atoms):
                atom = halves[i]
                if atom >= 0 and store.atoms[atom, ROW] // BUCKETS == code:
                    bucket = store.atoms[atom, ROW] % BUCKETS
                    change_bits(store, row, width, bit, bucket, bucket, setting)


@inner
def set_position(store: IndexStore, chunk: Integer, record: Integer, position: Integer) -> None:
    """Let a record stand at this position: reference, position and chunk, alive, and then the bits of the rows, which
    were all set while the position was free."""
    halves = store.halves
    store.halves[references_of(store, chunk) + position] = record
    halves[2 * record + 1] = (halves[2 * record + 1] & ((1 << POSITION) - 1)) | (position << POSITION)
    halves[2 * record + 2] = chunk
    store.words[chunk + CHUNK_BODY + (position >> 6)] |= integer(1) << (position & 63)
    change_rows(store, chunk, record, position, CLEAR)


@inner
def put(store: IndexStore, chunk: Integer, record: Integer) -> None:
    """Put a record at the first free position; there is one."""
    words = store.words
    at = chunk + CHUNK_BODY
    # Words of alive bits that are full; then the lowest bit that is clear.
    while words[at] == -1:
        at += 1
    words[chunk + CHUNK_COUNT] += 1
    set_position(store, chunk, record, (at - chunk - CHUNK_BODY) * 64 + trailing_zeros(~words[at]))


@inner
def list_members(store: IndexStore, chunk: Integer, count: Integer) -> Integer:
    """Write the records of a chunk into the members from `count` on; how many there are then."""
    words, references = store.words, references_of(store, chunk)
    for w in range(width_of(words[chunk + CHUNK_CAPACITY])):
        alive = words[chunk + CHUNK_BODY + w]
        # Once for each bit that is set, the lowest first.
        while alive != 0:
            words[MEMBERS_AT + count] = store.halves[references + w * 64 + trailing_zeros(alive)]
            count += 1
            alive &= alive - 1
    return count


@inner
def count_usage(store: IndexStore, begin: Integer, end: Integer, home: Integer) -> Integer:
    """Count which codes the members use; list those in use as picked, and say how many they are."""
    words, halves = store.words, store.halves
    used = 0
    for m in range(begin, end):
        record = words[MEMBERS_AT + m]
        dimensions, atoms, names = dimension_count(store, record), atom_count(store, record), names_of(record)
        # An interval is entered for the edges that are valid now. The atom that the cluster is about needs no rows: all
        # who look here have it.
        for i in range(dimensions + atoms):
            name = integer(halves[names + i])
            code = integer(-1)
            if i < dimensions:
                code = 2 * name + words[words[DIMENSION_AT + name] + DIMENSION_PARITY]
            elif name >= 0 and store.atoms[name, ROW] >= 0 and name + ATOM_HOMES != home:
                code = store.atoms[name, ROW] // BUCKETS
            if code >= 0:
                if words[USAGE_AT + code] == 0:
                    words[PICKED_AT + used] = code
                    used += 1
                words[USAGE_AT + code] += 1
    return used


@inner
def pick_codes(store: IndexStore, begin: Integer, end: Integer, home: Integer) -> Integer:
    """Bring the codes that deserve rows to the front of the picked; how many they are."""
    stay_apart()
    words = store.words
    used = count_usage(store, begin, end, home)
    # The codes used most come first, by selection: few are needed. One that less than a sixteenth of the records use
    # would cost more to look at than it rules out. Afterwards the counts are 0 again for the next chunk.
    enough = max((end - begin) >> 4, 1)
    groups = 0
    while groups < min(used, GROUPS_MAX):
        best = groups
        for i in range(groups, used):
            if words[USAGE_AT + words[PICKED_AT + i]] > words[USAGE_AT + words[PICKED_AT + best]]:
                best = i
        if words[USAGE_AT + words[PICKED_AT + best]] < enough:
            break
        code = words[PICKED_AT + best]
        words[PICKED_AT + best] = words[PICKED_AT + groups]
        words[PICKED_AT + groups] = code
        groups += 1
    for i in range(used):
        words[USAGE_AT + words[PICKED_AT + i]] = 0
    return groups


@inner
def build_chunk(store: IndexStore, begin: Integer, end: Integer, capacity: Integer, home: Integer) -> Integer:
    """A new chunk of some of the members."""
    stay_apart()
    words = store.words
    groups = pick_codes(store, begin, end, home) if capacity > words[DIRECT_RECORDS] else 0
    width = width_of(capacity)
    codes = CHUNK_BODY + width + (capacity + 1) // 2
    size = rows_of(ZERO, codes, groups) + groups * BUCKETS * width
    chunk = take_block(store, size)
    words[CHUNKS] += 1
    words[chunk + CHUNK_COUNT], words[chunk + CHUNK_CAPACITY] = end - begin, capacity
    words[chunk + CHUNK_GROUPS], words[chunk + CHUNK_HOME], words[chunk + CHUNK_WORDS] = groups, home, size
    for w in range(width):
        words[chunk + CHUNK_BODY + w] = 0
    codes += chunk
    for group in range(groups):
        code = words[PICKED_AT + group]
        words[codes + group] = code
        words[USERS_AT + code] += 1
    # Nothing is ruled out yet; `set_position` clears what each record rules out.
    for at in range(rows_of(chunk, codes, groups), chunk + size):
        words[at] = -1
    for m in range(begin, end):
        set_position(store, chunk, words[MEMBERS_AT + m], m - begin)
    return chunk


@inner
def free_chunk(store: IndexStore, chunk: Integer) -> None:
    """Give its block back; the buckets of codes that no chunk uses any more need not be looked up."""
    words, codes = store.words, codes_of(store, chunk)
    for group in range(words[chunk + CHUNK_GROUPS]):
        words[USERS_AT + words[codes + group]] -= 1
    words[CHUNKS] -= 1
    give_block(store, chunk, words[chunk + CHUNK_WORDS])


@inner
def add_candidates(store: IndexStore, references: Integer, left: Integer, count: Integer) -> Integer:
    """Append where the references at the set bits stand. They are not read yet: that would mean to wait for memory."""
    halves = store.halves
    while left != 0:
        halves[2 * CANDIDATES_AT + count] = references + trailing_zeros(left)
        count += 1
        left &= left - 1
    return count


@inner
def sift(store: IndexStore, chunk: Integer, count: Integer) -> Integer:
    """Append the references to records that the rows do not rule out to the candidates; how many there are then."""
    words = store.words
    capacity, groups = words[chunk + CHUNK_CAPACITY], words[chunk + CHUNK_GROUPS]
    width = (capacity + 63) >> 6
    alive = chunk + CHUNK_BODY
    references = 2 * (alive + width)
    codes = alive + width + (capacity + 1) // 2
    rows = rows_of(chunk, codes, groups)
    # A record is left if it is alive and its bit is set in the row of the event's bucket in every group: one AND per
    # word and group, whatever the number of conditions.
    if width == 8:  # the usual large chunk: eight accumulators, which become two or four vector registers
        a, b, c, d = load(words, alive), load(words, alive + 1), load(words, alive + 2), load(words, alive + 3)
        e, f, g, h = load(words, alive + 4), load(words, alive + 5), load(words, alive + 6), load(words, alive + 7)
        for group in range(groups):
            row = rows + (group * BUCKETS + load(words, BUCKETS_AT + load(words, codes + group))) * 8
            a, b, c, d = (
                a & load(words, row),
                b & load(words, row + 1),
                c & load(words, row + 2),
                d & load(words, row + 3),
            )
            e, f, g, h = (
                e & load(words, row + 4),
                f & load(words, row + 5),
                g & load(words, row + 6),
                h & load(words, row + 7),
            )
        count = add_candidates(store, references, a, count)
        count = add_candidates(store, references + 64, b, count)
        count = add_candidates(store, references + 128, c, count)
        count = add_candidates(store, references + 192, d, count)
        count = add_candidates(store, references + 256, e, count)
        count = add_candidates(store, references + 320, f, count)
        count = add_candidates(store, references + 384, g, count)
        return add_candidates(store, references + 448, h, count)
    for w in range(width):
        left = load(words, alive + w)
        for group in range(groups):
            left &= load(
                words, rows + (group * BUCKETS + load(words, BUCKETS_AT + load(words, codes + group))) * width + w
            )
        count = add_candidates(store, references + w * 64, left, count)
    return count
