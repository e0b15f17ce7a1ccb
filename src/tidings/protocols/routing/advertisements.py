"""Who offers what: changes of it, and what neighbours and delivery are told because of them.

Every advertisement is known to every broker, so a neighbour is told one as long as it came from
anywhere but from it. An announcement has a name, its *way* (`tables.py`). It is passed on with its name; a broker that
has to choose another hop towards the publisher, because the one so far is gone, gives it a new name. So everybody
behind that broker hears that the way has changed, and fetches what may have been lost. In a ring, which the tree may be
for a moment, an announcement stops where its name is known already.

A link that takes the place of another (`repairs/shift.py`) is shut at first: what it offers counts when others offer it
too, and waits (is *parked*) where nobody does. When it is opened it comes first, and ways keep their names.
"""

from typing import NamedTuple

from tidings.machine.effects import Drop, Effect
from tidings.model.identity import NodeId
from tidings.protocols.routing.adrift import AdriftOffers
from tidings.protocols.routing.links import NeighbourLink
from tidings.protocols.routing.messages import AdvertisementAdded, AdvertisementRemoved
from tidings.protocols.routing.requests import PendingRequest
from tidings.protocols.routing.state import BAD_FILTER, TABLE_FULL, State
from tidings.protocols.routing.subscriptions import RoutingSubscriptions
from tidings.protocols.routing.tables import LiveHop, Offered, Way
from tidings.pubsub.signals import AdvertisementId, Forgotten, Known, Offer, Unoffer


class WithheldEnd(NamedTuple):
    source: NeighbourLink | None
    request: PendingRequest
    is_lost: bool


Chosen = tuple[LiveHop, Offered] | None


