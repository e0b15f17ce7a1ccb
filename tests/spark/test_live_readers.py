"""Readers and writers of the format "tidings" against a broker, called as Spark calls them but without Spark."""

import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StructType

from tests.spark.live_world import ThreadBroker
from tidings.model.errors import UsageError
from tidings.net.errors import NotReachable
from tidings.spark.live import pieces
from tidings.spark.live.connection import LiveConnection
from tidings.spark.live.offsets import DataLoss
from tidings.spark.live.sink import first_number, publish
from tidings.spark.live.source import TidingsSource

NUMBERED = StructType().add("publisher", "string").add("n", "long")


def events(begin: int, end: int) -> list[dict[str, Any]]:
    return [{"n": n, "odd": n % 2 == 1} for n in range(begin, end)]


def source(broker: ThreadBroker, **options: str) -> TidingsSource:
    return TidingsSource({"url": broker.url, **options})


def numbers(reader: Any, partitions: Sequence[InputPartition]) -> list[int]:
    """What tasks read, each with a reader that came by pickle."""
    there = pickle.loads(pickle.dumps(reader))
    return [n for partition in partitions for batch in there.read(partition) for n in batch.column("n").to_pylist()]


def drain(reader: Any, limit: int) -> list[list[int]]:
    """The micro-batches until there is no news."""
    made = []
    start = reader.initialOffset()
    while (end := reader.latestOffset(start, ReadMaxRows(limit))) != start:
        made.append(numbers_of_batch(reader, start, end))
        start = end
    reader.stop()
    return made


