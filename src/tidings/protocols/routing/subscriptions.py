"""Who wants what: changes of it, and what neighbours are told because of them.

`reconcile` is the one rule: a neighbour stands to be told a filter as long as anybody but itself wants it and the
strategy says that it concerns it. In the words of dynamic-topologies.md 3.2.2: p is in sent[m] just when
subs(p) \\ {m} is not empty (INV-R1).
"""

from collections.abc import Iterable

from tidings.machine.effects import Drop, Effect
from tidings.model.filter import Filter
from tidings.model.identity import NodeId
from tidings.protocols.routing.announcing import Link
from tidings.protocols.routing.messages import SubscriptionAdded, SubscriptionRemoved
from tidings.protocols.routing.reductions import tellable
from tidings.protocols.routing.requests import Request
from tidings.protocols.routing.state import BAD_FILTER, TABLE_FULL, State
from tidings.protocols.routing.tables import Hop
from tidings.pubsub.signals import Unwant, Want


class Subscriptions:
    def __init__(self, state: State) -> None:
        self.state = state
        self.tables, self.ledger, self.links = state.tables, state.ledger, state.links

    def want(self, now: float, want: Want) -> list[Effect]:
        request = self.state.request(None, want.ticket)
        tables = self.tables
        if want.key not in tables.local and len(tables.local) >= self.state.params.filters_max:
            return request.answer(TABLE_FULL)
        text, filter = tellable(want.filter)
        before = tables.local.get(want.key)
        tables.add_local(want.key, want.filter, text, filter)
        self.state.tables_changed()
        effects: list[Effect] = []
        self.reconcile(now, (text,) if before is None or before == text else (text, before), effects)
        return self.await_filter(now, None, text, filter, request, effects)

    def unwant(self, now: float, unwant: Unwant) -> list[Effect]:
        text = self.tables.remove_local(unwant.key)
        return self.unwanted(now, text, self.state.request(None, unwant.ticket))

    def added(self, now: float, link: Link, message: SubscriptionAdded) -> list[Effect]:
        request = self.state.request(link, message.number)
        told = self.state.read(message.filter)
        if told is None:
            return [Drop(message, BAD_FILTER), *request.answer(BAD_FILTER)]
        text, filter = told
        texts = self.tables.texts[link.neighbour]
        if text not in texts and len(texts) >= self.state.params.filters_max:
            return [Drop(message, TABLE_FULL), *request.answer(TABLE_FULL)]
        effects: list[Effect] = []
        if self.tables.add_wanted(link.neighbour, text, filter):
            self.state.tables_changed()
            self.reconcile(now, (text,), effects)
        return self.await_filter(now, link.neighbour, text, filter, request, effects)

    def removed(self, now: float, link: Link, message: SubscriptionRemoved) -> list[Effect]:
        request = self.state.request(link, message.number)
        told = self.state.read(message.filter)
        if told is None:
            return [Drop(message, BAD_FILTER), *request.answer(BAD_FILTER)]
        text = told[0] if self.tables.remove_wanted(link.neighbour, told[0]) else None
        return self.unwanted(now, text, request)

    def unwanted(self, now: float, text: str | None, request: Request) -> list[Effect]:
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
        texts = list(self.tables.texts[neighbour])
        for text in texts:
            self.tables.remove_wanted(neighbour, text)
        self.reconcile(now, texts, effects)

    def await_filter(
        self, now: float, source: Hop, text: str, filter: Filter, request: Request, effects: list[Effect]
    ) -> list[Effect]:
        for link in self.links.values():
            if link.neighbour != source:
                link.await_filter(now, text, filter, request, effects)
        return effects + self.ledger.settle(request)

    def reconcile(self, now: float, texts: Iterable[str], effects: list[Effect]) -> list[tuple[NodeId, list[int]]]:
        """Tell every neighbour what follows from a change of who wants these; the numbers of what was told."""
        return [(link.neighbour, self.reconcile_link(now, link, texts, effects)) for link in self.links.values()]

    def reconcile_link(
        self, now: float, link: Link, texts: Iterable[str], effects: list[Effect], is_offer_gone: bool = False
    ) -> list[int]:
        """The same for one neighbour; `is_offer_gone` if what was relevant there before may be no longer."""
        if link.reduction is None:
            return []
        candidates, filters, concerns = link.reduction.candidates, self.tables.filters, self.state.strategy.concerns
        added: dict[str, Filter] = {}
        removed: list[str] = []
        for text in texts:
            is_wanted = self.tables.is_wanted_beside(text, link.neighbour)
            if text not in candidates:
                if is_wanted and concerns(link.neighbour, text, filters[text]):
                    added[text] = filters[text]
            elif not is_wanted or (is_offer_gone and not concerns(link.neighbour, text, filters[text])):
                removed.append(text)
        return link.change_filters(now, added, removed, effects) if added or removed else []

    def check(self) -> None:
        tables = self.tables
        for link in self.links.values():
            if link.reduction is not None:
                wanted = {
                    text
                    for text, filter in tables.filters.items()
                    if tables.is_wanted_beside(text, link.neighbour)
                    and self.state.strategy.concerns(link.neighbour, text, filter)
                }
                assert wanted == link.reduction.candidates.keys(), "INV-R1: others than the wanted filters are told"
