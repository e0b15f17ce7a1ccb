"""Which of several connections between two nodes is kept.

Two nodes may call each other at the same moment, and a peer whose connection broke unnoticed calls again while we still
hold the old one. Both ends must keep the same connection. Only one of the two decides: the one with the smaller name.
It takes the first connection that is introduced, and tells the other with its first Heartbeat; the other waits for
that. Each stream between the two has an epoch, larger than that of the one before; each end proposes one in its Hello,
and the larger proposal holds. When a further connection is introduced while a stream is up:

- Its epoch is not larger: it was begun before the stream was agreed upon; both called at once. It is refused.
- The caller alone proposed a larger epoch than that of the stream: it knew the stream, and has given it up. The new
  connection replaces it.
- Otherwise the caller has no memory, or it called before it heard of the stream. The new connection waits, and the
  stream is questioned with a heartbeat. If anything is heard on it, the new one is refused; if it breaks (a process
  that was restarted answers with a reset), the new one takes its place.
"""

from enum import Enum

from tidings.model.identity import NodeId

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
        return self.of(peer) + 1

    def remember(self, peer: NodeId, epoch: int) -> None:
        self.last.pop(peer, None)
        self.last[peer] = epoch
        if len(self.last) > EPOCHS_MAX:
            del self.last[next(iter(self.last))]


def judge(known: int, mine: int, theirs: int, has_stream: bool) -> StreamChoice:
    """What becomes of a connection, by the last epoch that is known, and what both ends proposed for this one."""
    if max(mine, theirs) <= known:
        return StreamChoice.REFUSE
    if not has_stream or theirs > known:
        return StreamChoice.TAKE
    return StreamChoice.QUESTION
