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
record is compressed (`compression.py`).

Sequence numbers are 32 bits on the wire and wrap around; `unwrap` finds the whole number nearest to what is known. A
record is left as bytes until somebody asks for its entries: where nothing is missing nobody does.

These bytes come from anybody. A decoder checks lengths, ranges and finiteness, and raises `BadHeader` and nothing else
(T-22). Encoders are given what was checked already. `entries.py` has what these and `compression.py` share.

Source: the transport specification, 3.8.
"""

import struct
from functools import cache
from itertools import islice

import msgspec

from tidings.matching.bloom import FILL_MAX
from tidings.protocols.transport.compression import expand
from tidings.protocols.transport.entries import MICROSECONDS, Entry, to_us

VERSION = 1
DATA, REPAIR, REQUEST, FEEDBACK, ECHO_REQUEST, ECHO_REPLY, DIGEST, ACKNOWLEDGEMENT = range(8)

CONTROLLED, HAS_LIMITING, BASIC, FURTHER, COMPRESSED = 1, 2, 4, 8, 16
RELEASE = 1
CARRIES_HEAD = 1

RECORD_MAX = 255
"""Entries of a record: its count is one byte."""

RATE_MAX = 1e7
"""Events a second that anybody may claim."""

TIME_MAX_US = 2**53
"""Microseconds that a clock may show: 285 years, and what a float of seconds can tell apart."""
WRAP = 2**32
FLOWS_MAX = 255
"""Flows named by one event, or by one feedback."""
FILTER_BYTES_MAX = 4096
"""Text of a filter inside a feedback."""

FIXED = struct.Struct(">BBBBIIQfIIq")
ENTRY_AGE = struct.Struct(">I")
FURTHER_FLOW = struct.Struct(">IIq")
REQUEST_FIXED = struct.Struct(">BBBBIIIQffIQI")
REPAIR_FIXED = struct.Struct(">BBIQIQI")
FEEDBACK_FIXED = struct.Struct(">BBIIQfH")
REPORT = struct.Struct(">If")
ECHO_REQUEST_FORM = struct.Struct(">BBIIIQ")
ECHO_REPLY_FORM = struct.Struct(">BBIIIQIQ")
ACKNOWLEDGEMENT_FORM = struct.Struct(">BBIIIIIQ")

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

    def read_record(self, sequence: int, most: int = RECORD_MAX) -> tuple[Entry, ...]:
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
            found.append(Entry(sequence, (departed_us - age) / MICROSECONDS, bits))
        return tuple(found)


class Request(msgspec.Struct, frozen=True):
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


class Repair(msgspec.Struct, frozen=True):
    """An event again, with the header it had. `head` is set where the repair is for one requester: then the attributes
    travel inside."""

    repairer: int
    sent: float
    requester: int
    request_sent: float
    held: float
    data: Data
    head: bytes = b""


class Report(msgspec.Struct, frozen=True):
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
    reports: tuple[Report, ...]
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


Control = Request | Repair | Feedback | EchoRequest | EchoReply | Acknowledgement


# Numbers.


def unwrap(wrapped: int, near: int) -> int:
    """The whole number that is nearest to `near` and has these last 32 bits; never below 0."""
    difference = (wrapped - near) % WRAP
    if difference >= WRAP // 2:
        difference -= WRAP
    return near + difference if near + difference >= 0 else near + difference + WRAP
