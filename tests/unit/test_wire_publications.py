import math
import struct
from typing import Any

import msgspec
import pytest

from tidings.model.bounds import (
    ATTRIBUTES_BYTES_MAX,
    ATTRIBUTES_MAX,
    BATCH_BYTES_MAX,
    INTEGER_MAX,
    INTEGER_MIN,
    PUBLICATION_BYTES_MAX,
    PUBLICATIONS_MAX,
)
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.values import Value
from tidings.pubsub.publications import (
    BadPublication,
    Publications,
    cut,
    decode_event,
    decode_head,
    encode_event,
    encode_head,
    event_of,
    pick,
    pieces,
)
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


def batch_of(*events: Event) -> Publications:
    heads = tuple(encode_head(event.attributes) for event in events)
    return Publications("p", "p/1", 0.0, 0, tuple(range(len(events))), heads, tuple(event.payload for event in events))


def test_a_batch_carries_the_bytes_that_came_in() -> None:
    batch = batch_of(*[Event({"n": number}, b"payload") for number in range(5)])
    arrived = decode(encode(batch))
    assert arrived == batch
    picked = Publications("p", "p/1", 0.0, 0, arrived.numbers[1:3], arrived.heads[1:3], arrived.payloads[1:3])
    forwarded = encode(picked)
    assert batch.heads[1] + b"\xc4" + bytes([len(batch.heads[2])]) + batch.heads[2] in forwarded
    assert [decode_head(head)["n"] for head in decode(forwarded).heads] == [1, 2]


def test_a_head_alone_is_as_strict_as_an_event() -> None:
    assert event_of(encode_head(EVENT.attributes), EVENT.payload) == EVENT
    for head in (b"", b"no map", b"\x82\xa1a\x01\xa1a\x02", b"\x81\xa1a\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00", b"\x81"):
        with pytest.raises(BadPublication):
            decode_head(head)
    with pytest.raises(BadPublication, match="at most"):
        decode_head(bytes(ATTRIBUTES_BYTES_MAX + 1))
    with pytest.raises(UsageError, match="put what is large into the payload"):
        encode_head({f"a{number}": "x" * 60_000 for number in range(5)})


def test_heads_that_nobody_decodes_need_not_be_events() -> None:
    batch = Publications("p", "p/1", 0.0, 0, (1,), (b"no map",), (b"",))
    assert decode(encode(batch)) == batch


def test_a_batch_is_picked_and_cut_under_the_receipt_that_is_said() -> None:
    batch = Publications("p", "p/1", 1.0, 5, (1, 2, 4), (b"a", b"b", b"c"), (b"", b"x", b"y"))
    assert pick(batch, (0, 2), receipt=5) == Publications("p", "p/1", 1.0, 5, (1, 4), (b"a", b"c"), (b"", b"y"))
    assert pick(batch, (1,), receipt=0) == Publications("p", "p/1", 1.0, 0, (2,), (b"b",), (b"x",))
    assert cut(batch, slice(1, None), receipt=0) == pick(batch, (1, 2), receipt=0)
    assert pick(batch, (0, 1, 2), receipt=5) is batch
    assert pick(batch, (0, 1, 2), receipt=0) == cut(batch, slice(None), receipt=0) != batch


def test_as_many_pieces_are_made_as_the_bounds_need() -> None:
    made = pieces([1, PUBLICATION_BYTES_MAX, 1, *[1] * PUBLICATIONS_MAX])
    assert [piece.stop - piece.start for piece in made] == [1, 1, PUBLICATIONS_MAX, 1]
    assert pieces([]) == []


def test_every_batch_within_the_bounds_fits_a_frame() -> None:
    numbers = tuple(range(2**62, 2**62 + PUBLICATIONS_MAX))
    small = Publications(
        "p" * 255, "a" * 255, 1e9, 2**62, numbers, (b"x",) * PUBLICATIONS_MAX, (b"",) * PUBLICATIONS_MAX
    )
    pieces_bytes = (1 + 2 + 2) * PUBLICATIONS_MAX
    assert len(encode(small)) - pieces_bytes + BATCH_BYTES_MAX <= FRAME_BYTES_MAX


@pytest.mark.parametrize(
    ("heads", "payloads", "reason"),
    [
        ([b"x"] * (PUBLICATIONS_MAX + 1), [], "length <= 4096"),
        ([b""], [b""], "length >= 1"),
        (["text"], [b""], "Expected `bytes`"),
        ([b"x"], [], "as many numbers, heads and payloads"),
    ],
)
def test_a_batch_out_of_bounds_is_refused(heads: list[Any], payloads: list[bytes], reason: str) -> None:
    with pytest.raises(BadMessage, match=f"Publications: .*{reason}"):
        decode(b"\x01\x01" + msgspec.msgpack.encode(["p", "p/1", 0.0, 0, [1], heads, payloads]))
