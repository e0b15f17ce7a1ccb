"""The compiled part of `decoder.py`: heads, MessagePack maps one behind the other, become columns of words.

The scan goes through all heads of a page once. Of each it reads the names in turn, and for each name that is wanted it
writes one word into that name's column: a number's bits, an instant's microseconds, or where in the buffer a text lies.
Texts are then copied together, column by column.

**Plainly right or asked about.** A head whose form is unusual in any way is ASKED about: Python decodes it and decides
(`decoder.py`), so the scan refuses nothing and decides nothing that is not plain. Unusual is what is no map, or does
not end where it should; names out of order (so that none can occur twice), or none that an event may have; a text that
is not UTF-8, an infinite number; a context attribute that is no text, or empty; a time in another spelling than
`2026-11-15T20:45:00.25+01:00` or with Z; and a value of another type than its column wants, where that is more than a
change of the number's form. What nobody asked for is looked at in the same way and not kept.

**Names.** The heads of a publisher have the same names in the same places, mostly. So the bytes of each name are
compared with those in its place of the head before; only where they are others the name is read, the table is
searched, the letters of a name that is not in the table are looked at, and it is held against the one before it.

**Memory.** Whatever the bytes are, nothing is read beyond the end of a head but for the PADDING behind the last, and
nothing is written outside of the row at hand. The ends come from a page, which has checked them.
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from tidings.matching.index.kernels.layout import Array, Integer, Truth, compiled, inner, integer, load
from tidings.matching.index.kernels.letters import (
    big_endian,
    bits_of,
    byte_at,
    first_word,
    is_text,
    open_map,
    open_string,
    read_number,
    reversed_bytes,
    two_digits,
    word_at,
)
from tidings.model.bounds import ATTRIBUTE_NAME_CHARS_MAX, ATTRIBUTES_MAX

READY, ASKED = 0, 1
"""What became of a head."""

# What a name's value is wanted as. UNWANTED is a context attribute that has no column.
UNWANTED, TEXT, WHOLE, REAL, TRUTH, INSTANT = range(6)

# Lines of the table of names, one column a name: where its letters begin and how many they are, what is wanted, whether
# CloudEvents defines it, whether it is `time`.
NAME_AT, NAME_LENGTH, NAME_WANTED, NAME_CONTEXT, NAME_TIME, NAME_LINES = range(6)

# Lines of what was seen at a place of the head before, one column a place: where the name begins with its mark and how
# many bytes these are, which name it is, and whether it is known to be greater than the one before it.
SEEN_AT, SEEN_BYTES, SEEN_NAME, SEEN_RISES, SEEN_LINES = range(5)

OTHER_NAME = -1
"""A name that is not in the table."""

FALSE_MARK, TRUE_MARK, DOUBLE_MARK, SINGLE_MARK = 0xC2, 0xC3, 0xCB, 0xCA
EXACT_MAX = 1 << 53
MILLION = 1_000_000
DAY = 86_400
TEXT_AT = 32
"""A text is written as the place of its first byte, shifted by so many bits, and its length."""


class WantedNames(NamedTuple):
    """Letters of all names, one behind the other, with PADDING; and the table."""

    letters: Any
    table: Any


class ReadColumns(NamedTuple):
    """Where the scan writes: a line of words for each name, whether there is one, and what became of each head."""

    words: Any
    present: Any
    states: Any
    seen: Any


def generate_store(context: Any, array: Any, index: Any, word: Any) -> Any:
    """Eight bytes to anywhere, the lowest first."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.bitcast(builder.gep(view.data, [arguments[1]]), ir.IntType(64).as_pointer())
        builder.store(arguments[2], address, align=1)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate


store_word: Any = intrinsic(generate_store)


# Names.


@inner
def is_same(data: Array, at: Integer, other: Array, other_at: Integer, length: Integer) -> Truth:
    for i in range(0, length, 8):
        if first_word(data, at + i, length - i) != first_word(other, other_at + i, length - i):
            return False
    return True


