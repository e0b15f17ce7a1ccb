"""Reporter: a client tells its broker how its transport fares, so that `tidings top` can show it.

Every `TELL_PERIOD` seconds, if anything has changed: rows about the client itself, the publishers that it follows and
its flows, at most `TRANSPORT_ROWS_MAX` in all; the first row says how many were left out. The broker keeps the latest
report of each client while it is attached, and shows it to whoever may look at its tables (`inspection.py`). Nobody
else hears of it. A broker that begins to serve us knows nothing, even if it served us before.
"""

from collections.abc import Callable, Sequence

import msgspec

from tidings.machine.effects import Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Signal
from tidings.model.bounds import TRANSPORT_REPORT_BYTES_MAX, TRANSPORT_ROWS_MAX
from tidings.model.identity import NodeId
from tidings.protocols.inspection.messages import TransportReport
from tidings.pubsub.rows import TransportRow
from tidings.pubsub.signals import PeerDown, PeerUp

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
