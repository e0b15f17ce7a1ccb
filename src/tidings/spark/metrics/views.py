"""What membership views of gossiping brokers cost, and how good they are.

A fact is one note.

    note read   written by                                 fields
    cycle       a broker after each maintenance cycle      cycle (its number), messages (that it sent in it)
    view        the observer of a simulation, who knows    cycle, common (members of the view that are among the best
                what the best view would be                possible), optimal (how many those are)

Group by `cycle` to see views converge, or by `node`. Defined in: dependable 4.1 (view maintenance cost, convergence
ratio).
"""

from typing import TYPE_CHECKING

from tidings.spark.metrics.family import Family
from tidings.spark.metrics.references.views import view_rows
from tidings.spark.metrics.tables import is_note, note, with_fields
from tidings.spark.metrics.values import MILLION, mean, millionths, percentiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def views(rows: "DataFrame", expected: "DataFrame | None") -> "DataFrame":
    told = with_fields(rows, "cycle BIGINT, messages BIGINT, common BIGINT, optimal BIGINT")
    return told.selectExpr(
        "run",
        "node",
        "said.cycle AS cycle",
        f"CASE WHEN {is_note('cycle')} THEN said.messages END AS messages",
        f"CASE WHEN {is_note('view')} THEN {millionths('try_divide(said.common, said.optimal)')} END AS converged",
    )


VIEWS = Family(
    "views",
    "What membership views of gossiping brokers cost, and how good they are.",
    reads=(note("cycle"), note("view")),
    facts=views,
    reference=view_rows,
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
