"""A small experiment from its definition to its page, and its verdicts against the Parquet behind them."""

import json
import re
import shutil
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import numpy
import pyarrow
import pyspark
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from tests.lab.folders import interval, read_rows, read_table, write_rows
from tidings.lab.dependable.cloud import INSTALLATION_MAX, LINKED_BEFORE, REGIONS
from tidings.lab.dependable.e25 import ACKNOWLEDGEMENTS, CARRYING
from tidings.lab.dependable.e25 import EXPERIMENT as E25
from tidings.lab.experiment import Scale
from tidings.lab.report import write_report
from tidings.lab.run import Judged, LabOrder, judge_folder, judge_place, order_of, run_experiment
from tidings.spark.place import place_of
from tidings.spark.sweeps import Progress
from tidings.spark.sweeps.provenance import definition_digest
from tidings.spark.sweeps.table import RESULTS, TRACES

pytestmark = pytest.mark.spark

TINY = msgspec.structs.replace(
    E25,
    variants=E25.variants[:2],
    scales={"small": Scale({"brokers": 6, "kind": "mixed", "history": 120.0, "seconds": 15.0, "joining": 2.0}, 2)},
)
"""Under the number of E25: the report finds the definition by it."""

ORDER = order_of(TINY, "small", None)
GROUP = "5 joins/s"


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    return run_experiment(spark, TINY, ORDER, tmp_path_factory.mktemp("lab"))


def measures_of(place: Path, row: dict[str, Any]) -> dict[str, float]:
    """What the trace of a run says, row by row."""
    rows = read_table(place / "runs").to_pylist()
    trace = [each for each in rows if each["table"] == TRACES and each["run"] == row["run"]]
    sent = [each["message"] for each in trace if each["kind"] == "send" and each["node"] in REGIONS]
    counted = [kind for kind in sent if row["parameters"]["system"] != "plain" or kind not in ACKNOWLEDGEMENTS]
    begun = {each["node"]: each["time"] for each in trace if each["kind"] == "start"}
    published = {each["key"]: each["time"] for each in trace if each["kind"] == "publish"}
    delays: dict[str, list[float]] = {}
    for each in trace:
        if each["kind"] == "deliver" and each["message"] == "Event":
            accepted_at = json.loads(each["detail"])["accepted_at"]
            if accepted_at > begun[each["node"]] + LINKED_BEFORE + INSTALLATION_MAX:
                delays.setdefault(each["node"], []).append(each["time"] - published[each["key"]])
    carrying = sum(kind in CARRYING for kind in sent)
    latencies = [float(numpy.percentile(mine, 99)) for mine in delays.values()]
    return {
        "messages": len(counted) / 6,
        "throughput": carrying / row["parameters"]["seconds"] / 6,
        "latency": sum(latencies) / len(latencies),
    }


def pairs(place: Path) -> list[tuple[dict[str, float], dict[str, float]]]:
    found = {(row["parameters"]["system"], row["seed"]): measures_of(place, row) for row in read_rows(place / "runs")}
    return [(found["guarantees", seed], found["plain", seed]) for seed in (1, 2)]


def test_every_file_that_an_experiment_promises_is_there(judged: Judged) -> None:
    place = judged.place.path
    assert place.parts[-3:] == ("dependable", "E25", "small")
    names = {path.name for path in place.iterdir()}
    assert names >= {"order.json", "runs", "figures.parquet", "plot.png", "plot.svg"}
    assert names >= {"table.csv", "table.json", "table.parquet"}
    assert msgspec.json.decode((judged.place / "order.json").read_bytes(), type=LabOrder) == ORDER


def test_verdicts_are_those_of_plain_python_over_the_parquet(judged: Judged) -> None:
    changes = {
        figure: interval([ours[figure] / plain[figure] - 1 for ours, plain in pairs(judged.place.path)])
        for figure in ("messages", "throughput", "latency")
    }
    bands = {"messages": (0.0, 0.05), "throughput": (-0.05, 0.05), "latency": (-0.05, 0.05)}
    table = json.loads((judged.place / "table.json").read_bytes())
    rows = {row["figure"]: row for row in table if row["requirement"] == "S-120"}
    assert rows.keys() == bands.keys()
    for figure, row in rows.items():
        assert (row["value"], row["low"], row["high"]) == pytest.approx(changes[figure], abs=1e-5)
        assert (row["group"], row["runs"]) == (GROUP, 2)
        assert row["verdict"] == judged_by_hand(row["low"], row["high"], *bands[figure], figure == "throughput")
    written = parquet.read_table(judged.place.path / "table.parquet").to_pylist()
    assert written == table


