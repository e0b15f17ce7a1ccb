"""`tidings lab`: the list, a run whose results are there already, and the page."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.lab.folders import write_results
from tidings.cli.program import run
from tidings.lab.dependable.e23 import EXPERIMENT as E23
from tidings.lab.registry import built, entries
from tidings.lab.run import order_of
from tidings.pubsub.notes import Acknowledged, Promised, ReceiptAsked, Released
from tidings.spark.sweeps.run import Run
from tidings.trace.record import Record
from tidings.trace.writer import Writer


def test_the_list_tells_what_runs_from_what_waits(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "list"]) == 0
    runs, waits = capsys.readouterr().out.split("not built yet")
    assert "dependable/E23" in runs and "dependable/E23" not in waits
    assert "peer-to-peer/E5 " in waits and "feeds among friends" in waits


def test_the_list_as_json_has_every_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "list", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["id"] for each in told] == list(entries())
    assert {each["id"] for each in told if each["is_built"]} == built().keys()


def test_a_name_that_is_not_known_is_called_wrongly(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "run", "dependable/E203"]) == 2
    assert "perhaps dependable/E23, dependable/E20" in capsys.readouterr().err


def happens(run: Run, trace: Writer) -> None:
    """As published, except that receipts save too little memory: five publications are kept for a second, or two until
    the receipt comes. Two of five plain clients get two events before their subscription is in place."""
    is_plain, asked_at = run.parameters["system"] == "plain", 0.95
    trace.record(asked_at, "p0", ReceiptAsked(1, 5 if is_plain else 2))
    if is_plain:
        trace.record(asked_at + 1.0, "p0", Released(1))
    else:
        trace.record(asked_at + 0.09 * float(run.parameters["brokers"]), "p0", Acknowledged(1))
    for client in range(5):
        for number in (1, 2):
            detail = json.dumps({"publisher": "p0", "number": number, "subscription": 1, "accepted_at": 4.0})
            at = 4.0 if is_plain and client < 2 else 6.0
            trace.write(Record(time=at, node=f"s{client}.0", kind="deliver", message="Event", detail=detail))
        trace.record(5.0, f"s{client}.0", Promised(1, "installed"))


@pytest.mark.spark
def test_a_run_prints_published_measured_and_verdict_and_a_missed_band_is_no_error(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    order = order_of(E23, "small", 2)
    write_results(order.place(tmp_path), E23, order, happens=happens)
    assert run(["lab", "run", "dependable/E23", "--seeds", "2", "--folder", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    lines = [line.split("  ") for line in told.splitlines()]
    [memory] = [place for place, line in enumerate(lines) if line[0].startswith("publications in memory")]
    band = "more than 3 times, at most 15 times, more is better (S-118)"
    assert "up to 10 times (7.5.2)" in told.splitlines()[memory] and lines[memory][-1].strip() == band
    assert [cell.strip() for cell in lines[memory + 1] if cell.strip()] == ["3 brokers", "2.50 times", "2", "missed"]
    assert "missed  publications in memory, time-out to receipts: we do not know why" in told
    assert "verdicts   11 reproduced, 4 missed, 6 not judged" in told
    assert f"again      {order.command()}" in told

    assert run(["lab", "report", "--folder", str(tmp_path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["page"] == str(tmp_path / "index.html")
    [experiment] = report["experiments"]
    assert [row["verdict"] for row in experiment["table"]].count("missed") == 4
    assert Path(report["page"]).read_text().count("<section") == 2
