"""What brokers of a WiTree say to each other: on the air to whoever hears it, and along the links of the tree."""

from typing import Annotated

from msgspec import Meta

from tidings.machine.message import Count, Message, Name, OptionalName
from tidings.model.bounds import RADIO_DISTANCE_MAX, RADIO_PATH_MAX

Distance = Annotated[int, Meta(ge=0, le=RADIO_DISTANCE_MAX)]
"""Links of the tree between a broker and its leader."""

RadioPath = Annotated[tuple[Name, ...], Meta(max_length=RADIO_PATH_MAX)]

# On the air.


class RadioHello(Message, frozen=True):
    """I am here. On the link of a neighbour that was not heard for a while: are you?"""

    is_question: bool = False


class GroupHello(Message, frozen=True):
    """The tree that I am part of has this leader (GRPH)."""

    leader: Name
    sequence: Count


class RouteRequest(Message, frozen=True):
    """The root of the part that I am in looks for a broker outside that takes it in (RREQ). On the air, and from each
    broker of that part to those below it."""

    requester: Name
    number: Count
    leader: OptionalName
    """Of the tree that the part was lost from; empty where it never was in one."""
    distance: Distance
    """That the requester had to it."""
    target: OptionalName
    """The leader of the tree that it wants to be part of; empty where any will do."""
    steps: Distance
    """From the requester to me."""


class RouteReply(Message, frozen=True):
    """I would take you in (RREP): on the air to the broker that was heard, and from there up to the requester."""

    requester: Name
    number: Count
    end: Name
    """Who replies."""
    distance: Distance
    path: RadioPath
    """The brokers that passed it on, the one that was heard first, without the requester."""


# Along links of the tree.


class TreeHello(Message, frozen=True):
    """To those below: this is our leader, this its last number, and this your distance to it."""

    leader: Name
    sequence: Count
    distance: Distance


class RootHandover(Message, frozen=True):
    """To one below: from now on you are above me, and the root of our part, which looks for a new place (MACT). If the
    path goes on, hand on; if not, ask `end` to take us in."""

    end: Name
    path: RadioPath
    """Who comes behind you."""
    replaces: OptionalName
    """The link that was lost; empty where none was."""
    way: RadioPath
    """From the broker that lost it to me."""
    target: OptionalName
    tries: Annotated[int, Meta(ge=0, le=255)]
    """How often the part has looked in vain."""


class RadioJoin(Message, frozen=True):
    """I am the root of a part that has no leader: let me be below you."""

    number: Count
    replaces: OptionalName


class RadioJoined(Message, frozen=True):
    """You are."""

    number: Count
    leader: Name
    sequence: Count
    distance: Distance
    """Yours."""


class RadioRefused(Message, frozen=True):
    """You are not: I have no leader myself, or you may be above me, or there is no room."""

    number: Count


class RadioLeave(Message, frozen=True):
    """We are no neighbours any more."""


class RootCheck(Message, frozen=True):
    """To the one above, up to the root: is there a leader?"""

    requester: Name
    number: Count
    path: RadioPath
    """Whom it has passed, who asked first."""


class RootChecked(Message, frozen=True):
    """Back on the same path: there is, or there is none."""

    requester: Name
    number: Count
    path: RadioPath
    """Who comes behind you."""
    has_leader: bool


class LinkMended(Message, frozen=True):
    """Back to the broker that lost a link: another one has taken its place."""

    reconfiguration: Name
    path: RadioPath
    """Who comes behind you."""
    whole: RadioPath
    """From the broker that lost it to the near end of the new link."""
    far: Name


class OtherGroup(Message, frozen=True):
    """To the one above, up to the leader: the tree of another leader was heard."""

    leader: Name
