"""Among many filters, find those that cover a given one, or that it covers, without asking all of them.

The idea is to ask about an example first. Every filter has a *witness*: some event that it matches. A filter that
covers it must match the witness too, and which filters match an event is what an index answers. The other way round, a
filter can only cover those whose witness it matches. So witnesses are kept by the values of their attributes: if the
filter asks for one of a few values, or for numbers in a range, only those with such a value are worth asking. Whoever
passes is then asked for certain with `covers`. A filter for which no witness is found is rare, and is always asked.
Where all this takes too long (`model/work.py`) the rest is not asked: then more is told than need be, and nothing else.

All neighbours share one object, since what covers what does not depend on who is told.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Container, Iterable
from itertools import chain
from operator import itemgetter
from typing import cast

from tidings.matching import Index
from tidings.model.errors import UsageError
from tidings.model.event import CONTEXT_NAMES, Event
from tidings.model.filter import Filter
from tidings.model.sets.constraint import Constraint
from tidings.model.values import Number, Value, number_of, text_of
from tidings.model.work import WORK

NOTHING = Filter(())

ANSWERS_MAX = 100_000
"""Pairs of filters of which it is remembered whether one covers the other; when there are more, all are forgotten."""

WITNESSES_MAX = 10_000
"""Filters outside whose witness is remembered, since it will be asked for again by the next neighbour."""

MEMBERS_MAX = 16
"""Values of an attribute up to which narrower filters are looked for by value."""

WITNESS_UNITS = 25
"""The work of asking whether a filter matches a witness, where it has no patterns."""

ANY_VALUE = "2026-11-15T20:45:00Z"
"""A value that every attribute may have, `time` too."""

number_first = itemgetter(0)


class Covers:
    """Filters by text, each kept as long as somebody who entered it has not left it."""

    def __init__(self) -> None:
        self.index = Index("plain")
        self.filters: dict[str, Filter] = {}
        self.counts: dict[str, int] = {}
        self.witnesses = Witnesses()
        self.answers: dict[tuple[str, str], bool] = {}
        self.asked_last: tuple[str, list[str]] = ("", [])
        """A filter and those that may cover it; neighbours ask for the same one after the other."""
        self.witnesses_outside: dict[str, Event | None] = {}

    def enter(self, text: str, filter: Filter) -> None:
        self.counts[text] = self.counts.get(text, 0) + 1
        if self.counts[text] == 1:
            if self.asked_last[0] != text:
                self.asked_last = "", []
            self.witnesses.add(text, self.witness_of(text, filter))
            self.witnesses_outside.pop(text, None)
            self.filters[text] = filter
            self.index.add(text, filter)

    def leave(self, text: str) -> None:
        self.counts[text] -= 1
        if not self.counts[text]:
            del self.counts[text], self.filters[text]
            self.index.discard(text)
            self.witnesses.remove(text)

    def find_cover(self, text: str, filter: Filter, among: Container[str]) -> str | None:
        """One of these that covers the filter."""
        if WORK.is_over():
            return None
        if self.asked_last[0] != text:
            witness = self.witness_of(text, filter)
            matching = self.filters if witness is None else self.index.match(witness)
            self.asked_last = text, cast(list[str], list(matching))
        for wide in self.asked_last[1]:
            if wide in among and wide != text and self.do_cover(wide, self.filters[wide], text, filter):
                return wide
        return None

    def find_covered(self, text: str, filter: Filter, among: Container[str]) -> list[str]:
        """Those of these that the filter covers."""
        return [
            narrow
            for narrow in self.witnesses.possibly_in(filter)
            if narrow in among and narrow != text and self.do_cover(text, filter, narrow, self.filters[narrow])
        ]

    def do_cover(self, wide: str, wide_filter: Filter, narrow: str, narrow_filter: Filter) -> bool:
        answer = self.answers.get((wide, narrow))
        if answer is None:
            if WORK.is_over():
                return False
            if len(self.answers) >= ANSWERS_MAX:
                self.answers.clear()
            answer = self.answers[wide, narrow] = wide_filter.covers(narrow_filter)
        return answer

    def witness_of(self, text: str, filter: Filter) -> Event | None:
        for known in (self.witnesses.events, self.witnesses_outside):
            if text in known:
                return known[text]
        if len(self.witnesses_outside) >= WITNESSES_MAX:
            self.witnesses_outside.clear()
        witness = self.witnesses_outside[text] = easy_witness(filter) or NOTHING.counterexample(filter)
        return witness

    def check(self) -> None:
        assert self.counts.keys() == self.filters.keys() == self.witnesses.events.keys()
        assert len(self.index) == len(self.filters)
        assert all(count > 0 for count in self.counts.values())


Having = tuple[int, Callable[[], Iterable[str]]]


class Witnesses:
    """An event for each of many filters, found by the values of its attributes."""

    def __init__(self) -> None:
        self.events: dict[str, Event | None] = {}
        self.missing: dict[str, None] = {}
        self.by_value: dict[tuple[str, Value], dict[str, None]] = {}
        self.by_number: dict[str, list[tuple[Number, str]]] = {}

    def add(self, text: str, event: Event | None) -> None:
        self.events[text] = event
        if event is None:
            self.missing[text] = None
            return
        for name, value in event.attributes.items():
            self.by_value.setdefault((name, value), {})[text] = None
            number = number_of(value)
            if number is not None:
                insort(self.by_number.setdefault(name, []), (number, text))

    def remove(self, text: str) -> None:
        event = self.events.pop(text)
        if event is None:
            del self.missing[text]
            return
        for name, value in event.attributes.items():
            texts = self.by_value[name, value]
            del texts[text]
            if not texts:
                del self.by_value[name, value]
            number = number_of(value)
            if number is not None:
                numbers = self.by_number[name]
                del numbers[bisect_left(numbers, (number, text))]
                if not numbers:
                    del self.by_number[name]

    def possibly_in(self, filter: Filter) -> list[str]:
        """The filters whose witness this filter matches, and those without a witness."""
        candidates: Iterable[str] = self.events
        if len(filter.conjunctions) == 1:
            found = [each for each in map(self.having, filter.conjunctions[0]) if each is not None]
            fewest = min(found, key=number_first, default=(len(self.events), None))
            if fewest[0] < len(self.events) and fewest[1] is not None:
                candidates = fewest[1]()
        matching: list[str] = []
        for text in candidates:
            event = self.events[text]
            WORK.units += WITNESS_UNITS
            if event is not None and filter.matches(event):
                matching.append(text)
            if WORK.is_over():
                break
        return [*self.missing, *matching]

    def having(self, constraint: Constraint) -> Having | None:
        """The filters whose witness may have a value that is asked for: how many at most, and how to list them. None if
        they are not easily told."""
        members = constraint.members()
        if members is not None and len(members) <= MEMBERS_MAX:
            holders = [self.by_value.get((constraint.name, value), {}) for value in members]
            return sum(map(len, holders)), lambda: dict.fromkeys(chain.from_iterable(holders))
        if constraint.number is None or not constraint.number.intervals:
            return None
        low, high = constraint.number.intervals[0][0], constraint.number.intervals[-1][1]
        numbers = self.by_number.get(constraint.name, [])
        begin, end = bisect_left(numbers, low, key=number_first), bisect_right(numbers, high, key=number_first)
        return end - begin, lambda: [text for _, text in numbers[begin:end]]


def easy_witness(filter: Filter) -> Event | None:
    """An event that the filter matches, from one value of each attribute; None where it takes more of a search."""
    if not filter.conjunctions:
        return None
    values = {each.name: easy_value(each) for each in filter.conjunctions[0]}
    try:
        event = Event({name: value for name, value in values.items() if value is not None})
    except UsageError:  # a context attribute, such as `time`, may not have every value
        return None
    return event if filter.matches(event) else None


def easy_value(constraint: Constraint) -> Value | None:
    value: Value | None = ANY_VALUE
    if not constraint.present:
        return None
    if constraint.truth is not None:
        value = constraint.truth
    elif constraint.number is not None and constraint.number.intervals:
        value = constraint.number.example()
    elif constraint.text is not None and not constraint.accepts(ANY_VALUE):
        value = constraint.text.example()
    return text_of(value) if constraint.name in CONTEXT_NAMES and value is not None else value
