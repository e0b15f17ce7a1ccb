"""The first words on a link: who are you, and what may you do?

Attach ->             <- Attached                          an open door, a token that whoever holds it may show
Attach ->             <- Rejected                          and the link ends
Attach -> <- Challenge    Proof -> <- Attached             a token that is good only with the key it names

And perhaps a last word between brokers: LetGo, when a link was wanted at run time and nobody here needs it any more.
"""

from typing import Annotated, Literal

from msgspec import Meta

from tidings.machine.message import AddressText, Message, Name, OptionalName, Text
from tidings.model.bounds import CREDENTIALS_BYTES_MAX, FILTER_TEXT_BYTES_MAX, NONCE_BYTES, SIGNATURE_BYTES

BoundText = Annotated[str, Meta(max_length=FILTER_TEXT_BYTES_MAX)]
"""A filter, or nothing for no bound."""


class Attach(Message, frozen=True):
    """A client wants to be served, or a broker to be a neighbour."""

    role: Literal["client", "broker"]
    credentials: Annotated[bytes, Meta(max_length=CREDENTIALS_BYTES_MAX)]
    """A signed token; empty where the link itself tells who it is, or where nobody asks."""
    address: AddressText = ""
    """Where the broker listens; empty for a client, and for a broker that does not say."""
    kind: OptionalName = ""
    """Of which overlay and routing the broker is ("lstree/tables"); empty for a client, and where nobody says."""


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
