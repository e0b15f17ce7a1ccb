"""Publications on their way: taken or refused, cut by destination, passed on, and receipts gathered.

A batch is taken from the neighbour on the way to its publisher only, and each publication once. Then the finder
(`finder.py`) says where each goes. One batch in is at most one parcel for each neighbour, one `Matched` for the clients
of this broker, and one `Drop` for each reason.

What becomes of the parcels is a *carriage*'s affair (`carriage/`): the plain one sends each as soon as the neighbour
takes it (`parcels.py`); others gather small ones for a while, take a short cut to brokers further away, or tell them to
whoever is in reach. A carriage gives back to the carrier what arrived in its own messages. Where one had to leave
publications out, `PublicationsSkipped` comes in their place: it is passed on to every neighbour that wants anything,
and told to delivery as `Skipped`.

Twice is once: which numbers of a publisher have passed is remembered (`passage.py`). What takes long, because it is
dear to match or because very many want it, is carried a part at a time (`heavy.py`).

A batch with a receipt is passed on under a receipt of our own, and answered with `Reached` when all who got it have
answered so. A broker that passes it to nobody answers at once.

Around a failure, where `rescue_window` says that somebody knows a way around one: what had to go to a neighbour that is
lost and not yet given up is told as `Stranded`, and what arrives as `Rescued` is carried on (`around.py`).
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, repeat

from msgspec.structs import replace

from tidings.machine.effects import Drop, Effect, Send
from tidings.matching.index.answers import MatchedPlaces
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.protocols.routing.around import NOT_ASCENDING, OTHER_PUBLISHER, PASSED_ALREADY, AroundFailures, do_ascend
from tidings.protocols.routing.carriage.carriage import Carriage, Parcel
from tidings.protocols.routing.census import Census
from tidings.protocols.routing.finder import Finder, Picks, Route
from tidings.protocols.routing.heavy import HeavyBatch, HeavyBatches
from tidings.protocols.routing.held import HeldMark, HeldPublications
from tidings.protocols.routing.links import NeighbourLink
from tidings.protocols.routing.messages import PublicationsSkipped, PublicationsTaken
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.parcels import LEFT_OUT, MESSAGE_BYTES, size_of
from tidings.protocols.routing.passage import Passage
from tidings.protocols.routing.requests import LINK_LOST, NOT_ACKNOWLEDGED, Ledger, PendingRequest, Unanswered
from tidings.protocols.routing.strategies import Strategy
from tidings.protocols.routing.tables import LiveHop, Tables
from tidings.pubsub.publications import BadPublication, Publications, cut, pick, read_head
from tidings.pubsub.signals import Forward, Matched, Rescued, Skipped, Wants

BAD_HEAD = "its attributes do not decode"
OTHER_WAY = "did not come on the way from its publisher"
UNADVERTISED = "its advertisement is not known"
UNWANTED = "nobody wants it any more"

MakeCarriage = Callable[["BatchCarrier"], Carriage]


class BatchCarrier:
    def __init__(
        self,
        node_id: NodeId,
        params: RoutingParams,
        tables: Tables,
        ledger: Ledger,
        strategy: Strategy,
        links: Mapping[NodeId, NeighbourLink],
        make_carriage: MakeCarriage,
        census: Census | None = None,
    ) -> None:
        self.node_id, self.links, self.census = node_id, links, census
        self.params, self.tables, self.ledger, self.strategy = params, tables, ledger, strategy
        self.finder = Finder(tables, params.memo_max)
        self.passage = Passage(params.publishers_max, params.passage_window)
        self.around = AroundFailures(params, tables, self.passage, self.carry)
        self.carriage: Carriage = make_carriage(self)
        self.heavy = HeavyBatches(tables, self.finder, self.carry_now)
        self.sample: deque[Event] = deque(maxlen=params.sample_max)
        self.held: HeldPublications | None = None
        """What waits while a link takes the place of another."""
        self.in_vain: Callable[[float, int], list[Effect]] | None = None
        """So many events came here that nobody wants, while a lost neighbour is waited for."""

    def tables_changed(self, neighbours: Iterable[NodeId]) -> None:
        self.finder.always = self.strategy.always(neighbours)
        self.finder.forget()

    def forward(self, now: float, forward: Forward) -> list[Effect]:
        """Publications of a client of this broker."""
        batch, ticket = forward.batch, forward.ticket
        if batch.receipt:
            batch = replace(batch, receipt=0)
        if not batch.numbers:
            return PendingRequest(None, ticket, is_batch=True).answer()
        self.passage.take(batch)
        self.around.came_by_tree(batch)
        request = None if ticket is None else PendingRequest(None, ticket, is_batch=True)
        if request is not None and not self.ledger.acknowledges:
            return [*self.carry(now, None, batch, None), *request.answer(NOT_ACKNOWLEDGED)]
        return self.carry(now, None, batch, request)

    def receive(self, now: float, link: NeighbourLink, batch: Publications) -> list[Effect]:
        taken_bytes = link.publications_taken.take(size_of(batch))
        if taken_bytes is None:
            return self.take(now, link, batch)
        return [Send(link.neighbour, PublicationsTaken(taken_bytes)), *self.take(now, link, batch)]

    def take(self, now: float, link: NeighbourLink, batch: Publications) -> list[Effect]:
        request = PendingRequest(link.asker, batch.receipt, is_batch=True) if batch.receipt else None
        problem = self.problem_of(link, batch.publisher, batch.advertisement)
        if not problem and len(batch.numbers) > 1 and not do_ascend(batch.numbers):
            problem = NOT_ASCENDING
        if problem:
            return [Drop(batch, problem), *(request.answer(problem) if request else ())]
        effects: list[Effect] = []
        if batch.numbers:
            new = self.passage.take(batch)
            self.around.came_by_tree(batch)
            if new is not None:
                batch = self.without_passed(batch, new, effects)
        if not batch.numbers:
            return effects + (request.answer() if request else [])
        if request is not None and not self.ledger.acknowledges:
            effects += request.answer(NOT_ACKNOWLEDGED)
            batch, request = replace(batch, receipt=0), None
        return effects + self.carry(now, link.neighbour, batch, request)

    def rescue(self, now: float, rescued: Rescued) -> list[Effect]:
        """What a carriage brought another way than the tree."""
        return self.around.take_back(now, rescued.stand_in_for, rescued.batch)

    def skipped(self, now: float, link: NeighbourLink, skipped: PublicationsSkipped) -> list[Effect]:
        """Publications were left out on the way here."""
        taken_bytes = link.publications_taken.take(MESSAGE_BYTES)
        effects: list[Effect] = [] if taken_bytes is None else [Send(link.neighbour, PublicationsTaken(taken_bytes))]
        problem = self.problem_of(link, skipped.publisher, skipped.advertisement)
        if problem:
            return [*effects, Drop(skipped, problem)]
        if self.held is not None and self.held.holds(link.neighbour):
            self.held.put_mark(link.neighbour, skipped)
            return effects
        return effects + self.pass_mark_on(link.neighbour, skipped)

    def pass_mark_on(self, source: LiveHop, skipped: PublicationsSkipped) -> list[Effect]:
        wanting = [hop for hop, texts in self.tables.texts.items() if texts and isinstance(hop, str)]
        away = {source, *self.tables.absent, *self.tables.shut}
        others = [hop for hop in dict.fromkeys((*self.finder.always, *wanting)) if hop not in away]
        effects = self.carriage.skip(skipped, others)
        return [*effects, Skipped(skipped.advertisement, skipped.publisher, skipped.through)]

    def taken(self, now: float, link: NeighbourLink, taken: PublicationsTaken) -> list[Effect]:
        return self.carriage.taken(link.neighbour, taken.total_bytes)

    def problem_of(self, link: NeighbourLink, publisher: str, advertisement: str) -> str:
        if not self.params.advertises:
            return ""
        chosen = self.tables.chosen(advertisement)
        if chosen is None:
            return UNADVERTISED
        hop, offered = chosen
        if hop != link.neighbour:
            return OTHER_WAY
        return "" if offered.publisher == publisher else OTHER_PUBLISHER

    def without_passed(self, batch: Publications, new: list[int], effects: list[Effect]) -> Publications:
        """Those at the places that are new; of the others it is told why not."""
        passed = [place for place in range(len(batch.numbers)) if place not in set(new)]
        effects.append(Drop(pick(batch, passed, batch.receipt), PASSED_ALREADY))
        return pick(batch, new, batch.receipt) if new else cut(batch, slice(0), batch.receipt)

    def carry(self, now: float, source: LiveHop, batch: Publications, request: PendingRequest | None) -> list[Effect]:
        """At once, or when there is time for it, or when a shift is over."""
        if self.held is not None and self.held.holds(source):
            return self.hold(source, batch, request)
        if not self.heavy.must_wait(source, batch):
            return self.carry_now(now, source, batch, request)
        effects = self.wait(now, source, batch, request)
        return effects if request is None or not request.problem else effects + request.answer(request.problem)

    def hold(self, source: LiveHop, batch: Publications, request: PendingRequest | None) -> list[Effect]:
        """It is carried on when the shift is over; beyond the bound it is left out, and the mark waits in its place."""
        assert self.held is not None
        if self.held.put(source, batch, request):
            return []
        self.held.put_mark(source, PublicationsSkipped(batch.publisher, batch.advertisement, batch.numbers[-1]))
        return [Drop(batch, LEFT_OUT), *(request.answer(LEFT_OUT) if request is not None else ())]

    def release(self, now: float) -> list[Effect]:
        """Nothing is held any more: what was goes its way, in the order in which it came."""
        held, self.held = self.held, None
        effects: list[Effect] = []
        for each in () if held is None else held.waiting:
            if isinstance(each, HeldMark):
                effects += self.pass_mark_on(each.source, each.mark)
            else:
                effects += self.carry(now, each.source, each.batch, each.request)
        return effects

    def wait(
        self,
        now: float,
        source: LiveHop,
        batch: Publications,
        request: PendingRequest | None,
        is_first: bool = False,
    ) -> list[Effect]:
        """It is carried later, or left out where too much waits."""
        effects = self.heavy.put(now, HeavyBatch(source, batch, request), is_first)
        if effects is not None:
            return effects
        mark = PublicationsSkipped(batch.publisher, batch.advertisement, batch.numbers[-1])
        if request is not None:
            request.problem = LEFT_OUT
        return [Drop(batch, LEFT_OUT), *self.pass_mark_on(source, mark)]

    def carry_now(
        self, now: float, source: LiveHop, batch: Publications, request: PendingRequest | None
    ) -> list[Effect]:
        """As much of it as one step may carry; the rest waits."""
        if self.params.merge_share_max:
            self.remember(batch)
        effects: list[Effect] = []
        routes: list[Route] = []
        links = keys = None
        if self.finder.is_remembering:
            routes = self.finder.find(source, batch.heads)
        else:
            links, keys = self.finder.find_places(batch.heads)
        whole, count = batch, len(routes) if keys is None else keys.looked_at
        if count < len(whole.heads):
            batch = cut(whole, slice(count), whole.receipt)
        if self.params.in_flight_for:
            self.around.remember(now, source, batch)
        if self.around.is_stranding:
            self.strand(source, batch, request, effects)
        if links is not None and keys is not None:
            self.carry_places(now, source, batch, links, keys, request, effects)
        elif not routes[0].is_bad and routes.count(routes[0]) == len(routes):
            # The usual case: all go the same way.
            first = routes[0]
            if first.links:
                self.pass_on(now, source, list(zip(first.links, repeat(batch))), request, effects)
            if first.keys:
                effects.append(Matched(batch, (first.keys,) * len(batch.numbers)))
            elif not first.links and source is not None and self.strategy.is_exact:
                self.drop_unwanted(now, batch, effects)
        else:
            self.carry_picks(now, source, Picks(batch, routes), routes, request, effects)
        if count < len(whole.heads):
            effects += self.wait(now, source, cut(whole, slice(count, None), whole.receipt), request, is_first=True)
        return effects if request is None else effects + self.ledger.settle(request)

    def strand(
        self, source: LiveHop, batch: Publications, request: PendingRequest | None, effects: list[Effect]
    ) -> None:
        """Tell what would go to neighbours that are lost and have not come back."""
        for stranded, is_known in self.around.stranded(source, batch):
            effects.append(stranded)
            if request is not None and is_known:
                request.problem = LINK_LOST

    def carry_places(
        self,
        now: float,
        source: LiveHop,
        batch: Publications,
        links: MatchedPlaces,
        keys: MatchedPlaces,
        request: PendingRequest | None,
        effects: list[Effect],
    ) -> None:
        """Without routes."""
        away = {source, *self.tables.absent, *self.tables.shut}
        choices = {link: tuple(places) for link, places in links.places.items() if link not in away}
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
                self.drop_unwanted(now, pick(batch, unwanted, batch.receipt), effects)

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
                self.drop_unwanted(now, picks.pick(unwanted), effects)

    def drop_unwanted(self, now: float, batch: Publications, effects: list[Effect]) -> None:
        effects.append(Drop(batch, UNWANTED))
        if self.in_vain is not None and (self.tables.ghosts or self.tables.absent):
            effects += self.in_vain(now, len(batch.numbers))

    def pass_on(
        self, now: float, source: LiveHop, parcels: list[Parcel], request: PendingRequest | None, effects: list[Effect]
    ) -> None:
        if request is None:
            effects += self.carriage.pass_on(now, source, parcels)
            return
        receipt = self.ledger.next_number()
        stamped = {id(parcel): replace(parcel, receipt=receipt) for _, parcel in parcels}
        for link, _ in parcels:
            effects += self.ledger.expect(now, link, receipt, Unanswered(None, 0, is_removal=False))
            self.ledger.wait(request, link, receipt)
        effects += self.carriage.pass_on(now, source, [(link, stamped[id(parcel)]) for link, parcel in parcels])

    def remember(self, batch: Publications) -> None:
        """Keep one event of the batch for the sample by which imperfect merging is judged."""
        try:
            self.sample.append(read_head(batch.heads[0]))
        except BadPublication:
            return

    def check(self) -> None:
        self.passage.check()
        self.around.check()
        self.heavy.check()
        self.carriage.check()
        assert self.finder.size == sum(map(len, self.finder.memos.values())) <= self.params.memo_max
