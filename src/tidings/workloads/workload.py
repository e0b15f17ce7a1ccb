"""What all workloads have in common: a seed, named tables, and parameters that are checked when it is built.

A workload is a value: its parameters, and nothing else. Equal workloads have equal rows. Each of its tables is a method
of that name. Two tables mean the same in every workload that has them:

    events           key string, and one typed column for each attribute; `published_at` where there is a schedule,
                     in seconds from the beginning
    subscriptions    subscription string, filter string (text of the filter language), and what else is known of it

Whoever publishes one event after the other, as a simulation does, takes `planned_events`: the same events in the
order of their times. The order needs the whole table, as numbers; so there is a bound, beyond which Spark is the place
to sort.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import ClassVar

import msgspec

from tidings.model.errors import UsageError
from tidings.model.values import Value
from tidings.workloads.table import CHUNK_ITEMS, Columns, Listed, Make, Row, Table, row_at

PLANNED_MAX = 5_000_000
"""Events of a schedule that are brought into the order of time in one process."""

NOT_ATTRIBUTES = ("key", "published_at")


class PlannedEvent(msgspec.Struct, frozen=True):
    """An event of a workload: seconds from the beginning, or None without a schedule, and what the event has."""

    at: float | None
    key: str
    """`p17 4` is event 4 of publisher 17, where the workload has publishers."""
    attributes: dict[str, Value]

    @property
    def publisher(self) -> str:
        return self.key.partition(" ")[0]

    @property
    def number(self) -> int:
        """Among the events of its publisher, from 0 on."""
        return int(self.key.partition(" ")[2])


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    tables: ClassVar[tuple[str, ...]] = ("events", "subscriptions")

    seed: int = 1

    def __post_init__(self) -> None:
        require(0 <= self.seed < 2**63, f"seed: {self.seed} is not possible; give a number from 0 to 2**63 - 1")
        self.check()

    def check(self) -> None:
        """Refuse parameters that make no sense."""

    def require_positive(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            require(value > 0, f"{name}: {value} is not possible; give more than 0")

    def require_shares(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            require(0 <= value <= 1, f"{name}: {value} is no share; give a number from 0 to 1")

    def table(self, name: str) -> Table | Listed:
        if name not in self.tables:
            raise UsageError(f"there is no table {name!r} here; choose from {', '.join(self.tables)}")
        made: Table | Listed = getattr(self, name)()
        return made

    def drawn(self, stream: str, items: int, columns: Columns, *, make: Make, chunk_items: int = CHUNK_ITEMS) -> Table:
        """A table of this workload's seed."""
        return Table(stream=stream, seed=self.seed, items=items, columns=columns, make=make, chunk_items=chunk_items)

    def planned_events(self) -> Iterator[PlannedEvent]:
        """The events one by one: in the order of their times, or of the table where there is no schedule."""
        events = self.table("events")
        rows = rows_by_time(events) if isinstance(events, Table) and "published_at" in events.columns else events.rows()
        return map(planned_event, rows)


def planned_event(row: Row) -> PlannedEvent:
    """What is not known of an event is absent; times are text in events."""
    attributes = {
        name: value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value
        for name, value in row.items()
        if name not in NOT_ATTRIBUTES and value is not None
    }
    return PlannedEvent(row.get("published_at"), row["key"], attributes)


def rows_by_time(table: Table) -> Iterator[Row]:
    """Of equal times the one that stands first in the table comes first."""
    if table.items > PLANNED_MAX:
        raise UsageError(f"{table.items} events; up to {PLANNED_MAX} are put in order here; make fewer, or use Spark")
    import numpy

    chunks = [table.chunk(number) for number in range(table.chunks)]
    times = [numpy.asarray(drawn["published_at"]) for drawn in chunks]
    for row in numpy.argsort(numpy.concatenate(times), kind="stable").tolist() if times else []:
        number, place = divmod(row, table.chunk_items)
        yield row_at(table.columns, chunks[number], place)


def require(holds: bool, problem: str) -> None:
    """`problem` names the parameter at fault and says what it may be."""
    if not holds:
        raise UsageError(problem)