@inner
def is_ascending(data: Array, at: Integer, length: Integer, next_at: Integer, next_length: Integer) -> Truth:
    """Is the second of two ASCII names the greater one?"""
    # Reversed, the first letter is the highest byte, so words are ordered as texts are; zeros behind the end come
    # before every letter.
    for i in range(0, min(length, next_length), 8):
        one, other = first_word(data, at + i, length - i), first_word(data, next_at + i, next_length - i)
        if one != other:
            return reversed_bytes(one) < reversed_bytes(other)
    return length < next_length


@inner
def is_name(data: Array, at: Integer, length: Integer) -> Truth:
    """Letters, digits, underscores and full stops, a letter or an underscore first."""
    # Names may also begin with digits; those are rare, and asked about.
    for i in range(at, at + length):
        letter = byte_at(data, i)
        is_letter = 97 <= letter | 32 <= 122 or letter == 95
        if not is_letter and (i == at or not (48 <= letter <= 57 or letter == 46)):
            return False
    return True


@inner
def find_name(wanted: WantedNames, data: Array, at: Integer, length: Integer) -> Any:
    table = wanted.table
    for name in range(table.shape[1]):
        if table[NAME_LENGTH, name] == length and is_same(data, at, wanted.letters, table[NAME_AT, name], length):
            return integer(name)
    return integer(OTHER_NAME)


@inner
def read_name(wanted: WantedNames, data: Array, at: Integer, end: Integer, place: Integer, seen: Array) -> Any:
    """A name that is another one than in this place of the head before: where it ends, -1 if it is none, or not greater
    than the one before it."""
    begin, length = open_string(data, at, end)
    if not 1 <= length <= ATTRIBUTE_NAME_CHARS_MAX:
        return integer(-1)
    name = find_name(wanted, data, begin, length)
    if name == OTHER_NAME and not is_name(data, begin, length):
        return integer(-1)
    seen[SEEN_AT, place], seen[SEEN_BYTES, place], seen[SEEN_NAME, place] = at, begin + length - at, name
    seen[SEEN_RISES, place] = 0
    if place + 1 < seen.shape[1]:
        seen[SEEN_RISES, place + 1] = 0
    return begin + length


@inner
def rises(data: Array, place: Integer, seen: Array) -> Truth:
    """Is the name at this place greater than the one before it? Both were seen."""
    if place > 0 and seen[SEEN_RISES, place] == 0:
        one, one_end = seen[SEEN_AT, place - 1], seen[SEEN_AT, place - 1] + seen[SEEN_BYTES, place - 1]
        other, other_end = seen[SEEN_AT, place], seen[SEEN_AT, place] + seen[SEEN_BYTES, place]
        begin, length = open_string(data, one, one_end)
        next_begin, next_length = open_string(data, other, other_end)
        if not is_ascending(data, begin, length, next_begin, next_length):
            return False
        seen[SEEN_RISES, place] = 1
    return True


# Values.


@inner
def days_before(year: Integer, month: Integer, day: Integer) -> Any:
    """Days from 1970 to a day; 0 years or months are not expected."""
    # Years that begin in March have their leap day at the end; 153 days are in each five months of them.
    shifted = year - (1 if month <= 2 else 0)
    month_place = (month + 9) % 12
    return 365 * shifted + shifted // 4 - shifted // 100 + shifted // 400 + (153 * month_place + 2) // 5 + day - 719469


@inner
def days_of_month(year: Integer, month: Integer) -> Any:
    if month == 2:
        return integer(29) if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else integer(28)
    return integer(30) if month in (4, 6, 9, 11) else integer(31)


