"""What a broker shows to Prometheus beside the counts of its host: what its parts tell of themselves; its bounds."""

from collections.abc import Callable, Iterator
from typing import Any

from tidings.net.broker.config import Config
from tidings.nodes.broker import BrokerNode
from tidings.pubsub.rows import CounterRow, Gauge


class BrokerCollector:
    """For a registry of prometheus_client; numbers are read when somebody asks."""

    def __init__(self, node: BrokerNode, config: Config, why_not_ready: Callable[[], str]) -> None:
        self.node, self.config, self.why_not_ready = node, config, why_not_ready

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily

        families: dict[str, GaugeMetricFamily] = {}
        for gauge in self.gauges():
            family = families.get(gauge.name)
            if family is None:
                labels = ["node", *gauge.labels]
                family = families[gauge.name] = GaugeMetricFamily(f"tidings_{gauge.name}", gauge.meaning, labels=labels)
            family.add_metric([self.node.node_id, *gauge.labels.values()], gauge.value)
        yield from families.values()

    def gauges(self) -> Iterator[Gauge]:
        yield Gauge("ready", "1 if the broker may be sent traffic", not self.why_not_ready())
        yield from self.node.gauges()
        for setting in self.config.show():
            if isinstance(setting.value, int | float) and not isinstance(setting.value, bool):
                yield Gauge("setting", "bounds and time-outs, in seconds", setting.value, {"name": setting.name})


def counter_rows(registry: Any) -> Iterator[CounterRow]:
    """Everything that a registry shows, for inspection."""
    for family in registry.collect():
        for sample in family.samples:
            yield CounterRow(name=sample.name, labels=dict(sample.labels), value=float(sample.value))
