"""No bytes whatever raise anything but the wire's own errors, and what is sent is what arrives."""

import tracemalloc
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from tests.properties.message_strategies import events, messages, of_message
from tidings.machine.message import Message
from tidings.model.bounds import PUBLICATION_BYTES_MAX, PUBLICATIONS_MAX
from tidings.model.event import Event
from tidings.pubsub.publications import BadPublication, Publications, decode_event, encode_event, pieces
from tidings.wire import FRAME_BYTES_MAX, REGISTRY, BadMessage, FrameReader, decode, encode, frame
from tidings.wire.handshake import Agreement, HandshakeRefusal, Hello, agree

TYPES = list(REGISTRY.types.values())
heads = st.sampled_from([code.to_bytes(2) for code in REGISTRY.types])
strange = st.one_of(
    st.binary(max_size=64),
    st.sampled_from(
        [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"]
    ),
    st.integers(1, 10**5).map(lambda depth: b"\x91" * depth),
    st.integers(1, 10**5).map(lambda depth: b"\x81\xa1a" * depth),
    st.sampled_from([b"\xcb\x7f\xf8" + bytes(6), b"\xca\x7f\x80\x00\x00", b"\xcf" + b"\xff" * 8, b"\xa2\xff\xfe"]),
)


def read(data: bytes) -> Message | None:
    """The message, or None if it was refused in the one way that is allowed."""
    try:
        message: Message = decode(data)
    except BadMessage as refused:
        assert 0 < len(refused.reason) < 400
        return None
    return message


@pytest.mark.spec("P-4")
@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_every_message_comes_back_as_it_was(kind: type, data: DataObject) -> None:
    message = data.draw(of_message(kind))
    sent = encode(message)
    arrived = decode(sent)
    assert arrived == message
    assert type(arrived) is kind
    assert encode(arrived) == sent


@given(events)
def test_every_event_comes_back_with_its_types(event: Event) -> None:
    arrived = decode_event(encode_event(event))
    assert arrived == event
    assert [repr(arrived.attributes[name]) for name in event.attributes] == [
        repr(it) for it in event.attributes.values()
    ]


@given(st.one_of(st.binary(max_size=200), st.tuples(heads, strange, strange).map(b"".join)))
def test_arbitrary_bytes_are_a_message_or_a_bad_message(data: bytes) -> None:
    message = read(data)
    if message is not None:
        assert decode(encode(message)) == message


@given(st.one_of(st.binary(max_size=200), strange.map(lambda data: b"\x92\xc4\x00\x81\xa1a" + data)))
def test_arbitrary_bytes_are_an_event_or_a_bad_publication(data: bytes) -> None:
    try:
        event = decode_event(data)
    except BadPublication:
        return
    assert decode_event(encode_event(event)) == event


@given(messages, st.data())
def test_a_message_that_is_cut_short_is_refused(message: Message, data: DataObject) -> None:
    sent = encode(message)
    assert read(sent[: data.draw(st.integers(0, len(sent) - 1))]) is None


@given(messages, st.lists(st.tuples(st.integers(0, 10**6), strange, st.integers(0, 4)), min_size=1, max_size=4))
def test_a_message_that_is_damaged_is_another_message_or_refused(
    message: Message, damages: list[tuple[int, bytes, int]]
) -> None:
    data = encode(message)
    for place, put, removed in damages:
        at = place % (len(data) + 1)
        data = data[:at] + put[:1000] + data[at + removed :]
    arrived = read(data)
    if arrived is not None:
        assert decode(encode(arrived)) == arrived


def cut(stream: bytes, places: Sequence[int]) -> list[bytes]:
    ends = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[begin:end] for begin, end in pairwise(ends)]


def read_frames(pieces: list[bytes], opening_bytes_max: int | None = None) -> tuple[list[bytes], str | None]:
    """Everything that was readable, piece by piece, and how it ended."""
    reader, bodies = FrameReader(opening_bytes_max=opening_bytes_max), list[bytes]()
    for piece in pieces:
        bodies += reader.feed(piece)
        if reader.problem is not None:
            break
    return bodies, reader.problem


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=8), st.lists(st.integers(0, 10**6), max_size=10))
def test_frames_come_out_whole_however_the_stream_is_cut(bodies: list[bytes], places: list[int]) -> None:
    stream = b"".join(frame(body) for body in bodies)
    assert read_frames(cut(stream, places)) == (bodies, None)


