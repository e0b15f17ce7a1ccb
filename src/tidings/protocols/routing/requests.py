"""Waiting for acknowledgements.

A *request* is something that was asked of this broker, by a neighbour or by a client: a change of a table, or to see
publications to their destination. It is carried out when everything that had to be told to neighbours because of it is
acknowledged. What was told to a neighbour and is not answered yet stands in the `Ledger` under its number, together
with the requests that wait for the answer. The first failure fails a request; so does silence for `ack_timeout`
seconds, or the loss of the link. An answer to a number that is no longer there comes too late and is ignored.

All entries live equally long, so one timer, set for the oldest, serves all of them.

A broker that does not acknowledge tells changes under the number 0, which asks for no answer, and has nothing to wait
for: what its clients ask is settled at once, in the name of this broker alone, and neighbours that ask for an answer
hear that there is none.
"""

from collections import deque
from collections.abc import Hashable, Iterable

import msgspec

from tidings.machine.effects import CancelTimer, Effect, Send, SetTimer
from tidings.model.bounds import BROKERS_NAMED_MAX
from tidings.model.identity import NodeId
from tidings.protocols.routing.messages import Installed, NotInstalled, NotReached, Reached
from tidings.protocols.routing.tables import Way
from tidings.pubsub.signals import Settled

TIMER = "unanswered"

TIMED_OUT = "not acknowledged in time"
TOO_MANY = "too many changes are not acknowledged"
LINK_LOST = "the link to the next broker was lost"
NOT_ACKNOWLEDGED = "a broker on the way acknowledges nothing: nobody can say whether it was carried out everywhere"


class Asker(msgspec.Struct, eq=False):
    """A neighbour for as long as it remembers what it asked."""

    neighbour: NodeId
    is_gone: bool = False


class PendingRequest(msgspec.Struct, eq=False):
    """Asked by a neighbour under its number, or under a ticket of this node (None: nobody waits for the answer)."""

    asker: Asker | None
    name: Hashable
    is_batch: bool = False
    brokers: dict[NodeId, None] = {}
    counts: dict[NodeId, int] = {}
    """How many brokers carried it out, by the neighbour that says so."""
    unanswered: int = 0
    problem: str = ""
    is_done: bool = False

    def count(self, neighbour: NodeId, brokers: Iterable[NodeId], brokers_count: int) -> None:
        """These have carried it out. Several answers of one neighbour speak of the same brokers."""
        self.counts[neighbour] = max(brokers_count, self.counts.get(neighbour, 0))
        for broker in brokers:
            if len(self.brokers) >= BROKERS_NAMED_MAX:
                return
            self.brokers[broker] = None

    def answer(self, problem: str = "") -> list[Effect]:
        """What the asker is told; once."""
        self.is_done = True
        if self.asker is None:
            if self.name is None:
                return []
            if problem or self.is_batch:
                return [Settled(self.name, problem=problem)]
            return [Settled(self.name, tuple(self.brokers), self.brokers_count())]
        neighbour, number = self.asker.neighbour, self.name
        assert isinstance(number, int)
        if self.asker.is_gone or not number:
            return []
        if self.is_batch:
            return [Send(neighbour, NotReached(number, problem) if problem else Reached(number))]
        if problem:
            return [Send(neighbour, NotInstalled(number, problem))]
        return [Send(neighbour, Installed(number, tuple(self.brokers), self.brokers_count()))]

    def brokers_count(self) -> int:
        return max(len(self.brokers), sum(self.counts.values()))


class Announcement(msgspec.Struct, eq=False):
    """Something that a neighbour was told and has not been told to forget.

    `number` is that of the telling under way, 0 if there is none. `sent_version` and `acknowledged_version` say how
    much of the neighbour's offers we knew when it was told last, and when it was told the last time that it
    acknowledged; -1 is never. `content` is what was told of an advertisement: publisher, filter and way.
    """

    content: tuple[str, str, Way] | None = None
    number: int = 0
    sent_version: int = -1
    acknowledged_version: int = -1
    brokers: tuple[NodeId, ...] = ()
    brokers_count: int = 0


class Unanswered(msgspec.Struct, eq=False):
    announcement: Announcement | None
    version: int
    is_removal: bool
    waiting: list[PendingRequest] = []


