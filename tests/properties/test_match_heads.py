"""Matching encoded events answers as decoding them and matching the events does, whatever bytes come.

Filters come and go between the batches, all sizes of the index are tiny or usual, and values sit on and around each
other as in `test_index.py`. Heads are well formed ones, ones that another encoder would make (long forms of short
things, names in any order), and bytes that somebody has tampered with.
"""

import struct
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.conftest import EXAMPLES
from tests.ordering import in_order
from tests.properties.test_index import NAMES, NUMBERS, STRINGS, TINY, filters, keys, links
from tidings.matching import Index
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.values import Value
from tidings.pubsub.publications import decode_head, encode_head, read_head

TEXTS = (*STRINGS, "grün", "日本", "a" * 300, "\U0001f600", "TRUE", "+5", ".5", "-0", "1e400")
MORE_NAMES = (*NAMES, "id", "source", "time", "type", "longer_than_eight_bytes", "Z", "7x", "x.y")
TIMES = ("2026-11-15T20:45:00Z", "2026-11-15T20:45:00.125Z", "2026-02-30T20:45:00Z", "2026-11-31t23:59:60+01:00", "now")

VALUES: tuple[Value, ...] = (*NUMBERS, *TEXTS, True, False, -0.0, -(2**63), 2**63 - 1, 1e300, 5.0)


def some_value(rng: Random) -> Value:
    kind = rng.randrange(8)
    if kind == 0:
        return rng.randint(-(2**63), 2**63 - 1) >> rng.randrange(64)
    if kind == 1:
        return rng.uniform(-10.0, 10.0)
    if kind == 2:
        return "".join(rng.choice("abc159+-.eétT\U0001f600") for _ in range(rng.randrange(12)))
    return rng.choice(VALUES)


def some_attributes(rng: Random) -> dict[str, Value]:
    names = rng.choice((NAMES, NAMES, MORE_NAMES))
    attributes = {name: some_value(rng) for name in names if rng.random() < 0.6}
    if "time" in attributes and rng.random() < 0.8:
        attributes["time"] = rng.choice(TIMES)
    return attributes


def long_form(value: Value, choice: int) -> bytes:
    """A value as an encoder that does not look for short forms may write it."""
    if type(value) is str:
        data = value.encode()
        if choice == 0 and len(data) < 256:
            return b"\xd9" + bytes([len(data)]) + data
        size = b"\xda" + struct.pack(">H", len(data)) if choice < 3 else b"\xdb" + struct.pack(">I", len(data))
        return size + data
    if type(value) is int:
        return b"\xd3" + struct.pack(">q", value) if value < 0 or choice else b"\xcf" + struct.pack(">Q", value)
    if type(value) is float and abs(value) < 1024.0 and choice == 0:
        return b"\xca" + struct.pack(">f", value)
    return msgspec.msgpack.encode(value)


def written_otherwise(rng: Random) -> bytes:
    """Names in any order, perhaps twice, and long forms."""
    choice = rng.randrange(5)
    pairs = [(rng.choice(MORE_NAMES), some_value(rng)) for _ in range(rng.randrange(5))]
    body = b"".join(long_form(name, choice) + long_form(value, choice) for name, value in pairs)
    opening = b"\xde" + struct.pack(">H", len(pairs)) if choice % 2 else bytes([0x80 | len(pairs)])
    return opening + body


def tampered(rng: Random) -> bytes:
    """An honest head with a few bytes changed, taken out, put in or cut off."""
    data = bytearray(encode_head(some_attributes(rng)))
    for _ in range(rng.randint(1, 3)):
        place, how = rng.randrange(len(data) + 1), rng.randrange(8)
        if how < 4:
            data[place : place + 1] = bytes([rng.randrange(256)])
        elif how == 4:
            del data[place : place + 1]
        elif how == 5:
            data.insert(place, rng.randrange(256))
        elif how == 6:
            data[place : place + 1] = rng.choice(
                (b"\xc0", b"\xcb", b"\xd3", b"\xcf", b"\xa1", b"\xed\xa0\x80", b"\xc0\x80")
            )
        else:
            del data[place:]
    return bytes(data)


def some_head(rng: Random) -> bytes:
    kind = rng.randrange(10)
    if kind < 6:
        return encode_head(some_attributes(rng))
    if kind < 8:
        return tampered(rng)
    return written_otherwise(rng) if kind == 8 else rng.randbytes(rng.randrange(40))


def batch_of(seed: int) -> list[bytes]:
    rng = Random(seed)
    return [some_head(rng) for _ in range(rng.choice((0, 1, 5, 40)))]


batches = st.integers(0, 2**32).map(batch_of)


def event_or_none(head: bytes) -> Event | None:
    try:
        return Event(decode_head(head))
    except ValueError:
        return None


class HeadsAgainstEvents(RuleBasedStateMachine):
    @initialize(size=st.sampled_from(sorted(TINY)))
    def build(self, size: str) -> None:
        self.plain = Index("plain", TINY[size], read_head)
        self.fast = Index("fast", TINY[size], read_head)

    @rule(entries=st.lists(st.tuples(keys, filters, links), max_size=5))
    def add(self, entries: list[tuple[int | str, Filter, str | None]]) -> None:
        self.plain.add_many(entries)
        self.fast.add_many(entries)

    @rule(keys=st.lists(keys, max_size=8))
    def discard(self, keys: list[int | str]) -> None:
        for key in keys:
            assert self.plain.discard(key) == self.fast.discard(key)

    @rule(batch=batches)
    def match_heads(self, batch: list[bytes]) -> None:
        events = [event_or_none(head) for head in batch]
        expected = [None if event is None else in_order(self.plain.match(event)) for event in events]
        for index in (self.plain, self.fast):
            found = index.match_heads(batch)
            assert [None if keys is None else in_order(keys) for keys in found] == expected

    @rule(batch=batches)
    def match_heads_links(self, batch: list[bytes]) -> None:
        events = [event_or_none(head) for head in batch]
        expected = [None if event is None else tuple(self.plain.match_links([event])[0]) for event in events]
        assert self.plain.match_heads_links(batch) == expected
        assert self.fast.match_heads_links(batch) == expected


class TestHeadsAgainstEvents(HeadsAgainstEvents.TestCase):  # type: ignore[misc, valid-type]
    settings = settings(stateful_step_count=25, max_examples=max(25, EXAMPLES // 25))
    pytestmark = pytest.mark.timeout(0)


@given(batch=batches)
def test_the_scan_takes_no_head_that_is_not_valid(batch: list[bytes]) -> None:
    index = Index("fast", decode=read_head)
    valid = [event_or_none(head) is not None for head in batch]
    assert [found is not None for found in index.match_heads(batch)] == valid
    assert [found is not None for found in index.match_heads_links(batch)] == valid