def numbers_of_batch(reader: Any, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    return numbers(TidingsCopy(reader), reader.partitions(start, end))


class TidingsCopy:
    """The part of a stream reader that travels: it never takes its connection along."""

    def __init__(self, reader: Any) -> None:
        self.schema, self.options = reader.schema, reader.options

    def read(self, partition: Any) -> Any:
        return pieces.read_piece(partition, self.options.filter, self.schema, self.options)


def test_the_schema_comes_from_what_is_advertised_within_the_filter() -> None:
    with ThreadBroker() as broker:
        broker.publish("desk", events(0, 1), "n >= 0 AND odd = TRUE OR n >= 0 AND odd = FALSE")
        inferred = source(broker, filter="n > 3").schema()
    assert (inferred["n"].dataType.simpleString(), inferred["odd"].dataType.simpleString()) == ("double", "boolean")


def test_a_large_history_is_cut_among_tasks_and_each_event_is_read_once() -> None:
    with ThreadBroker() as broker:
        broker.publish("desk", events(0, 9000))
        broker.publish("desk", events(9000, 12000))
        broker.publish("floor", events(12000, 15000))
        reader = source(broker, partitions="3").reader(NUMBERED)
        pieces = reader.partitions()
        assert len(pieces) == 3
        assert sorted(numbers(reader, pieces)) == list(range(15000))


def test_what_conditions_exclude_does_not_leave_the_broker() -> None:
    with ThreadBroker() as broker:
        broker.publish("desk", events(0, 1000))
        reader = source(broker, filter="n < 500").reader(StructType().add("n", "long").add("odd", "boolean"))
        assert list(reader.pushFilters([EqualTo(("odd",), True)])) == []
        [piece] = reader.partitions()
        assert isinstance(piece, pieces.Piece)
        with LiveConnection(reader.options) as link:
            pages = [page for it in piece.ranges for page in pieces.read_pages(link, reader.filter, it, True)]
        assert sum(len(page.heads) for page in pages) == 250
        assert numbers(reader, [piece]) == list(range(1, 500, 2))


def test_a_batch_read_can_begin_and_end_at_offsets_and_times() -> None:
    with ThreadBroker() as broker:
        broker.publish("desk", events(0, 5))
        stream = source(broker).streamReader(NUMBERED)
        middle = stream.initialOffset()
        stream.stop()
        broker.publish("desk", events(5, 8))
        at = json.dumps({"after": middle["after"]})
        behind = source(broker, startingOffsets=at).reader(NUMBERED)
        before = source(broker, endingOffsets=at).reader(NUMBERED)
        since = source(broker, startingOffsets=str(middle["since"])).reader(NUMBERED)
        until = source(broker, endingOffsets=str(middle["since"])).reader(NUMBERED)
        assert numbers(behind, behind.partitions()) == numbers(since, since.partitions()) == [5, 6, 7]
        assert numbers(before, before.partitions()) == numbers(until, until.partitions()) == [0, 1, 2, 3, 4]


def test_a_read_that_ends_early_leaves_nothing_behind() -> None:
    with ThreadBroker() as broker:
        broker.publish("desk", events(0, 9000))
        stream = source(broker).streamReader(NUMBERED)
        middle = stream.initialOffset()["since"]
        stream.stop()
        broker.publish("desk", events(9000, 18000))
        reader = source(broker, endingOffsets=str(middle), partitions="1").reader(NUMBERED)
        assert numbers(reader, reader.partitions()) == list(range(9000))
        rows = reader.read(reader.partitions()[0])
        assert next(rows).num_rows == pieces.PAGE_EVENTS
        rows.close()


def test_a_limit_is_kept_and_shared_among_publishers_however_far_apart_their_numbers_are() -> None:
    with ThreadBroker() as broker:
        broker.publish("desk", events(0, 100))
        broker.publish("desk", events(100, 150))
        broker.publish("floor", events(150, 160))
        reader = source(broker, startingOffsets="earliest").streamReader(NUMBERED)
        batches = drain(reader, 40)
    assert [len(batch) for batch in batches] == [40, 40, 40, 40]
    assert sorted(batches[0]) == [*range(30), *range(150, 160)]
    assert sorted(n for batch in batches for n in batch) == list(range(160))


def test_a_filter_that_lets_little_through_still_makes_progress_with_a_limit() -> None:
    with ThreadBroker() as broker:
        broker.publish("desk", events(0, 3000))
        narrow = source(broker, startingOffsets="earliest", filter="n IN (3, 1500, 2999)").streamReader(NUMBERED)
        assert drain(narrow, 2) == [[3, 1500], [2999]]


def test_latest_begins_where_the_stream_was_first_asked_and_a_first_batch_repeats_itself() -> None:
    with ThreadBroker() as broker:
        broker.publish("desk", events(0, 5))
        reader = source(broker).streamReader(NUMBERED)
        start = reader.initialOffset()
        broker.publish("desk", events(5, 8))
        broker.publish("floor", events(8, 9))
        assert reader.initialOffset() == start
        end = reader.latestOffset(start, ReadAllAvailable())
        reader.stop()
        restarted = source(broker).streamReader(NUMBERED)
        moved = restarted.initialOffset()
        assert moved != start
        assert sorted(numbers_of_batch(restarted, moved, end)) == [5, 6, 7, 8]
        assert restarted.latestOffset(end, ReadAllAvailable()) == end
        restarted.stop()


def test_available_now_goes_as_far_as_there_was_when_it_began() -> None:
    with ThreadBroker() as broker:
        broker.publish("desk", events(0, 5))
        reader = source(broker, startingOffsets="earliest").streamReader(NUMBERED)
        reader.prepareForTriggerAvailableNow()
        broker.publish("desk", events(5, 8))
        broker.publish("late", events(8, 9))
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        assert numbers_of_batch(reader, start, end) == [0, 1, 2, 3, 4]
        assert reader.latestOffset(end, ReadAllAvailable()) == end
        reader.stop()


def test_history_that_is_gone_is_an_error_unless_loss_is_allowed() -> None:
    with ThreadBroker(history_count_max=10) as broker:
        broker.publish("desk", events(0, 10))
        strict, loose = source(broker), source(broker, failOnDataLoss="false")
        reader = strict.streamReader(NUMBERED)
        start = reader.initialOffset()
        for n in range(10, 40):
            broker.publish("desk", events(n, n + 1))
        with pytest.raises(DataLoss, match=r"publications of desk were forgotten .*failOnDataLoss"):
            reader.latestOffset(start, ReadAllAvailable())
        reader.stop()
        reader = loose.streamReader(NUMBERED)
        end = reader.latestOffset(start, ReadAllAvailable())
        got = numbers_of_batch(reader, start, end)
        reader.stop()
    assert got == list(range(40 - len(got), 40))
    assert 0 < len(got) <= 10


def test_a_reader_that_paused_while_its_broker_was_away_goes_on(tmp_path: Path) -> None:
    with ThreadBroker(data=tmp_path) as broker:
        broker.publish("desk", events(0, 5))
        port = broker.service.address[1]
        reader = source(broker, startingOffsets="earliest").streamReader(NUMBERED)
        start = reader.initialOffset()
    with ThreadBroker(data=tmp_path, port=port) as broker:
        broker.publish("desk", events(5, 7))
        end = reader.latestOffset(start, ReadAllAvailable())
        assert numbers_of_batch(reader, start, end) == list(range(7))
        reader.stop()


def test_a_broker_that_is_away_is_named_with_what_to_do() -> None:
    with ThreadBroker() as broker:
        url = broker.url
    there = TidingsSource({"url": url, "timeout": "0.2"})
    with pytest.raises(NotReachable, match=r"no broker at 127.0.0.1:\d+ .*; is it running\? start one with"):
        there.schema()


def test_rows_that_are_published_again_under_their_numbers_are_dropped() -> None:
    import pyarrow

    schema = StructType().add("n", "long")
    with ThreadBroker() as broker:
        options = source(broker).said
        for rows in ([0, 1, 2], [0, 1, 2, 3, 4]):
            publish("sink.q.0", first_number(0), iter([pyarrow.record_batch({"n": rows})]), schema, options)
        publish("sink.q.0", first_number(1), iter([pyarrow.record_batch({"n": [5]})]), schema, options)
        reader = source(broker).reader(NUMBERED)
        assert numbers(reader, reader.partitions()) == [0, 1, 2, 3, 4, 5]


def test_what_a_stream_or_a_sink_cannot_do_is_refused() -> None:
    with ThreadBroker() as broker:
        with pytest.raises(UsageError, match="a stream has no end"):
            source(broker, endingOffsets="latest").streamReader(NUMBERED)
        with pytest.raises(UsageError, match="cannot be taken back"):
            source(broker).writer(NUMBERED, overwrite=True)
        with pytest.raises(UsageError, match='nothing lies before "earliest"'):
            source(broker, endingOffsets="earliest").reader(NUMBERED)
