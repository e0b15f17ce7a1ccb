"""The same scenario in both worlds: machines made by one factory, in the simulator and on loopback sockets.

A factory takes the name of a node and its random streams, and neither knows nor can find out in which world its machine
will live. Times are in seconds; a scenario takes as long on sockets as it says.
"""

import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from tests.worlds.sockets import PATIENT, QUIET, until
from tidings.machine.node import Machine
from tidings.machine.streams import RandomStream, random_stream
from tidings.model.identity import NodeId
from tidings.net import Address, Host
from tidings.nodes.broker import BrokerNode, BrokerParams
from tidings.protocols.access.params import AccessParams
from tidings.protocols.routing.params import RoutingParams
from tidings.pubsub.client import Confirmed
from tidings.sim.network.latency import Constant
from tidings.sim.simulator import Simulator
from tidings.trace.record import Record

Draws = Callable[[str], RandomStream]
Factory = Callable[[NodeId, Draws], Machine]

BROKERS = {"a": ("b",), "b": ("c",), "c": ()}
CLIENTS = {"ann": "a", "ben": "c", "cat": "b"}
"""The network of these scenarios: three brokers in a chain, with the links that each makes, and a client at each."""

LATENCY = 0.0005
"""One way between simulated nodes, about that of loopback under load."""


def simulator_of(seed: int, names: Iterable[NodeId], make: Factory, latency: float = LATENCY, **more: Any) -> Simulator:
    simulator = Simulator(seed, Constant(latency), checking=True, **more)
    for name in names:
        simulator.add(name, partial(make, name))
    return simulator


def draws_of(seed: int, name: NodeId, life: int = 0) -> Draws:
    return lambda purpose: random_stream(seed, "node", name, life, purpose)


def host_of(seed: int, name: NodeId, make: Factory, life: int = 0, **more: Any) -> Host:
    machine, rng = make(name, draws_of(seed, name, life)), random_stream(seed, "calls", name)
    return Host(name, machine, params=PATIENT, log=QUIET, rng=rng, **more)


async def started(hosts: Iterable[Host]) -> dict[NodeId, Host]:
    """All running, and each knows where the others are."""
    running: dict[NodeId, Host] = {}
    for host in hosts:
        await host.start()
        running[host.node_id] = host
    addresses: dict[NodeId, Address] = {name: host.address for name, host in running.items()}
    for name, host in running.items():
        for other, address in addresses.items():
            if other != name:
                await host.learn(other, address)
    return running


def make_broker(name: NodeId, draws: Draws) -> BrokerNode:
    access, routing = AccessParams(links=BROKERS[name]), RoutingParams(engine="plain")
    return BrokerNode(name, BrokerParams(access=access, routing=routing), draws("access"))


def brokers_of(hosts: dict[NodeId, Host]) -> dict[NodeId, BrokerNode]:
    machines = {name: hosts[name].machine for name in BROKERS}
    return {name: machine for name, machine in machines.items() if isinstance(machine, BrokerNode)}


async def confirmed(hosts: dict[NodeId, Host], requests: Iterable[tuple[NodeId, Any]]) -> dict[NodeId, list[Any]]:
    """Once the brokers are a chain, one request after the other; what each client got until the last was confirmed."""
    items: dict[NodeId, list[Any]] = {name: [] for name in CLIENTS}
    brokers = brokers_of(hosts)
    await until(lambda: all(len(brokers[name].overlay.neighbours) == (2 if name == "b" else 1) for name in BROKERS))
    for client, request in requests:
        hosts[client].inject(request)
        got = items[client]
        while not any(isinstance(item, Confirmed) and item.ticket == request.ticket for item in got):
            got.append(await hosts[client].items.get())
    return items


def round_trips(records: Iterable[Record]) -> list[float]:
    """How long each probe of a ping took to be answered, read from the trace of the node that sent it."""
    sent: dict[tuple[str | None, int], float] = {}
    found: list[float] = []
    for record in records:
        if record.message == "Probe" and record.kind == "send":
            sent[record.peer, round_of(record)] = record.time
        elif record.message == "Echo" and record.kind == "receive":
            found.append(record.time - sent[record.peer, round_of(record)])
    return found


def round_of(record: Record) -> int:
    assert record.detail is not None
    round: int = json.loads(record.detail)["round"]
    return round
