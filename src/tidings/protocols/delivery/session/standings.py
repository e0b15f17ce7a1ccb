"""What an application opens and, some time, closes: its subscriptions, its advertisements; what it reads and replies.

Both lead the same life. Opened, it is asked for (again with each new broker, and after a refusal that may pass) until
the broker confirms it; then it stands, and is asked for again with each new broker, without the application hearing of
it. Closed, it is taken back, and is gone when the broker confirms that; an advertisement not before the broker has what
was published under it, which else could not be published again by way of another one. A refusal for good ends it: the
application hears `Failed` while it waits for the answer, `Ended` later.

Readings of the history of the network change nothing and keep nothing at the broker. So a request that was not answered
when the link broke is made again, as it was, of the next broker; a part of an answer that came before is thrown away.
An answer ends a reading, and so does a refusal, or the application that does not want it any longer. Replies to events
lead the same life: made again of the next broker, with the same word, by which whoever gets it twice recognises it.
"""

from collections.abc import Callable, Sequence
from random import Random

from tidings.machine.effects import CancelTimer, Deliver, Drop, Effect, SetTimer
from tidings.machine.message import Message
from tidings.model.bounds import REPLY_WORD_CHARS
from tidings.protocols.delivery.messages import (
    Advertise,
    Fetch,
    Look,
    Refusal,
    ReplyMessage,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from tidings.protocols.delivery.session.params import SessionParams
from tidings.pubsub.client import (
    Begun,
    Confirmed,
    Ended,
    Failed,
    Fetched,
    HistoryRead,
    Kind,
    MarksRead,
    MarksReply,
    ReadHistory,
    ReadMarks,
    Receipt,
    SendReply,
    Ticket,
)

NOT_ASKED = "answers what was not asked"
TOO_MANY = "as many as are allowed are open already; close some"
CLOSED = "closed by the application before it was confirmed"
NO_SUCH = "there is none of this number"

ASKED_WITH: dict[type, Kind] = {
    Advertise: "advertise",
    Unadvertise: "unadvertise",
    Subscribe: "subscribe",
    Unsubscribe: "unsubscribe",
    Look: "read",
    Fetch: "read",
    ReplyMessage: "reply",
}
"""Requests, and what they are called in answers."""

Send = Callable[..., list[Effect]]
"""Messages to the broker as effects; none while there is no broker."""


class Standing:
    """`opening()` makes the messages that ask for it, as things are now; `closing` takes it back."""

    def __init__(self, number: int, ticket: Ticket, opening: Callable[[], Sequence[Message]], closing: Message) -> None:
        self.number, self.opening, self.closing = number, opening, closing
        self.ticket: Ticket | None = ticket
        """Who waits for an answer; None once it was given."""
        self.is_confirmed = False
        self.is_leaving = False
        self.retries = 0


class Standings:
    """All of one kind; `open_kind` and `close_kind` are what their messages are called in answers."""

    def __init__(
        self, open_kind: Kind, close_kind: Kind, count_max: int, params: SessionParams, rng: Random, send: Send
    ) -> None:
        self.open_kind, self.close_kind, self.count_max = open_kind, close_kind, count_max
        self.params, self.rng, self.send = params, rng, send
        self.all: dict[int, Standing] = {}
        self.last = 0
        self.withdrawn: dict[int, Receipt] = {}
        """Those that the broker has taken back, and that are still needed."""

    @property
    def next(self) -> int:
        return self.last + 1

    def is_open(self, number: int) -> bool:
        standing = self.all.get(number)
        return standing is not None and not standing.is_leaving

    def is_leaving(self, number: int) -> bool:
        return number in self.all and self.all[number].is_leaving

    # The application asks.

    def open(self, standing: Standing) -> list[Effect]:
        if len(self.all) >= self.count_max:
            return [Deliver(Failed(standing.ticket, TOO_MANY))]
        assert standing.number == self.next
        self.last = standing.number
        self.all[standing.number] = standing
        return [Deliver(Begun(standing.ticket, standing.number)), *self.send(*standing.opening())]

    def close(self, ticket: Ticket, number: int) -> list[Effect]:
        if not self.is_open(number):
            return [Deliver(Failed(ticket, NO_SUCH))]
        standing = self.all[number]
        effects: list[Effect] = [] if standing.ticket is None else [Deliver(Failed(standing.ticket, CLOSED))]
        effects += self.stop_retrying(standing)
        standing.ticket, standing.is_leaving = ticket, True
        return effects + self.send(standing.closing)

    def forget_leaving(self) -> list[Effect]:
        """Nobody is left who has to be asked."""
        return [effect for it in list(self.all.values()) if it.is_leaving for effect in self.finish(it.number, None)]

    def link_lost(self) -> list[Effect]:
        self.withdrawn.clear()
        return [effect for it in self.all.values() for effect in self.stop_retrying(it)]

    # The broker answers.

    def confirmed(self, receipt: Receipt, is_needed: bool = False) -> list[Effect]:
        standing = self.all.get(receipt.number)
        if standing is None or standing.is_leaving is not (receipt.kind == self.close_kind):
            return [Drop(receipt, NOT_ASKED)]
        if standing.is_leaving and is_needed:
            self.withdrawn[standing.number] = receipt
            return []
        if standing.is_leaving:
            return self.finish(standing.number, receipt)
        standing.retries, standing.is_confirmed = 0, True
        ticket, standing.ticket = standing.ticket, None
        return [] if ticket is None else [Deliver(Confirmed(ticket, receipt))]

    def settle(self, is_needed: Callable[[int], bool]) -> list[Effect]:
        done = {number: receipt for number, receipt in self.withdrawn.items() if not is_needed(number)}
        return [effect for number, receipt in done.items() for effect in self.finish(number, receipt)]

    def refused(self, now: float, refusal: Refusal) -> list[Effect]:
        standing = self.all.get(refusal.number)
        if standing is None or standing.is_leaving is not (refusal.kind == self.close_kind):
            return [Drop(refusal, NOT_ASKED)]
        if standing.is_leaving:
            # This broker carries it no longer; that another one might is of no concern to the application.
            return self.finish(standing.number, None)
        if refusal.may_retry and standing.retries < self.params.retries_max:
            wait = self.params.retry_wait(standing.retries, self.rng.random())
            standing.retries += 1
            return [SetTimer(self.timer(standing), now + wait)]
        return self.end(standing.number, refusal.reason, refusal.may_retry)

    def end(self, number: int, reason: str, may_retry: bool = False) -> list[Effect]:
        standing = self.all.pop(number)
        if standing.ticket is None:
            return [*self.stop_retrying(standing), Deliver(Ended(self.open_kind, number, reason))]
        return [*self.stop_retrying(standing), Deliver(Failed(standing.ticket, reason, may_retry))]

    def retry(self, number: int) -> list[Effect]:
        return self.send(*self.all[number].opening()) if self.is_open(number) else []

    def finish(self, number: int, receipt: Receipt | None) -> list[Effect]:
        self.withdrawn.pop(number, None)
        return [Deliver(Confirmed(self.all.pop(number).ticket, receipt))]

    def stop_retrying(self, standing: Standing) -> list[Effect]:
        if not standing.retries:
            return []
        standing.retries = 0
        return [CancelTimer(self.timer(standing))]

    def timer(self, standing: Standing) -> tuple[str, Kind, int]:
        return "retry", self.open_kind, standing.number

    def check(self) -> None:
        assert len(self.all) <= self.count_max, "more are open than is allowed"
        assert all(self.is_leaving(number) for number in self.withdrawn), "taken back though it is open"
        for number, standing in self.all.items():
            assert number == standing.number <= self.last, "filed under a wrong number"
            assert standing.is_confirmed or standing.ticket is not None, "nobody waits for the answer"
            assert standing.retries <= self.params.retries_max, "asked too often"


PARTS_MAX = 1024
"""Messages of which one answer may consist."""

TOO_LONG = "the broker answers with more than can be kept; ask for less with a narrower filter"


class SessionReading:
    def __init__(self, ticket: Ticket, message: Look | Fetch | ReplyMessage) -> None:
        self.ticket, self.message = ticket, message
        self.parts: list[MarksReply] = []


class SessionReadings:
    def __init__(self, count_max: int, rng: Random, send: Send) -> None:
        self.count_max, self.rng, self.send = count_max, rng, send
        self.open: dict[int, SessionReading] = {}
        self.last = 0

    # The application asks.

    def read_marks(self, now: float, request: ReadMarks) -> list[Effect]:
        return self.begin(request.ticket, Look(self.last + 1, request.filter))

    def read_history(self, now: float, request: ReadHistory) -> list[Effect]:
        asked = Fetch(
            number=self.last + 1,
            filter=request.filter,
            publisher=request.publisher,
            after=request.after,
            since=request.since,
            through=request.through,
            limit=request.limit,
            with_payloads=request.with_payloads,
        )
        return self.begin(request.ticket, asked)

    def reply(self, now: float, request: SendReply) -> list[Effect]:
        word = f"{self.rng.getrandbits(4 * REPLY_WORD_CHARS):0{REPLY_WORD_CHARS}x}"
        message = ReplyMessage(self.last + 1, request.publisher, request.word, word, request.head, request.payload)
        return self.begin(request.ticket, message)

    def begin(self, ticket: Ticket, message: Look | Fetch | ReplyMessage) -> list[Effect]:
        if len(self.open) >= self.count_max:
            return [Deliver(Failed(ticket, TOO_MANY))]
        self.last = message.number
        self.open[message.number] = SessionReading(ticket, message)
        return [Deliver(Begun(ticket, message.number)), *self.send(message)]

    def link_lost(self) -> None:
        """The next broker is asked from the beginning."""
        for reading in self.open.values():
            reading.parts.clear()

    def close(self, number: int) -> list[Effect]:
        self.open.pop(number, None)
        return []

    # The broker answers.

    def marks(self, now: float, message: MarksReply) -> list[Effect]:
        reading = self.open.get(message.number)
        if reading is None or not isinstance(reading.message, Look):
            return [Drop(message, NOT_ASKED)]
        reading.parts.append(message)
        if message.is_last:
            del self.open[message.number]
            return [Deliver(MarksRead(reading.ticket, tuple(reading.parts)))]
        if len(reading.parts) < PARTS_MAX:
            return []
        del self.open[message.number]
        return [Deliver(Failed(reading.ticket, TOO_LONG))]

    def fetched(self, now: float, message: Fetched) -> list[Effect]:
        reading = self.open.get(message.number)
        if reading is None or not isinstance(reading.message, Fetch):
            return [Drop(message, NOT_ASKED)]
        del self.open[message.number]
        return [Deliver(HistoryRead(reading.ticket, message))]

    def confirmed(self, receipt: Receipt) -> list[Effect]:
        replying = self.open.get(receipt.number)
        if replying is None or not isinstance(replying.message, ReplyMessage):
            return [Drop(receipt, NOT_ASKED)]
        del self.open[receipt.number]
        return [Deliver(Confirmed(replying.ticket, receipt))]

    def refused(self, refusal: Refusal) -> list[Effect]:
        reading = self.open.pop(refusal.number, None)
        if reading is None:
            return [Drop(refusal, NOT_ASKED)]
        return [Deliver(Failed(reading.ticket, refusal.reason, refusal.may_retry))]

    def check(self) -> None:
        assert len(self.open) <= self.count_max, "more is being read than is allowed"
        assert all(number == it.message.number <= self.last for number, it in self.open.items())
        assert all(len(reading.parts) < PARTS_MAX for reading in self.open.values())
