"""What the brokers of a network exchange: rates between them, measured twice and compared.

A broker counts what it accepts of each publisher, and what it sends to each subscription. Looked at twice, so many
seconds apart, that gives rates. Where the events of a subscription come from is not counted: they are shared among the
publishers whose advertisements it overlaps, by what these publish; of none does it get more than it publishes, and what
several subscriptions of one broker want crosses the network once. So the table is exact where filters do not overlap by
halves, and otherwise near.

    rate(a, b)   events a second from clients of broker a to clients of broker b

Nothing says how far two brokers are from each other; who knows gives a table with that column (`--traffic`).
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import TypeVar

from tidings.diagnosis.network import Network
from tidings.model.identity import NodeId
from tidings.planning.traffic import Traffic

Key = TypeVar("Key")

MEASURED = ("subscriptions", "advertisements", "publishers", "queues")
"""Tables that are needed of every broker."""


def measured_traffic(before: Network, after: Network, seconds: float) -> Traffic:
    """Of the time between two looks at the same network."""
    published = publishing_rates(before, after, seconds)
    offers = offers_of(after)
    rates: dict[tuple[NodeId, NodeId], float] = {}
    for broker, wanted in received_rates(before, after, seconds).items():
        shares: dict[tuple[NodeId, str], float] = defaultdict(float)
        for filter, rate in wanted:
            sources = {
                source: published[source]
                for source, filters in offers.items()
                if published.get(source) and any(after.overlaps(filter, each) for each in filters)
            }
            total = sum(sources.values())
            for source, its_rate in sources.items():
                shares[source] += rate * its_rate / total
        for (home, publisher), rate in shares.items():
            if home != broker:
                crossing = min(rate, published[home, publisher])
                rates[home, broker] = rates.get((home, broker), 0.0) + crossing
    return Traffic(dict(sorted(rates.items())), {})


def publishing_rates(before: Network, after: Network, seconds: float) -> dict[tuple[NodeId, str], float]:
    """Of each publisher at the broker that it publishes at."""
    first, last = (
        {(name, row.publisher): row.accepted for name, each in network.brokers.items() for row in each.publishers}
        for network in (before, after)
    )
    return grown(first, last, seconds)


def offers_of(network: Network) -> dict[tuple[NodeId, str], list[str]]:
    """What publishers advertise at their own brokers."""
    offers: dict[tuple[NodeId, str], list[str]] = defaultdict(list)
    for name, each in network.brokers.items():
        for row in each.advertisements:
            if not row.hop:
                offers[name, row.publisher].append(row.filter)
    return offers


def received_rates(before: Network, after: Network, seconds: float) -> dict[NodeId, list[tuple[str, float]]]:
    """Filters at each broker, with what their subscriptions get."""
    first, last = (
        {(name, row.client, row.number): row.sent for name, each in network.brokers.items() for row in each.queues}
        for network in (before, after)
    )
    rates, wanted = grown(first, last, seconds), dict[NodeId, list[tuple[str, float]]]()
    for name, each in after.brokers.items():
        rows = [(row.filter, rates.get((name, row.client, row.number), 0.0)) for row in each.subscriptions]
        wanted[name] = [(filter, rate) for filter, rate in rows if rate]
    return wanted


def grown(before: Mapping[Key, int], after: Mapping[Key, int], seconds: float) -> dict[Key, float]:
    """What is new is not older than the first look, and has grown from nothing."""
    return {key: max(0, count - before.get(key, 0)) / seconds for key, count in after.items()}
