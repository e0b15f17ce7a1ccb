"""`python -m bench.transport`: what order, recovery and congestion control cost, in CPU time and in bytes.

- *Machine*: a transport alone takes events that arrive in order, as bytes, and hands them over. All that it does in
  between counts, timers and messages of its own included; the carrier is a list. Beside it the publisher's side: from
  attributes that were encoded to the bytes that leave.
- *Client*: processes on sockets, a broker between them; what counts is the CPU time of the receiving process for each
  event that its application takes, and of the publishing one. The plain client stands in the same table.
- *Bytes*: what an event takes on the wire, head and payload, plain and with headers of several kinds, on a stream of
  quotes that repeats itself. Records that are compressed tell of as many events in fewer bytes.

The target is that all three together add no more than 25 microseconds for each event in the receiving client, with a
record of 10 events. Times are CPU time of the process; contenders take turns, and the median of the rounds counts.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from random import Random
from statistics import median

from rich.console import Console

from bench.brokers.servers import TIDINGS, Server
from bench.report import Grid, print_grid
from bench.timing import frozen_heap
from bench.transport_client import MODES, RECORD
from tidings.machine.effects import CancelTimer, Deliver, Effect, SetTimer
from tidings.machine.inputs import Fired, Input, TimerKey
from tidings.model.language.parser import parse
from tidings.model.values import Value
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.signals import CarriedEvent, Caught, Emit, Handed, Listen, PublishEvent
from tidings.protocols.transport.transport import TransportNode
from tidings.pubsub.publications import encode_head

ROUNDS = 5
EVENTS_MACHINE, EVENTS_CLIENT = 40_000, 20_000
ADDED_MAX_US = 25.0
INTERVAL = 0.001
"""Seconds between two events, as the machines see it."""
LATENCY = 0.01
SYMBOLS = ("AMD", "IBM", "SAP", "TSM")

SWITCHES = {
    "ordered": (False, False),
    "ordered, reliable": (True, False),
    "all three": (True, True),
}


class World:
    """A publisher and a receiver, and nothing between them. Times are those of the events, not of this computer."""

    def __init__(self, params: TransportParams) -> None:
        self.publisher, self.receiver = TransportNode(1, params, Random(1)), TransportNode(2, params, Random(2))
        self.timers: dict[TransportNode, dict[TimerKey, float]] = {self.publisher: {}, self.receiver: {}}
        self.under_way: list[Emit] = []
        self.delivered = 0
        for transport in (self.publisher, self.receiver):
            self.carry_out(transport, transport.start(0.0))
        asked = Listen(1, parse("type = 'quote'"), True, params.is_reliable, params.is_paced)
        self.step(self.receiver, 0.0, asked)

    def step(self, transport: TransportNode, now: float, input: Input) -> None:
        self.carry_out(transport, transport.handle(now, input))

    def carry_out(self, transport: TransportNode, effects: list[Effect]) -> None:
        timers = self.timers[transport]
        for effect in effects:
            if type(effect) is Deliver:
                self.delivered += type(effect.item) is Handed
            elif type(effect) is SetTimer:
                timers[effect.key] = effect.at
            elif type(effect) is CancelTimer:
                timers.pop(effect.key, None)
            elif type(effect) is Emit:
                self.under_way.append(effect)

    def fire(self, transport: TransportNode, now: float) -> None:
        timers = self.timers[transport]
        for key in [key for key, at in timers.items() if at <= now]:
            del timers[key]
            self.step(transport, now, Fired(key))

    def take_under_way(self) -> list[Caught]:
        taken, self.under_way = self.under_way, []
        return [Caught(CarriedEvent(emit.head, emit.payload, subscriptions=(1,))) for emit in taken]


def quotes(count: int) -> list[bytes]:
    """Heads of events: a symbol's price moves a little each time, and its quotes come in bursts."""
    rng, heads = Random(7), list[bytes]()
    prices = dict.fromkeys(SYMBOLS, 100.0)
    while len(heads) < count:
        symbol = rng.choice(SYMBOLS)
        for _ in range(1 + int(rng.random() * 8)):
            prices[symbol] = round(prices[symbol] + rng.choice((-0.01, 0.0, 0.01)), 2)
            attributes: dict[str, Value] = {
                "type": "quote",
                "symbol": symbol,
                "price": prices[symbol],
                "venue": "XNAS",
                "volume": 100,
            }
            heads.append(encode_head(attributes))
    return heads[:count]


def run_machines(params: TransportParams, heads: Sequence[bytes]) -> tuple[float, float]:
    """Microseconds for each event, of the publisher and of the receiver."""
    world, payload = World(params), bytes(100)
    spent = {world.publisher: 0, world.receiver: 0}
    clock = time.process_time_ns
    burst = 100
    for first in range(0, len(heads), burst):
        now = 10.0 + first * INTERVAL
        answers = world.take_under_way()
        inputs: list[Input] = [PublishEvent(head, payload) for head in heads[first : first + burst]]
        began = clock()
        for answer in answers:
            world.step(world.publisher, now, answer)
        for place, input in enumerate(inputs):
            world.step(world.publisher, now + place * INTERVAL, input)
        world.fire(world.publisher, now + burst * INTERVAL)
        spent[world.publisher] += clock() - began
        arriving = world.take_under_way()
        began = clock()
        for place, input in enumerate(arriving):
            world.step(world.receiver, now + LATENCY + place * INTERVAL, input)
        world.fire(world.receiver, now + LATENCY + burst * INTERVAL)
        spent[world.receiver] += clock() - began
    assert world.delivered == len(heads), f"{world.delivered} events of {len(heads)} were handed over"
    return spent[world.publisher] / len(heads) / 1000, spent[world.receiver] / len(heads) / 1000


