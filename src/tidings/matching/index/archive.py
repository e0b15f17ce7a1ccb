"""An index as bytes: built by one process, and loaded by others in a fraction of the time.

What is saved is the memory of the fast engine as it is, with everything it has learned, and beside it the vocabulary:
the attributes, and each atom by the condition it stands for, from which the tables that find atoms are filled again.
Filters that have to be asked are saved whole. The loaded index is complete: it answers as the saved one did, and takes
additions and removals.

    8 bytes     length of the header
    header      `Header` as MessagePack
    16 bytes    digest of the header
    arrays      one after the other, as the header lists them

Compiled code follows what it reads in the arrays without looking twice, so a damaged file would end the process. The
header has the digest of the arrays, and nothing is made of either before its digest is found right. That is against
accidents; whoever can write the file can write the digest too.

The memory is laid out by the kernels, and only those that wrote it can read it: `layout_name` changes with any of their
sources. Whoever must be able to read an index later keeps its filters too.

Saved are indexes of the fast engine whose keys are integers and which know no links.
"""

import sys
from itertools import chain
from typing import Any, BinaryIO

import msgspec
import numpy as np
import xxhash

from tidings.matching.index.answers import IndexParams
from tidings.matching.index.fast import FastEngine
from tidings.matching.index.index import Index
from tidings.matching.index.kernels import layout
from tidings.matching.index.kernels.layout import IndexStore, Slots
from tidings.matching.index.vocabulary import Vocabulary
from tidings.model.errors import UsageError
from tidings.model.filter import Filter

FORMAT = 2
LENGTH_BYTES, DIGEST_BYTES = 8, 16
HEADER_BYTES_MAX = 2**31
DAMAGED = "the saved index is damaged; save it again, or build it again from its filters"


class OtherLayout(UsageError):
    """The index was saved by other kernels than ours."""


class SavedAtom(msgspec.Struct, frozen=True, array_like=True):
    """`attribute` is a place in the list of attributes; `operand` is as in `vocabulary.Atom`, with lists for tuples."""

    attribute: int
    kind: str
    operand: Any


class Named(msgspec.Struct, frozen=True):
    """All that is certain of a header before its layout is known."""

    layout: str


class Header(Named, frozen=True):
    params: IndexParams
    attributes: list[tuple[str, int, int]]
    """Name, dimension and text rank of each."""
    atoms: list[SavedAtom | None]
    atoms_free: list[int]
    slots_free: list[int]
    doubtful: list[tuple[int, Filter]]
    learning: tuple[int, int, int, int, bool]
    words: int
    """Length of the arena, of which only the used part is among the arrays."""
    arrays: list[tuple[str, tuple[int, ...]]]
    digest: bytes
    """Of the arrays."""


def layout_name() -> str:
    """Two processes with the same name can read each other's indexes."""
    return f"{FORMAT}-{layout.fingerprint()}-{sys.byteorder}"


def save_index(index: Index, file: BinaryIO) -> None:
    engine = index.engine
    if not isinstance(engine, FastEngine):
        raise UsageError(
            f"an index with engine {engine.name!r} cannot be saved; use engine='fast', or keep the filters"
        )
    memory, vocabulary = engine.memory, index.vocabulary
    if len(index.links) or memory.keys.dtype == object:
        raise UsageError("an index is saved when its keys are 64-bit integers and no filter was added for a link")
    store, slots, digest = memory.store, memory.slots, xxhash.xxh3_128()
    taken = np.fromiter(chain.from_iterable(index.slots.items()), np.int64, 2 * len(index)).reshape(-1, 2)
    arrays = [
        store.words[: store.words[layout.TOP]],
        store.atoms,
        store.heads,
        slots.first,
        slots.marks,
        memory.keys,
        np.array(vocabulary.references, np.int64),
        taken,
    ]
    arrays = [np.ascontiguousarray(array) for array in arrays]
    for array in arrays:
        digest.update(array.data)
    header = Header(
        layout=layout_name(),
        params=engine.params,
        attributes=[(it.name, it.dimension, it.text_rank) for it in vocabulary.attributes.values()],
        atoms=saved_atoms(vocabulary),
        atoms_free=vocabulary.free,
        slots_free=index.free,
        doubtful=sorted(engine.doubtful.filters.items()),
        learning=(
            engine.records_seen,
            engine.events_seen,
            engine.records_next,
            engine.events_next,
            engine.renewing,
        ),
        words=len(store.words),
        arrays=[(array.dtype.str, array.shape) for array in arrays],
        digest=digest.digest(),
    )
    encoded = msgspec.msgpack.encode(header)
    file.write(len(encoded).to_bytes(LENGTH_BYTES, "little"))
    file.write(encoded)
    file.write(xxhash.xxh3_128_digest(encoded))
    for array in arrays:
        file.write(array.data)


