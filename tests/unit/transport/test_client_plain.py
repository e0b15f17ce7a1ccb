"""A client without a transport takes off what transports of publishers wrote; and what `connect` makes of its words."""

from random import SystemRandom
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.transport_client import Other
from tidings import connect
from tidings.model.errors import UsageError
from tidings.net.client.connection import Connecting
from tidings.net.client.items import without_transport
from tidings.net.client.outbound import HeadCache
from tidings.net.client.subscription import changed_modes
from tidings.net.client.transport import changed_params, make_params
from tidings.nodes.client import ClientNode
from tidings.nodes.transport_client import TransportClient
from tidings.protocols.access.params import GuestParams
from tidings.protocols.transport.carrier import Modes
from tidings.protocols.transport.headers import DATA_FIRST, BadHeader, decode_data
from tidings.protocols.transport.marks import OF, TO, Kind, body_of, has_marks, head_of, mark, take_off
from tidings.protocols.transport.messages import EchoRequest, LossRepair, encode_control
from tidings.protocols.transport.params import OrderingParams, TransportParams
from tidings.pubsub.client import Arrived
from tidings.pubsub.publications import encode_head


@pytest.mark.spec("T-16")
def test_a_plain_client_sees_the_bytes_that_were_published() -> None:
    other = Other()
    numbers, heads, payloads = zip(*(other.make(value) for value in range(3)), strict=True)
    plain = encode_head({"x": 9})
    assert has_marks(b"".join(heads))
    item = without_transport(Arrived(1, "pub", 5.0, (*numbers, 4), (*heads, plain), (*payloads, b"plain")))
    assert item.numbers == (1, 2, 3, 4)
    assert item.heads == (*(encode_head({"x": value}) for value in range(3)), plain)
    assert item.payloads == (b"0", b"1", b"2", b"plain")


def test_messages_of_transports_and_repairs_are_left_out() -> None:
    other = Other()
    other.make(1)
    _, header, _ = other.publishing.depart(0.0, 1, ())
    repair = encode_control(LossRepair(5, 0.0, 6, 0.0, 0.0, header), b"payload")
    echo = head_of({TO: 7}, Kind.ECHO_REQUEST), encode_control(EchoRequest(1, 7, 3, 0.0))
    digest = head_of({OF: 7}, Kind.DIGEST), other.publishing.digest(0.0)
    heads = [mark(encode_head({"x": 1}), Kind.REPAIR), echo[0], digest[0], encode_head({"x": 2})]
    assert take_off(heads, [repair, echo[1], digest[1], b"mine"]) == ([3], [encode_head({"x": 2})], [b"mine"])


def test_a_mark_without_a_header_is_left_out() -> None:
    assert take_off([mark(encode_head({"x": 1}), Kind.DATA)], [b"no header"]) == ([], [], [])


@given(st.lists(st.tuples(st.binary(max_size=80), st.binary(max_size=80)), max_size=5))
def test_whatever_the_bytes_are_nothing_is_raised(pieces: list[tuple[bytes, bytes]]) -> None:
    heads = [head + mark(b"\x80", Kind.DATA)[1:] for head, _ in pieces]
    places, _, _ = take_off(heads, [payload for _, payload in pieces])
    assert len(places) <= len(pieces)


HEADERS = st.builds(
    lambda flags, entries, row, rest: bytes((DATA_FIRST, flags, entries, row)) + bytes(36) + rest,
    st.integers(0, 31),
    st.integers(0, 4),
    st.integers(0, 16),
    st.binary(max_size=120),
)


@given(HEADERS)
def test_a_header_is_stepped_over_as_if_it_had_been_read(payload: bytes) -> None:
    try:
        _, body = decode_data(payload)
    except BadHeader:
        return
    assert body_of(payload) == body


# What connect makes of its words.


def machine_of(connection: Connecting) -> object:
    return connection.make_machine(SystemRandom(), GuestParams(brokers=("b",)), 1, "")


@pytest.mark.spec("T-17")
def test_without_a_word_about_it_there_is_no_transport_at_all() -> None:
    assert make_params(False, False, False, None) is None
    assert type(machine_of(connect("tidings://localhost"))) is ClientNode
    assert type(machine_of(connect("tidings://localhost", ordered=True))) is TransportClient


def test_the_words_say_what_is_on() -> None:
    params = make_params(True, True, False, None)
    assert params is not None
    assert (params.is_ordered, params.is_reliable, params.is_paced) == (True, True, False)
    basic = make_params("basic", False, False, TransportParams(record=9))
    assert basic is not None and (basic.ordering.mode, basic.record) == ("basic", 9)
    given = TransportParams(is_reliable=True, ordering=OrderingParams(mode="enhanced"))
    assert make_params(False, False, False, given) == given
    assert changed_params(given, None, False, True).is_paced


@pytest.mark.spec("T-18")
@pytest.mark.parametrize("word", ["reliable", "paced"])
def test_recovery_and_pacing_without_enhanced_order_are_refused_with_what_to_do(word: str) -> None:
    words: dict[str, Any] = {word: True}
    with pytest.raises(UsageError, match=rf"{word}: .* give ordered=True as well"):
        connect("tidings://localhost", **words)
    with pytest.raises(UsageError, match=f"{word}: losses are found by enhanced ordering only"):
        connect("tidings://localhost", ordered="basic", **words)


def test_a_client_that_numbers_its_own_events_cannot_have_a_transport() -> None:
    with pytest.raises(UsageError, match="numbers_from="):
        connect("tidings://localhost", name="ann", numbers_from=5, ordered=True)


def test_modes_that_are_not_named_stay_and_go_with_the_order_they_need() -> None:
    all_on = Modes(True, True, True, 2.0)
    assert changed_modes(all_on, None, False, None, None) == Modes(True, False, True, 2.0)
    assert changed_modes(all_on, False, None, None, 1.0) == Modes(False, False, False, 1.0)
    assert changed_modes(Modes(), None, True, True, None) == Modes(True, True, True)


def test_the_transports_names_are_not_for_applications() -> None:
    heads = HeadCache(lambda event: 1)
    with pytest.raises(UsageError, match="tidings_to: names with tidings_ are those of the transport"):
        heads.find({"tidings_to": 5})
    heads.attributes_max = 2
    assert heads.find({"a": 1, "b": 2})
    with pytest.raises(UsageError, match="at most 2 can be published through a transport"):
        heads.find({"a": 1, "b": 2, "c": 3})


@pytest.mark.spec("T-18")
def test_strict_order_needs_recovery() -> None:
    with pytest.raises(UsageError, match="reliable=True"):
        make_params("strict", False, False, None)
    strict = make_params("strict", True, False, None)
    assert strict is not None and strict.ordering.patience > 0 and strict.ordering.mode == "enhanced"
