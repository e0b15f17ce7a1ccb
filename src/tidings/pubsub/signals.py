"""What the protocols of one node tell each other about publish and subscribe.

Protocols do not import each other; they meet in a node, and these values are their meeting point. Four layers talk:

    access      who is at the other end of a link               PeerUp, PeerDown, ClientUp, ClientDown
    overlay     which neighbours there are                      NeighbourUp, NeighbourDown, NeighbourReplaced, Placed
    routing     which neighbour wants what, who offers what     Settled, Known, Forgotten, Matched, Skipped, Stranded
    delivery    the clients of this broker                      Want, Unwant, Offer, Unoffer, Forward
    plans       which link takes the place of which             NeighbourWanted, NeighboursKept, ShiftBegun, ...
    any         links that are needed, what came around         LinkWanted, LinkUnwanted, LinkFailed, Rescued
    groups      brokers that want the same                      GroupJoined, GroupLeft, GroupSaid, GroupHeard, ...

Access tells overlay and delivery; overlay tells routing; routing and delivery tell each other. A *neighbour* is another
broker with a working link; the clients of a broker are no neighbours. So every published way of routing is one more
machine behind the same signals.

A request that can be waited for carries a `ticket`. When the whole network has carried it out (or it failed) routing
answers with `Settled(ticket, ...)`, exactly once. A ticket of None asks for no answer.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import overload

from tidings.machine.inputs import Signal
from tidings.machine.message import Contact
from tidings.model.filter import Filter
from tidings.model.identity import NodeId
from tidings.pubsub.client import Latency
from tidings.pubsub.publications import Publications
from tidings.pubsub.tenants import Tenant

SubscriptionKey = tuple[NodeId, int]
"""A client of this broker, and the number it gave its subscription."""

AdvertisementId = str
"""Unique in the network: the name of the publisher, a slash, its number for it, an at sign, and the name of the broker
that offers it: a publisher that moves is offered by both brokers for a while, each for what it stores."""

Ticket = Hashable


# From the overlay. These are the overlay's LinkUp, LinkDown and LinkReplaced: a link of the world becomes one of the
# overlay when both ends have agreed to be neighbours.
#
# A *reconfiguration* is one link taking the place of another. Overlays that know which one name it, and tell of it in
# two phases: at the ends of the lost link `NeighbourDown` with its name at once, and `NeighbourReplaced` when the
# new link is known; at the ends of the new link `NeighbourUp` with the same name, never before the `NeighbourDown`.

ReconfigurationId = str
"""Unique in the network; empty where the overlay cannot say which link replaces which."""


class Level(IntEnum):
    """How much an overlay tells of a change: the ways to repair routing tables need different news of it
    (dynamic-topologies.md 2.3)."""

    LINKS = 0
    """L0: a neighbour came, a neighbour went; nothing says that the two have to do with each other."""
    REPLACEMENTS = 1
    """L1: besides, which new link replaces which old one; the loss of the old is told before the gain of the new."""
    PATHS = 2
    """L2: besides, all brokers on the path between the old link and the new."""


class NeighbourUp(Signal, frozen=True):
    neighbour: NodeId
    epoch: int
    reconfiguration: ReconfigurationId = ""


class NeighbourDown(Signal, frozen=True):
    """What was on its way is lost, both ways."""

    neighbour: NodeId
    epoch: int
    reason: str = ""
    reconfiguration: ReconfigurationId = ""


class NeighbourReplaced(Signal, frozen=True):
    """The link to `lost`, of which `NeighbourDown` was told under this name, is replaced by one between `near`, on our
    side of it, and `far`, on the other."""

    reconfiguration: ReconfigurationId
    lost: NodeId
    near: NodeId
    far: NodeId
    path: tuple[NodeId, ...] = ()
    """All brokers from this end of the lost link by way of the new one to the other end, where the overlay knows."""
    way: tuple[NodeId, ...] = ()
    """From this broker to `near`, both included, where nothing can be sent but from neighbour to neighbour."""


class Placed(Signal, frozen=True):
    """Our place in the tree, of overlays whose tree has a root, where somebody asks for it (`tell_places`): told when
    it is known and whenever it changes."""

    above: NodeId | None
    """The neighbour on the way to the root; None for the root itself, or whoever takes itself for it."""
    depth: int | None
    """Links to the root; None where the overlay does not count them."""


# To access, from whoever needs a link to a broker that is not configured.


class LinkWanted(Signal, frozen=True):
    """Keep a link to this broker, for `user`, until `LinkUnwanted`; `PeerUp` says when it is there."""

    contact: Contact
    user: str
    """The part that needs it: a link that several need lives until the last one lets go."""


class LinkUnwanted(Signal, frozen=True):
    """The link ends when nobody here wants it, and at the other end neither."""

    broker: NodeId
    user: str


class LinkFailed(Signal, frozen=True):
    """From access: a link that was asked for at run time did not come. It is tried again for as long as it is wanted;
    where it `is_refused`, it is as if it had never been wanted."""

    broker: NodeId
    reason: str
    is_refused: bool = False


# From delivery to routing.


class Want(Signal, frozen=True):
    """A client of this broker wants these events. The same key again replaces the filter."""

    key: SubscriptionKey
    filter: Filter
    ticket: Ticket | None = None
    is_sure: bool = False
    """Whether it was promised something: then nothing goes to it but by the tree."""


class Unwant(Signal, frozen=True):
    key: SubscriptionKey
    ticket: Ticket | None = None


class Offer(Signal, frozen=True):
    """A client of this broker is going to publish such events."""

    advertisement: AdvertisementId
    publisher: str
    filter: Filter
    ticket: Ticket | None = None
    latency: Latency = "any"


class Unoffer(Signal, frozen=True):
    advertisement: AdvertisementId
    ticket: Ticket | None = None


class Forward(Signal, frozen=True):
    """Publications of a client of this broker, accepted and numbered; routing finds out where they go, here included.
    With a ticket, `Settled` comes when the brokers of all who want them have them."""

    batch: Publications
    ticket: Ticket | None = None


# From routing to delivery.


class Settled(Signal, frozen=True):
    """The request is carried out by all whom it concerns, or it failed: then `problem` says why."""

    ticket: Ticket
    brokers: tuple[NodeId, ...] = ()
    """Who carried it out, this broker included, as far as the names were passed on."""
    brokers_count: int = 0
    problem: str = ""


class Known(Signal, frozen=True):
    """An advertisement is known here, from now on, or again on a new way: its publisher's events can reach us."""

    advertisement: AdvertisementId
    publisher: str
    filter: Filter
    hop: NodeId | None
    """The neighbour from whose side it came; None for our own client."""