parts = st.one_of(
    st.binary(max_size=12),
    st.binary(min_size=1, max_size=40).map(frame),
    st.sampled_from([bytes(4), (31).to_bytes(4), FRAME_BYTES_MAX.to_bytes(4), (FRAME_BYTES_MAX + 1).to_bytes(4)]),
)


@given(st.lists(parts, max_size=6).map(b"".join), st.lists(st.integers(0, 10**6), max_size=10))
def test_arbitrary_streams_are_read_alike_however_they_are_cut(stream: bytes, places: list[int]) -> None:
    byte_by_byte = [bytes([byte]) for byte in stream]
    assert read_frames(cut(stream, places), opening_bytes_max=30) == read_frames(byte_by_byte, opening_bytes_max=30)


@given(st.integers(FRAME_BYTES_MAX + 1, 2**32 - 1), st.binary(max_size=20))
def test_an_oversize_length_is_refused_with_the_bound(size_bytes: int, rest: bytes) -> None:
    bodies, problem = read_frames([size_bytes.to_bytes(4) + rest])
    assert bodies == []
    assert problem == f"a frame of {size_bytes} bytes, at most {FRAME_BYTES_MAX} are allowed here"


hellos = st.builds(
    Hello,
    st.sampled_from("abc"),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 5),
    st.one_of(st.sets(st.sampled_from("xyz")).map(sorted).map(tuple), st.lists(st.sampled_from("xyz")).map(tuple)),
    st.integers(0, 9),
    st.sampled_from([10, 5000, FRAME_BYTES_MAX]),
)


@given(hellos, hellos)
def test_two_ends_agree_on_the_same_or_one_of_them_refuses(mine: Hello, theirs: Hello) -> None:
    match agree(mine, theirs), agree(theirs, mine):
        case Agreement() as here, Agreement() as there:
            assert (here.version, here.epoch, here.frame_bytes_max) == (
                there.version,
                there.epoch,
                there.frame_bytes_max,
            )
            assert here.capabilities == there.capabilities == tuple(sorted(here.capabilities))
            assert theirs.version_min <= here.version <= theirs.version_max
            assert (here.peer, there.peer) == (theirs.node, mine.node)
        case answers:
            assert any(isinstance(answer, HandshakeRefusal) and answer.reason for answer in answers)


@given(st.lists(st.sampled_from([1, 1000, 300_000, 500_000, PUBLICATION_BYTES_MAX]), max_size=12))
def test_pieces_keep_every_publication_in_order_and_fit_a_frame(sizes: list[int]) -> None:
    made = pieces(sizes)
    assert [size for piece in made for size in sizes[piece]] == sizes
    for piece in made:
        payloads = tuple(bytes(size - 1) for size in sizes[piece])
        numbers = tuple(range(2**62, 2**62 + len(payloads)))
        batch = Publications("p" * 255, "a" * 255, 1e9, 2**62, numbers, (b"x",) * len(payloads), payloads)
        assert 0 < len(payloads) <= PUBLICATIONS_MAX
        assert len(encode(batch)) <= FRAME_BYTES_MAX


FILLERS = [
    b"\xc0",
    b"\xa0",
    b"\x90",
    b"\x80",
    b"\x00",
    b"\xc4\x00",
    b"\xa1a",
    b"\x92\xa1a\xa1b",
    b"\xa4\xf0\x9f\x98\x80",
]
OPENINGS = [
    b"",
    b"\x91",
    b"\x92",
    b"\x91\xdd\x00\x01\x00\x00",
    b"\x92\xc4\x00\xdf\x00\x00\x00\x80",
    b"\x91\xdb\x00\x0f\x00\x00\xf0\x9f\x98\x80",
]


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_no_frame_makes_the_decoder_take_more_than_twice_the_bound(kind: type) -> None:
    (code,) = [code for code, known in REGISTRY.types.items() if known is kind]
    wide = b"\x92\xc4\x00\x81\xa1a\xdb\x00\x03\xff\x00\xf0\x9f\x98\x80"
    hostile = [opening + filler * (FRAME_BYTES_MAX // len(filler)) for opening in OPENINGS for filler in FILLERS]
    hostile += [(wide + b"a" * size)[:size] for size in (1000, 4000, 100_000, 256 * 1024, FRAME_BYTES_MAX)]
    peaks = []
    for body in hostile:
        data = (code.to_bytes(2) + body)[:FRAME_BYTES_MAX]
        tracemalloc.start()
        try:
            read(data)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert max(peaks) <= 2 * FRAME_BYTES_MAX
