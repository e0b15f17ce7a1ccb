"""How far a session has come with each of its subscriptions.

`positions` holds for each publisher the number up to which everything arrived; it begins with those that the broker
tells ahead of the receipt (`Beginning`). After a break the subscription is made again behind these positions, so it
continues where it was; publishers that it does not name were not known before, and everything of them is wanted.
Brokers that promise something deliver the publications of one publisher in ascending order; so a number that is not
above the position is a repetition. Where nothing is promised, events may overtake each other: what comes late is passed
on as well, once (`seen`).

The window is one of the link: the broker counts what it sent over it and was not told to be taken. What is `held` here
from before a break is not its affair, so the application takes that first and nobody is told. While a whole window is
still held the subscription is not made again. So there are never more than two windows here, however often links break.

A broker that we are leaving goes on to deliver, and so does the next one, each without holes behind a position that we
had: whatever comes first counts, and the other is a repetition (`departure.py`).
"""

from collections.abc import Iterable, Iterator, Sequence
from operator import lt
from typing import Any

import msgspec

from tidings.machine.effects import Deliver, Disconnect, Drop, Effect, Send
from tidings.model.bounds import PUBLISHERS_MAX
from tidings.model.identity import NodeId
from tidings.protocols.delivery.messages import Beginning, Behind, Delivery, Subscribe, Taken
from tidings.pubsub.client import (
    Arrived,
    Fetched,
    MarksReply,
    Missed,
    OpenSubscription,
    Receipt,
    Replied,
)
from tidings.pubsub.notes import Promised, Twin
from tidings.pubsub.seen import Seen

POSITIONS_BYTES_MAX = 512 * 1024
"""Positions that one message names: half a frame. There may be several (`Behind`)."""

UNTOLD_BYTES_MAX = 8 * 1024
"""Taken by the application without the broker knowing; for all subscriptions of a client together that stays below what
the broker lets be under way."""

SEEN_WIDTH = 4096
"""Numbers below the highest one of a publisher that are still told apart, seen or not, where nothing is promised."""

POSITION_BYTES = 2 + 3 + 9
"""What a position takes besides its name: marks, lengths, the number."""


COUNTED = (Delivery, MarksReply, Fetched, Receipt, Beginning, Replied)
"""What the window of a connection counts."""


REPEATED = "received already"
WINDOW_IGNORED = "the broker sent more than the window of the subscription allows"
NOT_CONFIRMED = "for a subscription that is confirmed by the next broker first"

AT_MOST = "at most"
"""Stands in the reason where a number is an upper bound."""

MAY_BE_TOLD = "; so many at most: some of them may have been told of before it was asked again"

TOLD_MAX = 1_000
"""Publishers that are remembered of whom something was missed and nothing came since; of more it is not known."""

POSITIONS_SHORT = (
    "there are more than {count} publishers: of those silent longest it is forgotten how far they had come, and their "
    "events may come twice after a break; connect with a higher positions_max, or subscribe to fewer"
)


class PositionsKept(msgspec.Struct):
    """How many positions all subscriptions of a session hold together."""

    count_max: int
    count: int = 0


