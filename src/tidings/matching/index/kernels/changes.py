"""Entry points that change what is filed: new records, removed filters, filters that move between partitions."""

import numpy as np

from tidings.matching.index.kernels.choice import best_home
from tidings.matching.index.kernels.clusters import place, take_out, tidy
from tidings.matching.index.kernels.layout import (
    ASKING,
    ATOM_HOMES,
    CLASSES,
    DIMENSION_AT,
    DIMENSION_BOUNDS,
    DIMENSION_BOUNDS_SEEN,
    LEFT_OPEN,
    MARGIN,
    RANDOM,
    RECORDS,
    SAMPLES,
    SPEC_ATOMS,
    SPEC_BOUNDS_AT,
    SPEC_DIMENSIONS,
    SPEC_FLAGS,
    SPEC_NAMES_AT,
    SPEC_PARTITION,
    SPEC_SLOT,
    TOP,
    Array,
    IndexStore,
    Integer,
    Real,
    Slots,
    Specs,
    Truth,
    compiled,
    inner,
    integer,
)
from tidings.matching.index.kernels.records import (
    atom_count,
    bounds_of,
    dimension_count,
    give_block,
    names_of,
    next_of_filter,
    record_words,
    take_block,
)


@inner
def random_below(store: IndexStore, bound: Integer) -> Integer:
    """xorshift: a fixed sequence, since the same history has to give the same index."""
    # Shifting right copies the sign, which the mask removes.
    word = store.words[RANDOM]
    word ^= word << 13
    word ^= (word >> 7) & 0x01FFFFFFFFFFFFFF
    word ^= word << 17
    store.words[RANDOM] = word
    return (word & 0x7FFFFFFFFFFFFFFF) % bound


@inner
def sample_bound(store: IndexStore, dimension: Integer, number: Real) -> None:
    """Keep a uniform sample of the bounds that filters mention."""
    if np.isfinite(number):
        at = store.words[DIMENSION_AT + dimension]
        seen = store.words[at + DIMENSION_BOUNDS_SEEN]
        store.words[at + DIMENSION_BOUNDS_SEEN] = seen + 1
        # Reservoir sampling: the first SAMPLES are kept; the n-th replaces one of them with probability SAMPLES / n,
        # which leaves each bound seen so far the same chance.
        place = seen if seen < SAMPLES else random_below(store, seen + 1)
        if place < SAMPLES:
            store.floats[at + DIMENSION_BOUNDS + place] = number


@inner
def survey(store: IndexStore, specs: Specs) -> None:
    """Take note of what new records ask for, before they are filed."""
    lines = specs.lines
    for i in range(lines.shape[0]):
        at, begin, dimensions = lines[i, SPEC_NAMES_AT], lines[i, SPEC_BOUNDS_AT], lines[i, SPEC_DIMENSIONS]
        for j in range(2 * dimensions):
            sample_bound(store, integer(specs.names[at + (j >> 1)]), specs.bounds[begin + j])
        for j in range(at + dimensions, at + dimensions + lines[i, SPEC_ATOMS]):
            if specs.names[j] >= 0:
                store.atoms[specs.names[j], ASKING] += 1
    store.words[RECORDS] += lines.shape[0]


@compiled
def choose_homes(store: IndexStore, specs: Specs, homes: Array, keys: Array, are_new: Truth) -> None:
    """Where each record should be filed, and its key there: what to sort by. New ones are taken note of first."""
    if are_new:
        survey(store, specs)
    lines = specs.lines
    for i in range(lines.shape[0]):
        at, begin, dimensions = lines[i, SPEC_NAMES_AT], lines[i, SPEC_BOUNDS_AT], lines[i, SPEC_DIMENSIONS]
        home, _ = best_home(store, specs.names, at, dimensions, lines[i, SPEC_ATOMS], specs.bounds, begin)
        homes[i], keys[i] = home, 0.0
        if home < ATOM_HOMES:
            for j in range(dimensions):
                if specs.names[at + j] == home // CLASSES:
                    keys[i] = specs.bounds[begin + 2 * j + (1 if home % CLASSES == LEFT_OPEN else 0)]


