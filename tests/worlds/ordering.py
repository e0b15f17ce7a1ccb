"""One publisher and one receiver on a desk: a test says which events are sent, and when each arrives.

The receiver is the ordering machine alone, with its timers; what the shim would do (numbers, records) is done here.
"""

from collections.abc import Iterable
from random import Random
from typing import Any

from tests.worlds.desk import Desk, drops
from tidings.machine.effects import Deliver, Effect
from tidings.machine.inputs import Input
from tidings.matching.bloom import BloomProfile
from tidings.model.event import Event
from tidings.model.language.parser import parse
from tidings.protocols.transport.headers import DIGEST, ENTRY_AGE, Data, RecordEntry, to_us
from tidings.protocols.transport.ordering.ordering import Ordering
from tidings.protocols.transport.ordering.rules import DelayDifferences
from tidings.protocols.transport.ordering.stream import OrderedStream
from tidings.protocols.transport.params import OrderingParams, TransportParams
from tidings.protocols.transport.rows import row_of_event
from tidings.protocols.transport.signals import (
    CarriedEvent,
    DigestHeard,
    EventLost,
    Handed,
    Heard,
    Listen,
    Quality,
    Stream,
)

STREAM: Stream = ("", 7)
OURS, OTHERS = {"a": 1}, {"a": 2}
"""Attributes of an event that the receiver of these tests wants, and of one that it does not."""


def params_of(record: int = 5, **ordering: Any) -> TransportParams:
    profile = BloomProfile(bits=128)
    return TransportParams(record=record, profile=profile, tells_ranges=False, ordering=OrderingParams(**ordering))


class Publisher:
    """Events in the order in which they are sent, the first with number `first`."""

    def __init__(self, params: TransportParams, first: int = 1, stream: Stream = STREAM) -> None:
        self.params, self.stream, self.first = params, stream, first
        self.sent: list[RecordEntry] = []

    def send(self, departed: float, attributes: dict[str, Any] = OURS, bits: int | None = None) -> int:
        """The number of the event."""
        if bits is None:
            event = Event(attributes)
            bits = row_of_event(event, self.params.profile, self.params.topic_attribute)
        self.sent.append(RecordEntry(self.first + len(self.sent), departed, bits))
        return self.sent[-1].sequence

    def send_all(self, departed: Iterable[float], attributes: dict[str, Any] = OURS) -> None:
        for time in departed:
            self.send(time, attributes)

    def header(self, sequence: int, departed: float, record: int, kind: int = 0) -> Data:
        end = sequence - self.first
        entries = self.sent[max(0, end - record) : end][::-1]
        if self.params.ordering.mode == "basic":
            previous = self.sent[end - 1].departed if end else departed
            return Data(self.stream[1], sequence, departed, previous=previous, kind=kind)
        row_bytes = self.params.profile.size_bytes
        row = b"".join(
            ENTRY_AGE.pack(max(0, to_us(departed) - to_us(entry.departed))) + entry.bits.to_bytes(row_bytes, "little")
            for entry in entries
        )
        return Data(
            self.stream[1], sequence, departed, entries=len(entries), row_bytes=row_bytes, record=row, kind=kind
        )

    def heard(self, sequence: int, subscriptions: tuple[int, ...] = (1,)) -> Heard:
        header = self.header(sequence, self.sent[sequence - self.first].departed, self.params.record)
        return Heard(self.stream, sequence, header, content_of(sequence, subscriptions))

    def digest(self, departed: float) -> DigestHeard:
        """Of all that was sent so far."""
        sequence = self.first + len(self.sent)
        return DigestHeard(self.stream, sequence, self.header(sequence, departed, self.params.digest_record, DIGEST))


def content_of(sequence: int, subscriptions: tuple[int, ...] = (1,)) -> CarriedEvent:
    return CarriedEvent(b"", str(sequence).encode(), subscriptions=subscriptions)


class FixedScale(DelayDifferences):
    """A scale that is known, whatever comes."""

    def __init__(self, scale: float) -> None:
        super().__init__(1)
        self.values, self.total = [1.5 * scale], 1.5 * scale

    def push(self, difference: float) -> None:
        pass


class OrderingDesk(Desk[Ordering]):
    """The machine, its timers, and what came of it so far."""

    def __init__(self, params: TransportParams, **filters: str) -> None:
        self.ordering = Ordering(1, params, Random(1))
        super().__init__(self.ordering)
        for subscription, text in enumerate((filters or {"ours": "a = 1"}).values(), start=1):
            self.handle(Listen(subscription, parse(text)))

    def at(self, now: float, *inputs: Input) -> list[Effect]:
        """What is due until then happens first."""
        self.advance(now)
        return [effect for input in inputs for effect in self.handle(input)]

    def receiving(self, stream: Stream = STREAM) -> OrderedStream:
        return self.ordering.streams[stream]

    def fix_scale(self, scale: float) -> None:
        self.receiving().delays = FixedScale(scale)

    # What came of it.

    def handed(self) -> list[tuple[float, Handed]]:
        items = [(time, effect.item) for time, effect in self.all if isinstance(effect, Deliver)]
        return [(time, item) for time, item in items if isinstance(item, Handed)]

    def order(self) -> list[int]:
        return [item.sequence for _, item in self.handed()]

    def times(self) -> dict[int, float]:
        return {item.sequence: round(time, 6) for time, item in self.handed()}

    def ways(self) -> dict[int, str]:
        return {item.sequence: item.way for _, item in self.handed()}

    def lost(self) -> dict[int, float]:
        return {effect.sequence: round(time, 6) for time, effect in self.all if isinstance(effect, EventLost)}

    def dropped(self) -> list[str]:
        return drops(effect for _, effect in self.all)

    def qualities(self) -> list[tuple[str, int]]:
        items = [effect.item for effect in self.told(Deliver)]
        return [(item.what, item.sequence) for item in items if isinstance(item, Quality)]
