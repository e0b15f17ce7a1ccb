"""Four ways to bring events to those who want them (dynamic-topologies.md 3.1, C-5 to C-8).

They differ in two questions only. Which filters must a neighbour hear of? Which neighbours get every event, whatever
they asked for? Everything else (tables, announcing, acknowledgements, forwarding) is the same for all.

    strategy        filters are told to                      events go to
    flooding        nobody                                   every neighbour
    subscription    every neighbour                          those who asked
    hierarchical    the parent                               the parent, and the children who asked
    advertisement   neighbours from whom an advertisement    those who asked
                    came that the filter overlaps

Flooding is the baseline: N - 1 messages an event, nothing to keep. Advertisement forwarding is the default: there are
usually fewer publishers than subscribers, so most filters travel only where somebody can satisfy them. Advertisements
themselves go to everybody under every strategy, since the way back to a publisher is found by them.
"""

from collections.abc import Iterable
from typing import Protocol

from tidings.model.filter import Filter
from tidings.model.identity import NodeId
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.tables import Tables


class Strategy(Protocol):
    follows_offers: bool
    """Whether a new advertisement from a neighbour can make filters concern it."""

    is_exact: bool
    """Whether an event comes from a neighbour only because we asked for it."""

    def concerns(self, neighbour: NodeId, text: str, filter: Filter) -> bool:
        """Must this neighbour hear of a filter that somebody else wants?"""
        ...

    def always(self, neighbours: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """The neighbours that get every event."""
        ...


class Flooding:
    follows_offers, is_exact = False, False

    def concerns(self, neighbour: NodeId, text: str, filter: Filter) -> bool:
        return False

    def always(self, neighbours: Iterable[NodeId]) -> tuple[NodeId, ...]:
        return tuple(neighbours)


class SubscriptionForwarding:
    follows_offers, is_exact = False, True

    def concerns(self, neighbour: NodeId, text: str, filter: Filter) -> bool:
        return True

    def always(self, neighbours: Iterable[NodeId]) -> tuple[NodeId, ...]:
        return ()


class Hierarchical:
    follows_offers, is_exact = False, False

    def __init__(self, parent: NodeId | None) -> None:
        self.parent = parent

    def concerns(self, neighbour: NodeId, text: str, filter: Filter) -> bool:
        return neighbour == self.parent

    def always(self, neighbours: Iterable[NodeId]) -> tuple[NodeId, ...]:
        return tuple(neighbour for neighbour in neighbours if neighbour == self.parent)


class AdvertisementForwarding:
    follows_offers, is_exact = True, True

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def concerns(self, neighbour: NodeId, text: str, filter: Filter) -> bool:
        return self.tables.is_offered(neighbour, text, filter)

    def always(self, neighbours: Iterable[NodeId]) -> tuple[NodeId, ...]:
        return ()


def make_strategy(params: RoutingParams, tables: Tables) -> Strategy:
    match params.strategy:
        case "flooding":
            return Flooding()
        case "subscription":
            return SubscriptionForwarding()
        case "hierarchical":
            return Hierarchical(params.parent)
        case "advertisement":
            return AdvertisementForwarding(tables)
