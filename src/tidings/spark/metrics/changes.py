"""What a change of the topology costs: planning it and carrying it out, what it makes brokers send, what events suffer.

Four families:

- `plans`: a fact is one note: PlanMade, PlanExecuted or Shifted.
- `transformation`: a fact is a delivery: one *in transit* was accepted before the last plan of its run was done and
  delivered after the first had begun. For this deliveries are joined with one row for each run, and latency is taken
  from `accepted_at` of the deliver row (in the simulator, where all clocks are one).
- `reconfiguration`: a fact is one reconfiguration, named by the messages that it makes brokers send and by the notes
  LinkChanged and Misrouted. Messages are weighed: one filter told or taken back counts 1, a mere signal 0.1, a message
  with several filters their number, a misrouted hop 1. What clients ask for by themselves has no `reconfiguration` in
  its row and is not counted. A dispatcher is *involved* if it is an end of a changed link or receives a message that
  changes tables; who only sees signals and misrouted events is not.
- `repair`: a fact is one node that was reattached (the note Reattached); group by `strategy` for the share of each.

The delivery ratio over time is `delivery_ratio` by second. Defined in: dependable 4.1 (planning time to plan execution
time), dynamic topologies 2.7, 4.2, 4.3.
"""

from typing import TYPE_CHECKING

