"""What many runs say together: means with an interval of confidence, and one variant against another.

A metric gives one row for each run. Runs that differ only in their seed are repetitions; joined with what tells
variants apart, they are summed up by

    mean_over_runs(table, by=["variant"])       # variant, measure, runs, mean, half_width, low, high

The interval holds the true mean with a probability of 95 % if repetitions are independent and not too far from normally
distributed: mean +- t s / sqrt(n), with Student's t for n - 1 degrees of freedom. One repetition has no interval.
Values are added in their order of size, so that the last digit does not depend on how the rows are spread.

    relative_difference(table, "completion_mean", variant="method", base="direct", match=["sink"])

compares each row with that of the base variant that agrees in `match`: (other - base) / base, negative where the other
has less. Defined in: dependable 4.6 (D-5), peer-to-peer 3L (relative difference).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidings.model.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

T_975 = (
    *(12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139),
    *(2.200985, 2.178813, 2.160369, 2.144787, 2.131450, 2.119905, 2.109816, 2.100922, 2.093024, 2.085963),
    *(2.079614, 2.073873, 2.068658, 2.063899, 2.059539, 2.055529, 2.051831, 2.048407, 2.045230, 2.042272),
)
"""The 97.5 % quantile of Student's t for 1 to 30 degrees of freedom."""

Z_975 = 1.959964
"""The same of the normal distribution, which t approaches."""


def student_t(degrees: int) -> float:
    """Beyond the table, the first two terms of t's expansion around the normal quantile: within 0.0001."""
    if degrees <= len(T_975):
        return T_975[degrees - 1]
    first, second = (Z_975**3 + Z_975) / 4, (5 * Z_975**5 + 16 * Z_975**3 + 3 * Z_975) / 96
    return Z_975 + first / degrees + second / (degrees * degrees)


def student_t_sql(degrees: str) -> str:
    table = ", ".join(f"{quantile}D" for quantile in T_975)
    first, second = (Z_975**3 + Z_975) / 4, (5 * Z_975**5 + 16 * Z_975**3 + 3 * Z_975) / 96
    beyond = f"{Z_975}D + {first!r}D / {degrees} + {second!r}D / ({degrees} * {degrees})"
    return f"CASE WHEN {degrees} <= {len(T_975)} THEN get(array({table}), int({degrees}) - 1) ELSE {beyond} END"


def mean_over_runs(table: "DataFrame", by: Sequence[str] = (), measures: Sequence[str] | None = None) -> "DataFrame":
    """One row for each group and measure. Measures are by default all columns with numbers, except those of `by`."""
    from pyspark.sql import functions as F

    numbers = ("double", "bigint", "int", "float")
    chosen = list(measures or [name for name, kind in table.dtypes if kind in numbers and name not in (*by, "seed")])
    if not chosen:
        raise UsageError("measures: the table has no column with numbers to average")
    values = F.array(
        *(F.struct(F.lit(name).alias("measure"), F.col(name).cast("double").alias("value")) for name in chosen)
    )
    tall = table.select(*by, F.explode(values).alias("each")).select(*by, "each.measure", "each.value")
    ordered = tall.groupBy(*by, "measure").agg(F.array_sort(F.collect_list("value")).alias("values"))
    averaged = ordered.selectExpr(
        *by,
        "measure",
        "values",
        "size(values) AS runs",
        "try_divide(aggregate(values, 0D, (total, value) -> total + value), size(values)) AS mean",
    )
    spread = averaged.selectExpr(
        *by,
        "measure",
        "runs",
        "mean",
        "CASE WHEN runs > 1 THEN sqrt(aggregate(values, 0D, (total, value) -> "
        "total + (value - mean) * (value - mean)) / (runs - 1) / runs) END AS deviation",
    )
    interval = spread.selectExpr(
        *by, "measure", "runs", "mean", f"deviation * ({student_t_sql('(runs - 1)')}) AS half_width"
    )
    return interval.selectExpr("*", "mean - half_width AS low", "mean + half_width AS high").orderBy(*by, "measure")


def relative_difference(
    table: "DataFrame", value: str, *, variant: str, base: str, match: Sequence[str] = ()
) -> "DataFrame":
    """The rows of all other variants, with `base_value` and `relative_difference`; null where the base lacks."""
    from pyspark.sql import functions as F

    keys = list(match)
    bases = table.where(F.col(variant) == base).select(*keys, F.col(value).alias("base_value"))
    others = table.where(F.col(variant) != base)
    joined = others.join(bases, on=keys, how="left") if keys else others.crossJoin(bases)
    return joined.selectExpr("*", f"try_divide(`{value}` - base_value, base_value) AS relative_difference")
