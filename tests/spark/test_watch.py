"""`tidings watch`: what it prints of traces that are being written, and what it publishes."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.live_world import ThreadBroker, patiently
from tests.spark.test_live_metrics import folded, in_order, lines
from tidings.cli.program import run


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--table", "paris"], "there is no such table; choose from pairs, nodes"),
        (["--table", "publishers"], "there is no such table; choose from pairs, nodes"),
        (["--alert", "holes > 0", "--url", "tidings://x"], "write it as TABLE:CONDITION"),
        (["--alert", "pairs:holes > 0"], "say where alerts are published"),
    ],
)
def test_what_cannot_be_watched_is_refused_before_spark_starts(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDINGS_URL", raising=False)
    assert run(["watch", "traces", *words]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.spark
def test_rows_are_printed_and_those_of_an_alert_come_back_as_events(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = in_order(range(60))
    traces = tmp_path / "traces"
    traces.mkdir()
    (traces / "a.partial.jsonl").write_bytes(lines(*records))
    expected = {key[0]: values for key, values in folded("latency", records, 7).items()}
    alarmed = {name for name, values in expected.items() if values["timed"] > 2}
    columns = "type STRING, subject STRING, condition STRING, run STRING, timed LONG"
    with ThreadBroker("b") as broker:
        words = ["watch", str(traces), "--once", "--table", "latency", "--url", broker.url, "--json"]
        words += ["--alert", "latency:timed > 2", "--checkpoint", str(tmp_path / "checkpoint")]
        assert patiently(lambda: run(words)) == 0
        told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert patiently(lambda: run(words)) == 0, "there is nothing new"
        assert capsys.readouterr().out == ""
        events = spark.read.format("tidings").schema(columns).option("url", broker.url).load().collect()
    assert {row["run"]: row["timed"] for row in told} == {name: values["timed"] for name, values in expected.items()}
    assert alarmed and {tuple(event) for event in events} == {
        ("tidings.alert", "latency", "timed > 2", name, expected[name]["timed"]) for name in alarmed
    }
    assert len(events) == len(alarmed)


@pytest.mark.spark
def test_a_network_is_watched_without_traces_and_its_alerts_are_no_news(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ThreadBroker("b") as broker:
        broker.publish("desk", [{"n": n, "time": "2026-11-18T11:00:00Z"} for n in range(30)])
        words = ["watch", broker.url, "--once", "--json", "--checkpoint", str(tmp_path / "checkpoint")]
        words += ["--alert", "publishers:events >= 30"]
        assert patiently(lambda: run(words)) == 0
        told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        columns = "type STRING, subject STRING, of_publisher STRING, events LONG"
        [alert] = alerts_in(spark, broker.url, columns)
        assert patiently(lambda: run([*words, "--table", "publishers"])) == 0
        assert capsys.readouterr().out == "", "an alert is no news"
        assert len(alerts_in(spark, broker.url, columns)) == 1
    by_table = {row["table"]: row for row in told}
    assert by_table.keys() == {"publishers", "acceptance", "loads"}, "nothing was dropped"
    assert (by_table["publishers"]["events"], by_table["publishers"]["holes"]) == (30, 0)
    assert by_table["acceptance"]["timed"] == 30 and by_table["loads"]["load"] > 0
    assert (alert.type, alert.subject, alert.events) == ("tidings.alert", "publishers", 30)
    assert alert.of_publisher == by_table["publishers"]["publisher"]


def alerts_in(spark: SparkSession, url: str, columns: str) -> list[Any]:
    reader = spark.read.format("tidings").schema(columns).options(url=url, filter="type = 'tidings.alert'")
    return reader.load().collect()
