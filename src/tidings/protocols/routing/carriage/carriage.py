"""What a carriage is: the part of routing that takes parcels of publications to neighbours.

The carrier (`carrier.py`) finds out which neighbour wants what of a batch; the carriage takes it there. The plain one
(`plain.py`) sends each parcel as soon as the neighbour takes it. Others are made from it: `aired.py` says a parcel once
to all who are in reach; where routing goes by popularity (`popular.py`), what few want is gathered (`batching.py`).

A carriage may have messages and timers of its own, and gives back to the carrier what arrived in them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Protocol

from tidings.machine.effects import Effect
from tidings.machine.inputs import Input, Signal, TimerKey
from tidings.machine.message import Message
from tidings.model.identity import NodeId
from tidings.protocols.routing.messages import PublicationsSkipped
from tidings.protocols.routing.tables import LiveHop
from tidings.pubsub.client import Latency
from tidings.pubsub.publications import Publications
from tidings.pubsub.rows import Gauge, View
from tidings.pubsub.signals import AdvertisementId

Parcel = tuple[NodeId, Publications]
"""A neighbour, and what it wants of a batch, under the receipt that it is to answer."""


class Carriage(Protocol):
    """Made from the `BatchCarrier` of its router."""

    messages: ClassVar[tuple[type[Message], ...]]
    """Its own; only these are heard from nodes that are no neighbours, too."""
    hears: ClassVar[tuple[type, ...]]
    tells: ClassVar[tuple[type[Signal], ...]]
    """Signals and requests of its own, as those of any part of a node."""

    def start(self) -> None:
        """There is no timer any more; every link was closed."""
        ...

    def pass_on(self, now: float, source: LiveHop, parcels: Sequence[Parcel]) -> list[Effect]:
        """Parcels of one batch, which came from `source`. Neighbours that want the same have the same object."""
        ...

    def open(self, neighbour: NodeId) -> list[Effect]:
        """A life of the link to this neighbour begins; nothing is on its way there."""
        ...

    def close(self, neighbour: NodeId) -> list[Effect]:
        """It is over."""
        ...

    def skip(self, skipped: PublicationsSkipped, neighbours: Iterable[NodeId]) -> list[Effect]:
        """Tell these, behind the parcels that were passed on before, that something was left out."""
        ...

    def taken(self, neighbour: NodeId, total_bytes: int) -> list[Effect]:
        """So much of what was sent there is taken."""
        ...

    def drain(self, neighbour: NodeId) -> tuple[bool, list[Effect]]:
        """What waits for others to the same neighbour leaves; and whether nothing waits any more."""
        ...

    def count_waiting(self) -> int:
        """Parcels that wait for room."""
        ...

    def receive(self, now: float, sender: NodeId, message: Message) -> list[Effect]:
        """One of `messages`."""
        ...

    def hear(self, now: float, input: Input) -> list[Effect]:
        """One of those it hears."""
        ...

    def offered(self, advertisement: AdvertisementId, latency: Latency) -> None:
        """A client of this broker is going to publish under it, and asks for this."""
        ...

    def withdrawn(self, now: float, advertisement: AdvertisementId) -> list[Effect]:
        """A client of this broker withdraws it, which neighbours are told behind this."""
        ...

    def fired(self, now: float, key: TimerKey) -> list[Effect]: ...

    def gauges(self) -> Iterable[Gauge]: ...

    def views(self) -> Mapping[str, View]: ...

    def check(self) -> None: ...
