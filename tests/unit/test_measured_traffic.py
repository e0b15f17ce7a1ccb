"""What brokers exchange, from two looks at their tables."""

import msgspec
import pytest

from tidings.diagnosis.network import Network, Reported
from tidings.diagnosis.traffic import measured_traffic
from tidings.pubsub.rows import AdvertisementRow, BrokerRow, PublisherRow, QueueRow, SubscriptionRow


def broker(name: str, publishers: dict[str, tuple[str, int]], wants: dict[str, tuple[str, int]]) -> Reported:
    """`publishers`: filter and number so far; `wants`: filter and events sent so far."""
    return Reported(
        broker=BrokerRow(broker=name),
        publishers=tuple(PublisherRow(publisher=each, accepted=count) for each, (_, count) in publishers.items()),
        advertisements=tuple(
            AdvertisementRow(advertisement=f"{each}/1", publisher=each, filter=filter)
            for each, (filter, _) in publishers.items()
        ),
        subscriptions=tuple(
            SubscriptionRow(client=each, number=1, filter=filter) for each, (filter, _) in wants.items()
        ),
        queues=tuple(QueueRow(client=each, number=1, sent=count) for each, (_, count) in wants.items()),
    )


def grown(network: Network, **counts: int) -> Network:
    """The same later: so many more were published, or sent."""
    brokers = []
    for each in network.brokers.values():
        publishers = tuple(
            msgspec.structs.replace(row, accepted=row.accepted + counts.get(row.publisher, 0))
            for row in each.publishers
        )
        queues = tuple(msgspec.structs.replace(row, sent=row.sent + counts.get(row.client, 0)) for row in each.queues)
        brokers.append(msgspec.structs.replace(each, publishers=publishers, queues=queues))
    return Network(brokers)


BEFORE = Network(
    [
        broker("a", {"p": ("x = 1", 5), "q": ("x = 2", 0)}, {"near": ("x = 1", 0)}),
        broker("b", {"r": ("x = 2", 70)}, {}),
        broker("c", {}, {"s": ("x = 1", 3), "t": ("x = 2", 0), "u": ("x = 1", 0)}),
    ]
)


def test_rates_are_those_of_the_time_between_two_looks() -> None:
    after = grown(BEFORE, p=40, near=40, s=40)
    assert dict(measured_traffic(BEFORE, after, 4.0).rates) == {("a", "c"): 10.0}


def test_what_several_subscriptions_of_a_broker_want_crosses_once() -> None:
    after = grown(BEFORE, p=40, s=40, u=40)
    assert dict(measured_traffic(BEFORE, after, 4.0).rates) == {("a", "c"): 10.0}


def test_events_of_several_publishers_are_shared_among_them_by_what_these_publish() -> None:
    after = grown(BEFORE, q=30, r=10, t=20)
    assert measured_traffic(BEFORE, after, 1.0).rates == {("a", "c"): pytest.approx(15), ("b", "c"): pytest.approx(5)}


def test_nothing_crosses_where_nobody_publishes_and_to_whoever_is_at_the_same_broker() -> None:
    assert not measured_traffic(BEFORE, grown(BEFORE, p=40, near=40), 1.0).rates
    assert not measured_traffic(BEFORE, BEFORE, 1.0).rates
