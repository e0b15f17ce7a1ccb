"""Sets of strings: a finite list, or what is left of all strings under a range, patterns and exclusions.

    include     exactly these strings; then every other field is empty (the canonical form of a finite set)
    low, high   low <= s < high in code-point order; '' and None stand for no end.
                `s > 'm'` is low 'm\\0', `s <= 'm'` is high 'm\\0': no string lies between 'm' and 'm\\0'
    likes       LIKE patterns that must all match
    unlikes     LIKE patterns none of which may match
    exclude     strings that are not in the set

Strings are sequences of Unicode characters (no surrogates), compared by code point.

A set that is not finite is an intersection of simple conditions, and the opposite of each condition is a set again
(LIKE and NOT LIKE, `<` and `>=`). So everything reduces to one question, "which string is in this set?": `a` covers `b`
when for no condition of `a` there is a string in `b` and in its opposite; `a` and `b` overlap when there is one in
`a & b`. The usual cases are decided by looking (`text_conditions.py`), by trying a few likely strings, or by matching
one pattern against another; the rest by a search (`automata.py`). The answers are exact unless that search reaches its
bound, or the work of everything together its limit (`model/work.py`); then they err on the side that loses no event:
not covered, may overlap, not empty.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator

import msgspec

from tidings.model.bounds import AUTOMATON_STATES_MAX
from tidings.model.errors import UsageError
from tidings.model.sets.automata import READABLE, WitnessSearch, find_text
from tidings.model.sets.patterns import (
    canonical_pattern,
    compiled,
    filled,
    is_literal,
    is_prefix_pattern,
    pattern_covers,
    pattern_matches,
)
from tidings.model.sets.text_conditions import Few, Form, TextConditions, canonical, common_range, greater_end
from tidings.model.sets.text_unions import common_hull, joined
from tidings.model.values import number_from_text
from tidings.model.work import WORK

LISTED_UNITS = 40
"""The work of asking of one text in a list whether others accept it."""

GLANCE_UNITS = 500
"""The work of looking at two sets with patterns without searching."""

SCANNED_MAX = 8
"""A longer list of strings is searched by halving."""


class TextSet(msgspec.Struct, frozen=True):
    """A set of strings; tuples are sorted and free of duplicates. Build with the functions below."""

    include: tuple[str, ...] | None = None
    low: str = ""
    high: str | None = None
    likes: tuple[str, ...] = ()
    unlikes: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def __contains__(self, text: str) -> bool:
        if self.include is not None:
            return is_listed(text, self.include)
        if text < self.low or (self.high is not None and text >= self.high):
            return False
        for pattern in self.likes:
            if not pattern_matches(pattern, text):
                return False
        for pattern in self.unlikes:
            if pattern_matches(pattern, text):
                return False
        return not self.exclude or not is_listed(text, self.exclude)

    def __and__(self, other: "TextSet") -> "TextSet":
        if other.is_exclusion():
            self, other = other, self
        if self.is_exclusion() and other.include is None and not other.low and other.high is None:
            more = [text for text in self.exclude if text in other]
            return msgspec.structs.replace(other, exclude=tuple(sorted({*other.exclude, *more}))) if more else other
        return intersection((self, other))

    def covers(self, other: "TextSet") -> bool:
        """Is every string of `other` in this set? False also where the search ended without an answer."""
        if self == other or self.is_everything():
            return True
        if other.include is not None:
            return all(text in self for text in other.include)
        if self.has_patterns() and WORK.is_over():
            return False
        at_a_glance = covers_at_a_glance(self, other)
        return is_proved_empty(find_outside(other, self)) if at_a_glance is None else at_a_glance

    def overlaps(self, other: "TextSet") -> bool:
        """Is some string in both? True also where the search ended without an answer."""
        if self.include is None and other.include is None:
            low = max(self.low, other.low)
            for likes in dict.fromkeys((self.likes, other.likes, self.likes + other.likes)):
                if any(text in self and text in other for text in likely_texts(low, likes)):
                    return True
        return not (self & other).is_empty()

    def is_other_text(self, other: "TextSet") -> bool:
        """Is each one string, and not the same? Equalities with different texts are what most filters differ by."""
        mine, theirs = self.include, other.include
        return mine is not None and theirs is not None and len(mine) == len(theirs) == 1 and mine != theirs

    def is_empty(self) -> bool:
        """Is there no string at all? False also where the search ended without an answer."""
        return is_proved_empty(find_member(self))

    def has_patterns(self) -> bool:
        """Whether a question about it may be dear: a beginning alone is a range."""
        return bool(self.unlikes) or any(not is_prefix_pattern(pattern) for pattern in self.likes)

    def is_dear(self) -> bool:
        """Whether asking if it has strings in common with another one takes noticeable work."""
        return self.has_patterns() or (self.include is not None and len(self.include) > SCANNED_MAX)

    def is_everything(self) -> bool:
        return self.is_exclusion() and not self.exclude

    def is_exclusion(self) -> bool:
        """Is it everything but a few strings?"""
        return not self.likes and not self.unlikes and not self.low and self.high is None and self.include is None

    def example(self) -> str | None:
        """A short member, or None if none was found."""
        return find_member(self).text

    def example_outside(self, other: "TextSet") -> str | None:
        """A short member that is not in `other`, or None if none was found."""
        return find_outside(self, other).text

    def union(self, other: "TextSet") -> "TextSet | None":
        """The strings in either, if those are a set of this kind and it is cheap to see; else None."""
        if self.covers(other):
            return self
        if other.covers(self):
            return other
        if self.include is not None and other.include is not None:
            return one_of(self.include + other.include)
        found = joined(self.form(), other.form())
        return None if found is None or not has_text_ends(found) else text_set(found)

    def hull(self, other: "TextSet") -> "TextSet":
        """A set that covers both, as tight as is cheap; the union where there is one."""
        exact = self.union(other)
        return text_set(common_hull(self.form(), other.form())) if exact is None else exact

    def form(self) -> Form:
        if self.include is not None:
            return Few(self.include)
        return TextConditions(self.low, self.high, self.likes, self.unlikes, self.exclude)


EVERY_TEXT = TextSet()
NO_TEXT = TextSet(include=())


def one_of(texts: Iterable[str]) -> TextSet:
    return TextSet(include=tuple(sorted({check_text("texts", text) for text in texts})))


def none_of(texts: Iterable[str]) -> TextSet:
    return TextSet(exclude=one_of(texts).include or ())


def like(pattern: str) -> TextSet:
    form = canonical_pattern(check_text("pattern", pattern))
    if is_literal(form) or form in ("%", "_%"):
        return text_set(TextConditions(likes=(form,)))
    return TextSet(likes=(form,))


def unlike(pattern: str) -> TextSet:
    form = canonical_pattern(check_text("pattern", pattern))
    if is_literal(form) or form in ("%", "_%"):
        return text_set(TextConditions(unlikes=(form,)))
    return TextSet(unlikes=(form,))


def before(text: str) -> TextSet:
    return text_set(TextConditions(high=check_text("text", text)))


def up_to(text: str) -> TextSet:
    return text_set(TextConditions(high=check_text("text", text) + "\0"))


def after(text: str) -> TextSet:
    return text_set(TextConditions(low=check_text("text", text) + "\0"))


def starting_at(text: str) -> TextSet:
    return text_set(TextConditions(low=check_text("text", text)))


def check_text(argument: str, text: object) -> str:
    if not isinstance(text, str):
        raise UsageError(f"{argument}: {text!r:.80} is not a string; write it as one")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise UsageError(f"{argument}: {text!r:.80} holds a lone surrogate, which is no character; leave it out")
    return text


def text_set(conditions: TextConditions) -> TextSet:
    """The strings for which all conditions hold, in canonical form."""
    form = canonical(conditions)
    return TextSet(include=form.texts) if isinstance(form, Few) else TextSet(None, *form)


def intersection(sets: Iterable[TextSet]) -> TextSet:
    """The strings in all of them: as `&` from left to right, but put into canonical form only once."""
    all_sets = tuple(sets)
    lists = [one.include for one in all_sets if one.include is not None]
    if lists:
        shortest = min(lists, key=len)
        WORK.units += LISTED_UNITS * len(shortest)
        others = [one for one in all_sets if one.include is None]
        common = set(shortest).intersection(*lists)
        if others:
            common = {text for text in common if all(text in one for one in others)}
        return TextSet(include=tuple(text for text in shortest if text in common))
    low, high = common_range((one.low, one.high) for one in all_sets)
    likes, unlikes, exclude = (
        tuple(dict.fromkeys(text for one in all_sets for text in getattr(one, field)))
        for field in ("likes", "unlikes", "exclude")
    )
    return text_set(TextConditions(low, high, likes, unlikes, exclude))


def has_text_ends(conditions: TextConditions) -> bool:
    """A range end that reads as a number has no text form in CESQL, where it would compare numbers."""
    ends = (conditions.low, conditions.high or "")
    return all(number_from_text(end.rstrip("\0")) is None for end in ends)


def is_listed(text: str, texts: tuple[str, ...]) -> bool:
    if len(texts) <= SCANNED_MAX:
        return text in texts
    place = bisect_left(texts, text)
    return place < len(texts) and texts[place] == text


def is_proved_empty(finding: WitnessSearch) -> bool:
    return finding.ended and finding.text is None


def find_member(texts: TextSet, states_max: int = AUTOMATON_STATES_MAX) -> WitnessSearch:
    """A string in the set. The empty string only if nothing likelier was found: it reads badly as an example."""
    if texts.include is not None:
        return WitnessSearch(next((text for text in texts.include if text), *texts.include[:1] or (None,)), True, 0)
    if texts.has_patterns():
        WORK.units += GLANCE_UNITS
    for text in likely_texts(texts.low, texts.likes, "".join(texts.unlikes)):
        if text in texts:
            return WitnessSearch(text, True, 0)
    return find_text(texts.likes, texts.unlikes, texts.exclude, texts.low, texts.high, states_max)


def likely_texts(low: str, likes: tuple[str, ...], avoiding: str = "") -> Iterator[str]:
    """Strings made of what is asked for; most sets that are not empty hold one of them."""
    mentioned = "".join(likes) + avoiding
    filler = next((character for character in READABLE if character not in mentioned), "a")
    if not likes:
        yield low + filler
        yield low
        return
    patterns = [compiled(pattern) for pattern in likes]
    if len(patterns) > 1:
        patterns.sort(key=lambda pattern: (not pattern.begin, pattern.end != ""))
    yield "".join(filled(pattern.parts, filler, "") for pattern in patterns)
    yield "".join(filled(pattern.parts, filler, filler) for pattern in patterns)


def covers_at_a_glance(outer: TextSet, inner: TextSet) -> bool | None:
    """The answer where it takes no search: each condition is implied, or a likely string of `inner` is outside."""
    if outer.has_patterns():
        WORK.units += GLANCE_UNITS
    if is_implied(outer, inner):
        return True
    for text in likely_texts(inner.low, inner.likes, "".join(outer.likes)):
        if text in inner and text not in outer:
            return False
    return None


def is_implied(outer: TextSet, inner: TextSet) -> bool:
    """Does each condition of `outer` plainly follow from one of `inner`?"""
    if outer.include is not None:
        return False
    if outer.low or outer.high is not None:
        low, high = inner.form().range()
        if outer.low > low or greater_end(outer.high, high) != outer.high:
            return False
    for wide in outer.likes:
        if not any(pattern_covers(wide, narrow) for narrow in inner.likes):
            return False
    for narrow in outer.unlikes:
        if not any(pattern_covers(wide, narrow) for wide in inner.unlikes):
            return False
    return not any(text in inner for text in outer.exclude)


def find_outside(inner: TextSet, outer: TextSet, states_max: int = AUTOMATON_STATES_MAX) -> WitnessSearch:
    """A string in `inner` that is not in `outer`: for some condition of `outer`, one that breaks it."""
    if inner.include is not None:
        return WitnessSearch(next((text for text in inner.include if text not in outer), None), True, 0)
    ended, states = True, 0
    for opposite in opposites(outer, inner):
        finding = find_member(inner & opposite, states_max - states)
        states += finding.states
        if finding.text is not None:
            return WitnessSearch(finding.text, True, states)
        ended = ended and finding.ended
    return WitnessSearch(None, ended, states)


def opposites(outer: TextSet, inner: TextSet) -> Iterator[TextSet]:
    """The sets that together are everything outside `outer`, without those that cannot meet `inner`."""
    if outer.include is not None:
        yield none_of(outer.include)
        return
    yield one_of(outer.exclude)
    if outer.low > inner.low:
        yield before(outer.low)
    if outer.high is not None and outer.high != inner.high:
        yield starting_at(outer.high)
    yield from (unlike(pattern) for pattern in outer.likes if pattern not in inner.likes)
    yield from (like(pattern) for pattern in outer.unlikes if pattern not in inner.unlikes)
