"""Two queries over a live broker, in a process of their own, to be killed: one into Parquet, one into another broker.

The one into a broker has a join with a shuffle in it, so that its rows come in other partitions and another order each
time, and keeps neither publisher nor number, so that nothing tells its rows apart but what is in them.

`python -m tests.spark.live_query SOURCE TARGET FOLDER CORES SHUFFLES` prints a line for each micro-batch that is done,
for ever. With a MASTER in place of CORES, it reads what is there now, on that cluster, and ends.
"""

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from tidings.spark.session import open_session

SCHEMA = "publisher string, number long, n long, amount double"
EVENTS_MAX = 300
"""In one micro-batch, so that there are many of them."""

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def start_queries(spark: SparkSession, source: str, target: str, folder: Path, **trigger: Any) -> list[Any]:
    rows = (
        spark.readStream.format("tidings")
        .option("url", source)
        .option("filter", "n >= 0")
        .option("startingOffsets", "earliest")
        .option("maxEventsPerTrigger", EVENTS_MAX)
        .schema(SCHEMA)
        .load()
    )
    kept = rows.writeStream.format("parquet").option("path", str(folder / "rows")).queryName("kept")
    digits = spark.range(10).selectExpr("id AS digit").hint("shuffle_merge")
    shuffled = rows.join(digits, rows.n % 10 == digits.digit, "inner").select("n", "amount")
    sent = shuffled.writeStream.format("tidings").option("url", target).option("sinkName", "copy").queryName("sent")
    return [
        writer.option("checkpointLocation", str(folder / name)).trigger(**trigger).start()
        for name, writer in (("kept", kept), ("sent", sent))
    ]


class Telling(StreamingQueryListener):
    def onQueryStarted(self, event: Any) -> None:
        print("started", event.name, flush=True)

    def onQueryProgress(self, event: Any) -> None:
        print("done", event.progress.name, event.progress.batchId, flush=True)

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        print("ended", event.exception, flush=True)


def main(source: str, target: str, folder: Path, cores: str, shuffles: str = "2") -> None:
    settings = {
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": shuffles,
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.adaptive.streaming.stateless.enabled": "true",
    }
    is_cluster = not cores.isdecimal()
    spark = open_session(cores if is_cluster else f"local[{cores},2]", java_options=QUICK, settings=settings)
    spark.streams.addListener(Telling())
    if is_cluster:
        for query in start_queries(spark, source, target, folder, availableNow=True):
            query.awaitTermination()
        spark.stop()
        return
    start_queries(spark, source, target, folder, processingTime="0 seconds")
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), *sys.argv[4:])
