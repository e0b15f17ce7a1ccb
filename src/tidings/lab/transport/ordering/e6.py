"""E6: how many violations of order each orderer removes with 8 brokers, and at what extra delay.

The workload is that of E1 on the best-effort network, but for one thing: who wants a share of an intense stream wants
some of its grades, instead of all below a level. Bloom rows in publication records tell equal from unequal and nothing
of less and more; with levels, every event of a stream would seem to be for everybody who wants a part of it.

Figures are those of `comparison.py`: violations and extra delay are metrics.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, Measured, Variant
from tidings.lab.transport.network.rising_load import EIGHT, STREAMS
from tidings.lab.transport.ordering.comparison import draw, figures, play_and_compare
from tidings.lab.transport.ordering.orderers import probabilistic, static
from tidings.trace.writer import Writer

ORDERERS = (
    static(25),
    static(30),
    *(
        probabilistic(violation, record, quantile)
        for quantile in ("appendix", "exact")
        for violation in (".05", ".2")
        for record in (0, 5, 25)
    ),
)
LABELS = [orderer.label for orderer in ORDERERS]
PROBABLE = tuple(label for label in LABELS if label.startswith("P-.05") and not label.endswith("exact"))


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    return play_and_compare(EIGHT, STREAMS["both sides"], ORDERERS, parameters, seed, trace)


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    draw(canvas, measured, ["CST-30", *PROBABLE, "P-.05-25 exact"], 200.0)


EXPERIMENT = define(__file__, run=run, variants=(Variant("side by side"),), figures=figures, plot=plot)
