"""An index file: what is in it, how it is made of a table of subscriptions, and how it comes to the workers.

It holds subscriptions and their index; it is written once, by the driver, and loaded by every worker.

    signature     8 bytes
    two lengths   8 bytes each: of the table, of the index
    digest        16 bytes: of the table; the index has its own
    table         an Arrow stream: subscription, and its filter as MessagePack; sorted by subscription
    index         as `tidings.matching.index.archive` writes it; empty where the writer had no numba

The index is a copy of memory, so loading it takes a tenth of a second for 100,000 subscriptions. It is of use only to a
process with numba and the same kernels; any other builds an index from the filters of the table, which takes some
seconds. The table is mapped into memory, so that filters nobody reads cost nothing.

Slot i of the index is row i of the table.

From a table of subscriptions to an index file. The table has the columns `subscription` (string or an integer type;
each value once) and `filter` (text of the filter language). Reading a filter takes a quarter of a millisecond, so a
large table is read by Spark, in as many parts as shuffles have; a small one is read here. The index itself is made by
the driver, which has to hold all filters: SUBSCRIPTIONS_MAX bounds that.

How an index file comes to the workers. The driver writes the file into a folder of its own, named after what is in it,
and hands it to Spark as an artifact. That works in a local session, on a cluster (executors fetch the file from the
driver) and over Spark Connect (the client uploads it), and asks for no shared file system. Spark removes the workers'
copies when the session ends; the driver's own copy is removed when its process ends, because an executor that starts
late fetches it then.

A worker process loads a file once, and keeps the LOADED_MAX that it used last. Workers live longer than tasks, so a
stream loads its index with its first batch only.
"""

import atexit
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from tidings.matching import Index, IndexParams
from tidings.model.errors import UsageError
from tidings.model.filter import Filter
from tidings.model.language.expression import Attribute, Exists, walk
from tidings.model.language.parser import parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

SIGNATURE = b"tidixf02"
LENGTH_BYTES = 8
DIGEST_BYTES = 16
HEAD_BYTES = len(SIGNATURE) + 2 * LENGTH_BYTES + DIGEST_BYTES
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
        file.write(xxhash.xxh3_128_digest(encoded))
        file.write(encoded)
        save_where_possible(index, file)
        index_bytes = file.tell() - HEAD_BYTES - encoded.size
        file.seek(at)
        file.write(index_bytes.to_bytes(LENGTH_BYTES, "little"))


def save_where_possible(index: Index, file: BinaryIO) -> None:
    if index.describe()["engine"] == "fast":
        from tidings.matching.index.archive import save_index

        save_index(index, file)


