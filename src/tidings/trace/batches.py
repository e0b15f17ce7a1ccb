"""Publications that travel side by side, taken apart: in a trace each event has a row of its own.

A bundle that an application publishes becomes one `publish` row for each event in it, one that a client delivers one
`deliver` row each, and one that is given up one `drop` row each; all have the key that the event itself has. An event
without an id has none when it is published, and when it is delivered the one that its receiver sees: its publisher, and
the number that this gave it.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from tidings.machine.effects import Deliver, Drop
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.pubsub.bundles import Bundle, BundledEvent
from tidings.pubsub.publications import BadPublication, read_head
from tidings.pubsub.requests import PublishRequest
from tidings.trace.description import describe_event, key_text
from tidings.trace.record import Kind, Record

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
