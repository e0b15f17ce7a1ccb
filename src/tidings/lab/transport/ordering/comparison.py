"""E6 and E7: what orderers make of the arrivals of the intense workload.

The workload (`network/rising_load.py`) runs on the plain best-effort network, which puts events out of order: the trace
has what arrived, as it arrived. Then orderers are given these arrivals side by side (`orderers.py`), and what each
hands over is in the trace too, as deliveries at a node that is called after the orderer ("orderer CST-30"), with the
subscriber as subscription. So violations and extra delay are the metrics `fifo_violations` and `extra_delay`, by node.

To keep a small run short, not all subscribers are followed: every n-th at each broker. All pairs of one kind are alike,
so shares and delays do not depend on it.

*Extra delay* of a pair is the mean over all its events of the time for which each was to be held (the latch). It is
given for the network without slowdown. No metric tells intense pairs from others or draws a curve over pairs, and the
mean hold over events is none either; these are taken from the pairs of the same family.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tidings.lab.experiment import Axes, Canvas, DataFrame, Measured
from tidings.lab.plots import COLOURS, points
from tidings.lab.transport.network.rising_load import Intense, LoadLayout, OfferedLoad
from tidings.lab.transport.networks import DispatcherNetwork
from tidings.lab.transport.ordering.orderers import OrderedDelivery, Orderer, Recording, compare
from tidings.lab.transport.samples import Columns, Figure, by_subscriber, measured_by_run, parameter_of
from tidings.lab.transport.substrate import SubstrateParams
from tidings.model.identity import NodeId
from tidings.model.language.parser import parse
from tidings.spark.metrics.transport import ORDER, extra_delay, fifo_violations, ordered_pairs
from tidings.trace.record import Record
from tidings.trace.writer import Writer

GRADES = 20
"""Of intense streams: 17 to 19 of them are wanted."""

BUSIEST = 0.1
"""The intense pairs are those with at least so much of the events of the busiest; slow ones have a hundredth."""

METRICS = ("fifo_violations", "extra_delay_mean", "extra_delay_p50", "extra_delay_p90", "extra_delay_max")

STEPS = 40
"""Extra delays over pairs are drawn as so many quantiles."""

ORDERED_BY = "orderer "
"""Names of the nodes that stand for orderers begin with it."""

encode = msgspec.json.Encoder().encode


def play_and_compare(
    layout: LoadLayout,
    streams: Sequence[Intense],
    orderers: Sequence[Orderer],
    parameters: Mapping[str, Any],
    seed: int,
    trace: Writer,
) -> dict[str, float]:
    """Parameters: slowdown, the seconds to be played, and of how many subscribers one is followed."""
    slowdown = parameters["slowdown"]
    load = OfferedLoad(seed, streams, layout, slowdown, GRADES)
    load.note_interests(trace)
    params, recording = SubstrateParams(slowdown=slowdown), Recording()
    network = DispatcherNetwork(
        seed, trace, layout.topology, params, load.publisher_homes, load.wants, observers=(recording,)
    )
    load.play(network, parameters["seconds"])
    followed = {
        client: parse(interest["filter"])
        for client, interest in load.interests.items()
        if is_followed(client, parameters["follow"])
    }
    numbers = {client: number for number, client in enumerate(followed, 1)}
    for orderer, publisher, subscriber, deliveries in compare(recording.only(followed), followed, orderers, slowdown):
        for one in deliveries:
            trace.write(delivery(orderer, publisher, numbers[subscriber], one))
    return {"delivered": network.simulator.counters().delivered}


def is_followed(client: NodeId, one_in: int) -> bool:
    """By its place at its broker."""
    return int(client.rpartition(".c")[2]) % one_in == 0


def delivery(orderer: Orderer, publisher: NodeId, subscription: int, one: OrderedDelivery) -> Record:
    said = {
        "publisher": publisher,
        "number": one.number,
        "subscription": subscription,
        "latch": one.latch,
        "hold": one.held,
    }
    detail = encode(said).decode()
    return Record(time=one.at, node=f"{ORDERED_BY}{orderer.label}", kind="deliver", message="Event", detail=detail)


# What is measured.


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    is_orderer = F.col("node").startswith(ORDERED_BY)
    # An orderer is a node by itself; of the network, each subscriber is one.
    traces = traces.where(is_orderer).unionByName(by_subscriber(traces.where(~is_orderer)))
    pairs = ordered_pairs(ORDER.rows(traces), None).selectExpr(
        "run", "node", "arrived", "violations", "latch_us / 1e6 AS latch", "hold_us / 1e6 AS held"
    )
    metrics = ORDER.table([fifo_violations, extra_delay], traces, None, ["node"])
    return measured_by_run(
        results, pairs.join(metrics.select("run", "node", *METRICS), on=["run", "node"], how="inner"), measure
    )


def measure(columns: Columns) -> list[Figure]:
    """Of one run: a row for each pair, and beside it the metrics of its node."""
    import numpy as np

    slowdown, follow = float(parameter_of(columns, "slowdown")), int(parameter_of(columns, "follow"))
    nodes, first = np.unique(columns["node"], return_index=True)
    at_node = {
        str(node): {name: float(columns[name][place]) for name in METRICS}
        for node, place in zip(nodes, first, strict=True)
    }
    unordered = {node: found["fifo_violations"] for node, found in at_node.items() if not node.startswith(ORDERED_BY)}
    before = sum(count for node, count in unordered.items() if is_followed(node, follow))
    made: list[Figure] = [("violations", "", sum(unordered.values()) * slowdown)]
    busiest = columns["arrived"] >= BUSIEST * columns["arrived"].max()
    left, means, held = dict[str, float](), dict[str, float](), dict[str, float]()
    for node, found in at_node.items():
        if node in unordered:
            continue
        label, of = node.removeprefix(ORDERED_BY), columns["node"] == node
        events, delays = columns["arrived"][of], columns["latch"] / slowdown
        left[label] = found["fifo_violations"] / before
        means[label] = found["extra_delay_mean"] / slowdown
        held[label] = float((columns["held"][of] * events).sum() / events.sum() / slowdown)
        made += [
            ("removed", label, 1 - left[label]),
            ("extra delay", label, means[label]),
            ("extra delay, median", label, found["extra_delay_p50"] / slowdown),
            ("extra delay, 90 %", label, found["extra_delay_p90"] / slowdown),
            ("extra delay, largest", label, found["extra_delay_max"] / slowdown),
            ("extra delay, busiest", label, float(delays[of & busiest].mean())),
            ("held", label, held[label]),
        ]
        quantiles = np.quantile(delays[of], np.arange(STEPS + 1) / STEPS)
        made += [(f"delays, {label}", f"{place}", float(value)) for place, value in enumerate(quantiles)]
    largest = {group: value for name, group, value in made if name == "extra delay, largest"}
    medians = {group: value for name, group, value in made if name == "extra delay, median"}
    made.append(("median against largest", "P-.05", medians["P-.05-25"] / largest["P-.05-0"]))
    return made + ratios(left, means, held)


def ratios(left: Mapping[str, float], means: Mapping[str, float], held: Mapping[str, float]) -> list[Figure]:
    """Orderers compared with each other, run by run: who adds how much less delay."""
    made: list[Figure] = []
    for quantile in ("", " exact"):
        for violation in (".05", ".2"):
            names = {size: f"P-{violation}-{size}{quantile}" for size in (0, 5, 25)}
            if not all(name in means for name in names.values()):
                continue
            group, shares = f"P-{violation}{quantile}", [left[name] for name in names.values()]
            made += [
                ("25 against 5", group, means[names[25]] / means[names[5]]),
                ("5 against none", group, means[names[5]] / means[names[0]]),
                ("record changes", group, max(shares) - min(shares)),
            ]
            for label in sorted(means):
                if label.startswith("CST"):
                    made += [
                        (f"25 against {label}", group, means[names[25]] / means[label]),
                        (f"none against {label}", group, means[names[0]] / means[label]),
                        (f"held, 25 against {label}", group, held[names[25]] / held[label]),
                    ]
    return made


# How it is drawn.


def draw(canvas: Canvas, measured: Sequence[Measured], labels: Sequence[str], delays_to_ms: float) -> None:
    """Left the violations that are left, right the extra delays over pairs."""
    left, right = canvas.subplots(1, 2)
    draw_left_over(left, measured)
    draw_delays(right, measured, labels, delays_to_ms)


def draw_left_over(axes: Axes, measured: Sequence[Measured]) -> None:
    from matplotlib.patches import Patch

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
    axes.set(title="violations left", xlabel="% of those without ordering")
    patches = [Patch(color=colour, label=name) for name, colour in kinds]
    axes.legend(handles=patches, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3)


def draw_delays(axes: Axes, measured: Sequence[Measured], labels: Sequence[str], most_ms: float) -> None:
    for colour, label in zip(COLOURS, labels, strict=False):
        steps, delays = points(measured, f"delays, {label}", 1000)
        axes.plot(delays, [100 * step / STEPS for step in steps], color=colour, label=label)
    axes.set(
        xlim=(-most_ms / 50, most_ms),
        title="extra delay of pairs",
        xlabel="milliseconds, without the slowdown",
        ylabel="% of pairs with less",
    )
    axes.legend(loc="lower right")
