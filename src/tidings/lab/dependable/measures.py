"""What is measured of a run of `cloud.py`; the names are those of the specification (4.1)."""

from statistics import fmean

from tidings.lab.dependable.cloud import CLIENT_LATENCY, CloudOutcome, JoinedClient
from tidings.model.language.parser import parse
from tidings.pubsub.publications import event_of

ACKNOWLEDGEMENTS = ("Installed", "NotInstalled", "Reached", "NotReached", "Receipt")
"""What a plain broker would not send."""

MEASURED_MIN = 10
"""Clients that something is said of."""

INSTALLATION_MAX = 3.0
"""Seconds from a subscription in which anything that has to do with its installation happens."""


def later(outcome: CloudOutcome) -> list[JoinedClient]:
    """Those who joined while others published."""
    begun = min(at for at, _ in outcome.published.values())
    return [each for each in outcome.subscribers if each.at > begun]


def false_positives(outcome: CloudOutcome) -> tuple[float, float]:
    """The share of subscribers that got something which reached their broker before they were installed, and how much
    each of those got."""
    counts = []
    for each in later(outcome):
        assert each.installed_at is not None
        early = [item for at, item in each.arrived if at - CLIENT_LATENCY < each.installed_at - 1e-9]
        counts.append(sum(len(item.numbers) for item in early))
    return share_and_mean(counts)


def share_and_mean(counts: list[int]) -> tuple[float, float]:
    some = [count for count in counts if count]
    return len(some) / max(1, len(counts)), fmean(some) if some else 0.0


def received(subscriber: JoinedClient) -> set[tuple[str, int]]:
    return {(item.publisher, number) for _, item in subscriber.arrived for number in item.numbers}


def owed(outcome: CloudOutcome, subscriber: JoinedClient) -> set[tuple[str, int]]:
    """What matches and was accepted around the installation of a subscriber, from its reference on."""
    filter, after = parse(subscriber.filter), dict(subscriber.after)
    begin = subscriber.at if subscriber.since is None else subscriber.since
    return {
        (publisher, number)
        for (publisher, number), (at, head) in outcome.published.items()
        if subscriber.at - INSTALLATION_MAX < at < subscriber.at + INSTALLATION_MAX
        if (number > after[publisher] if publisher in after else at >= begin)
        if filter.matches(event_of(head, b""))
    }


def missed_publications(outcome: CloudOutcome) -> tuple[float, float]:
    return share_and_mean([len(owed(outcome, each) - received(each)) for each in later(outcome)])


def group_differences(outcome: CloudOutcome) -> tuple[float, float]:
    """The share of twins that got different publications, and by how many they differ."""
    twins: dict[str, list[JoinedClient]] = {}
    for each in later(outcome):
        twins.setdefault(each.client.partition(".")[0], []).append(each)
    return share_and_mean([len(received(one) ^ received(other)) for one, other in twins.values()])


def messages_per_broker(outcome: CloudOutcome) -> float:
    is_plain = outcome.setting.system == "plain"
    kinds = outcome.sent.items()
    return sum(n for kind, n in kinds if not (is_plain and kind in ACKNOWLEDGEMENTS)) / outcome.setting.brokers


def throughput(outcome: CloudOutcome) -> float:
    """Publications that brokers send on or deliver, per second and broker."""
    count = outcome.sent["Publications"] + outcome.sent["Delivery"]
    return count / outcome.setting.seconds / outcome.setting.brokers


def delivery_latency_99(outcome: CloudOutcome) -> float:
    """The mean over clients of the 99th percentile, of what was published after each had joined."""
    percentiles = []
    for each in outcome.subscribers:
        times = sorted(
            at - outcome.published[item.publisher, number][0]
            for at, item in each.arrived
            for number in item.numbers
            if outcome.published[item.publisher, number][0] > each.at + INSTALLATION_MAX
        )
        if times:
            percentiles.append(times[int(0.99 * (len(times) - 1))])
    assert len(percentiles) >= MEASURED_MIN, "too few clients got anything"
    return fmean(percentiles)
