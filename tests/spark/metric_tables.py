"""Records and what is due, as Spark sees them."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from tidings.spark.metrics.traces import SCHEMA
from tidings.trace.record import COLUMNS, Record


def trace_table(spark: SparkSession, records: Sequence[Record]) -> DataFrame:
    return spark.createDataFrame([tuple(getattr(record, name) for name in COLUMNS) for record in records], SCHEMA)


def due_table(spark: SparkSession, expected: Sequence[tuple[str, str, str]]) -> DataFrame:
    return spark.createDataFrame(list(expected), "run STRING, key STRING, node STRING")
