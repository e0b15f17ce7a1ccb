"""What is measured, section by section. Every figure becomes one `Figure`; tables and targets are made from those.

match      events a second of everybody, and the time of a single event, by number of filters and match rate
variants   the same for the index on other data than uniform
links      which links want an event, against which filters match it
updates    loading many filters at once, adding and discarding single ones
churn      one minute's worth of replaced filters (10 %), between batches of events
memory     resident bytes of the matcher for each filter
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import mean, median

from bench.matchers import (
    ARROW,
    CHECKED_EVENTS,
    COUNTING,
    FAST,
    LISTS,
    NAIVE,
    NARROW,
    NUMPY,
    PLAIN,
    ROARING,
    SCAN,
    SINGLE,
    Prepared,
    build,
    check_answers,
    chunked,
    contenders,
    has_fast_engine,
)
from bench.timing import (
    Contender,
    bytes_per_filter,
    frozen_heap,
    microseconds_each,
    percentile,
    seconds_for,
    take_turns,
)
from bench.workload import VARIANTS, Workload, make_workload
from tidings.matching.index import Index

EVENTS_PER_SECOND, P50, P99 = "events/s", "p50 us", "p99 us"
LOAD, ADD, DISCARD = "filters/s loaded", "us an add", "us a discard"
CHURN_ADD, CHURN_DISCARD, PAUSE, SLOWDOWN = (
    "us an add in churn",
    "us a discard in churn",
    "longest pause ms",
    "slowdown",
)
BYTES = "bytes a filter"

PYTHON_PEERS_FILTERS_MAX = 100_000
SCAN_FILTERS_MAX = 10_000
PLAIN_FILTERS_MAX = 100_000
LINK_COUNTS = (4, 16, 64)
CHURN_SHARE = 0.1
CHURN_STEPS = 200
CHURN_BATCH_EVENTS = 64


@dataclass(frozen=True)
class Figure:
    """One measured number. `who` is a matcher, with the form of the events where there are several."""

    who: str
    what: str
    filters: int
    rate: float
    variant: str
    value: float


@dataclass(frozen=True)
class Plan:
    """How much to measure."""

    sizes: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    rates: tuple[float, ...] = (0.001, 0.01)
    high_rate_sizes: tuple[int, ...] = (10_000, 100_000)
    middle_size: int = 100_000
    large_size: int = 1_000_000
    rounds: int = 3
    budget_seconds: float = 0.6
    single_events: int = 1500
    updates: int = 2000


FULL_PLAN = Plan()
QUICK_PLAN = Plan(
    sizes=(1_000, 10_000),
    high_rate_sizes=(10_000,),
    middle_size=10_000,
    large_size=10_000,
    rounds=2,
    budget_seconds=0.15,
    single_events=300,
    updates=300,
)

Section = Callable[[Plan], Iterator[Figure]]


def indexes() -> list[str]:
    return [FAST, PLAIN] if has_fast_engine() else [PLAIN]


def best_index() -> str:
    return indexes()[0]


def matchers_for(filters: int) -> list[str]:
    """Whoever answers within a reasonable time at this size."""
    ours = [name for name in indexes() if name == FAST or filters <= PLAIN_FILTERS_MAX]
    python = [COUNTING, NAIVE] if filters <= PYTHON_PEERS_FILTERS_MAX else []
    scan = [SCAN] if filters <= SCAN_FILTERS_MAX else []
    return [*ours, *scan, NUMPY, NARROW, ROARING, *python]


def measure_match(plan: Plan) -> Iterator[Figure]:
    for filters in plan.sizes:
        for rate in plan.rates:
            yield from match_figures(plan, make_workload(filters, rate), matchers_for(filters))
    for filters in plan.high_rate_sizes:
        matchers = [best_index(), NUMPY, NARROW, COUNTING, ROARING]
        yield from match_figures(plan, make_workload(filters, 0.1), matchers)


def measure_variants(plan: Plan) -> Iterator[Figure]:
    # The uniform figures are taken again, so that all of them are of the same minutes.
    prepared = {name: Prepared(make_workload(plan.middle_size, 0.001, variant=name)) for name in VARIANTS}
    groups: dict[str, list[Contender]] = {}
    for variant, data in prepared.items():
        groups[variant] = list(contenders(best_index(), build(best_index(), data), data))
        for contender in groups[variant]:
            check_answers(contender, data.workload)
    take_turns([contender for group in groups.values() for contender in group], plan.rounds, plan.budget_seconds)
    for variant, group in groups.items():
        for contender in group:
            yield Figure(
                f"{contender.name}, among variants",
                EVENTS_PER_SECOND,
                plan.middle_size,
                0.001,
                variant,
                contender.events_per_second(),
            )


def match_figures(plan: Plan, workload: Workload, matchers: list[str]) -> Iterator[Figure]:
    prepared = Prepared(workload)
    tables = {name: build(name, prepared) for name in matchers}
    running = [contender for name in matchers for contender in contenders(name, tables[name], prepared)]
    for contender in running:
        check_answers(contender, workload)
    take_turns(running, plan.rounds, plan.budget_seconds)
    for contender in running:
        yield figure_of(workload, contender.name, EVENTS_PER_SECOND, contender.events_per_second())
    for name in matchers:
        if name in (FAST, PLAIN):
            events = (prepared.events * (plan.single_events // len(prepared.events) + 1))[: plan.single_events]
            with frozen_heap():
                spent = microseconds_each(tables[name].match, events)
            yield figure_of(workload, f"{name}: {SINGLE}", EVENTS_PER_SECOND, 1e6 / median(spent))
            yield figure_of(workload, f"{name}: {SINGLE}", P50, median(spent))
            yield figure_of(workload, f"{name}: {SINGLE}", P99, percentile(spent, 0.99))


def figure_of(workload: Workload, who: str, what: str, value: float) -> Figure:
    return Figure(who, what, workload.size, workload.rate, workload.variant, value)


def measure_links(plan: Plan) -> Iterator[Figure]:
    for filters in sorted({plan.middle_size, plan.large_size}):
        prepared = Prepared(make_workload(filters, 0.001))
        everything = next(contenders(best_index(), build(best_index(), prepared), prepared))
        running = [Contender(f"{best_index()}: all keys", everything.chunks, everything.ask)]
        for links in LINK_COUNTS:
            table = empty_index(best_index())
            table.add_many((number, filter, number % links) for number, filter in enumerate(prepared.filters))
            check_links(table, links, prepared)
            running.append(Contender(f"{best_index()}: {links} links", everything.chunks, table.match_links))
        take_turns(running, plan.rounds, plan.budget_seconds)
        for contender in running:
            yield figure_of(prepared.workload, contender.name, EVENTS_PER_SECOND, contender.events_per_second())


def check_links(table: Index, links: int, prepared: Prepared) -> None:
    for event, found in enumerate(table.match_links(prepared.events[:CHECKED_EVENTS])):
        if set(found) != {number % links for number in prepared.workload.matching(event)}:
            raise AssertionError(f"{links} links: event {event} went to {found}")


def measure_updates(plan: Plan) -> Iterator[Figure]:
    for filters in plan.sizes:
        prepared = Prepared(make_workload(filters + plan.updates, 0.001))
        for name in indexes():
            if name == FAST or filters <= PLAIN_FILTERS_MAX:
                yield from update_figures(name, filters, prepared, plan.updates)


def update_figures(name: str, filters: int, prepared: Prepared, updates: int) -> Iterator[Figure]:
    entries = list(enumerate(prepared.filters))
    table = empty_index(name)
    events = prepared.events[:256]
    with frozen_heap():
        loading = seconds_for(lambda: table.add_many(entries[:filters]))
    table.match_batch(events)
    with frozen_heap():
        adds = microseconds_each(lambda entry: table.add(*entry), entries[filters:])
        discards = microseconds_each(table.discard, range(updates))
    for what, value in ((LOAD, filters / loading), (ADD, mean(adds)), (DISCARD, mean(discards))):
        yield Figure(name, what, filters, 0.001, "uniform", value)


def empty_index(name: str) -> Index:
    return Index(engine="fast" if name == FAST else "plain")


def measure_churn(plan: Plan) -> Iterator[Figure]:
    for filters in sorted({plan.middle_size, plan.large_size}):
        yield from churn_figures(best_index(), filters)


def churn_figures(name: str, filters: int) -> Iterator[Figure]:
    replaced = int(filters * CHURN_SHARE)
    prepared = Prepared(make_workload(filters + replaced, 0.001))
    entries = list(enumerate(prepared.filters))
    table = empty_index(name)
    table.add_many(entries[:filters])
    batches = chunked(prepared.events, CHURN_BATCH_EVENTS)
    microseconds_each(table.match_batch, batches)
    calm = microseconds_each(table.match_batch, batches)
    adds, discards, matches = [], [], []
    with frozen_heap():
        for step in range(CHURN_STEPS):
            for place in range(step * replaced // CHURN_STEPS, (step + 1) * replaced // CHURN_STEPS):
                discards += microseconds_each(table.discard, [place])
                adds += microseconds_each(lambda entry: table.add(*entry), [entries[filters + place]])
            matches += microseconds_each(table.match_batch, [batches[step % len(batches)]])
    # A match that takes longer than usual has done work that was put off: the excess is a pause too.
    pause = max(max(adds), max(discards), max(matches) - median(matches))
    for what, value in (
        (CHURN_ADD, mean(adds)),
        (CHURN_DISCARD, mean(discards)),
        (PAUSE, pause / 1000),
        (SLOWDOWN, mean(matches) / mean(calm)),
    ):
        yield Figure(name, what, filters, 0.001, "uniform", value)


def measure_memory(plan: Plan) -> Iterator[Figure]:
    for filters in plan.sizes:
        if filters < 10_000:
            continue  # too small to show in resident memory
        for name in matchers_for(filters):
            yield Figure(name, BYTES, filters, 0.001, "uniform", bytes_per_filter(name, filters, 0.001))


SECTIONS: dict[str, Section] = {
    "match": measure_match,
    "variants": measure_variants,
    "links": measure_links,
    "updates": measure_updates,
    "churn": measure_churn,
    "memory": measure_memory,
}


def warm_up() -> None:
    """Compile or load whatever is compiled on first use, on a table so small that it takes no time otherwise."""
    prepared = Prepared(make_workload(2000, 0.01))
    for name in indexes():
        table = build(name, prepared)
        table.add("linked", prepared.filters[0], "link")
        table.match_links(prepared.events[:64])
        table.discard("linked")
        table.match(prepared.events[0])
        for contender in contenders(name, table, prepared):
            contender.run(0.0, 0)


LISTS_OF_BEST = f"{FAST}: {LISTS}"
ARROW_OF_BEST = f"{FAST}: {ARROW}"
SINGLE_OF_BEST = f"{FAST}: {SINGLE}"
LISTS_OF_PLAIN = f"{PLAIN}: {LISTS}"
