"""What is delivered when every link loses up to a fifth of all messages, or repeats and reorders a tenth of them, with
all of recovery on. None of the documents has it: it is what the transport is to reach as a whole.

A tree of 12 brokers, 5 links from end to end, with one subscriber at each and publishers at three. An event has one of
eight topics, and each subscriber wants one. Every link loses the same share of all messages, requests and
repairs among them. Five links that lose 20 % each let a third of the events through to the far end, and an answer to a
question one time in nine.

The other trouble: a link brings a tenth of the messages twice, and a tenth so late that others overtake them. Then
subscribers have `patience`: what follows a missing event waits until that is repaired, so order is strict.

How much is delivered counts everything that was published after the subscriptions were there, the first events of each
publisher included (`joins`): nobody is told in advance who will publish.

What is delivered, twice or out of order, are metrics.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, DataFrame, Measured, Parameter, Variant
from tidings.lab.figures import by_variant
from tidings.lab.plots import COLOURS
from tidings.lab.transport.broker_trees import low_degree
from tidings.lab.transport.network.rising_load import feed
from tidings.lab.transport.networks import BrokerNetwork
from tidings.lab.transport.recovery.lossy_tree import note
from tidings.lab.transport.recovery.misses import expected, missed
from tidings.lab.transport.substrate import WARM_UP, SubstrateParams, named
from tidings.machine.streams import random_stream
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.protocols.transport.carrier import Modes
from tidings.protocols.transport.params import OrderingParams, RecoveryParams, TransportParams
from tidings.spark.metrics.delivery import deliveries
from tidings.spark.metrics.transport import fifo_violations
from tidings.trace.writer import Writer
from tidings.workloads.plain import random_times

BROKERS, DIAMETER, PUBLISHERS = 12, 5, 3
TOPICS = 8
RATE = 20.0
SETTLE = 90.0
"""Seconds after the last publication; at a loss of 20 % some events are asked for a dozen times."""

PATIENCE = 20.0


class Trouble(msgspec.Struct, frozen=True):
    """What links do, and what is done about it."""

    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    is_recovered: bool = True
    patience: float = 0.0

    @property
    def links(self) -> SubstrateParams:
        return SubstrateParams(
            link_delay=0.05,
            link_delay_spread=0.025,
            link_loss=self.loss,
            link_duplication=self.duplication,
            link_reordering=self.reordering,
        )

    @property
    def transport(self) -> TransportParams:
        if not self.is_recovered:
            return TransportParams(is_ordered=False)
        ordering = OrderingParams(joins="listening", patience=self.patience)
        return TransportParams(is_reliable=True, record=10, ordering=ordering, recovery=RecoveryParams())


def interests(seed: int) -> dict[NodeId, str]:
    """The topic that each subscriber wants."""
    drawn = random_stream(seed, "interests")
    return {f"s{place}": f"t{drawn.below(TOPICS)}" for place in range(BROKERS)}


def events(seed: int, publisher: NodeId, seconds: float) -> Iterator[tuple[float, Event]]:
    drawn = random_stream(seed, "events", publisher)
    for number, at in enumerate(random_times(drawn, RATE, end=seconds)):
        yield at, named(publisher, number, {"topic": f"t{drawn.below(TOPICS)}", "size": drawn.below(1000)})


def play(seed: int, trace: Writer, trouble: Trouble, seconds: float) -> BrokerNetwork:
    topology, wanted = low_degree(BROKERS, DIAMETER), interests(seed)
    publishers = [f"p{place}" for place in range(PUBLISHERS)]
    clients = dict(zip(wanted, topology.nodes, strict=True))
    clients |= {name: topology.nodes[4 * place + 3] for place, name in enumerate(publishers)}
    note_interests(trace, wanted, publishers)
    network = BrokerNetwork(
        seed,
        trace,
        topology,
        trouble.links,
        clients,
        {name: f"topic = '{topic}'" for name, topic in wanted.items()},
        transports=trouble.transport,
        modes=Modes(is_ordered=trouble.is_recovered, is_reliable=trouble.is_recovered),
    )
    for publisher in publishers:
        feed(network, events(seed, publisher, seconds))
    network.simulator.run(WARM_UP + seconds + SETTLE)
    return network


def note_interests(trace: Writer, wanted: Mapping[NodeId, str], publishers: Sequence[NodeId]) -> None:
    for subscriber, topic in wanted.items():
        for publisher in publishers:
            said = {"publisher": publisher, "name": "topic", "value": topic, "share": 1 / TOPICS}
            trace.write(note(0.0, subscriber, "interest", said))


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: those of `Trouble`, and the seconds to be played."""
    trouble = {name: parameters[name] for name in Trouble.__struct_fields__}
    network = play(seed, trace, Trouble(**trouble), parameters["seconds"])
    given_up = sum(network.transport(f"s{place}").recovery.losses.given_up for place in range(BROKERS))
    return {"given_up": given_up}


# What is measured.

LOSSES = {"1 %": 0.01, "5 %": 0.05, "10 %": 0.1, "20 %": 0.2}
TROUBLED = "repeated and reordered"


def variant(name: str, **trouble: Parameter) -> Variant:
    calm: dict[str, Parameter] = {
        "loss": 0.0,
        "duplication": 0.0,
        "reordering": 0.0,
        "is_recovered": True,
        "patience": 0.0,
    }
    return Variant(name, {**calm, **trouble})


VARIANTS = (
    *(variant(name, loss=loss) for name, loss in LOSSES.items()),
    *(variant(f"{name}, plain", loss=loss, is_recovered=False) for name, loss in LOSSES.items()),
    variant(TROUBLED, duplication=0.1, reordering=0.1, patience=PATIENCE),
    variant(f"{TROUBLED}, plain", duplication=0.1, reordering=0.1, is_recovered=False),
)


def figures(results: DataFrame, traces: DataFrame) -> DataFrame:
    inverted = fifo_violations(numbered(traces)).select("run", "fifo_violations")
    table = (
        missed(traces, expected(traces))
        .join(inverted, on="run", how="inner")
        .join(deliveries(traces), on="run", how="inner")
    )
    columns = {"delivered": "delivery_ratio", "inversions": "fifo_violations", "twice": "repeated"}
    return by_variant(results, table, columns)


def numbered(traces: DataFrame) -> DataFrame:
    """Deliveries with the numbers that publishers gave. An event that was repaired comes without the number that the
    network gave it, and the metric of order would leave it out; its key is its publisher and number."""
    from pyspark.sql import functions as F

    publisher, number = F.split("key", " ")[0], F.split("key", " ")[1]
    said = F.struct(
        publisher.alias("publisher"),
        number.cast("long").alias("number"),
        F.get_json_object("detail", "$.subscription").cast("long").alias("subscription"),
    )
    return traces.where("kind = 'deliver' AND message = 'Event'").withColumn("detail", F.to_json(said))


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    values = {each.group: 100 * each.value for each in measured if each.figure == "delivered"}
    for place, (suffix, label) in enumerate(((", plain", "plain network"), ("", "recovered"))):
        at = [spot + (place - 0.5) * 0.4 for spot in range(len(LOSSES))]
        heights = [values.get(f"{name}{suffix}", 0.0) for name in LOSSES]
        bars = axes.bar(at, heights, 0.38, color=COLOURS[place], label=label)
        axes.bar_label(bars, [f"{height:.4g}" for height in heights], fontsize=7)
    axes.set_xticks(range(len(LOSSES)), LOSSES)
    axes.set(xlabel="loss on every link", ylabel="% of what was due")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


EXPERIMENT = define(__file__, run=run, variants=VARIANTS, figures=figures, plot=plot)
