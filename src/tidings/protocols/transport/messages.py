"""The messages of the transport itself: what they say, and their bytes (`headers.py` has those of events).

What is decoded was checked: lengths, ranges, finite numbers.
"""

import math
import struct
from collections.abc import Callable
from typing import Any

import msgspec

from tidings.model.bounds import ASKED_FILTER_BYTES_MAX, FLOWS_MAX, RATE_MAX, TIME_MAX_US
from tidings.protocols.transport.headers import (
    ACKNOWLEDGEMENT,
    AGE_MAX_US,
    DATA,
    ECHO_REPLY,
    ECHO_REQUEST,
    FEEDBACK,
    FIRST,
    MICROSECONDS,
    REPAIR,
    REQUEST,
    WRAP,
    BadHeader,
    Data,
    decode_data,
    encode_data,
    to_us,
)

HEAD_LENGTH = struct.Struct(">I")
FILTER_LENGTH = struct.Struct(">H")
REPORT = struct.Struct(">If")
RELEASE = 1
CARRIES_HEAD = 1

SPAN_MAX = 3600.0
"""Seconds that any span in a message may have."""


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


class FieldLayout:
    """The fixed part of one type of message: type, flags, and fields in the order of the wire, each of a kind."""

    def __init__(self, kind: int, make: type[Control], fields: str) -> None:
        self.first, self.make = FIRST | kind, make
        pairs = [field.split(":") for field in fields.split()]
        self.names = [name for name, _ in pairs]
        codes, self.writers, self.readers = zip(*[KINDS[kind] for _, kind in pairs], strict=True)
        self.form = struct.Struct(">BB" + "".join(codes))

    def write(self, message: Any, flags: int = 0, **more: int) -> bytes:
        """`more` are fields of the wire that the message does not have."""
        values = [more[name] if name in more else getattr(message, name) for name in self.names]
        written = [write(value) for write, value in zip(self.writers, values, strict=True)]
        return self.form.pack(self.first, flags, *written)

    def read(self, payload: bytes) -> tuple[int, dict[str, Any], bytes]:
        """Flags, fields, and what follows."""
        _, flags, *values = self.form.unpack_from(payload)
        fields = {name: read(value) for name, read, value in zip(self.names, self.readers, values, strict=True)}
        return flags, fields, payload[self.form.size :]


def span_us(seconds: float) -> int:
    return min(AGE_MAX_US, max(0, to_us(seconds)))


def time_of(microseconds: int) -> float:
    if microseconds > TIME_MAX_US:
        raise BadHeader(f"time {microseconds}")
    return microseconds / MICROSECONDS


def checked_span(seconds: float) -> float:
    if not (math.isfinite(seconds) and 0.0 <= seconds <= SPAN_MAX):
        raise BadHeader(f"a span of {seconds} s")
    return seconds


KINDS: dict[str, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "byte": ("B", int, int),
    "short": ("H", int, int),
    "word": ("I", lambda number: number % WRAP, int),
    "time": ("Q", to_us, time_of),
    "age": ("I", span_us, lambda microseconds: microseconds / MICROSECONDS),
    "span": ("f", float, checked_span),
}
"""How a field is packed, written and read. A sequence number is a word: its last 32 bits."""

LAYOUTS = {
    layout.make: layout
    for layout in (
        FieldLayout(
            REQUEST,
            LossRequest,
            "round:byte row_bytes:byte requester:word publisher:word sequence:word sent:time request_wait:span "
            "distance:span repairer:word repair_sent:time repair_held:age",
        ),
        FieldLayout(REPAIR, LossRepair, "repairer:word sent:time requester:word request_sent:time held:age"),
        FieldLayout(
            FEEDBACK, Feedback, "subscriber:word publisher:word sent:time round_trip:span count:short row_bytes:byte"
        ),
        FieldLayout(ECHO_REQUEST, EchoRequest, "subscriber:word publisher:word nonce:word sent:time"),
        FieldLayout(ECHO_REPLY, EchoReply, "subscriber:word publisher:word nonce:word echoed:time held:age sent:time"),
        FieldLayout(
            ACKNOWLEDGEMENT,
            Acknowledgement,
            "subscriber:word publisher:word flow:word through:word received:word sent:time missing:word",
        ),
    )
}
BY_FIRST_BYTE = {layout.first: layout for layout in LAYOUTS.values()}


