"""The publisher's side of an edge: publications are checked, numbered, stored, and handed to routing.

The problem. A client publishes, loses its connection, and does not know which of its publications the broker has. A
subscriber far away comes too late, or its way was broken, and wants what it missed.

The idea. The client numbers its publications and repeats what was not acknowledged; the broker remembers the highest
number it has taken (`through`), so a repetition is recognised, whatever was lost. Each batch gets the time of day at
which it was accepted; it ascends for each publisher even if the clock does not (G-54). Then it is stored (`history.py`)
and forwarded. `Accepted(through)` tells the client what it may forget. Where the edge is durable, that word waits until
the publications are on disk; forwarding does not wait, because a publication that is forwarded, lost in a crash and
repeated by the client has the same number, and the brokers of subscribers recognise it.

A publication must match the advertisement under which it is published; the advertisement was narrowed to what the
client may publish, so that one test proves both. Heads that passed are remembered (`heads_max` for each advertisement)
and not decoded again. What fails is declined with the reason and has used up its number.

State. For each publisher: its advertisements, `through`, the time of the last batch, its history, what is being saved.
A publisher that left stays known, with its advertisements, until its history is too old: its publications can be
fetched for as long as they are promised.

On disk. `publication/<publisher>/<number>` is a batch, `advertisement/<id>` an advertisement, `publisher/<name>` what
was forgotten. After a restart the publishers are there again, as ones that left.

Guaranteed. What `Accepted` names is stored, up to the bounds of the history, and was handed to routing. No publication
is taken twice. Not guaranteed, without durability: that a crash of this broker loses nothing that it had accepted.
"""

from collections.abc import Sequence

import msgspec

from tidings.machine.effects import Drop, Effect, Save, Send, SetTimer
from tidings.machine.message import NAME_CHARS_MAX, TEXT_CHARS_MAX
from tidings.machine.publications import (
    BATCH_BYTES_MAX,
    PIECE_OVERHEAD_BYTES_MAX,
    PUBLICATION_BYTES_MAX,
    BadPublication,
    Publications,
    event_of,
    pieces,
)
from tidings.machine.signals import AdvertisementId, Forward, Offer, Ticket, Unoffer
from tidings.model.bounds import INTEGER_MAX
from tidings.model.errors import UsageError
from tidings.model.filter import Filter
from tidings.model.identity import NodeId
from tidings.model.language.parser import parse
from tidings.protocols.delivery.batches import pick
from tidings.protocols.delivery.clients import BadRequest, Client, Request, Requests, read_filter
from tidings.protocols.delivery.history import NEVER, PublisherHistory, Store
from tidings.protocols.delivery.messages import Accepted, Advertise, Declined, Publish, Refusal, Unadvertise
from tidings.protocols.delivery.params import EdgeParams

TICK = 1e-6
"""By how much a batch is later than the one before it, if the clock did not advance."""

NO_ADVERTISEMENT = "advertise before you publish: this advertisement is not known here, or was withdrawn"
OUTSIDE = "not within the advertisement {filter}; advertise what you publish, within what you may publish"
TOO_LARGE = f"a publication takes at most {PUBLICATION_BYTES_MAX} bytes, head and payload; publish it in pieces"
MALFORMED = "the head is no encoded event: {problem}"
NO_NUMBERS = "publishes nothing, or under numbers that there are not"
NOT_SAVED = "could not be saved; is saved again later"
UNREADABLE = "was saved and cannot be read any more"

encoder = msgspec.msgpack.Encoder()
batch_decoder = msgspec.msgpack.Decoder(Publications)


class SavedAdvertisement(msgspec.Struct, frozen=True, array_like=True):
    publisher: str
    number: int
    filter: str


class SavedPublisher(msgspec.Struct, frozen=True, array_like=True):
    """What was forgotten: the number and the time of the last."""

    publisher: str
    through: int
    at: float


advertisement_decoder = msgspec.msgpack.Decoder(SavedAdvertisement)
publisher_decoder = msgspec.msgpack.Decoder(SavedPublisher)


