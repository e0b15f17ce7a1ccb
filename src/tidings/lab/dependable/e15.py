"""E15: how long planning takes. Its runs are those of E17 (`planners.py` says what is measured)."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dependable.planners import DOWNHILL, SEARCH, SETS, run
from tidings.lab.experiment import Canvas, Column, DataFrame, Measured, Variant
from tidings.lab.figures import over_seeds, parameter, union
from tidings.lab.plots import COLOURS, points

SIZES = (20, 30, 40, 50, 60, 70, 80, 100, 150, 200)

VARIANTS = tuple(Variant(f"{size} brokers", {"brokers": size}) for size in SIZES)

METHODS = (*SETS, SEARCH, DOWNHILL)

COMPARED = {"A to E": ("A", "E"), "N to E": ("N", "E"), "N to A": ("N", "A"), "search to E": (SEARCH, "E")}


def measure(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.col("measures")[name]


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    sized = results.where(F.size("measures") > 0).withColumn("group", F.col("variant"))
    ratios = over_seeds(
        sized, {name: measure(f"seconds {a}") / measure(f"seconds {b}") for name, (a, b) in COMPARED.items()}
    )
    each = [
        over_seeds(
            sized.withColumn("group", F.concat(F.lit(f"{name}, "), F.col("variant"))),
            {"seconds": measure(f"seconds {name}"), "planned": measure(f"planned {name}")},
        )
        for name in METHODS
    ]
    return union([ratios, *each, growth(sized.withColumn("size", parameter("brokers", "double")), "E")])


def growth(sized: DataFrame, name: str) -> DataFrame:
    """Seconds of the largest to those of the smallest, seed by seed."""
    from pyspark.sql import functions as F

    planned = sized.where(measure(f"seconds {name}").isNotNull()).withColumn("seconds", measure(f"seconds {name}"))
    ends = planned.groupBy("seed").agg(
        F.max_by("seconds", "size").alias("last"), F.min_by("seconds", "size").alias("first")
    )
    return over_seeds(ends.withColumn("group", F.lit(name)), {"growth": F.col("last") / F.col("first")})


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    for name, colour in zip(METHODS, COLOURS, strict=False):
        own = [
            Measured(each.figure, each.group.removeprefix(f"{name}, "), each.value, each.low, each.high, each.runs)
            for each in measured
            if each.figure == "seconds" and each.group.startswith(f"{name}, ")
        ]
        axes.plot(*points(own, "seconds"), marker="o", color=colour, label=name)
    axes.set(title="time to plan", xlabel="brokers", ylabel="seconds of processor time", yscale="log")
    axes.legend()


EXPERIMENT = define(__file__, run=run, variants=VARIANTS, figures=figures, plot=plot, sweep="dependable/planning")
