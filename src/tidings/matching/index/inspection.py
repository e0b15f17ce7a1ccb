"""The invariants of the fast engine, for tests: all of its memory is looked at and compared with the rest."""

import bisect
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tidings.matching.index.answers import NO_LINK
from tidings.matching.index.kernels import layout

if TYPE_CHECKING:
    from tidings.matching.index.fast import FastEngine


def check_engine(engine: "FastEngine") -> None:
    IndexInspection(engine).check()


class IndexInspection:
    def __init__(self, engine: "FastEngine") -> None:
        self.engine, self.memory = engine, engine.memory
        self.store = engine.memory.store
        self.words: list[int] = self.store.words.tolist()
        self.halves: list[int] = self.store.halves.tolist()
        self.floats: list[float] = self.store.floats.tolist()
        self.filed: Counter[int] = Counter()
        self.users: Counter[int] = Counter()
        self.chunks = 0

    def check(self) -> None:
        for partition, home in zip(*self.store.heads.nonzero(), strict=True):
            for record in self.records_in(int(partition), int(home)):
                self.filed[record] += 1
                self.check_partition(record, int(partition))
        held = [record for slot in range(len(self.memory.slots.first)) for record in self.ring(slot)]
        assert sorted(held) == sorted(self.filed.elements()), "records held and records filed differ"
        assert self.words[layout.RECORDS] == len(held) and self.words[layout.CHUNKS] == self.chunks
        users = self.words[layout.USERS_AT : layout.USERS_AT + layout.CODES]
        assert users == [self.users[code] for code in range(layout.CODES)]
        asking = Counter(name for record in held for name in self.atoms(record) if name >= 0)
        assert self.store.atoms[:, layout.ASKING].tolist() == [asking[atom] for atom in range(len(self.store.atoms))]
        assert not any(self.words[layout.USAGE_AT : layout.USAGE_AT + layout.CODES])

    def ring(self, slot: int) -> list[int]:
        """The records of a slot."""
        first = int(self.memory.slots.first[slot])
        records = [first] if first else []
        while records and self.halves[2 * records[-1] + 3] != first:
            records.append(self.halves[2 * records[-1] + 3])
        assert all(self.halves[2 * record] == slot for record in records)
        several = [bool(self.halves[2 * record + 1] & layout.SEVERAL) for record in records]
        assert several == [len(records) > 1] * len(records)
        return records

    def counts(self, record: int) -> tuple[int, int]:
        info = self.halves[2 * record + 1]
        return info & 255, info >> 8 & 255

    def intervals(self, record: int) -> dict[int, tuple[float, float]]:
        dimensions, atoms = self.counts(record)
        names = 2 * (record + layout.RECORD_BODY)
        bounds = record + layout.RECORD_BODY + (dimensions + atoms + 1) // 2
        return {
            self.halves[names + i]: (self.floats[bounds + 2 * i], self.floats[bounds + 2 * i + 1])
            for i in range(dimensions)
        }

    def atoms(self, record: int) -> list[int]:
        dimensions, atoms = self.counts(record)
        begin = 2 * (record + layout.RECORD_BODY) + dimensions
        return self.halves[begin : begin + atoms]

    def check_partition(self, record: int, partition: int) -> None:
        links = self.memory.slots.links
        link = int(links[self.halves[2 * record]]) if len(links) else NO_LINK
        assert self.engine.partition_of_link.get(link, 0) == partition
        assert partition == 0 or self.memory.owners[partition] == link

    def records_in(self, partition: int, home: int) -> Iterator[int]:
        head = int(self.store.heads[partition, home])
        kind, offset = head & 3, head >> 2
        if kind == layout.LONE:
            assert self.halves[2 * offset + 2] == ~home
            yield offset
        elif kind == layout.CHUNK:
            assert self.words[offset + layout.CHUNK_COUNT] >= 1
            yield from self.check_chunk(offset, home)
        else:
            yield from self.check_directory(offset, home)

    def check_directory(self, directory: int, home: int) -> Iterator[int]:
        count, capacity = self.words[directory : directory + 2]
        assert 1 <= count <= capacity
        last_key = -float("inf")
        for entry in range(count):
            at = directory + layout.DIRECTORY_BODY + entry * layout.ENTRY
            key, low, high = self.floats[at : at + 3]
            assert last_key <= key or home >= layout.ATOM_HOMES
            last_key = key
            for record in self.check_chunk(self.words[at + layout.ENTRY_CHUNK], home):
                if home < layout.ATOM_HOMES:
                    interval = self.intervals(record)[home // layout.CLASSES]
                    assert low <= interval[0] and interval[1] <= high
                    assert key <= interval[1 if home % layout.CLASSES == layout.LEFT_OPEN else 0]
                yield record

    def check_chunk(self, chunk: int, home: int) -> Iterator[int]:
        count, capacity, groups, own_home = self.words[chunk : chunk + 4]
        assert own_home == home and 0 < count <= capacity <= self.words[layout.CHUNK_RECORDS]
        self.chunks += 1
        width = (capacity + 63) // 64
        alive = bits_of(self.words, chunk + layout.CHUNK_BODY, width)
        references = 2 * (chunk + layout.CHUNK_BODY + width)
        positions = [position for position in range(64 * width) if alive >> position & 1]
        assert len(positions) == count and all(position < capacity for position in positions)
        records = {position: self.halves[references + position] for position in positions}
        for position, record in records.items():
            assert self.halves[2 * record + 2] == chunk
            assert self.halves[2 * record + 1] >> layout.POSITION == position
        codes = chunk + layout.CHUNK_BODY + width + (capacity + 1) // 2
        for group in range(groups):
            code = self.words[codes + group]
            self.users[code] += 1
            for bucket in range(layout.BUCKETS):
                at = chunk + (codes - chunk + groups + 7) // 8 * 8 + (group * layout.BUCKETS + bucket) * width
                row = bits_of(self.words, at, width)
                for position in range(capacity):
                    expected = position not in records or self.allows(records[position], code, bucket)
                    assert bool(row >> position & 1) == expected
        yield from records.values()

    def allows(self, record: int, code: int, bucket: int) -> bool:
        """Should the row of this bucket let the record through?"""
        if code >= layout.NUMBER_CODES:
            rows = [int(self.store.atoms[atom, layout.ROW]) for atom in self.atoms(record) if atom >= 0]
            return all(row % layout.BUCKETS == bucket for row in rows if row // layout.BUCKETS == code)
        interval = self.intervals(record).get(code >> 1)
        if interval is None:
            return True
        at = self.words[layout.DIMENSION_AT + (code >> 1)] + layout.DIMENSION_EDGES + (code & 1) * layout.EDGES
        first, last = (bisect.bisect_right(self.floats, bound, at, at + layout.EDGES) - at for bound in interval)
        return first <= bucket <= last


def bits_of(words: Any, at: int, width: int) -> int:
    return sum((word % 2**64) << (64 * i) for i, word in enumerate(words[at : at + width]))