@inner
def write_record(store: IndexStore, slots: Slots, specs: Specs, i: Integer) -> Integer:
    """Write what was asked for into a block of the arena (`layout.py`), and link it into the ring of its filter."""
    halves, line = store.halves, specs.lines[i]
    dimensions, atoms, slot = line[SPEC_DIMENSIONS], line[SPEC_ATOMS], line[SPEC_SLOT]
    record = take_block(store, record_words(dimensions, atoms))
    halves[2 * record] = slot
    halves[2 * record + 1] = dimensions | atoms << 8 | line[SPEC_FLAGS]
    for j in range(dimensions + atoms):
        halves[names_of(record) + j] = specs.names[line[SPEC_NAMES_AT] + j]
    bounds = bounds_of(record, dimensions, atoms)
    for j in range(2 * dimensions):
        store.floats[bounds + j] = specs.bounds[line[SPEC_BOUNDS_AT] + j]
    # A ring of one leads to itself; another one is put in behind the first.
    first = integer(slots.first[slot])
    if first == 0:
        slots.first[slot] = record
        halves[2 * record + 3] = record
    else:
        halves[2 * record + 3] = halves[2 * first + 3]
        halves[2 * first + 3] = record
    return record


@compiled
def insert(store: IndexStore, slots: Slots, specs: Specs, homes: Array, order: Array, begin: Integer) -> Integer:
    """File new records in the given order, from number `begin` on; how far it came before the arena was short."""
    words = store.words
    for n in range(begin, order.size):
        if words.size - words[TOP] < words[MARGIN]:
            return n
        # Callers sort by home and key: then the records of a cluster follow each other and fill its chunks (`split`).
        i = order[n]
        place(store, specs.lines[i, SPEC_PARTITION], write_record(store, slots, specs, i), homes[i])
    return order.size


@compiled
def remove(store: IndexStore, slots: Slots, slot: Integer, partition: Integer, released: Array) -> Integer:
    """Remove the records of a slot; how many atoms they named, written into `released`."""
    halves = store.halves
    first = integer(slots.first[slot])
    slots.first[slot] = 0
    count = 0
    record = first
    # Around the ring, once: back at the first it ends. What leads on is read before the block is given back.
    while record != 0:
        following = next_of_filter(store, record)
        dimensions, atoms = dimension_count(store, record), atom_count(store, record)
        for i in range(names_of(record) + dimensions, names_of(record) + dimensions + atoms):
            atom = halves[i]
            if atom >= 0:
                store.atoms[atom, ASKING] -= 1
            released[count] = atom if atom >= 0 else ~atom
            count += 1
        chunk = take_out(store, partition, record)
        if chunk != 0:
            tidy(store, partition, chunk)
        give_block(store, record, record_words(dimensions, atoms))
        store.words[RECORDS] -= 1
        record = following if following != first else 0
    return count


@inner
def ring_length(store: IndexStore, first: Integer) -> Integer:
    """How many records the filter has whose first record this is."""
    length, record = 0, first
    while record != 0:
        length += 1
        following = next_of_filter(store, record)
        record = following if following != first else 0
    return length


@compiled
def move(store: IndexStore, slots: Slots, moving: Array, origin: Integer, target: Integer, begin: Integer) -> Integer:
    """Move the filters of these slots into another partition, from number `begin` on; how far it came."""
    words = store.words
    for n in range(begin, moving.size):
        first = integer(slots.first[moving[n]])
        if words.size - words[TOP] < 2 * words[MARGIN] * ring_length(store, first):
            return n
        record = first
        while record != 0:
            dimensions, atoms = dimension_count(store, record), atom_count(store, record)
            bounds = bounds_of(record, dimensions, atoms)
            home, _ = best_home(store, store.halves, names_of(record), dimensions, atoms, store.floats, bounds)
            chunk = take_out(store, origin, record)
            if chunk != 0:
                tidy(store, origin, chunk)
            place(store, target, record, home)
            following = next_of_filter(store, record)
            record = following if following != first else 0
    return moving.size
