"""Tally: what was lost and what became of it, by publisher and by subscription, for whoever looks.

Ordering says what is `Lost`, and for which subscriptions; `Recovered` says that it came after all, and how; `GivenUp`
that nobody looks for it any more. What is neither yet is `missing`; nothing else is remembered of an event.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from tidings.machine.effects import Deliver, Effect
from tidings.machine.inputs import Input, Signal
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.signals import GivenUp, Lost, Quality, Recovered, Stream, StreamGone

MISSING_MAX = 10_000
"""Lost events of which it is remembered whom they were for; beyond it the oldest is forgotten."""


class Counts:
    """Of one publisher."""

    __slots__ = ("given_up", "lost", "ways")

    def __init__(self) -> None:
        self.lost = self.given_up = 0
        self.ways: Counter[str] = Counter()
        """Lost events that came after all, by the way they came."""


class Tally:
    """Part of `TransportNode`."""

    messages: tuple[type, ...] = ()
    hears: tuple[type, ...] = (
        Lost,
        Recovered,
        GivenUp,
        StreamGone,
    )
    tells: tuple[type[Signal], ...] = ()

    def __init__(self, node_id: int, params: TransportParams, rng: Random) -> None:
        self.streams: dict[Stream, Counts] = {}
        self.missing: dict[tuple[Stream, int], tuple[int, ...]] = {}
        self.handlers: dict[type, Callable[[Any], None]] = {
            Lost: self.lost,
            Recovered: self.recovered,
            GivenUp: self.given_up,
            StreamGone: self.gone,
        }

    def start(self, now: float) -> list[Effect]:
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        handler = self.handlers.get(type(input))
        if handler is not None:
            handler(input)
        return []

    def counts(self, stream: Stream) -> Counts:
        found = self.streams.get(stream)
        if found is None:
            found = self.streams[stream] = Counts()
        return found

    def lost(self, lost: Lost) -> None:
        self.counts(lost.stream).lost += 1
        self.missing[lost.stream, lost.sequence] = lost.subscriptions
        if len(self.missing) > MISSING_MAX:
            del self.missing[next(iter(self.missing))]

    def recovered(self, recovered: Recovered) -> None:
        counts = self.streams.get(recovered.stream)
        if counts is not None:
            counts.ways[recovered.way] += 1
        self.missing.pop((recovered.stream, recovered.sequence), None)

    def found(self, recovered: Recovered) -> list[Effect]:
        """The carrier itself found that this one was lost, and has it; what is not known to be lost is so now."""
        stream, sequence, wanted = recovered.stream, recovered.sequence, recovered.content.subscriptions
        if (stream, sequence) in self.missing:
            return []
        self.lost(Lost(stream, sequence, 0, 0.0, wanted))
        return [Deliver(Quality("lost", stream, sequence, 0.0, wanted))]

    def for_whom(self, stream: Stream, sequence: int) -> tuple[int, ...]:
        """The subscriptions that miss an event."""
        return self.missing.get((stream, sequence), ())

    def given_up(self, given_up: GivenUp) -> None:
        was_missing = self.missing.pop((given_up.stream, given_up.sequence), None) is not None
        counts = self.streams.get(given_up.stream)
        if was_missing and counts is not None:
            counts.given_up += 1

    def gone(self, gone: StreamGone) -> None:
        self.streams.pop(gone.stream, None)

    def check(self) -> None:
        assert len(self.missing) <= MISSING_MAX, "more missing events are remembered than is allowed"
