"""The lexicon: what Python has already judged, in tables in which compiled code finds it.

    names       every attribute name that has been seen and is well formed, with the number of its attribute if filters
                ask for it, and whether CloudEvents wants a string there
    attributes  how the values of an attribute are to be read: as a number, looked up among the values, or not at all
    values      what strings, numbers and truths read as: a number and a list of atoms

Tables are flat arrays of words, COLUMNS of them a line. They are open: an entry lies at its hash or at most
PROBES_MAX - 1 places behind, so that nobody can make looking something up take long.
"""

from typing import Any, NamedTuple

from tidings.matching.index.kernels.layout import Array, Integer, Truth, compiled, inner, integer, load
from tidings.matching.index.kernels.letters import bits_of, first_word

PROBES_MAX = 32

COLUMNS = 8
"""Words of a line in each of the three tables: a cache line."""

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

NUMBER_BYTES, TRUTH_BYTES = -8, -1
"""Instead of a length, for values that are not strings."""

SPREAD = -7046029254386353131


class Lexicon(NamedTuple):
    """The tables as flat arrays of words."""

    names: Any
    attributes: Any
    values: Any
    letters: Any
    """The bytes of all names and strings, one after the other."""
    atoms: Any


@inner
def place_of(data: Array, at: Integer, length: Integer, word: Integer, seed: Integer, places: Integer) -> Any:
    """Where the search for a string begins in a table of so many places, a power of two."""
    # Multiplying by a large odd number carries each bit upwards; folding the upper bits down between the rounds brings
    # them into the next one, and at the end into the bits that choose a place. `seed` keeps equal values of different
    # attributes apart.
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
    # Open addressing: from its own place on one after the other, around the end. A free place ends the search, for
    # nothing is ever taken out of a table. Length and first eight bytes tell nearly all others apart before the rest is
    # compared.
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
    """The same for a value of the attribute with this code. For a number `word` has its bits and for a truth 0 or 1; a
    length below 0 says so, and then there is no rest to compare."""
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
    # No head has this mark, so the name has been seen in none.
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
