"""E8: whether ordering follows a publication rate that changes.

One publisher, one subscriber that wants half of its events (the source does not say how many), four brokers between
them, nothing slowed down. Every four seconds the publisher takes another rate, from 20 to 1000 events a second. The
faster it is, the closer together are two events, the more probable it is that the second overtakes the first, and the
longer must the second wait. Two orderers get the same arrivals: basic, and with records of 25 events.

Time is cut into spans of a second. In each: the rate, events that arrived out of order, and for each orderer the mean
over all arrivals of the probability that an event before was overtaken, and of the latch. An event that is not held
counts as 0 for both.

Measured here, of the trace: the metrics of order have no time, and none reads what an orderer believed of an event.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import asdict

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, DataFrame, Measured, Variant
from tidings.lab.figures import union
from tidings.lab.plots import COLOURS, points
from tidings.lab.transport.networks import DispatcherNetwork
from tidings.lab.transport.ordering.orderers import Orderer, OrderReplay, Recording, headers_of, probabilistic
from tidings.lab.transport.samples import Columns, Figure, arrivals, late, measured_by_run
from tidings.lab.transport.substrate import WARM_UP, SubstrateParams, named
from tidings.machine.streams import RandomStream, random_stream
from tidings.model.language.parser import parse
from tidings.sim.topologies.shapes import chain
from tidings.trace.record import Record
from tidings.trace.writer import Writer
from tidings.workloads.plain import random_times

BROKERS = 4
MATCH = 0.5
"""Probability that an event is wanted."""
RATE_MIN, RATE_MAX = 20.0, 1000.0
STEP = 4.0
"""Seconds between two changes of the rate."""
SETTLE = 5.0
SPAN = 1.0

BASIC, ENHANCED = probabilistic(".05", 0), probabilistic(".05", 25)
ORDERERS = (BASIC, ENHANCED)

FILTER = "wanted = 1"

encode = msgspec.json.Encoder().encode


def rate_at(rates: Sequence[float], at: float) -> float:
    return rates[min(int(at / STEP), len(rates) - 1)]


def draw_rates(rng: RandomStream, seconds: float) -> list[float]:
    """Each factor is as likely as any other."""
    return [RATE_MIN * (RATE_MAX / RATE_MIN) ** rng.random() for _ in range(int(seconds / STEP) + 1)]


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: seconds."""
    seconds, rng = parameters["seconds"], random_stream(seed, "publisher")
    topology = chain(BROKERS)
    first, last, recording = topology.nodes[0], topology.nodes[-1], Recording()
    network = DispatcherNetwork(
        seed, trace, topology, SubstrateParams(), {"p": first}, {last: (FILTER,)}, observers=(recording,)
    )
    rates, number = draw_rates(rng, seconds), 0
    for number, at in enumerate(random_times(rng, partial(rate_at, rates), end=seconds), 1):
        event = named("p", number - 1, {"wanted": int(rng.random() < MATCH)})
        network.simulator.call_at(WARM_UP + at, partial(network.publish, event))
    network.simulator.run(WARM_UP + seconds + SETTLE)
    for orderer in ORDERERS:
        note_latches(recording, orderer, trace)
    return {"published": number, "delivered": len(arrived_of(recording))}


def arrived_of(recording: Recording) -> list[tuple[float, int]]:
    (arrived,) = recording.arrived["p"].values()
    return arrived


def note_latches(recording: Recording, orderer: Orderer, trace: Writer) -> None:
    """What the orderer notes of each event that it holds."""
    params = orderer.stretched(1.0)
    replay = OrderReplay(params, parse(FILTER))
    for _ in replay.deliveries("p", headers_of(params, recording.published["p"]), arrived_of(recording)):
        pass
    for at, note in replay.latched:
        detail = encode({"orderer": orderer.label, **asdict(note)}).decode()
        trace.write(Record(time=at, node="s", kind="note", message="held", detail=detail))


# What is measured.


