"""What is stored here, for readers anywhere: how far publishers have come, and pages of what they published.

A reader has no subscription, so nothing has to be in place before its question comes, and nothing follows the answer.
The questions (`LookFar`, `FetchFar`) go hop by hop along the ways of advertisements and write down the brokers they
pass; the answers go back along these. No broker on the way keeps anything.

A page ends where the reader's room ends (`limit`), or one message, or a look at `scanned_max` publications; then it
says up to which number it is complete. It holds whatever the publisher stored here that matches, under whichever
advertisement, so the same question has the same answer as long as history lasts. Where publications are saved, those
that are not saved yet are not shown: what was read once does not vanish in a crash.

A page is a few buffers (`pubsub/pages.py`), because what is read is read in great numbers: whole batches are appended,
a filter answers for thousands of heads at once (`history.py`), and what was found is joined in the end. A publisher
that moved has a part of its publications at each of its brokers, some perhaps at two of them; their answers are put
together for the client that asked. What one lacks another may hold; what is left then is lost, and the client is told.
"""

from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter

from msgspec.structs import replace

from tidings.machine.effects import Drop, Effect
from tidings.model.bounds import BATCH_BYTES_MAX, MARKS_MAX, PUBLICATIONS_MAX
from tidings.model.errors import UsageError
from tidings.model.filter import Filter
from tidings.model.identity import NodeId
from tidings.model.language.parser import parse
from tidings.model.work import WORK
from tidings.protocols.delivery.edge.history import (
    SCAN_UNITS_MAX,
    Extent,
    PublisherHistory,
    Sieve,
    Sieves,
    within,
    without,
)
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.edge.references import (
    NO_WAY,
    NOT_A_NEIGHBOUR,
    TOO_FAR,
    WRONG_FILTER,
    WRONG_PATH,
    References,
    lengthened,
)
from tidings.protocols.delivery.messages import Fetch, FetchedFar, FetchFar, LookFar, MarksFar
from tidings.pubsub.client import Fetched, MarksReply
from tidings.pubsub.pages import NO_PAGE, NUMBER, REAL, ROW_BYTES, StoredPage, page_of
from tidings.pubsub.publications import Publications
from tidings.pubsub.signals import AdvertisementId

Mark = tuple[AdvertisementId, int, tuple[Extent, ...], tuple[Extent, ...]]
"""An advertisement, the number of its publisher's last publication here, what is lacking, what is held."""


class PageDraft:
    """A page while it is put together: references to what is stored, which are joined in the end. Where payloads are
    not wanted there are none, and those of the page are empty."""

    def __init__(self, with_payloads: bool) -> None:
        self.with_payloads = with_payloads
        self.times: array[float] = array(REAL)
        self.numbers: array[int] = array(NUMBER)
        self.heads: list[bytes] = []
        self.payloads: list[bytes] = []

    def append(self, batch: Publications, begin: int, end: int) -> None:
        """Publications of a batch, from one place up to before another."""
        part = slice(begin, end)
        self.times += array(REAL, [batch.accepted_at]) * (end - begin)
        self.numbers += array(NUMBER, batch.numbers[part])
        self.heads += batch.heads[part]
        if self.with_payloads:
            self.payloads += batch.payloads[part]

    def gather(self, history: PublisherHistory, begin: int, end: int, count: int) -> None:
        """The next stored publications behind `begin` up to `end`, at most so many."""
        for batch in history.behind(begin):
            numbers = batch.numbers
            first = bisect_right(numbers, begin) if numbers[0] <= begin else 0
            last = bisect_right(numbers, end) if numbers[-1] > end else len(numbers)
            last = min(last, first + count - len(self.numbers))
            self.append(batch, first, last)
            if last < len(numbers) or len(self.numbers) == count:
                break

    def extend(self, other: "PageDraft") -> None:
        self.times += other.times
        self.numbers += other.numbers
        self.heads += other.heads
        self.payloads += other.payloads

    def picked(self, places: Sequence[int]) -> "PageDraft":
        """Those at these places, ascending; itself if that is all of it."""
        if len(places) == len(self.numbers):
            return self
        made = PageDraft(self.with_payloads)
        if places:
            # Of one place the getter gives what is there, of several a tuple.
            get = itemgetter(*places) if len(places) > 1 else lambda values: (values[places[0]],)
            made.times.extend(get(self.times.tolist()))
            made.numbers.extend(get(self.numbers.tolist()))
            made.heads += get(self.heads)
            if self.with_payloads:
                made.payloads += get(self.payloads)
        return made

    @property
    def size_bytes(self) -> int:
        """What it takes in a message."""
        return sum(map(len, self.heads)) + sum(map(len, self.payloads)) + ROW_BYTES * len(self.numbers)

    def page(self) -> StoredPage:
        return page_of(self.times, self.numbers, self.heads, self.payloads if self.with_payloads else None)


