"""What this node wants, as Bloom rows: which entries of a publication record are for us.

A record says of each event only its Bloom row. An event that one of our filters matches has all bits of at least one of
the filter's conjunctions (`matching/bloom.py`); so a row that lacks some bit of each of them is certainly not ours, and
any other may be. The rows of our filters are computed when the application subscribes; what a row means is remembered,
for events repeat themselves.

Two rows say nothing: 0, which publishers write for events with too many attributes, and one with more than `FILL_MAX`
of its bits set, which would seem to be for everybody. Whoever accepts every event by his bits wants those too; for all
others they are as if the record did not reach so far.

Where rows tell ranges (`rows.py`), a row must also have some step of each range that a conjunction asks for.

Source: the transport specification, 3.3.6.
"""

from tidings.matching.bloom import FILL_MAX, BloomProfile, fill_of
from tidings.model.filter import Filter
from tidings.protocols.transport.formats import Data
from tidings.protocols.transport.rows import Masks, may_be_in, range_masks, rows_of_filter

MEANINGS_MAX = 4096
"""Rows whose meaning is remembered; when there are more, all are forgotten."""

Subscriptions = tuple[int, ...]


class WantedRows:
    """The filters of this node that want order."""

    def __init__(self, profile: BloomProfile, topic_attribute: str = "", tells_ranges: bool = False) -> None:
        self.profile, self.topic_attribute, self.tells_ranges = profile, topic_attribute, tells_ranges
        self.filters: dict[int, Filter] = {}
        self.listening: dict[int, float] = {}
        """For each of them since when."""
        self.rows: dict[int, tuple[int, ...]] = {}
        self.ranges: dict[int, dict[int, tuple[tuple[Masks, ...], ...]]] = {}
        """For each subscription and row the ranges of the conjunctions that have this row."""
        self.unlimited: Subscriptions = ()
        """Those that want every event, as far as bits can say."""
        self.meanings: dict[int, Subscriptions | None] = {}
        self.passed_over: set[bytes] = set()
        """Rows as they stand in records, of events that are for none of us."""

    def add(self, subscription: int, filter: Filter, now: float = 0.0) -> bool:
        """Whether this is news."""
        if self.filters.get(subscription) == filter:
            return False
        self.listening[subscription] = now
        self.filters[subscription] = filter
        self.prepare(subscription, filter)
        self.changed()
        return True

    def prepare(self, subscription: int, filter: Filter) -> None:
        self.rows[subscription] = rows_of_filter(filter, self.profile, self.topic_attribute)
        self.ranges.pop(subscription, None)
        if not self.tells_ranges:
            return
        by_row: dict[int, list[tuple[Masks, ...]]] = {}
        for conjunction in filter.conjunctions:
            (row,) = rows_of_filter(Filter((conjunction,)), self.profile, self.topic_attribute)
            by_row.setdefault(row, []).append(range_masks(conjunction, self.profile))
        if any(masks for ranges in by_row.values() for masks in ranges):
            self.ranges[subscription] = {row: tuple(ranges) for row, ranges in by_row.items()}

    def remove(self, subscription: int) -> bool:
        if self.filters.pop(subscription, None) is None:
            return False
        del self.rows[subscription], self.listening[subscription]
        self.ranges.pop(subscription, None)
        self.changed()
        return True

    def changed(self) -> None:
        without_ranges = {
            subscription: rows for subscription, rows in self.rows.items() if subscription not in self.ranges
        }
        self.unlimited = tuple(subscription for subscription, rows in without_ranges.items() if 0 in rows)
        self.meanings.clear()
        self.passed_over.clear()

    def configure(self, profile: BloomProfile, topic_attribute: str = "", tells_ranges: bool = False) -> None:
        if (profile, topic_attribute, tells_ranges) == (self.profile, self.topic_attribute, self.tells_ranges):
            return
        self.profile, self.topic_attribute, self.tells_ranges = profile, topic_attribute, tells_ranges
        for subscription, filter in self.filters.items():
            self.prepare(subscription, filter)
        self.changed()

    def is_passed_over(self, header: Data, most: int) -> bool:
        """Whether none of the newest `most` entries of a record is for us. This is asked for each event that we get of
        a stream of which we want a part, so no entry is made a value for it."""
        if header.is_compressed or header.row_bytes != self.profile.size_bytes:
            return False
        record, width, passed_over = header.record, 4 + header.row_bytes, self.passed_over
        for place in range(4, most * width, width):
            row = record[place : place + width - 4]
            if row in passed_over:
                continue
            if self.matching(int.from_bytes(row, "little")) != ():
                return False
            if len(passed_over) >= MEANINGS_MAX:
                passed_over.clear()
            passed_over.add(row)
        return True

    def matching(self, bits: int) -> Subscriptions | None:
        """The subscriptions that an event of this row may be for; None where the row does not say."""
        try:
            return self.meanings[bits]
        except KeyError:
            pass
        if len(self.meanings) >= MEANINGS_MAX:
            self.meanings.clear()
        meaning = self.meanings[bits] = self.read(bits)
        return meaning

    def read(self, bits: int) -> Subscriptions | None:
        if not self.is_readable(bits):
            return self.unlimited or None
        return tuple(
            subscription
            for subscription, rows in self.rows.items()
            if any(bits & row == row and self.may_be_in_range(subscription, row, bits) for row in rows)
        )

    def may_be_in_range(self, subscription: int, row: int, bits: int) -> bool:
        ranges = self.ranges.get(subscription)
        if ranges is None:
            return True
        return any(all(may_be_in(bits, masks) for masks in conjunction) for conjunction in ranges[row])

    def is_readable(self, bits: int) -> bool:
        return bits != 0 and fill_of(bits, self.profile) <= FILL_MAX
