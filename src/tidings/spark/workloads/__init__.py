"""Workloads as DataFrames, and on disk. What is in them is said by `tidings.workloads`; here they become tables.

    from tidings.spark.workloads import frame, read, write
    from tidings.workloads.registry import make

    frame(spark, make("w-psdg", {"seed": 7, "brokers": 10}), "subscriptions")
    write(spark, make("content", {"event_count": 10_000_000}), "folder")

Spark is imported when a table is asked for.
"""

from tidings.spark.workloads.tables import StoredWorkload, frame, read, read_table, tables_of, write

__all__ = ["StoredWorkload", "frame", "read", "read_table", "tables_of", "write"]
