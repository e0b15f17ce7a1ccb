"""E11: events that go where they are wanted beside what repairs cost, at two rates of changes."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.repairs.rewired import INFORMED, REPAIRS, STRAWMAN, Setting
from tidings.lab.dynamic_topologies.repairs.savings import variants
from tidings.lab.dynamic_topologies.repairs.witness import EVENTS, run
from tidings.lab.experiment import Canvas, DataFrame, Measured, Variant
from tidings.lab.figures import measured as measures_of
from tidings.lab.figures import over_seeds, parameter, side_by_side
from tidings.lab.plots import COLOURS, points

RATES = (0.4, 1.0, 3.2)
HIGH = 30.0
FREQUENT = tuple(
    Variant(f"{each.name}, {HIGH:g} changes a second", {**each.parameters, "changes_rate": HIGH})
    for each in variants("event_rate", RATES, (STRAWMAN, INFORMED))
)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    from tidings.spark.metrics.changes import misrouted_events, reconfiguration_cost

    hops = results.select("run", F.col("measures")["event hops"].alias("hops"))
    table = misrouted_events(traces).join(reconfiguration_cost(traces), on="run", how="inner").join(hops, on="run")
    table = table.select(
        "run",
        (F.col("cost_per_reconfiguration") * F.col("reconfigurations")).alias("overhead"),
        (F.col("hops") - F.col("misrouted")).alias("goodput"),
    )
    runs = measures_of(results, table, "overhead", "goodput")
    often = F.when(parameter("changes_rate").isNull(), "").otherwise(", frequent changes")
    pairs = side_by_side(runs, group=F.concat(parameter("event_rate"), often), side=parameter("repair"))
    of = {repair: F.col("sides")[repair] for repair in REPAIRS}
    return over_seeds(
        pairs, {f"events of overhead, {name}": side["goodput"] / side["overhead"] for name, side in of.items()}
    )


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    for repair, colour in zip(REPAIRS, COLOURS, strict=False):
        at, values = points([each for each in measured if "," not in each.group], f"events of overhead, {repair}")
        if at:
            axes.plot(at, values, ".-", color=colour, label=repair)
    axes.set(
        title="hops of events for one message of overhead", xlabel="events a second of each dispatcher", xscale="log"
    )
    if axes.lines:
        axes.legend()


EXPERIMENT = define(
    __file__,
    run=run,
    setting=Setting,
    variants=(*variants("event_rate", RATES), *FREQUENT),
    figures=figures,
    plot=plot,
    sweep=EVENTS,
)
