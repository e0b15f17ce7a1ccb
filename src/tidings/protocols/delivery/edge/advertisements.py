"""A publisher here, and its advertisements: what it says it is going to publish, how that is named, how it is saved.

The name of an advertisement holds the publisher, the number that the client gave it, and the broker that offers it: a
publisher that moved is offered by both brokers for a while, each for the part that it stores. One that was withdrawn,
and whose publications are still stored, stays offered beside another under the same number: then a generation tells
them apart.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from tidings.model.filter import Filter
from tidings.model.identity import NodeId
from tidings.model.sets.conjunction import Conjunction
from tidings.protocols.delivery.edge.clients import ServedClient
from tidings.protocols.delivery.edge.history import NEVER, Engine, HistoryStore, PublisherHistory, Sieve
from tidings.pubsub.client import Latency
from tidings.pubsub.publications import Publications
from tidings.pubsub.signals import AdvertisementId
from tidings.pubsub.tenants import TENANT_ATTRIBUTE

if TYPE_CHECKING:
    from tidings.protocols.delivery.edge.clients import TenantUse


ORIGINS_MAX = 16
"""Brokers that are asked for one publisher."""


class SavedAdvertisement(msgspec.Struct, frozen=True, array_like=True):
    publisher: str
    number: int
    filter: str
    began: int = 1
    generation: int = 0
    is_retired: bool = False


advertisement_decoder = msgspec.msgpack.Decoder(SavedAdvertisement)
batch_decoder = msgspec.msgpack.Decoder(Publications)


def batch_name(batch: Publications) -> str:
    """Sorted names are in the order of numbers."""
    return f"publication/{batch.publisher}/{batch.numbers[0]:019d}-{batch.numbers[-1]:019d}"


def advertisement_id(publisher: NodeId, number: int, broker: NodeId, generation: int = 0) -> AdvertisementId:
    """Those under one number that have had different filters, and are all still offered, are told apart."""
    return f"{publisher}/{number}.{generation}@{broker}" if generation else f"{publisher}/{number}@{broker}"


def origin_of(advertisement: AdvertisementId) -> NodeId:
    """The broker that offers it."""
    return advertisement.rpartition("@")[2]


def publisher_of(advertisement: AdvertisementId) -> NodeId:
    return advertisement.rpartition("@")[0].rpartition("/")[0] or advertisement


def one_at_each_broker(advertisements: Iterable[AdvertisementId]) -> list[AdvertisementId]:
    """Of those of one publisher, which several brokers may offer."""
    first: dict[NodeId, AdvertisementId] = {}
    for each in advertisements:
        first.setdefault(origin_of(each), each)
    return list(first.values())[:ORIGINS_MAX]


class Advertised:
    def __init__(
        self, publisher: "Publisher", number: int, filter: Filter, began: int, broker: NodeId, generation: int
    ) -> None:
        self.publisher, self.number, self.filter, self.generation = publisher, number, filter, generation
        self.id = advertisement_id(publisher.name, number, broker, generation)
        self.began = began
        """What is published under it has this number of its publisher, or a higher one."""
        self.renewed_through = 0
        """It was made when it was known that the publisher has published elsewhere up to this number."""
        self.client: ServedClient | None = None
        """The connection over which it was made; only there something is published under it."""
        self.latency: Latency = "any"
        """What was asked over that connection."""
        self.stored = 0
        """Batches in the history that were published under it."""
        self.sieve = Sieve(filter, publisher.engine)
        self.is_everything = filter.residual is None and any(map(is_any_of_tenant, filter.conjunctions))
        """Then only routing needs to decode a head, and it refuses what is malformed."""
        self.within: set[bytes] = set()
        """Heads that are known to match."""

    @property
    def is_owed(self) -> bool:
        """Whether somebody may ask for what was published under it: it is stored, or may be among what is forgotten."""
        return self.stored > 0 or self.began <= self.publisher.history.forgotten_through

    def misses(self, elsewhere: int) -> bool:
        """Whether something may have been published under it elsewhere, up to this number, since it was made."""
        return self.began <= elsewhere and self.renewed_through < elsewhere


def is_any_of_tenant(conjunction: Conjunction) -> bool:
    """Whether it asks for nothing but the tenant, which what is published has in any case."""
    return all(constraint.name == TENANT_ATTRIBUTE for constraint in conjunction)


class Publisher:
    def __init__(self, name: NodeId, store: HistoryStore, engine: Engine, use: "TenantUse") -> None:
        self.name, self.engine, self.use = name, engine, use
        self.history = PublisherHistory(store, use.forgotten)
        self.advertisements: dict[int, Advertised] = {}
        self.retired: dict[AdvertisementId, Advertised] = {}
        self.client: ServedClient | None = None
        self.left_at = 0.0
        self.is_remembered = False
        """Whether it has left, and nothing but its marks is left of it."""
        self.first = 1
        """With this number the present life of the publisher began."""
        self.through = 0
        """Publications up to this number were taken or declined."""
        self.accepted_at = NEVER
        self.taken = 0
        """The last number that is known on disk to have been taken or declined, where what came last was declined."""
        self.saving: dict[str, Publications] = {}
        """What is on its way to the disk, in that order."""
        self.is_stuck = False
        """Whether one of these could not be saved: then those behind it wait until it is tried again, lest there is a
        hole on the disk."""

    @property
    def count(self) -> int:
        """Of its advertisements, the retired ones included."""
        return len(self.advertisements) + len(self.retired)

    def kept_for_marks(self) -> list[Advertised]:
        """Advertisements that are retired, and under which nothing is stored any more."""
        return [] if self.history.lost else [each for each in self.retired.values() if not each.stored]

    @property
    def next(self) -> int:
        """What it publishes from now on has this number, or a higher one."""
        return max(self.through + 1, self.first)

    @property
    def is_declined_last(self) -> bool:
        """Whether what came last was declined, all before it is saved, and the disk does not know."""
        stored = self.history.batches[-1].numbers[-1] if self.history.batches else 0
        return not self.saving and self.through > max(stored, self.taken)

    @property
    def saved_through(self) -> int:
        first = next(iter(self.saving.values()), None)
        return self.through if first is None else first.numbers[0] - 1

    @property
    def reach(self) -> int:
        """Up to this number it is settled what is stored here."""
        return max(self.saved_through, self.history.forgotten_through)

    @property
    def last(self) -> int:
        """The last publication that was accepted, and saved where it is saved: no crash makes it less."""
        return self.history.last_below(self.saved_through + 1)

    def number_before(self, at: float) -> int:
        """Up to this number everything was accepted before that time, and no crash has it accepted again, later."""
        return min(self.history.number_before(at), self.last)
