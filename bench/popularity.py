"""`python -m bench.popularity`: how far forecasts of popularity are off, beside the naive one. Errors, no times.

    drifting            events of 100 topics whose popularity is made up, in intervals of 20 s
    star-popularity     events of some thousand repositories, drawn as their stars moved over two years, in 20 s
    stars               the stars themselves: what each repository gained a day between four real days; one lag, since
                        three intervals are all there is

An error is the mean over all advertisements and intervals that the model has not learnt from, in events (or stars) a
second (or day). Three seeds of each drawing.
"""

from typing import TYPE_CHECKING

from tidings.spark.forecast import compare, forecast, rates_of
from tidings.spark.session import open_session
from tidings.spark.workloads import frame
from tidings.workloads.registry import make

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEEDS = (3, 4, 5)
INTERVAL = 20.0
DRAWN = {
    "drifting": {"event_count": 40_000, "topics": 100, "subscription_count": 10},
    "star-popularity": {"event_count": 400_000, "subscription_count": 10},
}
SECONDS_A_DAY = 86400.0


def drawn_rates(spark: "SparkSession", name: str, seed: int) -> "DataFrame":
    events = frame(spark, make(name, {"seed": seed, **DRAWN[name]}), "events")
    return rates_of(events, advertisement="topic", time="published_at", interval=INTERVAL)


def gained_rates(spark: "SparkSession") -> "DataFrame":
    """(advertisement, interval, rate): stars a day that each repository won between two of the days. A repository that
    is not there on each of them is left out: nobody knows what it won."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    stars = frame(spark, make("stars", {}), "events").select("repo", "time", F.col("stars").cast("double"))
    days = stars.select("time").distinct().count()
    in_time = Window.partitionBy("repo").orderBy("time")
    gained = F.col("stars") - F.lag("stars").over(in_time)
    passed = (F.unix_timestamp("time") - F.unix_timestamp(F.lag("time").over(in_time))) / SECONDS_A_DAY
    return (
        stars.select(
            F.col("repo").alias("advertisement"),
            F.row_number().over(in_time).alias("interval"),
            F.greatest(gained / passed, F.lit(0.0)).alias("rate"),
            F.count("*").over(Window.partitionBy("repo")).alias("seen"),
        )
        # Of the first day nobody knows what was won before.
        .where((F.col("seen") == days) & (F.col("interval") > 1))
        .drop("seen")
    )


def tell(name: str, forecasts: "DataFrame") -> None:
    [told] = compare(forecasts).collect()
    share = told.forecast_error / told.naive_error
    print(
        f"{name:18} forecasts {told.forecasts:7}  naive {told.naive_error:.5f}  model {told.forecast_error:.5f}  "
        f"model/naive {share:.2f}",
        flush=True,
    )


def main() -> None:
    spark = open_session()
    for name in DRAWN:
        for seed in SEEDS:
            tell(f"{name} {seed}", forecast(drawn_rates(spark, name, seed)))
    tell("stars", forecast(gained_rates(spark), lags=1))
    spark.stop()


if __name__ == "__main__":
    main()
