"""A file or a folder, on this machine or in a store that many share.

    place = place_of("s3a://bucket/lab")           # or file:///x, hdfs://, abfss://, gs://, dbfs:/, or a path as ever
    (place / "order.json").write_bytes(b"{}")
    spark.read.parquet(place.text)

Tables go through Spark, which is given `text`. Small files that no table is (an order, a page, a picture) go through
pyarrow's file systems, which find keys and endpoints where every program of that store finds them (`AWS_ENDPOINT_URL`
and so on). What has no scheme is a path on this machine; Spark is told so with `file://`, because a cluster may take a
bare path for one in its own store.

A place that cannot be used is refused with a sentence: by `place_of` if no such place can be, by pyarrow's word when it
is used, and by `meaning_of_storage` when it is Spark that refuses.
"""

import re
from pathlib import Path
from posixpath import join, split
from typing import Any

import msgspec

from tidings.model.errors import UsageError

SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
LOCAL_SCHEME = "file"

NAMES_HERE = {"s3a": "s3", "s3n": "s3", "abfs": "abfs", "abfss": "abfss", "hdfs": "hdfs", "gs": "gs", "s3": "s3"}
"""What pyarrow calls the schemes that Spark knows."""

MOUNTED = {"dbfs": "/dbfs"}
"""Stores that are folders on every machine that has them."""

PACKAGES = {
    "s3a": "org.apache.hadoop:hadoop-aws",
    "abfs": "org.apache.hadoop:hadoop-azure",
    "abfss": "org.apache.hadoop:hadoop-azure",
    "gs": "com.google.cloud.bigdataoss:gcs-connector",
}
"""What Spark needs beside its own jars, of the version of its Hadoop."""

FORMAT_PACKAGES = {
    "delta": "io.delta:delta-spark_4.3_2.13",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.3_2.13",
}

NO_STORE = re.compile(r"No FileSystem for scheme|FileSystem not found")
NO_FORMAT = re.compile(r"DATA_SOURCE_NOT_FOUND")
MISSING = re.compile(r"PATH_NOT_FOUND|DELTA_TABLE_NOT_FOUND|DELTA_PATH_DOES_NOT_EXIST|DELTA_SCHEMA_NOT_SET")


class Place(msgspec.Struct, frozen=True):
    text: str
    """As Spark takes it."""

    def __str__(self) -> str:
        """As a person wrote it."""
        return self.text.removeprefix("file://") if self.is_here else self.text

    def __truediv__(self, name: str) -> "Place":
        return Place(join(self.text, name))

    @property
    def name(self) -> str:
        return split(self.text)[1]

    @property
    def parent(self) -> "Place":
        return Place(split(self.text)[0])

    @property
    def scheme(self) -> str:
        return self.text.partition(":")[0]

    @property
    def is_here(self) -> bool:
        return self.scheme == LOCAL_SCHEME

    @property
    def path(self) -> Path:
        """Of a place on this machine."""
        if not self.is_here:
            raise UsageError(f"{self}: this must be a file or folder on this machine")
        return Path(str(self))

    def read_bytes(self) -> bytes:
        system, path = self.opened()
        try:
            with system.open_input_stream(path) as file:
                return bytes(file.read())
        except OSError as problem:
            raise UsageError(f"cannot read {self}: {said(problem)}") from None

    def write_bytes(self, data: bytes) -> None:
        """Folders above it are made where they are missing."""
        system, path = self.opened()
        try:
            system.create_dir(split(path)[0], recursive=True)
            with system.open_output_stream(path) as file:
                file.write(data)
        except OSError as problem:
            raise UsageError(f"cannot write {self}: {said(problem)}; name a place that is yours") from None

    def remove(self) -> None:
        """A file."""
        system, path = self.opened()
        system.delete_file(path)

    def exists(self) -> bool:
        from pyarrow.fs import FileType

        system, path = self.opened()
        return bool(system.get_file_info(path).type != FileType.NotFound)

    def files(self) -> list["Place"]:
        """This one, or all files below it, by name."""
        from pyarrow.fs import FileSelector, FileType

        system, path = self.opened()
        try:
            about = system.get_file_info(path)
            if about.type == FileType.File:
                return [self]
            below = system.get_file_info(FileSelector(path, allow_not_found=True, recursive=True))
        except OSError as problem:
            raise UsageError(f"cannot look into {self}: {said(problem)}") from None
        found = sorted(each.path for each in below if each.type == FileType.File)
        return [self / each.removeprefix(path).lstrip("/") for each in found]

    def below(self, folder: "Place") -> str:
        """The way here from a folder above."""
        return self.text.removeprefix(folder.text).lstrip("/")

    def opened(self) -> tuple[Any, str]:
        """pyarrow's file system, and the path in it."""
        from pyarrow import ArrowException
        from pyarrow.fs import FileSystem, LocalFileSystem

        if self.is_here:
            return LocalFileSystem(), str(self)
        rest = self.text.partition(":")[2]
        if self.scheme in MOUNTED:
            return LocalFileSystem(), f"{MOUNTED[self.scheme]}/{rest.lstrip('/')}"
        try:
            system, path = FileSystem.from_uri(f"{NAMES_HERE.get(self.scheme, self.scheme)}:{rest}")
        except (ArrowException, OSError) as problem:
            raise UsageError(f"cannot use {self}: {said(problem)}") from None
        return system, path


def place_of(given: "str | Path | Place") -> Place:
    """What has a scheme is taken as it is; all else is a path here."""
    if isinstance(given, Place):
        return given
    text = str(given)
    found = SCHEME.match(text) if isinstance(given, str) else None
    if found is None:
        return Place(f"file://{Path(text).absolute()}")
    if found[1] != LOCAL_SCHEME:
        return Place(text.rstrip("/"))
    rest = text.removeprefix("file:")
    if rest.startswith("//") and not rest.startswith("///"):
        raise UsageError(
            f"{text}: {rest[2:].partition('/')[0]!r} would be a machine; write file:/// and the whole path"
        )
    return Place(f"file:///{rest.strip('/')}")


def said(problem: BaseException) -> str:
    """In one line: what pyarrow cannot load it tells with every path that it tried."""
    text = getattr(problem, "strerror", None) or str(problem)
    return text.splitlines()[0].rstrip(".") if text else type(problem).__name__


def meaning_of_storage(problem: Exception, place: Place, format: str) -> Exception | None:
    """What Spark's refusal of a place or a format comes to; None if it is about something else."""
    text = str(problem)
    if NO_FORMAT.search(text):
        package = FORMAT_PACKAGES.get(format, "")
        advice = f"start it with spark.jars.packages={package}:VERSION, or " if package else ""
        return UsageError(f"this Spark does not know the format {format!r}: {advice}leave it at 'parquet'")
    if NO_STORE.search(text):
        package = PACKAGES.get(place.scheme, "")
        advice = f"start it with spark.jars.packages={package}:VERSION" if package else "name a place that it knows"
        return UsageError(f"cannot use {place}: this Spark has no file system for {place.scheme}://; {advice}")
    return None


def is_missing(problem: Exception) -> bool:
    """Whether Spark says that there is nothing at that place."""
    return MISSING.search(str(problem)) is not None
