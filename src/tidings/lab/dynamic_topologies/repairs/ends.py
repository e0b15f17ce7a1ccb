"""Whether a new link has an end of the old one: what the savings of E3 and the costs of E7 hang on. Our own."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.repairs.rewired import REPAIRS, TABLES, Setting, run
from tidings.lab.dynamic_topologies.repairs.savings import curves, savings, sides, variants
from tidings.lab.experiment import Canvas, DataFrame, Measured, Variant
from tidings.lab.figures import union

SHOWN = REPAIRS[:4]
RATES = (3.0, 30.0, 200.0)
COMMON, APART = "common end", "any ends"

VARIANTS = tuple(
    Variant(f"{each.name}, {name}", {**each.parameters, "shares_end": name == COMMON})
    for name in (COMMON, APART)
    for each in variants("changes_rate", RATES, SHOWN)
)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    tables = []
    for name in (COMMON, APART):
        pairs = sides(results.where(F.col("variant").endswith(name)), traces, "changes_rate")
        tables.append(savings(pairs.withColumn("group", F.concat("group", F.lit(f", {name}"))), SHOWN))
    return union(tables)


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    common = [
        Measured(each.figure, each.group.removesuffix(f", {COMMON}"), each.value, each.low, each.high, each.runs)
        for each in measured
        if each.group.endswith(COMMON)
    ]
    curves(canvas, common, "reconfigurations a second, common end")


EXPERIMENT = define(__file__, run=run, setting=Setting, variants=VARIANTS, figures=figures, plot=plot, sweep=TABLES)