def merged(parts: Sequence[StoredPage], through: int) -> StoredPage:
    """What several brokers store of a publisher, in the order of numbers and each once, up to a number."""
    if len(parts) == 1 and (not parts[0] or parts[0].last_number <= through):
        return parts[0]
    rows: dict[int, tuple[float, bytes, bytes]] = {}
    for part in parts:
        contents = zip(part.accepted_at, part.heads, part.payloads, strict=True)
        rows.update(each for each in zip(part.numbers, contents, strict=True) if each[0] <= through)
    numbers = sorted(rows)
    times, heads, payloads = zip(*map(rows.__getitem__, numbers), strict=True) if rows else ((), (), ())
    return page_of(times, numbers, heads, payloads)


class Inquiries:
    def __init__(self, node_id: NodeId, params: EdgeParams, references: References) -> None:
        self.node_id, self.params, self.references = node_id, params, references
        self.publishers, self.flows = references.publishers, references.flows
        self.sieves = Sieves(self.publishers.engine)

    # Questions of other brokers.

    def why_not(self, sender: NodeId, path: Sequence[NodeId]) -> str:
        if sender not in self.references.neighbours:
            return NOT_A_NEIGHBOUR
        return WRONG_PATH if tuple(path[-1:]) != (sender,) or self.node_id in path else ""

    def look(self, sender: NodeId, asked: LookFar) -> list[Effect]:
        """Answered as far as the publishers are here; the rest goes further."""
        origin = self.flows.origin_of(sender, asked)
        if problem := self.why_not(sender, asked.path):
            return [Drop(asked, problem), *self.flows.release(origin)]
        marks = self.marks(asked.wanted)
        hops = self.by_hop(asked.wanted, sender)
        path = lengthened(asked.path, self.node_id)
        if path is None:
            hops = {None: [each for there in hops.values() for each in there]}
        missing = tuple(hops.pop(None, ()))
        effects: list[Effect] = []
        if marks or missing:
            effects += self.flows.put(sender, MarksFar(asked.reading, tuple(marks), missing, asked.path[:-1]))
        for hop, there in hops.items():
            if hop is not None and path is not None:
                effects += self.flows.put(hop, LookFar(asked.reading, tuple(there), path), origin)
                origin = None
        return effects + self.flows.release(origin)

    def fetch(self, sender: NodeId, asked: FetchFar) -> list[Effect]:
        origin = self.flows.origin_of(sender, asked)
        if problem := self.why_not(sender, asked.path):
            return [Drop(asked, problem), *self.flows.release(origin)]
        hop = self.hop_toward(asked.advertisement, sender)
        path = lengthened(asked.path, self.node_id)
        if asked.advertisement not in self.publishers.offered and hop is not None and path is not None:
            return self.flows.put(hop, replace(asked, path=path), origin)
        try:
            filter = parse(asked.filter)
        except UsageError:
            return [Drop(asked, WRONG_FILTER), *self.flows.release(origin)]
        return [
            *self.flows.put_later(sender, asked, partial(self.page_back, asked, filter)),
            *self.flows.release(origin),
        ]

    def page_back(self, asked: FetchFar, filter: Filter) -> FetchedFar:
        if asked.advertisement in self.publishers.offered:
            page = self.page(asked, filter)
        else:
            is_known = self.hop_toward(asked.advertisement, asked.path[-1]) is not None
            problem = TOO_FAR if is_known else NO_WAY.format(broker=self.node_id)
            page = self.lack(asked.reading, asked.advertisement, problem)
        return replace(page, path=asked.path[:-1])

    def hop_toward(self, advertisement: AdvertisementId, sender: NodeId | None = None) -> NodeId | None:
        hop = self.references.routes.hop_toward(advertisement)
        return hop if hop in self.references.neighbours and hop != sender else None

    def by_hop(
        self, wanted: Sequence[AdvertisementId], sender: NodeId | None = None
    ) -> dict[NodeId | None, list[AdvertisementId]]:
        """What is wanted of publishers elsewhere, by the neighbour to ask; None where there is none."""
        hops: dict[NodeId | None, list[AdvertisementId]] = {}
        for each in wanted:
            if each not in self.publishers.offered:
                hops.setdefault(self.hop_toward(each, sender), []).append(each)
        return hops

    # Answers.

    def marks(self, wanted: Sequence[AdvertisementId]) -> list[Mark]:
        """Of those publishers that are here."""
        here = [(each, self.publishers.offered[each].publisher) for each in wanted if each in self.publishers.offered]
        return [(each, it.last, tuple(it.history.lacking()), tuple(it.history.held(it.reach))) for each, it in here]

    def page(self, asked: FetchFar, filter: Filter) -> FetchedFar:
        publisher = self.publishers.offered[asked.advertisement].publisher
        history, reach = publisher.history, publisher.reach
        begin = asked.after or 0
        if asked.after is None and asked.since is not None:
            begin = publisher.number_before(asked.since)
        end = min(asked.through, reach)
        sieve = self.sieves.of(asked.filter, filter)
        page, through = self.search(history, sieve, begin, end, asked.limit, asked.with_payloads)
        return FetchedFar(
            reading=asked.reading,
            advertisement=asked.advertisement,
            problem="",
            begin=begin,
            reach=reach,
            through=through,
            has_more=through < end,
            lacking=tuple(within(history.lacking(), begin, asked.through)),
            elsewhere=tuple(history.elsewhere),
            held=tuple(history.held(reach)),
            path=(),
            page=page,
        )

    def search(
        self, history: PublisherHistory, sieve: Sieve, begin: int, end: int, limit: int, with_payloads: bool
    ) -> tuple[StoredPage, int]:
        """What matches behind `begin` up to `end`, and the number up to which that is all: `end`, or less where a bound
        was met."""
        limit, scanned, room_bytes = min(max(limit, 1), PUBLICATIONS_MAX), 0, BATCH_BYTES_MAX
        at_once, began, found = min(limit, sieve.at_once_max), WORK.units, PageDraft(with_payloads)
        while begin < end:
            candidates = PageDraft(with_payloads)
            candidates.gather(history, begin, end, min(at_once, self.params.scanned_max - scanned))
            if not candidates.numbers:
                break
            scanned += len(candidates.numbers)
            begin = candidates.numbers[-1]
            if not sieve.takes_all:
                candidates = candidates.picked(sieve.places(candidates.heads))
            if found.numbers:
                found.extend(candidates)
            else:
                found = candidates
            room_bytes -= candidates.size_bytes
            if len(found.numbers) > limit or room_bytes < 0:
                page = found.page()
                page = page.first(min(limit, page.fitting(BATCH_BYTES_MAX)))
                return page, page.last_number
            is_late = scanned >= self.params.scanned_max or WORK.units - began >= SCAN_UNITS_MAX
            if len(found.numbers) == limit or is_late:
                return found.page(), begin
        return found.page(), end

    def lack(self, reading: int, advertisement: AdvertisementId, problem: str) -> FetchedFar:
        """There is no answer."""
        return FetchedFar(reading, advertisement, problem, 0, 0, 0, False, (), (), (), (), NO_PAGE)


