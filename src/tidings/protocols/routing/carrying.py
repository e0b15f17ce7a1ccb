"""Publications on their way: taken or refused, cut by destination, passed on, and receipts gathered.

A batch is taken from the neighbour on the way to its publisher only, and a publication only if its number is above the
last one of that publisher that passed here. Then the finder (`forwarding.py`) says where each goes. One batch in is at
most one batch out on each link, one `Matched` for the clients of this broker, and one `Drop` for each reason.

A batch with a receipt is passed on under a receipt of our own, and answered with `Reached` when all who got it have
answered so. A broker that passes it to nobody answers at once.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from itertools import chain
from operator import lt

from msgspec.structs import replace

from tidings.machine.effects import Drop, Effect, Send
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.protocols.routing.announcing import Link
from tidings.protocols.routing.forwarding import Finder, Picks, Route
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.requests import NOT_ACKNOWLEDGED, Ledger, Request, Unanswered
from tidings.protocols.routing.strategies import Strategy
from tidings.protocols.routing.tables import LiveHop, Tables
from tidings.pubsub.publications import BadPublication, Publications, cut, decode_head, pick
from tidings.pubsub.signals import Matched, Ticket, Wants

BAD_HEAD = "its attributes do not decode"
NOT_ASCENDING = "its numbers do not ascend"
OTHER_PUBLISHER = "its advertisement is another publisher's"
OTHER_WAY = "did not come on the way from its publisher"
PASSED_ALREADY = "passed already, or a later one did"
UNADVERTISED = "its advertisement is not known"
UNWANTED = "nobody wants it any more"


class Carrier:
    def __init__(self, params: RoutingParams, tables: Tables, ledger: Ledger, strategy: Strategy) -> None:
        self.params, self.tables, self.ledger, self.strategy = params, tables, ledger, strategy
        self.finder = Finder(tables, params.memo_max)
        self.passed: dict[str, int] = {}
        """For each publisher the number that passed last; who was heard last stands last."""
        self.sample: deque[Event] = deque(maxlen=params.sample_max)

    def tables_changed(self, neighbours: Iterable[NodeId]) -> None:
        self.finder.always = self.strategy.always(neighbours)
        self.finder.forget()

    def forward(self, now: float, batch: Publications, ticket: Ticket | None) -> list[Effect]:
        """Publications of a client of this broker."""
        if batch.receipt:
            batch = replace(batch, receipt=0)
        if not batch.numbers:
            return Request(None, ticket, is_batch=True).answer()
        self.note_passed(batch.publisher, max(batch.numbers[-1], self.passed.get(batch.publisher, -1)))
        request = None if ticket is None else Request(None, ticket, is_batch=True)
        if request is not None and not self.ledger.acknowledges:
            return [*self.carry(now, None, batch, None), *request.answer(NOT_ACKNOWLEDGED)]
        return self.carry(now, None, batch, request)

    def receive(self, now: float, link: Link, batch: Publications) -> list[Effect]:
        request = Request(link.asker, batch.receipt, is_batch=True) if batch.receipt else None
        problem = self.problem_of(link, batch)
        if problem:
            return [Drop(batch, problem), *(request.answer(problem) if request else ())]
        effects: list[Effect] = []
        if batch.numbers:
            passed = self.passed.get(batch.publisher, -1)
            if batch.numbers[0] <= passed:
                batch = self.without_passed(batch, passed, effects)
        if not batch.numbers:
            return effects + (request.answer() if request else [])
        self.note_passed(batch.publisher, batch.numbers[-1])
        if request is not None and not self.ledger.acknowledges:
            effects += request.answer(NOT_ACKNOWLEDGED)
            batch, request = replace(batch, receipt=0), None
        return effects + self.carry(now, link.neighbour, batch, request)

    def problem_of(self, link: Link, batch: Publications) -> str:
        chosen = self.tables.chosen(batch.advertisement)
        if chosen is None:
            return UNADVERTISED
        hop, offered = chosen
        if hop != link.neighbour:
            return OTHER_WAY
        if offered.publisher != batch.publisher:
            return OTHER_PUBLISHER
        return "" if all(map(lt, batch.numbers, batch.numbers[1:])) else NOT_ASCENDING

    def without_passed(self, batch: Publications, passed: int, effects: list[Effect]) -> Publications:
        new = bisect_right(batch.numbers, passed)
        effects.append(Drop(cut(batch, slice(0, new), batch.receipt), PASSED_ALREADY))
        return cut(batch, slice(new, None), batch.receipt)

    def note_passed(self, publisher: str, number: int) -> None:
        passed = self.passed
        passed.pop(publisher, None)
        passed[publisher] = number
        if len(passed) > self.params.publishers_max:
            del passed[next(iter(passed))]

    def carry(self, now: float, source: LiveHop, batch: Publications, request: Request | None) -> list[Effect]:
        if self.params.merge_share_max:
            self.remember(batch)
        effects: list[Effect] = []
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

    def carry_whole(
        self,
        now: float,
        source: LiveHop,
        batch: Publications,
        route: Route,
        request: Request | None,
        effects: list[Effect],
    ) -> None:
        if route.links:
            self.pass_on(now, [(link, batch) for link in route.links], request, effects)
        if route.keys:
            effects.append(Matched(batch, (route.keys,) * len(batch.numbers)))
        elif not route.links and source is not None and self.strategy.is_exact:
            effects.append(Drop(batch, UNWANTED))

    def carry_places(
        self, now: float, source: LiveHop, batch: Publications, request: Request | None, effects: list[Effect]
    ) -> None:
        """The same without routes."""
        links, keys = self.finder.find_places(batch.heads)
        choices = {link: tuple(places) for link, places in links.places.items() if link != source}
        picks = {places: pick(batch, places, batch.receipt) for places in dict.fromkeys(choices.values())}
        self.pass_on(now, [(link, picks[places]) for link, places in choices.items()], request, effects)
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
        request: Request | None,
        effects: list[Effect],
    ) -> None:
        parcels = [(link, picks.pick(chosen)) for link, chosen in picks.by_link().items()]
        self.pass_on(now, parcels, request, effects)
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
        self,
        now: float,
        parcels: list[tuple[NodeId, Publications]],
        request: Request | None,
        effects: list[Effect],
    ) -> None:
        if request is None:
            effects += [Send(link, parcel) for link, parcel in parcels]
            return
        receipt = self.ledger.next_number()
        stamped = {id(parcel): replace(parcel, receipt=receipt) for _, parcel in parcels}
        for link, parcel in parcels:
            effects.append(Send(link, stamped[id(parcel)]))
            effects += self.ledger.expect(now, link, receipt, Unanswered(None, 0, is_removal=False))
            self.ledger.wait(request, link, receipt)

    def remember(self, batch: Publications) -> None:
        """Keep one event of the batch for the sample by which imperfect merging is judged."""
        try:
            self.sample.append(Event(decode_head(batch.heads[0])))
        except BadPublication:
            return

    def check(self) -> None:
        assert len(self.passed) <= self.params.publishers_max
        assert self.finder.size == sum(map(len, self.finder.memos.values())) <= self.params.memo_max
