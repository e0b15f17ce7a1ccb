"""The bytes of the transport: the header of events, and messages of its own.

All begin with version and type in one byte and with flags; numbers are big endian, times are microseconds of the
sender's clock. The header of an event takes 40 bytes and, for each entry of its publication record, 4 and a Bloom row
(T-19):

    0  version, type  1     8  sequence number  4     24  limiting receiver   4
    1  flags          1    12  time of sending  8     28  its flow            4
    2  entries        1    20  publish rate     4     32  travel of feedback  8
    3  bytes of a row 1    40  entries, newest first: age against the time of sending (4), Bloom row
    4  publisher      4

Flags of an event: 1 its rate is controlled; 2 a limiting receiver is named; 4 instead of a record there is only the age
of the event before (basic ordering); 8 behind the record stand further receivers and their flows, 16 bytes each; 16 the
record is compressed (below).

Sequence numbers are 32 bits on the wire and wrap around; `unwrap` finds the whole number nearest to what is known. A
record is left as bytes until somebody asks for its entries: where nothing is missing nobody does.

These bytes come from anybody. A decoder checks lengths, ranges and finiteness, and raises `BadHeader` and nothing else
(T-22). Encoders are given what was checked already.

**Compressed records** say what is equal only once. Streams repeat themselves: consecutive events often have the same
attributes but for a value or two, so their Bloom rows differ in a few bits. A compressed record is a row of runs,
newest first:

    events in the run 1 | Bloom row | age of the newest 4 | for each further one, what it is older: 1 to 4 bytes

Differences of age are written seven bits at a time, the low ones first, the highest bit of a byte saying that more
follow. The row of a run has the bits of all its events, and may match more than it should, never less. So a record of
the same size in bytes tells of more events, at the price of some false alarms: whoever waits for one event of a run
waits for all of them (F-2a of the transport specification). Events are in one run while each differs from the newest in
no more than `DIFFERENT_BITS_MAX` bits, and the row of all of them is no fuller than `MERGED_FILL_MAX`.

Source: the transport specification, 3.8.
"""

import struct
from collections.abc import Sequence
from functools import cache
from itertools import islice, pairwise

import msgspec

from tidings.matching.bloom import FILL_MAX
from tidings.model.bounds import RECORD_MAX

MICROSECONDS = 1_000_000
AGE_MAX_US = 2**32 - 1


class BadHeader(ValueError):
    """Bytes that are no message of the transport; the text says why."""


class RecordEntry(msgspec.Struct, frozen=True):
    """One event that its publisher sent before: number, time of sending by the publisher's clock, Bloom row. A row of 0
    says nothing about the event: it had too many attributes for its size."""

    sequence: int
    departed: float
    bits: int


def to_us(seconds: float) -> int:
    return round(seconds * MICROSECONDS)


DIFFERENT_BITS_MAX = 16
"""Bits by which two rows of one run may differ: two values that are others, each with the bits of its tag in one row
and not in the other. More would make events alike that are not."""

MERGED_FILL_MAX = 0.4
"""Share of bits in the row of a run. With four bits for a tag, every 40th tag that is not there seems to be then."""

RUN_MAX = 255
VARINT_BYTES_MAX = 5


def compress(ages: Sequence[int], rows: Sequence[int], row_bytes: int) -> bytes:
    """The bytes of a record; ages (microseconds, ascending) and rows are those of its entries, newest first."""
    parts: list[bytes] = []
    place = 0
    while place < len(rows):
        end, bits = run_at(rows, place, MERGED_FILL_MAX * 8 * row_bytes)
        parts.append(bytes((end - place,)) + bits.to_bytes(row_bytes, "little") + ages[place].to_bytes(4))
        parts += [varint(older - newer) for newer, older in pairwise(ages[place:end])]
        place = end
    return b"".join(parts)


def run_at(rows: Sequence[int], place: int, bits_max: float) -> tuple[int, int]:
    """Where the run that begins here ends, and its row."""
    first = merged = rows[place]
    for end in range(place + 1, min(len(rows), place + RUN_MAX)):
        row = rows[end]
        if row == first:
            continue
        # A row of 0 says nothing of its event, and must not be lost in another.
        if not (row and first) or (row ^ first).bit_count() > DIFFERENT_BITS_MAX:
            return end, merged
        if (merged | row).bit_count() > bits_max:
            return end, merged
        merged |= row
    return min(len(rows), place + RUN_MAX), merged


def expand(record: bytes, entries: int, row_bytes: int, departed_us: int, sequence: int) -> tuple[RecordEntry, ...]:
    """The entries of a compressed record of event `sequence`; those behind a mistake in it are not there."""
    found: list[RecordEntry] = []
    place, fill_max = 0, FILL_MAX * 8 * row_bytes
    try:
        while place + 1 + row_bytes + 4 <= len(record) and len(found) < entries:
            count, place = record[place], place + 1
            bits = int.from_bytes(record[place : place + row_bytes], "little")
            if bits.bit_count() > fill_max:
                bits = 0
            place += row_bytes
            age = int.from_bytes(record[place : place + 4])
            place += 4
            for number in range(count):
                if number:
                    difference, place = read_varint(record, place)
                    age += difference
                sequence -= 1
                found.append(RecordEntry(sequence, (departed_us - age) / MICROSECONDS, bits))
    except (IndexError, BadHeader):
        pass
    return tuple(found[:entries])


def varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def read_varint(data: bytes, place: int) -> tuple[int, int]:
    number = 0
    for shift in range(VARINT_BYTES_MAX):
        byte = data[place + shift]
        number |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return number, place + shift + 1
    raise BadHeader("a number of too many bytes")


VERSION = 1
DATA, REPAIR, REQUEST, FEEDBACK, ECHO_REQUEST, ECHO_REPLY, DIGEST, ACKNOWLEDGEMENT = range(8)

CONTROLLED, HAS_LIMITING, BASIC, FURTHER, COMPRESSED = 1, 2, 4, 8, 16
RELEASE = 1
CARRIES_HEAD = 1

WRAP = 2**32
FIXED = struct.Struct(">BBBBIIQfIIq")
ENTRY_AGE = struct.Struct(">I")
FURTHER_FLOW = struct.Struct(">IIq")
REPORT = struct.Struct(">If")

HEADER_BYTES = FIXED.size
assert HEADER_BYTES == 40


@cache
def entry_form(row_bytes: int) -> struct.Struct:
    """An entry of a record: its age, its row. There are at most 255 of these forms."""
    return struct.Struct(f">I{row_bytes}s")


class FlowMark(msgspec.Struct, frozen=True):
    """A flow that an event belongs to: the receiver that limits it, and how long its last feedback travelled, by two
    clocks (G-18)."""

    flow: int
    limiting: int
    feedback_travel: float


class Data(msgspec.Struct, frozen=True):
    """What stands before an event. `record` are the bytes of `entries` entries."""

    publisher: int
    sequence: int
    departed: float
    rate: float = 0.0
    is_controlled: bool = False
    flows: tuple[FlowMark, ...] = ()
    previous: float | None = None
    """Basic ordering: when the event before was sent."""
    entries: int = 0
    row_bytes: int = 0
    record: bytes = b""
    is_compressed: bool = False
    kind: int = DATA
    """DATA, or DIGEST: a record that nothing follows."""

    def read_record(self, sequence: int, most: int = RECORD_MAX) -> tuple[RecordEntry, ...]:
        """The newest entries, `most` of them, newest first; `sequence` is the whole number of this event. A row fuller
        than `FILL_MAX` would make everybody believe that the event is theirs, and is read as saying nothing."""
        entries = min(self.entries, most)
        if self.is_compressed:
            return expand(self.record, entries, self.row_bytes, to_us(self.departed), sequence)
        departed_us, fill_max = to_us(self.departed), FILL_MAX * 8 * self.row_bytes
        found = []
        for age, row in islice(entry_form(self.row_bytes).iter_unpack(self.record), entries):
            sequence -= 1
            bits = int.from_bytes(row, "little")
            if bits.bit_count() > fill_max:
                bits = 0
            found.append(RecordEntry(sequence, (departed_us - age) / MICROSECONDS, bits))
        return tuple(found)


class LossRequest(msgspec.Struct, frozen=True):
    """Who has this event? `request_wait` is (C1 + C2 / 2) d, `distance` d, both of the requester to the publisher, in
    seconds. The echo fields tell the repairer that was heard last how far away the requester is."""

    requester: int
    publisher: int
    sequence: int
    sent: float
    request_wait: float
    distance: float
    bits: int
    row_bytes: int
    round: int = 0
    repairer: int = 0
    repair_sent: float = 0.0
    repair_held: float = 0.0


class LossRepair(msgspec.Struct, frozen=True):
    """An event again, with the header it had. `head` is set where the repair is for one requester: then the attributes
    travel inside."""

    repairer: int
    sent: float
    requester: int
    request_sent: float
    held: float
    data: Data
    head: bytes = b""


class FlowReport(msgspec.Struct, frozen=True):
    """What a receiver can take of one flow, events a second. `filter` is its text where covering shall be exact."""

    flow: int
    quota: float
    bits: int
    filter: str = ""


class Feedback(msgspec.Struct, frozen=True):
    """With `is_release` the receiver no longer limits these flows."""

    subscriber: int
    publisher: int
    sent: float
    round_trip: float
    reports: tuple[FlowReport, ...]
    row_bytes: int
    is_release: bool = False


class EchoRequest(msgspec.Struct, frozen=True):
    subscriber: int
    publisher: int
    nonce: int
    sent: float


class EchoReply(msgspec.Struct, frozen=True):
    subscriber: int
    publisher: int
    nonce: int
    echoed: float
    held: float
    sent: float


class Acknowledgement(msgspec.Struct, frozen=True):
    """A limiting receiver has all events of its flow up to `through`, but for those whose bit is set in `missing`: bit
    i stands for `through - 1 - i`."""

    subscriber: int
    publisher: int
    flow: int
    through: int
    received: int
    missing: int
    sent: float = 0.0


Control = LossRequest | LossRepair | Feedback | EchoRequest | EchoReply | Acknowledgement


# Numbers.


def unwrap(wrapped: int, near: int) -> int:
    """The whole number that is nearest to `near` and has these last 32 bits; never below 0."""
    difference = (wrapped - near) % WRAP
    if difference >= WRAP // 2:
        difference -= WRAP
    return near + difference if near + difference >= 0 else near + difference + WRAP