def params_of(mode: str, **others: object) -> TransportParams:
    is_reliable, is_paced = SWITCHES[mode]
    given = {"record": RECORD, "is_reliable": is_reliable, "is_paced": is_paced, **others}
    return TransportParams(**given)  # type: ignore[arg-type]


def measure_machines(rounds: int, events: int) -> dict[str, tuple[float, float]]:
    heads = quotes(events)
    found: dict[str, list[tuple[float, float]]] = {mode: [] for mode in SWITCHES}
    run_machines(params_of("all three"), heads[:2000])
    with frozen_heap():
        for _ in range(rounds):
            for mode in SWITCHES:
                found[mode].append(run_machines(params_of(mode), heads))
    return {mode: (median(one for one, _ in each), median(two for _, two in each)) for mode, each in found.items()}


def run_clients(mode: str, events: int) -> tuple[float, float]:
    """Microseconds of CPU time for each event, of the publishing and of the receiving process."""
    with Server(TIDINGS) as server:
        url = f"tidings://127.0.0.1:{server.port}"
        receiving, publishing = (start(role, url, mode, events) for role in ("receive", "publish"))
        assert receiving.stdout and publishing.stdin and publishing.stdout and receiving.stdin
        received_us = 0.0
        for line in receiving.stdout:
            if line.startswith("cpu "):
                received_us = float(line.split()[1])
                break
            if line != "ready\n":
                publishing.stdin.write(line)
                publishing.stdin.flush()
        published_us = float(publishing.stdout.readline().split()[1])
        for process in (publishing, receiving):
            process.communicate(timeout=60)
        return published_us, received_us


def start(role: str, url: str, mode: str, events: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "bench.transport_client", role, url, mode, str(events)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if role == "receive":
        assert process.stdout
        if process.stdout.readline() != "ready\n":
            raise RuntimeError("the receiver did not start")
    return process


def measure_clients(rounds: int, events: int) -> dict[str, tuple[float, float]]:
    found: dict[str, list[tuple[float, float]]] = {mode: [] for mode in MODES}
    for _ in range(rounds):
        for mode in MODES:
            found[mode].append(run_clients(mode, events))
    return {mode: (median(one for one, _ in each), median(two for _, two in each)) for mode, each in found.items()}


def measure_bytes(events: int) -> dict[str, float]:
    """Bytes of head and payload of an event; its own payload has none."""
    heads = quotes(events)
    kinds: dict[str, Callable[[], TransportParams]] = {
        "plain": lambda: TransportParams(is_ordered=False),
        "basic order": lambda: TransportParams(record=0),
        "record of 5": lambda: TransportParams(record=5),
        "record of 10": lambda: TransportParams(record=10),
        "record of 25": lambda: TransportParams(record=25),
        "record of 5, compressed": lambda: TransportParams(record=5, is_compressed=True),
        "record of 10, compressed": lambda: TransportParams(record=10, is_compressed=True),
        "record of 25, compressed": lambda: TransportParams(record=25, is_compressed=True),
    }
    found = {}
    for name, make in kinds.items():
        world, total = World(make()), 0
        world.under_way.clear()
        for number, head in enumerate(heads):
            world.step(world.publisher, 10.0 + number * INTERVAL, PublishEvent(head, b""))
        for emit in world.under_way:
            total += len(emit.head) + len(emit.payload)
        found[name] = total / len(heads)
    return found


def cost_grid(title: str, figures: dict[str, tuple[float, float]], base: str | None) -> Grid:
    rows = []
    for mode, (published, received) in figures.items():
        added = "-" if base is None or mode == base else f"{received - figures[base][1]:+.1f}"
        rows.append([mode, f"{published:.1f}", f"{received:.1f}", added])
    return Grid(title, ["publisher, us", "receiver, us", "added, us"], rows)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.transport", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round, to see that it works")
    asked = parser.parse_args(arguments)
    rounds, share = (1, 10) if asked.quick else (ROUNDS, 1)
    console = Console()
    machines = measure_machines(rounds, EVENTS_MACHINE // share)
    print_grid(console, cost_grid(f"machine alone, record of {RECORD}, for each event", machines, None))
    clients = measure_clients(1 if asked.quick else 3, EVENTS_CLIENT // share)
    print_grid(console, cost_grid(f"client on sockets, record of {RECORD}, for each event", clients, "plain"))
    sizes = measure_bytes(5000 // share)
    rows = [[name, f"{size:.0f}", f"{size - sizes['plain']:+.0f}"] for name, size in sizes.items()]
    bits = TransportParams().profile.bits
    print_grid(console, Grid(f"bytes of an event without payload, rows of {bits} bits", ["bytes", "added"], rows))
    added = clients["all three"][1] - clients["plain"][1]
    verdict = "reached" if added <= ADDED_MAX_US else "MISSED"
    print(f"all three add {added:.1f} us for each event in the receiving client; at most {ADDED_MAX_US:.0f}: {verdict}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
