"""E11: how many fewer events are missed as headers tell of more events before them.

A loss is seen only by a record that tells of it. With a record of one, the very next event of the publisher must reach
us; with ten, one of the next ten.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidings.lab.experiment import Band, Claim, Experiment, Measured
from tidings.lab.transport.recovery.lossy_tree import (
    ADDITIONS,
    CALM,
    LARGE,
    NOT_RECOVERED,
    RECEIVERS,
    RUN,
    RUNS,
    SCALES,
    SMALL,
    SWEEP,
    way_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas
    from pyspark.sql import DataFrame

SHARE = "false_negative_share"
FULL = way_of(10)


def figures(results: "DataFrame", traces: "DataFrame") -> "DataFrame":
    from tidings.lab.figures import over_seeds
    from tidings.lab.transport.recovery.misses import between, by_variant, compared, expected, missed, ratio

    table = missed(traces, between(expected(traces))).cache()
    against = {
        "R = 10 against R = 1": ratio(FULL, way_of(1), SHARE),
        "R = 10 against none": ratio(FULL, NOT_RECOVERED, SHARE),
        "receivers only against none": ratio(way_of(10, RECEIVERS), NOT_RECOVERED, SHARE),
        "additions against none": ratio(way_of(10, ADDITIONS), NOT_RECOVERED, SHARE),
    }
    ratios = over_seeds(compared(results, table, SHARE), against)
    return ratios.unionByName(by_variant(results, table, {"missed": SHARE}))


def plot(canvas: "Canvas", measured: Sequence[Measured]) -> None:
    from tidings.lab.plots import COLOURS

    shares = {each.group: 100 * each.value for each in measured if each.figure == "missed"}
    axes = canvas.subplots(1, 2)
    for panel, group in zip(axes, (SMALL, LARGE), strict=True):
        ways = [
            name.removeprefix(f"{group}, ") for name in shares if name.startswith(f"{group}, ") and "loss" not in name
        ]
        panel.barh(range(len(ways)), [shares[f"{group}, {name}"] for name in ways], 0.7, color=COLOURS[1])
        panel.set_yticks(range(len(ways)), ways)
        panel.invert_yaxis()
        panel.grid(axis="x")
        panel.set_title(group)
        panel.set_xlabel("% of deliveries missed")


SEEN = (
    "a loss is recovered if it is seen, and that depends on how many of those who lost the event get one of the next "
    "ten of its publisher, so on who wants the same events; of that the source says nothing. At a loss of 0.1 % "
    "a small run has some 100 losses in all"
)

E11 = Experiment(
    id="transport/E11",
    title="Recovery and size of the record",
    question=(
        "Every link loses 1 % of the messages. Receivers find losses by the record in the headers of later events, ask "
        "for them, and whoever has them answers. The longer the record the more losses are found, and the more bytes "
        "each event takes. How many deliveries are missed with records of 1, 2, 5 and 10 events, and without recovery? "
        "Beside the published form, where any node may answer, runs one where publishers do not, and one with digests, "
        "more rounds, and repairs of what was lost before a receiver's first event."
    ),
    source="Transport for best-effort content-based networks, section 4.4.2; specification transport.md 4.2",
    run=RUN,
    sweep=SWEEP,
    variants=RUNS,
    scales=SCALES,
    figures=figures,
    claims=(
        Claim(
            figure="R = 10 against R = 1",
            says="missed with records of 10, against 1",
            published="half",
            unit="times",
            groups=(SMALL,),
            band=Band(high=0.6),
            requirement="T-108",
        ),
        Claim(
            figure="R = 10 against none",
            says="missed with records of 10, against no recovery",
            published="about a third",
            unit="times",
            groups=(LARGE,),
            band=Band(high=0.4),
            requirement="T-108",
            reason=SEEN,
        ),
        Claim(
            figure="R = 10 against none",
            says="missed with records of 10, against no recovery",
            published="less than an eighth",
            unit="times",
            groups=(CALM,),
            band=Band(high=0.15),
            requirement="T-108",
            reason=SEEN,
        ),
        Claim(
            figure="R = 10 against none",
            says="missed with records of 10, against no recovery",
            published="almost half (4.4.2, over time)",
            unit="times",
            groups=(SMALL,),
            band=Band(high=0.6),
        ),
        Claim(
            figure="receivers only against none",
            says="the same where publishers do not answer",
            published="not told apart",
            unit="times",
            groups=(SMALL,),
        ),
        Claim(
            figure="additions against none",
            says="with digests, more rounds, and the first events",
            published="named as future work",
            unit="times",
            groups=(SMALL, LARGE),
            band=Band(high=0.01),
        ),
        Claim(figure="missed", says="deliveries missed, of all", published="curves only", unit="share"),
    ),
    plot=plot,
)
