"""`python -m bench.simulator`: how many messages the simulated world carries in a second of CPU time.

Beside it, in the same run, stand a bare loop around `heapq` and simpy, the usual discrete-event library, in its two
styles: a process for each token that waits for one time-out after another, and a mailbox (`Store`) for each node.

- The *kernel* rows carry tokens that hop between 2,000 nodes; a handler is a few lines and nothing else happens.
- The *ping* rows run the ping protocol through the whole contract: messages and effects as values, named timers, a
  network that decides the fate of each packet. A message is one delivery.
- *Growth* compares the cost of a message among 100 and among 10,000 nodes; *memory* is the peak of a process that
  simulates a million deliveries among 10,000 nodes.

All times are CPU time; contenders take turns, and the median of three rounds counts. The garbage collector is off for
all of them. Use the ratios: absolute figures move with the load of the machine.
"""

import argparse
import gc
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import simpy

from tidings.protocols.teaching.ping import Ping, PingParams
from tidings.sim.network.latency import Drawn, Uniform
from tidings.sim.node import Draws
from tidings.sim.queue import HeapQueue, LadderQueue, Queue
from tidings.sim.simulator import Simulator
from tidings.trace.writers import open_writer

NODES, DEGREE, TOKENS = 2000, 8, 4000
ROUNDS = 3
MEMORY_DELIVERIES = 1_000_000
PARAMS = PingParams()

Measure = Callable[[float], tuple[int, float]]
"""Simulates so many seconds; how many messages were carried, and the CPU seconds that took."""


class Goal(NamedTuple):
    text: str
    measured: float
    limit: float
    at_least: bool

    @property
    def is_reached(self) -> bool:
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit


class Graph:
    """Each node has neighbours, and a delay to each; the same for all contenders."""

    def __init__(self) -> None:
        state = 12345
        self.neighbours: list[list[int]] = []
        self.delays: list[list[float]] = []
        for _ in range(NODES):
            neighbours, delays = [], []
            for _ in range(DEGREE):
                state = (state * 1103515245 + 12345) & 0x7FFFFFFF
                neighbours.append((state >> 8) % NODES)
                delays.append(0.001 + ((state >> 4) % 1000) / 20000.0)
            self.neighbours.append(neighbours)
            self.delays.append(delays)


class Hopper:
    """A node of the token model: hands each token on to a neighbour, drawn by a small generator of its own."""

    __slots__ = ("count", "delays", "neighbours", "state")

    def __init__(self, graph: Graph, number: int) -> None:
        self.neighbours, self.delays = graph.neighbours[number], graph.delays[number]
        self.state, self.count = number * 7919 + 1, 0

    def draw(self) -> int:
        self.count += 1
        self.state = (self.state * 1103515245 + 12345) & 0x7FFFFFFF
        return (self.state >> 8) % DEGREE


def begin_at(token: int) -> float:
    return 0.0001 * (token % 97)


