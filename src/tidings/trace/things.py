"""From what happens to a node to the rows of a trace, for both worlds.

A thing that happens is an input, an effect, or something that only the world knows: `LostMessage`, for a message that
it lost on the way, and a finished `Record` for everything else (start, stop, faults). `of_input` and `of_effect` make
one record of one thing. A writer collects things and turns many of them into rows at once, here, in `add_things`, which
is several times cheaper; `gathering` tells how a loop hands them over.

Inputs and effects that are not for the trace (setting a timer, saving, a signal) make no row. A publication is a
`PublishRequest` of the application, and protocols define their own.

Publications that travel side by side are taken apart: in a trace each event has a row of its own. A bundle that an
application publishes becomes one `publish` row for each event in it, one that a client delivers one `deliver` row each,
and one that is given up one `drop` row each; all have the key that the event itself has. An event without an id has
none when it is published, and when it is delivered the one that its receiver sees: its publisher, and the number that
this gave it.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec.structs import asdict

from tidings.machine.effects import Deliver, Drop, Effect, Note, Send, Transfer, note_name
from tidings.machine.inputs import Fired, Input, LinkDown, LinkUp, Received
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.pubsub.publications import BadPublication, read_head
from tidings.pubsub.requests import Bundle, BundledEvent, PublishRequest
from tidings.trace.description import describe, describe_all, describe_event, detail_text, fitted, is_small, key_text
from tidings.trace.record import KIND_NUMBERS, Kind, Record, Row, Rows, Subject, numbering, record_of, row_of

RowMaker = Callable[[float, NodeId, Any], Row]

IN_COLUMNS = ("key", "size_bytes")
"""Fields of notes that are columns of their rows; all others are in the detail."""

SEND, RECEIVE = KIND_NUMBERS["send"], KIND_NUMBERS["receive"]

THING_WIDTH = 6
"""Cells of a collected thing: time, node, SEND or RECEIVE, peer, message, size in bytes. Of a thing that is neither,
only the first two are known yet, and it takes the place of the message."""


class LostMessage(msgspec.Struct, frozen=True):
    """The world lost a message that the node had sent to `to`."""

    to: NodeId
    message: Any
    reason: str


def of_input(now: float, node: NodeId, input: Input) -> Record | None:
    return of_thing(now, node, input)


def of_effect(now: float, node: NodeId, effect: Effect) -> Record | None:
    return of_thing(now, node, effect)


def of_thing(now: float, node: NodeId, thing: Any) -> Record | None:
    return record_of("", 0, ROW_MAKERS[type(thing)](now, node, thing)) if is_recorded(type(thing)) else None


def add_things(rows: Rows, things: list[Any], others: list[int]) -> None:
    """Rows for collected things, column by column; `others` are the places of those that are no plain message."""
    times, nodes, kinds, peers, values, sizes = (things[place::THING_WIDTH] for place in range(THING_WIDTH))
    for place in others:
        row = ROW_MAKERS[type(values[place])](times[place], nodes[place], values[place])
        times[place], nodes[place], kind, peers[place], message, key, sizes[place], reason, detail = row
        kinds[place], values[place] = KIND_NUMBERS[kind], Subject(message, key, reason, detail)
    rows.times.fromlist(times)
    rows.nodes.fromlist(list(map(rows.names.__getitem__, nodes)))
    rows.kinds += bytes(kinds)
    rows.peers.fromlist(list(map(rows.names.__getitem__, peers)))
    rows.sizes += sizes
    add_subjects(rows, values)


def add_subjects(rows: Rows, values: list[Any]) -> None:
    """The subject of each row: a finished one, or a message.

    The same message is sent to many, and received soon after it was sent: it is described once. Small messages are the
    same if they are equal, others if they are one object, since comparing these may be dear. All values are alive here,
    so no two have the same `id`.
    """
    numbers = numbering(len(rows.subjects))
    if all(map(is_small, set(map(type, values)))):
        rows.subject_numbers.fromlist(list(map(numbers.__getitem__, values)))
        rows.subjects += describe_all(list(numbers))
    else:
        ids = list(map(id, values))
        rows.subject_numbers.fromlist(list(map(numbers.__getitem__, ids)))
        rows.subjects += describe_all(list(dict(zip(ids, values, strict=True)).values()))


def is_recorded(kind: type) -> bool:
    """Whether things of this type make a row."""
    if kind in ROW_MAKERS:
        return True
    if issubclass(kind, PublishRequest):
        ROW_MAKERS[kind] = publish_row
    elif issubclass(kind, Note):
        ROW_MAKERS[kind] = note_row
    return kind in ROW_MAKERS


def send_row(now: float, node: NodeId, effect: Send | Transfer) -> Row:
    name, key, detail = describe(effect.message)
    return now, node, "send", effect.to, name, key, None, None, detail


def receive_row(now: float, node: NodeId, input: Received) -> Row:
    name, key, detail = describe(input.message)
    return now, node, "receive", input.sender, name, key, input.size_bytes or None, None, detail


def timer_row(now: float, node: NodeId, input: Fired) -> Row:
    return now, node, "timer", None, None, key_text(input.key), None, None, None


def deliver_row(now: float, node: NodeId, effect: Deliver) -> Row:
    name, key, detail = describe(effect.item)
    return now, node, "deliver", None, name, key, payload_size(effect.item), None, detail


def publish_row(now: float, node: NodeId, input: PublishRequest) -> Row:
    event = getattr(input, "event", None)
    name, key, detail = describe_event(event, in_full=True) if isinstance(event, Event) else describe(input)
    return now, node, "publish", None, name, key, payload_size(event), None, detail


def payload_size(item: Any) -> int | None:
    return len(item.payload) if isinstance(item, Event) else None


def drop_row(now: float, node: NodeId, effect: Drop) -> Row:
    name, key, detail = describe(effect.item)
    return now, node, "drop", None, name, key, None, effect.reason, detail


def lost_row(now: float, node: NodeId, lost: LostMessage) -> Row:
    name, key, detail = describe(lost.message)
    return now, node, "drop", lost.to, name, key, None, lost.reason, detail


def note_row(now: float, node: NodeId, note: Note) -> Row:
    """A note about an event stands with the other rows of that event."""
    fields = asdict(note)
    key, size_bytes = [fields.pop(column, None) for column in IN_COLUMNS]
    name = note_name(type(note))
    return now, node, "note", None, name, None if key is None else key_text(key), size_bytes, None, detail_text(fields)


def link_row(now: float, node: NodeId, link: LinkUp | LinkDown) -> Row:
    reason = link.reason or None if isinstance(link, LinkDown) else None
    name = type(link).__name__
    return now, node, "link", link.neighbour, name, None, None, reason, f'{{"epoch":{link.epoch}}}'


def finished_row(now: float, node: NodeId, record: Record) -> Row:
    """As it is, within the bounds of a row."""
    time, node, kind, peer, message, key, size_bytes, reason, detail = row_of(record)
    return time, node, kind, peer, message, key and key_text(key), size_bytes, reason, detail and fitted(detail)


ROW_MAKERS: dict[type, RowMaker] = {
    Send: send_row,
    Transfer: send_row,
    Received: receive_row,
    Fired: timer_row,
    Deliver: deliver_row,
    Drop: drop_row,
    LostMessage: lost_row,
    LinkUp: link_row,
    LinkDown: link_row,
    Record: finished_row,
}
"""It grows by one entry for each type of publication and of note in the program."""


UNREADABLE = "no encoded event"

encode = msgspec.json.Encoder().encode


def records_of(now: float, node: NodeId, thing: Any) -> Iterator[Record] | None:
    """One for each event of a bundle that is published or delivered; None for a thing that is one row, or none."""
    if type(thing) is Deliver:
        return rows_of(now, node, "deliver", thing.item) if isinstance(thing.item, Bundle) else None
    if type(thing) is Drop:
        return rows_of(now, node, "drop", thing.item, thing.reason) if isinstance(thing.item, Bundle) else None
    is_published = isinstance(thing, Bundle) and isinstance(thing, PublishRequest)
    return rows_of(now, node, "publish", thing) if is_published else None


def rows_of(now: float, node: NodeId, kind: Kind, bundle: Bundle, reason: str | None = None) -> Iterator[Record]:
    return (row(now, node, kind, bundled, reason) for bundled in bundle.publications())


def row(now: float, node: NodeId, kind: Kind, bundled: BundledEvent, reason: str | None) -> Record:
    event = readable(bundled.head)
    is_published = bundled.about is None
    _, key, attributes = describe_event(event, is_published) if event is not None else (None, None, None)
    return Record(
        time=now,
        node=node,
        kind=kind,
        message="Event",
        key=key or (bundled.key and key_text(bundled.key)),
        size_bytes=len(bundled.payload),
        reason=UNREADABLE if event is None else reason,
        detail=attributes if is_published else encode(bundled.about).decode(),
    )


def readable(head: bytes) -> Event | None:
    try:
        return read_head(head)
    except BadPublication:
        return None
