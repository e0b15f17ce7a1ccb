"""What the broker of a publisher stores of its publications, so that others can ask for it later.

The idea. Publications are kept in the batches in which they were accepted, the oldest in front, as the bytes they came
in. Three bounds hold: how many, how many bytes, how old. Whatever goes over one leaves at the front, batch by batch.

What left is remembered as two marks: the number up to which publications were forgotten, and the time at which the last
of these was accepted. So a question that reaches back too far is answered with what there is *and* with the word that
something older is missing; nobody takes a shortened history for a whole one. A publisher whose first publication here
is not the first of its life has published elsewhere, or before a crash that lost its history: that is forgotten too.
One that comes back with higher numbers than it left with has published `elsewhere` meanwhile. Of what lies before
`base`, where this broker first heard of the publisher, nothing is said.

*Extents*. A publisher that moves leaves a part of its publications at each broker. Each of them can tell which numbers
it *holds* (they passed through its hands and are stored, or were declined) and which it *lacks* (it forgot them, or the
publisher published them elsewhere). What one lacks another may hold; what is left then is lost, and whoever reads must
be told. An extent is a pair: the numbers behind the first, up to and including the second.

*Numbers*. A program publishes, ends before it hears that everything was accepted, and is started again an hour later:
it repeats its last publications under their numbers. The broker has long sent their history away. So that they are not
taken for new ones, the last number of a publisher is remembered for `numbers_age` after its last publication, of at
most `numbers_max` publishers; the one whose last publication is oldest is forgotten first.

*Sieves*. Events that are read are judged in great numbers by a single filter. Where the compiled index is to be had it
reads the heads as they are, some five times as fast as making events of them; filters that have to be asked themselves,
and brokers without it, judge one head after the other, equal ones once. What is no encoded event matches nothing.

Source: StoredPubs of PSDG (spec 3.6.3, 3.6.7); the flag is repair G-47.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal

import msgspec

from tidings.matching import Index, IndexParams
from tidings.model.bounds import EXTENTS_MAX, INTEGER_MAX, PUBLICATIONS_MAX
from tidings.model.filter import Filter
from tidings.model.identity import NodeId
from tidings.model.weight import weight_of
from tidings.model.work import UNITS_PER_MS, WORK
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.pubsub.publications import BadPublication, Publications, cut, read_head

Extent = tuple[int, int]

NEVER = float("-inf")

LOST_MAX = 4
"""Extents that are remembered to be lost with the store; beyond it the two oldest become one."""

ELSEWHERE_MAX = EXTENTS_MAX - 2 - LOST_MAX
"""Extents that are remembered to be elsewhere; beyond it the two oldest become one, with what is between them."""


ERAS_MAX = 64
"""Times of forgotten publications that are remembered; beyond it every other one of the older half goes."""


class HistoryStore:
    """How much all histories of a broker hold together."""

    def __init__(self, params: EdgeParams) -> None:
        self.params = params
        self.size_bytes = 0


class PublisherHistory:
    """Of one publisher. `forgotten` is told the size of each batch that goes."""

    def __init__(self, store: HistoryStore, forgotten: Callable[[int], None] = lambda size: None) -> None:
        self.store, self.params, self.forgotten = store, store.params, forgotten
        self.batches: deque[Publications] = deque()
        self.sizes_bytes: deque[int] = deque()
        self.count = self.size_bytes = 0
        self.forgotten_through = 0
        self.forgotten_at = NEVER
        self.base: int | None = None
        self.elsewhere: list[Extent] = []
        self.eras: list[tuple[float, int]] = []
        """Of what was forgotten: times, each with the number of the last publication up to then; the oldest first."""
        self.has_all_eras = True
        self.has_all_numbers = True
        """Whether all that is lacking was published here and accepted: what was declined used up a number too."""
        self.lost: list[Extent] = []
        """What a damaged store held."""
        self.shaken_through, self.shaken_at = 0, NEVER
        """Up to this number, and this time, more may be lost than is known."""

    def append(self, batch: Publications, size: int) -> list[Publications]:
        """Store a batch of this size; answers with what had to go for it."""
        self.batches.append(batch)
        self.sizes_bytes.append(size)
        self.count += len(batch.numbers)
        self.size_bytes += size
        self.store.size_bytes += size
        params = self.params
        if (
            self.batches[0].accepted_at > batch.accepted_at - params.history_age
            and self.count <= params.history_count_max
            and self.size_bytes <= params.history_bytes_max
            and self.store.size_bytes <= params.history_bytes_total_max
        ):
            return []
        return self.trim(batch.accepted_at)

    def trim(self, time_of_day: float) -> list[Publications]:
        """Forget what is too old or too much; answers with it."""
        params, forgotten = self.params, []
        too_old = time_of_day - params.history_age
        while self.batches and (
            self.batches[0].accepted_at <= too_old
            or self.count > params.history_count_max
            or self.size_bytes > params.history_bytes_max
            or self.store.size_bytes > params.history_bytes_total_max
        ):
            forgotten.append(self.forget_first())
        return forgotten

    def forget_first(self) -> Publications:
        batch, size = self.batches.popleft(), self.sizes_bytes.popleft()
        self.count -= len(batch.numbers)
        self.size_bytes -= size
        self.store.size_bytes -= size
        self.forgotten(size)
        self.forget_batch(batch)
        return batch

    def forget_batch(self, batch: Publications) -> None:
        before = max(self.forgotten_through, self.base or 0)
        self.has_all_numbers &= batch.numbers[-1] - before == len(batch.numbers)
        self.forget(batch.numbers[-1], batch.accepted_at)

    def recall(self, through: int, at: float) -> None:
        """So much was forgotten before a restart, or before the publisher left; how it was spread over time is not
        known any more."""
        self.has_all_eras = self.has_all_numbers = False
        self.forget(through, at)

    def forget(self, through: int, at: float) -> None:
        if through > self.forgotten_through and at >= self.forgotten_at:
            self.eras.append((at, through))
            if len(self.eras) > ERAS_MAX:
                self.has_all_eras = False
                del self.eras[: -ERAS_MAX // 2 : 2]
        self.forgotten_through = max(self.forgotten_through, through)
        self.forgotten_at = max(self.forgotten_at, at)

    def skip(self, begin: int, end: int) -> None:
        """The publisher has published these elsewhere."""
        self.has_all_numbers = False
        self.elsewhere.append((begin, end))
        if len(self.elsewhere) > ELSEWHERE_MAX:
            self.elsewhere[:2] = [(self.elsewhere[0][0], self.elsewhere[1][1])]

    def clear(self) -> list[Publications]:
        return [self.forget_first() for _ in range(len(self.batches))]

    def behind(self, number: int) -> Iterator[Publications]:
        """The batches, oldest first, that have publications behind this number."""
        return self.beginning_at(bisect_right(self.batches, number, key=lambda batch: batch.numbers[-1]))

    def since(self, at: float) -> Iterator[Publications]:
        return self.beginning_at(self.place_since(at))

    def place_since(self, at: float) -> int:
        return bisect_left(self.batches, at, key=lambda batch: batch.accepted_at)

    def beginning_at(self, place: int) -> Iterator[Publications]:
        # Skipping in a deque is quick; asking it for one place after another is not.
        return islice(self.batches, place, None)

    def number_before(self, at: float) -> int:
        """The number up to which everything is known to have been accepted before this time."""
        place = self.place_since(at)
        if place:
            return self.batches[place - 1].numbers[-1]
        return self.forgotten_through if self.forgotten_at < at else 0

    def lose(self, begin: int, end: int) -> None:
        """These were stored in a file that was damaged."""
        known = sorted([*self.lost, (begin, end)])
        joined = [known[0]]
        for first, last in known[1:]:
            if first <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
            else:
                joined.append((first, last))
        while len(joined) > LOST_MAX:
            self.has_all_eras = False
            joined[:2] = [(joined[0][0], joined[1][1])]
        self.lost = joined

    def lacks_behind(self, number: int) -> int:
        """How many publications behind this number were forgotten, or lost."""
        forgotten = max(0, self.forgotten_through - max(number, self.base or 0))
        behind = max(number, self.forgotten_through)
        return forgotten + sum(max(0, end - max(begin, behind)) for begin, end in self.lost)

    def skips_behind(self, number: int) -> int:
        """How many publications behind this number were published elsewhere, besides those forgotten."""
        return count_of(within(self.elsewhere, max(number, self.forgotten_through), INTEGER_MAX))

    def lacks_since(self, at: float) -> tuple[int, bool]:
        """How many that were accepted at this time or later, at most, and whether it is exactly so many."""
        if at > self.forgotten_at:
            # When those were accepted that are lost, nobody knows: after what is stored before them.
            missing = self.lacks_behind(max(self.number_before(at), self.forgotten_through))
            return missing, not missing
        before = bisect_left(self.eras, at, key=lambda era: era[0])
        return self.lacks_behind(self.eras[before - 1][1] if before else 0), self.has_all_eras and not self.lost

    def is_shaken(self, number: int, at: float | None, is_from_now: bool) -> bool:
        """Whether more than that may be lost behind this number, or since this time where one was named."""
        if is_from_now:
            return False
        return number < self.shaken_through if at is None else at <= self.shaken_at

    def last_below(self, number: int) -> int:
        """The last publication below this number that was accepted here."""
        newest = (batch.numbers[-1] for batch in reversed(self.batches) if batch.numbers[-1] < number)
        return next(newest, self.forgotten_through)

    def lacking(self) -> list[Extent]:
        """What was published, here or elsewhere, and is not here."""
        base = self.base or 0
        forgotten = [(base, self.forgotten_through)] if self.forgotten_through > base else []
        return [*forgotten, *without(self.elsewhere, forgotten), *without(self.lost, [*forgotten, *self.elsewhere])]

    def held(self, through: int) -> list[Extent]:
        """All that was heard of the publisher up to this number, less what is lacking."""
        return [] if self.base is None else without([(self.base, through)], self.lacking())

    def absent(self, first: int, last: int) -> dict[int, None]:
        """The numbers from first to last that are not stored."""
        numbers = dict.fromkeys(range(first, last + 1))
        for batch in self.behind(first - 1):
            if not numbers or batch.numbers[0] > last:
                break
            for number in batch.numbers:
                numbers.pop(number, None)
        return numbers

    def declined(self, absent: Iterable[int], through: int) -> dict[int, None]:
        """Those of them that came here and were not forgotten; `through` is the last that came."""
        held = self.held(through)
        return dict.fromkeys(number for number in absent if any(begin < number <= end for begin, end in held))

    def check(self) -> None:
        assert len(self.elsewhere) <= ELSEWHERE_MAX, "too much is remembered to be elsewhere"
        assert self.elsewhere == sorted(self.elsewhere), "what is elsewhere is not in order"
        numbers = [number for batch in self.batches for number in batch.numbers]
        times = [batch.accepted_at for batch in self.batches]
        assert numbers == sorted(set(numbers)), "stored publications are not in the order of their numbers"
        assert times == sorted(times), "stored publications are not in the order of their times"
        assert len(numbers) == self.count <= self.params.history_count_max, "history_count_max does not hold"
        assert sum(map(size_bytes, self.batches)) == self.size_bytes, "the size of a history is miscounted"
        assert self.size_bytes <= self.params.history_bytes_max, "history_bytes_max does not hold"
        assert not numbers or numbers[0] > self.forgotten_through, "something is both stored and forgotten"


def size_bytes(batch: Publications) -> int:
    """Heads and payloads together."""
    return sum(map(len, batch.heads)) + sum(map(len, batch.payloads))


def behind(batch: Publications, position: int) -> Publications | None:
    """Those whose number is above `position`; numbers ascend."""
    begin = next((place for place, number in enumerate(batch.numbers) if number > position), None)
    return None if begin is None else cut(batch, slice(begin, None), receipt=0)


def fitting(batch: Publications, room_bytes: int) -> int:
    """How many of the first ones fit."""
    for place, (head, payload) in enumerate(zip(batch.heads, batch.payloads, strict=True)):
        room_bytes -= len(head) + len(payload)
        if room_bytes < 0:
            return place
    return len(batch.numbers)


def without(extents: Iterable[Extent], others: Iterable[Extent]) -> list[Extent]:
    """The numbers of the extents that are in none of the others."""
    left = [extent for extent in extents if extent[0] < extent[1]]
    for begin, end in others:
        if begin < end:
            pieces = [piece for first, last in left for piece in ((first, min(last, begin)), (max(first, end), last))]
            left = [piece for piece in pieces if piece[0] < piece[1]]
    return left


def count_of(extents: Iterable[Extent]) -> int:
    """How many numbers there are in them, each counted once."""
    total = passed = 0
    for begin, end in sorted(extents):
        total += max(0, end - max(begin, passed))
        passed = max(passed, end)
    return total


def within(extents: Iterable[Extent], begin: int, end: int) -> list[Extent]:
    """What of them lies behind `begin` and not behind `end`."""
    cut = [(max(first, begin), min(last, end)) for first, last in extents]
    return [extent for extent in cut if extent[0] < extent[1]]


class SavedPublisher(msgspec.Struct, frozen=True, array_like=True):
    """What was forgotten: the number and the time of the last; and what was never here."""

    publisher: str
    through: int
    at: float
    base: int = 0
    elsewhere: tuple[tuple[int, int], ...] = ()
    taken: int = 0
    """Up to this number all that is not stored was forgotten or declined."""

    @staticmethod
    def decode(data: bytes) -> "SavedPublisher":
        return decoder.decode(data)


decoder = msgspec.msgpack.Decoder(SavedPublisher)


def marks_of(publisher: NodeId, history: PublisherHistory, taken: int) -> SavedPublisher:
    forgotten, elsewhere = (history.forgotten_through, history.forgotten_at), tuple(history.elsewhere)
    return SavedPublisher(publisher, *forgotten, history.base or 0, elsewhere, taken)


class PublisherNumbers:
    def __init__(self, params: EdgeParams) -> None:
        self.params = params
        self.marks: dict[NodeId, SavedPublisher] = {}
        self.crowded_out_at = NEVER
        """When the last publisher left of which no more than this is remembered because there were too many."""
        self.is_sorted = True

    @property
    def expires_at(self) -> float:
        """The time of day from which on the oldest of them is too old, at the latest."""
        return next(iter(self.marks.values())).at + self.params.numbers_age

    def add(self, marks: SavedPublisher) -> None:
        self.marks[marks.publisher] = marks
        self.is_sorted = False

    def take(self, publisher: NodeId) -> SavedPublisher | None:
        """It is here again."""
        return self.marks.pop(publisher, None)

    def clear(self) -> None:
        self.marks.clear()

    def sweep(self, time_of_day: float) -> list[NodeId]:
        """Forget what is too old, or too much; answers with their names."""
        if not self.is_sorted:
            self.marks = dict(sorted(self.marks.items(), key=lambda entry: (entry[1].at, entry[0])))
            self.is_sorted = True
        excess = len(self.marks) - self.params.numbers_max
        gone: list[NodeId] = []
        for name, marks in self.marks.items():
            if len(gone) >= excess and time_of_day - marks.at < self.params.numbers_age:
                break
            gone.append(name)
        for name in gone:
            del self.marks[name]
        return gone

    def check(self) -> None:
        assert len(self.marks) <= self.params.numbers_max, "more numbers are remembered than numbers_max allows"


Engine = Literal["fast", "plain"]

SIEVES_MAX = 32
"""Filters that are kept ready; when there are more, all are forgotten."""

SCAN_UNITS_MAX = 4 * UNITS_PER_MS
"""Work of one look at what is stored; then it ends, and says that there is more."""

HEAD_UNITS = 125
"""The work of reading a head and holding it against a filter, where nothing is searched for."""

FEW_HEADS = 64
"""So many heads are judged one by one sooner than the index is made ready."""


class Sieve:
    def __init__(self, filter: Filter, engine: Engine) -> None:
        self.filter = filter
        self.at_once_max = PUBLICATIONS_MAX if filter.residual is None else FEW_HEADS
        if weight_of(filter).finds > 0:
            self.at_once_max = 1
        """Publications that are looked at before it is asked whether it takes too long: one, where it searches for
        patterns."""
        self.takes_all = filter.residual is None and () in filter.conjunctions
        """Whether nothing is asked. A broker has accepted no publication that is none, so no head has to be read."""
        self.is_indexed = engine == "fast" and filter.residual is None and self.at_once_max > 1
        self.index: Index | None = None

    def places(self, heads: Sequence[bytes]) -> Sequence[int]:
        """Where those stand that match, ascending."""
        if not self.is_indexed or (self.index is None and len(heads) <= FEW_HEADS):
            return self.places_one_by_one(heads)
        if self.index is None:
            self.index = Index("fast", IndexParams(direct_records=4), read_head)
            self.index.add(None, self.filter)
        return self.index.find_heads(heads).places.get(None, [])

    def places_one_by_one(self, heads: Sequence[bytes]) -> list[int]:
        verdicts: dict[bytes, bool] = {}
        places = []
        for place, head in enumerate(heads):
            verdict = verdicts.get(head)
            if verdict is None:
                verdict = verdicts[head] = is_match(self.filter, head)
            if verdict:
                places.append(place)
        return places


class Sieves:
    """One for each filter that is in use."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.ready: dict[str, Sieve] = {}

    def of(self, text: str, filter: Filter) -> Sieve:
        sieve = self.ready.get(text)
        if sieve is None:
            if len(self.ready) >= SIEVES_MAX:
                self.ready.clear()
            sieve = self.ready[text] = Sieve(filter, self.engine)
        return sieve


def is_match(filter: Filter, head: bytes) -> bool:
    WORK.units += HEAD_UNITS
    try:
        return filter.matches(read_head(head))
    except BadPublication:
        return False
