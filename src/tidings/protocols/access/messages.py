"""The first words on a link: who are you, and what may you do?

Attach ->             <- Attached                          an open door, a token that whoever holds it may show
Attach ->             <- Rejected                          and the link ends
Attach -> <- Challenge    Proof -> <- Attached             a token that is good only with the key it names

And perhaps a last word between brokers: LetGo, when a link was wanted at run time and nobody here needs it any more.

A broker that is drained (`drain.py`):

    an admin    DrainAsked ->  <- DrainAnswered
    a client    <- MoveAway    and it goes, or says CannotMove ->
    Attach ->   <- MoveAway    instead of Attached, and the link ends
    a broker    <- BrokerDrains    OtherBrokers ->
"""

from typing import Annotated, Literal

from msgspec import Meta

from tidings.machine.message import AddressText, Contact, Count, Message, Name, OptionalName, Text
from tidings.model.bounds import (
    CREDENTIALS_BYTES_MAX,
    FILTER_TEXT_BYTES_MAX,
    NONCE_BYTES,
    SIGNATURE_BYTES,
    WAYS_OUT_MAX,
)

BoundText = Annotated[str, Meta(max_length=FILTER_TEXT_BYTES_MAX)]
"""A filter, or nothing for no bound."""

WhenDrained = Literal["", "goes", "stays"]
"""What a client does when its broker is drained: goes where it is told; stays, because it wants nothing of it but to
look at it or to tell it what to do; or does not say."""

WaysOut = Annotated[tuple[Contact, ...], Meta(max_length=WAYS_OUT_MAX)]
"""Brokers where clients may go."""


class Attach(Message, frozen=True):
    """A client wants to be served, or a broker to be a neighbour."""

    role: Literal["client", "broker"]
    credentials: Annotated[bytes, Meta(max_length=CREDENTIALS_BYTES_MAX)]
    """A signed token; empty where the link itself tells who it is, or where nobody asks."""
    address: AddressText = ""
    """Where the broker listens; empty for a client, and for a broker that does not say."""
    kind: OptionalName = ""
    """Of which overlay and routing the broker is ("lstree/tables"); empty for a client, and where nobody says."""
    when_drained: WhenDrained = ""


class Attached(Message, frozen=True):
    """Come in: as this principal, within these bounds."""

    principal: Name
    publish_bound: BoundText
    subscribe_bound: BoundText


class Rejected(Message, frozen=True):
    reason: Text


class Challenge(Message, frozen=True):
    """Show that you hold the key of your token: sign this nonce, which nobody has seen before."""

    nonce: Annotated[bytes, Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]


class Proof(Message, frozen=True):
    """The signature over the nonce and the names of both ends (`judging.statement`)."""

    signature: Annotated[bytes, Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]


class LetGo(Message, frozen=True):
    """I do not want this link any more. If you do not either, end it."""


class DrainAsked(Message, frozen=True):
    """From an admin: send your clients away, and take no new ones; or, with `is_on` false, take them again."""

    number: Count
    """Comes back in the answer."""
    is_on: bool


class DrainAnswered(Message, frozen=True):
    number: Count
    problem: Text
    """Why nothing was done; empty where it was."""


class MoveAway(Message, frozen=True):
    """To a client: let one of these serve you, the first that does, and let go of me then."""

    reason: Text
    contacts: WaysOut


class CannotMove(Message, frozen=True):
    """None of these lets us in, or none could be tried."""

    reason: Text


class BrokerDrains(Message, frozen=True):
    """To a neighbour: my clients are sent away; send me none, and tell me where else they could go. Or not any more."""

    is_on: bool


class OtherBrokers(Message, frozen=True):
    """Brokers that I am linked with."""

    contacts: WaysOut
