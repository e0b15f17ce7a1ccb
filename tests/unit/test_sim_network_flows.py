"""Bulk flows that share capacity, and TCP connections that compete for it."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.machine.effects import Transport
from tidings.machine.streams import random_stream
from tidings.model.errors import UsageError
from tidings.sim.network.bandwidth import Bandwidth, DropTail, TcpFlow, TcpParams, TcpVariant
from tidings.sim.network.flows import Flows, Transfers
from tidings.sim.network.latency import Constant
from tidings.sim.queue import LadderQueue
from tidings.sim.simulator import Simulator

LINKS = ("x", "y", "z", "w")
capacities = st.fixed_dictionaries({link: st.floats(0.1, 100.0) for link in LINKS})
paths = st.lists(st.sampled_from(LINKS), min_size=1, max_size=3, unique=True)
limits = st.one_of(st.just(math.inf), st.floats(0.01, 50.0))
ROUNDING = 1e-9


@given(capacities, st.lists(st.tuples(paths, limits), max_size=8))
def test_rates_are_max_min_fair_and_fill_no_link_beyond_its_capacity(
    capacities: dict[str, float], wanted: list[tuple[list[str], float]]
) -> None:
    """By definition: who could have more has a full link on its path where nobody has more than it."""
    flows = Flows(capacities)
    for name, (path, limit) in enumerate(wanted):
        flows.start(0.0, name, path, rate_bps_max=limit)
    used = {link: sum(flow.rate_bps for flow in flows.flows.values() if link in flow.path) for link in capacities}
    for link, capacity in capacities.items():
        assert used[link] <= capacity * (1 + ROUNDING)
    for flow in flows.flows.values():
        assert flow.rate_bps <= flow.rate_bps_max * (1 + ROUNDING)
        if flow.rate_bps < flow.rate_bps_max * (1 - ROUNDING):
            assert any(
                used[link] >= capacities[link] * (1 - ROUNDING)
                and all(
                    other.rate_bps <= flow.rate_bps * (1 + ROUNDING)
                    for other in flows.flows.values()
                    if link in other.path
                )
                for link in flow.path
            )


@given(capacities, st.lists(st.tuples(st.floats(0, 10), paths, st.floats(1, 100)), min_size=1, max_size=6))
def test_every_transfer_ends_and_carries_exactly_its_bytes(
    capacities: dict[str, float], wanted: list[tuple[float, list[str], float]]
) -> None:
    simulator = Simulator(1, Constant(0.0))
    transfers = Transfers(simulator, Flows(capacities))
    ended: dict[int, float] = {}

    def begin(name: int, path: list[str], size: float) -> None:
        transfers.start(name, path, size, lambda now: ended.update({name: now}))

    for name, (at, path, size) in enumerate(wanted):
        simulator.call_at(at, partial(begin, name, path, size))
    simulator.run(math.inf)
    assert sorted(ended) == list(range(len(wanted)))
    for name, (at, path, size) in enumerate(wanted):
        fastest = size * 8 / min(capacities[link] for link in path)
        assert ended[name] >= at + fastest * (1 - ROUNDING)
    total = sum(size * 8 for _, _, size in wanted)
    assert max(ended.values()) <= max(at for at, _, _ in wanted) + total / min(capacities.values()) * (1 + ROUNDING)


def test_two_transfers_share_a_link_and_the_second_speeds_up_when_the_first_ends() -> None:
    simulator = Simulator(1, Constant(0.0))
    transfers = Transfers(simulator, Flows({"link": 8e6}))
    ends: list[tuple[str, float]] = []
    transfers.start("small", ["link"], 1e6, lambda now: ends.append(("small", now)))
    transfers.start("large", ["link"], 2e6, lambda now: ends.append(("large", now)))
    simulator.run(10.0)
    assert [name for name, _ in ends] == ["small", "large"]
    assert [at for _, at in ends] == pytest.approx([2.0, 3.0])


def test_a_transfer_that_is_stopped_says_what_is_left_and_a_new_capacity_counts_at_once() -> None:
    simulator = Simulator(1, Constant(0.0))
    transfers = Transfers(simulator, Flows({"link": 8e6}))
    ends: list[float] = []
    transfers.start("a", ["link"], 3e6, ends.append)
    transfers.start("b", ["link"], 3e6, ends.append)
    simulator.run(2.0)
    assert transfers.stop("b") == pytest.approx(2e6)
    transfers.set_capacity("link", 4e6)
    simulator.run(20.0)
    assert ends == pytest.approx([6.0])


def test_flows_refuse_what_they_cannot_do() -> None:
    flows = Flows({"x": 1.0})
    flows.start(1.0, "a", ["x"])
    wrong: list[Callable[[], object]] = [
        lambda: flows.start(1.0, "a", ["x"]),
        lambda: flows.start(1.0, "b", ["nowhere"]),
        lambda: flows.start(1.0, "b", []),
        lambda: flows.stop(1.0, "b"),
        lambda: flows.advance(0.5),
        lambda: Flows({"x": 0.0}),
    ]
    for call in wrong:
        with pytest.raises(UsageError):
            call()
    assert flows.next_end() is None


def run_flows(link: DropTail, *params: TcpParams, seconds: float = 200.0, skip: float = 20.0) -> list[float]:
    """Throughput of each flow in bit/s, without the first seconds."""
    queue = LadderQueue()
    flows = [TcpFlow(queue, link, each, random_stream(number, "tcp")) for number, each in enumerate(params)]
    for number, flow in enumerate(flows):
        queue.push(0.1 * number, lambda now, flow: flow.start(now), flow)
    queue.run(skip)
    before = [flow.acknowledged for flow in flows]
    queue.run(skip + seconds)
    for flow in flows:
        assert flow.in_flight <= flow.window + 1 or flow.shrinkings
    return [
        (flow.acknowledged - earlier) * flow.params.packet_bytes * 8 / seconds
        for flow, earlier in zip(flows, before, strict=True)
    ]


@pytest.mark.parametrize("variant", list(TcpVariant))
def test_one_flow_alone_fills_the_link(variant: TcpVariant) -> None:
    (throughput,) = run_flows(DropTail(4e6, 30_000), TcpParams(0.04, variant))
    assert throughput == pytest.approx(4e6, rel=0.03)


@pytest.mark.parametrize("variant", list(TcpVariant))
def test_two_equal_flows_share_the_link_equally(variant: TcpVariant) -> None:
    params = TcpParams(0.04, variant)
    one, other = run_flows(DropTail(4e6, 25_000), params, params, seconds=400.0)
    assert one + other == pytest.approx(4e6, rel=0.03)
    assert one == pytest.approx(other, rel=0.06)


@pytest.mark.parametrize("loss", [0.0005, 0.002, 0.01])
def test_reno_follows_the_square_root_law(loss: float) -> None:
    """The factor is 1.22 when losses come at equal intervals and 1.31 when they are independent, as here."""
    params = TcpParams(0.1, TcpVariant.RENO, loss=loss)
    (throughput,) = run_flows(DropTail(1e9, 10_000_000), params, seconds=400.0)
    assert throughput == pytest.approx(1500 * 8 / 0.1 * 1.31 / math.sqrt(loss), rel=0.1)


@pytest.mark.parametrize("loss", [0.01, 0.05, 0.1])
def test_reno_with_small_windows_waits_for_time_outs_and_is_as_fast_as_the_response_function(loss: float) -> None:
    """As there, losses at random allow up to 7 % more than losses at equal intervals, for which the function is."""
    queue, round_trip = LadderQueue(), 0.1
    flow = TcpFlow(queue, DropTail(1e9, 10_000_000), TcpParams(round_trip, loss=loss), random_stream(1, "tcp"))
    flow.start(0.0)
    queue.run(1000.0)
    p = flow.shrinkings / (flow.acknowledged + flow.lost)
    allowed = 1 / (round_trip * (math.sqrt(2 * p / 3) + 12 * math.sqrt(3 * p / 8) * p * (1 + 32 * p**2)))
    assert flow.acknowledged / 1000 == pytest.approx(1.07 * allowed, rel=0.15)
    assert flow.timeouts / flow.shrinkings > loss
    assert flow.in_flight >= 0


def test_cubic_is_faster_than_reno_on_a_long_fat_link_and_no_slower_on_a_short_one() -> None:
    for round_trip, loss, at_least in ((0.2, 0.0003, 1.3), (0.01, 0.01, 0.8)):
        reno, cubic = (
            run_flows(DropTail(1e9, 10_000_000), TcpParams(round_trip, variant, loss=loss), seconds=100.0)[0]
            for variant in (TcpVariant.RENO, TcpVariant.CUBIC)
        )
        assert cubic / reno >= at_least


def test_a_flow_with_half_the_round_trip_gets_more() -> None:
    near, far = run_flows(DropTail(10e6, 30_000), TcpParams(0.02), TcpParams(0.08))
    assert near > 1.5 * far


def test_flows_delay_the_messages_that_share_their_link_and_have_some_of_them_dropped() -> None:
    network = Bandwidth(Constant(0.01), 2e6, queue_bytes_max=15_000, link_of=lambda sender, to: "bottleneck")
    simulator = Simulator(1, network)
    link = network.link("bottleneck")
    flows = [TcpFlow(simulator.queue, link, TcpParams(0.04), random_stream(number, "tcp")) for number in range(4)]
    for flow in flows:
        flow.start(0.0)
    fates = []
    for number in range(1, 1001):
        simulator.run(number * 0.05)
        fates.append(network.fate(simulator.now, "a", "b", 1400, Transport.DATAGRAM))
    delays = sorted(fate[0] for fate in fates if fate)
    assert 0 < len(fates) - len(delays) < 400
    assert delays[len(delays) // 2] > 0.03
    for flow in flows:
        flow.stop()
    simulator.run(simulator.now + 1.0)
    assert network.fate(simulator.now, "a", "b", 210, Transport.DATAGRAM)[0] == pytest.approx(0.011)


def test_tcp_parameters_out_of_range_are_refused() -> None:
    wrongs: list[dict[str, Any]] = [
        {"round_trip": 0.0},
        {"round_trip": 0.1, "loss": 2.0},
        {"round_trip": 0.1, "window_max": 1.0},
    ]
    for wrong in wrongs:
        with pytest.raises(UsageError):
            TcpParams(**wrong)
