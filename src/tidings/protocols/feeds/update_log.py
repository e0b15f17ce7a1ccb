"""Which updates of a feed a peer has, the last few of them in full, and which are missing.

Numbers grow within a reign and jump between reigns, so a gap is one within a reign. A reader wants what there is from
when it came, as far as others still have it: what that is shows when the first question is answered (`settle`). Until
then updates that are pushed may overtake those that were asked for, and nothing counts as missing or as known.
"""

from collections import deque
from collections.abc import Iterator

from tidings.model.bounds import FEED_PULL_BYTES_MAX, FEED_PULL_MAX
from tidings.protocols.feeds.messages import UpdateText
from tidings.pubsub.feeds import REIGN_BITS, reign_of


class UpdateLog:
    def __init__(self, size: int, window: int) -> None:
        self.cache: deque[UpdateText] = deque(maxlen=size)
        """In the order of their numbers."""
        self.window = window
        self.latest = self.floor = 0
        """The highest number; and the one up to which nothing is missing, whether it came or not."""
        self.beyond: dict[int, None] = {}
        """Those above the floor that are here."""
        self.is_settled = False
        """Whether it is known where the feed begins for us."""

    @property
    def told(self) -> int:
        """What is said to others: nothing as long as more is to come that is older."""
        return self.latest if self.is_settled else 0

    def has(self, number: int) -> bool:
        return number <= self.floor or number in self.beyond

    def add(self, update: UpdateText) -> bool:
        """Whether it is new."""
        number = update.number
        if self.has(number):
            return False
        if self.is_settled and reign_of(number) > reign_of(self.latest):
            # Of a reign before, nobody knows how long it was.
            self.floor = max(self.latest, reign_start(number))
            self.beyond.clear()
        self.beyond[number] = None
        self.latest = max(self.latest, number)
        self.keep(update)
        if self.is_settled:
            self.advance()
        elif len(self.beyond) >= self.window:
            self.settle()
        return True

    def settle(self) -> None:
        """The feed begins for us with the first of this reign that is here."""
        if self.is_settled:
            return
        self.is_settled = True
        here = [number for number in self.beyond if reign_of(number) == reign_of(self.latest)]
        self.floor = min(here) - 1 if here else self.latest
        self.beyond = {number: None for number in self.beyond if number > self.floor}
        self.advance()

    def advance(self) -> None:
        while self.floor + 1 in self.beyond:
            self.floor += 1
            del self.beyond[self.floor]
        if self.latest - self.floor > self.window:
            self.give_up(self.latest - self.window)

    def keep(self, update: UpdateText) -> None:
        if self.cache and update.number < self.cache[-1].number:
            # One that was missing: to its place, unless there is no room for anything as old.
            if len(self.cache) == self.cache.maxlen and update.number < self.cache[0].number:
                return
            kept = sorted([*self.cache, update], key=lambda it: it.number)
            self.cache = deque(kept[-(self.cache.maxlen or 1) :], self.cache.maxlen)
        else:
            self.cache.append(update)

    def learn(self, latest: int) -> None:
        """Somebody has this number, and we may lack those up to it."""
        if self.is_settled and self.latest and reign_of(latest) == reign_of(self.latest):
            self.latest = max(self.latest, latest)
            self.advance()

    def missing(self) -> tuple[int, ...]:
        """The first of them."""
        found: list[int] = []
        if not self.is_settled:
            return ()
        for number in range(self.floor + 1, self.latest + 1):
            if number not in self.beyond:
                found.append(number)
                if len(found) == FEED_PULL_MAX:
                    break
        return tuple(found)

    def give_up(self, number: int) -> tuple[int, ...]:
        """Nothing up to this one is waited for any longer; what was."""
        lost = tuple(it for it in range(self.floor + 1, number + 1) if it not in self.beyond)
        self.floor = max(self.floor, number)
        self.beyond = {it: None for it in self.beyond if it > self.floor}
        while self.floor + 1 in self.beyond:
            self.floor += 1
            del self.beyond[self.floor]
        return lost

    def answer(self, latest: int, missing: tuple[int, ...]) -> tuple[UpdateText, ...]:
        """What is kept beyond `latest` and of those that are missing, as much as one message may hold."""
        wanted = frozenset(missing)
        found: list[UpdateText] = []
        size = 0
        for update in self.cache:
            if update.number > latest or update.number in wanted:
                size += len(update.payload)
                if found and (size > FEED_PULL_BYTES_MAX or len(found) == FEED_PULL_MAX):
                    break
                found.append(update)
        return tuple(found)

    def __iter__(self) -> Iterator[UpdateText]:
        return iter(self.cache)


def reign_start(number: int) -> int:
    return reign_of(number) << REIGN_BITS