def test_traces_that_are_changed_change_the_verdict(spark: SparkSession, judged: Judged, tmp_path: Path) -> None:
    place = tmp_path / "copy"
    shutil.copytree(judged.place.path, place)
    plain = {row["run"] for row in read_rows(place / "runs") if row["parameters"]["system"] == "plain"}
    table = read_table(place / "runs")

    def verdict_with(messages_more: float) -> str:
        changed = [
            row
            for run in {row["run"] for row in table.to_pylist() if row["table"] == RESULTS}
            for row in let_brokers_send(table, run, 6000 if run in plain else round(6000 * (1 + messages_more)))
        ]
        others = [row for row in table.to_pylist() if row["table"] != TRACES]
        write_rows(pyarrow.Table.from_pylist([*changed, *others], table.schema), place / "runs")
        lines = judge_place(spark, TINY, ORDER, place_of(place)).judgements
        [line] = [line for line in lines if line.figure == "messages"]
        assert line.value == pytest.approx(messages_more)
        return line.verdict

    assert (verdict_with(0.04), verdict_with(0.06), verdict_with(-0.1)) == ("reproduced", "missed", "better")


def judged_by_hand(low: float, high: float, least: float, most: float, is_more_good: bool) -> str:
    if least <= low and high <= most:
        return "reproduced"
    if high < least or low > most:
        return "better" if (low > most) == is_more_good else "missed"
    return "undecided"


def let_brokers_send(table: pyarrow.Table, run: str, count: int) -> list[dict[str, Any]]:
    """The trace of a run with so many messages in all, instead of what brokers sent."""
    rows = [row for row in table.to_pylist() if row["table"] == TRACES and row["run"] == run]
    sent = [row for row in rows if row["kind"] == "send" and row["node"] in REGIONS]
    others = [row for row in rows if not (row["kind"] == "send" and row["node"] in REGIONS)]
    first = next(row for row in sent if row["message"] not in ACKNOWLEDGEMENTS)
    return [*others, *[first] * count]


def test_finished_runs_are_not_run_again(spark: SparkSession, judged: Judged) -> None:
    runs = judged.place.path / "runs"
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("*.parquet")}
    told: list[Progress] = []
    again = run_experiment(spark, TINY, ORDER, judged.place.path.parents[2], told.append)
    assert [each.done for each in told] == [4]
    assert {path: path.stat().st_mtime_ns for path in runs.rglob("*.parquet")} == before
    assert again.judgements == judged.judgements


def test_runs_that_fail_are_told_with_their_replay_and_leave_the_rest_to_be_judged(
    spark: SparkSession, tmp_path: Path
) -> None:
    broken = msgspec.structs.replace(TINY, run="tests.lab.broken:fails_for_seed_2")
    judged = run_experiment(spark, broken, order_of(broken, "small", 3), tmp_path)
    assert [(each.seed, each.error.splitlines()[0]) for each in judged.failed] == [
        (2, "seed 2 is bad"),
        (2, "seed 2 is bad"),
    ]
    assert all("tidings.spark.sweeps.replay" in each.replay for each in judged.failed)
    [line] = [line for line in judged.judgements if line.figure == "messages"]
    assert (line.runs, line.value, line.verdict) == (2, 0.0, "reproduced")


def test_the_page_holds_tables_plots_links_and_replays_and_needs_nothing_else(judged: Judged) -> None:
    folder = judged.place.path.parents[2]
    page = write_report(folder, [judged]).read_bytes().decode()
    assert page.count("<svg") == 1
    assert not re.findall(r"<(?:link|script|img)\b", page)
    assert re.findall(r"(?:src|href)=[\"'](http[^\"']*)", page.replace("xlink:href", "")) == []
    for line in judged.judgements:
        assert line.verdict in page and line.measured.partition(" (")[0] in page
    for link in re.findall(r'href="(dependable/[^"]*)"', page):
        assert (folder / link).exists(), link
    assert all(escape(each.replay) in page for each in judged.performed)
    assert "peer-to-peer/E5" in page, "what is not built is listed"


def test_tables_and_page_say_what_runs_were_made_with(spark: SparkSession, judged: Judged) -> None:
    [made] = judged.made_with
    assert made.definition == definition_digest(TINY.run, Path.cwd()) and judged.is_current
    assert (made.version, made.pyspark, made.numpy) == (version("tidings"), pyspark.__version__, numpy.__version__)
    for row in json.loads((judged.place / "table.json").read_bytes()):
        assert (row["version"], row["commit"], row["definition"]) == (made.version, made.commit, made.definition)
    older = msgspec.structs.replace(judged, is_current=False)
    for each, words in ((judged, f"definition {made.definition}"), (older, "has been changed since")):
        assert words in write_report(judged.place.path.parents[2], [each]).read_bytes().decode()


def test_a_folder_without_experiments_says_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no experiment; run one first: tidings lab run"):
        judge_folder(spark, tmp_path)
