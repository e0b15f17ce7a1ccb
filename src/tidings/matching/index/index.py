"""The index: which of very many filters does an event satisfy?

Asking each filter in turn costs a microsecond per filter and event. The index answers in time that depends mostly on
how many filters match. It does three things, each in a module of its own:

    break     a filter becomes a few *records*: intervals of numbers, and *atoms* that stand for all other conditions
              (`records.py`, `vocabulary.py`)
    encode    an event becomes a number per dimension and a list of atoms (`codes.py`, `columns.py` for Arrow)
              (a head, an event as it came off the wire, needs no Python objects: `lexicon.py`)
    search    an *engine* finds the records that the encoded event satisfies. The fast one groups records by the
              condition that is rarest among events, and within a group rules out most by rows of bits (`fast.py`,
              `kernels/`, with numpy and numba). The plain one uses rows of bits alone (`plain.py`).

Nothing is approximate: what an engine cannot decide it calls doubtful, and the filter itself is asked. Additions and
removals take effect at once. An index belongs to one thread at a time.

Work that nobody needs is not done: before the plain engine a few filters wait unbroken until something is asked of the
index, since many are gone again by then, and who only watches tables change never asks.

Filters may be added for a *link* (the neighbour behind which the subscriber lives); `match_links` then says on which
links somebody wants the event, without finding out who.

The kernels are compiled when they are first called, and kept in a cache on disk. On a machine that has never done so
that takes half a minute, in which the process does nothing else: no time to be told so by the first subscriber. A
program that serves others calls `prepare` before it opens its doors. With a full cache it costs about a second.
"""

import gc
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from tidings.matching.index.answers import (
    NO_LINK,
    PAIRS_ENDLESS,
    Addition,
    Alone,
    Decode,
    Events,
    IndexParams,
    Key,
    LazyEvents,
    Link,
    MatchedPlaces,
    Matches,
)
from tidings.matching.index.plain import PlainEngine
from tidings.matching.index.records import Breaker
from tidings.matching.index.vocabulary import AttributeTable, Vocabulary
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.language.parser import parse
from tidings.model.sets.patterns import SearchWeight
from tidings.model.weight import weight_of

if TYPE_CHECKING:
    from tidings.matching.index.fast import FastEngine

DEFAULT_PARAMS = IndexParams()

BULK_FILTERS = 1 << 16
"""Filters that `add_many` hands to the engine at a time; bounds what it holds besides the index."""


