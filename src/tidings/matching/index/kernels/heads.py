"""The entry point that reads encoded events: MessagePack maps become numbers and atoms without a Python object between.

A *head* is the map of an event's attributes as it came off the wire. The scan goes through the maps of a whole batch,
and whatever it needs to know stands in the lexicon (`tables.py`).

A name or value that has to be looked up and is not there is *missing*: it is noted, and Python adds it before the head
is read again. Everything that is unusual (integers beyond 2**53, a name that occurs twice, a nil, a wrong length) makes
a head *asked about*: Python decodes it and decides. So the scan accepts only what is plainly right, and never refuses.
"""

from typing import Any, NamedTuple

import numpy as np

from tidings.matching.index.kernels.layout import Array, Integer, compiled, inner, integer, load
from tidings.matching.index.kernels.letters import (
    bits_of,
    byte_at,
    double_of,
    first_word,
    is_text,
    is_usual_time,
    may_read_otherwise,
    open_map,
    open_string,
    read_number,
)
from tidings.matching.index.kernels.tables import (
    ANY_VALUE,
    CODE,
    COLUMNS,
    DIMENSION,
    EXISTS,
    NAME_ATTRIBUTE,
    NAME_CONTEXT,
    NAME_MARK,
    NO_ATTRIBUTE,
    NUMBER_BYTES,
    NUMBERS,
    OPEN,
    STRINGS,
    TIME_VALUE,
    TRUTH_BYTES,
    UNREAD,
    VALUE_ATOMS,
    VALUE_ATOMS_AT,
    VALUE_NUMBER,
    Lexicon,
    find_name,
    find_value,
)
from tidings.matching.index.vocabulary import ALWAYS

READY, ASKED, MISSING = 0, 1, 2
"""What became of a head."""

# Columns of what is missing: MISSING_NAME or the number of an attribute, and which bytes of the buffer.
MISSING_KIND, MISSING_AT, MISSING_LENGTH, MISSING_COLUMNS = range(4)
MISSING_NAME = -1

NAME_BYTES_MAX = 128
STRING_BYTES_MAX = 256
"""Longer strings are never looked up: where one has to be, it is missing."""

FALSE_MARK = 0xC2


class KernelReader(NamedTuple):
    """Where the scan writes: a row of numbers a head, atoms one behind the other, and what is missing."""

    lows: Any
    atoms: Any
    offsets: Any
    states: Any
    missing: Any


@inner
def note_missing(
    reader: KernelReader, row: Integer, count: Integer, kind: Integer, at: Integer, length: Integer
) -> Any:
    """Write down what Python has to look at; more than fits is asked about head by head."""
    if count == reader.missing.shape[0]:
        reader.states[row] = ASKED
        return count
    reader.missing[count, MISSING_KIND] = kind
    reader.missing[count, MISSING_AT] = at
    reader.missing[count, MISSING_LENGTH] = length
    if reader.states[row] == READY:
        reader.states[row] = MISSING
    return count + 1


@inner
def take_value(
    lexicon: Lexicon, reader: KernelReader, row: Integer, attribute: Integer, place: Integer, used: Integer
) -> Any:
    """What a value found in the lexicon reads as."""
    dimension = load(lexicon.attributes, attribute * COLUMNS + DIMENSION)
    if dimension >= 0:
        reader.lows[row, dimension] = double_of(load(lexicon.values, place * COLUMNS + VALUE_NUMBER))
    begin, count = (
        load(lexicon.values, place * COLUMNS + VALUE_ATOMS_AT),
        load(lexicon.values, place * COLUMNS + VALUE_ATOMS),
    )
    # Where there is no room they are counted only: the caller sees that `used` is beyond the end, and reads all heads
    # again with more.
    if used + count < reader.atoms.size:
        for i in range(count):
            reader.atoms[used + i] = lexicon.atoms[begin + i]
    return used + count


