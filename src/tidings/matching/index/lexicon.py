"""What the scan of encoded events knows, and how it learns (`kernels/heads.py` explains the scan).

The vocabulary can read any value, in Python. The lexicon keeps what it said, for names and values as they stand on the
wire, so that compiled code finds it. It is filled on demand: what the scan misses is read here, entered, and the batch
is scanned again. So a lexicon never has to be complete, and whatever is in doubt may be left out: those heads are
decoded and matched as events.

On demand alone, an attribute that has ever new values would cost Python for each of them. Once an attribute was asked
for as many missing values as filters list, all that is listed is entered and the attribute is *closed*: what is not
found then satisfies nothing (but that there is a value). Attributes with patterns or ranges of strings stay open.

When filters come and go, the vocabulary's journal says which attributes and strings are concerned. A string is read
again; an attribute as a whole gets a new *code*, under which nothing is entered yet. Entries of old codes stay until
the tables are begun anew, which happens when they are mostly outdated or on demand; so their size follows the filters.
"""

import math
import struct
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import msgspec
import numpy as np

from tidings.matching.index.kernels import tables
from tidings.matching.index.kernels.heads import (
    MISSING_COLUMNS,
    MISSING_NAME,
    STRING_BYTES_MAX,
    KernelReader,
    read_heads,
)
from tidings.matching.index.kernels.layout import IndexBatch
from tidings.matching.index.kernels.letters import PADDING as PADDING_BYTES
from tidings.matching.index.kernels.tables import Lexicon
from tidings.matching.index.vocabulary import ALWAYS, AttributeTable, Vocabulary
from tidings.model.event import CONTEXT_NAMES
from tidings.model.values import Number, Value, check_name, number_from_text

NAMES_MAX = 1 << 10
"""Names remembered that no filter asks for."""

PLACES_MIN = 64
"""Places of the smallest table; half of them may be taken."""

MISSING_MAX = 1 << 12
"""Names and values that one scan may miss; the heads of further ones are decoded."""

CLOSED_AT_ONCE = 64
"""An attribute with no more listed values than this is closed when it is first seen."""

PADDING = bytes(PADDING_BYTES)
decode_value = msgspec.msgpack.Decoder(Value).decode


class Line:
    """One attribute in the lexicon: how often something was missing, what was listed when it was closed (-1: it is
    open), and whether closing it failed."""

    __slots__ = ("attribute", "listed", "misses", "stays_open")

    def __init__(self, attribute: AttributeTable) -> None:
        self.attribute = attribute
        self.misses, self.listed, self.stays_open = 0, -1, False


