"""Who offers what: changes of it, and what neighbours and delivery are told because of them.

Every advertisement is known to every broker, so a neighbour is told one as long as it came from anywhere but from it.
An announcement has a name, its *way* (`tables.py`). It is passed on with its name; a broker that has to choose another
hop towards the publisher, because the one so far is gone, gives it a new name. So everybody behind that broker hears
that the way has changed, and fetches what may have been lost. In a ring, which the tree may be for a moment, an
announcement stops where its name is known already.
"""

from tidings.machine.effects import Drop, Effect
from tidings.model.identity import NodeId
from tidings.protocols.routing.links import NeighbourLink
from tidings.protocols.routing.messages import AdvertisementAdded, AdvertisementRemoved
from tidings.protocols.routing.reductions import tellable
from tidings.protocols.routing.requests import PendingRequest
from tidings.protocols.routing.state import BAD_FILTER, TABLE_FULL, State
from tidings.protocols.routing.subscriptions import RoutingSubscriptions
from tidings.protocols.routing.tables import LiveHop, Offered, Way
from tidings.pubsub.signals import AdvertisementId, Forgotten, Known, Offer, Unoffer

Chosen = tuple[LiveHop, Offered] | None
NO_WAY: Way = ("", 0)


class RoutingAdvertisements:
    def __init__(self, state: State, subscriptions: RoutingSubscriptions) -> None:
        self.state, self.subscriptions = state, subscriptions
        self.tables, self.ledger, self.links = state.tables, state.ledger, state.links
        self.ways: dict[AdvertisementId, Way] = {}
        """Under which name each is announced."""

    def offer(self, now: float, offer: Offer) -> list[Effect]:
        request = self.state.request(None, offer.ticket)
        text, filter = tellable(offer.filter)
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
        offered = Offered(message.publisher, *told, (message.way_begun_by, message.way), 0)
        return self.offered(now, link, message.advertisement, offered, request)

    def removed(self, now: float, link: NeighbourLink, message: AdvertisementRemoved) -> list[Effect]:
        return self.unoffered(now, link, message.advertisement, self.state.request(link, message.number))

    def offered(
        self,
        now: float,
        source: NeighbourLink | None,
        advertisement: AdvertisementId,
        offered: Offered,
        request: PendingRequest,
    ) -> list[Effect]:
        effects: list[Effect] = []
        hop = source.neighbour if source is not None else None
        before, told_before = self.tables.chosen(advertisement), self.tables.offers_of[hop].get(advertisement)
        is_other = told_before is not None and told_before.text != offered.text
        is_new = is_other or offered.text not in self.tables.offered[hop]
        if self.tables.add_offer(hop, advertisement, *offered[:4]):
            # The subscriptions go first: then they are there before whatever delivery sends when it hears `Known`.
            if source is not None and is_new and self.state.strategy.follows_offers:
                self.subscriptions.reconcile_link(now, source, self.tables.filters, effects, is_offer_gone=is_other)
            self.reconcile(now, advertisement, before, effects)
        for link in self.links.values():
            if link is not source:
                link.await_advertisement(now, advertisement, request, effects)
        return effects + self.ledger.settle(request)

    def unoffered(
        self, now: float, source: NeighbourLink | None, advertisement: AdvertisementId, request: PendingRequest
    ) -> list[Effect]:
        effects: list[Effect] = []
        hop = source.neighbour if source is not None else None
        before = self.tables.chosen(advertisement)
        gone = self.tables.remove_offer(hop, advertisement)
        if gone is not None:
            for neighbour, number in self.reconcile(now, advertisement, before, effects):
                self.ledger.wait(request, neighbour, number)
            if source is not None and gone.text not in self.tables.offered[hop] and self.state.strategy.follows_offers:
                self.subscriptions.reconcile_link(now, source, self.tables.filters, effects, is_offer_gone=True)
        return effects + self.ledger.settle(request)

    def withdraw(self, now: float, neighbour: NodeId, effects: list[Effect]) -> None:
        """Nothing is offered behind the neighbour any more."""
        for advertisement in list(self.tables.offers_of[neighbour]):
            before = self.tables.chosen(advertisement)
            self.tables.remove_offer(neighbour, advertisement)
            self.reconcile(now, advertisement, before, effects)

    def reconcile(
        self, now: float, advertisement: AdvertisementId, before: Chosen, effects: list[Effect]
    ) -> list[tuple[NodeId, int]]:
        """Tell neighbours and delivery what follows from a change of who offers this; the numbers of what was told."""
        after, way_before = self.tables.chosen(advertisement), self.ways.get(advertisement)
        if after is None:
            self.ways.pop(advertisement, None)
        elif before is None or (before[0] == after[0] and before[1] is not after[1]):
            self.ways[advertisement] = after[1].way
        elif before[0] != after[0]:
            self.ways[advertisement] = self.state.node_id, self.ledger.next_number()
        numbers = [
            (link.neighbour, number)
            for link in self.links.values()
            for number in self.tell(now, link, advertisement, effects)
        ]
        if after is None:
            effects.append(Forgotten(advertisement))
        elif self.ways[advertisement] != way_before:
            effects.append(Known(advertisement, after[1].publisher, after[1].filter, after[0]))
        if self.state.census is not None:
            effects += self.state.census.offers_changed(now, advertisement)
        return numbers

    def tell(self, now: float, link: NeighbourLink, advertisement: AdvertisementId, effects: list[Effect]) -> list[int]:
        if link.reduction is None:
            return []
        chosen = self.tables.chosen_beside(advertisement, link.neighbour)
        if chosen is None:
            return link.change_advertisement(now, advertisement, None, NO_WAY, effects)
        return link.change_advertisement(now, advertisement, chosen[1], self.ways[advertisement], effects)

    def check(self) -> None:
        assert self.ways.keys() == self.tables.offers.keys()
        for link in self.links.values():
            if link.reduction is not None:
                told = {
                    advertisement
                    for advertisement in self.tables.offers
                    if self.tables.chosen_beside(advertisement, link.neighbour) is not None
                }
                assert told == link.advertisements.keys(), "others than the known advertisements are told"
