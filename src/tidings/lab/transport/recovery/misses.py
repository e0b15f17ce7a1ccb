"""What E10 to E16 compute of their runs, with Spark: who missed what, and variants side by side.

What is due is found in the trace itself: every event is owed to those whose `interest` notes name its publisher and the
value of one of its attributes. What became of it is counted by the metrics (`spark/metrics/`).

    table = missed(traces, between(expected(traces)))          # run, expected, false_negatives, false_negative_share
    pairs = compared(results, table, "false_negative_share")   # group, seed, sides: by way of recovery
    over_seeds(pairs, {"R = 10 against none": ratio("R = 10", NOT_RECOVERED, "false_negative_share")})

The first and the last event that a receiver is owed by a publisher do not count (`between`): what came before its first
is not missed by it, and no event follows that could tell of its last. In five minutes these are few, in six seconds
one in five.

A *group* is a network ("12 brokers"), a *way* is how losses are recovered there ("R = 10, additions"); together they
are a variant.
"""

from collections.abc import Sequence

from tidings.lab.experiment import Column, DataFrame
from tidings.lab.figures import measured, parameter, side_by_side
from tidings.lab.transport.recovery.lossy_tree import EVERYBODY, NOT_RECOVERED
from tidings.spark.metrics.delivery import DELIVERY, delivery_ratio, false_negatives

INTEREST = "publisher STRING, name STRING, value STRING, share DOUBLE"
ATTRIBUTES = ("topic", "place")


def group() -> Column:
    from pyspark.sql import functions as F

    loss = F.when(parameter("loss", "double") != 0.01, F.concat(F.lit(", loss "), parameter("loss")))
    return F.concat(parameter("brokers"), F.lit(" brokers"), F.coalesce(loss, F.lit("")))


def way() -> Column:
    from pyspark.sql import functions as F

    record, answers = F.concat(F.lit("R = "), parameter("record")), parameter("answers")
    return (
        F.when(parameter("record", "int") == 0, F.lit(NOT_RECOVERED))
        .when(answers == EVERYBODY, record)
        .otherwise(F.concat(record, F.lit(", "), answers))
    )


def interests(traces: DataFrame) -> DataFrame:
    """run, node, publisher, name, value, share."""
    from pyspark.sql import functions as F

    notes = traces.where("kind = 'note' AND message = 'interest'")
    return notes.select("run", "node", F.from_json("detail", INTEREST).alias("said")).select("run", "node", "said.*")


def expected(traces: DataFrame) -> DataFrame:
    """run, key, node: which event is owed to whom."""
    from pyspark.sql import functions as F

    fields = ", ".join(f"{name} STRING" for name in ATTRIBUTES)
    values = ", ".join(f"'{name}', said.{name}" for name in ATTRIBUTES)
    published = traces.where("kind = 'publish'").withColumn("said", F.from_json("detail", fields))
    told = published.selectExpr(
        "run", "key", "node AS publisher", f"stack({len(ATTRIBUTES)}, {values}) AS (name, value)"
    )
    owed = told.join(interests(traces), on=["run", "publisher", "name", "value"], how="inner")
    return owed.select("run", "key", "node").distinct()


def between(owed: DataFrame) -> DataFrame:
    """Without the first and the last of each pair of publisher and receiver."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    parts = F.split("key", " ")
    pair = Window.partitionBy("run", "node", parts[0]).orderBy(parts[1].cast("long"))
    neighbours = owed.withColumns({"before": F.lag("key").over(pair), "behind": F.lead("key").over(pair)})
    return neighbours.where("before IS NOT NULL AND behind IS NOT NULL").select("run", "key", "node")


def missed(traces: DataFrame, owed: DataFrame, by: Sequence[str] = ()) -> DataFrame:
    """run, expected, delivery_ratio, false_negatives, false_negative_share."""
    return DELIVERY.table([delivery_ratio, false_negatives], traces, owed, by)


def compared(results: DataFrame, table: DataFrame, *columns: str) -> DataFrame:
    """The ways of recovery side by side, for each group and seed."""
    return side_by_side(measured(results, table, *columns), group=group(), side=way())


def side(name: str, measure: str) -> Column:
    from pyspark.sql import functions as F

    return F.col("sides")[name][measure]


def ratio(one: str, other: str, measure: str) -> Column:
    return side(one, measure) / side(other, measure)
