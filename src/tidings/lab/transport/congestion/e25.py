"""E25: recovery and congestion control together.

    B1: five publishers, 300 events a second each
    B2, B3: five subscribers each, over links of 1.5 Mbit/s
    B4: five subscribers, over a link of 10 Mbit/s

Events belong to one of four sections, and each subscriber wants three of them, so that interests overlap and all
sections are wanted everywhere. 1500 events a second are for each broker, and the narrow links carry 658. Congestion
control withholds most of what is too much; what is lost all the same is asked for, and since subscribers behind the
same link lose the same, one repair helps several. A section is an attribute of its own, because a Bloom row cannot say
"one of these values": with `section = 1 OR section = 2` every event that has a section would seem to be for us.

The source has no digests, which are an addition of ours (F-3b), so publishers send none here; with them it runs beside.
Where our rules differ from those of the source (docs/concepts/transport.md has the list), these run beside as well.
All modes have the same headers, so that a link carries as many events of each.

Behind the narrow links nearly as much is received with control and recovery as without. Behind the wide one it is less
than half: a publisher sends an event when all who want it can take it, and here somebody behind a narrow link wants
each. How far interests overlap the source does not tell, so both sides are shown by themselves.

Losses, goodput, feedback and the traffic of recovery are metrics; what the narrow links carried is read in their notes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, DataFrame, Measured, Variant
from tidings.lab.figures import against, by_variant, parameter, union
from tidings.lab.transport.congestion.bottleneck import CONTROL, PLAIN, RECORD, SETTLE, Mode, by_label, paced, plain
from tidings.lab.transport.congestion.crowd import Crowd, play_crowd, steady_events
from tidings.lab.transport.congestion.series import carried, draw_lines, lines, sent, together, travel, within
from tidings.lab.transport.substrate import PUBLISHED_ROWS
from tidings.machine.streams import RandomStream
from tidings.model.identity import NodeId
from tidings.model.values import Value
from tidings.protocols.transport.carrier import Modes
from tidings.protocols.transport.params import as_published
from tidings.sim.topologies.topology import Topology, TopologyEdge
from tidings.spark.metrics.delivery import DELIVERY, false_negatives
from tidings.spark.metrics.transport import feedback_rate, goodput, recovery_traffic
from tidings.trace.writer import Writer

STAR = Topology("star", ("B1", "B2", "B3", "B4"), tuple(TopologyEdge("B1", leaf) for leaf in ("B2", "B3", "B4")))
SECTIONS = 4
BOTH, DIGESTS, STRICTLY = "both", "both, with digests", "both, as published"
SUBSCRIBERS = {f"{broker.lower()}.{place}": broker for broker in ("B2", "B3", "B4") for place in range(5)}
PUBLISHERS = {f"p{place}": "B1" for place in range(5)}
WITHOUT = {name: place % SECTIONS for place, name in enumerate(SUBSCRIBERS)}
"""The section that each does not want."""
SETTLES = 3
"""Seconds at the beginning that do not count."""


TOGETHER = msgspec.structs.replace(PUBLISHED_ROWS, is_reliable=True, is_paced=True, record=RECORD, digest_period=0.0)
DIGESTING = msgspec.structs.replace(TOGETHER, digest_period=PUBLISHED_ROWS.digest_period)
LITERAL = as_published(is_reliable=True, is_paced=True, record=RECORD)
RELIABLE = Modes(is_reliable=True, is_paced=True)
MODES = by_label(
    plain(),
    paced(),
    Mode(BOTH, TOGETHER, RELIABLE),
    Mode(DIGESTS, DIGESTING, RELIABLE),
    Mode(STRICTLY, LITERAL, RELIABLE),
)


def wants(name: NodeId) -> str:
    return " OR ".join(f"section{section} = true" for section in range(SECTIONS) if section != WITHOUT[name])


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: seconds; the rate of each publisher; the narrow links."""

    def draw(rng: RandomStream) -> dict[str, Value]:
        return {f"section{rng.below(SECTIONS)}": True}

    crowd = Crowd(
        topology=STAR,
        publishers=PUBLISHERS,
        subscribers=SUBSCRIBERS,
        wants={name: wants(name) for name in SUBSCRIBERS},
        events=steady_events(PUBLISHERS, parameters["rate"], draw, seed, parameters["seconds"]),
        narrow=dict.fromkeys((("B1", "B2"), ("B1", "B3")), parameters["narrow_bps"]),
        seconds=parameters["seconds"],
    )
    play_crowd(crowd, MODES[variant], seed, trace)
    return {}


