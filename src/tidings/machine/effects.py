"""What a machine asks of the world.

An effect is an order, named as one. `handle` returns the complete list; the world carries it out in order, after the
machine has settled its state. Whatever an effect brings back comes as a later input: `Compute` as `Computed`,
`Transfer` as `Transferred`, `Save` as `Saved`, `ProbeNode` as `NodeProbed`, `Connect` as `Knocked`, `LinkUp` or
`LinkDown`.
"""

import re
from enum import Enum
from functools import cache
from typing import Any

import msgspec

from tidings.machine.inputs import Signal, TimerKey
from tidings.machine.message import Message
from tidings.model.identity import NodeId

BROADCAST: NodeId = "*"
"""To whoever is in reach: a `Send` to this name, as a datagram, is received by all of them and not by the sender. On a
radio those are near enough to hear it; on any other network they are all the nodes that the sender can send to, on
sockets the peers whose address is known. No node has this name. A stream has one receiver: a broadcast over one is
dropped."""


class Transport(Enum):
    """STREAM: in order, without loss while the link lives. DATAGRAM: each message for itself, perhaps never."""

    STREAM = "stream"
    DATAGRAM = "datagram"


class Send(msgspec.Struct, frozen=True):
    to: NodeId
    message: Message
    transport: Transport = Transport.STREAM


class SetTimer(msgspec.Struct, frozen=True):
    """Fire `key` at the time `at`; a timer of the same name is replaced."""

    key: TimerKey
    at: float


class CancelTimer(msgspec.Struct, frozen=True):
    key: TimerKey


class Deliver(msgspec.Struct, frozen=True):
    """Hand `item` (an event, an answer) to the application."""

    item: Any


class Connect(msgspec.Struct, frozen=True):
    neighbour: NodeId


class Disconnect(msgspec.Struct, frozen=True):
    neighbour: NodeId
    reason: str = ""


class Admit(msgspec.Struct, frozen=True):
    """The visitor (`Knocked`) has proved that it is `name`: from now on its stream is the one to that node. Comes back
    as `LinkUp`, or as `LinkDown` of the visitor where another stream to that node is kept. It takes the place of one
    that is dead or was given up by the other end; with `replaces`, where the other end has decided, of any."""

    visitor: NodeId
    name: NodeId
    replaces: bool = False


class Know(msgspec.Struct, frozen=True):
    """From now on `node` can be reached at `address` ("host:port"): a `Connect` or a datagram to it goes there. The
    simulator, in which a name is enough, has nothing to do. What a configuration says of a node is not replaced."""

    node: NodeId
    address: str


class ProbeNode(msgspec.Struct, frozen=True):
    """Find out whether anything listens where `node` does, within so many seconds; comes back as `NodeProbed`. A
    process that stands still is found, one that is dead is not. Needs no link, makes none, and disturbs none."""

    node: NodeId
    seconds: float
    address: str = ""
    """Where it is looked for, this once ("host:port"), unless a configuration says where it is; empty where whoever
    keeps the addresses knows."""


class Job(msgspec.Struct, frozen=True):
    """Base of slow work as a value, with its arguments as fields. `run` is pure."""

    @property
    def seconds(self) -> float:
        """How long it takes in the simulator; elsewhere it takes what it takes."""
        return 0.01

    def run(self) -> Any:
        raise NotImplementedError


class Compute(msgspec.Struct, frozen=True):
    """Run `job` beside the machine; its result comes back as `Computed(key, ...)`."""

    key: TimerKey
    job: Job


class Transfer(msgspec.Struct, frozen=True):
    """Bring `size_bytes` to a node in bulk, as long transfers share the links between them. The other end receives
    `message`, which says what it is, when all of it is there; here it comes back as `Transferred(key, ...)`."""

    key: TimerKey
    to: NodeId
    message: Message
    size_bytes: int


class CancelTransfer(msgspec.Struct, frozen=True):
    """Give it up. Nothing comes back of it, nor if it is over already."""

    key: TimerKey


class Save(msgspec.Struct, frozen=True):
    """Store `data` under `name` so that it survives a crash; None removes it. Comes back as `Saved(name)`."""

    name: str
    data: bytes | None


class Load(msgspec.Struct, frozen=True):
    prefix: str


class Drop(msgspec.Struct, frozen=True):
    """Something is given up: `reason` is one of a protocol's named reasons. Counted and traced, never silent."""

    item: Any
    reason: str


class Note(msgspec.Struct, frozen=True):
    """Base of lines for the trace: what a protocol wants to be known of it, a class for each kind. Nobody carries one
    out."""


@cache
def note_name(kind: type[Note]) -> str:
    """What a trace calls the notes of a class: those of `LossDetected` are `loss_detected`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


Effect = (
    Send
    | SetTimer
    | CancelTimer
    | Deliver
    | Connect
    | Disconnect
    | Admit
    | Know
    | ProbeNode
    | Compute
    | Transfer
    | CancelTransfer
    | Save
    | Load
    | Drop
    | Note
    | Signal
)
"""All there is. A `Signal` (`inputs.py`) is for the other protocols of the node; that of a protocol that runs alone
reaches the world, which has nobody to tell: it does nothing with it."""
