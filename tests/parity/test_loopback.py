"""Simulator and sockets agree: the same machines, the same scenario, the same deliveries at every node."""

from collections import Counter
from functools import partial

import pytest

from tests.worlds.both import Draws, draws_of, host_of, round_trips, simulator_of, started
from tests.worlds.sockets import heard, play, until
from tidings.machine.effects import BROADCAST, Transport
from tidings.machine.node import Machine, Node
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.net import Host
from tidings.protocols.teaching.gossip import Gossip, GossipParams
from tidings.protocols.teaching.ping import PeerRecovered, PeerSuspected, Ping, PingParams
from tidings.pubsub.requests import Publish
from tidings.trace.writers import RingBuffer

NAMES = ["a", "b", "c", "d", "e"]
PUBLICATIONS = [
    (
        NAMES[number % 5],
        Event({"source": f"at {NAMES[number % 5]}", "id": str(number), "number": number}, b"x" * number),
    )
    for number in range(20)
]
Delivered = dict[NodeId, Counter[tuple[str | None, str | None]]]


def others_of(name: NodeId, names: list[NodeId] = NAMES) -> list[NodeId]:
    return [other for other in names if other != name]


def make_gossip(transport: Transport, name: NodeId, draws: Draws) -> Machine:
    params = GossipParams(period=0.02, ask_again_after=0.2, transport=transport)
    return Gossip(others_of(name), params, draws("gossip"))


def gossip_in_the_simulator(seed: int, transport: Transport) -> Delivered:
    simulator = simulator_of(seed, NAMES, lambda name, draws: make_gossip(transport, name, draws))
    for number, (name, event) in enumerate(PUBLICATIONS):
        simulator.inject(0.001 * number, name, Publish(event))
    simulator.run(until=10.0)
    return {name: Counter(it.item.key for it in simulator.delivered(name)) for name in NAMES}


def gossip_on_sockets(seed: int, transport: Transport) -> Delivered:
    async def scenario() -> Delivered:
        hosts = await started(host_of(seed, name, lambda *made: make_gossip(transport, *made)) for name in NAMES)
        for name, event in PUBLICATIONS:
            hosts[name].inject(Publish(event))
        found: Delivered = {}
        for name, host in hosts.items():
            found[name] = Counter([(await host.items.get()).key for _ in PUBLICATIONS])
        for name, host in hosts.items():
            await host.stop()
            found[name].update(item.key for item in host.items.take_all())
        return found

    return play(scenario())


@pytest.mark.spec("P-5")
@pytest.mark.parametrize("transport", Transport)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_gossip_delivers_the_same_events_at_every_node_in_both_worlds(seed: int, transport: Transport) -> None:
    simulated, real = gossip_in_the_simulator(seed, transport), gossip_on_sockets(seed, transport)
    assert simulated == real
    assert simulated == {name: Counter({event.key: 1 for _, event in PUBLICATIONS}) for name in NAMES}


def test_gossip_by_broadcast_delivers_the_same_events_in_both_worlds() -> None:
    """The machine that talks to whoever hears it, on a radio, runs on a cable and on sockets as it is."""
    names, event = NAMES[:3], PUBLICATIONS[0][1]
    params = GossipParams(period=0.02, ask_again_after=0.2, transport=Transport.DATAGRAM)

    def make(name: NodeId, draws: Draws) -> Machine:
        return Gossip([BROADCAST], params, draws("gossip"))

    simulator = simulator_of(9, names, make)
    simulator.inject(0.0, "a", Publish(event))
    simulator.run(until=1.0)

    async def scenario() -> dict[NodeId, list[object]]:
        hosts = await started(host_of(9, name, make) for name in names)
        hosts["a"].inject(Publish(event))
        found: dict[NodeId, list[object]] = {name: [await host.items.get()] for name, host in hosts.items()}
        for host in hosts.values():
            await host.stop()
        return found

    assert play(scenario()) == {name: [it.item for it in simulator.delivered(name)] for name in names}


def make_ping(name: NodeId, draws: Draws) -> Machine:
    return Ping(others_of(name, NAMES[:3]), PingParams(period=0.1, misses=4), draws("ping"))


def failure_in_the_simulator(seed: int) -> dict[NodeId, list[object]]:
    simulator = simulator_of(seed, NAMES[:3], make_ping)
    simulator.run(until=1.0)
    simulator.crash("c")
    simulator.run(until=2.0)
    simulator.restart("c", keep_state=False)
    simulator.run(until=3.0)
    return {name: [it.item for it in simulator.delivered(name)] for name in ("a", "b")}


