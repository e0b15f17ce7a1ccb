r"""LIKE patterns: `%` is any run of characters, `_` exactly one, `\%` and `\_` those characters themselves.

A backslash before anything else is a backslash. So no pattern says "a backslash, then a wildcard": `\%` is a percent
sign. Whoever builds patterns from text has to mind that (`prefix_pattern` answers None then).

Between two literals there is a *gap*: so many `_`, with or without a `%`. Only the number and the presence matter, not
their order: `_%`, `%_` and `%_%` mean the same, and the canonical text is the first.

**Matching without backtracking.** Cut the pattern at each `%`. The first segment must stand at the beginning of the
text, the last at its end, and each one between at its leftmost place after the one before: a later place never helps.
So every character is passed once. A segment that is one literal is found by `str.find`. A segment with `_` inside is
found by its longest literal, checking the others around each find. If that goes wrong too often (`%a_a_a_b%` in a text
of a's) all places are tried at once: for each character of the text a row of bits says where it stands, and the places
of a segment are what remains of these rows, each shifted by its distance, under AND. So the worst case is one pass over
the text and one operation on a row for each character of the pattern: tens of ms for 4 KiB on 64 KiB.
"""

import re
from functools import lru_cache
from typing import NamedTuple

WILDCARDS = re.compile(r"(?P<escaped>\\[%_])|(?P<gap>[%_]+)|(?P<plain>[^\\%_]+|\\)")

MISSES_MAX = 32
"""Finds of a segment's longest literal that may turn out wrong, in one text, before the rows of bits take over."""

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


class Scan:
    """One text being searched for segments: misses so far, and where each character stands once they are too many."""

    __slots__ = ("misses", "rows", "segments", "text")

    def __init__(self, text: str, segments: tuple[Segment, ...]) -> None:
        self.text, self.segments, self.misses = text, segments, 0
        self.rows: dict[str, int] = {}

    def find(self, segment: Segment, begin: int, end: int) -> int:
        """The leftmost place of the segment inside text[begin:end], or -1."""
        behind = segment.length - segment.anchor_at - len(segment.anchor)
        while self.misses < MISSES_MAX:
            place = self.text.find(segment.anchor, begin + segment.anchor_at, max(end - behind, 0))
            if place < 0:
                return -1
            begin = place - segment.anchor_at
            if segment.stands_at(self.text, begin):
                return begin
            begin += 1
            self.misses += 1
        return self.find_by_rows(segment, begin, end)

    def find_by_rows(self, segment: Segment, begin: int, end: int) -> int:
        """Bit i of `places` is set while the segment may stand at begin + i; each of its characters clears some."""
        if not self.rows:
            literals = (run[1] for spread in self.segments for run in ((0, spread.anchor), *spread.others))
            self.rows = rows_of(self.text, frozenset("".join(literals)))
        places = (1 << max(end - segment.length - begin + 1, 0)) - 1
        for offset, literal in ((segment.anchor_at, segment.anchor), *segment.others):
            for index, character in enumerate(literal, begin + offset):
                places &= self.rows.get(character, 0) >> index
                if not places:
                    return -1
        return begin + (places & -places).bit_length() - 1


def rows_of(text: str, characters: frozenset[str]) -> dict[str, int]:
    """For each of these characters the places where it stands, as bits."""
    places: dict[str, list[int]] = {}
    for place, character in enumerate(text):
        if character in characters:
            places.setdefault(character, []).append(place)
    rows: dict[str, int] = {}
    for character, standing in places.items():
        row = bytearray((standing[-1] >> 3) + 1)
        for place in standing:
            row[place >> 3] |= 1 << (place & 7)
        rows[character] = int.from_bytes(row, "little")
    return rows


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
                scan = scan or Scan(text, self.middle)
                begin = scan.find(segment, begin, end)
            else:
                begin = text.find(segment.anchor, begin, max(end - segment.length + len(segment.anchor), 0))
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
