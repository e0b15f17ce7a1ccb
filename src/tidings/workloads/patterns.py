"""The workload of routing under change (Migliavacca thesis 7.1; spec dynamic-topologies.md 4.1): symbols and patterns.

An event is a handful of symbols drawn with replacement from an alphabet; a pattern is one symbol, and matches the
events that contain it. A share of the dispatchers subscribes, each to the same number of different patterns. So simple
a model has a formula for the share of dispatchers that receive an event (eq. 7.1):

    receiver density = subscriber density * (1 - ((symbols - patterns) / symbols) ** event_symbols)

Here a symbol is a character and the event carries them as the text `symbols`; a pattern is the filter `symbols LIKE
'%c%'`, one subscription each.

    events           key, published_at, publisher, symbols
    subscriptions    subscription, filter, place (the dispatcher), pattern
"""

from functools import lru_cache, partial

import numpy

from tidings.workloads.schedule import EVENT, Schedule, spoken, steady
from tidings.workloads.table import Array, Columns, Drawn, Names, Random, Table, stream
from tidings.workloads.workload import Workload, require


class Patterns(Workload, frozen=True, kw_only=True, tag="patterns"):
    """Dynamic topologies 4.1: events of 9 symbols out of 96; a fifth of all dispatchers want 7 patterns each."""

    dispatchers: int = 100
    symbols: int = 96
    """The alphabet; 200 in runs of scale, 400 in the integrated ones."""
    patterns: int = 7
    """Of each subscriber, all different."""
    event_symbols: int = 9
    """Of each event, drawn with replacement; 40 in the integrated runs."""
    subscriber_density: float = 0.2
    """The share of dispatchers that subscribe, rounded to whole ones."""
    rate: float = 1.0
    """Events a second, of each dispatcher."""
    duration: float = 8.0

    def check(self) -> None:
        self.require_positive("dispatchers", "symbols", "patterns", "event_symbols", "rate", "duration")
        self.require_shares("subscriber_density")
        require(self.patterns <= self.symbols, f"patterns: {self.patterns} is more than there are symbols")
        require(self.symbols <= SYMBOLS_MAX, f"symbols: {self.symbols} is too many; give up to {SYMBOLS_MAX}")

    @property
    def receiver_density(self) -> float:
        """Equation 7.1."""
        missed = ((self.symbols - self.patterns) / self.symbols) ** self.event_symbols
        return self.subscriber_density * (1 - missed)

    def subscribers(self) -> Array:
        count = round(self.subscriber_density * self.dispatchers)
        return numpy.sort(stream(self.seed, "patterns/subscribers").permutation(self.dispatchers)[:count])

    def events(self) -> Table:
        schedule = steady(self.dispatchers, self.rate, self.duration, self.seed)
        columns: Columns = {**EVENT, "symbols": "string"}
        make = partial(self.draw_events, schedule)
        return self.drawn("patterns/events", schedule.total, columns, make=make)

    def draw_events(self, schedule: Schedule, random: Random, first: int, count: int) -> Drawn:
        drawn = random.integers(0, self.symbols, (count, self.event_symbols))
        points = numpy.array([ord(symbol) for symbol in alphabet(self.symbols)], dtype=numpy.uint32)
        return {
            **spoken(*schedule.rows(first, count)),
            "symbols": points[drawn].view(f"<U{self.event_symbols}").ravel(),
        }

    def subscriptions(self) -> Table:
        columns: Columns = {"subscription": "string", "filter": "string", "place": "long", "pattern": "string"}
        subscribers = self.subscribers()
        make = partial(self.draw_subscriptions, subscribers)
        return self.drawn("patterns/subscriptions", len(subscribers), columns, make=make)

    def draw_subscriptions(self, subscribers: Array, random: Random, first: int, count: int) -> Drawn:
        own = numpy.argsort(random.random((count, self.symbols)), axis=1)[:, : self.patterns].ravel()
        letters = alphabet(self.symbols)
        patterns = [letters[place] for place in own.tolist()]
        rows = numpy.arange(first * self.patterns, (first + count) * self.patterns)
        return {
            "subscription": Names("s", rows),
            "filter": [f"symbols LIKE '%{pattern}%'" for pattern in patterns],
            "place": numpy.repeat(subscribers[first : first + count], self.patterns),
            "pattern": patterns,
        }


SYMBOLS_MAX = 1000


@lru_cache
def alphabet(size: int) -> tuple[str, ...]:
    """Digits and letters in the order of their code points: none of them means anything in a pattern."""
    letters = (chr(point) for point in range(ord("0"), 0x10000))
    return tuple(letter for letter, _ in zip((one for one in letters if one.isalnum()), range(size), strict=False))
