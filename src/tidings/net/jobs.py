"""Slow work beside the loop: `Compute` runs in a thread, and comes back as `Computed`.

Jobs are pure, so threads need no locks. They share the interpreter with the loop: work in C that lets go of it (numpy,
scipy, hashing) runs beside, plain Python slows the loop down. A job cannot be stopped; a host that stops does not wait
for those that run, and forgets their results.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from tidings.machine.effects import Compute
from tidings.machine.inputs import Computed

TOO_MANY_COMPUTATIONS = "too many computations wait"


class Computing:
    """`answered(computed)` is called in the thread that did the work."""

    def __init__(self, workers: int, waiting_max: int, answered: Callable[[Computed], None]) -> None:
        self.workers, self.waiting_max, self.answered = workers, waiting_max, answered
        self.executor: ThreadPoolExecutor | None = None
        self.under_way = 0

    def ask(self, effect: Compute) -> bool:
        """Whether there was room for it. The owner calls `done` when it has taken the answer."""
        if self.under_way >= self.waiting_max:
            return False
        self.under_way += 1
        if self.executor is None:
            self.executor = ThreadPoolExecutor(self.workers, thread_name_prefix="compute")
        self.executor.submit(effect.job.run).add_done_callback(partial(self.finish, effect.key))
        return True

    def done(self) -> None:
        self.under_way -= 1

    def finish(self, key: Any, future: Future[Any]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            self.answered(Computed(key, future.result()))
        else:
            self.answered(Computed(key, None, f"{type(error).__name__}: {error}"))

    def close(self) -> None:
        if self.executor is not None:
            self.executor.shutdown(wait=False, cancel_futures=True)
