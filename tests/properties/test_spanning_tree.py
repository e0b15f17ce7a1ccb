"""The spanning tree under links and brokers that come and go, with messages that take any time but keep their order.

The small network is `BrokerWorld`. Between the messages of the
tree every node sends *probes* to its neighbours, as routing would: numbered from 0 for each time that the neighbour
came up. A neighbour must get the probes of one such time from the first on, without a hole and without any of an
earlier one.
"""

from collections.abc import Iterable
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.message_strategies import of_message
from tests.worlds.brokers import BrokerWorld, Edge, ordered
from tidings.machine.effects import Effect, Note, Send
from tidings.machine.inputs import Fired, Input, Received, Signal
from tidings.machine.streams import RandomStream, random_stream
from tidings.protocols.overlay.messages import RenewTree, TreeOffer
from tidings.protocols.overlay.spanning_tree import SpanningTree, SpanningTreeParams
from tidings.pubsub.notes import Reattached
from tidings.pubsub.signals import NeighbourDown, NeighbourUp, PeerDown, PeerUp
from tidings.wire import encode

Probe = tuple[int, int]
"""The time that the neighbour came up, and the number of the probe in it."""


class TreeNetwork(BrokerWorld):
    """A link is heard of at once where it comes up, and late where it is lost."""

    def __init__(self, names: list[str], rng: RandomStream, params: SpanningTreeParams) -> None:
        self.draws, self.params, self.times = rng, params, count(1)
        self.trees = {name: SpanningTree(name, params) for name in names}
        self.neighbours: dict[Edge, int] = {}
        """As told, with the time at which each came up."""
        self.sent: dict[Edge, int] = {}
        self.last: dict[Edge, Probe | None] = {}
        self.paired: set[tuple[Edge, int]] = set()
        self.changes = 0
        super().__init__(dict(self.trees), rng, PeerUp, lambda peer, epoch: PeerDown(peer, epoch, "cut"), checks=True)
        self.listen = self.observe

    def begin(self, name: str) -> None:
        """Those of the beginning are born at nearly the same time, all others after them."""
        self.perform(name, self.trees[name].start(3.0 + self.epoch if self.epoch else self.draws.below(3)))

    def link(self, first: str, second: str) -> None:
        if ordered(first, second) not in self.epochs and first != second:
            super().link(first, second)
            self.hear(first, second)
            self.hear(second, first)

    def cut(self, first: str, second: str) -> None:
        if ordered(first, second) in self.epochs:
            super().cut(first, second)

    def restart(self, name: str) -> None:
        """It crashes and starts at once, without its state."""
        self.neighbours = {edge: time for edge, time in self.neighbours.items() if edge[0] != name}
        self.trees[name] = SpanningTree(name, self.params)
        self.crash(name, self.trees[name])

    def tell(self, name: str, input: Input) -> list[Effect]:
        effects = super().tell(name, input)
        near = self.trees[name].neighbours
        if near and self.rng.random() < 0.5:
            self.probe(name, self.rng.choice(near))
        return effects

    def observe(self, name: str, told: Signal | Note) -> None:
        match told:
            case NeighbourUp(neighbour):
                assert (name, neighbour) not in self.neighbours
                self.changes += 1
                self.neighbours[name, neighbour] = next(self.times)
                self.sent[name, neighbour], self.last[name, neighbour] = 0, None
                self.probe(name, neighbour)
            case NeighbourDown(neighbour):
                self.changes += 1
                del self.neighbours[name, neighbour]
            case Reattached(seconds):
                assert 0.0 <= seconds <= self.now and self.trees[name].parent is not None
            case _:
                raise AssertionError(f"{name}: {told}")

    def probe(self, name: str, to: str) -> None:
        if (name, to) in self.queues and (name, to) in self.neighbours:
            self.queues[name, to].append((self.neighbours[name, to], self.sent[name, to]))
            self.sent[name, to] += 1

    def arrive(self, sender: str, to: str) -> None:
        if isinstance(self.queues[sender, to][0], bytes):
            super().arrive(sender, to)
            return
        time, number = self.queues[sender, to].popleft()
        if (to, sender) in self.neighbours:
            last = self.last[to, sender]
            if last is None:
                assert number == 0, "the beginning is missing"
                assert ((to, sender), time) not in self.paired, "probes of an earlier time"
                self.paired.add(((to, sender), time))
            else:
                assert (time, number) == (last[0], last[1] + 1), "a hole, or probes of an earlier time"
            self.last[to, sender] = time, number

    # What must be true in the end.

    def judge(self) -> None:
        edges = {ordered(*edge) for edge in self.neighbours}
        for one, other in self.neighbours:
            assert (other, one) in self.neighbours, f"{one} lists {other}, but not the other way round"
        assert edges <= set(self.epochs)
        assert [machine.why_unsettled() for machine in self.trees.values()] == [""] * len(self.trees)
        assert parts(self.trees, edges) == parts(self.trees, self.epochs), "a part is not spanned"
        assert len(edges) == len(self.trees) - len(parts(self.trees, self.epochs)), "there is a loop"
        for part in parts(self.trees, self.epochs):
            assert {self.trees[name].root for name in part} == {min(self.trees[name].own for name in part)}
        # Every probe of a link that is up has come from the first on, or is the first one still to be sent.
        for (one, other), sent in self.sent.items():
            if (one, other) in self.neighbours:
                last = self.last[other, one]
                assert last == (self.neighbours[one, other], sent - 1)


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
    network = TreeNetwork(names, rng, SpanningTreeParams(gain_min=gain_min))
    for one, other in edges:
        network.link(one, other)
        for _ in range(rng.below(4)):
            network.go_on()
    for _ in range(troubles):
        if edges:
            one, other = rng.choice(edges)
            kind = rng.below(5)
            if kind == 0:
                network.restart(one)
            elif kind <= 2:
                network.cut(one, other)
            else:
                network.link(one, other)
        for _ in range(rng.below(30)):
            network.go_on()
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
    network = TreeNetwork(names, rng, SpanningTreeParams())
    for one, other in edges:
        network.link(one, other)
        for _ in range(rng.below(6)):
            network.go_on()
    network.settle()
    network.judge()
    assert network.changes == 2 * len(edges)


@given(st.integers(0, 2**32), st.integers(3, 12))
def test_a_root_that_dies_is_forgotten_without_counting_to_infinity(seed: int, size: int) -> None:
    rng = random_stream(seed, "clique")
    names = names_of(size)
    network = TreeNetwork(names, rng, SpanningTreeParams())
    for one, other in clique(names):
        network.link(one, other)
    network.settle()
    for name in names[1:]:
        network.cut(names[0], name)
    offers = 0
    while network.go_on():
        offers += 1
        assert all(machine.distance <= size for machine in network.trees.values())
    network.judge()
    assert offers <= 12 * size * size
