"""Compressed records: shorter where events repeat themselves, and never silent about one."""

from random import Random

import pytest

from tidings.matching.bloom import BloomProfile, bits_of_event
from tidings.model.event import Event
from tidings.protocols.transport.headers import MERGED_FILL_MAX, RecordEntry, compress, decode_data, expand
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.sequences import Departures

ROW = 0xF0F0
PROFILE = BloomProfile(bits=128)


def test_equal_rows_are_written_once() -> None:
    record = compress([10, 20, 30_020], [ROW] * 3, 16)
    assert len(record) == 1 + 16 + 4 + 1 + 3
    assert expand(record, 3, 16, 50_000, 9) == (
        RecordEntry(8, 0.04999, ROW),
        RecordEntry(7, 0.04998, ROW),
        RecordEntry(6, 0.01998, ROW),
    )


def test_rows_that_differ_little_are_merged_and_others_are_not() -> None:
    near, far = ROW | 0x0F, 0xFFF << 100
    read = expand(compress([1, 2, 3], [ROW, near, far], 16), 3, 16, 100, 3)
    assert [entry.bits for entry in read] == [near, near, far]


def test_events_that_differ_in_a_value_share_a_row_until_it_is_too_full() -> None:
    rows = [bits_of_event(Event({"symbol": "AMD", "price": price, "volume": 100}), PROFILE) for price in range(30)]
    record = compress(list(range(30)), rows, 16)
    assert len(record) < 30 * 20 / 3
    for entry, row in zip(expand(record, 30, 16, 100, 30), rows, strict=True):
        assert entry.bits & row == row
        assert entry.bits.bit_count() <= MERGED_FILL_MAX * 128


def test_a_row_that_says_nothing_is_not_merged_with_another() -> None:
    read = expand(compress([1, 2, 3], [1, 0, 1], 16), 3, 16, 100, 3)
    assert [entry.bits for entry in read] == [1, 0, 1]


def test_a_full_row_of_a_stranger_says_nothing() -> None:
    record = bytes((1,)) + b"\xff" * 16 + bytes(4)
    assert expand(record, 1, 16, 100, 3) == (RecordEntry(2, 0.0001, 0),)


@pytest.mark.spec("T-22")
def test_entries_behind_a_mistake_are_not_there() -> None:
    record = compress([10, 20, 30], [ROW, ROW, 0xFFFF << 90], 16)
    whole = expand(record, 3, 16, 1000, 3)
    for length in range(len(record)):
        read = expand(record[:length], 3, 16, 1000, 3)
        assert read == whole[: len(read)]
        assert len(read) < 3
    assert expand(bytes(200), 3, 16, 1000, 3) == ()
    assert expand(record + record, 3, 16, 1000, 3) == whole


def depart(publishing: Departures, rows: list[int]) -> list[bytes]:
    return [publishing.depart(number * 0.001, row, ())[2] for number, row in enumerate(rows)]


def test_records_are_compressed_only_where_that_is_shorter() -> None:
    params = TransportParams(record=5, profile=PROFILE, is_compressed=True)
    (*_, alike) = depart(Departures(7, params), [ROW] * 6)
    (*_, different) = depart(Departures(7, params), [0xFFF << 12 * number for number in range(6)])
    assert len(alike) < len(different) == 40 + 5 * 20
    assert not decode_data(different)[0].is_compressed
    for sent, row in ((alike, ROW), (different, 0xFFF << 48)):
        newest = decode_data(sent)[0].read_record(5)[0]
        assert (newest.bits, newest.sequence) == (row, 4)


def test_the_longest_record_of_the_widest_rows_still_fits() -> None:
    profile = BloomProfile(bits=2040)
    publishing = Departures(7, TransportParams(record=255, profile=profile, is_compressed=True))
    rows = [Random(number).getrandbits(2040) & Random(1000 + number).getrandbits(2040) for number in range(260)]
    (*_, last) = depart(publishing, rows)
    read = decode_data(last)[0].read_record(259)
    assert [entry.bits for entry in read] == rows[258:3:-1]
