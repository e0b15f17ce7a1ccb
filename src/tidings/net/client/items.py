"""What the machine of a client delivers, handed at once to whoever is meant.

Nothing is kept: events go to their subscription, and what concerns the connection changes what the client says of
itself. A request that the client has made of its session carries a ticket, and so does whatever is delivered for it:
`Begun` at once, with its number, and some time later `Confirmed` (for what is read `MarksRead`, `HistoryRead`) or
`Failed`; by the ticket it finds its caller.
"""

import asyncio
import warnings
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.net.errors import (
    ClientError,
    Closed,
    NamesakeWarning,
    NotConfirmed,
    NotPermitted,
    NotReachable,
    Refused,
    TooSlow,
)
from tidings.net.inbox import Inbox
from tidings.net.params import InboxPolicy
from tidings.protocols.delivery.messages import ACCEPTED_ELSEWHERE
from tidings.protocols.delivery.session.session import RECEIPT_LOST, TOO_SLOW
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
    Namesake,
    Replied,
    Took,
)
from tidings.pubsub.signals import PeerDown, PeerUp, TurnedAway

if TYPE_CHECKING:
    from tidings.net.client.client import Client

NOT_PERMITTED = "not permitted"
"""How the reason of a refusal begins that concerns who we are."""

NAMESAKES_MAX = 64
"""Namesakes of this client that are remembered."""

NAMESAKE = (
    "another process publishes as {name} at the same time ({publisher}, at the broker {broker}); nothing is lost by "
    "that, but if it is not meant, stop one of them or give it another name="
)

NOT_REACHABLE = "not reachable"
"""Likewise, where other brokers did not answer ours."""

Answer = asyncio.Future[Any]
"""A receipt, or None where nobody had to be asked; for readings the item that the session delivered."""


class PendingTicket:
    """`what` was asked; `begun(number)` is called at once, `answer` is done when the broker has answered."""

    def __init__(self, what: str, answer: Answer, begun: Callable[[int], None]) -> None:
        self.what, self.answer, self.begun = what, answer, begun


class Tickets:
    """`inject(request)` makes a request of the session."""

    def __init__(self, inject: Callable[[Any], None]) -> None:
        self.inject = inject
        self.numbers = count(1)
        self.pending: dict[int, PendingTicket] = {}

    def ask(self, what: str, request: Callable[[int], Any], begun: Callable[[int], None]) -> Answer:
        ticket = next(self.numbers)
        answer: Answer = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda done: self.pending.pop(ticket, None))
        self.pending[ticket] = PendingTicket(what, answer, begun)
        self.inject(request(ticket))
        return answer

    def begun(self, item: Begun) -> None:
        pending = self.find(item.ticket)
        if pending is not None:
            pending.begun(item.number)

    def confirmed(self, item: Confirmed) -> None:
        pending = self.find(item.ticket)
        if pending is not None and not pending.answer.done():
            pending.answer.set_result(item.receipt)

    def read(self, item: MarksRead | HistoryRead) -> None:
        pending = self.find(item.ticket)
        if pending is not None and not pending.answer.done():
            pending.answer.set_result(item)

    def failed(self, item: Failed) -> None:
        pending = self.find(item.ticket)
        if pending is not None and not pending.answer.done():
            pending.answer.set_exception(error_of(pending.what, item.reason, item.may_retry))

    def fail_all(self, error: Exception) -> None:
        for pending in list(self.pending.values()):
            if not pending.answer.done():
                pending.answer.set_exception(error)

    def find(self, ticket: object) -> PendingTicket | None:
        """None for requests that nobody waits for any more."""
        return self.pending.get(ticket) if isinstance(ticket, int) else None


def error_of(what: str, reason: str, may_retry: bool = False) -> ClientError:
    if reason in (RECEIPT_LOST, ACCEPTED_ELSEWHERE):
        return NotConfirmed(f"{what}: {reason}")
    if reason.startswith(NOT_PERMITTED):
        return NotPermitted(f"{what}: {reason}")
    if reason.startswith(NOT_REACHABLE):
        return NotReachable(f"{what}: {reason}")
    return Refused(f"{what}: {reason}{'; try again later' if may_retry else ''}")


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
            Replied: client.requests.arrived,
            Namesake: self.found_namesake,
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

    def found_namesake(self, item: Namesake) -> None:
        client = self.client
        client.namesakes[item.publisher] = item.broker
        if len(client.namesakes) > NAMESAKES_MAX:
            del client.namesakes[next(iter(client.namesakes))]
        text = NAMESAKE.format(name=client.name, publisher=item.publisher, broker=item.broker)
        client.host.log.warning("namesake", publisher=item.publisher, broker=item.broker)
        # Not here: where warnings are errors, it would end the host.
        client.host.loop.call_soon(warnings.warn, text, NamesakeWarning)

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
