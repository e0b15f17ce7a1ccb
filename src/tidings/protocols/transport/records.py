"""The record of what a publisher sent, kept so that the next header can take it as it is.

A record tells for each of the last events how long ago it left, and its Bloom row. Every event that leaves carries one,
with all ages grown by the time since the event before. Written entry by entry that would be the dearest part of
publishing, so a whole record of full length is one number, the one that its bytes are:

    age 0 | row 0 | age 1 | row 1 | ...         newest first, big endian

To let time pass, the same number of microseconds is added to all ages by one multiplication and one addition; to add an
event, the number is shifted by one entry and the new one put on top. That holds while no age outgrows its four bytes
(71 minutes) and the clock does not go back. Where either happens, where the record is still growing, for digests and
for compressed records, `write_plainly` does it entry by entry, from the times and rows themselves.
"""

from collections import deque
from itertools import islice

from tidings.protocols.transport.compression import compress
from tidings.protocols.transport.entries import AGE_MAX_US
from tidings.protocols.transport.formats import ENTRY_AGE
from tidings.protocols.transport.params import TransportParams

AGE_BYTES = ENTRY_AGE.size

COMPRESSED_BYTES_MAX = 2**16 - 1
"""The length of a compressed record is two bytes."""


class Records:
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
