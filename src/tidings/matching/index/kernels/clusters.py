"""Clusters: all records filed under one condition.

A cluster is nothing, a lone record, a chunk, or a directory of chunks. The chunks of an interval cluster are in
order: by lower bound, or by upper bound where there is no lower. An entry of the directory has the least key of its
chunk and the hull of the intervals in it, so that an event passes over chunks whose hull does not hold its number. A
full chunk is split in the middle; if records come in order (as they do in bulk) a new one is begun instead, so that
chunks end up full. The order of an atom's chunks means nothing.
"""

import numpy as np

from tidings.matching.index.kernels.chunks import build_chunk, change_rows, free_chunk, list_members, put
from tidings.matching.index.kernels.layout import (
    ATOM_HOMES,
    CHUNK,
    CHUNK_BODY,
    CHUNK_CAPACITY,
    CHUNK_COUNT,
    CHUNK_HOME,
    CHUNK_RECORDS,
    DIRECTORY,
    DIRECTORY_BODY,
    DIRECTORY_CAPACITY,
    DIRECTORY_COUNT,
    ENTRY,
    ENTRY_CHUNK,
    ENTRY_HIGH,
    ENTRY_KEY,
    ENTRY_LOW,
    KEYS_AT,
    LONE,
    MARGIN,
    MEMBERS_AT,
    SET,
    ZERO,
    IndexStore,
    Integer,
    inner,
    integer,
    stay_apart,
)
from tidings.matching.index.kernels.records import chunk_of, give_block, interval_of, key_of, position_of, take_block

ROOM_LOOKED_FOR = 64
"""Chunks of an atom that are asked for room before a new one is begun."""


@inner
def entry_at(directory: Integer, entry: Integer) -> Integer:
    """The first word of an entry; with a directory of 0, the words that so many entries take."""
    return directory + DIRECTORY_BODY + entry * ENTRY


@inner
def widen_hull(store: IndexStore, at: Integer, record: Integer, home: Integer) -> None:
    """Let the entry's key and hull include a record. They shrink only when the chunk is built anew: too wide a hull
    costs a look, no more."""
    floats = store.floats
    floats[at + ENTRY_KEY] = min(floats[at + ENTRY_KEY], key_of(store, record, home))
    low, high = interval_of(store, record, home)
    floats[at + ENTRY_LOW] = min(floats[at + ENTRY_LOW], low)
    floats[at + ENTRY_HIGH] = max(floats[at + ENTRY_HIGH], high)


@inner
def set_entry(store: IndexStore, at: Integer, begin: Integer, end: Integer, capacity: Integer, home: Integer) -> None:
    """Build a chunk of some of the members, and describe it in the entry at this place."""
    set_hull(store, at, begin, end, home)
    store.words[at + ENTRY_CHUNK] = build_chunk(store, begin, end, capacity, home)


@inner
def set_hull(store: IndexStore, at: Integer, begin: Integer, end: Integer, home: Integer) -> None:
    """Key and hull of the entry at this place, from the members."""
    floats = store.floats
    floats[at + ENTRY_KEY], floats[at + ENTRY_LOW], floats[at + ENTRY_HIGH] = np.inf, np.inf, -np.inf
    for m in range(begin, end):
        widen_hull(store, at, store.words[MEMBERS_AT + m], home)


@inner
def open_entry(store: IndexStore, partition: Integer, home: Integer, directory: Integer, entry: Integer) -> Integer:
    """Make room for one more entry; the directory, which may have moved."""
    words = store.words
    count, capacity = words[directory + DIRECTORY_COUNT], words[directory + DIRECTORY_CAPACITY]
    if count == capacity:
        size = entry_at(ZERO, capacity)
        larger = take_block(store, entry_at(ZERO, 2 * capacity))
        for i in range(size):
            words[larger + i] = words[directory + i]
        words[larger + DIRECTORY_CAPACITY] = 2 * capacity
        # The next time it takes four times this size, which must fit the margin as well.
        words[MARGIN] = max(words[MARGIN], 8 * size)
        give_block(store, directory, size)
        directory = larger
        store.heads[partition, home] = directory << 2 | DIRECTORY
    # From behind, since each word moves to a place that is read before.
    for at in range(entry_at(directory, count) - 1, entry_at(directory, entry) - 1, -1):
        words[at + ENTRY] = words[at]
    words[directory + DIRECTORY_COUNT] = count + 1
    return directory


@inner
def close_entry(store: IndexStore, partition: Integer, home: Integer, directory: Integer, entry: Integer) -> None:
    """Remove an entry, and the directory with the last one."""
    words = store.words
    count = words[directory + DIRECTORY_COUNT] - 1
    for at in range(entry_at(directory, entry), entry_at(directory, count)):
        words[at] = words[at + ENTRY]
    words[directory + DIRECTORY_COUNT] = count
    if count == 0:
        give_block(store, directory, entry_at(ZERO, words[directory + DIRECTORY_CAPACITY]))
        store.heads[partition, home] = 0


