"""What flows get of the network, how fairly, and what regulating them costs."""

from collections import Counter
from typing import Any

from tests.spark.references.values import events, jain, largest, mean, notes, ratio, text, time_us, whole
from tidings.pubsub.notes import FeedbackSent, FlowChanged, LossEvent, Transmitted, Withheld
from tidings.trace.record import Record


def congestion_rows(records: list[Record], expected: frozenset[tuple[str, str]]) -> list[dict[str, Any]]:
    delivered, losses, feedback = (
        [row for row in rows if text(row, "publisher") is not None]
        for rows in (events(records, "deliver"), notes(records, LossEvent), notes(records, FeedbackSent))
    )
    transmitted, withheld, flow_rows = (notes(records, kind) for kind in (Transmitted, Withheld, FlowChanged))
    at_receiver, at_publisher = delivered + losses + feedback, transmitted + withheld + flow_rows
    if not at_receiver and not at_publisher:
        return []
    flows = {(text(row, "publisher"), row.node) for row in at_receiver}
    publishers = {publisher for publisher, _ in flows} | {row.node for row in at_publisher}
    times = [time_us(row) for row in at_receiver + at_publisher]
    span = (max(times) - min(times)) / 1_000_000
    got = Counter((text(row, "publisher"), row.node) for row in delivered)
    sizes = [size for row in flow_rows if (size := whole(row, "size")) is not None]
    return [
        {
            "flows": len(flows),
            "goodput_events_per_second": ratio(len(delivered), span),
            "goodput_bps": ratio(sum(row.size_bytes or 0 for row in delivered) * 8, span),
            "fairness": jain([got[flow] for flow in flows]),
            "loss_events": len(losses),
            "loss_events_per_thousand": ratio(len(losses) * 1000, len(delivered)),
            "feedback": len(feedback),
            "feedback_per_second": ratio(len(feedback) / len(publishers), span),
            "flow_table_mean": mean(sizes),
            "flow_table_max": largest(sizes),
            "transmitted": len(transmitted),
            "withheld": len(withheld),
            "withheld_share": ratio(len(withheld), len(transmitted) + len(withheld)),
        }
    ]
