"""How two nodes that just connected find out whether they understand each other.

Each end sends `Hello` as its first frame and reads the other's. The end that called speaks first; the other answers
once it knows the name, because the epoch it proposes depends on who calls. Both then ask the same pure question,
`agree(mine, theirs)`, and get the same answer: the newest version both speak, the capabilities both have, the smaller
of their limits, and the epoch of this link. Or they get a refusal with a reason; then the end that refuses says
`Goodbye(reason)` and closes.

`Hello` is the one message that must be readable by every version there will ever be. Its code and its fields stay as
they are; later versions may add fields behind, which earlier ones skip.

The epoch. Each end proposes a number larger than that of any earlier link between the two that it remembers; the larger
proposal holds. An end that forgot everything proposes 1, and the other's memory still moves the number on. A process
that lost its state besides says so by a larger `incarnation`.

Once a link works, `Heartbeat` is sent when there was nothing else to send for a while, so that silence means a broken
link; and `Goodbye` comes before a link is closed on purpose, so that the other end can tell this from a crash. Whoever
closes because it could not read a message says before which one that was (`Unreadable`): sent again, it would end the
next link too.
"""

from collections.abc import Iterable
from typing import Annotated

import msgspec
import xxhash

from tidings.machine.effects import BROADCAST
from tidings.machine.message import Count, Message, Name, Text
from tidings.model.bounds import (
    CAPABILITIES_MAX,
    CAPABILITY_CHARS_MAX,
    DIGEST_BYTES,
    EPOCH_MAX,
    FRAME_BYTES_MAX,
    OPENING_BYTES_MAX,
    TEXT_CHARS_MAX,
)
from tidings.model.errors import UsageError
from tidings.model.escapes import check_printable
from tidings.model.identity import NodeId, is_address, is_visitor

VERSION_MIN, VERSION_MAX = 1, 1
"""The versions of the protocol between nodes that this program speaks."""

Capability = Annotated[str, msgspec.Meta(min_length=1, max_length=CAPABILITY_CHARS_MAX, pattern="^[a-z0-9-]+$")]
Capabilities = Annotated[tuple[Capability, ...], msgspec.Meta(max_length=CAPABILITIES_MAX)]


class Hello(Message, frozen=True, forbid_unknown_fields=False):
    """Who is speaking, and what it can do. `hello(...)` makes one and checks it."""

    node: Name
    incarnation: Count = 0
    version_min: Count = VERSION_MIN
    version_max: Count = VERSION_MAX
    capabilities: Capabilities = ()
    """Names in ascending order."""
    epoch: Count = 1
    frame_bytes_max: Count = FRAME_BYTES_MAX
    """The longest frame this end is willing to read."""


class Goodbye(Message, frozen=True):
    """This link is closed on purpose; nothing follows."""

    reason: Text = ""


class Unreadable(Message, frozen=True):
    """The message whose bytes have this digest (`digest_of`) could not be read."""

    digest: Annotated[bytes, msgspec.Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
    reason: Text


class Heartbeat(Message, frozen=True):
    """Nothing to say, still here."""


class Agreement(msgspec.Struct, frozen=True):
    """What holds on this link. Both ends have the same, apart from `peer` and `incarnation`: those are the other's."""

    peer: NodeId
    incarnation: int
    version: int
    capabilities: tuple[str, ...]
    epoch: int
    frame_bytes_max: int


class HandshakeRefusal(msgspec.Struct, frozen=True):
    reason: str


def hello(node: NodeId, incarnation: int = 0, capabilities: Iterable[str] = (), epoch: int = 1) -> Hello:
    """What this program says of itself."""
    check_printable("hello: node", node)
    if node == BROADCAST:
        raise UsageError(f"hello: {node!r} is the address of all nodes; give this node another name")
    if is_address(node):
        raise UsageError(f"hello: {node!r} is an address and no name; give this node a name without '@' in front")
    if is_visitor(node):
        raise UsageError(f"hello: {node!r} stands for a stranger; give this node a name without '?' in front")
    greeting = Hello(node, incarnation, capabilities=tuple(sorted(set(capabilities))), epoch=epoch)
    try:
        return msgspec.convert(msgspec.to_builtins(greeting), Hello)
    except msgspec.ValidationError as problem:
        raise UsageError(f"hello: {problem}") from None


def goodbye(reason: str) -> Goodbye:
    """A reason of any length, cut to what a message carries."""
    return Goodbye(reason[:TEXT_CHARS_MAX])


def unreadable(body: bytes, reason: str) -> Unreadable:
    return Unreadable(digest_of(body), reason[:TEXT_CHARS_MAX])


def digest_of(body: bytes) -> bytes:
    """By which the sender of a message knows it again. It is told nothing that it has not sent."""
    return xxhash.xxh3_64_digest(body)


def agree(mine: Hello, theirs: Hello) -> Agreement | HandshakeRefusal:
    reason = why_not(mine, theirs)
    if reason:
        return HandshakeRefusal(reason)
    return Agreement(
        peer=theirs.node,
        incarnation=theirs.incarnation,
        version=min(mine.version_max, theirs.version_max),
        capabilities=tuple(name for name in mine.capabilities if name in theirs.capabilities),
        epoch=max(mine.epoch, theirs.epoch),
        frame_bytes_max=min(mine.frame_bytes_max, theirs.frame_bytes_max),
    )


def why_not(mine: Hello, theirs: Hello) -> str:
    """Why these two cannot talk, from the side of the first; empty if they can."""
    if theirs.node == mine.node:
        return f"both ends are called {mine.node!r}: a node connected to itself, or two nodes share a name"
    if theirs.node == BROADCAST:
        return f"{theirs.node!r} is the address of all nodes; give that node another name"
    if is_address(theirs.node):
        return f"{theirs.node!r} is an address and no name; give that node a name without '@' in front"
    if is_visitor(theirs.node):
        return f"{theirs.node!r} stands for a stranger; give that node a name without '?' in front"
    if theirs.version_min > theirs.version_max:
        return f"{theirs.node} speaks no version: it says from {theirs.version_min} to {theirs.version_max}"
    if theirs.version_min > mine.version_max:
        return f"{theirs.node} is too new: it speaks {versions(theirs)}, we speak {versions(mine)}; update this node"
    if theirs.version_max < mine.version_min:
        return f"{theirs.node} is too old: it speaks {versions(theirs)}, we speak {versions(mine)}; update that node"
    if any(name >= later for name, later in zip(theirs.capabilities, theirs.capabilities[1:], strict=False)):
        return f"{theirs.node} names its capabilities out of order or twice"
    if theirs.epoch > EPOCH_MAX:
        return f"{theirs.node} proposes the epoch {theirs.epoch}, at most {EPOCH_MAX} is possible"
    if theirs.frame_bytes_max < OPENING_BYTES_MAX:
        return f"{theirs.node} reads frames of {theirs.frame_bytes_max} bytes; at least {OPENING_BYTES_MAX} are needed"
    return ""


def versions(greeting: Hello) -> str:
    if greeting.version_min == greeting.version_max:
        return f"version {greeting.version_min}"
    return f"versions {greeting.version_min} to {greeting.version_max}"