class Advertised:
    def __init__(self, publisher: "Publisher", number: int, filter: Filter) -> None:
        self.id: AdvertisementId = f"{publisher.name}/{number}"
        self.publisher, self.number, self.filter = publisher, number, filter
        self.is_everything = filter.residual is None and () in filter.conjunctions
        """Then only routing needs to decode a head, and it refuses what is malformed."""
        self.within: set[bytes] = set()


class Publisher:
    def __init__(self, name: NodeId, store: Store) -> None:
        self.name = name
        self.history = PublisherHistory(store)
        self.advertisements: dict[int, Advertised] = {}
        self.client: Client | None = None
        self.left_at = 0.0
        self.through = 0
        """Publications up to this number were taken or declined."""
        self.accepted_at = float("-inf")
        self.saving: dict[str, Publications] = {}
        """What is on its way to the disk, in that order."""

    @property
    def saved_through(self) -> int:
        first = next(iter(self.saving.values()), None)
        return self.through if first is None else first.numbers[0] - 1


class Acceptance:
    def __init__(self, params: EdgeParams, requests: Requests) -> None:
        self.params, self.requests = params, requests
        self.store = Store(params)
        self.publishers: dict[NodeId, Publisher] = {}
        self.offered: dict[AdvertisementId, Advertised] = {}

    # Who is there.

    def arrive(self, client: Client) -> list[Effect]:
        publisher = self.publishers.get(client.name)
        if publisher is None:
            return []
        publisher.client = client
        return [Send(client.name, Accepted(publisher.saved_through))] if publisher.saved_through else []

    def leave(self, now: float, client: Client) -> list[Effect]:
        publisher = self.publishers.get(client.name)
        if publisher is None or publisher.client is not client:
            return []
        publisher.client, publisher.left_at = None, now
        return self.sweep(now) if self.params.history_age == 0 else []

    def publisher_of(self, client: Client) -> Publisher:
        publisher = self.publishers.get(client.name)
        if publisher is None:
            if len(self.publishers) >= self.params.publishers_max:
                raise BadRequest("this broker has as many publishers as it may have; publish at another one")
            publisher = self.publishers[client.name] = Publisher(client.name, self.store)
        publisher.client = client
        return publisher

    # Advertisements.

    def advertise(self, client: Client, asked: Advertise) -> list[Effect]:
        filter = read_filter(asked.filter, client.publish_bound, "publish")
        if len(f"{client.name}/{asked.number}") > NAME_CHARS_MAX:
            raise BadRequest("the name of the client and the number are too long together; connect by a shorter name")
        publisher = self.publisher_of(client)
        known = publisher.advertisements.get(asked.number)
        if known is None and len(publisher.advertisements) >= self.params.advertisements_max:
            raise BadRequest(f"a client has at most {self.params.advertisements_max} advertisements; withdraw one")
        effects: list[Effect] = []
        if known is None or known.filter != filter:
            # One of an earlier life of the client, which began to number anew.
            if known is not None:
                effects.append(Unoffer(known.id))
            known = publisher.advertisements[asked.number] = Advertised(publisher, asked.number, filter)
            self.offered[known.id] = known
            effects += self.save_advertisement(known)
        request = Request("advertise", client, asked.number, filter.text())
        return [*effects, Offer(known.id, publisher.name, filter, self.requests.add(request))]

    def unadvertise(self, client: Client, asked: Unadvertise) -> list[Effect] | None:
        """None if there is nothing to withdraw."""
        publisher = self.publishers.get(client.name)
        known = None if publisher is None else publisher.advertisements.pop(asked.number, None)
        if known is None:
            return None
        ticket = self.requests.add(Request("unadvertise", client, asked.number))
        return self.withdraw(known, ticket)

    def withdraw(self, known: Advertised, ticket: Ticket | None = None) -> list[Effect]:
        del self.offered[known.id]
        effects: list[Effect] = [Unoffer(known.id, ticket)]
        if self.params.is_durable:
            effects.append(Save(f"advertisement/{known.id}", None))
        return effects

    def save_advertisement(self, known: Advertised) -> list[Effect]:
        if not self.params.is_durable:
            return []
        record = SavedAdvertisement(known.publisher.name, known.number, known.filter.text())
        return [Save(f"advertisement/{known.id}", encoder.encode(record))]

    # Publications.

    def publish(self, now: float, client: Client, asked: Publish) -> list[Effect]:
        if not asked.heads or asked.first + len(asked.heads) > INTEGER_MAX:
            return [Drop(asked, NO_NUMBERS)]
        publisher = self.publishers.get(client.name)
        numbers = tuple(range(asked.first, asked.first + len(asked.heads)))
        advertised = None if publisher is None else publisher.advertisements.get(asked.advertisement)
        if publisher is None:
            # Nothing is remembered of a client that never advertised; it is told the same again if it repeats.
            return [*self.decline(client, asked, numbers, NO_ADVERTISEMENT), Send(client.name, Accepted(numbers[-1]))]
        effects: list[Effect] = []
        first = asked.first
        if first <= publisher.through:
            asked, numbers, effects = self.set_aside_repeated(publisher, advertised, client, asked, numbers)
        if numbers:
            if publisher.through == 0 and asked.first > 1:
                publisher.history.forget(asked.first - 1, NEVER)
            publisher.through = numbers[-1]
            if advertised is None:
                effects += self.decline(client, asked, numbers, NO_ADVERTISEMENT)
            else:
                effects += self.take(now, client, publisher, advertised, asked, numbers)
        if publisher.saved_through >= first:
            effects.append(Send(client.name, Accepted(publisher.saved_through)))
        return effects

    def set_aside_repeated(
        self,
        publisher: Publisher,
        advertised: Advertised | None,
        client: Client,
        asked: Publish,
        numbers: tuple[int, ...],
    ) -> tuple[Publish, tuple[int, ...], list[Effect]]:
        """What of it is new, and what a repetition makes necessary: if a receipt is wanted, the publications go out
        once more, because only that tells whether they have arrived; whoever has them recognises the numbers."""
        count = min(publisher.through - asked.first + 1, len(numbers))
        first, heads, payloads = asked.first + count, asked.heads[count:], asked.payloads[count:]
        new = Publish(asked.advertisement, first, asked.receipt, heads, payloads)
        if count < len(numbers) or not asked.receipt or advertised is None:
            return new, numbers[count:], []
        verdicts = self.judge(advertised, asked)
        places = [place for place, verdict in enumerate(verdicts) if not verdict]
        if not places:
            return new, (), self.refuse_receipt(client, asked, numbers, verdicts[0])
        ticket = self.requests.add(Request("publish", client, numbers[-1]))
        batch = Publications(
            publisher.name, advertised.id, publisher.accepted_at, 0, numbers, asked.heads, asked.payloads
        )
        return new, (), [Forward(pick(batch, places), ticket)]

    def take(
        self,
        now: float,
        client: Client,
        publisher: Publisher,
        advertised: Advertised,
        asked: Publish,
        numbers: tuple[int, ...],
    ) -> list[Effect]:
        effects: list[Effect] = []
        publisher.accepted_at = accepted_at = self.time_of_day(now, publisher)
        batch = Publications(publisher.name, advertised.id, accepted_at, 0, numbers, asked.heads, asked.payloads)
        if not (advertised.is_everything or advertised.within.issuperset(asked.heads)):
            kept = self.permitted(client, advertised, asked, numbers, effects)
            if kept is not None:
                if not kept:
                    return effects
                batch = pick(batch, kept)
        parts = self.parts_of(client, batch, asked, effects)
        for part in parts:
            effects += self.keep(publisher, part)
            is_final = part is parts[-1]
            ticket = self.requests.add(Request("publish", client, numbers[-1])) if asked.receipt and is_final else None
            effects.append(Forward(part, ticket))
        return effects

    def time_of_day(self, now: float, publisher: Publisher) -> float:
        return max(now + self.params.clock_offset, publisher.accepted_at + TICK)

    def permitted(
        self,
        client: Client,
        advertised: Advertised,
        asked: Publish,
        numbers: tuple[int, ...],
        effects: list[Effect],
    ) -> list[int] | None:
        """The places of those that may be published; None for all. The others are declined."""
        verdicts = self.judge(advertised, asked)
        refused: dict[str, list[int]] = {}
        for place, verdict in enumerate(verdicts):
            if verdict:
                refused.setdefault(verdict, []).append(numbers[place])
        if not refused:
            return None
        effects += [Send(client.name, Declined(tuple(places), reason)) for reason, places in refused.items()]
        kept = [place for place, verdict in enumerate(verdicts) if not verdict]
        if not kept:
            effects += self.refuse_receipt(client, asked, numbers, verdicts[0])
        return kept

    def judge(self, advertised: Advertised, asked: Publish) -> list[str]:
        """For each publication why it is refused; empty where it is not."""
        within = advertised.within
        if len(within) > self.params.heads_max:
            within.clear()
        verdicts = []
        for head in asked.heads:
            verdict = "" if head in within or advertised.is_everything else self.verdict(advertised, head)
            if not verdict:
                within.add(head)
            verdicts.append(verdict)
        return verdicts

    def verdict(self, advertised: Advertised, head: bytes) -> str:
        try:
            if advertised.filter.matches(event_of(head, b"")):
                return ""
        except BadPublication as problem:
            return MALFORMED.format(problem=problem)[:TEXT_CHARS_MAX]
        return OUTSIDE.format(filter=advertised.filter.text())[:TEXT_CHARS_MAX]

    def parts_of(
        self, client: Client, batch: Publications, asked: Publish, effects: list[Effect]
    ) -> list[Publications]:
        """One batch, or several where the frame of a client held more than one between brokers may."""
        total = sum(map(len, batch.heads)) + sum(map(len, batch.payloads))
        if total + PIECE_OVERHEAD_BYTES_MAX * len(batch.numbers) <= BATCH_BYTES_MAX:
            return [batch]
        sizes = [len(head) + len(payload) for head, payload in zip(batch.heads, batch.payloads, strict=True)]
        too_large = tuple(
            number for number, size in zip(batch.numbers, sizes, strict=True) if size > PUBLICATION_BYTES_MAX
        )
        if too_large:
            effects.append(Send(client.name, Declined(too_large, TOO_LARGE)))
            places = [place for place, size in enumerate(sizes) if size <= PUBLICATION_BYTES_MAX]
            if not places:
                effects += self.refuse_receipt(client, asked, batch.numbers, TOO_LARGE)
                return []
            batch, sizes = pick(batch, places), [sizes[place] for place in places]
        return [pick(batch, range(*part.indices(len(sizes)))) for part in pieces(sizes)]

    def keep(self, publisher: Publisher, batch: Publications) -> list[Effect]:
        if self.params.history_age == 0:
            publisher.history.forget(batch.numbers[-1], batch.accepted_at)
            return []
        forgotten = publisher.history.append(batch)
        if not self.params.is_durable:
            return []
        name = batch_name(batch)
        publisher.saving[name] = batch
        return [Save(name, encoder.encode(batch)), *self.save_forgotten(publisher, forgotten)]

    def save_forgotten(self, publisher: Publisher, forgotten: Sequence[Publications]) -> list[Effect]:
        if not forgotten or not self.params.is_durable:
            return []
        history = publisher.history
        record = SavedPublisher(publisher.name, history.forgotten_through, history.forgotten_at)
        removals = [Save(batch_name(batch), None) for batch in forgotten]
        return [Save(f"publisher/{publisher.name}", encoder.encode(record)), *removals]

    def decline(self, client: Client, asked: Publish, numbers: tuple[int, ...], reason: str) -> list[Effect]:
        return [Send(client.name, Declined(numbers, reason)), *self.refuse_receipt(client, asked, numbers, reason)]

    def refuse_receipt(self, client: Client, asked: Publish, numbers: tuple[int, ...], reason: str) -> list[Effect]:
        if not asked.receipt:
            return []
        return [Send(client.name, Refusal("publish", numbers[-1], reason, may_retry=False))]

    # Disk and age.

    def saved(self, now: float, name: str, error: str | None) -> list[Effect]:
        publisher = self.publishers.get(name.partition("/")[2].rpartition("/")[0])
        batch = None if publisher is None else publisher.saving.get(name)
        if publisher is None or batch is None:
            return [] if error is None else [Drop(name, NOT_SAVED)]
        if error is not None:
            return [Drop(name, NOT_SAVED), SetTimer(("save", name), now + self.params.save_again_after)]
        before = publisher.saved_through
        del publisher.saving[name]
        if publisher.client is None or publisher.saved_through == before:
            return []
        return [Send(publisher.client.name, Accepted(publisher.saved_through))]

    def save_again(self, name: str) -> list[Effect]:
        publisher = self.publishers.get(name.partition("/")[2].rpartition("/")[0])
        batch = None if publisher is None else publisher.saving.get(name)
        return [] if batch is None else [Save(name, encoder.encode(batch))]

    def load(self, now: float, entries: tuple[tuple[str, bytes], ...]) -> list[Effect]:
        """What was there before a restart. The advertisements are offered again."""
        effects: list[Effect] = []
        for name, data in entries:
            try:
                self.restore(now, name, data)
            except (msgspec.MsgspecError, UsageError, ValueError):
                effects.append(Drop(name, UNREADABLE))
        for publisher in self.publishers.values():
            publisher.left_at = now
            forgotten = publisher.history.trim(now + self.params.clock_offset)
            effects += self.save_forgotten(publisher, forgotten)
        return effects + [Offer(each.id, each.publisher.name, each.filter) for each in self.offered.values()]

    def restore(self, now: float, name: str, data: bytes) -> None:
        # Sorted by name: advertisements, then publications in the order of their numbers, then publishers.
        match name.partition("/")[0]:
            case "advertisement":
                record = advertisement_decoder.decode(data)
                publisher = self.restored(record.publisher)
                advertised = Advertised(publisher, record.number, parse(record.filter))
                publisher.advertisements[record.number] = self.offered[advertised.id] = advertised
            case "publication":
                batch = batch_decoder.decode(data)
                publisher = self.restored(batch.publisher)
                if not batch.numbers or batch.numbers[0] <= publisher.through:
                    raise ValueError("the order of publications is broken")
                publisher.history.append(batch)
                publisher.through, publisher.accepted_at = batch.numbers[-1], batch.accepted_at
            case "publisher":
                marks = publisher_decoder.decode(data)
                publisher = self.restored(marks.publisher)
                publisher.through = max(publisher.through, marks.through)
                publisher.accepted_at = max(publisher.accepted_at, marks.at)
                publisher.history.forget(marks.through, marks.at)

    def forget_all(self) -> None:
        """What is in memory is read from disk again."""
        self.publishers.clear()
        self.offered.clear()
        self.store.size_bytes = 0

    def restored(self, name: NodeId) -> Publisher:
        if name not in self.publishers:
            self.publishers[name] = Publisher(name, self.store)
        return self.publishers[name]

    def sweep(self, now: float) -> list[Effect]:
        """Forget what became too old, and with it the publishers that left before."""
        effects: list[Effect] = []
        for publisher in list(self.publishers.values()):
            forgotten = publisher.history.trim(now + self.params.clock_offset)
            effects += self.save_forgotten(publisher, forgotten)
            is_over = publisher.client is None and now - publisher.left_at >= self.params.history_age
            if is_over and not publisher.saving:
                effects += self.remove(publisher)
        return effects

    def remove(self, publisher: Publisher) -> list[Effect]:
        forgotten = publisher.history.clear()
        effects = self.save_forgotten(publisher, forgotten)
        for known in publisher.advertisements.values():
            effects += self.withdraw(known)
        del self.publishers[publisher.name]
        if self.params.is_durable:
            effects.append(Save(f"publisher/{publisher.name}", None))
        return effects

    def check(self) -> None:
        for publisher in self.publishers.values():
            publisher.history.check()
            stored = publisher.history.batches
            assert not stored or stored[-1].numbers[-1] <= publisher.through, "stored but not taken"
            assert all(self.offered.get(each.id) is each for each in publisher.advertisements.values())
        held = sum(publisher.history.size_bytes for publisher in self.publishers.values())
        assert held == self.store.size_bytes <= self.params.history_bytes_total_max, "the store is miscounted"


def batch_name(batch: Publications) -> str:
    """Sorted names are in the order of numbers."""
    return f"publication/{batch.publisher}/{batch.numbers[0]:019d}"
