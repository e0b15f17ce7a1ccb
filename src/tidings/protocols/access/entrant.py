"""Whoever is at the other end of a link, and how far it came in.

    knocked -> (challenged) -> granted -> bound -> client, or accepted as a broker -> peer

A visitor has a name of the world's (`Knocked`) until it is bound to its own, which it is when it was granted entry:
before that, nothing that it does touches another who goes by the name that it claims. Where links come with their names
proved (`LinkUp` at once), everybody is bound from the beginning.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from tidings.machine.inputs import Knocked
from tidings.model.identity import NodeId
from tidings.protocols.access.judge import Role, Verdict
from tidings.protocols.access.messages import WhenDrained


class Entrant(msgspec.Struct):
    """A node with a link, or a visitor, and how far it came in."""

    name: NodeId
    """What it says that its name is; it has proved that when it is bound, and its tenant stands before it then."""
    epoch: int = 0
    is_proved: bool = False
    """Whether the link itself proves the name: the world knows it, or a certificate says it."""
    certified: tuple[str, ...] | None = None
    """As what, where there is a certificate."""
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
    kind: str = ""
    """Of which overlay and routing it says to be."""
    when_drained: WhenDrained = ""
    """What it does then, as it says."""

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

    @property
    def is_known(self) -> bool:
        """Whether anything but its own word says who it is."""
        return self.is_proved or (self.verdict is not None and bool(self.verdict.roles or self.verdict.holder_key))


def visiting(knock: Knocked, attach_by: float) -> Entrant:
    is_proved = knock.certified is not None
    return Entrant(knock.name, 0, is_proved, knock.certified, asked=knock.asked, attach_by=attach_by)


def check_entrants(entrants: Mapping[NodeId, Entrant]) -> None:
    for node, it in entrants.items():
        assert it.has_asked or not it.has_accepted, "accepted without having asked"
        assert not (it.granted and it.challenged), "let in before the proof"
        assert it.granted or not it.role, "let in without being granted it"
        assert (node == it.name) == it.is_bound, "called by another name"


NAME_NOT_PROVED = "nothing proves that name here; show a certificate that has it, or a token"
NO_BROKER = "the certificate does not say that this is a broker; get one that does, or be listed as a broker"
NAME_HAS_A_KEY = "whoever has that name has proved it with a key; show the key too, or take another name"


def why_not(entrant: Entrant, role: Role, verdict: Verdict, holder: Entrant | None) -> str:
    """Why the judge's yes is not enough: what it rests on is not proved. `holder` has the name now."""
    if verdict.by_name and not entrant.is_proved:
        return NAME_NOT_PROVED
    # A certificate that is a client's is never a broker; one that says nothing is if a principal or a token does.
    is_silent = entrant.certified == () and "broker" in verdict.roles
    if role == "broker" and entrant.certified is not None and "broker" not in entrant.certified and not is_silent:
        return NO_BROKER
    has_key = holder is not None and holder.verdict is not None and bool(holder.verdict.holder_key)
    if has_key and not verdict.holder_key and not entrant.is_proved:
        return NAME_HAS_A_KEY
    return ""


def why_apart(ours: str, theirs: str) -> str:
    """Two brokers of different kinds could not make anything of what the other says. Empty where they can, or where one
    of them does not say of which kind it is."""
    if not ours or not theirs or ours == theirs:
        return ""
    overlay, _, routing = ours.partition("/")
    finds_itself = theirs.startswith("lstree/")
    return (
        f"brokers of this network are of the kind {ours} and you are of {theirs}; start with --overlay {overlay} "
        f"--routing {routing}, or leave this network alone"
        + ("; if others are to join that broker, start it with --join, too" if finds_itself else "")
    )
