"""E4: the same as E3 on random trees, drawn anew for each seed; and beside E3, whose runs it shares."""

from collections.abc import Sequence

from tidings.lab.definition import define
from tidings.lab.dynamic_topologies.repairs.rewired import REPAIRS, STRAWMAN, TABLES, Setting, run
from tidings.lab.dynamic_topologies.repairs.savings import COST, curves, reduced, savings, sides, variants
from tidings.lab.experiment import Canvas, DataFrame, Measured, Variant
from tidings.lab.figures import over_seeds, parameter, union

SIZES = 50, 100, 200
RANDOM = tuple(
    Variant(f"{each.name}, random", each.parameters)
    for each in variants("dispatchers", SIZES, symbols=200, is_random_tree=True)
)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    is_random = F.coalesce(parameter("is_random_tree", "boolean"), F.lit(False))
    random = sides(results.where(is_random), traces, "dispatchers")
    balanced = sides(results.where(~is_random), traces, "dispatchers")
    return union([savings(random), beside_balanced(random, balanced)])


def beside_balanced(random: DataFrame, balanced: DataFrame) -> DataFrame:
    """Of each repair the cost on random trees by that on balanced ones, and which part of STRAWMAN's it saves more
    there; both of the means, as in `savings.py`."""
    from pyspark.sql import functions as F

    both = random.join(balanced.withColumnRenamed("sides", "others"), on=["group", "seed"], how="inner")
    here, there = ({name: F.col(sides)[name][COST] for name in REPAIRS} for sides in ("sides", "others"))
    less = {
        **{f"{name} beside": (here[name], there[name]) for name in REPAIRS},
        **{f"{name} here": (here[name], here[STRAWMAN]) for name in REPAIRS},
        **{f"{name} there": (there[name], there[STRAWMAN]) for name in REPAIRS},
    }
    both, each = reduced(both, less)
    figures = {f"beside balanced, {name}": 1 - each[f"{name} beside"] for name in REPAIRS}
    figures |= {
        f"saved more, {name}": each[f"{name} here"] - each[f"{name} there"] for name in REPAIRS if name != STRAWMAN
    }
    return over_seeds(both, figures)


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    curves(canvas, measured, "dispatchers")


EXPERIMENT = define(
    __file__,
    run=run,
    setting=Setting,
    variants=(
        *RANDOM,
        *variants("dispatchers", SIZES, symbols=200),
    ),
    figures=figures,
    plot=plot,
    sweep=TABLES,
)
