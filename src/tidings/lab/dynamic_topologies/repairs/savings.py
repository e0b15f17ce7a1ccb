"""What a repair saves beside STRAWMAN, seed by seed, as one parameter of the setting changes.

    cost, REPAIR        weighed messages and misrouted hops of one reconfiguration (2.7)
    saved, REPAIR       which part of STRAWMAN's that is less
    involved, REPAIR    dispatchers that have to change their tables, as a share of all
    spared, REPAIR      which part of STRAWMAN's that is less

All of them from metrics: `reconfiguration_cost` and `involved_dispatchers`.

What is saved is said of the means: 1 - mean cost / mean cost of STRAWMAN. So does the source: its figures plot "the
average cost of a reconfiguration for each protocol", and beside it "the percentage improvement over Strawman" of these
curves (7.3.2, figures 7.3 to 7.6); the specification computes it so too (4.1: STRAWMAN 662, TDU 433, hence 35 %). The
mean of the ratios of single seeds is another number, and a much smaller one: seeds differ by a factor of ten in what
STRAWMAN costs, and in the cheap ones there is nothing to be saved. For the interval the ratio is linearised around the
means, which is how variants stay paired by seed.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from tidings.lab.dynamic_topologies.repairs.rewired import REPAIRS, STRAWMAN
from tidings.lab.experiment import Canvas, Column, DataFrame, Measured, Parameter, Variant
from tidings.lab.figures import between, measured, over_seeds, parameter, side_by_side, union
from tidings.lab.plots import COLOURS, points

COST = "cost_per_reconfiguration"


def variants(
    name: str, values: Iterable[Parameter], repairs: Sequence[str] = REPAIRS, **parameters: Parameter
) -> tuple[Variant, ...]:
    """Each repair at each value of the parameter of that name."""
    return tuple(
        Variant(f"{repair}, {name} {value}", {"repair": repair, name: value, **parameters})
        for value in values
        for repair in repairs
    )


def sides(results: DataFrame, traces: DataFrame, by: str) -> DataFrame:
    """For each value of that parameter and seed the measures of every repair."""
    from tidings.spark.metrics.changes import involved_dispatchers, reconfiguration_cost

    table = reconfiguration_cost(traces).join(involved_dispatchers(traces), on="run", how="inner")
    size = results.select("run", parameter("dispatchers", "double").alias("size"))
    runs = measured(results, table.join(size, on="run", how="left"), COST, "involved_mean", "size")
    # Several figures are made of it, and traces are long.
    return side_by_side(runs, group=parameter(by), side=parameter("repair")).cache()


def savings(pairs: DataFrame, repairs: Sequence[str] = REPAIRS) -> DataFrame:
    from pyspark.sql import functions as F

    of = {repair: F.col("sides")[repair] for repair in repairs}
    plain, cost, involved = of[STRAWMAN], COST, "involved_mean"
    others = {repair: side for repair, side in of.items() if repair != STRAWMAN}
    figures = {
        **{f"cost, {repair}": side[cost] for repair, side in of.items()},
        **{
            f"involved, {repair}": side[involved] / F.coalesce(side["size"], F.lit(100.0))
            for repair, side in of.items()
        },
    }
    less = {
        **{f"saved, {repair}": (side[cost], plain[cost]) for repair, side in others.items()},
        **{f"spared, {repair}": (side[involved], plain[involved]) for repair, side in others.items()},
    }
    return union([over_seeds(pairs, figures), over_seeds(*reduced(pairs, less))])


def changes(pairs: DataFrame, values: Sequence[str]) -> DataFrame:
    """What is saved in each of these groups, less that in the one before."""
    from pyspark.sql import functions as F

    of = {repair: F.col("sides")[repair][COST] for repair in REPAIRS}
    less = {f"change, {repair}": (cost, of[STRAWMAN]) for repair, cost in of.items() if repair != STRAWMAN}
    saved, each = reduced(pairs, less)
    return union([between(saved, *ends, each, ratio=False) for ends in pairwise(values)])


def beside(pairs: DataFrame, repairs: Sequence[tuple[str, str]]) -> DataFrame:
    """`saved more, X than Y`: what X saves, less what Y saves, for each of these."""
    from pyspark.sql import functions as F

    of = {repair: F.col("sides")[repair][COST] for repair in REPAIRS}
    names = dict.fromkeys(repair for both in repairs for repair in both)
    saved, each = reduced(pairs, {name: (of[name], of[STRAWMAN]) for name in names})
    return over_seeds(saved, {f"saved more, {one} than {other}": each[one] - each[other] for one, other in repairs})


def reduced(pairs: DataFrame, less: Mapping[str, tuple[Column, Column]]) -> tuple[DataFrame, dict[str, Column]]:
    """For each name a value of each seed, the mean of which is 1 - the mean of the first / the mean of the second, and
    which vary as that does."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    group = Window.partitionBy("group")
    names = {name: place for place, name in enumerate(less)}
    for name, (ours, theirs) in less.items():
        place = names[name]
        pairs = pairs.withColumn(f"ours{place}", F.avg(ours).over(group))
        pairs = pairs.withColumn(f"theirs{place}", F.avg(theirs).over(group))
    figures = {}
    for name, (ours, theirs) in less.items():
        mean, base = F.col(f"ours{names[name]}"), F.col(f"theirs{names[name]}")
        figures[name] = 1 - mean / base + (mean / base * theirs - ours) / base
    return pairs, figures


def curves(
    canvas: Canvas,
    measured: Sequence[Measured],
    label: str,
    *,
    left: str = "cost",
    right: str = "saved",
    titles: tuple[str, str] = ("cost of one reconfiguration", "saved beside STRAWMAN, %"),
) -> None:
    panels = canvas.subplots(1, 2)
    for axes, kind, title in zip(panels, (left, right), titles, strict=True):
        scale = 1.0 if kind == "cost" else 100.0
        for repair, colour in zip(REPAIRS, COLOURS, strict=False):
            at, values = points(measured, f"{kind}, {repair}", scale)
            if at:
                axes.plot(at, values, ".-", color=colour, label=repair)
        axes.set(title=title, xlabel=label)
    if panels[0].lines:
        panels[0].legend()
