"""One subscription of a client: what it asked for, and how far it has come.

`positions` holds for each publisher the number up to which everything arrived. After a break the subscription is made
again behind these positions (and, for publishers of whom nothing came yet, since the time of the receipt), so it
continues where it was. Brokers that promise something deliver the publications of one publisher in ascending order; so
a number that is not above the position is a repetition. Where nothing is promised, events may overtake each other: what
comes late is passed on as well, once (`seen`).

The window is one of the link: the broker counts what it sent over it and was not told to be taken. What is `held` here
from before a break is not its affair, so the application takes that first and nobody is told. While a whole window is
still held the subscription is not made again. So there are never more than two windows here, however often links break.
"""

from collections.abc import Iterator
from operator import lt

from tidings.model.bounds import PUBLISHERS_MAX
from tidings.protocols.delivery.messages import Subscribe
from tidings.pubsub.client import OpenSubscription, Receipt
from tidings.pubsub.notes import Promised, Twin
from tidings.pubsub.seen import Seen

POSITIONS_BYTES_MAX = 512 * 1024
"""Positions that one message names: half a frame."""

UNTOLD_BYTES_MAX = 8 * 1024
"""Taken by the application without the broker knowing; for all subscriptions of a client together that stays below what
the broker lets be under way."""

SEEN_WIDTH = 4096
"""Numbers below the highest one of a publisher that are still told apart, seen or not, where nothing is promised."""

POSITION_BYTES = 2 + 3 + 9
"""What a position takes besides its name: marks, lengths, the number."""


class SubscriptionReceiving:
    def __init__(self, number: int, request: OpenSubscription) -> None:
        self.number, self.request = number, request
        self.receipt: Receipt | None = None
        """The first one: from its time on the guarantee holds, across all breaks."""
        self.positions: dict[str, int] = {}
        self.seen: dict[str, Seen] | None = {} if request.guarantee == "none" else None
        self.is_asked = False
        """Whether the broker of this link knows of it."""
        self.held = 0
        """What came over this link, and the application has not taken."""
        self.held_before = 0
        """The same of earlier links; it is taken first."""
        self.taken = 0
        """Taken by the application, and the broker does not know it yet."""
        self.bytes_untold = 0
        """What came since the broker was last told."""

    @property
    def step(self) -> int:
        """The broker is told in such steps what was taken."""
        return max(1, self.request.window // 2)

    @property
    def is_due(self) -> bool:
        """Whether the broker should be told. Few large publications may be all that it lets be under way at a time, so
        it is also told when everything was taken and that was much."""
        return self.taken >= self.step or (self.taken > 0 and not self.held and self.bytes_untold >= UNTOLD_BYTES_MAX)

    @property
    def may_ask(self) -> bool:
        return self.held_before < self.request.window

    def link_lost(self) -> None:
        self.held_before += self.held
        self.held = self.taken = self.bytes_untold = 0
        self.is_asked = False

    def take(self, count: int) -> None:
        """The application took so many."""
        before = min(count, self.held_before)
        self.held_before -= before
        told = min(count - before, self.held)
        self.held -= told
        self.taken += told

    def subscribe(self) -> Subscribe:
        """The message that begins it, or continues it after a break."""
        asked, since, after = self.request, self.request.since, dict(self.request.after)
        guarantee = asked.guarantee
        if self.receipt is not None and guarantee != "none":
            # A time that the application named stays; without one the promise began with the receipt.
            since = self.receipt.at if since is None else since
            after |= self.positions
            guarantee = "reference"
        return Subscribe(
            self.number,
            asked.filter,
            guarantee,
            since,
            fitting(after),
            asked.group,
            asked.policy,
            asked.queue_max,
            asked.window,
        )

    def admit(self, publisher: str, numbers: tuple[int, ...]) -> list[int] | None:
        """Take note of numbers that arrived. Answers with the places of those that are new; None means all."""
        if self.seen is not None:
            return self.admit_unordered(self.seen, publisher, numbers)
        position = self.positions.get(publisher)
        if (position is None or numbers[0] > position) and all(map(lt, numbers, numbers[1:])):
            self.move(publisher, numbers[-1])
            return None
        places: list[int] = []
        for place, number in enumerate(numbers):
            if position is None or number > position:
                places.append(place)
                position = number
        if places:
            assert position is not None
            self.move(publisher, position)
        return places

    def admit_unordered(self, seen: dict[str, Seen], publisher: str, numbers: tuple[int, ...]) -> list[int] | None:
        known, begin, places = seen.get(publisher), 0, []
        if known is None:
            known, begin, places = Seen(numbers[0], SEEN_WIDTH), 1, [0]
            seen[publisher] = known
        places += [place for place in range(begin, len(numbers)) if known.add(numbers[place])]
        self.move(publisher, known.high)
        return None if len(places) == len(numbers) else places

    def move(self, publisher: str, position: int) -> None:
        self.positions[publisher] = position
        if len(self.positions) > PUBLISHERS_MAX:
            oldest = next(iter(self.positions))
            del self.positions[oldest]
            if self.seen is not None:
                self.seen.pop(oldest, None)

    def check(self) -> None:
        assert self.taken >= 0 and not self.is_due, "the broker should have been told what was taken"
        assert self.held >= 0 and self.held_before >= 0, "more was taken than there was"
        assert self.held + self.taken <= self.request.window, "the window does not hold"
        assert self.held_before <= 2 * self.request.window, "too much is held"
        assert self.is_asked or not (self.held or self.taken), "something came unasked"
        assert len(self.positions) <= PUBLISHERS_MAX, "too many positions"
        assert self.seen is None or self.seen.keys() == self.positions.keys(), "seen of whom nothing came"


def fitting(positions: dict[str, int]) -> tuple[tuple[str, int], ...]:
    """As many of them, from the last backwards, as a message holds. From the other publishers everything since a time
    comes again, and what we have of it is recognised."""
    chosen: list[tuple[str, int]] = []
    room = POSITIONS_BYTES_MAX
    for publisher, number in reversed(positions.items()):
        room -= len(publisher.encode()) + POSITION_BYTES
        if room < 0 or len(chosen) == PUBLISHERS_MAX:
            break
        chosen.append((publisher, number))
    return tuple(reversed(chosen))


def promises(subscription: int, request: OpenSubscription) -> Iterator[Promised | Twin]:
    """What is noted when a subscription is in place: what its client may rely on."""
    if request.guarantee != "none":
        yield Promised(subscription, request.guarantee, request.since)
        for publisher, number in request.after:
            yield Promised(subscription, request.guarantee, publisher=publisher, number=number + 1)
    if request.group:
        yield Twin(subscription, request.group)
