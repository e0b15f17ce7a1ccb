"""The arrays of the fast engine, and their growth.

Arrays grow by a quarter, the arena by at most GROWTH_WORDS_MAX and in place where the system allows, so that no
single step takes long. A kernel never makes room: it is called when there is enough for one operation (MARGIN), or
stops and says how far it came.
"""

from typing import Any

import numpy as np

from tidings.matching.index.answers import NO_LINK, Key
from tidings.matching.index.kernels import layout, sort
from tidings.matching.index.kernels.layout import IndexStore, Slots
from tidings.matching.index.params import IndexParams
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
