"""What delivery guarantees cost the publisher, and whether they are kept.

    rows read                  written by                                fields
    publish, message Event     the publisher
    note acknowledged          the publisher, when all have event `key`
    note released              the publisher, when it forgets `key`
    note promised              a client, when its subscription counts    subscription, publisher, number: the first
                                                                         event of this publisher that it is entitled to
    note twin                  a client that has a twin                  group: the same for both
    deliver, message Event     the client                                subscription, publisher, number

Three families:

- `acknowledgement`: a fact is a publication. It is in memory from its publication until it is released, or acknowledged
  where nothing says when it is released, or the end. *Publications in memory* is how many a publisher holds, sampled at
  each full second between the first publication and the last of these rows.
- `premature`: a fact is a client that was promised something. A delivery is *premature* if its number is below the
  promised one: the client received an event from before its subscription was in force.
- `twins`: a fact is a group of clients that subscribed alike; its *difference* is the number of events that some of
  them received and some did not.

Events that were due and missed are `false_negatives` in `delivery.py`.

Defined in: dependable 4.1 (ack-time, publications in memory, false positives, group difference).
"""

from typing import TYPE_CHECKING

from tidings.spark.metrics.family import Family
from tidings.spark.metrics.references.guarantees import acknowledgement_rows, premature_rows, twin_rows
from tidings.spark.metrics.tables import DELIVER, IS_DELIVER, IS_PUBLISH, PUBLISH, TIME_US, is_note, note, with_fields
from tidings.spark.metrics.values import MILLION, mean, percentiles, seconds, share

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def held(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    """One row for each event that a node published, with the number of full seconds at which it was in memory."""
    from pyspark.sql import functions as F

    timed = rows.where("key IS NOT NULL").selectExpr("run", "key", "node", "kind", "message", TIME_US)
    marks = timed.groupBy("run", "key", "node").agg(
        F.expr(f"min(CASE WHEN {IS_PUBLISH} THEN time_us END)").alias("published_us"),
        F.expr(f"min(CASE WHEN {is_note('acknowledged')} THEN time_us END)").alias("acknowledged_us"),
        F.expr(f"min(CASE WHEN {is_note('released')} THEN time_us END)").alias("released_us"),
        F.max("time_us").alias("last_us"),
    )
    return marks.where("published_us IS NOT NULL").selectExpr(
        "run",
        "node",
        "published_us",
        "last_us",
        "acknowledged_us - published_us AS wait_us",
        f"ceil(published_us / {MILLION}) AS since",
        f"ceil(coalesce(released_us, acknowledged_us) / {MILLION}) AS until",
    )


ACKNOWLEDGEMENT = Family(
    "acknowledgement",
    "What acknowledgements cost the publisher.",
    reads=(note("acknowledged"), note("released"), PUBLISH),
    facts=held,
    reference=acknowledgement_rows,
    groups=("node",),
    aggregates={
        "publishers": "size(collect_set(node))",
        "waits": "count(wait_us)",
        "wait_total": "sum(wait_us)",
        "wait_percentiles": percentiles("wait_us", 0.5, 0.99),
        "wait_largest": "max(wait_us)",
        "first_second": f"ceil(min(published_us) / {MILLION})",
        "end_second": f"floor(max(last_us) / {MILLION}) + 1",
        "released_samples": "coalesce(sum(greatest(until - since, 0)), 0)",
        "kept": "count_if(until IS NULL)",
        "kept_since": "coalesce(sum(CASE WHEN until IS NULL THEN since END), 0)",
    },
)

acknowledgement_time = ACKNOWLEDGEMENT.add(
    "acknowledgement_time",
    "Seconds from publication until the publisher knows that all have it: mean, percentiles and the largest.",
    {
        "acknowledged": "waits",
        "acknowledgement_mean": seconds(mean("wait_total", "waits")),
        "acknowledgement_p50": seconds("wait_percentiles[0]"),
        "acknowledgement_p99": seconds("wait_percentiles[1]"),
        "acknowledgement_max": seconds("wait_largest"),
    },
)
# An event that is never released is in memory from its first full second to the end of the run.
publications_in_memory = ACKNOWLEDGEMENT.add(
    "publications_in_memory",
    "Publications that a publisher still holds, sampled each second, mean over publishers and samples.",
    {
        "publications_in_memory": share(
            "released_samples + kept * end_second - kept_since", "greatest(end_second - first_second, 0) * publishers"
        )
    },
)

STREAM = ("run", "node", "subscription", "publisher")


def promised_clients(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    told = with_fields(rows, "subscription STRING, publisher STRING, number BIGINT").selectExpr(
        "run",
        "node",
        "coalesce(said.subscription, '') AS subscription",
        "said.publisher AS publisher",
        f"CASE WHEN {IS_DELIVER} THEN said.number END AS number",
        f"CASE WHEN NOT {IS_DELIVER} AND said.publisher IS NOT NULL THEN said.number END AS promise",
    )
    judged = told.withColumn("promised", F.min("promise").over(Window.partitionBy(*STREAM)))
    return (
        judged.where("promised IS NOT NULL")
        .groupBy("run", "node")
        .agg(F.count("number").alias("delivered"), F.expr("count_if(number < promised)").alias("premature"))
    )


PREMATURE = Family(
    "premature",
    "Whether clients receive what is older than their subscription.",
    reads=(note("promised"), DELIVER),
    facts=promised_clients,
    reference=premature_rows,
    groups=("node",),
    aggregates={
        "clients": "count(*)",
        "affected": "count_if(premature > 0)",
        "delivered": "sum(delivered)",
        "premature": "sum(premature)",
    },
)

premature_deliveries = PREMATURE.add(
    "premature_deliveries",
    "Deliveries of events from before the promised one, the share of clients that had any, and how many these had.",
    {
        "promised_clients": "clients",
        "premature": "premature",
        "premature_share": share("premature", "delivered"),
        "premature_clients_share": share("affected", "clients"),
        "premature_per_affected_client": share("premature", "affected"),
    },
)


def twin_groups(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    from pyspark.sql import functions as F

    twins = with_fields(rows.where(is_note("twin")), "group STRING").selectExpr("run", "node", "said.group AS twins")
    members = twins.where("twins IS NOT NULL").distinct()
    received = rows.where(f"{IS_DELIVER} AND key IS NOT NULL").select("run", "node", "key").distinct()
    events = received.join(F.broadcast(members), on=["run", "node"], how="inner").groupBy("run", "twins", "key")
    sizes = members.groupBy("run", "twins").agg(F.count("node").alias("members"))
    compared = sizes.join(events.agg(F.count("node").alias("holders")), on=["run", "twins"], how="left")
    return compared.groupBy("run", "twins").agg(F.expr("count_if(holders < members)").alias("difference"))


TWINS = Family(
    "twins",
    "Whether clients that subscribed alike receive the same.",
    reads=(note("twin"), DELIVER),
    facts=twin_groups,
    reference=twin_rows,
    groups=("twins",),
    aggregates={
        "groups": "count(*)",
        "differing": "count_if(difference > 0)",
        "difference_total": "sum(difference)",
        "difference_largest": "max(difference)",
    },
)

group_difference = TWINS.add(
    "group_difference",
    "Events that some and not all of a group of twins received: share of groups with any, mean and most over groups.",
    {
        "twin_groups": "groups",
        "differing_group_share": share("differing", "groups"),
        "group_difference_mean": mean("difference_total", "groups"),
        "group_difference_max": "difference_largest",
    },
)
