"""What an application says to a carried client, and hears from it, besides the items of the session."""

from collections.abc import Callable, Hashable
from typing import Any

import msgspec

from tidings.machine.effects import Effect
from tidings.protocols.transport.signals import Way
from tidings.pubsub.client import Arrived, OpenSubscription


class Modes(msgspec.Struct, frozen=True):
    """What the transport does for a subscription."""

    is_ordered: bool = True
    is_reliable: bool = False
    is_paced: bool = False
    priority: float = 1.0
    """Weight of its filter when the rate that we can take is divided among ours."""


# Requests.


class OpenCarried(msgspec.Struct, frozen=True):
    """`OpenSubscription` with modes of its own; without them a subscription has those of the client."""

    request: OpenSubscription
    modes: Modes


class SetModes(msgspec.Struct, frozen=True):
    """Other modes from now on, for a subscription that is open."""

    subscription: int
    modes: Modes


# Answers.


class Carried(Arrived, frozen=True):
    """Events that did not come straight through: they were held back (`latch` is for how long they should have been,
    `held` for how long they were), or came some other way. Where the number that the broker gave to an event is not
    known, it is 0."""

    way: Way
    latch: float
    held: float

    def about(self) -> dict[str, Any]:
        said = super().about() | {"latch": self.latch, "hold": self.held, "late": self.way == "late"}
        return said | {"repaired": True, "way": self.way} if self.way in ("repaired", "history") else said

    def is_numbered(self, number: int) -> bool:
        return number > 0


class RoomMade(msgspec.Struct, frozen=True):
    """Events that waited for their turn have left; whoever waits to publish may try again."""


# Inside.


class Own(msgspec.Struct, frozen=True):
    """A ticket of the transport's own requests; the application never sees one."""

    what: str
    key: Hashable = None


Hear = Callable[[float, list[Effect]], list[Effect]]
"""Carries out what the session, or the transport, has answered; what is left is for the world."""
