"""The kinds of overlay and of routing that a node can be made of.

Which kind is a matter of the parameters alone: each kind has a class of its own, and a node is given one of them. In a
file of settings the same is said by a word, `kind = "all-peers"`, the tag of that class. A new kind is a new class of
parameters in a union below, and a line in the table under it.

Not every pair fits: when the overlay changes, routing repairs its tables, and must be told enough to do so (D-7); and
tables along the way are right only on a tree. Routing is asked when the node is made, since a pair that does not fit
would not fail at once but lose events at the first change of a link.
"""

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any, Protocol

import msgspec

from tidings.machine.node import Part
from tidings.model.identity import NodeId
from tidings.protocols.gossip.groups import GossipGroups
from tidings.protocols.gossip.lpbcast import LpbcastParams
from tidings.protocols.overlay.dhtree.dhtree import DhTree, DhTreeParams
from tidings.protocols.overlay.lstree.lstree import LsTree
from tidings.protocols.overlay.lstree.params import LsTreeParams
from tidings.protocols.overlay.overlay import AllPeers, AllPeersParams, Overlay
from tidings.protocols.overlay.scripted import ScriptedOverlay, ScriptedParams
from tidings.protocols.overlay.spanning_tree import SpanningTree, SpanningTreeParams
from tidings.protocols.overlay.witree.params import WiTreeParams
from tidings.protocols.overlay.witree.witree import WiTree
from tidings.protocols.routing.carriage.aside import AsideCarriage
from tidings.protocols.routing.carriage.gossiping import GossipingCarriage
from tidings.protocols.routing.destinations.params import DestinationParams
from tidings.protocols.routing.destinations.router import DestinationRouter
from tidings.protocols.routing.guess import GuessedRouting, GuessedRoutingParams
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.radio_flood import RadioFlooding, RadioFloodingParams
from tidings.protocols.routing.router import Router
from tidings.pubsub.rows import Gauge, View
from tidings.pubsub.signals import AdvertisementId, Level

OverlayParams = SpanningTreeParams | AllPeersParams | ScriptedParams | DhTreeParams | LsTreeParams | WiTreeParams
AnyRoutingParams = RoutingParams | DestinationParams | RadioFloodingParams | GuessedRoutingParams


class Routing(Part, Protocol):
    """What a node reads of its routing, beside the signals."""

    is_best_effort: bool
    """Whether nobody can say if a request was carried out elsewhere, or an event has arrived."""

    def hop_toward(self, advertisement: AdvertisementId) -> NodeId | None:
        """The neighbour on the way to its publisher; None for our own client, and if it is not known."""
        ...

    def check_overlay(self, overlay: str, level: Level, is_tree: bool) -> None:
        """UsageError where it does not work on the overlay of this name, because of what that tells and is."""
        ...

    def is_synchronised(self, neighbour: NodeId) -> bool:
        """Whether it has told everything that we need to know of it."""
        ...

    def why_unsettled(self) -> str: ...

    def views(self) -> Mapping[str, View]: ...

    def gauges(self) -> Iterator[Gauge]: ...


OVERLAYS: dict[type, Callable[[NodeId, Any, Random], Overlay]] = {
    SpanningTreeParams: lambda node_id, params, _: SpanningTree(node_id, params),
    AllPeersParams: lambda node_id, params, _: AllPeers(node_id, params),
    ScriptedParams: lambda node_id, params, _: ScriptedOverlay(node_id, params),
    DhTreeParams: lambda node_id, params, _: DhTree(node_id, params),
    LsTreeParams: LsTree,
    WiTreeParams: WiTree,
}
"""Each is given a generator of its node, from which it may make one of its own."""

ROUTINGS: dict[type, Callable[[NodeId, Any], Routing]] = {
    RoutingParams: Router,
    DestinationParams: DestinationRouter,
    RadioFloodingParams: RadioFlooding,
    GuessedRoutingParams: GuessedRouting,
}


def make_parts(
    node_id: NodeId, overlay: OverlayParams, routing: AnyRoutingParams, rng: Random
) -> tuple[Overlay, Routing]:
    """The two parts, or UsageError that says why they do not fit."""
    below, above = OVERLAYS[type(overlay)](node_id, overlay, rng), ROUTINGS[type(routing)](node_id, routing)
    above.check_overlay(kind_of(overlay), below.level, below.is_tree)
    return below, above


def make_groups(
    node_id: NodeId, routing: Routing, params: LpbcastParams, rng: Random, address: Callable[[], str] = lambda: ""
) -> dict[str, Part]:
    """The part for groups of brokers, where routing tells something to groups. What goes beside the tree needs to know
    where this broker listens."""
    carriage = routing.carrier.carriage if isinstance(routing, Router) else None
    if isinstance(carriage, AsideCarriage):
        carriage.address = address
    return {"groups": GossipGroups(node_id, params, rng, address)} if isinstance(carriage, GossipingCarriage) else {}


def kind_of(params: msgspec.Struct | type[msgspec.Struct]) -> str:
    """As it is called in settings."""
    return str(params.__struct_config__.tag)
