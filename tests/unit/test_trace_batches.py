"""A batch of publications has one row for each event in a trace."""

from pathlib import Path

import pytest

from tidings.machine.effects import Deliver
from tidings.protocols.transport.carrier import Carried
from tidings.pubsub.client import Accepted, Arrived, PublishBatch
from tidings.pubsub.publications import encode_head
from tidings.trace.reader import read_trace
from tidings.trace.record import Record
from tidings.trace.things import UNREADABLE
from tidings.trace.writers import RingBuffer, open_writer

QUAKE = encode_head({"source": "/station", "id": "7", "magnitude": 5.1})
NAMELESS = encode_head({"magnitude": 2.5})


def recorded(*things: object) -> list[Record]:
    ring = RingBuffer(100)
    for thing in things:
        ring.record(1.5, "a", thing)
    return ring.records()


def test_each_event_of_a_published_batch_has_a_row_with_its_key_and_attributes() -> None:
    named, nameless = recorded(PublishBatch(1, (QUAKE, NAMELESS), (b"wave", b"")))
    assert named == Record(
        time=1.5,
        node="a",
        kind="publish",
        message="Event",
        key="/station 7",
        size_bytes=4,
        detail='{"id":"7","magnitude":5.1,"source":"/station"}',
    )
    assert (nameless.key, nameless.size_bytes, nameless.detail) == (None, 0, '{"magnitude":2.5}')


def test_each_event_of_a_delivered_batch_has_a_row_under_the_key_it_was_published_with() -> None:
    named, nameless = recorded(Deliver(Arrived(3, "station", 20.25, (8, 9), (QUAKE, NAMELESS), (b"wave", b""))))
    assert (named.kind, named.message, named.key, named.size_bytes) == ("deliver", "Event", "/station 7", 4)
    assert named.detail == '{"accepted_at":20.25,"publisher":"station","subscription":3,"number":8}'
    assert nameless.key == "station 9"


def test_what_did_not_come_straight_says_how_it_came() -> None:
    held = Carried(3, "station", 20.25, (8,), (QUAKE,), (b"",), "direct", 0.5, 0.25)
    repaired = Carried(3, "station", 20.25, (0, 0), (QUAKE, NAMELESS), (b"", b""), "repaired", 0.0, 0.0)
    first, named, nameless = recorded(Deliver(held), Deliver(repaired))
    about = '{"accepted_at":20.25,"publisher":"station","subscription":3,'
    assert first.detail == about + '"latch":0.5,"hold":0.25,"late":false,"number":8}'
    assert named.detail == about + '"latch":0.0,"hold":0.0,"late":false,"repaired":true,"way":"repaired"}'
    assert (named.key, nameless.key) == ("/station 7", None)


def test_what_is_no_encoded_event_is_recorded_as_such() -> None:
    published, delivered = recorded(
        PublishBatch(1, (b"\xc1",), (b"",)), Deliver(Arrived(1, "station", 0.0, (1,), (b"\xc1",), (b"",)))
    )
    assert (published.reason, published.key, published.detail) == (UNREADABLE, None, None)
    assert (delivered.reason, delivered.key) == (UNREADABLE, "station 1")


def test_other_deliveries_stay_one_row() -> None:
    [row] = recorded(Deliver(Accepted(4)))
    assert (row.kind, row.message) == ("deliver", "Accepted")


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_a_file_holds_the_rows_in_their_order(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"trace.{ending}"
    batch = PublishBatch(1, tuple(encode_head({"id": str(n)}) for n in range(5000)), (b"",) * 5000)
    with open_writer(path) as writer:
        writer.record(0.0, "a", batch)
        writer.record(1.0, "a", Deliver(Accepted(5000)))
    rows = list(read_trace(path))
    assert [row.key for row in rows] == [*map(str, range(5000)), None]
