"""The entry points that read encoded events: MessagePack maps become numbers and atoms without a Python object between.

A *head* is the map of an event's attributes as it came off the wire. The scan goes through the maps of a whole batch,
and whatever it needs to know stands in the *lexicon*, tables made of what Python has already judged (`heads.py` one
folder up):

    names       every attribute name that has been seen and is well formed, with the number of its attribute if filters
                ask for it, and whether CloudEvents wants a string there
    attributes  how the values of an attribute are to be read: as a number, looked up among the values, or not at all
    values      what strings, numbers and truths read as: a number and a list of atoms

A name or value that has to be looked up and is not there is *missing*: it is noted, and Python adds it before the head
is read again. Everything that is unusual (integers beyond 2**53, a name that occurs twice, a nil, a wrong length) makes
a head *asked about*: Python decodes it and decides. So the scan accepts only what is plainly right, and never refuses.

Tables are open: an entry lies at its hash or at most PROBES_MAX - 1 places behind. The byte strings are compared eight
bytes at a time; the buffer ends with eight bytes more, so that a word may be loaded at its last byte.
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from tidings.matching.index.kernels.layout import Array, Integer, Truth, compiled, inner, integer, load
from tidings.matching.index.vocabulary import ALWAYS

PADDING = 8
"""Bytes behind the last head in the buffer."""

PROBES_MAX = 32

COLUMNS = 8
"""Words of a line in each of the three tables: a cache line."""

READY, ASKED, MISSING = 0, 1, 2
"""What became of a head."""

# Columns of `names`; a length of 0 is a free place. MARK is the head in which the name stood last.
NAME_LENGTH, NAME_WORD, NAME_AT, NAME_ATTRIBUTE, NAME_CONTEXT, NAME_MARK = range(6)
NO_ATTRIBUTE = -1
ANY_VALUE, TEXT_VALUE, TIME_VALUE = 0, 1, 2

# Columns of `attributes`, and how strings and numbers are read: not at all, by looking up where a value that is not
# listed satisfies nothing, or by looking up where it may satisfy something.
CODE, DIMENSION, EXISTS, STRINGS, NUMBERS = range(5)
UNREAD, CLOSED, OPEN = 0, 1, 2

# Columns of `values`; a code of 0 is a free place.
VALUE_CODE, VALUE_LENGTH, VALUE_WORD, VALUE_AT, VALUE_ATOMS_AT, VALUE_ATOMS, VALUE_NUMBER = range(7)

# Columns of what is missing: MISSING_NAME or the number of an attribute, and which bytes of the buffer.
MISSING_KIND, MISSING_AT, MISSING_LENGTH, MISSING_COLUMNS = range(4)
MISSING_NAME = -1

NUMBER_BYTES, TRUTH_BYTES = -8, -1
"""Instead of a length, for values that are not strings."""

NAME_BYTES_MAX = 128
STRING_BYTES_MAX = 256
"""Longer strings are never looked up: where one has to be, it is missing."""

EXACT_MAX = 1 << 53
FALSE_MARK = 0xC2
SPREAD = -7046029254386353131
HIGH_BITS = -9187201950435737472
"""The first bit of each of the eight bytes of a word."""


class Lexicon(NamedTuple):
    """The tables as flat arrays of words."""

    names: Any
    attributes: Any
    values: Any
    letters: Any
    """The bytes of all names and strings, one after the other."""
    atoms: Any


def generate_word(context: Any, array: Any, index: Any) -> Any:
    """Eight bytes from anywhere, the first one lowest."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.bitcast(builder.gep(view.data, [arguments[1]]), ir.IntType(64).as_pointer())
        return builder.load(address, align=1)

    return types.int64(array, types.int64), generate


def generate_reversed(context: Any, word: Any) -> Any:
    """Its bytes in the other order."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bswap(arguments[0])

    return types.int64(types.int64), generate


def generate_double(context: Any, word: Any) -> Any:
    """The double with these bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


def generate_single(context: Any, word: Any) -> Any:
    """The single with the low 32 of these bits, as a double."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        half = builder.trunc(arguments[0], ir.IntType(32))
        return builder.fpext(builder.bitcast(half, ir.FloatType()), ir.DoubleType())

    return types.float64(types.int64), generate


def generate_bits(context: Any, number: Any) -> Any:
    """The bits of a double."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate


