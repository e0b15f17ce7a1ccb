"""Backlog: what a neighbour tells of its tables waits for a free moment, and events pass it by.

The problem. A link between brokers carries everybody's traffic, in one order. One client can make its broker tell
hundreds of filters that are dear to read and to compare; the neighbour carries them out one after the other, and the
events and answers of everybody else stand behind them. With 300 advertisements full of patterns that was a second.

The idea. A neighbour may have a few changes carried out at once (`BURST_BYTES` of them, and `RATE_BYTES` a second); the
rest waits here and is carried out a little at a time (`STEP_BYTES`), neighbour by neighbour, with `TURN_AFTER` seconds
for everything else between two such steps.

What may pass. Order matters where one message is about another:

    changes of tables, beginnings     wait, each behind the one before it
    questions of delivery             wait: the subscription must be there when its question is answered
    publications, answers of history  pass, unless something that waits is about their publisher or advertisement:
                                      its advertisement, its way, or an earlier publication
    receipts, acknowledgements        pass: they answer what we said, or an event

Behind the beginning of a new life of a link, or of its count of history, nothing passes. Delivery does not mind an
event that comes before an answer: it keeps what comes until it has that (`protocols/delivery/edge/references.py`). That
an advertisement waits is as if it were still on its way.

Bounds. `BACKLOG_BYTES_MAX` of each neighbour wait; for what comes beyond it, the oldest is carried out at once, so
nothing is lost and the order is kept. What waits when its link goes down is lost with it, as all that is on its way.

State: for each neighbour what waits, and how much it may still have at once. Timer: "turn".
"""

from collections import deque
from collections.abc import Iterable

from tidings.machine.effects import Drop, Effect, SetTimer
from tidings.machine.inputs import Input, LinkDown, LinkUp, Received, Signal
from tidings.model.bounds import BACKLOG_BYTES_MAX
from tidings.model.identity import NodeId
from tidings.protocols.delivery.messages import (
    FetchedFar,
    FetchFar,
    History,
    HistoryBegun,
    HistoryTaken,
    LookFar,
    MarksFar,
    NamesakeFar,
    PackedReferences,
    Reference,
    ReplyFar,
    ReplySettledFar,
)
from tidings.protocols.routing.carriage.gossiping import GroupClosed, GroupOpened
from tidings.protocols.routing.interests import InterestAsked, Interested, InterestNamed
from tidings.protocols.routing.messages import (
    AdvertisementAdded,
    AdvertisementRemoved,
    ChangesInstalled,
    ChangesNotInstalled,
    Counted,
    Installed,
    NotInstalled,
    NotReached,
    PartTold,
    PublicationsSkipped,
    PublicationsTaken,
    Reached,
    SubscriptionAdded,
    SubscriptionRemoved,
    TableChanges,
    TablesBegun,
    TablesTaken,
    TablesTold,
)
from tidings.protocols.routing.packets import changes_of, size_of_told
from tidings.protocols.routing.repairs.messages import Activate, Flush, PathEdit, PathEdited, ShiftWord
from tidings.pubsub.gathered import GatheredPublications
from tidings.pubsub.publications import Publications, PublicationsAround

BURST_BYTES = 4 * 1024
"""Changes that are carried out at once, by their size in the window of their link (`protocols/routing/packets.py`)."""

RATE_BYTES = 64 * 1024
"""How much of that a neighbour gets back in a second."""

STEP_BYTES = 4 * 1024
"""What is carried out in one step; a single message may be larger."""

TURN_AFTER = 0.001
TIMER = "turn"

OTHER_BYTES = 512
"""What a message counts that is no change."""

LOST = "waited to be looked at, and its link went down"

CHANGES = frozenset(
    (AdvertisementAdded, AdvertisementRemoved, SubscriptionAdded, SubscriptionRemoved, PartTold, TableChanges)
)
BARRIERS = frozenset((TablesBegun, HistoryBegun))
"""Nothing passes these."""

NAMED = frozenset((Publications, GatheredPublications, PublicationsAround, PublicationsSkipped, History))
"""About one publisher."""

INTERESTS = (Interested, InterestAsked, InterestNamed, GroupOpened, GroupClosed)
"""Behind the subscriptions that they are about, and ahead of questions that come behind them."""

FREE = frozenset(
    (
        *(Installed, NotInstalled, ChangesInstalled, ChangesNotInstalled, Reached, NotReached),
        *(TablesTaken, PublicationsTaken, HistoryTaken, MarksFar, FetchedFar, ReplyFar, ReplySettledFar),
    )
)
"""Answers, and replies to events, which pass whatever waits but a barrier."""

ORDERED = frozenset(
    (
        *(
            *CHANGES,
            *BARRIERS,
            *NAMED,
            *FREE,
            TablesTold,
            Counted,
            *INTERESTS,
            Activate,
            Flush,
            PathEdit,
            PathEdited,
            ShiftWord,
        ),
        *(Reference, PackedReferences, LookFar, FetchFar, NamesakeFar),
    )
)
"""What brokers say to each other about events. The rest is nobody's concern here."""


