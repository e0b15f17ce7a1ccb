"""Whatever bytes come, the transport's decoders answer with a value or BadHeader, and what is sent is what arrives."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.message_strategies import events
from tidings.matching.bloom import BloomProfile
from tidings.model.bounds import RATE_MAX
from tidings.model.event import Event
from tidings.model.language.parser import parse
from tidings.protocols.transport.headers import (
    AGE_MAX_US,
    DATA,
    DIGEST,
    WRAP,
    BadHeader,
    Data,
    FlowMark,
    compress,
    decode_data,
    encode_data,
    expand,
    unwrap,
)
from tidings.protocols.transport.marks import Kind, mark, unmark
from tidings.protocols.transport.messages import (
    Acknowledgement,
    Control,
    EchoReply,
    EchoRequest,
    Feedback,
    FlowReport,
    LossRepair,
    LossRequest,
    decode_control,
    encode_control,
)
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.sequences import SentRecord
from tidings.protocols.transport.shim import Shim
from tidings.protocols.transport.signals import CarriedEvent, Caught, Listen
from tidings.pubsub.publications import encode_head
from tidings.pubsub.seen import Seen

ROW_BYTES = 8
words = st.integers(0, 2**32 - 1)
rows = st.integers(0, 2 ** (8 * ROW_BYTES) - 1)
times = st.integers(0, 2**50).map(lambda microseconds: microseconds / 1e6)
spans = st.floats(0.0, 3600.0, width=32)
ages = st.integers(0, AGE_MAX_US)
held = ages.map(lambda microseconds: microseconds / 1e6)
rates = st.floats(0.0, RATE_MAX, width=32)
marks = st.builds(FlowMark, words, words, st.integers(-(2**40), 2**40).map(lambda microseconds: microseconds / 1e6))


@st.composite
def headers(draw: st.DrawFn, kind: int = DATA) -> Data:
    fixed = draw(st.tuples(words, words, times, rates, st.booleans()))
    flows = tuple(draw(st.lists(marks, max_size=3)))
    entries = sorted(draw(st.lists(st.tuples(ages, rows), max_size=4)))
    is_other = draw(st.booleans())
    if not entries and is_other:
        earlier = fixed[2] - draw(st.integers(0, 10**6)) / 1e6
        return Data(*fixed, flows, max(0.0, round(earlier * 1e6) / 1e6), kind=kind)
    if entries and is_other:
        record = compress([age for age, _ in entries], [row for _, row in entries], ROW_BYTES)
        return Data(*fixed, flows, None, len(entries), ROW_BYTES, record, True, kind)
    record = b"".join(age.to_bytes(4) + row.to_bytes(ROW_BYTES, "little") for age, row in entries)
    return Data(*fixed, flows, None, len(entries), ROW_BYTES if entries else 0, record, False, kind)


requests = st.builds(
    LossRequest,
    words,
    words,
    words,
    times,
    spans,
    spans,
    rows,
    st.just(ROW_BYTES),
    st.integers(0, 255),
    words,
    times,
    held,
)
repairs = st.builds(LossRepair, words, times, words, times, held, headers(), st.binary(max_size=9))
reports = st.lists(st.builds(FlowReport, words, rates, rows, st.text(max_size=9)), max_size=4).map(tuple)
feedbacks = st.builds(Feedback, words, words, times, spans, reports, st.just(ROW_BYTES), st.booleans())
controls: st.SearchStrategy[Control] = st.one_of(
    requests,
    repairs,
    feedbacks,
    st.builds(EchoRequest, words, words, words, times),
    st.builds(EchoReply, words, words, words, times, held, times),
    st.builds(Acknowledgement, words, words, words, words, words, words, times),
)
damages = st.lists(st.tuples(st.integers(0, 10**6), st.binary(max_size=9), st.integers(0, 9)), min_size=1, max_size=4)


def damaged(data: bytes, changes: list[tuple[int, bytes, int]]) -> bytes:
    for place, put, removed in changes:
        at = place % (len(data) + 1)
        data = data[:at] + put + data[at + removed :]
    return data


def read_data(data: bytes) -> tuple[Data, bytes] | None:
    """What was read, or None if it was refused in the one way that is allowed."""
    try:
        return decode_data(data)
    except BadHeader:
        return None


def read_control(data: bytes) -> tuple[Control, bytes] | None:
    try:
        return decode_control(data)
    except BadHeader:
        return None


@pytest.mark.spec("T-22")
@given(st.one_of(headers(), headers(DIGEST)), st.binary(max_size=20))
def test_every_header_comes_back_as_it_was(header: Data, payload: bytes) -> None:
    assert decode_data(encode_data(header) + payload) == (header, payload)


@pytest.mark.spec("T-22")
@given(controls, st.binary(max_size=20))
def test_every_message_comes_back_as_it_was(message: Control, payload: bytes) -> None:
    payload = payload if isinstance(message, LossRepair) else b""
    assert decode_control(encode_control(message, payload)) == (message, payload)


@pytest.mark.spec("T-22")
@given(st.one_of(st.binary(max_size=200), st.binary(max_size=80).map(lambda rest: b"\x10" + rest)))
def test_arbitrary_bytes_are_read_or_refused(data: bytes) -> None:
    for read in (read_data(data), read_control(data)):
        if read is not None and isinstance(read[0], Data):
            read[0].read_record(5)


@pytest.mark.spec("T-22")
@given(headers(), damages)
def test_a_damaged_header_is_another_header_or_refused(header: Data, changes: list[tuple[int, bytes, int]]) -> None:
    read = read_data(damaged(encode_data(header), changes))
    if read is not None:
        assert len(read[0].read_record(10**6)) <= read[0].entries
        encode_data(read[0])


@pytest.mark.spec("T-22")
@given(controls, damages)
def test_a_damaged_message_is_another_message_or_refused(
    message: Control, changes: list[tuple[int, bytes, int]]
) -> None:
    read = read_control(damaged(encode_control(message), changes))
    if read is not None:
        encode_control(*read)


@pytest.mark.spec("T-22")
@given(headers(), st.data())
def test_a_header_that_is_cut_short_is_refused(header: Data, data: st.DataObject) -> None:
    sent = encode_data(header)
    assert read_data(sent[: data.draw(st.integers(0, len(sent) - 1))]) is None


heads = st.one_of(
    st.binary(max_size=60),
    st.tuples(events, st.sampled_from(Kind)).map(lambda drawn: mark(encode_head(drawn[0].attributes), drawn[1])),
    st.tuples(st.binary(max_size=9), st.sampled_from(Kind)).map(lambda drawn: drawn[0] + mark(b"\x80", drawn[1])),
)
payloads = st.one_of(
    st.binary(max_size=120),
    st.builds(lambda header, rest: encode_data(header) + rest, st.one_of(headers(), headers(DIGEST)), st.binary()),
    st.builds(encode_control, controls, st.binary(max_size=20)),
)
contents = st.builds(
    CarriedEvent,
    heads,
    st.builds(damaged, payloads, st.one_of(st.just([]), damages)),
    st.sampled_from(["", "s", "t"]),
    st.integers(0, 3),
    st.just(0.0),
    st.sampled_from([(), (1,), (2,), (1, 2)]),
)


@pytest.mark.spec("T-22")
@given(st.lists(contents, min_size=1, max_size=12))
def test_the_shim_takes_whatever_is_caught(caught: list[CarriedEvent]) -> None:
    shim = Shim(7, TransportParams(is_reliable=True, streams_max=3), Random(1))
    shim.start(0.0)
    shim.handle(0.0, Listen(1, parse("TRUE"), is_reliable=True))
    for content in caught:
        shim.handle(1.0, Caught(content))
        shim.check()


@pytest.mark.spec("T-16")
@given(events, st.sampled_from(Kind))
def test_a_mark_comes_off_as_it_was_put_on(event: Event, kind: Kind) -> None:
    head = encode_head(event.attributes)
    assert unmark(mark(head, kind)) == (head, kind)
    assert unmark(head) == (head, None)


@given(st.integers(0, 2**40), st.integers(-(2**31) + 1, 2**31 - 1))
def test_a_number_is_found_again_from_its_last_bits_and_a_number_nearby(number: int, distance: int) -> None:
    near = max(0, number + distance)
    assert unwrap(number % WRAP, near) == number


@given(st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from([0, 1, 3, 0xFFFF, 0x1FFFF, 2**60])), max_size=40))
def test_a_compressed_record_tells_every_age_and_at_least_every_bit(steps: list[tuple[int, int]]) -> None:
    told_ages, told_rows, age = [], [], 0
    for step, row in steps:
        age += step
        told_ages.append(age)
        told_rows.append(row)
    read = expand(compress(told_ages, told_rows, 16), len(steps), 16, 2**40, len(steps))
    assert [entry.sequence for entry in read] == list(range(len(steps) - 1, -1, -1))
    assert [entry.departed for entry in read] == [(2**40 - age) / 1e6 for age in told_ages]
    assert all(entry.bits & row == row for entry, row in zip(read, told_rows, strict=True))
    assert all(bool(entry.bits) == bool(row) for entry, row in zip(read, told_rows, strict=True))


moves = st.one_of(st.integers(0, 10**6), st.integers(-(10**6), 0), st.just(2**32), st.just(2**31))


@given(st.integers(1, 6), st.lists(st.tuples(moves, rows), max_size=30))
def test_the_record_kept_as_a_number_is_the_one_written_entry_by_entry(
    entries: int, sent: list[tuple[int, int]]
) -> None:
    params = TransportParams(record=entries, profile=BloomProfile(bits=8 * ROW_BYTES))
    fast, plain = SentRecord(params), SentRecord(params)
    now = 10**12
    for move, row in sent:
        now += move
        count = min(entries, len(plain))
        wanted = plain.write_plainly(now, count)
        plain.add(now, row)
        assert fast.write_and_add(now, row) == (wanted, count, False)


@given(st.integers(0, 30), st.integers(1, 12), st.lists(st.integers(0, 60), max_size=60))
def test_each_number_is_new_once_within_the_window(first: int, width: int, numbers: list[int]) -> None:
    seen, model, high = Seen(first, width), {first}, first
    for number in numbers:
        is_new = number > high - width and number not in model
        assert seen.add(number) is is_new
        model.add(number)
        high = max(high, number)
        assert len(seen.before) <= first
        for asked in range(first, high + 1):
            assert (asked in seen) is (asked in model or asked <= high - width)
