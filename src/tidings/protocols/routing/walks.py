"""Walks through tables: telling a neighbour a whole table, a piece at a time.

The one rule (`router.py`) asks for each entry what a neighbour ought to have been told, and tells the difference. When
one entry changes that is done at once. But some changes concern all entries: a neighbour is new, or an advertisement
came from it, so that other filters concern it than before; or so much was on the way to it that further changes had to
wait. Then the table is walked through, from bucket to bucket (`buckets.py`), with at most `turn_entries` entries in one
step and only while there is room in the window of the link (`packets.py`). Between two steps is time for other traffic.
Where a walk is, is one number; what waits to be told is not written down anywhere else. Changes that happen meanwhile
are told as always, and the walk finds nothing to do there.

A small table is walked through in the step in which the walk begins, in the order of the table.

An advertisement from a neighbour counts only when the walk that it set off is over: until then it is as if it had not
been heard of. So delivery asks for history when the subscriptions are there, and not before.

Timer: "turn".
"""

from collections.abc import Callable, Iterable
from itertools import chain

from tidings.machine.effects import Effect, SetTimer
from tidings.model.bounds import CHANGES_PACKED_MAX, TABLE_BUCKETS
from tidings.model.work import WORK
from tidings.protocols.routing.advertisements import RoutingAdvertisements
from tidings.protocols.routing.buckets import TableBuckets, TableComparison
from tidings.protocols.routing.departures import TableDepartures
from tidings.protocols.routing.links import NeighbourLink, TableWalk
from tidings.protocols.routing.messages import PartTold, TablesTold
from tidings.protocols.routing.state import State
from tidings.protocols.routing.subscriptions import RoutingSubscriptions

TIMER = "turn"

BUCKETS_AT_ONCE = 64
"""Which are looked at together, if they are empty; with entries there are fewer."""

LOOKED_AT_FOR_ONE = 8
"""Entries with which there is nothing to do cost as much as one with which there is."""

PARTS_AT_ONCE = 8
"""Parts of a summary that are compared in one step with all of a small table."""

Told = Callable[[float, NeighbourLink], list[Effect]]