class TablesOfNeighbour:
    """What waits of one neighbour."""

    def __init__(self, now: float) -> None:
        self.inputs: deque[Received] = deque()
        self.waiting_bytes = self.barriers = 0
        self.touched: dict[str, int] = {}
        """Publishers and advertisements that something which waits is about, and how many there are."""
        self.allowance, self.allowed_at = float(BURST_BYTES), now

    def may_at_once(self, now: float, size_bytes: int) -> bool:
        allowance = min(BURST_BYTES, self.allowance + RATE_BYTES * (now - self.allowed_at))
        self.allowance, self.allowed_at = allowance, now
        if allowance < min(size_bytes, BURST_BYTES):
            return False
        self.allowance -= size_bytes
        return True

    def may_pass(self, message: object) -> bool:
        kind = type(message)
        if self.barriers:
            return False
        if isinstance(message, GatheredPublications):
            message = message.batch
        if isinstance(message, Publications | PublicationsSkipped | History):
            return message.publisher not in self.touched and message.advertisement not in self.touched
        return kind in FREE

    def put(self, received: Received) -> None:
        self.inputs.append(received)
        self.waiting_bytes += size_of(received)
        self.barriers += type(received.message) in BARRIERS
        for name in names_in(received.message):
            self.touched[name] = self.touched.get(name, 0) + 1

    def take(self) -> Received:
        received = self.inputs.popleft()
        self.waiting_bytes -= size_of(received)
        self.barriers -= type(received.message) in BARRIERS
        for name in names_in(received.message):
            self.touched[name] -= 1
            if not self.touched[name]:
                del self.touched[name]
        return received


class TableBacklog:
    """A part of a node that is asked of each message whether it `must_wait`."""

    messages: tuple[type, ...] = ()
    hears: tuple[type, ...] = (LinkUp, LinkDown)
    tells: tuple[type[Signal], ...] = ()

    def __init__(self) -> None:
        self.neighbours: dict[NodeId, TablesOfNeighbour] = {}
        """Those that told changes since their link is up."""
        self.waiting: dict[NodeId, TablesOfNeighbour] = {}
        """Those of which something waits, in the order of their turns."""
        self.is_timed = False

    def start(self, now: float) -> list[Effect]:
        """No link is up any more, and there is no timer."""
        self.neighbours.clear()
        self.waiting.clear()
        self.is_timed = False
        return []

    def must_wait(self, now: float, received: Received) -> bool:
        kind = type(received.message)
        waiting = self.waiting.get(received.sender)
        if waiting is not None:
            return kind in ORDERED and not waiting.may_pass(received.message)
        if kind not in CHANGES:
            return False
        neighbour = self.neighbours.get(received.sender)
        if neighbour is None:
            neighbour = self.neighbours[received.sender] = TablesOfNeighbour(now)
        return not neighbour.may_at_once(now, size_of(received))

    def put(self, now: float, received: Received) -> list[Effect]:
        neighbour = self.neighbours[received.sender]
        self.waiting[received.sender] = neighbour
        neighbour.put(received)
        return self.arm(now)

    def take_excess(self, sender: NodeId) -> Received | None:
        """The oldest of a neighbour of which more waits than may."""
        neighbour = self.waiting[sender]
        return self.take(sender, neighbour) if neighbour.waiting_bytes > BACKLOG_BYTES_MAX else None

    def take_turn(self) -> list[Received]:
        """What is to be carried out in this step: of the neighbour whose last turn was longest ago."""
        self.is_timed = False
        if not self.waiting:
            return []
        sender = next(iter(self.waiting))
        neighbour = self.waiting.pop(sender)
        self.waiting[sender] = neighbour
        taken: list[Received] = []
        size_bytes = 0
        while neighbour.inputs and (not taken or size_bytes + size_of(neighbour.inputs[0]) <= STEP_BYTES):
            size_bytes += size_of(neighbour.inputs[0])
            taken.append(self.take(sender, neighbour))
        return taken

    def take(self, sender: NodeId, neighbour: TablesOfNeighbour) -> Received:
        received = neighbour.take()
        if not neighbour.inputs:
            del self.waiting[sender]
            neighbour.allowance = 0.0
        return received

    def arm(self, now: float) -> list[Effect]:
        if self.is_timed or not self.waiting:
            return []
        self.is_timed = True
        return [SetTimer(TIMER, now + TURN_AFTER)]

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case LinkDown(neighbour) | LinkUp(neighbour):
                self.waiting.pop(neighbour, None)
                lost = self.neighbours.pop(neighbour, None)
                return [] if lost is None else [Drop(each.message, LOST) for each in lost.inputs]
        return []

    def check(self) -> None:
        assert self.is_timed or not self.waiting, "something waits, and no turn comes"
        assert all(self.neighbours[sender] is neighbour for sender, neighbour in self.waiting.items())
        for sender, neighbour in self.neighbours.items():
            assert bool(neighbour.inputs) == (sender in self.waiting)
            assert neighbour.waiting_bytes == sum(map(size_of, neighbour.inputs)) <= BACKLOG_BYTES_MAX
            assert neighbour.barriers == sum(type(each.message) in BARRIERS for each in neighbour.inputs)
            assert neighbour.touched.keys() == {name for each in neighbour.inputs for name in names_in(each.message)}


def size_of(received: Received) -> int:
    if type(received.message) in CHANGES:
        return size_of_told(received.message)
    return max(OTHER_BYTES, received.size_bytes)


def names_in(message: object) -> Iterable[str]:
    """The publishers and advertisements that a message is about, as far as events of theirs must not pass it."""
    match message:
        case TableChanges():
            return [name for change in changes_of(message) for name in names_in(change)]
        case AdvertisementAdded() | Publications() | PublicationsSkipped() | History():
            return message.publisher, message.advertisement
        case GatheredPublications(batch):
            return names_in(batch)
        case AdvertisementRemoved():
            return (message.advertisement,)
    return ()
