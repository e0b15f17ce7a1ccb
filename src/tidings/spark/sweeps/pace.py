"""How far a sweep is, and how much of it to do next."""

import time
from typing import Any

import msgspec

from tidings.spark.sweeps.performer import Task
from tidings.spark.sweeps.run import FAILED, Run

WAVE_SECONDS, TASK_SECONDS = 20.0, 1.0
"""How long a wave and a task should take."""

WAVE_GROWTH_MAX = 64
"""A wave has at most so many times the runs of the largest before: the first few may have been quick ones."""


class Progress(msgspec.Struct, frozen=True):
    total: int
    """Runs asked for."""
    done: int
    """Those that are finished, also by earlier sweeps and by failing."""
    failed: int
    seconds_left: float | None
    """As far as one can tell from those done so far; None before the first."""
    outdated: int = 0
    """Runs that were finished with another definition of the experiment, and are performed anew."""


class SweepTally:
    """Which runs are finished, and how."""

    def __init__(self, ids: list[str]) -> None:
        self.total = len(ids)
        self.waiting = dict.fromkeys(ids)
        self.failed: set[str] = set()
        self.outdated = 0
        self.begin()

    def begin(self) -> None:
        """From now on time counts."""
        self.begun_at, self.waiting_at_begin = time.monotonic(), len(self.waiting)

    def found(self, row: Any, task: Task, experiment: str, retry_failed: bool) -> None:
        """A result of an earlier sweep."""
        if row.definition != task.made_with[experiment].definition:
            self.outdated += 1
        elif row.status == FAILED:
            if not retry_failed:
                self.done(row.run, FAILED)
        elif row.traced or not task.traces:
            self.done(row.run, row.status)

    def done(self, id: str, status: str) -> None:
        self.waiting.pop(id, None)
        if status == FAILED:
            self.failed.add(id)

    def progress(self) -> Progress:
        done_now = self.waiting_at_begin - len(self.waiting)
        seconds_each = (time.monotonic() - self.begun_at) / done_now if done_now else None
        return Progress(
            total=self.total,
            done=self.total - len(self.waiting),
            failed=len(self.failed),
            seconds_left=None if seconds_each is None else seconds_each * len(self.waiting),
            outdated=self.outdated,
        )


class Pace:
    """How many runs make a wave, and how many of them a task."""

    def __init__(self, cores: int, runs_per_task: int | None = None) -> None:
        self.cores, self.runs_per_task = max(cores, 1), runs_per_task
        self.runs, self.seconds, self.largest = 0, 0.0, 0

    def learn(self, seconds: list[float]) -> None:
        """What the runs of a wave took."""
        self.runs, self.seconds = self.runs + len(seconds), self.seconds + sum(seconds)
        self.largest = max(self.largest, len(seconds))

    def wave(self) -> int:
        least = self.cores * (self.runs_per_task or 1)
        if not self.runs:
            return least
        in_time = WAVE_SECONDS * self.cores / max(self.seconds / self.runs, 1e-6)
        return max(least, min(int(in_time), self.largest * WAVE_GROWTH_MAX))

    def tasks(self, runs: list[Run]) -> list[list[Run]]:
        in_time = int(TASK_SECONDS * self.runs / self.seconds) if self.seconds else 1
        even = -(-len(runs) // self.cores)
        each = self.runs_per_task or max(1, min(in_time, even))
        return [runs[begin : begin + each] for begin in range(0, len(runs), each)]
