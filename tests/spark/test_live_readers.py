"""Readers and writers of the format "tidings" against a broker, called as Spark calls them but without Spark."""

import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyspark.sql.datasource import EqualTo, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows
from pyspark.sql.types import StructType

from tests.spark.live_world import ThreadBroker
from tidings.model.errors import UsageError
from tidings.model.identity import name_of
from tidings.net.errors import NotReachable
from tidings.spark.live import pieces
from tidings.spark.live.connection import LiveConnection
from tidings.spark.live.offsets import DataLoss
from tidings.spark.live.pieces import Unreachable
from tidings.spark.live.sink import ChangedBatch, StagedRows, TidingsStreamWriter, TidingsWriter
from tidings.spark.live.source import PushingReader, TidingsSource

ROWS = StructType().add("n", "long")
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
        schema = StructType().add("n", "long").add("odd", "boolean")
        assert not isinstance(source(broker).reader(schema), PushingReader)
        reader = source(broker, filter="n < 500", pushDown="true").reader(schema)
        assert isinstance(reader, PushingReader)
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
        time = str(broker.accepted_from(middle["after"]))
        behind = source(broker, startingOffsets=at).reader(NUMBERED)
        before = source(broker, endingOffsets=at).reader(NUMBERED)
        since = source(broker, startingOffsets=time).reader(NUMBERED)
        until = source(broker, endingOffsets=time).reader(NUMBERED)
        assert numbers(behind, behind.partitions()) == numbers(since, since.partitions()) == [5, 6, 7]
        assert numbers(before, before.partitions()) == numbers(until, until.partitions()) == [0, 1, 2, 3, 4]


def test_a_read_that_ends_early_leaves_nothing_behind() -> None:
    with ThreadBroker() as broker:
        broker.publish("desk", events(0, 9000))
        stream = source(broker).streamReader(NUMBERED)
        middle = stream.initialOffset()["after"]
        stream.stop()
        broker.publish("desk", events(9000, 18000))
        time = str(broker.accepted_from(middle))
        reader = source(broker, endingOffsets=time, partitions="1").reader(NUMBERED)
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


def rows_of(*rows: int) -> Any:
    return iter([pyarrow.record_batch({"n": list(rows)})] if rows else [])


def write(writer: TidingsStreamWriter, batch: int, *partitions: tuple[int, ...]) -> None:
    """What Spark does with a micro-batch."""
    writer.commit([writer.stage("q", rows_of(*rows)) for rows in partitions], batch)


def stored_in(broker: ThreadBroker) -> list[int]:
    return sorted(broker.stored())


def test_a_batch_that_is_repeated_in_other_partitions_and_order_is_published_once() -> None:
    with ThreadBroker() as broker:
        writer = source(broker).streamWriter(ROWS, overwrite=False)
        write(writer, 0, (3, 1, 2), (5, 4, 4))
        write(writer, 0, (4,), (4, 2, 1), (3, 5))
        write(writer, 1, (), (7, 6))
        assert stored_in(broker) == [1, 2, 3, 4, 4, 5, 6, 7]


def test_what_a_first_try_had_published_when_it_died_is_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    from tidings.spark.live import sink

    monkeypatch.setattr(sink, "PUBLISHED_AT_ONCE", 2)
    with ThreadBroker() as broker:
        writer = source(broker).streamWriter(ROWS, overwrite=False)
        one = [writer.stage("q", rows_of(5, 3, 1)), writer.stage("q", rows_of(4, 2))]
        rows = sorted(row for it in one for row in it.rows)
        numbers = sink.BatchNumbers(0, writer.keys.digest(rows), len(rows))
        with sink.SinkConnection("spark.q", numbers.first, writer.options) as dying:
            dying.publish(rows[:3])
        write(writer, 0, (1, 2, 3), (4,), (5,))
        assert stored_in(broker) == [1, 2, 3, 4, 5]


def test_a_batch_that_is_repeated_with_other_rows_is_refused_or_published_again() -> None:
    with ThreadBroker() as broker:
        writer = source(broker).streamWriter(ROWS, overwrite=False)
        write(writer, 3, (1, 2, 3))
        with pytest.raises(ChangedBatch, match=r"batch 3 was published before, .* idColumn.* failOnChangedBatch"):
            write(writer, 3, (1, 2, 9))
        with pytest.raises(ChangedBatch, match=r"batch 2 comes behind batch 3, .*checkpoint"):
            write(writer, 2, (1,))
        assert stored_in(broker) == [1, 2, 3]
        write(source(broker, failOnChangedBatch="false").streamWriter(ROWS, overwrite=False), 3, (1, 2, 9))
        assert stored_in(broker) == [1, 1, 2, 2, 3, 9]
        write(writer, 4, (10,))
        assert stored_in(broker)[-1] == 10