@inner
def take_exists(lexicon: Lexicon, reader: KernelReader, attribute: Integer, used: Integer) -> Any:
    """A value that satisfies nothing but that there is one."""
    atom = load(lexicon.attributes, attribute * COLUMNS + EXISTS)
    if atom != 0:
        if used < reader.atoms.size:
            reader.atoms[used] = atom
        return used + 1
    return used


@inner
def read_name(
    lexicon: Lexicon,
    data: Array,
    at: Integer,
    end: Integer,
    mark: Integer,
    reader: KernelReader,
    row: Integer,
    missing: Integer,
) -> Any:
    """Where the value begins (-1: the head is to be asked about), the attribute, what its value has to be, and how much
    is missing now."""
    nothing = integer(NO_ATTRIBUTE)
    begin, length = open_string(data, at, end)
    if not 1 <= length <= NAME_BYTES_MAX:
        return integer(-1), nothing, integer(ANY_VALUE), missing
    name = find_name(lexicon, data, begin, length)
    if name < 0:
        missing = note_missing(reader, row, missing, integer(MISSING_NAME), begin, length)
        return begin + length, nothing, integer(ANY_VALUE), missing
    # Each head has a mark of its own, so a name that bears it already stands in this head twice.
    if load(lexicon.names, name * COLUMNS + NAME_MARK) == mark:
        return integer(-1), nothing, integer(ANY_VALUE), missing
    lexicon.names[name * COLUMNS + NAME_MARK] = mark
    return (
        begin + length,
        load(lexicon.names, name * COLUMNS + NAME_ATTRIBUTE),
        load(lexicon.names, name * COLUMNS + NAME_CONTEXT),
        missing,
    )


@inner
def read_string(
    lexicon: Lexicon,
    data: Array,
    at: Integer,
    begin: Integer,
    length: Integer,
    attribute: Integer,
    context: Integer,
    reader: KernelReader,
    row: Integer,
    used: Integer,
    missing: Integer,
) -> Any:
    """The string value whose mark is at `at` and whose bytes begin at `begin`: where it ends (-1: the head is to be
    asked about), how many atoms there are and how much is missing."""
    # Three ways: what is listed reads as listed; what is not, and may mean something, is missing; the rest is a string
    # that satisfies no more than that it is there. It must be text all the same. What is listed was seen to be text
    # before.
    if context != ANY_VALUE and length == 0:
        return integer(-1), used, missing
    if context == TIME_VALUE and not is_usual_time(data, begin, length):
        return integer(-1), used, missing
    strings = load(lexicon.attributes, attribute * COLUMNS + STRINGS) if attribute >= 0 else integer(UNREAD)
    if strings != UNREAD:
        if length <= STRING_BYTES_MAX:
            word = first_word(data, begin, length)
            place = find_value(lexicon, load(lexicon.attributes, attribute * COLUMNS + CODE), word, data, begin, length)
            if place >= 0:
                return begin + length, take_value(lexicon, reader, row, attribute, place, used), missing
        if strings == OPEN or length > STRING_BYTES_MAX or may_read_otherwise(data, begin, length):
            missing = note_missing(reader, row, missing, attribute, at, begin + length - at)
            return begin + length, used, missing
    if not is_text(data, begin, length):
        return integer(-1), used, missing
    if attribute >= 0:
        used = take_exists(lexicon, reader, attribute, used)
    return begin + length, used, missing


@inner
def read_truth(
    lexicon: Lexicon,
    data: Array,
    at: Integer,
    attribute: Integer,
    reader: KernelReader,
    row: Integer,
    used: Integer,
    missing: Integer,
) -> Any:
    """The same for TRUE and FALSE, without the end."""
    if attribute >= 0:
        truth, code = byte_at(data, at) - FALSE_MARK, load(lexicon.attributes, attribute * COLUMNS + CODE)
        place = find_value(lexicon, code, truth, data, at, integer(TRUTH_BYTES))
        if place >= 0:
            return take_value(lexicon, reader, row, attribute, place, used), missing
        missing = note_missing(reader, row, missing, attribute, at, integer(1))
    return used, missing