class Index:
    """Filters by key. `engine` is "fast" or "plain"; by default the fast one where numba is installed. `decode` is
    needed for matching encoded events: the event of a head, or ValueError if it is not valid."""

    def __init__(
        self,
        engine: Literal["fast", "plain"] | None = None,
        params: IndexParams = DEFAULT_PARAMS,
        decode: Decode | None = None,
    ) -> None:
        if engine not in (None, "fast", "plain"):
            raise UsageError(f'engine {engine!r}: use "fast", "plain" or None for the best that is installed')
        self.decode = decode
        self.vocabulary = Vocabulary(params.memo_strings)
        self.breaker = Breaker(self.vocabulary)
        self.engine = make_engine(engine or best_engine(), self.vocabulary, params)
        self.waiting_max = params.waiting_filters if isinstance(self.engine, PlainEngine) else 0
        self.waiting: dict[int, tuple[Key, Filter]] = {}
        """By slot, those that are not broken yet."""
        self.slots: dict[Key, int] = {}
        self.free: list[int] = []
        self.links = LinkTable()
        self.link_of_slot = array("i")
        self.doubtful_weight = SearchWeight()
        self.weights: dict[int, SearchWeight] = {}
        """Of filters that are asked themselves, by slot."""
        self.searched: tuple[bytes, Event] | None = None
        """The head that was searched last, and its event: what was found out about it is remembered by that."""

    def __len__(self) -> int:
        return len(self.slots)

    def __contains__(self, key: Key) -> bool:
        return key in self.slots

    def add(self, key: Key, filter: Filter, link: Link | None = None) -> None:
        """Add a filter, or replace the one that has this key. Takes effect at once."""
        slot = self.enter(key, link)
        if not self.waiting_max:
            self.engine.insert([self.addition(slot, key, filter)])
            return
        self.waiting[slot] = key, filter
        if len(self.waiting) > self.waiting_max:
            self.settle()

    def settle(self) -> None:
        """Whatever waits goes into the engine; before anything is asked of it, or of the vocabulary."""
        self.engine.insert([self.addition(slot, *entry) for slot, entry in self.waiting.items()])
        self.waiting.clear()

    def add_many(self, entries: Iterable[tuple[Key, Filter] | tuple[Key, Filter, Link | None]]) -> None:
        """`add` for each (key, filter) or (key, filter, link), faster for many at once."""
        additions: dict[Key, Addition] = {}
        with collector_paused():
            for entry in entries:
                key, filter = entry[0], entry[1]
                if key in additions or len(additions) == BULK_FILTERS:
                    self.engine.insert(additions.values())
                    additions.clear()
                slot = self.enter(key, entry[2] if len(entry) == 3 else None)
                additions[key] = self.addition(slot, key, filter)
            if additions:
                self.engine.insert(additions.values())

    def enter(self, key: Key, link: Link | None) -> int:
        """The slot of a key that is new from now on."""
        if key in self.slots:
            self.discard(key)
        if self.free:
            slot = self.free.pop()
        else:
            slot = len(self.link_of_slot)
            self.link_of_slot.append(NO_LINK)
        self.slots[key] = slot
        self.link_of_slot[slot] = NO_LINK if link is None else self.links.join(link)
        return slot

    def addition(self, slot: int, key: Key, filter: Filter) -> Addition:
        records, doubtful = self.breaker.break_filter(filter)
        if doubtful:
            self.weights[slot] = weight_of(filter)
            self.doubtful_weight = self.doubtful_weight.plus(self.weights[slot])
        return Addition(slot, key, records, filter if doubtful else None, self.link_of_slot[slot])

    def discard(self, key: Key) -> bool:
        """Forget a key; False if it was not there."""
        slot = self.slots.pop(key, None)
        if slot is None:
            return False
        if slot in self.waiting:
            del self.waiting[slot]
        else:
            if slot in self.weights:
                self.doubtful_weight = self.doubtful_weight.minus(self.weights.pop(slot))
            for atom in self.engine.remove(slot):
                self.vocabulary.release(atom)
        if self.link_of_slot[slot] != NO_LINK:
            self.links.leave(self.link_of_slot[slot])
            self.link_of_slot[slot] = NO_LINK
        self.free.append(slot)
        return True

    def match(self, event: Event) -> list[Key]:
        """The keys of the filters that match, each once, in an order that depends only on the history of calls."""
        if self.waiting:
            self.settle()
        return self.engine.match(event)

    def match_batch(self, events: Events) -> Matches:
        """The same for many events: a list, or an Arrow batch or table (columns are attributes, null is absent)."""
        if self.waiting:
            self.settle()
        return self.engine.match_batch(events)

    def match_slots(self, events: Events, events_max: int) -> Iterator[tuple[Any, Any]]:
        """`match_batch` for who keeps what belongs to a filter by its slot, `slots[key]`: 0, 1, 2, ... in the order of
        addition while nothing is discarded. Answers come for `events_max` events at a time, as slots and offsets: those
        of the i-th are `slots[offsets[i]:offsets[i + 1]]`, ascending. Both are numpy arrays where the fast engine
        answered, and lists where the plain one did."""
        if self.waiting:
            self.settle()
        if not isinstance(self.engine, PlainEngine):
            yield from self.engine.match_slots(events, events_max)
            return
        for begin in range(0, len(events), events_max):
            slots: list[int] = []
            offsets = [0]
            for keys in self.engine.match_batch(events[begin : begin + events_max]):
                slots += sorted(map(self.slots.__getitem__, keys))
                offsets.append(len(slots))
            yield slots, offsets

    def match_links(self, events: Events) -> list[list[Link]]:
        """For each event the links that have a matching filter, in the order in which the links were first added."""
        if self.waiting:
            self.settle()
        return [list(self.links.in_order(found)) for found in self.engine.match_links(events)]

    def match_heads(self, heads: Sequence[bytes], pairs_max: int = PAIRS_ENDLESS) -> list[tuple[Key, ...] | None]:
        """`match` for encoded events; None for a head that is not valid. Only the first of them are answered for, at
        least one, if more keys than `pairs_max` would be in all answers together."""
        return self.engine.match_heads(self.events_of(heads), pairs_max) if heads else []

    def match_heads_links(self, heads: Sequence[bytes]) -> list[tuple[Link, ...] | None]:
        """`match_links` for encoded events; None for a head that is not valid."""
        if not heads:
            return []
        return self.engine.match_heads_links(self.events_of(heads), self.links.alone, self.links.in_order)

    def find_heads(self, heads: Sequence[bytes], pairs_max: int = PAIRS_ENDLESS) -> MatchedPlaces:
        """The other way round: for each key that matches any of the heads, which of them. Quicker where many heads
        match few keys each, because nothing is done for a single head."""
        return self.engine.find_heads(self.events_of(heads), pairs_max) if heads else MatchedPlaces({}, [], 0)

    def find_heads_links(self, heads: Sequence[bytes]) -> MatchedPlaces:
        """The same for links."""
        if not heads:
            return MatchedPlaces({}, [], 0)
        return self.engine.find_heads_links(self.events_of(heads), self.links.alone, self.links.in_order)

    @property
    def has_weight(self) -> bool:
        if self.waiting:
            self.settle()
        return bool(self.vocabulary.weight.base or self.doubtful_weight.base)

    @property
    def weight(self) -> SearchWeight:
        """What matching a head may cost, beside what it always does."""
        if self.waiting:
            self.settle()
        return self.vocabulary.weight.plus(self.doubtful_weight)

    def search(self, head: bytes, until: int) -> bool:
        """Look for patterns in the strings of a head, and ask filters that have no normal form, until so much work is
        counted, and remember what was found; whether all is known, so that `match_heads` needs little time."""
        event = self.events_of([head]).event(0)
        if event is None:
            return True
        self.searched = head, event
        return all(table.search(text, until) for table, text in self.texts_of(event)) and (
            not self.weights or self.engine.doubtful.search(event, self.engine.doubts_about(event), until)
        )

    def is_light(self, head: bytes, until: int) -> bool:
        """Whether a search would end before so much work is counted. What was found out of another head is kept, and
        nothing of this one."""
        event = self.events_of([head]).event(0)
        return event is None or (
            all(table.is_light(text, until) for table, text in self.texts_of(event))
            and (not self.weights or self.engine.doubtful.is_light(event, self.engine.doubts_about(event), until))
        )

    def texts_of(self, event: Event) -> Iterator[tuple[AttributeTable, str]]:
        """The strings of an event of which filters ask something."""
        for name, value in event.attributes.items():
            table = self.vocabulary.attributes.get(name)
            if table is not None and type(value) is str:
                yield table, value

    def events_of(self, heads: Sequence[bytes]) -> LazyEvents:
        """Whoever asks about heads begins here."""
        if self.waiting:
            self.settle()
        if self.decode is None:
            raise UsageError("heads are matched by an index that can decode them: Index(decode=...)")
        return LazyEvents(heads, self.decode if self.searched is None else self.decode_again)

    def decode_again(self, head: bytes) -> Event:
        assert self.decode is not None and self.searched is not None
        searched, event = self.searched
        return event if head == searched else self.decode(head)

    def check(self) -> None:
        """Assert the invariants; for tests, since it looks at everything."""
        if self.waiting:
            self.settle()
        assert len(set(self.slots.values())) == len(self.slots)
        assert len(self.slots) + len(self.free) == len(self.link_of_slot)
        assert not set(self.slots.values()) & set(self.free)
        self.links.check(self.link_of_slot)
        self.vocabulary.check()
        self.engine.check()

    def describe(self) -> dict[str, int | str]:
        """Sizes for tests, benchmarks and the curious."""
        if self.waiting:
            self.settle()
        return {
            "engine": self.engine.name,
            "filters": len(self),
            "links": len(self.links),
            "atoms": len(self.vocabulary.atoms) - len(self.vocabulary.free),
            "dimensions": len(self.vocabulary.dimensions),
            **self.engine.describe(),
        }