def test_rows_with_ids_are_told_apart_by_these_alone() -> None:
    schema = StructType().add("n", "long").add("drawn", "double")

    def draw(*drawn: float) -> list[StagedRows]:
        return [writer.stage("q", iter([pyarrow.record_batch({"n": [2, 1], "drawn": list(drawn)})]))]

    with ThreadBroker() as broker:
        writer = source(broker, idColumn="n").streamWriter(schema, overwrite=False)
        writer.commit([*draw(0.5, 0.25)], 0)
        writer.commit([*draw(0.75, 0.125)], 0)
        assert stored_in(broker) == [1, 2]
        with pytest.raises(UsageError, match="option idColumn: n = 1 stands for several rows"):
            writer.commit([*draw(1.0, 2.0), *draw(1.0, 2.0)], 1)
        with pytest.raises(UsageError, match="option idColumn: there is no column m; there are n, drawn"):
            source(broker, idColumn="m").streamWriter(schema, overwrite=False)


def test_rows_that_were_read_are_published_in_the_order_of_their_publishers() -> None:
    schema = StructType().add("publisher", "string").add("number", "long").add("n", "long")
    batch = pyarrow.record_batch({"publisher": ["b", "a", "a"], "number": [1, 20, 3], "n": [0, 1, 2]})
    with ThreadBroker() as broker:
        writer = source(broker).streamWriter(schema, overwrite=False)
        writer.commit([writer.stage("q", iter([batch]))], 0)
        assert broker.stored() == [2, 1, 0]


def test_a_task_of_a_batch_write_that_is_tried_again_publishes_what_is_left() -> None:
    with ThreadBroker() as broker:
        writer: TidingsWriter = source(broker).writer(ROWS, overwrite=False)
        writer.publish("spark.job.0", rows_of(4, 1, 1), is_again=False)
        assert writer.publish("spark.job.0", rows_of(1, 2, 4, 1, 3), is_again=True).rows == 5
        assert stored_in(broker) == [1, 1, 2, 3, 4]
        with pytest.raises(ChangedBatch, match="tried again with other rows than it had: 5 of those"):
            writer.publish("spark.job.0", rows_of(8), is_again=True)
        assert writer.publish("spark.job.1", rows_of(), is_again=False).rows == 0


# What is gone, and who is away.


def test_a_publisher_of_which_no_broker_knows_is_an_error_if_it_may_have_published_more() -> None:
    """3,000 were published and 1,000 read; then the broker forgets everything."""
    with ThreadBroker() as broker:
        broker.publish("desk", events(0, 3000))
        port = broker.address[1]
        reader = source(broker, startingOffsets="earliest").streamReader(NUMBERED)
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadMaxRows(1000))
        assert end["behind"] == list(end["after"])
    with ThreadBroker(port=port) as broker:
        for stream in (reader, source(broker).streamReader(NUMBERED)):
            with pytest.raises(DataLoss, match=r"no broker knows anything of 1 publishers .*desk"):
                stream.latestOffset(end, ReadAllAvailable())
            stream.stop()
        loose = source(broker, failOnDataLoss="false").streamReader(NUMBERED)
        assert loose.latestOffset(end, ReadAllAvailable()) == end
        broker.publish("floor", events(0, 3))
        assert [name_of(life) for life in loose.latestOffset(end, ReadAllAvailable())["after"]] == ["floor"]
        loose.stop()
        batch = source(broker, startingOffsets=json.dumps({"after": end["after"]})).reader(NUMBERED)
        with pytest.raises(DataLoss, match="no broker knows anything"):
            batch.partitions()


def test_a_publisher_that_is_named_to_begin_with_and_that_nobody_knows_is_an_error() -> None:
    """Misspelt, for instance: otherwise the one that was meant would be read from elsewhere."""
    with ThreadBroker() as broker:
        broker.publish("desk", events(0, 3))
        named = '{"dsk": 17, "desk": "latest"}'
        with pytest.raises(DataLoss, match=r"no broker knows anything of 1 publishers .*dsk.*startingOffsets"):
            source(broker, startingOffsets=named).reader(NUMBERED).partitions()
        reader = source(broker, startingOffsets=named).streamReader(NUMBERED)
        start = reader.initialOffset()
        with pytest.raises(DataLoss, match=r"no broker knows anything of 1 publishers .*dsk"):
            reader.latestOffset(start, ReadAllAvailable())
        reader.stop()
        loose = source(broker, startingOffsets=named, failOnDataLoss="false").reader(NUMBERED)
        assert [piece.ranges for piece in loose.partitions() if isinstance(piece, pieces.Piece)] == [[]]


