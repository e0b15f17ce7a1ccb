"""Publications on their way: taken or refused, cut by destination, passed on, and receipts gathered.

A batch is taken from the neighbour on the way to its publisher only, and each publication once (`passage.py`). Then the
finder (`finder.py`) says where each goes. One batch in is at most one parcel for each neighbour, which the carriage
takes there (`carriage.py`), one `Matched` for the clients of this broker, and one `Drop` for each reason.

A batch with a receipt is passed on under a receipt of our own, and answered with `Reached` when all who got it have
answered so. A broker that passes it to nobody answers at once.

Around a failure, where `rescue_window` says that somebody knows a way around one: what had to go to a neighbour that is
lost and not yet given up (a ghost) is told as `Stranded`, and what arrives as `Rescued` is carried on as if the
neighbour that it stands in for had brought it.
"""

from collections import deque
from collections.abc import Iterable
from itertools import chain
from operator import lt

from msgspec.structs import replace

from tidings.machine.effects import Drop, Effect
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.protocols.routing.carriage.carriage import CARRIAGES, Carriage, MakeCarriage, Parcel
from tidings.protocols.routing.carriage.finder import Finder, Picks, Route
from tidings.protocols.routing.carriage.passage import Passage
from tidings.protocols.routing.links import NeighbourLink
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.requests import LINK_LOST, NOT_ACKNOWLEDGED, Ledger, PendingRequest, Unanswered
from tidings.protocols.routing.strategies import Strategy
from tidings.protocols.routing.tables import LiveHop, Tables
from tidings.pubsub.publications import BadPublication, Numbers, Publications, cut, pick, read_head
from tidings.pubsub.signals import Matched, Rescued, Stranded, Ticket, Wants

BAD_HEAD = "its attributes do not decode"
NOT_ASCENDING = "its numbers do not ascend"
OTHER_PUBLISHER = "its advertisement is another publisher's"
OTHER_WAY = "did not come on the way from its publisher"
PASSED_ALREADY = "passed already, or a later one did"
UNADVERTISED = "its advertisement is not known"
UNWANTED = "nobody wants it any more"


