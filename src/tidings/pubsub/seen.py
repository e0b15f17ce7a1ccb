"""Which numbers of a stream were seen: a row of bits below the highest one.

Numbers more than `width` below the highest count as seen: what is so late is a repetition, or as good as one. What was
sent before the first event that we heard is not missed by anybody, so it counts as seen (`in`); but one that was only
overtaken by that first event still arrives, and is new once (`add`).
"""


class Seen:
    """`Seen(first, width)`: so far only `first` was seen."""

    __slots__ = ("before", "first", "high", "mask", "missing", "width")

    def __init__(self, first: int, width: int) -> None:
        self.first, self.high, self.width = first, first, width
        self.before: set[int] = set()
        """Numbers below `first` that came all the same; no more of them than `width`."""
        self.missing = 0
        """Bit i is set where `high - i` was not seen."""
        self.mask = (1 << width) - 1

    def __contains__(self, number: int) -> bool:
        behind = self.high - number
        if behind < 0:
            return False
        return number < self.first or behind >= self.width or not self.missing >> behind & 1

    def add(self, number: int) -> bool:
        """Whether it is new."""
        ahead = number - self.high
        if ahead == 1 and not self.missing:
            self.high = number
            return True
        if ahead > 0:
            if ahead >= self.width:
                self.missing = self.mask - 1
            else:
                self.missing = (self.missing << ahead | (1 << ahead) - 2) & self.mask
            self.high = number
            return True
        if number < self.first:
            return self.add_before(number)
        if number in self:
            return False
        self.missing &= ~(1 << -ahead)
        return True

    def add_before(self, number: int) -> bool:
        if self.high - number >= self.width or number in self.before:
            return False
        self.before.add(number)
        return True
