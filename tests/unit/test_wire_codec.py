import math
import struct
from enum import Enum
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from tidings.machine.message import Count, Integer, Message, Name, Real, Text
from tidings.model.bounds import MESSAGE_BYTES_MAX
from tidings.model.errors import UsageError
from tidings.wire.codec import BadMessage, Registry


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Inner(Message, frozen=True):
    x: Integer


class Everything(Message, frozen=True):
    name: Name
    integer: Integer
    real: Real
    truth: bool
    colour: Colour
    word: Literal["up", "down"]
    maybe: Count | None
    inner: Inner
    pair: tuple[Name, Count]
    many: Annotated[tuple[Inner, ...], Meta(max_length=3)]
    data: Annotated[bytes, Meta(max_length=10)]
    note: Text = ""


EVERYTHING = Everything("n", -5, 2.5, True, Colour.BLUE, "up", None, Inner(1), ("p", 2), (Inner(3),), b"\xff", "é")


def registry(*types: type) -> Registry:
    made = Registry()
    for code, type in enumerate(types, 1):
        made.add(code, type)
    return made


def test_a_message_is_its_code_and_its_fields_in_order() -> None:
    assert registry(Inner).encode(Inner(7)) == b"\x00\x01" + b"\x91\x07"


@pytest.mark.spec("P-4")
def test_every_kind_of_field_comes_back_as_it_was() -> None:
    known = registry(Everything)
    assert known.decode(known.encode(EVERYTHING)) == EVERYTHING


@pytest.mark.spec("P-3")
def test_half_a_codec_trips_an_assertion() -> None:
    with pytest.raises(AssertionError, match="Inner: give both encode and decode, or neither"):
        Registry().add(1, Inner, encode=lambda message: b"")
    with pytest.raises(AssertionError, match="Inner: give both encode and decode, or neither"):
        Registry().add(1, Inner, decode=lambda data: Inner(1))


@pytest.mark.spec("P-2")
def test_a_message_has_a_codec_by_default_and_may_bring_its_own() -> None:
    known = Registry()
    known.add(1, Inner)
    known.add(
        2,
        Everything,
        encode=lambda message: message.name.encode(),
        decode=lambda data: msgspec.structs.replace(EVERYTHING, name=bytes(data).decode()),
    )
    assert known.encode(EVERYTHING) == b"\x00\x02n"
    assert known.decode(b"\x00\x02n") == EVERYTHING
    assert known.decode(known.encode(Inner(1))) == Inner(1)


def test_a_codec_of_its_own_cannot_raise_past_the_wire() -> None:
    known = Registry()
    known.add(1, Inner, encode=lambda message: b"", decode=lambda data: bytes(data).decode())
    with pytest.raises(BadMessage, match=r"^Inner: 'utf-8' codec"):
        known.decode(b"\x00\x01\xff")


def test_a_code_is_given_once() -> None:
    known = registry(Inner)
    with pytest.raises(UsageError, match="code 0x0001 belongs to Inner"):
        known.add(1, Everything)
    with pytest.raises(UsageError, match="Inner is registered already"):
        known.add(2, Inner)


@pytest.mark.parametrize("code", [0, -1, 65536])
def test_a_code_fits_two_bytes(code: int) -> None:
    with pytest.raises(UsageError, match="take one from 1 to 65535"):
        Registry().add(code, Inner)


def make(annotation: Any) -> type:
    return msgspec.defstruct("Made", [("field", annotation)], bases=(Message,), frozen=True)


@pytest.mark.parametrize(
    ("annotation", "advice"),
    [
        (dict[str, int], "Made.field: a dict has no single order"),
        (Annotated[dict[str, int], Meta(max_length=3)], "Made.field: a dict has no single order"),
        (list[int], "Made.field: a list can be changed"),
        (set[int], "Made.field: a set has no order"),
        (frozenset[int], "Made.field: a set has no order"),
        (Any, "Made.field: anything may hide in it"),
        (msgspec.Raw, "Made.field: it is not checked"),
        (complex, "Made.field: no such values are sent"),
        (bytearray, "Made.field: no such values are sent"),
        (str, "Made.field: its length has no bound"),
        (bytes, "Made.field: its length has no bound"),
        (tuple[Count, ...], "Made.field: its length has no bound"),
        (Annotated[tuple[str, ...], Meta(max_length=3)], r"Made.field\[...\]: its length has no bound"),
        (tuple[Count, str], r"Made.field\[1\]: its length has no bound"),
        (int, "Made.field: its range has no bounds"),
        (Annotated[int, Meta(ge=0)], "Made.field: its range has no bounds"),
        (Annotated[float, Meta(le=0)], "Made.field: its range has no bounds"),
        (float | None, "Made.field: its range has no bounds"),
    ],
)
def test_a_field_that_is_not_bounded_or_not_ordered_is_refused_by_name(annotation: Any, advice: str) -> None:
    with pytest.raises(UsageError, match=advice):
        Registry().add(1, make(annotation))


