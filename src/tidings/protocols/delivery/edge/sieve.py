"""Which of many encoded events a filter matches.

Events that are read are judged in great numbers by a single filter. Where the compiled index is to be had it reads the
heads as they are, some five times as fast as making events of them; filters that have to be asked themselves, and
brokers without it, judge one head after the other, equal ones once. What is no encoded event matches nothing.
"""

from collections.abc import Sequence
from typing import Literal

from tidings.matching import Index, IndexParams
from tidings.model.filter import Filter
from tidings.pubsub.publications import BadPublication, read_head

Engine = Literal["fast", "plain"]

SIEVES_MAX = 32
"""Filters that are kept ready; when there are more, all are forgotten."""

FEW_HEADS = 64
"""So many heads are judged one by one sooner than the index is made ready."""


class Sieve:
    def __init__(self, filter: Filter, engine: Engine) -> None:
        self.filter = filter
        self.is_indexed = engine == "fast" and filter.residual is None
        self.index: Index | None = None

    def places(self, heads: Sequence[bytes]) -> Sequence[int]:
        """Where those stand that match, ascending."""
        if not self.is_indexed or (self.index is None and len(heads) <= FEW_HEADS):
            return self.places_one_by_one(heads)
        if self.index is None:
            self.index = Index("fast", IndexParams(direct_records=4), read_head)
            self.index.add(None, self.filter)
        return self.index.find_heads(heads).places.get(None, [])

    def places_one_by_one(self, heads: Sequence[bytes]) -> list[int]:
        verdicts: dict[bytes, bool] = {}
        places = []
        for place, head in enumerate(heads):
            verdict = verdicts.get(head)
            if verdict is None:
                verdict = verdicts[head] = is_match(self.filter, head)
            if verdict:
                places.append(place)
        return places


class Sieves:
    """One for each filter that is in use."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.ready: dict[str, Sieve] = {}

    def of(self, text: str, filter: Filter) -> Sieve:
        sieve = self.ready.get(text)
        if sieve is None:
            if len(self.ready) >= SIEVES_MAX:
                self.ready.clear()
            sieve = self.ready[text] = Sieve(filter, self.engine)
        return sieve


def is_match(filter: Filter, head: bytes) -> bool:
    try:
        return filter.matches(read_head(head))
    except BadPublication:
        return False
