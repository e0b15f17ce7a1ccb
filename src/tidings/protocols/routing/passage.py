"""Twice is once: which of a publisher's publications have passed here already.

A publisher numbers its events. As long as they come on the tree only, one after the other, one number for each
publisher is enough: what is not above it passed already, or a later one did. What came around a failure (`Rescued`)
comes out of order, before or behind what the tree brings. Then the numbers themselves are remembered, the `window`
highest of each publisher; what lies below them counts as passed. So an event is taken once, whichever way it comes
first, and what comes so late that it is below the window is lost. Publishers beyond `publishers_max` are forgotten, the
longest silent first.
"""

from bisect import bisect_right, insort

from tidings.pubsub.publications import Numbers

NUMBERS_MAX = 1_000_000
"""Numbers that are remembered of all publishers together; beyond it the longest silent has no window any more."""


class Passage:
    """`take` tells what is new of a publisher's numbers, and remembers it."""

    def __init__(self, publishers_max: int, window: int) -> None:
        self.publishers_max, self.window = publishers_max, window
        self.last: dict[str, int] = {}
        """For each publisher the number up to which all count as passed; who was heard last stands last."""
        self.numbers: dict[str, list[int]] = {}
        """With a window: the numbers above that one which passed, ascending; in the same order of publishers."""
        self.size = 0

    def take(self, publisher: str, numbers: Numbers) -> list[int] | None:
        """The places of those that have not passed, None if none has. There is at least one, and they ascend."""
        last = self.last.pop(publisher, -1)
        if self.window:
            places = self.take_into_window(publisher, numbers, last)
        else:
            self.last[publisher] = max(last, numbers[-1])
            places = None if numbers[0] > last else list(range(bisect_right(numbers, last), len(numbers)))
        if len(self.last) > self.publishers_max:
            silent = next(iter(self.last))
            del self.last[silent]
            self.size -= len(self.numbers.pop(silent, ()))
        return places

    def take_into_window(self, publisher: str, numbers: Numbers, last: int) -> list[int] | None:
        known = self.numbers[publisher] = self.numbers.pop(publisher, [])
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
        self.last[publisher] = last
        self.size += len(known) - before
        while self.size > NUMBERS_MAX:
            silent = next(iter(self.numbers))
            dropped = self.numbers.pop(silent)
            self.last[silent] = dropped[-1]
            self.size -= len(dropped)
        return None if places is not None and len(places) == len(numbers) else places

    def check(self) -> None:
        assert len(self.last) <= self.publishers_max and self.numbers.keys() <= self.last.keys()
        assert self.size == sum(map(len, self.numbers.values())) <= NUMBERS_MAX
        for publisher, numbers in self.numbers.items():
            assert len(numbers) <= self.window and numbers == sorted(set(numbers))
            assert not numbers or numbers[0] > self.last[publisher]
