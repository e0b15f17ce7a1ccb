"""`tidings trace`: a recorded run for the eye."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from tidings import UsageError
from tidings.cli.metrics import metrics_command
from tidings.cli.output import Json, print_json
from tidings.trace.diagram import draw
from tidings.trace.reader import read_trace
from tidings.trace.record import KINDS, Record
from tidings.trace.sequence import sequence_lines

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
        print(f"{len(records)} records drawn in {diagram}{'; there are more' if more else ''}")


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
    print(title_of(records))
    if records:
        print("\n".join(sequence_lines(records, whole)))
    if more:
        print(f"... the first {len(records)} records; there are more (--limit)")


def write_picture(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise UsageError(f"--diagram {path}: {problem.strerror}; name a file that can be written") from None
