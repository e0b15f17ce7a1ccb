"""The compiled reading of heads and its plain twin give the same columns, whatever the bytes are."""

import random
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pyarrow
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from tidings.model.bounds import ATTRIBUTES_MAX
from tidings.model.event import CONTEXT_NAMES
from tidings.model.values import Value
from tidings.pubsub.pages import StoredPage, page_of
from tidings.pubsub.publications import encode_head, encoder
from tidings.spark.live.decoder import Decoder, make_kernel_ready
from tidings.spark.live.readings import PlainReader
from tidings.spark.live.scan import PageScan

WANTED: dict[str, type] = {
    "text": str,
    "whole": int,
    "real": float,
    "truth": bool,
    "time": datetime,
    "type": str,
    "a_rather_long_name.of_an_attribute": str,
}
NAMES = [*WANTED, *CONTEXT_NAMES, "other", "texts", "tex", "a_rather_long_name.of_another_one", "4th", "Z"]

whole_numbers = st.integers(-(2**63), 2**63 - 1) | st.sampled_from(
    [sign * 2**bits + step for bits in (0, 5, 7, 8, 15, 16, 31, 32, 53, 62) for sign in (1, -1) for step in (-1, 0, 1)]
)
times = st.datetimes().map(lambda it: f"{it.isoformat()}Z") | st.sampled_from(
    [
        "2024-02-29T12:00:00Z",
        "2000-02-29T12:00:00.5+14:00",
        "1969-12-31T23:59:59.999999999-23:59",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59.1-23:59",
        "2026-12-31T23:59:60Z",
        "2026-11-15t20:45:00z",
        "0000-01-01T00:00:00Z",
    ]
)
values = (
    st.booleans()
    | whole_numbers
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.floats(width=32, allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "IBM", "5", "2.5", "true", "1e3", "x" * 300])
    | st.text(max_size=20)
)
attributes = st.dictionaries(st.sampled_from([name for name in NAMES if name not in CONTEXT_NAMES]), values).flatmap(
    lambda plain: st.fixed_dictionaries(
        {},
        optional={name: times if name == "time" else st.text(min_size=1, max_size=9) for name in CONTEXT_NAMES},
    ).map(lambda context: {**plain, **context})
)


def page_with(heads: Sequence[bytes]) -> StoredPage:
    return page_of([0.0] * len(heads), range(len(heads)), heads, [b""] * len(heads))


def plainly(array: pyarrow.Array) -> str:
    """As text, since 0.0 and -0.0 are equal; instants as numbers, since some are before the first year of Python."""
    return repr((array.view("int64") if pyarrow.types.is_timestamp(array.type) else array).to_pylist())


def check_alike(heads: Sequence[bytes]) -> None:
    plain, asked = PlainReader(WANTED, fails_on_type=False), PlainReader(WANTED, fails_on_type=False)
    expected, found = plain.read(heads), PageScan(WANTED).read(page_with(heads), asked)
    for name in WANTED:
        found[name].validate(full=True)
        assert plainly(found[name]) == plainly(expected[name]), name
        assert found[name].type == expected[name].type
    assert asked.misread == plain.misread


@given(st.lists(attributes, min_size=1, max_size=12))
def test_events_of_any_kind_are_read_alike(events: list[dict[str, Value]]) -> None:
    check_alike([encode_head(event) for event in events])


@pytest.mark.parametrize("mark", range(256))
def test_every_mark_of_messagepack_is_read_alike(mark: int) -> None:
    """Each as the value of every kind of column, with enough bytes behind it and with too few."""
    heads = []
    for name in NAMES:
        for length in (0, 1, 2, 4, 8, 9, 40):
            for rest in (bytes(length), b"\x01" * length, b"\xff" * length, b"a" * length):
                heads.append(b"\x81" + encoder.encode(name) + bytes([mark]) + rest)
        heads += [bytes([mark]) + encoder.encode(name) + b"\x01", b"\x81" + bytes([mark]) + b"a" * 40]
    check_alike(heads)


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=12))
def test_bytes_of_any_kind_are_read_alike(heads: list[bytes]) -> None:
    check_alike(heads)


@given(attributes, st.data())
@settings(max_examples=300)
def test_heads_with_bytes_changed_taken_or_added_are_read_alike(event: dict[str, Value], data: st.DataObject) -> None:
    good = encode_head(event)
    at = data.draw(st.integers(0, len(good) - 1))
    middle = data.draw(st.binary(max_size=3))
    until = data.draw(st.integers(at, min(len(good), at + 3)))
    check_alike([good, (good[:at] + middle + good[until:]) or b"\x80", good])


