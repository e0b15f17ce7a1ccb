"""Reading bytes: words from anywhere, MessagePack's numbers, strings and maps, and what text has to look like.

Strings are looked at eight bytes at a time. The buffer ends with PADDING more bytes, so that a word may be loaded at
its last byte. What is not in its usual form is said to be none: whoever asks then decodes the bytes in Python.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from tidings.matching.index.kernels.layout import Array, Integer, Truth, inner, integer, load

PADDING = 8
"""Bytes behind the last head in the buffer."""

EXACT_MAX = 1 << 53
HIGH_BITS = -9187201950435737472
"""The first bit of each of the eight bytes of a word."""


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


@inner
def byte_at(data: Array, at: Integer) -> Any:
    """As a 64-bit integer, 0 to 255: arithmetic on bytes would wrap around."""
    return integer(load(data, at))


@inner
def first_word(data: Array, at: Integer, length: Integer) -> Any:
    """The first eight bytes of a string, zeros behind its end."""
    # The first byte is the lowest, so the bytes of the string are the low ones and a mask clears those behind its end.
    word = word_at(data, at)
    return word if length >= 8 else word & ((integer(1) << (8 * length)) - 1)


@inner
def big_endian(data: Array, at: Integer, size: Integer) -> Any:
    """An unsigned integer of `size` bytes, fewer than eight; or all eight, signed."""
    # Reversed, the first byte is the highest. Shifting down copies the sign from above, which the mask removes.
    word = reversed_bytes(word_at(data, at))
    return word if size == 8 else (word >> (64 - 8 * size)) & ((integer(1) << (8 * size)) - 1)


@inner
def open_string(data: Array, at: Integer, end: Integer) -> Any:
    """Where the bytes of a string begin and how many they are; -1 of them if it is no (short) string or cut off."""
    if at >= end:
        return at, integer(-1)
    mark = byte_at(data, at)
    # MessagePack: fixstr has its length in the mark, str 8 and str 16 have it behind.
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
    # fixmap and map 16; what is larger is left to Python.
    if 0x80 <= mark < 0x90:
        return at + 1, mark - 0x80
    if mark == 0xDE and at + 3 <= end:
        return at + 3, big_endian(data, at + 1, integer(2))
    return at, integer(-1)


@inner
def read_number(data: Array, at: Integer, end: Integer) -> Any:
    """The number at `at` and where it ends; it ends nowhere (-1) if it is none, or none that a double holds exactly."""
    mark = byte_at(data, at)
    # MessagePack: 0xCB float 64, 0x00-0x7F and 0xE0-0xFF the number itself, 0xCA float 32, 0xCC-0xCF unsigned and
    # 0xD0-0xD3 signed integers of 1, 2, 4, 8 bytes, so the low two bits of the mark are the logarithm of the size.
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
    # Below eight bytes the number was read without a sign: if its highest bit is set, 2 ** bits is taken off. Eight
    # bytes were read with one: an unsigned one that is negative now is beyond 2 ** 63.
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
    # A byte beyond ASCII has its highest bit set; OR of all words keeps it.
    found = integer(0)
    for i in range(0, length, 8):
        found |= first_word(data, at + i, length - i)
    return found & HIGH_BITS == 0


@inner
def is_continued(data: Array, at: Integer, end: Integer, count: Integer) -> Truth:
    """Do `count` continuation bytes stand here?"""
    if at + count > end:
        return False
    # Continuation bytes are 10xxxxxx.
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
        # It may lie behind the string, but not behind the buffer (PADDING). Some leads forbid some second bytes: too
        # long a form, surrogates, beyond U+10FFFF. `is_continued` sees to the rest.
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
    # As characters: 45 -, 84 T, 58 :, 90 Z, 46 full stop, 48 to 57 digits.
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
    # A sign, a full stop or a digit (and two others between them); F, T, f, t.
    return 43 <= first <= 57 or first in (70, 84, 102, 116)
