"""The words in which an index speaks about filters and events: dimensions and atoms.

A *dimension* is an attribute read as a number, for filters that ask for an interval of it. An *atom* is any other
condition on one attribute ("symbol is IBM", "name LIKE 'ab%'", "size is one of 1, 2", "urgent is TRUE", "price
exists"); equal conditions of different filters are one atom, with a small integer as its id and a count of the
records that mention it. An event is then a number per dimension and the list of the atoms it satisfies, and a filter
a few intervals and a few ids. Atom ALWAYS is satisfied by every event.

Only conditions that a value *satisfies* are atoms. A filter that asks for the opposite (`symbol != 'IBM'`, `NOT
EXISTS price`) refuses the atom, so nobody ever has to list what an event does not satisfy.

`AttributeTable.read` finds the atoms of a value from the value (`TextAtoms`), and remembers what it found for
strings. An attribute that no filter reads as text costs nothing for its text, and likewise for its number.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

import msgspec

from tidings.model.errors import UsageError
from tidings.model.sets.patterns import (
    SearchWeight,
    compiled,
    literal_prefix,
    literal_runs,
    literal_suffix,
    search_weight,
)
from tidings.model.values import Number, Value, number_of, text_of, truth_of
from tidings.model.work import WORK

ANCHOR_CHARS_MAX = 16
"""Longer beginnings and endings are looked up by this many characters; bounds the lookups for one string."""

GRAM_CHARS = 3

FEW_GRAMS = 256
"""So many stretches are looked for in a string faster than all of its own are looked up, unless it is short."""

SHORT_TEXT_CHARS = 256

LONG_TEXT_CHARS, LONG_TEXTS_MAX = 1024, 16
"""Of strings longer than this only so many are remembered for an attribute."""

Test = Callable[[str], bool]
Verdicts = dict[Test, bool]


class TextAtoms:
    """The text conditions on one attribute, by atom id: which of them does a string satisfy, found from the string
    instead of trying every condition.

        one of a list     a dict from each listed string to the conditions that list it
        LIKE 'abc%...'    a dict from the first characters, one per length in use; then the whole pattern is tried
        LIKE '...%xyz'    the same from the last characters
        LIKE '%middle%'   a dict from the first GRAM_CHARS characters of the longest literal, where every stretch of so
                          many characters of the string is looked up; where there are few, each is looked for instead
        the rest          order ranges and patterns with no long literal ('%a%', '_') are tried one by one

    A pattern is *anchored* in the first of these tables that suits it, so for one string only patterns that share the
    anchor are tried.
    """

    def __init__(self) -> None:
        self.listed: dict[str, list[int]] = {}
        self.beginnings: dict[int, dict[str, dict[int, Test]]] = {}
        self.endings: dict[int, dict[str, dict[int, Test]]] = {}
        self.grams: dict[str, dict[int, Test]] = {}
        self.scanned: dict[int, Test] = {}

    def is_empty(self) -> bool:
        return not (self.listed or self.beginnings or self.endings or self.grams or self.scanned)

    def find(self, text: str, verdicts: Verdicts | None = None) -> list[int]:
        """The atoms that `text` satisfies, in an order that depends only on the history of additions. `verdicts` are
        those that are known."""
        found = list(self.listed.get(text, ()))
        for length, by_beginning in self.beginnings.items():
            try_all(by_beginning.get(text[:length]), text, found, verdicts)
        for length, by_ending in self.endings.items():
            try_all(by_ending.get(text[-length:]), text, found, verdicts)
        for gram in self.grams_in(text) if self.grams else ():
            try_all(self.grams[gram], text, found, verdicts)
        try_all(self.scanned, text, found, verdicts)
        return found

    def grams_in(self, text: str) -> Iterable[str]:
        """Those in use that stand in the text."""
        if len(self.grams) <= FEW_GRAMS and len(text) > SHORT_TEXT_CHARS:
            return [gram for gram in self.grams if gram in text]
        stretches = {text[at : at + GRAM_CHARS]: None for at in range(len(text) - GRAM_CHARS + 1)}
        return filter(self.grams.__contains__, stretches)

    def candidates(self, text: str) -> Iterator[Test]:
        """What may be tried on the text; as `find` does, where nothing is listed."""
        for length, by_beginning in self.beginnings.items():
            yield from by_beginning.get(text[:length], {}).values()
        for length, by_ending in self.endings.items():
            yield from by_ending.get(text[-length:], {}).values()
        for gram in self.grams_in(text) if self.grams else ():
            yield from self.grams[gram].values()
        yield from self.scanned.values()

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


def try_all(tests: dict[int, Test] | None, text: str, found: list[int], verdicts: Verdicts | None) -> None:
    if not tests:
        return
    for atom, test in tests.items():
        if verdicts is not None and test in verdicts:
            if verdicts[test]:
                found.append(atom)
        elif test(text):
            found.append(atom)


def remove_from(table: dict[str, dict[int, Test]], anchor: str, atom: int) -> None:
    del table[anchor][atom]
    if not table[anchor]:
        del table[anchor]


ALWAYS = 0

DIMENSIONS_MAX = 1024
"""Attributes read as numbers by intervals. Filters on further ones are found by what else they ask, and asked whole."""

ATOMS_MAX = 2**30

JOURNAL_TEXTS_MAX = 128
"""Strings of one attribute in the journal; beyond that it says that all values are concerned. Whoever matches the next
event reads them again, 30 us each, and did not ask for them."""

Kind = Literal["exists", "truth", "numbers", "texts", "like", "range"]
Reading = tuple[Number | None, tuple[int, ...]]
"""A value read as a number, where a dimension needs it, and the atoms that it satisfies."""


class Atom(NamedTuple):
    """Whose condition an atom is, and which."""

    attribute: "AttributeTable"
    kind: Kind
    operand: object


class AttributeTable(msgspec.Struct, eq=False):
    """What the filters of one index ask of one attribute."""

    name: str
    memo_strings: int
    journal: "Journal"
    dimension: int = -1
    text_rank: int = -1
    atoms_count: int = 0
    exists: int = ALWAYS
    ids: dict[tuple[Kind, object], int] = {}
    text_ids: dict[tuple[str, ...], int] = {}
    truths: dict[bool, int] = {}
    numbers: dict[Number, list[int]] = {}
    texts: TextAtoms = msgspec.field(default_factory=TextAtoms)
    memo: dict[str, Reading] = {}
    long_memo: dict[str, Reading] = {}
    searched: str = ""
    verdicts: Verdicts = {}
    """What was found out about this string; it stays right when filters come and go."""

    def read(self, value: Value) -> Reading:
        if type(value) is str:
            reading = self.memo.get(value) or self.long_memo.get(value)
            if reading is not None:
                return reading
        number: Number | None = None
        if self.dimension >= 0:
            number = value if type(value) is float or type(value) is int else number_of(value)
        reading = number, self.atoms_of(value) if self.atoms_count else ()
        if type(value) is str:
            if len(value) > LONG_TEXT_CHARS:
                memo, count_max = self.long_memo, LONG_TEXTS_MAX
            else:
                memo, count_max = self.memo, self.memo_strings
            if len(memo) >= count_max:
                memo.clear()
            memo[value] = reading
            if self.verdicts and value == self.searched:
                self.searched, self.verdicts = "", {}
        return reading

    def atoms_of(self, value: Value) -> tuple[int, ...]:
        found = [] if self.exists == ALWAYS else [self.exists]
        if self.numbers:
            number = number_of(value)
            if number is not None:
                found += self.numbers.get(number, ())
        if self.truths:
            truth = truth_of(value)
            if truth in self.truths:
                found.append(self.truths[truth])
        if not self.texts.is_empty():
            text = text_of(value)
            found += self.texts.find(text, self.verdicts if self.verdicts and text == self.searched else None)
        return tuple(found)

    def search(self, text: str, until: int) -> bool:
        """Try what filters ask of a string until so much work is counted; whether all has been tried."""
        if text in self.memo or text in self.long_memo or self.texts.is_empty():
            return True
        if text != self.searched:
            self.searched, self.verdicts = text, {}
        for test in self.texts.candidates(text):
            if test not in self.verdicts:
                if WORK.units >= until:
                    return False
                self.verdicts[test] = test(text)
        return True

    def is_light(self, text: str, until: int) -> bool:
        """Whether all could be tried before so much work is counted; nothing is remembered."""
        if text in self.memo or text in self.long_memo or self.texts.is_empty():
            return True
        for test in self.texts.candidates(text):
            if WORK.units >= until:
                return False
            test(text)
        return True

    def forget(self, texts: Iterable[str] | None = None) -> None:
        """Atoms changed: what was remembered about these strings (all strings) no longer holds."""
        if texts is None:
            self.memo.clear()
            self.long_memo.clear()
            self.journal[self] = None
            return
        noted = self.journal.setdefault(self, {})
        for text in texts:
            self.memo.pop(text, None)
            self.long_memo.pop(text, None)
            if noted is not None:
                noted[text] = None
        if noted is not None and len(noted) > JOURNAL_TEXTS_MAX:
            self.journal[self] = None


Journal = dict[AttributeTable, dict[str, None] | None]
"""Attributes whose atoms changed, and the strings that it concerns; None for all values."""


class Vocabulary:
    """All attributes, dimensions and atoms of one index."""

    def __init__(self, memo_strings: int) -> None:
        self.memo_strings = memo_strings
        self.attributes: dict[str, AttributeTable] = {}
        self.dimensions: list[AttributeTable] = []
        self.text_ranks = 0
        self.atoms: list[Atom | None] = [None]
        self.references: list[int] = [1]
        self.free: list[int] = []
        self.journal: Journal = {}
        """What changed since somebody who keeps readings (`lexicon.py`) last looked."""
        self.weight = SearchWeight()
        """Of all patterns."""
        self.fresh: list[int] = []
        """Atoms made since an engine last looked; an engine that keeps a table of atoms takes them from here."""

    def attribute(self, name: str) -> AttributeTable:
        found = self.attributes.get(name)
        if found is None:
            found = self.attributes[name] = AttributeTable(name, self.memo_strings, self.journal)
        return found

    def dimension_of(self, attribute: AttributeTable) -> int:
        """The dimension of an attribute, made now if it has none; -1 when there are too many."""
        if attribute.dimension < 0 and len(self.dimensions) < DIMENSIONS_MAX:
            attribute.dimension = len(self.dimensions)
            self.dimensions.append(attribute)
            attribute.forget()
        return attribute.dimension

    def texts_atom(self, attribute: AttributeTable, texts: tuple[str, ...]) -> int:
        """The atom "text is one of `texts`", with one more reference."""
        atom = attribute.text_ids.get(texts)
        if atom is None:
            atom = attribute.text_ids[texts] = self.make(attribute, "texts", texts)
            if len(texts) == 1 and attribute.text_rank < 0:
                attribute.text_rank = self.text_ranks
                self.text_ranks += 1
            attribute.texts.add_listed(atom, texts)
            attribute.forget(texts)
        self.references[atom] += 1
        return atom

    def atom(self, attribute: AttributeTable, kind: Kind, operand: object = None) -> int:
        """The atom of any other kind, with one more reference."""
        atom = attribute.ids.get((kind, operand))
        if atom is None:
            atom = attribute.ids[kind, operand] = self.make(attribute, kind, operand)
            attribute.forget()
            match kind, operand:
                case "exists", _:
                    attribute.exists = atom
                case "truth", bool(truth):
                    attribute.truths[truth] = atom
                case "numbers", tuple(numbers):
                    for number in numbers:
                        attribute.numbers.setdefault(number, []).append(atom)
                case "like", str(pattern):
                    attribute.texts.add_pattern(atom, pattern)
                    self.weight = self.weight.plus(search_weight(pattern))
                case "range", (str(low), str() | None as high):
                    attribute.texts.add_range(atom, low, high)
        self.references[atom] += 1
        return atom

    def make(self, attribute: AttributeTable, kind: Kind, operand: object) -> int:
        atom = Atom(attribute, kind, operand)
        attribute.atoms_count += 1
        if self.free:
            number = self.free.pop()
            self.atoms[number] = atom
        else:
            number = len(self.atoms)
            if number > ATOMS_MAX:
                raise UsageError(f"filter: the index holds {ATOMS_MAX} different conditions and takes no more")
            self.atoms.append(atom)
            self.references.append(0)
        self.fresh.append(number)
        return number

    def release(self, number: int) -> None:
        """One reference less; the last one takes the atom out."""
        self.references[number] -= 1
        if self.references[number]:
            return
        atom = self.atoms[number]
        assert atom is not None
        self.atoms[number] = None
        self.free.append(number)
        attribute, kind, operand = atom
        attribute.atoms_count -= 1
        match kind, operand:
            case "texts", tuple(texts):
                del attribute.text_ids[texts]
                attribute.texts.remove_listed(number, texts)
                attribute.forget(texts)
                return
            case "exists", _:
                attribute.exists = ALWAYS
            case "truth", bool(truth):
                del attribute.truths[truth]
            case "numbers", tuple(numbers):
                self.remove_numbers(attribute, number, numbers)
            case "like", str(pattern):
                attribute.texts.remove_pattern(number, pattern)
                self.weight = self.weight.minus(search_weight(pattern))
            case "range", _:
                attribute.texts.remove_range(number)
        del attribute.ids[kind, operand]
        attribute.forget()

    def remove_numbers(self, attribute: AttributeTable, atom: int, numbers: tuple[Number, ...]) -> None:
        for number in numbers:
            atoms = attribute.numbers[number]
            atoms.remove(atom)
            if not atoms:
                del attribute.numbers[number]

    def row_of(self, number: int) -> tuple[int, int] | None:
        """For "text is exactly ...": the rank of its attribute among those with such atoms, a number to spread by."""
        atom = self.atoms[number]
        if atom is None or atom.kind != "texts" or len(atom.operand) != 1:  # type: ignore[arg-type]
            return None
        return atom.attribute.text_rank, number

    def check(self) -> None:
        """Assert that every atom is referenced and found by its own operand, and that nothing else is."""
        for number, atom in enumerate(self.atoms[1:], 1):
            assert (atom is None) == (self.references[number] == 0), f"atom {number} and its references disagree"
            if atom is not None:
                known = atom.attribute.text_ids if atom.kind == "texts" else atom.attribute.ids
                key = atom.operand if atom.kind == "texts" else (atom.kind, atom.operand)
                assert known[key] == number, f"atom {number} is not where its condition says"  # type: ignore[index]
        assert sorted(self.free) == [n for n, atom in enumerate(self.atoms) if atom is None and n]