@inner
def find_entry(store: IndexStore, directory: Integer, chunk: Integer) -> Integer:
    """The entry of a chunk that is in this directory."""
    entry = 0
    while store.words[entry_at(directory, entry) + ENTRY_CHUNK] != chunk:
        entry += 1
    return entry


@inner
def pick_entry(store: IndexStore, directory: Integer, record: Integer, home: Integer) -> Integer:
    """The entry whose chunk should take a record: by its key, or for an atom any chunk that has room."""
    words = store.words
    count = words[directory + DIRECTORY_COUNT]
    if home >= ATOM_HOMES:
        for i in range(min(count, ROOM_LOOKED_FOR)):
            chunk = words[entry_at(directory, count - 1 - i) + ENTRY_CHUNK]
            if words[chunk + CHUNK_COUNT] < words[chunk + CHUNK_CAPACITY]:
                return count - 1 - i
        return count - 1
    # The keys of entries ascend. Entries before `low` begin at or below the record's key, those from `high` on above
    # it: the last that begins at or below takes it, or the first of all.
    key = key_of(store, record, home)
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if store.floats[entry_at(directory, middle) + ENTRY_KEY] <= key:
            low = middle + 1
        else:
            high = middle
    return max(low - 1, 0)


@inner
def sort_members(store: IndexStore, count: Integer, home: Integer) -> None:
    """Sort the first members by key (Shell's sort: they are few)."""
    words, floats = store.words, store.floats
    for m in range(count):
        floats[KEYS_AT + m] = key_of(store, words[MEMBERS_AT + m], home)
    # Members `gap` apart are in order after each round; the last round, with gap 1, is an insertion sort of what is
    # nearly sorted.
    gap = count // 2
    while gap > 0:
        for m in range(gap, count):
            member, key, at = words[MEMBERS_AT + m], floats[KEYS_AT + m], m
            while at >= gap and floats[KEYS_AT + at - gap] > key:
                words[MEMBERS_AT + at], floats[KEYS_AT + at] = words[MEMBERS_AT + at - gap], floats[KEYS_AT + at - gap]
                at -= gap
            words[MEMBERS_AT + at], floats[KEYS_AT + at] = member, key
        gap //= 2


@inner
def capacity_for(store: IndexStore, count: Integer) -> Integer:
    """The smallest capacity that holds so many: 4, 8, 16, ..."""
    capacity = min(4, store.words[CHUNK_RECORDS])
    while capacity < count:
        capacity *= 2
    return capacity


@inner
def file_alone(store: IndexStore, partition: Integer, record: Integer, home: Integer) -> None:
    """The only record of a cluster needs no chunk; it remembers the cluster itself."""
    store.heads[partition, home] = record << 2 | LONE
    store.halves[2 * record + 2] = ~home


@inner
def place(store: IndexStore, partition: Integer, record: Integer, home: Integer) -> None:
    """File a record in a cluster. An empty one holds it alone; a second record makes a chunk. A chunk with room takes
    it, one without is built anew twice as large, and one that may not grow is split."""
    stay_apart()
    words = store.words
    head = store.heads[partition, home]
    kind, chunk = head & 3, head >> 2
    if head == 0:
        file_alone(store, partition, record, home)
        return
    if kind == LONE:
        words[MEMBERS_AT], words[MEMBERS_AT + 1] = chunk, record
        store.heads[partition, home] = (
            build_chunk(store, ZERO, ZERO + 2, capacity_for(store, ZERO + 2), home) << 2 | CHUNK
        )
        return
    directory, entry = integer(0), integer(0)
    if kind == DIRECTORY:
        directory = chunk
        entry = pick_entry(store, directory, record, home)
        chunk = words[entry_at(directory, entry) + ENTRY_CHUNK]
    capacity = words[chunk + CHUNK_CAPACITY]
    if words[chunk + CHUNK_COUNT] < capacity:
        put(store, chunk, record)
    elif capacity < words[CHUNK_RECORDS]:
        count = list_members(store, chunk, ZERO)
        words[MEMBERS_AT + count] = record
        larger = build_chunk(store, ZERO, count + 1, 2 * capacity, home)
        free_chunk(store, chunk)
        if kind == CHUNK:
            store.heads[partition, home] = larger << 2 | CHUNK
        else:
            words[entry_at(directory, entry) + ENTRY_CHUNK] = larger
    else:
        split(store, partition, record, home, directory, entry, chunk)
        return
    if kind == DIRECTORY:
        widen_hull(store, entry_at(directory, entry), record, home)


