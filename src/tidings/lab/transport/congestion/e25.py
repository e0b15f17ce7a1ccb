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
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.lab.definition import define
from tidings.lab.experiment import Measured, Variant
from tidings.lab.transport.carried import Modes
from tidings.lab.transport.congestion.bottleneck import CONTROL, PLAIN, RECORD, Mode, paced, plain
from tidings.lab.transport.congestion.crowd import Crowd, play_crowd
from tidings.lab.transport.congestion.spans import all_series, draw_lines, over_time, spans
from tidings.lab.transport.samples import Columns, Figure, measured_by_run, parameter_of
from tidings.machine.streams import Stream
from tidings.model.identity import NodeId
from tidings.protocols.transport.params import TransportParams
from tidings.pubsub.publications import encode_head
from tidings.sim.topologies.topology import Edge, Topology
from tidings.trace.gathering import Writer

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas
    from pyspark.sql import DataFrame

STAR = Topology("star", ("B1", "B2", "B3", "B4"), tuple(Edge("B1", leaf) for leaf in ("B2", "B3", "B4")))
SECTIONS = 4
BOTH, DIGESTS = "both", "both, with digests"
SUBSCRIBERS = {f"{broker.lower()}.{place}": broker for broker in ("B2", "B3", "B4") for place in range(5)}
PUBLISHERS = {f"p{place}": "B1" for place in range(5)}
WITHOUT = {name: place % SECTIONS for place, name in enumerate(SUBSCRIBERS)}
"""The section that each does not want."""
SETTLES = 3
"""Seconds at the beginning that do not count."""


def modes() -> tuple[Mode, ...]:
    both = TransportParams(is_reliable=True, is_paced=True, record=RECORD, digest_period=0.0)
    digesting = msgspec.structs.replace(both, digest_period=TransportParams().digest_period)
    modes = Modes(is_reliable=True, is_paced=True)
    return plain(), paced(), Mode(BOTH, both, modes), Mode(DIGESTS, digesting, modes)


def wants(name: NodeId) -> str:
    return " OR ".join(f"section{section} = true" for section in range(SECTIONS) if section != WITHOUT[name])


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: seconds; the rate of each publisher, the narrow links; and whether additions run too."""
    drawn = [
        (encode_head({f"section{section}": True}), tuple(name for name in SUBSCRIBERS if WITHOUT[name] != section))
        for section in range(SECTIONS)
    ]

    def draw(publisher: NodeId, rng: Stream) -> tuple[bytes, tuple[NodeId, ...]]:
        return drawn[rng.below(SECTIONS)]

    crowd = Crowd(
        topology=STAR,
        publishers=PUBLISHERS,
        subscribers=SUBSCRIBERS,
        wants={name: wants(name) for name in SUBSCRIBERS},
        rate=parameters["rate"],
        draw=draw,
        narrow=dict.fromkeys((("B1", "B2"), ("B1", "B3")), parameters["narrow_bps"]),
        seconds=parameters["seconds"],
    )
    for mode in modes() if parameters["additions"] else modes()[:3]:
        play_crowd(crowd, mode, seed, trace)
    return {}


def figures(results: "DataFrame", traces: "DataFrame") -> "DataFrame":
    return measured_by_run(results, spans(traces), measure)


def measure(columns: Columns) -> list[Figure]:
    length = int(parameter_of(columns, "seconds"))
    made: list[Figure] = []
    narrow = [name for name, broker in SUBSCRIBERS.items() if broker != "B4"]
    wide = [name for name, broker in SUBSCRIBERS.items() if broker == "B4"]
    missed: dict[str, float] = {}
    for mode in (PLAIN, CONTROL, BOTH, DIGESTS):
        counted = all_series(columns, mode, list(SUBSCRIBERS), length)
        if not counted["wanted"].sum():
            continue
        lasting = {name: values[SETTLES:] for name, values in counted.items()}
        missed[mode] = float(lasting["missed"].sum())
        made += [
            ("missed a second", mode, lasting["missed"].mean()),
            ("received a second", mode, lasting["delivered"].mean()),
            ("travel", mode, lasting["travel"].sum() / lasting["delivered"].sum()),
            *over_time(f"missed over time, {mode}", counted["missed"], 1.0),
        ]
        for label, nodes in (("narrow", narrow), ("wide", wide)):
            rates = all_series(columns, mode, nodes, length)["delivered"][SETTLES:]
            made.append((f"received, {label}", mode, float(rates.mean()) / len(nodes)))
        link = all_series(columns, mode, ["link 1", "link 2"], length)["delivered"][SETTLES:]
        made.append(("used", mode, float(link.mean()) * 8 / (2 * parameter_of(columns, "narrow_bps"))))
        if mode != PLAIN:
            feedback = lasting["feedback"].mean() / len(PUBLISHERS)
            made += [("feedback", mode, feedback), ("missed share", mode, missed[mode] / missed[PLAIN])]
        if mode in (BOTH, DIGESTS):
            made += recovered(columns, mode, length, float(lasting["repaired"].sum()), missed[mode])
    return made


def recovered(columns: Columns, mode: str, length: int, repaired: float, missed: float) -> list[Figure]:
    everybody = sorted({*SUBSCRIBERS, *PUBLISHERS})
    sent = all_series(columns, mode, everybody, length)
    repairs, requests = sent["repairs"][SETTLES:].sum(), sent["requests"][SETTLES:].sum()
    seconds = length - SETTLES
    return [
        ("recovered", mode, repaired / max(1.0, repaired + missed)),
        ("recoveries for a repair", mode, repaired / max(1.0, repairs)),
        ("requests a second", mode, requests / seconds),
        ("repairs a second", mode, repairs / seconds),
    ]


def plot(canvas: "Canvas", measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    labels = {PLAIN: "neither", CONTROL: "control", BOTH: "control and recovery"}
    draw_lines(axes, measured, {f"missed over time, {mode}": label for mode, label in labels.items()}, 2)
    axes.set_yscale("symlog", linthresh=10)
    axes.set_title("events missed a second, all subscribers")


EXPERIMENT = define(
    __file__,
    run=run,
    variants=(Variant("side by side"),),
    figures=figures,
    plot=plot,
)