def owed(traces: DataFrame) -> DataFrame:
    """run, key, node."""
    from pyspark.sql import functions as F

    subscribers = F.array(
        *(
            F.struct(F.lit(name).alias("node"), F.lit(f"section{section}").alias("without"))
            for name, section in WITHOUT.items()
        )
    )
    events = traces.where("kind = 'publish'").select("run", "key", "detail", F.explode(subscribers).alias("who"))
    return sent(traces, events.where("NOT contains(detail, who.without)").select("run", "key", "who.node"))


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    due, lasting = owed(traces), parameter("seconds", "double") - SETTLES
    settled = within(results, traces, F.lit(float(SETTLES)), parameter("seconds", "double") + SETTLE)
    counted = settled.where("kind = 'publish'").select("run", "key")
    links = carried(settled).groupBy("run").agg((F.sum("amount") * 8).alias("bits"))
    at_node = goodput(within(results, traces, F.lit(float(SETTLES)), parameter("seconds", "double")), by=["node"])
    by_width = (
        at_node.where("node IS NOT NULL")
        .groupBy("run")
        .agg(
            F.sum("goodput_events_per_second").alias("received"),
            *(
                F.avg(F.when(F.col("node").startswith("b4.") == is_wide, F.col("goodput_events_per_second"))).alias(
                    name
                )
                for name, is_wide in (("narrow", False), ("wide", True))
            ),
        )
    )
    traffic = recovery_traffic(settled).select(
        "run", "requests", "repairs", "repair_deliveries", "deliveries_per_repair"
    )
    table = together(
        DELIVERY.table([false_negatives], settled, due.join(counted, on=["run", "key"], how="left_semi"), []),
        by_width,
        travel(settled),
        feedback_rate(settled).select("run", F.col("feedback_per_second").alias("feedback")),
        traffic,
        links,
        results.select("run", lasting.alias("lasting"), parameter("narrow_bps", "double").alias("narrow_bps")),
    )
    missed, repaired = F.col("false_negatives"), F.col("repair_deliveries")
    table = table.withColumns(
        {
            "missed": missed / F.col("lasting"),
            "used": F.col("bits") / F.col("lasting") / (2 * F.col("narrow_bps")),
            "recovered": repaired / (repaired + missed),
            "requests": F.col("requests") / F.col("lasting"),
            "repairs": F.col("repairs") / F.col("lasting"),
        }
    )
    table = table.withColumn("recovery", (F.col("requests") + F.col("repairs")) / F.col("received")).cache()
    everywhere = {
        "missed a second": "missed",
        "received a second": "received",
        "received, narrow": "narrow",
        "received, wide": "wide",
        "travel": "travel",
        "used": "used",
    }
    recovering = {
        "recovered": "recovered",
        "recoveries for a repair": "deliveries_per_repair",
        "traffic of recovery": "recovery",
        "requests a second": "requests",
        "repairs a second": "repairs",
    }
    by_second = DELIVERY.table([false_negatives], traces, due, ["second"])
    return union(
        [
            by_variant(results, table, everywhere),
            by_variant(results.where(F.col("variant") != PLAIN), table, {"feedback": "feedback"}),
            by_variant(results.where(F.col("variant").isin(BOTH, DIGESTS, STRICTLY)), table, recovering),
            against(
                results,
                table,
                PLAIN,
                {
                    "missed share": lambda ours, plain: ours["missed"] / plain["missed"],
                    "received share": lambda ours, plain: ours["received"] / plain["received"],
                    "narrow share": lambda ours, plain: ours["narrow"] / plain["narrow"],
                    "wide share": lambda ours, plain: ours["wide"] / plain["wide"],
                },
            ),
            lines(results, by_second, {"missed over time, {variant}": "false_negatives"}),
        ]
    )


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    labels = {PLAIN: "neither", CONTROL: "control", BOTH: "control and recovery"}
    draw_lines(axes, measured, {f"missed over time, {mode}": label for mode, label in labels.items()}, 2)
    axes.set_yscale("symlog", linthresh=10)
    axes.set_title("events missed a second, all subscribers")


EXPERIMENT = define(__file__, run=run, variants=tuple(map(Variant, MODES)), figures=figures, plot=plot)
