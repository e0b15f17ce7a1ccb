"""A publisher's numbers, headers and record."""

from random import Random

import pytest

from tidings.matching.bloom import BloomProfile
from tidings.model.bounds import ATTRIBUTES_MAX, RATE_MAX
from tidings.protocols.transport.headers import Data, decode_data
from tidings.protocols.transport.params import OrderingParams, TransportParams
from tidings.protocols.transport.sequences import Departures
from tidings.pubsub.publications import BadPublication, encode_head

HOURS = 3600.0


def depart_all(publishing: Departures, times: list[float], first_row: int = 1) -> list[Data]:
    """The headers as receivers read them; event i has the row first_row + i."""
    rows = range(first_row, first_row + len(times))
    return [decode_data(publishing.depart(at, row, ())[2])[0] for at, row in zip(times, rows, strict=True)]


@pytest.mark.spec("T-20")
@pytest.mark.parametrize("entries", [1, 5, 25])
@pytest.mark.parametrize("is_compressed", [False, True])
def test_the_record_lists_the_events_before_newest_first_and_fewer_at_the_start(
    entries: int, is_compressed: bool
) -> None:
    publishing = Departures(7, TransportParams(record=entries, is_compressed=is_compressed))
    rows = [Random(number).getrandbits(128) & Random(1000 + number).getrandbits(128) for number in range(30)]
    for number, row in enumerate(rows):
        header, _ = decode_data(publishing.depart(number * 0.5, row, ())[2])
        read = header.read_record(number)
        wanted = range(number - 1, max(-1, number - 1 - entries), -1)
        assert [entry.sequence for entry in read] == list(wanted)
        assert [entry.departed for entry in read] == [earlier * 0.5 for earlier in wanted]
        assert [entry.bits for entry in read] == [rows[earlier] for earlier in wanted]


@pytest.mark.spec("T-21")
def test_numbers_grow_by_one_with_each_event_that_leaves() -> None:
    headers = depart_all(Departures(7, TransportParams()), [0.0, 0.0, 1.0, 2.0])
    assert [header.sequence for header in headers] == [0, 1, 2, 3]


@pytest.mark.spec("T-21")
def test_numbers_wrap_around_on_the_wire_and_are_found_again() -> None:
    publishing = Departures(7, TransportParams(record=2))
    publishing.next = 2**32 - 2
    headers = depart_all(publishing, [0.0, 1.0, 2.0, 3.0])
    assert [header.sequence for header in headers] == [2**32 - 2, 2**32 - 1, 0, 1]
    assert publishing.whole(1) == 2**32 + 1
    assert publishing.whole(2**32 - 1) == 2**32 - 1
    assert [entry.sequence for entry in headers[-1].read_record(2**32 + 1)] == [2**32, 2**32 - 1]


def test_an_age_that_does_not_fit_is_the_largest_one() -> None:
    publishing = Departures(7, TransportParams(record=2))
    *_, last, next_one = depart_all(publishing, [0.0, 1.0, 2 * HOURS, 2 * HOURS + 1, 2 * HOURS + 2])
    largest = (2**32 - 1) / 1e6
    assert [2 * HOURS + 1 - entry.departed for entry in last.read_record(3)] == pytest.approx([1.0, largest])
    assert [2 * HOURS + 2 - entry.departed for entry in next_one.read_record(4)] == pytest.approx([1.0, 2.0])


def test_a_clock_that_goes_back_makes_ages_of_zero() -> None:
    publishing = Departures(7, TransportParams(record=2))
    *_, back, later = depart_all(publishing, [10.0, 11.0, 12.0, 5.0, 6.0])
    assert [entry.departed for entry in back.read_record(3)] == [5.0, 5.0]
    assert [entry.departed for entry in later.read_record(4)] == [6.0, 6.0]


def test_without_a_record_the_header_tells_when_the_event_before_left() -> None:
    for params in (TransportParams(ordering=OrderingParams(mode="basic")), TransportParams(record=0)):
        first, second = depart_all(Departures(7, params), [1.0, 3.5])
        assert (first.previous, second.previous) == (1.0, 1.0)
        assert (first.entries, second.entries) == (0, 0)


def test_another_length_of_the_record_keeps_what_was_sent() -> None:
    publishing = Departures(7, TransportParams(record=2))
    depart_all(publishing, [0.0, 1.0, 2.0, 3.0])
    publishing.configure(TransportParams(record=3))
    (header,) = depart_all(publishing, [4.0], first_row=5)
    assert [(entry.departed, entry.bits) for entry in header.read_record(4)] == [(3.0, 4), (2.0, 3), (1.0, 2)]


def test_another_profile_begins_a_new_record() -> None:
    publishing = Departures(7, TransportParams(record=2))
    depart_all(publishing, [0.0, 1.0])
    publishing.configure(TransportParams(record=2, profile=BloomProfile(bits=64)))
    first, second = depart_all(publishing, [2.0, 3.0], first_row=9)
    assert (first.sequence, first.entries) == (2, 0)
    assert [(entry.sequence, entry.bits) for entry in second.read_record(3)] == [(2, 9)]


def test_a_digest_tells_of_more_events_and_has_the_number_of_the_next() -> None:
    publishing = Departures(7, TransportParams(record=1, digest_record=3))
    depart_all(publishing, [0.0, 1.0, 2.0, 3.0])
    digest, rest = decode_data(publishing.digest(4.0))
    assert rest == b""
    assert [(entry.sequence, entry.departed, entry.bits) for entry in digest.read_record(digest.sequence)] == [
        (3, 3.0, 4),
        (2, 2.0, 3),
        (1, 1.0, 2),
    ]


@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_digest_before_anything_was_sent_can_be_read(is_compressed: bool) -> None:
    digest, rest = decode_data(Departures(7, TransportParams(is_compressed=is_compressed)).digest(4.0))
    assert (digest.entries, rest) == (0, b"")


def test_the_rate_is_that_of_the_last_second() -> None:
    publishing = Departures(7, TransportParams())
    headers = depart_all(publishing, [number / 100 for number in range(500)])
    assert headers[0].rate == 0.0
    assert headers[-1].rate == pytest.approx(100, rel=0.02)


def test_a_rate_that_nobody_would_believe_is_not_claimed() -> None:
    headers = depart_all(Departures(7, TransportParams()), [0.0, 1e-9])
    assert headers[-1].rate == RATE_MAX


def test_an_event_with_too_many_attributes_for_its_row_gets_none() -> None:
    publishing = Departures(7, TransportParams())
    assert publishing.bits_of(encode_head({"a": 1})) != 0
    assert publishing.bits_of(encode_head({f"attribute{number}": number for number in range(60)})) == 0


def test_what_leaves_no_room_for_the_mark_is_refused() -> None:
    publishing = Departures(7, TransportParams())
    full = encode_head({f"attribute{number}": 1 for number in range(ATTRIBUTES_MAX)})
    long_form = b"\xdf\x00\x00\x00\x01\xa1a\x01"
    for head in (full, long_form, b"", b"\x91\x00"):
        with pytest.raises(BadPublication):
            publishing.bits_of(head)
