"""What all workloads have in common: a seed, named tables, and parameters that are checked when it is built.

A workload is a value: its parameters, and nothing else. Equal workloads have equal rows. Its tables are methods that
take a session and give a DataFrame; those that are drawn at random are described by a `Table`, which can also be had
without Spark.

    Content(seed=7, match_rate=0.01).events(spark)
    Content(seed=7, match_rate=0.01).event_table().arrow()

Two tables mean the same in every workload that has them:

    events           key string, and one typed column for each attribute; `published_at` where there is a schedule,
                     in seconds from the beginning
    subscriptions    subscription string, filter string (text of the filter language), and what else is known of it
"""

from typing import TYPE_CHECKING, ClassVar

import msgspec

from tidings.model.errors import UsageError
from tidings.spark.workloads.chunks import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    tables: ClassVar[tuple[str, ...]] = ("events", "subscriptions")

    seed: int = 1

    def __post_init__(self) -> None:
        require(0 <= self.seed < 2**63, f"seed: {self.seed} is not possible; give a number from 0 to 2**63 - 1")
        self.check()

    def check(self) -> None:
        """Refuse parameters that make no sense."""

    def require_positive(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            require(value > 0, f"{name}: {value} is not possible; give more than 0")

    def require_shares(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            require(0 <= value <= 1, f"{name}: {value} is no share; give a number from 0 to 1")

    def frame(self, spark: "SparkSession", table: str, partitions: int | None = None) -> "DataFrame":
        """The table of that name."""
        if table not in self.tables:
            raise UsageError(f"there is no table {table!r} here; choose from {', '.join(self.tables)}")
        made: DataFrame = getattr(self, table)(spark, partitions)
        return made

    def events(self, spark: "SparkSession", partitions: int | None = None) -> "DataFrame":
        return self.event_table().frame(spark, partitions)

    def subscriptions(self, spark: "SparkSession", partitions: int | None = None) -> "DataFrame":
        return self.subscription_table().frame(spark, partitions)

    def event_table(self) -> Table:
        raise NotImplementedError

    def subscription_table(self) -> Table:
        raise NotImplementedError


def require(holds: bool, problem: str) -> None:
    """`problem` names the parameter at fault and says what it may be."""
    if not holds:
        raise UsageError(problem)
