"""The arrays of the fast engine, their growth, and what it learns from filters and events.

Arrays grow by a quarter, the arena by at most GROWTH_WORDS_MAX and in place where the system allows, so that no
single step takes long. A kernel never makes room: it is called when there is enough for one operation (MARGIN), or
stops and says how far it came.

What is learned is where numbers lie. For each dimension it keeps a sample of the bounds that filters mention and one of
the numbers that events bring. From both come the *edges* of the buckets, half of them each: edges among the numbers
make every bucket equally likely, edges among the bounds separate the filters. From the numbers alone (the bounds, until
there are events) come the *knots*, between which a number is equally likely to lie; they tell how many events an
interval will let through.

New edges are taken only where they are clearly better, and only when no chunk uses the set that they would overwrite.
"""

from typing import Any

import numpy as np

from tidings.matching.index.answers import NO_LINK, IndexParams, Key
from tidings.matching.index.kernels import layout, sort
from tidings.matching.index.kernels.layout import (
    DIMENSION_AT,
    DIMENSION_BOUNDS,
    DIMENSION_BOUNDS_SEEN,
    DIMENSION_EDGES,
    DIMENSION_KNOTS,
    DIMENSION_NUMBERS,
    DIMENSION_PARITY,
    EDGES,
    KNOTS,
    SAMPLED,
    SAMPLES,
    USERS_AT,
    IndexStore,
    Slots,
)
from tidings.matching.index.vocabulary import Vocabulary
from tidings.model.bounds import INTEGER_MAX, INTEGER_MIN

GROWTH_WORDS_MAX = 1 << 20
"""8 MiB, a few milliseconds."""

MARGIN_WORDS = 1 << 14
"""Free words that one insertion or removal may need, besides directories: three of the largest chunks."""

OUT_SLOTS = 1 << 17
"""Matches of a batch collected before they are carried away."""


