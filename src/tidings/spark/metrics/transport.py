"""What the transport achieves and costs: order, recovery of lost events, and control of congestion.

`order`: a fact is a pair: a publisher and one subscription of one node. A *violation* is an event handed over after one
with a higher number of the same publisher. Events handed over at the same time count as in order, since a trace does
not say which came first. Repeats of an old event are violations too. *Violations at arrival* are the same for the order
in which events came, before an ordering protocol put them in order: one that was held back for `hold` seconds came so
much earlier. What ordering achieves is the difference. *Extra delay* is what order costs: the mean over all events of a
pair of the time that each was to be held back (`latch`), and was held back (`hold`); an event without these fields was
not held. One value for each pair; percentiles are over pairs. Everything is in the `deliver` rows of events.

`numbers`: a fact is such a pair, too. A *hole* is a number between the lowest and the highest handed over, which itself
was not. Of a subscription that takes all that a publisher publishes it is a loss; of any other it may be an
event that does not match.

`recovery`: a fact is one event, found by its key in the notes of all who lost it, asked for it, repaired it, refrained
from that, or looked for it in their cache: LossDetected, RepairRequested, RepairSent, Suppressed, CacheSearched. A
*recovery* is a `deliver` row of an event with the field `repaired`. A request is *answered* if anybody sent a repair of
that event. Requests and repairs beyond the first of an event are *duplicates*. How long recovery takes from publication
on is `recovery_delay`, in `delivery.py`.

`congestion`: a fact is a flow, from one publisher to one node, or a publisher by itself (then without a node).

    at the receiver     deliveries, LossEvent, FeedbackSent
    at the publisher    Transmitted, Withheld, FlowChanged

*Goodput* is what applications got, in the seconds between the first and the last of these rows. *Fairness* is Jain's
index over flows, of events delivered. A withheld event is no false negative.

Group order and congestion by `publisher` or `node`. Defined in: transport 3.3.1, 3.3.11, 4.0, E13, E14, E16, E19 to
E25.
"""

from typing import TYPE_CHECKING

