"""Metrics that are computed together.

A family knows which rows of a trace it reads, and makes a table of facts from them; a metric is a choice of values,
each an SQL expression of aggregates over the facts. Spark computes an aggregate that several values share once; so one
metric alone costs no more than it must, and `summary` gives all of them for the price of one scan.

    PINGS = Family("pings", "Pings and their answers.", reads=(("note", "ping"),), facts=...)
    answer_ratio = PINGS.add("answer_ratio", "Pings answered, of all.",
                             {"answer_ratio": share("count_if(is_answered)", "count(*)")})

    answer_ratio(trace)                    # run, answer_ratio
    answer_ratio(trace, by=["node"])       # run, node, answer_ratio

Where facts are many and much alike, a family counts those that are before anything else is computed (`Alike`): sums
and percentiles of a table of thousands of rows cost nothing beside one of millions, and come to the same.

`by` names columns of the facts; each family says which. What is the same for a whole run, as its variant in a sweep, is
joined to the result by `run` instead.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tidings.model.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Facts = Callable[["DataFrame", "DataFrame | None"], "DataFrame"]
"""From the rows that a family reads, and what is expected, to its facts."""


ALIKE = "alike"
"""How many facts a row of facts that are alike stands for."""


class Alike:
    """Facts that are alike in what values ask for are one row, with their number in the column `alike`. `traits` are
    expressions of a fact in which they must agree, `sums` aggregates over all that do. Traits and sums that no value
    names are left out."""

    def __init__(self, traits: Mapping[str, str], sums: Mapping[str, str]) -> None:
        self.traits, self.sums = dict(traits), dict(sums)

    def counted(self, facts: "DataFrame", groups: Sequence[str], values: Mapping[str, str]) -> "DataFrame":
        from pyspark.sql import functions as F

        named = set(re.findall(r"\w+", " ".join(values.values())))
        traits = [F.expr(sql).alias(name) for name, sql in self.traits.items() if name in named]
        sums = [F.expr(sql).alias(name) for name, sql in self.sums.items() if name in named]
        return facts.groupBy(*groups, *traits).agg(F.count(F.lit(1)).alias(ALIKE), *sums)


class Family:
    """`reads` lists (kind, message) of the rows it reads, first those that it cannot do without; message None is any.
    `groups` may be given as `by`; `standing` ones always are part of the answer. With `alike` the values are
    expressions over its rows instead of the facts."""

    def __init__(
        self,
        name: str,
        about: str,
        *,
        reads: Sequence[tuple[str, str | None]],
        facts: Facts,
        groups: Sequence[str] = (),
        standing: Sequence[str] = (),
        alike: Alike | None = None,
    ) -> None:
        self.name, self.about, self.reads, self.facts = name, about, tuple(reads), facts
        self.groups, self.standing, self.alike = tuple(groups), tuple(standing), alike
        self.metrics: list[Metric] = []

    def add(self, name: str, about: str, values: Mapping[str, str], needs_expected: bool = False) -> "Metric":
        """A metric: names of columns, and for each an expression of aggregates over the facts."""
        metric = Metric(self, name, about, dict(values), needs_expected)
        self.metrics.append(metric)
        return metric

    def summary(
        self, trace: "DataFrame", expected: "DataFrame | None" = None, *, by: Sequence[str] = ()
    ) -> "DataFrame":
        """All metrics of the family in one table; those that need `expected` only if it is given."""
        chosen = [metric for metric in self.metrics if expected is not None or not metric.needs_expected]
        return self.table(chosen, trace, expected, by)

    def table(
        self, metrics: "Sequence[Metric]", trace: "DataFrame", expected: "DataFrame | None", by: Sequence[str]
    ) -> "DataFrame":
        from pyspark.sql import functions as F

        for name in by:
            if name not in self.groups:
                known = ", ".join(self.groups) or "nothing"
                raise UsageError(f"by {name}: metrics of the family {self.name} can be grouped by {known}")
        groups = ["run", *self.standing, *by]
        facts = self.facts(self.rows(trace), expected)
        values = {name: sql for metric in metrics for name, sql in metric.values.items()}
        if self.alike is not None:
            facts = self.alike.counted(facts, groups, values)
        return facts.groupBy(*groups).agg(*(F.expr(sql).alias(name) for name, sql in values.items()))

    def rows(self, trace: "DataFrame") -> "DataFrame":
        """What the family reads of a trace."""
        wanted = " OR ".join(
            f"kind = '{kind}'" if message is None else f"(kind = '{kind}' AND message = '{message}')"
            for kind, message in self.reads
        )
        return trace.where(wanted)


class Metric:
    def __init__(self, family: Family, name: str, about: str, values: dict[str, str], needs_expected: bool) -> None:
        self.family, self.name, self.about, self.values = family, name, about, values
        self.needs_expected = needs_expected

    def __call__(
        self, trace: "DataFrame", expected: "DataFrame | None" = None, *, by: Sequence[str] = ()
    ) -> "DataFrame":
        if self.needs_expected and expected is None:
            raise UsageError(
                f"{self.name} compares with what is due: give `expected`, a table with the columns run, key and node"
            )
        return self.family.table([self], trace, expected, by)