class Forgotten(Signal, frozen=True):
    """The advertisement was withdrawn, or the way to its publisher broke."""

    advertisement: AdvertisementId
    is_lost: bool = False
    """The way broke: what was published under it may be stored where nobody can be asked."""


class Wants(Sequence[tuple[SubscriptionKey, ...]]):
    """Who wants each publication of a batch, kept the other way round: for each subscription the places of what it
    wants, ascending. As a sequence it is like any other."""

    __slots__ = ("length", "places")

    def __init__(self, length: int, places: Mapping[SubscriptionKey, list[int]]) -> None:
        self.length, self.places = length, places

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> tuple[SubscriptionKey, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[SubscriptionKey, ...]]: ...
    def __getitem__(self, index: int | slice) -> tuple[SubscriptionKey, ...] | list[tuple[SubscriptionKey, ...]]:
        wanting: list[list[SubscriptionKey]] = [[] for _ in range(self.length)]
        for key, places in self.places.items():
            for place in places:
                wanting[place].append(key)
        answers = [tuple(keys) for keys in wanting]
        return answers[index]

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    def __iter__(self) -> Iterator[tuple[SubscriptionKey, ...]]:
        return iter(self[:])

    def __repr__(self) -> str:
        return f"Wants({self.length}, {self.places})"


class Matched(Signal, frozen=True):
    """Publications arrived that clients of this broker want: `wanted[i]` are the subscriptions that match the i-th,
    none for one that came along with others."""

    batch: Publications
    wanted: Sequence[tuple[SubscriptionKey, ...]]


class Skipped(Signal, frozen=True):
    """On the way from this publisher some of its publications under the advertisement were left out, with numbers up to
    `through`; later ones come behind this. The publisher's broker stores them, where anything is stored."""

    advertisement: AdvertisementId
    publisher: str
    through: int


# Around a failure: between routing and whoever knows another way.


class Stranded(Signal, frozen=True):
    """These publications had to go to this neighbour, which is gone and may come back: whoever knows a way around it
    may take them there. Routing keeps no copy."""

    neighbour: NodeId
    batch: Publications


class Rescued(Signal, frozen=True):
    """Publications that came around a failure, off the tree: routing carries them on from here as if `stand_in_for`,
    the neighbour that should have brought them, had; None where nobody should have. What passed before is dropped.
    Whoever gets them from us hears that they came around a failure, too (`PublicationsAround`)."""

    batch: Publications
    stand_in_for: NodeId | None = None


# Beside the tree: between routing and groups of brokers that want the same.


class GroupJoined(Signal, frozen=True):
    """From routing: clients here want what is told in the group of this advertisement; these are in it. What has
    numbers up to `through` was not told there."""

    advertisement: AdvertisementId
    publisher: str
    members: tuple[Contact, ...] = ()
    through: int = 0


