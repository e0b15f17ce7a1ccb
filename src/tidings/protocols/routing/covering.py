"""Among many filters, find those that cover a given one, or that it covers, without asking all of them.

The idea is to ask about an example first. Every filter has a *witness*: some event that it matches. A filter that
covers it must match the witness too, and which filters match an event is what an index answers. The other way round, a
filter can only cover those whose witness it matches; and if it asks for one of a few values of an attribute, only those
whose witness has such a value are worth asking. Whoever passes is then asked for certain with `covers`. A filter for
which no witness is found is rare, and is always asked.

All neighbours share one object, since what covers what does not depend on who is told.
"""

from collections.abc import Container, Iterable

from tidings.matching import Index
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.values import Value

NOTHING = Filter(())

ANSWERS_MAX = 100_000
"""Pairs of filters of which it is remembered whether one covers the other; when there are more, all are forgotten."""

WITNESSES_MAX = 10_000
"""Filters outside whose witness is remembered, since it will be asked for again by the next neighbour."""

MEMBERS_MAX = 16
"""Values of an attribute up to which narrower filters are looked for by value."""


class Covers:
    """Filters by text, each kept as long as somebody who entered it has not left it."""

    def __init__(self) -> None:
        self.index = Index("plain")
        self.filters: dict[str, Filter] = {}
        self.counts: dict[str, int] = {}
        self.witnesses: dict[str, Event | None] = {}
        self.unwitnessed: dict[str, None] = {}
        self.by_value: dict[tuple[str, Value], dict[str, None]] = {}
        self.answers: dict[tuple[str, str], bool] = {}
        self.witnesses_outside: dict[str, Event | None] = {}

    def enter(self, text: str, filter: Filter) -> None:
        self.counts[text] = self.counts.get(text, 0) + 1
        if self.counts[text] > 1:
            return
        witness = self.witnesses[text] = self.witness_of(text, filter)
        self.witnesses_outside.pop(text, None)
        self.filters[text] = filter
        self.index.add(text, filter)
        if witness is None:
            self.unwitnessed[text] = None
            return
        for item in witness.attributes.items():
            self.by_value.setdefault(item, {})[text] = None

    def leave(self, text: str) -> None:
        self.counts[text] -= 1
        if self.counts[text]:
            return
        del self.counts[text], self.filters[text]
        self.index.discard(text)
        witness = self.witnesses.pop(text)
        if witness is None:
            del self.unwitnessed[text]
            return
        for item in witness.attributes.items():
            del self.by_value[item][text]
            if not self.by_value[item]:
                del self.by_value[item]

    def find_cover(self, text: str, filter: Filter, among: Container[str]) -> str | None:
        """One of these that covers the filter."""
        witness = self.witness_of(text, filter)
        candidates = self.filters if witness is None else self.index.match(witness)
        for wide in candidates:
            if wide in among and wide != text and self.do_cover(wide, self.filters[wide], text, filter):  # type: ignore[arg-type,index]
                return wide  # type: ignore[return-value]
        return None

    def find_covered(self, text: str, filter: Filter, among: Container[str]) -> list[str]:
        """Those of these that the filter covers."""
        return [
            narrow
            for narrow in self.may_be_covered(filter)
            if narrow in among
            and narrow != text
            and ((witness := self.witnesses[narrow]) is None or filter.matches(witness))
            and self.do_cover(text, filter, narrow, self.filters[narrow])
        ]

    def may_be_covered(self, filter: Filter) -> Iterable[str]:
        if len(filter.conjunctions) != 1:
            return list(self.filters)
        fewest: list[str] | None = None
        for constraint in filter.conjunctions[0]:
            members = constraint.members()
            if members is None or len(members) > MEMBERS_MAX:
                continue
            found = {text: None for value in members for text in self.by_value.get((constraint.name, value), ())}
            if fewest is None or len(found) < len(fewest):
                fewest = list(found)
        return [*self.unwitnessed, *fewest] if fewest is not None else list(self.filters)

    def do_cover(self, wide: str, wide_filter: Filter, narrow: str, narrow_filter: Filter) -> bool:
        answer = self.answers.get((wide, narrow))
        if answer is None:
            if len(self.answers) >= ANSWERS_MAX:
                self.answers.clear()
            answer = self.answers[wide, narrow] = wide_filter.covers(narrow_filter)
        return answer

    def witness_of(self, text: str, filter: Filter) -> Event | None:
        for known in (self.witnesses, self.witnesses_outside):
            if text in known:
                return known[text]
        if len(self.witnesses_outside) >= WITNESSES_MAX:
            self.witnesses_outside.clear()
        witness = self.witnesses_outside[text] = NOTHING.counterexample(filter)
        return witness

    def check(self) -> None:
        assert self.counts.keys() == self.filters.keys() == self.witnesses.keys()
        assert len(self.index) == len(self.filters)
        assert all(count > 0 for count in self.counts.values())
