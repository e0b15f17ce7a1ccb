"""How popular advertisements will be: rates of the next interval, from those of the intervals before.

    rates = rates_of(events, advertisement="topic", time="published_at", interval=30.0)
    forecasts = forecast(rates, lags=4)             # advertisement, interval, rate, naive, forecast
    compare(forecasts).show()                       # forecasts, naive_error, forecast_error

Placement and popularity-based routing want to know who will publish much *soon*, not who did. `forecast` is a table,
and no more: whoever plans reads it.

**The naive baseline** says that the next interval is like the last. It is hard to beat where rates move like a random
walk, and easy where they are steady but counted with noise.

**The model** is a linear regression (Spark ML) over the last `lags` intervals, in logarithms, so that an advertisement
of ten events that doubles is like one of ten thousand that does; one model for all advertisements, since most of them
have too few intervals for one of their own. What it is judged by, and what placement pays for, are events: so an
advertisement weighs as much as it publishes, and as much as all do on average besides, so that the many small ones
count, too. It learns from the intervals before `split`, and everything it is judged by lies behind. Nothing is drawn:
the same rates give the same forecasts, to the last digits of a float.

An interval in which an advertisement published nothing has the rate 0, also before its first event.
"""

from typing import TYPE_CHECKING

from tidings.model.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LAGS_MAX = 64


def rates_of(events: "DataFrame", *, advertisement: str, time: str, interval: float) -> "DataFrame":
    """(advertisement, interval, rate): events in a second, for every advertisement and every interval from the first
    to the last. `time` is in seconds."""
    if interval <= 0:
        raise UsageError(f"interval {interval}: give seconds, more than 0")
    from pyspark.sql import functions as F

    counted = events.groupBy(
        F.col(advertisement).cast("string").alias("advertisement"),
        F.floor(F.col(time) / F.lit(interval)).alias("interval"),
    ).count()
    ends = counted.agg(F.min("interval").alias("first"), F.max("interval").alias("last"))
    every = ends.select(F.explode(F.sequence("first", "last")).alias("interval"))
    filled = counted.select("advertisement").distinct().crossJoin(every)
    rate = (F.coalesce(F.col("count"), F.lit(0)) / F.lit(float(interval))).alias("rate")
    return filled.join(counted, on=["advertisement", "interval"], how="left").select("advertisement", "interval", rate)


def forecast(rates: "DataFrame", *, lags: int = 4, split: float = 0.5) -> "DataFrame":
    """(advertisement, interval, rate, naive, forecast) of the intervals behind `split`, a share of all; what is known
    of an interval beforehand are the `lags` before it."""
    if not 1 <= lags <= LAGS_MAX or not 0 < split < 1:
        raise UsageError(f"lags {lags}, split {split}: give 1 to {LAGS_MAX} lags, and a split between 0 and 1")
    from pyspark.ml.feature import VectorAssembler
    from pyspark.ml.regression import LinearRegression
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    ends = rates.agg(F.min("interval"), F.max("interval")).first()
    if ends is None or ends[0] is None or ends[1] - ends[0] < lags + 1:
        raise UsageError(f"rates of too few intervals for {lags} lags: give at least {lags + 2}, or fewer lags")
    in_time = Window.partitionBy("advertisement").orderBy("interval")
    names = [f"lag{back}" for back in range(1, lags + 1)]
    known = rates.select(
        *("advertisement", "interval", "rate", F.log1p("rate").alias("wanted")),
        F.lag("rate", 1).over(in_time).alias("naive"),
        *(F.log1p(F.lag("rate", back).over(in_time)).alias(name) for back, name in enumerate(names, 1)),
        (sum((F.lag("rate", back).over(in_time) for back in range(1, lags + 1)), F.lit(0.0)) / lags).alias("usual"),
    ).where(F.col(names[-1]).isNotNull())
    rows = VectorAssembler(inputCols=names, outputCol="features").transform(known)
    # At least one interval to learn from, and one to be judged by.
    first, last = ends[0] + lags, ends[1]
    begin = min(max(int(first + split * (last - first + 1)), first + 1), last)
    learnt = rows.where(F.col("interval") < begin)
    of_all = learnt.agg(F.avg("usual")).first()
    assert of_all is not None
    model = LinearRegression(featuresCol="features", labelCol="wanted", predictionCol="said", weightCol="weight").fit(
        learnt.withColumn("weight", F.col("usual") + F.lit(of_all[0] or 1.0))
    )
    predicted = model.transform(rows.where(F.col("interval") >= begin))
    said = F.greatest(F.expm1("said"), F.lit(0.0)).alias("forecast")
    answer: DataFrame = predicted.select("advertisement", "interval", "rate", "naive", said)
    return answer


def compare(forecasts: "DataFrame") -> "DataFrame":
    """One row: how many forecasts, and by how much they are off in the mean, the naive ones and the model's."""
    from pyspark.sql import functions as F

    return forecasts.agg(
        F.count("*").alias("forecasts"),
        F.avg(F.abs(F.col("naive") - F.col("rate"))).alias("naive_error"),
        F.avg(F.abs(F.col("forecast") - F.col("rate"))).alias("forecast_error"),
    )
