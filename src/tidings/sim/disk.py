"""The disk of one node: what it saved survives a crash.

Requests are served in order, each after `delay` seconds, so that a save is never overtaken by a later one, and a load
sees the saves before it. What was not finished when the node crashed is not on the disk. A disk may become slow or fail
while the run goes on: `simulator.nodes["a"].disk.delay = 2.0`.
"""

from tidings.machine.effects import Load, Save
from tidings.machine.inputs import Loaded, Saved


class Disk:
    def __init__(self, delay: float) -> None:
        self.delay = delay
        self.error: str | None = None
        """While this is not None, every request comes back with it."""
        self.entries: dict[str, bytes] = {}
        self.done_at = 0.0

    def request(self, now: float) -> float:
        """When a request that is made now is served."""
        self.done_at = max(now + self.delay, self.done_at)
        return self.done_at

    def save(self, save: Save) -> Saved:
        if self.error is not None:
            return Saved(save.name, self.error)
        if save.data is None:
            self.entries.pop(save.name, None)
        else:
            self.entries[save.name] = save.data
        return Saved(save.name)

    def load(self, load: Load) -> Loaded:
        if self.error is not None:
            return Loaded(load.prefix, error=self.error)
        return Loaded(
            load.prefix,
            tuple((name, data) for name, data in sorted(self.entries.items()) if name.startswith(load.prefix)),
        )
