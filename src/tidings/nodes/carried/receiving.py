"""From what the session delivers to what the transport catches, and from what that hands over to the application.

Up. A publication may come for several subscriptions at once; the session delivers it for each. Here they are brought
together again (`contents_of`), since the transport has to see each event once, with all subscriptions that it is for.

Down to the window. The session counts what the application has not taken; the broker sends only so much more. Two kinds
of events break that count, and the ledger mends it. What the transport keeps for itself (its own messages, repetitions)
is taken by nobody: `consume`. What the application gets though it did not come over the subscription (repairs, events
from history) must not be told as taken: `lend`, and the next events that the application takes pay for it.

An event that was repaired before its original came is in `given`, by its number in the headers, with the subscriptions
that have it, so that none gets it twice.
"""

from collections.abc import Iterable, Sequence
from itertools import repeat

from tidings.machine.effects import Deliver, Effect
from tidings.nodes.carried.items import Carried
from tidings.protocols.transport.signals import Content, Handed, Stream, Way
from tidings.pubsub.client import Arrived, Took

GIVEN_MAX = 8192
"""Repaired events that are remembered, twice the window of numbers in which the transport knows repetitions."""

BROUGHT: tuple[Way, ...] = ("repaired", "history")
"""Ways that do not lead over the subscription."""


def contents_of(items: Sequence[Arrived], own: Iterable[int]) -> list[Content]:
    """The publications of one delivery, each once; `own` are the subscriptions of the transport itself."""
    first = items[0]
    same = repeat(first.publisher), repeat(first.accepted_at)
    if all(item.numbers == first.numbers for item in items):
        wanted = tuple([item.subscription for item in items if item.subscription not in own])
        return list(map(Content, first.heads, first.payloads, same[0], first.numbers, same[1], repeat(wanted)))
    bytes_of: dict[int, tuple[bytes, bytes]] = {}
    wanted_by: dict[int, list[int]] = {}
    for item in items:
        for number, head, payload in zip(item.numbers, item.heads, item.payloads, strict=True):
            bytes_of[number] = head, payload
            subscriptions = wanted_by.setdefault(number, [])
            if item.subscription not in own:
                subscriptions.append(item.subscription)
    return [
        Content(*bytes_of[number], first.publisher, number, first.accepted_at, tuple(wanted_by[number]))
        for number in sorted(bytes_of)
    ]


class Ledger:
    """What the session takes for held by the application and is not, and the reverse."""

    def __init__(self) -> None:
        self.consumed: dict[int, int] = {}
        """Of this step, to be told to the session at its end."""
        self.lent: dict[int, int] = {}
        self.given: dict[tuple[Stream, int], tuple[int, ...]] = {}

    def consume(self, subscriptions: Iterable[int], count: int = 1) -> None:
        for subscription in subscriptions:
            self.consumed[subscription] = self.consumed.get(subscription, 0) + count

    def take_consumed(self) -> list[Took]:
        consumed, self.consumed = self.consumed, {}
        return [Took(subscription, count) for subscription, count in consumed.items()]

    def lend(self, handed: Handed) -> None:
        subscriptions = handed.content.subscriptions
        for subscription in subscriptions:
            self.lent[subscription] = self.lent.get(subscription, 0) + 1
        key = handed.stream, handed.sequence
        self.given[key] = self.given.get(key, ()) + subscriptions
        if len(self.given) > GIVEN_MAX:
            del self.given[next(iter(self.given))]

    def took(self, request: Took) -> Took | None:
        """What the session is to be told of what the application took."""
        lent = self.lent.get(request.subscription, 0)
        if not lent:
            return request
        paid = min(lent, request.count)
        if paid == lent:
            del self.lent[request.subscription]
        else:
            self.lent[request.subscription] = lent - paid
        return Took(request.subscription, request.count - paid) if request.count > paid else None

    def forget(self, subscription: int) -> None:
        self.lent.pop(subscription, None)
        self.consumed.pop(subscription, None)

    def check(self) -> None:
        assert len(self.given) <= GIVEN_MAX, "more repaired events are remembered than is allowed"
        assert all(count > 0 for count in self.lent.values()), "nothing is lent, and noted"


class Packing:
    """Events that are handed over in one step, side by side again as far as they belong together."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self.like: tuple[tuple[int, ...], str, float, Way, float, float] | None = None
        self.numbers: list[int] = []
        self.heads: list[bytes] = []
        self.payloads: list[bytes] = []

    def add(self, handed: Handed) -> None:
        content = handed.content
        like = content.subscriptions, content.source, content.accepted_at, handed.way, handed.latch, handed.held
        if like != self.like:
            self.close()
            self.like = like
        self.numbers.append(content.number)
        self.heads.append(content.head)
        self.payloads.append(content.payload)

    def close(self) -> None:
        if self.like is None:
            return
        subscriptions, publisher, accepted_at, way, latch, held = self.like
        columns = tuple(self.numbers), tuple(self.heads), tuple(self.payloads)
        is_plain = way == "direct" and not held
        for subscription in subscriptions:
            head = subscription, publisher, accepted_at
            item = Arrived(*head, *columns) if is_plain else Carried(*head, *columns, way, latch, held)
            self.effects.append(Deliver(item))
        self.like = None
        self.numbers, self.heads, self.payloads = [], [], []

    def done(self) -> list[Effect]:
        self.close()
        return self.effects
