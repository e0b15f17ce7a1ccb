r"""LIKE patterns: `%` is any run of characters, `_` exactly one, `\%` and `\_` those characters themselves.

A backslash before anything else is a backslash. So no pattern says "a backslash, then a wildcard": `\%` is a percent
sign. Whoever builds patterns from text has to mind that (`prefix_pattern` answers None then).

Between two literals there is a *gap*: so many `_`, with or without a `%`. Only the number and the presence matter, not
their order: `_%`, `%_` and `%_%` mean the same, and the canonical text is the first.

**Matching without backtracking.** Cut the pattern at each `%`. The first segment must stand at the beginning of the
text, the last at its end, and each one between at its leftmost place after the one before: a later place never helps.
So every character is passed once. A segment that is one literal is found by `str.find`. A segment with `_` inside is
found by its longest literal, checking the others around each find. If that goes wrong too often (`%a_a_a_b%` in a text
of a's), the places of its rarest character are tried, or, if these are too many, all places at once: for each character
a row of bits says where it stands in the text, and the places of a segment are what remains of these rows, each shifted
by its distance, under AND. Rows belong to the text, not to the pattern, so a thousand patterns that are tried on one
text share them. The worst case is one operation on a row for each character of the pattern: 10 ms for 4 KiB on 64 KiB,
and a hundredth of a millisecond for a few characters.

What a search costs is counted (`model/work.py`), and `SearchWeight` says in advance what it may cost at most.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from tidings.model.work import WORK

WILDCARDS = re.compile(r"(?P<escaped>\\[%_])|(?P<gap>[%_]+)|(?P<plain>[^\\%_]+|\\)")

MISSES_MAX = 32
"""Finds of a segment's longest literal that may turn out wrong, in one text, before its characters are looked at."""

SEARCHED_TEXTS = 4
"""Texts whose rows are kept at hand. Only characters that stand in a text more often than once in `ROW_BITS` places
have rows, so that there are at most as many, 4 MiB for 64 KiB."""

FIND_CHARS, ROW_BITS = 64, 512
"""Characters that `str.find` passes, and bits that an operation on a row takes, for one unit of work each. Making a row
is not counted, nor finding out how rare a character is: it is done once for a text, whoever needs it."""

TRY_UNITS = 8
"""What looking at one place costs, beside the literals that are compared there."""

SLOW_CHARS, SLOW_CHARS_MAX = 12, 96
"""A literal may almost stand at many places. For each so many of its characters, up to a length beyond which `str.find`
has better ways, passing a text counts once more."""

SHORT_CHARS = 128
SHORT_PATTERNS_CACHED, LONG_PATTERNS_CACHED = 4096, 64
"""Compiled patterns kept at hand; few of the long ones, since their size is whatever a stranger chose."""

ANY_ONE, ANY_RUN = "\ud800", "\udc00"
"""Stand for an unknown character and an unknown run. Surrogates are no characters, so no pattern or text holds them."""


class PatternGap(NamedTuple):
    """What stands before, between or behind literals: `ones` times `_`, and perhaps `%`."""

    ones: int
    run: bool


class Parts(NamedTuple):
    """gap literal gap literal ... gap: one gap more than literals; only the first and last gap may be empty."""

    literals: tuple[str, ...]
    gaps: tuple[PatternGap, ...]


def parts_of(pattern: str) -> Parts:
    literals: list[str] = []
    gaps: list[PatternGap] = []
    literal, ones, run = "", 0, False
    for token in WILDCARDS.finditer(pattern):
        text = token.group()
        if token.lastgroup == "gap":
            if literal:
                literals.append(literal)
                literal = ""
            ones += text.count("_")
            run = run or "%" in text
        else:
            if not literal:
                gaps.append(PatternGap(ones, run))
                ones, run = 0, False
            literal += text[1] if token.lastgroup == "escaped" else text
    if literal:
        literals.append(literal)
    gaps.append(PatternGap(ones, run))
    return Parts(tuple(literals), tuple(gaps))


def filled(parts: Parts, one: str, run: str) -> str:
    """The pattern with each `_` replaced by `one` and each `%` by `run`."""
    pieces = [one * parts.gaps[0].ones + run * parts.gaps[0].run]
    for literal, gap in zip(parts.literals, parts.gaps[1:], strict=True):
        pieces.append(literal + one * gap.ones + run * gap.run)
    return "".join(pieces)


