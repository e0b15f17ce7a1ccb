"""Running an experiment, and judging what is in its folder.

    FOLDER/FAMILY/NUMBER/SCALE/
        order.json                          what was asked for: experiment, scale, seeds
        results/, traces/                   what the sweep wrote (`spark/sweeps/`): all that verdicts are made of; in
                                            the folder of that name where the experiment shares its runs (`sweep`)
        figures.parquet                     the figures, as computed from these
        table.csv, table.json, table.parquet    published, measured, verdict
        plot.png, plot.svg

Running is a sweep; runs that are finished are not run again. Judging reads nothing but the Parquet that the sweep left
and the definition of the experiment, so whoever doubts a verdict can judge again, tomorrow or on another machine:
`tidings lab report` does.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tidings.lab.experiment import Experiment, Measured
from tidings.lab.plots import draw
from tidings.lab.registry import find
from tidings.lab.tables import write_tables
from tidings.lab.verdicts import ClaimJudgement, in_order_of_claims, judge
from tidings.model.errors import UsageError
from tidings.spark.sweeps import Progress, Run, read_results, read_traces, sweep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORDER = "order.json"


class LabOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for."""

    experiment: str
    scale: str
    seeds: int

    def runs(self, experiment: Experiment) -> list[Run]:
        """Seed by seed, so that a sweep that is stopped has whole comparisons."""
        common = experiment.scale(self.scale).parameters
        return [
            Run(experiment.run, variant.name, {**common, **variant.parameters}, seed)
            for seed in range(1, self.seeds + 1)
            for variant in experiment.variants
        ]

    def place(self, folder: Path) -> Path:
        return folder / self.experiment / self.scale

    def command(self) -> str:
        return f"tidings lab run {self.experiment} --scale {self.scale} --seeds {self.seeds}"


class Performed(msgspec.Struct, frozen=True):
    """A run, and how it went."""

    run: str
    variant: str
    seed: int
    error: str
    """Empty if it succeeded."""
    replay: str


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an order."""

    order: LabOrder
    place: Path
    swept: Path
    """Where results and traces of the runs are."""
    judgements: list[ClaimJudgement]
    measured: list[Measured]
    performed: list[Performed]
    missing: int
    """Runs that were not performed."""

    @property
    def failed(self) -> list[Performed]:
        return [each for each in self.performed if each.error]

    def count(self, verdict: str) -> int:
        return sum(each.verdict == verdict for each in self.judgements)


def order_of(experiment: Experiment, scale: str, seeds: int | None) -> LabOrder:
    chosen = experiment.scale(scale)
    return LabOrder(experiment=experiment.id, scale=scale, seeds=chosen.seeds if seeds is None else seeds)


def run_experiment(
    spark: "SparkSession",
    experiment: Experiment,
    order: LabOrder,
    folder: Path,
    progress: Callable[[Progress], None] | None = None,
) -> Judged:
    """Perform what is not performed yet, judge it, and write everything down."""
    place = order.place(folder)
    place.mkdir(parents=True, exist_ok=True)
    sweep(spark, order.runs(experiment), place_of_runs(experiment, place), progress=progress)
    (place / ORDER).write_bytes(msgspec.json.format(msgspec.json.encode(order), indent=2))
    return judge_place(spark, experiment, order, place)


def judge_place(spark: "SparkSession", experiment: Experiment, order: LabOrder, place: Path) -> Judged:
    """From the Parquet in this folder; tables and plot are written anew."""
    runs, swept = order.runs(experiment), place_of_runs(experiment, place)
    results = results_of(spark, swept, runs).cache()
    performed = [
        Performed(row.run, row.variant, row.seed, row.error, row.replay)
        for row in results.select("run", "variant", "seed", "error", "replay").collect()
    ]
    succeeded = results.where("status = 'ok'")
    traces = read_traces(spark, swept).join(succeeded.select("run"), on="run", how="left_semi")
    figures = experiment.figures(succeeded, traces).select(*Measured.__struct_fields__)
    measured = in_order_of_claims(experiment.claims, [Measured(*row) for row in figures.collect()])
    results.unpersist()
    judged = Judged(
        order=order,
        place=place,
        swept=swept,
        judgements=judge(experiment.claims, measured),
        measured=measured,
        performed=performed,
        missing=len(runs) - len(performed),
    )
    write_tables(place, order.experiment, judged.judgements, measured)
    draw(experiment, measured, place)
    return judged


def place_of_runs(experiment: Experiment, place: Path) -> Path:
    """Of an experiment whose figures are at `place`: FOLDER/FAMILY/NUMBER/SCALE."""
    return place.parents[2] / experiment.sweep / place.name if experiment.sweep else place


def results_of(spark: "SparkSession", place: Path, runs: list[Run]) -> "DataFrame":
    """Of these runs: earlier orders may have left others there."""
    from pyspark.sql import functions as F

    found = read_results(spark, place).where(F.col("run").isin([run.id for run in runs]))
    return found.orderBy("seed", "variant")


def judge_folder(spark: "SparkSession", folder: Path) -> list[Judged]:
    """Everything that was run into this folder, judged anew."""
    places = sorted(path.parent for path in folder.glob(f"*/*/*/{ORDER}"))
    if not places:
        raise UsageError(f"{folder} holds no experiment; run one first: tidings lab run dependable/E23")
    orders = [(place, msgspec.json.decode((place / ORDER).read_bytes(), type=LabOrder)) for place in places]
    return [judge_place(spark, find(order.experiment), order, place) for place, order in orders]
