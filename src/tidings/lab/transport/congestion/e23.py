"""E23: eight brokers, many subscribers with interests of all sizes, two publishers behind a narrow link.

What is published and wanted is the workload `transport-e23` (`workloads/transport.py`), at random times, with 50 values
of each attribute: few subscribers want very much, most very little, and many interests overlap or include each other.
Both publishers are at one broker, and the link from there has 1 Mbit/s, all others 10.

The thesis says that the brokers are up to 6 links apart, the paper says 3; both run. In the first they are a path of
seven with one more at its middle, in the second two hubs with three leaves each. There hubs have four neighbours, where
the source has at most three: no tree of eight is that narrow and 3 links wide, and in a graph with circles there would
be ways around the narrow link.

Scaled down: 12 clients at a broker instead of 95, and 1000 events a second of each publisher instead of 2000. What the
bottleneck is offered is still several times what it carries. Feedback suppression (F-4), slow start, and records of 25
instead of 2 run beside.

Losses, deliveries, latency, feedback and the flow table are metrics; what the narrow link carried is read in its notes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, DataFrame, Measured, Variant
from tidings.lab.figures import by_variant, measured, over_seeds, parameter, side_by_side, union
from tidings.lab.transport.congestion.bottleneck import CONTROL, ENTRY_BYTES, PLAIN, RECORD, SETTLE, paced, plain
from tidings.lab.transport.congestion.crowd import Crowd, play_crowd
from tidings.lab.transport.congestion.series import carried, draw_lines, lines, sent, together, travel, within
from tidings.lab.transport.network.rising_load import HUBS, timed_events
from tidings.lab.transport.recovery.lossy_tree import note
from tidings.lab.transport.substrate import WIRE_BYTES
from tidings.protocols.transport.params import CongestionParams
from tidings.sim.topologies.topology import Topology, TopologyEdge
from tidings.spark.metrics.delivery import DELIVERY, deliveries, false_negatives, latency
from tidings.spark.metrics.transport import feedback_rate
from tidings.trace.writer import Writer
from tidings.workloads.transport import SharedInterests

PATH = Topology(
    "path",
    tuple(f"n{place}" for place in range(8)),
    (*(TopologyEdge(f"n{place}", f"n{place + 1}") for place in range(6)), TopologyEdge("n3", "n7")),
)
TREES = {"diameter 3": (HUBS, "a1", "A"), "diameter 6": (PATH, "n0", "n1")}
"""The brokers, where the publishers are, and the other end of the narrow link."""

ATTRIBUTES, VALUES = SharedInterests().names, 50
NARROW_BPS = 1e6
SETTLES = 5
"""Seconds in which control finds its rates."""
LONGER = "record of 25"
LONGER_BY = (WIRE_BYTES + (25 - RECORD) * ENTRY_BYTES) / WIRE_BYTES
"""How much larger an event with such a record is."""

MODES = {
    mode.label: mode
    for mode in (
        plain(),
        paced(),
        paced("suppression", congestion=CongestionParams(suppression=True)),
        paced("slow start", congestion=CongestionParams(slow_start=True)),
        paced(LONGER, record=25),
    )
}

ADDITIONS = ("suppression", "slow start")


def label_of(tree: str, mode: str) -> str:
    return tree if mode == CONTROL else f"{tree}, {mode}"


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: the tree, the mode, seconds, clients at each broker, the rate of each publisher, and whether
    additions run too."""
    (topology, home, next_to), mode = TREES[parameters["tree"]], MODES[parameters["mode"]]
    if mode.label in ADDITIONS and not parameters["additions"]:
        return {}
    workload = SharedInterests(
        seed=seed,
        rate=parameters["rate"],
        duration=parameters["seconds"],
        subscribers=len(topology.nodes) * parameters["clients"] - 2,
        brokers=len(topology.nodes),
        values=VALUES,
        arrivals="poisson",
    )
    interests = {row["subscription"]: row for row in workload.subscriptions().rows()}
    for name, row in interests.items():
        said = {attribute: row[attribute] for attribute in ATTRIBUTES if row[attribute] is not None}
        trace.write(note(0.0, name, "interest", {**said, "is_beyond": topology.nodes[row["place"]] != home}))
    crowd = Crowd(
        topology=topology,
        publishers={f"p{place}": home for place in range(workload.publishers)},
        subscribers={name: topology.nodes[row["place"]] for name, row in interests.items()},
        wants={name: row["filter"] for name, row in interests.items()},
        events=[timed_events(workload)],
        narrow={(home, next_to): NARROW_BPS},
        seconds=parameters["seconds"],
        link_delay=0.01,
    )
    play_crowd(crowd.for_record(mode.params.record), mode, seed, trace)
    return {}


