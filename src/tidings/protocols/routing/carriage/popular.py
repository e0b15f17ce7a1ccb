"""A carriage that goes by popularity: on the tree what is popular, and another way for what is not.

At the broker of a publisher each parcel is looked at (`popularity.py`). What belongs to a popular stream goes over the
link, as ever. The rest is diverted, as by `batching.py`. Parcels of other brokers' publishers are forwarded as they
come.

Never diverted: parcels that carry a receipt, which is answered along the tree; those of streams of which it is not
known yet who is behind the link; and those for which low latency was asked, where the other way takes longer.

Timer "popularity": the end of an interval, while there is anything to evaluate.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from tidings.machine.effects import Drop, Effect, SetTimer
from tidings.machine.inputs import Input, TimerKey
from tidings.machine.message import Message
from tidings.model.identity import NodeId
from tidings.protocols.routing.carriage.carriage import Parcel
from tidings.protocols.routing.carriage.plain import PlainCarriage
from tidings.protocols.routing.carrier import BatchCarrier
from tidings.protocols.routing.popularity import STREAMS_MAX, Evaluation, Popularity, StreamKey
from tidings.protocols.routing.tables import LiveHop
from tidings.pubsub.client import Latency
from tidings.pubsub.notes import Forwarded
from tidings.pubsub.publications import Publications, PublicationsAround
from tidings.pubsub.requests import CapacityMeasured, RatesForeseen
from tidings.pubsub.rows import Gauge, PopularityRow, View
from tidings.pubsub.signals import AdvertisementId

TIMER = "popularity"
LOCAL_MAX = 1_000_000
"""Clients here that match, up to which a note counts them."""

ROWS_MAX = 5000
"""Streams that are shown."""

RANKS: dict[Latency, int] = {"low": 0, "any": 1, "cheap": 2}
"""Whose streams are popular before others, and after them."""

NO_NEIGHBOUR = "gathered publications of a node that is no neighbour"


class PopularCarriage(PlainCarriage):
    messages: ClassVar[tuple[type[Message], ...]] = ()
    hears: ClassVar[tuple[type, ...]] = (CapacityMeasured, RatesForeseen)
    is_prompt: ClassVar[bool] = False
    """Whether what is diverted comes as soon as by the tree."""

    def __init__(self, carrier: BatchCarrier) -> None:
        super().__init__(carrier)
        self.carrier = carrier
        assert carrier.census is not None, "popularity needs counts"
        params = carrier.params
        self.popularity = Popularity(params.units_per_second, params.phi, carrier.census.toward, self.rank)
        self.rates_foreseen: dict[str, float] = {}
        """By advertisement or publisher, for now."""
        self.last = Evaluation(0, 0, 0.0, 0.0, 0.0)
        self.is_timed = False
        self.is_bystander = not params.notes_forwards
        """Whoever has no publisher decides nothing, and need not count."""
        self.diverted: dict[str, int] = {"tree": 0, "diverted": 0}
        """Publications of our clients times links, by the way they took, while some streams were not popular."""

        self.latencies: dict[AdvertisementId, Latency] = {}
        """What clients here ask for their advertisements, if anything."""

    def rank(self, advertisement: AdvertisementId) -> int:
        return RANKS[self.latency(advertisement)]

    def foreseen(self, advertisement: AdvertisementId) -> float | None:
        chosen = self.carrier.tables.chosen(advertisement)
        publisher = chosen[1].publisher if chosen is not None else ""
        return self.rates_foreseen.get(advertisement, self.rates_foreseen.get(publisher))

    def latency(self, advertisement: AdvertisementId) -> Latency:
        return self.latencies.get(advertisement, "any")

    def offered(self, advertisement: AdvertisementId, latency: Latency) -> None:
        self.is_bystander = False
        self.latencies.pop(advertisement, None)
        if latency != "any":
            self.latencies[advertisement] = latency

    def withdrawn(self, now: float, advertisement: AdvertisementId) -> list[Effect]:
        self.latencies.pop(advertisement, None)
        return super().withdrawn(now, advertisement)

    def start(self) -> None:
        self.is_timed = False

    def pass_on(self, now: float, source: LiveHop, parcels: Sequence[Parcel]) -> list[Effect]:
        if self.is_bystander and source is not None:
            return PlainCarriage.pass_on(self, now, source, parcels)
        effects = [] if self.is_timed else self.arm(now)
        if not (self.popularity.has_unpopular or self.is_diverting or self.params.notes_forwards):
            # The usual case, in which counting is all that popularity costs.
            streams = self.popularity.streams
            for neighbour, parcel in parcels:
                stream = streams.get((neighbour, parcel.advertisement))
                if stream is None:
                    self.popularity.offer(neighbour, parcel.advertisement, len(parcel.numbers))
                else:
                    stream.count += len(parcel.numbers)
            passed = PlainCarriage.pass_on(self, now, source, parcels)
            return effects + passed if effects else passed
        on_tree: list[Parcel] = []
        for neighbour, parcel in parcels:
            count = len(parcel.numbers)
            is_popular = self.popularity.offer(neighbour, parcel.advertisement, count)
            if source is not None or type(parcel) is PublicationsAround:
                # Only the publisher's broker diverts, and nothing that had to go around a failure already.
                self.overtake(now, neighbour, parcel, effects)
                on_tree.append((neighbour, parcel))
                self.note(neighbour, parcel, "tree", effects)
                continue
            may_divert = not is_popular and not parcel.receipt and self.may_divert(parcel.advertisement)
            is_diverted = may_divert and self.divert(now, neighbour, parcel, effects)
            self.diverted["diverted" if is_diverted else "tree"] += count
            if not is_diverted:
                self.overtake(now, neighbour, parcel, effects)
                self.note(neighbour, parcel, "tree", effects)
                on_tree.append((neighbour, parcel))
        return effects + super().pass_on(now, source, on_tree)

    @property
    def is_diverting(self) -> bool:
        """Whether something waits, or was told, that what goes by the tree must not pass."""
        return False

    @property
    def publishes(self) -> bool:
        return bool(self.carrier.tables.offers_of[None])

    def may_divert(self, advertisement: AdvertisementId) -> bool:
        return self.is_prompt or self.latency(advertisement) != "low"

    def divert(self, now: float, neighbour: NodeId, parcel: Publications, effects: list[Effect]) -> bool:
        """Take it another way, unless it has to go by the tree."""
        raise NotImplementedError

    def overtake(self, now: float, neighbour: NodeId, parcel: Publications, effects: list[Effect]) -> None:
        """It leaves over the link now; what must not come behind it goes ahead."""

    def note(self, neighbour: NodeId, parcel: Publications, via: str, effects: list[Effect]) -> None:
        """One message leaves, for whoever measures what it brings."""
        if self.params.notes_forwards:
            gain = self.popularity.gain(neighbour, parcel.advertisement) * len(parcel.numbers)
            effects.append(self.forwarded(parcel, via, 1, gain))

    def forwarded(self, parcel: Publications, via: str, links: int, gain: float) -> Forwarded:
        matched = self.carrier.tables.local_index.match_heads(list(parcel.heads), LOCAL_MAX)
        local = sum(len(keys) for keys in matched if keys)
        return Forwarded(via=via, links=links, local=local, gain=gain, publisher=parcel.publisher)

    def arm(self, now: float) -> list[Effect]:
        if self.is_timed:
            return []
        self.is_timed = True
        return [SetTimer(TIMER, now + self.params.evaluated_every)]

    def close(self, neighbour: NodeId) -> list[Effect]:
        self.popularity.forget(neighbour)
        return super().close(neighbour)

    def hear(self, now: float, input: Input) -> list[Effect]:
        match input:
            case CapacityMeasured(units_per_second) if self.params.capacity is None and units_per_second > 0:
                self.popularity.capacity = units_per_second
            case RatesForeseen(rates):
                self.rates_foreseen = dict(rates[:STREAMS_MAX])
                self.popularity.foreseen = self.foreseen if rates else None
        return []

    def fired(self, now: float, key: TimerKey) -> list[Effect]:
        return self.evaluate(now) if key == TIMER else []

    def evaluate(self, now: float) -> list[Effect]:
        self.is_timed = False
        self.is_bystander = not (self.publishes or self.params.notes_forwards)
        if not self.popularity.streams:
            return []
        self.last = self.popularity.evaluate(self.params.evaluated_every)
        return [*self.evaluated(now), *self.arm(now)]

    def evaluated(self, now: float) -> list[Effect]:
        """It is known anew what is popular."""
        return []

    # What others may look at.

    def way_of(self, key: StreamKey) -> str:
        """How its next publication goes."""
        is_on_tree = self.popularity.streams[key].is_popular or not self.may_divert(key[1])
        return "tree" if is_on_tree else self.params.popularity

    def rows(self) -> Iterator[PopularityRow]:
        """Those first of which it is decided here."""
        own = self.carrier.tables.offers_of[None]
        keys = sorted(self.popularity.sorted_keys(), key=lambda key: key[1] not in own)
        for neighbour, advertisement in keys[:ROWS_MAX]:
            stream = self.popularity.streams[neighbour, advertisement]
            tally = self.popularity.behind(neighbour, advertisement)
            is_here, chosen = advertisement in own, self.carrier.tables.chosen(advertisement)
            yield PopularityRow(
                neighbour=neighbour,
                advertisement=advertisement,
                publisher=chosen[1].publisher if chosen is not None else "",
                subscriptions=tally.subscriptions,
                hops=tally.hop_sum / tally.subscriptions if tally.subscriptions else 0.0,
                gain=self.popularity.gain(neighbour, advertisement),
                rate=stream.rate,
                way=self.way_of((neighbour, advertisement)) if is_here else "tree",
                latency=self.latency(advertisement),
                is_here=is_here,
            )

    def views(self) -> Mapping[str, View]:
        return {"streams": lambda _: self.rows()}

    def gauges(self) -> Iterable[Gauge]:
        yield Gauge("popularity_streams", "links and advertisements with traffic", self.last.streams)
        yield Gauge("popularity_streams_popular", "those of them that go by the tree", self.last.popular)
        yield Gauge("popularity_target", "publications a second that are for the tree", self.popularity.target)
        yield Gauge("popularity_gain", "deliveries for each forward of what is popular", self.last.gain)
        meaning = "publications of clients here times links, by the way they took, while some streams were not popular"
        for way, count in self.diverted.items():
            yield Gauge("popularity_publications", meaning, count, {"way": way})

    def check(self) -> None:
        super().check()
        self.popularity.check()
        assert not (self.is_bystander and self.publishes), "counts nothing, and has a publisher"
        assert self.latencies.keys() <= self.carrier.tables.offers_of[None].keys(), "asked for what nobody offers"


def lost(batches: Iterable[Publications], reason: str) -> list[Effect]:
    return [Drop(batch, reason) for batch in batches]