from tidings.pubsub.notes import LinkChanged, Misrouted, PlanExecuted, PlanMade, Reattached, Shifted
from tidings.spark.metrics.family import Family
from tidings.spark.metrics.tables import (
    DELIVER,
    DELIVERED,
    IS_DELIVER,
    RECEIVE,
    REROUTING,
    SEND,
    fields_of,
    is_note,
    mean,
    millionths,
    note,
    percentile,
    seconds,
    spread,
    when,
    with_fields,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def told_plans(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    planned, executed, shifted = is_note(PlanMade), is_note(PlanExecuted), is_note(Shifted)
    planning = f"{millionths('said.model_seconds')} + {millionths('said.solve_seconds')}"
    return with_fields(rows, fields_of(PlanMade, PlanExecuted, Shifted)).selectExpr(
        "run",
        "node",
        f"{when(planned, planning)} AS planning_us",
        f"{when(planned, 'said.actions')} AS actions",
        f"{when(planned, 'said.steps')} AS steps",
        f"CASE WHEN {executed} THEN {millionths('said.seconds')} END AS executing_us",
        f"CASE WHEN {shifted} THEN said.queue_after - said.queue_before END AS growth",
    )


PLANS = Family(
    "plans",
    "What it takes to plan a change of the topology and to carry it out.",
    reads=(note(PlanMade), note(PlanExecuted), note(Shifted)),
    facts=told_plans,
    groups=("node",),
)
planning_time = PLANS.add(
    "planning_time",
    "Seconds to build the model and to solve it: mean and most over plans.",
    {"planning_seconds_mean": seconds(mean("planning_us")), "planning_seconds_max": seconds("max(planning_us)")},
)
plan_quality = PLANS.add(
    "plan_quality",
    "Actions and steps of a plan, mean.",
    {"actions_mean": mean("actions"), "steps_mean": mean("steps")},
)
plan_execution_time = PLANS.add(
    "plan_execution_time",
    "Seconds from the beginning to the end of carrying a plan out: mean and most.",
    {"execution_seconds_mean": seconds(mean("executing_us")), "execution_seconds_max": seconds("max(executing_us)")},
)
queue_growth = PLANS.add(
    "queue_growth",
    "Publications that a broker's queue gained during a shift, 99th percentile over shifts and brokers.",
    {"queue_growth_p99": percentile("growth", 0.99)},
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
)
transformation_latency = TRANSFORMATION.add(
    "transformation_latency",
    "The 99th percentile of latency, in seconds, of events in transit while plans were carried out, and of all others.",
    {
        "affected": "count_if(is_in_transit)",
        "affected_latency_p99": seconds(percentile(f"({when('is_in_transit', 'latency_us')})", 0.99)),
        "unaffected_latency_p99": seconds(percentile(f"({when('NOT is_in_transit', 'latency_us')})", 0.99)),
    },
)

SINGLE = ("SubscriptionAdded", "SubscriptionRemoved")
SEVERAL = ("Activate", "PathEdit")
SIGNALS = ("Flush", "PathEdited")
CHANGING = ("SubscriptionAdded", "SubscriptionRemoved", "PathEdit")
"""Messages by what they weigh, and those that change tables."""

TENTHS = 10


def among(names: tuple[str, ...]) -> str:
    return f"message IN ({', '.join(repr(name) for name in names)})"


def reconfigurations(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    from pyspark.sql import functions as F

    changing = f"CASE WHEN kind = 'receive' AND {among(CHANGING)} THEN node WHEN {is_note(LinkChanged)} THEN node END"
    causes = rows.where("contains(detail, 'reconfiguration')")
    alike = causes.groupBy("run", "kind", "message", "detail", F.expr(changing).alias("changed"))
    # Thousands of messages have the same text: each text is parsed once.
    texts = alike.agg(F.count("*").alias("times"))
    parsed = f"from_json(detail, '{fields_of(REROUTING, LinkChanged, Misrouted)}') AS said"
    told = texts.selectExpr("run", "kind", "message", "changed", "times", parsed)
    weight = (
        f"CASE WHEN {among(SINGLE)} THEN {TENTHS} WHEN {among(SIGNALS)} THEN 1 "
        f"WHEN {among(SEVERAL)} THEN greatest({TENTHS} * coalesce(said.patterns, 0), 1) ELSE 0 END"
    )
    counted = {
        "is_known": "bool_or(said.reconfiguration IS NOT NULL)",
        "messages": f"sum(CASE WHEN kind = 'send' AND {among(SINGLE + SEVERAL + SIGNALS)} THEN times ELSE 0 END)",
        "message_tenths": f"sum(CASE WHEN kind = 'send' THEN times * {weight} ELSE 0 END)",
        "misrouted": f"sum(CASE WHEN {is_note(Misrouted)} THEN times ELSE 0 END)",
    }
    # A condition on the name itself would make Spark parse each text twice.
    by_node = told.groupBy("run", told.said.reconfiguration.alias("reconfiguration"), "changed").agg(
        *(F.expr(sql).alias(name) for name, sql in counted.items())
    )
    totals = {name: f"{'bool_or' if name == 'is_known' else 'sum'}({name})" for name in counted}
    # A set of nodes would make Spark sort all rows, where groups are many.
    totals["involved"] = "count(changed)"
    grouped = by_node.groupBy("run", "reconfiguration")
    return grouped.agg(*(F.expr(sql).alias(name) for name, sql in totals.items())).where("is_known")


RECONFIGURATION = Family(
    "reconfiguration",
    "What it costs routing, and whom it concerns, when links of the overlay change.",
    reads=(note(LinkChanged), note(Misrouted), SEND, RECEIVE),
    facts=reconfigurations,
    groups=("reconfiguration",),
)
reconfiguration_cost = RECONFIGURATION.add(
    "reconfiguration_cost",
    "Weighed messages and misrouted hops that a reconfiguration causes, mean.",
    {
        "reconfigurations": "count(*)",
        "messages_per_reconfiguration": mean("messages"),
        "cost_per_reconfiguration": f"{mean(f'(message_tenths + {TENTHS} * misrouted)')} / {TENTHS}",
    },
)
misrouted_events = RECONFIGURATION.add(
    "misrouted_events",
    "Hops of events to where nobody wants them, and their mean number for each reconfiguration.",
    {"misrouted": "sum(misrouted)", "misrouted_per_reconfiguration": mean("misrouted")},
)
involved_dispatchers = RECONFIGURATION.add(
    "involved_dispatchers",
    "Dispatchers that a reconfiguration makes change their tables, mean and most.",
    {"involved_mean": mean("involved"), "involved_max": "max(involved)"},
)


def reattachments(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    told = with_fields(rows, fields_of(Reattached))
    return told.selectExpr(
        "run",
        "node",
        "said.strategy AS strategy",
        f"{millionths('said.seconds')} AS taken_us",
        "said.requests AS requests",
    )


REPAIR = Family(
    "repair",
    "How fast nodes find a new parent.",
    reads=(note(Reattached),),
    facts=reattachments,
    groups=("strategy", "node"),
)
repair_time = REPAIR.add(
    "repair_time",
    "Seconds until a node that lost its parent has a new one (mean, median, 95th percentile, most), and its requests.",
    {
        "reattached": "count(*)",
        **spread("repair", "taken_us", 50, 95, unit=seconds),
        "repair_max": seconds("max(taken_us)"),
        "repair_requests_mean": mean("requests"),
    },
)
