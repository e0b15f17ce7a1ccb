"""One look at what is stored, for the many questions that came in one message.

The problem. A broker whose link comes back asks for the history of a publisher for each of its subscriptions,
thousands of them, most of them behind the same number. Held against each filter in turn, a thousand publications and
8,000 subscriptions are eight million comparisons: half a minute, in which everybody else waits for history.

The idea. The filters of a message go into one index. It says of a publication who of them wants it in the time that
one filter takes, or two. So a *stretch* of history is looked at once, and what was found of it is kept for the
questions that are answered after the first. A question that begins elsewhere begins a stretch of its own.

Filters that search for patterns, or that have no normal form, are asked themselves as ever (`references.py`): what
they cost is counted there. What is forgotten meanwhile is not answered, although it is still here: it was counted as
missing.

Bounds. A stretch has at most `STRETCH_MAX` publications, with heads of `STRETCH_BYTES_MAX`, and `PAIRS_MAX` findings,
and of one publisher as many are kept as have `KEPT_MAX` publications.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import msgspec

from tidings.matching import Index
from tidings.model.filter import Filter
from tidings.model.identity import NodeId
from tidings.model.weight import weight_of
from tidings.model.work import WORK
from tidings.protocols.delivery.edge.history import PublisherHistory
from tidings.pubsub.publications import read_head

STRETCH_MAX, STRETCH_BYTES_MAX, PAIRS_MAX, KEPT_MAX = 500, 64 * 1024, 4000, 4000

SHARED_UNITS, BYTES_PER_UNIT, PAIR_UNITS = 75, 4, 10
"""The work of asking the index about a publication, whose head has to be read, and of each that it finds."""

Found = tuple[float, int, bytes, bytes]
"""A stored publication: when it was accepted, its number, head and payload."""


class Stretch(msgspec.Struct, frozen=True):
    """What is stored of a publisher behind one number, up to another."""

    through: int
    rows: Sequence[Found]
    places: Mapping[str, Sequence[int]]
    """By filter, where those stand that match it."""

    def found(self, text: str, after: int) -> Iterator[Found]:
        rows = (self.rows[place] for place in self.places.get(text, ()))
        return (row for row in rows if row[1] > after)


class Looked(msgspec.Struct):
    """Stretches that follow each other."""

    stored: PublisherHistory
    begin: int
    stretches: list[Stretch]

    @property
    def through(self) -> int:
        return self.stretches[-1].through if self.stretches else self.begin

    def forget_first(self) -> None:
        self.begin = self.stretches.pop(0).through


class SharedLook:
    def __init__(self) -> None:
        self.index = Index("plain", decode=read_head)
        self.looked: dict[NodeId, Looked] = {}

    def add(self, text: str, filter: Filter) -> None:
        """One of the questions has this filter."""
        if filter.residual is None and not weight_of(filter).finds and text not in self.index:
            self.index.add(text, filter)

    def answers(self, text: str) -> bool:
        return len(self.index) > 1 and text in self.index

    def stretches(self, publisher: NodeId, stored: PublisherHistory, begin: int) -> Iterator[Stretch]:
        """All that is stored behind this number."""
        looked = self.looked.get(publisher)
        if looked is None or looked.stored is not stored or not looked.begin <= begin <= looked.through:
            looked = self.looked[publisher] = Looked(stored, begin, [])
        yield from [stretch for stretch in looked.stretches if stretch.through > begin]
        while (stretch := self.look(stored, looked.through)) is not None:
            looked.stretches.append(stretch)
            while sum(len(each.rows) for each in looked.stretches) > KEPT_MAX:
                looked.forget_first()
            yield stretch

    def look(self, stored: PublisherHistory, after: int) -> Stretch | None:
        rows, size_bytes = list[Found](), 0
        for row in islice(rows_behind(stored, after), STRETCH_MAX):
            rows.append(row)
            size_bytes += len(row[2])
            if size_bytes >= STRETCH_BYTES_MAX:
                break
        if not rows:
            return None
        found = self.index.find_heads([head for _, _, head, _ in rows], PAIRS_MAX)
        del rows[max(1, found.looked_at) :]
        WORK.units += SHARED_UNITS * len(rows) + size_bytes // BYTES_PER_UNIT
        WORK.units += PAIR_UNITS * sum(map(len, found.places.values()))
        return Stretch(rows[-1][1], rows, found.places)


def rows_behind(stored: PublisherHistory, after: int) -> Iterator[Found]:
    for batch in stored.behind(after):
        for number, head, payload in zip(batch.numbers, batch.heads, batch.payloads, strict=True):
            if number > after:
                yield batch.accepted_at, number, head, payload
