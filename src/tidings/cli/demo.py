"""`tidings demo`: a year of real flights streams past a few hundred filters.

The subscribers are made from readable templates, filled by a seeded choice from the airlines, airports and tail numbers
of the first flights. The year is released evenly over the seconds asked for; on a slow machine the time ends first. Two
rates are shown: how fast flights were published, and how fast the index alone would go. At the end a sample of events
is also given to a plain scan, and both must name the same subscribers.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from random import Random
from typing import Any

import msgspec
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from tidings import Event, Filter, parse
from tidings.cli.flights import flights_file, read_flights
from tidings.cli.output import print_json
from tidings.matching import Index, LinearScan

FLIGHTS_IN_YEAR = 336_776
FIRST_FLIGHTS = 5_000
BATCH = 256
REFRESHES_PER_SECOND = 4
SNAPSHOTS = 4
PLAIN_WIDTH = 120
OTHER_COLUMNS_WIDTH, ASKS_WIDTH_MIN = 60, 20
OK, DIFFERENT = 0, 1

TEMPLATES = (
    ("desk {carrier} {origin}", "carrier = '{carrier}' AND origin = '{origin}'"),
    ("arrivals {dest}", "dest = '{dest}' AND type = 'flight.landed'"),
    ("late to {dest}", "dest = '{dest}' AND arr_delay > {minutes}"),
    ("crew {carrier} {hour}h", "carrier = '{carrier}' AND hour >= {hour} AND dep_delay >= {minutes}"),
    ("refunds to {dest}", "dest = '{dest}' AND (NOT EXISTS air_time OR arr_delay > 180)"),
    ("spotter {prefix}", "tailnum LIKE '{prefix}%'"),
    ("fleet {suffix} {origin}", "tailnum LIKE '%{suffix}' AND origin = '{origin}'"),
    ("shuttle {dest} {other}", "dest IN ('{dest}', '{other}') AND distance < 500"),
    ("long haul {origin} {miles}", "origin = '{origin}' AND distance >= {miles}"),
    ("weather {origin} {hour}h", "type = 'flight.cancelled' AND origin = '{origin}' AND hour <= {hour}"),
    ("tower {tailnum}", "tailnum = '{tailnum}'"),
    ("caught up {carrier} {minutes}", "carrier = '{carrier}' AND dep_delay - arr_delay > {minutes}"),
)


class Subscriber(msgspec.Struct):
    kind: int
    name: str
    text: str
    filter: Filter
    received: int = 0
    last: Event | None = None


class Progress:
    """What happened so far: counts, rates, and who received what."""

    def __init__(self, subscribers: list[Subscriber]) -> None:
        self.subscribers = subscribers
        self.events = self.deliveries = self.checked = self.different = 0
        self.elapsed = self.matching = 0.0
        self.date = ""

    def record(self, events: list[Event], answers: Iterable[list[Any]]) -> None:
        for event, keys in zip(events, answers, strict=True):
            self.deliveries += len(keys)
            for key in keys:
                self.subscribers[key].received += 1
                self.subscribers[key].last = event
        self.events += len(events)
        self.date = str(events[-1].time)[:10]

    def busiest(self) -> list[Subscriber]:
        """Of each kind the subscriber that received most, the busiest first."""
        best: dict[int, Subscriber] = {}
        for each in self.subscribers:
            if each.kind not in best or each.received > best[each.kind].received:
                best[each.kind] = each
        return sorted(best.values(), key=lambda each: -each.received)


def show_demo(seconds: float, subscribers: int, seed: int, json: bool) -> int:
    flights = read_flights(flights_file())
    first = list(islice(flights, FIRST_FLIGHTS))
    progress = Progress(make_subscribers(subscribers, Random(seed), first))
    stream = chain(first, flights)
    if json:
        for _ in run_year(progress, stream, seconds):
            pass
        print_json(summary(progress, seed))
    else:
        console = Console(highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
        show_year(console, progress, stream, seconds, seed)
        print_summary(console, progress)
    return DIFFERENT if progress.different else OK


def make_subscribers(count: int, rng: Random, flights: list[Event]) -> list[Subscriber]:
    """The same for the same seed: templates in turn, each filled from flights drawn at random."""
    named = [flight for flight in flights if "tailnum" in flight.attributes]
    made = []
    for number in range(count):
        kind = number % len(TEMPLATES)
        name, text = TEMPLATES[kind]
        words = words_from(rng, named)
        filled = text.format(**words)
        made.append(Subscriber(kind, name.format(**words), filled, parse(filled)))
    return made


def words_from(rng: Random, flights: list[Event]) -> dict[str, Any]:
    seen, other = rng.choice(flights).attributes, rng.choice(flights).attributes
    tailnum = str(seen["tailnum"])
    return {
        **seen,
        "other": other["dest"],
        "prefix": tailnum[:3],
        "suffix": tailnum[-2:],
        "minutes": rng.choice([15, 30, 45, 60, 90, 120]),
        "miles": rng.choice([1000, 1500, 2000, 2400]),
    }


def run_year(progress: Progress, stream: Iterator[Event], seconds: float) -> Iterator[None]:
    """Publish batch by batch, evenly over the time given; yields after each batch."""
    index, scan = Index(), LinearScan()
    for key, subscriber in enumerate(progress.subscribers):
        index.add(key, subscriber.filter)
        scan.add(key, subscriber.filter)
    first = list(islice(stream, BATCH))
    index.match_batch(first)  # the compiled engine, where installed, compiles now
    stream = chain(first, stream)
    started_at = time.perf_counter()
    while progress.elapsed < seconds and (events := list(islice(stream, BATCH))):
        matched_at = time.perf_counter()
        answers = index.match_batch(events)
        progress.matching += time.perf_counter() - matched_at
        progress.record(events, answers)
        progress.checked += 1
        progress.different += Counter(answers[0]) != Counter(scan.match(events[0]))
        yield
        due_after = seconds * progress.events / FLIGHTS_IN_YEAR
        time.sleep(max(0.0, started_at + due_after - time.perf_counter()))
        progress.elapsed = time.perf_counter() - started_at


def show_year(console: Console, progress: Progress, stream: Iterator[Event], seconds: float, seed: int) -> None:
    """A table that changes in place on a terminal; elsewhere the same table a few times."""
    console.print(f"{len(progress.subscribers)} filters (seed {seed}), one year of flights in {seconds:g} s")
    console.print("preparing the index (the first run compiles it, which takes a while)")
    if console.is_terminal:
        with Live(
            console=console,
            refresh_per_second=REFRESHES_PER_SECOND,
            get_renderable=lambda: picture(progress, console.width),
        ):
            for _ in run_year(progress, stream, seconds):
                pass
        return
    shown = 0
    for _ in run_year(progress, stream, seconds):
        if progress.elapsed >= (shown + 1) * seconds / SNAPSHOTS:
            shown += 1
            console.print(picture(progress, console.width))


def picture(progress: Progress, width: int) -> Group:
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    table.add_column("busiest of its kind", no_wrap=True)
    table.add_column("asks for", no_wrap=True, max_width=max(width - OTHER_COLUMNS_WIDTH, ASKS_WIDTH_MIN))
    table.add_column("events", justify="right", no_wrap=True)
    table.add_column("last, minutes late", no_wrap=True)
    for each in progress.busiest():
        table.add_row(each.name, each.text, f"{each.received:,}", flight_text(each.last))
    return Group(rate_line(progress), table, "")


def rate_line(progress: Progress) -> str:
    elapsed, matching = max(progress.elapsed, 1e-9), max(progress.matching, 1e-9)
    return (
        f"{progress.date}  {progress.events:,} flights, {progress.events / elapsed:,.0f}/s; "
        f"{progress.deliveries:,} deliveries, {progress.deliveries / elapsed:,.0f}/s; "
        f"matching alone {progress.events / matching:,.0f} flights/s"
    )


def flight_text(event: Event | None) -> str:
    if event is None:
        return ""
    attributes = event.attributes
    delay = attributes.get("arr_delay", str(event.type).removeprefix("flight."))
    return f"{attributes['carrier']} {attributes['flight']} {attributes['origin']}-{attributes['dest']} {delay}"


def print_summary(console: Console, progress: Progress) -> None:
    verdict = f"{progress.different} DIFFER from" if progress.different else "all the same as"
    console.print(rate_line(progress))
    console.print(f"{progress.checked:,} of the answers were checked: {verdict} those of a plain scan over all filters")
    console.print("next: tidings filter explain \"dest = 'BOS' AND arr_delay > 60\"", markup=False)


def summary(progress: Progress, seed: int) -> dict[str, Any]:
    return {
        "seed": seed,
        "filters": len(progress.subscribers),
        "events": progress.events,
        "deliveries": progress.deliveries,
        "seconds": round(progress.elapsed, 3),
        "events_per_second": round(progress.events / max(progress.elapsed, 1e-9)),
        "deliveries_per_second": round(progress.deliveries / max(progress.elapsed, 1e-9)),
        "matching_events_per_second": round(progress.events / max(progress.matching, 1e-9)),
        "checked": progress.checked,
        "different": progress.different,
        "busiest": [{"name": each.name, "filter": each.text, "events": each.received} for each in progress.busiest()],
    }
