"""Makes the format "tidings" known to every Spark session whose workers can import this.

Spark looks for packages called `pyspark_...` and registers their `DefaultSource`. That is a convenience: Spark gives up
looking at the first such package that fails to import, whoever's it is. Sessions of `tidings.spark.session` register
the format themselves.
"""

from tidings.spark.live.source import TidingsSource as DefaultSource

__all__ = ["DefaultSource"]