@inner
def take_number(
    lexicon: Lexicon,
    data: Array,
    at: Integer,
    after: Integer,
    number: Any,
    attribute: Integer,
    reader: KernelReader,
    row: Integer,
    used: Integer,
    missing: Integer,
) -> Any:
    """The same for a number that was read."""
    if attribute < 0:
        return used, missing
    numbers, dimension = (
        load(lexicon.attributes, attribute * COLUMNS + NUMBERS),
        load(lexicon.attributes, attribute * COLUMNS + DIMENSION),
    )
    if numbers != UNREAD:
        code = load(lexicon.attributes, attribute * COLUMNS + CODE)
        # Adding 0.0 makes 0.0 of -0.0, which is equal and has other bits.
        place = find_value(lexicon, code, bits_of(number + 0.0), data, at, integer(NUMBER_BYTES))
        if place >= 0:
            return take_value(lexicon, reader, row, attribute, place, used), missing
        if numbers == OPEN:
            return used, note_missing(reader, row, missing, attribute, at, after - at)
    if dimension >= 0:
        reader.lows[row, dimension] = number
    return take_exists(lexicon, reader, attribute, used), missing


@inner
def read_head(
    lexicon: Lexicon,
    data: Array,
    at: Integer,
    end: Integer,
    mark: Integer,
    reader: KernelReader,
    row: Integer,
    used: Integer,
    missing: Integer,
) -> Any:
    """One map. How many atoms there are then, and how much is missing; `used` may go beyond what there is room for."""
    at, count = open_map(data, at, end)
    # `at` is where the next name or value begins; -1 once anything is unusual. A head is READY only if exactly its end
    # is reached.
    for _ in range(count):
        at, attribute, context, missing = read_name(lexicon, data, at, end, mark, reader, row, missing)
        if at < 0 or at >= end:
            at = integer(-1)
            break
        begin, length = open_string(data, at, end)
        if length >= 0:
            at, used, missing = read_string(
                lexicon, data, at, begin, length, attribute, context, reader, row, used, missing
            )
        elif context != ANY_VALUE:
            at = integer(-1)
        elif byte_at(data, at) == FALSE_MARK or byte_at(data, at) == FALSE_MARK + 1:
            used, missing = read_truth(lexicon, data, at, attribute, reader, row, used, missing)
            at += 1
        else:
            number, after = read_number(data, at, end)
            if after >= 0:
                used, missing = take_number(lexicon, data, at, after, number, attribute, reader, row, used, missing)
            at = after
        if at < 0:
            break
    if count < 0 or at != end:
        reader.states[row] = ASKED
    return used, missing


@compiled
def read_heads(lexicon: Lexicon, data: Array, ends: Array, mark: Integer, reader: KernelReader) -> Any:
    """All heads of a buffer. How many atoms they have (if more than there is room for, the answer is no good), and how
    much is missing. `mark` is larger than in all calls before by as much as those had heads."""
    used, missing, begin = integer(0), integer(0), integer(0)
    for row in range(ends.size):
        reader.offsets[row] = used
        reader.states[row] = READY
        for dimension in range(reader.lows.shape[1]):
            reader.lows[row, dimension] = np.nan
        if used < reader.atoms.size:
            reader.atoms[used] = ALWAYS
        used, missing = read_head(lexicon, data, begin, ends[row], mark + row, reader, integer(row), used + 1, missing)
        if reader.states[row] != READY:  # then it must satisfy nothing
            used = reader.offsets[row]
            for dimension in range(reader.lows.shape[1]):
                reader.lows[row, dimension] = np.nan
        begin = ends[row]
    reader.offsets[ends.size] = used
    return used, missing
