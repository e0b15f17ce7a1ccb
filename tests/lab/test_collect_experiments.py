"""E1 to E4 and E30 to E41: each of them very small, and what it measures beside plain arithmetic."""

from importlib import import_module
from typing import Any

import pytest

from tidings.lab.peer_to_peer.collect import e1, e2, e30, e35
from tidings.lab.peer_to_peer.collect.gathered import CollectionSetting, seconds_of, seconds_on, shares
from tidings.planning.flows.direct import direct_seconds
from tidings.planning.flows.graph import graph_of
from tidings.trace.writers import RingBuffer
from tidings.workloads.bandwidths import drawn_bandwidths

NUMBERS = (1, 2, 3, 4, *range(30, 42))
TINY: dict[str, Any] = {
    "nodes": 6,
    "sinks": 2,
    "megabytes": 4.0,
    "block_megabytes": 0.5,
    "most": 8,
    "triples": 50,
    "hosts": 20,
}


@pytest.mark.parametrize("number", [n for n in NUMBERS if n not in (1, 30, 39)])
def test_an_experiment_measures_what_it_claims(number: int) -> None:
    module = import_module(f"tidings.lab.peer_to_peer.collect.e{number}")
    found = module.run("collections", TINY, 3, RingBuffer(1))
    figures = {name.split("|")[0] for name in found}
    assert figures == {claim.figure for claim in module.EXPERIMENT.claims}
    assert all(value == value for value in found.values())


def test_direct_transfer_takes_what_arithmetic_says() -> None:
    table = drawn_bandwidths(8, seed=5)
    setting = CollectionSetting(nodes=8, megabytes=20.0, block_megabytes=0.5, strategy="direct")
    bits = 0.5 * 8e6
    graph = graph_of(
        dict.fromkeys(table.hosts[1:], 40),
        {pair: rate / bits for pair, rate in table.rates.items()},
        {name: (table.down[name] / bits, table.up[name] / bits) for name in table.hosts},
    )
    wanted = direct_seconds(graph, table.hosts[0])
    assert seconds_on(table, 0, setting, 5) == pytest.approx(wanted, rel=0.03)


def test_the_pool_of_ten_is_no_quicker_than_all() -> None:
    found = e30.run("collections", TINY | {"nodes": 30}, 4, RingBuffer(1))
    assert found["all to 25|"] <= 1.001 and found["25 to 10|"] <= 1.001


def test_the_example_is_what_the_source_says() -> None:
    assert seconds_on(e1.table(), 2, CollectionSetting(megabytes=50.0, strategy="direct"), 1) == pytest.approx(
        50, abs=2
    )
    assert e2.run("collections", {}, 1, RingBuffer(1)) == {
        "suggested|": pytest.approx(1000 / 3), "dry|": 200.0, "taken|": pytest.approx(1000),
    }  # fmt: skip


def test_gains_are_counted_sink_by_sink() -> None:
    assert shares([0.5, 0.1, 0.01, -0.03]) == {
        "gain": 0.5, "gain a fifth": 0.25, "worst loss": 0.03, "best gain": 0.5, "median gain": pytest.approx(0.055),
    }  # fmt: skip
    tiny = {"nodes": 5, "sinks": 1, "megabytes": 5.0, "block_megabytes": 0.5}
    found = e35.run("collections", tiny, 2, RingBuffer(1))
    gain = 1 - seconds_of(2, 0, tiny) / seconds_of(2, 0, tiny, strategy="direct")
    assert found["median gain|"] == pytest.approx(gain)
