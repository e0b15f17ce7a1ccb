"""What goes into an engine and what comes out of it; and the sizes that shape an index. Their defaults are measured;
tests make everything tiny so that it all happens soon.

A broker has the attributes of an event as bytes, its *head*. The fast engine reads them as they are; what it cannot
read, and filters that have to be asked themselves, need the event. Whoever builds the index says how to decode a head,
because the encoding belongs to a layer that matching does not know.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Union, overload

import msgspec

from tidings.matching.index.records import Record
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.filter import Filter

if TYPE_CHECKING:
    import pyarrow

POSITIONS_MAX = 512
"""Records that one chunk of the fast engine can hold; its rows are then eight words long."""


class IndexParams(msgspec.Struct, frozen=True):
    """How an index is cut into pieces and when it learns. Nothing here changes an answer."""

    chunk_records: int = POSITIONS_MAX
    """Fast engine: a chunk that grows beyond this many records is split. A power of two, at most 512."""

    direct_records: int = 48
    """Fast engine: chunks up to this size have no bit rows, since testing the few records is cheaper."""

    block_records: int = 2048
    """Plain engine: records that share one set of bit rows."""

    waiting_filters: int = 1024
    """Plain engine: filters that wait unbroken until the next question, which takes some 20 ms longer for so many."""

    link_filters: int = 1024
    """Fast engine: a link with this many filters gets clusters of its own, in which the search can stop early."""

    own_links_max: int = 16
    """Fast engine: how many links may have clusters of their own; each one costs a search of its own per event."""

    learning_records: int = 64
    """Fast engine: bucket edges are reconsidered after this many new records, then after eight times as many, ..."""

    learning_events: int = 64
    """Fast engine: the same for events seen; once it is 512 times as many, it stays at that period."""

    memo_strings: int = 4096
    """String values of one attribute whose atoms are remembered."""

    def __post_init__(self) -> None:
        if not 2 <= self.chunk_records <= POSITIONS_MAX or self.chunk_records & (self.chunk_records - 1):
            raise UsageError(f"chunk_records {self.chunk_records}: use a power of two from 2 to {POSITIONS_MAX}")
        if not 1 <= self.direct_records <= min(self.chunk_records, 64):
            raise UsageError(f"direct_records {self.direct_records}: use 1 to min(chunk_records, 64)")
        for name in (
            "block_records",
            "waiting_filters",
            "link_filters",
            "own_links_max",
            "learning_records",
            "learning_events",
            "memo_strings",
        ):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} {getattr(self, name)}: use at least 1")


Key = Hashable
Link = Hashable
Events = Union[Sequence[Event], "pyarrow.RecordBatch", "pyarrow.Table"]

Decode = Callable[[bytes], Event]
"""The event of a head; ValueError if the bytes are none."""

PAIRS_ENDLESS = 1 << 62
"""As many matches as there are."""

NOBODY = -1

NO_LINK = -1
"""Stands for the link of a filter that was added without one."""


class Addition(NamedTuple):
    """A filter on its way into an engine. `slot` is the small number under which the index knows it."""

    slot: int
    key: Key
    records: Sequence[Record]
    doubtful: Filter | None
    link: int


class LazyEvents(Sequence[Event]):
    """The events of a batch of heads, each made when it is asked for."""

    def __init__(self, heads: Sequence[bytes], decode: Decode) -> None:
        self.heads, self.decode = heads, decode

    def __len__(self) -> int:
        return len(self.heads)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        if isinstance(index, slice):
            return list(map(self.decode, self.heads[index]))
        return self.decode(self.heads[index])

    def event(self, row: int) -> Event | None:
        """The event, or None if the head is not valid."""
        try:
            return self.decode(self.heads[row])
        except ValueError:
            return None


class MatchedPlaces(NamedTuple):
    """The other way round, for many events at once: where those stand that match a key (or go to a link), ascending;
    and where those stand that are no events. `looked_at` is how many events were, from the first on."""

    places: dict[Any, list[int]]
    bad: list[int]
    looked_at: int


def found_in(answers: Sequence[tuple[Hashable, ...] | None]) -> MatchedPlaces:
    """The finding that says the same as these answers."""
    places: dict[Any, list[int]] = {}
    for place, members in enumerate(answers):
        for member in members or ():
            places.setdefault(member, []).append(place)
    bad = [place for place, members in enumerate(answers) if members is None]
    return MatchedPlaces(places, bad, len(answers))


Several = Callable[[list[int]], tuple[Hashable, ...]]
"""The answer that has these members, by their numbers."""


class Alone(dict[int, tuple[Hashable, ...]]):
    """The tuple of one member for each number, made by `member` when it is first asked for: the most frequent answers.
    NOBODY stands for the empty one."""

    def __init__(self, member: Callable[[int], Hashable]) -> None:
        super().__init__({NOBODY: ()})
        self.member = member

    def __missing__(self, number: int) -> tuple[Hashable, ...]:
        made = self[number] = (self.member(number),)
        return made


class Matches(Sequence[list[Key]]):
    """The keys that match each event of a batch: `matches[i]` is a list, made when asked for.

    The flat form costs nothing more: the keys of event i are `keys[offsets[i]:offsets[i + 1]]`. Both are numpy arrays
    where the fast engine answered (of integers, if all keys are), and lists where the plain one did.
    """

    def __init__(self, offsets: Sequence[int], keys: Any) -> None:
        self.offsets, self.keys = offsets, keys

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> list[Key]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[Key]]: ...
    def __getitem__(self, index: int | slice) -> list[Key] | list[list[Key]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"event {index} of a batch of {len(self)}")
        index %= len(self)
        keys = self.keys[self.offsets[index] : self.offsets[index + 1]]
        return keys if isinstance(keys, list) else keys.tolist()

    def __iter__(self) -> Iterator[list[Key]]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return list(self) == list(other)

    def __repr__(self) -> str:
        return f"Matches({len(self)} events, {len(self.keys)} keys)"


def is_columnar(events: Any) -> bool:
    """Is it an Arrow batch or table? Asked without importing pyarrow, which need not be there."""
    return hasattr(events, "schema") and hasattr(events, "column_names")


def event_list(events: Events) -> Sequence[Event]:
    """The events one by one, also those of a columnar batch."""
    if is_columnar(events):
        from tidings.matching.index.columns import events_of

        return events_of(events)
    return events


def event_in(events: Events, row: int) -> Event:
    if is_columnar(events):
        from tidings.matching.index.columns import event_at

        return event_at(events, row)
    return events[row]
