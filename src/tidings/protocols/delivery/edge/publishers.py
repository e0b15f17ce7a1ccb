"""The publishers at this broker: what each has advertised and published, in memory and on disk.

A publisher that left stays known, with its advertisements, until its history is too old: its publications can be
fetched for as long as they are promised. If it went to another broker, both offer its advertisements for a while, each
for the part that it stores; so the name of an advertisement ends with that of the broker.

An advertisement that is withdrawn when something was published under it is *retired*: nothing more is published under
it, but it stays offered until the last of that is forgotten, since it shows others the way to it, and for `marks_age`
longer, so that whoever asks is told that it is forgotten. It does not matter then how soon after publishing somebody
withdraws, or which links break meanwhile. Routing is told when it is over, or when a new one needs its place.

Whoever publishes must have advertised over the same connection: what a client may publish can be less than it was when
it last came. The advertisement is narrowed when it is made again, and if it is another one then, the old one retires.

When the history of a publisher that left is gone, it is *remembered*: its advertisements stay offered for `marks_age`,
of at most `marks_max` publishers, so that whoever asks for what it published hears that it is forgotten, and how much.

When all of that is gone the last number of the publisher is still remembered, for `numbers_age` (`history.py`): if it
comes back and repeats what it published before, because it never heard that it was accepted, it is recognised.

On disk. `publication/<publisher>/<first>-<last>` is a batch, `advertisement/<id>` an advertisement, `publisher/<name>`
what was forgotten (`saves.py`). After a restart the publishers are there again, as ones that left.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from tidings.machine.effects import Drop, Effect, Save
from tidings.matching.index.index import best_engine
from tidings.model.bounds import NAME_CHARS_MAX
from tidings.model.errors import UsageError
from tidings.model.filter import Filter
from tidings.model.identity import LIFE_MARK, NodeId, name_of
from tidings.model.language.parser import parse
from tidings.protocols.delivery.edge.advertisements import (
    Advertised,
    Publisher,
    SavedAdvertisement,
    advertisement_decoder,
    batch_decoder,
    batch_name,
)
from tidings.protocols.delivery.edge.clients import BadRequest, ServedClient, TenantUses
from tidings.protocols.delivery.edge.history import (
    NEVER,
    Engine,
    HistoryStore,
    PublisherNumbers,
    SavedPublisher,
    marks_of,
    size_bytes,
)
from tidings.protocols.delivery.edge.losses import LOST, StoreLosses
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.pubsub.publications import Publications, cut
from tidings.pubsub.signals import AdvertisementId, Offer, Ticket, Unoffer

TOO_MANY = (
    "a client has at most {count} advertisements, those included that were withdrawn and whose publications are still "
    "stored; withdraw one, or wait until history has forgotten them"
)
RESERVED_MARK = f"the name of a publisher holds no {LIFE_MARK}, which stands before its life; connect by another name"
TOO_MANY_LIVES = (
    "this name was used by {count} processes, one after the other, whose publications are still remembered; wait, or "
    "let one process publish more"
)
UNREADABLE = "was saved and cannot be read any more"

PIECES_STORED_MIN = 8
"""A full history of many publications consists of at least so many batches, and loses the oldest of them at a time."""

encoder = msgspec.msgpack.Encoder()


class Publishers:
    def __init__(self, node_id: NodeId, params: EdgeParams, uses: TenantUses, engine: Engine | None = "plain") -> None:
        self.node_id, self.params, self.uses, self.engine = node_id, params, uses, engine or best_engine()
        self.store = HistoryStore(params)
        self.all: dict[NodeId, Publisher] = {}
        self.lives: Counter[NodeId] = Counter()
        """How many of them have the same name, each another life of it."""
        self.remembered = 0
        """How many of them have left nothing but their marks."""
        self.offered: dict[AdvertisementId, Advertised] = {}
        self.numbers = PublisherNumbers(params)
        """Of those that are not here any more."""
        self.unsaved: set[AdvertisementId] = set()
        """Those that could not be saved; for membership only."""

    # Who is there.

    def arrive(self, client: ServedClient) -> None:
        publisher = self.all.get(client.publisher)
        if publisher is not None:
            publisher.client = client

    def leave(self, now: float, client: ServedClient) -> list[Effect]:
        publisher = self.all.get(client.publisher)
        if publisher is None or publisher.client is not client:
            return []
        publisher.client, publisher.left_at = None, now
        return self.sweep(now) if self.params.history_age == 0 else []

    def of(self, client: ServedClient) -> Publisher:
        """The client as a publisher, from now on if not before."""
        publisher = self.all.get(client.publisher)
        if publisher is None:
            if LIFE_MARK in client.name:
                raise BadRequest(RESERVED_MARK)
            if self.lives[client.name] >= self.params.lives_max:
                raise BadRequest(TOO_MANY_LIVES.format(count=self.params.lives_max))
            if len(self.all) - self.remembered >= self.params.publishers_max:
                raise BadRequest("this broker has as many publishers as it may have; publish at another one")
            client.use.add_publisher()
            publisher = self.restored(client.publisher)
            marks = self.numbers.take(client.publisher)
            if marks is not None:
                # On disk it stays as it is: until something is published it is all that is known.
                self.recall(publisher, marks)
        elif publisher.is_remembered:
            client.use.add_publisher()
            publisher.is_remembered = False
            publisher.use.publishers += 1
            self.remembered -= 1
        publisher.client = client
        return publisher

    def make_publisher(self, name: NodeId) -> Publisher:
        use = self.uses.of_publisher(name)
        use.publishers += 1
        return Publisher(name, self.store, self.engine, use)

    # Advertisements.

    def advertise(
        self, publisher: Publisher, number: int, filter: Filter, began: int, elsewhere: int = 0
    ) -> tuple[Advertised, list[Effect]]:
        """The advertisement under this number; if there is none yet, what is published under it begins with `began`.
        One that has another filter, of an earlier life of the client or narrowed since, makes room for it, and so does
        one under which something was published before what is `elsewhere`: readers have to ask anew."""
        known = publisher.advertisements.get(number)
        is_new, most = known is None or known.filter != filter, self.params.advertisements_max
        # What is kept for its marks alone refuses nobody an advertisement.
        effects = self.forget_retired(publisher, max(0, publisher.count + 1 - most)) if is_new else []
        count = publisher.count
        is_renewed = known is not None and known.misses(elsewhere) and count < most
        if known is not None and not is_new and not is_renewed:
            return known, []
        retired = (each for each in publisher.retired.values() if each.number == number and each.filter == filter)
        revived = None if is_renewed else next(retired, None)
        makes_room = revived is not None or (known is not None and not known.stored)
        if count >= most and not makes_room:
            raise BadRequest(TOO_MANY.format(count=most))
        if known is not None:
            # Whoever has no position begins where the first of them did.
            began = began if is_new else min(began, known.began)
            del publisher.advertisements[number]
            effects += self.retire(known)
        if revived is not None:
            del publisher.retired[revived.id]
            publisher.advertisements[number] = revived
            return revived, [*effects, *self.save_advertisement(revived)]
        made = self.make(publisher, number, filter, began)
        made.renewed_through = elsewhere
        publisher.advertisements[number] = self.offered[made.id] = made
        return made, [*effects, *self.save_advertisement(made)]

    def make(self, publisher: Publisher, number: int, filter: Filter, began: int) -> Advertised:
        taken = [each.generation for each in publisher.retired.values() if each.number == number]
        made = Advertised(publisher, number, filter, began, self.node_id, max(taken, default=-1) + 1)
        if len(made.id) > NAME_CHARS_MAX:
            raise BadRequest("the names of client and broker are too long together; connect by a shorter name")
        # Something is, if the advertisement was not saved and a crash came between.
        made.stored = sum(batch.advertisement == made.id for batch in publisher.history.batches)
        return made

    def retire(self, known: Advertised, ticket: Ticket | None = None) -> list[Effect]:
        """Nothing more is published under it."""
        known.client = None
        if not known.is_owed:
            return self.withdraw(known, ticket)
        known.publisher.retired[known.id] = known
        return self.save_advertisement(known)

    def forget_retired(self, publisher: Publisher, most: int | None = None) -> list[Effect]:
        """Those under which nothing is stored any more, the first of them first; `most` of them."""
        gone = publisher.kept_for_marks()[:most]
        for known in gone:
            del publisher.retired[known.id]
        return [effect for known in gone for effect in self.withdraw(known)]

    def save_advertisement(self, known: Advertised) -> list[Effect]:
        if not self.params.is_durable:
            return []
        name, is_retired = known.publisher.name, known.id in known.publisher.retired
        record = SavedAdvertisement(name, known.number, known.filter.text(), known.began, known.generation, is_retired)
        return [Save(f"advertisement/{known.id}", encoder.encode(record))]

    def withdraw(self, known: Advertised, ticket: Ticket | None = None) -> list[Effect]:
        del self.offered[known.id]
        self.unsaved.discard(known.id)
        removals = [Save(f"advertisement/{known.id}", None)] if self.params.is_durable else []
        return [Unoffer(known.id, ticket), *removals]

    # Publications.

    def keep(self, publisher: Publisher, batch: Publications, size: int) -> list[Effect]:
        """Store a batch that was accepted. History forgets batch by batch, so one that would be much of it is kept in
        pieces."""
        if self.params.history_age == 0:
            publisher.history.forget_batch(batch)
            return []
        count, most = len(batch.numbers), max(1, self.params.history_count_max // PIECES_STORED_MIN)
        if count <= most:
            return self.keep_piece(publisher, batch, size)
        pieces = [cut(batch, slice(place, place + most), receipt=0) for place in range(0, count, most)]
        return [effect for piece in pieces for effect in self.keep_piece(publisher, piece, size_bytes(piece))]

    def keep_piece(self, publisher: Publisher, batch: Publications, size: int) -> list[Effect]:
        self.offered[batch.advertisement].stored += 1
        effects: list[Effect] = []
        if self.store.size_bytes + size > self.params.history_bytes_total_max:
            for other in self.uses.surplus(self.store, size):
                effects += self.save_forgotten(other, [other.history.forget_first()])
        publisher.use.stored(publisher, batch.numbers[0], size)
        forgotten = publisher.history.append(batch, size)
        if self.params.is_durable:
            name = batch_name(batch)
            publisher.saving[name] = batch
            if not publisher.is_stuck:
                effects.append(Save(name, encoder.encode(batch)))
        if forgotten:
            effects += self.save_forgotten(publisher, forgotten)
        for other in publisher.use.surplus() if publisher.use.tenant.stored_bytes_max is not None else ():
            effects += self.save_forgotten(other, [other.history.forget_first()])
        return effects

    def save_forgotten(self, publisher: Publisher, forgotten: Sequence[Publications]) -> list[Effect]:
        for batch in forgotten:
            if batch.advertisement in self.offered:
                self.offered[batch.advertisement].stored -= 1
        if not forgotten or not self.params.is_durable:
            return []
        return [*self.save_marks(publisher), *(Save(batch_name(batch), None) for batch in forgotten)]

    def save_marks(self, publisher: Publisher) -> list[Effect]:
        if not self.params.is_durable:
            return []
        marks = marks_of(publisher.name, publisher.history, publisher.saved_through)
        return [Save(f"publisher/{publisher.name}", encoder.encode(marks))]

    def save_declined(self, publisher: Publisher) -> list[Effect]:
        """After a restart nobody shall look elsewhere for what came last and was declined."""
        if not self.params.is_durable or not publisher.is_declined_last:
            return []
        publisher.taken = publisher.through
        return self.save_marks(publisher)

    # A restart, and age.

    def forget_all(self) -> None:
        """What is in memory is going to be read from disk."""
        self.all.clear()
        self.remembered = 0
        self.lives.clear()
        self.offered.clear()
        self.numbers.clear()
        self.unsaved.clear()
        self.store.size_bytes = 0
        self.uses.forget_stored()

    def load(self, now: float, entries: tuple[tuple[str, bytes], ...]) -> list[Effect]:
        """What was there before a restart. The advertisements are offered again."""
        effects, surplus = list[Effect](), dict[NodeId, list[Publications]]()
        for name, data in entries:
            try:
                for batch in self.restore(name, data):
                    surplus.setdefault(batch.publisher, []).append(batch)
            except (msgspec.MsgspecError, UsageError, ValueError):
                effects.append(Drop(name, UNREADABLE))
        effects += self.erase(self.numbers.sweep(now + self.params.clock_offset))
        lost = [name for name, _ in entries if name.startswith(LOST)]
        effects += StoreLosses(self, now + self.params.clock_offset).admit(lost)
        for publisher in self.all.values():
            publisher.left_at = now
            forgotten = publisher.history.trim(now + self.params.clock_offset)
            effects += self.save_forgotten(publisher, [*surplus.get(publisher.name, ()), *forgotten])
        return effects + [Offer(each.id, each.publisher.name, each.filter) for each in self.offered.values()]

    def restore(self, name: str, data: bytes) -> list[Publications]:
        """Answers with what there is no room for any more."""
        # Sorted by name: advertisements, then publications in the order of their numbers, then publishers.
        match name.partition("/")[0]:
            case "advertisement":
                record = advertisement_decoder.decode(data)
                self.restore_advertisement(self.restored(record.publisher), record)
            case "publication":
                batch = batch_decoder.decode(data)
                publisher = self.restored(batch.publisher)
                if not batch.numbers or batch.numbers[0] <= publisher.through:
                    raise ValueError("the order of publications is broken")
                if publisher.history.base is None:
                    publisher.history.base = batch.numbers[0] - 1
                if batch.advertisement in self.offered:
                    self.offered[batch.advertisement].stored += 1
                publisher.through, publisher.accepted_at = batch.numbers[-1], batch.accepted_at
                size = size_bytes(batch)
                publisher.use.stored(publisher, batch.numbers[0], size)
                return publisher.history.append(batch, size)
            case "publisher":
                marks = SavedPublisher.decode(data)
                known = self.all.get(marks.publisher)
                if known is None:
                    self.numbers.add(marks)
                else:
                    self.recall(known, marks)
        return []

    def restore_advertisement(self, publisher: Publisher, record: SavedAdvertisement) -> None:
        began, generation = record.began, record.generation
        known = Advertised(publisher, record.number, parse(record.filter), began, self.node_id, generation)
        self.offered[known.id] = known
        if record.is_retired:
            publisher.retired[known.id] = known
        else:
            publisher.advertisements[known.number] = known

    def recall(self, publisher: Publisher, marks: SavedPublisher) -> None:
        publisher.through = publisher.taken = max(publisher.through, marks.through, marks.taken)
        publisher.accepted_at = max(publisher.accepted_at, marks.at)
        publisher.history.base, publisher.history.elsewhere = marks.base, list(marks.elsewhere)
        publisher.history.recall(marks.through, marks.at)
        while publisher.history.batches and publisher.history.batches[0].numbers[-1] <= marks.through:
            # A salvaged store may hold what was forgotten before.
            self.save_forgotten(publisher, [publisher.history.forget_first()])

    def restored(self, name: NodeId) -> Publisher:
        if name not in self.all:
            self.all[name] = self.make_publisher(name)
            self.lives[name_of(name)] += 1
        return self.all[name]

    def sweep(self, now: float) -> list[Effect]:
        """Forget what became too old, and with it the publishers that left before."""
        effects: list[Effect] = []
        for publisher in list(self.all.values()):
            forgotten = publisher.history.trim(now + self.params.clock_offset)
            effects += self.save_forgotten(publisher, forgotten)
            is_over = publisher.client is None and now - publisher.left_at >= self.params.history_age
            if is_over and not publisher.saving:
                effects += self.remember(now, publisher)
                continue
            kept_for = self.params.history_age + self.params.marks_age
            if now + self.params.clock_offset - publisher.history.forgotten_at >= kept_for:
                effects += self.forget_retired(publisher)
        if self.remembered > self.params.marks_max:
            remembered = [each for each in self.all.values() if each.is_remembered]
            remembered.sort(key=lambda each: each.left_at)
            for publisher in remembered[: -self.params.marks_max]:
                self.numbers.crowded_out_at = publisher.left_at
                effects += self.remove(publisher)
        return effects + self.erase(self.numbers.sweep(now + self.params.clock_offset))

    def remember(self, now: float, publisher: Publisher) -> list[Effect]:
        """Its history is over. Its advertisements stay for a while: whoever asks for more than is stored finds the way
        here, and is told."""
        gone_at = publisher.left_at + self.params.history_age + self.params.marks_age
        if publisher.accepted_at == NEVER or self.params.history_age == 0 or now >= gone_at:
            return self.remove(publisher)
        if publisher.is_remembered:
            return []
        publisher.is_remembered = True
        publisher.use.publishers -= 1
        self.remembered += 1
        return self.save_forgotten(publisher, publisher.history.clear())

    def remove(self, publisher: Publisher) -> list[Effect]:
        effects = self.save_forgotten(publisher, publisher.history.clear())
        for known in (*publisher.advertisements.values(), *publisher.retired.values()):
            effects += self.withdraw(known)
        del self.all[publisher.name]
        if publisher.is_remembered:
            self.remembered -= 1
        else:
            publisher.use.publishers -= 1
        self.lives[name_of(publisher.name)] -= 1
        if not self.lives[name_of(publisher.name)]:
            del self.lives[name_of(publisher.name)]
        if publisher.accepted_at == NEVER:
            return effects
        publisher.history.forget(publisher.through, publisher.accepted_at)
        self.numbers.add(marks_of(publisher.name, publisher.history, publisher.through))
        return effects + self.save_marks(publisher)

    def erase(self, names: Sequence[NodeId]) -> list[Effect]:
        """The numbers of these publishers are forgotten."""
        return [Save(f"publisher/{name}", None) for name in names] if self.params.is_durable else []

    def check(self) -> None:
        for publisher in self.all.values():
            publisher.history.check()
            stored = publisher.history.batches
            assert not stored or stored[-1].numbers[-1] <= publisher.through, "stored but not taken"
            mine = [*publisher.advertisements.values(), *publisher.retired.values()]
            assert all(self.offered.get(each.id) is each for each in mine), "an advertisement is not offered"
            assert not any(each.client for each in publisher.retired.values()), "published under what is withdrawn"
            under = Counter(batch.advertisement for batch in stored)
            assert all(each.stored == under[each.id] for each in mine), "what is stored is miscounted"
        assert self.remembered == sum(publisher.is_remembered for publisher in self.all.values()), "miscounted"
        assert self.lives == Counter(map(name_of, self.all)), "lives are miscounted"
        self.numbers.check()
        assert not any(name in self.numbers.marks for name in self.all), "remembered though it is here"
        for use in self.uses.all.values():
            present = [publisher for publisher in self.all.values() if publisher.use is use]
            assert use.publishers == sum(not publisher.is_remembered for publisher in present), "publishers"
            sizes = [publisher.history.size_bytes for publisher in self.all.values() if publisher.use is use]
            assert sum(sizes) == use.stored_bytes, "what a tenant stores is miscounted"
        held = sum(publisher.history.size_bytes for publisher in self.all.values())
        assert held == self.store.size_bytes <= self.params.history_bytes_total_max, "the store is miscounted"
