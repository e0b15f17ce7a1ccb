"""Pages: stored publications side by side, gathered from batches, sifted by a filter, and cut to what a message holds.

A page is made of columns, because what is read is read in great numbers: whole batches are appended, and a filter
answers for thousands of heads at once (`sieve.py`).
"""

from collections.abc import Sequence
from operator import itemgetter

from tidings.model.bounds import BATCH_BYTES_MAX, PIECE_OVERHEAD_BYTES_MAX
from tidings.protocols.delivery.edge.references import POSITION_BYTES_MAX
from tidings.pubsub.publications import Publications

ROW_BYTES_MAX = POSITION_BYTES_MAX + PIECE_OVERHEAD_BYTES_MAX
"""What a publication takes in a page besides its bytes."""

Columns = tuple[tuple[float, ...], tuple[int, ...], tuple[bytes, ...], tuple[bytes, ...]]
"""Times, numbers, heads, payloads."""


class HistoryPage:
    def __init__(self) -> None:
        self.times: list[float] = []
        self.numbers: list[int] = []
        self.heads: list[bytes] = []
        self.payloads: list[bytes] = []

    def __len__(self) -> int:
        return len(self.numbers)

    def append(self, batch: Publications, begin: int, end: int) -> None:
        """Publications of a batch, from one place up to before another."""
        part = slice(begin, end)
        self.times += [batch.accepted_at] * (end - begin)
        self.numbers += batch.numbers[part]
        self.heads += batch.heads[part]
        self.payloads += batch.payloads[part]

    def extend(self, columns: Columns) -> None:
        times, numbers, heads, payloads = columns
        self.times += times
        self.numbers += numbers
        self.heads += heads
        self.payloads += payloads

    def cut(self, count: int) -> None:
        """Keep so many."""
        del self.times[count:], self.numbers[count:], self.heads[count:], self.payloads[count:]

    def picked(self, places: Sequence[int]) -> Columns:
        """Those at these places."""
        if len(places) < 2:
            place = slice(places[0], places[0] + 1) if places else slice(0)
            return (
                tuple(self.times[place]),
                tuple(self.numbers[place]),
                tuple(self.heads[place]),
                tuple(self.payloads[place]),
            )
        get = itemgetter(*places)
        return get(self.times), get(self.numbers), get(self.heads), get(self.payloads)

    def fitting(self) -> int:
        """How many of the first fit a message; one always does."""
        room = BATCH_BYTES_MAX - ROW_BYTES_MAX * len(self)
        if sum(map(len, self.heads)) + sum(map(len, self.payloads)) <= room:
            return len(self)
        room = BATCH_BYTES_MAX
        for place, (head, payload) in enumerate(zip(self.heads, self.payloads, strict=True)):
            room -= len(head) + len(payload) + ROW_BYTES_MAX
            if room < 0:
                return max(1, place)
        return len(self)

    @property
    def columns(self) -> Columns:
        return tuple(self.times), tuple(self.numbers), tuple(self.heads), tuple(self.payloads)


def merged(parts: Sequence[Columns], through: int) -> HistoryPage:
    """What several brokers store of a publisher, in the order of numbers and each once, up to a number."""
    together = HistoryPage()
    for part in parts:
        together.extend(part)
    if len(parts) == 1 and (not together.numbers or together.numbers[-1] <= through):
        return together
    place_of = {number: place for place, number in enumerate(together.numbers) if number <= through}
    page = HistoryPage()
    page.extend(together.picked([place_of[number] for number in sorted(place_of)]))
    return page
