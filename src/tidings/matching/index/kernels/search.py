"""The entry points that match encoded events.

For each event: mark its atoms and look up its buckets; list the lone records and chunks to *visit* in the clusters of
its atoms and dimensions; sift the chunks; test the candidates that are left. When only links are wanted, a partition
that belongs to one link is left at the first match.
"""

from typing import Any

import numpy as np

from tidings.matching.index.kernels.chunks import sift
from tidings.matching.index.kernels.clusters import entry_at
from tidings.matching.index.kernels.layout import (
    ABSENT,
    ATOM_COLUMNS,
    ATOM_HOMES,
    BUCKETS,
    BUCKETS_AT,
    CANDIDATES,
    CANDIDATES_AT,
    CHUNK,
    CLASSES,
    DIMENSION_AT,
    DIMENSION_EDGES,
    DIMENSION_NUMBERS,
    DIRECTORY,
    DIRECTORY_COUNT,
    DOUBTFUL,
    EDGES,
    ENTRY_CHUNK,
    ENTRY_HIGH,
    ENTRY_LOW,
    EPOCH,
    EVENTS,
    HITS,
    LONE,
    MARK,
    NUMBER_CODES,
    RECORDS,
    ROW,
    SAMPLED,
    SAMPLES,
    SEVERAL,
    TEXT_RANKS,
    USERS_AT,
    ZERO,
    Array,
    IndexBatch,
    IndexStore,
    Integer,
    Slots,
    compiled,
    inner,
    integer,
    load,
    prefetch,
)
from tidings.matching.index.kernels.records import bounds_of, bucket_of, names_of

AHEAD = 12
"""A record is asked for this many tests before it is needed, and the reference to it twice as many."""

CHUNK_CANDIDATES = 512


