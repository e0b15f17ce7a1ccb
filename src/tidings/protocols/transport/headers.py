"""The header of events: what it says, and its bytes. Messages of the transport itself are in `messages.py`.

Both begin with version and type in one byte and with flags; numbers are big endian, times are microseconds of the
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
from tidings.model.bounds import FLOWS_MAX, RATE_MAX, RECORD_MAX, TIME_MAX_US

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
FIRST = VERSION << 4
DATA_FIRST, DIGEST_FIRST = FIRST | DATA, FIRST | DIGEST

CONTROLLED, HAS_LIMITING, BASIC, FURTHER, COMPRESSED = 1, 2, 4, 8, 16

WRAP = 2**32
FIXED = struct.Struct(">BBBBIIQfIIq")
ENTRY_AGE = struct.Struct(">I")
FURTHER_FLOW = struct.Struct(">IIq")

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


def unwrap(wrapped: int, near: int) -> int:
    """The whole number that is nearest to `near` and has these last 32 bits; never below 0."""
    difference = (wrapped - near) % WRAP
    if difference >= WRAP // 2:
        difference -= WRAP
    return near + difference if near + difference >= 0 else near + difference + WRAP


def encode_data(data: Data) -> bytes:
    """The header; the payload of the event follows it."""
    flags = CONTROLLED * data.is_controlled | COMPRESSED * data.is_compressed
    limiting = flow = travel = 0
    behind = len(data.record).to_bytes(2) + data.record if data.is_compressed and data.entries else data.record
    if data.flows:
        first = data.flows[0]
        limiting, flow, travel = first.limiting, first.flow, to_us(first.feedback_travel)
        flags |= HAS_LIMITING
    if data.previous is not None:
        flags |= BASIC
        behind = ENTRY_AGE.pack(age_of(data.departed, data.previous))
    if len(data.flows) > 1:
        flags |= FURTHER
        further = data.flows[1 : FLOWS_MAX + 1]
        rest = [FURTHER_FLOW.pack(mark.flow, mark.limiting, to_us(mark.feedback_travel)) for mark in further]
        behind += bytes((len(further),)) + b"".join(rest)
    first_byte = DATA_FIRST if data.kind == DATA else DIGEST_FIRST
    return (
        FIXED.pack(
            first_byte,
            flags,
            data.entries,
            data.row_bytes,
            data.publisher,
            data.sequence % WRAP,
            to_us(data.departed),
            data.rate,
            limiting,
            flow,
            travel,
        )
        + behind
    )


def age_of(departed: float, earlier: float) -> int:
    return min(AGE_MAX_US, max(0, to_us(departed) - to_us(earlier)))


def decode_data(payload: bytes) -> tuple[Data, bytes]:
    """The header, and the payload of the event behind it."""
    try:
        fixed = FIXED.unpack_from(payload)
    except struct.error:
        raise BadHeader(f"{len(payload)} bytes are too few for a header") from None
    first, flags, entries, row_bytes, publisher, sequence, stamp, rate, limiting, flow, travel = fixed
    if first != DATA_FIRST and first != DIGEST_FIRST:
        raise BadHeader(f"first byte {first:#04x}: another version or type")
    if not 0.0 <= rate <= RATE_MAX:
        raise BadHeader(f"publish rate {rate}")
    if stamp > TIME_MAX_US:
        raise BadHeader(f"time {stamp}")
    place, previous, record = HEADER_BYTES, None, b""
    if flags & BASIC:
        if entries or len(payload) < place + 4:
            raise BadHeader("basic ordering has one age and no record")
        previous = (stamp - ENTRY_AGE.unpack_from(payload, place)[0]) / MICROSECONDS
        place += 4
    elif entries:
        place, record = read_entries(payload, place, entries, row_bytes, bool(flags & COMPRESSED))
    flows: tuple[FlowMark, ...] = ()
    if flags & HAS_LIMITING:
        flows = (FlowMark(flow, limiting, travel / MICROSECONDS),)
    if flags & FURTHER:
        place, further = read_flows(payload, place)
        flows += further
    data = Data(
        publisher,
        sequence,
        stamp / MICROSECONDS,
        rate,
        bool(flags & CONTROLLED),
        flows,
        previous,
        entries,
        row_bytes,
        record,
        bool(flags & COMPRESSED and entries),
        first & 0x0F,
    )
    return data, payload[place:]


def read_entries(payload: bytes, place: int, entries: int, row_bytes: int, is_compressed: bool) -> tuple[int, bytes]:
    """Where they end, and their bytes."""
    if not row_bytes:
        raise BadHeader("a record without Bloom rows")
    if is_compressed:
        if len(payload) < place + 2:
            raise BadHeader("cut short in the record")
        end = place + 2 + int.from_bytes(payload[place : place + 2])
        begin = place + 2
    else:
        begin, end = place, place + entries * (4 + row_bytes)
    if len(payload) < end:
        raise BadHeader("cut short in the record")
    return end, payload[begin:end]


def read_flows(payload: bytes, place: int) -> tuple[int, tuple[FlowMark, ...]]:
    if len(payload) <= place:
        raise BadHeader("cut short before the flows")
    end = place + 1 + payload[place] * FURTHER_FLOW.size
    if len(payload) < end:
        raise BadHeader("cut short in the flows")
    unpacked = FURTHER_FLOW.iter_unpack(payload[place + 1 : end])
    return end, tuple(FlowMark(flow, limiting, travel / MICROSECONDS) for flow, limiting, travel in unpacked)
