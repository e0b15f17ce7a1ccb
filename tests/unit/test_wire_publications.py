import math
import struct
from typing import Any

import msgspec
import pytest

from tidings.machine.publications import (
    ATTRIBUTES_BYTES_MAX,
    BATCH_BYTES_MAX,
    PUBLICATION_BYTES_MAX,
    PUBLICATIONS_MAX,
    BadPublication,
    PublicationBatch,
    batches,
    decode_event,
    encode_event,
)
from tidings.model.bounds import ATTRIBUTES_MAX, INTEGER_MAX, INTEGER_MIN
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.values import Value
from tidings.wire import FRAME_BYTES_MAX, BadMessage, decode, encode

EVENT = Event({"id": "7", "source": "/a", "price": 5, "share": 5.0, "urgent": True, "name": "é"}, b"\x00\xff")


def test_an_event_keeps_the_types_of_its_values() -> None:
    back = decode_event(encode_event(EVENT))
    assert back == EVENT
    assert [type(back.attributes[name]) for name in ("price", "share", "urgent", "name")] == [int, float, bool, str]


@pytest.mark.parametrize("value", [INTEGER_MIN, INTEGER_MAX, -0.0, 5e-324, 1.7976931348623157e308, "", False])
def test_values_at_the_bounds_come_back_as_they_were(value: Any) -> None:
    back = decode_event(encode_event(Event({"x": value}))).attributes["x"]
    assert (back, type(back), str(back)) == (value, type(value), str(value))


def test_the_order_of_the_attributes_does_not_show_in_the_bytes() -> None:
    reversed_event = Event(dict(reversed(EVENT.attributes.items())), EVENT.payload)
    assert encode_event(reversed_event) == encode_event(EVENT)


def test_the_encoded_form_is_fixed() -> None:
    assert (
        encode_event(Event({"b": 1, "a": 2.0}, b"p"))
        == b"\x92\xc4\x01p\x82\xa1a\xcb" + struct.pack(">d", 2.0) + b"\xa1b\x01"
    )


