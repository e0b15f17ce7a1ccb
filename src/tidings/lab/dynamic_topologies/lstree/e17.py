"""E17: degrees in the tree at the end of a run.

Degrees are of the whole tree and are taken inside the run.
"""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.lstree.churned import (
    CATASTROPHE,
    CHURN,
    PUBLISHED,
    TREES,
    measured_figures,
    run,
    variants,
)
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.figures import over_seeds, parameter, side_by_side, union
from tidings.lab.plots import bars


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    return union([measured_figures(results, "top degree", "degree two", "leaves"), with_two(results)])


def with_two(results: DataFrame) -> DataFrame:
    """Seed by seed, how many nodes with two neighbours fewer there are where degrees have a least."""
    from pyspark.sql import functions as F

    pairs = side_by_side(results, group=parameter("scenario"), side=parameter("instance"))
    share = {name: F.col("sides")[name]["degree two"] for name in ("RDGM", "RUmDGM", "DUmRGM")}
    figures = {
        "fewer with two, RUmDGM": share["RDGM"] - share["RUmDGM"],
        "fewer with two, DUmRGM": share["RDGM"] - share["DUmRGM"],
        "fewer still, DUmRGM": share["RUmDGM"] - share["DUmRGM"],
    }
    return over_seeds(pairs, figures)


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    top, two = canvas.subplots(1, 2)
    bars(top, measured, {"top degree": "greatest"})
    top.set(title="greatest degree", ylabel="neighbours")
    bars(two, measured, {"degree two": "two", "leaves": "one"}, scale=100)
    two.set(title="nodes with one and two neighbours", ylabel="%")


EXPERIMENT = define(
    __file__,
    run=run,
    variants=(*variants(CATASTROPHE, *PUBLISHED, "Overcast+G"), *variants(CHURN, *PUBLISHED, "Overcast+G")),
    figures=figures,
    plot=plot,
    sweep=TREES,
)
