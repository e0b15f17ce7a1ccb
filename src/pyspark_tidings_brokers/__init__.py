"""Makes the format "tidings-brokers" known to every Spark session whose workers can import this.

As `pyspark_tidings` does it for "tidings": Spark takes one format from each package with such a name.
"""

from tidings.spark.live.counters import TidingsBrokersSource as DefaultSource

__all__ = ["DefaultSource"]
