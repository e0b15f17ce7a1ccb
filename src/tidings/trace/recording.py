"""From what happens to a node to the rows of a trace, for both worlds.

A thing that happens is an input, an effect, or something that only the world knows: `Lost`, for a message that it lost
on the way, and a finished `Record` for everything else (start, stop, faults). `of_input` and `of_effect` make one
record of one thing. A writer takes things as they are (`writer.record(now, node, thing)`) and turns many of them into
rows at once, here, in `add_rows`: in the loop of a simulator that costs a third as much.

Inputs and effects that are not for the trace (setting a timer, saving, a signal) make no row. A publication is an input
whose type is named `Publish...`: it is a request of the application, and protocols define their own.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from tidings.machine.effects import Deliver, Drop, Effect, Note, Send
from tidings.machine.inputs import Fired, Input, LinkDown, LinkUp, Received
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.trace.describing import describe, describe_event, detail_text, key_text, shortened
from tidings.trace.record import DETAIL_CHARS_MAX, Record, Row, record_of, row_of

PUBLISH = "Publish"

RowMaker = Callable[[float, NodeId, Any], Row]


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
    cells: list[Any] = []
    add_rows(cells, (now, node, thing))
    return record_of("", 0, tuple(cells)) if cells else None


def add_rows(cells: list[Any], things: Iterable[Any]) -> None:
    """Rows for `time, node, thing, time, node, thing, ...`, cell after cell."""
    add = cells.extend
    latest: Any = None
    name, key, detail = "", None, None
    each = iter(things)
    for now, node, thing in zip(each, each, each, strict=True):
        kind = type(thing)
        if kind is Received:
            if thing.message is not latest:
                latest = thing.message
                name, key, detail = describe(latest)
            add((now, node, "receive", thing.sender, name, key, thing.size_bytes or None, None, detail))
        elif kind is Send:
            # The same message often goes to many.
            if thing.message is not latest:
                latest = thing.message
                name, key, detail = describe(latest)
            add((now, node, "send", thing.to, name, key, None, None, detail))
        elif kind is Fired:
            add((now, node, "timer", None, None, key_text(thing.key), None, None, None))
        elif (make_row := ROW_MAKERS.get(kind) or choose_maker(kind)) is not no_row:
            add(make_row(now, node, thing))


def no_row(now: float, node: NodeId, thing: Any) -> Row:
    raise AssertionError(f"{type(thing).__name__} is not for the trace")


def choose_maker(kind: type) -> RowMaker:
    """What is done with things of a type that was not met before."""
    maker = ROW_MAKERS[kind] = publish_row if kind.__name__.startswith(PUBLISH) else no_row
    return maker


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
    if detail is not None and len(detail) > DETAIL_CHARS_MAX:
        detail = shortened(detail)
    return time, node, kind, peer, message, key and key_text(key), size_bytes, reason, detail


ROW_MAKERS: dict[type, RowMaker] = {
    Deliver: deliver_row,
    Drop: drop_row,
    Lost: lost_row,
    Note: note_row,
    LinkUp: link_row,
    LinkDown: link_row,
    Record: finished_row,
}
"""For the types that `add_rows` does not treat itself; it grows by one entry for each further type in the program."""