class Segment(NamedTuple):
    """The stretch between two `%`: literals at fixed distances; every other place takes any one character."""

    length: int
    anchor_at: int
    anchor: str
    others: tuple[tuple[int, str], ...]

    def stands_at(self, text: str, begin: int) -> bool:
        if not text.startswith(self.anchor, begin + self.anchor_at):
            return False
        for offset, literal in self.others:  # noqa: SIM110 - a generator would double the cost of the usual match
            if not text.startswith(literal, begin + offset):
                return False
        return True

    @property
    def steps(self) -> int:
        """Its characters that are not `_`."""
        return len(self.anchor) + sum([len(literal) for _, literal in self.others])

    @property
    def passes(self) -> int:
        """How often passing a text counts, while the longest literal is looked for."""
        return 1 + min(len(self.anchor), SLOW_CHARS_MAX) // SLOW_CHARS

    def find_units(self, chars: int) -> int:
        return self.passes * (chars // FIND_CHARS)

    def characters(self) -> frozenset[str]:
        return frozenset(self.anchor).union(*(literal for _, literal in self.others))

    def offset_of(self, character: str) -> int:
        runs = ((self.anchor_at, self.anchor), *self.others)
        return next(at + literal.index(character) for at, literal in runs if character in literal)


def segment_of(runs: list[tuple[int, str]], length: int) -> Segment:
    anchor_at, anchor = max(runs, key=lambda run: len(run[1]), default=(0, ""))
    return Segment(length, anchor_at, anchor, tuple(run for run in runs if run[0] != anchor_at))


def segments_of(parts: Parts) -> list[Segment]:
    segments: list[Segment] = []
    runs: list[tuple[int, str]] = []
    length = 0
    for gap, literal in zip(parts.gaps, (*parts.literals, ""), strict=True):
        length += gap.ones
        if gap.run:
            segments.append(segment_of(runs, length))
            runs, length = [], 0
        if literal:
            runs.append((length, literal))
            length += len(literal)
    segments.append(segment_of(runs, length))
    return segments


class SearchedText:
    """Where characters stand in one text, and how often."""

    __slots__ = ("counts", "data", "is_wide", "rows", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_wide = not text.isascii()
        self.data = text.encode("utf-32-le", "surrogatepass") if self.is_wide else text.encode("ascii")
        self.counts: dict[str, int] = {}
        self.rows: dict[str, int] = {}

    def count(self, character: str) -> int:
        count = self.counts.get(character)
        if count is None:
            count = self.counts[character] = self.text.count(character)
        return count

    def row(self, character: str) -> int:
        """Bit i is set where the character stands at place i."""
        row = self.rows.get(character)
        if row is None:
            # A text is ASCII, or has its characters in four bytes each, the last of which is always 0.
            planes = character.encode("utf-32-le", "surrogatepass")[:3] if self.is_wide else character.encode()
            row = -1
            for plane, byte in enumerate(planes):
                # Where the byte stands becomes 1. Of a number the first digit is the highest bit: so from behind.
                digits = self.data[plane :: 4 if self.is_wide else 1].translate(digits_for(byte))[::-1]
                row &= int(digits, 2)
            self.rows[character] = row
        return row


@lru_cache(256)
def digits_for(byte: int) -> bytes:
    """The table that makes a 1 of this byte and a 0 of all others."""
    return bytes(ord("1") if other == byte else ord("0") for other in range(256))


searched_text = lru_cache(SEARCHED_TEXTS)(SearchedText)


class Scan:
    """One text being searched for segments, and how often a find was wrong so far."""

    __slots__ = ("misses", "text")

    def __init__(self, text: str) -> None:
        self.text, self.misses = text, 0

    def find(self, segment: Segment, begin: int, end: int) -> int:
        """The leftmost place of the segment inside text[begin:end], or -1."""
        behind = segment.length - segment.anchor_at - len(segment.anchor)
        while self.misses < MISSES_MAX:
            place = self.text.find(segment.anchor, begin + segment.anchor_at, max(end - behind, 0))
            WORK.units += segment.find_units((end if place < 0 else place) - begin) + TRY_UNITS + len(segment.others)
            if place < 0:
                return -1
            begin = place - segment.anchor_at
            if segment.stands_at(self.text, begin):
                return begin
            begin += 1
            self.misses += 1
        return self.find_by_characters(segment, begin, end)

    def find_by_characters(self, segment: Segment, begin: int, end: int) -> int:
        searched, characters = searched_text(self.text), segment.characters()
        count, rarest = min([(searched.count(character), character) for character in characters])
        if count * (TRY_UNITS + len(segment.others)) <= segment.steps * (1 + len(self.text) // ROW_BITS):
            return self.find_by_places(segment, begin, end, rarest)
        return self.find_by_rows(segment, searched, begin, end)

    def find_by_places(self, segment: Segment, begin: int, end: int, character: str) -> int:
        offset = segment.offset_of(character)
        last = end - segment.length
        place = self.text.find(character, begin + offset)
        while 0 <= place - offset <= last:
            WORK.units += TRY_UNITS + len(segment.others)
            if segment.stands_at(self.text, place - offset):
                return place - offset
            place = self.text.find(character, place + 1)
        return -1

    def find_by_rows(self, segment: Segment, searched: SearchedText, begin: int, end: int) -> int:
        """Bit i of `places` is set while the segment may stand at begin + i; each of its characters clears some."""
        count = max(end - segment.length - begin + 1, 0)
        places = (1 << count) - 1
        for offset, literal in ((segment.anchor_at, segment.anchor), *segment.others):
            for index, character in enumerate(literal, begin + offset):
                WORK.units += 1 + count // ROW_BITS
                places &= searched.row(character) >> index
                if not places:
                    return -1
        return begin + (places & -places).bit_length() - 1


class SearchWeight(NamedTuple):
    """What a search may cost at most, for a text of any length: `finds` passes from end to end, `tries` units for each
    place that goes wrong, `steps` operations on rows, and `base` units anyway. Those of several patterns are added."""

    finds: int = 0
    tries: int = 0
    steps: int = 0
    base: int = 0

    def units(self, chars: int) -> int:
        passes, tries = self.finds * (1 + chars // FIND_CHARS), self.tries * (1 + min(MISSES_MAX, chars))
        return self.base + passes + tries + self.steps * (1 + chars // ROW_BITS)

    def plus(self, other: "SearchWeight") -> "SearchWeight":
        return SearchWeight(*(mine + its for mine, its in zip(self, other, strict=True)))

    def minus(self, other: "SearchWeight") -> "SearchWeight":
        return SearchWeight(*(mine - its for mine, its in zip(self, other, strict=True)))


def search_weight(pattern: str) -> SearchWeight:
    """Nothing for a pattern that is compared at fixed places only."""
    middle = compiled(pattern).middle
    if not middle:
        return SearchWeight()
    spread = [segment for segment in middle if segment.others]
    finds = max(segment.passes for segment in middle)
    tries = max([TRY_UNITS + 2 + len(segment.others) for segment in spread], default=0)
    return SearchWeight(finds, tries, sum(segment.steps for segment in spread), 2 * TRY_UNITS * len(middle))


class CompiledPattern:
    """A pattern ready to match. Without `%` there is one segment, and it must be all of the text."""

    __slots__ = ("begin", "end", "has_ones", "head", "is_open", "length_min", "middle", "outline", "parts", "tail")

    def __init__(self, pattern: str) -> None:
        self.parts = parts_of(pattern)
        segments = segments_of(self.parts)
        self.length_min = sum(segment.length for segment in segments)
        self.is_open = len(segments) > 1
        self.head, self.tail, self.middle = segments[0], segments[-1], tuple(segments[1:-1])
        self.has_ones = any(gap.ones for gap in self.parts.gaps)
        self.outline = filled(self.parts, ANY_ONE, ANY_RUN)
        self.begin = self.parts.literals[0] if self.parts.literals and not any(self.parts.gaps[0]) else ""
        self.end = self.parts.literals[-1] if self.parts.literals and not any(self.parts.gaps[-1]) else ""

    def matches(self, text: str) -> bool:
        length = len(text)
        if length < self.length_min or not text.startswith(self.begin) or not text.endswith(self.end):
            return False
        head = self.head
        if (head.others or head.anchor_at) and not head.stands_at(text, 0):
            return False
        if not self.is_open:
            return length == self.length_min
        tail, end = self.tail, length - self.tail.length
        if (tail.others or len(tail.anchor) < tail.length) and not tail.stands_at(text, end):
            return False
        return not self.middle or self.finds_middle(text, head.length, end)

    def finds_middle(self, text: str, begin: int, end: int) -> bool:
        scan: Scan | None = None
        for segment in self.middle:
            if segment.others:
                scan = scan or Scan(text)
                begin = scan.find(segment, begin, end)
            else:
                place = text.find(segment.anchor, begin, max(end - segment.length + len(segment.anchor), 0))
                WORK.units += TRY_UNITS + segment.find_units((end if place < 0 else place) - begin)
                begin = place
            if begin < 0:
                return False
            begin += segment.length
        return True


short_patterns = lru_cache(SHORT_PATTERNS_CACHED)(CompiledPattern)
long_patterns = lru_cache(LONG_PATTERNS_CACHED)(CompiledPattern)


def compiled(pattern: str) -> CompiledPattern:
    return short_patterns(pattern) if len(pattern) <= SHORT_CHARS else long_patterns(pattern)


def pattern_matches(pattern: str, text: str) -> bool:
    return compiled(pattern).matches(text)


@lru_cache(SHORT_PATTERNS_CACHED)
def canonical_pattern(pattern: str) -> str:
    """One text for one pattern: in each gap the `_` come first, and at most one `%` behind them."""
    parts = compiled(pattern).parts
    return filled(Parts(tuple(escape(literal) for literal in parts.literals), parts.gaps), "_", "%")


def escape(text: str) -> str:
    """The pattern that matches this text only."""
    return text.replace("%", "\\%").replace("_", "\\_")


def prefix_pattern(text: str) -> str | None:
    """The pattern for "begins with `text`"; None if there is none, since text ends in a backslash."""
    return None if text.endswith("\\") else escape(text) + "%"


def is_literal(pattern: str) -> bool:
    return not any(gap.ones or gap.run for gap in compiled(pattern).parts.gaps)


def pattern_text(pattern: str) -> str:
    """The one string that a pattern without wildcards matches."""
    return "".join(compiled(pattern).parts.literals)


def literal_runs(pattern: str) -> tuple[str, ...]:
    """The literals between the gaps, in order; every match holds them in this order without overlap."""
    return compiled(pattern).parts.literals


def literal_prefix(pattern: str) -> str:
    """What every match begins with."""
    return compiled(pattern).begin


def literal_suffix(pattern: str) -> str:
    """What every match ends with."""
    return compiled(pattern).end


def is_prefix_pattern(pattern: str) -> bool:
    """Is it one literal and then `%`?"""
    return compiled(pattern).parts.gaps == ((0, False), (0, True))


def pattern_covers(wide: str, narrow: str) -> bool | None:
    """Does `wide` match whatever `narrow` matches? None where only a search through both would tell.

    Match `wide` against `narrow` itself, its wildcards read as characters that no literal equals. If `wide` has no `_`
    those can only have been passed over by `%`, which passes over anything else as well. If `narrow` has no `%` all
    its matches are equally long and differ only where it has `_`, so the same holds.
    """
    outer, inner = compiled(wide), compiled(narrow)
    if not inner.is_open or not outer.has_ones:
        return outer.matches(inner.outline)
    if not outer.parts.literals and outer.is_open:
        return inner.length_min >= outer.length_min
    shortest = filled(inner.parts, ANY_ONE, "")
    return None if outer.matches(shortest) and outer.matches(inner.outline) else False


def patterns_exclude(one: str, other: str) -> bool:
    """Can it be seen at once that no string matches both: by their beginnings, their ends or their lengths?"""
    left, right = compiled(one), compiled(other)
    if not left.begin.startswith(right.begin) and not right.begin.startswith(left.begin):
        return True
    if not left.end.endswith(right.end) and not right.end.endswith(left.end):
        return True
    return (not left.is_open and left.length_min < right.length_min) or (
        not right.is_open and right.length_min < left.length_min
    )
