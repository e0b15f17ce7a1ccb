"""Traces from files, grouped metrics, and what many runs say together."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from tests.spark.metric_tables import due_table, trace_table
from tests.spark.metric_traces import drawn_trace
from tests.spark.references.families import reference
from tidings.cli import traces
from tidings.cli.program import run
from tidings.model.errors import UsageError
from tidings.spark.metrics.peers import relative_difference
from tidings.spark.metrics.registry import FAMILIES, METRICS
from tidings.spark.metrics.traces import read_traces, trace_files
from tidings.spark.place import place_of
from tidings.trace.reader import read_trace
from tidings.trace.record import COLUMNS, Record, TraceError
from tidings.trace.writers import open_writer

SMALL = [
    Record(time=1.0, node="p", kind="publish", message="Event", key="s 1", size_bytes=10),
    Record(time=1.5, node="a", kind="deliver", message="Event", key="s 1", size_bytes=10, detail='{"publisher":"p"}'),
    Record(time=2.0, node="b", kind="deliver", message="Event", key="s 1", size_bytes=10),
    Record(time=2.0, node="p", kind="send", peer="a", message="Publications"),
]


def write(path: Path, run: str, records: list[Record] = SMALL) -> Path:
    with open_writer(path, run=run, seed=7) as writer:
        for record in records:
            writer.write(record)
    return path


@pytest.mark.spark
def test_parquet_json_lines_and_folders_that_spark_wrote_are_one_table(spark: SparkSession, tmp_path: Path) -> None:
    files = [write(tmp_path / "one.parquet", "one"), write(tmp_path / "two.jsonl", "two")]
    folder = tmp_path / "parts"
    read_traces(spark, files).write.partitionBy("run").parquet(str(folder))
    from_files, from_parts = (
        sorted(tuple(row) for row in read_traces(spark, paths).na.fill("").na.fill(-1).collect())
        for paths in (files, [folder])
    )
    assert from_files == from_parts
    assert len(from_files) == 2 * len(SMALL)
    assert {row[0] for row in from_files} == {"one", "two"}
    assert tuple(read_traces(spark, [tmp_path]).columns) == COLUMNS


@pytest.mark.spark
def test_the_folder_of_a_sweep_is_read_whether_or_not_files_have_the_run_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name in ("one", "07"):
        (tmp_path / f"run={name}").mkdir()
        write(tmp_path / f"run={name}" / "trace.parquet", name)
    rows = read_traces(spark, [tmp_path]).groupBy("run").count().collect()
    assert {(row["run"], row["count"]) for row in rows} == {("one", len(SMALL)), ("07", len(SMALL))}


@pytest.mark.spark
def test_a_file_whose_lines_leave_out_run_and_seed_has_empty_ones(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "bare.jsonl").write_text('{"time":1.0,"node":"a","kind":"note"}\n')
    [row] = read_traces(spark, [tmp_path / "bare.jsonl"]).collect()
    assert (row.run, row.seed, row.message) == ("", 0, None)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda folder: folder / "absent.parquet", "there is no such file or folder"),
        (lambda folder: touched(folder / "trace.csv"), "a trace ends in .parquet or .jsonl"),
        (lambda folder: folder, "no file there ends in"),
        (lambda folder: touched(folder / "broken.parquet"), "this is no Parquet file"),
    ],
)
def test_what_is_no_trace_is_refused_by_name(tmp_path: Path, make: Callable[[Path], Path], says: str) -> None:
    path = make(tmp_path)
    with pytest.raises(TraceError, match=says):
        read_traces(None, [path])  # type: ignore[arg-type]


def touched(path: Path) -> Path:
    path.write_text("nothing")
    return path


def test_another_version_and_other_columns_are_refused(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table({"run": ["r"]})
    parquet.write_table(table, tmp_path / "other.parquet")
    with pytest.raises(TraceError, match="but no trace of tidings; it lacks seed, time"):
        read_traces(None, [tmp_path])  # type: ignore[arg-type]
    about = {"tidings.trace": json.dumps({"version": 99})}
    parquet.write_table(table.replace_schema_metadata(about), tmp_path / "other.parquet")
    with pytest.raises(TraceError, match="version 99 of the schema, this program knows 1"):
        read_traces(None, [tmp_path])  # type: ignore[arg-type]


def test_partial_and_hidden_files_of_a_folder_are_passed_over(tmp_path: Path) -> None:
    wanted = write(tmp_path / "whole.parquet", "whole")
    for name in ("crashed.partial.parquet", ".hidden.parquet", "_temporary.parquet"):
        touched(tmp_path / name)
    assert trace_files(place_of(tmp_path)) == [place_of(wanted)]


@pytest.mark.spark
def test_a_trace_without_rows_gives_tables_without_rows(spark: SparkSession) -> None:
    nothing, due = trace_table(spark, []), due_table(spark, [])
    for name in ("delivery", "twins"):
        assert FAMILIES[name].summary(nothing, due).collect() == []


@pytest.mark.spark
@pytest.mark.spec("S-123")
def test_by_gives_one_row_for_each_group(spark: SparkSession, tmp_path: Path) -> None:
    trace = read_traces(spark, [write(tmp_path / "one.parquet", "one")])
    due = due_table(spark, [("one", "s 1", "a"), ("one", "s 1", "c")])
    latency = METRICS["latency"](trace, by=["node"]).where("latency_mean IS NOT NULL").orderBy("node").collect()
    assert [(row.node, row.latency_mean, row.latency_p99) for row in latency] == [("a", 0.5, 0.5), ("b", 1.0, 1.0)]
    ratio = METRICS["delivery_ratio"](trace, due, by=["node"]).where("expected > 0").orderBy("node").collect()
    assert [(row.node, row.delivery_ratio) for row in ratio] == [("a", 1.0), ("c", 0.0)]
    [second] = METRICS["delivery_ratio"](trace, due, by=["second"]).collect()
    assert (second.second, second.delivery_ratio) == (1, 0.5)
    loads = METRICS["load"](trace, by=["node"]).where("node = 'p'").collect()
    assert [(row.run, row.load_max) for row in loads] == [("one", 1)]


@pytest.mark.spark
def test_an_unknown_group_and_a_missing_table_are_refused(spark: SparkSession) -> None:
    nothing = trace_table(spark, [])
    with pytest.raises(UsageError, match="by colour: metrics of the family delivery can be grouped by node"):
        METRICS["latency"](nothing, by=["colour"])
    with pytest.raises(UsageError, match="delivery_ratio compares with what is due"):
        METRICS["delivery_ratio"](nothing)


@pytest.mark.spark
def test_one_metric_alone_says_the_same_as_its_reference(spark: SparkSession) -> None:
    records = [record for seed in range(12) for record in drawn_trace(seed)[0]]
    table = METRICS["sent_messages"](trace_table(spark, records))
    assert sorted((row.asDict() for row in table.collect()), key=lambda row: row["run"]) == reference(
        METRICS["sent_messages"], records
    )


@pytest.mark.spark
@pytest.mark.spec("P-125")
def test_the_relative_difference_is_to_the_base_and_negative_if_less(spark: SparkSession) -> None:
    rows = [
        ("direct", "t1", 10.0),
        ("direct", "t2", 20.0),
        ("plan", "t1", 7.0),
        ("plan", "t2", 25.0),
        ("plan", "t3", 1.0),
    ]
    table = spark.createDataFrame(rows, "method STRING, sink STRING, seconds DOUBLE")
    compared = relative_difference(table, "seconds", variant="method", base="direct", match=["sink"])
    found = {row.sink: row.relative_difference for row in compared.collect()}
    assert found == {"t1": -0.3, "t2": 0.25, "t3": None}


@pytest.mark.spark
def test_the_command_prints_tables_and_json(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = str(write(tmp_path / "one.parquet", "one"))
    due_table(spark, [("one", "s 1", "a"), ("one", "s 1", "c")]).write.parquet(str(tmp_path / "due"))
    asked = ["--metric", "delivery_ratio", "--expected", str(tmp_path / "due")]
    assert run(["trace", "metrics", trace, *asked, "--json"]) == 0
    row = {"run": "one", "expected": 2, "delivered_due": 1, "delivery_ratio": 0.5}
    assert json.loads(capsys.readouterr().out) == {"delivery_ratio": [row]}
    assert run(["trace", "metrics", trace]) == 0
    printed = capsys.readouterr().out
    assert "delivery: Whether events reach" in printed and re.search(r"latency_mean +0\.75\n", printed)
    assert "overhead: Messages by type." in printed and "drops: " not in printed
    assert run(["trace", "metrics", trace, "--metric", "latency", "--by", "node"]) == 0
    assert "one  a" in capsys.readouterr().out


@pytest.mark.spark
def test_of_long_answers_that_nobody_asked_for_the_first_rows_are_printed_and_how_many_are_left_out(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A metric over time has a row for each second of each run: more than anybody reads, in a sweep of some size."""
    rates = [replace(SMALL[0], time=second + 0.5, key=f"s {second}") for second in range(7)]
    trace = str(write(tmp_path / "one.parquet", "one", rates))
    monkeypatch.setattr(traces, "SHOWN_MAX", 3)
    assert run(["trace", "metrics", trace]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"one +2 .*\n  4 more rows: ask for metrics by their names", printed)
    monkeypatch.setattr(traces, "ROWS_MAX", 5)
    assert run(["trace", "metrics", trace, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [row["second"] for row in told["rates"]] == [0, 1, 2, 3, 4] and told["left_out"] == {"rates": 2}
    assert run(["trace", "metrics", trace, "--metric", "rates"]) == 2
    assert "the answer has more than 5 rows" in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.spec("S-123")
def test_two_runs_of_a_simulated_network_are_told_apart_and_agree_with_their_references(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = []
    for seed in (7, 8):
        path = tmp_path / f"{seed}.parquet"
        assert run(["sim", "run", "gossip", "--seed", str(seed), "--set", "events=5", "--trace", str(path)]) == 0
        records += [replace(record, run=f"gossip seed {seed}") for record in read_trace(path)]
    capsys.readouterr()
    asked = ["deliveries", "latency", "load", "message_overhead", "drops"]
    options = [word for name in asked for word in ("--metric", name)]
    assert run(["trace", "metrics", str(tmp_path), *options, "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)
    for name in asked:
        wanted = reference(METRICS[name], records)
        assert len(wanted) >= 2
        assert sorted(answers[name], key=str) == sorted(wanted, key=str)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["one.parquet", "--metric", "beauty"], "--metric beauty: there is no such metric"),
        (["one.parquet", "--metric", "noise"], "give a table of that with --expected"),
        (["one.parquet", "--by", "node"], "--by: say of which metrics"),
        ([], "name a trace"),
    ],
)
def test_a_wrong_call_says_what_to_do(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["trace", "metrics", *arguments]) == 2
    assert says in capsys.readouterr().err


def test_the_list_of_metrics_needs_no_spark(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["trace", "metrics", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["metrics"]
    assert [row["metric"] for row in listed] == list(METRICS)
