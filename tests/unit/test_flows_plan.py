"""The quickest collection: the source's example, its rules, and plain questions against which it is checked."""

import time
from random import Random

import numpy
import pytest

from tidings.model.errors import UsageError
from tidings.planning.flows.direct import direct_seconds
from tidings.planning.flows.edges import ACCESS, DATA, EdgeArrays
from tidings.planning.flows.graph import (
    AccessRates,
    CollectionGraph,
    DataPath,
    FlowHost,
    Handback,
    graph_of,
)
from tidings.planning.flows.linear import cheapest, enough_peers, exact_horizon, fastest_within, several_sinks
from tidings.planning.flows.plan import CollectionPlan, problems
from tidings.planning.flows.quickest import cancel_circles, is_feasible, quickest
from tidings.workloads.bandwidths import (
    complete_hosts,
    drawn_bandwidths,
    indirection_share,
    skyplane_bandwidths,
    skyplane_prices,
)
from tidings.workloads.recorded import data_folder

EXAMPLE_RATES = {("x", "t"): 1.0, ("y", "t"): 5.0, ("x", "y"): 2.0, ("t", "x"): 1.0, ("t", "y"): 5.0, ("y", "x"): 2.0}
"""Figure 3.1: 1000 MB with x and with y, in blocks of 1 MB."""


def example() -> CollectionGraph:
    return graph_of({"x": 1000, "y": 1000}, EXAMPLE_RATES)


def drawn_graph(draws: Random, hosts: int, is_whole: bool = False) -> CollectionGraph:
    names = [f"h{number}" for number in range(hosts)]

    def rate() -> float:
        return float(draws.randint(1, 12)) if is_whole else draws.lognormvariate(1.0, 0.9)

    paths = {(x, y): rate() for x in names for y in names if x != y and draws.random() < 0.7}
    paths |= {(x, "h0"): rate() for x in names[1:] if draws.random() < 0.8}
    access = {name: (rate() * 2, rate() * 2) for name in names if draws.random() < 0.7}
    return graph_of({name: draws.randint(0, 300) for name in names[1:]}, paths, access)


@pytest.mark.spec("P-85")
def test_a_host_is_three_vertices_with_a_downlink_and_an_uplink_of_its_own() -> None:
    """Section 3.3.1: (x+, x0) with C+, (x0, x-) with C-, paths from x- to y+."""
    graph = graph_of({"x": 5}, {("x", "t"): 3.0}, {"x": (7.0, 2.0), "t": (4.0, 9.0)})
    edges = EdgeArrays(graph, "t")
    assert edges.vertices == 1 + 2 * 3
    access = sorted(edges.rates[edges.kinds == ACCESS])
    assert access == [2.0, 4.0, 7.0], "the sink keeps what it has: its uplink is no edge"
    assert quickest(graph, "t").horizon == 3, "5 blocks over an uplink of 2 a second"


@pytest.mark.spec("P-86")
def test_a_host_with_two_providers_is_five_vertices_and_four_edges() -> None:
    two = FlowHost(60, (AccessRates(1.0, 2.0), AccessRates(3.0, 4.0)))
    hosts = {"x": two, "t": FlowHost()}
    paths = (DataPath("x", "t", 10.0, 0, 0), DataPath("x", "t", 10.0, 1, 0))
    edges = EdgeArrays(CollectionGraph(hosts, paths), "t")
    inner = {*edges.tails[edges.kinds == ACCESS], *edges.heads[edges.kinds == ACCESS]}
    ours = [place for place in numpy.flatnonzero(edges.kinds == ACCESS) if edges.senders[place] == 0]
    assert len(ours) == 4 and len(inner) - 2 == 5
    assert quickest(CollectionGraph(hosts, paths), "t").horizon == 10, "60 blocks over uplinks of 2 and 4"


@pytest.mark.spec("P-87")
def test_only_network_edges_grow_with_time() -> None:
    edges = EdgeArrays(example(), "t")
    once, ten = edges.capacities(1, 1, 10**6), edges.capacities(10, 1, 10**6)
    is_limited = edges.is_network & numpy.isfinite(edges.rates)
    assert list(ten[is_limited]) == [10 * each for each in once[is_limited]]
    assert list(ten[edges.kinds == DATA]) == list(once[edges.kinds == DATA]) == [1000, 1000]


