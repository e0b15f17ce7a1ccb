"""E20: carrying a plan out, by the share of links that change. `executed.py` is the world."""

from tidings.lab.definition import define
from tidings.lab.dependable.executed import compared, pairs_of, plot, run, variants_of
from tidings.lab.experiment import DataFrame
from tidings.lab.figures import parameter

SHARES = (5, 10, 20, 30)

VARIANTS = variants_of("change", {f"{share} %": share / 100 for share in SHARES})


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    share = F.round(100 * parameter("change", "double")).cast("int").cast("string")
    return compared(pairs_of(results, traces, F.concat(share, F.lit(" %"))))


EXPERIMENT = define(__file__, run=run, variants=VARIANTS, figures=figures, plot=plot)
