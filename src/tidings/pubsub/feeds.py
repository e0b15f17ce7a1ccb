"""The words of feeds: what an application asks of a peer and is handed, and what the parts of a peer tell each other.

A *feed* is known by its address, and everybody who reads it is in its tree, with the publisher at the root. A feed has
a publisher that is known, or none among the peers: then one of its readers adopts it, which is a *reign* with a number.
Items of a feed are numbered; those of a later reign have higher numbers (`number_of`).

Five parts talk:

    coordinates  where this node is                              CoordinateFixed
    friendship   who is near and reads the same                  FriendsChanged, PeerWatched
    pulse        who is there                                    PulseHeard, PulseAnswered, PeerSilent, ProbeWanted
    forest       a tree for each feed                            FeedsChanged, NodeMet, JoinEnded, RootWanted, RootTaken
    session      in which order trees are joined                 JoinWanted, AuditsContinual
    register     who publishes a feed that nobody is known for   RootFound
"""

import math
from typing import Annotated

import msgspec
from msgspec import Meta

from tidings.machine.inputs import Request, Signal
from tidings.machine.message import Count, Place
from tidings.model.bounds import FEED_CHAIN_MAX, FEED_FRIENDS_MAX, FEED_TREES_MAX, FEED_URL_CHARS_MAX, NAME_CHARS_MAX
from tidings.model.escapes import PRINTABLE
from tidings.model.identity import NodeId

FeedId = str
FeedName = Annotated[str, Meta(min_length=1, max_length=FEED_URL_CHARS_MAX)]
PeerName = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX, pattern=PRINTABLE)]
Friends = Annotated[tuple[PeerName, ...], Meta(max_length=FEED_FRIENDS_MAX)]
Chain = Annotated[tuple[PeerName, ...], Meta(max_length=FEED_CHAIN_MAX)]
"""From the parent up to the root."""
FeedNames = Annotated[tuple[FeedName, ...], Meta(max_length=FEED_TREES_MAX)]

REIGN_BITS = 32


def number_of(reign: int, place: int) -> int:
    """The number of the `place`th item of a reign."""
    return (reign << REIGN_BITS) + place


def reign_of(number: int) -> int:
    return number >> REIGN_BITS


class Versions(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Of what a peer says of itself; a higher one is newer."""

    interests: Count = 0
    place: Count = 0


class RootPlace(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Who publishes a feed, in which reign, and where that is."""

    node: PeerName
    reign: Count
    place: Place


class Ancestry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a parent tells of itself in one tree."""

    feed: FeedName
    root: RootPlace
    chain: Chain
    latest: Count
    """The highest number that it has."""


def distance(one: Place, other: Place) -> float:
    """Seconds of a round trip. Places of different dimensions are those of different networks, infinitely far apart."""
    return math.dist(one, other) if len(one) == len(other) else math.inf


# What an application asks for.


class SubscribeFeed(Request, frozen=True):
    """Read this feed from now on. Without a `publisher` that is known, the readers find one among themselves. With a
    `key` (Ed25519, 32 bytes) only what is signed by it counts."""

    feed: FeedId
    publisher: NodeId = ""
    key: bytes = b""


class UnsubscribeFeed(Request, frozen=True):
    feed: FeedId


class OfferFeed(Request, frozen=True):
    """Publish this feed: be the root of its tree. Who is named among `secondaries` may publish through this node."""

    feed: FeedId
    secondaries: tuple[NodeId, ...] = ()
    key: bytes = b""


class PublishItem(Request, frozen=True):
    """At the root of a feed, or at a secondary publisher of it. `signature` is over `signed_bytes`; a number is given
    where it is signed, else the next one is taken."""

    feed: FeedId
    payload: bytes
    at: float
    number: int = 0
    signature: bytes = b""


class LeaveAll(Request, frozen=True):
    """Say goodbye to all trees; `AllLeft` is delivered when that is done."""


class Recalibrate(Request, frozen=True):
    """Find out anew where this node is."""


# What it is handed.


class FeedItem(msgspec.Struct, frozen=True):
    feed: FeedId
    number: int
    at: float
    payload: bytes


class ItemsMissed(msgspec.Struct, frozen=True):
    """These numbers of a feed were published, and nobody who was asked has them any more."""

    feed: FeedId
    first: int
    last: int


class FeedAdopted(msgspec.Struct, frozen=True):
    """This node is the publisher of a feed from now on, or no longer: it asks the origin, or stops asking."""

    feed: FeedId
    reign: int
    is_ours: bool


class AllLeft(msgspec.Struct, frozen=True):
    pass


# What the parts of a peer tell each other.


class CoordinateFixed(Signal, frozen=True):
    place: Place
    version: int


class VersionsSeen(Signal, frozen=True):
    """A node told versions of itself that differ from those it told before."""

    node: NodeId
    versions: Versions


class FeedsChanged(Signal, frozen=True):
    """These are read here now."""

    feeds: tuple[FeedId, ...]


class FriendsChanged(Signal, frozen=True):
    friends: tuple[NodeId, ...]


class PeerWatched(Signal, frozen=True):
    """Ping this node as long as it is a friend or a parent."""

    node: NodeId


class ProbeWanted(Signal, frozen=True):
    """Ping this node once, now."""

    node: NodeId


class PulseHeard(Signal, frozen=True):
    """A node that has us as a friend, or as its parent in these feeds, is there."""

    node: NodeId
    friends: tuple[NodeId, ...]
    feeds: tuple[FeedId, ...]
    as_friend: bool


class PulseAnswered(Signal, frozen=True):
    """A node that we pinged is there. `asked` are the feeds in which we took it for our parent."""

    node: NodeId
    friends: tuple[NodeId, ...]
    asked: tuple[FeedId, ...]
    ancestries: tuple[Ancestry, ...]
    is_fan: bool
    """Whether it knows that we have it as a friend."""


class PeerSilent(Signal, frozen=True):
    """A node that we pinged does not answer."""

    node: NodeId


class NodeMet(Signal, frozen=True):
    """A node that reads one of our feeds answered."""

    node: NodeId


class JoinWanted(Signal, frozen=True):
    """Join this tree now: at the publisher, or through friends first."""

    feed: FeedId
    is_direct: bool = False


class JoinEnded(Signal, frozen=True):
    feed: FeedId
    is_attached: bool


class AuditsContinual(Signal, frozen=True):
    """Look for friends one after the other, and not now and then."""

    is_on: bool


class RootWanted(Signal, frozen=True):
    """Nobody is known to publish this feed, or whoever was known does not answer: `gone`, of that reign."""

    feed: FeedId
    gone: NodeId = ""
    reign: int = 0


class RootFound(Signal, frozen=True):
    """This node publishes the feed. It may be this one, which then begins to."""

    feed: FeedId
    node: NodeId
    reign: int


class RootTaken(Signal, frozen=True):
    """This node is the root of that feed from now on, or no longer."""

    feed: FeedId
    reign: int
    is_ours: bool
