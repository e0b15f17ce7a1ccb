"""E7: the same as E6 over many brokers, up to 16 one after the other.

A tree of 46 brokers, 15 links from end to end, 10 clients at each. The two intense streams go from end to end, against
each other; 48 slow publishers are spread over all brokers. Else it is the workload of E6, for 240 s.

Figures are those of `comparison.py`: violations and extra delay are metrics.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, Measured, Variant
from tidings.lab.transport.broker_trees import longest_way, low_degree
from tidings.lab.transport.network.rising_load import Intense, LoadLayout
from tidings.lab.transport.ordering.comparison import draw, figures, play_and_compare
from tidings.lab.transport.ordering.orderers import probabilistic, static
from tidings.lab.transport.samples import subscriber_name
from tidings.trace.writer import Writer

BROKERS, DIAMETER, CLIENTS = 46, 15, 10
SLOW_PUBLISHERS = 48
INTENSE_PLACE = 5
"""The place of an intense publisher at its broker."""

ORDERERS = (
    static(30),
    static(50),
    *(
        probabilistic(violation, record, quantile)
        for quantile, violation in (("appendix", ".05"), ("appendix", ".2"), ("exact", ".05"))
        for record in (0, 5, 25)
    ),
)


@cache
def layout() -> LoadLayout:
    topology = low_degree(BROKERS, DIAMETER)
    names = [subscriber_name(broker, place) for place in (1, 2) for broker in topology.nodes]
    return LoadLayout(topology, CLIENTS, tuple(names[:SLOW_PUBLISHERS]), range(1, CLIENTS + 1))


def streams() -> tuple[Intense, Intense]:
    one, other, _ = longest_way(layout().topology)
    return (
        Intense(subscriber_name(one, INTENSE_PLACE), other, 90.0),
        Intense(subscriber_name(other, INTENSE_PLACE), one, 190.0),
    )


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    return play_and_compare(layout(), streams(), ORDERERS, parameters, seed, trace)


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    draw(canvas, measured, ["CST-30", "CST-50", "P-.05-0", "P-.05-5", "P-.05-25"], 1000.0)


EXPERIMENT = define(__file__, run=run, variants=(Variant("side by side"),), figures=figures, plot=plot)
