"""The first words on a link: who are you, and what may you do?"""

from typing import Annotated, Literal

from msgspec import Meta

from tidings.machine.message import Message, Name, Text
from tidings.model.bounds import FILTER_TEXT_BYTES_MAX

CREDENTIALS_BYTES_MAX = 4096

BoundText = Annotated[str, Meta(max_length=FILTER_TEXT_BYTES_MAX)]
"""A filter, or nothing for no bound."""


class Attach(Message, frozen=True):
    """A client wants to be served, or a broker to be a neighbour."""

    role: Literal["client", "broker"]
    credentials: Annotated[bytes, Meta(max_length=CREDENTIALS_BYTES_MAX)]
    """A signed token; empty where the link itself tells who it is, or where nobody asks."""


class Attached(Message, frozen=True):
    """Come in: as this principal, within these bounds."""

    principal: Name
    publish_bound: BoundText
    subscribe_bound: BoundText


class Rejected(Message, frozen=True):
    reason: Text
