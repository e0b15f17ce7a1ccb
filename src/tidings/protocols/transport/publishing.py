"""A node as a publisher: numbers, headers, the record of what it sent.

Events get their number and time when they really leave (G-22), after congestion control let them through; so whatever
is held back or withheld leaves no hole. The record is the last events that left: time and Bloom row (`records.py`). Its
newest `params.record` entries go into each header, more of them into a digest.

The Bloom row of an event depends on its attributes alone, and streams repeat themselves, so rows are remembered by the
bytes of the head. An event with so many attributes that its row is more than `FILL_MAX` full gets the row 0: a nearly
full row would seem to be for everybody.
"""

import math

from tidings.model.bounds import ATTRIBUTES_MAX
from tidings.protocols.transport.codec import encode_data
from tidings.protocols.transport.entries import MICROSECONDS, to_us
from tidings.protocols.transport.formats import DATA, DIGEST, RATE_MAX, Data, FlowMark, unwrap
from tidings.protocols.transport.marking import DATA_TAIL, MAP_16, SHORT_MAP, SHORT_MAP_LAST
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.records import Records
from tidings.protocols.transport.rows import row_of_event
from tidings.pubsub.publications import ATTRIBUTES_BYTES_MAX, BadPublication, event_of

ROWS_KNOWN_MAX = 4096
"""Heads whose Bloom row is remembered; when there are more, all are forgotten."""

RATE_SPAN = 1.0
"""Seconds over which our own rate of publishing is measured."""


class Publishing:
    """`publisher` is our id in the headers."""

    def __init__(self, publisher: int, params: TransportParams) -> None:
        self.publisher, self.params = publisher, params
        self.next = 0
        self.records = Records(params)
        self.known: dict[bytes, int] = {}
        self.began: float | None = None
        self.metered = self.metered_at = 0.0
        self.rate = 0.0
        """Events a second that left lately."""

    def configure(self, params: TransportParams) -> None:
        earlier, self.records = self.records, Records(params)
        # Rows of two kinds cannot stand in one record.
        if (params.profile, params.tells_ranges) == (self.params.profile, self.params.tells_ranges):
            for at, row in zip(reversed(earlier.times), reversed(earlier.rows), strict=True):
                self.records.add(at, int.from_bytes(row, "little"))
        self.params = params
        self.known.clear()

    def bits_of(self, head: bytes) -> int:
        """0 where the row would say too little; BadPublication for what is no event, or has no room for the mark."""
        known = self.known.get(head)
        if known is not None:
            return known
        event = event_of(head, b"")
        if len(event.attributes) >= ATTRIBUTES_MAX or len(head) + len(DATA_TAIL) + 2 > ATTRIBUTES_BYTES_MAX:
            raise BadPublication("no room for the mark of the transport among its attributes")
        if not (SHORT_MAP <= head[0] <= SHORT_MAP_LAST or head[0] == MAP_16):
            raise BadPublication("its attributes are not written in the shortest form")
        params = self.params
        bits = row_of_event(event, params.profile, params.topic_attribute, params.tells_ranges)
        if len(self.known) >= ROWS_KNOWN_MAX:
            self.known.clear()
        self.known[head] = bits
        return bits

    def count(self, now: float) -> None:
        """Each event counts less the longer ago it was."""
        if self.began is None:
            self.began = self.metered_at = now
        self.metered = self.metered * math.exp((self.metered_at - now) / RATE_SPAN) + 1.0
        self.metered_at = now
        span = RATE_SPAN * (1.0 - math.exp((self.began - now) / RATE_SPAN))
        self.rate = min(RATE_MAX, (self.metered - 1.0) / span) if span > 0 else 0.0

    def depart(self, now: float, bits: int, flows: tuple[FlowMark, ...]) -> tuple[int, Data, bytes]:
        """The number, header, and encoded header of the event that leaves now."""
        self.count(now)
        sequence, params = self.next, self.params
        self.next += 1
        previous, entries, record, is_compressed = None, 0, b"", False
        if params.ordering.mode != "enhanced" or not params.record:
            times, now_us = self.records.times, to_us(now)
            previous = (times[0] if times else now_us) / MICROSECONDS
            self.records.add(now_us, bits)
        else:
            record, entries, is_compressed = self.records.write_and_add(to_us(now), bits)
        row_bytes = self.records.row_bytes if entries else 0
        controlled = bool(flows)
        size = entries, row_bytes
        header = Data(
            self.publisher, sequence, now, self.rate, controlled, flows, previous, *size, record, is_compressed, DATA
        )
        return sequence, header, encode_data(header)

    def whole(self, wrapped: int) -> int:
        """The number of an event of ours, from its last 32 bits."""
        return unwrap(wrapped, self.next)

    def digest(self, now: float) -> bytes:
        """Header of a digest: what was sent up to now. Its number is that of the next event."""
        entries = min(self.params.digest_record, len(self.records))
        record, is_compressed = self.records.write(to_us(now), entries)
        size = entries, self.records.row_bytes
        header = Data(self.publisher, self.next, now, self.rate, False, (), None, *size, record, is_compressed, DIGEST)
        return encode_data(header)
