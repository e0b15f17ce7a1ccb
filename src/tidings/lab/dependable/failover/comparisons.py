"""What the four systems are compared by, tree by tree: delivery, overhead, hops (dependable.md 4.1).

delivered, SYSTEM       deliveries of all that the workload owes
overhead, SYSTEM        publications and gossip, beside the publications of the plain tree
gossip, SYSTEM          messages around failures, beside the same
hops, SYSTEM            99th percentile of the hops of what was delivered
possible, WHAT          what could be delivered at best: with both ends alive, and with a way of the tree besides that
                        is whole, or has nowhere more than delta failures one behind the other
of the living, SYSTEM   delivered, of what had both ends alive
hops apart              the most hops of a system that gets around failures, less the fewest
"""

from collections.abc import Iterable, Sequence

from tidings.lab.dependable.failover.failing_runs import (
    GOSSIP,
    NEIGHBOURHOOD,
    POSSIBLE,
    RANDOM,
    SYSTEMS,
    TREE,
    outcomes,
)
from tidings.lab.experiment import Canvas, Column, DataFrame, Measured, Parameter, Variant
from tidings.lab.figures import over_seeds, parameter, side_by_side
from tidings.lab.plots import COLOURS, points

AROUND = (GOSSIP, RANDOM, NEIGHBOURHOOD)
"""Systems that bring events around failures."""


def variants(
    name: str, values: Iterable[Parameter], systems: Sequence[str] = SYSTEMS, **parameters: Parameter
) -> tuple[Variant, ...]:
    """Each system at each value of the parameter of that name."""
    return tuple(
        Variant(f"{system}, {name} {value}", {"failover": system, name: value, **parameters})
        for value in values
        for system in systems
    )


def compared(results: DataFrame, traces: DataFrame, by: str) -> DataFrame:
    """For each value of that parameter and seed the measures of every system."""
    return side_by_side(outcomes(results, traces), group=parameter(by), side=parameter("failover"))


def figures_of(pairs: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    side = {system: F.col("sides")[system] for system in SYSTEMS}
    tree = side[TREE]["messages"]
    values: dict[str, Column] = {}
    for system in SYSTEMS:
        values[f"delivered, {system}"] = side[system]["delivered"]
        values[f"overhead, {system}"] = F.try_divide(side[system]["messages"], tree)
        values[f"gossip, {system}"] = F.try_divide(side[system]["gossip"], tree)
        values[f"hops, {system}"] = side[system]["hops"]
        values[f"of the living, {system}"] = F.try_divide(side[system]["delivered"], side[system]["alive"])
    values |= {f"possible, {name}": side[GOSSIP][name] for name in POSSIBLE}
    values["delivered more than the tree"] = F.try_divide(side[GOSSIP]["delivered"], side[TREE]["delivered"]) - 1
    values["delivered less than at random"] = side[RANDOM]["delivered"] - side[GOSSIP]["delivered"]
    values["delivered more than the neighbourhood"] = side[GOSSIP]["delivered"] - side[NEIGHBOURHOOD]["delivered"]
    values["gossip less than at random"] = 1 - F.try_divide(side[GOSSIP]["gossip"], side[RANDOM]["gossip"])
    beside = side[NEIGHBOURHOOD]["messages"]
    values["overhead more than the neighbourhood"] = F.try_divide(side[GOSSIP]["messages"], beside) - 1
    values["overhead more than the neighbourhood, random"] = F.try_divide(side[RANDOM]["messages"], beside) - 1
    values["overhead more than the tree"] = F.least(*(side[each]["messages"] for each in AROUND)) / tree - 1
    values["hops more than the neighbourhood"] = side[GOSSIP]["hops"] - side[NEIGHBOURHOOD]["hops"]
    values["hops less than at random"] = side[RANDOM]["hops"] - side[GOSSIP]["hops"]
    hops = [side[each]["hops"] for each in AROUND]
    values["hops apart"] = F.greatest(*hops) - F.least(*hops)
    return over_seeds(pairs, values)


def plot_systems(canvas: Canvas, measured: Sequence[Measured], label: str) -> None:
    left, right = canvas.subplots(1, 2)
    for place, system in enumerate(SYSTEMS):
        left.plot(*points(measured, f"delivered, {system}"), ".-", color=COLOURS[place], label=system)
        right.plot(*points(measured, f"overhead, {system}"), ".-", color=COLOURS[place], label=system)
    left.set(title="delivered", xlabel=label)
    right.set(title="messages beside the tree", xlabel=label)
    left.legend()


def size_variants(name: str, values: Iterable[int]) -> tuple[Variant, ...]:
    return tuple(Variant(f"{name} {value}", {"failover": GOSSIP, name: value, "rate": 0.1}) for value in values)


def sizes(results: DataFrame, traces: DataFrame, name: str, steps: tuple[str, str, str]) -> DataFrame:
    """What a size of views changes: at each value, and from the first of the steps to the second and the third."""
    from pyspark.sql import functions as F

    runs = outcomes(results, traces)
    each = over_seeds(
        runs.withColumn("group", parameter(name)),
        {
            "delivered": F.col("measures")["delivered"],
            "gossip": F.col("measures")["gossip"],
            "hops": F.col("measures")["hops"],
        },
    )
    pairs = side_by_side(runs, group=F.lit("steps"), side=parameter(name))
    few, some, many = (F.col("sides")[step] for step in steps)
    first, second = (int(steps[1]) - int(steps[0])), (int(steps[2]) - int(steps[1]))
    gain = (some["delivered"] - few["delivered"]) / first
    return each.union(
        over_seeds(
            pairs,
            {
                "delivered, first step": some["delivered"] - few["delivered"],
                "delivered, second step": (many["delivered"] - some["delivered"]) / second - gain,
                "delivered, whole": many["delivered"] - few["delivered"],
                "gossip, for each member": F.try_divide(many["gossip"], some["gossip"]) * int(steps[1]) / int(steps[2]),
                "hops, change": many["hops"] - few["hops"],
            },
        )
    )
