"""What brokers on a ring, and neighbours in its tree, say to each other."""

from typing import Annotated

import msgspec
from msgspec import Meta

from tidings.machine.message import Contact, Count, Message, Name
from tidings.model.bounds import RING_PATH_MAX, SUCCESSORS_MAX


class RingMember(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A broker and the key at which it stands."""

    contact: Contact
    key: Count


SearchPath = Annotated[tuple[Name, ...], Meta(max_length=RING_PATH_MAX)]


class FindOwner(Message, frozen=True):
    """Who has this key? `path` are the brokers on the way, the one that asks first: the answer goes back over them."""

    key: Count
    ticket: Count
    path: SearchPath


class OwnerFound(Message, frozen=True):
    """I have it, and all keys from `after` on, exclusive."""

    ticket: Count
    path: SearchPath
    """Whom it has still to pass, the one that asked first."""
    owner: RingMember
    after: Count


class AskRing(Message, frozen=True):
    """Tell me who is around you. I stand here, and take you for the next behind me."""

    key: Count


class RingTold(Message, frozen=True):
    key: Count
    predecessor: RingMember | None
    successors: Annotated[tuple[RingMember, ...], Meta(max_length=SUCCESSORS_MAX)]


class TreeWish(Message, frozen=True):
    """Let us be neighbours in the tree: I sit at `mine`, and you at `yours`."""

    mine: Count
    yours: Count


class TreeUnwish(Message, frozen=True):
    """Let us be neighbours no more; or, in answer to that: you will hear no more from me on that account."""


class TreeChanged(Message, frozen=True):
    """Somebody came or went, and for me you are a neighbour, or were one: look whether I am one for you."""
