"""Where everything lies in the memory of the fast engine, and how functions are compiled.

Nearly all of it lies in one array of 64-bit words, the *arena*, seen also as doubles and as 32-bit halves. It begins
with fixed fields and scratch space; behind those come blocks, taken from lists of free blocks of the same size or
from the top. An offset of 0 means "nothing". Large blocks begin with a cache line (LINE words after a multiple of
eight), and so do the rows in them.

    dimension   DIMENSION_* words: two sets of edges, knots, samples of bounds and of numbers
    record      half 0 slot | half 1 counts, flags, position | half 2 chunk | half 3 next record of the filter (a ring)
                halves: dimensions, then atoms (~atom: must not be satisfied) | doubles: low and high of each dimension
    chunk       CHUNK_* words | alive bits | record offsets as halves | row codes | BUCKETS rows per code
    directory   count, capacity | entries of ENTRY words: least key, hull low, hull high, chunk

Beside it stand two tables that grow with the vocabulary: `atoms`, a line per atom, and `heads`, a line per partition
with a head for every cluster. A *home* is the number of a cluster: first those of the dimensions, one per class of
width, and then those of the atoms.

Compiled functions are cached on disk under a fingerprint of this whole folder, since numba itself would notice a
change only in the file of the function that is called, not in those it is compiled with.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from tidings.matching.index.vocabulary import DIMENSIONS_MAX

BUCKETS = 48
"""Rows per code: one for each bucket of numbers, and the last, ABSENT, for events without a number."""
ABSENT = BUCKETS - 1
EDGES = BUCKETS - 2

KNOTS = 33
SAMPLES = 256

CLASSES = 8
"""Classes of intervals: without lower end, without upper end, and six by width, each a quarter of the one before."""
LEFT_OPEN, RIGHT_OPEN, BOUNDED = 0, 1, 2

ATOM_HOMES = DIMENSIONS_MAX * CLASSES
"""The home of atom 0."""

TEXT_RANKS_MAX = 256
NUMBER_CODES = 2 * DIMENSIONS_MAX
CODES = NUMBER_CODES + TEXT_RANKS_MAX
"""What a set of rows is about: dimension and set of edges, or an attribute compared with single strings."""

GROUPS_MAX = 16
"""Sets of rows in one chunk."""

MEMBERS = 1028
CANDIDATES = 8192

# The arena: counters and settings, heads of lists of free blocks, offsets of dimensions, scratch space.
# TOP is where the next block is cut from; EPOCH numbers events, so that whatever is marked for one of them need not be
# cleared for the next; MARGIN is how many words one change may need. By code: BUCKETS_AT has the bucket of the event at
# hand, USERS_AT counts the chunks that have rows for it, USAGE_AT and PICKED_AT are scratch for building a chunk (all
# of USAGE_AT is 0 in between). MEMBERS_AT, MOVERS_AT and KEYS_AT are scratch for the records of one or two chunks,
# CANDIDATES_AT (in halves) for what a search has yet to test.
TOP, EPOCH, EVENTS, SAMPLED, RECORDS, CHUNKS, MARGIN, RANDOM = range(8)
CHUNK_RECORDS, DIRECT_RECORDS, TEXT_RANKS, DIMENSIONS = range(8, 12)
SWEEP_PARTITION, SWEEP_HOME, SWEEP_ENTRY, LINE = range(12, 16)
SMALL_WORDS, PAGE_WORDS, PAGES_MAX = 256, 64, 4096
FREE = 16
DIMENSION_AT = FREE + SMALL_WORDS + PAGES_MAX + 1
BUCKETS_AT = DIMENSION_AT + DIMENSIONS_MAX
USAGE_AT = BUCKETS_AT + CODES
USERS_AT = USAGE_AT + CODES
PICKED_AT = USERS_AT + CODES
MEMBERS_AT = PICKED_AT + CODES
MOVERS_AT = MEMBERS_AT + MEMBERS
KEYS_AT = MOVERS_AT + MEMBERS
CANDIDATES_AT = KEYS_AT + MEMBERS
BLOCKS_AT = CANDIDATES_AT + CANDIDATES // 2

# Words of a dimension.
DIMENSION_PARITY, DIMENSION_BOUNDS_SEEN, DIMENSION_EDGES = 0, 1, 2
DIMENSION_KNOTS = DIMENSION_EDGES + 2 * EDGES
DIMENSION_BOUNDS = DIMENSION_KNOTS + KNOTS
DIMENSION_NUMBERS = DIMENSION_BOUNDS + SAMPLES
DIMENSION_WORDS = DIMENSION_NUMBERS + SAMPLES

# Columns of `atoms`: the last event that satisfied it, how many did, its row (code * BUCKETS + bucket, or -1), and how
# many records ask for it.
MARK, HITS, ROW, ASKING, ATOM_COLUMNS = 0, 1, 2, 3, 4

# A head is offset << 2 | kind of what a cluster is: a lone record, a chunk, or a directory of chunks.
LONE, CHUNK, DIRECTORY = 1, 2, 3
CHUNK_COUNT, CHUNK_CAPACITY, CHUNK_GROUPS, CHUNK_HOME, CHUNK_WORDS, CHUNK_BODY = 0, 1, 2, 3, 4, 8
DIRECTORY_COUNT, DIRECTORY_CAPACITY, DIRECTORY_BODY = 0, 1, 2
ENTRY_KEY, ENTRY_LOW, ENTRY_HIGH, ENTRY_CHUNK, ENTRY = 0, 1, 2, 3, 4

# Half 1 of a record: 8 bits dimensions, 8 bits atoms, flags, position.
RECORD_BODY = 2
SEVERAL, DOUBTFUL, POSITION = 1 << 16, 1 << 17, 18


ZERO, CLEAR, SET = np.int64(0), np.int64(0), np.int64(1)
"""For arguments: numba would compile a function once more for each literal."""


class IndexStore(NamedTuple):
    """The arena in its three views, and the two tables."""

    words: Any
    floats: Any
    halves: Any
    atoms: Any
    heads: Any


class Slots(NamedTuple):
    """By slot: the first record, the last event that matched (only if some filter has several records), the link."""

    first: Any
    marks: Any
    links: Any


class Specs(NamedTuple):
    """Records to be filed: a line of SPEC_* integers for each, and the dimensions and atoms, and bounds, of all."""

    lines: Any
    names: Any
    bounds: Any


SPEC_SLOT, SPEC_FLAGS, SPEC_PARTITION, SPEC_DIMENSIONS, SPEC_ATOMS, SPEC_NAMES_AT, SPEC_BOUNDS_AT, SPEC_COLUMNS = range(
    8
)


class IndexBatch(NamedTuple):
    """Encoded events. `lows` and `highs` hold each number rounded down and up to a double; mostly one array is both."""

    lows: Any
    highs: Any
    atoms: Any
    offsets: Any


Array: TypeAlias = Any
Integer: TypeAlias = Any
Real: TypeAlias = Any
Truth: TypeAlias = Any
"""What compiled functions take and give, for the reader: they are compiled for whatever they are called with."""

integer: Any = np.int64
"""Makes a 64-bit integer of a 32-bit one."""

njit: Any = numba.njit
config: Any = numba.config
get_or_insert_function: Any = cgutils.get_or_insert_function

Function = TypeVar("Function", bound=Callable[..., Any])


def fingerprint() -> str:
    """Of all files of this folder: compiled code is valid as long as none of them changes."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


