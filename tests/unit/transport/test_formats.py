"""The bytes of the transport: sizes, bounds, and what a decoder refuses."""

import struct

import pytest

from tidings.model.bounds import ASKED_FILTER_BYTES_MAX, FLOWS_MAX, RATE_MAX, TIME_MAX_US
from tidings.protocols.transport.headers import (
    AGE_MAX_US,
    COMPRESSED,
    DATA,
    DIGEST,
    FURTHER,
    HEADER_BYTES,
    WRAP,
    BadHeader,
    Data,
    FlowMark,
    RecordEntry,
    decode_data,
    encode_data,
    unwrap,
)
from tidings.protocols.transport.messages import (
    Acknowledgement,
    EchoReply,
    EchoRequest,
    Feedback,
    FlowReport,
    LossRepair,
    LossRequest,
    decode_control,
    encode_control,
)

ROW = 0b1011 << 60
ENTRIES = [(1_000, ROW), (2_500, 1), (AGE_MAX_US, 0)]


def record_of(entries: list[tuple[int, int]], row_bytes: int = 16) -> bytes:
    return b"".join(age.to_bytes(4) + row.to_bytes(row_bytes, "little") for age, row in entries)


def data(**fields: object) -> Data:
    given = {"publisher": 7, "sequence": 5, "departed": 10.0, "rate": 2.5, **fields}
    return Data(**given)  # type: ignore[arg-type]


