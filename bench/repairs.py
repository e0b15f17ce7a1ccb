"""`python -m bench.repairs`: what it takes to replace one link of a network of brokers on sockets, repair by repair.

    python -m bench.repairs                        100 brokers, 100,000 subscriptions, ten links, one after the other
    python -m bench.repairs --repair timed --any-ends
    python -m bench.repairs --large                one link with 100,000 filters that are all different

All brokers are dispatchers of their own (`nodes/dispatcher.py`) with hosts of their own on loopback, in one process, so
that they fit into the memory of a small machine. They are a balanced tree; who wants what is at home at one broker: its
clients have 1,000 subscriptions, `--filters` of all brokers together being different, so that tables hold each of these
once for each neighbour behind whom it is wanted. A link is drawn and cut, 0.1 s later another one takes its place, one
end of which is an end of the lost one, as where brokers look for a new parent themselves; with `--any-ends` it may be
anywhere. Most links of a tree lead to a leaf; `--least 10` draws those with ten brokers or more on either side. Lost
neighbours are waited for at most 1.5 s (by default "resuming" waits for 30).

Shown are, for each repair, means over the links: messages as the source counts them, a filter that is told or taken
back being one, `Activate` and `PathEdit` as many as they carry, signals a tenth (dynamic-topologies.md 2.7); frames and
bytes that went over sockets; seconds until every broker on the way has whatever is wanted behind the new link, and
until all tables are right and nobody waits for anything; and the longest step of any machine in CPU time. `of` is how
many times more messages STRAWMAN took.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from random import Random
from typing import Any

import msgspec

from bench.tables import SILENT, Gaps
from tidings.lab.dynamic_topologies.repairs.rewired import counted, weight_of
from tidings.machine.effects import Effect, Send
from tidings.machine.inputs import Input
from tidings.model.identity import NodeId
from tidings.net import Host, HostParams
from tidings.net.broker.garbage import SteppedCollection
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.protocols.overlay.scripted import ScriptedParams, Step, rewiring
from tidings.protocols.routing.params import RepairName, RoutingParams
from tidings.protocols.routing.router import Router
from tidings.pubsub.client import OpenSubscription
from tidings.sim.topologies.shapes import balanced_tree
from tidings.workloads.substitutions import Pair, PlannedTree, Substitution, substitutions, way_back

BROKERS, SUBSCRIPTIONS, FILTERS, LINKS = 100, 100_000, 2_000, 10
REPAIRS: tuple[RepairName, ...] = ("strawman", "resuming", "timed", "notified", "informed", "path")
REPAIR_AFTER = 0.1
WAIT, DEGREE = 1.5, 4
LOOK = 0.01
"""Seconds between two looks at whether it is over."""


class CountedMachine:
    """A dispatcher, with what it sends because of a repair, and its longest step in CPU time."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher, self.longest = dispatcher, 0.0
        self.weight = 0.0

    def start(self, now: float) -> list[Effect]:
        return self.dispatcher.start(now)

    def handle(self, now: float, input: Input) -> list[Effect]:
        began = time.thread_time()
        effects = self.dispatcher.handle(now, input)
        self.longest = max(self.longest, time.thread_time() - began)
        for effect in effects:
            if type(effect) is Send:
                self.weight += sum(weight_of(*each) for each in counted(effect.message))
        return effects

    def check(self) -> None:
        self.dispatcher.check()


class ReplacedLink(msgspec.Struct, frozen=True):
    messages: float
    frames: int
    sent_bytes: int
    useful: float
    over: float
    step: float


class BrokerPlace:
    def __init__(self, name: NodeId, neighbours: tuple[NodeId, ...], repair: RepairName) -> None:
        routing = RoutingParams(
            strategy="subscription",
            reduction="plain",
            repair=repair,
            acknowledges=False,
            advertises=False,
            activation="asymmetric",
            unsubscribe_after=WAIT,
            subscribe_after=WAIT,
            rest_for=WAIT,
            engine="plain",
        )
        params = DispatcherParams(overlay=ScriptedParams(neighbours=neighbours), routing=routing)
        self.name, self.machine = name, CountedMachine(Dispatcher(name, params, Random(name)))
        host = HostParams(backoff_first=0.01, backoff_max=0.1)
        self.host = Host(name, self.machine, params=host, log=SILENT)

    @property
    def router(self) -> Router:
        routing: Any = self.machine.dispatcher.routing
        assert isinstance(routing, Router)
        return routing

    def ask(self, request: Any) -> None:
        self.host.inject(request)
        self.host.items.take_all()


