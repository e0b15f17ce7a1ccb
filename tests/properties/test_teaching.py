"""The teaching protocols against a network that does its worst."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.properties.hostile_network import NAMES, HostileNetwork, names
from tidings.machine.effects import Deliver, Effect, Send
from tidings.machine.inputs import Input, Received
from tidings.machine.streams import random_stream
from tidings.model.event import Event
from tidings.protocols.teaching.gossip import Gossip, GossipParams, GossipRepair
from tidings.protocols.teaching.ping import Echo, PeerRecovered, PeerSuspected, Ping, PingParams, Probe
from tidings.pubsub.requests import Publish

MISSES = 2


class PingAmongEnemies(HostileNetwork):
    """Model: which probes each node sent in this life, and which of them were answered."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: dict[tuple[str, str], list[int]] = {}
        self.answered: dict[tuple[str, str], set[int]] = {}

    def make(self, name: str, life: int) -> Ping:
        for other in NAMES:
            self.sent[name, other], self.answered[name, other] = [], set()
        others = [other for other in NAMES if other != name]
        return Ping(others, PingParams(misses=MISSES), random_stream(1, name, life))

    def observe(self, name: str, input: Input | None, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Deliver(PeerSuspected(other)):
                    last = self.sent[name, other][-MISSES:]
                    assert len(last) == MISSES
                    assert not self.answered[name, other].intersection(last)
                case Deliver(PeerRecovered(other)):
                    assert isinstance(input, Received)
                    assert input.sender == other
                    assert input.message.round in self.sent[name, other][-MISSES:]
                case Send(other, Probe(round)):
                    self.sent[name, other].append(round)
        match input:
            case Received(other, Echo(round)) if (name, other) in self.answered:
                self.answered[name, other].add(round)

    def teardown(self) -> None:
        if not hasattr(self, "machines"):
            return
        for name in NAMES:
            told = [item for item in self.delivered[name] if isinstance(item, PeerSuspected | PeerRecovered)]
            for other in NAMES:
                kinds = [type(item) for item in told if item.neighbour == other]
                assert kinds == [PeerSuspected, PeerRecovered] * (len(kinds) // 2) + kinds[2 * (len(kinds) // 2) :]
        self.heal(rounds=2)
        assert all(machine.suspects == [] for machine in self.machines.values() if isinstance(machine, Ping))
        self.crash("c")
        for _ in range(len(NAMES) * (MISSES + 2)):
            while self.under_way:
                self.hand_over(*self.under_way.pop(0))
            self.fire_next()
        assert [machine.suspects for machine in self.machines.values() if isinstance(machine, Ping)][:2] == [
            ["c"],
            ["c"],
        ]


class GossipAmongEnemies(HostileNetwork):
    """Model: the set of all events that anybody, friend or enemy, ever put into the network."""

    def __init__(self) -> None:
        super().__init__()
        self.published: list[Event] = []

    def make(self, name: str, life: int) -> Gossip:
        others = [other for other in NAMES if other != name]
        return Gossip(others, GossipParams(), random_stream(1, name, life))

    @rule(name=names, number=st.integers(0, 20))
    def publish(self, name: str, number: int) -> None:
        event = Event({"source": "/test", "id": str(number)})
        self.published.append(event)
        self.step(name, Publish(event))

    def observe(self, name: str, input: Input | None, effects: list[Effect]) -> None:
        match input:
            case Received(_, GossipRepair(event)):
                self.published.append(event)
        for effect in effects:
            match effect:
                case Deliver(event):
                    assert event in self.published
                    assert [item.key for item in self.delivered[name]].count(event.key) == 1

    def teardown(self) -> None:
        if not hasattr(self, "machines"):
            return
        self.heal(rounds=25)
        held = [list(machine.held) for machine in self.machines.values() if isinstance(machine, Gossip)]
        assert sorted(held[0]) == sorted(held[1]) == sorted(held[2])
        for name in NAMES:
            assert {item.key for item in self.delivered[name]} >= set(held[0])


TestPingAmongEnemies = PingAmongEnemies.TestCase
TestPingAmongEnemies.settings = settings(stateful_step_count=25)
TestGossipAmongEnemies = GossipAmongEnemies.TestCase
TestGossipAmongEnemies.settings = settings(stateful_step_count=25)
