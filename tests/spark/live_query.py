"""Two queries over a live broker, in a process of their own, to be killed: one into Parquet, one into another broker.

`python -m tests.spark.live_query SOURCE TARGET FOLDER` prints a line for each micro-batch that is done, for ever. With
a MASTER behind these, it reads what is there now, on that cluster, and ends.
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
    sent = rows.writeStream.format("tidings").option("url", target).option("sinkName", "copy").queryName("sent")
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


def main(source: str, target: str, folder: Path, master: str = "") -> None:
    settings = {"spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.driver.memory": "1g"}
    spark = open_session(master or "local[2,2]", java_options=QUICK, settings=settings)
    spark.streams.addListener(Telling())
    if master:
        for query in start_queries(spark, source, target, folder, availableNow=True):
            query.awaitTermination()
        spark.stop()
        return
    start_queries(spark, source, target, folder, processingTime="0 seconds")
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), *sys.argv[4:])