def encode_control(message: Control, payload: bytes = b"") -> bytes:
    """`payload` is that of the event which a repair brings."""
    layout = LAYOUTS[type(message)]
    match message:
        case LossRequest():
            return layout.write(message) + message.bits.to_bytes(message.row_bytes, "little")
        case LossRepair():
            inside = HEAD_LENGTH.pack(len(message.head)) + message.head if message.head else b""
            fixed = layout.write(message, CARRIES_HEAD if message.head else 0)
            return fixed + inside + encode_data(message.data) + payload
        case Feedback():
            fixed = layout.write(message, RELEASE * message.is_release, count=len(message.reports))
            return fixed + b"".join([encode_report(report, message.row_bytes) for report in message.reports])
    return layout.write(message)


def encode_report(report: FlowReport, row_bytes: int) -> bytes:
    text = report.filter.encode()
    if len(text) > ASKED_FILTER_BYTES_MAX:
        text = b""
    fixed = REPORT.pack(report.flow, min(report.quota, RATE_MAX)) + report.bits.to_bytes(row_bytes, "little")
    return fixed + FILTER_LENGTH.pack(len(text)) + text


def decode_control(payload: bytes) -> tuple[Control, bytes]:
    """The message, and the payload of the event which a repair brings."""
    if not payload:
        raise BadHeader("no bytes")
    layout = BY_FIRST_BYTE.get(payload[0])
    if layout is None:
        raise BadHeader(f"first byte {payload[0]:#04x}: another version or type")
    try:
        flags, fields, rest = layout.read(payload)
        if layout.make is LossRepair:
            return decode_repair(flags, fields, rest)
        if layout.make is LossRequest:
            if len(rest) != fields["row_bytes"] or not rest:
                raise BadHeader(f"a Bloom row of {len(rest)} bytes, {fields['row_bytes']} announced")
            return LossRequest(**fields, bits=int.from_bytes(rest, "little")), b""
        if layout.make is Feedback:
            reports = decode_reports(rest, fields.pop("count"), fields["row_bytes"])
            return Feedback(**fields, reports=reports, is_release=bool(flags & RELEASE)), b""
    except struct.error:
        raise BadHeader(f"{len(payload)} bytes are too few for this message") from None
    if rest:
        raise BadHeader(f"{len(rest)} bytes behind the message")
    return layout.make(**fields), b""


def decode_repair(flags: int, fields: dict[str, Any], rest: bytes) -> tuple[LossRepair, bytes]:
    head = b""
    if flags & CARRIES_HEAD:
        (length,) = HEAD_LENGTH.unpack_from(rest)
        head, rest = rest[HEAD_LENGTH.size : HEAD_LENGTH.size + length], rest[HEAD_LENGTH.size + length :]
        if len(head) != length or not length:
            raise BadHeader("cut short in the attributes")
    data, payload = decode_data(rest)
    if data.kind != DATA:
        raise BadHeader("a repair of what is no event")
    return LossRepair(**fields, data=data, head=head), payload


def decode_reports(payload: bytes, count: int, row_bytes: int) -> tuple[FlowReport, ...]:
    if count > FLOWS_MAX or not row_bytes:
        raise BadHeader(f"{count} flows with rows of {row_bytes} bytes")
    reports, place = [], 0
    for _ in range(count):
        flow, quota = REPORT.unpack_from(payload, place)
        if not 0.0 <= quota <= RATE_MAX:
            raise BadHeader(f"quota {quota}")
        place += REPORT.size
        row = payload[place : place + row_bytes]
        place += row_bytes
        (length,) = FILTER_LENGTH.unpack_from(payload, place)
        place += FILTER_LENGTH.size
        text = payload[place : place + length]
        place += length
        if len(text) != length or length > ASKED_FILTER_BYTES_MAX:
            raise BadHeader("cut short in a filter, or too long")
        reports.append(FlowReport(flow, quota, int.from_bytes(row, "little"), text_of(text)))
    if place != len(payload):
        raise BadHeader("something follows the last report")
    return tuple(reports)


def text_of(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadHeader("a filter that is no text") from None
