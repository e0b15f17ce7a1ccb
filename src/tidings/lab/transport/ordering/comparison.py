"""E6 and E7: what orderers make of the arrivals of the intense workload.

The workload (`rising_load.py`) runs on the plain best-effort network, which puts events out of order. Then orderers are
given its arrivals side by side (`orderers.py`), and for each of them and each pair of publisher and subscriber a note
"pair" says how many events it handed over out of order, and how long it held them. "none" is the pair without orderer.

To keep a small run short, not all subscribers are followed: every n-th at each broker. All pairs of one kind are alike,
so shares and delays do not depend on it.

*Extra delay* of a pair is the mean over all its events of the time for which each was to be held (the latch). It is
given for the network without slowdown.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.lab.experiment import Measured
from tidings.lab.transport.network.rising_load import Intense, Layout, clients, interests, note_interests, play
from tidings.lab.transport.ordering.orderers import (
    UNORDERED,
    Orderer,
    Pair,
    RecordedSubstrate,
    compare,
    judge,
    unordered,
)
from tidings.lab.transport.samples import Columns, Figure, measured_by_run, parameter_of
from tidings.lab.transport.substrate import SubstrateParams
from tidings.model.identity import NodeId
from tidings.model.language.parser import parse
from tidings.trace.gathering import Writer
from tidings.trace.record import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from pyspark.sql import DataFrame

GRADES = 20
"""Of intense streams: 17 to 19 of them are wanted."""

BUSIEST = 0.1
"""The intense pairs are those with at least so much of the events of the busiest; slow ones have a hundredth."""

STEPS = 40
"""Extra delays over pairs are drawn as so many quantiles."""

PAIR = "orderer STRING, publisher STRING, arrived BIGINT, violations BIGINT, latch DOUBLE, held DOUBLE"

encode = msgspec.json.Encoder().encode


def play_and_compare(
    layout: Layout,
    streams: Sequence[Intense],
    orderers: Sequence[Orderer],
    parameters: Mapping[str, Any],
    seed: int,
    trace: Writer,
) -> dict[str, float]:
    """Parameters: slowdown, the seconds to be played, and of how many subscribers one is followed."""
    wanted, slowdown = interests(seed, streams, layout), parameters["slowdown"]
    note_interests(trace, wanted)
    filters = {client: interest.text() for client, interest in wanted.items()}
    params = SubstrateParams(slowdown=slowdown)
    network = RecordedSubstrate(seed, None, layout.topology, params, clients(layout), filters)
    play(network, seed, parameters["seconds"], streams, layout)
    recording = network.recording
    pairs = [pair for at in recording.arrived.values() for pair in at.values()]
    violations = sum(judge(UNORDERED, "", unordered(pair)).violations for pair in pairs)
    followed = {client: parse(text) for client, text in filters.items() if is_followed(client, parameters["follow"])}
    for subscriber, pair in compare(recording.only(followed), followed, orderers, slowdown):
        note_pair(trace, subscriber, pair)
    return {"delivered": sum(map(len, pairs)), "violations": violations}


def is_followed(client: NodeId, one_in: int) -> bool:
    """By its place at its broker."""
    return int(client.rpartition(".c")[2]) % one_in == 0


def note_pair(trace: Writer, subscriber: NodeId, pair: Pair) -> None:
    trace.write(Record(time=0.0, node=subscriber, kind="note", message="pair", detail=encode(pair).decode()))


# What is measured.


def figures(results: "DataFrame", traces: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as F

    notes = traces.where("kind = 'note' AND message = 'pair'").withColumn("said", F.from_json("detail", PAIR))
    measures = results.select("run", F.col("measures")["violations"].alias("in_all"))
    return measured_by_run(results, notes.select("run", "said.*").join(measures, on="run", how="inner"), measure)


def measure(columns: Columns) -> list[Figure]:
    import numpy as np

    slowdown, orderer = float(parameter_of(columns, "slowdown")), columns["orderer"]
    violations, delays = columns["violations"], columns["latch"] / slowdown
    before = violations[orderer == UNORDERED].sum()
    made: list[Figure] = [("violations", "", float(columns["in_all"][0]) * slowdown)]
    means, held = dict[str, float](), dict[str, float]()
    for label in sorted(set(orderer) - {UNORDERED}):
        of = orderer == label
        events = columns["arrived"][of]
        means[label] = float(delays[of].mean())
        held[label] = float((columns["held"][of] * events).sum() / events.sum() / slowdown)
        busiest = columns["arrived"] >= BUSIEST * columns["arrived"].max()
        made += [
            ("removed", label, 1 - violations[of].sum() / before),
            ("extra delay", label, means[label]),
            ("extra delay, median", label, float(np.median(delays[of]))),
            ("extra delay, 90 %", label, float(np.quantile(delays[of], 0.9))),
            ("extra delay, largest", label, float(delays[of].max())),
            ("extra delay, busiest", label, float(delays[of & busiest].mean())),
            ("held", label, held[label]),
        ]
        quantiles = np.quantile(delays[of], np.arange(STEPS + 1) / STEPS)
        made += [(f"delays, {label}", f"{place}", float(value)) for place, value in enumerate(quantiles)]
    largest = {group: value for name, group, value in made if name == "extra delay, largest"}
    medians = {group: value for name, group, value in made if name == "extra delay, median"}
    made.append(("median against largest", "P-.05", medians["P-.05-25"] / largest["P-.05-0"]))
    return made + ratios(columns, means, held)


def ratios(columns: Columns, means: Mapping[str, float], held: Mapping[str, float]) -> list[Figure]:
    """Orderers compared with each other, run by run: who adds how much less delay."""
    made: list[Figure] = []
    for quantile in ("", " exact"):
        for violation in (".05", ".2"):
            names = {size: f"P-{violation}-{size}{quantile}" for size in (0, 5, 25)}
            if not all(name in means for name in names.values()):
                continue
            group = f"P-{violation}{quantile}"
            made += [
                ("25 against 5", group, means[names[25]] / means[names[5]]),
                ("5 against none", group, means[names[5]] / means[names[0]]),
                ("record changes", group, spread(columns, list(names.values()))),
            ]
            for label in sorted(means):
                if label.startswith("CST"):
                    made += [
                        (f"25 against {label}", group, means[names[25]] / means[label]),
                        (f"none against {label}", group, means[names[0]] / means[label]),
                        (f"held, 25 against {label}", group, held[names[25]] / held[label]),
                    ]
    return made


def spread(columns: Columns, labels: Sequence[str]) -> float:
    """By how much the shares of violations removed differ."""
    counts = [columns["violations"][columns["orderer"] == label].sum() for label in labels]
    before = columns["violations"][columns["orderer"] == UNORDERED].sum()
    return float((max(counts) - min(counts)) / before)


# How it is drawn.


def draw(canvas: "Canvas", measured: Sequence[Measured], labels: Sequence[str], delays_to_ms: float) -> None:
    """Left the violations that are left, right the extra delays over pairs."""
    left, right = canvas.subplots(1, 2)
    draw_left_over(left, measured)
    draw_delays(right, measured, labels, delays_to_ms)


def draw_left_over(axes: "Axes", measured: Sequence[Measured]) -> None:
    from matplotlib.patches import Patch

    from tidings.lab.plots import COLOURS

    removed = {each.group: each.value for each in measured if each.figure == "removed"}
    plain = [label for label in removed if not label.endswith("exact")]
    for place, label in enumerate(plain):
        bars = [(removed[label], COLOURS[1], -0.2), (removed.get(f"{label} exact"), COLOURS[0], 0.2)]
        if label.startswith("CST"):
            bars = [(removed[label], COLOURS[5], 0.0)]
        for value, colour, shift in bars:
            if value is not None:
                axes.barh(place + shift, max(100 * (1 - value), 0.01), 0.36, color=colour)
    kinds = (("static", COLOURS[5]), ("appendix", COLOURS[1]), ("exact", COLOURS[0]))
    axes.set_yticks(range(len(plain)), plain)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(0.05, 100)
    axes.set_xticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    axes.grid(axis="x")
    axes.set_title("violations left")
    axes.set_xlabel("% of those without ordering")
    patches = [Patch(color=colour, label=name) for name, colour in kinds]
    axes.legend(handles=patches, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3)


def draw_delays(axes: "Axes", measured: Sequence[Measured], labels: Sequence[str], most_ms: float) -> None:
    from tidings.lab.plots import COLOURS

    for colour, label in zip(COLOURS, labels, strict=False):
        found = [each for each in measured if each.figure == f"delays, {label}"]
        steps = sorted((int(each.group), 1000 * each.value) for each in found)
        shares = [100 * place / STEPS for place, _ in steps]
        axes.plot([value for _, value in steps], shares, color=colour, label=label)
    axes.set_xlim(-most_ms / 50, most_ms)
    axes.set_title("extra delay of pairs")
    axes.set_xlabel("milliseconds, without the slowdown")
    axes.set_ylabel("% of pairs with less")
    axes.legend(loc="lower right")
