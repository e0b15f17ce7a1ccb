"""A dispatcher: overlay and routing with an application in the same node, and nothing else.

A broker asks everybody who comes in, and promises things to its clients. Experiments on overlays and on routing need
neither, and thousands of nodes: here a link of the world is a peer at once (`OpenDoor`), and the application of the
node subscribes, publishes and is delivered to, or counted for, without a guarantee (`LocalDelivery`). It speaks the
words of any client, so what works over a session works over a dispatcher.
"""

from random import Random

import msgspec

from tidings.machine.node import Node, Part
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.nodes.choices import AnyRoutingParams, OverlayParams, make_groups, make_parts
from tidings.nodes.failovers import AnyFailover, fitted_routing, make_failover, wants_failover
from tidings.protocols.access.open_door import OpenDoor, OpenDoorParams
from tidings.protocols.delivery.local import LocalDelivery, LocalParams
from tidings.protocols.gossip.failover.params import AnyFailoverParams, FailoverParams
from tidings.protocols.gossip.lpbcast import LpbcastParams
from tidings.protocols.overlay.spanning_tree import SpanningTreeParams
from tidings.protocols.presence.params import PresenceParams
from tidings.protocols.presence.presence import PresenceWatch
from tidings.protocols.rescue.epidemic import EpidemicParams, EventEpidemic
from tidings.protocols.routing.params import RoutingParams
from tidings.pubsub.client import PublishBatch, Window
from tidings.pubsub.signals import Forgotten, Known, LinkFailed, Skipped


class DispatcherParams(msgspec.Struct, frozen=True, kw_only=True):
    links: OpenDoorParams = OpenDoorParams()
    overlay: OverlayParams = SpanningTreeParams()
    routing: AnyRoutingParams = RoutingParams()
    delivery: LocalParams = LocalParams()
    rescue: EpidemicParams | None = None
    """How events that a broken link strands are brought around it (`protocols/rescue`); None where they are lost. Needs
    routing with a `rescue_window`, and a repair that waits."""

    groups: LpbcastParams = LpbcastParams()
    """Where routing goes by popularity and gossips."""

    failover: AnyFailoverParams | None = None
    """How events get around brokers that failed, or that the world says to have (`failovers.py`)."""

    presence: PresenceParams | None = None
    """Whether neighbours that fall silent are looked for; else the world says who is gone."""

    @property
    def any_failover(self) -> AnyFailoverParams | None:
        return FailoverParams() if self.failover is None and wants_failover(self.routing) else self.failover

    def __post_init__(self) -> None:
        if self.any_failover is not None:
            fitted_routing(self.routing, gives_guarantees=False)
        if self.any_failover is not None and self.rescue is not None:
            raise UsageError("rescue: failover takes what is stranded already; give one of them")
        window = self.routing.rescue_window if isinstance(self.routing, RoutingParams) else 0
        if self.rescue is not None and not window:
            raise UsageError("rescue: routing does not say what is stranded; give it a rescue_window, such as 1000")


class Dispatcher(Node):
    """`Dispatcher("d1", DispatcherParams(links=OpenDoorParams(links=("d2",))), rng)`. The parts can be looked at."""

    def __init__(self, node_id: NodeId, params: DispatcherParams, rng: Random) -> None:
        self.node_id, self.params = node_id, params
        self.door = OpenDoor(node_id, params.links, rng)
        routing = params.routing
        failover = params.any_failover
        if failover is not None:
            routing = fitted_routing(routing, gives_guarantees=False, failover=failover)
        self.overlay, self.routing = make_parts(node_id, params.overlay, routing, rng)
        self.local = LocalDelivery(node_id, params.delivery)
        parts: dict[str, Part] = {
            "access": self.door,
            "overlay": self.overlay,
            "routing": self.routing,
            "delivery": self.local,
        }
        if params.presence is not None:
            parts["presence"] = PresenceWatch(node_id, params.presence)
        parts |= make_groups(node_id, self.routing, params.groups, rng)
        if params.rescue is not None:
            parts["rescue"] = EventEpidemic(node_id, params.rescue, rng)
        self.failover: AnyFailover | None = None
        if failover is not None:
            self.failover = parts["failover"] = make_failover(node_id, failover, self.overlay, self.routing, rng)
        # Nothing is stored here, so nobody asks who publishes what, or for what was left out; and a link that fails is
        # tried again anyway.
        super().__init__(parts, tells=(Known, Forgotten, Skipped, LinkFailed))

    # As the carrier of a transport (`protocols/transport/carrier.py`).

    repeats = True

    @property
    def window(self) -> Window:
        return self.local.window

    def takes(self, request: PublishBatch) -> bool:
        return self.local.takes(request)

    def position(self, subscription: int, publisher: str) -> int | None:
        return None

    def why_not_ready(self) -> str:
        """Empty when it knows its place in the overlay, and its neighbours told what routing has to know."""
        for part in (self.door, self.overlay, self.routing):
            if unsettled := part.why_unsettled():
                return unsettled
        return ""
