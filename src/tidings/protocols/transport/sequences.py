"""Numbers of events: those that we give to what we publish, and those that we saw of others.

**As a publisher** (`Departures`) a node gives numbers and headers, and keeps a record of what it sent. Events get their
number and time when they really leave (G-22), after congestion control let them through; so whatever is held back or
withheld leaves no hole. The record is the last events that left: time and Bloom row. Its newest `params.record` entries
go into each header, more of them into a digest.

The Bloom row of an event depends on its attributes alone, and streams repeat themselves, so rows are remembered by the
bytes of the head. An event with so many attributes that its row is more than `FILL_MAX` full gets the row 0: a nearly
full row would seem to be for everybody.

**The record** is kept so that the next header can take it as it is. A record tells for each of the last events how long
ago it left, and its Bloom row. Every event that leaves carries one, with all ages grown by the time since the event
before. Written entry by entry that would be the dearest part of publishing, so a whole record of full length is one
number, the one that its bytes are:

    age 0 | row 0 | age 1 | row 1 | ...         newest first, big endian

To let time pass, the same number of microseconds is added to all ages by one multiplication and one addition; to add an
event, the number is shifted by one entry and the new one put on top. That holds while no age outgrows its four bytes
(71 minutes) and the clock does not go back. Where either happens, where the record is still growing, for digests and
for compressed records, `write_plainly` does it entry by entry, from the times and rows themselves.

**The publishers that a node follows** (`FollowedStreams`): which of their numbers it saw, and when it last heard of
each.
"""

import math
from collections import deque
from collections.abc import Iterable
from itertools import islice

from tidings.model.bounds import ATTRIBUTES_BYTES_MAX, ATTRIBUTES_MAX, RATE_MAX
from tidings.protocols.transport.headers import (
    AGE_MAX_US,
    DATA,
    DIGEST,
    ENTRY_AGE,
    MICROSECONDS,
    Data,
    FlowMark,
    compress,
    encode_data,
    to_us,
    unwrap,
)
from tidings.protocols.transport.marks import DATA_TAIL, MAP_16, SHORT_MAP, SHORT_MAP_LAST
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.rows import row_of_event
from tidings.protocols.transport.signals import Stream
from tidings.pubsub.publications import BadPublication, read_head
from tidings.pubsub.seen import Seen

SAME_ID_MAX = 8
"""Streams of one publisher id. Ids are drawn at random, so a second one is rare, or a lie."""

LOOKED_AT = 32
"""Streams among which the one that was silent longest makes room for a new one."""


class Following:
    """One stream, from its event `first` on."""

    __slots__ = ("last", "seen")

    def __init__(self, now: float, first: int, window: int) -> None:
        self.seen = Seen(first, window)
        self.last = now

    def whole(self, wrapped: int) -> int:
        return unwrap(wrapped, self.seen.high)

    def take(self, now: float, wrapped: int) -> tuple[int, bool]:
        """The whole number, and whether it is new."""
        self.last = now
        sequence = unwrap(wrapped, self.seen.high)
        return sequence, self.seen.add(sequence)


class FollowedStreams:
    def __init__(self, params: TransportParams) -> None:
        self.params = params
        self.all: dict[Stream, Following] = {}
        self.by_id: dict[int, list[Stream]] = {}

    def open(self, now: float, stream: Stream, first: int) -> Stream | None:
        """Follow this one from its event `first` on; answers with the one that had to go for it."""
        gone = None
        same = self.by_id.setdefault(stream[1], [])
        if len(same) >= SAME_ID_MAX:
            gone = self.silent_longest(same)
        elif len(self.all) >= self.params.streams_max:
            gone = self.silent_longest(self.next_looked_at())
        self.all[stream] = Following(now, first, self.params.ordering.window)
        same.append(stream)
        return gone

    def silent_longest(self, streams: Iterable[Stream]) -> Stream:
        return min(streams, key=lambda known: self.all[known].last)

    def next_looked_at(self) -> list[Stream]:
        """The next few of all, in turn: a stranger that makes up publishers must not have us look at all of them for
        each."""
        looked_at = list(islice(self.all, LOOKED_AT))
        for stream in looked_at:
            self.all[stream] = self.all.pop(stream)
        return looked_at

    def forget(self, stream: Stream) -> None:
        self.all.pop(stream, None)
        same = self.by_id.get(stream[1], [])
        if stream in same:
            same.remove(stream)
        if not same:
            self.by_id.pop(stream[1], None)

    def find(self, publisher: int, wrapped: int, is_lacking: bool = True) -> tuple[Stream | None, int, bool]:
        """The stream of this id that lacks the number (or, without `is_lacking`, has it), else any; the whole number,
        and whether it is lacking."""
        found: tuple[Stream | None, int, bool] = (None, wrapped, False)
        for stream in self.by_id.get(publisher, ()):
            following = self.all[stream]
            sequence = following.whole(wrapped)
            lacks = sequence not in following.seen
            if lacks is is_lacking:
                return stream, sequence, lacks
            found = stream, sequence, lacks
        return found

    def silent(self, now: float) -> list[Stream]:
        return [stream for stream, one in self.all.items() if now - one.last >= self.params.session_timeout]

    def check(self) -> None:
        assert len(self.all) <= self.params.streams_max, "more streams are followed than streams_max allows"
        assert sum(map(len, self.by_id.values())) == len(self.all), "streams are filed wrongly by their ids"


