"""From what happens to a node to the rows of a trace, for both worlds.

A thing that happens is an input, an effect, or something that only the world knows: `Lost`, for a message that it lost
on the way, and a finished `Record` for everything else (start, stop, faults). `of_input` and `of_effect` make one
record of one thing. A writer collects things and turns many of them into rows at once, here, in `add_things`, which is
several times cheaper; `gathering` tells how a loop hands them over.

Inputs and effects that are not for the trace (setting a timer, saving, a signal) make no row. A publication is an input
whose type is named `Publish...`: it is a request of the application, and protocols define their own.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from tidings.machine.effects import Deliver, Drop, Effect, Note, Send
from tidings.machine.inputs import Fired, Input, LinkDown, LinkUp, Received
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.trace.describing import describe, describe_all, describe_event, detail_text, fitted, key_text
from tidings.trace.record import Record, Row, record_of, row_of
from tidings.trace.rows import KIND_NUMBERS, Rows

PUBLISH = "Publish"

RowMaker = Callable[[float, NodeId, Any], Row]

SEND, RECEIVE, OTHER = KIND_NUMBERS["send"], KIND_NUMBERS["receive"], -1
"""How a collected thing is marked; OTHER stands for a thing whose row has still to be made."""

THING_WIDTH = 6
"""A collected thing: time, node, mark, peer, the message or the thing, size in bytes."""


class Lost(msgspec.Struct, frozen=True):
    """The world lost a message that the node had sent to `to`."""

    to: NodeId
    message: Any
    reason: str


def of_input(now: float, node: NodeId, input: Input) -> Record | None:
    return of_thing(now, node, input)


def of_effect(now: float, node: NodeId, effect: Effect) -> Record | None:
    return of_thing(now, node, effect)


def of_thing(now: float, node: NodeId, thing: Any) -> Record | None:
    make_row = maker_of(type(thing))
    return None if make_row is None else record_of("", 0, make_row(now, node, thing))


def add_things(rows: Rows, things: list[Any]) -> None:
    """Rows for collected things, column by column.

    The same message is sent to many, and received soon after it was sent: it is described once. All things are alive
    here, so no two have the same `id`.
    """
    times, nodes, kinds, peers, values, sizes = (things[place::THING_WIDTH] for place in range(THING_WIDTH))
    ids = list(map(id, values))
    numbers: dict[int, int] = {}
    place = -1
    for _ in range(kinds.count(OTHER)):
        place = kinds.index(OTHER, place + 1)
        make_row = maker_of(type(values[place]))
        assert make_row is not None, "only what makes a row is collected"
        row = make_row(times[place], nodes[place], values[place])
        times[place], nodes[place], kind, peers[place], message, key, sizes[place], reason, detail = row
        kinds[place] = KIND_NUMBERS[kind]
        numbers[ids[place]] = len(rows.subjects)
        rows.subjects.append((message, key, reason, detail))
    messages = dict(zip(ids, values, strict=True))
    for each in numbers:
        del messages[each]
    numbers.update(zip(messages, range(len(rows.subjects), len(rows.subjects) + len(messages)), strict=True))
    rows.subjects.extend((name, key, None, detail) for name, key, detail in describe_all(list(messages.values())))
    rows.times.extend(times)
    rows.nodes.extend(nodes)
    rows.kinds.extend(kinds)
    rows.peers.extend(peers)
    rows.sizes.extend(sizes)
    rows.subject_numbers.extend(map(numbers.__getitem__, ids))


def maker_of(kind: type) -> RowMaker | None:
    """What is done with things of this type; None for those that are not for the trace."""
    try:
        return ROW_MAKERS[kind]
    except KeyError:
        maker = ROW_MAKERS[kind] = publish_row if kind.__name__.startswith(PUBLISH) else None
        return maker


def send_row(now: float, node: NodeId, effect: Send) -> Row:
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


def publish_row(now: float, node: NodeId, input: Any) -> Row:
    event = getattr(input, "event", None)
    name, key, detail = describe_event(event, in_full=True) if isinstance(event, Event) else describe(input)
    return now, node, "publish", None, name, key, payload_size(event), None, detail


def payload_size(item: Any) -> int | None:
    return len(item.payload) if isinstance(item, Event) else None


def drop_row(now: float, node: NodeId, effect: Drop) -> Row:
    name, key, detail = describe(effect.item)
    return now, node, "drop", None, name, key, None, effect.reason, detail


def lost_row(now: float, node: NodeId, lost: Lost) -> Row:
    name, key, detail = describe(lost.message)
    return now, node, "drop", lost.to, name, key, None, lost.reason, detail


def note_row(now: float, node: NodeId, note: Note) -> Row:
    return now, node, "note", None, note.kind, None, None, None, detail_text(note.fields)


def link_row(now: float, node: NodeId, link: LinkUp | LinkDown) -> Row:
    reason = link.reason or None if isinstance(link, LinkDown) else None
    name = type(link).__name__
    return now, node, "link", link.neighbour, name, None, None, reason, f'{{"epoch":{link.epoch}}}'


def finished_row(now: float, node: NodeId, record: Record) -> Row:
    """As it is, within the bounds of a row."""
    time, node, kind, peer, message, key, size_bytes, reason, detail = row_of(record)
    return time, node, kind, peer, message, key and key_text(key), size_bytes, reason, detail and fitted(detail)


ROW_MAKERS: dict[type, RowMaker | None] = {
    Send: send_row,
    Received: receive_row,
    Fired: timer_row,
    Deliver: deliver_row,
    Drop: drop_row,
    Lost: lost_row,
    Note: note_row,
    LinkUp: link_row,
    LinkDown: link_row,
    Record: finished_row,
}
"""It grows by one entry for each further type of input or effect in the program."""