@inner
def enter_event(store: IndexStore, batch: IndexBatch, event: Integer) -> None:
    """Mark the atoms of an event, look up its buckets, and learn from it. An atom is marked by writing the epoch, which
    is another for each event, so no mark has to be removed."""
    words = store.words
    words[EPOCH] += 1
    # Attributes compared with strings: absent, unless an atom of the event says which bucket.
    for code in range(NUMBER_CODES, NUMBER_CODES + words[TEXT_RANKS]):
        words[BUCKETS_AT + code] = ABSENT
    for i in range(batch.offsets[event], batch.offsets[event + 1]):
        atom = batch.atoms[i]
        store.atoms[atom, MARK] = words[EPOCH]
        store.atoms[atom, HITS] += 1
        row = store.atoms[atom, ROW]
        if row >= 0:
            words[BUCKETS_AT + row // BUCKETS] = row % BUCKETS
    # The first SAMPLES events, then every 16th; the newest overwrite the oldest.
    is_sample = words[EVENTS] < SAMPLES or words[EVENTS] & 15 == 0
    for dimension in range(batch.lows.shape[1]):
        number, at = batch.lows[event, dimension], words[DIMENSION_AT + dimension]
        # Both sets of edges may be in use while a sweep goes on; sets that no chunk has rows for are passed over.
        for code in range(2 * dimension, 2 * dimension + 2):
            if words[USERS_AT + code] > 0:
                words[BUCKETS_AT + code] = bucket_of(store, at + DIMENSION_EDGES + (code & 1) * EDGES, number)
        if is_sample:
            store.floats[at + DIMENSION_NUMBERS + words[SAMPLED] % SAMPLES] = number
    words[SAMPLED] += 1 if is_sample else 0
    words[EVENTS] += 1


@inner
def visit_atoms(
    store: IndexStore, batch: IndexBatch, event: Integer, partition: Integer, visits: Array, count: Integer
) -> Any:
    """List what to look at for the atoms of an event."""
    words = store.words
    for i in range(batch.offsets[event], batch.offsets[event + 1]):
        # What is visited is written as a head: offset << 2 | kind. A directory is written as its chunks.
        head = store.heads[partition, ATOM_HOMES + batch.atoms[i]]
        if head & 3 == DIRECTORY:
            for entry in range(words[(head >> 2) + DIRECTORY_COUNT]):
                visits[count] = words[entry_at(head >> 2, entry) + ENTRY_CHUNK] << 2 | CHUNK
                count += 1
        elif head != 0:
            visits[count] = head
            count += 1
    return count


@inner
def visit_ranges(
    store: IndexStore, batch: IndexBatch, event: Integer, partition: Integer, visits: Array, count: Integer
) -> Any:
    """The same for its numbers."""
    words, floats = store.words, store.floats
    for dimension in range(batch.lows.shape[1]):
        low, high = batch.lows[event, dimension], batch.highs[event, dimension]
        if np.isnan(low):
            continue
        # Only chunks whose hull holds the number can have an interval that does.
        for home in range(dimension * CLASSES, (dimension + 1) * CLASSES):
            head = store.heads[partition, home]
            if head & 3 == DIRECTORY:
                for entry in range(words[(head >> 2) + DIRECTORY_COUNT]):
                    at = entry_at(head >> 2, entry)
                    if floats[at + ENTRY_LOW] <= low and high <= floats[at + ENTRY_HIGH]:
                        visits[count] = words[at + ENTRY_CHUNK] << 2 | CHUNK
                        count += 1
            elif head != 0:
                visits[count] = head
                count += 1
    return count


@inner
def accepts(
    halves: Array, floats: Array, atoms: Integer, epoch: Integer, lows: Array, highs: Array, record: Integer
) -> Any:
    """Does the event with these numbers, for which atoms are marked, satisfy every condition of the record?

    Rows have ruled out most that fail, so a condition mostly holds and leaving at the first that does not is cheap. It
    also keeps the compiler from making vectors of one to three conditions, which took half as long again.
    """
    info = integer(load(halves, 2 * record + 1))
    dimension_count, atom_count = info & 255, info >> 8 & 255
    names = names_of(record)
    bounds = bounds_of(record, dimension_count, atom_count)
    for i in range(dimension_count):
        # Written with & both comparisons are made and there is one jump.
        dimension = integer(load(halves, names + i))
        above = load(floats, bounds + 2 * i) <= load(lows, dimension)
        if not above & (load(highs, dimension) <= load(floats, bounds + 2 * i + 1)):
            return False
    for i in range(names + dimension_count, names + dimension_count + atom_count):
        # ~atom is a condition that the atom is not satisfied: then it must not be marked.
        atom = integer(load(halves, i))
        if (load(atoms, (atom if atom >= 0 else ~atom) * ATOM_COLUMNS + MARK) == epoch) != (atom >= 0):
            return False
    return True


@inner
def candidate_at(halves: Array, at: Integer) -> Any:
    """The record of the candidate noted at this place: a reference in a chunk, or ~record if it was alone."""
    candidate = integer(load(halves, at))
    return integer(load(halves, candidate)) if candidate >= 0 else ~candidate


@inner
def collect(
    store: IndexStore, slots: Slots, lows: Array, highs: Array, count: Integer, out: Array, filled: Integer
) -> Any:
    """Test the candidates and append the slots of those that match, each filter once, to `out`."""
    words, halves, floats, atoms = store.words, store.halves, store.floats, store.atoms.reshape(-1)
    epoch = words[EPOCH]
    end = 2 * CANDIDATES_AT + count
    for i in range(2 * CANDIDATES_AT, end):
        # Records lie anywhere in memory. While candidate i is tested, the reference of the one 24 places on and the
        # record of the one 12 places on are on their way into the cache.
        if i + 2 * AHEAD < end:
            prefetch(halves, abs(integer(load(halves, i + 2 * AHEAD))))
        if i + AHEAD < end:
            coming = candidate_at(halves, i + AHEAD)
            prefetch(words, coming)
            prefetch(words, coming + 7)
        record = candidate_at(halves, i)
        if accepts(halves, floats, atoms, epoch, lows, highs, record):
            slot, info = halves[2 * record], halves[2 * record + 1]
            # A filter of several records may match by more than one of them.
            if info & SEVERAL:
                if slots.marks[slot] == epoch:
                    continue
                slots.marks[slot] = epoch
            out[filled] = ~slot if info & DOUBTFUL else slot
            filled += 1
    return filled


@compiled
def match_events(
    store: IndexStore, slots: Slots, batch: IndexBatch, begin: Integer, visits: Array, out: Array, offsets: Array
) -> Any:
    """Slots (~slot if doubtful) of the events from `begin` on; the event for which `out` might be too small."""
    filled = integer(0)
    for event in range(begin, batch.offsets.size - 1):
        # An event matches each slot once at most: with so much room left nothing need be asked below.
        if out.size - filled < slots.first.size:
            return event
        enter_event(store, batch, event)
        for partition in range(store.heads.shape[0]):
            visiting = visit_atoms(store, batch, event, partition, visits, ZERO)
            visiting = visit_ranges(store, batch, event, partition, visits, visiting)
            count = ZERO
            for v in range(visiting):
                head = visits[v]
                if head & 3 == LONE:
                    store.halves[2 * CANDIDATES_AT + count] = ~(head >> 2)
                    count += 1
                else:
                    count = sift(store, head >> 2, count)
                # The next chunk may add CHUNK_CANDIDATES: make room first.
                if count > CANDIDATES - CHUNK_CANDIDATES:
                    filled = collect(store, slots, batch.lows[event], batch.highs[event], count, out, filled)
                    count = ZERO
            filled = collect(store, slots, batch.lows[event], batch.highs[event], count, out, filled)
        offsets[event + 1] = filled
    return batch.offsets.size - 1


@inner
def find_links(
    store: IndexStore,
    slots: Slots,
    link_marks: Array,
    batch: IndexBatch,
    event: Integer,
    is_owned: Integer,
    visits: Array,
    visiting: Integer,
    out: Array,
    filled: Integer,
) -> Any:
    """Append the links found to `out`, one if the partition is owned; how far it is filled, whether to go on."""
    halves, epoch = store.halves, store.words[EPOCH]
    lows, highs, atoms = batch.lows[event], batch.highs[event], store.atoms.reshape(-1)
    for v in range(visiting):
        head = visits[v]
        # A lone record is the only candidate; `sift` overwrites it with those of a chunk.
        halves[2 * CANDIDATES_AT] = ~(head >> 2)
        count = 1 if head & 3 == LONE else sift(store, head >> 2, ZERO)
        for i in range(2 * CANDIDATES_AT, 2 * CANDIDATES_AT + count):
            record = candidate_at(halves, i)
            slot = halves[2 * record]
            link = slots.links[slot]
            if (
                link < 0
                or link_marks[link] == epoch
                or not accepts(halves, store.floats, atoms, epoch, lows, highs, record)
            ):
                continue
            if halves[2 * record + 1] & DOUBTFUL:
                out[filled] = ~slot
                filled += 1
                continue
            link_marks[link] = epoch
            out[filled] = link
            filled += 1
            if is_owned:
                return filled, False
    return filled, True


@compiled
def match_links(
    store: IndexStore,
    slots: Slots,
    owners: Array,
    link_marks: Array,
    batch: IndexBatch,
    begin: Integer,
    visits: Array,
    out: Array,
    offsets: Array,
) -> Any:
    """Links with a matching filter, and as ~slot what is doubtful; from `begin` on, like `match_events`."""
    filled = integer(0)
    for event in range(begin, batch.offsets.size - 1):
        if out.size - filled < link_marks.size + store.words[RECORDS]:
            return event
        enter_event(store, batch, event)
        for partition in range(store.heads.shape[0]):
            is_owned = owners[partition] >= 0
            visiting = visit_atoms(store, batch, event, partition, visits, ZERO)
            filled, going_on = find_links(
                store, slots, link_marks, batch, event, is_owned, visits, visiting, out, filled
            )
            if going_on:
                visiting = visit_ranges(store, batch, event, partition, visits, ZERO)
                filled, going_on = find_links(
                    store, slots, link_marks, batch, event, is_owned, visits, visiting, out, filled
                )
        offsets[event + 1] = filled
    return batch.offsets.size - 1


@compiled
def spread_atoms(codes: Array, atoms_at: Array, atoms: Integer, filled: Integer, out: Array) -> Any:
    """Append the atoms of each row's code to the row's place in `out`."""
    for row in range(codes.size):
        code = codes[row]
        for i in range(atoms_at[code], atoms_at[code + 1]):
            out[filled[row]] = atoms[i]
            filled[row] += 1
