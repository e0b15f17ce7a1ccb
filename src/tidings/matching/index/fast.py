"""The engine on numpy and numba: prepares calls of the kernels, and says when to learn (`kernels` explains the search).

Filters are kept in *partitions*, each a complete set of clusters. A link with many filters has a partition of its
own, so that `match_links` can leave it at the first match; all others share one, where the link of each match is
looked up.

Learning is checked after certain numbers of new records and events. It may leave chunks built with old edges, or
records filed in worse places than now known; they are renewed a few at a time, as adding and matching go on.
"""

from array import array
from bisect import insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tidings.matching.index.answers import (
    NO_LINK,
    PAIRS_ENDLESS,
    Addition,
    Alone,
    Events,
    IndexParams,
    Key,
    LazyEvents,
    Link,
    MatchedPlaces,
    Matches,
    Several,
    event_in,
    found_in,
    is_columnar,
)
from tidings.matching.index.codes import encode_events
from tidings.matching.index.doubts import Doubts
from tidings.matching.index.kernels import changes, layout, renewal, search, sort
from tidings.matching.index.kernels.layout import IndexBatch, Specs
from tidings.matching.index.lexicon import HeadReader
from tidings.matching.index.members import FEW_EVENTS, places_of, tuples_of
from tidings.matching.index.memory import Memory, learn
from tidings.matching.index.vocabulary import Vocabulary
from tidings.model.event import Event

HITS_HALVED_AT = 1 << 20
"""Events after which all counts are halved, so that the recent past counts most."""

RENEWALS_PER_ADD, RENEWALS_PER_EVENT = 0.25, 0.0625
"""Chunks renewed per addition and per event while there is something to renew."""

CHUNK_COST = 64
"""What `renewal.sweep` charges for a chunk."""

RELEASED_MAX = 1 << 14
"""Atoms named by all records of one filter; 64 records of 255 at the most."""

CROWDS_MAX, CROWD_SLOTS_MAX = 4096, 8
"""Answers with several members that are remembered, and how many members those may have."""

SHARED = 0
"""The partition of all filters whose link has none of its own."""

FIRST_ONLY: Any = np.zeros(1, np.int64)


