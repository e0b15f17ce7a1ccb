"""This package, and what it needs, as one file that Spark takes to machines on which nothing is installed.

    tidings spark package tidings.tar.gz
    mkdir tidings && tar xzf tidings.tar.gz -C tidings                             # for the driver
    export PYSPARK_PYTHON=./tidings/bin/python                   # Spark looks for formats with this one
    spark-submit --archives tidings.tar.gz#tidings --conf spark.pyspark.python=./tidings/bin/python job.py

Spark copies an archive to each executor and unpacks it in the folder in which that works, under the name behind the
`#`. Modules with compiled parts cannot be imported from a zip file (`--py-files`); from a folder they can. In the
archive lie the files of the distributions that `tidings[spark]` asks for, as they are installed here, without Spark's
own, which is there; and `bin/python`, a script that starts the `python3.x` of the path with that folder in front.

So executors need a Python of the same version, and a machine of the same kind, as that on which the archive was made.
"""

import gzip
import io
import re
import sys
import tarfile
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

import msgspec

from tidings.model.errors import UsageError

OURS = "tidings"
PACKAGES = (OURS, "pyspark_tidings", "pyspark_tidings_trace", "pyspark_tidings_brokers")
"""Our own are taken from where they are imported: they may be installed as a link to their sources."""

EXTRAS = ("spark", "net")
OF_SPARK = ("pyspark", "py4j")
LIBRARY, PYTHON = "lib", "bin/python"

SCRIPT = """#!/bin/sh
here=$(cd "$(dirname "$0")/.." && pwd)
PYTHONPATH="$here/{library}${{PYTHONPATH:+:$PYTHONPATH}}" exec {python} "$@"
"""

REQUIREMENT = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)\s*(?:\[(?P<extras>[^]]*)\])?")
EXTRA = re.compile(r"extra\s*==\s*['\"](?P<extra>[^'\"]+)['\"]")


class PackedArchive(msgspec.Struct, frozen=True):
    path: str
    size_bytes: int
    files: int
    distributions: tuple[str, ...]


def pack(path: Path, extras: Sequence[str] = EXTRAS) -> PackedArchive:
    """Make the archive; UsageError where it cannot be."""
    if path.suffixes[-2:] != [".tar", ".gz"]:
        raise UsageError(f"{path}: Spark knows an archive by its name; call it something.tar.gz")
    found = {name: made for name, made in needed(extras).items() if name not in OF_SPARK}
    python, count = f"python{sys.version_info.major}.{sys.version_info.minor}", 0
    with gzip.open(path, "wb", compresslevel=1) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        add_text(archive, PYTHON, SCRIPT.format(library=LIBRARY, python=python))
        for name, made in found.items():
            for place, file in files_of(name, made):
                archive.add(file, f"{LIBRARY}/{place}", recursive=False)
                count += 1
    return PackedArchive(str(path), path.stat().st_size, count, tuple(sorted(found)))


def add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(text.encode()), 0o755
    archive.addfile(member, io.BytesIO(text.encode()))


def needed(extras: Sequence[str]) -> dict[str, Distribution]:
    """The distributions that we ask for with these extras, and they in turn, as far as they are installed here; those
    that are meant for another Python or system are not."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    left = [(OURS, ""), *((OURS, extra) for extra in extras)]
    while left:
        name, wanted = left.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        try:
            found.setdefault(name, distribution(name))
        except PackageNotFoundError:
            continue
        left += asked_by(found[name], wanted)
    return dict(sorted(found.items()))


def asked_by(made: Distribution, extra: str) -> Iterator[tuple[str, str]]:
    for text in made.requires or ():
        requirement, _, marker = text.partition(";")
        named = EXTRA.search(marker)
        parsed = REQUIREMENT.match(requirement.strip())
        if parsed is None or (named["extra"] if named else "") != extra:
            continue
        name = re.sub(r"[-_.]+", "-", parsed["name"]).lower()
        yield name, ""
        yield from ((name, each.strip()) for each in (parsed["extras"] or "").split(",") if each.strip())


def files_of(name: str, made: Distribution) -> Iterator[tuple[str, Path]]:
    """With the place of each in the archive."""
    if name == OURS:
        for package in PACKAGES:
            spec = find_spec(package)
            assert spec is not None and spec.origin is not None
            folder = Path(spec.origin).parent
            yield from (
                (f"{package}/{it.relative_to(folder)}", it) for it in sorted(folder.rglob("*")) if is_wanted(it)
            )
        return
    for file in made.files or ():
        located = Path(str(made.locate_file(file)))
        if ".." not in file.parts and is_wanted(located):
            yield str(file), located


def is_wanted(file: Path) -> bool:
    return file.is_file() and "__pycache__" not in file.parts and file.suffix != ".pyc"
