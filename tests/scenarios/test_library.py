"""The built-in scenarios over many seeds and topologies. TIDINGS_EXAMPLES lengthens this."""

import pytest

from tidings.model.errors import UsageError
from tidings.sim.library import built_in
from tidings.sim.library.gossip import gossip, gossip_churn, ping
from tidings.sim.order import RunOrder, fulfil
from tidings.sim.scenario import Result, Scenario, run_scenario

SEEDS_PER_EXAMPLE = 20
"""One seed for so many of the examples that a property would try."""

CHECKED_SOMETIMES = {"nemesis"}
"""Scenarios with seeds of many hundred filters: their invariants, after every step, take minutes."""


def assert_passed(result: Result, command: str) -> None:
    assert result.passed, "\n".join([*map(str, result.problems), "again with:", f"  {command}"])


@pytest.mark.parametrize("name", sorted(built_in()))
def test_a_built_in_scenario_passes_with_every_seed(name: str, examples: int) -> None:
    definition = built_in()[name]
    for seed in range(max(1, examples // SEEDS_PER_EXAMPLE)):
        order = RunOrder(scenario=name, seed=seed, check="sometimes" if name in CHECKED_SOMETIMES else "every")
        try:
            assert_passed(fulfil(order, definition), order.command())
        except UsageError as absent:
            pytest.skip(str(absent))


@pytest.mark.parametrize(
    "topology", ["chain", "star", "ring", "clique", "balanced_tree", "random_tree", "bounded_tree", "scale_free"]
)
@pytest.mark.parametrize("transport", ["datagram", "stream"])
def test_gossip_converges_on_every_topology(topology: str, transport: str, examples: int) -> None:
    scenario = gossip(nodes=9, topology=topology, transport=transport, loss=0.2)
    for seed in range(1000, 1000 + max(1, examples // (3 * SEEDS_PER_EXAMPLE))):
        command = f"tidings sim run gossip --seed {seed} --set nodes=9 --set topology={topology} --check every"
        result = run_scenario(scenario, seed, check="every")
        assert_passed(result, f"{command} --set transport={transport} --set loss=0.2")


@pytest.mark.parametrize("scenario", [gossip(), ping(), gossip_churn()], ids=lambda scenario: scenario.name)
def test_every_packet_is_accounted_for(scenario: Scenario) -> None:
    counters = run_scenario(scenario, 77).counters
    assert counters.sent + counters.duplicated == counters.received + sum(counters.lost.values()) + counters.in_flight
    assert counters.in_flight >= 0


@pytest.mark.spec("P-12")
def test_churn_can_be_switched_off() -> None:
    assert run_scenario(gossip_churn(), 5).faults
    assert run_scenario(gossip_churn(churn=False), 5).faults == []


def test_nobody_is_wrongly_suspected_for_long_in_a_calm_network() -> None:
    result = run_scenario(ping(crashes=0, dead=0, loss=0.0), 3)
    assert result.passed
    assert result.counters.lost.get("lost by noise") is None
