"""From the values of `formats.py` to bytes, and back. What is decoded was checked: lengths, ranges, finite numbers."""

import math
import struct
from collections.abc import Callable

from tidings.model.bounds import ASKED_FILTER_BYTES_MAX, FLOWS_MAX, RATE_MAX, TIME_MAX_US
from tidings.protocols.transport.formats import (
    ACKNOWLEDGEMENT,
    ACKNOWLEDGEMENT_FORM,
    AGE_MAX_US,
    BASIC,
    CARRIES_HEAD,
    COMPRESSED,
    CONTROLLED,
    DATA,
    DIGEST,
    ECHO_REPLY,
    ECHO_REPLY_FORM,
    ECHO_REQUEST,
    ECHO_REQUEST_FORM,
    ENTRY_AGE,
    FEEDBACK,
    FEEDBACK_FIXED,
    FIXED,
    FURTHER,
    FURTHER_FLOW,
    HAS_LIMITING,
    HEADER_BYTES,
    MICROSECONDS,
    RELEASE,
    REPAIR,
    REPAIR_FIXED,
    REPORT,
    REQUEST,
    REQUEST_FIXED,
    VERSION,
    WRAP,
    Acknowledgement,
    BadHeader,
    Control,
    Data,
    EchoReply,
    EchoRequest,
    Feedback,
    FlowMark,
    FlowReport,
    LossRepair,
    LossRequest,
    to_us,
)

FIRST = VERSION << 4
DATA_FIRST, DIGEST_FIRST = FIRST | DATA, FIRST | DIGEST
HEAD_LENGTH = struct.Struct(">I")
FILTER_LENGTH = struct.Struct(">H")
SPAN_MAX = 3600.0
"""Seconds that any span in a message may have."""


# Events.


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


# The transport's own messages.


def encode_control(message: Control, payload: bytes = b"") -> bytes:
    """`payload` is that of the event which a repair brings."""
    match message:
        case LossRequest():
            return encode_request(message)
        case LossRepair():
            return encode_repair(message, payload)
        case Feedback():
            return encode_feedback(message)
        case EchoRequest(subscriber, publisher, nonce, sent):
            return ECHO_REQUEST_FORM.pack(FIRST | ECHO_REQUEST, 0, subscriber, publisher, nonce, to_us(sent))
        case EchoReply(subscriber, publisher, nonce, echoed, held, sent):
            times = to_us(echoed), span_us(held), to_us(sent)
            return ECHO_REPLY_FORM.pack(FIRST | ECHO_REPLY, 0, subscriber, publisher, nonce, *times)
        case Acknowledgement(subscriber, publisher, flow, through, received, missing, sent):
            numbers = subscriber, publisher, flow, through % WRAP, received % WRAP
            form = ACKNOWLEDGEMENT_FORM.pack(FIRST | ACKNOWLEDGEMENT, 0, *numbers, to_us(sent))
            return form + missing.to_bytes(4, "big")


def span_us(seconds: float) -> int:
    return min(AGE_MAX_US, max(0, to_us(seconds)))


def encode_request(request: LossRequest) -> bytes:
    fixed = REQUEST_FIXED.pack(
        FIRST | REQUEST,
        0,
        request.round,
        request.row_bytes,
        request.requester,
        request.publisher,
        request.sequence % WRAP,
        to_us(request.sent),
        request.request_wait,
        request.distance,
        request.repairer,
        to_us(request.repair_sent),
        span_us(request.repair_held),
    )
    return fixed + request.bits.to_bytes(request.row_bytes, "little")


def encode_repair(repair: LossRepair, payload: bytes) -> bytes:
    fixed = REPAIR_FIXED.pack(
        FIRST | REPAIR,
        CARRIES_HEAD if repair.head else 0,
        repair.repairer,
        to_us(repair.sent),
        repair.requester,
        to_us(repair.request_sent),
        span_us(repair.held),
    )
    inside = HEAD_LENGTH.pack(len(repair.head)) + repair.head if repair.head else b""
    return fixed + inside + encode_data(repair.data) + payload


def encode_feedback(feedback: Feedback) -> bytes:
    fixed = FEEDBACK_FIXED.pack(
        FIRST | FEEDBACK,
        RELEASE * feedback.is_release,
        feedback.subscriber,
        feedback.publisher,
        to_us(feedback.sent),
        feedback.round_trip,
        len(feedback.reports),
    )
    parts = [fixed, bytes((feedback.row_bytes,))]
    for report in feedback.reports:
        text = report.filter.encode()
        if len(text) > ASKED_FILTER_BYTES_MAX:
            text = b""
        parts.append(
            REPORT.pack(report.flow, min(report.quota, RATE_MAX)) + report.bits.to_bytes(feedback.row_bytes, "little")
        )
        parts.append(FILTER_LENGTH.pack(len(text)) + text)
    return b"".join(parts)


