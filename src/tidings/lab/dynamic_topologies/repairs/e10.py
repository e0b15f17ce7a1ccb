"""E10: hops of events to where nobody wants them any more, and what that adds to the cost of a repair."""

from collections.abc import Sequence
from itertools import pairwise

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.repairs.rewired import INFORMED, NOTIFIED, PATH, REPAIRS, STRAWMAN, TIMED, Setting
from tidings.lab.dynamic_topologies.repairs.savings import variants
from tidings.lab.dynamic_topologies.repairs.witness import EVENTS, run
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.figures import measured as measures_of
from tidings.lab.figures import over_seeds, parameter, side_by_side
from tidings.lab.plots import COLOURS, points

RATES = (0.1, 0.4, 1.0, 3.2, 12.8, 51.2)
VARIANTS = variants("event_rate", RATES)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    from tidings.spark.metrics.changes import misrouted_events, reconfiguration_cost

    table = misrouted_events(traces).join(reconfiguration_cost(traces), on="run", how="inner")
    runs = measures_of(results, table, "misrouted_per_reconfiguration", "cost_per_reconfiguration")
    pairs = side_by_side(runs, group=parameter("event_rate"), side=parameter("repair"))
    of = {repair: F.col("sides")[repair] for repair in REPAIRS}
    astray = {repair: side["misrouted_per_reconfiguration"] for repair, side in of.items()}
    cost = {repair: side["cost_per_reconfiguration"] for repair, side in of.items()}
    ranking = (TIMED, NOTIFIED, INFORMED, PATH, STRAWMAN)
    return over_seeds(
        pairs,
        {
            **{f"misrouted, {repair}": value for repair, value in astray.items()},
            **{f"saved, {repair}": 1 - cost[repair] / cost[STRAWMAN] for repair in REPAIRS if repair != STRAWMAN},
            **{f"misrouted, {more} less {fewer}": astray[more] - astray[fewer] for more, fewer in pairwise(ranking)},
        },
    )


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    panels = canvas.subplots(1, 2)
    for axes, kind, title, scale in zip(
        panels,
        ("misrouted", "saved"),
        ("misrouted hops of a change", "saved beside STRAWMAN, %"),
        (1, 100),
        strict=True,
    ):
        for repair, colour in zip(REPAIRS, COLOURS, strict=False):
            at, values = points(measured, f"{kind}, {repair}", scale)
            if at:
                axes.plot(at, values, ".-", color=colour, label=repair)
        axes.set(title=title, xlabel="events a second of each dispatcher", xscale="log")
    if panels[0].lines:
        panels[0].legend()


EXPERIMENT = define(__file__, run=run, setting=Setting, variants=VARIANTS, figures=figures, plot=plot, sweep=EVENTS)
