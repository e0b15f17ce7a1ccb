"""Subscriptions that come and go while a stream of events is matched."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidings import Event, parse
from tidings.model.errors import UsageError
from tidings.spark.matching import match_changing
from tidings.spark.matching.versions import VERSIONS_KEPT

pytestmark = pytest.mark.spark

EVENT_COLUMNS, CHANGE_COLUMNS = "key LONG, price DOUBLE", "subscription LONG, filter STRING, number LONG"
ROUNDS = 5


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    draft = path.with_name(f".{path.name}")
    draft.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    draft.rename(path)


def drawn_changes(rng: Random, first: int) -> list[dict[str, Any]]:
    """Additions, replacements and removals of few subscriptions, an old one now and then, which counts no more."""
    rows = [
        {
            "subscription": rng.randrange(8),
            "filter": f"price > {rng.randrange(100)}" if rng.random() < 0.7 else None,
            "number": first + place,
        }
        for place in range(4)
    ]
    return [*rows, {**rows[0], "filter": "price > 0", "number": 0}]


class Crash(Exception):
    """In the middle of a micro-batch."""


def test_events_are_matched_with_what_holds_at_their_micro_batch_also_after_a_crash(
    spark: SparkSession, tmp_path: Path
) -> None:
    rng = Random(5)
    found: dict[int, list[int]] = {}
    is_crashing = [True]

    def take(matches: DataFrame, batch: int) -> None:
        rows = {row.key: list(row.subscriptions) for row in matches.collect()}
        if is_crashing[0] and rows:
            is_crashing[0] = False
            raise Crash
        found.update(rows)

    def follow() -> None:
        events = spark.readStream.schema(EVENT_COLUMNS).json(str(tmp_path / "events"))
        changes = spark.readStream.schema(CHANGE_COLUMNS).json(str(tmp_path / "changes"))
        writer = match_changing(events, changes, tmp_path / "state", take)
        checkpointed = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        checkpointed.trigger(availableNow=True).start().awaitTermination()

    expected: dict[int, list[int]] = {}
    standing: dict[int, tuple[int, str | None]] = {}
    for turn in range(ROUNDS):
        changes = drawn_changes(rng, 10 * turn + 1) if turn != 3 else []
        prices = {100 * turn + place: float(rng.randrange(110)) for place in range(6)}
        write_lines(tmp_path / "events" / f"{turn}.json", [{"key": k, "price": p} for k, p in prices.items()])
        write_lines(tmp_path / "changes" / f"{turn}.json", changes)
        for change in changes:
            number, _ = standing.get(change["subscription"], (-1, None))
            if change["number"] >= number:
                standing[change["subscription"]] = change["number"], change["filter"]
        for key, price in prices.items():
            held = {name: text for name, (_, text) in standing.items() if text is not None}
            expected[key] = sorted(s for s, text in held.items() if parse(text).matches(Event({"price": price})))
        if turn == 0:
            with pytest.raises(Exception, match="Crash"):
                follow()
        follow()
    assert found == expected
    assert any(found.values()) and len({tuple(subscriptions) for subscriptions in found.values()}) > 3
    assert len(list((tmp_path / "state").glob("*.parquet"))) == VERSIONS_KEPT


def test_tables_and_changes_without_a_number_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = spark.createDataFrame([(1, 2.0)], EVENT_COLUMNS)
    with pytest.raises(UsageError, match="the changes lack filter, number"):
        match_changing(table, spark.range(1).withColumnRenamed("id", "subscription"), tmp_path, print)
    with pytest.raises(UsageError, match="both are streams"):
        match_changing(table, spark.createDataFrame([], CHANGE_COLUMNS), tmp_path, print)
