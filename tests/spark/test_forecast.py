"""Forecasts of popularity: what they are made of, and that they are judged by what comes later."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidings.model.errors import UsageError
from tidings.spark.forecast import compare, forecast, rates_of
from tidings.spark.workloads import frame
from tidings.workloads.registry import make

pytestmark = pytest.mark.spark


def test_rates_have_a_row_for_every_interval_also_without_events(spark: SparkSession) -> None:
    events = spark.createDataFrame([("a", 0.5), ("a", 1.0), ("b", 6.5)], "topic STRING, at DOUBLE")
    rows = (
        rates_of(events, advertisement="topic", time="at", interval=2.0).orderBy("advertisement", "interval").collect()
    )
    assert [tuple(row) for row in rows] == [
        *(("a", 0, 1.0), ("a", 1, 0.0), ("a", 2, 0.0), ("a", 3, 0.0)),
        *(("b", 0, 0.0), ("b", 1, 0.0), ("b", 2, 0.0), ("b", 3, 0.5)),
    ]


def test_a_rate_that_always_halves_is_foreseen_and_naively_not(spark: SparkSession) -> None:
    rows = [(f"t{topic}", place, 1000.0 * topic / 2**place) for topic in range(1, 9) for place in range(8)]
    found = forecast(spark.createDataFrame(rows, "advertisement STRING, interval LONG, rate DOUBLE"), lags=2)
    [told] = compare(found).collect()
    assert told.forecasts == 8 * 3 and told.forecast_error < 0.1 * told.naive_error
    for row in found.collect():
        assert row.naive == pytest.approx(2 * row.rate)


def test_what_comes_later_does_not_help(spark: SparkSession) -> None:
    rows = [(f"t{topic}", place, float((7 * topic + 3 * place) % 11)) for topic in range(6) for place in range(10)]
    other = [(topic, place, rate if place < 9 else 99.0) for topic, place, rate in rows]
    columns = "advertisement STRING, interval LONG, rate DOUBLE"
    one, two = (
        {
            (row.advertisement, row.interval): row.forecast
            for row in forecast(spark.createDataFrame(each, columns)).collect()
        }
        for each in (rows, other)
    )
    assert one == pytest.approx(two)


def test_drifting_popularity_is_forecast_better_than_naively(spark: SparkSession) -> None:
    """Counts of steady rates are noisy, so several intervals say more than the last one."""
    workload = make("drifting", {"seed": 3, "event_count": 40_000, "topics": 100, "subscription_count": 10})
    events = frame(spark, workload, "events")
    rates = rates_of(events, advertisement="topic", time="published_at", interval=20.0)
    [told] = compare(forecast(rates)).collect()
    assert told.forecasts == 100 * 13 and told.forecast_error < told.naive_error


def test_the_popularity_of_real_repositories_too_and_as_the_same_table(spark: SparkSession, data_folder: Path) -> None:
    workload = make("star-popularity", {"seed": 3, "event_count": 100_000, "subscription_count": 10})
    events = frame(spark, workload, "events")
    found = forecast(rates_of(events, advertisement="topic", time="published_at", interval=60.0), lags=3)
    assert found.columns == ["advertisement", "interval", "rate", "naive", "forecast"]
    [told] = compare(found).collect()
    assert told.forecasts > 10_000 and told.forecast_error < told.naive_error


@pytest.mark.parametrize(("lags", "split"), [(0, 0.5), (2, 1.0), (4, 0.5)])
def test_too_little_to_learn_from_is_refused(spark: SparkSession, lags: int, split: float) -> None:
    rates = spark.createDataFrame(
        [("a", place, 1.0) for place in range(4)], "advertisement STRING, interval LONG, rate DOUBLE"
    )
    with pytest.raises(UsageError):
        forecast(rates, lags=lags, split=split)
