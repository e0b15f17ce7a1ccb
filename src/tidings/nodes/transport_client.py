"""A client with a transport: order, recovery and congestion control over a session with our brokers.

The session is the carrier (`protocols/transport/carrier.py`), the adapter stands between it and the application, and a
reporter tells the broker how the transport fares. Over another carrier the adapter is a client by itself.
"""

from collections.abc import Callable
from random import Random

from tidings.model.identity import NodeId
from tidings.nodes.client import ClientNode
from tidings.protocols.access.params import GuestParams
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.inspection.clients import Reporter
from tidings.protocols.transport.adapter.adapter import Adapter
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.transport import TransportNode
from tidings.protocols.transport.views import report_rows


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
        life: str = "",
    ) -> None:
        reporter = Reporter(lambda: report_rows(self.state()))
        client = ClientNode(
            node_id, access, delivery, rng, sign, first_publication, life=life, others={"report": reporter}
        )
        self.guest, self.session, self.messages = client.guest, client.session, client.messages
        super().__init__(client, TransportNode(transport_rng.getrandbits(32), params, transport_rng))
