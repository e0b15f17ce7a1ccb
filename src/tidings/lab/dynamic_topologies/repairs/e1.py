"""E1: what is delivered while links are replaced, and whether everything is once they are not."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.repairs.rewired import PATH, REPAIRS, STRAWMAN, Setting
from tidings.lab.dynamic_topologies.repairs.witness import run
from tidings.lab.experiment import Canvas, Column, DataFrame, Measured, Variant
from tidings.lab.figures import over_seeds, parameter, side_by_side
from tidings.lab.plots import bars

LOW, HIGH = 3.0, 30.0

VARIANTS = tuple(
    Variant(
        f"{repair}, {rate:g} a second",
        {"repair": repair, "changes_rate": rate, "core": 0.5, "density": 0.5},
    )
    for rate in (LOW, HIGH)
    for repair in REPAIRS
    if repair != PATH or rate == LOW  # it does not allow for changes that overlap
)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    pairs = side_by_side(
        results, group=F.concat(parameter("changes_rate"), F.lit(" a second")), side=parameter("repair")
    )
    of = {repair: F.col("sides")[repair] for repair in REPAIRS}
    plain = of[STRAWMAN]
    return over_seeds(
        pairs,
        {
            **{f"delivered during, {name}": share(side, "during") for name, side in of.items()},
            **{f"delivered after, {name}": share(side, "after") for name, side in of.items()},
            **{f"misrouted after, {name}": side["misrouted after"] for name, side in of.items()},
            **{
                f"beside strawman, {name}": share(side, "during") - share(plain, "during")
                for name, side in of.items()
                if name != STRAWMAN
            },
        },
    )


def share(side: Column, phase: str) -> Column:
    return side[f"delivered {phase}"] / side[f"due {phase}"]


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    bars(axes, measured, {f"delivered during, {name}": name for name in REPAIRS})
    axes.set(title="delivered while links are replaced", ylim=(0.5, 1.0))


EXPERIMENT = define(__file__, run=run, setting=Setting, variants=VARIANTS, figures=figures, plot=plot)