from tidings.machine.effects import Note
from tidings.pubsub.notes import (
    CacheSearched,
    FeedbackSent,
    FlowChanged,
    LossDetected,
    LossEvent,
    RepairRequested,
    RepairSent,
    Suppressed,
    Transmitted,
    Withheld,
)
from tidings.spark.metrics.family import Family
from tidings.spark.metrics.tables import (
    DELIVER,
    DELIVERED,
    IS_DELIVER,
    fields_of,
    is_note,
    jain,
    millionths,
    note,
    percentile,
    rounded_mean,
    seconds,
    share,
    spread,
    when,
    with_fields,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ORDER_FIELDS = fields_of(DELIVERED, only="publisher number subscription latch hold late")
PAIR = ("run", "publisher", "node", "subscription")


def ordered_pairs(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    is_known = "said.publisher IS NOT NULL AND said.number IS NOT NULL"
    arrivals = with_fields(rows, ORDER_FIELDS).selectExpr(
        "run",
        "said.publisher AS publisher",
        "node",
        "said.subscription AS subscription",
        "said.number AS number",
        "time_us",
        f"{millionths('time - coalesce(said.hold, 0)')} AS arrived_us",
        f"{is_known} AS is_known",
        f"CASE WHEN {is_known} THEN coalesce({millionths('said.latch')}, 0) END AS latch_us",
        f"CASE WHEN {is_known} THEN coalesce({millionths('said.hold')}, 0) END AS hold_us",
        f"{is_known} AND coalesce(said.late, false) AS is_late",
    )
    judged = arrivals
    for moment, name in (("time_us", "highest"), ("arrived_us", "highest_arrived")):
        earlier = Window.partitionBy(*PAIR).orderBy(moment, "number").rowsBetween(Window.unboundedPreceding, -1)
        judged = judged.withColumn(name, F.max("number").over(earlier))
    pairs = judged.groupBy(*PAIR).agg(
        F.expr("count_if(is_known)").alias("arrived"),
        F.expr("count_if(is_known AND number < highest)").alias("violations"),
        F.expr("count_if(is_known AND number < highest_arrived)").alias("arrival_violations"),
        F.expr("count_if(is_late)").alias("late"),
        F.expr(rounded_mean("latch_us")).alias("latch_us"),
        F.expr(rounded_mean("hold_us")).alias("hold_us"),
    )
    # Sorting out what is not known before would make Spark parse the text of each row once more.
    return pairs.where("arrived > 0")


ORDER = Family(
    "order",
    "Whether each subscriber gets the events of a publisher in order, and what that costs.",
    reads=(DELIVER,),
    facts=ordered_pairs,
    groups=("publisher", "node"),
)
fifo_violations = ORDER.add(
    "fifo_violations",
    "Events handed over after a later one of the same publisher, and that came after one, summed over pairs of "
    "publisher and subscription.",
    {
        "pairs": "count(*)",
        "arrived": "sum(arrived)",
        "fifo_violations": "sum(violations)",
        "fifo_violation_share": share("sum(violations)", "sum(arrived)"),
        "violating_pairs": "count_if(violations > 0)",
        "arrival_violations": "sum(arrival_violations)",
        "late": "sum(late)",
    },
)
extra_delay = ORDER.add(
    "extra_delay",
    "Mean time in seconds for which events of a pair were to be held back, and were: mean and percentiles over pairs.",
    {
        **spread("extra_delay", "latch_us", 50, 90, unit=seconds),
        "extra_delay_max": seconds(percentile("latch_us", 1.0)),
        **spread("hold", "hold_us", 50, 90, unit=seconds),
        "hold_max": seconds(percentile("hold_us", 1.0)),
    },
)


NUMBER_FIELDS = fields_of(DELIVERED, only="publisher number subscription")


def numbered_pairs(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    from pyspark.sql import functions as F

    told = with_fields(rows, NUMBER_FIELDS).selectExpr(
        "run", "said.publisher AS publisher", "node", "said.subscription AS subscription", "said.number AS number"
    )
    each_once = told.where("publisher IS NOT NULL AND number IS NOT NULL").groupBy(*PAIR, "number").count()
    return each_once.groupBy(*PAIR).agg(F.expr("max(number) - min(number) + 1 - count(*)").alias("holes"))


NUMBERS = Family(
    "numbers",
    "Whether the numbers of a publisher's events that a subscriber gets have holes.",
    reads=(DELIVER,),
    facts=numbered_pairs,
    groups=("publisher", "node"),
)
holes = NUMBERS.add(
    "holes",
    "Numbers between the lowest and the highest handed over that were not, summed over pairs of publisher and "
    "subscription, and the pairs that have some.",
    {"holes": "sum(holes)", "pairs_with_holes": "count_if(holes > 0)"},
)


RECOVERY_FIELDS = fields_of(CacheSearched, DELIVERED, only="hit size repaired")


def lost_events(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    from pyspark.sql import functions as F

    # Most deliveries are no repairs; their text need not be parsed.
    wanted = rows.where(f"NOT ({IS_DELIVER}) OR contains(detail, 'repaired')").where(
        f"key IS NOT NULL OR {is_note(CacheSearched)}"
    )
    told = with_fields(wanted, RECOVERY_FIELDS, f"{IS_DELIVER} OR {is_note(CacheSearched)}")
    counted = {
        "losses": f"count_if({is_note(LossDetected)})",
        "requests": f"count_if({is_note(RepairRequested)})",
        "repairs": f"count_if({is_note(RepairSent)})",
        "suppressed": f"count_if({is_note(Suppressed)})",
        "recoveries": f"count_if({IS_DELIVER} AND said.repaired)",
        "lookups": f"count_if({is_note(CacheSearched)} AND said.hit IS NOT NULL)",
        "hits": f"count_if({is_note(CacheSearched)} AND said.hit)",
        "sizes": f"count({when(is_note(CacheSearched), 'said.size')})",
        "size_total": f"sum({when(is_note(CacheSearched), 'said.size')})",
        "size_largest": f"max({when(is_note(CacheSearched), 'said.size')})",
        "requested_us": f"min({when(is_note(RepairRequested), 'time_us')})",
        "repaired_us": f"min({when(is_note(RepairSent), 'time_us')})",
    }
    grouped = told.groupBy("run", "key").agg(*(F.expr(sql).alias(name) for name, sql in counted.items()))
    return grouped.withColumn("delay_us", F.expr("repaired_us - requested_us"))


RECOVERY = Family(
    "recovery",
    "How lost events are asked for and repaired.",
    reads=(note(RepairRequested), note(RepairSent), note(LossDetected), note(Suppressed), note(CacheSearched), DELIVER),
    facts=lost_events,
)
request_repair_delay = RECOVERY.add(
    "request_repair_delay",
    "Seconds from the first request for an event to the first repair of it: mean and percentiles over events.",
    spread("request_repair_delay", "delay_us", 50, 80, 99, unit=seconds),
)

AGAIN, REPAIRED_AGAIN = "sum(requests) - count_if(requests > 0)", "sum(repairs) - count_if(repairs > 0)"

recovery_traffic = RECOVERY.add(
    "recovery_traffic",
    "Losses detected, requests, repairs and recoveries, and which share of requests and repairs were duplicates.",
    {
        "losses": "sum(losses)",
        "requests": "sum(requests)",
        "duplicate_requests": AGAIN,
        "duplicate_request_share": share(AGAIN, "sum(requests)"),
        "repairs": "sum(repairs)",
        "duplicate_repairs": REPAIRED_AGAIN,
        "duplicate_repair_share": share(REPAIRED_AGAIN, "sum(repairs)"),
        "suppressed": "sum(suppressed)",
        "repair_deliveries": "sum(recoveries)",
        "deliveries_per_repair": share("sum(recoveries)", "sum(repairs)"),
    },
)
hit_ratio = RECOVERY.add(
    "hit_ratio",
    "Requests that anybody answered, of all, and look-ups in caches that found the event, of all.",
    {
        "network_hit_ratio": share(f"coalesce(sum({when('repairs > 0', 'requests')}), 0)", "sum(requests)"),
        "cache_hit_ratio": share("sum(hits)", "sum(lookups)"),
        "cache_size_mean": share("sum(size_total)", "sum(sizes)"),
        "cache_size_max": "max(size_largest)",
    },
)


AT_RECEIVER: tuple[type[Note], ...] = (LossEvent, FeedbackSent)
AT_PUBLISHER: tuple[type[Note], ...] = (Transmitted, Withheld, FlowChanged)
IS_AT_PUBLISHER = f"({' OR '.join(map(is_note, AT_PUBLISHER))})"
FLOW_FIELDS = fields_of(DELIVERED, *AT_RECEIVER, *AT_PUBLISHER, only="publisher size")
SPAN = seconds("max(last_us) - min(first_us)")


def flows(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    from pyspark.sql import functions as F

    told = with_fields(rows, FLOW_FIELDS).selectExpr(
        "run",
        f"CASE WHEN {IS_AT_PUBLISHER} THEN node ELSE said.publisher END AS publisher",
        f"CASE WHEN {IS_AT_PUBLISHER} THEN NULL ELSE node END AS node",
        "kind",
        "message",
        "time_us",
        "size_bytes",
        f"CASE WHEN {is_note(FlowChanged)} THEN said.size END AS size",
    )
    counted = {
        "is_known": "bool_or(publisher IS NOT NULL)",
        "delivered": f"count_if({IS_DELIVER})",
        "delivered_bytes": f"coalesce(sum(CASE WHEN {IS_DELIVER} THEN size_bytes END), 0)",
        "loss_events": f"count_if({is_note(LossEvent)})",
        "feedback": f"count_if({is_note(FeedbackSent)})",
        "transmitted": f"count_if({is_note(Transmitted)})",
        "withheld": f"count_if({is_note(Withheld)})",
        "sizes": "count(size)",
        "size_total": "sum(size)",
        "size_largest": "max(size)",
        "first_us": "min(time_us)",
        "last_us": "max(time_us)",
    }
    grouped = told.groupBy("run", "publisher", "node").agg(*(F.expr(sql).alias(name) for name, sql in counted.items()))
    # A condition on the publisher itself would make Spark parse the text of each row twice.
    return grouped.where("is_known")


CONGESTION = Family(
    "congestion",
    "What flows get of the network, how fairly, and what regulating them costs.",
    reads=(DELIVER, *map(note, AT_RECEIVER + AT_PUBLISHER)),
    facts=flows,
    groups=("publisher", "node"),
)
goodput = CONGESTION.add(
    "goodput",
    "Events, and bits of their payload, that applications got in a second.",
    {
        "flows": "count(node)",
        "goodput_events_per_second": share("sum(delivered)", SPAN),
        "goodput_bps": share("sum(delivered_bytes) * 8", SPAN),
    },
)
fairness = CONGESTION.add(
    "fairness",
    "Jain's index over flows, of events delivered: 1 if all flows got the same.",
    {"fairness": jain("delivered", "count(node)")},
)
loss_events = CONGESTION.add(
    "loss_events",
    "Loss events that receivers saw, and for each thousand events delivered.",
    {
        "loss_events": "sum(loss_events)",
        "loss_events_per_thousand": share("sum(loss_events) * 1000", "sum(delivered)"),
    },
)
feedback_rate = CONGESTION.add(
    "feedback_rate",
    "Feedback messages to a publisher in a second, and rows of its flow table (mean and most).",
    {
        "feedback": "sum(feedback)",
        "feedback_per_second": share(share("sum(feedback)", "size(collect_set(publisher))"), SPAN),
        "flow_table_mean": share("sum(size_total)", "sum(sizes)"),
        "flow_table_max": "max(size_largest)",
    },
)
withheld = CONGESTION.add(
    "withheld",
    "Events that publishers did not send because their queue was full, and their share of all that were to be sent.",
    {
        "transmitted": "sum(transmitted)",
        "withheld": "sum(withheld)",
        "withheld_share": share("sum(withheld)", "sum(transmitted) + sum(withheld)"),
    },
)
