"""Waits that are learned beside those of E8 and E9, which are set by hand. An experiment of our own."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.repairs.rewired import INFORMED, NOTIFIED, TIMED, Setting
from tidings.lab.dynamic_topologies.repairs.witness import run
from tidings.lab.experiment import Canvas, DataFrame, Measured, Parameter, Variant
from tidings.lab.figures import measured as measures_of
from tidings.lab.figures import over_seeds, side_by_side
from tidings.lab.plots import bars

UNSUBSCRIBE, SUBSCRIBE = ("0.0", "0.09", "0.11", "0.15", "0.24", "0.26", "0.5"), ("0.02", "0.04", "0.06", "0.15", "0.5")
"""Those of E8 and E9."""
LEARNED = "learned"

FAST = {"changes_rate": 30.0, "until": 11.0}
SETTINGS: dict[str, tuple[dict[str, Parameter], str, tuple[str, ...]]] = {
    "E8, timed": ({**FAST, "repair": TIMED}, "unsubscribe_after", UNSUBSCRIBE),
    "E8, notified": ({**FAST, "repair": NOTIFIED}, "unsubscribe_after", UNSUBSCRIBE),
    "E8, informed": ({**FAST, "repair": INFORMED, "has_flush": False}, "unsubscribe_after", UNSUBSCRIBE),
    "E9, informed": ({"until": 11.0, "repair": INFORMED, "has_flush": False}, "subscribe_after", SUBSCRIBE),
    "seldom, with events": (
        {
            "repair": TIMED,
            "changes_rate": 0.4,
            "dispatchers": 30,
            "event_rate": 5.0,
            "end": 203.0,
            "until": 206.0,
        },
        "unsubscribe_after",
        ("0.09", "0.11", "0.15", "0.5", "1.5"),
    ),
}
"""What is common to the runs of a setting, which wait is varied, and its values."""


def variants() -> tuple[Variant, ...]:
    made = []
    for name, (common, varied, values) in SETTINGS.items():
        made += [Variant(f"{name}: {value}", {**common, varied: float(value)}) for value in values]
        learned = {"is_tuned": True, "unsubscribe_after": 1.5, "subscribe_after": 1.5}
        made.append(Variant(f"{name}: {LEARNED}", {**common, **learned}))
    return tuple(made)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    from tidings.spark.metrics.changes import reconfiguration_cost

    runs = measures_of(results, reconfiguration_cost(traces), "cost_per_reconfiguration")
    name = F.split("variant", ": ")
    pairs = side_by_side(runs, group=name[0], side=name[1])
    every = sorted({value for _, _, values in SETTINGS.values() for value in values})
    cost = {wait: F.col("sides")[wait]["cost_per_reconfiguration"] for wait in (*every, LEARNED)}
    best = F.least(*(cost[wait] for wait in every))
    return over_seeds(
        pairs, {"beside the best": cost[LEARNED] / best, **{f"cost, {wait}": value for wait, value in cost.items()}}
    )


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    bars(axes, measured, {"beside the best": "learned"})
    axes.set(title="cost beside that of the best fixed wait")


EXPERIMENT = define(__file__, run=run, setting=Setting, variants=variants(), figures=figures, plot=plot)
