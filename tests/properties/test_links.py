"""What a link promises in both worlds, whatever breaks it (D-5).

It keeps order and loses nothing while it is up, a break takes with it what is on its way, and nothing of one life of it
arrives in the next.
"""

import asyncio
from collections import defaultdict
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.sockets import PATIENT, QUIET, play, until
from tidings.machine.effects import Connect, Disconnect, Effect, Send
from tidings.machine.inputs import Input, LinkDown, LinkUp, Received, Request
from tidings.machine.streams import random_stream
from tidings.model.identity import NodeId
from tidings.net import Host
from tidings.protocols.teaching.ping import Echo
from tidings.sim.network.latency import Drawn, Uniform
from tidings.sim.node import Draws
from tidings.sim.simulator import Simulator

LIFE = 10_000
"""More than is said in one life of a link: a message says in which it was sent, and as the how manieth."""


class Say(Request, frozen=True):
    count: int


class HangUp(Request, frozen=True):
    pass


class Talker:
    """Says into a link how often it has done so since that is up; wants it back when it is gone."""

    def __init__(self, peer: NodeId) -> None:
        self.peer = peer
        self.life: int | None = None
        self.said: dict[int, int] = defaultdict(int)
        self.heard: dict[int, list[int]] = defaultdict(list)
        self.stray: list[int] = []

    def start(self, now: float) -> list[Effect]:
        self.life = None
        return [Connect(self.peer)]

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case LinkUp(_, epoch):
                self.life = epoch
            case LinkDown():
                self.life = None
                return [Connect(self.peer)]
            case Received(_, Echo(number)):
                (self.stray if self.life is None else self.heard[self.life]).append(number)
            case Say(count) if self.life is not None:
                first = self.said[self.life]
                self.said[self.life] += count
                return [Send(self.peer, Echo(self.life * LIFE + first + place)) for place in range(count)]
            case HangUp() if self.life is not None:
                self.life = None
                return [Disconnect(self.peer, "enough")]
        return []

    def check(self) -> None:
        pass

    def has_all_of(self, other: "Talker") -> bool:
        life = self.life
        return life is not None and life == other.life and len(self.heard[life]) == other.said[life]


def made(talker: Talker, draws: Draws) -> Talker:
    return talker


def stop(world: Simulator) -> None:
    if world.nodes["a"].process is not None:
        world.crash("a")


def go_on(world: Simulator) -> None:
    if world.nodes["a"].process is None:
        world.restart("a", keep_state=True)


def assert_lives_apart(one: Talker, other: Talker) -> None:
    """Of each life what the other end said in it, in that order, up to where it broke."""
    assert one.stray == []
    for life, numbers in one.heard.items():
        assert numbers == [life * LIFE + place for place in range(len(numbers))]
        assert len(numbers) <= other.said[life]


ACTIONS = ("a says", "b says", "a says", "b says", "break", "a hangs up", "b hangs up", "a crashes")


@pytest.mark.spec("D-5")
@given(st.integers(0, 2**32), st.lists(st.tuples(st.floats(0.0, 0.4), st.sampled_from(ACTIONS)), max_size=40))
def test_in_the_simulator_lives_of_a_link_stay_apart_and_lose_nothing(
    seed: int, schedule: list[tuple[float, str]]
) -> None:
    world = Simulator(seed, Drawn(Uniform(0.001, 0.5)))
    talkers = {"a": Talker("b"), "b": Talker("a")}
    for name, talker in talkers.items():
        world.add(name, partial(made, talker))
    at = 3.0
    for wait, action in [*schedule, (20.0, "a says"), (0.0, "b says")]:
        at += wait
        name = action[0]
        if action.endswith("says"):
            world.inject(at, name, Say(3))
        elif action.endswith("hangs up"):
            world.inject(at, name, HangUp())
        elif action == "break":
            world.call_at(at, lambda: world.break_link("a", "b"))
        else:
            world.call_at(at, partial(stop, world))
            world.call_at(at + 0.05, partial(go_on, world))
    world.run(at + 20.0)
    a, b = talkers["a"], talkers["b"]
    assert_lives_apart(a, b)
    assert_lives_apart(b, a)
    assert a.has_all_of(b) and b.has_all_of(a) and a.said[a.life or 0] >= 3


@pytest.mark.spec("D-5")
@pytest.mark.parametrize("seed", range(4))
def test_on_sockets_lives_of_a_link_stay_apart_and_lose_nothing(seed: int) -> None:
    rng = random_stream(seed, "links")

    async def scenario() -> None:
        a, b = Talker("b"), Talker("a")
        async with (
            Host("b", b, params=PATIENT, log=QUIET) as other,
            Host("a", a, params=PATIENT, log=QUIET, peers={"b": other.address}) as one,
        ):
            hosts = {"a": one, "b": other}
            for _ in range(60):
                action = rng.choice(ACTIONS)
                if action.endswith("says"):
                    hosts[action[0]].inject(Say(1 + rng.below(200)))
                elif action.endswith("hangs up"):
                    hosts[action[0]].inject(HangUp())
                else:
                    # As a cable that is cut: neither end gets what is in the buffers of the other.
                    for connection in list(hosts[rng.choice("ab")].links.up.values()):
                        connection.transport.abort()
                if rng.random() < 0.3:
                    await until(lambda: a.life is not None and a.life == b.life)
                for _ in range(rng.below(20)):
                    await asyncio.sleep(0)
            await until(lambda: a.life is not None and a.life == b.life)
            hosts["a"].inject(Say(5))
            hosts["b"].inject(Say(5))
            await until(lambda: a.has_all_of(b) and b.has_all_of(a) and a.said[a.life or 0] >= 5)
            assert_lives_apart(a, b)
            assert_lives_apart(b, a)
            assert len(b.heard) >= 2, "no link was ever broken"

    play(scenario())