def test_many_damaged_heads_in_one_page_are_read_alike() -> None:
    rng = random.Random(4711)
    event: dict[str, Value] = {"text": "grün", "whole": 2**40, "real": 0.1, "time": "2026-11-15T20:45:00.25Z", "Z": 1}
    heads = []
    for _ in range(4000):
        head = bytearray(encode_head({**event, "truth": rng.random() < 0.5, "real": rng.random()}))
        for _ in range(rng.choice([0, 0, 1, 3])):
            head[rng.randrange(len(head))] = rng.randrange(256)
        heads.append(bytes(head[: rng.choice([len(head), len(head), rng.randrange(1, len(head) + 1)])]))
    check_alike(heads)


def map_of(*pairs: tuple[str, Any]) -> bytes:
    return bytes([0x80 + len(pairs)]) + b"".join(encoder.encode(name) + encoder.encode(value) for name, value in pairs)


@pytest.mark.parametrize(
    "head",
    [
        map_of(("text", "a"), ("text", "b")),
        map_of(("other", 1), ("other", 2)),
        map_of(("whole", 1), ("text", "a")),
        map_of(("text", "a"), ("whole", float("nan"))),
        map_of(("other", float("inf"))),
        map_of(("type", "")),
        map_of(("subject", 5)),
        map_of(("time", "2026-02-29T00:00:00Z")),
        map_of(("time", "2026-02-28T24:00:00Z"), ("whole", 1)),
        map_of(("a b", 1)),
        map_of(("other", 2**64 - 1)),
        map_of(("other", None)),
        map_of(("other", [1])),
        map_of(("other", b"x")),
        map_of(("text", "a")) + b"\x00",
        b"\xde\x00\x01" + map_of(("text", "a"))[1:],
        b"\xdf\x00\x00\x00\x01" + map_of(("text", "a"))[1:],
        encoder.encode({f"n{number:03}": number for number in range(ATTRIBUTES_MAX)}),
        encoder.encode({f"n{number:03}": number for number in range(ATTRIBUTES_MAX + 1)}),
        map_of(("a" * 128, 1)),
        map_of(("a" * 129, 1)),
        b"\x81\xa5other\xa2\xc3\x28",
        b"\x81\xa4text\xa3\xed\xa0\x80",
    ],
)
def test_what_an_event_may_not_be_is_left_to_the_plain_reading(head: bytes) -> None:
    check_alike([map_of(("text", "before"), ("whole", 1)), head, map_of(("text", "behind"), ("whole", 2))])


@given(times)
@example("2026-11-15T20:45:00Z")
def test_times_are_read_alike(text: str) -> None:
    check_alike([encode_head({"time": text})])


def test_what_is_usual_is_not_left_to_the_plain_reading() -> None:
    """Otherwise everything above would hold of a scan that reads nothing."""
    asked = PlainReader(WANTED, fails_on_type=False)
    asked.read = lambda heads: pytest.fail(f"{len(heads)} heads were left")  # type: ignore[method-assign]
    event: dict[str, Value] = {"text": "grün", "whole": 2**60, "real": 3, "time": "2026-01-31T20:45:00.25+01:00"}
    more: dict[str, Value] = {"truth": True, "type": "quote", "other": "x" * 300, "tex": 2.5, "whole": 7.0}
    found = PageScan(WANTED).read(page_with([encode_head(event), encode_head(more), b"\x80"]), asked)
    assert found["text"].to_pylist() == ["grün", None, None]
    assert found["whole"].to_pylist() == [2**60, 7, None]
    assert found["real"].to_pylist() == [3.0, None, None]
    assert found["truth"].to_pylist() == [None, True, None]
    assert [it and it.isoformat() for it in found["time"].to_pylist()] == [
        "2026-01-31T19:45:00.250000+00:00",
        None,
        None,
    ]


def test_a_decoder_changes_to_the_compiled_reading_when_that_is_ready() -> None:
    wanted = StructType().add("text", "string").add("whole", "long")
    page = page_with([map_of(("text", "a"), ("whole", 1))])
    soon = Decoder(wanted, engine="soon")
    before = soon.batch("desk", page)
    make_kernel_ready()
    assert soon.batch("desk", page).equals(before)
    assert soon.scan is not None
    assert Decoder(wanted, engine="plain").batch("desk", page).equals(before)
