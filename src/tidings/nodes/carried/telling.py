"""What a client tells its broker about its transport, so that `tidings top` can show it.

Every `TELL_PERIOD` seconds, if anything has changed: a row for the client itself, one for each publisher that it
follows, one for each flow, at most `TRANSPORT_ROWS_MAX` in all; the first row says how many were left out. The broker
keeps the latest report of each client while it is attached, and shows it to whoever may look at its tables. Nobody else
hears of it.
"""

import math
from collections.abc import Iterator

import msgspec

from tidings.machine.effects import Effect, Send
from tidings.model.identity import NodeId
from tidings.protocols.inspection.messages import TRANSPORT_BYTES_MAX, TRANSPORT_ROWS_MAX, TransportReport
from tidings.protocols.transport.views import FlowRow, StreamRow, TransportState
from tidings.pubsub.rows import TransportRow

TELL_PERIOD = 2.0

encode = msgspec.json.Encoder().encode


class Telling:
    def __init__(self) -> None:
        self.told: bytes | None = None

    def forget(self) -> None:
        """A broker begins to serve us: it knows nothing, even if it served us before."""
        self.told = None

    def tell(self, broker: NodeId | None, state: TransportState) -> list[Effect]:
        """To the broker that serves us, if it does not know."""
        if broker is None:
            return []
        rows = encode_rows(state)
        if self.told == rows:
            return []
        self.told = rows
        return [Send(broker, TransportReport(rows))]


def encode_rows(state: TransportState) -> bytes:
    others = [*map(stream_row, state.streams), *map(flow_row, state.flows)]
    count = min(len(others), TRANSPORT_ROWS_MAX - 1)
    while True:
        rows = encode((client_row(state, len(others) - count), *others[:count]))
        if len(rows) <= TRANSPORT_BYTES_MAX:
            return rows
        # Filters can be long; half as many rows fit some time, and the first one always does.
        count //= 2


def client_row(state: TransportState, more: int) -> TransportRow:
    return TransportRow(
        kind="client",
        modes=" ".join(modes_of(state)),
        problem=state.problem,
        cache=state.cache,
        published=state.published,
        withheld=state.withheld,
        more=more,
    )


def modes_of(state: TransportState) -> Iterator[str]:
    for name, is_on in (("ordered", state.is_ordered), ("reliable", state.is_reliable), ("paced", state.is_paced)):
        if is_on:
            yield name


def stream_row(row: StreamRow) -> TransportRow:
    return TransportRow(
        kind="stream",
        publisher=row.publisher or str(row.id),
        hold=finite(row.hold),
        loss_event_rate=finite(row.loss_event_rate),
        round_trip=finite(row.round_trip),
        cache=row.cache,
        cache_max=row.cache_max,
        requests=row.requests,
        hits=row.hits,
        delivered=row.delivered,
        late=row.late,
        lost=row.lost,
        recovered=row.recovered,
        given_up=row.given_up,
    )


def flow_row(row: FlowRow) -> TransportRow:
    return TransportRow(
        kind=f"flow as {row.side}",
        publisher=row.publisher,
        flow=row.filter or f"{row.flow:08x}",
        rate=finite(row.rate),
        quota=finite(row.quota),
        queue=row.queue,
        is_limiting=row.is_limiting,
    )


def finite(number: float) -> float:
    """JSON has no infinity; what has no bound, or is not known, is told as 0."""
    return number if math.isfinite(number) else 0.0
