"""A job for `spark-submit`, as somebody writes it who has nothing of ours but the archive.

`spark-submit ... submitted_job.py URL FOLDER` reads a broker, as a batch and as a stream, publishes to it, and writes
into FOLDER/told.json what it got, and from where the driver and the executors have imported what they needed.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def whence(batches: Iterator[Any]) -> Iterator[Any]:
    """Runs in executors; a batch is a table of pandas."""
    import msgspec

    import tidings

    for batch in batches:
        yield batch.assign(tidings=str(tidings.__file__), msgspec=str(msgspec.__file__))[["tidings", "msgspec"]]


def main(url: str, folder: str) -> None:
    import tidings

    spark = SparkSession.builder.getOrCreate()
    stored = spark.read.format("tidings").option("url", url).option("partitions", 2)
    rows = spark.readStream.format("tidings").schema("symbol STRING, price DOUBLE").option("url", url)
    query = (
        rows.option("startingOffsets", "earliest")
        .load()
        .writeStream.format("parquet")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{folder}/rows")
    )
    query.awaitTermination()
    total = stored.schema("symbol STRING, price DOUBLE").load().agg({"price": "sum"}).collect()[0][0]
    sums = spark.createDataFrame([("SUM", total)], "symbol STRING, price DOUBLE")
    sums.write.format("tidings").option("url", url).mode("append").save()
    places = spark.range(4).repartition(2).mapInPandas(whence, "tidings STRING, msgspec STRING").distinct().collect()
    told = {
        "total": total,
        "streamed": spark.read.parquet(f"{folder}/rows").count(),
        "driver": tidings.__file__,
        "executors": sorted({place for row in places for place in row}),
        "trace": spark.readStream.format("tidings-trace").load(folder).columns[0],
        "brokers": spark.readStream.format("tidings-brokers").option("url", url).load().columns[0],
    }
    spark.stop()
    Path(folder, "told.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
