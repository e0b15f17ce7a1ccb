"""A peer: it reads feeds, brings them to others who read them, and is brought them by others.

Coordinates say where it is; friendship finds peers that are near and read the same; the pulse says who is there; the
forest has a tree for each feed; the beginning of a session says in which order these are joined; the register finds
who publishes a feed that nobody is known for.
"""

from random import Random

import msgspec

from tidings.machine.effects import Drop, Effect
from tidings.machine.inputs import Input, Received
from tidings.machine.node import Node, Part
from tidings.model.identity import NodeId
from tidings.protocols.coordinates.coordinates import Coordinates
from tidings.protocols.coordinates.params import CoordinateParams
from tidings.protocols.feeds.forest import Forest
from tidings.protocols.feeds.friendship import Friendship
from tidings.protocols.feeds.own import OwnStanding
from tidings.protocols.feeds.params import (
    FeedSessionParams,
    FriendshipParams,
    PulseParams,
    RegisterParams,
    TreeParams,
)
from tidings.protocols.feeds.pulse import Pulse
from tidings.protocols.feeds.register import Register
from tidings.protocols.feeds.session import FeedSession
from tidings.protocols.feeds.updates import FeedSignatures

OUR_NAME = "comes under our own name"


class PeerParams(msgspec.Struct, frozen=True, kw_only=True):
    landmarks: tuple[NodeId, ...] = ()
    """By which a peer finds where it is; empty where all are taken to be at one place."""

    contacts: tuple[NodeId, ...] = ()
    """Peers that are known to begin with."""

    stale_friends: tuple[NodeId, ...] = ()
    """Friends of an earlier life, where this one remembers nothing else."""

    version: int = 0
    """Higher than in any earlier life that is forgotten."""

    coordinates: CoordinateParams = CoordinateParams()
    friendship: FriendshipParams = FriendshipParams()
    pulse: PulseParams = PulseParams()
    trees: TreeParams = TreeParams()
    session: FeedSessionParams = FeedSessionParams()
    register: RegisterParams = RegisterParams()


class PeerNode(Node):
    """`PeerNode("p1", PeerParams(landmarks=...), rng)`. The parts can be looked at."""

    def __init__(
        self, node_id: NodeId, params: PeerParams, rng: Random, signatures: FeedSignatures | None = None
    ) -> None:
        self.node_id, self.params = node_id, params
        self.own = OwnStanding(node_id, params.version)
        self.coordinates = Coordinates(node_id, params.landmarks, params.coordinates, rng, params.version)
        self.friendship = Friendship(self.own, params.friendship, params.pulse, rng)
        self.forest = Forest(self.own, self.friendship.covering, params.trees, rng, signatures)
        self.pulse = Pulse(self.own, self.friendship, self.forest, params.pulse, rng)
        self.session = FeedSession(self.friendship.covering, params.session, rng, params.stale_friends)
        self.register = Register(self.own, params.contacts, params.register, rng)
        parts: dict[str, Part] = {
            "coordinates": self.coordinates,
            # What this node is, before anybody else of it speaks.
            "friendship": self.friendship,
            "forest": self.forest,
            "pulse": self.pulse,
            "session": self.session,
            "register": self.register,
        }
        super().__init__(parts)

    def handle(self, now: float, input: Input) -> list[Effect]:
        # Or we would be our own friend, and sit below ourselves in a tree.
        if type(input) is Received and input.sender == self.node_id:
            return [Drop(input.message, OUR_NAME)]
        return super().handle(now, input)
