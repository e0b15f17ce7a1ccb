"""`python -m bench.nearness`: what it is worth that brokers of an LSTree look for nearer ones to be below.

    python -m bench.nearness                            PlanetLab and two maps of the Topology Zoo
    python -m bench.nearness --world planetlab --nodes 300

Dispatchers at the places of measured hosts (PlanetLab, 490 round trips each), or of an operator's nodes (light in glass
along its lines, at 200,000 km/s, the shortest way). All join, one after the other; after ten minutes a quarter crashes
at once. Two rows for each world, plain and looking. *Stretch*: the way in the tree over the direct one, of all pairs,
mean and median; *ways* is the mean way over the mean direct one. *Moves* of a broker until the crash. *Repairs*:
seconds from the loss of the one above to the next one, of all that lost it in the crash; and until all were one tree.
"""

import argparse
import sys
from heapq import heappop, heappush
from statistics import mean, median

from tests.worlds.trees import TreeWorld
from tidings.machine.effects import Effect
from tidings.machine.streams import random_stream
from tidings.model.identity import NodeId
from tidings.protocols.overlay.lstree.params import LsTreeParams
from tidings.pubsub.notes import Reattached
from tidings.sim.network.latency import Matrix
from tidings.sim.node import SimulatedNode
from tidings.sim.observers import Observer
from tidings.sim.topologies.zoo import zoo
from tidings.workloads.latencies import planetlab_matrix

SEED = 1
GLASS_KM_S = 200_000.0
LEAST = 0.0001
"""One way, between two nodes at one place."""
SPACING, REST, AFTER, SHARE = 0.05, 600.0, 60.0, 0.25

Delays = dict[tuple[NodeId, NodeId], float]


class RepairTimes(Observer):
    def __init__(self) -> None:
        self.seconds: list[float] = []

    def on_effects(self, now: float, node: SimulatedNode, effects: list[Effect]) -> None:
        self.seconds += [each.seconds for each in effects if isinstance(each, Reattached)]


def planetlab(nodes: int, seed: int) -> Delays:
    rows = planetlab_matrix().rows
    hosts = random_stream(seed, "hosts").sample(range(len(rows)), min(nodes, len(rows)))
    return {
        (f"d{i}", f"d{j}"): max(LEAST, rows[one][other] / 2)
        for i, one in enumerate(hosts)
        for j, other in enumerate(hosts)
        if i != j
    }


def operator(name: str, nodes: int, seed: int) -> Delays:
    """A line whose length nobody knows has that of the median."""
    topology = zoo(name).largest_part()
    usual = median(edge.length_km for edge in topology.edges if edge.length_km is not None)
    lines: dict[NodeId, dict[NodeId, float]] = {node: {} for node in topology.nodes}
    for edge in topology.edges:
        km = usual if edge.length_km is None else edge.length_km
        lines[edge.a][edge.b] = lines[edge.b][edge.a] = max(LEAST, km / GLASS_KM_S)
    chosen = random_stream(seed, "hosts").sample(list(topology.nodes), min(nodes, len(topology.nodes)))
    places = {node: f"d{number}" for number, node in enumerate(chosen)}
    return {
        (places[one], places[other]): max(LEAST, delay)
        for one in chosen
        for other, delay in shortest(lines, one).items()
        if other in places and other != one
    }


def shortest(lines: dict[NodeId, dict[NodeId, float]], begin: NodeId) -> dict[NodeId, float]:
    found: dict[NodeId, float] = {}
    heap = [(0.0, begin)]
    while heap:
        delay, node = heappop(heap)
        if node not in found:
            found[node] = delay
            for other, line in lines[node].items():
                heappush(heap, (delay + line, other))
    return found


def stretches(world: TreeWorld, delays: Delays) -> tuple[list[float], float]:
    """Of each pair; and the mean way over the mean direct one."""
    near: dict[NodeId, list[NodeId]] = {name: [] for name in world.names}
    for child, parent in world.links():
        near[child].append(parent)
        near[parent].append(child)
    found, ways, direct = list[float](), list[float](), list[float]()
    for begin in near:
        way, ahead = {begin: 0.0}, [begin]
        while ahead:
            node = ahead.pop()
            for other in near[node]:
                if other not in way:
                    way[other] = way[node] + delays[node, other]
                    ahead.append(other)
        for other, length in way.items():
            if other != begin:
                found.append(length / delays[begin, other])
                ways.append(length)
                direct.append(delays[begin, other])
    return found, mean(ways) / mean(direct)


def measure(title: str, delays: Delays, seeds: int, is_looking: bool) -> None:
    found, ratios, degrees, moves, mended = list[float](), list[float](), list[int](), list[float](), list[float]()
    repairs = RepairTimes()
    for seed in range(SEED, SEED + seeds):
        count = len({one for one, _ in delays})
        params = LsTreeParams() if is_looking else LsTreeParams(nearer_period=0.0)
        world = TreeWorld(
            seed, count, params, network=Matrix(delays), spacing=SPACING, is_watched=False, observers=[repairs]
        )
        world.run(count * SPACING + REST)
        world.assert_one_tree()
        each, ratio = stretches(world, delays)
        found += each
        ratios.append(ratio)
        degrees.append(max(world.degrees().values()))
        moves.append(sum(world.trees[name].mover.moves for name in world.names) / count)
        world.crash(*world.draws.sample(world.names, round(count * SHARE)))
        crashed_at = world.simulator.now
        while len(world.roots) > 1 or world.simulator.now == crashed_at:
            world.run(0.1)
        mended.append(world.simulator.now - crashed_at)
        world.run(AFTER)
        world.assert_one_tree()
    ordered = sorted(repairs.seconds)
    late = ordered[int(0.95 * len(ordered))]
    print(
        f"{title:<24}{count:>6}{mean(found):>9.2f}{median(found):>8.2f}{mean(ratios):>7.2f}{max(degrees):>8}"
        f"{mean(moves):>7.2f}{median(ordered):>9.2f}{late:>7.2f}{mean(mended):>9.2f}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.nearness", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--world", action="append", help="planetlab, or a map of the Topology Zoo; may be repeated")
    parser.add_argument("--nodes", type=int, default=300, help="at most")
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    print(f"{'':<24}{'':>6}{'stretch':>17}{'':>7}{'':>8}{'':>7}{'repairs':>16}{'one tree':>9}")
    columns = f"{'mean':>9}{'median':>8}{'ways':>7}{'degree':>8}{'moves':>7}{'median':>9}{'p95':>7}{'after s':>9}"
    print(f"{'world':<24}{'nodes':>6}{columns}")
    for name in arguments.world or ["planetlab", "Cogentco", "Kdl"]:
        make = planetlab if name == "planetlab" else lambda nodes, seed, name=name: operator(name, nodes, seed)
        delays = make(arguments.nodes, SEED)
        measure(f"{name} plain", delays, arguments.seeds, is_looking=False)
        measure(f"{name} looking", delays, arguments.seeds, is_looking=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
