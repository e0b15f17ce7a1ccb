"""What the congestion experiments count in each span of time (`bottleneck.py`), from the trace to arrays and plots."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidings.lab.experiment import Measured
from tidings.lab.transport.samples import Columns, Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pyspark.sql import DataFrame

COUNTED = (
    *("wanted", "withheld", "reached", "delivered", "delay", "travel", "repaired"),
    *("feedback", "requests", "repairs"),
)
SPAN = "mode STRING, place BIGINT, " + ", ".join(f"{name} DOUBLE" for name in COUNTED)

POINTS_MAX = 125
"""Points of a line in a plot."""


def spans(traces: "DataFrame") -> "DataFrame":
    """One row for each mode, span and end: run, node, mode, place, and what was counted."""
    from pyspark.sql import functions as F

    notes = traces.where("kind = 'note' AND message = 'span'").withColumn("said", F.from_json("detail", SPAN))
    return notes.select("run", "node", "said.*").na.fill(0.0)


def series(columns: Columns, mode: str, node: str, name: str, length: int) -> Any:
    """What was counted, span by span."""
    import numpy as np

    found = np.zeros(length)
    places = columns["place"]
    chosen = (columns["mode"] == mode) & (columns["node"] == node) & (places >= 0) & (places < length)
    found[places[chosen].astype(int)] = columns[name][chosen]
    return found


def all_series(columns: Columns, mode: str, nodes: Sequence[str], length: int) -> dict[str, Any]:
    """Of all these nodes together, everything that was counted, and what was `missed`."""
    found = {name: sum(series(columns, mode, node, name, length) for node in nodes) for name in COUNTED}
    return {**found, "missed": found["wanted"] - found["withheld"] - found["reached"]}


def over_time(figure: str, values: Any, span: float) -> list[Figure]:
    """A line to be drawn: means over so many spans that few points are left. The group is the time of each."""
    together = max(1, -(-len(values) // POINTS_MAX))
    return [
        (figure, f"{(first + together / 2) * span:g}", float(values[first : first + together].mean()))
        for first in range(0, len(values) - together + 1, together)
    ]


def draw_lines(axes: "Axes", measured: Sequence[Measured], figures: Mapping[str, str], columns: int = 3) -> None:
    """A line for each of the figures, with its label; so many labels side by side."""
    from tidings.lab.plots import COLOURS

    for colour, (figure, label) in zip(COLOURS, figures.items(), strict=False):
        points = sorted((float(each.group), each.value) for each in measured if each.figure == figure)
        axes.plot([at for at, _ in points], [value for _, value in points], color=colour, label=label, linewidth=1.2)
    axes.set_xlabel("seconds")
    axes.set_ylim(bottom=0.0)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=columns)
