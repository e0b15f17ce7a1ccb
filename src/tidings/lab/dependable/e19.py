"""E19: carrying a plan out, by size. `executed.py` is the world."""

from tidings.lab.definition import define
from tidings.lab.dependable.executed import compared, pairs_of, plot, run, variants_of
from tidings.lab.experiment import DataFrame
from tidings.lab.figures import parameter

SIZES = (20, 40, 60)

VARIANTS = variants_of("brokers", {f"{size} brokers": size for size in SIZES})


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return compared(pairs_of(results, traces, F.concat(parameter("brokers"), F.lit(" brokers"))))


EXPERIMENT = define(__file__, run=run, variants=VARIANTS, figures=figures, plot=plot)
