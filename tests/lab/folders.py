"""Folders of experiments for tests: results that somebody wrote, read back without Spark."""

import json
from collections.abc import Callable
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pyarrow import parquet

from tidings.lab.experiment import Experiment
from tidings.lab.run import LabOrder
from tidings.spark.sweeps.folder import open_folder
from tidings.spark.sweeps.run import Run, outcome_of
from tidings.trace.writer import Writer
from tidings.trace.writers import ParquetWriter

QUANTILES = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}
"""Student's t, 97.5 %, by the number of values."""


def write_results(
    place: Path,
    experiment: Experiment,
    order: LabOrder,
    measures: Callable[[Run], dict[str, float]] = lambda run: {},
    happens: Callable[[Run, Writer], None] = lambda run, trace: None,
) -> None:
    """As a sweep would, without running anything."""
    folder = open_folder(place)
    for run in order.runs(experiment):
        folder.result(run.id).parent.mkdir()
        outcome_of(run, 1.0, measures(run)).save(folder.result(run.id))
        folder.trace(run.id).parent.mkdir()
        with ParquetWriter(folder.trace(run.id), run.id, run.seed) as trace:
            happens(run, trace)


def read_rows(place: Path) -> list[dict[str, Any]]:
    """Plain rows of the results, with the parameters decoded and the measures as a dict."""
    rows = []
    for path in sorted(place.glob("results/*/*.parquet")):
        [row] = parquet.ParquetFile(path).read().to_pylist()
        rows.append({**row, "parameters": json.loads(row["parameters"]), "measures": dict(row["measures"])})
    return rows


def interval(values: list[float]) -> tuple[float, float, float]:
    """Mean, and the ends of its 95 % confidence interval."""
    mean = fmean(values)
    half = QUANTILES[len(values)] * stdev(values) / sqrt(len(values))
    return mean, mean - half, mean + half
