"""Latency in the simulator and on a real network stack: no round trip is shorter than the cable, and on a machine that
has nothing else to do medians of ping agree within a fifth (P-19).

Two processes in two network namespaces, joined by an interface with a known delay: `tc netem` on a veth pair where the
kernel has it, otherwise the cable of `delay_line.py`. Needs root; elsewhere it is skipped, with the reason.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.parity.ping_node import PERIOD, make_ping
from tests.worlds.both import round_trips, simulator_of
from tidings.machine.effects import Transport
from tidings.trace.writers import RingBuffer

ROOT = Path(__file__).parents[2]
ADDRESSES = {"a": "10.99.0.1", "b": "10.99.0.2"}
DELAY = 0.05
ROUNDS, ROUNDS_QUICK = 25, 3
SECONDS_MAX = 300
AGREEMENT = 0.2


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=SECONDS_MAX)


def must(*words: str) -> None:
    done = command(*words)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"


def namespace_of(name: str) -> str:
    return f"tidings-{os.getpid()}-{name}"


@contextmanager
def namespaces() -> Iterator[None]:
    """One network namespace for each node, or the test is skipped."""
    if shutil.which("ip") is None:
        pytest.skip("network namespaces need the program ip, of iproute2")
    with ExitStack() as stack:
        for name in ADDRESSES:
            done = command("ip", "netns", "add", namespace_of(name))
            if done.returncode != 0:
                pytest.skip(f"network namespaces are not permitted here: {done.stderr.strip()}")
            stack.callback(command, "ip", "netns", "del", namespace_of(name))
        yield


def set_up(name: str, interface: str) -> None:
    inside = ("ip", "-n", namespace_of(name))
    must(*inside, "address", "add", f"{ADDRESSES[name]}/24", "dev", interface)
    must(*inside, "link", "set", interface, "up")


@contextmanager
def netem_cable() -> Iterator[None]:
    """A veth pair with netem at both ends, or the test is skipped."""
    a, b = namespace_of("a"), namespace_of("b")
    must("ip", "link", "add", "delayed", "netns", a, "type", "veth", "peer", "name", "delayed", "netns", b)
    for name in ADDRESSES:
        set_up(name, "delayed")
        shape = ("tc", "-n", namespace_of(name), "qdisc", "add", "dev", "delayed", "root", "netem")
        done = command(*shape, "delay", f"{DELAY * 1000}ms")
        if done.returncode != 0:
            pytest.skip(f"this kernel has no netem: {done.stderr.strip()}")
    yield


@contextmanager
def tun_cable() -> Iterator[None]:
    """The cable of `delay_line.py`, or the test is skipped."""
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        pytest.skip("/dev/net/tun is not there, or not ours to use")
    line = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("delay_line.py")), *map(namespace_of, ADDRESSES), str(DELAY)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with line:
        assert line.stdin and line.stdout and line.stderr
        if line.stdout.readline() != "ready\n":
            pytest.skip(f"a TUN device cannot be made here: {line.stderr.read().splitlines()[-1]}")
        for name in ADDRESSES:
            set_up(name, "delayed")
        yield
        line.stdin.close()


def real_round_trips(transport: Transport, rounds: int) -> list[float]:
    """Those that node a measured, on whatever cable there is."""
    running = []
    for name, peer in (("a", "b"), ("b", "a")):
        program = (sys.executable, "-m", "tests.parity.ping_node")
        words = (name, ADDRESSES[name], peer, ADDRESSES[peer], transport.value, "7", str(rounds))
        running.append(
            subprocess.Popen(
                ["ip", "netns", "exec", namespace_of(name), *program, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
            )
        )
    found: list[list[float]] = []
    try:
        for process in running:
            assert process.stdout
            found.append(json.loads(process.stdout.readline()))
        for process in running:
            process.communicate(timeout=SECONDS_MAX)
            assert process.returncode == 0
    finally:
        for process in running:
            process.kill()
            process.communicate()
    return found[0]


def simulated_round_trips(transport: Transport, rounds: int) -> list[float]:
    trace = RingBuffer(10_000)
    peer_of = {"a": "b", "b": "a"}
    simulator = simulator_of(
        7, ADDRESSES, lambda name, draws: make_ping(peer_of[name], transport, draws), latency=DELAY, trace=trace
    )
    simulator.run(until=PERIOD * (rounds + 2))
    return round_trips(record for record in trace.records() if record.node == "a")


@pytest.mark.parametrize("transport", Transport)
@pytest.mark.parametrize("cable", [netem_cable, tun_cable])
def test_no_round_trip_is_shorter_than_the_cable_in_either_world(
    cable: Callable[[], AbstractContextManager[None]], transport: Transport
) -> None:
    with namespaces(), cable():
        real = real_round_trips(transport, ROUNDS_QUICK)
    for found in (real, simulated_round_trips(transport, ROUNDS_QUICK)):
        assert len(found) >= ROUNDS_QUICK
        assert min(found) >= 2 * DELAY * (1 - 1e-6)


@pytest.mark.long
@pytest.mark.parametrize("transport", Transport)
@pytest.mark.parametrize("cable", [netem_cable, tun_cable])
def test_medians_of_ping_agree_between_the_simulator_and_namespaces(
    cable: Callable[[], AbstractContextManager[None]], transport: Transport
) -> None:
    """Shape only: P-19 asks for the medians of whole experiments, with 25 nodes and more."""
    with namespaces(), cable():
        real = statistics.median(real_round_trips(transport, ROUNDS))
    simulated = statistics.median(simulated_round_trips(transport, ROUNDS))
    assert abs(real - simulated) <= AGREEMENT * simulated, f"median on sockets {real}, in the simulator {simulated}"
