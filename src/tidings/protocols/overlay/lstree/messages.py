"""What brokers of an LSTree say to each other: who goes below whom, where everybody is, and whom one knows."""

from enum import IntEnum
from typing import Annotated

from msgspec import Meta

from tidings.machine.message import Contact, Count, Message, Name, OptionalName
from tidings.model.bounds import ANCESTORS_MAX, CONTACTS_MAX, SIBLINGS_MAX
from tidings.protocols.overlay.lstree.order import Colour, Depth

Ancestors = Annotated[tuple[Contact, ...], Meta(max_length=ANCESTORS_MAX)]
Siblings = Annotated[tuple[Contact, ...], Meta(max_length=SIBLINGS_MAX)]
ContactList = Annotated[tuple[Contact, ...], Meta(max_length=CONTACTS_MAX)]


class ParentRequest(Message, frozen=True):
    """Let me be below you. My place is this, and stays so until you have answered."""

    number: Count
    colour: Colour
    depth: Depth
    breaks_max: bool
    """Though you have as many neighbours as you want."""
    breaks_min: bool
    """Though you have as few."""
    is_root: bool
    replaces: OptionalName
    """The reconfiguration under which the link to the one that was above me was lost; empty where there was none."""


class ParentAccept(Message, frozen=True):
    """You are below me. Above you are these, myself first; below me are these."""

    number: Count
    colour: Colour
    depth: Depth
    ancestors: Ancestors
    siblings: Siblings


class RefusalReason(IntEnum):
    NOT_VIABLE = 0
    """There would be a circle, or there might be."""
    BUSY = 1
    """I am looking for a place myself."""
    MAXDEGREE = 2
    MINDEGREE = 3


class ParentRefuse(Message, frozen=True):
    """Not below me, for this reason; ask these."""

    number: Count
    reason: RefusalReason
    contacts: ContactList


class ColourUpdate(Message, frozen=True):
    """To those below: our tree has another colour, and I have this depth in it."""

    colour: Colour
    depth: Depth


class RegionalUpdate(Message, frozen=True):
    """To those below: who is above you now, myself first, who is beside you, and my depth."""

    ancestors: Ancestors
    siblings: Siblings
    depth: Depth


class ChildLeave(Message, frozen=True):
    """I am not below you by this request (any more). I may have asked you again since, and be below you by that."""

    link: Name


class FindAnother(Message, frozen=True):
    """To one below: I am going to be stopped. Look for another broker to be below, while I am still here."""


class MergeHint(Message, frozen=True):
    """To the one above, up to the root: there is another tree with this root, below which ours may go."""

    root: Contact
    colour: Colour


class DepthsSpent(Message, frozen=True):
    """To the one above, up to the root: there is no depth left between some of us."""


class GlobalUpdate(Message, frozen=True):
    """I know these brokers, somewhere in the tree."""

    contacts: ContactList


class ContactPing(Message, frozen=True):
    """Are you there still? My tree has this colour."""

    colour: Colour


class ContactPong(Message, frozen=True):
    """Mine has this."""

    colour: Colour
