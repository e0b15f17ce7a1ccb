"""One neighbour: what it was told, and whether it has acknowledged it.

Opening. When the overlay names a neighbour, both ends begin a *life* of the link and say so (`TablesBegun`). A broker
tells its tables only when it has heard of the life at the other end, and believes only what is told to its own. So it
does not matter which end hears first that they are neighbours, and nothing that is still on its way from before, while
the stream between them lived on, is taken for new.

Coming back. A link that is lost may *rest* (`rests.py`): what the neighbour was told is remembered, and both ends say
in `TablesBegun` what they still have of each other's tables (`buckets.py`). Only what differs is told. Acknowledgements
of an earlier life do not count.

Telling. The announced filters are what the reduction makes of the candidates. Additions go before removals. Each change
has a number, under which it waits in the ledger for its acknowledgement.

Ready or not. A filter that somebody wants now may be covered by one that was announced long ago. That one stands for
it only if it is *ready*: acknowledged, and acknowledged since we heard of every advertisement from there that the new
filter overlaps. For an acknowledgement says: everybody behind me knows the filter who must, as far as I had heard of
publishers. If it is still under way, its acknowledgement is waited for; if it is too old or failed, it is asked for
again by telling the same filter again. (G-41 and G-42, and with them the publisher who came in between.)
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from tidings.machine.effects import Effect
from tidings.machine.window import TakenBytes
from tidings.model.bounds import TABLE_BUCKETS
from tidings.model.filter import Filter
from tidings.model.identity import NodeId
from tidings.protocols.routing.buckets import TableBuckets, TableComparison
from tidings.protocols.routing.messages import (
    AdvertisementAdded,
    AdvertisementRemoved,
    SubscriptionAdded,
    SubscriptionRemoved,
    TablesBegun,
)
from tidings.protocols.routing.packets import Change, TableFlow
from tidings.protocols.routing.reductions import Reduction
from tidings.protocols.routing.requests import LINK_LOST, Announcement, Asker, Ledger, PendingRequest, Unanswered
from tidings.protocols.routing.tables import Offered, Tables, Way, said_of
from tidings.pubsub.rows import RouteRow
from tidings.pubsub.signals import AdvertisementId, ReconfigurationId

Numbers = list[int]
"""Numbers of what was told: whoever caused it may wait for them."""


class TableWalk:
    """Which buckets of a table are still to be looked at (`walks.py`)."""

    def __init__(self) -> None:
        self.passed = self.target = 0
        """TableBuckets in all: those that were looked at, and the number at which the walk is over."""
        self.late: dict[str, list[PendingRequest]] = {}
        """Entries that could not be told at once, with the requests that wait for them."""

    @property
    def is_over(self) -> bool:
        return self.passed >= self.target

    @property
    def place(self) -> int:
        return self.passed % TABLE_BUCKETS

    def begin(self) -> None:
        """All of the table is looked at from here on, once around."""
        self.target = self.passed + TABLE_BUCKETS

    def wait(self, name: str, request: PendingRequest) -> None:
        request.unanswered += 1
        self.late.setdefault(name, []).append(request)

    def end(self) -> list[Effect]:
        """There is nobody to be told any more."""
        self.target = self.passed
        requests = [request for waiting in self.late.values() for request in waiting]
        self.late = {}
        return [effect for request in requests if not request.is_done for effect in request.answer(LINK_LOST)]


class NeighbourLink:
    """A neighbour, from NeighbourUp to NeighbourDown; and on to the next NeighbourUp where it rests meanwhile."""

    def __init__(
        self,
        neighbour: NodeId,
        epoch: int,
        reconfiguration: ReconfigurationId,
        life: int,
        tables: Tables,
        ledger: Ledger,
        flow: TableFlow,
    ) -> None:
        self.neighbour, self.epoch, self.reconfiguration, self.life = neighbour, epoch, reconfiguration, life
        self.tables, self.ledger, self.flow = tables, ledger, flow
        self.holds_back: Callable[[str], bool] | None = None
        """What a repair does not want told here yet."""
        self.is_withheld = False
        """Whether a repair does not want the walk through the filters to begin yet."""
        self.disbelieves: Callable[[str], bool] | None = None
        """What a repair does not take for taken back by the neighbour, if it says so."""
        self.life_heard = 0
        """The life at the other end; 0 until it is heard of."""
        self.is_heard = False
        """Whether what arrives is meant for our life."""
        self.is_told = False
        """Whether the neighbour has told us everything."""
        self.publications_taken, self.tables_taken = TakenBytes(0), TakenBytes(0)
        self.asker = Asker(neighbour)
        self.reduction: Reduction | None = None
        """None until it is open."""
        self.kept: Reduction | None = None
        """That of the last life, while it rests."""
        self.candidates = TableBuckets()
        """Those of the reduction."""
        self.filters: dict[str, Announcement] = {}
        self.advertisements: dict[AdvertisementId, Announcement] = {}
        self.told_filters, self.told_advertisements = TableBuckets(), TableBuckets()
        self.acknowledged_after = -1
        """Acknowledgements up to this version were of an earlier life and count no more."""
        self.filters_comparison: TableComparison | None = None
        self.offers_comparison: TableComparison | None = None
        """With what the neighbour says that it still has of an earlier life."""
        self.is_confirming = False
        """Whether the neighbour goes through its tables, and compares them with what we have from an earlier life."""
        self.confirmed_filters: dict[str, None] = {}
        self.confirmed_offers: dict[AdvertisementId, None] = {}
        """What it told meanwhile."""
        self.is_telling = False
        """Whether the neighbour waits to hear that it was told everything."""
        self.filters_walk, self.offers_walk = TableWalk(), TableWalk()
        self.news: deque[tuple[int, AdvertisementId, PendingRequest]] = deque()
        """Advertisements from there that count when the walk through the filters has come so far."""
        self.parked: dict[AdvertisementId, list[PendingRequest]] = {}
        """Those that nobody else told, while the link is shut, with the requests that wait until it is not any more and
        they count."""

    @property
    def is_even(self) -> bool:
        """Whether both ends have told the other everything, as far as they know."""
        return self.is_told and not self.is_telling and self.filters_walk.is_over and self.offers_walk.is_over

    @property
    def is_settled(self) -> bool:
        """Whether it was told all that is wanted here, so that what it offers counts."""
        return self.filters_walk.is_over and self.holds_back is None

    def begin(self) -> None:
        filters, offers = self.tables.heard_filters[self.neighbour], self.tables.heard_offers[self.neighbour]
        self.flow.put_through(TablesBegun(self.life, self.life_heard, filters.summary(), offers.summary()))

    def open(self, begun: TablesBegun, make_reduction: Callable[[], Reduction], flow: TableFlow) -> None:
        """The other end began this life, and says what it still has of an earlier one."""
        self.life_heard, self.flow = begun.life, flow
        self.reduction, self.kept = self.kept or make_reduction(), None
        self.filters_walk, self.offers_walk = TableWalk(), TableWalk()
        if begun.filters or self.filters:
            self.filters_comparison = TableComparison(begun.filters)
        if begun.advertisements or self.advertisements:
            self.offers_comparison = TableComparison(begun.advertisements)

    def suspend(self) -> list[Effect]:
        """The life is over, and what the neighbour was told is remembered."""
        self.flow.close()
        self.reduction, self.kept = None, self.reduction or self.kept
        self.is_heard = self.is_told = self.is_telling = self.is_confirming = False
        self.life_heard = 0
        self.filters_comparison = self.offers_comparison = None
        self.confirmed_filters, self.confirmed_offers = {}, {}
        self.holds_back = self.disbelieves = None
        self.is_withheld = False
        self.acknowledged_after = self.tables.version
        self.tables.version += 1
        self.asker.is_gone = True
        self.asker = Asker(self.neighbour)
        self.news.clear()
        self.parked.clear()
        return [*self.filters_walk.end(), *self.offers_walk.end()]

    def resume(self, epoch: int, reconfiguration: ReconfigurationId, life: int, flow: TableFlow) -> None:
        """The neighbour is there again."""
        self.epoch, self.reconfiguration, self.life, self.flow = epoch, reconfiguration, life, flow

    def loosen(self) -> list[Effect]:
        """Others stand in for the neighbour: whoever waits until it can be told something waits for it no more, and
        what it told that has no consequences yet will have none."""
        effects = [effect for _, _, request in self.news for effect in self.ledger.settle(request)]
        for requests in self.parked.values():
            effects += [effect for request in requests for effect in self.ledger.settle(request)]
        for walk in (self.filters_walk, self.offers_walk):
            for request in [request for waiting in walk.late.values() for request in waiting]:
                request.unanswered -= 1
                effects += self.ledger.settle(request)
            walk.late = {}
        return effects

    def close(self) -> list[Effect]:
        """Neither end knows anything of the other any more."""
        effects = self.suspend()
        if self.kept is not None:
            self.kept.clear()
        self.kept, self.filters, self.advertisements = None, {}, {}
        self.candidates, self.told_filters, self.told_advertisements = TableBuckets(), TableBuckets(), TableBuckets()
        return effects

    def tell(
        self, now: float, message: Change, number: int, announcement: Announcement | None, effects: list[Effect]
    ) -> None:
        """Send a change and expect its answer; a removal has no announcement."""
        entry = Unanswered(announcement, self.tables.version, is_removal=announcement is None)
        if announcement is not None:
            announcement.number, announcement.sent_version = number, self.tables.version
            if not number:
                announcement.acknowledged_version = self.tables.version
        self.flow.put(message)
        effects += self.ledger.expect(now, self.neighbour, number, entry)

    # Filters.

    def change_filters(
        self, now: float, added: Mapping[str, Filter], removed: Collection[str], effects: list[Effect]
    ) -> Numbers:
        assert self.reduction is not None
        for text in added:
            self.candidates.put(text)
        for text in removed:
            self.candidates.discard(text)
        more, less = self.reduction.change(added, removed)
        numbers = []
        for text in more:
            announcement = self.filters[text] = Announcement()
            self.told_filters.put(text)
            if self.filters_comparison is None or not self.filters_comparison.is_ahead(text):
                numbers.append(self.tell_filter(now, text, announcement, effects))
        for text in less:
            del self.filters[text]
            self.told_filters.discard(text)
            if self.filters_comparison is not None and self.filters_comparison.is_removal_ahead(text):
                continue
            number = self.ledger.number_of_change()
            self.tell(now, SubscriptionRemoved(number, text), number, None, effects)
            numbers.append(number)
        return numbers

    def take_as_told(
        self, now: float, due: Mapping[str, Filter], believed: Collection[str], effects: list[Effect]
    ) -> None:
        """The neighbour believes that it was told these, of which the due ones are right; tell it the difference."""
        assert self.reduction is not None
        added = {text: filter for text, filter in due.items() if text not in self.reduction.candidates}
        for text in added:
            self.candidates.put(text)
        more, less = self.reduction.change(added, ())
        for text in more:
            announcement = self.filters[text] = Announcement()
            self.told_filters.put(text)
            if text not in believed:
                self.tell_filter(now, text, announcement, effects)
        for text in less:
            del self.filters[text]
            self.told_filters.discard(text)
        self.say_again(now, [text for text in dict.fromkeys((*less, *believed)) if text not in self.filters], effects)

    def say_again(self, now: float, texts: Iterable[str], effects: list[Effect]) -> None:
        """Whether it was told these or not: the neighbour may believe something else."""
        for text in texts:
            if text in self.filters:
                self.tell_filter(now, text, self.filters[text], effects)
            else:
                number = self.ledger.number_of_change()
                self.tell(now, SubscriptionRemoved(number, text), number, None, effects)

    def take_as_removed(self, now: float, texts: Collection[str], effects: list[Effect]) -> list[str]:
        """These are no candidates any more; what the neighbour still has to hear by other means that it is gone."""
        assert self.reduction is not None
        gone = [text for text in texts if text in self.reduction.candidates]
        for text in gone:
            self.candidates.discard(text)
        more, less = self.reduction.change({}, gone)
        for text in more:
            announcement = self.filters[text] = Announcement()
            self.told_filters.put(text)
            self.tell_filter(now, text, announcement, effects)
        for text in less:
            del self.filters[text]
            self.told_filters.discard(text)
        return less

    def tell_filter(self, now: float, text: str, announcement: Announcement, effects: list[Effect]) -> int:
        number = self.ledger.number_of_change()
        if self.filters_comparison is not None:
            self.filters_comparison.tell_ahead(text)
        self.tell(now, SubscriptionAdded(number, text), number, announcement, effects)
        return number

    def await_filter(
        self, now: float, text: str, filter: Filter, request: PendingRequest, effects: list[Effect]
    ) -> None:
        """Let the request wait until what stands for this candidate is ready."""
        if self.reduction is None or text not in self.reduction.candidates or not self.ledger.acknowledges:
            return
        for announced in self.reduction.stand_ins(text):
            announcement = self.filters[announced]
            if self.is_current(announcement.acknowledged_version, text, filter):
                request.count(self.neighbour, announcement.brokers, announcement.brokers_count)
                continue
            number = announcement.number
            if not number or not self.is_current(announcement.sent_version, text, filter):
                number = self.tell_filter(now, announced, announcement, effects)
            self.ledger.wait(request, self.neighbour, number)

    def is_current(self, version: int, text: str, filter: Filter) -> bool:
        """Has no advertisement that the filter overlaps come from there since that version?"""
        if version <= self.acknowledged_after:
            return False
        return not any(
            self.tables.do_overlap(text, filter, offered.text, offered.filter)
            for offered in self.tables.offers_newer_than(self.neighbour, version)
        )

    # Advertisements.

    def remove_advertisement(
        self, now: float, advertisement: AdvertisementId, is_lost: bool, effects: list[Effect]
    ) -> Numbers:
        """Tell that it is not known any more, where it was told: it was withdrawn, or the way to it is lost."""
        if self.advertisements.pop(advertisement, None) is None:
            return []
        self.told_advertisements.discard(advertisement)
        if self.offers_comparison is not None and self.offers_comparison.is_removal_ahead(advertisement):
            return []
        number = self.ledger.number_of_change()
        self.tell(now, AdvertisementRemoved(number, advertisement, is_lost), number, None, effects)
        return [number]

    def change_advertisement(
        self, now: float, advertisement: AdvertisementId, offered: Offered, way: Way, effects: list[Effect]
    ) -> Numbers:
        """Tell what is now known of an advertisement, unless that is what was told last."""
        announcement = self.advertisements.get(advertisement)
        content = offered.publisher, offered.text, way
        if announcement is not None and announcement.content == content:
            return []
        announcement = self.advertisements[advertisement] = Announcement(content)
        self.told_advertisements.put(advertisement, said_of(*content))
        if self.offers_comparison is not None and self.offers_comparison.is_ahead(advertisement):
            return []
        return [self.tell_advertisement(now, advertisement, announcement, effects)]

    def tell_advertisement(
        self, now: float, advertisement: AdvertisementId, announcement: Announcement, effects: list[Effect]
    ) -> int:
        assert announcement.content is not None
        publisher, text, (begun_by, way) = announcement.content
        if self.offers_comparison is not None:
            self.offers_comparison.tell_ahead(advertisement)
        number = self.ledger.number_of_change()
        message = AdvertisementAdded(number, advertisement, publisher, text, begun_by, way)
        self.tell(now, message, number, announcement, effects)
        return number

    def await_advertisement(
        self, now: float, advertisement: AdvertisementId, request: PendingRequest, effects: list[Effect]
    ) -> None:
        announcement = self.advertisements.get(advertisement)
        if announcement is None or self.reduction is None:
            return
        if announcement.acknowledged_version > self.acknowledged_after:
            request.count(self.neighbour, announcement.brokers, announcement.brokers_count)
            return
        number = announcement.number or self.tell_advertisement(now, advertisement, announcement, effects)
        self.ledger.wait(request, self.neighbour, number)

    def rows(self, heard: Iterable[str]) -> Iterator[RouteRow]:
        """What the neighbour was told, and what it has told."""
        for text, told in self.filters.items():
            is_pending = told.acknowledged_version < 0
            yield RouteRow(neighbour=self.neighbour, is_ours=True, filter=text, is_pending=is_pending)
        for text in heard:
            yield RouteRow(neighbour=self.neighbour, is_ours=False, filter=text)

    def check(self) -> None:
        if self.reduction is not None:
            self.reduction.check(self.filters)
            self.candidates.check(self.reduction.candidates)
        self.told_filters.check(self.filters)
        self.told_advertisements.check(self.advertisements)
        for walk, comparison in (
            (self.filters_walk, self.filters_comparison),
            (self.offers_walk, self.offers_comparison),
        ):
            assert comparison is None or not walk.is_over, "a walk is over, and not everything was compared"
        assert not self.offers_walk.is_over or self.offers_walk.late == {}
        assert not self.is_settled or self.filters_walk.late == {}
        unanswered = self.ledger.unanswered.get(self.neighbour, {})
        for announcement in (*self.filters.values(), *self.advertisements.values()):
            assert not announcement.number or unanswered[announcement.number].announcement is announcement
