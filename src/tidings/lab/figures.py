"""What most experiments do to make figures of the results and metrics of a sweep, with Spark.

`results` has one row for each run, with a map of what the run measured. A figure mostly compares runs that differ in
one parameter and have the same seed. So the runs are first put side by side:

    pairs = side_by_side(results, group=parameter("overlay"), side=parameter("system"))

has a row for each overlay and seed, with `sides`, a map from each system to the measures of its run. Then figures are
expressions over these, and their mean over the seeds is taken, with its 95 % confidence interval:

    plain, ours = F.col("sides")["plain"], F.col("sides")["guarantees"]
    over_seeds(pairs, {"messages": ours["messages"] / plain["messages"] - 1})

An expression that is null (a side is missing, nothing was measured) does not count. Values are added up in the order of
their size, so that the last digit does not depend on how the rows were spread over machines.
"""

from collections.abc import Callable, Mapping, Sequence

from tidings.lab.experiment import Column, DataFrame

T_975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""The 97.5 % quantiles of Student's t for 1, 2, 3, ... degrees of freedom."""


def parameter(name: str, kind: str = "string") -> Column:
    """A parameter of the run, as a column of the given type."""
    from pyspark.sql import functions as F

    return F.get_json_object("parameters", f"$.{name}").cast(kind)


def side_by_side(results: DataFrame, *, group: Column, side: Column) -> DataFrame:
    """For each group and seed the measures of every side: group, seed, sides."""
    from pyspark.sql import functions as F

    return results.groupBy(group.alias("group"), "seed").agg(
        F.map_from_entries(F.collect_list(F.struct(side.alias("side"), F.col("measures")))).alias("sides")
    )


def over_seeds(pairs: DataFrame, figures: Mapping[str, Column]) -> DataFrame:
    """The mean of each figure over the rows of a group: figure, group, value, low, high, runs."""
    from pyspark.sql import functions as F

    each = [
        F.struct(F.lit(name).alias("figure"), value.cast("double").alias("value")) for name, value in figures.items()
    ]
    samples = pairs.select("group", F.explode(F.array(*each)).alias("each")).select(
        "group", "each.figure", "each.value"
    )
    return summarise(samples)


def measured(results: DataFrame, table: DataFrame, *columns: str) -> DataFrame:
    """The runs, with these columns of a table by run, such as a metric gives, as their measures."""
    from pyspark.sql import functions as F

    values = [part for name in columns for part in (F.lit(name), F.col(name).cast("double"))]
    return results.drop("measures").join(table, on="run", how="inner").withColumn("measures", F.create_map(*values))


def by_variant(results: DataFrame, table: DataFrame, figures: Mapping[str, str]) -> DataFrame:
    """Columns of a table by run as figures, a group for each variant."""
    from pyspark.sql import functions as F

    runs = measured(results, table, *figures.values()).withColumn("group", F.col("variant"))
    return over_seeds(runs, {name: F.col("measures")[column] for name, column in figures.items()})


def against(
    results: DataFrame,
    table: DataFrame,
    baseline: str,
    figures: Mapping[str, Callable[[Column, Column], Column]],
) -> DataFrame:
    """Each variant beside the baseline, seed by seed: {"reduced": lambda ours, plain: plain["missed"] / ours["missed"]}
    where the measures are columns of a table by run. A group for each variant but the baseline."""
    from pyspark.sql import functions as F

    columns = [name for name in table.columns if name != "run"]
    runs = measured(results, table, *columns)
    plain = runs.where(F.col("variant") == baseline).select("seed", F.col("measures").alias("plain"))
    others = runs.where(F.col("variant") != baseline).withColumn("group", F.col("variant"))
    values = {name: of(F.col("measures"), F.col("plain")) for name, of in figures.items()}
    return over_seeds(others.join(plain, on="seed", how="inner"), values)


def between(pairs: DataFrame, lower: str, upper: str, values: Mapping[str, Column], ratio: bool = True) -> DataFrame:
    """How values in the group `upper` compare with those in `lower`, seed by seed: as a ratio, or as a difference."""
    from pyspark.sql import functions as F

    def at(place: str, mark: str) -> DataFrame:
        columns = [value.alias(f"{mark}{number}") for number, value in enumerate(values.values())]
        return pairs.where(F.col("group") == place).select("seed", *columns)

    joined = at(lower, "low").join(at(upper, "high"), on="seed", how="inner")
    joined = joined.withColumn("group", F.lit(f"{lower} to {upper}"))
    figures = {}
    for number, name in enumerate(values):
        low, high = F.col(f"low{number}"), F.col(f"high{number}")
        figures[name] = high / low if ratio else high - low
    return over_seeds(joined, figures)


def union(tables: Sequence[DataFrame]) -> DataFrame:
    """One below the other; columns by their place."""
    first, *others = tables
    for each in others:
        first = first.union(each)
    return first


def summarise(samples: DataFrame) -> DataFrame:
    """The same for figures that were computed otherwise: a row of figure, group and value for each run."""
    from pyspark.sql import functions as F

    gathered = (
        samples.where(F.col("value").isNotNull() & ~F.isnan("value"))
        .groupBy("figure", "group")
        .agg(F.array_sort(F.collect_list("value")).alias("values"))
        .withColumn("runs", F.size("values").cast("long"))
        .withColumn("value", total("values", lambda value: value) / F.col("runs"))
        .withColumn("squares", total("values", lambda value: (value - F.col("value")) * (value - F.col("value"))))
    )
    freedom = F.col("runs") - 1
    place = F.least(F.greatest(freedom, F.lit(1)), F.lit(len(T_975)))
    known = F.element_at(F.array(*map(F.lit, T_975)), place.cast("int"))
    quantile = F.when(freedom <= len(T_975), known).otherwise(1.96 + 2.5 / freedom)
    half = F.when(freedom > 0, quantile * F.sqrt(F.col("squares") / freedom / F.col("runs")))
    return gathered.select(
        "figure",
        "group",
        "value",
        (F.col("value") - half).alias("low"),
        (F.col("value") + half).alias("high"),
        "runs",
    )


def total(values: str, of: Callable[[Column], Column]) -> Column:
    """The sum over an array, from its first element to its last."""
    from pyspark.sql import functions as F

    return F.aggregate(values, F.lit(0.0), lambda sum, value: sum + of(value))


def measured_in_runs(results: DataFrame, traces: DataFrame) -> DataFrame:
    """The figures of runs that measured them themselves: each measure is called "FIGURE|GROUP"."""
    from pyspark.sql import functions as F

    measures = results.select(F.explode("measures").alias("name", "value"))
    parts = F.split("name", r"\|")
    return summarise(measures.select(parts[0].alias("figure"), parts[1].alias("group"), "value"))
