"""Questions and answers of history on their way between brokers: as many as the next broker takes, in their order.

The problem. A broker that comes back asks for everything that it missed, for thousands of subscriptions at once, and
what it missed is as large as history holds. Sent in one step, that is more than the queue of a link takes: the link
ends, comes back, and the same is asked again, for ever.

The idea. For each neighbour there is a window of bytes (`machine/window.py`) that all of this traffic shares. What has
no room waits here, as something small: a question as itself, an answer that is to be given as the question for it, and
it is made when it can leave. So the publications of an answer are in memory once, in the history. Questions that leave
together are packed into one message.

An answer that only passes through is not small. So a broker says of it that it has taken it when it has passed it on,
and the window behind it stays as full as the one before it: what waits here of other brokers' traffic is never more
than the windows of the neighbours that sent it. The links of a tree wait for each other in no circle.

Lives. A link of the overlay ends and begins anew at its two ends at different moments, while its stream lives on or
not. So whoever sends says with `HistoryBegun` that it counts from 0 again, and in `HistoryTaken` the other names that
beginning. What comes in a stream after such a word is counted from there, whatever becomes of it.

State. For each neighbour what waits, and the window; for each sender what was taken of it.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from tidings.machine.effects import Drop, Effect, Send
from tidings.machine.window import SendWindow, TakenBytes
from tidings.model.bounds import NEIGHBOURS_MAX, QUESTIONS_MAX
from tidings.model.identity import NodeId
from tidings.protocols.delivery.edge.params import TAKEN_STEPS, EdgeParams
from tidings.protocols.delivery.messages import HistoryBegun, HistoryTaken, PackedReferences, Reference
from tidings.protocols.delivery.sizes import HistoryMessage, size_of

LINK_GONE = "waited for a neighbour that was lost"
TOO_MANY = "as many questions and answers as are allowed wait for this neighbour"

PACK_FILTER_CHARS_MAX = 4096
"""Filters of the questions that leave in one message: whoever gets it reads them in one step, 2.5 us a character."""

PACK_BYTES_MAX = 64 * 1024
"""Questions in one message; a single one may be larger."""


class Origin(NamedTuple):
    """Who sent something, in which life, and what it counts there."""

    sender: NodeId
    life: int
    size_bytes: int


class WaitingHistory(NamedTuple):
    """A message, or what makes one when it can leave; None if there is nothing to say any more."""

    message: HistoryMessage | None
    make: Callable[[], HistoryMessage | None] | None
    origin: Origin | None


class HistoryLink:
    """One life of the link to a neighbour."""

    def __init__(self, neighbour: NodeId, life: int, window_bytes: int) -> None:
        self.neighbour, self.life, self.window = neighbour, life, SendWindow(window_bytes)
        self.waiting: deque[WaitingHistory] = deque()


class HistoryFlows:
    def __init__(self, params: EdgeParams) -> None:
        self.params = params
        self.links: dict[NodeId, HistoryLink] = {}
        self.lives = 0
        self.taken: dict[NodeId, tuple[int, TakenBytes]] = {}
        """By sender, with the life that it named last; the one that began last stands last."""
        self.ready: dict[NodeId, None] = {}
        """Links on which something may leave at the end of this step."""

    # Links.

    def open(self, neighbour: NodeId) -> list[Effect]:
        effects = self.close(neighbour)
        self.lives += 1
        link = self.links[neighbour] = HistoryLink(neighbour, self.lives, self.params.history_window_bytes)
        return [*effects, Send(neighbour, HistoryBegun(link.life, link.window.window_bytes))]

    def close(self, neighbour: NodeId) -> list[Effect]:
        link = self.links.pop(neighbour, None)
        self.ready.pop(neighbour, None)
        if link is None:
            return []
        effects: list[Effect] = [Drop(each.message, LINK_GONE) for each in link.waiting if each.message is not None]
        for each in link.waiting:
            effects += self.release(each.origin)
        return effects

    def clear(self) -> None:
        self.links.clear()
        self.taken.clear()
        self.ready.clear()

    # What leaves.

    def put(self, neighbour: NodeId, message: HistoryMessage, origin: Origin | None = None) -> list[Effect]:
        """Let it leave at the end of this step, or as soon as there is room; `origin` if it only passes through."""
        return self.add(neighbour, WaitingHistory(message, None, origin))

    def put_later(self, neighbour: NodeId, make: Callable[[], HistoryMessage | None]) -> list[Effect]:
        """The same for an answer that is made when it leaves."""
        return self.add(neighbour, WaitingHistory(None, make, None))

    def add(self, neighbour: NodeId, waiting: WaitingHistory) -> list[Effect]:
        link = self.links[neighbour]
        if len(link.waiting) >= self.params.unanswered_max:
            return [Drop(waiting.message or TOO_MANY, TOO_MANY), *self.release(waiting.origin)]
        link.waiting.append(waiting)
        self.ready[neighbour] = None
        return []

    def flush(self) -> list[Effect]:
        """What has room leaves."""
        effects: list[Effect] = []
        while self.ready:
            neighbour = next(iter(self.ready))
            del self.ready[neighbour]
            self.flow(self.links[neighbour], effects)
        return effects

    def flow(self, link: HistoryLink, effects: list[Effect]) -> None:
        while link.waiting and link.window.has_room:
            waiting = link.waiting.popleft()
            message = waiting.message if waiting.make is None else waiting.make()
            effects += self.release(waiting.origin)
            if message is None:
                continue
            if isinstance(message, Reference):
                message = self.pack(link, message, effects)
            link.window.send(size_of(message))
            effects.append(Send(link.neighbour, message))

    def pack(self, link: HistoryLink, first: Reference, effects: list[Effect]) -> Reference | PackedReferences:
        """The question, with those that wait right behind it."""
        questions, size_bytes, chars = [first], size_of(first), len(first.filter)
        while link.waiting and len(questions) < QUESTIONS_MAX:
            following = link.waiting[0].message
            if not isinstance(following, Reference) or size_bytes + size_of(following) > PACK_BYTES_MAX:
                break
            chars += len(following.filter)
            if chars > PACK_FILTER_CHARS_MAX:
                break
            effects += self.release(link.waiting.popleft().origin)
            questions.append(following)
            size_bytes += size_of(following)
        return first if len(questions) == 1 else PackedReferences(tuple(questions))

    def hear(self, sender: NodeId, taken: HistoryTaken) -> None:
        link = self.links.get(sender)
        if link is not None and link.life == taken.life and link.window.hear(taken.total_bytes):
            self.ready[sender] = None

    # What comes.

    def begin(self, sender: NodeId, begun: HistoryBegun) -> None:
        self.taken.pop(sender, None)
        if len(self.taken) >= NEIGHBOURS_MAX:
            del self.taken[next(iter(self.taken))]
        self.taken[sender] = (begun.life, TakenBytes(max(1, begun.window_bytes // TAKEN_STEPS)))

    def origin_of(self, sender: NodeId, message: HistoryMessage) -> Origin | None:
        """Under which it is to be released, when it is taken or passed on."""
        known = self.taken.get(sender)
        return None if known is None else Origin(sender, known[0], size_of(message))

    def release(self, origin: Origin | None) -> list[Effect]:
        """It is out of the way here."""
        if origin is None:
            return []
        life, taken = self.taken.get(origin.sender, (0, None))
        if taken is None or life != origin.life:
            return []
        total_bytes = taken.take(origin.size_bytes)
        return [] if total_bytes is None else [Send(origin.sender, HistoryTaken(life, total_bytes))]

    def check(self) -> None:
        assert not self.ready, "something may leave, and nobody lets it"
        assert len(self.taken) <= NEIGHBOURS_MAX, "too many senders are counted"
        for link in self.links.values():
            assert not (link.waiting and link.window.has_room), "something waits although there is room"
            assert len(link.waiting) <= self.params.unanswered_max, "more waits than unanswered_max allows"
