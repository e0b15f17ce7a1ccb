"""What repairs save beside STRAWMAN on a tree of peers, seed by seed, for each value of one parameter."""

from collections.abc import Sequence

from tidings.lab.dynamic_topologies.peers.peer_traffic import REPAIRS
from tidings.lab.dynamic_topologies.repairs.rewired import INFORMED, STRAWMAN, TIMED
from tidings.lab.experiment import Canvas, DataFrame, Measured
from tidings.lab.figures import over_seeds, parameter, side_by_side
from tidings.lab.plots import COLOURS, points

OPTIMISED = (TIMED, INFORMED)
MEASURES = ("cost", "misrouted", "routing bytes", "overlay bytes", "spike")


def peer_figures(results: DataFrame, by: str) -> DataFrame:
    """Each measure of each repair; `saved`, which part of STRAWMAN's cost each is less; `saved more`, ILA
    than TDU; `spike beside strawman`; `share`, of the bytes of routing and overlay together, those of routing."""
    from pyspark.sql import functions as F

    pairs = side_by_side(results, group=parameter(by), side=parameter("repair"))
    of = {repair: F.col("sides")[repair] for repair in REPAIRS}
    figures = {f"{name}, {repair}": side[name] for repair, side in of.items() for name in MEASURES}
    figures |= {
        f"saved, {repair}": 1 - side["cost"] / of[STRAWMAN]["cost"] for repair, side in of.items() if repair != STRAWMAN
    }
    figures["saved more, informed"] = (of[TIMED]["cost"] - of[INFORMED]["cost"]) / of[STRAWMAN]["cost"]
    figures |= {f"spike beside strawman, {repair}": of[repair]["spike"] / of[STRAWMAN]["spike"] for repair in OPTIMISED}
    figures |= {
        f"share, {repair}": side["routing bytes"] / (side["routing bytes"] + side["overlay bytes"])
        for repair, side in of.items()
    }
    return over_seeds(pairs, figures)


def plot_by(canvas: Canvas, measured: Sequence[Measured], left: str, right: str, label: str) -> None:
    for axes, kind in zip(canvas.subplots(1, 2), (left, right), strict=True):
        for repair, colour in zip(REPAIRS, COLOURS, strict=False):
            at, values = points(measured, f"{kind}, {repair}")
            if at:
                axes.plot(at, values, ".-", color=colour, label=repair)
        axes.set(title=f"{kind} of one reconfiguration" if kind == left else kind, xlabel=label)
        if axes.lines:
            axes.legend()
