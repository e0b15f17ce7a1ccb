"""Metrics on Spark give what their references give, on any trace, however its rows are spread."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.metric_tables import due_table, trace_table
from tests.spark.metric_traces import drawn_trace
from tests.spark.references.families import Answer, reference_rows
from tidings.spark.metrics.family import Family
from tidings.spark.metrics.registry import FAMILIES
from tidings.trace.record import Record

Gathered = tuple[list[Record], list[tuple[str, str, str]]]


def gather(seeds: int) -> Gathered:
    """Many drawn traces as the runs of one: Spark takes them all at once."""
    drawn = [drawn_trace(seed) for seed in range(seeds)]
    return [record for records, _ in drawn for record in records], [each for _, expected in drawn for each in expected]


@pytest.fixture(scope="module")
def gathered(examples: int) -> Gathered:
    return gather(8 * examples)


@pytest.fixture(scope="module")
def spreads(spark: SparkSession, gathered: Gathered) -> Iterator[list[tuple[DataFrame, DataFrame]]]:
    """The trace and what is due, in one, three and eight parts."""
    records, expected = gathered
    whole, due = trace_table(spark, records), due_table(spark, expected)
    tables = [(whole.repartition(parts).cache(), due.repartition(parts).cache()) for parts in (1, 3, 8)]
    yield tables
    for table in (table for pair in tables for table in pair):
        table.unpersist()


def answers(family: Family, table: DataFrame) -> list[Answer]:
    groups = ("run", *family.standing)
    found = [row.asDict() for row in table.collect()]
    return sorted(found, key=lambda row: [(row[name] is not None, row[name]) for name in groups])


def reference_answers(family: Family, gathered: Gathered) -> list[Answer]:
    columns = [*family.standing, *(name for metric in family.metrics for name in metric.values)]
    found = [{"run": run} | {name: row[name] for name in columns} for run, row in reference_rows(family, *gathered)]
    groups = ("run", *family.standing)
    return sorted(found, key=lambda row: [(row[name] is not None, row[name]) for name in groups])


@pytest.mark.spark
@pytest.mark.spec("S-123", "P-125")
@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_agrees_with_its_reference_on_drawn_traces_in_one_three_and_eight_parts(
    spreads: list[tuple[DataFrame, DataFrame]], gathered: Gathered, name: str
) -> None:
    family = FAMILIES[name]
    wanted = reference_answers(family, gathered)
    assert wanted
    with ThreadPoolExecutor() as pool:
        for found in pool.map(lambda spread: answers(family, family.summary(*spread)), spreads):
            assert found == wanted
