"""Requests that a client has made of its session, and who waits for the answers.

A request carries a ticket, and so does whatever is delivered for it: `Begun` at once, with its number, and some time
later `Confirmed` (for what is read `MarksRead`, `HistoryRead`) or `Failed`.
"""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any

from tidings.net.errors import ClientError, NotConfirmed, NotPermitted, NotReachable, Refused
from tidings.protocols.delivery.session.session import RECEIPT_LOST
from tidings.pubsub.client import Begun, Confirmed, Failed, HistoryRead, MarksRead

NOT_PERMITTED = "not permitted"
"""How the reason of a refusal begins that concerns who we are."""

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
    if reason == RECEIPT_LOST:
        return NotConfirmed(f"{what}: {reason}")
    if reason.startswith(NOT_PERMITTED):
        return NotPermitted(f"{what}: {reason}")
    if reason.startswith(NOT_REACHABLE):
        return NotReachable(f"{what}: {reason}")
    return Refused(f"{what}: {reason}{'; try again later' if may_retry else ''}")
