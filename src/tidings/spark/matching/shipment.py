"""How an index file comes to the workers.

The driver writes the file into a folder of its own, named after what is in it, and hands it to Spark as an artifact.
That works in a local session, on a cluster (executors fetch the file from the driver) and over Spark Connect (the
client uploads it), and asks for no shared file system. Spark removes the workers' copies when the session ends; the
driver's own copy is removed when its process ends, because an executor that starts late fetches it then.

A worker process loads a file once, and keeps the LOADED_MAX that it used last. Workers live longer than tasks, so a
stream loads its index with its first batch only.
"""

import atexit
import shutil
import tempfile
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import xxhash

from tidings.spark.matching.index_file import IndexedSubscriptions, load_index_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOADED_MAX = 2
"""Indexes that a worker keeps in memory."""

READ_BYTES = 1 << 20


@cache
def own_folder() -> Path:
    """Of this process, removed at its end."""
    folder = tempfile.mkdtemp(prefix="tidings-matching-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def ship(session: "SparkSession", path: Path) -> str:
    """Give a file to all workers; the name under which they find it."""
    name = f"tidings-index-{content_hash(path)}"
    shipped = own_folder() / name
    if not shipped.exists():
        draft = shipped.with_suffix(".draft")
        shutil.copyfile(path, draft)
        draft.replace(shipped)
    session.addArtifacts(str(shipped), file=True)
    return name


def content_hash(path: Path) -> str:
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        while piece := file.read(READ_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def shipped_index(name: str) -> IndexedSubscriptions:
    """In a worker: the index that was shipped under this name."""
    from pyspark.core.files import SparkFiles

    return load_once(SparkFiles.get(name))


@lru_cache(maxsize=LOADED_MAX)
def load_once(path: str) -> IndexedSubscriptions:
    return load_index_file(Path(path))
