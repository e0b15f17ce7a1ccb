"""Brokers that take time: order that parallel workers violate, and delays that add up to a hypoexponential."""

import math
from functools import partial
from itertools import pairwise

import pytest

from tidings.machine.effects import Deliver, Effect, Send
from tidings.machine.inputs import Input, Received, Signal
from tidings.machine.streams import random_stream
from tidings.model.errors import UsageError
from tidings.protocols.teaching.ping import Echo
from tidings.sim.hardware import Processing, Station
from tidings.sim.network.latency import Constant
from tidings.sim.node import Draws
from tidings.sim.simulator import Simulator


class Begin(Signal, frozen=True):
    number: int


class Relay:
    """Hands each message on over a stream, or to the application at the end of the chain."""

    def __init__(self, to: str | None, draws: Draws) -> None:
        self.to = to

    def start(self, now: float) -> list[Effect]:
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Begin(number) | Received(_, Echo(number)):
                return [Deliver((number, now))] if self.to is None else [Send(self.to, Echo(number))]
        return []

    def check(self) -> None:
        pass


def chain(brokers: list[Processing], messages: int, rate: float, latency: float) -> list[tuple[int, float]]:
    """Messages that a publisher sends through a chain of brokers: number and delay of each, in order of arrival."""
    simulator = Simulator(5, Constant(latency))
    names = ["publisher", *[f"broker{place}" for place in range(len(brokers))], "subscriber"]
    for place, name in enumerate(names):
        to = names[place + 1] if place + 1 < len(names) else None
        processing = brokers[place - 1] if 0 < place <= len(brokers) else None
        simulator.add(name, partial(Relay, to), processing=processing)
    # The handshakes are over before the first message that counts.
    simulator.inject(0.0, "publisher", Begin(-1))
    for number in range(messages):
        simulator.inject(10 + number / rate, "publisher", Begin(number))
    simulator.run(math.inf)
    delivered = [item for _, item in simulator.delivered("subscriber")]
    return [(number, now - 10 - number / rate) for number, now in delivered if number >= 0]


def violations(delivered: list[tuple[int, float]]) -> int:
    return sum(later < earlier for (earlier, _), (later, _) in pairwise(delivered))


@pytest.mark.spec("T-14")
def test_parallel_brokers_violate_order_at_1200_messages_a_second_and_serial_ones_do_not() -> None:
    parallel = [Processing(workers=16, mean=0.005) for _ in range(3)]
    delivered = chain(parallel, 3000, rate=1200, latency=0.05)
    assert len(delivered) == 3000
    assert violations(delivered) > 0
    serial = [Processing(workers=1, mean=0.0005) for _ in range(3)]
    delivered = chain(serial, 3000, rate=1200, latency=0.05)
    assert len(delivered) == 3000
    assert violations(delivered) == 0


def hypoexponential(means: list[float], value: float) -> float:
    """P(sum of exponentials with these different means <= value)."""
    rates = [1 / mean for mean in means]
    tail = 0.0
    for place, rate in enumerate(rates):
        weight = math.prod(other / (other - rate) for at, other in enumerate(rates) if at != place)
        tail += weight * math.exp(-rate * value)
    return 1 - tail


def distance(sample: list[float], means: list[float]) -> float:
    """Kolmogorov and Smirnov: the largest distance between the two distribution functions."""
    ordered, count = sorted(sample), len(sample)
    expected = [hypoexponential(means, value) for value in ordered]
    return max(max((place + 1) / count - at, at - place / count) for place, at in enumerate(expected))


@pytest.mark.spec("T-15")
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_the_variable_delay_over_n_brokers_is_hypoexponential(count: int) -> None:
    """With workers enough that nobody waits, and far enough apart that streams hold nobody back."""
    means = [0.004 * 1.3**place for place in range(count)]
    brokers = [Processing(workers=256, mean=mean) for mean in means]
    delays = [delay - 0.05 * (count + 1) for _, delay in chain(brokers, 2000, rate=20, latency=0.05)]
    assert len(delays) == 2000
    # Beyond 1.63 / sqrt(n) in one of a hundred cases.
    assert distance(delays, means) < 1.63 / math.sqrt(2000)
    if count > 1:
        assert distance(delays, means[:-1]) > 1.63 / math.sqrt(2000)


def test_a_station_serves_in_order_of_arrival_with_as_many_as_it_has_workers() -> None:
    station = Station(Processing(workers=2, mean=1.0, queue_max=2), random_stream(1, "x"))
    first, second, third = (station.admit(0.0) for _ in range(3))
    assert first is not None
    assert second is not None
    assert third is not None
    assert third > min(first, second)
    assert station.admit(0.0) is not None
    assert station.admit(0.0) is None
    assert station.admit(max(first, second, third) + 100.0) is not None


def test_the_load_that_a_station_carries_is_that_of_its_workers() -> None:
    station = Station(Processing(workers=4, mean=0.01, queue_max=50), random_stream(1, "x"))
    arrivals = [number * 0.001 for number in range(20_000)]
    done = [at for at in map(station.admit, arrivals) if at is not None]
    assert len(done) / 20.0 == pytest.approx(400, rel=0.05)


def test_processing_parameters_out_of_range_are_refused() -> None:
    for workers, mean, queue_max in ((0, 1.0, 1), (1, 0.0, 1), (1, 1.0, -1)):
        with pytest.raises(UsageError):
            Processing(workers, mean, queue_max)


def test_a_single_worker_keeps_order_however_late_things_happen() -> None:
    jitter = 0.01
    station = Station(Processing(workers=1, mean=0.001, queue_max=1000), random_stream(1, "x"), jitter)
    done_at = [station.admit(0.0) for _ in range(500)]
    assert all(later - earlier > jitter for earlier, later in pairwise(filter(None, done_at)))
