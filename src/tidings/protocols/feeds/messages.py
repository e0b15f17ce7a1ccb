"""What peers say to each other about feeds. Every message carries the versions of what its sender says of itself
(P-26), so that news of a change needs no message of its own."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tidings.machine.message import Count, Message, OptionalName, Place, Real
from tidings.model.bounds import (
    FEED_NEAREST_MAX,
    FEED_PAYLOAD_BYTES_MAX,
    FEED_PULL_MAX,
    FEED_TREES_MAX,
    PROFILE_BYTES,
)
from tidings.pubsub.feeds import Ancestry, Chain, FeedName, FeedNames, Friends, PeerName, RootPlace, Versions

Purpose = Literal["first", "rejoin", "repair"]
Interests = Annotated[bytes, Meta(min_length=PROFILE_BYTES, max_length=PROFILE_BYTES)]
Payload = Annotated[bytes, Meta(max_length=FEED_PAYLOAD_BYTES_MAX)]
FeedSignature = Annotated[bytes, Meta(max_length=64)]
Nearest = Annotated[tuple[PeerName, ...], Meta(max_length=FEED_NEAREST_MAX)]


class FeedMessage(Message, frozen=True):
    versions: Versions


# Pulse.


class PulsePing(FeedMessage, frozen=True):
    """Are you there? These are my friends; `feeds` are those in which you are my parent."""

    round: Count
    friends: Friends
    feeds: FeedNames
    as_friend: bool


class PulseEcho(FeedMessage, frozen=True):
    """I am. These are my friends, and this is how I stand in the trees in which you are my child."""

    round: Count
    friends: Friends
    ancestries: Annotated[tuple[Ancestry, ...], Meta(max_length=FEED_TREES_MAX)]
    is_fan: bool
    """Whether I know that you have me as a friend."""


# Friendship.


class ProfileAsked(FeedMessage, frozen=True):
    pass


class ProfileTold(FeedMessage, frozen=True):
    interests: Interests
    place: Place


class FriendAsked(FeedMessage, frozen=True):
    """Let me have you as a friend."""


class FriendAnswered(FeedMessage, frozen=True):
    is_accepted: bool
    friends: Friends


class FriendRemoved(FeedMessage, frozen=True):
    """I have you as a friend no longer."""


# Trees.


class TreeJoin(FeedMessage, frozen=True):
    """Be my parent. I am there; `latest` is the highest number that I have, `reign` the one I know of."""

    feed: FeedName
    place: Place
    latest: Count
    reign: Count
    hops: Count
    purpose: Purpose


class JoinDenied(FeedMessage, frozen=True):
    """I do not read this feed."""

    feed: FeedName


class JoinForwarded(FeedMessage, frozen=True):
    """Ask that node."""

    feed: FeedName
    node: PeerName
    reign: Count = 0


class JoinAccepted(FeedMessage, frozen=True):
    feed: FeedName
    root: RootPlace
    chain: Chain
    """From my parent up to the root."""


class ChangeParent(FeedMessage, frozen=True):
    """You are my child no longer, somebody nearer to the publisher is. Ask that node, or wherever you like."""

    feed: FeedName
    node: OptionalName


class ParentLeft(FeedMessage, frozen=True):
    """You are my parent no longer: send me nothing more of this feed."""

    feed: FeedName


class ParentLet(FeedMessage, frozen=True):
    """Nothing more of this feed comes from me."""

    feed: FeedName


class AdoptChild(FeedMessage, frozen=True):
    """I leave; take this child of mine, whatever children you have."""

    feed: FeedName
    child: PeerName
    place: Place


class RejoinAt(FeedMessage, frozen=True):
    """I leave; look for a parent at that node."""

    feed: FeedName
    node: PeerName


class RootHanded(FeedMessage, frozen=True):
    """I leave, and the feed is mine: it is yours from now on."""

    feed: FeedName
    reign: Count


class UpdateText(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An item of a feed as it travels."""

    number: Count
    at: Real
    payload: Payload
    signature: FeedSignature = b""


class FeedUpdate(FeedMessage, frozen=True):
    feed: FeedName
    update: UpdateText


class UpdatesAsked(FeedMessage, frozen=True):
    """What do you have beyond `latest`, and of these?"""

    feed: FeedName
    latest: Count
    missing: Annotated[tuple[Count, ...], Meta(max_length=FEED_PULL_MAX)]


class UpdatesPulled(FeedMessage, frozen=True):
    feed: FeedName
    updates: Annotated[tuple[UpdateText, ...], Meta(max_length=FEED_PULL_MAX)]
    latest: Count


class VoidUpdate(FeedMessage, frozen=True):
    """Nothing is new: this is the latest number."""

    feed: FeedName
    latest: Count


class ItemSubmitted(FeedMessage, frozen=True):
    """A secondary publisher has this for the feed."""

    feed: FeedName
    update: UpdateText


# Who publishes a feed that nobody is known for.


class RootAsked(FeedMessage, frozen=True):
    """Who publishes it, and who is nearer to its key? With a `claim` it is the sender, in that reign."""

    feed: FeedName
    claim: Count


class RootTold(FeedMessage, frozen=True):
    """`node` does, in that reign, as far as I know (empty: nobody), and these are nearer to its key than I."""

    feed: FeedName
    node: OptionalName
    reign: Count
    nearest: Nearest
