"""Which text conditions does a string satisfy, found from the string instead of trying every condition.

    one of a list     a dict from each listed string to the conditions that list it
    LIKE 'abc%...'    a dict from the first characters, one per length in use; then the whole pattern is tried
    LIKE '...%xyz'    the same from the last characters
    LIKE '%middle%'   a dict from the first GRAM_CHARS characters of the longest literal, where every stretch of so many
                      characters of the string is looked up
    the rest          order ranges and patterns with no long literal ('%a%', '_') are tried one by one

A pattern is *anchored* in the first of these tables that suits it, so for one string only patterns that share the
anchor are tried.
"""

from collections.abc import Callable, Iterable

from tidings.model.sets.patterns import compiled, literal_prefix, literal_runs, literal_suffix

ANCHOR_CHARS_MAX = 16
"""Longer beginnings and endings are looked up by this many characters; bounds the lookups for one string."""

GRAM_CHARS = 3

Test = Callable[[str], bool]


class TextAtoms:
    """The text conditions on one attribute, by atom id."""

    def __init__(self) -> None:
        self.listed: dict[str, list[int]] = {}
        self.beginnings: dict[int, dict[str, dict[int, Test]]] = {}
        self.endings: dict[int, dict[str, dict[int, Test]]] = {}
        self.grams: dict[str, dict[int, Test]] = {}
        self.scanned: dict[int, Test] = {}

    def is_empty(self) -> bool:
        return not (self.listed or self.beginnings or self.endings or self.grams or self.scanned)

    def find(self, text: str) -> list[int]:
        """The atoms that `text` satisfies, in an order that depends only on the history of additions."""
        found = list(self.listed.get(text, ()))
        for length, by_beginning in self.beginnings.items():
            try_all(by_beginning.get(text[:length]), text, found)
        for length, by_ending in self.endings.items():
            try_all(by_ending.get(text[-length:]), text, found)
        if self.grams:
            for gram in {text[at : at + GRAM_CHARS]: None for at in range(len(text) - GRAM_CHARS + 1)}:
                try_all(self.grams.get(gram), text, found)
        for atom, test in self.scanned.items():
            if test(text):
                found.append(atom)
        return found

    def add_listed(self, atom: int, texts: Iterable[str]) -> None:
        for text in texts:
            self.listed.setdefault(text, []).append(atom)

    def remove_listed(self, atom: int, texts: Iterable[str]) -> None:
        for text in texts:
            atoms = self.listed[text]
            atoms.remove(atom)
            if not atoms:
                del self.listed[text]

    def add_pattern(self, atom: int, pattern: str) -> None:
        test = compiled(pattern).matches
        table, anchor = self.anchor_of(pattern)
        if anchor is None:
            self.scanned[atom] = test
        elif table is None:
            self.grams.setdefault(anchor, {})[atom] = test
        else:
            table.setdefault(len(anchor), {}).setdefault(anchor, {})[atom] = test

    def remove_pattern(self, atom: int, pattern: str) -> None:
        table, anchor = self.anchor_of(pattern)
        if anchor is None:
            del self.scanned[atom]
        elif table is None:
            remove_from(self.grams, anchor, atom)
        else:
            remove_from(table[len(anchor)], anchor, atom)
            if not table[len(anchor)]:
                del table[len(anchor)]

    def anchor_of(self, pattern: str) -> tuple[dict[int, dict[str, dict[int, Test]]] | None, str | None]:
        """The table (None: grams) and the anchor (None: scanned) of a pattern."""
        beginning, ending = literal_prefix(pattern), literal_suffix(pattern)
        if beginning:
            return self.beginnings, beginning[:ANCHOR_CHARS_MAX]
        if ending:
            return self.endings, ending[-ANCHOR_CHARS_MAX:]
        longest = max(literal_runs(pattern), key=len, default="")
        return None, longest[:GRAM_CHARS] if len(longest) >= GRAM_CHARS else None

    def add_range(self, atom: int, low: str, high: str | None) -> None:
        if high is None:
            self.scanned[atom] = lambda text: low <= text
        else:
            self.scanned[atom] = lambda text: low <= text < high

    def remove_range(self, atom: int) -> None:
        del self.scanned[atom]


def try_all(tests: dict[int, Test] | None, text: str, found: list[int]) -> None:
    if tests:
        for atom, test in tests.items():
            if test(text):
                found.append(atom)


def remove_from(table: dict[str, dict[int, Test]], anchor: str, atom: int) -> None:
    del table[anchor][atom]
    if not table[anchor]:
        del table[anchor]
