"""What the machine of a client delivers, handed at once to whoever is meant.

Nothing is kept: an item that belongs to a request finds its caller by the ticket, events go to their subscription, and
what concerns the connection changes what the client says of itself.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.net.client.tickets import error_of
from tidings.net.errors import Closed, NotPermitted, TooSlow
from tidings.net.inbox import Inbox
from tidings.net.params import InboxPolicy
from tidings.protocols.delivery.session.session import TOO_SLOW
from tidings.protocols.transport.marks import NAME_BYTES, take_off
from tidings.pubsub.client import (
    Accepted,
    Arrived,
    Begun,
    Confirmed,
    Declined,
    Ended,
    Failed,
    HistoryRead,
    MarksRead,
    Missed,
    Took,
)
from tidings.pubsub.signals import PeerDown, PeerUp, TurnedAway

if TYPE_CHECKING:
    from tidings.net.client.client import Client


class Items(Inbox):
    """The inbox of a client's host; `handlers` take items by their type."""

    client: "Client"

    def __init__(self) -> None:
        super().__init__(1, InboxPolicy.DROP_NEWEST, lambda: None)
        self.handlers: dict[type, Callable[[Any], None]] = {}

    def serve(self, client: "Client") -> None:
        self.client = client
        self.handlers = {
            Arrived: self.arrived,
            Begun: client.tickets.begun,
            Confirmed: client.tickets.confirmed,
            Failed: client.tickets.failed,
            MarksRead: client.tickets.read,
            HistoryRead: client.tickets.read,
            Accepted: client.outgoing.accepted,
            Declined: client.outgoing.refused,
            Missed: self.missed,
            Ended: self.given_up,
            PeerUp: self.served,
            PeerDown: self.left_alone,
            TurnedAway: self.turned_away,
        }

    def put(self, item: Any) -> Any:
        self.handlers[type(item)](item)
        return ()

    def arrived(self, item: Arrived) -> None:
        subscription = self.client.subscriptions.get(item.subscription)
        if subscription is None:
            return
        if self.client.carrying is None and NAME_BYTES in b"".join(item.heads):
            bare = without_transport(item)
            if len(bare.numbers) < len(item.numbers):
                subscription.counts.foreign += len(item.numbers) - len(bare.numbers)
                self.client.host.step(Took(item.subscription, len(item.numbers) - len(bare.numbers)))
            if not bare.numbers:
                return
            item = bare
        subscription.arrived(item)

    def missed(self, item: Missed) -> None:
        subscription = self.client.subscriptions.get(item.subscription)
        if subscription is not None:
            subscription.missed(item)

    def given_up(self, item: Ended) -> None:
        if item.kind == "advertise":
            self.client.advertisements.forget(item.number)
            return
        subscription = self.client.subscriptions.pop(item.number, None)
        if subscription is not None:
            slow = item.reason.startswith(TOO_SLOW)
            subscription.end(TooSlow(item.reason) if slow else error_of("subscription", item.reason))

    def served(self, item: PeerUp) -> None:
        self.client.broker, self.client.reason, self.client.advertisements.bound = item.broker, "", item.publish_bound
        self.client.is_served.set()

    def left_alone(self, item: PeerDown) -> None:
        self.client.broker, self.client.reason = None, item.reason
        self.client.is_served.clear()

    def turned_away(self, item: TurnedAway) -> None:
        if not self.client.machine.guest.welcoming:
            self.client.fail(NotPermitted(f"{item.broker} does not let us in: {item.reason}"))

    def end(self, failure: BaseException | None) -> None:
        super().end(failure)
        if isinstance(failure, Exception):
            self.client.fail(failure)
        self.client.is_closing = True
        self.client.let_go(Closed("this client was closed meanwhile; connect() again"))


def without_transport(item: Arrived) -> Arrived:
    """What of it is for an application, as it was published."""
    places, heads, payloads = take_off(item.heads, item.payloads)
    numbers = tuple([item.numbers[place] for place in places])
    return msgspec.structs.replace(item, numbers=numbers, heads=tuple(heads), payloads=tuple(payloads))
