"""Merging: fewer filters that together ask for the same events, or for a few more.

A broker announces to its neighbours what it wants. Instead of a thousand filters it may announce ten that cover them.
A merge is *perfect* when the merged filter matches exactly what its parts matched; then nobody pays for it. An
*imperfect* one matches more, and each event in excess crosses a link for nothing: a false positive.

Perfect merging works on conjunctions (a filter with several is taken apart). Those that agree in all constraints but
the one on some attribute are united on that attribute: grouped by "all the rest", so the cost is that of a few
dictionary passes, repeated while something changes. What another conjunction covers is dropped.

Imperfect merging needs to know what events look like, so it is given a sample and a bound on the share of the sample
that may be matched in excess. It joins, again and again, the two conjunctions whose hull (the narrowest cheap
conjunction that covers both) adds the fewest false positives, until the next join would break the bound. The count
returned is exact for the sample, and an estimate for the traffic it was drawn from. With no sample only perfect merges
are made.

A filter with a residual expression has no exact hull; it is kept as it is unless another filter covers it.
"""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

import msgspec

from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.filter import Filter, canonical_filter
from tidings.model.language.normal_form import is_sayable
from tidings.model.sets.conjunction import Conjunction, covers_conjunction, hull, unite

IMPERFECT_PARTS_MAX = 128
"""Conjunctions that imperfect merging compares pair by pair; of more, the rest is left as perfect merging leaves it."""

RANKING_EVENTS_MAX = 128
"""Events of the sample by which possible joins are ranked; the bound is checked on the whole sample."""


class Merged(msgspec.Struct, frozen=True):
    """`filters` match every event that the merged ones did, and `false_positives` of the sample's events besides."""

    filters: tuple[Filter, ...]
    false_positives: int
    sample_size: int
    perfect: bool


def merge(filters: Iterable[Filter], sample: Sequence[Event] = (), share_max: float = 0.0) -> Merged:
    """Fewer filters for the same events; at most `share_max` of the `sample` is matched in excess."""
    if not 0.0 <= share_max <= 1.0:
        raise UsageError(f"share_max {share_max}: give a share of the sample between 0 and 1")
    if share_max and not sample:
        raise UsageError("share_max without a sample: give events to count false positives on, or leave it 0")
    given = list(filters)
    parts = merge_perfectly([part for each in given if each.residual is None for part in each.conjunctions])
    false_positives, perfect = 0, True
    if share_max:
        wanted = sum(1 << i for i, event in enumerate(sample) if any(each.matches(event) for each in given))
        joiner = Joiner(parts[:IMPERFECT_PARTS_MAX], sample, wanted, int(share_max * len(sample)))
        joined, false_positives, perfect = joiner.join()
        parts = drop_covered(joined + parts[IMPERFECT_PARTS_MAX:])
    plain = [canonical_filter([part], None) for part in parts]
    if not all(map(is_sayable, plain)):
        # Longer than a filter may be: as they are, they can be told to others.
        return Merged(tuple(sorted(dict.fromkeys(given), key=Filter.text)), 0, len(sample), True)
    residual = [each for each in given if each.residual is not None]
    kept = [each for i, each in enumerate(residual) if not is_covered(each, plain + residual[:i])]
    return Merged(tuple(sorted(plain + kept, key=Filter.text)), false_positives, len(sample), perfect)


def is_covered(narrow: Filter, others: Iterable[Filter]) -> bool:
    return any(other.covers(narrow) for other in others)


def merge_perfectly(parts: Iterable[Conjunction]) -> list[Conjunction]:
    merged = list(dict.fromkeys(parts))
    while True:
        before = len(merged)
        for name in sorted({constraint.name for part in merged for constraint in part}):
            merged = unite_along(name, merged)
        merged = drop_covered(merged)
        if len(merged) == before:
            return merged


def unite_along(name: str, parts: list[Conjunction]) -> list[Conjunction]:
    """Unite conjunctions that agree in everything but the constraint on `name`."""
    groups: dict[tuple[bool, Conjunction], list[Conjunction]] = {}
    for part in parts:
        rest = tuple(constraint for constraint in part if constraint.name != name)
        groups.setdefault((len(rest) < len(part), rest), []).append(part)
    united: list[Conjunction] = []
    for group in groups.values():
        united.extend(unite(group))
    return united


def drop_covered(parts: list[Conjunction]) -> list[Conjunction]:
    kept: list[Conjunction] = []
    for i, part in enumerate(parts):
        others = kept + parts[i + 1 :]
        if not any(covers_conjunction(other, part) for other in others):
            kept.append(part)
    return kept


class Joiner:
    """Greedy imperfect merging of conjunctions on the same attributes. Sets of events are integers of bits."""

    def __init__(self, parts: list[Conjunction], sample: Sequence[Event], wanted: int, excess_max: int) -> None:
        self.parts = dict(enumerate(parts))
        self.sample, self.wanted, self.excess_max = sample, wanted, excess_max
        self.excess = 0
        self.ranking = range(0, len(sample), max(1, len(sample) // RANKING_EVENTS_MAX))
        self.candidates: list[tuple[int, int, int]] = []

    def join(self) -> tuple[list[Conjunction], int, bool]:
        """The conjunctions left, how many events of the sample they match in excess, and whether none was joined."""
        for new in list(self.parts):
            self.add_candidates(new)
        number_next = count = len(self.parts)
        while self.candidates:
            _, i, j = heappop(self.candidates)
            if i not in self.parts or j not in self.parts:
                continue
            wide = hull(self.parts[i], self.parts[j])
            excess = self.excess | (self.matched(wide, range(len(self.sample))) & ~self.wanted)
            if excess.bit_count() <= self.excess_max:
                self.excess = excess
                del self.parts[i], self.parts[j]
                self.parts[number_next] = wide
                self.add_candidates(number_next)
                number_next += 1
        return drop_covered(list(self.parts.values())), self.excess.bit_count(), number_next == count

    def add_candidates(self, new: int) -> None:
        """Rank the joins of part `new` with the older ones by the false positives among a few events."""
        names = attribute_names(self.parts[new])
        for old in self.parts:
            if old < new and attribute_names(self.parts[old]) == names:
                wide = hull(self.parts[old], self.parts[new])
                added = (self.matched(wide, self.ranking) & ~self.wanted).bit_count()
                heappush(self.candidates, (added, old, new))

    def matched(self, part: Conjunction, numbers: range) -> int:
        wide = Filter((part,))
        return sum(1 << i for i in numbers if wide.matches(self.sample[i]))


def attribute_names(part: Conjunction) -> tuple[str, ...]:
    return tuple(constraint.name for constraint in part)