def test_what_is_forgotten_before_a_first_batch_is_repeated_is_missed() -> None:
    """ "earliest" is the same position when it is asked for again."""
    with ThreadBroker(history_count_max=10) as broker:
        for n in range(10):
            broker.publish("desk", events(n, n + 1))
        reader = source(broker, startingOffsets="earliest").streamReader(NUMBERED)
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        assert numbers_of_batch(reader, start, end) == list(range(10))
        reader.stop()
        for n in range(10, 15):
            broker.publish("desk", events(n, n + 1))
        restarted = source(broker, startingOffsets="earliest").streamReader(NUMBERED)
        with pytest.raises(DataLoss, match="publications of desk"):
            numbers_of_batch(restarted, restarted.initialOffset(), end)
        restarted.stop()


def test_a_query_whose_filter_was_changed_is_refused() -> None:
    with ThreadBroker() as broker:
        broker.publish("desk", events(0, 30))
        reader = source(broker, filter="n >= 0", startingOffsets="earliest").streamReader(NUMBERED)
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        reader.stop()
        changed = source(broker, filter="n >= 10", startingOffsets="earliest").streamReader(NUMBERED)
        for ask in (lambda: changed.latestOffset(end, ReadAllAvailable()), lambda: changed.partitions(start, end)):
            with pytest.raises(UsageError, match="the filter of this query changed since its checkpoint"):
                ask()
        changed.stop()
        other_cores = source(broker, filter="n >= 0", partitions="7").streamReader(NUMBERED)
        assert sorted(numbers_of_batch(other_cores, start, end)) == list(range(30))
        other_cores.stop()


def test_a_broker_that_is_away_fails_a_batch_read_and_is_told_of_by_a_stream(caplog: pytest.LogCaptureFixture) -> None:
    with ThreadBroker("a") as a:
        a.publish("near", events(0, 10))
        with ThreadBroker("b", links=[a.address]) as b:
            b.publish("far", events(10, 20))
            reader = source(a).reader(NUMBERED)
            while sorted(numbers(reader, reader.partitions())) != list(range(20)):
                pass
            stream = source(a, startingOffsets="earliest").streamReader(NUMBERED)
            start = stream.initialOffset()
        with pytest.raises(Unreachable, match=r"1 brokers .*\(b\), nor 1 publishers there.*failOnUnreachable"):
            while True:
                reader.partitions()
        partial = source(a, failOnUnreachable="false").reader(NUMBERED)
        assert numbers(partial, partial.partitions()) == list(range(10))
        end = stream.latestOffset(start, ReadAllAvailable())
        assert sorted(numbers_of_batch(stream, start, end))[:10] == list(range(10))
        assert stream.latestOffset(end, ReadAllAvailable()) == end
        reported = stream.reportLatestOffset()
        assert reported is not None and (reported["absent"], reported["unreachable"]) == (["b"], 1)
        assert [it.getMessage()[:38] for it in caplog.records].count("1 brokers with what this query reads c") >= 1
        strict = source(a, failOnUnreachable="true").streamReader(NUMBERED)
        with pytest.raises(Unreachable):
            strict.initialOffset()
        strict.stop()
        stream.stop()


def test_a_schema_without_attributes_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    with ThreadBroker() as broker:
        broker.publish("desk", events(0, 3))
        inferred = source(broker, includeMetadata="false").schema()
    assert "name those you want" in caplog.text
    assert "publisher" not in inferred.names and "subject" in inferred.names


def test_a_limit_in_bytes_is_kept_about() -> None:
    with ThreadBroker() as broker:
        broker.publish("desk", events(0, 1000))
        reader = source(broker, startingOffsets="earliest", maxBytesPerTrigger="10000").streamReader(NUMBERED)
        assert reader.getDefaultReadLimit() == ReadMaxBytes(10_000)
        start = reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        count = len(numbers_of_batch(reader, start, end))
        reader.stop()
    assert 100 < count < 500


def test_what_a_stream_or_a_sink_cannot_do_is_refused() -> None:
    with ThreadBroker() as broker:
        with pytest.raises(UsageError, match="a stream has no end"):
            source(broker, endingOffsets="latest").streamReader(NUMBERED)
        with pytest.raises(UsageError, match="cannot be taken back"):
            source(broker).writer(NUMBERED, overwrite=True)
        with pytest.raises(UsageError, match='nothing lies before "earliest"'):
            source(broker, endingOffsets="earliest").reader(NUMBERED)
