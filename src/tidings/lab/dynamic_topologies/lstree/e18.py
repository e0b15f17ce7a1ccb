"""E18: how far from the failure links change.

The area of a repair is about the whole tree, and is taken inside the run (`churned.py`).
"""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.lstree.churned import (
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

ORDER = (
    ("RMG", "RDGM"),
    ("RDGM", "DRGM"),
    ("RDGM", "RUmDGM"),
    ("DRGM", "RUmDGM"),
    ("DRGM", "DUmRGM"),
    ("RUmDGM", "DUmRGM"),
)
"""Who changes links nearer to the failure than whom, as published; of the fourth pair neither."""


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    measured = measured_figures(results, "area one", "area below 1.5", "area below 2", "area below 3")
    return union([measured, in_order(results)])


def in_order(results: DataFrame) -> DataFrame:
    """Seed by seed, how many more repairs of one instance have an area of one than of the next."""
    from pyspark.sql import functions as F

    pairs = side_by_side(results, group=parameter("scenario"), side=parameter("instance"))
    share = {name: F.col("sides")[name]["area one"] for name in PUBLISHED}
    return over_seeds(pairs, {f"more, {one} than {other}": share[one] - share[other] for one, other in ORDER})


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    shown = canvas.subplots(1, 1)
    bars(shown, measured, {"area one": "1", "area below 2": "below 2", "area below 3": "below 3"}, scale=100)
    shown.set(title="repairs by their area", ylabel="%")


EXPERIMENT = define(__file__, run=run, variants=variants(CHURN, *PUBLISHED), figures=figures, plot=plot, sweep=TREES)
