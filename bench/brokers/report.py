"""The figures of all rounds as tables, what was to be reached, and the section of docs/benchmarks.md."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from bench.brokers.servers import MOSQUITTO, NATS, TIDINGS, ZENOH
from bench.report import BROKERS_SECTION, Grid, machine, markdown, shown, target_grid
from bench.targets import Target

ONE, TEN, CONTENT, SUBJECTS = "1 to 1", "1 to 10", "content", "subjects"
PER_CPU, PER_SECOND = "deliveries per broker CPU second", "deliveries/s"
P50, P99, RECEIVE = "p50 us", "p99 us", "CPU us an event received"

CAPTION = """\
Written by `python -m bench.brokers`. One publisher, 140-byte events, loopback, every broker in a process of its own and
under the same light load generator, which writes 256 events at a time; interleaved rounds; the median, and in
brackets the least and the most. Deliveries per *broker CPU second* are the figure to compare, since on a small machine
the wall rate tells how the cores were shared. In plain forwarding the attributes repeat (16 different heads), in
*content* no two events have the same. Ours works in batches, so the last table says how it fares when fewer or more
events are written at once.

*1 to 1* and *1 to 10*: plain forwarding, everybody wants everything. *content*: a hundred subscribers want 1 % of the
events each, by ranges of several attributes; **useful** deliveries count. A topic broker has to send every event to all
hundred, who throw 99 % away. *subjects*: the user's strongest answer, one attribute cut into a hundred subjects and
every subscriber wanting exactly one of them. Where interests look like that and stay so, NATS is the better choice;
ours is for ranges that do not line up, several attributes, and interests that change.

Our broker is `tidings broker` on uvloop, with receipts, bounds, history and accounting as they are by default. zenoh is
its router as a library session, with the Python library on both sides; its receiving cost counts all threads."""


@dataclass
class Figures:
    """Values of all rounds, by broker, run and kind of figure."""

    values: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def add(self, broker: str, run: str, what: str, value: float) -> None:
        self.values.setdefault((broker, run, what), []).append(value)

    def middle(self, broker: str, run: str, what: str) -> float | None:
        values = self.values.get((broker, run, what))
        return median(values) if values else None

    def ratio(self, run: str, what: str, other: str) -> float | None:
        mine, theirs = self.middle(TIDINGS, run, what), self.middle(other, run, what)
        return mine / theirs if mine is not None and theirs else None

    def shown(self, broker: str, run: str, what: str) -> str:
        values = self.values.get((broker, run, what))
        if not values:
            return "-"
        if len(values) == 1:
            return shown(values[0])
        return f"{shown(median(values))} ({shown(min(values))} to {shown(max(values))})"


def at_once(run: str, size: int) -> str:
    """The name of a run in which so many events are written at once."""
    return f"{run}, {size} at once"


def targets(figures: Figures) -> list[Target]:
    def at_least(text: str, limit: float, measured: float | None) -> Target:
        return Target(text, limit, True, measured, "x")

    def at_most(text: str, limit: float, measured: float | None) -> Target:
        return Target(text, limit, False, measured, "x")

    ratio = figures.ratio
    return [
        at_least("1 to 1, per broker CPU second: ours / NATS", 1.0, ratio(ONE, PER_CPU, NATS)),
        at_least("1 to 1, per broker CPU second: ours / Mosquitto", 8.0, ratio(ONE, PER_CPU, MOSQUITTO)),
        at_least("1 to 10, per broker CPU second: ours / NATS", 1.0, ratio(TEN, PER_CPU, NATS)),
        at_most("a single event, p50: ours / NATS", 1.5, ratio(ONE, P50, NATS)),
        at_most("receiving, CPU of the client: ours / nats-py", 0.3, ratio(ONE, RECEIVE, NATS)),
        at_most("receiving, CPU of the client: ours / zenoh-python", 1.0, ratio(ONE, RECEIVE, ZENOH)),
        at_least("content, per broker CPU second: ours / NATS", 10.0, ratio(CONTENT, PER_CPU, NATS)),
        at_least("content, per broker CPU second: ours / Mosquitto", 50.0, ratio(CONTENT, PER_CPU, MOSQUITTO)),
    ]


def grids(figures: Figures) -> list[Grid]:
    brokers = list(dict.fromkeys(broker for broker, _, _ in figures.values))
    throughput = Grid(
        "throughput",
        [f"{run}, {what}" for run in (ONE, TEN, CONTENT) for what in (PER_CPU, PER_SECOND)],
        [
            [
                broker,
                *(figures.shown(broker, run, what) for run in (ONE, TEN, CONTENT) for what in (PER_CPU, PER_SECOND)),
            ]
            for broker in brokers
        ],
    )
    subjects = figures.shown(NATS, SUBJECTS, PER_CPU), figures.shown(NATS, SUBJECTS, PER_SECOND)
    throughput.rows.append(["NATS, one attribute cut into subjects", "-", "-", "-", "-", *subjects])
    single = Grid(
        "single events and clients",
        [P50, P99, RECEIVE],
        [[broker, *(figures.shown(broker, ONE, what) for what in (P50, P99, RECEIVE))] for broker in brokers],
    )
    sizes = list(dict.fromkeys(run for _, run, _ in figures.values if run.endswith(" at once")))
    chunks = Grid(
        f"{PER_CPU}, by how many events are written at once",
        [TIDINGS, NATS, "ratio"],
        [
            [
                run,
                figures.shown(TIDINGS, run, PER_CPU),
                figures.shown(NATS, run, PER_CPU),
                shown(figures.ratio(run, PER_CPU, NATS)),
            ]
            for run in sizes
        ],
    )
    return [throughput, single, *([chunks] if sizes else [])]


def section(figures: Figures, goals: Sequence[Target]) -> str:
    parts = [BROKERS_SECTION, CAPTION, machine()]
    parts += [f"{broker} was not measured: {why}." for broker, why in figures.missing.items()]
    parts += ["### Targets of the brokers", markdown(target_grid(goals))]
    for grid in grids(figures):
        parts += [f"### {grid.title[0].upper()}{grid.title[1:]}", markdown(grid)]
    return "\n\n".join(parts) + "\n"
