"""`tidings store`: whether the data of a broker is whole, and what to do if it is not."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tidings.cli.output import NO, Json, print_json
from tidings.model.escapes import printable
from tidings.net.broker.config import STORAGE_NAME
from tidings.net.store import StoreReport, check_store, salvage_store

NAMED_MAX = 20
"""Missing entries that are named in text; JSON names all."""

store = typer.Typer(
    help="Look after the data of a broker that is stopped.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Data = Annotated[Path, typer.Argument(metavar="DIR", help="The folder that the broker was given as --data.")]


@store.command("check")
def check_command(data: Data, json: Json = False) -> None:
    """Say whether everything that was saved is there and what it was. Nothing is changed. Exit code 1 if not.

    \b
    Example:
      tidings store check /var/lib/tidings
    """
    report = check_store(file_of(data))
    tell(report, json)
    if not report.is_whole:
        raise typer.Exit(NO)


@store.command("salvage")
def salvage_command(data: Data, json: Json = False) -> None:
    """Keep what is whole of a damaged store. The broker tells subscribers what of the history is lost.

    The damaged file is renamed, and stays. Stop the broker first.

    \b
    Example:
      tidings store salvage /var/lib/tidings
    """
    tell(salvage_store(file_of(data)), json)


def file_of(data: Path) -> Path:
    return data / STORAGE_NAME if data.is_dir() else data


def tell(report: StoreReport, json: bool) -> None:
    if json:
        print_json(msgspec.to_builtins(report))
        return
    if report.is_whole:
        print(f"{report.path} is whole: {report.whole} entries")
        return
    bound = "" if report.is_exact else "at least "
    print(f"{report.path} is damaged: {report.whole} entries are whole, {bound}{len(report.missing)} are lost")
    if report.problem:
        print(f"    {report.problem}")
    for name in report.missing[:NAMED_MAX]:
        print(f"    lost: {printable(name)}")
    if len(report.missing) > NAMED_MAX:
        print(f"    and {len(report.missing) - NAMED_MAX} more; --json names all")
    if report.damaged:
        print(f"what is whole is in its place; the damaged file is {report.damaged}")
    else:
        print("keep what is whole with: tidings store salvage")
