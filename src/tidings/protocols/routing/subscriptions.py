"""Who wants what: changes of it, and what neighbours and delivery are told because of them.

*Subscriptions.* `reconcile` is the one rule: a neighbour stands to be told a filter as long as anybody but itself wants
it and the strategy says that it concerns it. In the words of dynamic-topologies.md 3.2.2: p is in sent[m] just when
subs(p) \\ {m} is not empty (INV-R1). Where a repair defers (`repairs/`) the two directions come apart: a ghost is no
reason to tell a filter, and it is a reason to leave it told. So what is told lies between what is wanted and what is
kept.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tidings.machine.effects import Drop, Effect
from tidings.model.filter import Filter
from tidings.model.identity import NodeId
from tidings.protocols.routing.links import NeighbourLink
from tidings.protocols.routing.messages import (
    SubscriptionAdded,
    SubscriptionRemoved,
)
from tidings.protocols.routing.requests import PendingRequest
from tidings.protocols.routing.state import BAD_FILTER, OVERTAKEN, TABLE_FULL, State
from tidings.protocols.routing.tables import Ghost, LiveHop
from tidings.pubsub.signals import Unwant, Want

if TYPE_CHECKING:
    from tidings.protocols.routing.advertisements import RoutingAdvertisements
    from tidings.protocols.routing.departures import TableDepartures

Walk = Callable[[float, NeighbourLink, list[Effect]], None]


class RoutingSubscriptions:
    def __init__(self, state: State) -> None:
        self.state = state
        self.tables, self.ledger, self.links = state.tables, state.ledger, state.links
        self.look_again: Walk = lambda now, link, effects: None
        """Other filters than before may concern this neighbour (`walks.py`)."""
        self.walk_on: Walk = lambda now, link, effects: None
        """Nothing keeps the walks for this neighbour from going on any more (`walks.py`)."""
        self.advertisements: RoutingAdvertisements
        self.departures: TableDepartures
        """Large tables of lost neighbours are forgotten in turns."""
        self.went: Callable[[float, str], list[Effect]] | None = None
        """A neighbour does not want a filter any more that it wanted; for the repair."""
        self.came: Callable[[float, str], None] | None = None
        """A neighbour wants a filter that it did not want before; for whoever waits for one that is lost."""

    def want(self, now: float, want: Want) -> list[Effect]:
        request = self.state.request(None, want.ticket)
        tables = self.tables
        if want.key not in tables.local and len(tables.local) >= self.state.params.filters_max:
            return request.answer(TABLE_FULL)
        text, filter = want.filter.text(), want.filter
        before = tables.local.get(want.key)
        effects = self.count(now, before, -1, want.key in tables.sure)
        tables.add_local(want.key, text, filter)
        if want.is_sure:
            tables.sure[want.key] = None
        effects += self.count(now, text, 1, want.is_sure)
        self.state.tables_changed()
        if before != text and self.state.params.literal_duplicates:
            self.tell_again(now, None, text, effects)
        self.reconcile(now, (text,) if before is None or before == text else (text, before), effects)
        return self.await_filter(now, None, text, filter, request, effects)

    def unwant(self, now: float, unwant: Unwant) -> list[Effect]:
        effects = self.count(now, self.tables.local.get(unwant.key), -1, unwant.key in self.tables.sure)
        text = self.tables.remove_local(unwant.key)
        if unwant.ticket is None:
            # Thousands that a client leaves behind stand ahead of nobody.
            return effects + self.nobody_waits(now, text)
        return effects + self.unwanted(now, text, self.state.request(None, unwant.ticket))

    def nobody_waits(self, now: float, text: str | None) -> list[Effect]:
        """One hop less wants this. Who has much to take already is told by the walk that comes by."""
        effects: list[Effect] = []
        if text is not None:
            self.state.tables_changed()
            for link in self.links.values():
                if link.flow.has_room:
                    self.reconcile_link(now, link, (text,), effects)
                else:
                    link.filters_walk.begin()
        return effects

    def count(self, now: float, text: str | None, change: int, is_sure: bool) -> list[Effect]:
        """For the census, while the filter is in the tables."""
        if self.state.census is None or text is None:
            return []
        return self.state.census.local_changed(now, text, self.tables.filters[text], change, is_sure)

    def added(self, now: float, link: NeighbourLink, message: SubscriptionAdded) -> list[Effect]:
        request = self.state.request(link, message.number)
        told = self.state.read(message.filter)
        if told is None:
            return [Drop(message, BAD_FILTER), *request.answer(BAD_FILTER)]
        text, filter = told
        texts = self.tables.texts[link.neighbour]
        if text not in texts and len(texts) >= self.state.params.filters_max:
            return [Drop(message, TABLE_FULL), *request.answer(TABLE_FULL)]
        effects: list[Effect] = []
        if link.is_confirming:
            link.confirmed_filters[text] = None
        if self.tables.add_wanted(link.neighbour, text, filter):
            self.state.tables_changed()
            if self.came is not None:
                self.came(now, text)
            if self.state.params.literal_duplicates:
                self.tell_again(now, link.neighbour, text, effects)
            self.reconcile(now, (text,), effects)
        return self.await_filter(now, link.neighbour, text, filter, request, effects)

    def tell_again(self, now: float, source: LiveHop, text: str, effects: list[Effect]) -> None:
        """As in the source, which does not count ghosts: the first to want it is told on to all others, the second to
        the first, whoever knows it already."""
        live = [hop for hop in self.tables.hops[text] if not isinstance(hop, Ghost)]
        for link in self.links.values():
            others = [hop for hop in live if hop != link.neighbour]
            if others == [source] and text in link.filters:
                link.tell_filter(now, text, link.filters[text], effects)

    def removed(self, now: float, link: NeighbourLink, message: SubscriptionRemoved) -> list[Effect]:
        request = self.state.request(link, message.number)
        told = self.state.read(message.filter)
        if told is None:
            return [Drop(message, BAD_FILTER), *request.answer(BAD_FILTER)]
        if link.disbelieves is not None and link.disbelieves(told[0]):
            return [Drop(message, OVERTAKEN), *self.ledger.settle(request)]
        text = told[0] if self.tables.remove_wanted(link.neighbour, told[0]) else None
        went = self.went(now, text) if text is not None and self.went is not None else []
        return went + self.unwanted(now, text, request)

    def unwanted(self, now: float, text: str | None, request: PendingRequest) -> list[Effect]:
        """One hop less wants this; None where it did not before."""
        effects: list[Effect] = []
        if text is not None:
            self.state.tables_changed()
            for neighbour, numbers in self.reconcile(now, (text,), effects):
                for number in numbers:
                    self.ledger.wait(request, neighbour, number)
        return effects + self.ledger.settle(request)

    def withdraw(self, now: float, neighbour: NodeId, effects: list[Effect]) -> None:
        """The neighbour wants nothing any more."""
        self.departures.withdraw(now, neighbour, effects)

    def withdraw_some(self, now: float, neighbour: NodeId, texts: list[str], effects: list[Effect]) -> None:
        """It does not want these any more."""
        for text in texts:
            self.tables.remove_wanted(neighbour, text)
        if texts:
            self.state.tables_changed()
            self.reconcile(now, texts, effects)

    def defer(self, now: float, ghost: Ghost, effects: list[Effect]) -> None:
        """The neighbour is lost, and whoever was told of its wishes is not told of that before `release`."""
        self.departures.haunt(now, ghost, effects)
        while len(self.tables.ghosts) > self.state.params.ghosts_max:
            self.departures.release_at_once(now, next(iter(self.tables.ghosts)), effects)

    def release(self, now: float, ghost: Ghost, effects: list[Effect]) -> None:
        """Whatever the lost neighbour wanted and nobody else does is taken back now; nothing where that was done."""
        if ghost in self.tables.ghosts:
            self.departures.release(now, ghost, effects)

    def await_filter(
        self, now: float, source: LiveHop, text: str, filter: Filter, request: PendingRequest, effects: list[Effect]
    ) -> list[Effect]:
        beside = (source, None if source is None else self.tables.apart.get(source))
        for link in self.links.values():
            if link.neighbour not in beside:
                self.await_filter_at(now, link, text, filter, request, effects)
        return effects + self.ledger.settle(request)

    def await_filter_at(
        self,
        now: float,
        link: NeighbourLink,
        text: str,
        filter: Filter,
        request: PendingRequest,
        effects: list[Effect],
    ) -> None:
        if self.is_held_back(link, text):
            link.filters_walk.wait(text, request)
        elif link.filters_walk.is_over or link.reduction is None or text in link.reduction.candidates:
            link.await_filter(now, text, filter, request, effects)
        elif self.is_due(link, text) and self.state.strategy.concerns(link.neighbour, text, filter):
            link.filters_walk.wait(text, request)

    def reconcile(self, now: float, texts: Iterable[str], effects: list[Effect]) -> list[tuple[NodeId, list[int]]]:
        """Tell every neighbour what follows from a change of who wants these; the numbers of what was told."""
        return [(link.neighbour, self.reconcile_link(now, link, texts, effects)) for link in self.links.values()]

    def reconcile_link(
        self, now: float, link: NeighbourLink, texts: Iterable[str], effects: list[Effect], is_offer_gone: bool = False
    ) -> list[int]:
        """The same for one neighbour; `is_offer_gone` if what was relevant there before may be no longer."""
        if link.reduction is None:
            return []
        if link.flow.is_overfull:
            link.filters_walk.begin()
            return []
        candidates, concerns = link.reduction.candidates, self.state.strategy.concerns
        filters, keeps = self.tables.filters, self.tables.keeps_beside
        added: dict[str, Filter] = {}
        removed: list[str] = []
        for text in texts:
            if text not in candidates:
                if self.is_due(link, text) and concerns(link.neighbour, text, filters[text]):
                    added[text] = filters[text]
            elif not keeps(text, link.neighbour) or (
                is_offer_gone and not concerns(link.neighbour, text, filters[text])
            ):
                removed.append(text)
        return link.change_filters(now, added, removed, effects) if added or removed else []

    def is_due(self, link: NeighbourLink, text: str) -> bool:
        """Does the neighbour have to be told this now, if it concerns it?"""
        if not self.tables.wants_beside(text, link.neighbour):
            return False
        return link.holds_back is None or not link.holds_back(text)

    def is_held_back(self, link: NeighbourLink, text: str) -> bool:
        """Is it only the repair that keeps it from being told?"""
        if link.holds_back is None or link.reduction is None or text in link.reduction.candidates:
            return False
        return self.tables.wants_beside(text, link.neighbour) and link.holds_back(text)

    def check(self) -> None:
        """INV-R1: told is what is wanted and, without ghosts, nothing else."""
        for link in self.links.values():
            if link.reduction is not None and link.filters_walk.is_over:
                neighbour, told = link.neighbour, link.reduction.candidates.keys()
                concerning = [
                    text
                    for text, filter in self.tables.filters.items()
                    if self.state.strategy.concerns(neighbour, text, filter)
                ]
                assert {text for text in concerning if self.is_due(link, text)} <= told, "INV-R1: too little is told"
                kept = {text for text in concerning if self.tables.keeps_beside(text, neighbour)}
                assert told <= kept, "INV-R1: others than the wanted filters are told"
        assert len(self.tables.ghosts) <= self.state.params.ghosts_max
