"""`tidings demo` as a newcomer runs it, only shorter: real brokers, one of them killed."""

import json
import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidings.cli.program import run
from tidings.spark.session import SparkMissing


def test_the_demo_kills_a_broker_and_proves_that_nothing_was_lost(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--seconds", "3", "--flights", "600", "--no-spark", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["published"], summary["lost"], summary["wrong"], summary["twins_differ"]) == (600, 0, 0, False)
    assert all(each["received"] >= each["promised"] for each in summary["subscribers"])
    assert sum(each["promised"] > 0 for each in summary["subscribers"]) >= 5
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.mark.spark
def test_the_demo_reads_its_own_traces_with_spark(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plot = tmp_path / "demo.png"
    assert run(["demo", "--seconds", "3", "--flights", "600", "--plot", str(plot), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    due = {each["name"].replace(" ", "-"): each["promised"] for each in summary["subscribers"]}
    found = {each["subscriber"]: each for each in summary["spark"]["deliveries"]}
    assert {name: each["expected"] for name, each in found.items()} == {n: count for n, count in due.items() if count}
    assert all(each["delivered"] == each["expected"] for each in found.values())
    assert {each["broker"] for each in summary["spark"]["loads"]} == {"desk", "ewr", "hub", "jfk", "lga"}
    assert sum(published for _, published, _ in summary["spark"]["rates"]) == 600
    assert sum(count for _, count in summary["spark"]["late"]) > 0
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_the_demo_ends_with_a_verdict_and_without_java_says_in_one_sentence_why_it_ends_early(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tidings.spark import session

    def missing() -> None:
        raise SparkMissing(session.ADVICE)

    monkeypatch.setattr(session, "find_java", missing)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    assert run(["demo", "--seconds", "2", "--flights", "300", "--plot", str(tmp_path / "none.png")]) == 0
    text = capsys.readouterr().out
    assert "hub is killed" in text
    assert "nothing was lost after a receipt" in text
    assert "\x1b" not in text
    why = text.replace("\n", " ").partition("no analysis of the traces: ")[2]
    assert why.startswith("Spark needs Java 17 or later: install one")
    assert not (tmp_path / "none.png").exists()
