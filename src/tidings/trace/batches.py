"""Publications that travel side by side, taken apart: in a trace each event has a row of its own.

Between a client and its broker network events move in batches of encoded heads. Whoever asks of a trace when an event
was published, and when it arrived where, should not have to know that. So a batch that an application publishes
becomes one `publish` row for each event in it, and a batch that a client delivers one `deliver` row each; both have the
key that the event itself has. An event without an id has none when it is published, and when it is delivered the one
that its receiver sees: its publisher, and the number that this gave it.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tidings.machine.effects import Deliver
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.nodes.carried.items import Carried
from tidings.pubsub.client import Arrived, PublishBatch
from tidings.pubsub.publications import BadPublication, event_of
from tidings.trace.describing import describe_event, key_text
from tidings.trace.record import Record

Taker = Callable[[float, NodeId, Any], Iterator[Record]]

UNREADABLE = "no encoded event"
MESSAGE = "Event"

encode = msgspec.json.Encoder().encode


def published(now: float, node: NodeId, batch: PublishBatch) -> Iterator[Record]:
    for head, payload in zip(batch.heads, batch.payloads, strict=True):
        event = readable(head)
        _, key, detail = describe_event(event, in_full=True) if event is not None else (None, None, None)
        yield row(now, node, "publish", key, payload, detail, event)


def delivered(now: float, node: NodeId, effect: Deliver) -> Iterator[Record]:
    batch: Arrived | Carried = effect.item
    about: dict[str, Any] = {
        "accepted_at": batch.accepted_at,
        "publisher": batch.publisher,
        "subscription": batch.subscription,
    }
    if isinstance(batch, Carried):
        about |= {"latch": batch.latch, "hold": batch.held, "late": batch.way == "late"}
        if batch.way in ("repaired", "history"):
            about |= {"repaired": True, "way": batch.way}
    for number, head, payload in zip(batch.numbers, batch.heads, batch.payloads, strict=True):
        event = readable(head)
        key = None if event is None else describe_event(event)[1]
        # What was repaired has no number, and no name but its own.
        is_numbered = bool(number) or isinstance(batch, Arrived)
        if is_numbered:
            key = key or key_text(f"{batch.publisher} {number}")
        detail = encode({**about, "number": number} if is_numbered else about).decode()
        yield row(now, node, "deliver", key, payload, detail, event)


def readable(head: bytes) -> Event | None:
    try:
        return event_of(head, b"")
    except BadPublication:
        return None


def row(
    now: float, node: NodeId, kind: Any, key: str | None, payload: bytes, detail: str | None, event: Event | None
) -> Record:
    return Record(
        time=now,
        node=node,
        kind=kind,
        message=MESSAGE,
        key=key,
        size_bytes=len(payload),
        reason=UNREADABLE if event is None else None,
        detail=detail,
    )


PUBLISHED: dict[type, Taker] = {PublishBatch: published}
DELIVERED: dict[type, Taker] = {Arrived: delivered, Carried: delivered}


def taker(thing: Any) -> Taker | None:
    """How this thing is taken apart; None if it is one row or none."""
    return DELIVERED.get(type(thing.item)) if type(thing) is Deliver else PUBLISHED.get(type(thing))