class HeadReader:
    """Encoded events in, arrays for the search out."""

    def __init__(self, vocabulary: Vocabulary, entries_on_demand: int) -> None:
        self.vocabulary, self.entries_on_demand = vocabulary, entries_on_demand
        self.lines: list[Line] = []
        self.numbers: dict[AttributeTable, int] = {}
        self.next_code = self.next_mark = 1
        self.listed = self.entries_wanted = 0
        self.missing: Any = np.empty((MISSING_MAX, MISSING_COLUMNS), np.int64)
        self.atoms: Any = np.empty(1 << 12, np.int32)
        self.lexicon: Lexicon
        self.attributes: Any = None
        """The table of attributes, line by line."""
        self.places: int
        self.names_followed: int
        self.names_on_demand: int
        self.entries: int
        self.letters_top: int
        self.atoms_top: int
        self.begin_anew()

    # --------------------------------------------------------------------------------------------------------- reading

    def read(self, heads: Sequence[bytes]) -> tuple[IndexBatch, list[int]]:
        """The batch, and the numbers of the heads that have to be decoded instead."""
        self.follow_vocabulary()
        joined = b"".join((*heads, PADDING))
        data = np.frombuffer(joined, np.uint8)
        ends = np.fromiter(map(len, heads), np.int64, len(heads)).cumsum()
        batch, states, missing = self.scan(data, ends)
        if missing:
            self.learn(joined, missing)
            batch, states, missing = self.scan(data, ends)
        if self.is_full():
            self.begin_anew()
        return batch, np.flatnonzero(states).tolist() if states.any() else []

    def scan(self, data: Any, ends: Any) -> tuple[IndexBatch, Any, int]:
        count = len(ends)
        lows = np.empty((count, len(self.vocabulary.dimensions)))
        offsets, states = np.empty(count + 1, np.int64), np.empty(count, np.int8)
        while True:
            reader = KernelReader(lows, self.atoms, offsets, states, self.missing)
            used, missing = read_heads(self.lexicon, data, ends, self.next_mark, reader)
            self.next_mark += count
            if used <= len(self.atoms):
                return IndexBatch(lows, lows, self.atoms, offsets), states, missing
            self.atoms = np.empty(2 * used, np.int32)

    # -------------------------------------------------------------------------------------------------------- learning

    def learn(self, data: bytes, missing: int) -> None:
        noted = self.missing[:missing].tolist()
        for kind, piece in dict.fromkeys([(kind, data[at : at + length]) for kind, at, length in noted]):
            if kind == MISSING_NAME:
                self.learn_name(piece)
            else:
                self.learn_value(self.lines[kind], piece)

    def learn_name(self, piece: bytes) -> None:
        try:
            name = check_name(piece.decode("ascii"))
        except ValueError:
            return
        self.names_on_demand += 1
        self.put_name(name)

    def learn_value(self, line: Line, piece: bytes) -> None:
        line.misses += 1
        try:
            value = decode_value(piece)
        except ValueError:
            return
        self.put_value(line, value)
        if line.listed < 0:
            self.close(line)

    def close(self, line: Line) -> None:
        """Enter everything that filters list for an attribute, if it is time, and if that is then everything."""
        texts, numbers = line.attribute.texts, line.attribute.numbers
        listed = len(texts.listed) + len(numbers)
        is_early = listed > CLOSED_AT_ONCE and listed > line.misses
        if line.stays_open or is_early or texts.beginnings or texts.endings or texts.grams or texts.scanned:
            return
        if 2 * (self.entries + 2 * listed) > self.places:
            self.entries_wanted = self.entries + 2 * listed
        elif self.put_values(line, [*texts.listed, *numbers]):
            line.listed = listed
            self.listed += listed
            self.set_line(line)
        else:
            line.stays_open = True

    def put_values(self, line: Line, values: Iterable[Value]) -> bool:
        """Enter these, and the numbers that read like the strings among them."""
        also = [number_from_text(value) for value in values if type(value) is str]
        wanted = dict.fromkeys([*values, *[number for number in also if number is not None]])
        return False not in [self.put_value(line, value) for value in wanted]

    # -------------------------------------------------------------------------------------------------------- entering

    def put_name(self, name: str) -> None:
        piece = name.encode()
        attribute = self.vocabulary.attributes.get(name)
        number = tables.NO_ATTRIBUTE if attribute is None else self.number_of(attribute)
        context = tables.ANY_VALUE
        if name in CONTEXT_NAMES:
            context = tables.TIME_VALUE if name == "time" else tables.TEXT_VALUE
        at = self.put_letters(piece)
        tables.put_name(self.lexicon, padded(piece), len(piece), at, number, context)

    def number_of(self, attribute: AttributeTable) -> int:
        number = self.numbers.get(attribute)
        if number is None:
            number = self.numbers[attribute] = len(self.lines)
            self.lines.append(Line(attribute))
            self.renew(self.lines[number])
        return number

    def put_value(self, line: Line, value: Value) -> bool:
        """Enter what a value reads as. False if there is no place; what the scan cannot use is left out."""
        number, atoms = line.attribute.read(value)
        key = key_of(value)
        if key is None or (number is not None and float(number) != number):
            return True
        if 2 * self.entries >= self.places:
            return False
        self.entries += 1
        piece, word, length = key
        self.make_room_for_atoms(len(atoms))
        at, top = self.put_letters(piece), self.atoms_top
        self.lexicon.atoms[top : top + len(atoms)] = atoms
        self.atoms_top += len(atoms)
        code = int(self.attributes[self.numbers[line.attribute], tables.CODE])
        reading = math.nan if number is None else float(number)
        is_in: bool = tables.put_value(self.lexicon, code, word, padded(piece), length, at, reading, top, len(atoms))
        return is_in

    def put_letters(self, piece: bytes) -> int:
        letters, at = self.lexicon.letters, self.letters_top
        if at + len(piece) + PADDING_BYTES > len(letters):
            grown = np.zeros(2 * (at + len(piece) + PADDING_BYTES), np.uint8)
            grown[:at] = letters[:at]
            self.lexicon = self.lexicon._replace(letters=grown)
        self.lexicon.letters[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
        self.letters_top += len(piece)
        return at

    def make_room_for_atoms(self, count: int) -> None:
        atoms = self.lexicon.atoms
        if self.atoms_top + count > len(atoms):
            grown = np.empty(2 * (self.atoms_top + count), np.int32)
            grown[: len(atoms)] = atoms
            self.lexicon = self.lexicon._replace(atoms=grown)

    # ---------------------------------------------------------------------------------------------------------- keeping

    def follow_vocabulary(self) -> None:
        """Take over what changed since the last time."""
        attributes, journal = self.vocabulary.attributes, self.vocabulary.journal
        if len(attributes) > self.names_followed:
            for name in list(islice(attributes, self.names_followed, None)):
                self.put_name(name)
            self.names_followed = len(attributes)
        if not journal:
            return
        for attribute, texts in journal.items():
            line = self.lines[self.number_of(attribute)]
            is_same = texts is not None and self.modes(line) == self.modes_now(line)
            if not is_same or not self.put_values(line, texts or ()):
                # It is closed again when it was asked for as much as that costs.
                line.misses = 0
                self.renew(line)
        journal.clear()

    def renew(self, line: Line) -> None:
        """Nothing that was entered for an attribute holds any longer."""
        self.listed -= max(line.listed, 0)
        line.listed, line.stays_open = -1, False
        number = self.numbers[line.attribute]
        if number >= len(self.attributes):
            grown = np.zeros((2 * number + 1, tables.COLUMNS), np.int64)
            grown[:number] = self.attributes
            self.attributes = grown
            self.lexicon = self.lexicon._replace(attributes=grown.reshape(-1))
        self.attributes[number, tables.CODE] = self.next_code
        self.next_code += 1
        self.set_line(line)

    def set_line(self, line: Line) -> None:
        attribute = line.attribute
        row = self.attributes[self.numbers[attribute]]
        row[tables.DIMENSION] = attribute.dimension
        row[tables.EXISTS] = 0 if attribute.exists == ALWAYS else attribute.exists
        row[tables.STRINGS], row[tables.NUMBERS] = self.modes_now(line)

    def modes(self, line: Line) -> tuple[int, int]:
        row = self.attributes[self.numbers[line.attribute]]
        return int(row[tables.STRINGS]), int(row[tables.NUMBERS])

    def modes_now(self, line: Line) -> tuple[int, int]:
        """How strings and how numbers of an attribute have to be read."""
        attribute = line.attribute
        looked_up = tables.OPEN if line.listed < 0 else tables.CLOSED
        has_texts = not attribute.texts.is_empty()
        numbers = looked_up if attribute.numbers or has_texts else tables.UNREAD
        reads_strings = numbers != tables.UNREAD or attribute.truths or attribute.dimension >= 0
        return looked_up if reads_strings else tables.UNREAD, numbers

    def is_full(self) -> bool:
        """Is most of it outdated, or was something left out for want of room?"""
        names = self.names_followed + self.names_on_demand
        return (
            self.names_on_demand > NAMES_MAX
            or 2 * names * tables.COLUMNS > len(self.lexicon.names)
            or self.entries > self.entries_on_demand + 2 * self.listed
            or self.entries_wanted > 0
        )

    def begin_anew(self) -> None:
        """Empty tables with room for what is closed now. Misses are still known, so that it soon is closed again."""
        self.places = places_for(max(self.entries_on_demand + 2 * self.listed, self.entries_wanted))
        names_places = places_for(NAMES_MAX + 2 * len(self.vocabulary.attributes))
        self.attributes = np.zeros((max(len(self.lines), 8), tables.COLUMNS), np.int64)
        self.lexicon = Lexicon(
            names=np.zeros(names_places * tables.COLUMNS, np.int64),
            attributes=self.attributes.reshape(-1),
            values=np.zeros(self.places * tables.COLUMNS, np.int64),
            letters=np.zeros(1 << 12, np.uint8),
            atoms=np.empty(1 << 10, np.int32),
        )
        self.names_followed = self.names_on_demand = self.entries = self.letters_top = self.atoms_top = 0
        self.entries_wanted = 0
        for line in self.lines:
            self.renew(line)


def places_for(entries: int) -> int:
    """A power of two of which these entries take half at the most."""
    return max(1 << (2 * entries - 1).bit_length(), PLACES_MIN)


def key_of(value: Value) -> tuple[bytes, int, int] | None:
    """How a value is looked up: its letters, its word if it is no string, and its length. None if it never is."""
    if type(value) is str:
        piece = value.encode()
        return (piece, 0, len(piece)) if len(piece) <= STRING_BYTES_MAX else None
    if type(value) is bool:
        return b"", int(value), tables.TRUTH_BYTES
    return (b"", bits_of(value), tables.NUMBER_BYTES) if float(value) == value else None


def padded(piece: bytes) -> Any:
    return np.frombuffer(piece + PADDING, np.uint8)


def bits_of(number: Number) -> int:
    """A number as the bits of a double, in which there is one zero."""
    bits: int = struct.unpack("<q", struct.pack("<d", float(number) + 0.0))[0]
    return bits
