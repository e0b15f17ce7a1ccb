"""What delivery guarantees cost the publisher, and whether they are kept.

Three families:

- `acknowledgement`: a fact is a request to publish for which a receipt was asked (ReceiptAsked). Its publications are
  in memory until it is Acknowledged or Released, or the end. *Publications in memory* is how many of them a publisher
  holds, sampled at each full second between the first request and the last of these notes.
- `premature`: a fact is a client with a subscription that was Promised something. A delivery for it is *premature* if
  it came before the promise that the subscription is installed, or if it is older than what was asked for by reference:
  its number is below the one named for its publisher or, where none is named, it was accepted before the time named.
- `twins`: a fact is a group of subscriptions that are to receive the same (Twin); its *difference* is the number of
  events that some of them received and some did not.

Events that were due and missed are `false_negatives` in `delivery.py`.

Defined in: dependable 4.1 (ack-time, publications in memory, false positives, group difference).
"""

from typing import TYPE_CHECKING

from tidings.pubsub.notes import Acknowledged, Promised, ReceiptAsked, Released, Twin
from tidings.spark.metrics.family import Family
from tidings.spark.metrics.tables import (
    DELIVER,
    DELIVERED,
    IS_DELIVER,
    MILLION,
    fields_of,
    is_note,
    mean,
    millionths,
    note,
    seconds,
    share,
    spread,
    when,
    with_fields,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def requests(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    """One row for each request with a receipt: how many publications it was for, and the full seconds in between."""
    from pyspark.sql import functions as F

    told = with_fields(rows, fields_of(ReceiptAsked, Acknowledged, Released))
    marks = told.groupBy("run", "node", told.said.first.alias("first")).agg(
        F.expr(f"min(CASE WHEN {is_note(ReceiptAsked)} THEN time_us END)").alias("asked_us"),
        F.expr(f"min(CASE WHEN {is_note(ReceiptAsked)} THEN said.`last` END)").alias("last"),
        F.expr(f"min(CASE WHEN {is_note(Acknowledged)} THEN time_us END)").alias("acknowledged_us"),
        F.expr(f"min(CASE WHEN {is_note(Released)} THEN time_us END)").alias("released_us"),
        F.max("time_us").alias("end_us"),
    )
    return marks.where("asked_us IS NOT NULL AND `last` >= `first`").selectExpr(
        "run",
        "node",
        "`last` - `first` + 1 AS publications",
        "asked_us",
        "end_us",
        "acknowledged_us - asked_us AS wait_us",
        f"ceil(asked_us / {MILLION}) AS since",
        f"ceil(least(released_us, acknowledged_us) / {MILLION}) AS until",
    )


ACKNOWLEDGEMENT = Family(
    "acknowledgement",
    "What acknowledgements cost the publisher.",
    reads=(note(ReceiptAsked), note(Acknowledged), note(Released)),
    facts=requests,
    groups=("node",),
)
acknowledgement_time = ACKNOWLEDGEMENT.add(
    "acknowledgement_time",
    "Receipts of publications, and the seconds from a request to its receipt: mean, percentiles and the largest.",
    {
        "acknowledged": "count(wait_us)",
        **spread("acknowledgement", "wait_us", 50, 99, unit=seconds),
        "acknowledgement_max": seconds("max(wait_us)"),
    },
)

# What is never released is in memory from its first full second to the end of the run.
FIRST_SECOND, END_SECOND = f"ceil(min(asked_us) / {MILLION})", f"(floor(max(end_us) / {MILLION}) + 1)"
RELEASED_SAMPLES = "coalesce(sum(publications * greatest(until - since, 0)), 0)"
KEPT = f"coalesce(sum({when('until IS NULL', 'publications')}), 0)"
KEPT_SINCE = f"coalesce(sum({when('until IS NULL', 'publications * since')}), 0)"

publications_in_memory = ACKNOWLEDGEMENT.add(
    "publications_in_memory",
    "Publications whose receipt a publisher waits for, sampled each second, mean over publishers and samples.",
    {
        "publications_in_memory": share(
            f"{RELEASED_SAMPLES} + {KEPT} * {END_SECOND} - {KEPT_SINCE}",
            f"greatest({END_SECOND} - {FIRST_SECOND}, 0) * size(collect_set(node))",
        )
    },
)

SUBSCRIPTION = ("run", "node", "subscription")
PROMISE = fields_of(Promised, DELIVERED, only="subscription guarantee publisher number since accepted_at")
IS_PREMATURE = """
    time_us < promised_us OR
    CASE WHEN first_number IS NULL THEN accepted_us < since_us ELSE number < first_number END
"""


def promised_clients(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    told = with_fields(rows, PROMISE).selectExpr(
        "run",
        "node",
        "said.subscription AS subscription",
        "said.publisher AS publisher",
        f"{IS_DELIVER} AS is_delivery",
        "time_us",
        "said.number AS number",
        f"{millionths('said.accepted_at')} AS accepted_us",
        f"CASE WHEN NOT {IS_DELIVER} AND said.guarantee = 'installed' THEN time_us END AS installed_us",
        f"CASE WHEN NOT {IS_DELIVER} THEN {millionths('said.since')} END AS asked_us",
        f"CASE WHEN NOT {IS_DELIVER} AND said.publisher IS NOT NULL THEN said.number END AS asked_number",
    )
    of_subscription, of_publisher = Window.partitionBy(*SUBSCRIPTION), Window.partitionBy(*SUBSCRIPTION, "publisher")
    judged = told.where("subscription IS NOT NULL").select(
        "*",
        F.expr("bool_or(NOT is_delivery)").over(of_subscription).alias("is_promised"),
        F.min("installed_us").over(of_subscription).alias("promised_us"),
        F.min("asked_us").over(of_subscription).alias("since_us"),
        F.min("asked_number").over(of_publisher).alias("first_number"),
    )
    return (
        judged.where("is_promised")
        .groupBy("run", "node")
        .agg(
            F.expr("count_if(is_delivery)").alias("delivered"),
            F.expr(f"count_if(is_delivery AND ({IS_PREMATURE}))").alias("premature"),
        )
    )


PREMATURE = Family(
    "premature",
    "Whether clients receive what is older than their subscription.",
    reads=(note(Promised), DELIVER),
    facts=promised_clients,
    groups=("node",),
)
premature_deliveries = PREMATURE.add(
    "premature_deliveries",
    "Deliveries before what was promised or asked for, the share of clients that had any, and how many these had.",
    {
        "promised_clients": "count(*)",
        "premature": "sum(premature)",
        "premature_share": share("sum(premature)", "sum(delivered)"),
        "premature_clients_share": share("count_if(premature > 0)", "count(*)"),
        "premature_per_affected_client": share("sum(premature)", "count_if(premature > 0)"),
    },
)


def twin_groups(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    from pyspark.sql import functions as F

    told = with_fields(rows, fields_of(Twin, DELIVERED, only="subscription group")).selectExpr(
        "run", "node", "message", "kind", "key", "said.subscription AS subscription", "said.group AS twins"
    )
    members = told.where(is_note(Twin)).select(*SUBSCRIPTION, "twins").dropna().distinct()
    received = told.where(IS_DELIVER).select(*SUBSCRIPTION, "key").dropna().distinct()
    events = received.join(F.broadcast(members), on=[*SUBSCRIPTION], how="inner").groupBy("run", "twins", "key")
    sizes = members.groupBy("run", "twins").agg(F.count("*").alias("members"))
    compared = sizes.join(events.agg(F.count("*").alias("holders")), on=["run", "twins"], how="left")
    return compared.groupBy("run", "twins").agg(F.expr("count_if(holders < members)").alias("difference"))


TWINS = Family(
    "twins",
    "Whether subscriptions that are alike receive the same.",
    reads=(note(Twin), DELIVER),
    facts=twin_groups,
    groups=("twins",),
)
group_difference = TWINS.add(
    "group_difference",
    "Events that some and not all of a group of twins received: share of groups with any, mean and most over groups.",
    {
        "twin_groups": "count(*)",
        "differing_group_share": share("count_if(difference > 0)", "count(*)"),
        "group_difference_mean": mean("difference"),
        "group_difference_max": "max(difference)",
    },
)