class Walker:
    def __init__(
        self,
        state: State,
        subscriptions: RoutingSubscriptions,
        advertisements: RoutingAdvertisements,
        departures: TableDepartures,
        told: Told,
    ) -> None:
        self.state, self.subscriptions, self.advertisements = state, subscriptions, advertisements
        self.departures, self.told = departures, told
        self.tables, self.links, self.ledger = state.tables, state.links, state.ledger
        self.is_timed = self.is_announcing = False
        subscriptions.look_again, subscriptions.walk_on, departures.arm = self.look_again, self.go, self.arm

    def open(self, now: float, link: NeighbourLink, effects: list[Effect]) -> None:
        """The neighbour is to be told everything."""
        link.is_telling = True
        link.offers_walk.begin()
        link.filters_walk.begin()
        self.go(now, link, effects)

    def look_at_others(self, now: float, link: NeighbourLink, effects: list[Effect]) -> None:
        """What this neighbour wants is a reason to tell it again: others may lack it."""
        if self.tables.texts[link.neighbour]:
            for other in list(self.links.values()):
                if other is not link:
                    self.look_again(now, other, effects)

    def look_again(self, now: float, link: NeighbourLink, effects: list[Effect]) -> None:
        """Other filters than before may concern it."""
        if link.reduction is not None:
            link.filters_walk.begin()
            if self.is_small(link) and not self.is_announcing:
                self.go(now, link, effects)
            else:
                # One after the other may be told, or announced; the walk is the same for all of them.
                effects += self.arm(now)

    def is_small(self, link: NeighbourLink) -> bool:
        """Whether all filters can be looked at in one step."""
        return len(self.tables.filters) + link.candidates.size <= self.state.params.turn_entries

    def start(self, now: float) -> list[Effect]:
        """There is no timer any more."""
        self.is_timed = False
        return self.arm(now)

    def fired(self, now: float) -> list[Effect]:
        """The next turn, for the neighbour whose last one was longest ago."""
        self.is_timed = False
        effects: list[Effect] = []
        for neighbour, link in self.links.items():
            if self.can_go(link):
                # It stands last from now on.
                del self.links[neighbour]
                self.links[neighbour] = link
                self.go(now, link, effects)
                break
        else:
            if self.departures.is_under_way:
                self.departures.go_on(now, effects)
        return effects + self.arm(now)

    def can_go(self, link: NeighbourLink) -> bool:
        return self.can_walk(link) or self.has_news(link)

    def can_walk(self, link: NeighbourLink) -> bool:
        is_over = (link.filters_walk.is_over or link.is_withheld) and link.offers_walk.is_over
        return not is_over and link.reduction is not None and link.flow.has_room

    def has_news(self, link: NeighbourLink) -> bool:
        return bool(link.news) and link.holds_back is None and link.news[0][0] <= link.filters_walk.passed

    def arm(self, now: float) -> list[Effect]:
        if self.is_timed or not (self.departures.is_under_way or any(map(self.can_go, self.links.values()))):
            return []
        self.is_timed = True
        return [SetTimer(TIMER, now + self.state.params.turn_after)]

    def go(self, now: float, link: NeighbourLink, effects: list[Effect]) -> None:
        """One turn: as far as there is room, as many entries as one step may look at, and as long as it may take."""
        entries_left, is_later = self.state.params.turn_entries, False
        while entries_left > 0 and self.can_walk(link) and not (is_later and WORK.is_spent):
            is_later = True
            if not link.offers_walk.is_over:
                entries_left -= self.go_through_offers(now, link, entries_left, effects)
            else:
                entries_left -= self.go_through_filters(now, link, entries_left, effects)
            if len(link.flow.unsent) >= CHANGES_PACKED_MAX:
                link.flow.flush()
        if link.offers_walk.is_over and link.is_telling and link.filters_walk.is_over:
            link.is_telling = False
            link.flow.put_through(TablesTold())
            effects += self.told(now, link)
        while entries_left > 0 and self.has_news(link):
            entries_left -= 1
            _, advertisement, request = link.news.popleft()
            self.is_announcing = True
            self.advertisements.announce(now, link.neighbour, advertisement, request, effects)
            self.is_announcing = False
        effects += self.arm(now)

    def go_through_offers(self, now: float, link: NeighbourLink, entries_max: int, effects: list[Effect]) -> int:
        walk, offers, told = link.offers_walk, self.tables.offers, link.advertisements
        if len(offers) + len(told) <= entries_max and is_short(link.offers_comparison):
            names = take_all(walk, offers, told)
        else:
            names = take_some(walk, self.tables.offer_buckets, link.told_advertisements)
        done = sum(len(self.advertisements.tell(now, link, advertisement, effects)) for advertisement in names)
        comparison, mine = link.offers_comparison, link.told_advertisements
        if comparison is not None:
            for part, is_there in comparison.pass_until(walk.passed, mine):
                for advertisement in mine.names_of_part(part, comparison.parts):
                    link.tell_advertisement(now, advertisement, told[advertisement], effects)
                    done += 1
                if is_there:
                    link.flow.put(PartTold(False, part, comparison.parts))
            if comparison.is_over:
                link.offers_comparison = None
        for advertisement in list(walk.late) if walk.is_over else [name for name in names if name in walk.late]:
            for request in walk.late.pop(advertisement):
                request.unanswered -= 1
                if not request.is_done:
                    link.await_advertisement(now, advertisement, request, effects)
                    effects += self.ledger.settle(request)
        return 1 + done + len(names) // LOOKED_AT_FOR_ONE

    def go_through_filters(self, now: float, link: NeighbourLink, entries_max: int, effects: list[Effect]) -> int:
        assert link.reduction is not None
        walk, filters, candidates = link.filters_walk, self.tables.filters, link.reduction.candidates
        if len(filters) + len(candidates) <= entries_max and is_short(link.filters_comparison):
            names = take_all(walk, filters, candidates)
        else:
            names = take_some(walk, self.tables.filter_buckets, link.candidates)
        before = link.candidates.size
        self.subscriptions.reconcile_link(now, link, names, effects, is_offer_gone=True)
        done = abs(link.candidates.size - before)
        comparison, mine = link.filters_comparison, link.told_filters
        if comparison is not None:
            for part, is_there in comparison.pass_until(walk.passed, mine):
                for text in mine.names_of_part(part, comparison.parts):
                    link.tell_filter(now, text, link.filters[text], effects)
                    done += 1
                if is_there:
                    link.flow.put(PartTold(True, part, comparison.parts))
            if comparison.is_over:
                link.filters_comparison = None
        for text in list(walk.late) if walk.is_over else [name for name in names if name in walk.late]:
            if self.subscriptions.is_held_back(link, text):
                continue
            for request in walk.late.pop(text):
                request.unanswered -= 1
                if not request.is_done:
                    if text in filters:
                        link.await_filter(now, text, filters[text], request, effects)
                    effects += self.ledger.settle(request)
        return 1 + done + len(names) // LOOKED_AT_FOR_ONE

    def check(self) -> None:
        assert self.is_timed or not any(map(self.can_go, self.links.values())), "a walk does not go on"


def is_short(comparison: TableComparison | None) -> bool:
    """Whether it can be done in one step."""
    return comparison is None or comparison.parts <= PARTS_AT_ONCE


def take_all(walk: TableWalk, *tables: Iterable[str]) -> list[str]:
    """A small table, in its own order."""
    walk.passed = walk.target
    return list(dict.fromkeys(chain(*tables)))


def take_some(walk: TableWalk, *tables: TableBuckets) -> list[str]:
    """The next buckets: about as many entries as one packet carries."""
    names: dict[str, None] = {}
    end = min(walk.target, walk.passed + BUCKETS_AT_ONCE)
    while walk.passed < end and len(names) < CHANGES_PACKED_MAX:
        for table in tables:
            names.update(dict.fromkeys(table.names(walk.passed % TABLE_BUCKETS)))
        walk.passed += 1
    return list(names)
