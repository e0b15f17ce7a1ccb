"""The common look of all plots, and the kinds of plot that most experiments use.

A plot is written as PNG, on white, and as SVG, without background; on the page the ink of an SVG takes the colour of
the text around it, so that it reads on light and on dark. Text in it stays text. The same figures give the same bytes.
"""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

from tidings.lab.experiment import Axes, Experiment, Measured
from tidings.lab.verdicts import natural
from tidings.spark.place import Place

INK = "#2b3036"
"""Nothing else in a plot has this colour: on the page it becomes the colour of the text."""
GRID = "#8c959f"
COLOURS = ("#d97706", "#3b82f6", "#0d9488", "#9333ea", "#dc2626", "#64748b")
"""Of the first, second, ... thing in a plot; they differ on light and on dark, and without red and green too."""

INCHES_PER_PANEL, HEIGHT_INCHES = 4.2, 3.4
PNG_DOTS_PER_INCH = 160

STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.titlesize": 10,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.alpha": 0.3,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "tidings",
}


def draw(experiment: Experiment, measured: Sequence[Measured], folder: Place) -> None:
    """plot.png and plot.svg."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        canvas = Figure(layout="constrained")
        experiment.plot(canvas, measured)
        grid = canvas.axes[0].get_gridspec()
        rows, columns = (1, 1) if grid is None else grid.get_geometry()
        canvas.set_size_inches(INCHES_PER_PANEL * columns, HEIGHT_INCHES * rows)
        drawing, picture = BytesIO(), BytesIO()
        canvas.savefig(drawing, format="svg", transparent=True, metadata={"Date": None})
        canvas.savefig(picture, format="png", dpi=PNG_DOTS_PER_INCH, facecolor="white", metadata={"Software": None})
    (folder / "plot.svg").write_bytes(drawing.getvalue())
    (folder / "plot.png").write_bytes(picture.getvalue())


def points(
    measured: Sequence[Measured], figure: str, scale: float = 1.0, shift: float = 0.0
) -> tuple[list[float], list[float]]:
    """Of a figure whose groups begin with a number, such as "20 s": the numbers in order, and the value at each."""
    found = sorted((float(each.group.split()[0]), each.value) for each in measured if each.figure == figure)
    return [at + shift for at, _ in found], [value * scale for _, value in found]


LABEL_CHARS_MAX = 50
"""Of the names below bars; where there are more, they lie aslant, since they would cover each other."""


def bars(
    axes: Axes,
    measured: Sequence[Measured],
    figures: Mapping[str, str],
    scale: float = 1.0,
    bound: float | None = None,
) -> None:
    """A cluster of bars for each group, one for each of the figures (with the label that each is given), and the
    confidence interval of each as a line. `bound` is an end of the band, drawn across."""
    values = {(each.figure, each.group): each for each in measured}
    groups = sorted({group for figure, group in values if figure in figures}, key=natural)
    width = 0.8 / max(1, len(figures))
    for place, (figure, label) in enumerate(figures.items()):
        found = [(at, values[figure, group]) for at, group in enumerate(groups) if (figure, group) in values]
        middles = [at + (place - (len(figures) - 1) / 2) * width for at, _ in found]
        heights = [each.value * scale for _, each in found]
        colour = COLOURS[place] if len(figures) > 1 else COLOURS[1]
        axes.bar(middles, heights, width * 0.92, color=colour, label=label)
        add_intervals(axes, middles, [each for _, each in found], scale)
        for middle, height in zip(middles, heights, strict=True):
            if height == 0:
                # A bar of no height looks like one that is missing.
                axes.annotate("0", (middle, 0), (0, 3), textcoords="offset points", ha="center", color=colour)
    if bound is not None:
        axes.axhline(bound, color=COLOURS[4], linestyle="--", label=f"end of the band: {bound:g}")
    is_long = sum(map(len, groups)) > LABEL_CHARS_MAX
    slope: dict[str, Any] = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"} if is_long else {}
    axes.set_xticks(range(len(groups)), groups, **slope)
    axes.tick_params(axis="x", length=0)
    if len(figures) > 1 or bound is not None:
        below: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12), "ncols": 3}
        axes.legend(**({"loc": "lower right", "bbox_to_anchor": (1.0, 1.0)} if is_long else below))


def add_intervals(axes: Axes, middles: Sequence[float], measured: Sequence[Measured], scale: float) -> None:
    for middle, each in zip(middles, measured, strict=True):
        if each.low is not None and each.high is not None and each.low < each.high:
            reach = [[(each.value - each.low) * scale], [(each.high - each.value) * scale]]
            axes.errorbar([middle], [each.value * scale], reach, fmt="none", ecolor=INK, capsize=3)
