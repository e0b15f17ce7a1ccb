from typing import Any

import pytest
from msgspec.structs import replace

from tidings.model.bounds import CAPABILITIES_MAX, CAPABILITY_CHARS_MAX, FRAME_BYTES_MAX, OPENING_BYTES_MAX
from tidings.model.errors import UsageError
from tidings.wire import decode, encode
from tidings.wire.codec import BadMessage
from tidings.wire.handshake import Agreement, Goodbye, HandshakeRefusal, Hello, agree, goodbye, hello


def test_both_ends_agree_on_the_same() -> None:
    a = replace(hello("a", 3, ["batch", "history", "tls"], epoch=7), version_max=5, frame_bytes_max=20_000)
    b = replace(hello("b", 0, ["tls", "batch", "zstd"], epoch=2), version_min=0, version_max=4)
    assert agree(a, b) == Agreement("b", 0, version=4, capabilities=("batch", "tls"), epoch=7, frame_bytes_max=20_000)
    assert agree(b, a) == replace(agree(a, b), peer="a", incarnation=3)


@pytest.mark.parametrize(
    ("theirs", "reason"),
    [
        (hello("a"), "both ends are called 'a': a node connected to itself, or two nodes share a name"),
        (
            Hello("b", version_min=3, version_max=4),
            "b is too new: it speaks versions 3 to 4, we speak version 2; update this node",
        ),
        (
            Hello("b", version_min=0, version_max=1),
            "b is too old: it speaks versions 0 to 1, we speak version 2; update that node",
        ),
        (Hello("b", version_min=2, version_max=1), "b speaks no version: it says from 2 to 1"),
        (
            Hello("b", version_max=2, capabilities=("z", "a")),
            "b names its capabilities out of order or twice",
        ),
        (
            Hello("b", version_max=2, capabilities=("a", "a")),
            "b names its capabilities out of order or twice",
        ),
        (
            Hello("b", version_max=2, frame_bytes_max=10),
            f"b reads frames of 10 bytes; at least {OPENING_BYTES_MAX} are needed",
        ),
    ],
)
def test_a_refusal_says_why(theirs: Hello, reason: str) -> None:
    mine = Hello("a", version_min=2, version_max=2)
    assert agree(mine, theirs) == HandshakeRefusal(reason)


def test_when_one_end_refuses_for_the_version_so_does_the_other() -> None:
    old, new = Hello("a", version_min=1, version_max=1), Hello("b", version_min=2, version_max=3)
    assert agree(old, new) == HandshakeRefusal(
        "b is too new: it speaks versions 2 to 3, we speak version 1; update this node"
    )
    assert agree(new, old) == HandshakeRefusal(
        "a is too old: it speaks version 1, we speak versions 2 to 3; update that node"
    )


def test_an_end_that_forgot_everything_still_gets_a_later_epoch() -> None:
    remembers, forgot = hello("a", epoch=12), hello("b")
    for agreement in (agree(remembers, forgot), agree(forgot, remembers)):
        assert isinstance(agreement, Agreement)
        assert agreement.epoch == 12


@pytest.mark.parametrize(
    "unfit",
    [
        {"node": ""},
        {"node": "x" * 256},
        {"node": "a", "capabilities": ["Not Lower"]},
        {"node": "a", "capabilities": [f"c{number}" for number in range(CAPABILITIES_MAX + 1)]},
        {"node": "a", "incarnation": -1},
        {"node": "a", "epoch": 2**63},
    ],
)
def test_a_hello_that_nobody_would_accept_is_not_made(unfit: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"^hello: "):
        hello(**unfit)


def test_capabilities_are_sorted_and_named_once() -> None:
    assert hello("a", capabilities=["b", "a", "b"]).capabilities == ("a", "b")


def test_the_longest_hello_fits_the_first_frame() -> None:
    names = [f"{number:02}".ljust(CAPABILITY_CHARS_MAX, "x") for number in range(CAPABILITIES_MAX)]
    longest = replace(hello("\U0001f600" * 255, 2**63 - 1, names, 2**63 - 1), version_min=2**62, version_max=2**62)
    data = encode(longest)
    assert len(data) <= OPENING_BYTES_MAX < FRAME_BYTES_MAX
    assert decode(data) == longest


def test_what_a_later_version_adds_to_its_hello_is_skipped() -> None:
    data = encode(hello("a"))
    fields = len(Hello.__struct_fields__)
    assert data[2] == 0x90 + fields
    longer = data[:2] + bytes([0x90 + fields + 2]) + data[3:] + b"\x93\x01\x02\x03" + b"\x81\xa1k\xc0"
    assert decode(longer) == hello("a")


@pytest.mark.parametrize("depth", [10, 900, 1100, 4000, 10**5])
def test_what_is_added_to_a_hello_may_be_too_deep_to_skip(depth: int) -> None:
    data = encode(hello("a"))
    longer = data[:2] + bytes([data[2] + 1]) + data[3:] + b"\x91" * depth + b"\x01"
    # How deep Python lets us go depends on its version; either way nothing else is raised.
    try:
        assert decode(longer) == hello("a")
    except BadMessage as refused:
        assert depth > 10
        assert refused.reason


def test_what_is_added_to_other_messages_is_refused() -> None:
    with pytest.raises(BadMessage, match="Goodbye: Expected `array` of at most length 1"):
        decode(encode(Goodbye("x"))[:2] + b"\x92\xa1x\x01")


def test_a_long_reason_is_cut_to_fit() -> None:
    farewell = goodbye("because " * 1000)
    assert decode(encode(farewell)) == farewell
