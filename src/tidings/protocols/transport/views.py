"""What can be seen of a transport from outside: for programs, metrics and `tidings top`.

There is one row for each publisher that is followed, and one for each flow that is limited, as a receiver or as a
publisher. Numbers are read from the parts when somebody asks; nothing is counted for this that they do not count
anyway.

**Tally**: what was lost and what became of it, by publisher and by subscription. Ordering says what is `EventLost`, and
for which subscriptions; `Recovered` says that it came after all, and how; `GivenUp` that nobody looks for it any more.
What is neither yet is `missing`; nothing else is remembered of an event.

Where the carrier itself found losses, and has them (`FoundLosses`), those that nobody knew of are losses from then on,
and all are told as recovered.
"""

import math
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from tidings.machine.effects import Deliver, Effect
from tidings.model.identity import name_of
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
from tidings.pubsub.rows import TransportRow

if TYPE_CHECKING:
    from tidings.protocols.transport.transport import TransportNode

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


class StreamRow(msgspec.Struct, frozen=True, kw_only=True):
    """A publisher at a receiver."""

    publisher: str
    """As the network calls it."""
    id: int
    """Its number in headers."""
    hold: float = 0.0
    """Seconds for which an event would be held back now if one that was sent with it were missing."""
    waiting: int = 0
    """Events that are held back."""
    delivered: int = 0
    late: int = 0
    """Events that came after a later one had gone out."""
    lost: int = 0
    recovered: int = 0
    """Lost events that came after all: late, repaired, or from history."""
    repaired: int = 0
    from_history: int = 0
    given_up: int = 0
    loss_event_rate: float = 0.0
    round_trip: float = 0.0
    """Seconds; 0 while nothing was measured."""
    cache: int = 0
    """Events that are kept for others, and how many may be."""
    cache_max: int = 0
    requests: int = 0
    """Requests for what we have or had, and those that we could have answered."""
    hits: int = 0


class FlowRow(msgspec.Struct, frozen=True, kw_only=True):
    """A flow: events of one publisher for one filter. The receiver reports what it can take, the publisher obeys."""

    side: Literal["receiver", "publisher"]
    publisher: str = ""
    """Of a receiver: whose events."""
    flow: int
    filter: str = ""
    """As far as this side knows it."""
    receiver: int = 0
    """Of a publisher: the number of the receiver that limits it."""
    rate: float = 0.0
    """Events a second: received, or allowed."""
    quota: float = 0.0
    is_limiting: bool = False
    """Of a receiver: whether the publisher goes by what we say."""
    queue: int = 0
    """Of a publisher: events that wait."""


class TransportState(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    """Our own number in headers."""
    is_ordered: bool
    is_reliable: bool
    is_paced: bool
    """What we do as a publisher."""
    problem: str = ""
    """Why some of it is off though it was asked for."""
    published: int = 0
    """Events that left with a header."""
    withheld: int = 0
    """Events that never left, as their receivers could take no more."""
    cache: int = 0
    """Events of our own that are kept to answer requests."""
    requests_sent: int = 0
    repairs_sent: int = 0
    streams: tuple[StreamRow, ...] = ()
    flows: tuple[FlowRow, ...] = ()


def state_of(transport: "TransportNode", problem: str = "") -> TransportState:
    params, recovery = transport.shim.params, transport.recovery
    return TransportState(
        id=transport.node_id,
        is_ordered=params.is_ordered,
        is_reliable=params.is_reliable,
        is_paced=params.is_paced,
        problem=problem,
        published=transport.shim.publishing.next,
        withheld=transport.sender.withheld,
        cache=len(recovery.own.ring.order),
        requests_sent=recovery.losses.requester.sent,
        repairs_sent=recovery.repairer.sent,
        streams=tuple(stream_rows(transport)),
        flows=(*transport.receiver.states(), *transport.sender.states()),
    )


def stream_rows(transport: "TransportNode") -> Iterator[StreamRow]:
    for stream in transport.shim.streams.all:
        counts, order = transport.tally.counts(stream), transport.ordering.streams.get(stream)
        cache, pace = transport.recovery.streams.get(stream), transport.receiver.sessions.get(stream)
        yield StreamRow(
            publisher=name_of(stream[0]),
            id=stream[1],
            hold=order.longest_latch if order else 0.0,
            waiting=len(order.shelf.pending) if order else 0,
            delivered=order.delivered if order else 0,
            late=order.late if order else 0,
            lost=counts.lost,
            recovered=counts.ways.total(),
            repaired=counts.ways["repaired"],
            from_history=counts.ways["history"],
            given_up=counts.given_up,
            loss_event_rate=pace.intervals.loss_event_rate if pace else 0.0,
            round_trip=transport.round_trips.seconds(stream),
            cache=len(cache.ring.order) if cache else 0,
            cache_max=cache.ring.capacity if cache else 0,
            requests=cache.requests_heard if cache else 0,
            hits=cache.hits if cache else 0,
        )


# For others, in the words of all nodes.


def report_rows(state: TransportState) -> list[TransportRow]:
    """The client's own row first."""
    modes = {"ordered": state.is_ordered, "reliable": state.is_reliable, "paced": state.is_paced}
    on = " ".join(name for name, is_on in modes.items() if is_on)
    rows = [report_row(state, kind="client", modes=on)]
    rows += [report_row(row, kind="stream", publisher=row.publisher or str(row.id)) for row in state.streams]
    for flow in state.flows:
        rows.append(report_row(flow, kind=f"flow as {flow.side}", flow=flow.filter or f"{flow.flow:08x}"))
    return rows


def report_row(row: TransportState | StreamRow | FlowRow, **more: str) -> TransportRow:
    """What both have under the same name, and more. JSON has no infinity; what has no bound, or is not known, is told
    as 0."""
    shared = [name for name in row.__struct_fields__ if name in TransportRow.__struct_fields__]
    fields: dict[str, Any] = {name: getattr(row, name) for name in shared}
    fields |= {name: 0.0 for name, value in fields.items() if value == math.inf}
    fields |= more
    return TransportRow(**fields)
