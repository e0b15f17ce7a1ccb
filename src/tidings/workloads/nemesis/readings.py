"""Judging who reads what is stored: first how far publishers have come (marks), then page by page.

What is found must have been published so, lie within what was asked for and what its writer advertised, come in its
writer's order and not twice. A reading that was begun when nothing is unreachable any more (`is_last`) finds whatever
was accepted, or its reader is told which writers it does not know all of: their brokers were not reached, or something
of theirs is no longer stored.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import msgspec

from tidings.workloads.nemesis.judged import BrokenPromise, JudgedEvent, WriterLife, tenant_of
from tidings.workloads.nemesis.wish import Wish, is_wanted


class JudgedReading(msgspec.Struct):
    reader: str
    wish: Wish
    is_last: bool
    is_over: bool = False
    found: dict[str, None] = {}
    last: dict[WriterLife, JudgedEvent] = {}
    told: set[str] = set()
    """Writers of whom the reader knows that something may be missing."""


class ReadingJudge:
    """`events` by id and `of_writer` are what was published until now."""

    def __init__(self, events: Mapping[str, JudgedEvent], of_writer: Mapping[str, Sequence[JudgedEvent]]) -> None:
        self.events, self.of_writer = events, of_writer
        self.all: dict[Hashable, JudgedReading] = {}

    def begun(self, key: Hashable, reader: str, wish: Wish, is_last: bool) -> None:
        self.all[key] = JudgedReading(reader, wish, is_last)

    def lacks(self, key: Hashable, writer: str) -> None:
        """The reader is told that something of this writer may be missing."""
        self.all[key].told.add(writer)

    def over(self, key: Hashable) -> None:
        """All pages have come, or were refused with a reason."""
        self.all[key].is_over = True

    def read(self, key: Hashable, writer: str, attributes: Mapping[str, Any], payload: bytes) -> BrokenPromise | None:
        reading, event = self.all[key], self.events.get(str(attributes.get("id")))
        broken = "which nobody published" if event is None else fault_of(reading, event, writer, attributes, payload)
        if event is None or broken:
            return BrokenPromise("readings", f"{dict(attributes)} of {writer} is read, {broken}", reading.reader)
        reading.found[event.id] = None
        reading.last[event.writer, event.life] = event
        return None

    def at_end(self) -> list[BrokenPromise]:
        return [
            BrokenPromise("readings", f"{event.id} is accepted, and was not found", reading.reader)
            for reading in self.all.values()
            if reading.is_last and reading.is_over
            for writer, events in self.of_writer.items()
            if writer not in reading.told and tenant_of(writer) == tenant_of(reading.reader)
            for event in events
            if is_owed(event) and event.id not in reading.found and is_wanted(reading.wish, event.attributes)
        ]

    @property
    def count(self) -> int:
        """Events that were read."""
        return sum(len(reading.found) for reading in self.all.values())


def is_owed(event: JudgedEvent) -> bool:
    return event.is_accepted and event.is_offered and not event.may_be_gone


def fault_of(
    reading: JudgedReading, event: JudgedEvent, writer: str, attributes: Mapping[str, Any], payload: bytes
) -> str:
    """What is wrong with this event, if anything is."""
    if (writer, attributes, payload) != (event.writer, event.attributes, event.payload):
        return f"which {event.writer} published otherwise"
    if tenant_of(writer) != tenant_of(reading.reader):
        return "which is of another tenant"
    if not is_wanted(reading.wish, attributes):
        return f"which {reading.wish.text()} does not match"
    if event.is_declined or not event.is_offered:
        return "which lies outside of what its publisher advertised"
    last = reading.last.get((event.writer, event.life))
    if last is not None and last.place >= event.place:
        return f"behind {last.id}"
    return ""