@inner
def read_instant(data: Array, at: Integer, length: Integer) -> Any:
    """Microseconds since 1970 of `2026-11-15T20:45:00Z`, and whether it is spelled like that: a fraction may stand
    before Z, and `+01:00` or `-01:00` for it."""
    nothing = integer(0)
    if length < 20:
        return nothing, False
    century, years, month, day = (
        two_digits(data, at),
        two_digits(data, at + 2),
        two_digits(data, at + 5),
        two_digits(data, at + 8),
    )
    hour, minute, second = two_digits(data, at + 11), two_digits(data, at + 14), two_digits(data, at + 17)
    # As characters: 45 -, 84 T, 58 :, 90 Z, 43 +, 46 full stop, 48 to 57 digits.
    if byte_at(data, at + 4) != 45 or byte_at(data, at + 7) != 45 or byte_at(data, at + 10) != 84:
        return nothing, False
    if byte_at(data, at + 13) != 58 or byte_at(data, at + 16) != 58:
        return nothing, False
    year = 100 * century + years
    if (
        century == 100
        or years == 100
        or year == 0
        or not 1 <= month <= 12
        or not 1 <= day <= days_of_month(year, month)
    ):
        return nothing, False
    if hour > 23 or minute > 59 or second > 59:
        return nothing, False
    micros, end, here = integer(0), at + length, at + 19
    if byte_at(data, here) == 46:
        here += 1
        digits = integer(0)
        while here < end and 48 <= byte_at(data, here) <= 57:
            if digits < 6:
                micros = 10 * micros + byte_at(data, here) - 48
            digits += 1
            here += 1
        if digits == 0:
            return nothing, False
        for _ in range(digits, 6):
            micros *= 10
    ahead = integer(0)
    sign = byte_at(data, here)
    if here + 1 == end and sign == 90:
        pass
    elif here + 6 == end and (sign == 43 or sign == 45) and byte_at(data, here + 3) == 58:
        hours, minutes = two_digits(data, here + 1), two_digits(data, here + 4)
        if hours > 23 or minutes > 59:
            return nothing, False
        ahead = (3600 * hours + 60 * minutes) * (1 if sign == 43 else -1)
    else:
        return nothing, False
    seconds = DAY * days_before(year, month, day) + 3600 * hour + 60 * minute + second - ahead
    return MILLION * seconds + micros, True


@inner
def read_whole(data: Array, at: Integer, end: Integer) -> Any:
    """The integer at `at` and where it ends; it ends nowhere (-1) if it is none, or beyond 64 bit."""
    mark = byte_at(data, at)
    # MessagePack: 0x00-0x7F and 0xE0-0xFF are the number itself, 0xCC-0xCF unsigned and 0xD0-0xD3 signed integers of
    # 1, 2, 4, 8 bytes, so the low two bits of the mark are the logarithm of the size.
    if mark < 0x80:
        return mark, at + 1
    if mark >= 0xE0:
        return mark - 0x100, at + 1
    if not 0xCC <= mark <= 0xD3:
        return integer(0), integer(-1)
    size = integer(1) << ((mark - 0xCC) & 3)
    if at + 1 + size > end:
        return integer(0), integer(-1)
    whole = big_endian(data, at + 1, size)
    if mark >= 0xD0:
        if size < 8 and whole >> (8 * size - 1):
            whole -= integer(1) << (8 * size)
    elif whole < 0:
        return integer(0), integer(-1)
    return whole, at + 1 + size


@inner
def read_text(
    data: Array, begin: Integer, length: Integer, kind: Integer, is_context: Integer, is_time: Integer
) -> Any:
    """The word of a text that is wanted as this, and whether all is usual."""
    if is_context and length == 0:
        return integer(0), False
    if is_time:
        return read_instant(data, begin, length)
    if kind != UNWANTED and kind != TEXT:
        return integer(0), False
    return begin << TEXT_AT | length, is_text(data, begin, length)


