"""The folder of a sweep, which is all that drivers and workers share.

    traces/run=ID/trace.parquet      what happened in the run
    results/run=ID/result.parquet    one row: what came of it; when it is there, the run is finished
    drafts/ID.XXXXXXXX/              what a worker is writing at this moment

Both files are written as drafts and renamed, the trace first: a file that is there is whole, and a result that is there
has its trace, whatever process is killed. (After a power cut the last files may be empty: remove them.) Two workers
that perform the same run (Spark may start a task a second time before it knows that the first is lost) do not disturb
each other, and whichever comes last puts the same bytes in the place of the others'.

A draft that stays is the mark of a worker that died in this run. A folder is for one sweep at a time, which removes old
drafts when it begins.
"""

import os
import shutil
from pathlib import Path

import msgspec

from tidings.model.errors import UsageError

RESULT, TRACE = "result.parquet", "trace.parquet"


class Folder(msgspec.Struct, frozen=True):
    path: Path
    """Absolute: workers have another idea of where they are."""

    @property
    def results(self) -> Path:
        return self.path / "results"

    @property
    def traces(self) -> Path:
        return self.path / "traces"

    @property
    def drafts(self) -> Path:
        return self.path / "drafts"

    def result(self, id: str) -> Path:
        return self.results / f"run={id}" / RESULT

    def trace(self, id: str) -> Path:
        return self.traces / f"run={id}" / TRACE

    def is_begun(self, id: str) -> bool:
        """Whether somebody began this run and did not come to its end."""
        return any(self.drafts.glob(f"{id}.*"))

    def forget_drafts(self) -> None:
        shutil.rmtree(self.drafts, ignore_errors=True)
        self.drafts.mkdir(exist_ok=True)


def open_folder(path: str | Path) -> Folder:
    """The folder, made where it is missing. Workers make none: theirs would be on another machine."""
    folder = Folder(Path(path).resolve())
    try:
        for place in (folder.results, folder.traces, folder.drafts):
            place.mkdir(parents=True, exist_ok=True)
        probe = folder.drafts / f"probe.{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as problem:
        raise UsageError(f"cannot write to the folder {path}: {problem.strerror}; name one that is yours") from None
    return folder


def put(draft: Path, place: Path) -> None:
    place.parent.mkdir(exist_ok=True)
    draft.replace(place)
