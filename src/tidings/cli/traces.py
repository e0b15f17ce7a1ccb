"""`tidings trace`: a recorded run for the eye, and `tidings trace metrics`: what recorded runs achieved and what they
cost, computed on Spark.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings import UsageError
from tidings.cli.output import Json, print_json, show, table_lines
from tidings.trace.diagram import draw
from tidings.trace.reader import read_trace
from tidings.trace.record import KINDS, Record
from tidings.trace.sequence import sequence_lines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidings.spark.metrics.family import Family, Metric

ROWS_MAX = 10_000
"""Rows of one answer: a metric has a few for each run, except those over time."""

SHOWN_MAX = 40
"""Rows of one answer that is printed though nobody asked for it by its name."""

COLUMNS_WIDE, RUNS_UPRIGHT = 9, 6
"""A wider table of few runs is printed upright, one line for each value."""


def metrics_command(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH", help="Traces: files (.parquet, .jsonl), folders, sweeps; paths or URLs."),
    ] = None,
    metric: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this metric; may be repeated.")] = None,
    by: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="One row for each value of this, too.")] = None,
    expected: Annotated[
        str | None, typer.Option(metavar="PATH", help="What is due: Parquet with columns run, key, node.")
    ] = None,
    list_all: Annotated[bool, typer.Option("--list", help="Say which metrics there are.")] = False,
    master: Annotated[str, typer.Option(metavar="URL", help="Where Spark runs.")] = "local[*]",
    json: Json = False,
) -> None:
    """Compute metrics of recorded runs, by default all for which there are records.

    --by needs --metric; which columns can be given depends on the metric, --list tells them. Metrics that compare with
    what is due, such as delivery_ratio, need --expected.

    \b
    Example:
      tidings trace metrics runs/ --metric latency --metric load --by node
    """
    from tidings.spark.metrics.registry import FAMILIES, METRICS

    if list_all:
        print_list(METRICS, json)
        return
    for name in metric or ():
        if name not in METRICS:
            raise UsageError(f"--metric {name}: there is no such metric; tidings trace metrics --list names them")
        if METRICS[name].needs_expected and expected is None:
            raise UsageError(f"--metric {name} compares with what is due; give a table of that with --expected")
    if by and not metric:
        raise UsageError("--by: say of which metrics, with --metric")
    if not paths:
        raise UsageError("name a trace: a file ending in .parquet or .jsonl, or a folder")
    spark = open_spark(master)
    trace, due = open_tables(spark, paths, expected)
    found = contents(trace)
    trace = with_own_runs(trace, found)
    if metric:
        tables = {name: METRICS[name](trace, due, by=by or ()) for name in metric}
        sources = {name: (METRICS[name].about, METRICS[name].family) for name in metric}
    else:
        chosen = present_families(found, FAMILIES)
        tables = {name: family.summary(trace, due) for name, family in chosen.items() if has_metrics(family, due)}
        sources = {name: (family.about, family) for name, family in chosen.items()}
    groups = {name: ("run", *family.standing, *(by or ())) for name, (_, family) in sources.items()}
    left_out: dict[str, int] = {}
    if metric:
        answers = {name: all_rows(table, groups[name]) for name, table in tables.items()}
    else:
        answers, left_out = first_rows(tables, groups, ROWS_MAX if json else SHOWN_MAX)
    if json:
        print_json({**answers, **({"left_out": left_out} if left_out else {})})
    else:
        print_answers(answers, {name: about for name, (about, _) in sources.items()}, left_out)


def open_spark(master: str) -> "SparkSession":
    from tidings.spark.session import open_session

    return open_session(master)


def open_tables(
    spark: "SparkSession", paths: Sequence[str], expected: str | None
) -> "tuple[DataFrame, DataFrame | None]":
    from pyspark.errors import AnalysisException

    from tidings.spark.metrics.traces import read_traces
    from tidings.spark.place import place_of

    trace = read_traces(spark, paths)
    if expected is None:
        return trace, None
    try:
        return trace, spark.read.parquet(place_of(expected).text).select("run", "key", "node")
    except AnalysisException:
        raise UsageError(
            f"--expected {expected}: this is no Parquet table with the columns run, key and node"
        ) from None


def has_metrics(family: "Family", due: "DataFrame | None") -> bool:
    return due is not None or any(not metric.needs_expected for metric in family.metrics)


def contents(trace: "DataFrame") -> list[Any]:
    """Which runs, seeds and kinds of rows there are: one look at the trace, which saves a job for what there is not."""
    from pyspark.errors import PySparkException

    try:
        return trace.select("run", "seed", "kind", "message").distinct().collect()
    except PySparkException as problem:
        raise unreadable(problem) from None


def with_own_runs(trace: "DataFrame", found: Sequence[Any]) -> "DataFrame":
    """Where runs of one name have several seeds, as those of one scenario have, the seed becomes part of the name."""
    from pyspark.sql import functions as F

    if len({(row.run, row.seed) for row in found}) == len({row.run for row in found}):
        return trace
    return trace.withColumn("run", F.concat("run", F.lit(" seed "), F.col("seed").cast("string")))


def present_families(found: Sequence[Any], families: "Mapping[str, Family]") -> "dict[str, Family]":
    """Those for which the trace has rows."""
    rows = {(row.kind, message) for row in found for message in (row.message, None)}
    return {name: family for name, family in families.items() if family.reads[0] in rows}


def all_rows(table: "DataFrame", groups: Sequence[str]) -> list[dict[str, Any]]:
    rows = collected(table, groups, ROWS_MAX + 1)
    if len(rows) > ROWS_MAX:
        raise UsageError(f"the answer has more than {ROWS_MAX} rows; choose another --by, or use tidings.spark.metrics")
    return rows


def first_rows(
    tables: "Mapping[str, DataFrame]", groups: Mapping[str, Sequence[str]], most: int
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, int]]:
    """Of tables that have any, at most so many; and of how many that leaves out."""
    answers, left_out = dict[str, list[dict[str, Any]]](), dict[str, int]()
    for name, table in tables.items():
        rows = collected(table, groups[name], most + 1)
        if rows:
            answers[name] = rows[:most]
        if len(rows) > most:
            left_out[name] = table.count() - most
    return answers, left_out


def collected(table: "DataFrame", groups: Sequence[str], most: int) -> list[dict[str, Any]]:
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    try:
        return [row.asDict() for row in table.orderBy(*(F.col(name) for name in groups)).limit(most).collect()]
    except PySparkException as problem:
        raise unreadable(problem) from None


def unreadable(problem: Exception) -> UsageError:
    reason = str(problem).strip().splitlines()[0]
    return UsageError(f"a trace cannot be read: {reason}; `tidings trace show FILE` says where")


def print_list(metrics: "Mapping[str, Metric]", json: bool) -> None:
    rows = [
        {
            "metric": name,
            "family": metric.family.name,
            "about": metric.about,
            "by": list(metric.family.groups),
            "columns": [*metric.family.standing, *metric.values],
            "needs_expected": metric.needs_expected,
        }
        for name, metric in metrics.items()
    ]
    if json:
        print_json({"metrics": rows})
        return
    for row in rows:
        by = f"  (--by {', '.join(row['by'])})" if row["by"] else ""  # type: ignore[arg-type]
        needed = "  (needs --expected)" if row["needs_expected"] else ""
        show(f"{row['metric']}{by}{needed}", f"    {row['about']}")


def print_answers(
    answers: Mapping[str, list[dict[str, Any]]], abouts: Mapping[str, str], left_out: Mapping[str, int]
) -> None:
    for name, rows in answers.items():
        show(f"{name}: {abouts[name]}")
        show(*[f"  {line}" for line in lines_of(rows)])
        if name in left_out:
            show(
                f"  {left_out[name]} more rows: ask for metrics by their names (--metric, --by; --list), or for --json"
            )
    if not answers:
        show("no records that a metric could be computed from")


def lines_of(rows: list[dict[str, Any]]) -> list[str]:
    if not rows:
        return ["no records of this"]
    cells = [list(rows[0]), *([cell(value) for value in row.values()] for row in rows)]
    if len(rows[0]) > COLUMNS_WIDE and len(rows) <= RUNS_UPRIGHT:
        cells = [list(line) for line in zip(*cells, strict=True)]
    return table_lines(cells[0], cells[1:])


def cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


LIMIT_DEFAULT, LIMIT_MAX = 200, 100_000

traces = typer.Typer(
    help="Show what was recorded of a run.", no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
)
traces.command("metrics")(metrics_command)


@traces.command("show")
def show_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A trace: .parquet or .jsonl.")],
    diagram: Annotated[Path | None, typer.Option(metavar="FILE.svg", help="Draw a picture into this file.")] = None,
    kind: Annotated[list[str] | None, typer.Option(help=f"Only records of this kind: {', '.join(KINDS)}.")] = None,
    node: Annotated[list[str] | None, typer.Option(help="Only records of this node, or about it.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="At most this many records.")] = LIMIT_DEFAULT,
    json: Json = False,
) -> None:
    """Print the records of a small run as a readable sequence, or draw it.

    --kind and --node may be given several times. A send says what became of its message, as far as the records shown
    tell it.

    \b
    Example:
      tidings trace show run.parquet --node a --kind send --kind receive --diagram run.svg
    """
    for each in kind or ():
        if each not in KINDS:
            raise UsageError(f"--kind {each}: there is no such kind of record; choose from {', '.join(KINDS)}")
    if diagram is not None and diagram.suffix != ".svg":
        raise UsageError(f"--diagram {diagram}: the picture is SVG; end its name in .svg")
    found = list(islice(chosen(read_trace(file), kind or [], node or []), limit + 1))
    records, more = found[:limit], len(found) > limit
    whole = not more and not kind
    if diagram is not None:
        write_picture(diagram, draw(records, whole, title_of(records)))
    if json:
        print_json({"records": records, "more": more, "diagram": None if diagram is None else str(diagram)})
    elif diagram is None:
        print_sequence(records, whole, more)
    else:
        show(f"{len(records)} records drawn in {diagram}{'; there are more' if more else ''}")


def chosen(records: Iterator[Record], kinds: list[str], nodes: list[str]) -> Iterator[Record]:
    for record in records:
        if kinds and record.kind not in kinds:
            continue
        if nodes and record.node not in nodes and record.peer not in nodes:
            continue
        yield record


def title_of(records: list[Record]) -> str:
    return f"run {records[0].run or '(no name)'}, seed {records[0].seed}" if records else "no records"


def print_sequence(records: list[Record], whole: bool, more: bool) -> None:
    show(title_of(records))
    if records:
        show(*sequence_lines(records, whole))
    if more:
        show(f"... the first {len(records)} records; there are more (--limit)")


def write_picture(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise UsageError(f"--diagram {path}: {problem.strerror}; name a file that can be written") from None
