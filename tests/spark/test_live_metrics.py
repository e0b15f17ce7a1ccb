"""Metrics while a run goes on: the same in the end as those of the whole trace, and bounded in what they keep."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from tests.spark.live_world import patiently
from tests.spark.metric_tables import trace_table
from tests.spark.metric_traces import drawn_trace
from tests.spark.references.families import reference
from tests.spark.references.values import text, time_us, whole
from tidings.model.errors import UsageError
from tidings.spark.live.follower import TraceFollower
from tidings.spark.metrics import live
from tidings.spark.metrics.live import (
    LIVE_TABLES,
    LatencyState,
    PairState,
    cut_value,
    fold_latency,
    fold_pair,
    live_table,
)
from tidings.spark.metrics.registry import METRICS
from tidings.spark.place import place_of
from tidings.trace.reader import LINE_BYTES_MAX
from tidings.trace.record import Record, TraceError
from tidings.trace.writers import open_writer

SEEDS = range(160)

Keyed = dict[tuple[Any, ...], dict[str, Any]]


def in_order(seeds: range) -> list[Record]:
    """As nodes write them: each in the order of time."""
    return sorted((row for seed in seeds for row in drawn_trace(seed)[0]), key=lambda row: (time_us(row), row.node))


def cut_up(records: list[Record], seed: int) -> Iterator[list[Record]]:
    """Micro-batches, which part instants as well."""
    rng, waiting = Random(seed), list[Record]()
    for record in records:
        waiting.append(record)
        if rng.random() < 0.2:
            yield waiting
            waiting = []
    yield waiting


def seen(record: Record) -> dict[str, Any]:
    """What the tables read of a row."""
    is_deliver = record.kind == "deliver"
    said = {
        "publisher": text(record, "publisher") if is_deliver else None,
        "subscription": text(record, "subscription") if is_deliver else None,
        "number": whole(record, "number") if is_deliver else None,
    }
    return {**msgspec.structs.asdict(record), **said, "time_us": time_us(record)}


def is_read(name: str, row: dict[str, Any]) -> bool:
    is_event = row["message"] == "Event"
    match name:
        case "pairs":
            return is_event and row["publisher"] is not None and row["number"] is not None
        case "drops":
            return bool(row["kind"] == "drop")
        case "nodes":
            return row["kind"] in ("send", "receive", "drop") or (row["kind"] in ("publish", "deliver") and is_event)
    return row["kind"] in ("publish", "deliver") and is_event and row["key"] is not None


def folded(name: str, records: list[Record], seed: int) -> Keyed:
    """The table without Spark, its states told and read between micro-batches as Spark does it."""
    table, states, answers = LIVE_TABLES[name], dict[tuple[Any, ...], bytes](), Keyed()
    for batch in cut_up(records, seed):
        rows = [row for row in map(seen, batch) if is_read(name, row)]
        for key in {tuple(row[column] for column in table.keys): None for row in rows}:
            mine = [row for row in rows if tuple(row[column] for column in table.keys) == key]
            mine.sort(key=lambda row: [row[column] for column in table.rows])
            kept = states.get(key)
            state = table.state() if kept is None else msgspec.msgpack.decode(kept, type=table.state)
            answers[key] = table.fold(state, mine)
            states[key] = msgspec.msgpack.encode(state)
    return answers


def by_run(answers: Keyed, column: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, values in answers.items():
        found[key[0]] = found.get(key[0], 0) + values[column]
    return found


def of_reference(metric: str, column: str, records: list[Record]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for row in reference(METRICS[metric], records):
        found[row["run"]] = found.get(row["run"], 0) + (row[column] or 0)
    return {run: value for run, value in found.items() if value}


def nonzero(found: dict[str, Any]) -> dict[str, Any]:
    return {run: value for run, value in found.items() if value}


def check_tables(tables: dict[str, Keyed], records: list[Record]) -> None:
    pairs, nodes, drops, latency = (tables[name] for name in ("pairs", "nodes", "drops", "latency"))
    for column, metric in (("arrived", "fifo_violations"), ("fifo_violations", "fifo_violations"), ("holes", "holes")):
        assert nonzero(by_run(pairs, column)) == of_reference(metric, column, records), column
    for column in ("sent", "received", "dropped"):
        assert nonzero(by_run(nodes, column)) == of_reference("sent_messages", column, records), column
    assert nonzero(by_run(drops, "drops")) == of_reference("drops", "drops", records)
    known = {row["run"]: row for row in reference(METRICS["latency"], records) if row["latency_max"] is not None}
    assert {key[0] for key, values in latency.items() if values["timed"]} == known.keys()
    for (run,), values in latency.items():
        if values["timed"]:
            assert {name: values[name] for name in known[run] if name != "run"} == {
                name: value for name, value in known[run].items() if name != "run"
            }


def test_what_is_kept_from_batch_to_batch_comes_to_what_the_whole_trace_says() -> None:
    records = in_order(SEEDS)
    tables = {name: folded(name, records, 7) for name in LIVE_TABLES}
    check_tables(tables, records)
    assert by_run(tables["pairs"], "fifo_violations") and by_run(tables["pairs"], "holes")
    assert sum(values["timed"] for values in tables["latency"].values()) > 40


def test_holes_beyond_the_bound_are_counted_and_not_kept() -> None:
    state = PairState()
    far = live.HOLES_MAX + 100
    first = fold_pair(state, [{"time_us": 1, "number": 1}, {"time_us": 2, "number": far}])
    assert (first["holes"], first["holes_settled"], len(state.missing)) == (far - 2, 98, live.HOLES_MAX)
    assert fold_pair(state, [{"time_us": 3, "number": 2}])["holes"] == far - 3


def test_rows_of_one_instant_have_no_order_also_where_micro_batches_part_them() -> None:
    state = PairState()
    for at, number, violations in ((5, 2, 0), (7, 9, 0), (7, 4, 0), (7, 1, 1), (8, 4, 2), (8, 9, 2)):
        assert fold_pair(state, [{"time_us": at, "number": number}])["fifo_violations"] == violations


def test_latencies_of_events_that_were_settled_count_and_what_comes_later_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "OPEN_EVENTS_MAX", 2)
    state = LatencyState()
    for number in range(4):
        rows = [
            {"kind": "publish", "key": f"e{number}", "node": "p", "time_us": 1000 * number},
            {"kind": "deliver", "key": f"e{number}", "node": "a", "time_us": 1000 * number + 10 * (number + 1)},
        ]
        told = fold_latency(state, rows)
    assert (told["timed"], told["latency_p50"], told["latency_max"], told["open_events"]) == (4, 25e-6, 40e-6, 2)
    late = fold_latency(state, [{"kind": "deliver", "key": "e1", "node": "b", "time_us": 9000}])
    assert (late["timed"], late["too_late"]) == (4, 1)


def test_events_with_many_deliveries_are_settled_earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "OPEN_DELIVERIES_MAX", 5)
    state = LatencyState()
    for number in range(3):
        rows = [{"kind": "publish", "key": f"e{number}", "node": "p", "time_us": 0}]
        rows += [{"kind": "deliver", "key": f"e{number}", "node": node, "time_us": 7} for node in "abcabc"]
        told = fold_latency(state, rows)
    assert (told["timed"], told["open_events"], state.open_deliveries) == (9, 1, 3)


def test_values_are_cut_as_those_of_a_whole_trace() -> None:
    assert [cut_value(value) for value in (0, 9999, 12345, -12345, 10**9 + 1)] == [0, 9999, 12340, -12340, 10**9]


# Following traces.


def lines(*records: Record) -> bytes:
    return b"".join(msgspec.json.encode(record) + b"\n" for record in records)


NOTE = Record(time=1.0, node="a", kind="note")


def read_between(follower: TraceFollower, start: dict[str, int], end: dict[str, int]) -> int:
    return sum(batch.num_rows for piece in follower.partitions(start, end) for batch in follower.read(piece))


def test_a_trace_is_followed_while_it_is_written_and_under_its_name(tmp_path: Path) -> None:
    follower, everything = TraceFollower(place_of(tmp_path)), ReadAllAvailable()
    assert follower.latestOffset({}, everything) == {}
    writer = open_writer(tmp_path / "a.jsonl")
    for _ in range(3):
        writer.write(NOTE)
    writer.flush()
    first = follower.latestOffset({}, everything)
    assert list(first) == ["a.jsonl"] and read_between(follower, {}, first) == 3
    writer.write(NOTE)
    writer.close()
    second = follower.latestOffset(first, everything)
    assert (read_between(follower, first, second), read_between(follower, {}, second)) == (1, 4)
    with open_writer(tmp_path / "b.parquet") as other:
        other.write(NOTE)
    third = follower.latestOffset(second, everything)
    assert read_between(follower, second, third) == 1 and third.keys() == {"a.jsonl", "b.parquet"}
    alone = TraceFollower(place_of(tmp_path / "a.jsonl"))
    assert alone.latestOffset({}, everything) == second


def test_half_a_line_waits_for_its_end_and_a_bound_cuts_between_lines(tmp_path: Path) -> None:
    whole_lines = lines(NOTE, NOTE)
    (tmp_path / "a.partial.jsonl").write_bytes(whole_lines + lines(NOTE)[:10])
    follower = TraceFollower(place_of(tmp_path))
    assert follower.latestOffset({}, ReadAllAvailable()) == {"a.jsonl": len(whole_lines)}
    one = len(lines(NOTE))
    assert follower.latestOffset({}, ReadMaxBytes(one + 5)) == {"a.jsonl": one}
    with pytest.raises(UsageError, match="maxBytesPerTrigger"):
        follow_with(maxBytesPerTrigger=str(LINE_BYTES_MAX - 1))


def follow_with(**options: str) -> None:
    from tidings.spark.live.follower import TidingsTraceSource

    TidingsTraceSource({"path": "x", **options}).streamReader(None)  # type: ignore[arg-type]


def test_any_session_finds_the_format_by_its_package() -> None:
    assert import_module("pyspark_tidings_trace").DefaultSource.name() == "tidings-trace"


def test_a_file_that_was_begun_anew_ends_the_query(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(NOTE))
    with pytest.raises(TraceError, match="it is another file by now"):
        TraceFollower(place_of(tmp_path)).latestOffset({"a.jsonl": 1000}, ReadAllAvailable())


@pytest.mark.spark
def test_live_tables_of_followed_traces_are_the_metrics_of_the_whole(spark: SparkSession, tmp_path: Path) -> None:
    records = in_order(range(23))
    traces = tmp_path / "traces"
    traces.mkdir()
    tables: dict[str, Keyed] = {name: {} for name in LIVE_TABLES}
    stages = [list(part) for part in cut_up(records, 3)]
    middle = len(stages) // 2
    for stage in (stages[:middle], stages[middle:]):
        rows = [row for part in stage for row in part]
        for nodes in ("ab", "cd"):
            with open(traces / f"{nodes}.partial.jsonl", "ab") as file:
                file.write(lines(*[row for row in rows if row.node in nodes]))
        for name in LIVE_TABLES:
            keep_up(spark, name, traces, tmp_path / "checkpoints", tables[name])
    check_tables(tables, records)
    batch = {row.run: row.holes for row in METRICS["holes"](trace_table(spark, records)).collect()}
    assert by_run(tables["pairs"], "holes") == batch


def keep_up(spark: SparkSession, name: str, traces: Path, checkpoints: Path, into: Keyed) -> None:
    """Read what is new, as a query that was stopped and is started again."""
    keys = list(LIVE_TABLES[name].keys)

    def take(changed: DataFrame, number: int) -> None:
        for row in changed.collect():
            into[tuple(row[key] for key in keys)] = row.asDict()

    trace = spark.readStream.format("tidings-trace").load(str(traces))
    writer = live_table(trace, name).writeStream.option("checkpointLocation", str(checkpoints / name))
    available = writer.foreachBatch(take).trigger(availableNow=True)
    patiently(lambda: available.start().awaitTermination())