CACHE_FOLDER = Path(config.CACHE_DIR or Path(__file__).parent / "__pycache__") / f"kernels-{fingerprint()}"


def compiled(function: Function) -> Function:
    """An entry point: compiled on first use, cached on disk (in the user's cache folder if need be).

    Kernels make no arrays and keep none, so references to arrays are not counted (`_nrt`): the counting is atomic, and
    cost more than the work itself."""
    configured = config.CACHE_DIR
    config.CACHE_DIR = str(CACHE_FOLDER)
    try:
        return njit(cache=True, nogil=True, _nrt=False)(function)  # type: ignore[no-any-return]
    finally:
        config.CACHE_DIR = configured


def inner(function: Function) -> Function:
    """Compiled as a part of the entry points that use it."""
    together = njit(nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
    return together(function)  # type: ignore[no-any-return]


def generate_stay_apart(context: Any) -> Any:
    """First statement of a large function: it is not copied into its callers, which then compile faster."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), generate


def generate_trailing_zeros(context: Any, word: Any) -> Any:
    """The place of the lowest bit that is set. The word must not be 0: the constant tells LLVM that it never is."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


def generate_load(context: Any, array: Any, index: Any) -> Any:
    """array[index] of a flat array, without asking whether the index is negative. For inner loops."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.load(builder.gep(view.data, [arguments[1]]))

    return array.dtype(array, types.int64), generate


def generate_prefetch(context: Any, array: Any, index: Any) -> Any:
    """Ask for a cache line that will be read soon."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.bitcast(builder.gep(view.data, [arguments[1]]), ir.IntType(8).as_pointer())
        integer = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, integer, integer, integer])
        function = get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [address, integer(0), integer(3), integer(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


stay_apart: Any = intrinsic(generate_stay_apart)
trailing_zeros: Any = intrinsic(generate_trailing_zeros)
load: Any = intrinsic(generate_load)
prefetch: Any = intrinsic(generate_prefetch)
