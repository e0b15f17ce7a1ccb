"""What membership views of gossiping brokers cost, and how good they are."""

from typing import Any

from tests.spark.references.values import (
    largest,
    mean,
    millionths,
    notes,
    percentile,
    ratio,
    seconds,
    whole,
)
from tidings.pubsub.notes import CycleEnded, ViewCompared
from tidings.trace.record import Record


def view_rows(records: list[Record], expected: frozenset[tuple[str, str]]) -> list[dict[str, Any]]:
    cycles, views = notes(records, CycleEnded), notes(records, ViewCompared)
    if not cycles and not views:
        return []
    messages = [count for each in cycles if (count := whole(each, "messages")) is not None]
    shares = [ratio(whole(each, "common"), whole(each, "optimal")) for each in views]
    converged = [millionths(share) for share in shares if share is not None]
    return [
        {
            "view_messages_mean": mean(messages),
            "view_messages_p50": percentile(messages, 0.5),
            "view_messages_p90": percentile(messages, 0.9),
            "view_messages_max": largest(messages),
            "convergence_ratio": seconds(mean(converged)),
            "convergence_ratio_min": seconds(min(converged, default=None)),
        }
    ]