class FastEngine:
    """Finds the keys of the filters that match."""

    name = "fast"

    def __init__(self, vocabulary: Vocabulary, params: IndexParams) -> None:
        self.vocabulary, self.params = vocabulary, params
        self.memory = Memory(params)
        self.keys_alone = Alone(lambda slot: self.memory.keys[slot : slot + 1].tolist()[0])
        self.crowds: dict[tuple[int, ...], tuple[Key, ...]] = {}
        self.reader = HeadReader(vocabulary, params.memo_strings)
        self.released: Any = np.empty(RELEASED_MAX, np.int32)
        self.doubtful = Doubts()
        self.link_filters: dict[int, int] = {}
        self.partition_of_link: dict[int, int] = {}
        self.records_seen = self.events_seen = 0
        self.records_next, self.events_next = params.learning_records, params.learning_events
        self.renewing, self.renewal_credit = False, 0.0

    # ------------------------------------------------------------------------------------------ adding and removing

    def insert(self, additions: Iterable[Addition]) -> None:
        additions = list(additions)
        self.crowds.clear()
        memory = self.memory
        memory.make_room_for_vocabulary(self.vocabulary)
        memory.make_room_for_slots(max([addition.slot for addition in additions]) + 1)
        for slot, key, records, doubtful, _ in additions:
            memory.set_key(slot, key)
            self.keys_alone.pop(slot, None)
            if doubtful is not None:
                self.doubtful.add(slot, doubtful)
            if len(records) > 1:
                memory.keep_marks()
        self.set_links(additions)
        specs = self.specs_of(additions)
        if len(specs.lines):
            self.file(specs)

    def set_links(self, additions: Sequence[Addition]) -> None:
        """Note the link of each slot, and give links that became large a partition of their own."""
        largest = max([addition.link for addition in additions])
        if largest == NO_LINK and not self.memory.has_links:
            return
        self.memory.keep_links(largest)
        for addition in additions:
            if addition.link != NO_LINK:
                self.link_filters[addition.link] = self.link_filters.get(addition.link, 0) + 1
        for link in dict.fromkeys([addition.link for addition in additions]):
            if self.link_filters.get(link, 0) >= self.params.link_filters and link not in self.partition_of_link:
                self.give_partition(link)
        links = self.memory.slots.links
        for addition in additions:
            links[addition.slot] = addition.link

    def specs_of(self, additions: Sequence[Addition]) -> Specs:
        lines: list[int] = []
        names: list[int] = []
        bounds: list[float] = []
        partition_of_link = self.partition_of_link
        for slot, _, records, doubtful, link in additions:
            flags = 0 if doubtful is None else layout.DOUBTFUL
            if len(records) > 1:
                flags |= layout.SEVERAL
            partition = partition_of_link.get(link, SHARED) if partition_of_link else SHARED
            for dimensions, ends, atoms in records:
                lines += (slot, flags, partition, len(dimensions), len(atoms), len(names), len(bounds))
                names += dimensions
                names += atoms
                bounds += ends
        integers = np.frombuffer(array("q", lines), np.int64).reshape(-1, layout.SPEC_COLUMNS)
        return Specs(integers, np.array(names, np.int32), np.array(bounds, np.float64))

    def file(self, specs: Specs) -> None:
        memory, count = self.memory, len(specs.lines)
        homes, keys = np.empty(count, np.int64), np.empty(count, np.float64)
        changes.choose_homes(memory.store, specs, homes, keys, True)
        self.records_seen += count
        if self.records_seen >= self.records_next:
            self.records_next = 8 * self.records_seen
            self.learn()
            changes.choose_homes(memory.store, specs, homes, keys, False)
        partitions = specs.lines[:, layout.SPEC_PARTITION]
        order = FIRST_ONLY if count == 1 else np.lexsort((keys, homes, partitions))
        done = changes.insert(memory.store, memory.slots, specs, homes, order, 0)
        while done < count:
            memory.grow_arena()
            done = changes.insert(memory.store, memory.slots, specs, homes, order, done)
        if self.renewing:
            self.renew(count * RENEWALS_PER_ADD)

    def remove(self, slot: int) -> list[int]:
        """Forget a slot; the atoms that its records named, once each time."""
        memory = self.memory
        memory.set_key(slot, 0)
        self.doubtful.remove(slot)
        link = int(memory.slots.links[slot]) if memory.has_links else NO_LINK
        memory.make_room()
        partition = self.partition_of_link.get(link, SHARED)
        count = changes.remove(memory.store, memory.slots, slot, partition, self.released)
        released: list[int] = self.released[:count].tolist()
        if link != NO_LINK:
            self.leave_link(slot, link)
        return released

    # -------------------------------------------------------------------------------------------- links and partitions

    def leave_link(self, slot: int, link: int) -> None:
        self.memory.slots.links[slot] = NO_LINK
        self.link_filters[link] -= 1
        if link in self.partition_of_link and self.link_filters[link] * 4 <= self.params.link_filters:
            partition = self.partition_of_link.pop(link)
            self.move(link, partition, SHARED)
            self.memory.owners[partition] = NO_LINK
        if not self.link_filters[link]:
            del self.link_filters[link]

    def give_partition(self, link: int) -> None:
        unowned = [p for p, owner in enumerate(self.memory.owners.tolist()) if owner == NO_LINK and p != SHARED]
        if not unowned and len(self.memory.owners) > self.params.own_links_max:
            return
        partition = unowned[0] if unowned else self.memory.add_partition()
        self.move(link, SHARED, partition)
        self.memory.owners[partition] = link
        self.partition_of_link[link] = partition

    def move(self, link: int, origin: int, target: int) -> None:
        memory = self.memory
        moving = np.flatnonzero(memory.slots.links == link)
        done = changes.move(memory.store, memory.slots, moving, origin, target, 0)
        while done < len(moving):
            memory.grow_arena()
            done = changes.move(memory.store, memory.slots, moving, origin, target, done)

    # ----------------------------------------------------------------------------------------------------- matching

    def match(self, event: Event) -> list[Key]:
        slots = self.find(event)
        if self.doubtful:
            slots, _ = self.settle(slots, np.array((0, len(slots))), (event,))
        keys: list[Key] = self.memory.keys[slots].tolist()
        self.after_events(1)
        return keys

    def doubts_about(self, event: Event) -> list[int]:
        """The slots of filters that have to be asked whether they match."""
        return [~slot for slot in self.find(event).tolist() if slot < 0]

    def find(self, event: Event) -> Any:
        """Slots that match, and ~slot for those that may."""
        batch = encode_events(self.vocabulary, (event,))
        memory = self.memory
        memory.make_room_for_search(len(batch.atoms))
        offsets = np.empty(2, np.int64)
        search.match_events(memory.store, memory.slots, batch, 0, memory.visits, memory.out, offsets)
        return memory.out[: offsets[1]]

    def match_batch(self, events: Events) -> Matches:
        slots, offsets = self.find_slots(self.encode(events), events)
        return Matches(offsets, self.memory.keys[slots])

    def find_slots(self, batch: IndexBatch, events: Events, pairs_max: int = PAIRS_ENDLESS) -> tuple[Any, Any]:
        """The slots that match, and where those of each event begin; only of the first events where it is too many."""
        slots, offsets = self.search(search.match_events, (self.memory.store, self.memory.slots), batch)
        if len(slots) > pairs_max:
            count = max(1, int(np.searchsorted(offsets, pairs_max, "right")) - 1)
            slots, offsets = slots[: offsets[count]], offsets[: count + 1]
        if self.doubtful:
            slots, offsets = self.settle(slots, offsets, events)
        self.after_events(len(offsets) - 1)
        return slots, offsets

    def match_slots(self, events: Events, events_max: int) -> Iterator[tuple[Any, Any]]:
        """The same for so many events at a time, with the slots of each event ascending."""
        lows, highs, atoms, begins = self.encode(events)
        for begin in range(0, len(begins) - 1, events_max):
            end = min(begin + events_max, len(begins) - 1)
            part = IndexBatch(lows[begin:end], highs[begin:end], atoms, begins[begin : end + 1])
            slots, offsets = self.find_slots(part, events[begin:end])
            bits, used = self.memory.bits_for_slots()
            sort.order_slots(slots, offsets, bits, used)
            yield slots, offsets

    def match_links(self, events: Events) -> list[list[int]]:
        found, offsets = self.find_link_numbers(self.encode(events))
        if self.doubtful:
            return self.settle_links(found, offsets, events)
        links: list[int] = found.tolist()
        return [links[begin:end] for begin, end in pairwise(offsets.tolist())]

    def find_link_numbers(self, batch: IndexBatch) -> tuple[Any, Any]:
        """The same for links; ~slot where a filter has to be asked."""
        memory = self.memory
        if not memory.has_links:
            return np.empty(0, np.int32), np.zeros_like(batch.offsets)
        arrays = memory.store, memory.slots, memory.owners, memory.link_marks
        found, offsets = self.search(search.match_links, arrays, batch)
        self.after_events(len(offsets) - 1)
        return found, offsets

    def match_heads(self, heads: LazyEvents, pairs_max: int) -> list[tuple[Key, ...] | None]:
        batch, odd = self.reader.read(heads.heads)
        slots, offsets = self.find_slots(batch, heads, pairs_max)
        answers = tuples_of(slots, offsets, self.keys_alone, self.keys_of)
        pairs = len(slots)
        for row in odd:
            if row >= len(answers):
                break
            event = heads.event(row)
            keys = answers[row] = None if event is None else tuple(self.match(event))
            pairs += len(keys or ())
            if row and pairs > pairs_max:
                return answers[:row]
        return answers

    def match_heads_links(self, heads: LazyEvents, alone: Alone, several: Several) -> list[tuple[Link, ...] | None]:
        """`alone` and `several` make answers of the numbers of links."""
        batch, odd = self.reader.read(heads.heads)
        found, offsets = self.find_link_numbers(batch)
        answers: list[tuple[Link, ...] | None]
        if self.doubtful:
            answers = [several(numbers) for numbers in self.settle_links(found, offsets, heads)]
        else:
            answers = tuples_of(found, offsets, alone, several)
        for row in odd:
            event = heads.event(row)
            answers[row] = None if event is None else several(self.match_links((event,))[0])
        return answers

    def find_heads(self, heads: LazyEvents, pairs_max: int) -> MatchedPlaces:
        batch, odd = self.reader.read(heads.heads)
        slots, offsets = self.find_slots(batch, heads, pairs_max)
        if odd and pairs_max < PAIRS_ENDLESS and len(odd) * len(self.keys_alone) > pairs_max:
            return found_in(self.match_heads(heads, pairs_max))
        found = {self.keys_alone[slot][0]: rows for slot, rows in places_of(slots, offsets).items()}
        count = len(offsets) - 1
        return self.add_odd(heads, [row for row in odd if row < count], found, self.match, count)

    def find_heads_links(self, heads: LazyEvents, alone: Alone, several: Several) -> MatchedPlaces:
        if self.doubtful:
            return found_in(self.match_heads_links(heads, alone, several))
        batch, odd = self.reader.read(heads.heads)
        places = places_of(*self.find_link_numbers(batch))
        found = {alone[number][0]: rows for number, rows in places.items()}
        return self.add_odd(heads, odd, found, lambda event: several(self.match_links((event,))[0]), len(heads))

    def add_odd(
        self,
        heads: LazyEvents,
        odd: list[int],
        found: dict[Hashable, list[int]],
        match: Callable[[Event], Iterable[Hashable]],
        count: int,
    ) -> MatchedPlaces:
        """With the heads that had to be decoded."""
        bad = []
        for row in odd:
            event = heads.event(row)
            if event is None:
                bad.append(row)
            else:
                for member in match(event):
                    insort(found.setdefault(member, []), row)
        return MatchedPlaces(found, bad, count)

    def keys_of(self, slots: list[int]) -> tuple[Key, ...]:
        """Those that match the same event. The same slots give the same object, as they do for one alone."""
        name = tuple(slots)
        found = self.crowds.get(name)
        if found is None:
            if len(self.crowds) >= CROWDS_MAX:
                self.crowds.clear()
            found = tuple(self.memory.keys[slots].tolist())
            if len(name) <= CROWD_SLOTS_MAX:
                self.crowds[name] = found
        return found

    def encode(self, events: Events) -> IndexBatch:
        if is_columnar(events):
            from tidings.matching.index.columns import encode_columns

            return encode_columns(self.vocabulary, events)
        return encode_events(self.vocabulary, events)

    def search(self, kernel: Any, arrays: tuple[Any, ...], batch: IndexBatch) -> tuple[Any, Any]:
        """Run a kernel over a batch, carrying answers away whenever `out` is full; the answers and their offsets."""
        memory, count = self.memory, len(batch.offsets) - 1
        # All atoms of a few events are no more than a large event has, and are known without looking.
        few = count <= FEW_EVENTS
        memory.make_room_for_search(int(batch.offsets[-1] if few else np.diff(batch.offsets).max(initial=0)))
        offsets = np.zeros(count + 1, np.int64)
        pieces: list[Any] = []
        done = carried = 0
        while done < count:
            reached = kernel(*arrays, batch, done, memory.visits, memory.out, offsets)
            filled = int(offsets[reached])
            pieces.append(memory.out[:filled].copy())
            offsets[done + 1 : reached + 1] += carried
            carried, done = carried + filled, reached
        if len(pieces) == 1:
            return pieces[0], offsets
        return np.concatenate(pieces) if pieces else np.empty(0, np.int32), offsets

    def settle(self, slots: Any, offsets: Any, events: Events) -> tuple[Any, Any]:
        """Ask the filters of doubtful slots, and leave out those that say no."""
        places = np.flatnonzero(slots < 0)
        rows = np.searchsorted(offsets, places, "right") - 1
        keep = np.ones(len(slots), bool)
        for place, row in zip(places.tolist(), rows.tolist(), strict=True):
            slot = slots[place] = ~slots[place]
            keep[place] = self.doubtful.ask(int(slot), event_in(events, row))
        kept = np.zeros(len(slots) + 1, np.int64)
        np.cumsum(keep, out=kept[1:])
        return slots[keep], kept[offsets]

    def settle_links(self, found: Any, offsets: Any, events: Events) -> list[list[int]]:
        """The same for links: those found without doubt first."""
        entries, ends = found.tolist(), offsets.tolist()
        answers = []
        for row, (begin, end) in enumerate(pairwise(ends)):
            links = [link for link in entries[begin:end] if link >= 0]
            for slot in [~entry for entry in entries[begin:end] if entry < 0]:
                link = int(self.memory.slots.links[slot])
                if link not in links and self.doubtful.ask(slot, event_in(events, row)):
                    links.append(link)
            answers.append(links)
        return answers

    # ----------------------------------------------------------------------------------------------------- learning

    def after_events(self, count: int) -> None:
        self.events_seen += count
        if self.events_seen >= self.events_next:
            self.events_next = self.events_seen + min(7 * self.events_seen, 512 * self.params.learning_events)
            self.learn()
            store = self.memory.store
            if store.words[layout.EVENTS] > HITS_HALVED_AT:
                store.words[layout.EVENTS] >>= 1
                store.atoms[:, layout.HITS] >>= 1
        if self.renewing:
            self.renew(count * RENEWALS_PER_EVENT)

    def learn(self) -> None:
        if learn(self.memory.store, len(self.vocabulary.dimensions)):
            self.renewing = True

    def renew(self, chunks: float) -> None:
        """Renew so many chunks; fractions are saved up."""
        self.renewal_credit += chunks
        if self.renewal_credit >= 1.0:
            self.memory.make_room()
            self.renewing = not renewal.sweep(self.memory.store, int(self.renewal_credit * CHUNK_COST))
            self.renewal_credit = 0.0

    # ------------------------------------------------------------------------------------------------------- looking

    def check(self) -> None:
        from tidings.matching.index.inspection import check_engine

        check_engine(self)

    def describe(self) -> dict[str, int]:
        words = self.memory.store.words
        return {
            "records": int(words[layout.RECORDS]),
            "chunks": int(words[layout.CHUNKS]),
            "partitions": len(self.memory.owners),
            "doubtful": len(self.doubtful),
            "bytes": self.memory.size_bytes() + self.released.nbytes,
        }
