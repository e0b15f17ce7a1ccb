"""The engine for plain Python: rows of bits as big integers.

Records stand at positions 0, 1, 2, ... of a *block*. For each dimension that the block's records use, the numbers are
cut into buckets, and each bucket has a row: bit i is set unless the record at position i asks for an interval that
misses the bucket altogether. One more row says who does not mind if the event has no such number. For atoms there is
a row per atom (who asks for it) and one per attribute (who asks for no atom of it). An event picks one row per
dimension and attribute; the AND of them, one machine instruction per 64 records, leaves few candidates, and those are
tested exactly.

Edges of the buckets are quantiles of the bounds that the block's own records mention, so they lie where filters
differ; they are learned anew each time the block has grown four times larger. Bits of free positions are always set
in all rows and clear in `alive`, so that adding a record only clears bits and removing one only sets them.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator

from tidings.matching.index.answers import (
    NO_LINK,
    Addition,
    Alone,
    Events,
    IndexParams,
    Key,
    LazyEvents,
    Link,
    MatchedPlaces,
    Matches,
    event_list,
    found_in,
)
from tidings.matching.index.doubts import Doubts
from tidings.matching.index.records import Record
from tidings.matching.index.vocabulary import AttributeTable, Vocabulary
from tidings.model.event import Event
from tidings.model.values import Number

EDGES = 30
"""Thirty edges cut a dimension into thirty-one buckets."""

FIRST_LEARNING = 32
"""Below this many records a block has no rows for numbers."""


class PlainEntry:
    """One record at its position; `several` if its filter has more records than this one."""

    __slots__ = ("intervals", "link", "record", "several", "slot")

    def __init__(self, slot: int, record: Record, link: int, several: bool) -> None:
        self.slot, self.record, self.link, self.several = slot, record, link, several
        dimensions, bounds, _ = record
        self.intervals = tuple(zip(dimensions, bounds[::2], bounds[1::2], strict=True))

    def accepts(self, numbers: dict[int, Number], satisfied: set[int]) -> bool:
        for dimension, low, high in self.intervals:
            number = numbers.get(dimension)
            if number is None or not low <= number <= high:
                return False
        for atom in self.record[2]:
            if (atom in satisfied) if atom >= 0 else (~atom not in satisfied):
                continue
            return False
        return True


class PlainRows:
    """One dimension of a block: `rows[bucket]` for a number, `absent` for events without one."""

    __slots__ = ("absent", "edges", "rows")

    def __init__(self, edges: list[Number], full: int) -> None:
        self.edges = edges
        self.absent = full
        self.rows = [full] * (len(edges) + 1)

    def clear(self, low: float, high: float, bit: int) -> None:
        first, last = bisect_right(self.edges, low), bisect_right(self.edges, high)
        for bucket in (*range(first), *range(last + 1, len(self.rows))):
            self.rows[bucket] &= ~bit
        self.absent &= ~bit

    def set(self, bit: int) -> None:
        self.rows = [row | bit for row in self.rows]
        self.absent |= bit


class Block:
    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.full = (1 << capacity) - 1
        self.alive = 0
        self.entries: list[PlainEntry | None] = [None] * capacity
        self.free = list(range(capacity - 1, -1, -1))
        self.learn_at = FIRST_LEARNING
        self.numbers: dict[int, PlainRows] = {}
        self.asking: dict[int, int] = {}
        self.indifferent: dict[AttributeTable, int] = {}
        self.links: dict[int, int] = {}

    def __len__(self) -> int:
        return self.capacity - len(self.free)

    def put(self, entry: PlainEntry, vocabulary: Vocabulary) -> int:
        position = self.free.pop()
        bit = 1 << position
        self.entries[position] = entry
        self.alive |= bit
        self.links[entry.link] = self.links.get(entry.link, 0) | bit
        for dimension, low, high in entry.intervals:
            if dimension in self.numbers:
                self.numbers[dimension].clear(low, high, bit)
        for attribute, atom in asked(entry.record, vocabulary):
            self.asking[atom] = self.asking.get(atom, 0) | bit
            self.indifferent[attribute] = self.indifferent.get(attribute, self.full) & ~bit
        if len(self) >= self.learn_at:
            self.learn()
            self.learn_at *= 4
        return position

    def take(self, position: int, vocabulary: Vocabulary) -> PlainEntry:
        entry, bit = self.entries[position], 1 << position
        assert entry is not None
        self.entries[position] = None
        self.free.append(position)
        self.alive &= ~bit
        self.links[entry.link] &= ~bit
        if not self.links[entry.link]:
            del self.links[entry.link]
        for dimension in entry.record[0]:
            if dimension in self.numbers:
                self.numbers[dimension].set(bit)
        for attribute, atom in asked(entry.record, vocabulary):
            self.asking[atom] &= ~bit
            if not self.asking[atom]:
                del self.asking[atom]
            self.indifferent[attribute] |= bit
        for attribute, _ in asked(entry.record, vocabulary):
            if self.indifferent.get(attribute) == self.full:
                del self.indifferent[attribute]
        return entry

    def learn(self) -> None:
        """Choose edges for every dimension in use, and fill the rows from where each record begins and ends."""
        intervals: dict[int, list[tuple[int, float, float]]] = {}
        for position, entry in enumerate(self.entries):
            for dimension, low, high in entry.intervals if entry is not None else ():
                intervals.setdefault(dimension, []).append((1 << position, low, high))
        self.numbers = {dimension: rows_of(intervals[dimension], self.full) for dimension in sorted(intervals)}

    def candidates(self, numbers: dict[int, Number], found: dict[AttributeTable, tuple[int, ...]]) -> int:
        candidates = self.alive
        for dimension, rows in self.numbers.items():
            number = numbers.get(dimension)
            candidates &= rows.absent if number is None else rows.rows[bisect_right(rows.edges, number)]
        asking = self.asking
        for attribute, indifferent in self.indifferent.items():
            for atom in found.get(attribute, ()):
                if atom in asking:
                    indifferent |= asking[atom]
            candidates &= indifferent
            if not candidates:
                break
        return candidates

    def check(self, vocabulary: Vocabulary) -> None:
        """Assert that the rows say of each position what its record says."""
        for position, entry in enumerate(self.entries):
            bit = 1 << position
            assert (entry is not None) == bool(self.alive & bit) == (position not in self.free)
            intervals = {dimension: (low, high) for dimension, low, high in entry.intervals} if entry else {}
            for dimension, rows in self.numbers.items():
                low, high = intervals.get(dimension, (-math.inf, math.inf))
                first, last = bisect_right(rows.edges, low), bisect_right(rows.edges, high)
                assert [bool(row & bit) for row in rows.rows] == [first <= i <= last for i in range(len(rows.rows))]
                assert bool(rows.absent & bit) == (dimension not in intervals)
            named = asked(entry.record, vocabulary) if entry else []
            assert sorted(atom for atom, row in self.asking.items() if row & bit) == sorted({atom for _, atom in named})
            minding = [attribute for attribute, row in self.indifferent.items() if not row & bit]
            assert {attribute.name for attribute in minding} == {attribute.name for attribute, _ in named}


def rows_of(intervals: list[tuple[int, float, float]], full: int) -> PlainRows:
    bounds = sorted(bound for _, low, high in intervals for bound in (low, high) if math.isfinite(bound))
    edges = sorted({bounds[len(bounds) * (i + 1) // (EDGES + 1)] for i in range(EDGES)}) if bounds else []
    rows = PlainRows(list(edges), full)
    begins, ends = [0] * len(rows.rows), [0] * (len(rows.rows) + 1)
    constrained = 0
    for bit, low, high in intervals:
        constrained |= bit
        begins[bisect_right(edges, low)] |= bit
        ends[bisect_right(edges, high) + 1] |= bit
    rows.absent = row = full & ~constrained
    for bucket in range(len(rows.rows)):
        row = (row | begins[bucket]) & ~ends[bucket]
        rows.rows[bucket] = row
    return rows


def asked(record: Record, vocabulary: Vocabulary) -> list[tuple[AttributeTable, int]]:
    pairs = []
    for number in record[2]:
        if number >= 0:
            atom = vocabulary.atoms[number]
            assert atom is not None
            pairs.append((atom.attribute, number))
    return pairs


class PlainEngine:
    """Finds the keys of the filters that match, with nothing but the standard library."""

    name = "plain"

    def __init__(self, vocabulary: Vocabulary, params: IndexParams) -> None:
        self.vocabulary, self.params = vocabulary, params
        self.blocks: list[Block] = []
        self.places: dict[int, list[tuple[Block, int]]] = {}
        self.keys: dict[int, Key] = {}
        self.doubtful = Doubts()

    def insert(self, additions: Iterable[Addition]) -> None:
        for slot, key, records, doubtful, link in additions:
            self.keys[slot] = key
            if doubtful is not None:
                self.doubtful.add(slot, doubtful)
            several = len(records) > 1
            self.places[slot] = [self.put(PlainEntry(slot, record, link, several)) for record in records]

    def put(self, entry: PlainEntry) -> tuple[Block, int]:
        block = self.blocks[-1] if self.blocks else None
        if block is None or not block.free:
            roomiest = max(self.blocks, key=lambda block: len(block.free), default=None)
            if roomiest is not None and roomiest.free:
                self.blocks.remove(roomiest)
                block = roomiest
            else:
                block = Block(self.params.block_records)
            self.blocks.append(block)
        return block, block.put(entry, self.vocabulary)

    def remove(self, slot: int) -> list[int]:
        """Forget a slot; the atoms that its records named, once each time."""
        atoms: list[int] = []
        del self.keys[slot]
        self.doubtful.remove(slot)
        places = self.places.pop(slot)
        for block, position in places:
            entry = block.take(position, self.vocabulary)
            atoms += [atom if atom >= 0 else ~atom for atom in entry.record[2]]
        for block, _ in places:
            if len(block) <= block.capacity // 4 and block in self.blocks:
                self.dissolve(block)
        return atoms

    def dissolve(self, block: Block) -> None:
        """Move the few records of a block into the last one, if they fit there, so that events meet fewer blocks."""
        last = self.blocks[-1]
        if len(block) and (block is last or len(last.free) < 2 * len(block)):
            return
        self.blocks.remove(block)
        for position, entry in enumerate(block.entries):
            if entry is not None:
                block.take(position, self.vocabulary)
                places = self.places[entry.slot]
                places[places.index((block, position))] = last, last.put(entry, self.vocabulary)

    def read(self, event: Event) -> tuple[dict[int, Number], dict[AttributeTable, tuple[int, ...]], set[int]]:
        """The event as numbers by dimension, atoms by attribute, and atoms."""
        numbers: dict[int, Number] = {}
        found: dict[AttributeTable, tuple[int, ...]] = {}
        satisfied: set[int] = set()
        attributes = self.vocabulary.attributes
        for name, value in event.attributes.items():
            attribute = attributes.get(name)
            if attribute is not None:
                number, atoms = attribute.read(value)
                if number is not None:
                    numbers[attribute.dimension] = number
                if atoms:
                    found[attribute] = atoms
                    satisfied.update(atoms)
        return numbers, found, satisfied

    def match(self, event: Event) -> list[Key]:
        doubtful = self.doubtful
        return [self.keys[slot] for slot in self.find(event) if slot not in doubtful or doubtful.ask(slot, event)]

    def doubts_about(self, event: Event) -> list[int]:
        """The slots of filters that have to be asked whether they match."""
        return [slot for slot in self.find(event) if slot in self.doubtful]

    def find(self, event: Event) -> Iterator[int]:
        """Slots that match, or may, each once."""
        numbers, found, satisfied = self.read(event)
        seen: set[int] = set()
        for block in self.blocks:
            candidates = block.candidates(numbers, found)
            while candidates:
                bit = candidates & -candidates
                candidates ^= bit
                entry = block.entries[bit.bit_length() - 1]
                assert entry is not None
                if not entry.accepts(numbers, satisfied) or entry.slot in seen:
                    continue
                if entry.several:
                    seen.add(entry.slot)
                yield entry.slot

    def match_batch(self, events: Events) -> Matches:
        offsets, keys = [0], []
        for event in event_list(events):
            keys += self.match(event)
            offsets.append(len(keys))
        return Matches(offsets, keys)

    def match_heads(self, heads: LazyEvents, pairs_max: int) -> list[tuple[Key, ...] | None]:
        answers: list[tuple[Key, ...] | None] = []
        pairs = 0
        for row in range(len(heads.heads)):
            event = heads.event(row)
            keys = None if event is None else tuple(self.match(event))
            pairs += len(keys or ())
            if answers and pairs > pairs_max:
                break
            answers.append(keys)
        return answers

    def match_heads_links(
        self, heads: LazyEvents, alone: Alone, several: Callable[[list[int]], tuple[Link, ...]]
    ) -> list[tuple[Link, ...] | None]:
        answers: list[tuple[Link, ...] | None] = []
        for row in range(len(heads.heads)):
            event = heads.event(row)
            answers.append(None if event is None else several(self.links_of(event)))
        return answers

    def find_heads(self, heads: LazyEvents, pairs_max: int) -> MatchedPlaces:
        return found_in(self.match_heads(heads, pairs_max))

    def find_heads_links(
        self, heads: LazyEvents, alone: Alone, several: Callable[[list[int]], tuple[Link, ...]]
    ) -> MatchedPlaces:
        return found_in(self.match_heads_links(heads, alone, several))

    def match_links(self, events: Events) -> list[list[int]]:
        return [self.links_of(event) for event in event_list(events)]

    def links_of(self, event: Event) -> list[int]:
        """The links with a matching filter. Once a link is found, all its other records are masked out."""
        numbers, found, satisfied = self.read(event)
        links: list[int] = []
        for block in self.blocks:
            candidates = block.candidates(numbers, found) & ~block.links.get(NO_LINK, 0)
            for link in links:
                candidates &= ~block.links.get(link, 0)
            while candidates:
                bit = candidates & -candidates
                candidates ^= bit
                entry = block.entries[bit.bit_length() - 1]
                assert entry is not None
                if not entry.accepts(numbers, satisfied):
                    continue
                if entry.slot not in self.doubtful or self.doubtful.ask(entry.slot, event):
                    links.append(entry.link)
                    candidates &= ~block.links[entry.link]
        return links

    def check(self) -> None:
        for slot, places in self.places.items():
            for block, position in places:
                entry = block.entries[position]
                assert block in self.blocks and entry is not None and entry.slot == slot
        assert sum(len(block) for block in self.blocks) == sum(len(places) for places in self.places.values())
        for block in self.blocks:
            block.check(self.vocabulary)

    def describe(self) -> dict[str, int]:
        records = sum(len(block) for block in self.blocks)
        rows = sum(len(rows.rows) + 1 for block in self.blocks for rows in block.numbers.values())
        return {"records": records, "blocks": len(self.blocks), "rows": rows, "doubtful": len(self.doubtful)}
