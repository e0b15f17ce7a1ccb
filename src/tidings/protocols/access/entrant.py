"""Whoever is at the other end of a link, and how far it came in.

    knocked -> (challenged) -> granted -> bound -> client, or accepted as a broker -> peer

A visitor has a name of the world's (`Knocked`) until it is bound to its own, which it is when it was granted entry:
before that, nothing that it does touches another who goes by the name that it claims. Where links come with their names
proved (`LinkUp` at once), everybody is bound from the beginning.
"""

from typing import Literal

import msgspec

from tidings.model.identity import NodeId
from tidings.protocols.access.judge import Role, Verdict


class Entrant(msgspec.Struct):
    """A node with a link, or a visitor, and how far it came in."""

    name: NodeId
    """What it says that its name is; it has proved that when it is bound, and its tenant stands before it then."""
    epoch: int = 0
    claimed: NodeId = ""
    """Once it is granted entry: what it said."""
    is_bound: bool = False
    """The world calls its stream by this name."""
    asked: NodeId = ""
    """Of a visitor: whom we had asked for."""
    attach_by: float = 0.0
    """When it must have been let in."""
    granted: Role | None = None
    """What it may be, once it is bound."""
    has_answered: bool = False
    """We sent it our `Attached`."""
    role: Role | None = None
    """What it was accepted as."""
    asked_role: Role | Literal[""] = ""
    challenged: tuple[Role, bytes, Verdict] | None = None
    """It is accepted as soon as it has signed this nonce."""
    credentials: bytes = b""
    """What it showed."""
    verdict: Verdict | None = None
    """What the judge said to that."""
    has_asked: bool = False
    """We sent it our `Attach`."""
    is_ours: bool = False
    """We sent it because the link was wanted here."""
    has_accepted: bool = False
    """It answered that with `Attached`."""
    address: str = ""
    """Where it says that it listens."""

    @property
    def is_client(self) -> bool:
        return self.role == "client"

    @property
    def is_peer(self) -> bool:
        return self.role == "broker" and self.has_accepted

    @property
    def is_silent(self) -> bool:
        """Neither end has said anything yet, but perhaps for what came too late."""
        return self.role is None and self.challenged is None and not self.has_asked

    @property
    def is_stranger(self) -> bool:
        return not (self.is_client or self.is_peer)
