"""The kinds of failover that a node can have, and what each needs of its routing and overlay (S-122).

Failover brings events around brokers that failed. It stands on four things: routing must say what is stranded and take
what comes around (`rescue_window`); what a lost neighbour wanted must be remembered for as long as it may come back (a
repair that keeps routes); subscriptions must be counted (`census`), where brokers are chosen by similarity; and the
tree must have a root, where groups are levels of it. Whoever asks for failover and says nothing of these gets values
that fit. What he chose himself is checked (`RoutingParams`), and refused by the name of the rule that it breaks.

Composition (dependable.md 3.8). Gossip may overtake: so a plain subscription gets what comes around a failure at once,
and one with a guarantee gets events by the tree and from history alone, in order and once. That needs `is_apart`, where
delivery gives guarantees.
"""

from random import Random

from msgspec.structs import replace

from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.nodes.choices import AnyRoutingParams, Routing, kind_of
from tidings.protocols.gossip.failover.failover import GossipFailover
from tidings.protocols.gossip.failover.neighbourhood import Neighbourhood
from tidings.protocols.gossip.failover.params import (
    AnyFailoverParams,
    FailoverParams,
    NeighbourhoodParams,
    RandomViewsParams,
)
from tidings.protocols.gossip.failover.random_views import RandomViews
from tidings.protocols.overlay.overlay import Overlay, RootedOverlay
from tidings.protocols.routing.counts import RoutingCounts
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.router import Router

AnyFailover = GossipFailover | RandomViews | Neighbourhood

FITTING_WINDOW, KEEPING_WINDOW = 1024, 4096
"""Numbers of each publisher that are remembered, where nothing else is said; more where what was missed comes when a
broker is back."""

IN_FLIGHT_FOR = 5.0
"""Seconds in which a link is known to be broken, where nothing else is said."""


def wants_failover(routing: AnyRoutingParams) -> bool:
    return isinstance(routing, RoutingParams) and routing.failover != "none"


def fitted_routing(
    routing: AnyRoutingParams, gives_guarantees: bool, failover: AnyFailoverParams | None = None
) -> RoutingParams:
    """With what failover needs, where it is not set; UsageError where something is set that does not do."""
    if not isinstance(routing, RoutingParams):
        raise UsageError(
            f"failover: it reads the tables of routing, and {kind_of(routing)} has none (rule S-122); choose kind "
            "'tables', or failover 'none'"
        )
    keeps = isinstance(failover, FailoverParams) and failover.kept_for > 0
    window = routing.rescue_window or (KEEPING_WINDOW if keeps else FITTING_WINDOW)
    return replace(
        routing,
        failover="gossip",
        rescue_window=window,
        in_flight_for=(routing.in_flight_for or IN_FLIGHT_FOR) if keeps else 0.0,
        census=True,
        is_apart=gives_guarantees,
    )


def make_failover(
    node_id: NodeId, params: AnyFailoverParams, overlay: Overlay, routing: Routing, rng: Random
) -> AnyFailover:
    assert isinstance(routing, Router)
    routes = RoutingCounts(routing)
    match params:
        case RandomViewsParams():
            return RandomViews(node_id, params, rng)
        case NeighbourhoodParams():
            return Neighbourhood(node_id, params, routes)
    if not isinstance(overlay, RootedOverlay):
        raise UsageError(
            "failover: groups are levels of a tree with a root, and this overlay has none (rule S-122); choose overlay "
            "spanning-tree or lstree, or failover 'none'"
        )
    overlay.tell_places()
    return GossipFailover(node_id, params, routes, rng)
