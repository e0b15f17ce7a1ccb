"""What the congestion experiments read in their traces, with Spark, and how they draw it over time.

Losses, rates, fairness and feedback are metrics (`spark/metrics/`: delivery, traffic, congestion). What is due is found
in the trace: an event is owed to those who want it, unless its publisher withheld it (`sent`). Metrics of a part of the
run are those of a part of the trace (`within`). No metric tells how long events travel once they have left their
publisher, nor counts in spans shorter than a second; both are counted here (`travel`, `in_spans`).
"""

from collections.abc import Mapping, Sequence

from tidings.lab.experiment import Axes, Column, DataFrame, Measured
from tidings.lab.figures import summarise, union
from tidings.lab.plots import COLOURS, points
from tidings.lab.transport.substrate import WARM_UP
from tidings.protocols.transport.congestion.sender import WITHHELD

POINT = 2
"""Seconds of one point of a line."""


def sent(traces: DataFrame, owed: DataFrame) -> DataFrame:
    """Of what is owed (run, key, node), what was not withheld."""
    from pyspark.sql import functions as F

    withheld = traces.where((F.col("kind") == "drop") & (F.col("reason") == WITHHELD)).select("run", "key")
    return owed.join(withheld, on=["run", "key"], how="left_anti")


def owed_to_pairs(traces: DataFrame) -> DataFrame:
    """Of a bottleneck: run, key, node."""
    from pyspark.sql import functions as F

    said = F.from_json("detail", "pair BIGINT, wanted BIGINT")
    published = traces.where("kind = 'publish'").withColumn("said", said).where("said.wanted = 1")
    return sent(traces, published.select("run", "key", F.concat(F.lit("s"), "said.pair").alias("node")))


def within(results: DataFrame, traces: DataFrame, begin: Column, end: Column) -> DataFrame:
    """The rows from one time of the workload to another; both are columns of the results."""
    from pyspark.sql import functions as F

    spans = results.select("run", (begin + WARM_UP).alias("begin"), (end + WARM_UP).alias("end"))
    rows = traces.join(F.broadcast(spans), on="run", how="inner").where("time >= begin AND time < end")
    return rows.drop("begin", "end")


def travel(traces: DataFrame) -> DataFrame:
    """Mean time from when events left their publisher until they were delivered, of those that were not repaired:
    run, travel."""
    from pyspark.sql import functions as F

    direct = traces.where("kind = 'deliver' AND message = 'Event' AND NOT contains(detail, 'repaired')")
    left_at = F.get_json_object("detail", "$.accepted_at").cast("double")
    return direct.groupBy("run").agg(F.avg(F.col("time") - left_at).alias("travel"))


def carried(traces: DataFrame) -> DataFrame:
    """By TCP flows and links, second by second: run, node, second, amount."""
    from pyspark.sql import functions as F

    notes = traces.where("kind = 'note' AND message = 'carried'")
    amount = F.get_json_object("detail", "$.amount").cast("double").alias("amount")
    return notes.select("run", "node", F.floor("time").alias("second"), amount)


def in_spans(traces: DataFrame, owed: DataFrame, span: float) -> DataFrame:
    """Of each span, what was delivered in it, and what of the events published in it was missed: run, place, delivered,
    missed."""
    from pyspark.sql import functions as F

    place = F.floor((F.col("time") - WARM_UP) / span).alias("place")
    arrived = traces.where("kind = 'deliver' AND message = 'Event'")
    delivered = arrived.groupBy("run", place).agg(F.count("*").alias("delivered"))
    lacking = owed.join(arrived.select("run", "key", "node"), on=["run", "key", "node"], how="left_anti")
    published = traces.where("kind = 'publish'").select("run", "key", place)
    missed = lacking.join(published, on=["run", "key"], how="inner").groupBy("run", "place")
    return delivered.join(missed.agg(F.count("*").alias("missed")), on=["run", "place"], how="full").na.fill(0)


def together(*tables: DataFrame) -> DataFrame:
    """Tables by run, side by side; the first has every run."""
    first, *others = tables
    for each in others:
        first = first.join(each, on="run", how="left")
    return first


def lines(results: DataFrame, table: DataFrame, figures: Mapping[str, str]) -> DataFrame:
    """Columns of a table by second as lines over time: figure, group (seconds), value, ... The name of a figure may
    hold {variant}; what is missing in a second is 0."""
    from pyspark.sql import functions as F

    group = (F.floor((F.col("second") - WARM_UP) / POINT) * POINT + POINT / 2).cast("string").alias("group")
    known = table.where(F.col("second") >= WARM_UP).join(results.select("run", "variant"), on="run", how="inner")
    samples = [
        known.groupBy("run", "variant", group)
        .agg((F.sum(column) / POINT).alias("value"))
        .select(F.replace(F.lit(name), F.lit("{variant}"), F.col("variant")).alias("figure"), "group", "value")
        for name, column in figures.items()
    ]
    return summarise(union(samples))


def draw_lines(axes: Axes, measured: Sequence[Measured], figures: Mapping[str, str], columns: int = 3) -> None:
    """A line for each of the figures, with its label; so many labels side by side."""
    for colour, (figure, label) in zip(COLOURS, figures.items(), strict=False):
        axes.plot(*points(measured, figure), color=colour, label=label, linewidth=1.2)
    axes.set_xlabel("seconds")
    axes.set_ylim(bottom=0.0)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=columns)
