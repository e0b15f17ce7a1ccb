"""E21: carrying a plan out, by the number of subscribers. `executed.py` is the world.

The largest number is five times the smallest, as in the source; by how much less than that something grows is how far
below five the figure is.
"""

from tidings.lab.definition import define
from tidings.lab.dependable.executed import compared, ends_of, pairs_of, plot, run, variants_of
from tidings.lab.experiment import DataFrame
from tidings.lab.figures import parameter, union

COUNTS = (40, 120, 200)

VARIANTS = variants_of("subscribers", {f"{count} subscribers": count for count in COUNTS})


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    pairs = pairs_of(results, traces, F.concat(parameter("subscribers"), F.lit(" subscribers")))
    size = F.split("group", " ")[0].cast("int")
    return union([compared(pairs), ends_of(pairs, size)])


EXPERIMENT = define(__file__, run=run, variants=VARIANTS, figures=figures, plot=plot)
