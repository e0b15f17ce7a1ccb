"""What holds in every run: random machines on a bad network, with random faults.

The machine below does all that a machine may do, at random, and keeps a diary. The properties are those of the
specification (peer-to-peer 3A.6, R-I1 to R-I6) and the conservation of packets.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.machine.effects import CancelTimer, Connect, Deliver, Disconnect, Effect, Save, Send, SetTimer, Transport
from tidings.machine.inputs import Fired, Input, LinkDown, LinkUp, Received, TimerKey
from tidings.protocols.teaching.ping import Echo, Probe
from tidings.sim.hardware import Processing
from tidings.sim.network.latency import Drawn, Exponential, Uniform
from tidings.sim.network.loss import BurstyLoss, Duplication, Loss, Reordering
from tidings.sim.node import Draws
from tidings.sim.queue import HeapQueue, LadderQueue
from tidings.sim.simulator import Simulator, SimulatorParams
from tidings.trace.writers import open_writer

NAMES = ("a", "b", "c", "d")
KEYS = ("tick", "x", "y")
END = 8.0


class Restless:
    """Sends, sets, cancels, connects at random. Probes go over streams, echoes are datagrams; each has a number."""

    def __init__(self, name: str, rng: Random, world: Callable[[], Simulator]) -> None:
        self.name, self.rng, self.world = name, rng, world
        self.armed: dict[TimerKey, float] = {}
        self.next_number = 0
        self.highest: dict[tuple[str, int], int] = {}
        self.up: dict[str, int] = {}
        self.diary: list[tuple[float, str]] = []
        self.last = 0.0
        self.messages: list[Any] = []
        """Every message seen or sent, alive, so that no two share an address."""

    def start(self, now: float) -> list[Effect]:
        self.armed.clear()
        self.up.clear()
        self.last = now
        return [self.set("tick", now)]

    def set(self, key: TimerKey, at: float) -> Effect:
        self.armed[key] = at
        return SetTimer(key, at)

    def handle(self, now: float, input: Input) -> list[Effect]:
        process = self.world().nodes[self.name].process
        assert process is not None, "R-I4: a node that is down does nothing"
        assert process.is_running, "R-I4: a node that is paused does nothing"
        assert now >= self.last, "R-I1: time does not go back"
        self.last = now
        self.diary.append((now, repr(input)))
        if isinstance(input, Fired):
            assert self.armed.pop(input.key) <= now, "R-I5: a timer fires once, at its last time, if not cancelled"
        if isinstance(input, Received):
            self.messages.append(input.message)
            if isinstance(input.message, Probe):
                life, number = divmod(input.message.round, 1_000_000)
                assert number > self.highest.get((input.sender, life), -1), "R-I3: a stream keeps order"
                self.highest[input.sender, life] = number
        if isinstance(input, LinkUp):
            assert input.epoch >= self.up.get(input.neighbour, 0)
            self.up[input.neighbour] = input.epoch
        if isinstance(input, LinkDown):
            assert input.epoch >= self.up.get(input.neighbour, 0), "news of a link that was replaced"
        return self.answer(now, input)

    def answer(self, now: float, input: Input) -> list[Effect]:
        effects: list[Effect] = []
        if isinstance(input, Fired) and input.key == "tick":
            effects = [self.anything(now) for _ in range(4)]
            effects.append(self.set("tick", now + 0.05 + self.rng.random()))
        elif self.rng.random() < 0.3:
            effects = [self.anything(now)]
        self.messages += [effect.message for effect in effects if isinstance(effect, Send)]
        return effects

    def anything(self, now: float) -> Effect:
        draw, other = self.rng.random(), NAMES[int(self.rng.random() * len(NAMES))]
        key = KEYS[1 + int(self.rng.random() * 2)]
        if draw < 0.55:
            self.next_number += 1
            life = self.world().nodes[self.name].lives
            number = life * 1_000_000 + self.next_number
            return Send(other, Probe(number)) if draw < 0.3 else Send(other, Echo(number), Transport.DATAGRAM)
        if draw < 0.75:
            return self.set(key, now + 3 * self.rng.random() - 0.1)
        if draw < 0.85:
            self.armed.pop(key, None)
            return CancelTimer(key)
        if draw < 0.9:
            return Connect(other)
        if draw < 0.93:
            return Disconnect(other)
        return Save(key, b"x") if draw < 0.96 else Deliver(key)

    def check(self) -> None:
        pass


times = st.floats(0, END, allow_nan=False).map(lambda time: round(time, 2))
names = st.sampled_from(NAMES)
faults = st.one_of(
    st.tuples(st.just("crash"), times, names, st.booleans()),
    st.tuples(st.just("restart"), times, names, st.booleans()),
    st.tuples(st.just("pause"), times, names),
    st.tuples(st.just("resume"), times, names),
    st.tuples(st.just("clock"), times, names, st.floats(0, 2), st.floats(-0.5, 0.5)),
    st.tuples(st.just("break"), times, names, names),
)
plans = st.lists(faults, max_size=12)


class Run:
    def __init__(self, seed: int, plan: list[Any], ladder: bool = True, jitter: float = 0.0, **options: Any) -> None:
        network = Loss(
            BurstyLoss(
                Duplication(Reordering(Drawn(Exponential(0.1)), 0.1, Uniform(0, 1)), 0.1),
                good_for=2.0,
                bad_for=0.2,
            ),
            0.05,
        )
        params = SimulatorParams(connect_timeout=1.0, silence_timeout=2.0, jitter=jitter, held_max=20)
        queue = LadderQueue() if ladder else HeapQueue()
        self.simulator = Simulator(seed, network, params=params, queue=queue, **options)
        self.machines: list[Restless] = []
        for name in NAMES:
            processing = Processing(workers=1, mean=0.05, queue_max=5) if name == "c" else None
            self.simulator.add(name, partial(self.make, name), processing=processing)
        self.simulator.run(0.01)
        for fault in sorted(plan, key=lambda fault: fault[1]):
            self.simulator.call_at(max(fault[1], 0.01), partial(self.strike, *fault))

    def make(self, name: str, draws: Draws) -> Restless:
        self.machines.append(Restless(name, draws("restless"), lambda: self.simulator))
        return self.machines[-1]

    def strike(self, kind: str, at: float, name: str, *rest: Any) -> None:
        simulator = self.simulator
        if kind == "crash":
            simulator.crash(name, is_silent=rest[0])
        elif kind == "restart" and simulator.nodes[name].process is None:
            simulator.restart(name, keep_state=rest[0])
        elif kind == "pause":
            simulator.pause(name)
        elif kind == "resume":
            simulator.resume(name)
        elif kind == "break":
            simulator.break_link(name, rest[0])
        elif kind == "clock":
            clock = simulator.nodes[name].clock
            shown = simulator.now if clock is None else clock.read(simulator.now)
            # A machine's time does not go back: the clock jumps forward, then runs fast or slow.
            simulator.set_clock(name, shown + rest[0] - simulator.now * (1 + rest[1]), rest[1])

    def go(self) -> "Run":
        self.simulator.run(END)
        return self

    def diaries(self) -> list[tuple[str, list[tuple[float, str]]]]:
        return [(machine.name, machine.diary) for machine in self.machines]


@given(st.integers(0, 1000), plans, st.sampled_from([0.0, 1e-3]))
def test_time_order_timers_and_silence_hold_whatever_goes_wrong(seed: int, plan: list[Any], jitter: float) -> None:
    run = Run(seed, plan, jitter=jitter).go()
    assert run.simulator.now == END
    assert sum(len(diary) for _, diary in run.diaries()) > 0


@pytest.mark.spec("P-7")
@given(st.integers(0, 1000), plans)
def test_the_same_seed_gives_the_same_run_on_either_queue_and_another_seed_another_run(
    seed: int, plan: list[Any]
) -> None:
    first = Run(seed, plan).go().diaries()
    assert Run(seed, plan).go().diaries() == first
    assert Run(seed, plan, ladder=False).go().diaries() == first
    assert Run(seed + 1, plan).go().diaries() != first


@given(st.integers(0, 1000), plans, st.lists(times, max_size=5))
def test_stopping_and_going_on_changes_nothing(seed: int, plan: list[Any], stops: list[float]) -> None:
    run = Run(seed, plan)
    for stop in sorted(stops):
        run.simulator.run(max(stop, 0.01))
    assert run.go().diaries() == Run(seed, plan).go().diaries()


@given(st.integers(0, 1000), plans)
def test_every_packet_is_received_lost_for_a_reason_or_in_flight(seed: int, plan: list[Any]) -> None:
    run = Run(seed, plan)
    for until in (1.0, 4.0, END):
        run.simulator.run(until)
        counters = run.simulator.counters()
        waiting = [entry[3] for entry in run.simulator.queue.entries()]
        for node in run.simulator.nodes.values():
            if node.process is not None:
                waiting += [argument for _, argument in node.process.held]
        assert counters.in_flight == sum(isinstance(argument, Received) for argument in waiting)
        assert all(reason and count > 0 for reason, count in counters.lost.items())


@pytest.mark.spec("P-20")
@given(st.integers(0, 1000), plans)
def test_in_checking_mode_no_two_nodes_ever_hold_the_same_object(seed: int, plan: list[Any]) -> None:
    run = Run(seed, plan, checking=True).go()
    owners: dict[int, str] = {}
    for machine in run.machines:
        for message in machine.messages:
            assert owners.setdefault(id(message), machine.name) == machine.name
    plain = Run(seed, plan).go().diaries()
    without_sizes = [(name, [(now, text.partition(", size_bytes")[0]) for now, text in diary]) for name, diary in plain]
    checked = [(name, [(now, text.partition(", size_bytes")[0]) for now, text in d]) for name, d in run.diaries()]
    assert checked == without_sizes


PROGRAM = """
import sys
from tests.properties.test_simulator import Run
from tidings.trace.writers import open_writer
plan = [("crash", 3.0, "a", False), ("restart", 5.0, "a", False), ("pause", 6.0, "b"), ("resume", 9.0, "b")]
with open_writer(sys.argv[1], run="seeds", seed=7) as trace:
    Run(7, plan, trace=trace).go()
"""


@pytest.mark.spec("P-7")
def test_the_trace_is_the_same_to_the_byte_under_three_hash_seeds(tmp_path: Path, root: Path) -> None:
    traces = []
    for hash_seed in ("0", "1", "4242"):
        path = tmp_path / f"{hash_seed}.jsonl"
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
        subprocess.run([sys.executable, "-c", PROGRAM, str(path)], check=True, env=environment)
        traces.append(path.read_bytes())
    assert len(traces[0]) > 10_000
    assert traces[0] == traces[1] == traces[2]


def test_a_trace_changes_nothing_in_the_run(tmp_path: Path) -> None:
    with open_writer(tmp_path / "run.jsonl", run="trace", seed=3) as trace:
        traced = Run(3, [("crash", 2.0, "a", True)], trace=trace).go().diaries()
    assert traced == Run(3, [("crash", 2.0, "a", True)]).go().diaries()
