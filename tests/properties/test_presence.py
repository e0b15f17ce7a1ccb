"""Neighbours that lie about who is there: they can keep others waiting while they lie, and nothing else.

One broker is played to, message by message, by hypothesis; then whole networks, in which one broker of the tree says
anything to the others around it, and questions are answered by what is really there.
"""

from functools import partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.message_strategies import of_message
from tests.worlds.trees import TreeWorld, internet, make_dispatcher
from tidings.machine.effects import Disconnect, Effect, ProbeNode, Send, SetTimer
from tidings.machine.inputs import Fired, Input, NodeProbed, Received
from tidings.machine.message import Contact
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.protocols.overlay.lstree.params import LsTreeParams
from tidings.protocols.presence.messages import Beacon, ReachAnswer, ReachQuestion
from tidings.protocols.presence.params import PresenceParams
from tidings.protocols.presence.presence import PresenceWatch
from tidings.protocols.routing.params import RoutingParams
from tidings.pubsub.signals import NeighbourUp, PeerUp

PARAMS = PresenceParams()
NAMES = ("x", "honest", "liar", "other liar", "b", "nobody")
names = st.sampled_from(NAMES)
lies = st.one_of(
    st.just(Beacon()),
    st.builds(ReachAnswer, names, st.booleans()),
    st.builds(ReachQuestion, st.builds(Contact, names, st.sampled_from(["", "x:1", "elsewhere:2"]))),
    st.one_of([of_message(kind) for kind in PresenceWatch.messages]),
)
steps = st.tuples(st.sampled_from([0.0, 0.01, 0.1, 0.3]), st.sampled_from(["liar", "other liar"]), lies)


class WatchPlay:
    """A broker with the neighbours x, which is silent from 0 on, one that is honest, and two that lie. Timers fire in
    time, and probes find who is there. Where x listens it has said itself, or only who configured the world knows."""

    def __init__(self, there: dict[str, bool], has_honest: bool, address: str) -> None:
        self.there, self.now = there, 0.0
        self.timers: dict[Any, float] = {}
        self.probes: list[tuple[float, str, str]] = []
        self.gone: list[str] = []
        self.watch = PresenceWatch("b", PARAMS)
        self.others = ["honest"] if has_honest else []
        self.take(self.watch.start(0.0))
        for node in ("x", "liar", "other liar", *self.others):
            self.tell(PeerUp(node, 1, address=address if node == "x" else f"{node}:1"))
            self.tell(NeighbourUp(node, 1))

    def tell(self, input: Input) -> None:
        self.take(self.watch.handle(self.now, input))
        self.watch.check()
        assert len(self.timers) <= 2 * len(NAMES) + 1

    def take(self, effects: list[Effect]) -> None:
        assert len(effects) <= 4 * len(NAMES)
        for effect in effects:
            match effect:
                case SetTimer(key, at):
                    self.timers[key] = at
                case ProbeNode(node, seconds, address):
                    self.probes.append((self.now + seconds / 2, node, address))
                case Disconnect(node):
                    self.gone.append(node)
                case Send(to, ReachQuestion(Contact(node))) if to == "honest":
                    self.probes.append((self.now + 0.1, f"honest {node}", ""))
        for key in [key for key in self.timers if key[0] in ("silent", "confirm") and key[1] in self.gone]:
            del self.timers[key]

    def run(self, seconds: float) -> None:
        """Who is honest says each beacon, and answers."""
        until = self.now + seconds
        while True:
            beacon = (int(self.now / PARAMS.beacon_period + 1e-9) + 1) * PARAMS.beacon_period
            due = min([beacon, *self.timers.values(), *(at for at, _, _ in self.probes)])
            if due > until:
                self.now = until
                return
            self.now = max(self.now, due)
            for key in [key for key, at in self.timers.items() if at <= self.now]:
                del self.timers[key]
                self.tell(Fired(key))
            for probe in [each for each in self.probes if each[0] <= self.now]:
                self.probes.remove(probe)
                asked, address = probe[1].removeprefix("honest "), probe[2]
                # Nothing listens where nobody is, whoever is looked for there.
                is_there = self.there.get(asked, False) and address in ("", f"{asked}:1")
                answer = Received("honest", ReachAnswer(asked, is_there))
                self.tell(NodeProbed(asked, is_there, address) if asked == probe[1] else answer)
            if due == beacon:
                for node in self.others:
                    self.tell(Received(node, Beacon()))


