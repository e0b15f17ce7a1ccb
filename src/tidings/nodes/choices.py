"""The kinds of overlay and of routing that a node can be made of.

Which kind is a matter of the parameters alone: each kind has a class of its own, and a node is given one of them. In a
file of settings the same is said by a word, `kind = "all-peers"`, the tag of that class. A new kind is a new class of
parameters in a union below, and a line in the table under it.

Not every pair fits. When the overlay changes, routing repairs its tables, and must be told enough to do so (D-7,
`overlay/capabilities.py`); and tables along the way are right only on a tree. A pair that does not fit is refused when
the node is made, since it would not fail at once but lose events at the first change of a link.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import msgspec

from tidings.machine.node import Part
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.protocols.overlay import capabilities
from tidings.protocols.overlay.all_peers import AllPeers, AllPeersParams
from tidings.protocols.overlay.spanning_tree import SpanningTree, SpanningTreeParams
from tidings.protocols.routing.drp.params import DestinationParams
from tidings.protocols.routing.drp.router import DestinationRouter
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.router import Router
from tidings.pubsub.rows import Gauge, View
from tidings.pubsub.signals import AdvertisementId

OverlayParams = SpanningTreeParams | AllPeersParams
AnyRoutingParams = RoutingParams | DestinationParams


class Overlay(Part, Protocol):
    """What a node reads of its overlay, beside the signals."""

    @property
    def neighbours(self) -> list[NodeId]: ...

    def why_unsettled(self) -> str:
        """What is still to be found out before the neighbours are those that there will be; empty when nothing is."""
        ...


class Routing(Part, Protocol):
    """What a node reads of its routing, beside the signals."""

    is_best_effort: bool
    """Whether nobody can say if a request was carried out elsewhere, or an event has arrived."""

    def hop_toward(self, advertisement: AdvertisementId) -> NodeId | None:
        """The neighbour on the way to its publisher; None for our own client, and if it is not known."""
        ...

    def is_synchronised(self, neighbour: NodeId) -> bool:
        """Whether it has told everything that we need to know of it."""
        ...

    def why_unsettled(self) -> str: ...

    def views(self) -> Mapping[str, View]: ...

    def gauges(self) -> Iterator[Gauge]: ...


OVERLAYS: dict[type, tuple[Callable[[NodeId, Any], Overlay], capabilities.Overlay]] = {
    SpanningTreeParams: (SpanningTree, capabilities.Overlay.SPANNING_TREE),
    AllPeersParams: (AllPeers, capabilities.Overlay.ALL_PEERS),
}
"""How each is made, and what it can tell."""

ROUTINGS: dict[type, tuple[Callable[[NodeId, Any], Routing], capabilities.Strategy | None]] = {
    RoutingParams: (Router, capabilities.Strategy.STRAWMAN),
    DestinationParams: (DestinationRouter, None),
}
"""How each is made, and how it repairs its tables, if it has any."""


def make_parts(node_id: NodeId, overlay: OverlayParams, routing: AnyRoutingParams) -> tuple[Overlay, Routing]:
    """The two parts, or UsageError that says why they do not fit."""
    make_overlay, told = OVERLAYS[type(overlay)]
    make_routing, repair = ROUTINGS[type(routing)]
    if repair is not None:
        capabilities.check(repair, told)
        if isinstance(overlay, AllPeersParams) and not overlay.is_tree:
            raise UsageError(
                f"routing {kind_of(routing)} needs links that form a tree, and overlay {kind_of(overlay)} takes every "
                "link; choose overlay spanning-tree, or routing destinations"
            )
    return make_overlay(node_id, overlay), make_routing(node_id, routing)


def kind_of(params: msgspec.Struct | type[msgspec.Struct]) -> str:
    """As it is called in settings."""
    return str(params.__struct_config__.tag)
