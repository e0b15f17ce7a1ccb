"""How publications get to those who want them, once it is known who does.

The carrier (`carrier.py`) cuts a batch into one parcel for each neighbour that wants something of it. What becomes of
the parcels is a *carriage*'s affair: the plain one sends each at once (`plain.py`); others gather small ones for a
while, take a short cut to brokers further away, or tell them to whoever is in reach. A carriage is a class in a file of
its own; it may have messages and timers, and gives back to the carrier what arrived in its own messages.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

from tidings.machine.effects import Effect
from tidings.machine.inputs import TimerKey
from tidings.machine.message import Message
from tidings.model.identity import NodeId
from tidings.protocols.routing.carriage.plain import PlainCarriage
from tidings.protocols.routing.params import CarriageName
from tidings.protocols.routing.tables import LiveHop
from tidings.pubsub.publications import Publications

if TYPE_CHECKING:
    from tidings.protocols.routing.carriage.carrier import BatchCarrier

Parcel = tuple[NodeId, Publications]
"""A neighbour, and what it wants of a batch, under the receipt that it is to answer."""


class Carriage(Protocol):
    """Made from the `BatchCarrier` of its router."""

    messages: ClassVar[tuple[type[Message], ...]]
    """Its own; only these are heard from nodes that are no neighbours, too."""

    def pass_on(self, now: float, source: LiveHop, parcels: Sequence[Parcel]) -> list[Effect]:
        """Parcels of one batch, which came from `source`. Neighbours that want the same have the same object."""
        ...

    def receive(self, now: float, sender: NodeId, message: Message) -> list[Effect]:
        """One of `messages`."""
        ...

    def fired(self, now: float, key: TimerKey) -> list[Effect]: ...

    def check(self) -> None: ...


MakeCarriage = Callable[["BatchCarrier"], Carriage]

CARRIAGES: dict[CarriageName, type[PlainCarriage]] = {"plain": PlainCarriage}
