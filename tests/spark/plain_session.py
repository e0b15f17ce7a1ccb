"""What somebody does who knows Spark and has installed this package: a session with no setting of ours.

`python -m tests.spark.plain_session URL FOLDER [REMOTE]` reads and writes through the broker there, and prints what it
got as JSON; with REMOTE through Spark Connect.
"""

import io
import json
import sys
from contextlib import redirect_stdout
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def counted(rows: DataFrame) -> list[Any]:
    return list(rows.selectExpr("count(*) AS rows", "max(price) AS highest").collect()[0])


def formatted(rows: DataFrame) -> str:
    shown = io.StringIO()
    with redirect_stdout(shown):
        rows.explain("formatted")
    return shown.getvalue()


def follow(spark: SparkSession, url: str, folder: str) -> dict[str, Any]:
    stored = spark.read.format("tidings").option("url", url)
    high = stored.load().where("symbol = 'IBM' AND price > 100")
    got: dict[str, Any] = {"all": counted(stored.load()), "high": counted(high)}
    got["pushed at first"] = "PushedFilters" in formatted(high)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    again = stored.load().where("symbol = 'IBM' AND price > 100")
    got["high, pushed"] = counted(again)
    got["pushed"] = "PushedFilters: [" in formatted(again)

    options = f"`url` = '{url}', `filter` = 'price > 100'"
    spark.sql(f"CREATE TABLE high_quotes USING tidings OPTIONS (url '{url}', filter 'price > 100')")
    got["table"] = counted(spark.table("high_quotes"))
    got["table, read otherwise"] = counted(spark.sql("SELECT * FROM high_quotes WITH (`filter` = 'price > 110')"))
    spark.sql("CREATE TABLE quotes (symbol STRING, price DOUBLE) USING tidings")
    spark.sql(f"CREATE TEMPORARY VIEW high AS SELECT * FROM quotes WITH ({options})")
    spark.sql(f"CREATE TEMPORARY VIEW quick USING tidings OPTIONS (url '{url}')")
    got["view of a table"], got["view"] = counted(spark.table("high")), counted(spark.table("quick"))
    spark.sql(f"INSERT INTO quotes WITH (`url` = '{url}') VALUES ('SAP', 120.5)")
    got["inserted"] = counted(spark.table("high"))

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
    got["stream"] = counted(spark.read.parquet(f"{folder}/rows"))
    return got


def main(url: str, folder: str, remote: str = "") -> None:
    builder = SparkSession.builder.remote(remote) if remote else SparkSession.builder
    spark = builder.getOrCreate()
    print(json.dumps(follow(spark, url, folder)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
