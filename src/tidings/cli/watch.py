"""`tidings watch`: order, holes, load, drops and latency of a running network, kept up to date by Spark.

Brokers and clients that write traces as JSON lines are followed while they write (`spark/live/follower.py`); a network
without traces tells what its history and its counters say (`spark/metrics/stored.py`). Spark is loaded when the command
runs, not before.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings.cli.output import JsonLines, json_line, show
from tidings.model.errors import UsageError
from tidings.net.client.connection import PLAIN, SECURE
from tidings.spark.metrics.alerts import ALERT
from tidings.spark.session import LOCAL, open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def watch(
    source: Annotated[
        str,
        typer.Argument(
            metavar="PATH|URL", help="A trace that is being written, or a folder of them; or a network: tidings://..."
        ),
    ],
    table: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this table: pairs, nodes, drops or latency of traces; publishers, acceptance, loads or drops of "
            "a network; may be repeated."
        ),
    ] = None,
    alert: Annotated[
        list[str] | None,
        typer.Option(metavar="TABLE:CONDITION", help="Publish rows for which this holds; may be repeated."),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="TIDINGS_URL",
            help="The broker that alerts are published at; a network's own, if it is one that is watched.",
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Go on from here after a restart, without an alert twice.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="What is there by now, and no more.")] = False,
    master: Annotated[str, typer.Option(metavar="URL", help="Where Spark runs.")] = LOCAL,
    json: JsonLines = False,
) -> None:
    """Follow a network or the traces it writes, and show what changes: order, holes, load, drops and latency.

    Of a network, from what it has stored on: for each publisher its events, holes in their numbers, and how long they
    took to be accepted; for each broker its load and what it dropped. Tokens and certificates come from the
    environment (TIDINGS_TOKEN and so on). What happened at subscribers stands in traces alone: give brokers that are to
    be watched so a trace that ends in .jsonl. An alert is an event of type tidings.alert; a condition is SQL over the
    columns of its table. Ctrl-C ends it.

    \b
    Example:
      tidings watch tidings://localhost:7411
      tidings watch traces/ --alert "latency:latency_p99 > 0.5" --url tidings://localhost:7411
    """
    tables = tables_of(source)
    chosen = table or list(tables)
    for name in chosen:
        if name not in tables:
            raise UsageError(f"--table {name}: there is no such table; choose from {', '.join(tables)}")
    wanted = [read_alert(text, list(tables)) for text in alert or ()]
    target = url or (source if is_network(source) else None)
    if wanted and target is None:
        raise UsageError("--alert: say where alerts are published, with --url tidings://HOST:PORT")
    spark = open_session(master)
    with tempfile.TemporaryDirectory(prefix="tidings-watch-") as scratch:
        place = checkpoint or Path(scratch)
        queries = [start_table(spark, source, name, place, once, printer(name, json)) for name in chosen]
        queries += [start_alert(spark, source, each, target or "", place, once) for each in wanted]
        try:
            for query in queries if once else ():
                query.awaitTermination()
            if not once:
                spark.streams.awaitAnyTermination()
        except KeyboardInterrupt:
            pass
        finally:
            for query in queries:
                query.stop()


def is_network(source: str) -> bool:
    return source.startswith((PLAIN, SECURE))


def tables_of(source: str) -> tuple[str, ...]:
    from tidings.spark.metrics.live import LIVE_TABLES
    from tidings.spark.metrics.loads import LOAD_TABLES
    from tidings.spark.metrics.stored import STORED_TABLES

    return (*STORED_TABLES, *LOAD_TABLES) if is_network(source) else tuple(LIVE_TABLES)


def read_alert(text: str, tables: list[str]) -> tuple[str, str]:
    name, colon, condition = text.partition(":")
    if not colon or name not in tables or not condition.strip():
        raise UsageError(f"--alert {text}: write it as TABLE:CONDITION, such as pairs:holes > 0; {', '.join(tables)}")
    return name, condition.strip()


Take = Callable[["DataFrame", int], None]

PRINTING = Lock()
"""Tables change at the same time; their lines do not mix."""


def printer(name: str, json: bool) -> Take:
    def take(changed: "DataFrame", number: int) -> None:
        rows = sorted((row.asDict() for row in changed.collect()), key=lambda row: str(list(row.values())))
        if not rows:
            return
        with PRINTING:
            show(*[json_line({"table": name, **row}) if json else row_line(name, row) for row in rows])

    return take


def row_line(name: str, row: dict[str, Any]) -> str:
    cells = [f"{column}={cell_text(value)}" for column, value in row.items() if value is not None and value != ""]
    return f"{name:8} {'  '.join(cells)}"


def cell_text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


NO_ALERTS = f"NOT EXISTS type OR type != '{ALERT}'"
"""An alert about a network would otherwise be something new in it, and a reason for the next."""


def followed(spark: "SparkSession", source: str, name: str) -> "DataFrame":
    from tidings.spark.live.counters import BROKERS_FORMAT
    from tidings.spark.metrics.live import live_table
    from tidings.spark.metrics.loads import LOAD_TABLES, load_table
    from tidings.spark.metrics.stored import COLUMNS, stored_table
    from tidings.spark.place import place_of

    if not is_network(source):
        return live_table(spark.readStream.format("tidings-trace").load(place_of(source).text), name)
    if name in LOAD_TABLES:
        return load_table(spark.readStream.format(BROKERS_FORMAT).option("url", source).load(), name)
    events = spark.readStream.format("tidings").schema(COLUMNS).option("url", source).option("filter", NO_ALERTS)
    return stored_table(events.option("startingOffsets", "earliest").load(), name)


def start_table(spark: "SparkSession", source: str, name: str, place: Path, once: bool, take: Take) -> Any:
    writer = followed(spark, source, name).writeStream.foreachBatch(take)
    return started(writer, place / name, once)


def start_alert(spark: "SparkSession", source: str, wanted: tuple[str, str], url: str, place: Path, once: bool) -> Any:
    from xxhash import xxh3_64_hexdigest

    from tidings.spark.metrics.alerts import alerts

    name, condition = wanted
    rows = alerts(followed(spark, source, name), name, condition)
    writer = rows.writeStream.format("tidings").option("url", url).option("sinkName", "watch")
    return started(writer, place / f"alert-{name}-{xxh3_64_hexdigest(condition.encode())}", once)


def started(writer: Any, checkpoint: Path, once: bool) -> Any:
    placed = writer.option("checkpointLocation", str(checkpoint.absolute()))
    return (placed.trigger(availableNow=True) if once else placed).start()