def failure_on_sockets(seed: int) -> dict[NodeId, list[object]]:
    async def scenario() -> dict[NodeId, list[object]]:
        hosts = await started(host_of(seed, name, make_ping) for name in NAMES[:3])
        survivors, found = {name: hosts[name] for name in ("a", "b")}, {name: list[object]() for name in ("a", "b")}
        await hosts["c"].stop()
        for name, host in survivors.items():
            found[name].append(await host.items.get())
        addresses = {name: host.address for name, host in survivors.items()}
        reborn = host_of(seed, "c", make_ping, life=1, listen=hosts["c"].address, peers=addresses)
        async with reborn:
            for name, host in survivors.items():
                found[name].append(await host.items.get())
            for name, host in survivors.items():
                await host.stop()
                found[name] += host.items.take_all()
        return found

    return play(scenario())


@pytest.mark.spec("P-5")
def test_ping_notices_a_crash_and_a_return_in_both_worlds() -> None:
    simulated, real = failure_in_the_simulator(4), failure_on_sockets(4)
    assert simulated == real
    assert simulated == {name: [PeerSuspected("c"), PeerRecovered("c")] for name in ("a", "b")}


def make_both(name: NodeId, draws: Draws) -> Machine:
    names = NAMES[:3]
    return Node(
        {
            "ping": Ping(others_of(name, names), PingParams(period=0.02, misses=50), draws("ping")),
            "gossip": Gossip(others_of(name, names), GossipParams(period=0.02), draws("gossip")),
        },
        tells=Ping.tells,
    )


def has_sent_datagrams(host: Host) -> bool:
    return host.counts.datagrams_sent > 0


@pytest.mark.spec("P-16")
def test_two_protocols_over_two_transports_run_in_one_node_in_both_worlds() -> None:
    names, event = NAMES[:3], PUBLICATIONS[0][1]
    simulator = simulator_of(5, names, make_both)
    simulator.inject(0.0, "a", Publish(event))
    simulator.run(until=1.0)

    async def scenario() -> dict[NodeId, list[object]]:
        hosts = await started(host_of(5, name, make_both) for name in names)
        hosts["a"].inject(Publish(event))
        found: dict[NodeId, list[object]] = {name: [await heard(host, Event)] for name, host in hosts.items()}
        for host in hosts.values():
            assert host.counts.stream_messages_received + host.counts.stream_messages_sent > 0
            await until(partial(has_sent_datagrams, host))
            await host.stop()
        return found

    assert play(scenario()) == {name: [it.item for it in simulator.delivered(name)] for name in names}


@pytest.mark.spec("P-5")
def test_one_machine_object_moves_from_the_simulator_to_sockets_with_its_state() -> None:
    """R-I9: not only the same class. The object that ran in the simulator goes on, on sockets, where it was."""
    names, event = NAMES[:2], PUBLICATIONS[0][1]

    def make(name: NodeId, draws: Draws) -> Machine:
        return Gossip(others_of(name, names), GossipParams(period=0.02), draws("gossip"))

    simulator = simulator_of(6, ["a"], make)
    simulator.inject(0.0, "a", Publish(event))
    simulator.run(until=0.1)
    machine = simulator.nodes["a"].machine
    assert isinstance(machine, Gossip)

    async def scenario() -> Event:
        hosts = await started([host_of(6, "a", lambda name, draws: machine), host_of(6, "b", make)])
        found = await heard(hosts["b"], Event)
        for host in hosts.values():
            await host.stop()
        return found

    assert play(scenario()) == event
    machine.check()


def test_both_worlds_write_the_same_kinds_of_rows() -> None:
    names = NAMES[:2]

    def make(name: NodeId, draws: Draws) -> Machine:
        return Ping(others_of(name, names), PingParams(period=0.02, transport=Transport.STREAM), draws("ping"))

    simulated, real = RingBuffer(1000), RingBuffer(1000)
    simulator = simulator_of(7, names, make, trace=simulated)
    simulator.run(until=0.5)

    async def scenario() -> None:
        hosts = await started([host_of(7, "a", make, trace=real), host_of(7, "b", make)])
        ping = hosts["a"].machine
        assert isinstance(ping, Ping)
        await until(lambda: ping.neighbours["b"].round_trips >= 5)
        for host in hosts.values():
            await host.stop()

    play(scenario())
    of_a = [record for record in simulated.records() if record.node == "a"]
    shapes = [
        {
            (record.kind, record.peer, record.message, record.key, record.size_bytes)
            for record in records
            if record.kind in ("send", "receive", "timer")
        }
        for records in (of_a, real.records())
    ]
    assert shapes[0] == shapes[1]
    assert len(round_trips(real.records())) >= 5


def test_the_streams_of_a_node_are_those_of_the_simulator() -> None:
    simulator = simulator_of(8, ["a"], make_both)
    assert simulator.draws("a", 0)("ping").random() == draws_of(8, "a")("ping").random()
