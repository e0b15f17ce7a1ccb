"""What is delivered when every link loses up to a fifth of all messages, or repeats and reorders a tenth of them.

None of the documents has it: it is what the transport is to reach as a whole. See `losing.py` for the network.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidings.lab.experiment import Band, Claim, Experiment, Measured, Parameter, Scale, Variant
from tidings.lab.transport.recovery.losing import PATIENCE

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas
    from pyspark.sql import DataFrame

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


def figures(results: "DataFrame", traces: "DataFrame") -> "DataFrame":
    from tidings.lab.transport.recovery.misses import by_variant, expected, missed
    from tidings.spark.metrics.delivery import deliveries
    from tidings.spark.metrics.order import fifo_violations

    inverted = fifo_violations(traces).where("stage = 'deliver'").select("run", "fifo_violations")
    table = (
        missed(traces, expected(traces))
        .join(inverted, on="run", how="inner")
        .join(deliveries(traces), on="run", how="inner")
    )
    columns = {"delivered": "delivery_ratio", "inversions": "fifo_violations", "twice": "repeated"}
    return by_variant(results, table, columns)


def plot(canvas: "Canvas", measured: Sequence[Measured]) -> None:
    from tidings.lab.plots import COLOURS

    axes = canvas.subplots(1, 1)
    values = {each.group: 100 * each.value for each in measured if each.figure == "delivered"}
    for place, (suffix, label) in enumerate(((", plain", "plain network"), ("", "recovered"))):
        at = [spot + (place - 0.5) * 0.4 for spot in range(len(LOSSES))]
        heights = [values.get(f"{name}{suffix}", 0.0) for name in LOSSES]
        bars = axes.bar(at, heights, 0.38, color=COLOURS[place], label=label)
        axes.bar_label(bars, [f"{height:.4g}" for height in heights], fontsize=7)
    axes.set_xticks(range(len(LOSSES)), LOSSES)
    axes.set_xlabel("loss on every link")
    axes.set_ylabel("% of what was due")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


LOSS = Experiment(
    id="transport/loss",
    title="Delivery in spite of losses",
    question=(
        "Every link of a tree of 12 brokers loses 1, 5, 10 or 20 % of all messages, requests and repairs among them. "
        "With all of recovery on, which share of what was published after subscribing is delivered? And if links "
        "bring a tenth of the messages twice and a tenth late: is anything delivered twice, or out of order?"
    ),
    source="Our own targets; no published experiment",
    run="tidings.lab.transport.recovery.losing:run",
    variants=VARIANTS,
    scales={"small": Scale({"seconds": 20.0}, seeds=3), "paper": Scale({"seconds": 120.0}, seeds=5)},
    figures=figures,
    claims=(
        *(
            Claim(
                figure="delivered",
                says="delivered, of what was due",
                published=f"target: {'at least ' * (share < 1)}{100 * share:g} %",
                unit="share",
                groups=(name,),
                band=Band(low=share),
            )
            for name, share in zip(LOSSES, (1.0, 1.0, 0.999, 0.99), strict=True)
        ),
        Claim(
            figure="delivered",
            says="the same without recovery",
            published="no target",
            unit="share",
            groups=tuple(f"{name}, plain" for name in LOSSES),
        ),
        Claim(
            figure="inversions",
            says="events delivered after a later one, links reordering 10 %",
            published="target: none",
            groups=(TROUBLED,),
            band=Band(high=0),
        ),
        Claim(
            figure="inversions",
            says="the same without ordering",
            published="no target",
            groups=(f"{TROUBLED}, plain",),
        ),
        Claim(
            figure="twice",
            says="events delivered twice",
            published="target: none",
            groups=(*LOSSES, TROUBLED),
            band=Band(high=0),
        ),
    ),
    plot=plot,
)
