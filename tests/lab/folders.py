"""Folders of experiments for tests: results that somebody wrote, read back without Spark."""

import json
import shutil
from collections.abc import Callable
from math import sqrt
from operator import itemgetter
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pyarrow
from pyarrow import dataset, parquet

from tidings.lab.experiment import Experiment
from tidings.lab.run import LabOrder, place_of_runs
from tidings.spark.place import Place
from tidings.spark.sweeps.performer import Keeper, result_rows, table_rows
from tidings.spark.sweeps.provenance import provenance_of
from tidings.spark.sweeps.run import Finished, Run, outcome_of
from tidings.spark.sweeps.table import ENDS, RESULTS, TRACES, row_schema, wave_name
from tidings.trace.writer import Writer

QUANTILES = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}
"""Student's t, 97.5 %, by the number of values."""


def write_results(
    place: Place,
    experiment: Experiment,
    order: LabOrder,
    measures: Callable[[Run], dict[str, float]] = lambda run: {},
    happens: Callable[[Run, Writer], None] = lambda run, trace: None,
) -> None:
    """As a sweep would, without running anything."""
    made_with = provenance_of(experiment.run, Path.cwd())
    parts: list[Any] = []
    outcomes = []
    for run in order.runs(experiment):
        outcomes.append(outcome_of(run, Finished(1.0, measures(run)), made_with, traced=True))
        keeper = Keeper(run.id, run.seed)
        with keeper:
            happens(run, keeper)
        parts.extend(table_rows(TRACES, batch) for batch in keeper.batches())
    ends = pyarrow.RecordBatch.from_pylist([{"table": ENDS}], row_schema())
    every = pyarrow.Table.from_batches([*parts, result_rows(outcomes), ends])
    named = every.append_column("wave", pyarrow.repeat(wave_name(1), len(every)))
    write_rows(named, place_of_runs(experiment, place).path)


def write_rows(table: Any, folder: Path) -> None:
    """In the place of what is there."""
    shutil.rmtree(folder, ignore_errors=True)
    parquet.write_to_dataset(table, folder, partition_cols=["wave", "table"])


def read_table(folder: Path) -> Any:
    """All rows of a sweep, waves and tables as columns."""
    parts = dataset.partitioning(pyarrow.schema({"wave": pyarrow.string(), "table": pyarrow.string()}), flavor="hive")
    return dataset.dataset(folder, schema=named_schema(), partitioning=parts).to_table()


def named_schema() -> Any:
    return row_schema().append(pyarrow.field("wave", pyarrow.string()))


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """Plain rows of the results, with the parameters decoded and the measures as a dict."""
    found = sorted((row for row in read_table(folder).to_pylist() if row["table"] == RESULTS), key=itemgetter("run"))
    return [{**row, "parameters": json.loads(row["parameters"]), "measures": dict(row["measures"])} for row in found]


def interval(values: list[float]) -> tuple[float, float, float]:
    """Mean, and the ends of its 95 % confidence interval."""
    mean = fmean(values)
    half = QUANTILES[len(values)] * stdev(values) / sqrt(len(values))
    return mean, mean - half, mean + half
