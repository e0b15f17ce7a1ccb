"""What brokers tell each other so that events find a way around those that have failed."""

from typing import Annotated

from msgspec import Meta, Struct

from tidings.machine.message import Contact, Count, Message, Name
from tidings.model.bounds import (
    FAILURES_TOLD_MAX,
    GOSSIP_HOPS_MAX,
    LEVEL_NAMES_MAX,
    STRANDED_NAMES_MAX,
    TREE_DEPTH_MAX,
    VECTOR_ENTRIES_MAX,
    VIEW_LEVELS_MAX,
    VIEW_MEMBERS_MAX,
)
from tidings.pubsub.publications import Publications

TreeGroup = Annotated[int, Meta(ge=0, le=TREE_DEPTH_MAX)]
"""Brokers of about the same depth in the tree; 0 is that of the root."""

CountsTold = Annotated[tuple[tuple[Name, Count], ...], Meta(max_length=VECTOR_ENTRIES_MAX)]
Reports = Annotated[tuple[tuple[Name, Count], ...], Meta(max_length=FAILURES_TOLD_MAX)]
"""Brokers, each with the cycle in which somebody found it failed, or back."""
LevelNames = Annotated[tuple[Name, ...], Meta(max_length=LEVEL_NAMES_MAX)]
Contacts = Annotated[tuple[Contact, ...], Meta(max_length=VIEW_MEMBERS_MAX)]


class SiblingMember(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A broker of the same group, as somebody knows it."""

    contact: Contact
    heard: Count
    """The cycle in which it answered last."""
    vector: CountsTold


class SiblingHeartbeat(Message, frozen=True):
    """Are you there?"""

    cycle: Count


class SiblingAnswer(Message, frozen=True):
    """I am, and in this group."""

    cycle: Count
    group: TreeGroup


class SiblingView(Message, frozen=True):
    """Those of our group that I know, all of which have just answered me; what I am; and who failed and came back."""

    cycle: Count
    group: TreeGroup
    vector: CountsTold
    members: Annotated[tuple[SiblingMember, ...], Meta(max_length=VIEW_MEMBERS_MAX)]
    failures: Reports
    recoveries: Reports


class LevelMember(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    contact: Contact
    score: Count
    """How similar it is to the broker in whose view it stands."""


class LevelView(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One level of a branch of the tree: who is there, in whose views they are, who of these failed."""

    names: LevelNames
    members: Annotated[tuple[LevelMember, ...], Meta(max_length=VIEW_MEMBERS_MAX)]
    failures: Reports


class LevelReport(Message, frozen=True):
    """To the broker above and to those below: the levels on my side, nearest first, mine at their head."""

    cycle: Count
    depth: Annotated[int, Meta(ge=0, le=TREE_DEPTH_MAX)]
    """Of the sender."""
    levels: Annotated[tuple[LevelView, ...], Meta(max_length=VIEW_LEVELS_MAX)]
    introduced: Annotated[tuple[Contacts, ...], Meta(max_length=VIEW_LEVELS_MAX)] = ()
    """To those below: brokers of their own level, and of those further down, for whoever knows too few."""


class ViewRequest(Message, frozen=True):
    """Whom do you know of your group?"""

    cycle: Count


class ViewAnswer(Message, frozen=True):
    group: TreeGroup
    members: Annotated[tuple[LevelMember, ...], Meta(max_length=VIEW_MEMBERS_MAX)]


class GossipPublications(Message, frozen=True):
    """These could not go over `failed`; whoever gets them carries them on by his tables, and while hops are `left`
    tells others beyond the failure."""

    batch: Publications
    failed: Name
    is_down: bool
    """Whether they are for those below the broker that failed."""
    left: Annotated[int, Meta(ge=0, le=GOSSIP_HOPS_MAX)]
    beyond: Annotated[tuple[LevelNames, ...], Meta(max_length=VIEW_LEVELS_MAX)] = ()
    """Those behind the broker that failed, level by level, as far as they are known."""


class GossipOffered(Message, frozen=True):
    """I hold these around `failed`, and they are large: who lacks some of them asks."""

    advertisement: Name
    numbers: Annotated[tuple[Count, ...], Meta(max_length=STRANDED_NAMES_MAX)]
    failed: Name


class GossipAsked(Message, frozen=True):
    advertisement: Name
    numbers: Annotated[tuple[Count, ...], Meta(max_length=STRANDED_NAMES_MAX)]
    failed: Name
