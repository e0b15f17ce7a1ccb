"""The entry point by which clusters catch up with what was learned, a few chunks at a time."""

from tidings.matching.index.kernels.choice import better_home
from tidings.matching.index.kernels.chunks import build_chunk, codes_of, free_chunk, list_members
from tidings.matching.index.kernels.clusters import entry_at, find_entry, place, set_entry, take_out, tidy
from tidings.matching.index.kernels.layout import (
    CHUNK,
    CHUNK_CAPACITY,
    CHUNK_COUNT,
    CHUNK_GROUPS,
    DIMENSION_AT,
    DIMENSION_PARITY,
    DIRECTORY,
    DIRECTORY_COUNT,
    ENTRY_CHUNK,
    LONE,
    MARGIN,
    MEMBERS_AT,
    MOVERS_AT,
    NUMBER_CODES,
    SWEEP_ENTRY,
    SWEEP_HOME,
    SWEEP_PARTITION,
    TOP,
    ZERO,
    IndexStore,
    Integer,
    Truth,
    compiled,
    inner,
    stay_apart,
)


@inner
def is_stale(store: IndexStore, chunk: Integer) -> Truth:
    """Was it built with edges that have been replaced since?"""
    words, codes = store.words, codes_of(store, chunk)
    # A code of a number is 2 * dimension + which of its two sets of edges; the dimension's parity is the set that is
    # valid now.
    for group in range(words[chunk + CHUNK_GROUPS]):
        code = words[codes + group]
        if code < NUMBER_CODES and words[words[DIMENSION_AT + (code >> 1)] + DIMENSION_PARITY] != code & 1:
            return True
    return False


@inner
def move_out(store: IndexStore, partition: Integer, chunk: Integer, home: Integer) -> Integer:
    """File elsewhere what has a much better place by now; how many."""
    stay_apart()
    words = store.words
    # Those that move are listed first and moved then: moving builds chunks, which uses the list of members itself, and
    # would disturb the loop.
    count = list_members(store, chunk, ZERO)
    moving = 0
    for m in range(count):
        if better_home(store, words[MEMBERS_AT + m], home) != home:
            words[MOVERS_AT + moving] = words[MEMBERS_AT + m]
            moving += 1
    for m in range(moving):
        # No room for another one now; the next sweep finds the rest.
        if words.size - words[TOP] < words[MARGIN]:
            return m
        record = words[MOVERS_AT + m]
        better = better_home(store, record, home)
        if better != home:
            take_out(store, partition, record)
            place(store, partition, record, better)
    return moving


@inner
def renew(store: IndexStore, partition: Integer, chunk: Integer, home: Integer) -> None:
    """Let one chunk catch up: what has a much better home moves there; if its edges were replaced, it is built anew in
    the same place of its cluster; and if so much moved that it is nearly empty, it is tidied up."""
    stay_apart()
    words = store.words
    moved = move_out(store, partition, chunk, home)
    if words[chunk + CHUNK_COUNT] > 1 and is_stale(store, chunk):
        count, capacity = list_members(store, chunk, ZERO), words[chunk + CHUNK_CAPACITY]
        head = store.heads[partition, home]
        if head & 3 == CHUNK:
            newer = build_chunk(store, ZERO, count, capacity, home)
            store.heads[partition, home] = newer << 2 | CHUNK
        else:
            at = entry_at(head >> 2, find_entry(store, head >> 2, chunk))
            set_entry(store, at, ZERO, count, capacity, home)
            newer = words[at + ENTRY_CHUNK]
        free_chunk(store, chunk)
        chunk = newer
    if moved > 0:
        tidy(store, partition, chunk)


@compiled
def sweep(store: IndexStore, budget: Integer) -> Truth:
    """Renew clusters from where the last call stopped; True when through. A chunk costs 64, a lone record 1."""
    words = store.words
    # SWEEP_PARTITION, SWEEP_HOME and SWEEP_ENTRY say where the next step goes on, so a sweep is cut anywhere. A step
    # must never run out of room, hence two margins: for the moves, and for the chunk that is built.
    while budget > 0 and words.size - words[TOP] >= 2 * words[MARGIN]:
        partition, home = words[SWEEP_PARTITION], words[SWEEP_HOME]
        if partition >= store.heads.shape[0]:
            words[SWEEP_PARTITION] = 0
            return True
        if home >= store.heads.shape[1]:
            words[SWEEP_PARTITION] += 1
            words[SWEEP_HOME] = 0
            continue
        head = store.heads[partition, home]
        if head & 3 == DIRECTORY and words[SWEEP_ENTRY] < words[(head >> 2) + DIRECTORY_COUNT]:
            # From the last entry to the first, so that one that disappears does not shift those still to come.
            entry = words[(head >> 2) + DIRECTORY_COUNT] - 1 - words[SWEEP_ENTRY]
            renew(store, partition, words[entry_at(head >> 2, entry) + ENTRY_CHUNK], home)
            words[SWEEP_ENTRY] += 1
            budget -= 64
            continue
        if head & 3 == CHUNK:
            renew(store, partition, head >> 2, home)
            # One more follows below for all that is not empty.
            budget -= 63
        elif head & 3 == LONE:
            better = better_home(store, head >> 2, home)
            if better != home:
                take_out(store, partition, head >> 2)
                place(store, partition, head >> 2, better)
        words[SWEEP_HOME] += 1
        words[SWEEP_ENTRY] = 0
        budget -= 1 if head != 0 else 0
    return False