word_at: Any = intrinsic(generate_word)
reversed_bytes: Any = intrinsic(generate_reversed)
double_of: Any = intrinsic(generate_double)
single_of: Any = intrinsic(generate_single)
bits_of: Any = intrinsic(generate_bits)


# ----------------------------------------------------------------------------------------------------------- looking up


@inner
def byte_at(data: Array, at: Integer) -> Any:
    return integer(load(data, at))


@inner
def first_word(data: Array, at: Integer, length: Integer) -> Any:
    """The first eight bytes of a string, zeros behind its end."""
    word = word_at(data, at)
    return word if length >= 8 else word & ((integer(1) << (8 * length)) - 1)


@inner
def place_of(data: Array, at: Integer, length: Integer, word: Integer, seed: Integer, places: Integer) -> Any:
    """Where the search for a string begins in a table of so many places, a power of two."""
    hash = (word ^ (seed * SPREAD) ^ length) * SPREAD
    for i in range(8, length, 8):
        hash = (hash ^ (hash >> 29) ^ first_word(data, at + i, length - i)) * SPREAD
    return (hash ^ (hash >> 32)) & (places - 1)


@inner
def same_rest(data: Array, at: Integer, letters: Array, other: Integer, length: Integer) -> Truth:
    """Are the bytes from the ninth on the same?"""
    for i in range(8, length, 8):
        if first_word(data, at + i, length - i) != first_word(letters, other + i, length - i):
            return False
    return True


