"""What can happen to a machine.

An input is a fact: it is named in the past tense and carries what the machine needs to know, nothing that it could look
up. The world a machine lives in (sockets or simulator) makes most of these. Two are open to protocols, as bases of
their own inputs: a `Request` is what the application asks for, an order and named as such; a `Signal` is what one
protocol tells the others in the same node.
"""

from collections.abc import Hashable
from typing import Any

import msgspec

from tidings.machine.message import Message
from tidings.model.identity import NodeId

TimerKey = Hashable
"""A timer's name: a word, or a tuple that begins with one, such as ("nack", event_id)."""


class Received(msgspec.Struct, frozen=True):
    """A message arrived; `size_bytes` is what it took on the wire."""

    sender: NodeId
    message: Message
    size_bytes: int = 0


class Fired(msgspec.Struct, frozen=True):
    """The timer of this name came due. It is gone; a machine that wants it again sets it again."""

    key: TimerKey


class Knocked(msgspec.Struct, frozen=True):
    """Somebody who says that its name is `name` is at the other end of a new stream, and nobody has proved it. Until
    `Admit` it goes by the name `visitor`, which is the world's and which no node can take; all that it says comes under
    that name, and nothing that a visitor does touches a stream there is. Worlds in which nobody can take a name that is
    not his own skip this and say `LinkUp` at once, and so do all worlds to a machine that does not hear it."""

    visitor: NodeId
    name: NodeId
    asked: NodeId = ""
    """Whom we had asked for with `Connect`; empty where we were called."""
    waited: float = 0.0
    """Seconds since it called."""
    certified: tuple[str, ...] | None = None
    """The roles that the stream itself proves of that name, as a certificate does; None where it proves nothing."""


class LinkUp(msgspec.Struct, frozen=True):
    """A stream to `neighbour` works. Each new stream between the same two nodes has a larger `epoch`."""

    neighbour: NodeId
    epoch: int = 0
    asked: NodeId = ""
    """The address (`identity.at`) by which we know that node, where we asked for whoever is there."""
    visitor: NodeId = ""
    """As whom it knocked, where it was admitted."""


class LinkDown(msgspec.Struct, frozen=True):
    """The stream of that epoch is gone, and with it everything that was on its way."""

    neighbour: NodeId
    epoch: int = 0
    reason: str = ""
    asked: NodeId = ""
    """Of a visitor that is gone: whom we had asked for."""


class NodeProbed(msgspec.Struct, frozen=True):
    """A `ProbeNode` came back. Where nobody knows at which address `node` listens, nothing is said against it."""

    node: NodeId
    is_there: bool
    address: str = ""
    """As it was asked."""


class Unread(msgspec.Struct, frozen=True):
    """A message of ours cannot reach this neighbour: it cannot be sent to it, or the neighbour could not read it. The
    same again would fare the same, and may have cost the link."""

    neighbour: NodeId
    message: Message
    reason: str


class Computed(msgspec.Struct, frozen=True):
    """A `Compute` came back: its result, or the text of the error that stopped it."""

    key: TimerKey
    result: Any = None
    error: str | None = None


class Transferred(msgspec.Struct, frozen=True):
    """All of a `Transfer` is there, or it is given up: then `error` says why."""

    key: TimerKey
    error: str | None = None


class Saved(msgspec.Struct, frozen=True):
    """A `Save` is on disk, or is not: then `error` says why."""

    name: str
    error: str | None = None


class Loaded(msgspec.Struct, frozen=True):
    """What is stored under names that begin with `prefix`, sorted by name."""

    prefix: str
    entries: tuple[tuple[str, bytes], ...] = ()
    error: str | None = None


class Request(msgspec.Struct, frozen=True):
    """Base of what an application asks of its machine."""


class Signal(msgspec.Struct, frozen=True):
    """Base of what one protocol tells the others in the same node: an effect of the one, an input of the rest."""


Input = (
    Received
    | Fired
    | Knocked
    | LinkUp
    | LinkDown
    | NodeProbed
    | Unread
    | Computed
    | Transferred
    | Saved
    | Loaded
    | Request
    | Signal
)
"""All there is; a machine ignores what it does not know."""
