"""One record of a trace: something that happened at one node at one time.

A trace is a table. Each row is one input that a node took, one effect that left it, or something the world did to it;
the simulator and real nodes write the same rows, so whatever reads a trace (a metric, a picture, a person) need not ask
where it came from. The columns are those below, for every kind of row; a kind leaves empty what it does not need, and
puts what it needs besides into `detail`, as compact JSON text.

    kind      node is                  peer, message, key, size_bytes, reason, detail
    start     the node that starts     what the world wants to say, in detail
    publish   the publisher's node     type and key of the event; size of the payload; its attributes
    send      the sender               the receiver; type and key of the message, its fields; size where it is known
    receive   the receiver             the sender; as send
    deliver   the receiving node       type and key of the item; size of its payload
    drop      who gave it up           type, key and fields of the item; the reason; the receiver if it was under way
    timer     the node                 key: the timer's name
    link      one end                  the other end; LinkUp or LinkDown; why it went down; its epoch
    note      the node                 message: the note's kind; its fields
    fault     the node, or "" for all  message: which fault; its parameters
    stop      the node                 why

`key` is the identity of the event or of the message in hand, where it has one: rows of one event are found by it.
Text is the same for the same run on every machine: no memory addresses, no order of sets.

On their way to a file rows stand column by column (`Rows`). Text repeats from row to row, so rows hold numbers instead
of it. A node, or a peer, is the number of its name. What a row says besides (message, key, reason and detail) is its
*subject*: a message that is sent to many, and received by each of them, is one subject, kept once. So the text of a
message is made once, and a writer handles numbers.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import count
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_type_hints

import msgspec

from tidings.model.errors import UsageError


class TraceError(UsageError):
    """A trace cannot be written or read; the message names the file, the reason, and what to do."""


Kind = Literal["start", "publish", "send", "receive", "deliver", "drop", "timer", "link", "note", "fault", "stop"]
KINDS: tuple[Kind, ...] = get_args(Kind)

SCHEMA_VERSION = 1
"""Goes into every Parquet trace; it grows when a column changes its meaning, goes, or comes."""

KEY_CHARS_MAX = 256
DETAIL_CHARS_MAX = 1024
"""What is longer is cut when a record is made, so that a row, and with it a writer, has a bounded size."""


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A row. Run and seed may be left out: the writer that a record is given to knows them and fills them in."""

    run: str = ""
    seed: int = 0
    time: float
    node: str
    kind: Kind
    peer: str | None = None
    message: str | None = None
    key: str | None = None
    size_bytes: int | None = None
    reason: str | None = None
    detail: str | None = None


COLUMNS: tuple[str, ...] = Record.__struct_fields__

Row = tuple[float, str, Kind, str | None, str | None, str | None, int | None, str | None, str | None]


def row_of(record: Record) -> Row:
    return (
        record.time,
        record.node,
        record.kind,
        record.peer,
        record.message,
        record.key,
        record.size_bytes,
        record.reason,
        record.detail,
    )


def record_of(run: str, seed: int, row: Row) -> Record:
    time, node, kind, peer, message, key, size_bytes, reason, detail = row
    return Record(
        run=run,
        seed=seed,
        time=time,
        node=node,
        kind=kind,
        peer=peer,
        message=message,
        key=key,
        size_bytes=size_bytes,
        reason=reason,
        detail=detail,
    )


@cache
def arrow_schema() -> Any:
    """The columns as an Arrow schema, read off `Record`: a field that may be None may be null."""
    import pyarrow

    types = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64(), Kind: pyarrow.string()}
    fields = []
    for name, hint in get_type_hints(Record).items():
        plain = [part for part in get_args(hint) if part is not NoneType] if isinstance(hint, UnionType) else [hint]
        fields.append(pyarrow.field(name, types[plain[0]], nullable=isinstance(hint, UnionType)))
    return pyarrow.schema(fields)


KIND_NUMBERS: dict[Kind, int] = {kind: number for number, kind in enumerate(KINDS)}


class Subject(msgspec.Struct, frozen=True):
    message: str | None
    key: str | None
    reason: str | None
    detail: str | None


class Rows:
    def __init__(self) -> None:
        self.times = array("d")
        self.nodes = array("i")
        self.kinds = bytearray()
        """Places in KINDS."""
        self.peers = array("i")
        self.sizes: list[int | None] = []
        self.subject_numbers = array("i")
        self.names: defaultdict[str | None, int] = numbering()
        """Of nodes and peers; None is one of them."""
        self.subjects: list[Subject] = []

    def __len__(self) -> int:
        return len(self.times)

    def __iter__(self) -> Iterator[Row]:
        names: list[Any] = list(self.names)
        columns = (self.times, self.nodes, self.kinds, self.peers, self.sizes, self.subject_numbers)
        for time, node, kind, peer, size_bytes, number in zip(*columns, strict=True):
            about = self.subjects[number]
            yield (
                time,
                names[node],
                KINDS[kind],
                names[peer],
                about.message,
                about.key,
                size_bytes,
                about.reason,
                about.detail,
            )


def numbering(first: int = 0) -> defaultdict[Any, int]:
    """Numbers whatever it is asked for in the order in which it is first asked for it."""
    return defaultdict(count(first).__next__)
