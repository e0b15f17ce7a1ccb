"""Candidates: who may become a friend, with a vote for each time that somebody named it.

Bounded: the one that was heard of longest ago gives way. Never pinged, and nothing is known of one until it is audited.
"""

from collections.abc import Iterator

import msgspec

from tidings.model.identity import NodeId
from tidings.protocols.feeds.profile import Profile


class FriendCandidate(msgspec.Struct):
    heard_at: float
    votes: int = 1
    audited: bool = False
    profile: Profile | None = None


class Candidates:
    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
        self.known: dict[NodeId, FriendCandidate] = {}
        """Those heard of last at the end."""

    def __len__(self) -> int:
        return len(self.known)

    def __contains__(self, node: NodeId) -> bool:
        return node in self.known

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self.known)

    def hear(self, now: float, node: NodeId) -> bool:
        """Whether it is one that nobody had named before."""
        candidate = self.known.pop(node, None)
        if candidate is not None:
            candidate.votes += 1
            candidate.heard_at = now
            self.known[node] = candidate
            return False
        if len(self.known) >= self.size_max:
            del self.known[next(iter(self.known))]
        self.known[node] = FriendCandidate(now)
        return True

    def keep(self, now: float, node: NodeId, profile: Profile) -> None:
        """A friend no longer: known already."""
        self.hear(now, node)
        self.known[node].profile = profile

    def next_audit(self) -> NodeId | None:
        """Most votes; among equals the one heard last, then by name."""
        waiting = [(it.votes, it.heard_at, node) for node, it in self.known.items() if not it.audited]
        return max(waiting)[2] if waiting else None

    def reset(self) -> None:
        """The set of friends has changed, so whoever was found wanting may be wanted."""
        for candidate in self.known.values():
            candidate.votes, candidate.audited = 0, False

    def forget(self, node: NodeId) -> None:
        self.known.pop(node, None)
