"""Subscriptions and their index in one file: written once, by the driver, and loaded by every worker.

    signature     8 bytes
    two lengths   8 bytes each: of the table, of the index
    table         an Arrow stream: subscription, and its filter as MessagePack; sorted by subscription
    index         as `tidings.matching.index.archive` writes it; empty where the writer had no numba

The index is a copy of memory, so loading it takes a tenth of a second for 100,000 subscriptions. It is of use only to a
process with numba and the same kernels; any other builds an index from the filters of the table, which takes some
seconds. The table is mapped into memory, so that filters nobody reads cost nothing.

Slot i of the index is row i of the table.
"""

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec
import pyarrow as pa

from tidings.matching import Index, IndexParams
from tidings.model.errors import UsageError
from tidings.model.filter import Filter
from tidings.model.language.expression import Attribute, Exists, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

SIGNATURE = b"tidixf01"
LENGTH_BYTES = 8
NAMES = b"tidings.names"
"""Under this name the metadata of the table holds the attributes that filters ask for."""

PARAMS = IndexParams(memo_strings=1 << 14)
"""A table of events has more different strings than a broker sees in the same time."""

encode_filter = msgspec.msgpack.Encoder().encode
decode_filter = msgspec.msgpack.Decoder(Filter).decode


class IndexedSubscriptions:
    """What a worker needs: `keys[slot]` is the subscription, `names` are the attributes that some filter asks for."""

    def __init__(self, keys: Any, names: "Sequence[str]", index: Index) -> None:
        self.keys, self.names, self.index = keys, names, index


def write_index_file(path: Path, table: Any) -> None:
    """`table` holds subscriptions, ascending and each once, and their filters, encoded."""
    filters = [decode_filter(encoded) for encoded in table.column("filter").to_pylist()]
    index = Index(params=PARAMS)
    index.add_many(enumerate(filters))
    table = table.replace_schema_metadata({NAMES: msgspec.json.encode(names_in(filters))})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    encoded = sink.getvalue()
    with path.open("wb") as file:
        file.write(SIGNATURE)
        file.write(encoded.size.to_bytes(LENGTH_BYTES, "little"))
        at = file.tell()
        file.write(bytes(LENGTH_BYTES))
        file.write(encoded)
        save_where_possible(index, file)
        index_bytes = file.tell() - at - LENGTH_BYTES - encoded.size
        file.seek(at)
        file.write(index_bytes.to_bytes(LENGTH_BYTES, "little"))


def save_where_possible(index: Index, file: BinaryIO) -> None:
    if index.describe()["engine"] == "fast":
        from tidings.matching.index.archive import save_index

        save_index(index, file)


def read_table(path: Path) -> tuple[Any, int]:
    """The table, and where the index begins (0: there is none)."""
    with path.open("rb") as file:
        head = file.read(len(SIGNATURE) + 2 * LENGTH_BYTES)
    if not head.startswith(SIGNATURE) or len(head) < len(SIGNATURE) + 2 * LENGTH_BYTES:
        raise UsageError(f"{path} is no index file; make one with build_index_file(subscriptions, path)")
    table_bytes = int.from_bytes(head[-2 * LENGTH_BYTES : -LENGTH_BYTES], "little")
    index_bytes = int.from_bytes(head[-LENGTH_BYTES:], "little")
    if path.stat().st_size < len(head) + table_bytes + index_bytes:
        raise UsageError(f"{path} is cut short; make it again with build_index_file(subscriptions, path)")
    mapped = pa.memory_map(str(path))
    mapped.seek(len(head))
    table = pa.ipc.open_stream(mapped.read_buffer(table_bytes)).read_all()
    return table, len(head) + table_bytes if index_bytes else 0


def names_of_table(table: Any) -> list[str]:
    names: list[str] = msgspec.json.decode(table.schema.metadata[NAMES], type=list[str])
    return names


def load_index_file(path: Path) -> IndexedSubscriptions:
    table, index_at = read_table(path)
    keys = table.column("subscription").combine_chunks()
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.chunk(0) if keys.num_chunks else pa.array([], keys.type)
    index = saved_index(path, index_at)
    if index is None:
        index = Index(params=PARAMS)
        index.add_many(enumerate(map(decode_filter, table.column("filter").to_pylist())))
    return IndexedSubscriptions(keys, names_of_table(table), index)


def saved_index(path: Path, index_at: int) -> Index | None:
    """The index in the file, if there is one that this process can use."""
    if not index_at or find_spec("numba") is None:
        return None
    from tidings.matching.index.archive import OtherLayout, load_index

    with path.open("rb") as file:
        file.seek(index_at)
        try:
            return load_index(file)
        except OtherLayout:
            return None


def names_in(filters: Iterable[Filter]) -> list[str]:
    """Every attribute that some filter reads, sorted."""
    return sorted(set().union(*map(names_of, filters)))


def names_of(filter: Filter) -> set[str]:
    names = {constraint.name for conjunction in filter.conjunctions for constraint in conjunction}
    if filter.residual is not None:
        names |= {part.name for part in walk(filter.residual) if isinstance(part, Attribute | Exists)}
    return names