@given(st.booleans(), st.booleans(), st.sampled_from(["", "x:1"]), st.lists(steps, max_size=60))
def test_who_lies_takes_nobody_away_who_is_there_and_keeps_nobody_for_ever(
    is_there: bool, has_honest: bool, address: str, said: list[tuple[float, str, Any]]
) -> None:
    play = WatchPlay({"x": is_there, "honest": True, "liar": True, "other liar": True}, has_honest, address)
    for wait, liar, lie in said:
        play.run(wait)
        if liar not in play.gone:
            play.tell(Received(liar, lie))
    assert not is_there or "x" not in play.gone, "somebody who is there was taken away"
    # From here on the two say nothing, and nothing listens there.
    play.there |= {"liar": False, "other liar": False}
    play.run(6 * (PARAMS.silent_after + PARAMS.confirm_within + PARAMS.ask_again))
    assert ("x" in play.gone) != is_there, "somebody who is gone is kept"
    assert {"liar", "other liar"} <= set(play.gone) and "honest" not in play.gone
    assert not play.watch.inquiries, "brokers that others asked for are looked for still"


class LyingWorld:
    """Twelve brokers on an LSTree that watch each other, in a world that says nothing of silent deaths."""

    def __init__(self, seed: int) -> None:
        self.world = TreeWorld(seed, is_watched=False, network=internet())
        for number in range(12):
            contacts = tuple(f"d{each}" for each in range(min(number, 3)))
            params = DispatcherParams(
                overlay=LsTreeParams(contacts=contacts), routing=RoutingParams(engine="plain"), presence=PARAMS
            )
            make = partial(make_dispatcher, f"d{number}", params)
            self.world.simulator.add(f"d{number}", make, at=number * 0.05)
        self.world.run(8.0)
        self.world.assert_one_tree()

    def departures(self) -> int:
        return sum(self.watch(name).departures for name in self.world.names)

    def watch(self, name: str) -> PresenceWatch:
        machine = self.world.simulator.nodes[name].machine
        assert isinstance(machine, Dispatcher)
        watch = machine.parts["presence"]
        assert isinstance(watch, PresenceWatch)
        return watch


@settings(max_examples=10)
@given(st.data())
def test_in_a_network_a_liar_parts_nobody_and_hides_a_death_only_while_it_lies(data: st.DataObject) -> None:
    play = LyingWorld(data.draw(st.integers(0, 20)))
    world = play.world
    liar = max(world.names, key=lambda name: (len(world.trees[name].neighbours), name))
    around = [name for name in world.trees[liar].neighbours if name not in world.roots] or world.trees[liar].neighbours
    known, links = st.sampled_from([*world.names, "nobody"]), world.links()
    told = st.one_of(
        st.builds(ReachAnswer, known, st.booleans()),
        st.builds(ReachQuestion, st.builds(Contact, known, st.sampled_from(["", "elsewhere:2"]))),
    )

    def lie(count: int) -> None:
        for _ in range(count):
            world.simulator.inject(
                world.simulator.now, data.draw(st.sampled_from(around)), Received(liar, data.draw(told))
            )
            world.run(data.draw(st.sampled_from([0.0, 0.05, 0.4])))

    lie(data.draw(st.integers(1, 15)))
    assert play.departures() == 0 and world.links() == links, "the living were parted"
    victim = data.draw(st.sampled_from([name for name in world.names if name != liar]))
    world.crash(victim, is_silent=True)
    lie(data.draw(st.integers(0, 10)))
    world.run(30.0)
    world.assert_one_tree()
    assert all(victim not in play.watch(name).watched for name in world.names), "a death is hidden for ever"
    assert all(not play.watch(name).inquiries for name in world.names)
