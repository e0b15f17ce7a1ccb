"""Batches: what few want is gathered at its publisher's broker, and travels together.

The problem. What forwarding costs a broker is mostly the same for a message with one publication or with a hundred. A
stream that few want comes in single publications like any other.

The idea. What is not popular waits in a buffer, for each link and advertisement. A batch leaves when so many wait that
they are together as good as one publication of the least popular stream (`ceil(gain_min / gain)`), or `batched_for`
seconds after the first of them. On its way it is cut by destination like any batch, and never waits again.

Order. The numbers of a publisher ascend over all its advertisements, and whoever must not miss any goes by them. So
nothing of a publisher passes on a link what waits there of it: a popular publication, one with a receipt, a mark that
something was left out, or one under another advertisement of it sends ahead what waits. Neither does the word that the
advertisement is withdrawn.

Bounds. `batched_bytes_max` for all buffers; beyond it a batch leaves at once, and so does one that is as large as a
message may be. What waits for a link that breaks is dropped, as what is on its way is: its publisher becomes known
again elsewhere, and whoever must not miss anything asks for history.

Timer ("batch", neighbour, publisher).

Guaranteed: nothing waits longer than `batched_for` for its batch; the order of each publisher is as without. What waits
is lost with its broker when that is killed, unless it stores what it accepts.

Source: PopSub 5.4.2 (Alg 3 and 4), specification 3.4.5, repair G-29.
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from tidings.machine.effects import CancelTimer, Drop, Effect, Send, SetTimer
from tidings.machine.inputs import TimerKey
from tidings.machine.message import Message
from tidings.model.bounds import BATCH_BYTES_MAX, PIECE_OVERHEAD_BYTES_MAX, PUBLICATIONS_MAX
from tidings.model.identity import NodeId
from tidings.protocols.routing.around import do_ascend
from tidings.protocols.routing.carriage.carriage import Parcel
from tidings.protocols.routing.carriage.plain import PlainCarriage
from tidings.protocols.routing.carriage.popular import NO_NEIGHBOUR, PopularCarriage, lost
from tidings.protocols.routing.carrier import BatchCarrier
from tidings.protocols.routing.messages import PublicationsSkipped, PublicationsTaken
from tidings.protocols.routing.parcels import LINK_GONE, size_of
from tidings.protocols.routing.tables import LiveHop
from tidings.pubsub.gathered import GatheredPublications, join, runs_of, taken_apart, with_times
from tidings.pubsub.publications import Publications
from tidings.pubsub.rows import Gauge
from tidings.pubsub.signals import AdvertisementId, Matched

TIMER = "batch"
NOT_GATHERED = "is not gathered: its numbers do not ascend, or it asks for a receipt"


class Buffer:
    """What waits for a link of one advertisement."""

    __slots__ = ("advertisement", "batches", "count", "size_bytes")

    def __init__(self, advertisement: AdvertisementId) -> None:
        self.advertisement = advertisement
        self.batches: list[Publications] = []
        self.count = self.size_bytes = 0

    def has_room(self, parcel: Publications) -> bool:
        return (
            self.count + len(parcel.numbers) <= PUBLICATIONS_MAX
            and self.size_bytes + bytes_of(parcel) <= BATCH_BYTES_MAX
        )

    def put(self, parcel: Publications) -> None:
        self.batches.append(parcel)
        self.count += len(parcel.numbers)
        self.size_bytes += bytes_of(parcel)


class BatchingCarriage(PopularCarriage):
    messages: ClassVar[tuple[type[Message], ...]] = (GatheredPublications,)

    def __init__(self, carrier: BatchCarrier) -> None:
        super().__init__(carrier)
        self.buffers: dict[NodeId, dict[str, Buffer]] = {}
        """For each link and publisher: of one advertisement at a time."""
        self.size_bytes = 0
        self.carried: GatheredPublications | None = None
        """What is being carried just now."""
        self.batches = self.batched = 0
        """Batches that left, and the publications in them."""

    def start(self) -> None:
        super().start()
        self.buffers.clear()
        self.size_bytes = 0

    # At the publisher's broker.

    def divert(self, now: float, neighbour: NodeId, parcel: Publications, effects: list[Effect]) -> bool:
        if not self.popularity.diverts(neighbour, parcel.advertisement):
            return False
        mine = self.buffers.setdefault(neighbour, {})
        buffer = mine.get(parcel.publisher)
        if buffer is not None and (buffer.advertisement != parcel.advertisement or not buffer.has_room(parcel)):
            self.flush(neighbour, parcel.publisher, effects)
            buffer = None
        if buffer is None:
            buffer = mine[parcel.publisher] = Buffer(parcel.advertisement)
            effects.append(SetTimer((TIMER, neighbour, parcel.publisher), now + self.params.batched_for))
        buffer.put(parcel)
        self.size_bytes += bytes_of(parcel)
        is_full = self.size_bytes > self.params.batched_bytes_max
        if is_full or buffer.count >= self.popularity.batch_size(neighbour, parcel.advertisement):
            self.flush(neighbour, parcel.publisher, effects)
        return True

    @property
    def is_diverting(self) -> bool:
        return self.size_bytes > 0

    def overtake(self, now: float, neighbour: NodeId, parcel: Publications, effects: list[Effect]) -> None:
        self.flush(neighbour, parcel.publisher, effects)

    def take_out(self, neighbour: NodeId, publisher: str, effects: list[Effect]) -> Buffer | None:
        """It does not wait any more."""
        mine = self.buffers.get(neighbour)
        if not mine or publisher not in mine:
            return None
        buffer = mine.pop(publisher)
        self.size_bytes -= buffer.size_bytes
        effects.append(CancelTimer((TIMER, neighbour, publisher)))
        return buffer

    def flush(self, neighbour: NodeId, publisher: str, effects: list[Effect]) -> None:
        """What waits of this publisher leaves."""
        buffer = self.take_out(neighbour, publisher, effects)
        if buffer is not None:
            self.batches += 1
            self.batched += buffer.count
            parcel = join(buffer.batches)
            self.note(neighbour, parcel.batch, "batch", effects)
            self.flows[neighbour].put(parcel, effects)

    def skip(self, skipped: PublicationsSkipped, neighbours: Iterable[NodeId]) -> list[Effect]:
        effects: list[Effect] = []
        neighbours = tuple(neighbours)
        for neighbour in neighbours:
            self.flush(neighbour, skipped.publisher, effects)
        return effects + super().skip(skipped, neighbours)

    def drain(self, neighbour: NodeId) -> tuple[bool, list[Effect]]:
        effects: list[Effect] = []
        for publisher in list(self.buffers.get(neighbour, ())):
            self.flush(neighbour, publisher, effects)
        return super().drain(neighbour)[0], effects

    def withdrawn(self, now: float, advertisement: AdvertisementId) -> list[Effect]:
        effects: list[Effect] = []
        for neighbour, mine in self.buffers.items():
            for publisher in [name for name, buffer in mine.items() if buffer.advertisement == advertisement]:
                self.flush(neighbour, publisher, effects)
        return effects + super().withdrawn(now, advertisement)

    def close(self, neighbour: NodeId) -> list[Effect]:
        effects: list[Effect] = []
        for publisher in list(self.buffers.get(neighbour, ())):
            buffer = self.take_out(neighbour, publisher, effects)
            effects += lost(buffer.batches if buffer is not None else (), LINK_GONE)
        self.buffers.pop(neighbour, None)
        return effects + super().close(neighbour)

    def fired(self, now: float, key: TimerKey) -> list[Effect]:
        match key:
            case (str(kind), str(neighbour), str(publisher)) if kind == TIMER:
                effects: list[Effect] = []
                self.flush(neighbour, publisher, effects)
                return effects
        return super().fired(now, key)

    # On the way.

    def receive(self, now: float, sender: NodeId, message: Message) -> list[Effect]:
        link = self.carrier.links.get(sender)
        if link is None or not link.is_heard or not isinstance(message, GatheredPublications):
            return [Drop(message, NO_NEIGHBOUR)]
        if message.batch.receipt or not do_ascend(message.batch.numbers):
            return [Drop(message.batch, NOT_GATHERED)]
        effects: list[Effect] = []
        taken_bytes = link.publications_taken.take(size_of(message.batch))
        if taken_bytes is not None:
            effects.append(Send(sender, PublicationsTaken(taken_bytes)))
        batch = message.batch
        if self.carrier.heavy.must_wait(sender, batch):
            # It is carried later, and by then nobody knows the times.
            for part in taken_apart(message):
                effects += self.carrier.take(now, link, part)
            return effects
        self.carried = message
        for effect in self.carrier.take(now, link, batch):
            effects += self.matched_in_time(effect) if type(effect) is Matched else (effect,)
        self.carried = None
        return effects

    def in_time(self, batch: Publications) -> GatheredPublications:
        """What is being carried, or a part of it, with its times."""
        assert self.carried is not None
        if batch is self.carried.batch:
            return self.carried
        return with_times(batch, dict(zip(self.carried.batch.numbers, self.carried.times, strict=True)))

    def matched_in_time(self, matched: Matched) -> list[Effect]:
        """As they were accepted."""
        gathered = self.in_time(matched.batch)
        runs, wanted = runs_of(gathered.times), matched.wanted[:]
        return [Matched(part, wanted[run]) for run, part in zip(runs, taken_apart(gathered), strict=True)]

    def pass_on(self, now: float, source: LiveHop, parcels: Sequence[Parcel]) -> list[Effect]:
        if self.carried is None or source is None:
            if self.is_bystander and source is not None:
                return PlainCarriage.pass_on(self, now, source, parcels)
            return PopularCarriage.pass_on(self, now, source, parcels)
        counts = self.publishes or self.params.notes_forwards
        effects = self.arm(now) if counts else []
        for neighbour, parcel in parcels:
            if counts:
                self.popularity.offer(neighbour, parcel.advertisement, len(parcel.numbers))
                self.note(neighbour, parcel, "batch", effects)
            self.flows[neighbour].put(self.in_time(parcel), effects)
        return effects

    # What others may look at.

    def gauges(self) -> Iterable[Gauge]:
        yield from super().gauges()
        yield Gauge("popularity_batches", "batches that left", self.batches)
        yield Gauge("popularity_batched", "publications in them", self.batched)
        yield Gauge("popularity_batched_bytes", "bytes that wait for their batch", self.size_bytes)

    def check(self) -> None:
        super().check()
        buffers = [(neighbour, buffer) for neighbour, mine in self.buffers.items() for buffer in mine.values()]
        assert self.size_bytes == sum(buffer.size_bytes for _, buffer in buffers), "what waits is miscounted"
        for neighbour, buffer in buffers:
            assert neighbour in self.flows and buffer.batches, "something waits for nobody, or nothing waits"
            numbers = [number for batch in buffer.batches for number in batch.numbers]
            assert numbers == sorted(set(numbers)) and len(numbers) == buffer.count, "the order is broken"


def bytes_of(batch: Publications) -> int:
    """What it takes of the room of a message."""
    return (
        sum(map(len, batch.heads)) + sum(map(len, batch.payloads)) + len(batch.numbers) * 2 * PIECE_OVERHEAD_BYTES_MAX
    )
