"""How long it takes to collect files from many sources at one sink."""

from typing import Any

from tests.spark.references.values import grouped, largest, mean, notes, percentile, seconds, time_us
from tidings.pubsub.notes import BlockStored, JobStarted
from tidings.trace.record import Record


def collection_rows(records: list[Record], expected: frozenset[tuple[str, str]]) -> list[dict[str, Any]]:
    keyed = [row for row in records if row.key is not None]
    blocks = notes(keyed, BlockStored)
    started = grouped((row.key, time_us(row)) for row in notes(keyed, JobStarted))
    stored = grouped((row.key, time_us(row)) for row in blocks)
    if not started and not stored:
        return []
    taken = [max(stored[job]) - min(started[job]) for job in started.keys() & stored.keys()]
    return [
        {
            "jobs": len(taken),
            "completion_mean": seconds(mean(taken)),
            "completion_p50": seconds(percentile(taken, 0.5)),
            "completion_max": seconds(largest(taken)),
            "blocks": len(blocks),
            "block_bytes": sum(row.size_bytes or 0 for row in blocks),
        }
    ]
