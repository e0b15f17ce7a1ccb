"""What a host counts, as Prometheus shows it."""

import pytest

from tests.worlds.sockets import acquaint, heard, order, play, puppet_host
from tidings.machine.effects import Connect, Drop, Send
from tidings.machine.inputs import LinkUp, Received
from tidings.net import make_registry
from tidings.net.counts import OTHER, REASONS_MAX, HostCounts
from tidings.protocols.teaching.ping import Probe

exposition = pytest.importorskip("prometheus_client", reason="metrics need prometheus-client, of the extra 'net'")


def test_a_host_shows_its_counts_under_its_name() -> None:
    async def scenario() -> None:
        async with puppet_host("a") as a, puppet_host("b") as b:
            await acquaint(a, b)
            order(a, Connect("b"))
            await heard(a, LinkUp)
            order(a, Send("b", Probe(1)), Send("nobody", Probe(2)), Drop("it", "unwanted"))
            await heard(b, Received)
            registry = make_registry(a)
            shown = {
                (sample.name, *sorted(sample.labels.items())): sample.value
                for family in registry.collect()
                for sample in family.samples
            }
            node = ("node", "a")
            assert shown["tidings_stream_messages_sent_total", node] == 1
            assert shown["tidings_drops_total", node, ("reason", "no address is known")] == 1
            assert shown["tidings_drops_total", node, ("reason", "unwanted")] == 1
            assert shown["tidings_streams", node] == 1
            assert shown["tidings_handle_seconds_count", node] == a.counts.inputs
            assert shown["tidings_handle_seconds_sum", node] > 0
            text = exposition.generate_latest(registry).decode()
            assert "# TYPE tidings_drops_total counter" in text
            registry = make_registry(b)
        assert registry.get_sample_value("tidings_streams", {"node": "b"}) == 0

    play(scenario())


def test_reasons_without_end_are_counted_under_one_name() -> None:
    counts = HostCounts()
    for number in range(REASONS_MAX + 10):
        counts.drop(f"reason {number}")
    assert len(counts.drops) == REASONS_MAX + 1
    assert counts.drops[OTHER] == 10