@inner
def find_name(lexicon: Lexicon, data: Array, at: Integer, length: Integer) -> Any:
    """The place of a name, or of the free place where it belongs as ~place; ~(all places) if there is none near."""
    names = lexicon.names
    word = first_word(data, at, length)
    place = place_of(data, at, length, word, integer(0), (names.size // COLUMNS))
    for _ in range(PROBES_MAX):
        if load(names, place * COLUMNS + NAME_LENGTH) == 0:
            return ~place
        if (
            load(names, place * COLUMNS + NAME_LENGTH) == length
            and load(names, place * COLUMNS + NAME_WORD) == word
            and same_rest(data, at, lexicon.letters, load(names, place * COLUMNS + NAME_AT), length)
        ):
            return place
        place = (place + 1) & ((names.size // COLUMNS) - 1)
    return ~(names.size // COLUMNS)


@inner
def find_value(lexicon: Lexicon, code: Integer, word: Integer, data: Array, at: Integer, length: Integer) -> Any:
    """The same for a value of the attribute with this code."""
    values = lexicon.values
    place = place_of(data, at, length, word, code, (values.size // COLUMNS))
    for _ in range(PROBES_MAX):
        if load(values, place * COLUMNS + VALUE_CODE) == 0:
            return ~place
        if (
            load(values, place * COLUMNS + VALUE_CODE) == code
            and load(values, place * COLUMNS + VALUE_LENGTH) == length
            and load(values, place * COLUMNS + VALUE_WORD) == word
            and same_rest(data, at, lexicon.letters, load(values, place * COLUMNS + VALUE_AT), length)
        ):
            return place
        place = (place + 1) & ((values.size // COLUMNS) - 1)
    return ~(values.size // COLUMNS)


@compiled
def put_name(
    lexicon: Lexicon, data: Array, length: Integer, letters_at: Integer, attribute: Integer, context: Integer
) -> Any:
    """Enter a name whose letters Python has put into place; False if there is no place near."""
    place = find_name(lexicon, data, integer(0), length)
    if place < 0:
        place = ~place
        if place == (lexicon.names.size // COLUMNS):
            return False
    lexicon.names[place * COLUMNS + NAME_LENGTH] = length
    lexicon.names[place * COLUMNS + NAME_WORD] = first_word(data, integer(0), length)
    lexicon.names[place * COLUMNS + NAME_AT] = letters_at
    lexicon.names[place * COLUMNS + NAME_ATTRIBUTE] = attribute
    lexicon.names[place * COLUMNS + NAME_CONTEXT] = context
    lexicon.names[place * COLUMNS + NAME_MARK] = -1
    return True


@compiled
def put_value(
    lexicon: Lexicon,
    code: Integer,
    word: Integer,
    data: Array,
    length: Integer,
    letters_at: Integer,
    number: Any,
    atoms_at: Integer,
    atoms: Integer,
) -> Any:
    """Enter a value, or change what it reads as. `word` counts where the value is no string."""
    if length >= 0:
        word = first_word(data, integer(0), length)
    place = find_value(lexicon, code, word, data, integer(0), length)
    if place < 0:
        place = ~place
        if place == (lexicon.values.size // COLUMNS):
            return False
        lexicon.values[place * COLUMNS + VALUE_AT] = letters_at
    lexicon.values[place * COLUMNS + VALUE_CODE] = code
    lexicon.values[place * COLUMNS + VALUE_LENGTH] = length
    lexicon.values[place * COLUMNS + VALUE_WORD] = word
    lexicon.values[place * COLUMNS + VALUE_ATOMS_AT] = atoms_at
    lexicon.values[place * COLUMNS + VALUE_ATOMS] = atoms
    lexicon.values[place * COLUMNS + VALUE_NUMBER] = bits_of(number)
    return True


# -------------------------------------------------------------------------------------------------------------- reading


@inner
def big_endian(data: Array, at: Integer, size: Integer) -> Any:
    """An unsigned integer of `size` bytes, fewer than eight; or all eight, signed."""
    word = reversed_bytes(word_at(data, at))
    return word if size == 8 else (word >> (64 - 8 * size)) & ((integer(1) << (8 * size)) - 1)


@inner
def open_string(data: Array, at: Integer, end: Integer) -> Any:
    """Where the bytes of a string begin and how many they are; -1 of them if it is no (short) string or cut off."""
    if at >= end:
        return at, integer(-1)
    mark = byte_at(data, at)
    if 0xA0 <= mark < 0xC0:
        begin, length = at + 1, mark - 0xA0
    elif mark == 0xD9:
        begin, length = at + 2, big_endian(data, at + 1, integer(1))
    elif mark == 0xDA:
        begin, length = at + 3, big_endian(data, at + 1, integer(2))
    else:
        return at, integer(-1)
    return begin, (length if begin + length <= end else integer(-1))


@inner
def open_map(data: Array, at: Integer, end: Integer) -> Any:
    """Where the first name begins, and how many there are; -1 if this is no map."""
    if at >= end:
        return at, integer(-1)
    mark = byte_at(data, at)
    if 0x80 <= mark < 0x90:
        return at + 1, mark - 0x80
    if mark == 0xDE and at + 3 <= end:
        return at + 3, big_endian(data, at + 1, integer(2))
    return at, integer(-1)


@inner
def read_number(data: Array, at: Integer, end: Integer) -> Any:
    """The number at `at` and where it ends; it ends nowhere (-1) if it is none, or none that a double holds exactly."""
    mark = byte_at(data, at)
    if mark == 0xCB:
        if at + 9 > end:
            return 0.0, integer(-1)
        number = double_of(reversed_bytes(word_at(data, at + 1)))
        return number, (at + 9 if np.isfinite(number) else integer(-1))
    if mark < 0x80:
        return float(mark), at + 1
    if mark >= 0xE0:
        return float(mark - 0x100), at + 1
    if mark == 0xCA:
        if at + 5 > end:
            return 0.0, integer(-1)
        number = single_of(big_endian(data, at + 1, integer(4)))
        return number, (at + 5 if np.isfinite(number) else integer(-1))
    if not 0xCC <= mark <= 0xD3:
        return 0.0, integer(-1)
    size = integer(1) << ((mark - 0xCC) & 3)
    if at + 1 + size > end:
        return 0.0, integer(-1)
    whole = big_endian(data, at + 1, size)
    if mark >= 0xD0:
        if size < 8 and whole >> (8 * size - 1):
            whole -= integer(1) << (8 * size)
    elif whole < 0:
        return 0.0, integer(-1)
    if not -EXACT_MAX <= whole <= EXACT_MAX:
        return 0.0, integer(-1)
    return float(whole), at + 1 + size


@inner
def is_plain(data: Array, at: Integer, length: Integer) -> Truth:
    """Only ASCII, which is what most strings are?"""
    found = integer(0)
    for i in range(0, length, 8):
        found |= first_word(data, at + i, length - i)
    return found & HIGH_BITS == 0


@inner
def is_continued(data: Array, at: Integer, end: Integer, count: Integer) -> Truth:
    """Do `count` continuation bytes stand here?"""
    if at + count > end:
        return False
    wrong = integer(0)
    for i in range(at, at + count):
        wrong |= (byte_at(data, i) & 0xC0) ^ 0x80
    return wrong == 0


@inner
def is_text(data: Array, at: Integer, length: Integer) -> Truth:
    """Is it UTF-8 (RFC 3629: shortest forms, no surrogates, nothing beyond U+10FFFF)?"""
    if is_plain(data, at, length):
        return True
    end = at + length
    while at < end:
        lead = byte_at(data, at)
        if lead < 0x80:
            at += 1
            continue
        second = byte_at(data, at + 1)
        if 0xC2 <= lead < 0xE0:
            more = integer(1)
        elif 0xE0 <= lead < 0xF0:
            more = integer(2)
            if (lead == 0xE0 and second < 0xA0) or (lead == 0xED and second >= 0xA0):
                return False
        elif 0xF0 <= lead < 0xF5:
            more = integer(3)
            if (lead == 0xF0 and second < 0x90) or (lead == 0xF4 and second >= 0x90):
                return False
        else:
            return False
        if not is_continued(data, at + 1, end, more):
            return False
        at += 1 + more
    return True


@inner
def two_digits(data: Array, at: Integer) -> Any:
    """The number written at `at` in two digits; 100 if it is none."""
    tens, ones = byte_at(data, at) - 48, byte_at(data, at + 1) - 48
    return 10 * tens + ones if 0 <= tens <= 9 and 0 <= ones <= 9 else integer(100)


@inner
def is_usual_time(data: Array, at: Integer, length: Integer) -> Truth:
    """`2026-11-15T20:45:00Z`, with or without a fraction, on a day that every month has: the usual form of a time."""
    if length < 20 or two_digits(data, at) == 100 or two_digits(data, at + 2) == 100:
        return False
    if byte_at(data, at + 4) != 45 or byte_at(data, at + 7) != 45 or byte_at(data, at + 10) != 84:
        return False
    if byte_at(data, at + 13) != 58 or byte_at(data, at + 16) != 58 or byte_at(data, at + length - 1) != 90:
        return False
    if not (1 <= two_digits(data, at + 5) <= 12 and 1 <= two_digits(data, at + 8) <= 28):
        return False
    if two_digits(data, at + 11) > 23 or two_digits(data, at + 14) > 59 or two_digits(data, at + 17) > 59:
        return False
    if length == 20:
        return True
    if byte_at(data, at + 19) != 46 or length == 21:
        return False
    digits = True
    for i in range(at + 20, at + length - 1):
        digits &= 48 <= byte_at(data, i) <= 57
    return digits


@inner
def may_read_otherwise(data: Array, at: Integer, length: Integer) -> Truth:
    """May a string that is not listed read as a number or as a truth? Decided by its first letter."""
    if length == 0:
        return False
    first = byte_at(data, at)
    return 43 <= first <= 57 or first in (70, 84, 102, 116)


class Reader(NamedTuple):
    """Where the scan writes: a row of numbers a head, atoms one behind the other, and what is missing."""

    lows: Any
    atoms: Any
    offsets: Any
    states: Any
    missing: Any


@inner
def note_missing(reader: Reader, row: Integer, count: Integer, kind: Integer, at: Integer, length: Integer) -> Any:
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
    lexicon: Lexicon, reader: Reader, row: Integer, attribute: Integer, place: Integer, used: Integer
) -> Any:
    """What a value found in the lexicon reads as."""
    dimension = load(lexicon.attributes, attribute * COLUMNS + DIMENSION)
    if dimension >= 0:
        reader.lows[row, dimension] = double_of(load(lexicon.values, place * COLUMNS + VALUE_NUMBER))
    begin, count = (
        load(lexicon.values, place * COLUMNS + VALUE_ATOMS_AT),
        load(lexicon.values, place * COLUMNS + VALUE_ATOMS),
    )
    if used + count < reader.atoms.size:
        for i in range(count):
            reader.atoms[used + i] = lexicon.atoms[begin + i]
    return used + count


@inner
def take_exists(lexicon: Lexicon, reader: Reader, attribute: Integer, used: Integer) -> Any:
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
    reader: Reader,
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
    reader: Reader,
    row: Integer,
    used: Integer,
    missing: Integer,
) -> Any:
    """The string value whose mark is at `at` and whose bytes begin at `begin`: where it ends (-1: the head is to be
    asked about), how many atoms there are and how much is missing."""
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
    reader: Reader,
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
    reader: Reader,
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
    reader: Reader,
    row: Integer,
    used: Integer,
    missing: Integer,
) -> Any:
    """One map. How many atoms there are then, and how much is missing; `used` may go beyond what there is room for."""
    at, count = open_map(data, at, end)
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
def read_heads(lexicon: Lexicon, data: Array, ends: Array, mark: Integer, reader: Reader) -> Any:
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
