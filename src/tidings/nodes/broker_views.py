"""What a broker shows of its routing and delivery, as rows of tables."""

from collections.abc import Iterable, Iterator

from tidings.model.identity import NodeId
from tidings.protocols.delivery.edge.edge import Edge
from tidings.protocols.inspection.inspection import View
from tidings.protocols.inspection.rows import BrokerRow, EventRow, PublisherRow, QueueRow, RouteRow, Row
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.router import Router
from tidings.pubsub.publications import BadPublication, decode_head


def broker_views(routing: Router, edge: Edge) -> dict[str, View]:
    return {
        "routes": lambda _: route_rows(routing),
        "queues": lambda _: queue_rows(edge),
        "publishers": lambda _: publisher_rows(edge),
        "event": lambda name: event_rows(edge, name),
    }


def broker_row(broker: NodeId, params: RoutingParams, not_ready: str) -> BrokerRow:
    return BrokerRow(
        broker=broker,
        strategy=params.strategy,
        reduction=params.reduction,
        parent=params.parent or "",
        not_ready=not_ready,
    )


def route_rows(routing: Router) -> Iterator[Row]:
    for neighbour, link in routing.links.items():
        for text, announcement in link.filters.items():
            yield RouteRow(
                neighbour=neighbour, is_ours=True, filter=text, is_pending=announcement.acknowledged_version < 0
            )
        for text in routing.tables.texts[neighbour]:
            yield RouteRow(neighbour=neighbour, is_ours=False, filter=text)


def queue_rows(edge: Edge) -> Iterator[Row]:
    for subscription in edge.subscriptions.all.values():
        outlet, streams = subscription.outlet, subscription.streams.values()
        states = {stream.state: None for stream in streams}
        yield QueueRow(
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


def publisher_rows(edge: Edge) -> Iterator[Row]:
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


def event_rows(edge: Edge, name: str) -> Iterable[Row]:
    """The stored publication of this name: its publisher, a slash, its number."""
    publisher, _, number = name.rpartition("/")
    known = edge.publishers.all.get(publisher)
    if known is None or not number.isdecimal() or len(number) > len(str(2**63)):
        return
    wanted = int(number)
    for batch in known.history.behind(wanted - 1):
        if wanted in batch.numbers:
            place = batch.numbers.index(wanted)
            try:
                attributes = decode_head(batch.heads[place])
            except BadPublication:
                return
            yield EventRow(
                publisher=publisher,
                number=wanted,
                advertisement=batch.advertisement,
                accepted_at=batch.accepted_at,
                attributes=attributes,
            )
            return
