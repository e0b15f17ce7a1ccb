"""E23: eight brokers, many subscribers with interests of all sizes, two publishers behind a narrow link.

Events have five attributes, each with one of 50 values of which few are frequent (Zipf). A subscriber has one filter of
one to five conditions on values that are drawn the same way: few of them want very much, most very little, and many
interests overlap or include each other. Both publishers are at one broker, and the link from there has 1 Mbit/s, all
others 10.

The thesis says that the brokers are up to 6 links apart, the paper says 3; both run. In the first they are a path of
seven with one more at its middle, in the second two hubs with three leaves each.

Scaled down: 12 clients at a broker instead of 95, and 1000 events a second of each publisher instead of 2000. What the
bottleneck is offered is still several times what it carries. Feedback suppression (F-4), slow start, and records of 25
instead of 2 run beside.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidings.lab.definition import define
from tidings.lab.experiment import Measured, Variant
from tidings.lab.transport.congestion.bottleneck import CONTROL, ENTRY_BYTES, PLAIN, RECORD, Drawn, Mode, paced, plain
from tidings.lab.transport.congestion.crowd import Crowd, play_crowd
from tidings.lab.transport.congestion.spans import all_series, draw_lines, over_time, spans
from tidings.lab.transport.network.rising_load import HUBS
from tidings.lab.transport.samples import Columns, Figure, measured_by_run, parameter_of, variant_of
from tidings.lab.transport.substrate import WIRE_BYTES
from tidings.machine.streams import Stream, random_stream
from tidings.model.identity import NodeId
from tidings.protocols.transport.params import CongestionParams
from tidings.pubsub.notes import FlowChanged
from tidings.pubsub.publications import encode_head
from tidings.sim.topologies.topology import Edge, Topology
from tidings.spark.metrics.tables import is_note
from tidings.trace.gathering import Writer

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas
    from pyspark.sql import DataFrame

PATH = Topology(
    "path",
    tuple(f"n{place}" for place in range(8)),
    (*(Edge(f"n{place}", f"n{place + 1}") for place in range(6)), Edge("n3", "n7")),
)
TREES = {"diameter 3": (HUBS, "a1", "A"), "diameter 6": (PATH, "n0", "n1")}
"""The brokers, where the publishers are, and the other end of the narrow link."""

ATTRIBUTES, VALUES = 5, 50
NARROW_BPS = 1e6
SETTLES = 5
"""Seconds in which control finds its rates."""
SUPPRESSED, SLOWLY, LONGER = "suppression", "slow start", "record of 25"
COMPARED = (CONTROL, SUPPRESSED, SLOWLY, LONGER)

LONGER_BY = (WIRE_BYTES + (25 - RECORD) * ENTRY_BYTES) / WIRE_BYTES
"""How much larger an event with such a record is."""

Interest = dict[int, int]
"""Wanted values, by the number of the attribute."""


def modes() -> tuple[Mode, ...]:
    return (
        plain(),
        paced(),
        paced(SUPPRESSED, congestion=CongestionParams(suppression=True)),
        paced(SLOWLY, congestion=CongestionParams(slow_start=True)),
        paced(LONGER, record=25),
    )


class Zipf:
    """Values from 0 on, each as frequent as one over its place."""

    def __init__(self, count: int) -> None:
        weights = [1 / place for place in range(1, count + 1)]
        total, reached = sum(weights), 0.0
        self.ends = [(reached := reached + weight / total) for weight in weights]

    def draw(self, rng: Stream) -> int:
        point = rng.random()
        return next((value for value, end in enumerate(self.ends) if point < end), len(self.ends) - 1)


ZIPF = Zipf(VALUES)


def draw_interest(rng: Stream) -> Interest:
    attributes = rng.sample(range(ATTRIBUTES), 1 + rng.below(ATTRIBUTES))
    return {attribute: ZIPF.draw(rng) for attribute in sorted(attributes)}


def text_of(interest: Interest) -> str:
    return " AND ".join(f"x{attribute} = {value}" for attribute, value in interest.items())


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: seconds, clients at each broker, rate of each publisher, and whether additions run too."""
    topology, home, next_to = TREES[variant]
    rng = random_stream(seed, "interests")
    places = [(broker, place) for broker in topology.nodes for place in range(parameters["clients"])]
    subscribers = {f"{broker}.c{place}": broker for broker, place in places if (broker, place) not in at_home(home)}
    interests = {name: draw_interest(rng) for name in subscribers}

    def draw(publisher: NodeId, rng: Stream) -> Drawn:
        values = [ZIPF.draw(rng) for _ in range(ATTRIBUTES)]
        readers = [
            name
            for name, interest in interests.items()
            if all(values[attribute] == value for attribute, value in interest.items())
        ]
        return encode_head({f"x{place}": value for place, value in enumerate(values)}), tuple(readers)

    crowd = Crowd(
        topology=topology,
        publishers={f"p{place}": home for place in range(2)},
        subscribers=subscribers,
        wants={name: text_of(interest) for name, interest in interests.items()},
        rate=parameters["rate"],
        draw=draw,
        narrow={(home, next_to): NARROW_BPS},
        seconds=parameters["seconds"],
        link_delay=0.01,
    )
    for mode in modes() if parameters["additions"] else modes()[:2]:
        play_crowd(crowd.for_record(mode.params.record), mode, seed, trace)
    return {}