class BatchCarrier:
    def __init__(
        self,
        params: RoutingParams,
        tables: Tables,
        ledger: Ledger,
        strategy: Strategy,
        make_carriage: MakeCarriage | None = None,
    ) -> None:
        self.params, self.tables, self.ledger, self.strategy = params, tables, ledger, strategy
        self.finder = Finder(tables, params.memo_max)
        self.passage = Passage(params.publishers_max, params.rescue_window)
        self.carriage: Carriage = (make_carriage or CARRIAGES[params.carriage])(self)
        self.sample: deque[Event] = deque(maxlen=params.sample_max)

    def tables_changed(self, neighbours: Iterable[NodeId]) -> None:
        self.finder.always = self.strategy.always(neighbours)
        self.finder.forget()

    def forward(self, now: float, batch: Publications, ticket: Ticket | None) -> list[Effect]:
        """Publications of a client of this broker."""
        if batch.receipt:
            batch = replace(batch, receipt=0)
        if not batch.numbers:
            return PendingRequest(None, ticket, is_batch=True).answer()
        self.passage.take(batch.publisher, batch.numbers)
        request = None if ticket is None else PendingRequest(None, ticket, is_batch=True)
        if request is not None and not self.ledger.acknowledges:
            return [*self.carry(now, None, batch, None), *request.answer(NOT_ACKNOWLEDGED)]
        return self.carry(now, None, batch, request)

    def receive(self, now: float, link: NeighbourLink, batch: Publications) -> list[Effect]:
        request = PendingRequest(link.asker, batch.receipt, is_batch=True) if batch.receipt else None
        problem = self.problem_of(link, batch)
        if problem:
            return [Drop(batch, problem), *(request.answer(problem) if request else ())]
        effects: list[Effect] = []
        if batch.numbers:
            batch = self.without_passed(batch, effects)
        if not batch.numbers:
            return effects + (request.answer() if request else [])
        if request is not None and not self.ledger.acknowledges:
            effects += request.answer(NOT_ACKNOWLEDGED)
            batch, request = replace(batch, receipt=0), None
        return effects + self.carry(now, link.neighbour, batch, request)

    def rescue(self, now: float, rescued: Rescued) -> list[Effect]:
        """The advertisement may be unknown for now: the way to its publisher is what failed."""
        batch, chosen = rescued.batch, self.tables.chosen(rescued.batch.advertisement)
        if chosen is not None and chosen[1].publisher != batch.publisher:
            return [Drop(batch, OTHER_PUBLISHER)]
        if not do_ascend(batch.numbers):
            return [Drop(batch, NOT_ASCENDING)]
        effects: list[Effect] = []
        if batch.numbers:
            batch = self.without_passed(replace(batch, receipt=0), effects)
        return effects + self.carry(now, rescued.stand_in_for, batch, None) if batch.numbers else effects

    def problem_of(self, link: NeighbourLink, batch: Publications) -> str:
        chosen = self.tables.chosen(batch.advertisement)
        if chosen is None:
            return UNADVERTISED
        hop, offered = chosen
        if hop != link.neighbour:
            return OTHER_WAY
        if offered.publisher != batch.publisher:
            return OTHER_PUBLISHER
        return "" if len(batch.numbers) < 2 or do_ascend(batch.numbers) else NOT_ASCENDING

    def without_passed(self, batch: Publications, effects: list[Effect]) -> Publications:
        new = self.passage.take(batch.publisher, batch.numbers)
        if new is None:
            return batch
        passed = [place for place in range(len(batch.numbers)) if place not in set(new)]
        effects.append(Drop(pick(batch, passed, batch.receipt), PASSED_ALREADY))
        return pick(batch, new, batch.receipt) if new else cut(batch, slice(0), batch.receipt)

    def carry(self, now: float, source: LiveHop, batch: Publications, request: PendingRequest | None) -> list[Effect]:
        if self.params.merge_share_max:
            self.remember(batch)
        effects: list[Effect] = []
        if self.tables.ghost_index is not None and self.tables.ghosts:
            self.strand(source, batch, request, effects)
        if not self.finder.is_remembering:
            self.carry_places(now, source, batch, request, effects)
            return effects if request is None else effects + self.ledger.settle(request)
        routes = self.finder.find(source, batch.heads)
        first = routes[0]
        if not first.is_bad and routes.count(first) == len(routes):
            self.carry_whole(now, source, batch, first, request, effects)
        else:
            self.carry_picks(now, source, Picks(batch, routes), routes, request, effects)
        return effects if request is None else effects + self.ledger.settle(request)

    def strand(
        self, source: LiveHop, batch: Publications, request: PendingRequest | None, effects: list[Effect]
    ) -> None:
        """Tell what would go to neighbours that are lost and have not come back."""
        assert self.tables.ghost_index is not None
        for lost, places in self.tables.ghost_index.find_heads_links(batch.heads).places.items():
            if lost != source and lost not in self.tables.texts:
                effects.append(Stranded(lost, pick(batch, places, receipt=0)))
                if request is not None:
                    request.problem = LINK_LOST

    def carry_whole(
        self,
        now: float,
        source: LiveHop,
        batch: Publications,
        route: Route,
        request: PendingRequest | None,
        effects: list[Effect],
    ) -> None:
        if route.links:
            self.pass_on(now, source, [(link, batch) for link in route.links], request, effects)
        if route.keys:
            effects.append(Matched(batch, (route.keys,) * len(batch.numbers)))
        elif not route.links and source is not None and self.strategy.is_exact:
            effects.append(Drop(batch, UNWANTED))

    def carry_places(
        self, now: float, source: LiveHop, batch: Publications, request: PendingRequest | None, effects: list[Effect]
    ) -> None:
        """The same without routes."""
        links, keys = self.finder.find_places(batch.heads)
        choices = {link: tuple(places) for link, places in links.places.items() if link != source}
        picks = {places: pick(batch, places, batch.receipt) for places in dict.fromkeys(choices.values())}
        self.pass_on(now, source, [(link, picks[places]) for link, places in choices.items()], request, effects)
        if keys.places:
            effects.append(Matched(batch, Wants(len(batch.numbers), keys.places)))
        bad = sorted({*links.bad, *keys.bad})
        if bad:
            effects.append(Drop(pick(batch, bad, batch.receipt), BAD_HEAD))
        if source is not None and self.strategy.is_exact:
            wanted = set(chain(bad, *picks, *keys.places.values()))
            unwanted = [place for place in range(len(batch.numbers)) if place not in wanted]
            if unwanted:
                effects.append(Drop(pick(batch, unwanted, batch.receipt), UNWANTED))

    def carry_picks(
        self,
        now: float,
        source: LiveHop,
        picks: Picks,
        routes: list[Route],
        request: PendingRequest | None,
        effects: list[Effect],
    ) -> None:
        parcels = [(link, picks.pick(chosen)) for link, chosen in picks.by_link().items()]
        self.pass_on(now, source, parcels, request, effects)
        local = [route for route in picks.places if route.keys]
        if local:
            wanted = tuple(routes[place].keys for place in picks.places_of(local))
            effects.append(Matched(picks.pick(local), wanted))
        bad = [route for route in picks.places if route.is_bad]
        if bad:
            effects.append(Drop(picks.pick(bad), BAD_HEAD))
        if source is not None and self.strategy.is_exact:
            unwanted = [route for route in picks.places if not (route.links or route.keys or route.is_bad)]
            if unwanted:
                effects.append(Drop(picks.pick(unwanted), UNWANTED))

    def pass_on(
        self, now: float, source: LiveHop, parcels: list[Parcel], request: PendingRequest | None, effects: list[Effect]
    ) -> None:
        if request is None:
            effects += self.carriage.pass_on(now, source, parcels)
            return
        receipt = self.ledger.next_number()
        stamped = {id(parcel): replace(parcel, receipt=receipt) for _, parcel in parcels}
        effects += self.carriage.pass_on(now, source, [(link, stamped[id(parcel)]) for link, parcel in parcels])
        for link, _ in parcels:
            effects += self.ledger.expect(now, link, receipt, Unanswered(None, 0, is_removal=False))
            self.ledger.wait(request, link, receipt)

    def remember(self, batch: Publications) -> None:
        """Keep one event of the batch for the sample by which imperfect merging is judged."""
        try:
            self.sample.append(read_head(batch.heads[0]))
        except BadPublication:
            return

    def check(self) -> None:
        self.passage.check()
        self.carriage.check()
        assert self.finder.size == sum(map(len, self.finder.memos.values())) <= self.params.memo_max


def do_ascend(numbers: Numbers) -> bool:
    return all(map(lt, numbers, numbers[1:]))
