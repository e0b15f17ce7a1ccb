"""What a peer is to others: its name, its place, its interests, and the versions of these, for all parts of its node.

One part changes it (friendship), the others put its versions on what they send. It also remembers which versions every
other node told last, so that news is told to the other parts once and not with every message.
"""

from tidings.machine.message import Place
from tidings.model.identity import NodeId
from tidings.protocols.feeds.messages import FeedMessage
from tidings.pubsub.feeds import Versions, VersionsSeen, distance

SEEN_MAX = 2000
"""Nodes whose versions are remembered; of one that is forgotten the same news may come twice."""


class OwnStanding:
    def __init__(self, node_id: NodeId, version: int = 0) -> None:
        """`version` is one that no earlier life of this node has used, if it forgets what it said."""
        self.node_id = node_id
        self.place: Place = ()
        """Empty until it is known."""
        self.interests = 0
        self.versions = Versions(version, version)
        self.seen: dict[NodeId, Versions] = {}

    def news(self, sender: NodeId, message: FeedMessage) -> list[VersionsSeen]:
        if self.seen.get(sender) == message.versions:
            return []
        self.seen.pop(sender, None)
        if len(self.seen) >= SEEN_MAX:
            del self.seen[next(iter(self.seen))]
        self.seen[sender] = message.versions
        return [VersionsSeen(sender, message.versions)]

    def distance(self, place: Place) -> float:
        return distance(self.place, place)
