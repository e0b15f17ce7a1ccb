"""The spanning tree under links and brokers that come and go, with messages that take any time but keep their order.

A small network of FIFO links carries real messages as bytes. Each step delivers the next message of some link, drawn at
random. A link that breaks loses what is on it; its two ends hear of it at different times. Between the messages of the
tree every node sends *probes* to its neighbours, as routing would: numbered from 0 for each time that the neighbour
came up. A neighbour must get the probes of one such time from the first on, without a hole and without any of an
earlier one.
"""

from collections import deque
from collections.abc import Iterable
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.message_strategies import of_message
from tidings.machine.effects import CancelTimer, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received, TimerKey
from tidings.machine.streams import RandomStream, random_stream
from tidings.protocols.overlay.messages import RenewTree, TreeOffer
from tidings.protocols.overlay.spanning_tree import SpanningTree, SpanningTreeParams
from tidings.pubsub.notes import Reattached
from tidings.pubsub.signals import NeighbourDown, NeighbourUp, PeerDown, PeerUp
from tidings.wire import decode, encode

Probe = tuple[int, int]
"""The time that the neighbour came up, and the number of the probe in it."""

Edge = tuple[str, str]
STEPS_MAX = 200_000


class FifoNetwork:
    def __init__(self, names: list[str], rng: RandomStream, params: SpanningTreeParams) -> None:
        self.rng, self.params, self.now = rng, params, 0.0
        self.machines = {name: SpanningTree(name, params) for name in names}
        for machine in self.machines.values():
            machine.start(rng.below(3))
        self.queues: dict[Edge, deque[bytes | Probe]] = {}
        self.late: list[tuple[str, str, int]] = []
        """Ends that have not yet heard of the loss of a link."""
        self.linked: dict[Edge, int] = {}
        self.timers: dict[tuple[str, TimerKey], float] = {}
        self.epoch, self.times = 0, count(1)
        self.up: dict[Edge, int] = {}
        """Neighbours as told, with the time at which each came up."""
        self.sent: dict[Edge, int] = {}
        self.heard: dict[Edge, Probe | None] = {}
        self.paired: set[tuple[Edge, int]] = set()
        self.changes = 0

    # What happens to the network.

    def link(self, one: str, other: str) -> None:
        pair = pair_of(one, other)
        if pair in self.linked or one == other:
            return
        for end in [end for end in self.late if pair_of(*end[:2]) == pair]:
            self.notice(end)
        self.epoch += 1
        epoch = self.linked[pair] = self.epoch
        self.queues[one, other], self.queues[other, one] = deque(), deque()
        for near, far in ((one, other), (other, one)):
            self.perform(near, self.machines[near].handle(self.now, PeerUp(far, epoch)))

    def cut(self, one: str, other: str) -> None:
        pair = pair_of(one, other)
        if pair in self.linked:
            epoch = self.linked.pop(pair)
            del self.queues[one, other], self.queues[other, one]
            self.late += [(one, other, epoch), (other, one, epoch)]

    def crash(self, name: str) -> None:
        """And start at once, without its state."""
        for one, other in [pair for pair in self.linked if name in pair]:
            self.cut(one, other)
        self.late = [end for end in self.late if end[0] != name]
        self.timers = {timer: at for timer, at in self.timers.items() if timer[0] != name}
        for edge in [edge for edge in self.up if edge[0] == name]:
            del self.up[edge]
        self.machines[name] = SpanningTree(name, self.params)
        self.machines[name].start(3.0 + self.epoch)

    def notice(self, end: tuple[str, str, int]) -> None:
        self.late.remove(end)
        near, far, epoch = end
        self.perform(near, self.machines[near].handle(self.now, PeerDown(far, epoch, "cut")))

    def step(self) -> bool:
        """One thing happens, drawn from all that may; False when nothing is left to happen."""
        busy = [edge for edge, queue in self.queues.items() if queue]
        choices = len(busy) + len(self.late)
        if choices == 0:
            if not self.timers:
                return False
            name, key = min(self.timers, key=lambda it: (self.timers[it], str(it)))
            self.now = max(self.now, self.timers.pop((name, key)))
            self.perform(name, self.machines[name].handle(self.now, Fired(key)))
            return True
        drawn = self.rng.below(choices)
        if drawn < len(busy):
            self.deliver(*busy[drawn])
        else:
            self.notice(self.late[drawn - len(busy)])
        return True

    def deliver(self, sender: str, to: str) -> None:
        item = self.queues[sender, to].popleft()
        if isinstance(item, bytes):
            self.perform(to, self.machines[to].handle(self.now, Received(sender, decode(item), len(item))))
        elif (to, sender) in self.up:
            time, number = item
            last = self.heard[to, sender]
            if last is None:
                assert number == 0, "the beginning is missing"
                assert ((to, sender), time) not in self.paired, "probes of an earlier time"
                self.paired.add(((to, sender), time))
            else:
                assert (time, number) == (last[0], last[1] + 1), "a hole, or probes of an earlier time"
            self.heard[to, sender] = time, number

    # What nodes do.

    def perform(self, name: str, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(to, message):
                    if (name, to) in self.queues:
                        self.queues[name, to].append(encode(message))
                case SetTimer(key, at):
                    self.timers[name, key] = at
                case CancelTimer(key):
                    self.timers.pop((name, key), None)
                case NeighbourUp(neighbour):
                    assert (name, neighbour) not in self.up
                    self.changes += 1
                    self.up[name, neighbour] = next(self.times)
                    self.sent[name, neighbour], self.heard[name, neighbour] = 0, None
                    self.probe(name, neighbour)
                case NeighbourDown(neighbour):
                    self.changes += 1
                    del self.up[name, neighbour]
                case Reattached(seconds):
                    assert 0.0 <= seconds <= self.now and self.machines[name].parent is not None
                case _:
                    raise AssertionError(f"{name}: {effect}")
        self.machines[name].check()
        neighbours = self.machines[name].neighbours
        if neighbours and self.rng.random() < 0.5:
            self.probe(name, self.rng.choice(neighbours))

    def probe(self, name: str, to: str) -> None:
        if (name, to) in self.queues and (name, to) in self.up:
            self.queues[name, to].append((self.up[name, to], self.sent[name, to]))
            self.sent[name, to] += 1

    def settle(self) -> None:
        for _ in range(STEPS_MAX):
            if not self.step():
                return
        raise AssertionError("it does not settle")

    # What must be true in the end.

    def judge(self) -> None:
        edges = {pair_of(*edge) for edge in self.up}
        for one, other in self.up:
            assert (other, one) in self.up, f"{one} lists {other}, but not the other way round"
        assert edges <= set(self.linked)
        assert [machine.why_unsettled() for machine in self.machines.values()] == [""] * len(self.machines)
        assert parts(self.machines, edges) == parts(self.machines, self.linked), "a part is not spanned"
        assert len(edges) == len(self.machines) - len(parts(self.machines, self.linked)), "there is a loop"
        for part in parts(self.machines, self.linked):
            assert {self.machines[name].root for name in part} == {min(self.machines[name].own for name in part)}
        # Every probe of a link that is up has come from the first on, or is the first one still to be sent.
        for (one, other), sent in self.sent.items():
            if (one, other) in self.up:
                last = self.heard[other, one]
                assert last == (self.up[one, other], sent - 1)


names_drawn = st.sampled_from(["a", "b", "m", "z", "stranger"])
overlay_messages = st.one_of([of_message(kind) for kind in (*SpanningTree.messages, TreeOffer, RenewTree)])
offers = st.builds(TreeOffer, st.sampled_from([-1.0, 0.0]), names_drawn, st.integers(0, 3), st.integers(0, 3))
inputs = st.one_of(
    st.builds(PeerUp, names_drawn, st.integers(1, 3)),
    st.builds(PeerDown, names_drawn, st.integers(1, 3)),
    st.builds(Received, names_drawn, st.one_of(offers, overlay_messages)),
    st.just(Fired("renew")),
)


@given(st.lists(inputs, max_size=40))
def test_nothing_that_peers_say_breaks_the_tree(said: list[Input]) -> None:
    machine = SpanningTree("m", SpanningTreeParams(distance_max=4, roots_max=2))
    up: set[str] = set()
    for input in said:
        for effect in machine.handle(1.0, input):
            if isinstance(effect, NeighbourUp):
                assert effect.neighbour not in up
                up.add(effect.neighbour)
            elif isinstance(effect, NeighbourDown):
                up.remove(effect.neighbour)
            elif isinstance(effect, Send):
                encode(effect.message)
        machine.check()
        assert up == set(machine.neighbours)


def pair_of(one: str, other: str) -> Edge:
    return (one, other) if one < other else (other, one)


def parts(names: Iterable[str], edges: Iterable[Edge]) -> set[frozenset[str]]:
    """The connected parts."""
    above = {name: name for name in names}

    def top(name: str) -> str:
        while above[name] != name:
            name = above[name]
        return name

    for one, other in edges:
        above[top(one)] = top(other)
    tops: dict[str, set[str]] = {}
    for name in above:
        tops.setdefault(top(name), set()).add(name)
    return {frozenset(part) for part in tops.values()}


def names_of(size: int) -> list[str]:
    return [f"n{number:02}" for number in range(size)]


def chain(names: list[str]) -> list[Edge]:
    return list(pairwise(names))


def ring(names: list[str]) -> list[Edge]:
    return [*chain(names), *([(names[-1], names[0])] if len(names) > 2 else [])]


def clique(names: list[str]) -> list[Edge]:
    return [(one, other) for one in names for other in names if one < other]


def random_graph(names: list[str], rng: RandomStream) -> list[Edge]:
    return [edge for edge in clique(names) if rng.random() < 2.5 / len(names)]


@st.composite
def networks(draw: st.DrawFn) -> tuple[list[str], list[Edge], RandomStream]:
    size = draw(st.integers(2, 12))
    kind = draw(st.sampled_from(["ring", "clique", "random", "random", "chain"]))
    rng = random_stream(draw(st.integers(0, 2**32)), "network")
    names = names_of(size)
    rng.shuffle(names)
    shapes = {"ring": ring(names), "clique": clique(names), "chain": chain(names), "random": random_graph(names, rng)}
    return names, shapes[kind], rng


@pytest.mark.spec("D-2", "D-3", "D-5")
@given(networks(), st.integers(0, 40), st.sampled_from([1, 2, 5]))
def test_whatever_fails_and_comes_back_the_neighbours_end_as_a_spanning_tree(
    drawn: tuple[list[str], list[Edge], RandomStream], troubles: int, gain_min: int
) -> None:
    names, edges, rng = drawn
    network = FifoNetwork(names, rng, SpanningTreeParams(gain_min=gain_min))
    for one, other in edges:
        network.link(one, other)
        for _ in range(rng.below(4)):
            network.step()
    for _ in range(troubles):
        if edges:
            one, other = rng.choice(edges)
            kind = rng.below(5)
            if kind == 0:
                network.crash(one)
            elif kind <= 2:
                network.cut(one, other)
            else:
                network.link(one, other)
        for _ in range(rng.below(30)):
            network.step()
    network.settle()
    network.judge()


@pytest.mark.spec("D-3")
@given(st.integers(0, 2**32), st.integers(2, 14))
def test_on_links_that_form_a_tree_no_link_ever_goes_down(seed: int, size: int) -> None:
    rng = random_stream(seed, "tree")
    names = names_of(size)
    rng.shuffle(names)
    edges = [(name, names[rng.below(place)]) for place, name in enumerate(names) if place]
    rng.shuffle(edges)
    network = FifoNetwork(names, rng, SpanningTreeParams())
    for one, other in edges:
        network.link(one, other)
        for _ in range(rng.below(6)):
            network.step()
    network.settle()
    network.judge()
    assert network.changes == 2 * len(edges)


@given(st.integers(0, 2**32), st.integers(3, 12))
def test_a_root_that_dies_is_forgotten_without_counting_to_infinity(seed: int, size: int) -> None:
    rng = random_stream(seed, "clique")
    names = names_of(size)
    network = FifoNetwork(names, rng, SpanningTreeParams())
    for one, other in clique(names):
        network.link(one, other)
    network.settle()
    for name in names[1:]:
        network.cut(names[0], name)
    offers = 0
    while network.step():
        offers += 1
        assert all(machine.distance <= size for machine in network.machines.values())
    network.judge()
    assert offers <= 12 * size * size