def saved_atoms(vocabulary: Vocabulary) -> list[SavedAtom | None]:
    """All but ALWAYS, in order of their numbers; None for a number that is free."""
    places = {attribute: place for place, attribute in enumerate(vocabulary.attributes.values())}
    return [
        None if atom is None else SavedAtom(places[atom.attribute], atom.kind, atom.operand)
        for atom in vocabulary.atoms[1:]
    ]


def load_index(file: BinaryIO) -> Index:
    """The index that was saved; OtherLayout if this process has other kernels, another UsageError if it is damaged."""
    header = read_header(file)
    digest = xxhash.xxh3_128()
    words, atoms, heads, first, marks, keys, references, taken = (read_array(file, digest, *of) for of in header.arrays)
    if digest.digest() != header.digest:
        raise UsageError(DAMAGED)
    index = Index("fast", header.params)
    restore_vocabulary(index.vocabulary, header, references.tolist())
    index.slots = dict(taken.tolist())
    index.free = header.slots_free
    index.link_of_slot.extend([-1] * (len(index.slots) + len(index.free)))
    engine = index.engine
    assert isinstance(engine, FastEngine)
    engine.doubtful.filters = dict(header.doubtful)
    seen, events_seen, records_next, events_next, renewing = header.learning
    engine.records_seen, engine.events_seen = seen, events_seen
    engine.records_next, engine.events_next, engine.renewing = records_next, events_next, renewing
    arena = np.zeros(header.words, np.int64)
    arena[: len(words)] = words
    memory = engine.memory
    memory.store = IndexStore(arena, arena.view(np.float64), arena.view(np.int32), atoms, heads)
    memory.slots = Slots(first, marks, memory.slots.links)
    memory.keys = keys
    return index


def read_header(file: BinaryIO) -> Header:
    length = int.from_bytes(read_bytes(file, LENGTH_BYTES), "little")
    if length > HEADER_BYTES_MAX:
        raise UsageError(DAMAGED)
    encoded = read_bytes(file, length)
    try:
        layout = msgspec.msgpack.decode(encoded, type=Named).layout
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise UsageError(DAMAGED) from None
    if layout != layout_name():
        raise OtherLayout("the index was saved by another version of its kernels; build it again from its filters")
    if read_bytes(file, DIGEST_BYTES) != xxhash.xxh3_128_digest(encoded):
        raise UsageError(DAMAGED)
    return msgspec.msgpack.decode(encoded, type=Header)


def restore_vocabulary(vocabulary: Vocabulary, header: Header, references: list[int]) -> None:
    """Enter every atom again under the number it had."""
    attributes = [vocabulary.attribute(name) for name, _, _ in header.attributes]
    for saved in header.atoms:
        if saved is None:
            vocabulary.atoms.append(None)
            vocabulary.references.append(0)
            continue
        attribute, operand = attributes[saved.attribute], saved.operand
        if saved.kind == "texts":
            vocabulary.texts_atom(attribute, tuple(operand))
        else:
            vocabulary.atom(attribute, saved.kind, tuple(operand) if isinstance(operand, list) else operand)  # type: ignore[arg-type]
    by_dimension = {}
    for attribute, (_, dimension, text_rank) in zip(attributes, header.attributes, strict=True):
        attribute.dimension, attribute.text_rank = dimension, text_rank
        if dimension >= 0:
            by_dimension[dimension] = attribute
        attribute.memo.clear()
    vocabulary.dimensions = [by_dimension[dimension] for dimension in sorted(by_dimension)]
    vocabulary.text_ranks = max((rank + 1 for _, _, rank in header.attributes), default=0)
    vocabulary.references = references
    vocabulary.free = header.atoms_free
    vocabulary.fresh.clear()
    vocabulary.journal.clear()


def read_bytes(file: BinaryIO, length: int) -> bytes:
    data = file.read(length)
    if len(data) < length:
        raise UsageError("the saved index is cut short; save it again")
    return data


def read_array(file: BinaryIO, digest: "xxhash.xxh3_128", dtype: str, shape: tuple[int, ...]) -> Any:
    array: Any = np.empty(shape, dtype)
    flat: Any = array.reshape(-1).view(np.uint8)
    if file.readinto(flat) < array.nbytes:  # type: ignore[attr-defined]
        raise UsageError("the saved index is cut short; save it again")
    digest.update(flat)
    return array
