"""Running an experiment, and judging what is in its folder.

    FOLDER/FAMILY/NUMBER/SCALE/
        order.json                          what was asked for: experiment, scale, seeds
        runs/                               the table of the sweep (`spark/sweeps/table.py`), results and traces: all
                                            that verdicts are made of; in the folder of that name where the experiment
                                            shares its runs (`sweep`)
        figures.parquet                     the figures, as computed from these
        table.csv, table.json, table.parquet    published, measured, verdict
        plot.png, plot.svg

FOLDER is anywhere that Spark and pyarrow can write (`spark/place.py`). Running is a sweep; runs that are finished are
not run again, unless with another definition of the experiment. Judging reads nothing but the Parquet that the sweep
left and the definition of the experiment, so whoever doubts a verdict can judge again, tomorrow or on another machine:
`tidings lab report` does, and says where runs are of an older definition than the one that judges them.
"""

from collections.abc import Callable
from pathlib import Path
from posixpath import join
from typing import TYPE_CHECKING

import msgspec

from tidings.lab.experiment import Experiment, Measured, Parameter
from tidings.lab.plots import draw
from tidings.lab.registry import find
from tidings.lab.tables import write_tables
from tidings.lab.verdicts import ClaimJudgement, in_order_of_claims, judge
from tidings.model.errors import UsageError
from tidings.spark.place import Place, place_of
from tidings.spark.sweeps import Progress, Run, sweep
from tidings.spark.sweeps.provenance import Provenance, definition_digest
from tidings.spark.sweeps.table import SweepTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDER, RUNS = "order.json", "runs"
ORDER_DEPTH = 3
"""Folders between that of the lab and an order: family, number, scale."""


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

    def parameters(self, experiment: Experiment) -> dict[str, list[Parameter]]:
        """Every value that a parameter has in these runs, those that it has in all of them included."""
        values: dict[str, dict[Parameter, None]] = {}
        for run in self.runs(experiment):
            for name, value in {**experiment.defaults, **run.parameters}.items():
                values.setdefault(name, {})[value] = None
        return {name: list(each) for name, each in values.items()}

    def place(self, folder: str | Path | Place) -> Place:
        return place_of(folder) / join(self.experiment, self.scale)

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
    place: Place
    swept: Place
    """Where results and traces of the runs are."""
    made_with: list[Provenance]
    """Whatever runs were made with; one, if all of them with the same."""
    is_current: bool
    """Whether all of them were made with the definition of the experiment as it is now."""
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
    folder: str | Path | Place,
    progress: Callable[[Progress], None] | None = None,
) -> Judged:
    """Perform what is not performed yet, judge it, and write everything down."""
    place = order.place(folder)
    sweep(spark, order.runs(experiment), place_of_runs(experiment, place), progress=progress)
    (place / ORDER).write_bytes(msgspec.json.format(msgspec.json.encode(order), indent=2))
    return judge_place(spark, experiment, order, place)


def judge_place(spark: "SparkSession", experiment: Experiment, order: LabOrder, place: Place) -> Judged:
    """From the Parquet in this folder; tables and plot are written anew."""
    runs, table = order.runs(experiment), SweepTable(spark, place_of_runs(experiment, place))
    counting = table.counting()
    # Of these runs: earlier orders may have left others there.
    results = table.results_of([run.id for run in runs], counting).orderBy("seed", "variant").cache()
    performed = [
        Performed(row.run, row.variant, row.seed, row.error, row.replay)
        for row in results.select("run", "variant", "seed", "error", "replay").collect()
    ]
    succeeded = results.where("status = 'ok'")
    made_with = [
        Provenance(**row.asDict())
        for row in results.select(*Provenance.__struct_fields__).distinct().orderBy("version", "commit").collect()
    ]
    traces = table.traces(counting).join(succeeded.select("run"), on="run", how="left_semi")
    figures = experiment.figures(succeeded, traces).select(*Measured.__struct_fields__)
    measured = in_order_of_claims(experiment.claims, [Measured(*row) for row in figures.collect()])
    results.unpersist()
    judged = Judged(
        order=order,
        place=place,
        swept=table.place,
        made_with=made_with,
        is_current={each.definition for each in made_with} <= {definition_digest(experiment.run, Path.cwd())},
        judgements=judge(experiment.claims, measured),
        measured=measured,
        performed=performed,
        missing=len(runs) - len(performed),
    )
    write_tables(place, order.experiment, judged.judgements, measured, made_with)
    draw(experiment, measured, place)
    return judged


def place_of_runs(experiment: Experiment, place: Place) -> Place:
    """Of an experiment whose figures are at `place`: FOLDER/FAMILY/NUMBER/SCALE."""
    folder = place.parent.parent.parent
    return (folder / join(experiment.sweep, place.name) if experiment.sweep else place) / RUNS


def judge_folder(spark: "SparkSession", folder: str | Path | Place) -> list[Judged]:
    """Everything that was run into this folder, judged anew."""
    place = place_of(folder)
    orders = [each for each in place.files() if each.name == ORDER and each.below(place).count("/") == ORDER_DEPTH]
    if not orders:
        raise UsageError(f"{place} holds no experiment; run one first: tidings lab run dependable/E23")
    read = [(each.parent, msgspec.json.decode(each.read_bytes(), type=LabOrder)) for each in orders]
    return [judge_place(spark, find(order.experiment), order, where) for where, order in read]