def decode_control(payload: bytes) -> tuple[Control, bytes]:
    """The message, and the payload of the event which a repair brings."""
    if not payload:
        raise BadHeader("no bytes")
    decode = DECODERS.get(payload[0])
    if decode is None:
        raise BadHeader(f"first byte {payload[0]:#04x}: another version or type")
    try:
        return decode(payload)
    except struct.error:
        raise BadHeader(f"{len(payload)} bytes are too few for this message") from None


def decode_request(payload: bytes) -> tuple[LossRequest, bytes]:
    fixed = REQUEST_FIXED.unpack_from(payload)
    _, _, round_, row_bytes, requester, publisher, sequence, sent, wait, distance, repairer, repair_sent, held = fixed
    row = payload[REQUEST_FIXED.size :]
    if len(row) != row_bytes or not row_bytes:
        raise BadHeader(f"a Bloom row of {len(row)} bytes, {row_bytes} announced")
    message = LossRequest(
        requester,
        publisher,
        sequence,
        time_of(sent),
        checked_span(wait),
        checked_span(distance),
        int.from_bytes(row, "little"),
        row_bytes,
        round_,
        repairer,
        time_of(repair_sent),
        held / MICROSECONDS,
    )
    return message, b""


def decode_repair(payload: bytes) -> tuple[LossRepair, bytes]:
    _, flags, repairer, sent, requester, request_sent, held = REPAIR_FIXED.unpack_from(payload)
    place, head = REPAIR_FIXED.size, b""
    if flags & CARRIES_HEAD:
        (length,) = HEAD_LENGTH.unpack_from(payload, place)
        place += HEAD_LENGTH.size
        head = payload[place : place + length]
        if len(head) != length or not length:
            raise BadHeader("cut short in the attributes")
        place += length
    data, rest = decode_data(payload[place:])
    if data.kind != DATA:
        raise BadHeader("a repair of what is no event")
    times = time_of(request_sent), held / MICROSECONDS
    return LossRepair(repairer, time_of(sent), requester, *times, data, head), rest


def decode_feedback(payload: bytes) -> tuple[Feedback, bytes]:
    _, flags, subscriber, publisher, sent, round_trip, count = FEEDBACK_FIXED.unpack_from(payload)
    place = FEEDBACK_FIXED.size
    if len(payload) <= place:
        raise BadHeader("cut short before the reports")
    row_bytes = payload[place]
    place += 1
    if count > FLOWS_MAX or not row_bytes:
        raise BadHeader(f"{count} flows with rows of {row_bytes} bytes")
    reports = []
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
    spans = time_of(sent), checked_span(round_trip)
    return Feedback(subscriber, publisher, *spans, tuple(reports), row_bytes, bool(flags & RELEASE)), b""


def decode_echo_request(payload: bytes) -> tuple[EchoRequest, bytes]:
    _, _, subscriber, publisher, nonce, sent = ECHO_REQUEST_FORM.unpack(payload)
    return EchoRequest(subscriber, publisher, nonce, time_of(sent)), b""


def decode_echo_reply(payload: bytes) -> tuple[EchoReply, bytes]:
    _, _, subscriber, publisher, nonce, echoed, held, sent = ECHO_REPLY_FORM.unpack(payload)
    return EchoReply(subscriber, publisher, nonce, time_of(echoed), held / MICROSECONDS, time_of(sent)), b""


def decode_acknowledgement(payload: bytes) -> tuple[Acknowledgement, bytes]:
    form, missing = payload[: ACKNOWLEDGEMENT_FORM.size], payload[ACKNOWLEDGEMENT_FORM.size :]
    _, _, subscriber, publisher, flow, through, received, sent = ACKNOWLEDGEMENT_FORM.unpack(form)
    if len(missing) != 4:
        raise BadHeader("cut short in the missing ones")
    numbers = subscriber, publisher, flow, through, received
    return Acknowledgement(*numbers, int.from_bytes(missing, "big"), time_of(sent)), b""


def time_of(microseconds: int) -> float:
    if microseconds > TIME_MAX_US:
        raise BadHeader(f"time {microseconds}")
    return microseconds / MICROSECONDS


def checked_span(seconds: float) -> float:
    if not (math.isfinite(seconds) and 0.0 <= seconds <= SPAN_MAX):
        raise BadHeader(f"a span of {seconds} s")
    return seconds


def text_of(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadHeader("a filter that is no text") from None


DECODERS: dict[int, Callable[[bytes], tuple[Control, bytes]]] = {
    FIRST | REPAIR: decode_repair,
    FIRST | REQUEST: decode_request,
    FIRST | FEEDBACK: decode_feedback,
    FIRST | ECHO_REQUEST: decode_echo_request,
    FIRST | ECHO_REPLY: decode_echo_reply,
    FIRST | ACKNOWLEDGEMENT: decode_acknowledgement,
}
