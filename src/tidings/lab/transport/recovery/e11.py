"""E11: how many fewer events are missed as headers tell of more events before them.

A loss is seen only by a record that tells of it. With a record of one, the very next event of the publisher must reach
us; with ten, one of the next ten.

What is missed is the metric `false_negatives`.
"""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.figures import by_variant, over_seeds
from tidings.lab.plots import COLOURS
from tidings.lab.transport.recovery.lossy_tree import (
    ADDITIONS,
    LARGE,
    NOT_RECOVERED,
    RECEIVERS,
    RUNS,
    SMALL,
    SWEEP,
    run,
    way_of,
)
from tidings.lab.transport.recovery.misses import between, compared, expected, missed, ratio

SHARE = "false_negative_share"
FULL = way_of(10)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    table = missed(traces, between(expected(traces))).cache()
    against = {
        "R = 10 against R = 1": ratio(FULL, way_of(1), SHARE),
        "R = 10 against none": ratio(FULL, NOT_RECOVERED, SHARE),
        "receivers only against none": ratio(way_of(10, RECEIVERS), NOT_RECOVERED, SHARE),
        "additions against none": ratio(way_of(10, ADDITIONS), NOT_RECOVERED, SHARE),
    }
    ratios = over_seeds(compared(results, table, SHARE), against)
    return ratios.unionByName(by_variant(results, table, {"missed": SHARE}))


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    shares = {each.group: 100 * each.value for each in measured if each.figure == "missed"}
    axes = canvas.subplots(1, 2)
    for panel, group in zip(axes, (SMALL, LARGE), strict=True):
        ways = [
            name.removeprefix(f"{group}, ") for name in shares if name.startswith(f"{group}, ") and "loss" not in name
        ]
        panel.barh(range(len(ways)), [shares[f"{group}, {name}"] for name in ways], 0.7, color=COLOURS[1])
        panel.set_yticks(range(len(ways)), ways)
        panel.invert_yaxis()
        panel.grid(axis="x")
        panel.set(title=group, xlabel="% of deliveries missed")


EXPERIMENT = define(__file__, run=run, variants=RUNS, figures=figures, plot=plot, sweep=SWEEP)
