"""Tally: what was lost and what became of it, by publisher and by subscription, for whoever looks.

Ordering says what is `EventLost`, and for which subscriptions; `Recovered` says that it came after all, and how;
`GivenUp` that nobody looks for it any more. What is neither yet is `missing`; nothing else is remembered of an event.

Where the carrier itself found losses, and has them (`FoundLosses`), those that nobody knew of are losses from then on,
and all are told as recovered.
"""

from collections import Counter
from random import Random

from tidings.machine.effects import Deliver, Effect
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.signals import (
    EventLost,
    FoundLosses,
    GivenUp,
    Quality,
    Recovered,
    Stream,
    StreamGone,
    TransportPart,
)

MISSING_MAX = 10_000
"""Lost events of which it is remembered whom they were for; beyond it the oldest is forgotten."""


class LossCounts:
    """Of one publisher."""

    __slots__ = ("given_up", "lost", "ways")

    def __init__(self) -> None:
        self.lost = self.given_up = 0
        self.ways: Counter[str] = Counter()
        """Lost events that came after all, by the way they came."""


class LossTally(TransportPart):
    """Part of `TransportNode`."""

    tells = (Recovered,)

    def __init__(self, node_id: int, params: TransportParams, rng: Random) -> None:
        self.streams: dict[Stream, LossCounts] = {}
        self.missing: dict[tuple[Stream, int], tuple[int, ...]] = {}
        self.handlers = {
            EventLost: self.lost,
            Recovered: self.recovered,
            FoundLosses: self.found,
            GivenUp: self.given_up,
            StreamGone: self.gone,
        }

    def counts(self, stream: Stream) -> LossCounts:
        return self.streams.get(stream) or LossCounts()

    def lost(self, now: float, lost: EventLost) -> list[Effect]:
        if lost.stream not in self.streams:
            self.streams[lost.stream] = LossCounts()
        self.streams[lost.stream].lost += 1
        self.missing[lost.stream, lost.sequence] = lost.subscriptions
        if len(self.missing) > MISSING_MAX:
            del self.missing[next(iter(self.missing))]
        return []

    def recovered(self, now: float, recovered: Recovered) -> list[Effect]:
        counts = self.streams.get(recovered.stream)
        if counts is not None:
            counts.ways[recovered.way] += 1
        self.missing.pop((recovered.stream, recovered.sequence), None)
        return []

    def found(self, now: float, found: FoundLosses) -> list[Effect]:
        effects: list[Effect] = []
        for recovered in found.recovered:
            stream, sequence, wanted = recovered.stream, recovered.sequence, recovered.content.subscriptions
            if (stream, sequence) not in self.missing:
                self.lost(now, EventLost(stream, sequence, 0, 0.0, wanted))
                effects.append(Deliver(Quality("lost", stream, sequence, 0.0, wanted)))
            self.recovered(now, recovered)
            effects.append(recovered)
        return effects

    def given_up(self, now: float, given_up: GivenUp) -> list[Effect]:
        was_missing = self.missing.pop((given_up.stream, given_up.sequence), None) is not None
        counts = self.streams.get(given_up.stream)
        if was_missing and counts is not None:
            counts.given_up += 1
        return []

    def gone(self, now: float, gone: StreamGone) -> list[Effect]:
        self.streams.pop(gone.stream, None)
        return []

    def for_whom(self, stream: Stream, sequence: int) -> tuple[int, ...]:
        """The subscriptions that miss an event."""
        return self.missing.get((stream, sequence), ())

    def check(self) -> None:
        assert len(self.missing) <= MISSING_MAX, "more missing events are remembered than is allowed"
