"""The other side of inspection: clients that ask a broker, and clients that tell it of themselves.

**Inquirer**: asks a broker for whole tables. The application injects `InspectRequest(table, argument)`; what comes back
is delivered as one `InspectAnswer` with all rows of the table, collected page by page, or with the reason why there is
none. Questions are answered in the order in which they were asked. A link that breaks ends all of them: who asks
decides whether to ask again.

Access, the other part of such a node, tells whether the broker lets us in; that is delivered too, as the signals
`PeerUp`, `PeerDown` and `TurnedAway` themselves.

**Reporter**: a client tells its broker how its transport fares, so that `tidings top` can show it. Every `TELL_PERIOD`
seconds, if anything has changed: rows about the client itself, the publishers that it follows and its flows, at most
`TRANSPORT_ROWS_MAX` in all; the first row says how many were left out. The broker keeps the latest report of each
client while it is attached, and shows it to whoever may look at its tables (`inspection.py`). Nobody else hears of it.
A broker that begins to serve us knows nothing, even if it served us before.
"""

from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from tidings.machine.effects import Deliver, Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received, Request, Signal
from tidings.model.bounds import TRANSPORT_REPORT_BYTES_MAX, TRANSPORT_ROWS_MAX
from tidings.model.identity import NodeId
from tidings.protocols.inspection.messages import Inspect, Report, TransportReport
from tidings.pubsub.rows import TransportRow
from tidings.pubsub.signals import PeerDown, PeerUp, TurnedAway

QUESTIONS_MAX = 1000
"""Questions that wait for their answer."""

ANSWER_BYTES_MAX = 256 * 1024 * 1024
"""Rows of one answer together; a broker that goes on beyond that is not believed."""

NOT_ASKED = "a report that nobody asked for"
TOO_MANY = "too many questions wait for their answer"
TOO_LONG = "the answer is longer than any table"


class InspectRequest(Request, frozen=True):
    broker: NodeId
    table: str
    argument: str = ""


class InspectAnswer(msgspec.Struct, frozen=True):
    question: InspectRequest
    pages: tuple[bytes, ...] = ()
    """JSON arrays of rows."""
    problem: str = ""


class Inquirer:
    """`inject(InspectRequest("b1", "links"))`, and take the `InspectAnswer` from what is delivered."""

    messages: tuple[type, ...] = (Report,)
    hears: tuple[type, ...] = (InspectRequest, PeerUp, PeerDown, TurnedAway)
    tells: tuple[type[Signal], ...] = ()

    def __init__(self) -> None:
        self.waiting: deque[InspectRequest] = deque()
        self.pages: list[bytes] = []
        self.number = 0

    def start(self, now: float) -> list[Effect]:
        self.waiting.clear()
        self.pages = []
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case InspectRequest():
                return self.ask(input)
            case Received(sender, Report() as report):
                return self.take(sender, report)
            case PeerUp() | TurnedAway():
                return [Deliver(input)]
            case PeerDown(broker, _, reason):
                return [*self.lose(broker, reason), Deliver(input)]
        return []

    def ask(self, question: InspectRequest) -> list[Effect]:
        if len(self.waiting) >= QUESTIONS_MAX:
            return [Deliver(InspectAnswer(question, problem=TOO_MANY))]
        self.waiting.append(question)
        return self.go_on() if len(self.waiting) == 1 else []

    def take(self, sender: NodeId, report: Report) -> list[Effect]:
        if not self.waiting or report.number != self.number or sender != self.waiting[0].broker:
            return [Drop(report, NOT_ASKED)]
        self.pages.append(report.rows)
        problem = report.problem
        if sum(map(len, self.pages)) > ANSWER_BYTES_MAX:
            problem = TOO_LONG
        if report.row_next and not problem:
            return [self.inspect(report.row_next)]
        question, pages = self.waiting.popleft(), tuple(self.pages)
        self.pages = []
        answer = InspectAnswer(question, problem=problem) if problem else InspectAnswer(question, pages)
        return [Deliver(answer), *self.go_on()]

    def lose(self, broker: NodeId, reason: str) -> list[Effect]:
        lost = [each for each in self.waiting if each.broker == broker]
        if not lost:
            return []
        self.waiting = deque(each for each in self.waiting if each.broker != broker)
        self.pages = []
        return [*(Deliver(InspectAnswer(each, problem=reason or "the link broke")) for each in lost), *self.go_on()]

    def go_on(self) -> list[Effect]:
        return [self.inspect(0)] if self.waiting else []

    def inspect(self, row: int) -> Send:
        self.number += 1
        question = self.waiting[0]
        return Send(question.broker, Inspect(self.number, question.table, question.argument, row))

    def check(self) -> None:
        assert len(self.waiting) <= QUESTIONS_MAX, "more questions wait than QUESTIONS_MAX allows"
        assert self.waiting or not self.pages, "pages of an answer that nobody waits for"


TELL_PERIOD = 2.0

encode = msgspec.json.Encoder().encode


class Reporter:
    """`rows()` are those of this moment, the client's own first."""

    messages: tuple[type, ...] = ()
    hears: tuple[type, ...] = (PeerUp, PeerDown)
    tells: tuple[type[Signal], ...] = ()

    def __init__(self, rows: Callable[[], Sequence[TransportRow]]) -> None:
        self.rows = rows
        self.broker: NodeId | None = None
        self.told: bytes | None = None

    def start(self, now: float) -> list[Effect]:
        self.broker = None
        return [SetTimer("tell", now + TELL_PERIOD)]

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case PeerUp(broker):
                self.broker, self.told = broker, None
            case PeerDown():
                self.broker = None
            case Fired():
                return [*self.tell(), SetTimer("tell", now + TELL_PERIOD)]
        return []

    def tell(self) -> list[Effect]:
        if self.broker is None:
            return []
        rows = encode_rows(self.rows())
        if rows == self.told:
            return []
        self.told = rows
        return [Send(self.broker, TransportReport(rows))]

    def check(self) -> None:
        pass


def encode_rows(rows: Sequence[TransportRow]) -> bytes:
    count = min(len(rows), TRANSPORT_ROWS_MAX)
    while True:
        first = msgspec.structs.replace(rows[0], more=len(rows) - count)
        encoded = encode((first, *rows[1:count]))
        if len(encoded) <= TRANSPORT_REPORT_BYTES_MAX:
            return encoded
        # Filters can be long; half as many rows fit some time, and the first one always does.
        count = 1 + (count - 1) // 2
