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

Lanes. One client may ask for all of the history a thousand times over. So everything waits in the lane of the client
that it is for, and the lanes are served in turn, a message each; what one client has asked for keeps its order. How
far publishers have come is asked and told ahead of all that: it is little, shared by all who want to know, and a
subscription waits for it (`beginnings.py`). Where more waits than may, the longest lane gives up its last. A question
that is posed again while it waits still, or its answer does, waits once. And what has left stands on the link ahead
of other people's events: so the window becomes narrower where it is taken slowly.

Time. Looking at what is stored, for others and for our own clients, takes a share of the time (`looks.py`); beyond it
what is to be made waits for the timer "answers".

Lives. A link of the overlay ends and begins anew at its two ends at different moments, while its stream lives on or
not. So whoever sends says with `HistoryBegun` that it counts from 0 again, and in `HistoryTaken` the other names that
beginning. What comes in a stream after such a word is counted from there, whatever becomes of it.

State. For each neighbour what waits, by lane, and the window; for each sender what was taken of it.
"""

from collections import deque
from collections.abc import Callable, Hashable
from typing import NamedTuple

from tidings.machine.effects import Drop, Effect, Send, SetTimer
from tidings.machine.window import TakenBytes, YieldingWindow
from tidings.model.bounds import NEIGHBOURS_MAX, QUESTIONS_MAX
from tidings.model.identity import NodeId
from tidings.model.work import WORK
from tidings.protocols.delivery.edge.looks import LookTime
from tidings.protocols.delivery.edge.params import TAKEN_STEPS, EdgeParams
from tidings.protocols.delivery.messages import (
    FetchedFar,
    FetchFar,
    History,
    HistoryBegun,
    HistoryTaken,
    LookFar,
    MarksFar,
    PackedReferences,
    Reference,
    ReplyFar,
    ReplySettledFar,
)
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
    identity: Hashable = None
    """Of a question, or of the answer to one: the same does not wait twice."""


Lane = tuple[str, str]
"""What waits in one order: of which kind it is, and whose."""

FIRST: Lane = ("marks", "")
"""Ahead of all others."""


def lane_of(message: HistoryMessage) -> Lane:
    match message:
        case LookFar() | MarksFar():
            return FIRST
        case Reference() | History():
            return "history", message.client
        case FetchFar() | FetchedFar():
            return "readings", message.advertisement
        case ReplyFar() | ReplySettledFar():
            return "replies", message.advertisement
    raise AssertionError(f"{type(message).__name__} never waits")


def identity_of(asked: Reference) -> Hashable:
    """What makes it the same question, posed again; the room for an answer may have changed."""
    return asked.path, asked.client, asked.subscription, asked.round, asked.since, asked.wanted, asked.filter


class HistoryLink:
    """One life of the link to a neighbour."""

    def __init__(self, neighbour: NodeId, life: int, window_bytes: int) -> None:
        self.neighbour, self.life, self.window = neighbour, life, YieldingWindow(window_bytes)
        self.lanes: dict[Lane, deque[WaitingHistory]] = {}
        """None is empty; the one whose turn is next stands first."""
        self.waiting_count = 0
        self.identities: set[Hashable] = set()

    def put(self, lane: Lane, waiting: WaitingHistory) -> None:
        self.lanes.setdefault(lane, deque()).append(waiting)
        self.waiting_count += 1
        if waiting.identity is not None:
            self.identities.add(waiting.identity)

    def next_lane(self) -> Lane:
        return FIRST if FIRST in self.lanes else next(iter(self.lanes))

    def take(self) -> WaitingHistory:
        lane = self.next_lane()
        waiting = self.lanes.pop(lane)
        taken = waiting.popleft()
        if waiting:
            self.lanes[lane] = waiting
        self.waiting_count -= 1
        self.identities.discard(taken.identity)
        return taken

    @property
    def must_make_next(self) -> bool:
        return self.lanes[self.next_lane()][0].make is not None

    def next_question(self) -> Reference | None:
        """What is next, if it is a question that is ready to leave."""
        following = self.lanes[self.next_lane()][0].message if self.lanes else None
        return following if isinstance(following, Reference) else None

    def take_last_of_longest(self) -> WaitingHistory:
        lane = max(self.lanes, key=lambda each: len(self.lanes[each]))
        last = self.lanes[lane].pop()
        if not self.lanes[lane]:
            del self.lanes[lane]
        self.waiting_count -= 1
        self.identities.discard(last.identity)
        return last

    @property
    def waiting(self) -> list[WaitingHistory]:
        return [each for lane in self.lanes.values() for each in lane]


class HistoryFlows:
    def __init__(self, params: EdgeParams) -> None:
        self.params = params
        self.links: dict[NodeId, HistoryLink] = {}
        self.lives = 0
        self.taken: dict[NodeId, tuple[int, TakenBytes]] = {}
        """By sender, with the life that it named last; the one that began last stands last."""
        self.ready: dict[NodeId, None] = {}
        """Links on which something may leave at the end of this step."""
        self.looks = LookTime()
        self.held: dict[NodeId, None] = {}
        """Links on which an answer is made at the timer "answers"."""
        self.is_timed = False

    # Links.

    def open(self, neighbour: NodeId) -> list[Effect]:
        effects = self.close(neighbour)
        self.lives += 1
        link = self.links[neighbour] = HistoryLink(neighbour, self.lives, self.params.history_window_bytes)
        return [*effects, Send(neighbour, HistoryBegun(link.life, link.window.widest_bytes))]

    def close(self, neighbour: NodeId) -> list[Effect]:
        link = self.links.pop(neighbour, None)
        self.ready.pop(neighbour, None)
        self.held.pop(neighbour, None)
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
        self.held.clear()
        self.is_timed = False

    # What leaves.

    def put(self, neighbour: NodeId, message: HistoryMessage, origin: Origin | None = None) -> list[Effect]:
        """Let it leave at the end of this step, or as soon as there is room; `origin` if it only passes through."""
        identity = identity_of(message) if isinstance(message, Reference) else None
        return self.add(neighbour, lane_of(message), WaitingHistory(message, None, origin, identity))

    def put_later(
        self,
        neighbour: NodeId,
        asked: HistoryMessage,
        make: Callable[[], HistoryMessage | None],
        identity: Hashable = None,
    ) -> list[Effect]:
        """The same for the answer to a question, which is made when it leaves."""
        return self.add(neighbour, lane_of(asked), WaitingHistory(None, make, None, identity))

    def add(self, neighbour: NodeId, lane: Lane, waiting: WaitingHistory) -> list[Effect]:
        link = self.links[neighbour]
        if waiting.identity in link.identities:
            return self.release(waiting.origin)
        link.put(lane, waiting)
        self.ready[neighbour] = None
        if link.waiting_count <= self.params.unanswered_max:
            return []
        last = link.take_last_of_longest()
        return [Drop(last.message or TOO_MANY, TOO_MANY), *self.release(last.origin)]

    def flush(self, now: float) -> list[Effect]:
        """What has room leaves."""
        effects: list[Effect] = []
        while self.ready:
            neighbour = next(iter(self.ready))
            del self.ready[neighbour]
            self.flow(now, self.links[neighbour], effects)
        if self.held and not self.is_timed:
            self.is_timed = True
            effects.append(SetTimer("answers", now + self.params.held_for))
        return effects

    def go_on(self) -> None:
        """At the timer "answers"."""
        self.is_timed = False
        self.ready |= self.held
        self.held.clear()

    def flow(self, now: float, link: HistoryLink, effects: list[Effect]) -> None:
        while link.lanes and link.window.has_room:
            if link.must_make_next and (WORK.is_spent or self.looks.are_used_up(now)):
                self.held[link.neighbour] = None
                return
            waiting, began = link.take(), WORK.units
            message = waiting.message if waiting.make is None else waiting.make()
            effects += self.release(waiting.origin)
            self.looks.spend(now, WORK.units - began)
            if message is None:
                continue
            if isinstance(message, Reference):
                message = self.pack(link, message, effects)
            link.window.send(now, size_of(message))
            effects.append(Send(link.neighbour, message))

    def pack(self, link: HistoryLink, first: Reference, effects: list[Effect]) -> Reference | PackedReferences:
        """The question, with those that are next."""
        questions, size_bytes, chars = [first], size_of(first), len(first.filter)
        while (following := link.next_question()) is not None and len(questions) < QUESTIONS_MAX:
            chars += len(following.filter)
            if size_bytes + size_of(following) > PACK_BYTES_MAX or chars > PACK_FILTER_CHARS_MAX:
                break
            effects += self.release(link.take().origin)
            questions.append(following)
            size_bytes += size_of(following)
        return first if len(questions) == 1 else PackedReferences(tuple(questions))

    def hear(self, now: float, sender: NodeId, taken: HistoryTaken) -> None:
        link = self.links.get(sender)
        if link is not None and link.life == taken.life and link.window.hear(now, taken.total_bytes):
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
        assert self.is_timed or not self.held, "nobody makes the answers that wait"
        assert len(self.taken) <= NEIGHBOURS_MAX, "too many senders are counted"
        for link in self.links.values():
            is_held = link.neighbour in self.held
            assert is_held or not (link.lanes and link.window.has_room), "something waits although there is room"
            assert len(link.waiting) == link.waiting_count <= self.params.unanswered_max, "more waits than may"
            assert all(link.lanes.values()), "an empty lane has a turn"
            known = [each.identity for each in link.waiting if each.identity is not None]
            assert len(known) == len(link.identities) and {*known} == link.identities, "the same waits twice"