@pytest.mark.spec("P-89")
def test_the_example_takes_334_seconds_where_direct_takes_1000() -> None:
    graph = example()
    plan = quickest(graph, "t")
    assert plan.horizon == 334 and list(problems(graph, plan)) == []
    assert exact_horizon(graph, "t") == pytest.approx(1000 / 3)
    assert direct_seconds(graph, "t") == pytest.approx(1000)
    # First its own file at 5 a second, then that of x, which had come at 2: section 3.1.
    own, relayed = graph_of({"y": 1000}, {("y", "t"): 5.0}), graph_of({"x": 1000}, {("x", "y"): 2.0, ("y", "t"): 5.0})
    assert direct_seconds(own, "t") + quickest(relayed, "t").horizon == pytest.approx(700)


@pytest.mark.spec("P-88")
def test_the_horizon_is_the_smallest_whole_number_at_which_all_flows() -> None:
    assert not is_feasible(example(), "t", 333) and is_feasible(example(), "t", 334)
    draws = Random(88)
    for _ in range(60):
        graph = drawn_graph(draws, draws.randint(2, 9))
        plan = quickest(graph, "h0")
        if plan.horizon and not plan.added:
            assert is_feasible(graph, "h0", plan.horizon) and not is_feasible(graph, "h0", plan.horizon - 1)


@pytest.mark.spec("P-90")
def test_a_plan_keeps_every_block_and_every_rate() -> None:
    draws = Random(90)
    for case in range(120):
        graph = drawn_graph(draws, draws.randint(2, 12), is_whole=case % 2 == 0)
        plan = quickest(graph, "h0")
        assert list(problems(graph, plan)) == []
        if case % 2 == 0:
            rates = {(path.sender, path.receiver): path.rate for path in (*graph.paths, *plan.added)}
            assert all(blocks <= plan.horizon * rates[pair] for pair, blocks in plan.sends.items()), "whole rates fit"


def test_what_is_wrong_with_a_plan_is_said() -> None:
    graph = example()
    late = CollectionPlan("t", 300, {("x", "t"): 334, ("y", "t"): 1666, ("x", "y"): 666})
    assert any("1666 blocks in 300 s" in each for each in problems(graph, late))
    lossy = CollectionPlan("t", 400, {("x", "t"): 334, ("y", "t"): 1600, ("x", "y"): 666})
    assert any("y sends 1600 blocks and has 1666" in each for each in problems(graph, lossy))
    assert any("1934 of 2000" in each for each in problems(graph, lossy))


@pytest.mark.spec("P-91")
def test_no_plan_is_slower_than_direct_transfer() -> None:
    draws = Random(91)
    for _ in range(80):
        graph = drawn_graph(draws, draws.randint(2, 10))
        names = list(graph.hosts)
        there = {(path.sender, path.receiver) for path in graph.paths}
        missing = tuple(DataPath(x, "h0", 1.0) for x in names if x != "h0" and (x, "h0") not in there)
        graph = CollectionGraph(graph.hosts, graph.paths + missing)
        assert quickest(graph, "h0").horizon <= numpy.ceil(direct_seconds(graph, "h0") - 1e-6)


