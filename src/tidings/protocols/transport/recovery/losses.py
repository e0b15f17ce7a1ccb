"""The way of a loss: asked of others, then of the carrier's history, then given up.

Each ends in one of three ways, and no loss is forgotten: it is brought (by a repair, by the history, late by itself),
it is given up (`Quality("given_up")` for the application, and a drop with the reason), or nobody wants it any more.

**The last resort**: what nobody repaired is read from the history that the carrier keeps of the publisher.

A carrier with a history stores events under numbers of its own. Of a lost event we know between which two of them it
lies, from the events before and behind it; `Recall` asks for what is stored there. One recall of a stream is under way
at a time, and those losses that wait meanwhile are joined, as long as they lie within `SPAN_MAX` numbers. What the
history has comes as `Recalled`; what it does not have, and what is not answered in `ANSWER_SECONDS`, is given up.

Timer ("recall", stream): no answer came.
"""

from collections.abc import Iterator
from random import Random

import msgspec

from tidings.machine.effects import CancelTimer, Deliver, Drop, Effect, SetTimer
from tidings.protocols.transport.headers import Data, unwrap
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.recovery.requester import Key, LostEvent, Requester
from tidings.protocols.transport.recovery.streams import RecoveryStream
from tidings.protocols.transport.signals import (
    CarriedEvent,
    EventLost,
    GivenUp,
    Quality,
    Recall,
    Recalled,
    Stream,
    opened,
)

ANSWER_SECONDS = 10.0
SPAN_MAX = 1000
"""Numbers of the carrier that one recall may span, where it is for several losses."""

WAITING_MAX = 10_000
"""Losses that wait for the history."""


class HistoryReading(msgspec.Struct):
    """A recall under way, and the losses that it is for."""

    recall: Recall
    losses: dict[int, LostEvent]


class HistoryReadings:
    def __init__(self) -> None:
        self.readings: dict[Stream, HistoryReading] = {}
        self.waiting: dict[Stream, dict[int, LostEvent]] = {}
        self.count = 0
        """Losses in both."""

    @property
    def is_full(self) -> bool:
        return self.count >= WAITING_MAX

    def __contains__(self, key: Key) -> bool:
        stream, sequence = key
        reading = self.readings.get(stream)
        return (reading is not None and sequence in reading.losses) or sequence in self.waiting.get(stream, ())

    def add(self, now: float, stream: Stream, sequence: int, loss: LostEvent) -> list[Effect]:
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
        self.readings[stream] = HistoryReading(recall, joined)
        return [recall, SetTimer(("recall", stream), now + ANSWER_SECONDS)]

    def answered(self, stream: Stream, sequence: int | None) -> dict[int, LostEvent] | None:
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

    def losses_read(self, stream: Stream) -> dict[int, LostEvent]:
        reading = self.readings.get(stream)
        return {} if reading is None else reading.losses

    def forget(self, stream: Stream) -> tuple[dict[int, LostEvent], list[Effect]]:
        """The losses that are given up."""
        losses = {**self.losses_read(stream), **self.waiting.get(stream, {})}
        self.count -= len(losses)
        self.waiting.pop(stream, None)
        cancelled: list[Effect] = [CancelTimer(("recall", stream))] if self.readings.pop(stream, None) else []
        return losses, cancelled

    def check(self) -> None:
        held = sum(len(reading.losses) for reading in self.readings.values())
        assert self.count == held + sum(map(len, self.waiting.values())) <= WAITING_MAX, "losses are counted wrongly"


def events_in(recalled: Recalled) -> Iterator[tuple[int, Data, CarriedEvent]]:
    """Number, header and event, without mark and header, of all that can be read and are of this publisher."""
    for content in recalled.contents:
        header, event = opened(content)
        if header is not None and header.publisher == recalled.stream[1]:
            yield unwrap(header.sequence, recalled.sequence), header, event


def joint_span(after: int, before: int, loss: LostEvent) -> tuple[int, int] | None:
    """What includes both, where that is not too much."""
    if (after, before) == (loss.after, loss.before):
        return after, before
    if not (before and loss.before):
        return None
    low, high = min(after, loss.after), max(before, loss.before)
    return (low, high) if high - low <= SPAN_MAX else None


