"""The last resort: what nobody repaired is read from the history that the carrier keeps of the publisher.

A carrier with a history stores events under numbers of its own. Of a lost event we know between which two of them it
lies, from the events before and behind it; `Recall` asks for what is stored there. One recall of a stream is under way
at a time, and those losses that wait meanwhile are joined, as long as they lie within `SPAN_MAX` numbers. What the
history has comes as `Recalled`; what it does not have, and what is not answered in `ANSWER_SECONDS`, is given up.

Timer ("recall", stream): no answer came.
"""

from collections.abc import Iterator

import msgspec

from tidings.machine.effects import CancelTimer, Effect, SetTimer
from tidings.protocols.transport.codec import decode_data
from tidings.protocols.transport.entries import BadHeader
from tidings.protocols.transport.formats import Data, unwrap
from tidings.protocols.transport.marking import Kind, unmark
from tidings.protocols.transport.recovery.asking import Key, Loss
from tidings.protocols.transport.signals import Content, Recall, Recalled, Stream

ANSWER_SECONDS = 10.0
SPAN_MAX = 1000
"""Numbers of the carrier that one recall may span, where it is for several losses."""

WAITING_MAX = 10_000
"""Losses that wait for the history."""


class Reading(msgspec.Struct):
    """A recall under way, and the losses that it is for."""

    recall: Recall
    losses: dict[int, Loss]


class History:
    def __init__(self) -> None:
        self.readings: dict[Stream, Reading] = {}
        self.waiting: dict[Stream, dict[int, Loss]] = {}
        self.count = 0
        """Losses in both."""

    @property
    def is_full(self) -> bool:
        return self.count >= WAITING_MAX

    def __contains__(self, key: Key) -> bool:
        stream, sequence = key
        reading = self.readings.get(stream)
        return (reading is not None and sequence in reading.losses) or sequence in self.waiting.get(stream, ())

    def add(self, now: float, stream: Stream, sequence: int, loss: Loss) -> list[Effect]:
        self.waiting.setdefault(stream, {})[sequence] = loss
        self.count += 1
        return [] if stream in self.readings else self.read(now, stream)

    def read(self, now: float, stream: Stream) -> list[Effect]:
        """The next recall of this stream, for as many of those that wait as go together."""
        waiting = self.waiting.get(stream)
        if not waiting:
            self.waiting.pop(stream, None)
            return []
        first = min(waiting)
        joined = {first: waiting.pop(first)}
        after, before = joined[first].after, joined[first].before
        for sequence in sorted(waiting):
            loss = waiting[sequence]
            wider = joint_span(after, before, loss)
            if wider is not None and loss.subscriptions[0] == joined[first].subscriptions[0]:
                after, before = wider
                joined[sequence] = waiting.pop(sequence)
        recall = Recall(stream, first, joined[first].subscriptions[0], after, before)
        self.readings[stream] = Reading(recall, joined)
        return [recall, SetTimer(("recall", stream), now + ANSWER_SECONDS)]

    def answered(self, stream: Stream, sequence: int | None) -> dict[int, Loss] | None:
        """The losses that the recall was for; None if it is not the one under way. Without a number: whichever is."""
        reading = self.readings.get(stream)
        if reading is None or (sequence is not None and sequence != reading.recall.sequence):
            return None
        del self.readings[stream]
        self.count -= len(reading.losses)
        return reading.losses

    def drop(self, stream: Stream, sequence: int) -> None:
        """It came another way; a recall that is for others as well goes on."""
        for losses in (self.waiting.get(stream, {}), self.losses_read(stream)):
            if losses.pop(sequence, None) is not None:
                self.count -= 1

    def losses_read(self, stream: Stream) -> dict[int, Loss]:
        reading = self.readings.get(stream)
        return {} if reading is None else reading.losses

    def forget(self, stream: Stream) -> tuple[dict[int, Loss], list[Effect]]:
        """The losses that are given up."""
        losses = {**self.losses_read(stream), **self.waiting.get(stream, {})}
        self.count -= len(losses)
        self.waiting.pop(stream, None)
        cancelled: list[Effect] = [CancelTimer(("recall", stream))] if self.readings.pop(stream, None) else []
        return losses, cancelled

    def check(self) -> None:
        held = sum(len(reading.losses) for reading in self.readings.values())
        assert self.count == held + sum(map(len, self.waiting.values())) <= WAITING_MAX, "losses are counted wrongly"


def events_in(recalled: Recalled) -> Iterator[tuple[int, Data, Content]]:
    """Number, header and event, without mark and header, of all that can be read and are of this publisher."""
    for content in recalled.contents:
        head, kind = unmark(content.head)
        if kind is not Kind.DATA:
            continue
        try:
            header, payload = decode_data(content.payload)
        except BadHeader:
            continue
        if header.publisher == recalled.stream[1]:
            event = Content(head, payload, content.source, content.number, content.accepted_at)
            yield unwrap(header.sequence, recalled.sequence), header, event


def joint_span(after: int, before: int, loss: Loss) -> tuple[int, int] | None:
    """What includes both, where that is not too much."""
    if (after, before) == (loss.after, loss.before):
        return after, before
    if not (before and loss.before):
        return None
    low, high = min(after, loss.after), max(before, loss.before)
    return (low, high) if high - low <= SPAN_MAX else None