class Ledger:
    """What was told to whom and is not answered. `effects` of its methods are to be carried out by the caller."""

    def __init__(self, timeout: float, unanswered_max: int, acknowledges: bool = True) -> None:
        self.timeout, self.unanswered_max, self.acknowledges = timeout, unanswered_max, acknowledges
        self.number = 0
        self.unanswered: dict[NodeId, dict[int, Unanswered]] = {}
        self.deadlines: deque[tuple[float, NodeId, int]] = deque()
        self.is_timed = False
        self.brokers_known: dict[tuple[NodeId, ...], tuple[NodeId, ...]] = {}

    def next_number(self) -> int:
        """Never used twice, so that an answer from an earlier life of a link finds nothing."""
        self.number += 1
        return self.number

    def number_of_change(self) -> int:
        """Under which a neighbour is told something."""
        return self.next_number() if self.acknowledges else 0

    def expect(self, now: float, neighbour: NodeId, number: int, entry: Unanswered) -> list[Effect]:
        if not number:
            return []
        entries = self.unanswered.setdefault(neighbour, {})
        entries[number] = entry
        self.deadlines.append((now + self.timeout, neighbour, number))
        effects: list[Effect] = []
        if not self.is_timed:
            self.is_timed = True
            effects.append(SetTimer(TIMER, self.deadlines[0][0]))
        if len(entries) > self.unanswered_max:
            effects += self.fail(neighbour, next(iter(entries)), TOO_MANY)
        return effects

    def wait(self, request: PendingRequest, neighbour: NodeId, number: int) -> None:
        if not number:
            return
        entry = self.unanswered[neighbour].get(number)
        if entry is None:
            request.problem = TOO_MANY  # it was given up in the moment in which it was told
            return
        request.unanswered += 1
        entry.waiting.append(request)

    def settle(self, request: PendingRequest) -> list[Effect]:
        """Nothing more will be told because of this request: answer it unless it has to wait."""
        if request.is_done or (request.unanswered and not request.problem):
            return []
        return request.answer(request.problem)

    def is_expected(self, neighbour: NodeId, number: int, is_batch: bool) -> bool:
        """Is there something of this kind to be answered?"""
        entry = self.unanswered.get(neighbour, {}).get(number)
        return entry is not None and is_batch == (entry.announcement is None and not entry.is_removal)

    def succeed(self, neighbour: NodeId, number: int, brokers: tuple[NodeId, ...], brokers_count: int) -> list[Effect]:
        entry = self.unanswered[neighbour].pop(number)
        announcement = entry.announcement
        if announcement is not None:
            announcement.acknowledged_version = max(announcement.acknowledged_version, entry.version)
            announcement.brokers, announcement.brokers_count = self.shared(brokers), brokers_count
            if announcement.number == number:
                announcement.number = 0
        effects: list[Effect] = []
        for request in entry.waiting:
            if request.is_done:
                continue
            request.count(neighbour, brokers, brokers_count)
            request.unanswered -= 1
            if not request.unanswered:
                effects += request.answer()
        return effects + self.rest()

    def fail(self, neighbour: NodeId, number: int, problem: str) -> list[Effect]:
        entry = self.unanswered[neighbour].pop(number)
        if entry.announcement is not None and entry.announcement.number == number:
            entry.announcement.number = 0
        effects: list[Effect] = []
        for request in entry.waiting:
            if not request.is_done:
                effects += request.answer(problem)
        return effects + self.rest()

    def lose(self, neighbour: NodeId) -> list[Effect]:
        """The link is gone: additions failed, and removals are done, since the other end forgets all of it anyway."""
        effects: list[Effect] = []
        for number, entry in list(self.unanswered.get(neighbour, {}).items()):
            if entry.is_removal:
                effects += self.succeed(neighbour, number, (), 0)
            else:
                effects += self.fail(neighbour, number, LINK_LOST)
        self.unanswered.pop(neighbour, None)
        return effects

    def forgive(self, neighbour: NodeId) -> list[Effect]:
        """What it has not answered was told to others as well, who stand in for it."""
        effects: list[Effect] = []
        for number in list(self.unanswered.get(neighbour, {})):
            effects += self.succeed(neighbour, number, (), 0)
        self.unanswered.pop(neighbour, None)
        return effects

    def answer_changes(self, asker: Asker) -> list[Effect]:
        """What it asked to be told on is told by others as well, who wait for the same answers."""
        waiting = [
            request
            for entries in self.unanswered.values()
            for entry in entries.values()
            for request in entry.waiting
            if request.asker is asker and not request.is_batch
        ]
        return [effect for request in waiting if not request.is_done for effect in request.answer()]

    def expire(self, now: float) -> list[Effect]:
        self.is_timed = False
        effects: list[Effect] = []
        while self.deadlines:
            at, neighbour, number = self.deadlines[0]
            is_open = number in self.unanswered.get(neighbour, ())
            if is_open and at > now:
                self.is_timed = True
                return [*effects, SetTimer(TIMER, at)]
            self.deadlines.popleft()
            if is_open:
                effects += self.fail(neighbour, number, TIMED_OUT)
        return effects

    def rest(self) -> list[Effect]:
        """Without anything unanswered there is no timer."""
        deadlines, unanswered = self.deadlines, self.unanswered
        while deadlines and deadlines[0][2] not in unanswered.get(deadlines[0][1], ()):
            deadlines.popleft()
        if deadlines:
            return []
        if not self.is_timed:
            return []
        self.is_timed = False
        return [CancelTimer(TIMER)]

    def shared(self, brokers: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
        """The same tuple for the same names: thousands of filters are installed by the same few brokers."""
        if len(self.brokers_known) >= BROKERS_NAMED_MAX:
            self.brokers_known.clear()
        return self.brokers_known.setdefault(brokers, brokers)

    def check(self) -> None:
        assert self.is_timed == any(self.unanswered.values()), "the timer does not fit what is unanswered"
        listed = {(neighbour, number) for _, neighbour, number in self.deadlines}
        for neighbour, entries in self.unanswered.items():
            assert len(entries) <= self.unanswered_max
            for number, entry in entries.items():
                assert (neighbour, number) in listed, "something unanswered has no deadline"
                assert all(request.is_done or request.unanswered > 0 for request in entry.waiting)
