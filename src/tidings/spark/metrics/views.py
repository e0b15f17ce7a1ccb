"""What membership views of gossiping brokers cost, and how good they are.

A fact is one note: CycleEnded or ViewCompared. Group by `cycle` to see views converge, or by `node`. Defined in:
dependable 4.1 (view maintenance cost, convergence ratio).
"""

from typing import TYPE_CHECKING

from tidings.pubsub.notes import CycleEnded, ViewCompared
from tidings.spark.metrics.family import Family
from tidings.spark.metrics.tables import fields_of, is_note, note, with_fields
from tidings.spark.metrics.values import MILLION, mean, millionths, percentiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def views(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    share_of_best = millionths("try_divide(said.common, said.optimal)")
    told = with_fields(rows, fields_of(CycleEnded, ViewCompared))
    return told.selectExpr(
        "run",
        "node",
        "said.cycle AS cycle",
        f"CASE WHEN {is_note(CycleEnded)} THEN said.messages END AS messages",
        f"CASE WHEN {is_note(ViewCompared)} THEN {share_of_best} END AS converged",
    )


VIEWS = Family(
    "views",
    "What membership views of gossiping brokers cost, and how good they are.",
    reads=(note(CycleEnded), note(ViewCompared)),
    facts=views,
    groups=("cycle", "node"),
    aggregates={
        "cycles": "count(messages)",
        "message_total": "sum(messages)",
        "message_percentiles": percentiles("messages", 0.5, 0.9),
        "message_largest": "max(messages)",
        "views": "count(converged)",
        "converged_total": "sum(converged)",
        "converged_least": "min(converged)",
    },
)

view_cost = VIEWS.add(
    "view_cost",
    "Messages that a broker sends in a maintenance cycle: mean, median, 90th percentile and most.",
    {
        "view_messages_mean": mean("message_total", "cycles"),
        "view_messages_p50": "message_percentiles[0]",
        "view_messages_p90": "message_percentiles[1]",
        "view_messages_max": "message_largest",
    },
)
convergence_ratio = VIEWS.add(
    "convergence_ratio",
    "Members of a view that belong to the best possible view, of all that belong to that: mean and least over views.",
    {
        "convergence_ratio": f"{mean('converged_total', 'views')} / {MILLION}",
        "convergence_ratio_min": f"converged_least / {MILLION}",
    },
)
