"""A broker: access lets clients and other brokers in, the overlay picks the links of a tree, routing carries filters
and publications over it, delivery serves the clients, and inspection shows all of it to those who may look.

The parts know each other only through signals (`pubsub/signals.py`); here they are put side by side. Their order is
the order in which each input is offered to them: who is there comes before what is done with it.
"""

from collections.abc import Callable, Mapping
from random import Random

import msgspec

from tidings.machine.node import Node, Part
from tidings.model.identity import NodeId
from tidings.nodes.broker_views import broker_row, broker_views
from tidings.protocols.access.access import Access
from tidings.protocols.access.judging import Judge, Signatures, open_judge
from tidings.protocols.access.params import AccessParams
from tidings.protocols.delivery.edge.edge import Edge
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.inspection.inspection import Inspection, InspectionParams, View
from tidings.protocols.inspection.rows import BrokerRow
from tidings.protocols.overlay.spanning_tree import SpanningTree, SpanningTreeParams
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.router import Router


class BrokerParams(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of the parts. What they share (`clock_offset`) is the same in all of them."""

    access: AccessParams = AccessParams()
    overlay: SpanningTreeParams = SpanningTreeParams()
    routing: RoutingParams = RoutingParams()
    delivery: EdgeParams = EdgeParams()
    inspection: InspectionParams = InspectionParams()


class BrokerNode(Node):
    """`BrokerNode("b1", BrokerParams(access=AccessParams(links=("b2",))), rng)`. The parts can be looked at; inputs go
    through `handle`. `own` says more about the broker than its name, `views` adds tables to those that are shown."""

    def __init__(
        self,
        node_id: NodeId,
        params: BrokerParams,
        rng: Random,
        judge: Judge = open_judge,
        signatures: Signatures | None = None,
        sign: Callable[[bytes], bytes] | None = None,
        own: Callable[[BrokerRow], BrokerRow] | None = None,
        views: Mapping[str, View] | None = None,
    ) -> None:
        self.node_id, self.params = node_id, params
        self.access = Access(node_id, params.access, judge, rng, signatures, sign)
        self.overlay = SpanningTree(node_id, params.overlay)
        self.routing = Router(node_id, params.routing)
        self.edge = Edge(node_id, params.delivery, self.routing.routes, params.routing.engine)
        self.inspection = Inspection(
            lambda: self.row() if own is None else own(self.row()),
            configured=params.access.links,
            is_open=judge is open_judge,
            views={**broker_views(self.routing, self.edge), **(views or {})},
            is_synchronised=self.is_synchronised,
            params=params.inspection,
        )
        parts: dict[str, Part] = {
            "access": self.access,
            "overlay": self.overlay,
            "routing": self.routing,
            "delivery": self.edge,
            "inspection": self.inspection,
        }
        super().__init__(parts)

    def is_synchronised(self, neighbour: NodeId) -> bool:
        link = self.routing.links.get(neighbour)
        return link is not None and link.is_told

    def why_not_ready(self) -> str:
        """Empty when the broker may be sent traffic: it has read its store, knows its place in the tree, and all
        neighbours told their tables."""
        if self.edge.is_loading:
            return "the store is being read"
        if self.edge.is_closing:
            return "shutting down"
        if unsettled := self.overlay.why_unsettled():
            return unsettled
        waiting = [name for name in self.routing.links if not self.is_synchronised(name)]
        return f"waiting for the tables of {', '.join(waiting)}" if waiting else ""

    def row(self) -> BrokerRow:
        return broker_row(self.node_id, self.params.routing, self.why_not_ready())
