"""What it takes to plan a change of the topology, to carry it out, and what events suffer meanwhile."""

from typing import Any

from tests.spark.references.values import (
    events,
    largest,
    mean,
    millionths,
    notes,
    percentile,
    real,
    seconds,
    time_us,
    whole,
)
from tidings.pubsub.notes import PlanExecuted, PlanMade, Shifted
from tidings.trace.record import Record

Expected = frozenset[tuple[str, str]]


def plan_rows(records: list[Record], expected: Expected) -> list[dict[str, Any]]:
    planned, executed, shifted = (notes(records, kind) for kind in (PlanMade, PlanExecuted, Shifted))
    if not (planned or executed or shifted):
        return []
    parts = [(real(each, "model_seconds"), real(each, "solve_seconds")) for each in planned]
    planning = [millionths(m) + millionths(s) for m, s in parts if m is not None and s is not None]
    actions, steps = wholes(planned, "actions"), wholes(planned, "steps")
    executing = [millionths(span) for each in executed if (span := real(each, "seconds")) is not None]
    queues = [(whole(each, "queue_before"), whole(each, "queue_after")) for each in shifted]
    growth = [after - before for before, after in queues if before is not None and after is not None]
    return [
        {
            "planning_seconds_mean": seconds(mean(planning)),
            "planning_seconds_max": seconds(largest(planning)),
            "actions_mean": mean(actions),
            "steps_mean": mean(steps),
            "execution_seconds_mean": seconds(mean(executing)),
            "execution_seconds_max": seconds(largest(executing)),
            "queue_growth_p99": percentile(growth, 0.99),
        }
    ]


def wholes(rows: list[Record], name: str) -> list[int]:
    return [value for each in rows if (value := whole(each, name)) is not None]


def transformation_rows(records: list[Record], expected: Expected) -> list[dict[str, Any]]:
    executed = [
        (time_us(each), span) for each in notes(records, PlanExecuted) if (span := real(each, "seconds")) is not None
    ]
    delivered = events(records, "deliver")
    if not executed or not delivered:
        return []
    accepted = [
        (millionths(since), time_us(each)) for each in delivered if (since := real(each, "accepted_at")) is not None
    ]
    begin, end = min(at - millionths(span) for at, span in executed), max(at for at, _ in executed)
    affected = [at - since for since, at in accepted if since < end and at > begin]
    others = [at - since for since, at in accepted if not (since < end and at > begin)]
    return [
        {
            "affected": len(affected),
            "affected_latency_p99": seconds(percentile(affected, 0.99)),
            "unaffected_latency_p99": seconds(percentile(others, 0.99)),
        }
    ]
