"""An alert: rows of a live table for which a condition holds, as events.

    alarmed = alerts(live_table(trace, "pairs"), "pairs", "holes > 0")
    alarmed.writeStream.format("tidings").option("url", ...).start()

So a network that writes traces watches itself: whoever wants to know subscribes to `type = 'tidings.alert'`. There is
an event for each row that has changed and for which the condition holds now, again and again while it changes; the
sink publishes each once, whatever is killed.
"""

from typing import TYPE_CHECKING

from tidings.model.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ALERT = "tidings.alert"

RENAMED = {"publisher": "of_publisher"}
"""A column of this name would say whom the event is from."""


def alerts(table: "DataFrame", name: str, condition: str) -> "DataFrame":
    """Events of this type: `subject` names the table, `condition` is the condition, and all columns are attributes."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    try:
        alarmed = table.where(condition)
    except PySparkException as problem:
        reason = str(problem).splitlines()[0]
        raise UsageError(
            f"alert {condition!r} of the table {name}: {reason}; its columns are {', '.join(table.columns)}"
        ) from None
    columns = [F.col(column).alias(RENAMED.get(column, column)) for column in table.columns]
    about = {"type": ALERT, "subject": name, "condition": condition}
    return alarmed.select(*(F.lit(value).alias(each) for each, value in about.items()), *columns)
