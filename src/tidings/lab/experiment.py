"""A published experiment as a value: what is run, what is measured of it, what was claimed, and how it is judged.

How one is written, in two files, is said in `definition.py`.

**What is run** is a function of its own arguments and nothing else, so that an executor on any machine can run it:

    def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> Mapping[str, float]

It builds a simulation (`Simulator(seed, network, trace=trace)`), runs it and returns what it measured, by name. There
is one run for each variant and each seed; its parameters are those of the scale with those of the variant on top. Seeds
are 1, 2, 3, ...; the same seed means the same workload in every variant, so that variants may be compared in pairs.

**Figures** are computed with Spark, from the two tables that the sweep left behind and from nothing else:

    def figures(results: DataFrame, traces: DataFrame) -> DataFrame    # figure, group, value, low, high, runs

`results` has the runs that succeeded (columns as in `spark/sweeps/`), `traces` their rows (`trace/record.py`). A figure
is a quantity with a name; it may have a value for each of several groups, such as overlays of different size ("" if
there is only one). `figures.py` has what most experiments need: parameters as columns, means over seeds with their 95 %
confidence interval (`low`, `high`; null where there is only one run), variants compared seed by seed.

**Claims** are what the source says of a figure. A claim has a band with two ends, or says why it is not judged
(`verdicts.py` says what follows). A band from the specification names its requirement; any other is ours, and says so
by naming none. Claims and scales stand in TOML.

**The plot** draws the figures with matplotlib: `plot(canvas, measured)` gets an empty `matplotlib.figure.Figure` and
the figures as a list of `Measured`, in the order of the claims; `plots.py` has the colours and the common look.

A module that defines an experiment imports neither pyspark nor matplotlib when it is loaded, only inside `figures` and
`plot`: listing experiments takes neither. Definitions become known through `registry.py`.
"""

from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from tidings.model.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure
    from pyspark.sql import Column as Column
    from pyspark.sql import DataFrame as DataFrame

    Canvas = Figure
else:
    # Both libraries take long to load, and are there only where figures are made.
    Axes = Canvas = Column = DataFrame = Any

Parameter = bool | int | float | str

Unit = Literal["number", "share", "ratio", "change", "points", "seconds", "times"]
"""How a value is written: 0.19 as "0.19", "19 %", "19 %", "+19 %", "+19 points" (of percent), "190 ms", "0.19 times".
A share is a part of a whole, so no more than all of it; a ratio may be more."""

Verdict = Literal["reproduced", "better", "missed", "undecided", "not judged"]

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

Side = Literal["less", "more"]

LIMITS: dict[Unit, tuple[float, float]] = {"share": (0.0, 1.0), "ratio": (0.0, inf), "times": (0.0, inf)}
"""Between which no mean of such a figure can lie outside, however few runs there are."""


class Band(msgspec.Struct, frozen=True, kw_only=True):
    """Where a value must lie."""

    low: float | None = None
    """At least this."""
    high: float | None = None
    """At most this."""
    above: float | None = None
    """More than this."""
    below: float | None = None
    """Less than this."""

    @property
    def has_both_ends(self) -> bool:
        return (self.low is None) != (self.above is None) and (self.high is None) != (self.below is None)

    def is_short_of(self, value: float) -> bool:
        """Whether the value lies below the band."""
        return (self.low is not None and value < self.low) or (self.above is not None and value <= self.above)

    def is_beyond(self, value: float) -> bool:
        """Whether the value lies above the band."""
        return (self.high is not None and value > self.high) or (self.below is not None and value >= self.below)

    def holds(self, value: float) -> bool:
        return not self.is_short_of(value) and not self.is_beyond(value)


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What the source says of a figure, and whether that is judged."""

    figure: str
    says: str
    """What is measured, in a few words: the first column of the table."""
    published: str
    """As the source has it, with its section."""
    unit: Unit = "number"
    groups: tuple[str, ...] = ()
    """Those it is about; all, if none is named."""
    band: Band | None = None
    good: Side | None = None
    """The side of the band on which a value is better than what was published; on the other, or where there is none, a
    value outside is missed."""
    not_judged: str = ""
    """Why there is no band."""
    requirement: str | None = None
    """The numbered requirement that the band comes from, such as S-118."""
    reason: str = ""
    """What we believe is the reason, where the band is missed."""
    better: str = ""
    """What we believe is the reason, where the value is better."""
    least: float | None = None
    """No value of this figure can be smaller; intervals end there. Shares and ratios have their own limits."""
    most: float | None = None


class Variant(msgspec.Struct, frozen=True):
    name: str
    parameters: dict[str, Parameter] = {}


class Scale(msgspec.Struct, frozen=True):
    parameters: dict[str, Parameter]
    seeds: int


class Measured(msgspec.Struct, frozen=True):
    """One value of a figure: the mean over runs, and where the mean of many more would lie (95 %)."""

    figure: str
    group: str
    value: float
    low: float | None
    high: float | None
    runs: int
    """How many runs, or pairs of runs, it is the mean of."""


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    title: str
    question: str
    source: str
    run: str
    variants: tuple[Variant, ...]
    scales: dict[str, Scale]
    figures: Callable[[DataFrame, DataFrame], DataFrame]
    claims: tuple[Claim, ...]
    plot: Callable[[Canvas, Sequence[Measured]], None]
    sweep: str = ""
    """Experiments that name the same one, such as "transport/recovery", share their runs: one that another has
    performed is not performed again."""
    defaults: dict[str, Parameter] = {}
    """Parameters of the runs that neither scales nor variants say otherwise, where the definition names them."""

    def scale(self, name: str) -> Scale:
        if name not in self.scales:
            raise UsageError(f"--scale {name}: {self.id} has the scales {', '.join(self.scales)}")
        return self.scales[name]


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment of the specification that is not built."""

    id: str
    title: str
    asks: str
    """In one line, what it finds out."""
    needs: str
    """What must be built before it can run."""