class SubscriptionReceiving:
    def __init__(self, number: int, request: OpenSubscription, kept: "PositionsKept") -> None:
        self.number, self.request, self.kept = number, request, kept
        self.step = max(1, request.window // 2)
        """The broker is told in such steps what was taken."""
        self.receipt: Receipt | None = None
        """The first one: from its time on the guarantee holds, across all breaks."""
        self.positions: dict[str, int] = {}
        """The publisher that was heard of last stands last."""
        self.is_short = self.is_told_short = False
        """Whether positions were forgotten, and whether the application knows."""
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
        self.told: dict[str, bool] = {}
        """Publishers of whom the application was told to have missed something and nothing came since; whether that
        was before it was asked again. It may be told again, for then no position says that it is known."""
        self.times_asked = 0
        """Over this link since the last receipt: an answer may be one to an earlier question."""

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

    def subscribe(self) -> list[Behind | Subscribe]:
        """The messages that begin it, or continue it after a break or a refusal."""
        self.told, self.times_asked = dict.fromkeys(self.told, True), self.times_asked + 1
        asked, after, guarantee = self.request, dict(self.request.after), self.request.guarantee
        is_continued = self.receipt is not None and guarantee != "none"
        if is_continued:
            guarantee = "reference"
        if guarantee == "reference":
            # Something may have come before the receipt: that was not missed, whatever history still holds.
            after |= self.positions
        *behind, last = parts_of(after)
        request = Subscribe(
            self.number,
            asked.filter,
            guarantee,
            asked.since,
            last,
            is_continued,
            asked.group,
            asked.policy,
            asked.queue_max,
            asked.window,
        )
        return [*(Behind(self.number, part) for part in behind), request]

    def confirm(self, receipt: Receipt) -> bool:
        """Whether it is the first receipt."""
        self.times_asked, is_first = 1, self.receipt is None
        if is_first:
            self.receipt = receipt
        return is_first

    def begin(self, positions: Iterable[tuple[str, int]]) -> None:
        """It gets what is behind these."""
        for publisher, number in positions:
            self.note(publisher, max(number, self.positions.get(publisher, 0)))

    def note(self, publisher: str, position: int) -> None:
        if self.positions.pop(publisher, None) is None:
            self.kept.count += 1
        self.positions[publisher] = position
        if self.kept.count > self.kept.count_max:
            silent = next(iter(self.positions))
            del self.positions[silent]
            self.kept.count -= 1
            self.is_short = True
            if self.seen is not None:
                self.seen.pop(silent, None)

    def tell_missed(self, message: Missed) -> Missed:
        """What the application hears: a number that it may have heard before is an upper bound."""
        was_told = self.told.get(message.publisher, len(self.told) >= TOLD_MAX)
        if len(self.told) < TOLD_MAX:
            self.told.setdefault(message.publisher, self.times_asked > 1)
        if not was_told or not message.count or AT_MOST in message.reason:
            return message
        return msgspec.structs.replace(message, reason=message.reason + MAY_BE_TOLD)

    def tell_short(self) -> list[Effect]:
        """Once, that positions were forgotten."""
        if not self.is_short or self.is_told_short:
            return []
        self.is_told_short = True
        return [Deliver(Missed(self.number, "", 0, POSITIONS_SHORT.format(count=self.kept.count_max)))]

    def close(self) -> None:
        self.kept.count -= len(self.positions)

    def arrived(self, message: Delivery, chosen: list[int] | None, broker: NodeId) -> list[Effect]:
        """Those publications of a message that match; None is all of them."""
        batch = (message.numbers, message.heads, message.payloads) if chosen is None else picked(message, chosen)
        numbers, heads, payloads = batch
        if self.held + self.taken + len(numbers) > self.request.window:
            return [Drop(message, WINDOW_IGNORED), Disconnect(broker, WINDOW_IGNORED)]
        self.bytes_untold += sum(map(len, heads)) + sum(map(len, payloads))
        fresh = self.admit(message.publisher, numbers)
        effects = self.tell_short() if self.is_short else []
        if fresh is not None:
            # What is dropped here is out of the way as well, and the broker has to know.
            self.taken += len(numbers) - len(fresh)
            effects.append(Drop(message, REPEATED))
            if self.is_due:
                effects.append(Send(broker, self.tell_taken()))
            if not fresh:
                return effects
            numbers, heads, payloads = (tuple([column[place] for place in fresh]) for column in batch)
        self.held += len(numbers)
        arrived = Arrived(self.number, message.publisher, message.accepted_at, numbers, heads, payloads)
        return [*effects, Deliver(arrived)]

    def arrived_late(self, message: Delivery, chosen: list[int] | None, broker: NodeId) -> list[Effect]:
        """The same from a broker that we are leaving. What it sends is among what is held from earlier links."""
        if self.receipt is None and self.seen is None:
            return [Drop(message, NOT_CONFIRMED)]
        batch = (message.numbers, message.heads, message.payloads) if chosen is None else picked(message, chosen)
        numbers, heads, payloads = batch
        if self.held_before + len(numbers) > 2 * self.request.window:
            return [Drop(message, WINDOW_IGNORED), Disconnect(broker, WINDOW_IGNORED)]
        fresh = self.admit(message.publisher, numbers)
        effects = self.tell_short() if self.is_short else []
        if fresh is not None:
            effects.append(Drop(message, REPEATED))
            numbers, heads, payloads = (tuple([column[place] for place in fresh]) for column in batch)
        if not numbers:
            return effects
        self.held_before += len(numbers)
        arrived = Arrived(self.number, message.publisher, message.accepted_at, numbers, heads, payloads)
        return [*effects, Deliver(arrived)]

    def tell_taken(self) -> Taken:
        taken, self.taken, self.bytes_untold = self.taken, 0, 0
        return Taken(self.number, taken)

    def admit(self, publisher: str, numbers: tuple[int, ...]) -> list[int] | None:
        """Take note of numbers that arrived. Answers with the places of those that are new; None means all."""
        position, places = self.positions.get(publisher), None
        if self.seen is not None:
            position, places = self.admit_unordered(self.seen, publisher, numbers)
        elif (position is None or numbers[0] > position) and all(map(lt, numbers, numbers[1:])):
            position = numbers[-1]
        else:
            places = []
            for place, number in enumerate(numbers):
                if position is None or number > position:
                    places.append(place)
                    position = number
        assert position is not None
        self.note(publisher, position)
        self.told.pop(publisher, None)
        return places

    def admit_unordered(
        self, seen: dict[str, Seen], publisher: str, numbers: tuple[int, ...]
    ) -> tuple[int, list[int] | None]:
        """The highest number that came, and the places of those that are new."""
        known, begin, places = seen.get(publisher), 0, []
        if known is None:
            known, begin, places = Seen(numbers[0], SEEN_WIDTH), 1, [0]
            seen[publisher] = known
        places += [place for place in range(begin, len(numbers)) if known.add(numbers[place])]
        return known.high, None if len(places) == len(numbers) else places

    def check(self) -> None:
        assert self.taken >= 0 and not self.is_due, "the broker should have been told what was taken"
        assert self.held >= 0 and self.held_before >= 0, "more was taken than there was"
        assert self.held + self.taken <= self.request.window, "the window does not hold"
        assert self.held_before <= 2 * self.request.window, "too much is held"
        assert self.is_asked or not (self.held or self.taken), "something came unasked"
        assert self.seen is None or self.seen.keys() == self.positions.keys(), "seen of whom nothing came"


def shares_of(matched: Sequence[Sequence[int]]) -> dict[int, list[int] | None]:
    """For each subscription the places of what it matches; None is all of them."""
    if len(matched) == 1:
        # The usual case: all of it is for the same subscriptions.
        return dict.fromkeys(matched[0])
    places: dict[int, list[int] | None] = {}
    for place, numbers in enumerate(matched):
        for number in numbers:
            mine = places.setdefault(number, [])
            assert mine is not None
            mine.append(place)
    return places


def picked(message: Delivery, chosen: list[int]) -> tuple[Any, Any, Any]:
    columns = message.numbers, message.heads, message.payloads
    numbers, heads, payloads = (tuple([column[place] for place in chosen]) for column in columns)
    return numbers, heads, payloads


def parts_of(positions: dict[str, int]) -> list[tuple[tuple[str, int], ...]]:
    """All of them, as many as fit a message at a time; one part at least."""
    parts: list[list[tuple[str, int]]] = [[]]
    room = POSITIONS_BYTES_MAX
    for publisher, number in positions.items():
        size = len(publisher.encode()) + POSITION_BYTES
        if size > room or len(parts[-1]) == PUBLISHERS_MAX:
            parts.append([])
            room = POSITIONS_BYTES_MAX
        parts[-1].append((publisher, number))
        room -= size
    return [tuple(part) for part in parts]


def promises(subscription: int, request: OpenSubscription) -> Iterator[Promised | Twin]:
    """What is noted when a subscription is in place: what its client may rely on."""
    if request.guarantee != "none":
        yield Promised(subscription, request.guarantee, request.since)
        for publisher, number in request.after:
            yield Promised(subscription, request.guarantee, publisher=publisher, number=number + 1)
    if request.group:
        yield Twin(subscription, request.group)
