"""How a worker died, and what else a failed job may mean.

A failed job is a text of hundreds of lines, most of them Java's. Four cases matter: a worker is no more, and then
perhaps Python's last words are in the text (`faulthandler`); our own code in the worker refused, and says why; the
store or the format cannot be used (`place.py`); or it is Spark's own trouble, which is left as it is.
"""

import re

from tidings.model.errors import UsageError

PYTHON_DIED, EXECUTOR_DIED = "Python worker exited unexpectedly", "ExecutorLostFailure"

LAST_WORDS = re.compile(r"Fatal Python error: .*")
FRAME = re.compile(r'^  File "(?:.*/)?([^/"]+)", line (\d+) in (\S+)$', re.MULTILINE)
FRAMES_MAX = 6

EXECUTOR_REASON = re.compile(r"ExecutorLostFailure \(.*?\) Reason: (.*)")

REFUSED = re.compile(rf"^{re.escape(f'{UsageError.__module__}.{UsageError.__name__}')}: (.*)$", re.MULTILINE)

FAILED_TASK = re.compile(r"Task (\d+) in stage \S+ failed")

SILENT = "it said nothing, so it exited by itself, or was killed by a signal, for want of memory perhaps"


class WorkerDied(Exception):
    """In the middle of what it was told to do."""

    def __init__(self, words: str, task: int | None = None) -> None:
        super().__init__(words)
        self.task = task
        """Of its job, if Spark says which."""


def meaning(problem: Exception) -> Exception:
    """The same problem as an exception that says what it is."""
    text = str(problem)
    if PYTHON_DIED in text or EXECUTOR_DIED in text:
        named = FAILED_TASK.search(text)
        return WorkerDied(last_words(text), int(named[1]) if named is not None else None)
    refused = REFUSED.search(text)
    return UsageError(refused[1]) if refused is not None else problem


def last_words(text: str) -> str:
    """How the worker died; for a crash with the innermost frames of Python, innermost first."""
    said = LAST_WORDS.search(text)
    if said is None:
        reason = EXECUTOR_REASON.search(text)
        return reason[1] if reason is not None else SILENT
    # What Spark says comes several times over; the frames of the first time are enough.
    frames = [f"{file}, line {line}, in {name}" for file, line, name in FRAME.findall(text, said.end())[:FRAMES_MAX]]
    return " <- ".join([said[0].removeprefix("Fatal Python error: "), *frames])
