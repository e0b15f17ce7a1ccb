"""200 dispatchers that all start at once and know one contact, 5 to 25 ms one way: after 5 s they are one tree of
degree at most 8 whose routing tables are those of one who sees everything, and at rest each says little."""

from functools import partial

from tidings.machine.effects import Effect, Send
from tidings.machine.streams import random_stream
from tidings.nodes.dispatcher import Dispatcher
from tidings.protocols.overlay.lstree.params import LsTreeParams
from tidings.pubsub.client import OpenSubscription
from tidings.sim.library.trees import PATTERNS, AllIsWell, make_dispatcher
from tidings.sim.network.latency import Constant, Jittered
from tidings.sim.node import SimulatedNode
from tidings.sim.observers import Observer
from tidings.sim.simulator import Simulator
from tidings.wire import encode
from tidings.wire.frames import HEAD_BYTES

NODES, SUBSCRIBE_BY, WELL_AT, REST = 200, 2.0, 5.0, 10.0


class SentBytes(Observer):
    """Frames of all messages from `begin` on."""

    def __init__(self, begin: float) -> None:
        self.begin, self.count = begin, 0

    def on_effects(self, now: float, node: SimulatedNode, effects: list[Effect]) -> None:
        if now >= self.begin:
            self.count += sum(len(encode(each.message)) + HEAD_BYTES for each in effects if type(each) is Send)


def test_two_hundred_that_know_one_contact_are_right_within_five_seconds() -> None:
    names, sent = tuple(f"b{number}" for number in range(NODES)), SentBytes(WELL_AT)
    draws = random_stream(1, "interests")
    simulator = Simulator(1, Jittered(Constant(0.005), 0.02), observers=[sent])
    for name in names:
        contacts = () if name == "b0" else ("b0",)
        simulator.add(name, partial(make_dispatcher, name, LsTreeParams(contacts=contacts), "timed"))
        wanted = OpenSubscription(None, f"pattern = {draws.below(PATTERNS)}")
        simulator.inject(draws.uniform(0.0, SUBSCRIBE_BY), name, wanted)
    simulator.run(WELL_AT)
    assert AllIsWell(names).at_end(simulator) == []
    machines = [node.machine for node in simulator.nodes.values()]
    assert max(len(each.overlay.neighbours) for each in machines if isinstance(each, Dispatcher)) <= 8
    simulator.run(WELL_AT + REST)
    assert sent.count / REST / NODES <= 600
