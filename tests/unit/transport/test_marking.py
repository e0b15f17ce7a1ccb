"""The mark that says a header is there."""

import pytest

from tidings.model.values import Value
from tidings.protocols.transport.marks import (
    DATA_TAIL,
    MARK,
    OF,
    TO,
    Kind,
    head_of,
    mark,
    mark_repair,
    unmark,
    without_publisher,
)
from tidings.pubsub.publications import decode_head, encode_head


@pytest.mark.spec("T-16")
@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("count", [0, 1, 14, 15, 16, 17, 100])
def test_unmarking_gives_back_the_same_bytes(count: int, kind: Kind) -> None:
    head = encode_head({f"attribute{number:03}": number for number in range(count)})
    marked = mark(head, kind)
    assert decode_head(marked) == {**decode_head(head), MARK: kind.value}
    assert unmark(marked) == (head, kind)


@pytest.mark.parametrize("count", [0, 1, 13, 14, 15, 16, 126, 127])
def test_a_repair_says_whose_event_it_was_where_there_is_room_and_gives_back_the_same_bytes(count: int) -> None:
    head = encode_head({f"attribute{number:03}": number for number in range(count)})
    marked = mark_repair(head, 2**31)
    of_whom = {OF: 2**31} if count <= 126 else {}
    assert decode_head(marked) == {**decode_head(head), **of_whom, MARK: "repair"}
    bare, kind = unmark(marked)
    assert (without_publisher(bare, 2**31), kind) == (head, Kind.REPAIR)


@pytest.mark.spec("T-17")
@pytest.mark.parametrize("value", ["data", "repair", MARK, f"±{MARK}", "x" * 300, 5, True, 0.5])
def test_what_is_not_marked_stays_as_it_is(value: Value) -> None:
    head = encode_head({"a": value, "tidings": value})
    assert unmark(head) == (head, None)


def test_a_mark_that_is_not_the_last_attribute_or_says_nothing_known_is_none() -> None:
    for head in (encode_head({MARK: "data", "zone": 1}), encode_head({MARK: "other"}), encode_head({MARK: 5})):
        assert unmark(head) == (head, None)


@pytest.mark.spec("T-22")
@pytest.mark.parametrize(
    "head", [b"", DATA_TAIL, b"\x80" + DATA_TAIL, b"\xde" + DATA_TAIL, b"\xde\0\0" + DATA_TAIL, b"\xdf" + DATA_TAIL]
)
def test_a_mark_behind_what_is_no_map_does_not_raise(head: bytes) -> None:
    unmark(head)


def test_messages_of_the_transport_are_addressed_by_content() -> None:
    head, kind = unmark(head_of({TO: 9}, Kind.FEEDBACK))
    assert (decode_head(head), kind) == ({TO: 9}, Kind.FEEDBACK)