class LinkTable:
    """Small numbers for links, used again when a link has no filter left, and the order in which links came."""

    def __init__(self) -> None:
        self.numbers: dict[Link, int] = {}
        self.links: list[Link | None] = []
        self.alone = Alone(lambda number: self.links[number])
        self.filters: list[int] = []
        self.tickets: list[int] = []
        self.free: list[int] = []
        self.next_ticket = 0

    def __len__(self) -> int:
        return len(self.numbers)

    def join(self, link: Link) -> int:
        """One filter more for a link; its number."""
        number = self.numbers.get(link)
        if number is None:
            if self.free:
                number = self.free.pop()
            else:
                number = len(self.links)
                self.links.append(None)
                self.filters.append(0)
                self.tickets.append(0)
            self.numbers[link] = number
            self.links[number], self.tickets[number] = link, self.next_ticket
            self.next_ticket += 1
        self.filters[number] += 1
        return number

    def leave(self, number: int) -> None:
        self.filters[number] -= 1
        if not self.filters[number]:
            del self.numbers[self.links[number]]
            self.links[number] = None
            self.alone.pop(number, None)
            self.free.append(number)

    def in_order(self, numbers: list[int]) -> tuple[Link, ...]:
        if len(numbers) > 1:
            numbers.sort(key=self.tickets.__getitem__)
        return tuple(map(self.links.__getitem__, numbers))

    def check(self, link_of_slot: Iterable[int]) -> None:
        counts = [0] * len(self.links)
        for number in link_of_slot:
            if number != NO_LINK:
                counts[number] += 1
        assert counts == self.filters
        assert all(self.links[number] == link for link, number in self.numbers.items())