def spans(traces: DataFrame) -> DataFrame:
    """What is in each span, in all: run, series, span, value."""
    from pyspark.sql import functions as F

    arrived = arrivals(traces)
    published = traces.where("kind = 'publish'").select("run", (F.col("time") - WARM_UP).alias("at"))
    notes = traces.where("kind = 'note' AND message = 'held'").select(
        "run",
        (F.col("time") - WARM_UP).alias("at"),
        F.from_json("detail", "orderer STRING, latch DOUBLE, violation DOUBLE").alias("said"),
    )
    one = F.lit(1.0)
    parts = [
        published.select("run", "at", F.lit("published").alias("series"), one.alias("value")),
        arrived.select("run", "at", F.lit("arrived").alias("series"), one.alias("value")),
        late(arrived).select("run", "at", F.lit("late").alias("series"), one.alias("value")),
        notes.select("run", "at", F.concat(F.lit("held, "), "said.orderer").alias("series"), one.alias("value")),
        *(
            notes.select("run", "at", F.concat(F.lit(f"{field}, "), "said.orderer"), f"said.{field}")
            for field in ("latch", "violation")
        ),
    ]
    cut = union(parts).withColumn("span", F.floor(F.col("at") / SPAN))
    return cut.groupBy("run", "series", "span").agg(F.sum("value").alias("value"))


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    """The mean over several runs would show none of them, so what is drawn over time is the first."""
    cut = spans(traces)
    first = results.where("seed = 1")
    return measured_by_run(results, cut, measure).unionByName(measured_by_run(first, cut, over_time))


Series = dict[str, Any]
"""By name, an array with a value for each span."""


def series_of(columns: Columns) -> Series:
    """What is in each span: "rate", "arrived", "late" (as a share), and for each orderer "latch, ...", "violation, ..."
    (means over arrivals) and "held, ..."."""
    import numpy as np

    length = int(columns["span"][columns["series"] == "published"].max())
    labels = [orderer.label for orderer in ORDERERS]
    names = [
        "published",
        "arrived",
        "late",
        *(f"{what}, {at}" for what in ("latch", "violation", "held") for at in labels),
    ]
    series = {name: np.zeros(length) for name in names}
    for name, span, value in zip(columns["series"], columns["span"], columns["value"], strict=True):
        if 0 <= span < length:
            series[name][int(span)] = value
    arrived = np.maximum(series["arrived"], 1)
    means = {name: values / arrived for name, values in series.items() if name.startswith(("late", "latch", "viol"))}
    return {**series, **means, "rate": series["published"] / SPAN}


def measure(columns: Columns) -> list[Figure]:
    from scipy.stats import spearmanr

    series = series_of(columns)
    rate, arrived = series["rate"], series["arrived"]
    made: list[Figure] = [
        ("late", "", float((series["late"] * arrived).sum() / arrived.sum())),
        ("late follows", "", float(spearmanr(rate, series["late"]).statistic)),
    ]
    held = {orderer.label: float(series[f"held, {orderer.label}"].sum()) for orderer in ORDERERS}
    for label, count in held.items():
        latch, violation = series[f"latch, {label}"], series[f"violation, {label}"]
        made += [
            ("latch follows", label, float(spearmanr(rate, latch).statistic)),
            ("probability follows", label, float(spearmanr(rate, violation).statistic)),
            ("held", label, count / arrived.sum()),
            ("latch", label, float((latch * arrived).sum() / arrived.sum())),
        ]
    return [*made, ("more often", "", held[BASIC.label] / max(1.0, held[ENHANCED.label]))]


def over_time(columns: Columns) -> list[Figure]:
    series = series_of(columns)
    return [
        (f"over time, {name}", f"{place} s", float(value))
        for name in ("rate", "late", *(name for name in series if name.startswith(("latch", "violation"))))
        for place, value in enumerate(series[name])
    ]


# How it is drawn.


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    above, below = canvas.subplots(2, 2)
    names = {"rate": "rate", "late": "out of order"}
    for axes, (name, title) in zip(above, names.items(), strict=True):
        axes.plot(*points(measured, f"over time, {name}", 100 if name == "late" else 1), color=COLOURS[5])
        axes.set(title=title, ylabel="% of events" if name == "late" else "events a second")
    for axes, name, title, scale in zip(
        below, ("violation", "latch"), ("probability of a violation", "latch"), (100, 1000), strict=True
    ):
        for colour, orderer in zip(COLOURS, ORDERERS, strict=False):
            line = points(measured, f"over time, {name}, {orderer.label}", scale)
            axes.plot(*line, color=colour, label=orderer.label)
        axes.set(title=title, ylabel="%, mean over events" if name == "violation" else "milliseconds, mean over events")
        axes.legend()
    for axes in (*above, *below):
        axes.set_xlabel("seconds")


EXPERIMENT = define(__file__, run=run, variants=(Variant("side by side"),), figures=figures, plot=plot)