AGE_BYTES = ENTRY_AGE.size

COMPRESSED_BYTES_MAX = 2**16 - 1
"""The length of a compressed record is two bytes."""


class SentRecord:
    """The last events that left; times are microseconds."""

    __slots__ = ("entries", "is_compressed", "ones", "packed", "row_bytes", "rows", "times", "top")

    def __init__(self, params: TransportParams) -> None:
        self.entries, self.row_bytes = params.record, params.profile.size_bytes
        self.is_compressed = params.is_compressed
        kept = max(params.record, params.digest_record)
        self.times: deque[int] = deque(maxlen=kept)
        """When the last events left, newest first. A clock that goes back makes no event older than one before it."""
        self.rows: deque[bytes] = deque(maxlen=kept)
        """Their Bloom rows."""
        self.packed: int | None = None
        """The full record as a number, as it was when the newest event left."""
        width = 8 * (AGE_BYTES + self.row_bytes)
        self.ones = sum(1 << width * place + 8 * self.row_bytes for place in range(self.entries))
        """A microsecond more for every entry."""
        self.top = width * (self.entries - 1)

    def __len__(self) -> int:
        return len(self.times)

    def add(self, now_us: int, bits: int) -> None:
        self.times.appendleft(max(now_us, self.times[0]) if self.times else now_us)
        self.rows.appendleft(bits.to_bytes(self.row_bytes, "little"))
        self.packed = None

    def write_and_add(self, now_us: int, bits: int) -> tuple[bytes, int, bool]:
        """The record for the event that leaves now, its entries, whether it is compressed; then that event is in it."""
        times, entries = self.times, self.entries
        if len(times) < entries or self.is_compressed or now_us < times[0] or now_us - times[entries - 1] > AGE_MAX_US:
            count = min(entries, len(times))
            record, is_compressed = self.write(now_us, count)
            self.add(now_us, bits)
            return record, count, is_compressed
        if self.packed is None:
            self.packed = int.from_bytes(self.write_plainly(times[0], entries))
        aged = self.packed + (now_us - times[0]) * self.ones
        row = bits.to_bytes(self.row_bytes, "little")
        times.appendleft(now_us)
        self.rows.appendleft(row)
        width = AGE_BYTES + self.row_bytes
        self.packed = int.from_bytes(row) << self.top | aged >> 8 * width
        return aged.to_bytes(entries * width), entries, False

    def write(self, now_us: int, entries: int) -> tuple[bytes, bool]:
        """The newest entries, and whether they are compressed: asked for, and shorter."""
        if self.is_compressed and entries:
            rows = [int.from_bytes(row, "little") for row in islice(self.rows, entries)]
            compressed = compress(self.ages(now_us, entries), rows, self.row_bytes)
            if len(compressed) < min(entries * (AGE_BYTES + self.row_bytes), COMPRESSED_BYTES_MAX):
                return compressed, True
        return self.write_plainly(now_us, entries), False

    def write_plainly(self, now_us: int, entries: int) -> bytes:
        pairs = zip(self.ages(now_us, entries), self.rows, strict=False)
        return b"".join([part for age, row in pairs for part in (ENTRY_AGE.pack(age), row)])

    def ages(self, now_us: int, entries: int) -> list[int]:
        return [min(AGE_MAX_US, max(0, now_us - at)) for at in islice(self.times, entries)]


ROWS_KNOWN_MAX = 4096
"""Heads whose Bloom row is remembered; when there are more, all are forgotten."""

RATE_SPAN = 1.0
"""Seconds over which our own rate of publishing is measured."""


class Departures:
    """`publisher` is our id in the headers."""

    def __init__(self, publisher: int, params: TransportParams) -> None:
        self.publisher, self.params = publisher, params
        self.next = 0
        self.records = SentRecord(params)
        self.known: dict[bytes, int] = {}
        self.began: float | None = None
        self.metered = self.metered_at = 0.0
        self.rate = 0.0
        """Events a second that left lately."""

    def configure(self, params: TransportParams) -> None:
        earlier, self.records = self.records, SentRecord(params)
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
        event = read_head(head)
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
