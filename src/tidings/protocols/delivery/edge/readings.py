"""Reading what the network has stored, without subscribing: the side of the broker whose client asks.

The problem. A program wants the history of the network as a table: now, again after a crash, or every few seconds
what is new. A subscription would do, but it makes state at all brokers, and its position moves by itself.

The idea. What a publisher published, under its numbers, is a log, and a position in the history of the network is a
number for each publisher. A `Look` finds the publishers whose advertisements overlap the filter and how far each has
come; a `Fetch` gets a page of one of them between two numbers. Nothing is kept for the reader between its requests, and
the same `Fetch` gives the same publications, or says that some are no longer stored. What a client may read is bounded
as what it may subscribe to.

Publishers elsewhere are asked for at their brokers (`inquiries.py`). One that moved has brokers that each store a part:
all are asked, and the answers are put together (`inquiries.py`).

Time. A request waits for brokers for `reading_timeout`. A look then says which publishers could not be reached, which
brokers are absent (`absences.py`), and for how long publishers that left are remembered here. A fetch
is refused, and may be repeated; until then it also waits for a publisher to become known, again or for the first time,
and to have come as far as was asked for: a reader may have heard of publications before this broker. What a publisher
published elsewhere and no broker that is known holds is waited for as well, and only then said to be lost.

State. The requests that wait, oldest first: bounded by `readings_max` for each client, and gone with it.
"""

from typing import NamedTuple

from msgspec.structs import replace

from tidings.machine.effects import Drop, Effect, Send, SetTimer
from tidings.model.bounds import BROKERS_ASKED_MAX, MARKS_MAX, OFFERS_MAX, TEXT_CHARS_MAX
from tidings.model.filter import Filter
from tidings.model.identity import NodeId, name_of
from tidings.protocols.delivery.edge.absences import Absences
from tidings.protocols.delivery.edge.advertisements import ORIGINS_MAX, one_at_each_broker, origin_of
from tidings.protocols.delivery.edge.clients import BadRequest, Forbidden, ServedClient, read_filter
from tidings.protocols.delivery.edge.history import NEVER, without
from tidings.protocols.delivery.edge.inquiries import Inquiries, Mark, fetched, marks_found
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.edge.questions import Fetching
from tidings.protocols.delivery.messages import Fetch, FetchedFar, FetchFar, Look, LookFar, MarksFar, Refusal
from tidings.pubsub.client import MarksReply
from tidings.pubsub.pages import page_of
from tidings.pubsub.signals import AdvertisementId, Forgotten, Known
from tidings.pubsub.tenants import unstamped

OLD_ANSWER = "answers a reading that nobody waits for any more"
OTHER_TENANT = "not permitted: {publisher} is no publisher of your tenant; look for what is there"
NO_OVERLAP = "not permitted: nothing that {publisher} advertises is within what you may read; ask for another publisher"
UNREACHED = "not reachable: no broker of {publisher} answered ({brokers}); try again"
SEVERAL_LIVES = (
    "{publisher} has published in {count} lives, each with numbers of its own: name one of them, such as {lives}; the "
    "marks name all"
)
LIVES_NAMED = 3
UNKNOWN = "not reachable: no publisher {publisher} is known here; try again, or look again for what is there"
NOT_THERE = "not reachable: {publisher} has come to {reach} where it is known here, not to {through}; try again"

NUMBERS_A_SECOND = 1_000_000
"""No broker is asked for more readings than this."""


LOOKS_MAX = 64
"""Filters of looks for which the advertisements that overlap them are remembered."""


class OfferedHere(NamedTuple):
    """What overlaps a filter, as of so many news: filters of advertisements, and advertisements with their publishers,
    one of each publisher at each broker."""

    news: int
    texts: tuple[str, ...]
    publisher_of: dict[AdvertisementId, NodeId]


class ServedReading:
    """A request that waits. `awaited` are the advertisements whose brokers have not answered."""

    def __init__(self, client: ServedClient, asked: Look | Fetch, filter: Filter, ends_at: float) -> None:
        self.client, self.asked, self.filter, self.ends_at = client, asked, filter, ends_at
        self.awaited: dict[AdvertisementId, None] = {}


class Looking(ServedReading):
    def __init__(self, client: ServedClient, asked: Look, filter: Filter, ends_at: float) -> None:
        super().__init__(client, asked, filter, ends_at)
        self.publisher_of: dict[AdvertisementId, NodeId] = {}
        self.offers: tuple[str, ...] = ()
        self.marks: dict[NodeId, list[Mark]] = {}
        self.unreachable: dict[NodeId, None] = {}
        self.brokers: dict[NodeId, None] = {}
        """Who answered."""
        self.absent: dict[NodeId, None] = {}


