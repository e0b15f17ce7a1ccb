"""Carrier: what the transport needs of the network below it, whichever that is.

A carrier is a client of some network that publishes and subscribes. It is a machine that takes the requests of
`pubsub/client.py` and delivers the answers that are there: the session with our brokers is one (`nodes/client.py`),
those that promise nothing are others (`best_effort.py`). So the transport stands between an application and a client
that speak the same words, and neither side need know that it is there.

    asked of it      OpenSubscription, CloseSubscription     want and unwant what matches a filter
                     PublishBatch                            publish these bytes
                     OpenAdvertisement, CloseAdvertisement   say first what is going to be published
                     Took                                    this much was taken, more may come
                     ReadHistory, ReadMarks                  what is stored
    told by it       Arrived                                 for one subscription, each event once
                     Begun, Confirmed, Failed, Ended         of subscriptions, advertisements, readings
                     Accepted, Declined, Missed              of publications, on either side
                     HistoryRead, MarksRead
                     PeerUp                                  another broker serves us, and may allow more

It may bring events late, in another order, or never; twice, if it says so (`repeats`). A carrier that has no receipts
confirms at once, without one; one that has no history fails what is to be read; one without advertisements takes all
for advertised.

Two questions are answered at once: whether it would take a batch now (`takes`, and `window` for more), and how far a
subscription has come (`position`).

What an application says to the transport besides, and hears from it, is here too.
"""

from collections.abc import Hashable
from typing import Any, Protocol

import msgspec

from tidings.machine.effects import Effect
from tidings.machine.inputs import Request
from tidings.machine.machine import Machine
from tidings.model.errors import UsageError
from tidings.protocols.transport.params import TransportParams, check_modes
from tidings.protocols.transport.signals import Way
from tidings.pubsub.client import Arrived, OpenSubscription, PublishBatch, Window

Order = Effect | Request
"""What a part of the adapter wants done: by the world, by the transport (a signal) or by the carrier (a request)."""


class Carrier(Machine, Protocol):
    @property
    def repeats(self) -> bool:
        """Whether an event may arrive for a subscription that has it already."""

    @property
    def window(self) -> Window: ...

    def takes(self, request: PublishBatch) -> bool:
        """Whether it would be published, or kept until it is."""

    def position(self, subscription: int, publisher: str) -> int | None:
        """The publisher's number up to which the subscription has everything that it is going to get by itself; None
        if there is no such subscription, or nobody knows."""


class Modes(msgspec.Struct, frozen=True):
    """What the transport does for a subscription."""

    is_ordered: bool = True
    is_reliable: bool = False
    is_paced: bool = False
    priority: float = 1.0
    """Weight of its filter when the rate that we can take is divided among ours."""


def modes_of(
    params: TransportParams,
    ordered: bool | None = None,
    reliable: bool | None = None,
    paced: bool | None = None,
    priority: float = 1.0,
) -> Modes:
    """Of a subscription that names some of them; the others are the client's, as far as the order allows."""
    is_ordered = params.is_ordered if ordered is None else ordered
    is_reliable = (params.is_reliable and is_ordered) if reliable is None else reliable
    is_paced = (params.is_paced and is_ordered) if paced is None else paced
    return checked_modes(Modes(is_ordered, is_reliable, is_paced, priority), params)


def checked_modes(modes: Modes, params: TransportParams) -> Modes:
    """UsageError where they do not go together."""
    check_modes(modes.is_ordered, modes.is_reliable, modes.is_paced, params.ordering.mode)
    if not modes.priority > 0:
        raise UsageError(f"priority: {modes.priority} is no weight; give a number above 0")
    return modes


# Requests.


class OpenCarried(Request, frozen=True):
    """`OpenSubscription` with modes of its own; without them a subscription has those of the client."""

    request: OpenSubscription
    modes: Modes


class SetModes(Request, frozen=True):
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


# Between the transport and its carrier.


class Own(msgspec.Struct, frozen=True):
    """A ticket of the transport's own requests; the application never sees one."""

    what: str
    key: Hashable = None


class Subscribed(msgspec.Struct):
    """A subscription of the application that is confirmed: what it matches, as installed, and its modes."""

    filter: str
    modes: Modes
