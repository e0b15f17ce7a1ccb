"""Workloads as DataFrames: events, subscriptions and what else an experiment starts from.

    from tidings.spark.workloads import WORKLOADS, make, write

    make("w-psdg", {"seed": 7, "brokers": 10}).subscriptions(spark)
    write(spark, make("content", {"event_count": 10_000_000}), "folder")

What is drawn follows from the parameters and the seed alone: the same rows on one core and on a cluster (`chunks.py`).
`workload.py` says what all workloads have in common, `registry.py` which there are. Of the rest of the package only the
filter language and the readers of real data in `sim.topologies` are used. Spark is imported when a table is asked for.
"""

from tidings.spark.workloads.registry import WORKLOADS, decode, describe, encode, make
from tidings.spark.workloads.storing import Stored, read, read_table, write
from tidings.spark.workloads.workload import Workload

__all__ = ["WORKLOADS", "Stored", "Workload", "decode", "describe", "encode", "make", "read", "read_table", "write"]