@inner
def split(
    store: IndexStore,
    partition: Integer,
    record: Integer,
    home: Integer,
    directory: Integer,
    entry: Integer,
    chunk: Integer,
) -> None:
    """One more record for a full chunk: halve it by key, or begin a new one if the record comes last anyway."""
    stay_apart()
    words = store.words
    count = list_members(store, chunk, ZERO)
    # So far the chunk was the whole cluster; it becomes the only entry of a directory.
    if directory == 0:
        directory = take_block(store, entry_at(ZERO, ZERO + 4))
        words[directory + DIRECTORY_COUNT], words[directory + DIRECTORY_CAPACITY] = 1, 4
        set_hull(store, entry_at(directory, ZERO), ZERO, count, home)
        words[entry_at(directory, ZERO) + ENTRY_CHUNK] = chunk
        store.heads[partition, home] = directory << 2 | DIRECTORY
    words[MEMBERS_AT + count] = record
    sort_members(store, count + 1, home)
    # Records that come sorted always come last. The full chunk stays full then, and the record begins the next one.
    comes_last = entry == words[directory + DIRECTORY_COUNT] - 1 and words[MEMBERS_AT + count] == record
    directory = open_entry(store, partition, home, directory, entry + 1)
    if comes_last:
        set_entry(store, entry_at(directory, entry + 1), count, count + 1, capacity_for(store, ZERO + 1), home)
        return
    half = (count + 1) // 2
    set_entry(store, entry_at(directory, entry), ZERO, half, words[CHUNK_RECORDS], home)
    set_entry(store, entry_at(directory, entry + 1), half, count + 1, words[CHUNK_RECORDS], home)
    free_chunk(store, chunk)


@inner
def take_out(store: IndexStore, partition: Integer, record: Integer) -> Integer:
    """Take a record out of its cluster; the chunk it was in, which may now want `tidy`, or 0."""
    stay_apart()
    words = store.words
    chunk = chunk_of(store, record)
    if chunk < 0:
        store.heads[partition, ~chunk] = 0
        return ZERO
    position = position_of(store, record)
    # As it was while free: set in all rows, and not alive.
    change_rows(store, chunk, record, position, SET)
    words[chunk + CHUNK_BODY + (position >> 6)] &= ~(integer(1) << (position & 63))
    words[chunk + CHUNK_COUNT] -= 1
    return chunk


@inner
def tidy(store: IndexStore, partition: Integer, chunk: Integer) -> None:
    """Drop an empty chunk, and build one anew that is three quarters empty: smaller, or joined with a neighbour."""
    stay_apart()
    words = store.words
    count, home = words[chunk + CHUNK_COUNT], words[chunk + CHUNK_HOME]
    if count * 4 > words[chunk + CHUNK_CAPACITY] and count > 1:
        return
    head = store.heads[partition, home]
    if head & 3 == DIRECTORY:
        tidy_entry(store, partition, home, head >> 2, find_entry(store, head >> 2, chunk))
        return
    list_members(store, chunk, ZERO)
    if count == 0:
        store.heads[partition, home] = 0
    elif count == 1:
        file_alone(store, partition, words[MEMBERS_AT], home)
    else:
        store.heads[partition, home] = (
            build_chunk(store, ZERO, count, capacity_for(store, 2 * count), home) << 2 | CHUNK
        )
    free_chunk(store, chunk)


@inner
def tidy_entry(store: IndexStore, partition: Integer, home: Integer, directory: Integer, entry: Integer) -> None:
    """The same for a chunk in a directory: an empty one goes; it is joined with a neighbour if the two fill half a
    chunk at most (so the next few records do not split it again); else it is built smaller. Neighbours are next to each
    other by key, so order is kept."""
    stay_apart()
    words = store.words
    chunk = words[entry_at(directory, entry) + ENTRY_CHUNK]
    count = words[chunk + CHUNK_COUNT]
    if count == 0:
        free_chunk(store, chunk)
        close_entry(store, partition, home, directory, entry)
        return
    neighbour = entry - 1 if entry > 0 else entry + 1
    if neighbour < words[directory + DIRECTORY_COUNT]:
        other = words[entry_at(directory, neighbour) + ENTRY_CHUNK]
        if words[other + CHUNK_COUNT] + count <= words[CHUNK_RECORDS] // 2:
            count = list_members(store, other, list_members(store, chunk, ZERO))
            set_entry(store, entry_at(directory, min(entry, neighbour)), ZERO, count, capacity_for(store, count), home)
            free_chunk(store, chunk)
            free_chunk(store, other)
            close_entry(store, partition, home, directory, max(entry, neighbour))
            return
    if words[chunk + CHUNK_CAPACITY] > capacity_for(store, 2 * count):
        list_members(store, chunk, ZERO)
        set_entry(store, entry_at(directory, entry), ZERO, count, capacity_for(store, 2 * count), home)
        free_chunk(store, chunk)
