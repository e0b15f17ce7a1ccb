"""What the parts of a router share."""

from collections.abc import Hashable
from typing import Any

from tidings.machine.effects import Effect
from tidings.model.errors import UsageError
from tidings.model.filter import Filter
from tidings.model.identity import NodeId
from tidings.model.language.parser import parse
from tidings.protocols.routing.carriage.aired import AiredCarriage
from tidings.protocols.routing.carriage.asked import AskedCarriage
from tidings.protocols.routing.carriage.batching import BatchingCarriage
from tidings.protocols.routing.carriage.direct import DirectCarriage
from tidings.protocols.routing.carriage.gossiping import GossipingCarriage
from tidings.protocols.routing.carriage.plain import PlainCarriage
from tidings.protocols.routing.carrier import BatchCarrier, MakeCarriage
from tidings.protocols.routing.census import Census
from tidings.protocols.routing.covering import Covers
from tidings.protocols.routing.interests import InterestCensus
from tidings.protocols.routing.links import NeighbourLink
from tidings.protocols.routing.messages import PartTold, TableChanges
from tidings.protocols.routing.packets import TableFlow, TableOutbox, changes_of, packed_answers
from tidings.protocols.routing.params import CarriageName, PopularityName, RoutingParams
from tidings.protocols.routing.reductions import Reduction, make_reduction
from tidings.protocols.routing.requests import NOT_ACKNOWLEDGED, Ledger, PendingRequest
from tidings.protocols.routing.strategies import make_strategy
from tidings.protocols.routing.tables import Tables

BAD_FILTER = "its filter cannot be read"
NO_NEIGHBOUR = "the sender is no neighbour"
NO_SUCH_PART = "nothing of an earlier life is compared, or tables are not cut so"
OVERTAKEN = "was said before the table was edited, and does not hold any more"
TABLE_FULL = "more than a table may hold"

CARRIAGES: dict[CarriageName, MakeCarriage] = {"plain": PlainCarriage, "aired": AiredCarriage}
POPULAR_CARRIAGES: dict[PopularityName, MakeCarriage] = {
    "batching": BatchingCarriage,
    "direct": DirectCarriage,
    "gossip": GossipingCarriage,
    "asked": AskedCarriage,
}


class State:
    def __init__(self, node_id: NodeId, params: RoutingParams, make_carriage: MakeCarriage | None = None) -> None:
        self.node_id, self.params = node_id, params
        self.tables = Tables(params.engine, finds_ghosts=params.rescue_window > 0)
        self.ledger = Ledger(params.ack_timeout, params.unanswered_max, params.acknowledges)
        self.strategy = make_strategy(params, self.tables)
        self.links: dict[NodeId, NeighbourLink] = {}
        self.census: Census | None = None
        if params.overtakes:
            names_filters = params.popularity != "gossip"
            self.census = InterestCensus(node_id, params, self.tables, self.links, names_filters)
        elif params.counts:
            self.census = Census(params, self.tables, self.links)
        parts = params, self.tables, self.ledger, self.strategy, self.links
        self.carrier = BatchCarrier(node_id, *parts, make_carriage or self.carriage_of(params), self.census)
        self.covers, self.outbox = Covers(), TableOutbox()

    def carriage_of(self, params: RoutingParams) -> MakeCarriage:
        return CARRIAGES[params.carriage] if params.popularity == "off" else POPULAR_CARRIAGES[params.popularity]

    def tables_changed(self) -> None:
        self.carrier.tables_changed(link.neighbour for link in self.links.values() if link.reduction is not None)

    def make_flow(self, neighbour: NodeId) -> TableFlow:
        return TableFlow(neighbour, self.params, self.outbox)

    def make_reduction(self) -> Reduction:
        return make_reduction(self.params, self.covers, lambda: self.carrier.sample)

    def request(self, link: NeighbourLink | None, name: Hashable) -> PendingRequest:
        """Something asked by a neighbour under a number, or here under a ticket; this broker carries it out itself."""
        request = PendingRequest(link.asker if link is not None else None, name)
        request.count(self.node_id, (self.node_id,), 1)
        if link is not None and not self.params.acknowledges:
            request.problem = NOT_ACKNOWLEDGED
        return request

    def answer_at_once(self, former: NeighbourLink, told: Any) -> list[Effect]:
        """A neighbour whose link has given way to another tells something: others tell us the same, and answer for us
        when we have carried it out."""
        effects: list[Effect] = []
        for change in changes_of(told) if type(told) is TableChanges else (told,):
            if not isinstance(change, PartTold):
                effects += self.request(former, change.number).answer()
        return packed_answers(effects)

    def read(self, text: str) -> tuple[str, Filter] | None:
        """The filter of a neighbour's text under its canonical text; None if it is none."""
        known = self.tables.find_filter(text)
        if known is not None:
            return text, known
        try:
            filter = parse(text)
        except UsageError:
            return None
        return filter.text(), filter

    def check(self) -> None:
        self.tables.check()
        self.ledger.check()
        self.covers.check()
        self.carrier.check()
        if self.census is not None:
            self.census.check()
        for link in self.links.values():
            link.check()
