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
"""

from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_type_hints

import msgspec

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
RUN_COLUMNS = COLUMNS[:2]
"""The same in every row of a file."""
ROW_COLUMNS = COLUMNS[2:]
"""What a row has of its own, in the order in which writers take it."""

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


def arrow_schema() -> Any:
    """The columns as an Arrow schema, read off `Record`: a field that may be None may be null."""
    import pyarrow

    types = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64(), Kind: pyarrow.string()}
    fields = []
    for name, hint in get_type_hints(Record).items():
        plain = [part for part in get_args(hint) if part is not NoneType] if isinstance(hint, UnionType) else [hint]
        fields.append(pyarrow.field(name, types[plain[0]], nullable=isinstance(hint, UnionType)))
    return pyarrow.schema(fields)