class RoutingAdvertisements:
    def __init__(self, state: State, subscriptions: RoutingSubscriptions) -> None:
        self.state, self.subscriptions = state, subscriptions
        self.tables, self.ledger, self.links = state.tables, state.ledger, state.links
        self.ways: dict[AdvertisementId, Way] = {}
        """Under which name each is announced."""
        self.lost: dict[AdvertisementId, None] = {}
        """Those that nobody withdrew: the way to them broke. The one that was lost first goes first."""
        subscriptions.advertisements = self
        self.withheld: dict[tuple[LiveHop, AdvertisementId], WithheldEnd] = {}
        """Advertisements that are withdrawn; nobody is told so while publications of theirs are held (`held.py`)."""
        self.adrift = AdriftOffers(state.tables, state.params, state.strategy.follows_offers, self.look_again)

    def offer(self, now: float, offer: Offer) -> list[Effect]:
        request = self.state.request(None, offer.ticket)
        if not self.state.params.advertises:
            return request.answer()
        text, filter = offer.filter.text(), offer.filter
        known = self.tables.offers_of[None].get(offer.advertisement)
        if known is None and len(self.tables.offers_of[None]) >= self.state.params.advertisements_max:
            return request.answer(TABLE_FULL)
        if known is not None and known[:2] == (offer.publisher, text):
            way = known.way
        else:
            way = self.state.node_id, self.ledger.next_number()
        return self.offered(now, None, offer.advertisement, Offered(offer.publisher, text, filter, way, 0), request)

    def unoffer(self, now: float, unoffer: Unoffer) -> list[Effect]:
        return self.unoffered(now, None, unoffer.advertisement, self.state.request(None, unoffer.ticket))

    def added(self, now: float, link: NeighbourLink, message: AdvertisementAdded) -> list[Effect]:
        request = self.state.request(link, message.number)
        told = self.state.read(message.filter)
        if told is None:
            return [Drop(message, BAD_FILTER), *request.answer(BAD_FILTER)]
        offers = self.tables.offers_of[link.neighbour]
        if message.advertisement not in offers and len(offers) >= self.state.params.advertisements_max:
            return [Drop(message, TABLE_FULL), *request.answer(TABLE_FULL)]
        if link.is_confirming:
            link.confirmed_offers[message.advertisement] = None
        offered = Offered(message.publisher, *told, (message.way_begun_by, message.way), 0)
        return self.offered(now, link, message.advertisement, offered, request)

    def removed(self, now: float, link: NeighbourLink, message: AdvertisementRemoved) -> list[Effect]:
        request = self.state.request(link, message.number)
        return self.unoffered(now, link, message.advertisement, request, message.is_lost)

    def offered(
        self,
        now: float,
        source: NeighbourLink | None,
        advertisement: AdvertisementId,
        offered: Offered,
        request: PendingRequest,
    ) -> list[Effect]:
        hop = source.neighbour if source is not None else None
        overtaken = self.withheld.pop((hop, advertisement), None)
        effects = self.ledger.settle(overtaken.request) if overtaken is not None else []
        told_before = self.tables.offers_of[hop].get(advertisement)
        is_other = told_before is not None and told_before.text != offered.text
        is_new = is_other or offered.text not in self.tables.offered[hop]
        is_changed = self.tables.add_offer(hop, advertisement, *offered[:4])
        if is_changed and is_new and source is not None and self.state.strategy.follows_offers:
            # The subscriptions go first: then they are there before whatever delivery sends when it hears `Known`.
            self.subscriptions.look_again(now, source, effects)
        if source is not None and not source.is_settled:
            source.news.append((source.filters_walk.target, advertisement, request))
            return effects
        self.announce(now, hop, advertisement, request, effects)
        return effects

    def announce(
        self, now: float, hop: LiveHop, advertisement: AdvertisementId, request: PendingRequest, effects: list[Effect]
    ) -> None:
        """What that hop told about it counts, and is told on; unless it took it back meanwhile."""
        if advertisement in self.tables.offers_of[hop]:
            before = self.tables.chosen(advertisement)
            if before is None and hop in self.tables.shut and hop is not None:
                self.links[hop].parked.setdefault(advertisement, []).append(request)
                return
            self.tables.choose_offer(hop, advertisement)
            self.reconcile(now, advertisement, before, effects)
            beside = (hop, None if hop is None else self.tables.apart.get(hop))
            for link in self.links.values():
                if link.neighbour not in beside:
                    self.await_at(now, link, advertisement, request, effects)
        effects += self.ledger.settle(request)
        for link in [self.links[name] for name in self.tables.shut if name in self.links]:
            if advertisement in link.parked and self.tables.chosen(advertisement) is not None:
                self.count_parked(now, link, advertisement, effects)

    def count_parked(
        self, now: float, link: NeighbourLink, advertisement: AdvertisementId, effects: list[Effect]
    ) -> None:
        for request in link.parked.pop(advertisement) or [self.state.request(None, None)]:
            self.announce(now, link.neighbour, advertisement, request, effects)

    def park(self, advertisement: AdvertisementId) -> None:
        """If nobody tells it but neighbours whose links are shut, it is known no more, until one is not."""
        if advertisement in self.tables.offers and self.tables.chosen(advertisement) is None:
            for hop in list(self.tables.offers[advertisement]):
                assert hop is not None
                self.tables.unchoose_offer(hop, advertisement)
                if hop in self.links:
                    self.links[hop].parked.setdefault(advertisement, [])

    def await_at(
        self,
        now: float,
        link: NeighbourLink,
        advertisement: AdvertisementId,
        request: PendingRequest,
        effects: list[Effect],
    ) -> None:
        if link.offers_walk.is_over or link.reduction is None or advertisement in link.advertisements:
            link.await_advertisement(now, advertisement, request, effects)
        elif self.tables.chosen_beside(advertisement, link.neighbour) is not None:
            link.offers_walk.wait(advertisement, request)

    def unoffered(
        self,
        now: float,
        source: NeighbourLink | None,
        advertisement: AdvertisementId,
        request: PendingRequest,
        is_lost: bool = False,
    ) -> list[Effect]:
        effects: list[Effect] = []
        hop = source.neighbour if source is not None else None
        held = self.state.carrier.held
        if held is not None and advertisement in held.advertisements:
            self.withheld[hop, advertisement] = WithheldEnd(source, request, is_lost)
            return effects
        before = self.tables.chosen(advertisement)
        gone = self.tables.remove_offer(hop, advertisement)
        self.park(advertisement)
        if source is not None and advertisement in source.parked:
            for parked in source.parked.pop(advertisement):
                effects += self.ledger.settle(parked)
        if gone is None and not is_lost and self.adrift.was_behind(hop, advertisement):
            self.adrift.end(now, advertisement, effects)
            effects += [] if self.state.census is None else self.state.census.offers_changed(now, advertisement)
        if gone is not None:
            if is_lost:
                self.adrift.put(now, advertisement, hop, gone, effects)
            for neighbour, number in self.reconcile(now, advertisement, before, effects, is_lost):
                self.ledger.wait(request, neighbour, number)
            if source is not None and gone.text not in self.tables.offered[hop] and self.state.strategy.follows_offers:
                self.subscriptions.look_again(now, source, effects)
        return effects + self.ledger.settle(request)

    def withdraw(self, now: float, neighbour: NodeId, effects: list[Effect]) -> None:
        """Nothing is offered behind the neighbour any more."""
        for advertisement in list(self.tables.offers_of[neighbour]):
            before = self.tables.chosen(advertisement)
            gone = self.tables.remove_offer(neighbour, advertisement)
            self.park(advertisement)
            self.adrift.put(now, advertisement, neighbour, gone, effects)
            self.reconcile(now, advertisement, before, effects, is_lost=True)

    def suspend(self, now: float, neighbour: NodeId, effects: list[Effect]) -> None:
        """Nothing that is offered behind the neighbour counts any more, until it counts again."""
        for advertisement in list(self.tables.offers_of[neighbour]):
            before = self.tables.chosen(advertisement)
            self.tables.unchoose_offer(neighbour, advertisement)
            self.park(advertisement)
            if before is not None:
                self.adrift.put(now, advertisement, neighbour, self.tables.offers_of[neighbour][advertisement], effects)
                self.reconcile(now, advertisement, before, effects, is_lost=True)

    def end_withheld(self, now: float) -> list[Effect]:
        """What was withdrawn while publications were held: they have left."""
        effects: list[Effect] = []
        withheld, self.withheld = self.withheld, {}
        for (hop, advertisement), (source, request, is_lost) in withheld.items():
            if hop is None or self.links.get(hop) is source:
                effects += self.unoffered(now, source, advertisement, request, is_lost)
        return effects

    # A link that takes the place of another (`repairs/shift.py`): nothing is lost, and nobody has to hear of it.

    def hand_over(self, now: float, old: NodeId, new: NodeId, effects: list[Effect]) -> None:
        """What both offer comes from the new one from now on, and what was parked of it counts."""
        link = self.links[new]
        for advertisement in list(link.parked):
            self.count_parked(now, link, advertisement, effects)
        for advertisement in list(self.tables.offers_of[new]):
            before = self.tables.chosen(advertisement)
            if before is not None and before[0] == old and new in self.tables.offers[advertisement]:
                self.tables.prefer_offer(new, advertisement)
                self.reconcile(now, advertisement, before, effects, keeps_way=True)

    def part_with(self, now: float, neighbour: NodeId, effects: list[Effect]) -> None:
        """Nothing is offered behind the neighbour any more; what others offer too goes on under its name."""
        for advertisement in list(self.tables.offers_of[neighbour]):
            before = self.tables.chosen(advertisement)
            gone = self.tables.remove_offer(neighbour, advertisement)
            self.park(advertisement)
            if self.tables.chosen(advertisement) is None:
                if before is not None:
                    self.adrift.put(now, advertisement, neighbour, gone, effects)
                    self.reconcile(now, advertisement, before, effects, is_lost=True)
            else:
                self.reconcile(now, advertisement, before, effects, keeps_way=True)

    def renew_ways(self, now: float, hop: NodeId, effects: list[Effect]) -> None:
        """Something may have been lost on the way from there, after all."""
        for advertisement in list(self.tables.offers_of[hop]):
            chosen = self.tables.chosen(advertisement)
            if chosen is not None and chosen[0] == hop:
                self.reconcile(now, advertisement, (None, chosen[1]), effects)

    def look_again(self, now: float, neighbour: NodeId, effects: list[Effect]) -> None:
        if neighbour in self.links:
            self.subscriptions.look_again(now, self.links[neighbour], effects)

    def adrift_over(self, now: float) -> list[Effect]:
        over, effects = self.adrift.fired(now)
        changes = [] if self.state.census is None else [self.state.census.offers_changed(now, each) for each in over]
        return effects + [effect for change in changes for effect in change]

    def reconcile(
        self,
        now: float,
        advertisement: AdvertisementId,
        before: Chosen,
        effects: list[Effect],
        is_lost: bool = False,
        keeps_way: bool = False,
    ) -> list[tuple[NodeId, int]]:
        """Tell neighbours and delivery what follows from a change of who offers this; the numbers of what was told."""
        after, way_before = self.tables.chosen(advertisement), self.ways.get(advertisement)
        was_lost = self.note_lost(advertisement, is_lost and after is None)
        if after is None:
            self.ways.pop(advertisement, None)
        elif keeps_way:
            pass
        elif before is None or (before[0] == after[0] and before[1] is not after[1]):
            self.ways[advertisement] = after[1].way
        elif before[0] != after[0]:
            self.ways[advertisement] = self.state.node_id, self.ledger.next_number()
        numbers = [
            (link.neighbour, number)
            for link in self.links.values()
            for number in self.tell(now, link, advertisement, effects)
        ]
        known: list[Effect] = []
        if after is None:
            if way_before is not None or (was_lost and not is_lost):
                effects.append(Forgotten(advertisement, is_lost))
        elif self.ways[advertisement] != way_before:
            self.state.carrier.passage.renew(advertisement)
            known.append(Known(advertisement, after[1].publisher, after[1].filter, after[0]))
        if after is not None:
            self.adrift.end(now, advertisement, effects)
        if self.state.census is not None:
            # Ahead of the questions for history that follow (`interests.py`).
            effects += self.state.census.offers_changed(now, advertisement)
        effects += known
        return numbers

    def note_lost(self, advertisement: AdvertisementId, is_lost: bool) -> bool:
        """Whether it was lost before."""
        was_lost = advertisement in self.lost
        self.lost.pop(advertisement, None)
        if is_lost:
            self.lost[advertisement] = None
            if len(self.lost) > self.state.params.advertisements_max:
                del self.lost[next(iter(self.lost))]
        return was_lost

    def tell(self, now: float, link: NeighbourLink, advertisement: AdvertisementId, effects: list[Effect]) -> list[int]:
        if link.reduction is None:
            return []
        if link.flow.is_overfull:
            link.offers_walk.begin()
            return []
        chosen = self.tables.chosen_beside(advertisement, link.neighbour)
        if chosen is None:
            return link.remove_advertisement(now, advertisement, advertisement in self.lost, effects)
        return link.change_advertisement(now, advertisement, chosen[1], self.ways[advertisement], effects)

    def check(self) -> None:
        self.adrift.check()
        assert self.ways.keys() == self.tables.offers.keys()
        assert len(self.lost) <= self.state.params.advertisements_max, "more lost ways than advertisements_max"
        for link in self.links.values():
            if link.reduction is not None and link.offers_walk.is_over:
                told = {
                    advertisement
                    for advertisement in self.tables.offers
                    if self.tables.chosen_beside(advertisement, link.neighbour) is not None
                }
                assert told == link.advertisements.keys(), "others than the known advertisements are told"