class Fetches(ServedReading):
    def __init__(self, client: ServedClient, asked: Fetch, filter: Filter, ends_at: float) -> None:
        super().__init__(client, asked, filter, ends_at)
        self.wanted = asked
        self.pages: dict[NodeId, FetchedFar] = {}
        """By the broker that answered."""


class ServedReadings:
    def __init__(self, node_id: NodeId, params: EdgeParams, fetching: Fetching, inquiries: Inquiries) -> None:
        self.node_id, self.params, self.fetching, self.inquiries = node_id, params, fetching, inquiries
        self.open: dict[int, Looking | Fetches] = {}
        """By our number for it, which is not that of the client."""
        self.remembered: dict[tuple[str, str], OfferedHere] = {}
        self.absences = Absences(params)
        self.began_at: float | None = None
        """When this broker began with nothing stored."""
        self.made = 0
        self.is_timed = False

    def start(self, now: float) -> None:
        """Numbers of an earlier life are not used again: an answer to one of its questions may still come."""
        self.made = max(self.made, int((now + self.params.clock_offset) * NUMBERS_A_SECOND))
        self.is_timed = False
        if self.began_at is None:
            self.began_at = NEVER if self.params.is_durable else now

    def remembered_for(self, now: float) -> float:
        """Whoever published something here within so many seconds is known."""
        assert self.began_at is not None
        kept_for = self.params.history_age + self.params.marks_age if self.params.history_age else 0.0
        return max(0.0, min(kept_for, now - self.began_at, now - self.inquiries.publishers.numbers.crowded_out_at))

    # What clients ask.

    def look(self, now: float, client: ServedClient, asked: Look) -> list[Effect]:
        reading = Looking(client, asked, self.admit(client, asked), now + self.params.reading_timeout)
        id = self.begin(reading)
        offered = self.offered(reading.filter, client)
        reading.offers, reading.publisher_of = offered.texts, offered.publisher_of
        reading.awaited = dict.fromkeys(reading.publisher_of)
        reading.brokers[self.node_id] = None
        known = set(reading.publisher_of.values())
        for advertisement, publisher in self.absences.concerning(now, reading.filter, client).items():
            reading.absent[origin_of(advertisement)] = None
            if publisher not in known:
                reading.unreachable[publisher] = None
        wanted = list(reading.awaited)
        hops = self.inquiries.by_hop(wanted)
        for each in hops.pop(None, ()):
            self.give_up(reading, each)
        for mark in self.inquiries.marks(wanted):
            self.note(reading, mark)
        effects: list[Effect] = []
        for hop, there in hops.items():
            for place in range(0, len(there), MARKS_MAX):
                assert hop is not None
                far = LookFar(id, tuple(there[place : place + MARKS_MAX]), (self.node_id,))
                effects += self.inquiries.flows.put(hop, far)
        return [*effects, *self.finish_look(now, id, reading), *self.arm()]

    def offered(self, filter: Filter, client: ServedClient) -> OfferedHere:
        """Advertisements that overlap the filter. Whoever looks looks again, and they rarely change."""
        # With its tenant, since the filter names that only where the broker knows of tenants.
        text, news = (client.tenant_name, filter.text()), self.fetching.news
        remembered = self.remembered.get(text)
        if remembered is not None and remembered.news == news:
            return remembered
        texts: dict[str, None] = {}
        first: dict[tuple[NodeId, NodeId], AdvertisementId] = {}
        known = {id: (each.publisher, each.filter) for id, (each, _) in self.fetching.known.items()}
        # After a restart routing has not told of our own yet when a look has waited for the store to be read.
        known |= {id: (each.publisher.name, each.filter) for id, each in self.inquiries.publishers.offered.items()}
        for advertisement, (publisher, advertised) in known.items():
            if client.is_of(publisher) and advertised.overlaps(filter):
                texts[client.shown(advertised)] = None
                first.setdefault((publisher, origin_of(advertisement)), advertisement)
        publisher_of = {advertisement: publisher for (publisher, _), advertisement in first.items()}
        if len(self.remembered) >= LOOKS_MAX:
            self.remembered.clear()
        offered = self.remembered[text] = OfferedHere(news, tuple(sorted(texts)[:OFFERS_MAX]), publisher_of)
        return offered

    def fetch(self, now: float, client: ServedClient, asked: Fetch) -> list[Effect]:
        if not client.is_of(asked.publisher):
            raise Forbidden(OTHER_TENANT.format(publisher=asked.publisher))
        asked = replace(asked, publisher=self.life_of(asked.publisher))
        reading = Fetches(client, asked, self.admit(client, asked), now + self.params.reading_timeout)
        mine = [self.fetching.known[each][0] for each in self.fetching.of_publisher.get(asked.publisher, {})]
        is_bound = client.subscribe_bound is not None
        if is_bound and mine and not any(known.filter.overlaps(reading.filter) for known in mine):
            raise Forbidden(NO_OVERLAP.format(publisher=asked.publisher))
        id = self.begin(reading)
        effects: list[Effect] = []
        for advertisement in one_at_each_broker(known.advertisement for known in mine):
            effects += self.ask(id, reading, advertisement)
        return [*effects, *self.finish_fetch(id, reading), *self.arm()]

    def life_of(self, name: NodeId) -> NodeId:
        """Whom this means: a publisher, or the only life of one."""
        known = self.fetching.of_publisher
        lives = [] if name in known else [each for each in known if name_of(each) == name]
        if len(lives) > 1:
            raise BadRequest(
                SEVERAL_LIVES.format(publisher=name, count=len(lives), lives=", ".join(lives[:LIVES_NAMED]))
            )
        return lives[0] if lives else name

    def admit(self, client: ServedClient, asked: Look | Fetch) -> Filter:
        """The filter, narrowed to what the client may have; BadRequest if it may not ask."""
        open_count = sum(each.client is client for each in self.open.values()) + len(client.answers)
        if open_count >= self.params.readings_max:
            raise BadRequest(f"a client reads at most {self.params.readings_max} things at a time; wait for one")
        return read_filter(asked.filter, client, client.subscribe_bound, "read")

    def begin(self, reading: Looking | Fetches) -> int:
        self.open[self.number()] = reading
        return self.made

    def number(self) -> int:
        """Of the next question to other brokers."""
        self.made += 1
        return self.made

    def ask(self, id: int, reading: Fetches, advertisement: AdvertisementId) -> list[Effect]:
        asked = reading.wanted
        question = FetchFar(
            id,
            advertisement,
            reading.filter.text(),
            asked.after,
            asked.since,
            asked.through,
            asked.limit,
            (self.node_id,),
            asked.with_payloads,
        )
        if advertisement in self.inquiries.publishers.offered:
            reading.pages[self.node_id] = self.inquiries.page(question, reading.filter)
            return []
        reading.awaited[advertisement] = None
        hop = self.inquiries.hop_toward(advertisement)
        return [] if hop is None else self.inquiries.flows.put(hop, question)

    # What other brokers answer.

    def hear_marks(self, now: float, message: MarksFar) -> list[Effect]:
        reading = self.open.get(message.reading)
        if not isinstance(reading, Looking):
            return [Drop(message, OLD_ANSWER)]
        for mark in message.marks:
            self.note(reading, mark)
        for each in message.missing:
            self.give_up(reading, each)
        return self.finish_look(now, message.reading, reading)

    def hear_page(self, message: FetchedFar) -> list[Effect]:
        reading = self.open.get(message.reading)
        if not isinstance(reading, Fetches) or message.advertisement not in reading.awaited:
            return [Drop(message, OLD_ANSWER)]
        if message.problem:
            # It stays awaited: the way may come back.
            return [Drop(message, message.problem)]
        del reading.awaited[message.advertisement]
        reading.pages[origin_of(message.advertisement)] = message
        return self.finish_fetch(message.reading, reading)

    def note(self, reading: Looking, mark: Mark) -> None:
        if mark[0] in reading.awaited:
            del reading.awaited[mark[0]]
            reading.brokers[origin_of(mark[0])] = None
            reading.marks.setdefault(reading.publisher_of[mark[0]], []).append(mark)

    def give_up(self, reading: Looking, advertisement: AdvertisementId) -> None:
        if advertisement in reading.awaited:
            del reading.awaited[advertisement]
            reading.unreachable[reading.publisher_of[advertisement]] = None
            reading.absent[origin_of(advertisement)] = None

    # Publishers become known, and unknown.

    def note_absence(self, now: float, forgotten: Forgotten) -> None:
        known = self.fetching.known.get(forgotten.advertisement)
        if not forgotten.is_lost:
            self.absences.withdraw(forgotten.advertisement)
        elif known is not None:
            self.absences.lose(now, known[0])

    def learn(self, now: float, known: Known) -> list[Effect]:
        self.absences.learn(now, known)
        effects: list[Effect] = []
        for id, reading in list(self.open.items()):
            if isinstance(reading, Fetches) and reading.wanted.publisher == known.publisher:
                origin = origin_of(known.advertisement)
                for each in [each for each in reading.awaited if origin_of(each) == origin]:
                    del reading.awaited[each]
                if len(reading.awaited) + len(reading.pages) < ORIGINS_MAX:
                    effects += [*self.ask(id, reading, known.advertisement), *self.finish_fetch(id, reading)]
        return effects

    def unlearn(self, now: float, advertisement: AdvertisementId) -> list[Effect]:
        effects: list[Effect] = []
        for id, reading in list(self.open.items()):
            if isinstance(reading, Looking) and advertisement in reading.awaited:
                self.give_up(reading, advertisement)
                effects += self.finish_look(now, id, reading)
        return effects

    # Answers.

    def finish_look(self, now: float, id: int, reading: Looking) -> list[Effect]:
        if reading.awaited:
            return []
        del self.open[id]
        whole = MarksReply(
            number=reading.asked.number,
            marks=(),
            offers=reading.offers,
            unreachable=(),
            brokers=tuple(sorted(reading.brokers)[:BROKERS_ASKED_MAX]),
            absent=tuple(sorted(reading.absent)[:BROKERS_ASKED_MAX]),
            remembered_for=self.remembered_for(now),
            is_last=True,
        )
        messages = marks_found(whole, reading.marks, list(reading.unreachable))
        return [effect for message in messages for effect in reading.client.put(message)]

    def finish_fetch(self, id: int, reading: Fetches, is_late: bool = False) -> list[Effect]:
        """Answer if everything is there; otherwise it goes on waiting."""
        asked, pages = reading.wanted, list(reading.pages.values())
        if reading.awaited or not pages:
            return []
        stopped = [page.through for page in pages if page.has_more]
        if not stopped and max(page.reach for page in pages) < asked.through:
            return []
        answer, lost = fetched(asked, pages, min([asked.through, *stopped]))
        elsewhere = [extent for page in pages for extent in page.elsewhere]
        if not is_late and without(lost, without(lost, elsewhere)):
            return []
        del self.open[id]
        if tenant := reading.client.tenant_name:
            page = answer.page
            heads = unstamped(page.heads, tenant)
            answer = replace(answer, page=page_of(page.accepted_at, page.numbers, heads, page.payloads))
        return reading.client.put(answer)

    # Time, and the end.

    def expire(self, now: float) -> list[Effect]:
        self.is_timed = False
        effects: list[Effect] = []
        for id, reading in list(self.open.items()):
            if reading.ends_at > now:
                break
            if isinstance(reading, Looking):
                for each in list(reading.awaited):
                    self.give_up(reading, each)
                effects += self.finish_look(now, id, reading)
            elif answer := self.finish_fetch(id, reading, is_late=True):
                effects += answer
            else:
                del self.open[id]
                reason = self.why_late(reading)[:TEXT_CHARS_MAX]
                refusal = Refusal("read", reading.asked.number, reason, may_retry=True)
                effects.append(Send(reading.client.name, refusal))
        return effects + self.arm()

    def why_late(self, reading: Fetches) -> str:
        asked = reading.wanted
        if reading.awaited:
            brokers = ", ".join(origin_of(each) for each in reading.awaited)
            return UNREACHED.format(publisher=asked.publisher, brokers=brokers)
        if not reading.pages:
            return UNKNOWN.format(publisher=asked.publisher)
        reach = max(page.reach for page in reading.pages.values())
        return NOT_THERE.format(publisher=asked.publisher, reach=reach, through=asked.through)

    def arm(self) -> list[Effect]:
        if self.is_timed or not self.open:
            return []
        self.is_timed = True
        return [SetTimer("read", next(iter(self.open.values())).ends_at)]

    def leave(self, client: ServedClient) -> None:
        self.open = {id: reading for id, reading in self.open.items() if reading.client is not client}

    def check(self) -> None:
        self.absences.check()
        assert self.is_timed or not self.open, "a reading may wait for ever"
        counts: dict[ServedClient, int] = {}
        for reading in self.open.values():
            counts[reading.client] = counts.get(reading.client, 0) + 1
        assert all(count <= self.params.readings_max for count in counts.values()), "readings_max does not hold"
        for reading in self.open.values():
            assert len(reading.awaited) <= ORIGINS_MAX or isinstance(reading, Looking), "too many brokers are asked"
            assert reading.awaited or isinstance(reading, Fetches), "a look waits for nothing"