@contextmanager
def collector_paused() -> Iterator[None]:
    """Without the garbage collector, which would look through all filters again and again and find no cycle."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def best_engine() -> Literal["fast", "plain"]:
    return "fast" if find_spec("numba") is not None else "plain"


def make_engine(
    name: Literal["fast", "plain"], vocabulary: Vocabulary, params: IndexParams
) -> "PlainEngine | FastEngine":
    if name == "plain":
        return PlainEngine(vocabulary, params)
    try:
        from tidings.matching.index.fast import FastEngine
    except ImportError as missing:
        raise UsageError(
            f"engine 'fast' needs {missing.name}; install tidings[fast] or use engine='plain'"
        ) from missing
    return FastEngine(vocabulary, params)


TINY = IndexParams(
    chunk_records=64,
    direct_records=2,
    block_records=64,
    link_filters=2,
    own_links_max=2,
    learning_records=2,
    learning_events=2,
)
"""With these everything that an index ever does happens among a hundred filters."""

TEXTS = ("number > {n}", "word = 'w{n}' AND number < {n}", "word LIKE 'w%{n}' OR truth")
ROUNDS = 40


def prepare(engine: str | None = None) -> None:
    """Compile what an index of this engine needs; nothing for the plain one."""
    if (engine or best_engine()) != "fast":
        return
    index = Index("fast", TINY, decode=lambda head: Event(msgspec.msgpack.decode(head)))
    filters = [parse(text.format(n=number)) for number in range(ROUNDS) for text in TEXTS]
    index.add_many((key, filter, f"link{key % 3}") for key, filter in enumerate(filters))
    events = [Event({"number": number, "truth": number % 2 == 0, "word": f"w{number}"}) for number in range(8)]
    heads = [msgspec.msgpack.encode(event.attributes, order="deterministic") for event in events]
    for _ in range(3):
        index.match(events[0])
        index.match_batch(events)
        list(index.match_slots(events, len(events)))
        index.match_links(events)
        index.find_heads(heads)
        index.find_heads_links(heads)
    for key in range(len(filters)):
        index.discard(key)
