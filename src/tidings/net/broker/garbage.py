"""Looking for garbage in short steps.

The problem. Python gives most objects back at once; what refers to itself in a circle it finds by looking at all
objects there are, now and then, and does nothing else meanwhile. With 100,000 subscriptions one look takes 100 ms and
more, in which nobody is served, and a stranger who subscribes and unsubscribes decides when.

The idea. A broker makes hardly any circles: some seven objects for a connection that has ended, and nothing for
subscriptions, events or answers. So what has survived two looks is set aside (`gc.freeze`) and not looked at again:
every look is at a few thousand new objects. Objects that were set aside are still given back at once when nobody refers
to them; only circles among them stay. So when a broker has been quiet for a second, and at most every `THAW_PERIOD`,
everything is looked at once. One that is never quiet does it every `THAW_PERIOD_MAX`, for otherwise its connections
would add up.
"""

import asyncio
import gc
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

COLLECTED_AFTER = 5000, 3, 1_000_000
"""Objects made beyond those given back, after which garbage is looked for among them; how many times, until those that
were left are looked at as well; and until all are, which never happens, since these are set aside before."""

LOOK_PERIOD = 1.0
"""Seconds between two looks at whether the broker is quiet."""

QUIET_SHARE = 0.02
"""Of that time, what a broker that is quiet may have worked at most."""

THAW_PERIOD, THAW_PERIOD_MAX = 60.0, 3600.0
"""Seconds after which everything is looked at, if the broker is quiet, and if it is not."""


class SteppedCollection:
    """For the process, as long as it is entered. `worked()` is how many seconds were worked so far."""

    def __init__(self, worked: Callable[[], float], clock: Callable[[], float]) -> None:
        self.worked, self.clock = worked, clock
        self.thawed_at = self.looked_at = clock()
        self.worked_before = worked()
        self.thresholds = gc.get_threshold()

    def __enter__(self) -> Self:
        # What is loaded by now stays.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*COLLECTED_AFTER)
        gc.callbacks.append(self.collected)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        gc.callbacks.remove(self.collected)
        gc.set_threshold(*self.thresholds)
        gc.unfreeze()

    def collected(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "stop" and info["generation"] == 1:
            gc.freeze()

    def look(self) -> bool:
        """Look at everything, if this is a good moment; whether it was."""
        now, worked = self.clock(), self.worked()
        share = (worked - self.worked_before) / max(now - self.looked_at, 1e-9)
        self.looked_at, self.worked_before = now, worked
        if now - self.thawed_at < (THAW_PERIOD if share < QUIET_SHARE else THAW_PERIOD_MAX):
            return False
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self.thawed_at = self.clock()
        return True

    async def keep_looking(self) -> None:
        while True:
            await asyncio.sleep(LOOK_PERIOD)
            self.look()
