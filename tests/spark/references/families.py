"""What each family of metrics means, in plain Python: from the records of one run to the values of its metrics.

References read a trace the way its definition is worded, without regard to speed, and are what the metrics on Spark are
tested against. Each takes the records of one run and the set of (key, node) that is due, and returns rows (mostly one),
without the run, or none where there is nothing to count. No Spark is needed.

    reference(METRICS["latency"], records)     # what the metric gives for these records, as a list of dicts
"""

from collections.abc import Callable, Iterable
from typing import Any

from tests.spark.references.collection import collection_rows
from tests.spark.references.congestion import congestion_rows
from tests.spark.references.delivery import client_latency_rows, delivery_rows
from tests.spark.references.feeds import friendship_rows, noise_rows, stretch_rows
from tests.spark.references.guarantees import acknowledgement_rows, premature_rows, twin_rows
from tests.spark.references.order import number_rows, order_rows
from tests.spark.references.plans import plan_rows, transformation_rows
from tests.spark.references.popularity import gain_rows, popularity_rows
from tests.spark.references.reconfiguration import reconfiguration_rows, repair_rows
from tests.spark.references.recovery import recovery_rows
from tests.spark.references.traffic import drop_rows, overhead_rows, rate_rows, traffic_rows
from tests.spark.references.views import view_rows
from tidings.spark.metrics.family import Family, Metric
from tidings.trace.record import Record

Answer = dict[str, Any]

REFERENCES: dict[str, Callable[[list[Record], frozenset[tuple[str, str]]], list[Answer]]] = {
    "collection": collection_rows,
    "congestion": congestion_rows,
    "delivery": delivery_rows,
    "clients": client_latency_rows,
    "stretch": stretch_rows,
    "friendship": friendship_rows,
    "noise": noise_rows,
    "acknowledgement": acknowledgement_rows,
    "premature": premature_rows,
    "twins": twin_rows,
    "order": order_rows,
    "numbers": number_rows,
    "plans": plan_rows,
    "transformation": transformation_rows,
    "gain": gain_rows,
    "popularity": popularity_rows,
    "reconfiguration": reconfiguration_rows,
    "repair": repair_rows,
    "recovery": recovery_rows,
    "traffic": traffic_rows,
    "overhead": overhead_rows,
    "drops": drop_rows,
    "rates": rate_rows,
    "views": view_rows,
}
"""By the name of the family."""


def reference(metric: Metric, records: Iterable[Record], expected: Iterable[tuple[str, str, str]] = ()) -> list[Answer]:
    """What a metric gives, of any number of runs; `expected` are tuples of run, key and node."""
    columns = [*metric.family.standing, *metric.values]
    return [
        {"run": run} | {column: row[column] for column in columns}
        for run, row in reference_rows(metric.family, records, expected)
    ]


def reference_rows(
    family: Family, records: Iterable[Record], expected: Iterable[tuple[str, str, str]]
) -> list[tuple[str, Answer]]:
    of_run: dict[str, list[Record]] = {}
    due: dict[str, set[tuple[str, str]]] = {}
    for record in records:
        of_run.setdefault(record.run, []).append(record)
    for run, key, node in expected:
        due.setdefault(run, set()).add((key, node))
    answer, runs = REFERENCES[family.name], sorted({*of_run, *due})
    return [(run, row) for run in runs for row in answer(of_run.get(run, []), frozenset(due.get(run, ())))]
