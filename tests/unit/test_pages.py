"""Pages of history as bytes: what goes in comes out, and nothing comes in that does not add up."""

import struct
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.model.bounds import ATTRIBUTES_BYTES_MAX, INTEGER_MAX
from tidings.pubsub.pages import (
    MANY,
    NO_PAGE,
    ROW_BYTES,
    StoredPage,
    measure_by_numpy,
    measure_plainly,
    page_of,
)

ROWS = st.lists(
    st.tuples(
        st.floats(-1e12, 1e12),
        st.integers(0, INTEGER_MAX),
        st.binary(min_size=1, max_size=20),
        st.binary(max_size=20),
    ),
    max_size=20,
)
TOO_LONG = ATTRIBUTES_BYTES_MAX + 1
Row = tuple[float, int, bytes, bytes]


def made(rows: list[Row]) -> StoredPage:
    times, numbers, heads, payloads = zip(*rows, strict=True) if rows else ((), (), (), ())
    return page_of(times, numbers, heads, payloads)


def rows_of(page: StoredPage) -> list[Row]:
    return list(zip(page.accepted_at, page.numbers, page.heads, page.payloads, strict=True))


@given(ROWS, st.integers(0, 25))
def test_a_page_gives_back_what_it_was_made_of_and_the_first_of_it(rows: list[Row], count: int) -> None:
    page = made(rows)
    assert rows_of(page) == rows and len(page) == len(rows)
    assert rows_of(page.first(count)) == rows[:count]
    assert page.size_bytes == sum(len(head) + len(payload) for _, _, head, payload in rows)
    assert not rows or page.last_number == rows[-1][1]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(page), type=StoredPage) == page


@given(ROWS.filter(bool), st.integers(0, 900))
def test_as_many_fit_as_there_is_room_for_and_one_always_does(rows: list[Row], room: int) -> None:
    page = made(rows)
    count = page.fitting(room)
    first = page.first(count)
    assert count == 1 or first.size_bytes + ROW_BYTES * count <= room
    assert count == len(page) or page.first(count + 1).size_bytes + ROW_BYTES * (count + 1) > room


def test_the_arrays_are_little_endian() -> None:
    page = page_of([2.5], [7], [b"ab"], [b""])
    assert page.raw_times == struct.pack("<d", 2.5) and page.raw_numbers == struct.pack("<q", 7)
    assert page.raw_head_lengths == struct.pack("<I", 2) and page.raw_payload_lengths == struct.pack("<I", 0)
    assert (page.raw_heads, page.raw_payloads) == (b"ab", b"")


def doubles(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


def wholes(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)


def lengths(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


@pytest.mark.parametrize(
    "columns",
    [
        (b"", wholes(1), lengths(1), lengths(0), b"a", b""),
        (doubles(1.0), wholes(1, 2), lengths(1), lengths(0), b"a", b""),
        (doubles(1.0), wholes(1) + b"x", lengths(1), lengths(0), b"a", b""),
        (doubles(1.0), wholes(1), lengths(1, 1), lengths(0), b"ab", b""),
        (doubles(1.0), wholes(1), lengths(1), b"", b"a", b""),
        (doubles(1.0), wholes(1), lengths(2), lengths(0), b"a", b""),
        (doubles(1.0), wholes(1), lengths(1), lengths(0), b"ab", b""),
        (doubles(1.0), wholes(1), lengths(1), lengths(2**32 - 1), b"a", b"b"),
        (doubles(1.0, 1.0), wholes(1, 2), lengths(2, 0), lengths(0, 0), b"ab", b""),
        (
            doubles(1.0),
            wholes(1),
            lengths(ATTRIBUTES_BYTES_MAX + 1),
            lengths(0),
            b"a" * (ATTRIBUTES_BYTES_MAX + 1),
            b"",
        ),
        (doubles(1.0), wholes(-1), lengths(1), lengths(0), b"a", b""),
        (doubles(float("nan")), wholes(1), lengths(1), lengths(0), b"a", b""),
        (doubles(float("inf")), wholes(1), lengths(1), lengths(0), b"a", b""),
    ],
)
def test_what_does_not_add_up_is_refused(columns: tuple[bytes, ...]) -> None:
    with pytest.raises(ValueError):
        StoredPage(*columns)
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(columns), type=StoredPage)


def test_an_empty_page_is_no_page() -> None:
    assert page_of((), (), (), ()) == NO_PAGE and not NO_PAGE


COLUMN = st.integers(1, 4).flatmap(lambda count: st.tuples(*[st.binary(min_size=8 * count, max_size=8 * count)] * 2))


@given(COLUMN, st.data())
def test_numpy_and_plain_python_measure_a_page_alike_whatever_is_in_it(
    wide: tuple[bytes, bytes], data: st.DataObject
) -> None:
    pytest.importorskip("numpy")
    times, numbers = wide
    lengths = st.binary(min_size=len(numbers) // 2, max_size=len(numbers) // 2)
    # Made without its checks, since those are looked at.
    page = SimpleNamespace(
        raw_times=times,
        raw_numbers=numbers,
        raw_head_lengths=data.draw(lengths),
        raw_payload_lengths=data.draw(lengths),
    )
    assert measure_by_numpy(page) == measure_plainly(page)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["times", "numbers", "heads"])
def test_large_pages_are_checked_as_small_ones_are(wrong: str) -> None:
    count = 2 * MANY
    times, numbers, heads = [1.0] * count, list(range(count)), [b"a"] * count
    page_of(times, numbers, heads, heads)
    times[-1], numbers[-1], heads[-1] = (
        float("nan") if wrong == "times" else 1.0,
        -1 if wrong == "numbers" else 1,
        b"" if wrong == "heads" else b"a",
    )
    with pytest.raises(ValueError, match="of a page is"):
        page_of(times, numbers, heads, heads)