def owed(traces: DataFrame) -> DataFrame:
    """To subscribers beyond the narrow link: run, key, node."""
    from pyspark.sql import functions as F

    fields = ", ".join(f"{name} STRING" for name in ATTRIBUTES)
    wants = beyond(traces).select(
        "run", "node", *(F.get_json_object("detail", f"$.{name}").alias(f"w{name}") for name in ATTRIBUTES)
    )
    events = traces.where("kind = 'publish'").select("run", "key", F.from_json("detail", fields).alias("said"))
    is_wanted = " AND ".join(f"(w{name} IS NULL OR w{name} = said.{name})" for name in ATTRIBUTES)
    pairs = events.join(F.broadcast(wants), on="run", how="inner").where(is_wanted)
    return sent(traces, pairs.select("run", "key", "node"))


def beyond(traces: DataFrame) -> DataFrame:
    return traces.where("message = 'interest' AND get_json_object(detail, '$.is_beyond') = 'true'")


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    due = owed(traces)
    settled = within(results, traces, F.lit(float(SETTLES)), parameter("seconds", "double") + SETTLE)
    ends = settled.where("kind = 'publish'").select("run", "key")
    there = settled.where("kind <> 'deliver'").unionByName(
        settled.where("kind = 'deliver'").join(
            beyond(traces).select("run", "node"), on=["run", "node"], how="left_semi"
        )
    )
    link = carried(settled).groupBy("run").agg((F.avg("amount") * 8 / NARROW_BPS).alias("of_link"))
    table = together(
        DELIVERY.table([false_negatives], there, due.join(ends, on=["run", "key"], how="left_semi"), []),
        deliveries(there).select("run", "delivered"),
        latency(there).select("run", F.col("latency_mean").alias("delay")),
        travel(there),
        feedback_rate(settled).select(
            "run", F.col("feedback_per_second").alias("feedback"), F.col("flow_table_max").alias("flow_table")
        ),
        link,
    ).cache()
    longer = F.when(parameter("mode") == LONGER, F.lit(LONGER_BY)).otherwise(1.0)
    table = table.join(results.select("run", longer.alias("longer")), on="run", how="inner")
    table = table.withColumn("used", F.col("of_link") / F.col("longer")).drop("longer", "of_link")
    columns = {
        "missed share": "false_negative_share",
        "delay": "delay",
        "travel": "travel",
        "used": "used",
        "feedback": "feedback",
        "flow table": "flow_table",
    }
    pairs = side_by_side(
        measured(results, table, *(name for name in table.columns if name != "run")),
        group=parameter("tree"),
        side=parameter("mode"),
    )
    plain_of = F.col("sides")[PLAIN]
    tables = [by_variant(results, table, columns)]
    for mode in MODES:
        if mode != PLAIN:
            ours = F.col("sides")[mode]
            label = F.col("group") if mode == CONTROL else F.concat("group", F.lit(f", {mode}"))
            ratios = {
                "missed": ours["false_negatives"] / F.greatest(plain_of["false_negatives"], F.lit(1.0)),
                "deliveries": ours["delivered"] / plain_of["delivered"],
                "travel against plain": ours["travel"] / plain_of["travel"],
            }
            tables.append(over_seeds(pairs.withColumn("group", label), ratios))
    by_second = DELIVERY.table([false_negatives], traces, due, ["second"])
    return union([*tables, lines(results, by_second, {"missed over time, {variant}": "false_negatives"})])


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    for axes, tree in zip(canvas.subplots(1, 2, sharey=True), TREES, strict=True):
        labels = {PLAIN: "without control", CONTROL: "with control", LONGER: "and records of 25"}
        draw_lines(
            axes, measured, {f"missed over time, {label_of(tree, mode)}": text for mode, text in labels.items()}, 1
        )
        axes.set_title(f"events missed a second, {tree}")


EXPERIMENT = define(
    __file__,
    run=run,
    variants=tuple(Variant(label_of(tree, mode), {"tree": tree, "mode": mode}) for tree in TREES for mode in MODES),
    figures=figures,
    plot=plot,
)
