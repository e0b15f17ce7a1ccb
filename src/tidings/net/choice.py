"""Which of several connections between the same two nodes is their stream.

Two nodes may call each other at the same moment, and a peer whose connection broke unnoticed calls again while we still
hold the old one. Both ends must keep the same connection, so only one of the two decides: the one with the smaller
name; or, where machines ask who is there before they believe a name (`machine.inputs.Knocked`), the one that such a
machine appoints. Where names are not believed, nothing is chosen before the name is proved: connections with strangers
stand side by side, whatever they claim.

Each stream between the two has an epoch, larger than that of the one before; each end proposes one in its Hello. When a
further connection is to be the stream while there is one:

- Neither proposal is larger than the epoch of the stream: both called at once. It is refused.
- The caller proposed a larger one: it knew the stream, and has given it up. The new connection replaces it.
- Otherwise the caller has no memory, or it called before it heard of the stream. The new connection waits, and the
  stream is questioned with a heartbeat. If anything is heard on it, the new one is refused; if it breaks (a process
  that was restarted answers with a reset), the new one takes its place.

A proposal is a word of the other end, and so it is never believed beyond what it decides here: whoever was called
counts on by one. The caller takes over a larger number, so that after a restart its proposals are understood again. A
number at the bound harms nobody, since without a stream every connection is taken.
"""

from enum import Enum

from tidings.model.bounds import EPOCH_MAX
from tidings.model.identity import NodeId
from tidings.net.connection import HEARTBEAT, Cause, Connection

EPOCHS_MAX = 100_000
"""Peers whose last epoch is remembered; the one that was heard of longest ago is forgotten."""


class StreamChoice(Enum):
    TAKE = "take it, in place of the stream if there is one"
    REFUSE = "keep what there is"
    QUESTION = "ask whether the stream lives"


class Epochs:
    """The last epoch with each peer."""

    def __init__(self) -> None:
        self.last: dict[NodeId, int] = {}

    def of(self, peer: NodeId) -> int:
        return self.last.get(peer, 0)

    def next(self, peer: NodeId) -> int:
        """What we propose."""
        return min(self.of(peer) + 1, EPOCH_MAX)

    def advance(self, peer: NodeId, proposed: int = 0) -> int:
        """A new stream, or link; its epoch is larger than the one before, and no smaller than what the other end
        proposed, where that is to be believed."""
        epoch = max(self.last.pop(peer, 0) + 1, proposed)
        self.last[peer] = epoch
        if len(self.last) > EPOCHS_MAX:
            del self.last[next(iter(self.last))]
        return epoch


def judge(known: int, by_caller: int, by_called: int, has_stream: bool) -> StreamChoice:
    """What becomes of a connection, by the last epoch that is known, and what both ends proposed for this one."""
    if not has_stream or by_caller > known:
        return StreamChoice.TAKE
    return StreamChoice.QUESTION if by_called > known else StreamChoice.REFUSE


class Rivals:
    """Connections that wait until it is known whether the stream to the same peer still lives, by its name."""

    def __init__(self) -> None:
        self.waiting: dict[NodeId, Connection] = {}

    def question(self, peer: NodeId, stream: Connection, connection: Connection) -> None:
        rival = self.waiting.pop(peer, None)
        if rival is not None:
            rival.end(Cause.DUPLICATE, "a newer connection waits in its place")
        self.waiting[peer] = connection
        stream.is_questioned = True
        stream.outbox.put(HEARTBEAT)

    def heard(self, stream: Connection) -> None:
        """A stream that was questioned lives."""
        rival = self.waiting.pop(stream.peer, None)
        if rival is not None:
            rival.end(Cause.DUPLICATE, "there is a stream already, and it works")

    def take(self, peer: NodeId) -> Connection | None:
        """The stream to that peer is gone: who is next?"""
        return self.waiting.pop(peer, None)

    def ended(self, connection: Connection) -> None:
        """Perhaps one of those that wait."""
        for peer in [peer for peer, rival in self.waiting.items() if rival is connection]:
            del self.waiting[peer]