class BrokerNetwork:
    """`edges` is the tree as it is planned."""

    def __init__(self, edges: Sequence[Pair], repair: RepairName, wanted: dict[NodeId, list[str]]) -> None:
        self.edges, self.wanted = list(edges), wanted
        self.places = {name: BrokerPlace(name, self.near(name), repair) for name in wanted}

    def near(self, name: NodeId) -> tuple[NodeId, ...]:
        return tuple(b if a == name else a for a, b in self.edges if name in (a, b))

    async def start(self, subscriptions: int) -> None:
        for place in self.places.values():
            await place.host.start()
        for place in self.places.values():
            for other in self.places.values():
                if other is not place:
                    await place.host.learn(other.name, other.host.address)
        for name, texts in self.wanted.items():
            for number in range(subscriptions // len(self.wanted) if texts else 0):
                self.places[name].ask(OpenSubscription(number, texts[number % len(texts)]))
            await asyncio.sleep(0)
        await until(self.is_at_rest)

    async def stop(self) -> None:
        for place in self.places.values():
            await place.host.stop()

    def behind(self, near: NodeId, far: NodeId) -> set[NodeId]:
        found, waiting = {far}, [far]
        while waiting:
            for name in self.near(waiting.pop()):
                if name != near and name not in found:
                    found.add(name)
                    waiting.append(name)
        return found

    def due(self, near: NodeId, far: NodeId) -> int:
        return sum(len(self.wanted[name]) for name in self.behind(near, far))

    def heard(self, near: NodeId, far: NodeId) -> int:
        return len(self.places[near].router.tables.texts.get(far, ()))

    def is_right(self, pairs: Iterable[Pair]) -> bool:
        """On these links, seen from both ends."""
        ways = [way for one, other in pairs for way in ((one, other), (other, one))]
        return all(self.heard(*way) == self.due(*way) for way in ways)

    def is_useful(self, path: Sequence[NodeId]) -> bool:
        """Whoever is on the way has what is wanted at its far end; what should go may still be there."""
        return all(self.heard(*way) >= self.due(*way) for way in pairwise(path))

    def is_at_rest(self) -> bool:
        if any(set(place.router.links) != set(self.near(name)) for name, place in self.places.items()):
            return False
        routers = [place.router for place in self.places.values()]
        waits = (link.is_withheld or link.holds_back for router in routers for link in router.links.values())
        lost = any(router.tables.ghosts or router.tables.absent for router in routers)
        return not lost and not any(waits) and self.is_right(self.edges)

    async def replace(self, name: str, change: Substitution) -> ReplacedLink:
        phases = rewiring(name, change.head, change.tail)
        for place in self.places.values():
            place.machine.weight = place.machine.longest = 0.0
        counts = [place.host.counts for place in self.places.values()]
        frames = -sum(each.stream_messages_sent for each in counts)
        sent_bytes = -sum(each.stream_bytes_sent for each in counts)
        began = time.perf_counter()
        self.edges = [edge for edge in self.edges if {*edge} != {*change.old}]
        self.edges.append(change.new)
        self.ask(phases[0])
        await asyncio.sleep(REPAIR_AFTER)
        self.ask(phases[1])
        near, far = change.new
        await until(lambda: far in self.places[near].router.links and near in self.places[far].router.links)
        self.ask(phases[2])
        path = (*change.head, *change.tail)
        await until(lambda: self.is_useful(path) and self.is_useful(path[::-1]))
        useful = time.perf_counter() - began
        await until(self.is_at_rest)
        over = time.perf_counter() - began
        frames += sum(each.stream_messages_sent for each in counts)
        sent_bytes += sum(each.stream_bytes_sent for each in counts)
        machines = [place.machine for place in self.places.values()]
        weight, step = sum(each.weight for each in machines), max(each.longest for each in machines)
        return ReplacedLink(weight, frames, sent_bytes, useful, over, step)

    def ask(self, steps: Iterable[Step]) -> None:
        for name, request in steps:
            self.places[name].ask(request)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(LOOK)


def mean_of(replaced: Sequence[ReplacedLink]) -> ReplacedLink:
    def mean(values: Iterable[float]) -> float:
        return sum(values) / len(replaced)

    return ReplacedLink(
        mean(each.messages for each in replaced),
        round(mean(each.frames for each in replaced)),
        round(mean(each.sent_bytes for each in replaced)),
        mean(each.useful for each in replaced),
        mean(each.over for each in replaced),
        max(each.step for each in replaced),
    )


async def measure(repair: RepairName, chosen: argparse.Namespace) -> ReplacedLink:
    topology = balanced_tree(chosen.brokers, degree=DEGREE)
    edges = [(edge.a, edge.b) for edge in topology.edges]
    names = list(topology.nodes)
    wanted: dict[NodeId, list[str]] = {name: [] for name in names}
    for number in range(chosen.filters):
        wanted[names[number % len(names)]].append(f"symbol = 'S{number}' AND price > {number % 1000}")
    if chosen.least:
        plan = inner_changes(edges, chosen)
    else:
        times = [float(number) for number in range(1, chosen.links + 1)]
        plan = substitutions(edges, times, REPAIR_AFTER, chosen.seed, shares_end=not chosen.any_ends)
    network = BrokerNetwork(edges, repair, wanted)
    with SteppedCollection(lambda: 0.0, time.monotonic):
        await network.start(chosen.subscriptions)
        replaced = [await network.replace(f"r{number}", change) for number, change in enumerate(plan)]
        await network.stop()
    return mean_of(replaced)


def inner_changes(edges: Sequence[Pair], chosen: argparse.Namespace) -> list[Substitution]:
    """Of links with at least so many brokers on both sides; the end on the smaller side looks for another one."""
    rng, tree, plan = Random(chosen.seed), PlannedTree(edges, DEGREE), list[Substitution]()
    while len(plan) < chosen.links:
        pair = rng.choice(list(tree.up_at))
        sides = [tree.ways(end, other) for end, other in (pair, pair[::-1])]
        place = int(len(sides[1]) < len(sides[0]))
        near, last, small, large = pair[place], pair[1 - place], sides[place], sides[1 - place]
        free = [name for name in large if len(tree.near[name]) < DEGREE and name != last]
        if len(small) >= chosen.least and free:
            far = rng.choice(free)
            plan.append(Substitution(0.0, REPAIR_AFTER, (near,), tuple(way_back(large, far))))
            del tree.up_at[pair], tree.near[near][last], tree.near[last][near]
            tree.join(near, far, at=0.0)
    return plan


def show(repair: RepairName, mean: ReplacedLink, strawman: float) -> None:
    print(
        f"{repair:<10}{mean.messages:>12,.0f}{strawman / mean.messages:>7.1f}{mean.frames:>10,}{mean.sent_bytes:>13,}"
        f"{mean.useful:>10.2f}{mean.over:>9.2f}{mean.step * 1000:>10.1f}",
        flush=True,
    )


# One link, and filters that are all different.

LARGE = [("a", "b"), ("a", "c"), ("c", "d")]
"""b, where all filters are at home, is below a, and then below d."""


async def measure_large(repair: RepairName, filters: int) -> tuple[ReplacedLink, float]:
    wanted = {name: list[str]() for name in "abcd"}
    wanted["b"] = [f"symbol = 'S{number}' AND price > {number % 1000}" for number in range(filters)]
    network = BrokerNetwork(LARGE, repair, wanted)
    change = Substitution(0.0, REPAIR_AFTER, ("b",), ("d", "c", "a"))
    with SteppedCollection(lambda: 0.0, time.monotonic):
        await network.start(4 * filters)
        gaps = Gaps()
        watching = asyncio.create_task(gaps.watch())
        replaced = await network.replace("r", change)
        watching.cancel()
        await network.stop()
    return replaced, gaps.longest


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.repairs", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--brokers", type=int, default=BROKERS)
    parser.add_argument("--subscriptions", type=int, default=SUBSCRIPTIONS, help="of all clients together")
    parser.add_argument("--filters", type=int, default=FILTERS, help="how many of them are different")
    parser.add_argument("--links", type=int, default=LINKS, help="that are replaced, one after the other")
    parser.add_argument("--seed", type=int, default=1, help="which links, and by which others")
    parser.add_argument(
        "--least", type=int, default=0, help="brokers at least on either side of a link; 0 for any link"
    )
    parser.add_argument("--any-ends", action="store_true", help="new links need not have an end of the lost one")
    parser.add_argument("--repair", choices=REPAIRS, action="append", help="may be repeated; all by default")
    parser.add_argument("--large", action="store_true", help="one link, as many filters as subscriptions")
    chosen = parser.parse_args(arguments)
    if chosen.large:
        print(f"one link replaced, {chosen.subscriptions:,} filters, four brokers")
        for repair in chosen.repair or REPAIRS:
            replaced, gap = asyncio.run(measure_large(repair, chosen.subscriptions))
            print(
                f"{repair:<10}{replaced.messages:>12,.0f} messages, useful after {replaced.useful:.1f} s, over after "
                f"{replaced.over:.1f} s; longest step of a broker {replaced.step * 1000:.1f} ms, longest round of the "
                f"loop of all four {gap * 1000:.1f} ms",
                flush=True,
            )
        return 0
    print(f"{chosen.brokers} brokers, {chosen.subscriptions:,} subscriptions, {chosen.filters:,} filters")
    titles = ("messages", "of", "frames", "bytes", "useful s", "over s", "step ms")
    widths = (12, 7, 10, 13, 10, 9, 10)
    print("repair    " + "".join(f"{title:>{width}}" for title, width in zip(titles, widths, strict=True)))
    strawman = float("nan")
    for repair in chosen.repair or REPAIRS:
        mean = asyncio.run(measure(repair, chosen))
        strawman = mean.messages if repair == "strawman" else strawman
        show(repair, mean, strawman)
    return 0


if __name__ == "__main__":
    sys.exit(main())
