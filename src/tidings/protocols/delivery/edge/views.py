"""What a broker shows of its clients' subscriptions and publishers: rows of tables, and numbers."""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from tidings.model.identity import name_of
from tidings.protocols.delivery.edge.admission import ServedSubscription
from tidings.pubsub.publications import BadPublication, decode_head
from tidings.pubsub.rows import (
    AdvertisementRow,
    EventRow,
    Gauge,
    PublisherRow,
    QueueRow,
    Row,
    SubscriptionRow,
    View,
)
from tidings.pubsub.signals import Known

if TYPE_CHECKING:
    from tidings.protocols.delivery.edge.edge import Edge


def views_of(edge: "Edge") -> dict[str, View]:
    return {
        "subscriptions": lambda _: (partial(subscription_row, each) for each in edge.subscriptions.all.values()),
        "advertisements": lambda _: (partial(advertisement_row, known) for known, _ in edge.fetching.known.values()),
        "queues": lambda _: map(queue_row, edge.subscriptions.all.values()),
        "publishers": lambda _: publisher_rows(edge),
        "event": lambda name: event_rows(edge, name),
    }


def gauges_of(edge: "Edge") -> Iterator[Gauge]:
    subscriptions = edge.subscriptions.all.values()
    yield Gauge("clients", "clients that are attached", len(edge.clients))
    yield Gauge("subscriptions", "subscriptions of clients here", len(subscriptions))
    yield Gauge("advertisements", "advertisements that are known", len(edge.fetching.known))
    yield Gauge("publishers", "publishers here, those included that left", len(edge.publishers.all))
    yield Gauge("stored_bytes", "history of publishers here", edge.publishers.store.size_bytes)
    waiting = sum(each.outlet.waiting for each in subscriptions)
    yield Gauge("waiting_publications", "publications in the queues of slow clients", waiting)
    pending_bytes = sum(client.pending_bytes for client in edge.clients.values())
    yield Gauge("pending_bytes", "publications in queues and on the way to clients", pending_bytes)
    dropped: dict[str, int] = {}
    for subscription in subscriptions:
        for reason, number in subscription.dropped.items():
            dropped[reason] = dropped.get(reason, 0) + number
    yield from edge.uses.gauges()
    # No counter: what was given up for a client that left is counted in tidings_drops_total only.
    meaning = "given up for clients that are present, by reason"
    for reason, number in sorted(dropped.items()):
        yield Gauge("dropped_publications", meaning, number, {"reason": reason})


def subscription_row(subscription: ServedSubscription) -> SubscriptionRow:
    client, number = subscription.key
    return SubscriptionRow(client=client, number=number, filter=subscription.filter_text)


def advertisement_row(known: Known) -> AdvertisementRow:
    return AdvertisementRow(
        advertisement=known.advertisement,
        publisher=known.publisher,
        filter=known.filter.text(),
        hop=known.hop or "",
    )


def queue_row(subscription: ServedSubscription) -> QueueRow:
    outlet, streams = subscription.outlet, subscription.streams.values()
    states = {stream.state: None for stream in streams}
    return QueueRow(
        client=subscription.client.name,
        number=subscription.number,
        guarantee=subscription.guarantee,
        group=subscription.group,
        policy=subscription.policy,
        waiting=outlet.waiting,
        waiting_max=outlet.waiting_max,
        under_way=outlet.under_way,
        window=outlet.window,
        sent=subscription.delivered,
        dropped=dict(subscription.dropped),
        positions={stream.publisher: stream.position for stream in streams if stream.position is not None},
        state=", ".join(states) or ("active" if subscription.is_settled else "installing"),
    )


def publisher_rows(edge: "Edge") -> Iterator[Row]:
    for publisher in edge.publishers.all.values():
        history = publisher.history
        yield PublisherRow(
            publisher=publisher.name,
            is_connected=publisher.client is not None,
            accepted=publisher.through,
            stored=history.count,
            stored_bytes=history.size_bytes,
            oldest=history.batches[0].numbers[0] if history.batches else 0,
        )


def event_rows(edge: "Edge", name: str) -> Iterable[Row]:
    """The stored publication of this name: its publisher, a slash, its number."""
    publisher, _, number = name.rpartition("/")
    if not number.isdecimal() or len(number) > len(str(2**63)):
        return
    wanted = int(number)
    lives = [each for each in edge.publishers.all.values() if publisher in (each.name, name_of(each.name))]
    for batch in chain.from_iterable(each.history.behind(wanted - 1) for each in lives):
        if wanted in batch.numbers:
            place = batch.numbers.index(wanted)
            try:
                attributes = decode_head(batch.heads[place])
            except BadPublication:
                return
            yield EventRow(
                publisher=batch.publisher,
                number=wanted,
                advertisement=batch.advertisement,
                accepted_at=batch.accepted_at,
                attributes=attributes,
            )
            return


def unfinished(edge: "Edge") -> str:
    """What was begun here and is not done; empty where nothing is."""
    if edge.is_loading or any(publisher.saving for publisher in edge.publishers.all.values()):
        return "its store"
    if count := len(edge.requests.waiting) + len(edge.beginnings.asked):
        return f"{count} requests that the network is carrying out"
    if count := sum(link.waiting_count for link in edge.flows.links.values()):
        return f"{count} answers to questions for what is stored here"
    return ""


def stored_count(edge: "Edge") -> int:
    """Publications in history."""
    return sum(publisher.history.count for publisher in edge.publishers.all.values())