def marks_found(
    whole: MarksReply, marks: Mapping[NodeId, Sequence[Mark]], unreachable: Sequence[NodeId]
) -> list[MarksReply]:
    """The answer to a look, in as many messages as it takes, at least one; `whole` is what only the first one says. Who
    could not be reached at one of its brokers has no mark."""
    rows = [(each, *merged_marks(marks[each])) for each in sorted(marks) if each not in unreachable]
    names = sorted(unreachable)
    messages = []
    while True:
        is_last = len(rows) <= MARKS_MAX and len(names) <= MARKS_MAX
        part = replace(whole, marks=tuple(rows[:MARKS_MAX]), unreachable=tuple(names[:MARKS_MAX]), is_last=is_last)
        messages.append(part)
        if is_last:
            return messages
        rows, names = rows[MARKS_MAX:], names[MARKS_MAX:]
        whole = replace(whole, offers=(), brokers=(), absent=())


def merged_marks(marks: Sequence[Mark]) -> tuple[int, int]:
    """Above the first number nothing is lost that the brokers of a publisher had; it has come to the second."""
    lost = without(
        [extent for _, _, lacking, _ in marks for extent in lacking],
        [extent for _, _, _, held in marks for extent in held],
    )
    through = max(last for _, last, _, _ in marks)
    return min(max((end for _, end in lost), default=0), through), through


def fetched(asked: Fetch, answers: Sequence[FetchedFar], through: int) -> tuple[Fetched, list[Extent]]:
    """What the brokers of a publisher store, as far as all of them looked, and as much of it as there is room for; and
    what none of them has any more."""
    page = merged([each.page for each in answers], through)
    count = min(max(asked.limit, 1), PUBLICATIONS_MAX, page.fitting(BATCH_BYTES_MAX))
    if count < len(page):
        page = page.first(count)
        through = page.last_number
    begin = max(each.begin for each in answers)
    lost = without(
        within([extent for each in answers for extent in each.lacking], begin, through),
        [extent for each in answers for extent in each.held],
    )
    return Fetched(asked.number, through, bool(lost), through < asked.through, page), lost
