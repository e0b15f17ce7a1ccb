"""What treating popular and unpopular publications differently brings."""

from typing import Any

from tests.spark.references.values import (
    events,
    grouped,
    mean,
    millionths,
    notes,
    percentile,
    ratio,
    real,
    rounded,
    seconds,
    text,
    time_us,
    whole,
)
from tidings.pubsub.notes import Forwarded, GossipTaken, Queued
from tidings.trace.record import Record

Expected = frozenset[tuple[str, str]]


def gain_rows(records: list[Record], expected: Expected) -> list[dict[str, Any]]:
    forwarded = notes(records, Forwarded)
    if not forwarded:
        return []
    gains = grouped((each.node, millionths(gain)) for each in forwarded if (gain := real(each, "gain")) is not None)
    means = [rounded(sum(of) / len(of)) for of in gains.values()]
    on_tree = [each for each in forwarded if text(each, "via") in (None, "tree")]
    forwards = sum(whole(each, "links") or 0 for each in on_tree)
    pure = sum(whole(each, "links") or 0 for each in on_tree if whole(each, "local") == 0)
    return [
        {
            "gain_ratio": seconds(mean(means)),
            "forwards": forwards,
            "pure_forwards": pure,
            "pure_forward_share": ratio(pure, forwards),
        }
    ]


def popularity_rows(records: list[Record], expected: Expected) -> list[dict[str, Any]]:
    delivered, forwarded = events(records, "deliver"), notes(records, Forwarded)
    gossiped, queued = notes(records, GossipTaken), notes(records, Queued)
    if not (delivered or forwarded or gossiped or queued):
        return []
    popular = [each for each in delivered if text(each, "via") in (None, "tree")]
    unpopular = [each for each in delivered if each not in popular]
    matches = [count for each in gossiped if (count := whole(each, "matches")) is not None]
    direct = [
        links for each in forwarded if text(each, "via") == "direct" and (links := whole(each, "links")) is not None
    ]
    groups = {text(each, "publisher") for each in forwarded if text(each, "via") == "gossip"} - {None}
    queue = [length for each in queued if (length := whole(each, "length")) is not None]
    return [
        {
            "unpopular_deliveries": len(unpopular),
            "unpopular_delivery_share": ratio(len(unpopular), len(delivered)),
            "popular_latency_p90": seconds(percentile(delays(popular), 0.9)),
            "popular_latency_p99": seconds(percentile(delays(popular), 0.99)),
            "unpopular_latency_p90": seconds(percentile(delays(unpopular), 0.9)),
            "unpopular_latency_p99": seconds(percentile(delays(unpopular), 0.99)),
            "gossip_false_positive_ratio": ratio(matches.count(0), len(matches)),
            "match_per_gossip": ratio(sum(matches), len(matches)),
            "gossip_groups": len(groups),
            "direct_forwards_p99": percentile(direct, 0.99),
            "queue_size_mean": mean(queue),
        }
    ]


def delays(rows: list[Record]) -> list[int]:
    accepted = [(time_us(each), real(each, "accepted_at")) for each in rows]
    return [at - millionths(since) for at, since in accepted if since is not None]
