"""E18: how well losses are counted when records are short.

One publisher with 1000 events a second, half of them wanted, a link that carries 219, and congestion control. Three
subscribers want the same, at the same broker, so that exactly the same reaches each of them:

    ideal     reads records of 100 events, so that it knows of every loss; it alone gives feedback
    5, 2      read only the newest 5, or 2, entries of the same records, and say nothing

What each of them believes is noted at its ticks ("tick": the rate that TCP would have, T) and loss events. A header
with a record of 100 is long; the link is faster by as much, so that it carries the same number of events.

The source does not say which share of the events is wanted, and much depends on it. While the flow is held to 219
events a second, 30 % of what is sent is for it, and five entries reach the next of them five times of six. With the
load of E19 (4000 a second, 22 % wanted) it is 7 %, and records of 5 and of 2 are nearly equally blind: in one run of
30 s either saw 3 of 10 loss events, and 5 was no closer to the ideal than 2 (1.15 times as far away).

Loss events are the metric of this name. What a receiver believes is measured here, of its notes: no metric reads them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, DataFrame, Measured, Variant
from tidings.lab.transport.congestion.bottleneck import ENTRY_BYTES, FAR, NEAR, RECORD, paced
from tidings.lab.transport.congestion.crowd import Crowd, play_crowd, steady_events
from tidings.lab.transport.congestion.series import draw_lines
from tidings.lab.transport.networks import BrokerNetwork
from tidings.lab.transport.samples import Columns, Figure, measured_by_run, parameter_of
from tidings.lab.transport.substrate import WARM_UP, WIRE_BYTES
from tidings.machine.effects import Deliver, Effect
from tidings.machine.inputs import Input
from tidings.machine.node import Machine
from tidings.machine.streams import RandomStream
from tidings.model.identity import NodeId
from tidings.model.values import Value
from tidings.nodes.client import ClientNode
from tidings.protocols.access.params import GuestParams
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.transport.adapter.adapter import Adapter
from tidings.protocols.transport.headers import BadHeader, decode_data, encode_data, entry_form
from tidings.protocols.transport.marks import MARK, Kind
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.transport import TransportNode
from tidings.pubsub.client import Arrived, PublishBatch
from tidings.pubsub.notes import LossEvent, RateAssessed
from tidings.pubsub.publications import event_of
from tidings.sim.node import Draws, Make
from tidings.sim.topologies.shapes import chain
from tidings.spark.metrics.tables import is_note
from tidings.spark.metrics.transport import loss_events
from tidings.trace.writer import Writer

IDEAL = 100
READ = {"ideal": IDEAL, "k = 5": 5, "k = 2": 2}
NODES = {"s100": "ideal", "s5": "k = 5", "s2": "k = 2"}
RATE, SHARE = 1000.0, 0.5
CAPACITY_BPS = 500e3
SETTLES = 5.0
STEP = 0.1
"""Seconds between two looks at what each believes."""
T_MAX = 2000.0
"""Events a second: a T above it limits nothing here."""


class FlowWatcher(ClientNode):
    """Lets its transport see `most` entries of a record, and gives no feedback if that is not all."""

    most = IDEAL

    def handle(self, now: float, input: Input) -> list[Effect]:
        if self.most < IDEAL and type(input) is PublishBatch and any(map(is_feedback, input.heads)):
            return []
        return [self.shortened(effect) for effect in super().handle(now, input)]

    def shortened(self, effect: Effect) -> Effect:
        if type(effect) is not Deliver or type(effect.item) is not Arrived:
            return effect
        payloads = tuple([shorten(payload, self.most) for payload in effect.item.payloads])
        return Deliver(msgspec.structs.replace(effect.item, payloads=payloads))


def is_feedback(head: bytes) -> bool:
    return event_of(head, b"").attributes.get(MARK) == Kind.FEEDBACK.value


def shorten(payload: bytes, most: int) -> bytes:
    try:
        header, content = decode_data(payload)
    except BadHeader:
        return payload
    entries = min(header.entries, most)
    record = header.record[: entries * entry_form(header.row_bytes).size]
    return encode_data(msgspec.structs.replace(header, entries=entries, record=record)) + content


class WatchedNetwork(BrokerNetwork):
    def client(self, node_id: NodeId, home: NodeId, params: TransportParams) -> Make:
        if not node_id.startswith("s"):
            return super().client(node_id, home, params)

        def make(draws: Draws) -> Machine:
            watcher = FlowWatcher(node_id, GuestParams(brokers=(home,)), SessionParams(), draws("access"))
            watcher.most, rng = int(node_id[1:]), draws("transport")
            return Adapter(watcher, TransportNode(rng.getrandbits(32), params, rng))

        return make


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: seconds."""
    factor = (WIRE_BYTES + (IDEAL - RECORD) * ENTRY_BYTES) / WIRE_BYTES

    def draw(rng: RandomStream) -> dict[str, Value]:
        return {"wanted": int(rng.random() < SHARE)}

    crowd = Crowd(
        topology=chain(2),
        publishers={"p": NEAR},
        subscribers=dict.fromkeys(NODES, FAR),
        wants=dict.fromkeys(NODES, "wanted = 1"),
        events=steady_events(["p"], RATE, draw, seed, parameters["seconds"]),
        narrow={(NEAR, FAR): CAPACITY_BPS * factor},
        seconds=parameters["seconds"],
        queue=round(50 * factor),
    )
    play_crowd(crowd, paced(record=IDEAL), seed, trace, WatchedNetwork)
    return {}


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    counted = loss_events(traces, by=["node"]).select("run", "node", F.col("loss_events").cast("double"))
    return measured_by_run(results, beliefs(traces).join(counted, on=["run", "node"], how="inner"), measure)


