"""What can be seen of a transport from outside: for programs, metrics and `tidings top`.

One row for each publisher that is followed, and one for each flow that is limited, as a receiver or as a publisher.
Numbers are read when somebody asks; nothing is counted for this that the parts do not count anyway.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import msgspec

from tidings.protocols.transport.signals import Stream

if TYPE_CHECKING:
    from tidings.protocols.transport.transport import TransportNode


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
    params, recovery = transport.shim.params, transport.recovery.overview()
    own = ("", transport.node_id)
    kept = [row.entries for row in recovery.streams if row.stream == own]
    return TransportState(
        id=transport.node_id,
        is_ordered=params.is_ordered,
        is_reliable=params.is_reliable,
        is_paced=params.is_paced,
        problem=problem,
        published=transport.shim.publishing.next,
        withheld=transport.sender.withheld,
        cache=sum(kept),
        requests_sent=recovery.requests_sent,
        repairs_sent=recovery.repairs_sent,
        streams=tuple(stream_rows(transport)),
        flows=(*received_flows(transport), *published_flows(transport)),
    )


def stream_rows(transport: "TransportNode") -> Iterator[StreamRow]:
    ordered = transport.ordering.state()
    caches = {row.stream: row for row in transport.recovery.overview().streams}
    congested = {state.stream: state for state in transport.receiver.states()}
    trips, counted = transport.round_trips.trips, transport.tally.streams
    for stream in transport.shim.streams.all:
        order, cache, congestion = ordered.get(stream), caches.get(stream), congested.get(stream)
        counts, trip = counted.get(stream), trips.get(stream)
        publisher, number = stream
        yield StreamRow(
            publisher=publisher,
            id=number,
            hold=order.latch if order else 0.0,
            waiting=order.pending if order else 0,
            delivered=order.delivered if order else 0,
            late=order.late if order else 0,
            lost=counts.lost if counts else 0,
            recovered=counts.ways.total() if counts else 0,
            repaired=counts.ways["repaired"] if counts else 0,
            from_history=counts.ways["history"] if counts else 0,
            given_up=counts.given_up if counts else 0,
            loss_event_rate=congestion.loss_event_rate if congestion else 0.0,
            round_trip=(trip.seconds or 0.0) if trip else 0.0,
            cache=cache.entries if cache else 0,
            cache_max=cache.cache_size if cache else 0,
            requests=cache.requests if cache else 0,
            hits=cache.hits if cache else 0,
        )


def received_flows(transport: "TransportNode") -> Iterator[FlowRow]:
    for state in transport.receiver.states():
        for row in state.rows:
            yield FlowRow(
                side="receiver",
                publisher=publisher_text(state.stream),
                flow=row.flow,
                filter=row.filter,
                rate=row.rate,
                quota=row.quota,
                is_limiting=row.is_limiting,
            )


def published_flows(transport: "TransportNode") -> Iterator[FlowRow]:
    for row in transport.sender.states():
        yield FlowRow(
            side="publisher", flow=row.flow, receiver=row.limiting, rate=row.rate, quota=row.quota, queue=row.queue
        )


def publisher_text(stream: Stream) -> str:
    name, number = stream
    return name or str(number)
