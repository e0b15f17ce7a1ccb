"""What applications saw of a run of `lab/dependable/cloud.py`, and what is measured of that; the names are those of the
specification (4.1). Figures that are taken from the trace must say the same."""

from collections import Counter
from math import ceil, floor
from statistics import fmean
from typing import Any

import msgspec

from tidings.lab.dependable.cloud import (
    BEGIN,
    CLIENT_LATENCY,
    INSTALLATION_MAX,
    REGIONS,
    CloudSetting,
    CloudWorld,
    JoinedClient,
)
from tidings.lab.dependable.e25 import ACKNOWLEDGEMENTS
from tidings.machine.effects import Effect, Send
from tidings.model.language.parser import parse
from tidings.pubsub.client import Arrived, Begun, Confirmed, Receipt
from tidings.pubsub.publications import event_of
from tidings.sim.node import SimulatedNode
from tidings.sim.observers import Observer
from tidings.trace.writer import Writer

MEASURED_MIN = 10
"""Clients that something is said of."""


class BrokerSends(Observer):
    """Counts what brokers send, by kind."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def on_effects(self, now: float, node: SimulatedNode, effects: list[Effect]) -> None:
        if node.id in REGIONS:
            self.counts.update(type(effect.message).__name__ for effect in effects if type(effect) is Send)


class Seen(msgspec.Struct):
    """A subscriber, and everything that it saw."""

    subscriber: JoinedClient
    installed_at: float | None = None
    """When its broker knew it to be in place."""
    arrived: list[tuple[float, Arrived]] = []


class CloudOutcome(msgspec.Struct):
    setting: CloudSetting
    subscribers: list[Seen]
    published: dict[tuple[str, int], tuple[float, bytes]]
    """When each publication was published, and its head."""
    unacknowledged: list[list[tuple[float, float]]]
    """For each publisher from when to when each publication with a receipt was outstanding."""
    sent: Counter[str]
    """Messages that brokers sent, by kind."""

    @property
    def ack_times(self) -> list[float]:
        return [until - begun for mine in self.unacknowledged for begun, until in mine]

    @property
    def in_memory(self) -> list[int]:
        """Publications per publisher that are not acknowledged, each second."""
        seconds = [BEGIN + 1.5 + second for second in range(int(self.setting.seconds) - 2)]
        return [sum(begun <= at < until for begun, until in mine) for mine in self.unacknowledged for at in seconds]


def play(setting: CloudSetting, trace: Writer | None = None) -> CloudOutcome:
    sends = BrokerSends()
    world = CloudWorld(setting, trace, [sends])
    world.run()
    seen = [Seen(each) for each in world.subscribers]
    for each in seen:
        for at, item in world.simulator.delivered(each.subscriber.client):
            match item:
                case Arrived():
                    each.arrived.append((at, item))
                case Receipt("subscribe") | Confirmed("subscribe", Receipt()):
                    receipt = item if isinstance(item, Receipt) else item.receipt
                    assert receipt is not None
                    each.installed_at = receipt.at
    spans = [outstanding(world, f"p{number}") for number in range(world.workload.publishers)]
    return CloudOutcome(setting, seen, world.published, spans, sends.counts)


def outstanding(world: CloudWorld, publisher: str) -> list[tuple[float, float]]:
    begun: dict[Any, float] = {}
    mine = []
    for at, item in world.simulator.delivered(publisher):
        match item:
            case Begun(("receipt", _) as ticket):
                begun[ticket] = at
            case Confirmed(("receipt", _) as ticket):
                mine.append((begun[ticket], at))
    return mine


def later(outcome: CloudOutcome) -> list[Seen]:
    """Those who joined while others published."""
    begun = min(at for at, _ in outcome.published.values())
    return [each for each in outcome.subscribers if each.subscriber.at > begun]


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


def received(subscriber: Seen) -> set[tuple[str, int]]:
    return {(item.publisher, number) for _, item in subscriber.arrived for number in item.numbers}


def owed(outcome: CloudOutcome, each: Seen) -> set[tuple[str, int]]:
    """What matches and was accepted around the installation of a subscriber, from its reference on."""
    filter = parse(each.subscriber.request.filter)
    return {
        (publisher, number)
        for (publisher, number), (at, head) in outcome.published.items()
        if each.subscriber.is_owed(publisher, number, at)
        if filter.matches(event_of(head, b""))
    }


def missed_publications(outcome: CloudOutcome) -> tuple[float, float]:
    return share_and_mean([len(owed(outcome, each) - received(each)) for each in later(outcome)])


def group_differences(outcome: CloudOutcome) -> tuple[float, float]:
    """The share of twins that got different publications, and by how many they differ."""
    twins: dict[str, list[Seen]] = {}
    for each in later(outcome):
        twins.setdefault(each.subscriber.client.partition(".")[0], []).append(each)
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
            if outcome.published[item.publisher, number][0] > each.subscriber.at + INSTALLATION_MAX
        )
        if times:
            place = 0.99 * (len(times) - 1)
            below, above = times[floor(place)], times[ceil(place)]
            percentiles.append(below + (above - below) * (place - floor(place)))
    assert len(percentiles) >= MEASURED_MIN, "too few clients got anything"
    return fmean(percentiles)
