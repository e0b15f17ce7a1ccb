"""From a trace of machines to a schedule of failures for a run of a minute (spec dependable.md 4.6, D-1; G-59).

A cluster writes down when each machine is added to it, removed from it, or changed. Three steps make failures of it:

    machine_events      time_us, machine, event_type (0 added, 1 removed, 2 changed), as in Google's cluster trace
    down_intervals      machine, down_us, up_us: from a removal to the next addition, or to the end of the trace
    failure_schedule    node, down_at, up_at: as many machines as there are nodes, drawn at random; the whole trace
                        squeezed into the seconds of a run

Squeezed from a month to a minute, an outage of twenty minutes lasts 30 ms, which no protocol would notice. Outages that
come out shorter than `shortest` are stretched to it, or left out; those that then touch are one.

The real trace is not at hand. `Machines` makes one of its shape: 11,000 machines over 29 days, each up for an
exponential time and down for a lognormal one. The rate and the lengths are our choice (most outages are restarts of
some minutes, a few are repairs of days). Rows of any table with the three columns take its place.
"""

from collections.abc import Iterable, Iterator
from typing import ClassVar

import msgspec
import numpy
import xxhash

from tidings.model.errors import UsageError
from tidings.workloads.table import Columns, Drawn, Listed, Random, Table
from tidings.workloads.workload import Workload, require

ADDED, REMOVED, CHANGED = 0, 1, 2
DAY_US = 86_400 * 10**6
SPAN_DAYS = 29.0
MACHINES_PER_CHUNK = 8192


class Machines(Workload, frozen=True, kw_only=True, tag="machines"):
    """Machines of a cluster that come and go over 29 days, and a schedule of failures made of them."""

    tables: ClassVar[tuple[str, ...]] = ("machine_events", "failures")

    machines: int = 11_000
    days: float = SPAN_DAYS
    outages: float = 0.7
    """Of a machine in the whole time, on average."""
    down_minutes: float = 20.0
    """Half of the outages are shorter."""
    down_spread: float = 1.5
    """Standard deviation of the logarithm of their length."""
    changes: float = 0.5
    """How likely a machine is changed once; this says nothing about failures, but real traces have it."""
    nodes: int = 100
    """How many nodes the schedule is for."""
    duration: float = 60.0
    """Seconds that the schedule covers."""
    shortest: float = 2.0
    """Seconds; shorter outages are stretched to this."""

    def check(self) -> None:
        self.require_positive("machines", "days", "outages", "down_minutes", "nodes", "duration", "shortest")
        self.require_shares("changes")
        require(self.down_spread >= 0, f"down_spread: {self.down_spread} is below 0")
        require(self.nodes <= self.machines, f"nodes: {self.nodes} is more than the {self.machines} machines")

    def failures(self) -> Listed:
        columns: Columns = {"node": "long", "down_at": "double", "up_at": "double"}
        return Listed(columns, lambda: [msgspec.structs.asdict(outage) for outage in self.outage_plan()])

    def outage_plan(self) -> "list[Outage]":
        events = (MachineEvent(**row) for row in self.machine_events().rows())
        return failure_schedule(
            events, self.nodes, self.duration, shortest=self.shortest, days=self.days, seed=self.seed
        )

    def machine_events(self) -> Table:
        columns: Columns = {"time_us": "long", "machine": "long", "event_type": "long"}
        return self.drawn(
            "machines/events", self.machines, columns, make=self.draw_machines, chunk_items=MACHINES_PER_CHUNK
        )

    def draw_machines(self, random: Random, first: int, count: int) -> Drawn:
        """Up and down by turns, for more turns than a machine can be expected to have."""
        turns = int(self.outages + 10 * self.outages**0.5 + 10)
        up = random.standard_exponential((count, turns)) * (self.days / self.outages)
        down = numpy.exp(self.down_spread * random.standard_normal((count, turns))) * (self.down_minutes / 1440)
        ends = numpy.cumsum(numpy.stack([up, down], axis=2).reshape(count, -1), axis=1)
        machine = numpy.repeat(numpy.arange(first, first + count), 2 * turns).reshape(count, -1)
        kinds = numpy.tile([REMOVED, ADDED], (count, turns))
        changed_at = random.random(count) * self.days
        changed = random.random(count) < self.changes
        times = numpy.concatenate([numpy.zeros(count), ends[ends < self.days], changed_at[changed]])
        machines = numpy.concatenate([machine[:, 0], machine[ends < self.days], machine[changed, 0]])
        types = numpy.concatenate(
            [numpy.full(count, ADDED), kinds[ends < self.days], numpy.full(changed.sum(), CHANGED)]
        )
        times_us = (times * DAY_US).astype(numpy.int64)
        order = numpy.lexsort((types, times_us, machines))
        return {"time_us": times_us[order], "machine": machines[order], "event_type": types[order]}


