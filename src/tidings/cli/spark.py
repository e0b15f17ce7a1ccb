"""`tidings spark`: what Spark needs to run this package elsewhere."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tidings.cli.output import Json, print_json, show

spark = typer.Typer(
    help="Spark on other machines.", no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
)


@spark.callback()
def about() -> None:
    """Spark on other machines."""


@spark.command()
def package(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Where the archive goes: something.tar.gz.")],
    json: Json = False,
) -> None:
    """Pack this package and what it needs into an archive for spark-submit.

    Executors need a Python of the same version as this one; Spark itself is not packed.

    \b
    Example:
      tidings spark package tidings.tar.gz
      mkdir tidings && tar xzf tidings.tar.gz -C tidings
      export PYSPARK_PYTHON=./tidings/bin/python
      spark-submit --archives tidings.tar.gz#tidings --conf spark.pyspark.python=./tidings/bin/python job.py
    """
    from tidings.spark.archive import pack

    made = pack(path)
    if json:
        print_json(msgspec.to_builtins(made))
        return
    name = path.name.removesuffix(".tar.gz")
    show(
        f"{made.path}: {made.size_bytes / 1e6:.0f} MB, {made.files} files of {len(made.distributions)} distributions",
        f"mkdir {name} && tar xzf {path} -C {name}",
        f"export PYSPARK_PYTHON=./{name}/bin/python",
        f"spark-submit --archives {path}#{name} --conf spark.pyspark.python=./{name}/bin/python job.py",
    )
