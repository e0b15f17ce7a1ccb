"""What a broker shows to Prometheus beside the counts of its host: who is there, what is stored, and its bounds."""

from collections.abc import Callable, Iterator
from typing import Any

from tidings.net.broker.config import Config
from tidings.nodes.broker import BrokerNode
from tidings.protocols.inspection.rows import CounterRow


class BrokerCollector:
    """For a registry of prometheus_client; numbers are read when somebody asks."""

    def __init__(self, node: BrokerNode, config: Config, why_not_ready: Callable[[], str]) -> None:
        self.node, self.config, self.why_not_ready = node, config, why_not_ready

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily

        broker = [self.node.node_id]
        for name, meaning, value in self.gauges():
            gauge = GaugeMetricFamily(f"tidings_{name}", meaning, labels=["node"])
            gauge.add_metric(broker, value)
            yield gauge
        routes = GaugeMetricFamily(
            "tidings_routes", "filters that a neighbour told, or was told", labels=["node", "neighbour", "direction"]
        )
        for neighbour, link in self.node.routing.links.items():
            routes.add_metric([*broker, neighbour, "out"], len(link.filters))
            routes.add_metric([*broker, neighbour, "in"], len(self.node.routing.tables.texts[neighbour]))
        yield routes
        # No counter: what was given up for a client that left is counted in tidings_drops_total only.
        lost = GaugeMetricFamily(
            "tidings_dropped_publications",
            "given up for clients that are present, by reason",
            labels=["node", "reason"],
        )
        for reason, number in sorted(self.drops().items()):
            lost.add_metric([*broker, reason], number)
        yield lost
        bounds = GaugeMetricFamily("tidings_setting", "bounds and time-outs, in seconds", labels=["node", "name"])
        for setting in self.config.show():
            if isinstance(setting.value, int | float) and not isinstance(setting.value, bool):
                bounds.add_metric([*broker, setting.name], setting.value)
        yield bounds

    def gauges(self) -> Iterator[tuple[str, str, float]]:
        node = self.node
        publishers, subscriptions = node.edge.publishers, node.edge.subscriptions.all.values()
        yield "ready", "1 if the broker may be sent traffic", not self.why_not_ready()
        yield "clients", "clients that are attached", len(node.edge.clients)
        yield "links", "brokers that are linked", sum(link.is_up for link in node.inspection.others.links.values())
        yield "neighbours", "brokers over which events are routed", len(node.routing.links)
        yield "subscriptions", "subscriptions of clients here", len(subscriptions)
        yield "advertisements", "advertisements that are known", len(node.routing.tables.offers)
        yield "publishers", "publishers here, those included that left", len(publishers.all)
        yield "stored_bytes", "history of publishers here", publishers.store.size_bytes
        waiting = sum(each.outlet.waiting for each in subscriptions)
        yield "waiting_publications", "publications in the queues of slow clients", waiting
        pending_bytes = sum(client.pending_bytes for client in node.edge.clients.values())
        yield "pending_bytes", "publications in queues and on the way to clients", pending_bytes

    def drops(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for subscription in self.node.edge.subscriptions.all.values():
            for reason, number in subscription.dropped.items():
                found[reason] = found.get(reason, 0) + number
        return found


def counter_rows(registry: Any) -> Iterator[CounterRow]:
    """Everything that a registry shows, for inspection."""
    for family in registry.collect():
        for sample in family.samples:
            yield CounterRow(name=sample.name, labels=dict(sample.labels), value=float(sample.value))
