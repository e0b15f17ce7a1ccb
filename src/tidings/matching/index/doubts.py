"""Filters that have to be asked themselves: what an engine finds of them is doubtful, because they have no normal form.

Asking is exact, and may be dear: functions go through strings that a stranger chose, once for each filter. So whoever
serves others asks a few filters at a time (`search`) and comes back to the same event later; what they said is kept
until the event is matched, or another one is searched.
"""

from collections.abc import Iterable

from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.work import WORK

ASK_UNITS = 24
"""Work for which asking a filter counts, beside what it says of itself."""


class Doubts:
    """By slot. An index that holds no such filter is as quick as if there were none anywhere."""

    __slots__ = ("event", "filters", "verdicts")

    def __init__(self) -> None:
        self.filters: dict[int, Filter] = {}
        self.event: Event | None = None
        self.verdicts: dict[int, bool] = {}
        """What filters said of that event."""

    def __len__(self) -> int:
        return len(self.filters)

    def __contains__(self, slot: int) -> bool:
        return slot in self.filters

    def add(self, slot: int, filter: Filter) -> None:
        self.filters[slot] = filter

    def remove(self, slot: int) -> None:
        self.filters.pop(slot, None)
        self.verdicts.pop(slot, None)

    def ask(self, slot: int, event: Event) -> bool:
        verdict = self.verdicts.get(slot) if event is self.event else None
        return self.filters[slot].matches(event) if verdict is None else verdict

    def search(self, event: Event, slots: Iterable[int], until: int) -> bool:
        """Ask these about an event until so much work is counted; whether all have been asked."""
        if event is not self.event:
            self.event, self.verdicts = event, {}
        for slot in slots:
            if slot not in self.verdicts:
                if WORK.units >= until:
                    return False
                WORK.units += ASK_UNITS
                self.verdicts[slot] = self.filters[slot].matches(event)
        return True

    def is_light(self, event: Event, slots: Iterable[int], until: int) -> bool:
        """Whether these could be asked before so much work is counted; nothing is remembered."""
        for slot in slots:
            if WORK.units >= until:
                return False
            WORK.units += ASK_UNITS
            self.filters[slot].matches(event)
        return True
