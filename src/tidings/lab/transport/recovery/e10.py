"""E10: whether the workload of the recovery experiments has the published distributions.

Over pairs of publisher and receiver, the share of the publisher's events that the receiver wants; over events, how many
receivers want each. Both are read in the traces of the runs, as they were published.

Measured here, of the trace: it is the workload that is described, and metrics describe what became of it.
"""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.figures import measured, over_seeds
from tidings.lab.plots import COLOURS
from tidings.lab.transport.recovery.lossy_tree import LARGE, SMALL, SWEEP, run, variant
from tidings.lab.transport.recovery.misses import expected, group, interests

BELOW = 0.08
RECEIVERS_DRAWN = 20
STEPS = 20


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    steps = [f"percentile(share, {step / STEPS}) AS share_{step}" for step in range(STEPS + 1)]
    pairs = (
        interests(traces)
        .groupBy("run")
        .agg(
            F.expr(f"avg(CASE WHEN share < {BELOW} THEN 1.0 ELSE 0.0 END)").alias("below"),
            F.max("share").alias("largest"),
            F.avg("share").alias("mean"),
            *(F.expr(step) for step in steps),
        )
    )
    wanted = expected(traces).groupBy("run", "key").agg(F.count("*").alias("receivers"))
    published = traces.where("kind = 'publish'").select("run", "key").join(wanted, on=["run", "key"], how="left")
    counts = [
        f"avg(CASE WHEN coalesce(receivers, 0) <= {count} THEN 1.0 ELSE 0.0 END) AS at_most_{count}"
        for count in range(RECEIVERS_DRAWN + 1)
    ]
    events = published.groupBy("run").agg(
        F.avg(F.coalesce("receivers", F.lit(0))).alias("receivers"), *(F.expr(count) for count in counts)
    )
    columns = {
        "pairs below 0.08": "below",
        "largest match probability": "largest",
        "mean match probability": "mean",
        "receivers of an event": "receivers",
        **{f"match probability, step {step}": f"share_{step}" for step in range(STEPS + 1)},
        **{f"events with at most {count}": f"at_most_{count}" for count in range(RECEIVERS_DRAWN + 1)},
    }
    runs = measured(results, pairs.join(events, on="run", how="inner"), *columns.values())
    return over_seeds(
        runs.withColumn("group", group()), {name: F.col("measures")[column] for name, column in columns.items()}
    )


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    values = {(each.figure, each.group): each.value for each in measured}
    left, right = canvas.subplots(1, 2)
    for colour, network in zip(COLOURS, (SMALL, LARGE), strict=False):
        shares = [values.get((f"match probability, step {step}", network)) for step in range(STEPS + 1)]
        left.plot(shares, [100 * step / STEPS for step in range(STEPS + 1)], color=colour, label=network)
        counts = [values.get((f"events with at most {count}", network)) for count in range(RECEIVERS_DRAWN + 1)]
        right.plot(range(RECEIVERS_DRAWN + 1), [None if each is None else 100 * each for each in counts], color=colour)
    left.set(
        title="match probability of pairs",
        xlabel="share of a publisher's events",
        ylabel="% of pairs with at most so much",
    )
    left.legend(loc="lower right")
    right.set(
        title="receivers of an event", xlabel="receivers", ylabel="% of events with at most so many", ylim=(0, 100)
    )


EXPERIMENT = define(
    __file__, run=run, variants=(variant(12, 0), variant(46, 0)), figures=figures, plot=plot, sweep=SWEEP
)
