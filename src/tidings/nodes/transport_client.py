"""A client with a transport: order, recovery and congestion control over a session with our brokers.

The session is the carrier (`protocols/transport/carrier.py`), the adapter stands between it and the application, and a
reporter tells the broker how the transport fares. Over another carrier the adapter is a client by itself.
"""

import math
from collections.abc import Callable, Iterator
from random import Random

from tidings.model.identity import NodeId
from tidings.nodes.client import ClientNode
from tidings.protocols.access.params import GuestParams
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.inspection.reporter import Reporter
from tidings.protocols.transport.adapter.adapter import Adapter
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.transport import TransportNode
from tidings.protocols.transport.views import FlowRow, StreamRow, TransportState
from tidings.pubsub.rows import TransportRow


class TransportClient(Adapter):
    """`TransportClient("ann", GuestParams(brokers=("b",)), SessionParams(), rng, TransportParams(), transport_rng)`;
    `session` and `guest` can be looked at."""

    def __init__(
        self,
        node_id: NodeId,
        access: GuestParams,
        delivery: SessionParams,
        rng: Random,
        params: TransportParams,
        transport_rng: Random,
        sign: Callable[[bytes], bytes] | None = None,
        first_publication: int = 1,
    ) -> None:
        reporter = Reporter(lambda: report_rows(self.state()))
        client = ClientNode(node_id, access, delivery, rng, sign, first_publication, others={"report": reporter})
        self.guest, self.session, self.messages = client.guest, client.session, client.messages
        super().__init__(client, TransportNode(transport_rng.getrandbits(32), params, transport_rng))


def report_rows(state: TransportState) -> list[TransportRow]:
    return [client_row(state), *map(stream_row, state.streams), *map(flow_row, state.flows)]


def client_row(state: TransportState) -> TransportRow:
    return TransportRow(
        kind="client",
        modes=" ".join(modes_of(state)),
        problem=state.problem,
        cache=state.cache,
        published=state.published,
        withheld=state.withheld,
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