def read_table(path: Path) -> tuple[Any, int]:
    """The table, and where the index begins (0: there is none)."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head.startswith(SIGNATURE) or len(head) < HEAD_BYTES:
        raise UsageError(f"{path} is no index file; make one with build_index_file(subscriptions, path)")
    lengths, digest = head[len(SIGNATURE) : -DIGEST_BYTES], head[-DIGEST_BYTES:]
    table_bytes = int.from_bytes(lengths[:LENGTH_BYTES], "little")
    index_bytes = int.from_bytes(lengths[LENGTH_BYTES:], "little")
    if path.stat().st_size < len(head) + table_bytes + index_bytes:
        raise UsageError(f"{path} is cut short; make it again with build_index_file(subscriptions, path)")
    mapped = pa.memory_map(str(path))
    mapped.seek(len(head))
    encoded = mapped.read_buffer(table_bytes)
    if xxhash.xxh3_128_digest(encoded) != digest:
        # Arrow trusts the lengths in its own format, and would read wherever these lead.
        raise UsageError(f"{path} is damaged; make it again with build_index_file(subscriptions, path)")
    table = pa.ipc.open_stream(encoded).read_all()
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


SUBSCRIPTIONS_MAX = 10_000_000
"""An index of that many takes about 3 GB in the driver and in every worker."""

READ_HERE_MAX = 2_000
"""A table up to this size is read by the driver, since that takes less time than to ask Spark."""

KEY_TYPES = ("byte", "short", "integer", "long", "string")


def build_index_file(subscriptions: "DataFrame", path: str | Path) -> Path:
    """Write the index of a table of subscriptions to a file, which `match` takes in place of the table."""
    path = Path(path)
    write_index_file(path, in_order(collect_filters(subscriptions)))
    return path


def subscription_type(subscriptions: "DataFrame") -> "DataType":
    """The type of the column `subscription`; UsageError if the table is not one of subscriptions."""
    missing = [name for name in ("subscription", "filter") if name not in subscriptions.columns]
    if missing:
        raise UsageError(
            f"subscriptions: there is no column {missing[0]!r} among {', '.join(subscriptions.columns)}; "
            "rename columns to subscription and filter"
        )
    kind = subscriptions.schema["subscription"].dataType
    if kind.typeName() not in KEY_TYPES:
        raise UsageError(
            f"subscriptions: column subscription has type {kind.simpleString()}; cast it to string or long"
        )
    if subscriptions.schema["filter"].dataType.typeName() != "string":
        raise UsageError("subscriptions: column filter is no string; it has to hold the text of filters")
    return kind


def collect_filters(subscriptions: "DataFrame") -> Any:
    """A table of subscription, encoded filter, and what was wrong with it."""
    kind = subscription_type(subscriptions)
    if subscriptions.isStreaming:
        raise UsageError("subscriptions: a stream of subscriptions has no end to build an index from; use a table")
    chosen = subscriptions.select("subscription", "filter")
    count = chosen.count()
    if count > SUBSCRIPTIONS_MAX:
        raise UsageError(
            f"subscriptions: {count} rows, at most {SUBSCRIPTIONS_MAX} fit into one index; "
            "match them in parts and unite the answers"
        )
    return read_here(chosen) if count <= READ_HERE_MAX else read_by_spark(chosen, kind)


def read_here(chosen: "DataFrame") -> Any:
    whole = chosen.toArrow()
    kind = whole.schema.field("subscription").type
    schema = pa.schema([("subscription", kind), ("filter", pa.binary()), ("problem", pa.string())])
    return pa.Table.from_batches(read_filters(whole.to_batches()), schema)


def read_by_spark(chosen: "DataFrame", kind: "DataType") -> Any:
    parts = int(chosen.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    schema = f"subscription {kind.simpleString()}, filter binary, problem string"
    return chosen.repartition(parts).mapInArrow(read_filters, schema).toArrow()


def read_filters(batches: Iterable[Any]) -> Iterator[Any]:
    """Batches with the filters encoded, and where that was not possible the problem."""
    for batch in batches:
        encoded: list[bytes | None] = []
        problems: list[str | None] = []
        for text in batch.column("filter").to_pylist():
            try:
                encoded.append(encode_filter(parse(text)) if text is not None else None)
                problems.append(None if text is not None else "the filter is null")
            except UsageError as error:
                encoded.append(None)
                problems.append(str(error))
        columns = [batch.column("subscription"), pa.array(encoded, pa.binary()), pa.array(problems, pa.string())]
        yield pa.RecordBatch.from_arrays(columns, names=["subscription", "filter", "problem"])


def in_order(read: Any) -> Any:
    """Subscription and encoded filter, sorted; UsageError for the first with which something is wrong."""
    ordered = read.sort_by("subscription")
    keys = ordered.column("subscription").combine_chunks()
    if keys.null_count:
        raise UsageError("subscriptions: column subscription holds null; give each subscription a name or number")
    problems = ordered.filter(pc.is_valid(ordered.column("problem"))).slice(0, 1).to_pylist()
    if problems:
        raise UsageError(f"subscriptions: {problems[0]['subscription']!r}: {problems[0]['problem']}")
    again = pc.indices_nonzero(pc.equal(keys[1:], keys[:-1]))
    if len(again):
        raise UsageError(
            f"subscriptions: {keys[again[0].as_py()].as_py()!r} stands there more than once; "
            "give each row a subscription of its own, or join its filters by OR"
        )
    return ordered.drop_columns(["problem"])


LOADED_MAX = 2
"""Indexes that a worker keeps in memory."""

READ_BYTES = 1 << 20


@cache
def own_folder() -> Path:
    """Of this process, removed at its end."""
    folder = tempfile.mkdtemp(prefix="tidings-matching-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def ship(session: "SparkSession", path: Path) -> str:
    """Give a file to all workers; the name under which they find it."""
    name = f"tidings-index-{content_hash(path)}"
    shipped = own_folder() / name
    if not shipped.exists():
        draft = shipped.with_suffix(".draft")
        shutil.copyfile(path, draft)
        draft.replace(shipped)
    session.addArtifacts(str(shipped), file=True)
    return name


def content_hash(path: Path) -> str:
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        while piece := file.read(READ_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def shipped_index(name: str) -> IndexedSubscriptions:
    """In a worker: the index that was shipped under this name."""
    from pyspark.core.files import SparkFiles

    return load_once(SparkFiles.get(name))


@lru_cache(maxsize=LOADED_MAX)
def load_once(path: str) -> IndexedSubscriptions:
    return load_index_file(Path(path))