@pytest.mark.spec("P-92")
def test_more_room_or_less_to_bring_is_never_slower() -> None:
    draws = Random(92)
    for _ in range(60):
        graph = drawn_graph(draws, draws.randint(2, 8))
        plan = quickest(graph, "h0")
        if plan.added:
            continue
        wider = tuple(DataPath(p.sender, p.receiver, p.rate * draws.choice([1.0, 1.5])) for p in graph.paths)
        assert quickest(CollectionGraph(graph.hosts, wider), "h0").horizon <= plan.horizon
        less = {name: FlowHost(host.blocks * 2 // 3, host.providers) for name, host in graph.hosts.items()}
        assert quickest(CollectionGraph(less, graph.paths), "h0").horizon <= plan.horizon
        access = {
            name: FlowHost(host.blocks, tuple(AccessRates(each.down * 1.2, each.up * 1.2) for each in host.providers))
            for name, host in graph.hosts.items()
        }
        assert quickest(CollectionGraph(access, graph.paths), "h0").horizon <= plan.horizon


@pytest.mark.spec("P-93")
def test_it_agrees_with_the_linear_program_on_200_random_graphs() -> None:
    draws = Random(93)
    for _ in range(200):
        graph = drawn_graph(draws, draws.randint(2, 12))
        found, exact = quickest(graph, "h0").horizon, exact_horizon(graph, "h0")
        assert exact - 1e-6 <= found <= 1.01 * exact + 1


@pytest.mark.spec("P-94")
def test_a_hundred_hosts_all_linked_take_half_a_second_and_five_hundred_five() -> None:
    """By processor time, of which it takes a tenth of that."""
    for hosts, limit in ((100, 0.5), (500, 5.0)):
        table = drawn_bandwidths(hosts, seed=hosts)
        rates = {pair: rate / 8e6 for pair, rate in table.rates.items()}
        access = {name: (table.down[name] / 8e6, table.up[name] / 8e6) for name in table.hosts}
        graph = graph_of(dict.fromkeys(table.hosts[1:], 100), rates, access)
        began = time.process_time()
        plan = quickest(graph, table.hosts[0])
        assert time.process_time() - began <= limit
        assert list(problems(graph, plan)) == []


@pytest.mark.spec("P-95")
def test_a_source_without_a_way_to_the_sink_is_given_one_that_is_slow() -> None:
    graph = graph_of({"x": 10, "lone": 20}, {("x", "t"): 4.0, ("x", "lone"): 2.0})
    plan = quickest(graph, "t")
    assert plan.added == (DataPath("lone", "t", 2.0),), "as slow as the slowest path that is known"
    assert plan.sends == {("x", "t"): 10, ("lone", "t"): 20} and plan.horizon == 10
    with pytest.raises(UsageError, match="uplink is 0"):
        quickest(graph_of({"x": 1}, {("x", "t"): 1.0}, {"x": (1.0, 0.0)}), "t")


@pytest.mark.spec("P-115")
def test_handing_back_never_makes_a_collection_slower() -> None:
    draws = Random(115)
    for _ in range(60):
        graph = drawn_graph(draws, draws.randint(3, 9))
        names = [name for name in graph.hosts if name != "h0"]
        back = tuple(
            Handback(holder, origin, draws.randint(0, graph.hosts[holder].blocks))
            for holder, origin in (draws.sample(names, 2) for _ in range(4))
        )
        plan = quickest(CollectionGraph(graph.hosts, graph.paths, back), "h0")
        assert plan.horizon <= quickest(graph, "h0").horizon
        assert list(problems(CollectionGraph(graph.hosts, graph.paths, back), plan)) == []


def test_a_block_that_is_held_twice_goes_by_the_quicker_way() -> None:
    graph = graph_of({"slow": 100}, {("slow", "t"): 1.0, ("fast", "t"): 10.0}, {"fast": (0.0, 10.0)})
    assert quickest(graph, "t").horizon == 100
    back = CollectionGraph(graph.hosts, graph.paths, (Handback("slow", "fast", 100),))
    plan = quickest(back, "t")
    assert plan.horizon == 10 and plan.handbacks[("slow", "fast")] >= 90


def test_circles_are_taken_out_and_nothing_else() -> None:
    sends = {("a", "b"): 5, ("b", "c"): 3, ("c", "a"): 3, ("b", "t"): 2, ("c", "t"): 1}
    cancel_circles(sends, {})
    assert sends == {("a", "b"): 2, ("b", "t"): 2, ("c", "t"): 1}
    mixed, back = {("x", "y"): 4}, {("y", "x"): 6}
    cancel_circles(mixed, back)
    assert (mixed, back) == ({}, {("y", "x"): 2})


def test_relays_without_data_carry_what_they_can() -> None:
    """F-11."""
    direct = {("x", "t"): 1.0, ("y", "t"): 1.0}
    relay = direct | {("x", "r"): 5.0, ("y", "r"): 5.0, ("r", "t"): 8.0}
    assert quickest(graph_of({"x": 100, "y": 100}, direct), "t").horizon == 100
    plan = quickest(graph_of({"x": 100, "y": 100}, relay), "t")
    assert plan.horizon == 20 and plan.relays() == {"r": 160}


def test_two_sinks_share_what_there_is() -> None:
    """F-1."""
    paths = {("x", "s"): 4.0, ("x", "t"): 4.0}
    graph = graph_of({"x": 100}, paths, {"x": (9.0, 5.0)})
    assert exact_horizon(graph, "s") == pytest.approx(25)
    both = several_sinks({"s": graph, "t": graph})
    assert both.seconds == pytest.approx(40), "200 blocks leave over an uplink of 5 a second"
    assert sum(both.sends["s"].values()) == pytest.approx(100)


def test_a_degree_grows_until_the_sink_is_full() -> None:
    """F-10."""
    graph = graph_of({"a": 1, "b": 1, "c": 1}, {("a", "t"): 2.0, ("b", "t"): 2.0, ("c", "t"): 2.0}, {"t": (3.0, 1.0)})
    assert enough_peers(graph, "t", ["a", "b", "c"]) == 2
    assert enough_peers(graph, "t", ["a"]) == 1


def test_money_and_time_are_held_against_each_other() -> None:
    graph = graph_of({"x": 100}, {("x", "t"): 1.0, ("x", "r"): 4.0, ("r", "t"): 4.0})
    prices = {("x", "t"): 1.0, ("x", "r"): 3.0, ("r", "t"): 2.0}
    slow = cheapest(graph, "t", prices, seconds=100)
    assert slow is not None and slow.price == pytest.approx(100)
    quick = cheapest(graph, "t", prices, seconds=50)
    assert quick is not None and quick.price == pytest.approx(50 * 1 + 50 * 5)
    assert cheapest(graph, "t", prices, seconds=10) is None, "at no price"
    fastest = fastest_within(graph, "t", prices, price=quick.price)
    assert fastest is not None and fastest.seconds == pytest.approx(50)


@pytest.mark.skipif(data_folder() is None, reason="the Skyplane grid is not there (TIDINGS_DATA)")
def test_on_the_grid_of_three_clouds_time_costs_money() -> None:
    rates, prices = skyplane_bandwidths(), skyplane_prices()
    table = complete_hosts(rates, 12, seed=3)
    assert len(table.hosts) == 12
    blocks = {pair: rate / 8e9 for pair, rate in table.rates.items()}
    access = {name: (table.down[name] / 8e9, table.up[name] / 8e9) for name in table.hosts}
    graph, sink = graph_of(dict.fromkeys(table.hosts[1:], 50), blocks, access), table.hosts[0]
    soonest = exact_horizon(graph, sink)
    at_once, later = cheapest(graph, sink, prices, soonest * 1.001), cheapest(graph, sink, prices, soonest * 3)
    assert at_once is not None and later is not None and later.price <= at_once.price
    within = fastest_within(graph, sink, prices, later.price)
    assert within is not None and soonest - 1e-6 <= within.seconds <= soonest * 3 + 1e-6


@pytest.mark.spec("P-123")
def test_only_hosts_with_complete_data_are_kept_and_one_of_each_domain() -> None:
    names = ["a.x.org", "b.x.org", "c.y.org", "d.z.org", "e.w.org"]
    rates = {(x, y): 1.0 for x in names for y in names if x != y}
    del rates["c.y.org", "d.z.org"]
    for seed in range(20):
        table = complete_hosts(rates, 5, seed)
        assert all((x, y) in table.rates for x in table.hosts for y in table.hosts if x != y)
        assert len({host.split(".", 1)[1] for host in table.hosts}) == len(table.hosts) == 3
        assert not {"c.y.org", "d.z.org"} <= set(table.hosts)


@pytest.mark.spec("P-124")
def test_the_access_of_a_host_is_the_highest_bandwidth_seen_at_it() -> None:
    table = complete_hosts(
        {("a", "b"): 3.0, ("b", "a"): 5.0, ("a", "c"): 7.0, ("c", "a"): 1.0, ("b", "c"): 2.0, ("c", "b"): 2.0}, 3, 1
    )
    assert (table.up["a"], table.down["a"], table.up["b"], table.down["b"]) == (7.0, 5.0, 5.0, 3.0)


def test_a_third_of_random_pairs_gain_from_a_relay() -> None:
    """Section 3.1 has 37 % of links; drawn ones, 33 to 40 %."""
    assert 0.30 <= indirection_share(drawn_bandwidths(50, seed=4), 5000, seed=4) <= 0.40


@pytest.mark.parametrize(
    ("graph", "says"),
    [
        (graph_of({"x": 1}, {("x", "y"): 1.0}), "no host 't'"),
        (graph_of({"x": -1}, {("x", "t"): 1.0}), "holds -1"),
        (graph_of({"x": 1}, {("x", "t"): float("nan")}), "no rate"),
        (CollectionGraph({"x": FlowHost(), "t": FlowHost()}, (DataPath("x", "t", 1.0, 1),)), "with that provider"),
        (CollectionGraph({"x": FlowHost(), "t": FlowHost()}, (DataPath("x", "t", 1.0),) * 2), "twice"),
        (CollectionGraph({"t": FlowHost()}, (), (Handback("t", "u", 3),)), "known hosts"),
    ],
)
def test_a_graph_that_makes_no_sense_is_refused(graph: CollectionGraph, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        quickest(graph, "t")
