"""What an application wants to read of the history of the network, until a broker has answered.

Readings change nothing and keep nothing at the broker. So a request that was not answered when the link broke is made
again, as it was, of the next broker; a part of an answer that came before is thrown away. An answer ends a reading, and
so does a refusal, or the application that does not want it any longer.
"""

from tidings.machine.effects import Deliver, Drop, Effect
from tidings.protocols.delivery.messages import Fetch, Look, Refusal
from tidings.protocols.delivery.session.standings import NOT_ASKED, TOO_MANY, Send
from tidings.pubsub.client import (
    Begun,
    Failed,
    Fetched,
    HistoryRead,
    MarksRead,
    MarksReply,
    ReadHistory,
    ReadMarks,
    Ticket,
)

PARTS_MAX = 1024
"""Messages of which one answer may consist."""

TOO_LONG = "the broker answers with more than can be kept; ask for less with a narrower filter"


class SessionReading:
    def __init__(self, ticket: Ticket, message: Look | Fetch) -> None:
        self.ticket, self.message = ticket, message
        self.parts: list[MarksReply] = []


class SessionReadings:
    def __init__(self, count_max: int, send: Send) -> None:
        self.count_max, self.send = count_max, send
        self.open: dict[int, SessionReading] = {}
        self.last = 0

    # The application asks.

    def read_marks(self, now: float, request: ReadMarks) -> list[Effect]:
        return self.begin(request.ticket, Look(self.last + 1, request.filter))

    def read_history(self, now: float, request: ReadHistory) -> list[Effect]:
        fields = request.filter, request.publisher, request.after, request.since, request.through, request.limit
        return self.begin(request.ticket, Fetch(self.last + 1, *fields))

    def begin(self, ticket: Ticket, message: Look | Fetch) -> list[Effect]:
        if len(self.open) >= self.count_max:
            return [Deliver(Failed(ticket, TOO_MANY))]
        self.last = message.number
        self.open[message.number] = SessionReading(ticket, message)
        return [Deliver(Begun(ticket, message.number)), *self.send(message)]

    def again(self) -> list[Look | Fetch]:
        """What the next broker has to be asked."""
        for reading in self.open.values():
            reading.parts.clear()
        return [reading.message for reading in self.open.values()]

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

    def refused(self, refusal: Refusal) -> list[Effect]:
        reading = self.open.pop(refusal.number, None)
        if reading is None:
            return [Drop(refusal, NOT_ASKED)]
        return [Deliver(Failed(reading.ticket, refusal.reason, refusal.may_retry))]

    def check(self) -> None:
        assert len(self.open) <= self.count_max, "more is being read than is allowed"
        assert all(number == it.message.number <= self.last for number, it in self.open.items())
        assert all(len(reading.parts) < PARTS_MAX for reading in self.open.values())
