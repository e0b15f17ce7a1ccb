"""E7: the same as E6 over many brokers, up to 16 one after the other.

A tree of 46 brokers, 15 links from end to end, 10 clients at each. The two intense streams go from end to end, against
each other; 48 slow publishers are spread over all brokers. Else it is the workload of E6, for 240 s.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from tidings.lab.experiment import Band, Claim, Experiment, Measured, Scale, Variant
from tidings.lab.transport.broker_trees import longest_way, low_degree
from tidings.lab.transport.network.rising_load import Intense, Layout, client_name
from tidings.lab.transport.ordering.comparison import GRADES, draw, figures, play_and_compare
from tidings.lab.transport.ordering.orderers import probabilistic, static
from tidings.trace.gathering import Writer

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

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
LABELS = [orderer.label for orderer in ORDERERS]


@cache
def layout() -> Layout:
    topology = low_degree(BROKERS, DIAMETER)
    names = [client_name(broker, place) for place in range(2) for broker in topology.nodes]
    return Layout(topology, CLIENTS, tuple(names[:SLOW_PUBLISHERS]), range(CLIENTS))


def streams() -> tuple[Intense, Intense]:
    one, other, _ = longest_way(layout().topology)
    return (
        Intense("s1", client_name(one, INTENSE_PLACE), other, 90.0, grades=GRADES),
        Intense("s2", client_name(other, INTENSE_PLACE), one, 190.0, grades=GRADES),
    )


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    return play_and_compare(layout(), streams(), ORDERERS, parameters, seed, trace)


def plot(canvas: "Canvas", measured: Sequence[Measured]) -> None:
    draw(canvas, measured, ["CST-30", "CST-50", "P-.05-0", "P-.05-5", "P-.05-25"], 1000.0)


STEADY = (
    "our brokers take 2.75 ms over a message, give or take 2.75, so delays of two events over 16 brokers differ by "
    "16 ms (standard deviation), and 30 ms are twice that. Brokers of the source must have varied much more; it does "
    "not say how long they took"
)

E7 = Experiment(
    id="transport/E7",
    title="Ordering with 46 brokers",
    question=(
        "Over up to 16 brokers delays differ more than over four, and no constant that was right there is right here. "
        "Does the orderer that measures still remove nearly all violations, and what does it cost those for whom the "
        "events are that are missing, and all others?"
    ),
    source="Transport for best-effort content-based networks, section 3.5.2; specification transport.md 4.1",
    run="tidings.lab.transport.ordering.e7:run",
    variants=(Variant("side by side"),),
    scales={
        "small": Scale({"seconds": 240.0, "slowdown": 20.0, "follow": 5}, seeds=3),
        "paper": Scale({"seconds": 240.0, "slowdown": 1.0, "follow": 1}, seeds=5),
    },
    figures=figures,
    claims=(
        Claim(
            figure="removed",
            says="violations removed, P_t = 0.05",
            published="99.5 %",
            unit="share",
            groups=("P-.05-0", "P-.05-5", "P-.05-25"),
            band=Band(low=0.95),
        ),
        Claim(
            figure="removed",
            says="violations removed, P_t = 0.2 and by the exact quantile",
            published="not given",
            unit="share",
            groups=tuple(label for label in LABELS if label.startswith("P-.2") or label.endswith("exact")),
        ),
        Claim(
            figure="removed",
            says="violations removed, all held for 30 or 50 ms",
            published="not effective",
            unit="share",
            groups=("CST-30", "CST-50"),
            band=Band(below=0.95),
            reason=STEADY,
        ),
        Claim(
            figure="median against largest",
            says="median extra delay with records of 25, against the largest without",
            published="nearly 0 for half of the nodes; up to 960 ms without",
            unit="share",
            groups=("P-.05",),
            band=Band(below=0.05),
            requirement="T-107",
        ),
        Claim(
            figure="extra delay, largest",
            says="largest extra delay of a pair, without records",
            published="up to 960 ms",
            unit="seconds",
            groups=("P-.05-0",),
        ),
        Claim(
            figure="extra delay, 90 %",
            says="extra delay of 90 % of the pairs, with records of 25",
            published="below 190 ms",
            unit="seconds",
            groups=("P-.05-25",),
            band=Band(below=0.19),
        ),
        Claim(
            figure="extra delay, median",
            says="median extra delay of pairs",
            published="nearly 0 with records of 25",
            unit="seconds",
            groups=("P-.05-0", "P-.05-5", "P-.05-25"),
        ),
        Claim(figure="extra delay", says="mean extra delay over pairs", published="curves only", unit="seconds"),
        Claim(
            figure="extra delay, busiest",
            says="mean extra delay of the intense streams",
            published="not told apart",
            unit="seconds",
        ),
        Claim(figure="violations", says="violations without ordering", published="more than 115 000"),
    ),
    plot=plot,
)
