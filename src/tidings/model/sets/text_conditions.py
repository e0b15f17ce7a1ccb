"""Conditions on a string, and their canonical form.

Many lists of conditions mean the same set: `s > 'a' AND s != 'm' AND s LIKE 'b%'` is just `s LIKE 'b%'`. Equal sets
should have equal forms as far as that is cheap to see, so that filters compare, print and merge well. Nothing here
searches (`automata.py` does): every rule looks at a pair of conditions at most, and the order in which conditions came
never matters.

    finite sets     a pattern without wildcards, or a range like 'm' <= s < 'm\\0', allows few strings: they are listed
    likes           a pattern that another one implies goes; patterns that contradict each other leave nothing
    unlikes         one that no remaining string matches goes; so does one that a wider one implies
    exclude         a string that the other conditions rule out anyway goes
    range           an end that a pattern's beginning implies goes. 'ab' <= s < 'ac' is LIKE 'ab%'. An excluded string
                    at either end moves the end
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from tidings.model.sets.patterns import (
    SHORT_PATTERNS_CACHED,
    canonical_pattern,
    is_literal,
    is_prefix_pattern,
    literal_prefix,
    pattern_covers,
    pattern_matches,
    pattern_text,
    patterns_exclude,
    prefix_pattern,
)

FEW = 16
"""Strings in a range that is written out as a list."""

PAIRWISE_MAX = 16
"""Patterns that are compared with each other; a longer list is only rid of duplicates."""

LAST_CHARACTER = "\U0010ffff"

Range = tuple[str, str | None]


class TextConditions(NamedTuple):
    """All must hold; fields as in `TextSet`."""

    low: str = ""
    high: str | None = None
    likes: tuple[str, ...] = ()
    unlikes: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def hold_for(self, text: str) -> bool:
        if text < self.low or (self.high is not None and text >= self.high) or text in self.exclude:
            return False
        return self.patterns_allow(text)

    def patterns_allow(self, text: str) -> bool:
        for pattern in self.likes:
            if not pattern_matches(pattern, text):
                return False
        return not any(pattern_matches(pattern, text) for pattern in self.unlikes)

    def range(self) -> Range:
        """The range these conditions imply: their own, cut down to the beginnings of their patterns."""
        if not self.likes:
            return self.low, self.high
        return common_range([(self.low, self.high), *map(pattern_range, self.likes)])


class Few(NamedTuple):
    """The canonical form of a finite set: its members, sorted."""

    texts: tuple[str, ...]

    def hold_for(self, text: str) -> bool:
        return text in self.texts

    def range(self) -> Range:
        return (self.texts[0], self.texts[-1] + "\0") if self.texts else ("", "")


Form = TextConditions | Few

NONE = Few(())


def prefix_end(prefix: str) -> str | None:
    """The end of the range of strings that begin with `prefix`; None if nothing lies behind them."""
    kept = prefix.rstrip(LAST_CHARACTER)
    if not kept:
        return None
    following = chr(ord(kept[-1]) + 1) if kept[-1] != "\ud7ff" else "\ue000"
    return kept[:-1] + following


@lru_cache(SHORT_PATTERNS_CACHED)
def pattern_range(pattern: str) -> Range:
    """The least range that holds every match."""
    prefix = literal_prefix(pattern)
    return prefix, prefix_end(prefix)


def common_range(ranges: Iterable[Range]) -> Range:
    low, high = "", None
    for other_low, other_high in ranges:
        low = max(low, other_low)
        high = lesser_end(high, other_high)
    return low, high


def lesser_end(one: str | None, other: str | None) -> str | None:
    return other if one is None or (other is not None and other < one) else one


def greater_end(one: str | None, other: str | None) -> str | None:
    return None if one is None or other is None else max(one, other)


def is_crossed(low: str, high: str | None) -> bool:
    return high is not None and low >= high


def canonical(given: TextConditions) -> Form:
    """The canonical form of the set that these conditions describe."""
    likes, unlikes = (
        sorted(set(map(canonical_pattern, given.likes))),
        sorted(set(map(canonical_pattern, given.unlikes))),
    )
    low, excluded = without_trailing_zeros(given.low)
    excluded += [*given.exclude, *(pattern_text(pattern) for pattern in unlikes if is_literal(pattern))]
    if "_%" in likes:
        excluded.append("")
    likes = [pattern for pattern in likes if pattern not in ("%", "_%")]
    unlikes = [pattern for pattern in unlikes if not is_literal(pattern)]
    found = TextConditions(low, given.high, tuple(likes), tuple(unlikes), tuple(sorted(set(excluded))))
    found = found._replace(high=least_high(found))
    texts = few_texts(found)
    if texts is not None:
        return Few(tuple(text for text in texts if found.hold_for(text)))
    reduced = without_redundant_patterns(found)
    return NONE if reduced is None else with_least_range(reduced)


def without_trailing_zeros(low: str) -> tuple[str, list[str]]:
    """`s >= 'm\\0'` as `s >= 'm'` and `s != 'm'`."""
    excluded: list[str] = []
    while low.endswith("\0") and len(excluded) < FEW:
        low = low[:-1]
        excluded.append(low)
    return low, excluded


def least_high(conditions: TextConditions) -> str | None:
    """`s < 'm\\0'` as `s < 'm'` if 'm' is ruled out anyway."""
    high = conditions.high
    while high and high[-1] == "\0" and (high[:-1] in conditions.exclude or not conditions.patterns_allow(high[:-1])):
        high = high[:-1]
    return high


def few_texts(conditions: TextConditions) -> list[str] | None:
    """All strings that could satisfy the conditions if those are plainly few, else None."""
    if "%" in conditions.unlikes:
        return []
    if "_%" in conditions.unlikes:
        return [""]
    for pattern in conditions.likes:
        if is_literal(pattern):
            return [pattern_text(pattern)]
    low, high = conditions.range()
    if is_crossed(low, high):
        return []
    if high is not None and high.startswith(low) and len(high) - len(low) <= FEW and not high[len(low) :].strip("\0"):
        return [high[:length] for length in range(len(low), len(high))]
    return None


def without_redundant_patterns(conditions: TextConditions) -> TextConditions | None:
    """None if two patterns contradict each other."""
    likes, unlikes, allowed = conditions.likes, conditions.unlikes, conditions.range()
    known = (*likes, *known_beginning(*allowed))
    if len(known) + len(unlikes) <= PAIRWISE_MAX:
        if any(patterns_exclude(one, other) for one in likes for other in known):
            return None
        if any(pattern_covers(wide, narrow) for wide in unlikes for narrow in known):
            return None
        likes = tuple(wide for wide in likes if not any(is_implied(wide, by=other) for other in known))
        unlikes = tuple(one for one in unlikes if not any(patterns_exclude(one, other) for other in known))
        unlikes = tuple(narrow for narrow in unlikes if not any(is_implied(other, by=narrow) for other in unlikes))
    return conditions._replace(likes=likes, unlikes=tuple(one for one in unlikes if may_begin_in(allowed, one)))


def known_beginning(low: str, high: str | None) -> tuple[str, ...]:
    """The pattern for what all strings of this range begin with, if there is one."""
    pattern = prefix_pattern(range_prefix(low, high)) if high is not None else None
    return (pattern,) if pattern and pattern != "%" else ()


def may_begin_in(allowed: Range, pattern: str) -> bool:
    return not is_crossed(*common_range([allowed, pattern_range(pattern)]))


def is_implied(wide: str, by: str) -> bool:
    return wide != by and bool(pattern_covers(wide, by))


def with_least_range(conditions: TextConditions) -> TextConditions:
    """The same set with excluded strings and range ends left out where the rest implies them."""
    prefixes = tuple(pattern for pattern in conditions.likes if is_prefix_pattern(pattern))
    likes = tuple(pattern for pattern in conditions.likes if pattern not in prefixes)
    low, high = conditions._replace(likes=prefixes).range()
    ranged = conditions._replace(low=low, high=high, exclude=())
    exclude = [text for text in conditions.exclude if ranged.hold_for(text)]
    low, high, prefix = least_range((low, high), TextConditions(likes=likes).range())
    while low and low in exclude:
        exclude.remove(low)
        low += "\0"
    likes = tuple(sorted({*likes, *([prefix] if prefix else [])}))
    return TextConditions(low, high, likes, conditions.unlikes, tuple(exclude))


def least_range(given: Range, implied: Range) -> tuple[str, str | None, str | None]:
    """Low, high, and the prefix pattern that says as much as the ends left out, if there is one."""
    low = "" if given[0] <= implied[0] else given[0]
    high = None if lesser_end(implied[1], given[1]) == implied[1] else given[1]
    if not low or high is None:
        return low, high, None
    prefix = range_prefix(low, high)
    end = prefix_end(prefix)
    pattern = prefix_pattern(prefix) if prefix and (low == prefix or high == end) else None
    if pattern is None:
        return low, high, None
    return "" if low == prefix else low, None if high == end else high, pattern


def range_prefix(low: str, high: str) -> str:
    """What all strings in low <= s < high begin with."""
    shared = common_beginning(low, high)
    length = len(shared) + 1
    while low[length : length + 1] == LAST_CHARACTER:
        length += 1
    return low[:length] if prefix_end(low[:length]) == high else shared


def common_beginning(one: str, other: str) -> str:
    for place, (character, other_character) in enumerate(zip(one, other, strict=False)):
        if character != other_character:
            return one[:place]
    return min(one, other, key=len)