NOBODY_HAS_IT = "asked for as often as is allowed, and nobody had it"
TOO_MANY_LOSSES = "as many lost events as are allowed are asked for already"
NOT_IN_HISTORY = "the carrier's history does not have it"
STREAM_GONE = "its publisher has been silent for too long"
NOT_WANTED_ANY_MORE = "lost for subscriptions that are not there any more"

Brought = tuple[int, Data, CarriedEvent]


class Losses:
    def __init__(self, node_id: int, params: TransportParams, rng: Random) -> None:
        self.params = params
        self.requester = Requester(node_id, params, rng)
        self.history = HistoryReadings()
        self.given_up = 0

    def __contains__(self, key: Key) -> bool:
        return key in self.requester.losses or key in self.history

    def configure(self, params: TransportParams) -> None:
        self.params = params
        self.requester.configure(params)

    def add(self, now: float, state: RecoveryStream, lost: EventLost, subscriptions: tuple[int, ...]) -> list[Effect]:
        if (lost.stream, lost.sequence) in self:
            return []
        loss = LostEvent(now, lost.bits, subscriptions, *state.numbers_around(lost.sequence))
        if self.requester.is_full:
            return self.last_resort(now, lost.stream, lost.sequence, loss, TOO_MANY_LOSSES)
        return self.requester.lost(now, state, lost.sequence, loss)

    def due(self, now: float, state: RecoveryStream, sequence: int) -> list[Effect]:
        loss = self.requester.losses.get((state.stream, sequence))
        if loss is None:
            return []
        asked = self.requester.due(now, state, sequence)
        if asked is not None:
            return asked
        self.requester.end(state, sequence)
        return self.last_resort(now, state.stream, sequence, loss, NOBODY_HAS_IT)

    def last_resort(self, now: float, stream: Stream, sequence: int, loss: LostEvent, reason: str) -> list[Effect]:
        """Nobody can be asked any more: the history is left, where there is one."""
        if self.params.recovery.uses_history and not self.history.is_full:
            return self.history.add(now, stream, sequence, loss)
        return self.give_up(stream, sequence, loss, reason)

    def give_up(self, stream: Stream, sequence: int, loss: LostEvent, reason: str) -> list[Effect]:
        self.given_up += 1
        quality = Quality("given_up", stream, sequence, subscriptions=loss.subscriptions)
        return [Drop(quality, reason), Deliver(quality), GivenUp(stream, sequence)]

    def end(self, state: RecoveryStream, sequence: int) -> list[Effect]:
        """It is here, or nobody wants it any more."""
        if (state.stream, sequence) in self.requester.losses:
            return self.requester.end(state, sequence)
        self.history.drop(state.stream, sequence)
        return []

    def recalled(self, now: float, recalled: Recalled) -> tuple[list[Brought], list[Effect]]:
        """What the history brought of that which was lost; the rest of what this recall was for is given up."""
        losses = self.history.answered(recalled.stream, recalled.sequence)
        if losses is None:
            return [], []
        found = [each for each in events_in(recalled) if losses.pop(each[0], None) is not None]
        return found, [CancelTimer(("recall", recalled.stream)), *self.next_reading(now, recalled.stream, losses)]

    def unanswered(self, now: float, stream: Stream) -> list[Effect]:
        """The history is silent."""
        losses = self.history.answered(stream, None)
        return [] if losses is None else self.next_reading(now, stream, losses)

    def next_reading(self, now: float, stream: Stream, losses: dict[int, LostEvent]) -> list[Effect]:
        effects = list[Effect]()
        for sequence, loss in losses.items():
            effects += self.give_up(stream, sequence, loss, NOT_IN_HISTORY)
        return effects + self.history.read(now, stream)

    def forget(self, state: RecoveryStream) -> list[Effect]:
        stream, effects = state.stream, list[Effect]()
        for key, loss in [item for item in self.requester.losses.items() if item[0][0] == stream]:
            effects += self.requester.end(state, key[1])
            effects += self.give_up(stream, key[1], loss, STREAM_GONE)
        losses, cancelled = self.history.forget(stream)
        effects += cancelled
        for sequence, loss in losses.items():
            effects += self.give_up(stream, sequence, loss, STREAM_GONE)
        return effects

    def unwanted(self, reliable: set[int]) -> list[Key]:
        """Those that no subscription is left for."""
        return [key for key, loss in self.requester.losses.items() if reliable.isdisjoint(loss.subscriptions)]

    def check(self) -> None:
        self.requester.check()
        self.history.check()
