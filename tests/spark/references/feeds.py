"""How well trees over friends carry updates of feeds."""

from collections import Counter
from typing import Any

from tests.spark.references.delivery import latencies
from tests.spark.references.values import (
    MILLION,
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
    whole,
)
from tidings.pubsub.notes import CoverageCounted, NeighboursCounted, PathMeasured, RoundTripMeasured
from tidings.trace.record import Record

Expected = frozenset[tuple[str, str]]


def stretch_rows(records: list[Record], expected: Expected) -> list[dict[str, Any]]:
    known = [(row, rtt) for row in notes(records, RoundTripMeasured) if (rtt := real(row, "rtt")) is not None]
    trips = grouped(((text(row, "publisher"), row.node), millionths(rtt)) for row, rtt in known)
    rtts = {pair: rounded(sum(times) / len(times)) for pair, times in trips.items()}
    names = grouped((row.key, row.node) for row in events(records, "publish") if row.key is not None)
    publisher = {key: min(of) for key, of in names.items()}
    shares = [ratio(2 * delay, rtts.get((publisher[key], node))) for (key, node), delay in latencies(records).items()]
    stretches = [millionths(share) for share in shares if share is not None]
    if not stretches:
        return []
    return [
        {
            "measured_stretch_mean": seconds(mean(stretches)),
            "measured_stretch_p50": seconds(percentile(stretches, 0.5)),
            "measured_stretch_p95": seconds(percentile(stretches, 0.95)),
        }
    ]


def friendship_rows(records: list[Record], expected: Expected) -> list[dict[str, Any]]:
    paths, coverages, neighbours = (notes(records, kind) for kind in (PathMeasured, CoverageCounted, NeighboursCounted))
    if not (paths or coverages or neighbours):
        return []
    stretches = shares_of([(real(row, "path"), real(row, "direct")) for row in paths])
    covered = shares_of([(whole(row, "covered"), whole(row, "feeds")) for row in coverages])
    overlaps = shares_of([(whole(row, "roles"), whole(row, "distinct")) for row in neighbours])
    return [
        {
            "coordinate_stretch_mean": seconds(mean(stretches)),
            "coordinate_stretch_p50": seconds(percentile(stretches, 0.5)),
            "coordinate_stretch_p95": seconds(percentile(stretches, 0.95)),
            "coverage_mean": seconds(mean(covered)),
            "coverage_full_share": ratio(covered.count(MILLION), len(covered)),
            "overlap_mean": seconds(mean(overlaps)),
            "overlap_above_one_share": ratio(sum(share > MILLION for share in overlaps), len(overlaps)),
        }
    ]


def shares_of(parts: list[tuple[float | None, float | None]]) -> list[int]:
    return [millionths(share) for part, whole in parts if (share := ratio(part, whole)) is not None]


def noise_rows(records: list[Record], expected: Expected) -> list[dict[str, Any]]:
    received = Counter(
        (row.key, row.node)
        for row in records
        if row.kind == "receive" and row.message == "Update" and row.key is not None
    )
    if not received:
        return []
    noisy = {pair: count for pair, count in received.items() if pair not in expected}
    return [
        {
            "updates_received": sum(received.values()),
            "noise": sum(noisy.values()),
            "noise_share": ratio(sum(noisy.values()), sum(received.values())),
            "noisy_updates": len(noisy),
        }
    ]