@pytest.mark.spec("T-19")
@pytest.mark.parametrize(("entries", "bits"), [(0, 128), (1, 64), (2, 128), (5, 128), (10, 256), (25, 128), (255, 64)])
def test_a_header_takes_40_bytes_and_for_each_entry_4_and_a_row(entries: int, bits: int) -> None:
    row_bytes = bits // 8
    header = data(entries=entries, row_bytes=row_bytes, record=record_of([(1, 1)] * entries, row_bytes))
    assert len(encode_data(header)) == 40 + entries * (4 + bits // 8)


@pytest.mark.spec("T-19")
def test_two_entries_of_128_bits_make_80_bytes() -> None:
    header = data(entries=2, row_bytes=16, record=record_of([(1, 1), (2, 3)]))
    assert len(encode_data(header)) == 80


@pytest.mark.spec("T-19")
def test_basic_ordering_takes_four_bytes_more_and_each_further_flow_16() -> None:
    assert len(encode_data(data(previous=9.5))) == 44
    marks = tuple(FlowMark(number, number, 0.5) for number in range(3))
    assert len(encode_data(data(flows=marks[:1]))) == 40
    assert len(encode_data(data(flows=marks))) == 40 + 1 + 2 * 16


def test_the_layout_is_the_written_one() -> None:
    header = data(flows=(FlowMark(3, 4, -0.25),), is_controlled=True, entries=1, row_bytes=2, record=b"\0\0\0\1\2\3")
    wanted = bytes((0x10, 0b11, 1, 2)) + struct.pack(">IIQfIIq", 7, 5, 10_000_000, 2.5, 4, 3, -250_000)
    assert encode_data(header) == wanted + b"\0\0\0\1\2\3"


def test_a_record_is_read_newest_first_with_whole_numbers() -> None:
    header = data(departed=6000.0, entries=3, row_bytes=16, record=record_of(ENTRIES))
    arrived, payload = decode_data(encode_data(header) + b"payload")
    assert payload == b"payload"
    assert arrived.read_record(2**40) == (
        RecordEntry(2**40 - 1, 5999.999, ROW),
        RecordEntry(2**40 - 2, 5999.9975, 1),
        RecordEntry(2**40 - 3, (6_000_000_000 - AGE_MAX_US) / 1e6, 0),
    )
    assert [entry.sequence for entry in arrived.read_record(9, most=2)] == [8, 7]


def test_a_row_that_is_nearly_full_says_nothing() -> None:
    full = 2**128 - 1
    header = data(entries=2, row_bytes=16, record=record_of([(1, full), (2, 2**64 - 1)]))
    assert [entry.bits for entry in header.read_record(5)] == [0, 2**64 - 1]


def test_flows_come_back_in_order_and_no_more_than_fit() -> None:
    marks = tuple(FlowMark(number, number + 1, number / 4) for number in range(FLOWS_MAX + 10))
    arrived, _ = decode_data(encode_data(data(flows=marks)))
    assert arrived.flows == marks[: FLOWS_MAX + 1]


def test_a_header_that_claims_compression_without_entries_survives_its_own_bytes() -> None:
    claimed = bytearray(encode_data(data()))
    claimed[1] |= COMPRESSED
    arrived, payload = decode_data(bytes(claimed) + b"payload")
    assert payload == b"payload"
    assert decode_data(encode_data(arrived) + payload) == (arrived, b"payload")


@pytest.mark.spec("T-22")
@pytest.mark.parametrize(
    "place_and_bytes",
    [
        (0, b"\x20"),
        (0, b"\x11"),
        (12, (TIME_MAX_US + 1).to_bytes(8)),
        (20, struct.pack(">f", float("nan"))),
        (20, struct.pack(">f", float("inf"))),
        (20, struct.pack(">f", -1.0)),
        (20, struct.pack(">f", 2 * RATE_MAX)),
        (2, b"\x01"),
        (2, b"\x01\x10"),
        (1, bytes((4,))),
        (1, bytes((FURTHER,))),
    ],
)
def test_what_cannot_be_is_refused(place_and_bytes: tuple[int, bytes]) -> None:
    place, put = place_and_bytes
    sent = encode_data(data())
    with pytest.raises(BadHeader):
        decode_data(sent[:place] + put + sent[place + len(put) :])


FEEDBACK = Feedback(1, 2, 3.0, 0.25, (FlowReport(4, 5.5, ROW, "a = 1"), FlowReport(5, 0.0, 0)), 16)
REQUEST = LossRequest(1, 2, 3, 4.0, 0.5, 0.25, ROW, 16, 2, 9, 3.5, 0.125)
REPAIR = LossRepair(1, 2.0, 3, 4.0, 0.5, data(entries=1, row_bytes=16, record=record_of([(1, 1)])), b"\x80")
MESSAGES = [
    FEEDBACK,
    Feedback(1, 2, 3.0, 0.25, (), 8, is_release=True),
    REQUEST,
    REPAIR,
    EchoRequest(1, 2, 3, 4.0),
    EchoReply(1, 2, 3, 4.0, 0.5, 5.0),
    Acknowledgement(1, 2, 3, 2**32 - 1, 5, 0b101, 6.0),
]


@pytest.mark.spec("T-22")
@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_cut_short_anywhere_is_refused(message: LossRequest) -> None:
    sent = encode_control(message)
    assert decode_control(sent) == (message, b"")
    for length in range(len(sent)):
        with pytest.raises(BadHeader):
            decode_control(sent[:length])


@pytest.mark.spec("T-22")
def test_spans_quotas_and_texts_of_strangers_are_checked() -> None:
    bad_span = encode_control(LossRequest(1, 2, 3, 4.0, 1e9, 0.25, ROW, 16))
    bad_quota = encode_control(Feedback(1, 2, 3.0, 0.25, (FlowReport(4, -1.0, ROW),), 16))
    bad_text = encode_control(FEEDBACK).replace(b"a = 1", b"a = \xff")
    longer = encode_control(FEEDBACK) + b"x"
    for sent in (bad_span, bad_quota, bad_text, longer, b"", b"\x1f"):
        with pytest.raises(BadHeader):
            decode_control(sent)


def test_a_quota_without_a_bound_is_written_as_the_largest_rate() -> None:
    arrived, _ = decode_control(encode_control(Feedback(1, 2, 3.0, 0.25, (FlowReport(4, float("inf"), 1),), 16)))
    assert isinstance(arrived, Feedback)
    assert arrived.reports[0].quota == RATE_MAX


def test_a_filter_that_is_too_long_is_left_out_of_a_feedback() -> None:
    report = FlowReport(4, 1.0, 1, "x" * (ASKED_FILTER_BYTES_MAX + 1))
    arrived, _ = decode_control(encode_control(Feedback(1, 2, 3.0, 0.25, (report,), 16)))
    assert isinstance(arrived, Feedback)
    assert arrived.reports[0].filter == ""


def test_a_repair_carries_the_header_and_payload_of_its_event() -> None:
    assert decode_control(encode_control(REPAIR, b"payload")) == (REPAIR, b"payload")


def test_a_repair_of_a_digest_is_refused() -> None:
    with pytest.raises(BadHeader):
        decode_control(encode_control(LossRepair(1, 2.0, 3, 4.0, 0.5, data(kind=DIGEST))))


@pytest.mark.parametrize(
    ("wrapped", "near", "whole"),
    [
        (0, 0, 0),
        (5, 3, 5),
        (3, 5, 3),
        (WRAP - 1, 3, WRAP - 1),
        (2, WRAP - 3, WRAP + 2),
        (WRAP - 2, WRAP + 1, WRAP - 2),
        (7, 5 * WRAP + 7, 5 * WRAP + 7),
        (WRAP // 2 + 8, 7, WRAP // 2 + 8),
    ],
)
def test_the_whole_number_is_the_nearest_one(wrapped: int, near: int, whole: int) -> None:
    assert unwrap(wrapped, near) == whole


def test_a_header_is_as_long_as_its_fixed_part_when_it_has_no_record() -> None:
    sent = encode_data(data(sequence=WRAP + 3, kind=DATA))
    assert len(sent) == HEADER_BYTES
    assert decode_data(sent)[0].sequence == 3
