"""How many messages a run takes, who bears the load, and how evenly.

Four families, all of them of rows that every protocol writes:

- `traffic`: a fact is one node, with what it sent, received, published, delivered and dropped. Its seconds are those
  between the first and the last such row of the group. Messages that carry events are *data*, all others *control*
  (`tables.DATA_MESSAGES`); both count where they are sent and where they are received, request and reply apart. For
  brokers alone, take the rows of brokers out of the trace first.
- `overhead`: messages and bytes by type of message.
- `drops`: what was given up, by reason.
- `rates`: what happened in each second of the run; a second in which nothing happened has no row.

Group `traffic` by `node` for the load of each node, `overhead`, `drops` and `rates` by `node`.

Defined in: dependable 4.1 (message overhead, sent messages, throughput), transport 4.0 (publication and delivery
rates), peer-to-peer 3L (control bandwidth at 50 bytes a message, data traffic).
"""

from typing import TYPE_CHECKING

from tidings.spark.metrics.family import Family
from tidings.spark.metrics.tables import (
    DELIVER,
    DROP,
    IS_DATA,
    PUBLISH,
    RECEIVE,
    SEND,
    TIME_US,
    jain,
    mean,
    seconds,
    share,
    spread,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CONTROL_BYTES = 50
"""What a control message counts in bandwidth."""

SPAN = seconds("max(last_us) - min(first_us)")


def in_a_second(count: str) -> str:
    return share(count, SPAN)


def nodes(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    """One row for each node that did anything."""
    from pyspark.sql import functions as F

    moved = "kind IN ('send', 'receive')"
    counted = {
        "sent": "count_if(kind = 'send')",
        "sent_bytes": "coalesce(sum(CASE WHEN kind = 'send' THEN size_bytes END), 0)",
        "received": "count_if(kind = 'receive')",
        "published": "count_if(kind = 'publish')",
        "delivered": "count_if(kind = 'deliver')",
        "delivered_bytes": "coalesce(sum(CASE WHEN kind = 'deliver' THEN size_bytes END), 0)",
        "dropped": "count_if(kind = 'drop')",
        "data": f"count_if({moved} AND {IS_DATA})",
        "control": f"count_if({moved} AND NOT coalesce({IS_DATA}, false))",
        "first_us": "min(time_us)",
        "last_us": "max(time_us)",
    }
    timed = rows.selectExpr("run", "node", "kind", "message", "size_bytes", TIME_US)
    return timed.groupBy("run", "node").agg(*(F.expr(sql).alias(name) for name, sql in counted.items()))


TRAFFIC = Family(
    "traffic",
    "How many messages a run takes, who bears the load, and how evenly.",
    reads=(SEND, RECEIVE, DROP, PUBLISH, DELIVER),
    facts=nodes,
    groups=("node",),
)
sent_messages = TRAFFIC.add(
    "sent_messages",
    "Messages and bytes sent, received and dropped, and the mean number sent by a node.",
    {
        "nodes": "count(*)",
        **{name: f"sum({name})" for name in ("sent", "sent_bytes", "received", "dropped")},
        "sent_per_node": mean("sent"),
        "sent_per_publication": share("sum(sent)", "sum(published)"),
    },
)
load = TRAFFIC.add(
    "load",
    "Messages sent and received by a node (mean, median, 95th percentile, most), and Jain's fairness of this load.",
    {
        **spread("load", "(sent + received)", 50, 95),
        "load_max": "max(sent + received)",
        "load_fairness": jain("(sent + received)", "count(*)"),
    },
)
throughput = TRAFFIC.add(
    "throughput",
    "Events published and delivered, and bytes delivered, in a second of the run; data messages of a node in a second.",
    {
        "seconds": SPAN,
        **{f"{name}_per_second": in_a_second(f"sum({name})") for name in ("published", "delivered", "delivered_bytes")},
        "data_per_node_second": in_a_second(mean("data")),
    },
)
data_traffic = TRAFFIC.add(
    "data_traffic",
    "Copies of events that a node handled, sent or received: mean, median, 95th percentile and most.",
    spread("data", "data", 50, 95) | {"data_max": "max(data)"},
)
control_bandwidth = TRAFFIC.add(
    "control_bandwidth",
    "Control messages of a node in a second, sent or received, and bytes at 50 a message.",
    {
        **spread("control_per_second", "control", 50, 95, unit=in_a_second),
        "control_per_second_max": in_a_second("max(control)"),
        "control_bytes_per_second_mean": f"{in_a_second(mean('control'))} * {CONTROL_BYTES}",
    },
)


def as_they_are(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    return rows.selectExpr("run", "node", "kind", "message", "reason", "size_bytes", "floor(time) AS second")


OVERHEAD = Family(
    "overhead",
    "Messages by type.",
    reads=(SEND,),
    facts=as_they_are,
    groups=("node", "second"),
    standing=("message",),
)
message_overhead = OVERHEAD.add(
    "message_overhead",
    "Messages sent, and their bytes where known, by type.",
    {"messages": "count(*)", "bytes": "sum(size_bytes)"},
)

DROPS = Family(
    "drops",
    "What was given up, by reason.",
    reads=(DROP,),
    facts=as_they_are,
    groups=("node", "message", "second"),
    standing=("reason",),
)
drops = DROPS.add("drops", "Messages and events given up, by reason.", {"drops": "count(*)"})

RATES = Family(
    "rates",
    "What happened in each second.",
    reads=(PUBLISH, DELIVER, SEND, DROP),
    facts=as_they_are,
    groups=("node",),
    standing=("second",),
)
rates = RATES.add(
    "rates",
    "Events published and delivered, messages sent and dropped, in each second of the run.",
    {
        name: f"count_if(kind = '{kind}')"
        for name, kind in (("published", "publish"), ("delivered", "deliver"), ("sent", "send"), ("dropped", "drop"))
    },
)
