"""What is done of a sweep, counted by looking into its folder.

Workers tell nobody that a run is finished: its file appears. So a count needs nothing of Spark, is right after a
restart, and is the same whether the session is here or remote.
"""

import os
import time

import msgspec

from tidings.spark.sweeps.folder import Folder
from tidings.spark.sweeps.outcome import FAILED, read_status


class Progress(msgspec.Struct, frozen=True):
    total: int
    """Runs asked for."""
    done: int
    """Those that are finished, also by earlier sweeps and by failing."""
    failed: int
    seconds_left: float | None
    """As far as one can tell from those done so far; None before the first."""


class SweepTally:
    def __init__(self, folder: Folder, ids: list[str]) -> None:
        self.folder, self.total = folder, len(ids)
        self.waiting = dict.fromkeys(ids)
        """Runs without a result."""
        self.failed: dict[str, None] = {}
        self.begin()

    def begin(self) -> None:
        """From now on time counts."""
        self.look()
        self.begun_at, self.waiting_at_begin = time.monotonic(), len(self.waiting)

    def look(self) -> bool:
        """Whether there is anything new."""
        with os.scandir(self.folder.results) as entries:
            ids = [entry.name.removeprefix("run=") for entry in entries]
        finished = [id for id in ids if id in self.waiting and self.folder.result(id).exists()]
        for id in finished:
            del self.waiting[id]
            if read_status(self.folder.result(id)) == FAILED:
                self.failed[id] = None
        return bool(finished)

    def discard(self, id: str) -> None:
        """Forget that this run was finished; it is to be performed again."""
        self.folder.result(id).unlink()
        self.failed.pop(id, None)
        self.waiting[id] = None

    def progress(self) -> Progress:
        done_now = self.waiting_at_begin - len(self.waiting)
        seconds_each = (time.monotonic() - self.begun_at) / done_now if done_now else None
        return Progress(
            total=self.total,
            done=self.total - len(self.waiting),
            failed=len(self.failed),
            seconds_left=None if seconds_each is None else seconds_each * len(self.waiting),
        )
