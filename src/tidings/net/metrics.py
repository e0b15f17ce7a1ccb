"""The counts of a host as Prometheus metrics, in a registry of its own.

    registry = make_registry(host)
    prometheus_client.start_http_server(9100, registry=registry)

Numbers are read from the host when somebody asks; counting itself costs what adding to an integer costs.
"""

from collections.abc import Iterator
from typing import Any

from tidings.net.errors import HostError
from tidings.net.host import Host

COUNTERS = {
    "stream_messages_received": "messages that arrived on links",
    "stream_messages_sent": "messages put into the queue of a link",
    "stream_bytes_received": "bytes of the frames that arrived",
    "stream_bytes_sent": "bytes of the frames put into the queue of a link",
    "datagrams_received": "messages that arrived as datagrams",
    "datagrams_sent": "messages sent as datagrams",
    "delivered": "items delivered to the application",
    "timers_fired": "timers that came due",
    "inputs_waited": "messages that waited for their turn, because their sender had asked for much",
    "dial_failures": "attempts to connect that led to no link",
    "streams_opened": "streams that came up",
    "save_errors": "saves and loads that failed",
    "computations": "computations that came back",
}


def make_registry(host: Host) -> Any:
    """A `prometheus_client.CollectorRegistry` that shows this host."""
    try:
        from prometheus_client import CollectorRegistry
    except ModuleNotFoundError:
        raise HostError("metrics need prometheus-client; install it with: pip install 'tidings[net]'") from None
    registry = CollectorRegistry()
    registry.register(HostCollector(host))
    return registry


class HostCollector:
    def __init__(self, host: Host) -> None:
        self.host = host

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily

        host, counts = self.host, self.host.counts
        node = [host.node_id]
        for name, meaning in COUNTERS.items():
            family = CounterMetricFamily(f"tidings_{name}_total", meaning, labels=["node"])
            family.add_metric(node, getattr(counts, name))
            yield family
        for name, meaning, label, numbers in (
            ("drops", "what was given up, by reason", "reason", counts.drops),
            ("connections_ended", "connections that ended, by cause", "cause", counts.closings),
        ):
            family = CounterMetricFamily(f"tidings_{name}_total", meaning, labels=["node", label])
            for reason, number in sorted(numbers.items()):
                family.add_metric([*node, reason], number)
            yield family
        for name, meaning, number, seconds in (
            ("handle", "time the machine took for its inputs", counts.inputs, counts.handle_seconds),
            ("save", "time the disk took for saves and loads", counts.saves, counts.save_seconds),
        ):
            summary = SummaryMetricFamily(f"tidings_{name}_seconds", meaning, labels=["node"])
            summary.add_metric(node, count_value=number, sum_value=seconds)
            yield summary
        # A list at once: whoever asks may do so in another thread, while streams come and go.
        streams = list(host.links.up.values()) if host.is_running else []
        for name, meaning, value in (
            ("streams", "streams that are up", len(streams)),
            ("queue_bytes", "bytes that wait to be sent", sum(stream.outbox.size_bytes for stream in streams)),
            ("inbox_items", "delivered items that wait for the application", len(host.items.items)),
        ):
            gauge = GaugeMetricFamily(f"tidings_{name}", meaning, labels=["node"])
            gauge.add_metric(node, value)
            yield gauge
