"""Files and folders anywhere: paths, file://, an object store, and what is said of places that cannot be used."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.object_store import bucket
from tests.spark.sweep_experiments import HERE
from tidings.lab.experiment import Measured
from tidings.lab.run import LabOrder, judge_folder
from tidings.lab.tables import write_tables
from tidings.model.errors import UsageError
from tidings.spark.metrics.traces import check_parquet, trace_files
from tidings.spark.place import Place, place_of
from tidings.spark.sweeps import Run, read_results, read_traces, sweep
from tidings.spark.workloads import read, write
from tidings.trace.record import Record, TraceError
from tidings.trace.writers import open_writer
from tidings.workloads.registry import make

__all__ = ["bucket"]

TOSSES = f"{HERE}:tosses"


@pytest.fixture(autouse=True)
def started_in_the_repository(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.chdir(root)


@pytest.mark.parametrize(
    ("given", "text", "shown"),
    [
        ("/a/b", "file:///a/b", "/a/b"),
        (Path("/a/b c"), "file:///a/b c", "/a/b c"),
        ("file:///a/b/", "file:///a/b", "/a/b"),
        ("file:/a/b", "file:///a/b", "/a/b"),
        ("s3a://bucket/x/", "s3a://bucket/x", "s3a://bucket/x"),
        ("hdfs://host:8020/x", "hdfs://host:8020/x", "hdfs://host:8020/x"),
        ("abfss://c@a.dfs.core.windows.net/x", "abfss://c@a.dfs.core.windows.net/x", None),
        ("dbfs:/x", "dbfs:/x", "dbfs:/x"),
    ],
)
def test_a_place_is_told_to_spark_with_its_scheme(given: str | Path, text: str, shown: str | None) -> None:
    assert place_of(given).text == text
    assert str(place_of(given)) == (shown or text)


def test_a_path_is_one_of_where_we_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert place_of("out") == place_of(tmp_path / "out") == Place(f"file://{tmp_path}/out")
    (place_of("out") / "x" / "y.json").write_bytes(b"{}")
    assert [each.below(place_of("out")) for each in place_of("out").files()] == ["x/y.json"]
    assert place_of("out").exists() and not place_of("in").exists() and place_of("in").files() == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("file://a/b", "'a' would be a machine; write file:///"),
        ("nosuch://a/b", "cannot use nosuch://a/b: Unrecognized filesystem"),
        ("/proc/nowhere/x", r"cannot write /proc/nowhere/x: .*; name a place that is yours"),
    ],
)
def test_a_place_that_cannot_be_is_refused_in_a_line(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        place_of(text).write_bytes(b"")
    assert "\n" not in str(refused.value)


def test_small_files_live_in_an_object_store_too(bucket: str) -> None:
    place = place_of(f"{bucket}/lab")
    order = LabOrder(experiment="dependable/E23", scale="small", seeds=3)
    assert order.place(place.text).text == f"{bucket}/lab/dependable/E23/small"
    write_tables(order.place(place), "dependable/E23", [], [Measured("f", "", 1.0, None, None, 3)], [])
    names = sorted(each.below(place).rpartition("/")[2] for each in place.files())
    assert names == ["figures.parquet", "table.csv", "table.json", "table.parquet"]
    csv = place / "dependable" / "E23" / "small" / "table.csv"
    assert csv.read_bytes().startswith(b"experiment,says") and csv.exists() and not (place / "x").exists()
    with pytest.raises(UsageError, match=f"{bucket}/lab/empty holds no experiment"):
        judge_folder(None, place / "empty")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"cannot read .*/absent"):
        (place / "absent").read_bytes()
    with pytest.raises(UsageError, match=r"cannot write s3://no-such-bucket/x: .*name a place that is yours"):
        place_of("s3://no-such-bucket/x").write_bytes(b"")


def test_traces_in_an_object_store_are_found_and_looked_at(bucket: str, tmp_path: Path) -> None:
    with open_writer(tmp_path / "one.parquet", run="one", seed=7) as writer:
        writer.write(Record(time=1.0, node="a", kind="note"))
    whole = (tmp_path / "one.parquet").read_bytes()
    place = place_of(f"{bucket}/traces")
    for name, data in {
        "one.parquet": whole,
        "cut.partial.jsonl": b"{",
        "_x/a.parquet": b"",
        "no.parquet": b"x",
    }.items():
        (place / name).write_bytes(data)
    assert [each.name for each in trace_files(place)] == ["no.parquet", "one.parquet"]
    check_parquet(place / "one.parquet")
    with pytest.raises(TraceError, match=r"no.parquet: this is no Parquet file"):
        check_parquet(place / "no.parquet")


def test_a_trace_is_written_on_this_machine_only() -> None:
    with pytest.raises(TraceError, match=r"s3://bucket/x.parquet: name a file on this machine"):
        open_writer("s3://bucket/x.parquet")


@pytest.mark.spark
def test_a_sweep_and_a_workload_go_where_a_url_says(spark: SparkSession, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/out"
    done = sweep(spark, [Run(TOSSES, "", {}, seed) for seed in range(3)], url)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert sweep(spark, [Run(TOSSES, "", {}, seed) for seed in range(4)], tmp_path / "out").skipped == 3
    assert (done.results.count(), read_results(spark, url).count(), read_traces(spark, url).count()) == (3, 4, 80)
    workload = make("content", {"seed": 7, "event_count": 100, "subscription_count": 10, "match_rate": 0.1})
    write(spark, workload, f"file://{tmp_path}/workload", ["events"])
    stored = read(spark, tmp_path / "workload")
    assert (stored.workload, stored.tables["events"].count()) == (workload, 100)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("folder", "format", "words"),
    [
        ("s3a://bucket/x", "parquet", r"this Spark has no file system for s3a://; .*org.apache.hadoop:hadoop-aws"),
        ("nosuch://a/b", "parquet", "this Spark has no file system for nosuch://; name a place that it knows"),
        ("out", "delta", r"does not know the format 'delta': .*io.delta:delta-spark.* leave it at 'parquet'"),
        ("out", "nosuch", "does not know the format 'nosuch': leave it at 'parquet'"),
    ],
)
def test_what_this_spark_cannot_write_is_refused_before_anything_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, format: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=words) as refused:
        sweep(spark, [Run(TOSSES)], folder, format=format)
    assert "\n" not in str(refused.value)


@pytest.mark.spark
def test_a_folder_that_holds_something_else_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("results/run=1", "traces"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "x.parquet").touch()
    with pytest.raises(UsageError, match="holds something else than a sweep; name another folder"):
        sweep(spark, [Run(TOSSES)], tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot write to the folder .*file/out: Not a directory; name one"):
        sweep(spark, [Run(TOSSES)], tmp_path / "file" / "out")


@pytest.mark.spark
def test_rows_are_written_in_another_format_if_one_is_named(spark: SparkSession, tmp_path: Path) -> None:
    runs = [Run(TOSSES, "", {}, seed) for seed in range(3)]
    done = sweep(spark, runs, tmp_path, format="orc", runs_per_task=2)
    assert (done.results.count(), done.traces.count()) == (3, 60)
    again = sweep(spark, [*runs, Run(TOSSES, "", {}, 3)], tmp_path, format="orc")
    assert (again.skipped, again.results.count(), again.traces.count()) == (3, 4, 80)