@inner
def read_plain(data: Array, at: Integer, end: Integer, kind: Integer) -> Any:
    """The word of a value that is no text, and where it ends; -1 if that is unusual."""
    mark = byte_at(data, at)
    if kind in (TEXT, INSTANT):
        return integer(0), integer(-1)
    if mark in (FALSE_MARK, TRUE_MARK):
        truth = mark - FALSE_MARK
        return (bits_of(float(truth)) if kind == REAL else truth), at + 1
    if kind == TRUTH:
        return integer(0), integer(-1)
    if mark in (DOUBLE_MARK, SINGLE_MARK):
        number, after = read_number(data, at, end)
        if kind != WHOLE:
            return bits_of(number), after
        # A fraction is nothing for a whole number, and beyond 2**53 an integer may be meant that is none here.
        is_whole = after >= 0 and -EXACT_MAX <= number <= EXACT_MAX and number == np.floor(number)
        return (integer(number), after) if is_whole else (integer(0), integer(-1))
    whole, after = read_whole(data, at, end)
    return (bits_of(float(whole)) if kind == REAL else whole), after


@inner
def read_head(wanted: WantedNames, data: Array, at: Integer, end: Integer, row: Integer, columns: ReadColumns) -> Truth:
    """Whether everything was usual."""
    at, count = open_map(data, at, end)
    if not 0 <= count <= ATTRIBUTES_MAX:
        return False
    seen = columns.seen
    for place in range(count):
        size = seen[SEEN_BYTES, place]
        if size and at + size < end and is_same(data, at, data, seen[SEEN_AT, place], size):
            at += size
        else:
            at = read_name(wanted, data, at, end, integer(place), seen)
            if not 0 <= at < end:
                return False
        if not rises(data, integer(place), seen):
            return False
        name = seen[SEEN_NAME, place]
        kind, is_context, is_time = integer(UNWANTED), integer(0), integer(0)
        if name != OTHER_NAME:
            kind, is_context = wanted.table[NAME_WANTED, name], wanted.table[NAME_CONTEXT, name]
            is_time = wanted.table[NAME_TIME, name]
        begin, length = open_string(data, at, end)
        if length >= 0:
            word, is_usual = read_text(data, begin, length, kind, is_context, is_time)
            if not is_usual:
                return False
            at = begin + length
        else:
            if is_context:
                return False
            word, at = read_plain(data, at, end, kind)
            if at < 0:
                return False
        if kind != UNWANTED:
            columns.words[name, row] = word
            columns.present[name, row] = 1
    return at == end


@compiled
def read_heads(wanted: WantedNames, data: Array, ends: Array, columns: ReadColumns) -> Any:
    """All heads of a buffer; how many of them are asked about. `present` is all 0 before."""
    asked, begin = integer(0), integer(0)
    for row in range(ends.size):
        columns.states[row] = READY
        if not read_head(wanted, data, begin, ends[row], integer(row), columns):
            columns.states[row] = ASKED
            asked += 1
            for name in range(columns.present.shape[0]):
                columns.present[name, row] = 0
        begin = ends[row]
    return asked


@compiled
def measure_texts(words: Array, present: Array, offsets: Array) -> Any:
    """Where each text of a column will lie, none where there is none; how long they are together."""
    total = integer(0)
    offsets[0] = 0
    for row in range(words.size):
        if present[row]:
            total += words[row] & 0xFFFFFFFF
        offsets[row + 1] = total
    return total


@compiled
def copy_texts(data: Array, words: Array, present: Array, offsets: Array, texts: Array) -> None:
    """The texts of a column, one behind the other; `texts` has PADDING too."""
    for row in range(words.size):
        if present[row]:
            begin, to = words[row] >> TEXT_AT, integer(load(offsets, integer(row)))
            # Whole words: what is written behind the end of a text is written over by the next.
            for i in range(0, words[row] & 0xFFFFFFFF, 8):
                store_word(texts, to + i, word_at(data, begin + i))


def nothing_seen() -> Any:
    return np.zeros((SEEN_LINES, ATTRIBUTES_MAX), np.int64)
