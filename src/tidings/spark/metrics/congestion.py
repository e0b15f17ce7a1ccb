"""What flows get of the network, how fairly, and what regulating them costs.

A fact is a flow, from one publisher to one node, or a publisher by itself (then without a node).

    at the receiver     deliveries, LossEvent, FeedbackSent
    at the publisher    Transmitted, Withheld, FlowChanged

*Goodput* is what applications got, in the seconds between the first and the last of these rows. *Fairness* is Jain's
index over flows, of events delivered. A withheld event is no false negative. Group by `publisher` or `node`.

Defined in: transport 4.0, E19 to E25.
"""

from typing import TYPE_CHECKING

from tidings.machine.effects import Note
from tidings.pubsub.notes import FeedbackSent, FlowChanged, LossEvent, Transmitted, Withheld
from tidings.spark.metrics.family import Family
from tidings.spark.metrics.tables import DELIVER, DELIVERED, IS_DELIVER, fields_of, is_note, note, with_fields
from tidings.spark.metrics.values import jain, mean, seconds, share, squares

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AT_RECEIVER: tuple[type[Note], ...] = (LossEvent, FeedbackSent)
AT_PUBLISHER: tuple[type[Note], ...] = (Transmitted, Withheld, FlowChanged)
IS_AT_PUBLISHER = f"({' OR '.join(map(is_note, AT_PUBLISHER))})"
FIELDS = fields_of(DELIVERED, *AT_RECEIVER, *AT_PUBLISHER, only="publisher size")
SPAN = seconds("last_us - first_us")


def flows(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    from pyspark.sql import functions as F

    told = with_fields(rows, FIELDS).selectExpr(
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
    aggregates={
        "flows": "count(node)",
        "publishers": "size(collect_set(publisher))",
        **{
            name: f"sum({name})"
            for name in ("delivered", "delivered_bytes", "loss_events", "feedback", "transmitted", "withheld")
        },
        "delivered_squares": squares("delivered"),
        "sizes": "sum(sizes)",
        "size_total": "sum(size_total)",
        "size_largest": "max(size_largest)",
        "first_us": "min(first_us)",
        "last_us": "max(last_us)",
    },
)

goodput = CONGESTION.add(
    "goodput",
    "Events, and bits of their payload, that applications got in a second.",
    {
        "flows": "flows",
        "goodput_events_per_second": share("delivered", SPAN),
        "goodput_bps": share("delivered_bytes * 8", SPAN),
    },
)
fairness = CONGESTION.add(
    "fairness",
    "Jain's index over flows, of events delivered: 1 if all flows got the same.",
    {"fairness": jain("delivered", "flows", "delivered_squares")},
)
loss_events = CONGESTION.add(
    "loss_events",
    "Loss events that receivers saw, and for each thousand events delivered.",
    {"loss_events": "loss_events", "loss_events_per_thousand": share("loss_events * 1000", "delivered")},
)
feedback_rate = CONGESTION.add(
    "feedback_rate",
    "Feedback messages to a publisher in a second, and rows of its flow table (mean and most).",
    {
        "feedback": "feedback",
        "feedback_per_second": share(mean("feedback", "publishers"), SPAN),
        "flow_table_mean": mean("size_total", "sizes"),
        "flow_table_max": "size_largest",
    },
)
withheld = CONGESTION.add(
    "withheld",
    "Events that publishers did not send because their queue was full, and their share of all that were to be sent.",
    {
        "transmitted": "transmitted",
        "withheld": "withheld",
        "withheld_share": share("withheld", "transmitted + withheld"),
    },
)
