"""What `bench.live_reading` found as tables, and as a section of docs/benchmarks.md."""

import time
from collections.abc import Callable, Mapping
from functools import partial

from pyspark.sql.types import StructType

from bench.live_events import ADVERTISED, PAYLOAD, attributes
from bench.live_reading import Spent
from bench.live_structs import StructDecoder
from bench.report import READING_SECTION, Grid, machine, markdown, target_grid
from bench.targets import Target
from tidings.net.client.history import Stored
from tidings.pubsub.pages import page_of
from tidings.pubsub.publications import encode_head
from tidings.spark.live.columns import infer_schema
from tidings.spark.live.decoder import Decoder

CAPTION = """\
Written by `python -m bench.live_reading --before FOLDER`. {count:,} stored events of seven attributes and 64 bytes of
payload, one broker, Spark on two cores, read into nowhere; medians of {rounds} rounds in which all take turns. CPU time
an event of all threads, by the process table: the broker, Python (tasks: fetching, decoding, handing over; or the plain
client), Java. *Now* is this version, *before* an earlier one as a whole, its own broker included; *structs* is the
source of that version on today's pages (`bench/live_structs.py`); *floor* is a source that fetches and decodes nothing
and hands over one ready-made record batch again and again (`bench/live_floor.py`). *Pages* are read by the plain
client, *events* too, which makes an object of each and decodes it, as a consumer of a log does. *Nothing* is a query
that finds no event: what planning costs, spread over as many events as the others read. Wall-clock rates say how busy
the machine was; where all cores are at work the rate is what CPU time leaves, so targets are ratios of the sums.
Decoding alone is measured in one process. Where Parquet is faster than the floor and what the broker spends together,
no fetching and decoding, however cheap, gets us there. The floor does not move with the size of record batches: from
1,350 rows (a page of 14 columns) to 65,536 it costs the same, within the noise of four rounds (0.5 us for 3 columns,
0.9 to 1.0 for 14, on a machine with a load of 17), so pages are not gathered into larger batches."""
MICRO = 1e6
BROKER_TARGET = 0.6
PAGE_EVENTS, PAGES = 4096, 50


Found = Mapping[str, Spent]


def targets(spent: Found, count: int) -> list[Target]:
    found = [
        ratio(spent, "14 columns, rate now / before", "before 14", "now 14", 2.2),
        ratio(spent, "3 columns, rate now / before", "before 3", "now 3", 2.5),
        ratio(spent, "3 columns, rate now / Parquet with all columns", "parquet 14", "now 3", 0.5),
        ratio(spent, "3 columns, rate now / Parquet with the same columns", "parquet 3", "now 3", 0.5),
        ratio(spent, "14 columns, rate now / floor of a source in Python", "floor 14", "now 14", None),
        ratio(spent, "3 columns, rate now / floor of a source in Python", "floor 3", "now 3", None),
        ratio(spent, "3 columns, floor / Parquet with the same columns", "parquet 3", "floor 3", None),
        ratio(with_broker(spent), "3 columns, floor and our broker / Parquet", "parquet 3", "floor and broker", None),
        ratio(spent, "14 columns, rate now / structs", "structs 14", "now 14", None),
        ratio(spent, "3 columns, rate now / structs", "structs 3", "now 3", None),
        Target("broker, an event read", BROKER_TARGET, False, MICRO * spent["now pages"].broker / count, "us"),
    ]
    # Planning a query costs the same however many events there are.
    alone = {name: without_planning(spent, name) for name in spent}
    found += [
        ratio(alone, "the same without planning: 14 columns, rate now / before", "before 14", "now 14", None),
        ratio(alone, "the same without planning: 3 columns, rate now / before", "before 3", "now 3", None),
        ratio(alone, "the same without planning: 3 columns, rate now / Parquet", "parquet 3", "now 3", None),
    ]
    return found


def ratio(spent: Found, text: str, one: str, other: str, limit: float | None) -> Target:
    measured = spent[one].cpu / spent[other].cpu if one in spent else None
    return Target(text, limit, True, measured, "x")


def with_broker(spent: Found) -> Found:
    """And the floor with what our broker spends on sending: what is left if tasks fetch and decode for nothing."""
    floor = spent["floor 3"]
    return {**spent, "floor and broker": floor._replace(broker=spent["now 3"].broker)}


def without_planning(spent: Found, name: str) -> Spent:
    kind = name.split()[0]
    nothing = spent[f"{kind} nothing" if kind in ("parquet", "before") else "now nothing"]
    return Spent(*(one - other for one, other in zip(spent[name], nothing, strict=True)))


def grid(spent: Found, count: int) -> Grid:
    rows = [
        [
            name,
            *(f"{MICRO * one / count:.2f}" for one in (it.broker, it.python, it.java, it.cpu)),
            f"{count / it.wall:,.0f}",
        ]
        for name, it in spent.items()
    ]
    return Grid("CPU time an event", ["broker, us", "Python, us", "Java, us", "all, us", "events/s, wall"], rows)


def decoding_grid() -> Grid:
    """A page of usual size, again and again."""
    heads = [encode_head(attributes(number)) for number in range(PAGE_EVENTS)]
    page = page_of([1.8e9] * PAGE_EVENTS, range(PAGE_EVENTS), heads, [PAYLOAD] * PAGE_EVENTS)
    stored = Stored("desk", PAGE_EVENTS, False, False, page)
    three = StructType().add("symbol", "string").add("price", "double").add("volume", "long")
    rows: dict[str, list[str]] = {"compiled": [], "plain": [], "structs": []}
    for schema in (infer_schema([ADVERTISED]), three):
        compiled, plain = Decoder(schema, engine="compiled"), Decoder(schema, engine="plain")
        rows["compiled"].append(cpu_of(partial(compiled.batch, "desk", page)))
        rows["plain"].append(cpu_of(partial(plain.batch, "desk", page)))
        rows["structs"].append(cpu_of(partial(StructDecoder(schema).batch, stored)))
    return Grid(
        "decoding alone",
        ["14 columns, us an event", "3 columns, us an event"],
        [[name, *row] for name, row in rows.items()],
    )


def cpu_of(work: Callable[[], object]) -> str:
    work()
    began = time.process_time()
    for _ in range(PAGES):
        work()
    return f"{MICRO * (time.process_time() - began) / (PAGES * PAGE_EVENTS):.2f}"


def grids(spent: Found, count: int) -> list[Grid]:
    return [grid(spent, count), decoding_grid(), target_grid(targets(spent, count))]


def section(found: list[Grid], count: int, rounds: int) -> str:
    parts = [READING_SECTION, CAPTION.format(count=count, rounds=rounds), machine()]
    for each in found:
        parts += [f"### {each.title[0].upper()}{each.title[1:]} of reading", markdown(each)]
    return "\n\n".join(parts) + "\n"