class Memory:
    """Everything that kernels read and write. Fields are replaced when they grow, so nobody keeps them across calls."""

    def __init__(self, params: IndexParams) -> None:
        words = np.zeros(layout.BLOCKS_AT + 3 * MARGIN_WORDS, np.int64)
        words[layout.TOP] = layout.BLOCKS_AT
        words[layout.MARGIN] = MARGIN_WORDS
        words[layout.RANDOM] = 88172645463325252
        words[layout.LINE] = -(words.ctypes.data // 8) % 8
        words[layout.CHUNK_RECORDS], words[layout.DIRECT_RECORDS] = params.chunk_records, params.direct_records
        self.store = IndexStore(
            words,
            words.view(np.float64),
            words.view(np.int32),
            atoms=np.zeros((64, 4), np.int64),
            heads=np.zeros((1, layout.ATOM_HOMES + 64), np.int64),
        )
        self.store.atoms[:, layout.ROW] = -1
        self.slots = Slots(np.zeros(64, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int32))
        self.keys: Any = np.zeros(64, np.int64)
        self.owners: Any = np.full(1, NO_LINK, np.int64)
        self.link_marks: Any = np.zeros(1, np.int64)
        self.visits: Any = np.empty(64, np.int64)
        self.out: Any = np.empty(OUT_SLOTS, np.int32)
        self.slot_bits: Any = np.zeros(0, np.int64)
        self.slot_words: Any = np.zeros(0, np.int64)

    @property
    def has_links(self) -> bool:
        return len(self.slots.links) > 0

    def make_room(self) -> None:
        """For one operation."""
        words = self.store.words
        if len(words) - words[layout.TOP] < 2 * words[layout.MARGIN]:
            self.grow_arena()

    def grow_arena(self) -> None:
        words = self.store.words
        size = len(words) + max(min(len(words) // 4, GROWTH_WORDS_MAX), 2 * int(words[layout.MARGIN]))
        self.store = self.store._replace(words=None, floats=None, halves=None)
        words.resize(size, refcheck=False)  # nothing else refers to it now: the views are gone
        self.store = self.store._replace(words=words, floats=words.view(np.float64), halves=words.view(np.int32))

    def make_room_for_slots(self, count: int) -> None:
        first, marks, links = self.slots
        if count <= len(first):
            return
        size = max(count, len(first) + len(first) // 4)
        self.slots = Slots(
            longer(first, size, 0),
            longer(marks, size, 0) if len(marks) else marks,
            longer(links, size, NO_LINK) if len(links) else links,
        )
        self.keys = longer(self.keys, size, 0)

    def set_key(self, slot: int, key: Key) -> None:
        """Keys are an array of integers while all of them are integers: those are read an order of magnitude faster."""
        if self.keys.dtype != object and not (type(key) is int and INTEGER_MIN <= key <= INTEGER_MAX):
            self.keys = self.keys.astype(object)
        self.keys[slot] = key

    def keep_marks(self) -> None:
        """From now on some filter has several records."""
        if not len(self.slots.marks):
            self.slots = self.slots._replace(marks=np.zeros(len(self.slots.first), np.int64))

    def keep_links(self, link: int) -> None:
        """From now on some filter has a link, with numbers up to this."""
        if not self.has_links:
            self.slots = self.slots._replace(links=np.full(len(self.slots.first), NO_LINK, np.int32))
        if link >= len(self.link_marks):
            self.link_marks = longer(self.link_marks, 2 * link + 1, 0)

    def add_partition(self) -> int:
        """A new empty partition; its number."""
        partition = len(self.owners)
        self.owners = np.append(self.owners, NO_LINK)
        self.store = self.store._replace(heads=with_rows(self.store.heads, partition + 1))
        return partition

    def make_room_for_vocabulary(self, vocabulary: Vocabulary) -> None:
        store, count = self.store, len(vocabulary.atoms)
        if count > len(store.atoms):
            size = count + count // 4
            heads = np.zeros((len(store.heads), layout.ATOM_HOMES + size), np.int64)
            heads[:, : store.heads.shape[1]] = store.heads
            self.store = store._replace(atoms=with_rows(store.atoms, size), heads=heads)
        while self.store.words[layout.DIMENSIONS] < len(vocabulary.dimensions):
            self.add_dimension()
        for atom in vocabulary.fresh:
            self.set_atom(atom, vocabulary.row_of(atom))
        vocabulary.fresh.clear()
        self.store.words[layout.TEXT_RANKS] = min(vocabulary.text_ranks, layout.TEXT_RANKS_MAX)

    def set_atom(self, atom: int, row: tuple[int, int] | None) -> None:
        """Begin the line of a new atom; its number may have belonged to another before."""
        line = self.store.atoms[atom]
        line[:] = 0
        line[layout.ROW] = -1
        if row is not None and row[0] < layout.TEXT_RANKS_MAX:
            code = layout.NUMBER_CODES + row[0]
            line[layout.ROW] = code * layout.BUCKETS + row[1] % layout.ABSENT

    def add_dimension(self) -> None:
        self.make_room()
        words, floats = self.store.words, self.store.floats
        at = int(words[layout.TOP])
        words[layout.TOP] = end = at + layout.DIMENSION_WORDS
        words[layout.DIMENSION_AT + words[layout.DIMENSIONS]] = at
        words[layout.DIMENSIONS] += 1
        words[at : at + layout.DIMENSION_EDGES] = 0
        floats[at + layout.DIMENSION_EDGES : at + layout.DIMENSION_KNOTS] = np.inf
        floats[at + layout.DIMENSION_KNOTS : end] = np.nan

    def make_room_for_search(self, atoms: int) -> None:
        """For events with up to this many atoms."""
        words = self.store.words
        visits = int(words[layout.CHUNKS]) + atoms + int(words[layout.DIMENSIONS]) * layout.CLASSES
        if visits > len(self.visits):
            self.visits = np.empty(visits + visits // 4, np.int64)
        found = len(self.slots.first)
        if self.has_links:
            found = max(found, int(words[layout.RECORDS]) + len(self.link_marks))
        if found > len(self.out):
            self.out = np.empty(found + found // 4, np.int32)

    def bits_for_slots(self) -> tuple[Any, Any]:
        """A bit for each slot, and one for each word of those; all zero."""
        words = -(-len(self.slots.first) // sort.WORD_BITS)
        if len(self.slot_bits) < words:
            self.slot_bits = np.zeros(words, np.int64)
            self.slot_words = np.zeros(-(-words // sort.WORD_BITS), np.int64)
        return self.slot_bits, self.slot_words

    def size_bytes(self) -> int:
        store = self.store
        arrays = [store.words, store.atoms, store.heads, *self.slots, self.keys, self.owners, self.link_marks]
        return sum(array.nbytes for array in [*arrays, self.visits, self.out, self.slot_bits, self.slot_words])


def longer(array: Any, size: int, filler: Any) -> Any:
    grown = np.full(size, filler, array.dtype)
    grown[: len(array)] = array
    return grown


def with_rows(table: Any, rows: int) -> Any:
    grown = np.zeros((rows, *table.shape[1:]), table.dtype)
    grown[: len(table)] = table
    return grown


SAMPLE_MIN = 16
"""A smaller sample says nothing."""

IMPROVEMENT = 1.5
"""New edges are taken if two numbers share a bucket this many times less often."""


def learn(store: IndexStore, dimensions: int) -> bool:
    """Learn every dimension; whether any edges changed."""
    changed = [learn_dimension(store, dimension) for dimension in range(dimensions)]
    return any(changed)


def learn_dimension(store: IndexStore, dimension: int) -> bool:
    at = int(store.words[DIMENSION_AT + dimension])
    bounds, numbers = samples_of(store, at)
    if len(bounds) < SAMPLE_MIN and len(numbers) < SAMPLE_MIN:
        return False
    source = numbers if len(numbers) >= SAMPLE_MIN else bounds
    store.floats[at + DIMENSION_KNOTS : at + DIMENSION_KNOTS + KNOTS] = np.quantile(
        source, np.linspace(0.0, 1.0, KNOTS)
    )
    parity = int(store.words[at + DIMENSION_PARITY])
    edges = edges_of(bounds, numbers)
    present = edges_at(store, at, parity)
    is_better = collisions(present, bounds, numbers) > IMPROVEMENT * collisions(edges, bounds, numbers)
    if not is_better or store.words[USERS_AT + 2 * dimension + 1 - parity]:
        return False
    edges_at(store, at, 1 - parity)[:] = edges
    store.words[at + DIMENSION_PARITY] = 1 - parity
    return True


def edges_at(store: IndexStore, at: int, parity: int) -> Any:
    begin = at + DIMENSION_EDGES + parity * EDGES
    return store.floats[begin : begin + EDGES]


def samples_of(store: IndexStore, at: int) -> tuple[Any, Any]:
    """The sampled bounds and numbers, sorted."""
    bounds_count = min(int(store.words[at + DIMENSION_BOUNDS_SEEN]), SAMPLES)
    bounds = store.floats[at + DIMENSION_BOUNDS : at + DIMENSION_BOUNDS + bounds_count]
    numbers = store.floats[at + DIMENSION_NUMBERS : at + DIMENSION_NUMBERS + min(int(store.words[SAMPLED]), SAMPLES)]
    return np.sort(bounds), np.sort(numbers[~np.isnan(numbers)])


def edges_of(bounds: Any, numbers: Any) -> Any:
    """EDGES ascending edges, filled up with infinity where there are fewer different ones."""
    usable = [sample for sample in (bounds, numbers) if len(sample) >= SAMPLE_MIN]
    share = EDGES // len(usable)
    chosen = [sample[(np.arange(1, share + 1) * len(sample)) // (share + 1)] for sample in usable]
    different = np.unique(np.concatenate(chosen))
    edges = np.full(EDGES, np.inf)
    edges[: len(different)] = different
    return edges


def collisions(edges: Any, bounds: Any, numbers: Any) -> float:
    """How likely two members of a sample lie in the same bucket; the mean over both samples."""
    usable = [sample for sample in (bounds, numbers) if len(sample) >= SAMPLE_MIN]
    shares = [
        np.bincount(np.searchsorted(edges, sample, "right"), minlength=EDGES + 1) / len(sample) for sample in usable
    ]
    return float(np.mean([(share**2).sum() for share in shares]))