def beliefs(traces: DataFrame) -> DataFrame:
    """Ticks and loss events: run, node, at, allowed."""
    from pyspark.sql import functions as F

    notes = traces.where(f"{is_note(RateAssessed)} OR {is_note(LossEvent)}")
    return notes.select(
        "run",
        "node",
        (F.col("time") - WARM_UP).alias("at"),
        F.get_json_object("detail", "$.allowed").cast("double").alias("allowed"),
    ).na.fill(T_MAX)


def measure(columns: Columns) -> list[Figure]:
    import numpy as np

    seconds = float(parameter_of(columns, "seconds"))
    times = np.arange(SETTLES, seconds, STEP)
    believed, events = {}, {}
    for node, label in NODES.items():
        of = columns["node"] == node
        events[label] = float(columns["loss_events"][of][0]) if of.any() else 0.0
        believed[label] = at_times(columns["at"][of], columns["allowed"][of], times)
    made: list[Figure] = []
    for label, rates in believed.items():
        made += [
            (f"believed over time, {label}", f"{at:g}", float(rate)) for at, rate in zip(times, rates, strict=True)
        ]
        if label != "ideal":
            apart = np.abs(rates - believed["ideal"])
            made += [
                ("apart", label, float(apart.mean())),
                ("apart, share", label, float(apart.mean() / believed["ideal"].mean())),
                ("above", label, float((rates > believed["ideal"] * 1.05).mean())),
                ("loss events seen", label, events[label] / max(1, events["ideal"])),
            ]
    ratio = np.abs(believed["k = 5"] - believed["ideal"]).mean() / np.abs(believed["k = 2"] - believed["ideal"]).mean()
    return [*made, ("5 against 2", "", float(ratio)), ("loss events", "ideal", events["ideal"])]


def at_times(at: Any, values: Any, times: Any) -> Any:
    """What was noted last before each time."""
    import numpy as np

    order = np.argsort(at, kind="stable")
    places = np.searchsorted(at[order], times, side="right") - 1
    found = np.minimum(values[order], T_MAX)[np.maximum(places, 0)] if len(at) else np.full(len(times), T_MAX)
    return np.where(places < 0, T_MAX, found)


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    draw_lines(axes, measured, {f"believed over time, {label}": label for label in READ})
    axes.set(title="rate that TCP would have, events a second", ylim=(0, 500))


EXPERIMENT = define(__file__, run=run, variants=(Variant("one flow"),), figures=figures, plot=plot)
