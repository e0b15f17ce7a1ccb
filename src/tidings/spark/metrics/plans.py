"""What it takes to plan a change of the topology, to carry it out, and what events suffer meanwhile.

In `plans` a fact is one note: PlanMade, PlanExecuted or Shifted. In `transformation` a fact is a delivery: one *in
transit* was accepted before the last plan of its run was done and delivered after the first had begun. For this
deliveries are joined with one row for each run, and latency is taken from `accepted_at` of the deliver row (in the
simulator, where all clocks are one).

Defined in: dependable 4.1 (planning time to plan execution time).
"""

from typing import TYPE_CHECKING

from tidings.pubsub.notes import PlanExecuted, PlanMade, Shifted
from tidings.spark.metrics.family import Family
from tidings.spark.metrics.tables import DELIVER, DELIVERED, IS_DELIVER, fields_of, is_note, note, with_fields
from tidings.spark.metrics.values import mean, millionths, percentiles, seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def told_plans(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    planned, executed, shifted = is_note(PlanMade), is_note(PlanExecuted), is_note(Shifted)
    planning = f"{millionths('said.model_seconds')} + {millionths('said.solve_seconds')}"
    return with_fields(rows, fields_of(PlanMade, PlanExecuted, Shifted)).selectExpr(
        "run",
        "node",
        f"CASE WHEN {planned} THEN {planning} END AS planning_us",
        f"CASE WHEN {planned} THEN said.actions END AS actions",
        f"CASE WHEN {planned} THEN said.steps END AS steps",
        f"CASE WHEN {executed} THEN {millionths('said.seconds')} END AS executing_us",
        f"CASE WHEN {shifted} THEN said.queue_after - said.queue_before END AS growth",
    )


PLANS = Family(
    "plans",
    "What it takes to plan a change of the topology and to carry it out.",
    reads=(note(PlanMade), note(PlanExecuted), note(Shifted)),
    facts=told_plans,
    groups=("node",),
    aggregates={
        "plans": "count(planning_us)",
        "planning_total": "sum(planning_us)",
        "planning_largest": "max(planning_us)",
        "action_plans": "count(actions)",
        "action_total": "sum(actions)",
        "step_plans": "count(steps)",
        "step_total": "sum(steps)",
        "executions": "count(executing_us)",
        "executing_total": "sum(executing_us)",
        "executing_largest": "max(executing_us)",
        "growth_percentiles": percentiles("growth", 0.99),
    },
)

planning_time = PLANS.add(
    "planning_time",
    "Seconds to build the model and to solve it: mean and most over plans.",
    {
        "planning_seconds_mean": seconds(mean("planning_total", "plans")),
        "planning_seconds_max": seconds("planning_largest"),
    },
)
plan_quality = PLANS.add(
    "plan_quality",
    "Actions and steps of a plan, mean.",
    {"actions_mean": mean("action_total", "action_plans"), "steps_mean": mean("step_total", "step_plans")},
)
plan_execution_time = PLANS.add(
    "plan_execution_time",
    "Seconds from the beginning to the end of carrying a plan out: mean and most.",
    {
        "execution_seconds_mean": seconds(mean("executing_total", "executions")),
        "execution_seconds_max": seconds("executing_largest"),
    },
)
queue_growth = PLANS.add(
    "queue_growth",
    "Publications that a broker's queue gained during a shift, 99th percentile over shifts and brokers.",
    {"queue_growth_p99": "growth_percentiles[0]"},
)


def deliveries_and_plans(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    from pyspark.sql import functions as F

    plans = with_fields(rows.where(is_note(PlanExecuted)), fields_of(PlanExecuted)).where("said.seconds IS NOT NULL")
    spans = plans.groupBy("run").agg(
        F.expr(f"min(time_us - {millionths('said.seconds')})").alias("begin_us"), F.max("time_us").alias("end_us")
    )
    accepted = with_fields(rows.where(IS_DELIVER), fields_of(DELIVERED, only="accepted_at")).selectExpr(
        "run", "node", "time_us", f"{millionths('said.accepted_at')} AS accepted_us"
    )
    return accepted.join(F.broadcast(spans), on="run", how="inner").selectExpr(
        "run",
        "node",
        "time_us - accepted_us AS latency_us",
        "accepted_us < end_us AND time_us > begin_us AS is_in_transit",
    )


TRANSFORMATION = Family(
    "transformation",
    "What events suffer while the topology changes.",
    reads=(note(PlanExecuted), DELIVER),
    facts=deliveries_and_plans,
    groups=("node",),
    aggregates={
        "affected": "count_if(is_in_transit)",
        "affected_percentiles": percentiles("(CASE WHEN is_in_transit THEN latency_us END)", 0.99),
        "other_percentiles": percentiles("(CASE WHEN NOT is_in_transit THEN latency_us END)", 0.99),
    },
)

transformation_latency = TRANSFORMATION.add(
    "transformation_latency",
    "The 99th percentile of latency, in seconds, of events in transit while plans were carried out, and of all others.",
    {
        "affected": "affected",
        "affected_latency_p99": seconds("affected_percentiles[0]"),
        "unaffected_latency_p99": seconds("other_percentiles[0]"),
    },
)