def at_home(home: NodeId) -> tuple[tuple[NodeId, int], ...]:
    """The places of the two publishers."""
    return (home, 0), (home, 1)


def figures(results: "DataFrame", traces: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as F

    rows = traces.where(is_note(FlowChanged)).select(
        "run",
        F.concat(F.lit("table "), F.substring_index("node", ":", -1)).alias("node"),
        F.substring_index("node", ":", 1).alias("mode"),
        F.get_json_object("detail", "$.size").cast("double").alias("delivered"),
    )
    sizes = rows.groupBy("run", "node", "mode").agg(F.max("delivered").alias("delivered"))
    together = spans(traces).unionByName(sizes, allowMissingColumns=True).na.fill(0)
    return measured_by_run(results, together, measure)


def measure(columns: Columns) -> list[Figure]:
    length, tree = int(parameter_of(columns, "seconds")), variant_of(columns)
    nodes = sorted({str(node) for node in columns["node"] if ".c" in node})
    home = TREES[tree][1]
    beyond = [node for node in nodes if not node.startswith(f"{home}.")]
    made: list[Figure] = []
    plain_of: dict[str, Any] = {}
    for mode in (PLAIN, *COMPARED):
        counted = all_series(columns, mode, beyond, length)
        if not counted["wanted"].sum():
            continue
        label = tree if mode == CONTROL else f"{tree}, {mode}"
        sent = counted["wanted"] - counted["withheld"]
        missed = counted["missed"][SETTLES:].sum() / sent[SETTLES:].sum()
        delivered = counted["delivered"][SETTLES:].sum()
        delay, travel = (counted[name][SETTLES:].sum() / delivered for name in ("delay", "travel"))
        link = all_series(columns, mode, ["link 1"], length)["delivered"][SETTLES:]
        made += [
            ("missed share", label, missed),
            ("delay", label, delay),
            ("travel", label, travel),
            ("used", label, float(link.mean()) * 8 / NARROW_BPS / (LONGER_BY if mode == LONGER else 1.0)),
            *over_time(f"missed over time, {tree}, {mode}", counted["missed"], 1.0),
        ]
        if mode == PLAIN:
            plain_of = {"missed": counted["missed"], "delivered": delivered, "travel": travel}
            continue
        tables = columns["delivered"][(columns["mode"] == mode) & is_table(columns)]
        made += [
            ("missed", label, counted["missed"][SETTLES:].sum() / max(1.0, plain_of["missed"][SETTLES:].sum())),
            ("deliveries", label, delivered / plain_of["delivered"]),
            ("travel against plain", label, travel / plain_of["travel"]),
            ("feedback", label, all_series(columns, mode, nodes, length)["feedback"][SETTLES:].mean() / 2),
            ("flow table", label, float(tables.max()) if len(tables) else 0.0),
        ]
    return made


def is_table(columns: Columns) -> Any:
    import numpy as np

    return np.array([str(node).startswith("table ") for node in columns["node"]])


def plot(canvas: "Canvas", measured: Sequence[Measured]) -> None:
    for axes, tree in zip(canvas.subplots(1, 2, sharey=True), TREES, strict=True):
        labels = {PLAIN: "without control", CONTROL: "with control", LONGER: "and records of 25"}
        draw_lines(axes, measured, {f"missed over time, {tree}, {mode}": label for mode, label in labels.items()}, 1)
        axes.set_title(f"events missed a second, {tree}")


EXPERIMENT = define(
    __file__,
    run=run,
    variants=tuple(Variant(tree) for tree in TREES),
    figures=figures,
    plot=plot,
)
