"""E6: how many violations of order each orderer removes with 8 brokers, and at what extra delay.

The workload is that of E1 on the best-effort network, but for one thing: who wants a share of an intense stream wants
some of its grades, instead of all below a level. Bloom rows in publication records tell equal from unequal and nothing
of less and more; with levels, every event of a stream would seem to be for everybody who wants a part of it.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.lab.experiment import Band, Claim, Experiment, Measured, Scale, Variant
from tidings.lab.transport.network.rising_load import EIGHT, LENGTH, STREAMS
from tidings.lab.transport.ordering.comparison import GRADES, draw, figures, play_and_compare
from tidings.lab.transport.ordering.orderers import probabilistic, static
from tidings.trace.gathering import Writer

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

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
RELAXED = tuple(label for label in LABELS if label.startswith("P-.2") and not label.endswith("exact"))
EXACT = tuple(label for label in LABELS if label.endswith("exact"))
GRADED = tuple(msgspec.structs.replace(stream, grades=GRADES) for stream in STREAMS["both sides"])


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    return play_and_compare(EIGHT, GRADED, ORDERERS, parameters, seed, trace)


def plot(canvas: "Canvas", measured: Sequence[Measured]) -> None:
    draw(canvas, measured, ["CST-30", *PROBABLE, "P-.05-25 exact"], 200.0)


SLOWED = (
    "a slowed-down run has fewer events of each slow publisher, and while handling takes longer by the slowdown, "
    "queues change delays no more than before; both make basic ordering look better than it is"
)

E6 = Experiment(
    id="transport/E6",
    title="Ordering with 8 brokers",
    question=(
        "Brokers that handle messages in parallel put an intense stream out of order. A receiver that holds every "
        "event behind a gap for 30 ms repairs nearly all of it, but somebody had to find out that 30 ms are right. The "
        "probabilistic orderer measures by how much delays differ and holds an event just long enough for a given "
        "share of errors; with a record of the last events in each header it also knows whether what is missing is for "
        "it at all. How many violations are left, and how much later do events come? All orderers get the same "
        "arrivals. The source prints the quantile in forms that do not agree; the one of its appendix and the one that "
        "follows from the distribution (exact) both run."
    ),
    source="Transport for best-effort content-based networks, section 3.5.2; specification transport.md 4.1",
    run="tidings.lab.transport.ordering.e6:run",
    variants=(Variant("side by side"),),
    scales={
        "small": Scale({"seconds": LENGTH, "slowdown": 40.0, "follow": 5}, seeds=3),
        "paper": Scale({"seconds": LENGTH, "slowdown": 1.0, "follow": 1}, seeds=5),
    },
    figures=figures,
    claims=(
        Claim(
            figure="removed",
            says="violations removed, P_t = 0.05",
            published="more than 99 %",
            unit="share",
            groups=PROBABLE,
            band=Band(low=0.95),
            requirement="T-105",
        ),
        Claim(
            figure="removed",
            says="violations removed, P_t = 0.2",
            published="about 91 %",
            unit="share",
            groups=RELAXED,
            band=Band(low=0.8),
            requirement="T-105",
        ),
        Claim(
            figure="removed",
            says="violations removed, by the exact quantile",
            published="not said which was used",
            unit="share",
            groups=EXACT,
        ),
        Claim(
            figure="removed",
            says="violations removed, all held for 30 ms",
            published="as P_t = 0.05: more than 99 %",
            unit="share",
            groups=("CST-30",),
            band=Band(low=0.99),
        ),
        Claim(
            figure="removed",
            says="violations removed, all held for 25 ms",
            published="not tried",
            unit="share",
            groups=("CST-25",),
        ),
        Claim(
            figure="record changes",
            says="by how much the share differs between records of 0, 5 and 25",
            published="does not depend on it",
            unit="share",
            groups=("P-.05", "P-.2"),
            band=Band(high=0.07),
        ),
        Claim(
            figure="record changes",
            says="the same by the exact quantile",
            published="does not depend on it",
            unit="share",
            groups=("P-.05 exact", "P-.2 exact"),
        ),
        Claim(
            figure="25 against 5",
            says="mean extra delay with records of 25, against 5",
            published="smaller",
            unit="times",
            groups=("P-.05",),
            band=Band(high=1.0),
            requirement="T-106",
        ),
        Claim(
            figure="5 against none",
            says="mean extra delay with records of 5, against none",
            published="considerably smaller",
            unit="times",
            groups=("P-.05",),
            band=Band(high=1.0),
            requirement="T-106",
        ),
        Claim(
            figure="25 against CST-30",
            says="mean extra delay with records of 25, against 30 ms for all",
            published="smaller",
            unit="times",
            groups=("P-.05",),
            band=Band(below=1.0),
            requirement="T-106",
        ),
        Claim(
            figure="25 against CST-25",
            says="mean extra delay with records of 25, against a constant hold of equal effect, 25 ms",
            published="not tried",
            unit="times",
            groups=("P-.05",),
            band=Band(below=1.0),
        ),
        Claim(
            figure="held, 25 against CST-25",
            says="what an event was really held, against the same",
            published="not tried",
            unit="times",
            groups=("P-.05",),
            band=Band(below=1.0),
        ),
        Claim(
            figure="none against CST-30",
            says="mean extra delay without records, against 30 ms for all",
            published="much larger",
            unit="times",
            groups=("P-.05",),
            band=Band(above=1.0),
            reason=SLOWED,
        ),
        Claim(
            figure="25 against CST-30",
            says="records of 25 against 30 ms for all, by the exact quantile",
            published="not said which was used",
            unit="times",
            groups=("P-.05 exact",),
            band=Band(below=1.0),
        ),
        Claim(figure="extra delay", says="mean extra delay over pairs", published="curves only", unit="seconds"),
        Claim(
            figure="extra delay, busiest",
            says="mean extra delay of the intense streams",
            published="not told apart",
            unit="seconds",
        ),
        Claim(figure="held", says="what an event was really held, on average", published="not given", unit="seconds"),
        Claim(figure="violations", says="violations without ordering", published="almost 173 000"),
    ),
    plot=plot,
)