class GroupLeft(Signal, frozen=True):
    """From routing: nobody here wants it any more, or it goes by the tree again."""

    advertisement: AdvertisementId


class GroupSaid(Signal, frozen=True):
    """From routing: publications of a client of this broker, for the group."""

    batch: Publications


class GroupHeard(Signal, frozen=True):
    """To routing: they were told in their group, for our own clients if these want them; perhaps out of order."""

    batch: Publications


class GroupViewed(Signal, frozen=True):
    """To routing: some who are in the group, this broker first."""

    advertisement: AdvertisementId
    members: tuple[Contact, ...]


# Plans carried out: between whoever carries them out, the overlay that they steer, and routing.


class NeighbourWanted(Signal, frozen=True):
    """To an overlay that is told its neighbours: this is one from now on."""

    contact: Contact
    reconfiguration: ReconfigurationId = ""


class NeighbourUnwanted(Signal, frozen=True):
    """To the same: this is none any more."""

    neighbour: NodeId
    reconfiguration: ReconfigurationId = ""


class ShiftBegun(Signal, frozen=True):
    """To routing, at each of the three: the link of `mover` and `old` gives way to one with `new`, a neighbour of
    `old`, that comes under the name of the shift."""

    shift: ReconfigurationId
    mover: NodeId
    old: NodeId
    new: NodeId
    timeout: float
    """Seconds after which the mover gives it up, if it is not done."""


class ShiftStopped(Signal, frozen=True):
    """To routing: give it up, if that is still possible."""

    shift: ReconfigurationId
    reason: str


class ShiftDecided(Signal, frozen=True):
    """From routing, at the mover: from now on the new link stands for the old one."""

    shift: ReconfigurationId
    old: NodeId
    new: NodeId


class ShiftOver(Signal, frozen=True):
    """From routing: this broker has no more to do for it. At the mover the old link, or else the new one, may go."""

    shift: ReconfigurationId
    is_done: bool
    problem: str = ""


class KeepNeighbours(Signal, frozen=True):
    """To an overlay that is told its neighbours: save them, if the disk has refused it."""


class NeighboursKept(Signal, frozen=True):
    """From the same: they are on the disk, and survive a crash."""


# From access: who is at the other end of a link.


class PeerUp(Signal, frozen=True):
    """A broker is at the other end of a working link; the overlay decides whether it is a neighbour."""

    broker: NodeId
    epoch: int
    publish_bound: str = ""
    """In a client: the filter within which it may publish; empty for no bound."""
    address: str = ""
    """Where the broker listens, as it says itself ("host:port"); empty where it does not say."""
    asked: NodeId = ""
    """The address (`identity.at`) at which we asked for whoever is there; empty where it was asked for by name, or
    called us."""
    is_configured: bool = True
    """Whether the link is one of those that were configured here. Other links may be somebody's who needs them beside
    the tree: an overlay that takes configured links leaves them alone, unless the other end offers them."""
    leaving: NodeId = ""
    """In a client that was sent away: the broker that served it until now, and is still there until `Parted`."""


LET_GO = "neither end wants the link any more"
"""Why a link ended that was wanted for a while only."""


class PeerDown(Signal, frozen=True):
    broker: NodeId
    epoch: int
    reason: str = ""


class ClientUp(Signal, frozen=True):
    """A client may be served. Its subscriptions are narrowed to one bound, its publications must lie within the other;
    None is no bound."""

    client: NodeId
    principal: str
    publish_bound: Filter | None = None
    subscribe_bound: Filter | None = None
    roles: tuple[str, ...] = ()
    """What it may do besides; "admin" may look at the tables of the broker."""
    tenant: Tenant | None = None
    """Whose it is; None where the broker knows of no tenants."""
    when_drained: str = ""
    """What it does when its broker is drained, as it said (`access.messages.Attach`)."""


class ClientDown(Signal, frozen=True):
    client: NodeId
    reason: str = ""


# From access, in a client. There `PeerUp` says that the broker serves us, and `PeerDown` that it does not any more or,
# without a `PeerUp` before it, that it could not be reached; access tries again by itself.


class TurnedAway(Signal, frozen=True):
    """The broker does not let us in; trying again will not help before somebody changes something."""

    broker: NodeId
    reason: str


# From access, in a broker that is drained: it is going to be stopped.


class DrainChanged(Signal, frozen=True):
    """Its clients are sent away from now on, and an overlay that can sees to it that nothing has to pass it; or it
    stays after all."""

    is_on: bool


class Parted(Signal, frozen=True):
    """From delivery, in a client that was sent away: the broker that it leaves has nothing more that it needs."""

    broker: NodeId
