"""`tidings workload`: the workloads that there are, some rows of each, and whole tables on disk.

Rows are shown without Spark; it is loaded when tables are written.
"""

from itertools import islice
from typing import Annotated

import msgspec
import typer

from tidings.cli.output import Json, JsonLines, json_line, print_json, show, table_lines
from tidings.cli.simulations import Sets
from tidings.model.errors import UsageError
from tidings.spark.session import LOCAL, open_session

workloads = typer.Typer(
    help="Show what workloads publish and ask for, and write their tables.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

ROWS_SHOWN_MAX = 10_000

Name = Annotated[str, typer.Argument(metavar="NAME", help="One of `tidings workload list`.")]
Seed = Annotated[int, typer.Option(min=0, help="Everything that is drawn follows from it.")]


@workloads.command("list")
def list_command(json: Json = False) -> None:
    """List the workloads: those of published experiments, and real data.

    \b
    Example:
      tidings workload list
    """
    from tidings.workloads.registry import WORKLOADS, describe

    if json:
        listed = [{"name": name, "summary": describe(name), "tables": WORKLOADS[name].tables} for name in WORKLOADS]
        print_json(listed)
        return
    rows = [[name, ", ".join(kind.tables), describe(name)] for name, kind in WORKLOADS.items()]
    show(*table_lines(["workload", "tables", ""], rows))


@workloads.command("show")
def show_command(
    name: Name,
    table: Annotated[str | None, typer.Option(help="Which table; without it, the first rows of every table.")] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=ROWS_SHOWN_MAX, help="Rows of a table.")] = 5,
    set: Sets = None,
    seed: Seed = 1,
    json: JsonLines = False,
) -> None:
    """Show parameters and the first rows of a workload. With --json one object a row, which names its table.

    \b
    Example:
      tidings workload show w-psdg --table subscriptions --set brokers=10
    """
    from tidings.workloads.registry import encode, make

    workload = make(name, {"seed": seed, **read_parameters(set)})
    if not json:
        show(encode(workload))
    for each in [table] if table else workload.tables:
        found = workload.table(each)
        rows, columns = list(islice(found.rows(), count)), list(found.columns)
        if json:
            show(*[json_line({"table": each, **row}) for row in rows])
        else:
            show("", each)
            show(*table_lines(columns, [[cell(row[name]) for name in columns] for row in rows]))


@workloads.command("write")
def write_command(
    name: Name,
    folder: Annotated[
        str, typer.Argument(help="Where the tables go, as Parquet, a folder or a URL; tables there are replaced.")
    ],
    table: Annotated[list[str] | None, typer.Option(help="Only this table; may be repeated.")] = None,
    set: Sets = None,
    seed: Seed = 1,
    master: Annotated[str, typer.Option(metavar="URL", help="Where Spark runs it: spark://host:7077 is a cluster.")] = (
        LOCAL
    ),
    json: Json = False,
) -> None:
    """Write the tables of a workload with Spark, those included that Spark derives from others.

    \b
    Example:
      tidings workload write content out --set event_count=10000000
    """
    from tidings.spark.workloads import tables_of, write
    from tidings.workloads.registry import encode, make

    workload = make(name, {"seed": seed, **read_parameters(set)})
    chosen = table or list(tables_of(workload))
    write(open_session(master), workload, folder, chosen)
    if json:
        print_json({"folder": folder, "tables": chosen, "workload": msgspec.Raw(encode(workload).encode())})
    else:
        show(f"{folder}: {', '.join(chosen)} of {encode(workload)}")


def read_parameters(given: list[str] | None) -> dict[str, object]:
    """Values are JSON where they can be, else text."""
    parameters: dict[str, object] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set {text}: write it as NAME=VALUE, such as brokers=10")
        try:
            parameters[name] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            parameters[name] = value
    return parameters


def cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
