"""What became of each number of a stream, in two rows of bits.

A number was *received* or not; and it is *settled* when nobody waits for it any more: it was received, it is not for
us, or it was given up. Numbers more than a window below the highest are forgotten; so the rows stay short whatever
numbers a publisher claims. Bit i stands for `origin + i`.

A run of events in order is entered at once (`add_through`), when something else happens: in order is the usual case,
and then nobody looks.
"""


class NumberStates:
    """`NumberStates(first, window)`: `first` was received, and what was before it is not waited for."""

    __slots__ = ("high", "origin", "received", "settled", "window")

    def __init__(self, first: int, window: int) -> None:
        self.window = window
        self.high = first
        """The highest number that anything is known of."""
        self.origin = max(0, first - window)
        self.received = 1 << first - self.origin
        self.settled = (1 << first - self.origin + 1) - 1

    def reach(self, number: int) -> None:
        """Something will be known of this number: forget what is too far below."""
        if number <= self.high:
            return
        self.high = number
        surplus = number - self.origin - 2 * self.window
        if surplus > 0:
            # By whole windows, so that most events shift nothing.
            shift = surplus + self.window
            self.received >>= shift
            self.settled >>= shift
            self.origin += shift

    def add_through(self, low: int, high: int) -> None:
        """All from `low` to `high` were received."""
        self.reach(high)
        low = max(low, self.origin)
        if low <= high:
            run = (1 << high - low + 1) - 1 << low - self.origin
            self.received |= run
            self.settled |= run

    def add(self, number: int) -> None:
        self.reach(number)
        if number >= self.origin:
            bit = 1 << number - self.origin
            self.received |= bit
            self.settled |= bit

    def settle(self, number: int) -> None:
        self.reach(number)
        if number >= self.origin:
            self.settled |= 1 << number - self.origin

    def reopen(self, number: int) -> None:
        """It is waited for after all, unless it was received."""
        if number >= self.origin:
            self.settled = self.settled & ~(1 << number - self.origin) | self.received

    def settle_through(self, low: int, high: int) -> None:
        """All from `low` to `high`."""
        self.reach(high)
        low = max(low, self.origin)
        if low <= high:
            self.settled |= (1 << high - low + 1) - 1 << low - self.origin

    def is_received(self, number: int) -> bool:
        return number >= self.origin and self.received >> number - self.origin & 1 == 1

    def is_settled(self, number: int) -> bool:
        return number < self.origin or self.settled >> number - self.origin & 1 == 1

    def are_settled(self, low: int, high: int) -> bool:
        """All between the two, which do not count. Of a longer range than is remembered, what is remembered counts."""
        low = max(low + 1, self.origin)
        if low >= high:
            return True
        width = high - low
        return self.settled >> low - self.origin & (1 << width) - 1 == (1 << width) - 1

    def count_settled(self, low: int, high: int) -> int:
        """Of those between the two."""
        low = max(low + 1, self.origin)
        return (self.settled >> low - self.origin & (1 << high - low) - 1).bit_count() if low < high else 0

    def check(self) -> None:
        assert self.received & ~self.settled == 0, "a number that was received is waited for"
        assert self.settled >> self.high - self.origin + 1 == 0, "a number above the highest is settled"
