"""What the transport itself wants of its carrier: subscriptions, and an advertisement for its own messages.

Subscriptions are those of `Watch`: with no guarantee, since the network is best effort to the transport, and with a
queue whose oldest entries go first. The application sees neither them nor their tickets. A subscription that is refused
is left out; the transport works with what it hears.

The transport's messages are published under an advertisement of their own, `tidings_transport != 'data'`, made when the
first is to be sent; up to `WAITING_MAX` wait until the network knows it. A client may be bound to publish less than
that. Then `problem` says so, and recovery and congestion control, which must speak, are off; ordering, which need not,
goes on. With the next broker it is tried again.
"""

from collections import deque
from collections.abc import Hashable, Sequence

from tidings.machine.effects import Drop
from tidings.model.language.parser import parse
from tidings.protocols.transport.carrier import Order, Own
from tidings.protocols.transport.marks import MARK, Kind
from tidings.protocols.transport.signals import Emit, Watch
from tidings.pubsub.client import (
    CloseAdvertisement,
    CloseSubscription,
    OpenAdvertisement,
    OpenSubscription,
    PublishBatch,
    Receipt,
)

CONTROL = parse(f"{MARK} != '{Kind.DATA.value}'")
WAITING_MAX = 256
QUEUE_MAX = 1000
WINDOW = 1024
RANGES_MAX = 1024
"""Runs of publications of our own that are remembered, so that the application does not hear if they are declined."""

NOT_KNOWN_YET = "the network does not know our advertisement yet, and too many messages wait for that"
MAY_NOT = "this client may not publish the transport's messages"


class OwnNeeds:
    def __init__(self) -> None:
        self.wanted: dict[Hashable, tuple[int, str]] = {}
        """By key: the carrier's number for it, and its filter."""
        self.keys: dict[int, Hashable] = {}
        """The same by number."""
        self.advertisement = 0
        self.is_asked = self.is_open = False
        self.waiting: deque[Emit] = deque()
        self.published: deque[tuple[int, int]] = deque(maxlen=RANGES_MAX)
        self.problem = ""
        """Why our messages may not be published; empty where they may."""

    # Subscriptions.

    def ask(self, ask: Watch) -> list[Order]:
        known = self.wanted.get(ask.key)
        if known is not None and known[1] == ask.filter:
            return []
        closing = self.unask(ask.key)
        self.wanted[ask.key] = 0, ask.filter
        opening = OpenSubscription(
            Own("ask", ask.key), ask.filter, "none", policy="drop oldest", queue_max=QUEUE_MAX, window=WINDOW
        )
        return [opening, *closing]

    def unask(self, key: Hashable) -> list[Order]:
        number, _ = self.wanted.pop(key, (0, ""))
        if not number:
            return []
        del self.keys[number]
        return [CloseSubscription(Own("close", number), number)]

    def begun(self, ticket: Own, number: int) -> None:
        if ticket.what == "ask":
            _, filter = self.wanted[ticket.key]
            self.wanted[ticket.key] = number, filter
            self.keys[number] = ticket.key
        elif ticket.what == "advertise":
            self.advertisement = number

    def refused(self, key: Hashable) -> None:
        """The subscription of this key is not carried out."""
        number, _ = self.wanted.pop(key, (0, ""))
        self.keys.pop(number, None)

    # Messages of our own.

    def publish(self, emits: Sequence[Emit]) -> list[Order]:
        """What the carrier is to be asked, and what is given up."""
        if self.problem:
            return [Drop(emit, MAY_NOT) for emit in emits]
        if self.is_open:
            return [self.batch(emits)]
        self.waiting.extend(emits)
        effects: list[Order] = []
        while len(self.waiting) > WAITING_MAX:
            effects.append(Drop(self.waiting.popleft(), NOT_KNOWN_YET))
        if not self.is_asked:
            self.is_asked = True
            effects.append(OpenAdvertisement(Own("advertise"), CONTROL.text()))
        return effects

    def batch(self, emits: Sequence[Emit]) -> PublishBatch:
        heads, payloads = tuple([emit.head for emit in emits]), tuple([emit.payload for emit in emits])
        return PublishBatch(self.advertisement, heads, payloads)

    def confirmed(self, receipt: Receipt | None) -> list[Order]:
        """Our advertisement is known, as far as we may publish."""
        if receipt is not None and receipt.filter and parse(receipt.filter) != CONTROL:
            self.forbid(f"{MAY_NOT}, only {receipt.filter}")
            return [CloseAdvertisement(Own("close", self.advertisement), self.advertisement)]
        self.is_open = True
        waiting = tuple(self.waiting)
        self.waiting.clear()
        return [self.batch(waiting)] if waiting else []

    def forbid(self, reason: str) -> None:
        self.problem = (
            f"{reason}; recovery and pacing are off until the bound on what it publishes includes {CONTROL.text()}"
        )
        self.is_asked = self.is_open = False
        self.waiting.clear()

    def is_ours(self, number: int) -> bool:
        return any(first <= number <= last for first, last in self.published)

    def check(self) -> None:
        assert len(self.waiting) <= WAITING_MAX, "too many messages wait for the advertisement"
        known = {number for number, _ in self.wanted.values() if number}
        assert known == set(self.keys), "subscriptions are filed wrongly"