def test_a_struct_that_is_no_message_is_refused() -> None:
    plain = msgspec.defstruct("Plain", [("x", Integer)], frozen=True)
    open_to_change = msgspec.defstruct("Open", [("x", Integer)], array_like=True)
    for unfit in (plain, open_to_change, make(plain)):
        with pytest.raises(UsageError, match="derive it from Message"):
            Registry().add(1, unfit)


class Matryoshka(Message, frozen=True):
    within: "Matryoshka | None" = None


def test_a_message_without_a_deepest_level_is_refused() -> None:
    with pytest.raises(UsageError, match=r"Matryoshka\.within: Matryoshka contains itself"):
        Registry().add(1, Matryoshka)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Inner(2**64), "Inner has no bytes: "),
        (msgspec.structs.replace(EVERYTHING, name="\ud800"), "Everything has no bytes: "),
        (msgspec.structs.replace(EVERYTHING, data=bytes(MESSAGE_BYTES_MAX)), "at most 6294 are allowed"),
        ("text", "str has no code"),
    ],
)
def test_a_message_of_ours_that_has_no_bytes_is_our_mistake(message: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        registry(Inner, Everything).encode(message)


def changed(**fields: Any) -> bytes:
    """The bytes of EVERYTHING with some fields replaced by other values, fit or not."""
    values = {**dict(zip(EVERYTHING.__struct_fields__, msgspec.to_builtins(EVERYTHING), strict=True)), "data": b"\xff"}
    return b"\x00\x01" + msgspec.msgpack.encode(list({**values, **fields}.values()))


DEEP = 2000


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("real", math.nan, "Expected `float`"),
        ("real", math.inf, "Expected `float`"),
        ("real", -math.inf, "Expected `float`"),
        ("integer", 2**63, "Expected `int`"),
        ("integer", 2**64 - 1, "Expected `int`"),
        ("integer", 1.0, "Expected `int`"),
        ("integer", True, "Expected `int`"),
        ("integer", "1", "Expected `int`"),
        ("truth", 1, "Expected `bool`"),
        ("maybe", -1, "Expected `int`"),
        ("name", "", "Expected `str`"),
        ("name", "x" * 256, "Expected `str`"),
        ("name", b"n", "Expected `str`"),
        ("data", "text", "Expected `bytes`"),
        ("data", bytes(11), "Expected `bytes`"),
        ("many", [[1]] * 4, "length <= 3"),
        ("many", {}, "Expected `array`"),
        ("pair", ["p"], "length 2"),
        ("inner", [1, 2], "at most length 1"),
        ("word", "left", "Invalid enum value"),
        ("colour", "green", "Invalid enum value"),
    ],
)
def test_a_field_out_of_its_bounds_is_refused_with_its_place(field: str, value: Any, reason: str) -> None:
    with pytest.raises(BadMessage, match=f"^Everything: .*{reason}"):
        registry(Everything).decode(changed(**{field: value}))


VALID = registry(Everything).encode(EVERYTHING)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "0 bytes, too few"),
        (b"\x00", "1 bytes, too few"),
        (b"\x00\x02\x90", "no message type has the code 0x0002"),
        (VALID + b"\x00", "trailing"),
        (VALID[:-1], "truncated"),
        (b"\x00\x01", "truncated"),
        (b"\x00\x01\x90", "at least length"),
        (b"\x00\x01\xc1", "malformed"),
        (b"\x00\x01" + b"\x91" * DEEP, "Everything: "),
        (b"\x00\x01" + b"\x81\xa1a" * DEEP, "Everything: "),
        (b"\x00\x01" + b"\xdd\xff\xff\xff\xff", "Everything: "),
        (b"\x00\x01" + b"\x9c\xdb\xff\xff\xff\xffabc", "truncated"),
        (b"\x00\x01" + b"\x9c\xa1\xff", "utf-8"),
        (b"\x00\x01" + b"\x9c\xa3\xed\xa0\x80", "utf-8"),
        (b"\x00\x01" + b"\x9c\xa1n\x05\xca" + struct.pack(">f", math.nan), "Expected `float`"),
        (b"\x00\x01" + bytes(6293), "Everything of 6295 bytes, at most 6294 are allowed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bytes_that_are_no_message_are_refused_with_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(BadMessage, match=reason) as refused:
        registry(Everything).decode(data)
    assert len(refused.value.reason) < 200
