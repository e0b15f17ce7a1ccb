"""Twice is once: which of a publisher's publications have passed here already.

A publisher numbers its events. As long as they come on the tree only, one after the other, one number for each
advertisement is enough: what is not above it passed already, or a later one did. What came around a failure (`Rescued`)
comes out of order, before or behind what the tree brings. Then the numbers themselves are remembered, the `window`
highest of each advertisement; what lies below them counts as passed. So an event is taken once, whichever way it comes
first, and what comes so late that it is below the window is lost. Advertisements beyond `publishers_max` are forgotten,
the longest silent first.

Accepted again is not twice. A broker passes on what it has not saved yet. If it crashes then, the client repeats that
under the same numbers and the broker accepts it anew, at a later time. Here it has passed, but not everybody behind us
needs to have got it: a link may have broken, or somebody waited for history, which the crash has emptied. So what was
accepted later than all that passed begins anew with its first number; whoever has it recognises the numbers
(`delivery`). Times are compared under one advertisement only: they are of one broker, by one clock. That may have been
set back in the crash. But its advertisement is known anew then, on a new link, and ahead of all that it accepts:
so what comes next begins anew too, whatever its time (`renew`). Where events overtake each other nobody was promised
them, and there is no such beginning. In a ring nothing goes round for ever: the latest time falls only where a way has
become known anew, and while it stays the numbers rise.
"""

from bisect import bisect_left, bisect_right, insort

from tidings.pubsub.publications import Numbers, Publications
from tidings.pubsub.signals import AdvertisementId

NEVER = float("-inf")

NUMBERS_MAX = 1_000_000
"""Numbers that are remembered of all advertisements together; beyond it the longest silent has no window any more."""


class Passage:
    """`take` tells what is new of a batch, and remembers it."""

    def __init__(self, publishers_max: int, window: int) -> None:
        self.publishers_max, self.window = publishers_max, window
        self.last: dict[AdvertisementId, int] = {}
        """For each advertisement the number up to which all count as passed; the one heard of last stands last."""
        self.latest: dict[AdvertisementId, float] = {}
        """When that was accepted which was accepted last of all that passed."""
        self.numbers: dict[AdvertisementId, list[int]] = {}
        """With a window: the numbers above that one which passed, ascending; in the same order of advertisements."""
        self.size = 0

    def take(self, batch: Publications) -> list[int] | None:
        """The places of those that have not passed, None if none has. There is at least one, and they ascend."""
        id, numbers = batch.advertisement, batch.numbers
        last, latest = self.last.pop(id, -1), self.latest.get(id)
        if latest is None or batch.accepted_at > latest:
            self.latest[id] = batch.accepted_at
            last = self.begin_anew(id, numbers[0], last)
        if self.window:
            places = self.take_into_window(id, numbers, last)
        else:
            self.last[id] = max(last, numbers[-1])
            places = None if numbers[0] > last else list(range(bisect_right(numbers, last), len(numbers)))
        if len(self.last) > self.publishers_max:
            silent = next(iter(self.last))
            del self.last[silent], self.latest[silent]
            self.size -= len(self.numbers.pop(silent, ()))
        return places

    def renew(self, id: AdvertisementId) -> None:
        """The advertisement has become known again, or by another way: its broker may have crashed."""
        if id in self.latest and not self.window:
            self.latest[id] = NEVER

    def has(self, id: AdvertisementId, number: int) -> bool:
        """Whether that one counts as passed."""
        if number <= self.last.get(id, -1):
            return True
        known = self.numbers.get(id, [])
        place = bisect_left(known, number)
        return place < len(known) and known[place] == number

    def begin_anew(self, id: AdvertisementId, first: int, last: int) -> int:
        """From this number on nothing has passed; answers with the number up to which all have."""
        known = self.numbers.get(id)
        if known and known[-1] >= first:
            kept = bisect_left(known, first)
            self.size -= len(known) - kept
            del known[kept:]
        return min(last, first - 1)

    def take_into_window(self, id: AdvertisementId, numbers: Numbers, last: int) -> list[int] | None:
        known = self.numbers[id] = self.numbers.pop(id, [])
        before, places = len(known), None
        if numbers[0] > (known[-1] if known else last):
            known += numbers
        else:
            seen = set(known)
            places = [place for place, number in enumerate(numbers) if number > last and number not in seen]
            for place in places:
                insort(known, numbers[place])
        if len(known) > self.window:
            last = known[-self.window - 1]
            del known[: -self.window]
        self.last[id] = last
        self.size += len(known) - before
        while self.size > NUMBERS_MAX:
            silent = next(iter(self.numbers))
            dropped = self.numbers.pop(silent)
            self.last[silent] = dropped[-1]
            self.size -= len(dropped)
        return None if places is not None and len(places) == len(numbers) else places

    def check(self) -> None:
        assert len(self.last) <= self.publishers_max and self.numbers.keys() <= self.last.keys() == self.latest.keys()
        assert self.size == sum(map(len, self.numbers.values())) <= NUMBERS_MAX
        for id, numbers in self.numbers.items():
            assert len(numbers) <= self.window and numbers == sorted(set(numbers))
            assert not numbers or numbers[0] > self.last[id]
