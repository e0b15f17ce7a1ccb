"""What an application and its session say to each other.

Requests go in as orders; each carries a `ticket` of the application's choice, and what the session delivers for it
carries the same. First comes `Begun` with the number that the session gave it, at once; then, when the broker has
answered, `Confirmed` (`MarksRead` or `HistoryRead` for what is read) or `Failed`. Everything else that is delivered has
no ticket: `Arrived`, and as they came from the broker `Accepted`, `Declined` and `Missed`; from access `PeerUp`,
`PeerDown` and `TurnedAway`.
"""

from collections.abc import Hashable

import msgspec

from tidings.protocols.delivery.messages import Fetched, Guarantee, Kind, Marks, Policy, Receipt

Ticket = Hashable


# Requests.


class OpenSubscription(msgspec.Struct, frozen=True):
    ticket: Ticket
    filter: str
    guarantee: Guarantee = "installed"
    since: float | None = None
    after: tuple[tuple[str, int], ...] = ()
    group: str = ""
    policy: Policy = "wait"
    queue_max: int = 10_000
    window: int = 1024


class CloseSubscription(msgspec.Struct, frozen=True):
    ticket: Ticket
    number: int


class OpenAdvertisement(msgspec.Struct, frozen=True):
    ticket: Ticket
    filter: str


class CloseAdvertisement(msgspec.Struct, frozen=True):
    ticket: Ticket
    number: int


class PublishBatch(msgspec.Struct, frozen=True):
    """Events as bytes, side by side. With a ticket, `Confirmed` comes when they have reached the brokers of all who
    want them; without one, only `Accepted` does."""

    advertisement: int
    heads: tuple[bytes, ...]
    payloads: tuple[bytes, ...]
    ticket: Ticket | None = None


class Took(msgspec.Struct, frozen=True):
    """The application took so many publications of a subscription out of our hands."""

    subscription: int
    count: int


class ReadMarks(msgspec.Struct, frozen=True):
    """How far have publishers come that may publish what the filter matches?"""

    ticket: Ticket
    filter: str


class ReadHistory(msgspec.Struct, frozen=True):
    """A page of what is stored of a publisher; the fields are those of the message `Fetch`."""

    ticket: Ticket
    filter: str
    publisher: str
    after: int | None
    since: float | None
    through: int
    limit: int


class StopReading(msgspec.Struct, frozen=True):
    """Nobody waits for the answer any longer."""

    number: int


# Answers.


class Begun(msgspec.Struct, frozen=True):
    """The request has this number; for publications it is that of the first."""

    ticket: Ticket
    number: int


class Confirmed(msgspec.Struct, frozen=True):
    ticket: Ticket
    receipt: Receipt | None
    """None where nobody had to be asked: a subscription is closed when its link is gone."""


class MarksRead(msgspec.Struct, frozen=True):
    ticket: Ticket
    parts: tuple[Marks, ...]


class HistoryRead(msgspec.Struct, frozen=True):
    ticket: Ticket
    page: Fetched


class Failed(msgspec.Struct, frozen=True):
    ticket: Ticket
    reason: str
    may_retry: bool = False


class Ended(msgspec.Struct, frozen=True):
    """What was confirmed once is no longer carried out: the broker refused to continue it after a break."""

    kind: Kind
    number: int
    reason: str


class Arrived(msgspec.Struct, frozen=True):
    """Publications for one subscription that it did not have before, side by side."""

    subscription: int
    publisher: str
    accepted_at: float
    numbers: tuple[int, ...]
    heads: tuple[bytes, ...]
    payloads: tuple[bytes, ...]