class MachineEvent(msgspec.Struct, frozen=True):
    time_us: int
    machine: int
    event_type: int


class Outage(msgspec.Struct, frozen=True):
    """`node` is down from `down_at` to `up_at`, in seconds."""

    node: int
    down_at: float
    up_at: float


def down_intervals(machine_events: Iterable[MachineEvent], end_us: int) -> Iterator[tuple[int, int, int]]:
    """(machine, down_us, up_us). A second removal in a row tells nothing new."""
    down: dict[int, int] = {}
    for event in sorted(machine_events, key=lambda event: (event.time_us, event.event_type)):
        if event.event_type == REMOVED:
            down.setdefault(event.machine, event.time_us)
        elif event.event_type == ADDED and (down_us := down.pop(event.machine, event.time_us)) < event.time_us:
            yield event.machine, down_us, event.time_us
    yield from ((machine, down_us, end_us) for machine, down_us in down.items() if down_us < end_us)


def failure_schedule(
    machine_events: Iterable[MachineEvent],
    nodes: int,
    duration: float = 60.0,
    *,
    shortest: float = 2.0,
    stretch: bool = True,
    days: float = SPAN_DAYS,
    seed: int = 1,
) -> list[Outage]:
    """By node and time; a node without failures has no outage. `days` is how long the trace is.

    Without `stretch`, outages below `shortest` are left out. There should be as many machines as nodes, or the last
    nodes never fail."""
    if nodes < 1 or duration <= 0 or shortest < 0 or days <= 0:
        raise UsageError("nodes, duration, shortest, days: give at least one node, and no time below 0")
    events, end_us = list(machine_events), int(days * DAY_US)
    drawn = sorted({event.machine for event in events}, key=lambda machine: (chance(seed, machine), machine))
    names, scale = {machine: node for node, machine in enumerate(drawn[:nodes])}, duration / end_us
    squeezed = [
        Outage(names[machine], down_us * scale, up_us * scale)
        for machine, down_us, up_us in down_intervals(events, end_us)
        if machine in names
    ]
    if stretch:
        squeezed = [
            Outage(each.node, each.down_at, min(max(each.up_at, each.down_at + shortest), duration))
            for each in squeezed
        ]
    else:
        squeezed = [each for each in squeezed if each.up_at - each.down_at >= shortest]
    return unite(squeezed)


def unite(outages: Iterable[Outage]) -> list[Outage]:
    """Outages of a node that overlap or touch become one."""
    united: list[Outage] = []
    for each in sorted(outages, key=lambda outage: (outage.node, outage.down_at, outage.up_at)):
        if united and united[-1].node == each.node and each.down_at <= united[-1].up_at:
            last = united.pop()
            each = Outage(each.node, last.down_at, max(last.up_at, each.up_at))
        united.append(each)
    return united


def chance(seed: int, machine: int) -> int:
    """By this order machines are drawn. It is what Spark calls xxhash64(seed, machine), of a seed of 4 or 8 bytes."""
    begun = xxhash.xxh64_intdigest(seed.to_bytes(4 if seed < 2**31 else 8, "little"), 42)
    drawn = xxhash.xxh64_intdigest(b"%d" % machine, begun)
    return drawn if drawn < 2**63 else drawn - 2**64
