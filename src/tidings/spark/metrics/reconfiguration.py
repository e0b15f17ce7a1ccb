"""What it costs routing, and whom it concerns, when links of the overlay change.

In `reconfiguration` a fact is one reconfiguration, named by the messages that it makes brokers send and by the notes
LinkChanged and Misrouted. Messages are weighed: one filter told or taken back counts 1, a mere
signal 0.1, a message with several filters their number, a misrouted hop 1. What clients ask for by themselves has no
`reconfiguration` in its row and is not counted. A dispatcher is *involved* if it is an end of a changed link or
receives a message that changes tables; who only sees signals and misrouted events is not.

In `repair` a fact is one node that was reattached (the note Reattached); group by `strategy` for the share of each.

The delivery ratio over time is `delivery_ratio` by second. Defined in: dynamic topologies 2.7, 4.2, 4.3.
"""

from typing import TYPE_CHECKING

from tidings.pubsub.notes import LinkChanged, Misrouted, Reattached
from tidings.spark.metrics.family import Family
from tidings.spark.metrics.tables import RECEIVE, REROUTING, SEND, fields_of, is_note, note, with_fields
from tidings.spark.metrics.values import mean, millionths, percentiles, seconds, share

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SINGLE = ("SubscriptionAdded", "SubscriptionRemoved")
SEVERAL = ("Activate", "Reconfigure")
SIGNALS = ("Flush", "Reconfigured")
CHANGING = ("SubscriptionAdded", "SubscriptionRemoved", "Reconfigure")
"""Messages by what they weigh, and those that change tables."""

TENTHS = 10


def among(names: tuple[str, ...]) -> str:
    return f"message IN ({', '.join(repr(name) for name in names)})"


def reconfigurations(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    from pyspark.sql import functions as F

    fields = fields_of(REROUTING, LinkChanged, Misrouted)
    told = with_fields(rows.where("contains(detail, 'reconfiguration')"), fields)
    weight = (
        f"CASE WHEN {among(SINGLE)} THEN {TENTHS} WHEN {among(SIGNALS)} THEN 1 "
        f"WHEN {among(SEVERAL)} THEN greatest({TENTHS} * coalesce(said.patterns, 0), 1) ELSE 0 END"
    )
    counted = {
        "is_known": "bool_or(said.reconfiguration IS NOT NULL)",
        "messages": f"count_if(kind = 'send' AND {among(SINGLE + SEVERAL + SIGNALS)})",
        "message_tenths": f"coalesce(sum(CASE WHEN kind = 'send' THEN {weight} END), 0)",
        "misrouted": f"count_if({is_note(Misrouted)})",
        "involved": f"size(collect_set(CASE WHEN kind = 'receive' AND {among(CHANGING)} THEN node "
        f"WHEN {is_note(LinkChanged)} THEN node END))",
    }
    grouped = told.groupBy("run", told.said.reconfiguration.alias("reconfiguration"))
    # A condition on the name itself would make Spark parse the text of each row twice.
    return grouped.agg(*(F.expr(sql).alias(name) for name, sql in counted.items())).where("is_known")


RECONFIGURATION = Family(
    "reconfiguration",
    "What it costs routing, and whom it concerns, when links of the overlay change.",
    reads=(note(LinkChanged), note(Misrouted), SEND, RECEIVE),
    facts=reconfigurations,
    groups=("reconfiguration",),
    aggregates={
        "reconfigurations": "count(*)",
        "messages": "sum(messages)",
        "tenths": f"sum(message_tenths + {TENTHS} * misrouted)",
        "misrouted": "sum(misrouted)",
        "involved_total": "sum(involved)",
        "involved_largest": "max(involved)",
    },
)

reconfiguration_cost = RECONFIGURATION.add(
    "reconfiguration_cost",
    "Weighed messages and misrouted hops that a reconfiguration causes, mean.",
    {
        "reconfigurations": "reconfigurations",
        "messages_per_reconfiguration": share("messages", "reconfigurations"),
        "cost_per_reconfiguration": f"{share('tenths', 'reconfigurations')} / {TENTHS}",
    },
)
misrouted_events = RECONFIGURATION.add(
    "misrouted_events",
    "Hops of events to where nobody wants them, and their mean number for each reconfiguration.",
    {"misrouted": "misrouted", "misrouted_per_reconfiguration": share("misrouted", "reconfigurations")},
)
involved_dispatchers = RECONFIGURATION.add(
    "involved_dispatchers",
    "Dispatchers that a reconfiguration makes change their tables, mean and most.",
    {"involved_mean": mean("involved_total", "reconfigurations"), "involved_max": "involved_largest"},
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
    aggregates={
        "repairs": "count(*)",
        "timed": "count(taken_us)",
        "taken_total": "sum(taken_us)",
        "taken_percentiles": percentiles("taken_us", 0.5, 0.95),
        "taken_largest": "max(taken_us)",
        "asked": "count(requests)",
        "request_total": "sum(requests)",
    },
)

repair_time = REPAIR.add(
    "repair_time",
    "Seconds until a node that lost its parent has a new one (mean, median, 95th percentile, most), and its requests.",
    {
        "reattached": "repairs",
        "repair_mean": seconds(mean("taken_total", "timed")),
        "repair_p50": seconds("taken_percentiles[0]"),
        "repair_p95": seconds("taken_percentiles[1]"),
        "repair_max": seconds("taken_largest"),
        "repair_requests_mean": mean("request_total", "asked"),
    },
)
