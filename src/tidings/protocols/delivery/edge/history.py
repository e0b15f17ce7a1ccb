"""What the broker of a publisher stores of its publications, so that others can ask for it later.

The idea. Publications are kept in the batches in which they were accepted, the oldest in front, as the bytes they came
in. Three bounds hold: how many, how many bytes, how old. Whatever goes over one leaves at the front, batch by batch.

What left is remembered as two marks: the number up to which publications were forgotten, and the time at which the last
of these was accepted. So a question that reaches back too far is answered with what there is *and* with the word that
something older is missing; nobody takes a shortened history for a whole one. A publisher whose first publication here
is not the first of its life has published elsewhere, or before a crash that lost its history: that is forgotten too.

Source: StoredPubs of PSDG (spec 3.6.3, 3.6.7); the flag is repair G-47.
"""

from collections import deque
from collections.abc import Callable, Iterator

from tidings.machine.publications import Publications
from tidings.protocols.delivery.edge.batches import size_bytes
from tidings.protocols.delivery.edge.params import EdgeParams

NEVER = float("-inf")


class Store:
    """How much all histories of a broker hold together."""

    def __init__(self, params: EdgeParams) -> None:
        self.params = params
        self.size_bytes = 0


class PublisherHistory:
    """Of one publisher."""

    def __init__(self, store: Store) -> None:
        self.store, self.params = store, store.params
        self.batches: deque[Publications] = deque()
        self.sizes_bytes: deque[int] = deque()
        self.count = self.size_bytes = 0
        self.forgotten_through = 0
        self.forgotten_at = NEVER

    def append(self, batch: Publications, size: int) -> list[Publications]:
        """Store a batch of this size; answers with what had to go for it."""
        self.batches.append(batch)
        self.sizes_bytes.append(size)
        self.count += len(batch.numbers)
        self.size_bytes += size
        self.store.size_bytes += size
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
        self.forget(batch.numbers[-1], batch.accepted_at)
        return batch

    def forget(self, through: int, at: float) -> None:
        self.forgotten_through = max(self.forgotten_through, through)
        self.forgotten_at = max(self.forgotten_at, at)

    def clear(self) -> list[Publications]:
        return [self.forget_first() for _ in range(len(self.batches))]

    def behind(self, number: int) -> Iterator[Publications]:
        """The batches, oldest first, that have publications behind this number."""
        return self.newest_while(lambda batch: batch.numbers[-1] > number)

    def since(self, at: float) -> Iterator[Publications]:
        return self.newest_while(lambda batch: batch.accepted_at >= at)

    def newest_while(self, is_wanted: Callable[[Publications], bool]) -> Iterator[Publications]:
        # From the new end, because what is asked for is mostly there.
        count = 0
        for batch in reversed(self.batches):
            if not is_wanted(batch):
                break
            count += 1
        place = len(self.batches) - count
        return (self.batches[each] for each in range(place, len(self.batches)))

    def lacks_behind(self, number: int) -> bool:
        return number < self.forgotten_through

    def lacks_since(self, at: float) -> bool:
        return at <= self.forgotten_at

    def check(self) -> None:
        numbers = [number for batch in self.batches for number in batch.numbers]
        times = [batch.accepted_at for batch in self.batches]
        assert numbers == sorted(set(numbers)), "stored publications are not in the order of their numbers"
        assert times == sorted(times), "stored publications are not in the order of their times"
        assert len(numbers) == self.count <= self.params.history_count_max, "history_count_max does not hold"
        assert sum(map(size_bytes, self.batches)) == self.size_bytes, "the size of a history is miscounted"
        assert self.size_bytes <= self.params.history_bytes_max, "history_bytes_max does not hold"
        assert not numbers or numbers[0] > self.forgotten_through, "something is both stored and forgotten"
