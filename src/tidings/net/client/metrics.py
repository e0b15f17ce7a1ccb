"""A client's counts as Prometheus metrics, those of its transport included.

    registry = make_client_registry(client)
    prometheus_client.start_http_server(9101, registry=registry)

Numbers are read when somebody asks. Rows of a transport are labelled with the publisher, or the flow, that they are
about; how many there are is bounded by `streams_max` and `flows_max` of its parameters.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

from tidings.net.client.client import Client
from tidings.net.metrics import make_registry
from tidings.protocols.transport.views import TransportState

LOOK_TIMEOUT = 5.0
"""Seconds in which a loop must find the time to show its state."""

STREAM_GAUGES = {
    "hold": ("hold_seconds", "seconds for which an event would be held back now"),
    "waiting": ("held_events", "events that are held back"),
    "loss_event_rate": ("loss_event_rate", "loss events for each event received"),
    "round_trip": ("round_trip_seconds", "the way to the publisher and back"),
    "cache": ("cache_events", "events that are kept for others"),
    "cache_max": ("cache_events_max", "events that may be kept for others"),
}
STREAM_COUNTERS = {
    "delivered": "events that were handed over",
    "late": "events that came after a later one",
    "lost": "events that were found to be lost",
    "recovered": "lost events that came after all",
    "repaired": "lost events that others sent again",
    "from_history": "lost events from the history of a broker",
    "given_up": "lost events that are not looked for any more",
    "requests": "requests for events that are kept, or were",
    "hits": "those of them that could be answered",
}
FLOW_GAUGES = {
    "rate": ("flow_rate", "events a second, received or allowed"),
    "quota": ("flow_quota", "events a second that its limiting receiver can take"),
    "queue": ("flow_queue_events", "events that wait to be sent"),
}
OWN_COUNTERS = {
    "published": "events that left with a header",
    "withheld": "events that never left, as their receivers could take no more",
    "requests_sent": "requests for lost events",
    "repairs_sent": "repairs of others' losses",
}


def make_client_registry(client: Client) -> Any:
    """A `prometheus_client.CollectorRegistry` that shows this client."""
    registry = make_registry(client.host)
    if client.carrying is not None:
        registry.register(TransportCollector(client))
    return registry


class TransportCollector:
    def __init__(self, client: Client) -> None:
        self.client = client

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        state, node = self.look(), self.client.name
        for name, meaning in OWN_COUNTERS.items():
            family = CounterMetricFamily(f"tidings_transport_{name}_total", meaning, labels=["node"])
            family.add_metric([node], getattr(state, name))
            yield family
        for field, meaning in STREAM_COUNTERS.items():
            family = CounterMetricFamily(f"tidings_transport_{field}_total", meaning, labels=["node", "publisher"])
            for labels, row in stream_labels(state, node):
                family.add_metric(labels, getattr(row, field))
            yield family
        for field, (name, meaning) in STREAM_GAUGES.items():
            gauge = GaugeMetricFamily(f"tidings_transport_{name}", meaning, labels=["node", "publisher"])
            for labels, row in stream_labels(state, node):
                gauge.add_metric(labels, getattr(row, field))
            yield gauge
        for field, (name, meaning) in FLOW_GAUGES.items():
            gauge = GaugeMetricFamily(
                f"tidings_transport_{name}", meaning, labels=["node", "side", "publisher", "flow"]
            )
            for flow in state.flows:
                gauge.add_metric([node, flow.side, flow.publisher, f"{flow.flow:08x}"], getattr(flow, field))
            yield gauge

    def look(self) -> TransportState:
        """On the client's loop: whoever asks may do so in another thread, while publishers come and go."""
        loop = self.client.host.loop
        try:
            is_ours = asyncio.get_running_loop() is loop
        except RuntimeError:
            is_ours = False
        if is_ours or not loop.is_running():
            return self.client.transport_state()

        async def state() -> TransportState:
            return self.client.transport_state()

        return asyncio.run_coroutine_threadsafe(state(), loop).result(LOOK_TIMEOUT)


def stream_labels(state: TransportState, node: str) -> Iterator[tuple[list[str], Any]]:
    """A publisher that came back has two numbers, and two rows under one name."""
    names = [row.publisher for row in state.streams]
    for row in state.streams:
        is_alone = row.publisher and names.count(row.publisher) == 1
        yield [node, row.publisher if is_alone else f"{row.publisher}#{row.id}"], row
