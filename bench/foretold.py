"""`python -m bench.foretold`: popularity by forecast beside popularity by the last interval, where rates change.

    python -m bench.foretold               both workloads
    python -m bench.foretold --quick       fewer events

The same popularity as in brokers (`protocols/routing/popularity.py`) decides at the end of each interval what goes by
the tree in the next one: by the rates of the last interval, by those that `tidings.spark.forecast` expects (learnt from
the first half, judged by the second), and, as the best that could be, by those that come. An advertisement has as many
subscriptions, all one hop away, as its share of them in the workload, and half of the mean rate is for the tree.

    missed    by how much what went by the tree missed its share of the capacity, in the mean of intervals
    above     how much went by the tree beyond it: what holds up the popular
    gain      deliveries for each publication on the tree

Nothing here depends on how fast the machine is.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Mapping

import msgspec

from tidings.protocols.routing.census import Tally
from tidings.protocols.routing.popularity import Popularity
from tidings.spark.forecast import forecast, rates_of
from tidings.spark.session import open_session
from tidings.spark.workloads import frame
from tidings.workloads.registry import make

LINK = "l"
SHARE = 0.5
"""Of the mean rate of all publications, which is for the tree."""

Rates = dict[str, float]


class Forecasts(msgspec.Struct, frozen=True):
    """Of one workload, by interval."""

    rates: Mapping[int, Rates]
    foreseen: Mapping[int, Rates]
    subscriptions: Mapping[str, int]
    seconds: float


class Outcome(msgspec.Struct, frozen=True):
    missed: float
    above: float
    gain: float


def read(workload: str, interval: float, **settings: int) -> Forecasts:
    spark = open_session(name="foretold")
    made = make(workload, {"seed": 3, **settings})
    events, wanted = frame(spark, made, "events"), frame(spark, made, "subscriptions")
    rows = forecast(rates_of(events, advertisement="topic", time="published_at", interval=interval)).collect()
    rates: dict[int, Rates] = {}
    foreseen: dict[int, Rates] = {}
    for row in rows:
        rates.setdefault(row.interval, {})[row.advertisement] = row.rate
        foreseen.setdefault(row.interval, {})[row.advertisement] = row.forecast
    # A filter is `topic = 'NAME'`.
    topics = Counter(row["filter"].split("'")[1] for row in wanted.select("filter").collect())
    return Forecasts(rates, foreseen, topics, interval)


def play(found: Forecasts, expect: Callable[[int], Rates]) -> Outcome:
    """`expect` says what is foreseen of an interval; nothing where it goes on as it did."""
    intervals = sorted(found.rates)
    mean = sum(sum(rates.values()) for rates in found.rates.values()) / len(intervals)
    expected: Rates = {}

    def behind(link: str, topic: str) -> Tally:
        return Tally(found.subscriptions.get(topic, 0), found.subscriptions.get(topic, 0))

    popularity = Popularity(mean, SHARE, behind, foreseen=lambda topic: expected.get(topic))
    off, above, on_tree, deliveries = 0.0, 0.0, 0.0, 0.0
    for place, interval in enumerate(intervals):
        filled = 0.0
        for topic, rate in sorted(found.rates[interval].items()):
            count = round(rate * found.seconds)
            if popularity.is_popular((LINK, topic)):
                filled += rate
                deliveries += rate * found.subscriptions.get(topic, 0)
            popularity.offer(LINK, topic, count)
        if place:
            off += abs(filled - popularity.target)
            above += max(0.0, filled - popularity.target)
            on_tree += filled
        else:
            deliveries = 0.0
        expected = expect(intervals[place + 1]) if place + 1 < len(intervals) else {}
        popularity.evaluate(found.seconds)
    judged = (len(intervals) - 1) * popularity.target
    return Outcome(off / judged, above / judged, deliveries / on_tree if on_tree else 0.0)


def compare(found: Forecasts) -> dict[str, Outcome]:
    return {
        "the last interval": play(found, lambda interval: {}),
        "the forecast": play(found, lambda interval: found.foreseen[interval]),
        "what comes": play(found, lambda interval: found.rates[interval]),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.foretold", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the events")
    factor = 10 if parser.parse_args().quick else 1
    workloads = (
        ("drifting", read("drifting", 20.0, event_count=200_000 // factor, topics=200, subscription_count=2000)),
        ("star-popularity", read("star-popularity", 60.0, event_count=200_000 // factor, subscription_count=2000)),
    )
    print("| workload | by | missed | above | gain |")
    print("|---|---|---|---|---|")
    for name, found in workloads:
        for by, outcome in compare(found).items():
            print(f"| {name} | {by} | {outcome.missed:.3f} | {outcome.above:.3f} | {outcome.gain:.1f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