def packed(*items: Any) -> bytes:
    return msgspec.msgpack.encode(items)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "cut short"),
        (b"\x92", "cut short"),
        (b"\x92\xc4\x00", "cut short"),
        (b"\x92\xc6\xff\xff\xff\xff", "cut short"),
        (b"\x92\xc4\x00\x81", "truncated"),
        (b"\xdc\x00\x02\xc4\x00\x80", "does not begin as an array of two with a payload"),
        (packed("text", {}), "does not begin as an array of two with a payload"),
        (packed(b"", [1]), "its attributes are no map"),
        (b"\x92\xc4\x00\x82\xa1a\x01\xa1a\x02", "an attribute occurs twice"),
        (b"\x92\xc5\x00\x00\xde\x00\x02\xa1a\x01\xa1a\x02", "an attribute occurs twice"),
        (b"\x92\xc6\x00\x00\x00\x00\xdf\x00\x00\x00\x02\xa1a\x01\xa1a\x02", "an attribute occurs twice"),
        (packed(b"", {"a": math.nan}), "attribute 'a': nan is not a finite number"),
        (packed(b"", {"a": -math.inf}), "attribute 'a': -inf is not a finite number"),
        (packed(b"", {"a": 2**63}), "attribute 'a': integer beyond 64 bit"),
        (packed(b"", {"a b": 1}), "attribute name 'a b'"),
        (packed(b"", {"time": "yesterday"}), "no RFC 3339 time"),
        (packed(b"", {"a": None}), "Expected"),
        (packed(b"", {"a": [1]}), "Expected"),
        (packed(b"", {"a": b"x"}), "Expected"),
        (packed(b"", {1: 1}), "Expected `str`"),
        (packed(b"", {f"a{number}": 1 for number in range(ATTRIBUTES_MAX + 1)}), "length <= 128"),
        (packed(b"", {}) + b"\x00", "trailing"),
        (b"\x92\xc4\x00\x81\xa1\xff\x01", "utf-8"),
        (b"\x92\xc4\x00\x81\xa1a\xa1\xff", "utf-8"),
        (b"\x92\xc4\x00\x81\xa1a" + b"\x91" * 10**5, "Expected"),
        (b"\x92\xc4\x00\x81\xa1a\xd6\xff\x00\x00\x00\x01", "Expected"),
        (b"\x92\xc4\x00\xdf\xff\xff\xff\xff", "length <= 128"),
        (b"\x92\xc4\x00\x81\xa1a\xdb\xff\xff\xff\xff", "truncated"),
        (packed(b"", {"a": "x" * ATTRIBUTES_BYTES_MAX}), f"at most {ATTRIBUTES_BYTES_MAX} are allowed"),
        (packed(bytes(PUBLICATION_BYTES_MAX), {}), f"at most {PUBLICATION_BYTES_MAX} are allowed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bytes_that_are_no_event_are_refused_with_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(BadPublication, match=reason):
        decode_event(data)
    with pytest.raises(BadMessage, match=f"Repair: .*{reason}"):
        decode(b"\x0f\x12" + data)


def test_lengths_may_be_announced_the_long_way() -> None:
    assert decode_event(b"\x92\xc6\x00\x00\x00\x01p\xdf\x00\x00\x00\x01\xa1a\x01") == Event({"a": 1}, b"p")
    assert decode_event(b"\x92\xc5\x00\x01p\xde\x00\x01\xa1a\x01") == Event({"a": 1}, b"p")


def test_an_event_too_large_for_a_frame_is_not_published() -> None:
    most = Event({}, bytes(PUBLICATION_BYTES_MAX - 7))
    assert len(encode_event(most)) == PUBLICATION_BYTES_MAX
    with pytest.raises(UsageError, match=f"at most {PUBLICATION_BYTES_MAX} can be published"):
        encode_event(Event({}, bytes(PUBLICATION_BYTES_MAX - 6)))


def test_attributes_too_large_to_unpack_at_every_hop_are_not_published() -> None:
    values: dict[str, Value] = {f"a{number}": "x" * 60_000 for number in range(5)}
    with pytest.raises(UsageError, match=f"at most {ATTRIBUTES_BYTES_MAX} can be published; put what is large"):
        encode_event(Event(values))
    del values["a0"]
    assert decode_event(encode_event(Event(values))) == Event(values)


def test_a_batch_carries_the_bytes_that_came_in() -> None:
    slices = [encode_event(Event({"n": number})) for number in range(5)]
    (batch,) = batches(slices)
    arrived = decode(encode(batch))
    assert arrived == batch == PublicationBatch(tuple(slices))
    forwarded = encode(PublicationBatch(arrived.publications[1:3]))
    assert slices[1] + b"\xc4" + bytes([len(slices[2])]) + slices[2] in forwarded
    assert [decode_event(raw).attributes["n"] for raw in decode(forwarded).publications] == [1, 2]


def test_publications_that_nobody_decodes_need_not_be_events() -> None:
    (batch,) = batches([b"no event", encode_event(EVENT)])
    first, second = decode(encode(batch)).publications
    assert decode_event(second) == EVENT
    with pytest.raises(BadPublication):
        decode_event(first)


def test_as_many_batches_are_made_as_the_bounds_need() -> None:
    largest, small = bytes(PUBLICATION_BYTES_MAX), b"x"
    made = batches([small, largest, small, *[small] * PUBLICATIONS_MAX])
    assert [len(batch.publications) for batch in made] == [1, 1, PUBLICATIONS_MAX, 1]
    for batch in made:
        data = encode(batch)
        assert len(data) <= FRAME_BYTES_MAX
        assert decode(data) == batch
    assert batches([]) == []


def test_every_batch_within_the_bounds_fits_a_frame() -> None:
    head = encode(PublicationBatch((b"x",) * PUBLICATIONS_MAX))
    assert len(head) - 3 * PUBLICATIONS_MAX + BATCH_BYTES_MAX <= FRAME_BYTES_MAX


@pytest.mark.parametrize(
    ("publications", "reason"),
    [([b"x"] * (PUBLICATIONS_MAX + 1), "length <= 4096"), ([b""], "length >= 1"), (["text"], "Expected `bytes`")],
)
def test_a_batch_out_of_bounds_is_refused(publications: list[Any], reason: str) -> None:
    with pytest.raises(BadMessage, match=f"PublicationBatch: .*{reason}"):
        decode(b"\x01\x00" + msgspec.msgpack.encode([publications]))
