"""E17: the rate that TCP would have, by loss and by round trip.

Congestion control lets a flow be as fast as a TCP connection with the same losses and round trips, by the TCP response
function (`protocols/transport/congestion/rates.py`). The source draws it; there is nothing to simulate, so what runs
here is the function itself, against the values of the specification, and for its shape.

One thing can be tried: whether the TCP of our simulator (`sim/network/bandwidth.py`), which later experiments let
compete with the transport, is as fast as the function says. It has a wide link to itself and loses packets at random.
What the function takes is the rate of loss events: packets that are lost from one window are one. It is beside the
rate of lost packets, which is larger where windows are small.

Measured in the run: a function and a TCP flow by itself leave no trace for a metric to read.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Axes, Canvas, Measured, Variant
from tidings.lab.figures import measured_in_runs
from tidings.lab.plots import COLOURS
from tidings.machine.streams import random_stream
from tidings.protocols.transport.congestion.rates import allowed_rate
from tidings.sim.network.bandwidth import DropTail, TcpFlow, TcpParams
from tidings.sim.queue import LadderQueue
from tidings.trace.writer import Writer

ROUND_TRIPS = (0.01, 0.02, 0.05, 0.1, 0.2)
TABLE = {
    0.001: (3838.436, 1919.218, 767.687, 383.844, 191.922),
    0.01: (1123.322, 561.661, 224.664, 112.332, 56.166),
    0.02: (732.490, 366.245, 146.498, 73.249, 36.624),
    0.05: (368.589, 184.294, 73.718, 36.859, 18.429),
    0.1: (177.010, 88.505, 35.402, 17.701, 8.851),
    0.5: (4.174, 2.087, 0.835, 0.417, 0.209),
}
"""Messages a second for each loss rate and round trip (specification, 3.6.1), to three places."""
ROUNDED = 0.0005

BY_LOSS = (0.01, 0.02, 0.1, 0.2)
"""Round trips whose curves over loss rates are drawn; and loss rates whose curves over round trips are."""
BY_ROUND_TRIP = (0.001, 0.01, 0.1)

TRIED = (0.001, 0.005, 0.01, 0.02, 0.05)
ROUND_TRIP_TRIED = 0.1
WIDE_BPS, WIDE_BYTES = 1e9, 10e6


def distance_to_table() -> float:
    """The largest one, beyond what rounding explains, as a share of the value."""
    return max(
        max(0.0, abs(allowed_rate(p, round_trip) - value) - ROUNDED) / value
        for p, values in TABLE.items()
        for round_trip, value in zip(ROUND_TRIPS, values, strict=True)
    )


def fall_with_loss(round_trip: float) -> float:
    """Messages a second that go when losses grow from 1 to 10 %."""
    return allowed_rate(0.01, round_trip) - allowed_rate(0.1, round_trip)


def fall_with_round_trip(p: float) -> float:
    """Messages a second that go when the round trip grows from 10 to 200 ms."""
    return allowed_rate(p, 0.01) - allowed_rate(p, 0.2)


def simulated_tcp(p: float, seed: int, seconds: float) -> TcpFlow:
    """After it ran."""
    queue, link = LadderQueue(), DropTail(WIDE_BPS, WIDE_BYTES)
    params = TcpParams(ROUND_TRIP_TRIED, loss=p)
    flow = TcpFlow(queue, link, params, random_stream(seed, "tcp", p))
    flow.start(0.0)
    queue.run(seconds)
    return flow


def beside_function(p: float, seed: int, seconds: float) -> dict[str, float]:
    """How fast the simulated TCP is against the function, by its loss events and by its losses."""
    flow, group = simulated_tcp(p, seed, seconds), f"{100 * p:g} % lost"
    rate, event_rate = flow.acknowledged / seconds, flow.shrinkings / (flow.acknowledged + flow.lost)
    return {
        f"simulated TCP|{group}": rate / allowed_rate(event_rate, ROUND_TRIP_TRIED),
        f"simulated TCP, by losses|{group}": rate / allowed_rate(p, ROUND_TRIP_TRIED),
        f"timeouts|{group}": flow.timeouts / flow.shrinkings,
    }


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: seconds that a simulated TCP runs."""
    return {
        "distance to the table|": distance_to_table(),
        **{f"falls with loss|{1000 * at:g} ms": fall_with_loss(at) for at in BY_LOSS},
        **{f"falls with round trips|{100 * p:g} % lost": fall_with_round_trip(p) for p in BY_ROUND_TRIP},
        "less with loss at 200 ms|": fall_with_loss(0.2) / fall_with_loss(0.01),
        "steeper at 0.1 %|": fall_with_round_trip(0.001) / fall_with_round_trip(0.1),
        **{name: value for p in TRIED for name, value in beside_function(p, seed, parameters["seconds"]).items()},
    }


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    left, right = canvas.subplots(1, 2)
    losses = [0.01 + 0.001 * step for step in range(91)]
    curves(left, losses, {f"{1000 * at:g} ms": [allowed_rate(p, at) for p in losses] for at in BY_LOSS}, 100)
    left.set(title="by loss, for round trips of", xlabel="% of messages lost")
    trips = [0.01 + 0.002 * step for step in range(96)]
    by_trip = {f"{100 * p:g} % lost": [allowed_rate(p, at) for at in trips] for p in BY_ROUND_TRIP}
    curves(right, trips, by_trip, 1000)
    right.set(title="by round trip", xlabel="milliseconds")


def curves(axes: Axes, places: Sequence[float], lines: Mapping[str, Sequence[float]], scale: float) -> None:
    for colour, (label, values) in zip(COLOURS, lines.items(), strict=False):
        axes.plot([scale * place for place in places], values, color=colour, label=label)
    axes.set_yscale("log")
    axes.set_ylabel("messages a second")
    axes.legend()


EXPERIMENT = define(__file__, run=run, variants=(Variant("function"),), figures=measured_in_runs, plot=plot)