def cpu_seconds(run: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()
    try:
        begin = time.process_time()
        run()
        return time.process_time() - begin
    finally:
        gc.enable()


def hop_on_queue(make: Callable[[], Queue], graph: Graph, seconds: float) -> tuple[int, float]:
    queue = make()

    class Node(Hopper):
        __slots__ = ()

        def take(self, now: float, token: int) -> None:
            place = self.draw()
            queue.push(now + self.delays[place], nodes[self.neighbours[place]].take, token + 1)

    nodes = [Node(graph, number) for number in range(NODES)]
    for token in range(TOKENS):
        queue.push(begin_at(token), nodes[token % NODES].take, token)
    spent = cpu_seconds(lambda: queue.run(seconds))
    return sum(node.count for node in nodes), spent


def hop_on_timeouts(graph: Graph, seconds: float) -> tuple[int, float]:
    environment = simpy.Environment()
    nodes = [Hopper(graph, number) for number in range(NODES)]

    def hop(number: int, token: int) -> Generator[Any, Any, None]:
        yield environment.timeout(begin_at(token))
        while True:
            node = nodes[number]
            place = node.draw()
            yield environment.timeout(node.delays[place])
            number, token = node.neighbours[place], token + 1

    for token in range(TOKENS):
        environment.process(hop(token % NODES, token))
    spent = cpu_seconds(lambda: environment.run(until=seconds))
    return sum(node.count for node in nodes), spent


def hop_on_mailboxes(graph: Graph, seconds: float) -> tuple[int, float]:
    environment = simpy.Environment()
    nodes = [Hopper(graph, number) for number in range(NODES)]
    mailboxes = [simpy.Store(environment) for _ in nodes]

    def read(number: int) -> Generator[Any, Any, None]:
        node = nodes[number]
        while True:
            token = yield mailboxes[number].get()
            place = node.draw()
            environment.process(carry(node.neighbours[place], token + 1, node.delays[place]))

    def carry(number: int, token: int, delay: float) -> Generator[Any, Any, None]:
        yield environment.timeout(delay)
        yield mailboxes[number].put(token)

    for number in range(NODES):
        environment.process(read(number))
    for token in range(TOKENS):
        environment.process(carry(token % NODES, token, begin_at(token)))
    spent = cpu_seconds(lambda: environment.run(until=seconds))
    return sum(node.count for node in nodes), spent


def make_ping(neighbours: list[str], draws: Draws) -> Ping:
    return Ping(neighbours, PARAMS, draws("ping"))


def ping_network(nodes: int, **options: Any) -> Simulator:
    """A network in which every node pings eight others once a second; the first second is over."""
    simulator = Simulator(7, Drawn(Uniform(0.001, 0.051)), **options)
    for number in range(nodes):
        neighbours = [f"n{(number + 1 + step * step * 7) % nodes}" for step in range(DEGREE)]
        simulator.add(f"n{number}", partial(make_ping, neighbours))
    simulator.run(1.0)
    return simulator


def ping(nodes: int, seconds: float, checking: bool = False, traced: bool = False) -> tuple[int, float]:
    with tempfile.TemporaryDirectory() as folder:
        trace = open_writer(Path(folder) / "ping.parquet", run="bench", seed=7) if traced else None
        simulator = ping_network(nodes, checking=checking, trace=trace)
        before = simulator.counters().received

        def run() -> None:
            simulator.run(1.0 + seconds)
            if trace is not None:
                trace.close()

        spent = cpu_seconds(run)
        return simulator.counters().received - before, spent


def contenders(scale: float) -> dict[str, tuple[Measure, float]]:
    """Each with the simulated seconds that make a round of about a second of CPU time."""
    graph = Graph()
    return {
        "simpy mailboxes": (partial(hop_on_mailboxes, graph), 0.4 * scale),
        "simpy time-outs": (partial(hop_on_timeouts, graph), 1.5 * scale),
        "heapq loop": (partial(hop_on_queue, HeapQueue, graph), 2.0 * scale),
        "kernel": (partial(hop_on_queue, LadderQueue, graph), 3.0 * scale),
        "ping": (partial(ping, 500), 30.0 * scale),
        "ping, traced to Parquet": (partial(ping, 500, traced=True), 30.0 * scale),
        "ping, checking": (partial(ping, 500, checking=True), 12.0 * scale),
        "ping, 100 nodes": (partial(ping, 100), 120.0 * scale),
        "ping, 10,000 nodes": (partial(ping, 10_000), 1.2 * scale),
    }


def measure(scale: float) -> dict[str, list[float]]:
    """Messages per CPU second of each contender, one figure for each round."""
    setup = contenders(scale)
    rates: dict[str, list[float]] = {name: [] for name in setup}
    for _ in range(ROUNDS):
        for name, (run, seconds) in setup.items():
            count, spent = run(seconds)
            rates[name].append(count / spent)
    return rates


def million_deliveries() -> None:
    """In a process of its own: a million deliveries among 10,000 nodes, and the peak of memory."""
    simulator = ping_network(10_000)
    while (received := simulator.counters().received) < MEMORY_DELIVERIES:
        simulator.run(simulator.now + 0.5)
    print(json.dumps({"received": received, "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


def peak_gibibytes() -> float:
    command = [sys.executable, "-m", "bench.simulator", "--million"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(json.loads(answer)["peak_bytes"]) / 2**30


def goals(rates: dict[str, list[float]], peak: float) -> list[Goal]:
    rate = {name: median(figures) for name, figures in rates.items()}
    return [
        Goal("kernel / simpy time-outs", rate["kernel"] / rate["simpy time-outs"], 2.0, True),
        Goal("kernel / simpy mailboxes", rate["kernel"] / rate["simpy mailboxes"], 8.0, True),
        Goal("kernel / heapq loop", rate["kernel"] / rate["heapq loop"], 1.0, True),
        Goal("ping / simpy mailboxes", rate["ping"] / rate["simpy mailboxes"], 3.0, True),
        Goal("cost of ping: traced / not traced", rate["ping"] / rate["ping, traced to Parquet"], 1.4, False),
        Goal("cost of a message: 10,000 / 100 nodes", rate["ping, 100 nodes"] / rate["ping, 10,000 nodes"], 2.0, False),
        Goal("GiB for a million deliveries among 10,000 nodes", peak, 2.0, False),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.simulator", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="rounds of a tenth of the length")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--million", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.million:
        million_deliveries()
        return 0
    rates = measure(0.1 if arguments.quick else 1.0)
    reached = goals(rates, peak_gibibytes())
    if arguments.json:
        rows = [{"goal": goal.text, "measured": goal.measured, "limit": goal.limit} for goal in reached]
        print(json.dumps({"messages_per_cpu_second": rates, "goals": rows}, indent=1))
        return 0
    print(f"{'messages per CPU second':<44}{'median':>12}{'least':>12}{'most':>12}")
    for name, figures in rates.items():
        print(f"{name:<44}{median(figures):>12,.0f}{min(figures):>12,.0f}{max(figures):>12,.0f}")
    print(f"\n{'goal':<52}{'measured':>10}{'limit':>12}")
    for goal in reached:
        limit = f"{'>=' if goal.at_least else '<='} {goal.limit:g}"
        print(f"{goal.text:<52}{goal.measured:>10.2f}{limit:>12}  {'reached' if goal.is_reached else 'missed'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
