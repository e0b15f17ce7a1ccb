import tracemalloc

import pytest

from tidings.model.bounds import FRAME_BYTES_MAX, OPENING_BYTES_MAX
from tidings.model.errors import UsageError
from tidings.wire.codec import BadFrame
from tidings.wire.frames import FrameReader, frame


def test_a_frame_is_its_length_and_its_body() -> None:
    assert frame(b"hello") == b"\x00\x00\x00\x05hello"


@pytest.mark.parametrize("size_bytes", [0, FRAME_BYTES_MAX + 1])
def test_a_body_that_no_reader_would_accept_is_not_framed(size_bytes: int) -> None:
    with pytest.raises(UsageError, match=str(FRAME_BYTES_MAX)):
        frame(bytes(size_bytes))


def test_frames_come_out_as_they_were_put_in_however_they_are_cut() -> None:
    bodies = [b"a", b"bb" * 300, b"\x00" * 5, b"end"]
    stream = b"".join(frame(body) for body in bodies)
    for piece_bytes in (1, 2, 3, 4, 5, 7, 300, len(stream)):
        reader = FrameReader()
        pieces = [stream[at : at + piece_bytes] for at in range(0, len(stream), piece_bytes)]
        assert [body for piece in pieces for body in reader.feed(piece)] == bodies
        assert reader.is_between_frames


def test_a_piece_may_be_a_view_of_a_buffer() -> None:
    reader = FrameReader()
    stream = memoryview(bytearray(frame(b"one") + frame(b"two")))
    assert [*reader.feed(stream[:2]), *reader.feed(stream[2:9]), *reader.feed(stream[9:])] == [b"one", b"two"]  # type: ignore[arg-type]


@pytest.mark.parametrize("cut", range(1, 9))
def test_a_stream_that_ends_inside_a_frame_is_seen_to(cut: int) -> None:
    reader = FrameReader()
    assert reader.is_between_frames
    assert reader.feed(frame(b"hello")[:cut]) == []
    assert not reader.is_between_frames


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"\x00\x00\x00\x00", "an empty frame"),
        (b"\x00\x10\x00\x01", f"a frame of {FRAME_BYTES_MAX + 1} bytes, at most {FRAME_BYTES_MAX} are allowed here"),
        (b"\xff\xff\xff\xff", f"a frame of {2**32 - 1} bytes, at most {FRAME_BYTES_MAX} are allowed here"),
        (b"GET ", f"at most {FRAME_BYTES_MAX} are allowed here"),
    ],
)
@pytest.mark.parametrize("cut", range(4))
def test_a_bad_length_is_refused_with_the_bound_as_soon_as_it_is_there(head: bytes, reason: str, cut: int) -> None:
    reader = FrameReader()
    assert reader.feed(frame(b"fine") + head[:cut]) == [b"fine"]
    assert reader.problem is None
    assert reader.feed(head[cut:]) == []
    assert reader.problem is not None and reason in reader.problem


def test_the_good_frames_before_a_bad_one_in_the_same_piece_are_handed_on() -> None:
    reader = FrameReader()
    assert reader.feed(frame(b"one") + frame(b"two")[:5]) == [b"one"]
    assert reader.feed(frame(b"two")[5:] + frame(b"three") + bytes(4) + frame(b"four")) == [b"two", b"three"]
    assert reader.problem == "an empty frame"


def test_a_stream_that_is_out_of_step_stays_refused() -> None:
    reader = FrameReader()
    reader.feed(bytes(4))
    for data in (frame(b"fine"), b""):
        with pytest.raises(BadFrame, match="an empty frame") as refused:
            reader.feed(data)
        assert refused.value.reason == reader.problem


def test_a_frame_of_the_largest_size_is_accepted() -> None:
    body = bytes(FRAME_BYTES_MAX)
    assert FrameReader().feed(frame(body)) == [body]


def test_only_the_first_frame_has_the_smaller_bound() -> None:
    opening, later = bytes(OPENING_BYTES_MAX), bytes(OPENING_BYTES_MAX + 1)
    for piece_bytes in (1000, 10_000):
        reader, stream = FrameReader(opening_bytes_max=OPENING_BYTES_MAX), frame(opening) + frame(later)
        pieces = [stream[at : at + piece_bytes] for at in range(0, len(stream), piece_bytes)]
        assert [body for piece in pieces for body in reader.feed(piece)] == [opening, later]
    reader = FrameReader(opening_bytes_max=OPENING_BYTES_MAX)
    assert reader.feed(frame(later)) == []
    assert reader.problem is not None and f"at most {OPENING_BYTES_MAX} are allowed" in reader.problem


@pytest.mark.parametrize("piece_bytes", [1460, 65536])
def test_a_reader_holds_less_than_twice_the_bound(piece_bytes: int) -> None:
    piece, reader = b"x" * piece_bytes, FrameReader()
    head, rest = FRAME_BYTES_MAX.to_bytes(4), FRAME_BYTES_MAX
    tracemalloc.start()
    try:
        for _ in range(3):
            complete = reader.feed(head)
            while rest > 0:
                complete = reader.feed(piece[:rest])
                rest -= piece_bytes
            assert [len(body) for body in complete] == [FRAME_BYTES_MAX]
            rest = FRAME_BYTES_MAX
            del complete
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 2 * FRAME_BYTES_MAX


def test_an_announced_length_takes_no_memory_by_itself() -> None:
    tracemalloc.start()
    try:
        readers = [FrameReader() for _ in range(100)]
        for reader in readers:
            reader.feed(FRAME_BYTES_MAX.to_bytes(4) + b"x")
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < FRAME_BYTES_MAX / 8
