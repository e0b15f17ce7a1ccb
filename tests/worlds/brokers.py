"""Brokers joined by links that keep order, in a world that decides at random who is served next.

Every link is a queue in each direction. Which queue moves next is drawn, so messages on one link keep their order and
everything else may happen in any order. Links break and come back: what is in their queues is then lost, and the two
ends hear of it at different moments. A link may also leave the tree while its stream lives on (`leave`, `join`): then
what is in its queues still arrives.

The nodes are any machines. By default they hear of links by `NeighbourUp` and `NeighbourDown`, as from the overlay;
give `up` and `down` for nodes that hear of streams themselves. Messages pass through their bytes.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from msgspec.structs import astuple

from tidings.machine.effects import CancelTimer, Drop, Effect, Note, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received, Signal, TimerKey
from tidings.machine.node import Machine
from tidings.pubsub.signals import NeighbourDown, NeighbourUp
from tidings.wire import decode, encode

STEPS_MAX = 1_000_000
"""Steps after which a world that does not come to rest is taken to run for ever."""

Edge = tuple[str, str]


class BrokerWorld:
    def __init__(
        self,
        nodes: dict[str, Machine],
        rng: Random,
        up: Callable[[str, int], Input] = NeighbourUp,
        down: Callable[[str, int], Input] = NeighbourDown,
        checks: bool = False,
    ) -> None:
        self.nodes, self.rng, self.up, self.down, self.checks = nodes, rng, up, down, checks
        self.now = 0.0
        self.queues: dict[Edge, deque[Any]] = {}
        """Bytes of messages, and whatever else a test lets travel among them."""
        self.epochs: dict[Edge, int] = {}
        """The streams that live; each by the smaller name first."""
        self.known: dict[Edge, int] = {}
        """Under which epoch the first node takes the second for a neighbour."""
        self.news: dict[str, deque[Input]] = {name: deque() for name in nodes}
        """What each node is still to hear of its links."""
        self.epoch = 0
        self.timers: dict[tuple[str, TimerKey], float] = {}
        self.heard: list[tuple[str, Signal | Note]] = []
        """Signals and notes that nodes gave to the world, oldest first."""
        self.drops: Counter[str] = Counter()
        self.crossed: Counter[tuple[str, str, str]] = Counter()
        """Messages by sender, receiver and kind."""
        self.watch: Callable[[str, str, Any], None] = lambda sender, to, message: None
        self.listen: Callable[[str, Signal | Note], None] = lambda name, signal: None
        for name in nodes:
            self.begin(name)

    def begin(self, name: str) -> None:
        self.perform(name, self.nodes[name].start(self.now))

    # What happens.

    def link(self, first: str, second: str) -> None:
        """A new stream between the two; both ends will hear of it."""
        edge = ordered(first, second)
        assert edge not in self.epochs
        self.epoch += 1
        self.epochs[edge] = self.epoch
        self.queues[first, second], self.queues[second, first] = deque(), deque()
        self.join(first, second)

    def join(self, first: str, second: str) -> None:
        """The stream becomes a link of the tree."""
        epoch = self.epochs[ordered(first, second)]
        self.news[first].append(self.up(second, epoch))
        self.news[second].append(self.up(first, epoch))

    def leave(self, first: str, second: str) -> None:
        """The link leaves the tree; its stream lives on."""
        epoch = self.epochs[ordered(first, second)]
        self.news[first].append(self.down(second, epoch))
        self.news[second].append(self.down(first, epoch))

    def cut(self, first: str, second: str) -> None:
        """The stream breaks: what is on its way is lost, and both ends will hear of it."""
        self.leave(first, second)
        del self.epochs[ordered(first, second)]
        for edge in ((first, second), (second, first)):
            self.queues.pop(edge, None)

    def crash(self, name: str, node: Machine) -> None:
        """The node dies, and another begins in its place, without a link."""
        for edge in [edge for edge in self.epochs if name in edge]:
            self.cut(*edge)
        self.news[name].clear()
        self.timers = {timer: at for timer, at in self.timers.items() if timer[0] != name}
        self.known = {pair: epoch for pair, epoch in self.known.items() if pair[0] != name}
        self.nodes[name] = node
        self.begin(name)

    def hear(self, name: str, other: str) -> None:
        """The node hears at once what it is still to hear of its links to the other."""
        for input in [input for input in self.news[name] if astuple(input)[0] == other]:
            self.news[name].remove(input)
            self.tell(name, input)

    def tell(self, name: str, input: Input) -> list[Effect]:
        if type(input) is type(self.up("", 0)):
            neighbour, epoch, *_ = astuple(input)
            self.known[name, neighbour] = epoch
        effects = self.nodes[name].handle(self.now, input)
        self.perform(name, effects)
        if self.checks:
            self.nodes[name].check()
        return effects

    def perform(self, name: str, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(to, message):
                    self.watch(name, to, message)
                    self.crossed[name, to, type(message).__name__] += 1
                    # Whoever has not heard yet that a stream was replaced still writes into the old one.
                    if self.epochs.get(ordered(name, to)) == self.known.get((name, to)) is not None:
                        self.queues[name, to].append(encode(message))
                case SetTimer(key, at):
                    assert at >= self.now
                    self.timers[name, key] = at
                case CancelTimer(key):
                    self.timers.pop((name, key), None)
                case Drop(_, reason):
                    self.drops[reason] += 1
                case _:
                    assert isinstance(effect, Signal | Note), effect
                    self.heard.append((name, effect))
                    self.listen(name, effect)

    # How it goes on.

    def step(self) -> bool:
        """One message arrives, or one node hears of a link; False if there is neither."""
        ready: list[Any] = [edge for edge, queue in self.queues.items() if queue]
        ready += [name for name, news in self.news.items() if news]
        if not ready:
            return False
        chosen = self.rng.choice(ready)
        if isinstance(chosen, str):
            self.tell(chosen, self.news[chosen].popleft())
        else:
            self.arrive(*chosen)
        return True

    def arrive(self, sender: str, to: str) -> None:
        """The next message on this link, for those who choose the order themselves."""
        data = self.queues[sender, to].popleft()
        self.tell(to, Received(sender, decode(data), len(data)))

    def under_way(self, sender: str, to: str) -> list[Any]:
        return [decode(data) for data in self.queues[sender, to]]

    def run(self, steps: int) -> None:
        for _ in range(steps):
            if not self.step():
                return

    def rest(self) -> None:
        """Until nothing is under way."""
        for _ in range(STEPS_MAX):
            if not self.step():
                return
        raise AssertionError(f"still not at rest after {STEPS_MAX} steps")

    def go_on(self) -> bool:
        """One step; a timer fires only when nothing else is left to happen."""
        if self.step():
            return True
        if self.timers:
            self.fire()
            return True
        return False

    def settle(self) -> None:
        """Until nothing is under way and no timer is set."""
        for _ in range(STEPS_MAX):
            if not self.go_on():
                return
        raise AssertionError(f"still not settled after {STEPS_MAX} steps")

    def fire(self) -> None:
        """The next timer."""
        timer = min(self.timers, key=lambda each: (self.timers[each], each[0]))
        self.now = max(self.now, self.timers.pop(timer))
        self.tell(timer[0], Fired(timer[1]))

    def told(self, name: str, kind: type) -> list[Any]:
        return [signal for node, signal in self.heard if node == name and type(signal) is kind]


def ordered(first: str, second: str) -> Edge:
    return (first, second) if first < second else (second, first)


def random_tree(names: list[str], rng: Random) -> list[Edge]:
    """Edges of a tree over these names, drawn at random; sometimes deep, sometimes flat."""
    reach = rng.choice([1, 2, len(names)])
    return [(names[rng.randrange(max(0, place - reach), place)], names[place]) for place in range(1, len(names))]


def side_of(edges: Iterable[Edge], name: str, without: str | None = None) -> list[str]:
    """The nodes that can be reached from `name` without passing through `without`, `name` first."""
    near: dict[str, list[str]] = {}
    for first, second in edges:
        near.setdefault(first, []).append(second)
        near.setdefault(second, []).append(first)
    reached = {name: None}
    queue = deque([name])
    while queue:
        for other in near.get(queue.popleft(), ()):
            if other not in reached and other != without:
                reached[other] = None
                queue.append(other)
    return list(reached)
