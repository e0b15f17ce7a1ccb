"""E23: how much of the tree on a ring changes when a host comes or goes.

As in E22 everybody knows the same ring, and nothing is simulated in time: the tree before a change and the tree after
it are compared. A host joins, another one leaves, and so on. The *area* of a change is the least subtree of the tree
afterwards that connects the ends of all links that were added or removed (the one that left excepted).

Measured in the run: there are no messages, and so no trace that a metric could read.
"""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, Measured, Variant
from tidings.lab.figures import measured_in_runs
from tidings.lab.plots import COLOURS
from tidings.machine.streams import RandomStream, random_stream
from tidings.protocols.overlay.dhtree.neighbours import tree_of
from tidings.protocols.overlay.dhtree.reference import ReferenceTree
from tidings.trace.writer import Writer

REFERENCE = ReferenceTree(2, 8)
SIZES = (10, 30, 60, 90, 120)

Parents = dict[int, int | None]
"""Each host, by its key, with the one above it."""


def parents_of(keys: Sequence[int]) -> Parents:
    tree = tree_of(REFERENCE, {str(key): key for key in keys})
    return {int(name): None if it.parent is None else int(it.parent.broker) for name, it in tree.items()}


def links_of(parents: Parents) -> set[tuple[int, int]]:
    return {(child, parent) for child, parent in parents.items() if parent is not None}


def way_up(parents: Parents, host: int) -> list[int]:
    way = [host]
    while (above := parents[way[-1]]) is not None:
        way.append(above)
    return way


def area_of(parents: Parents, ends: set[int]) -> int:
    """Hosts of the least subtree that has all of these."""
    ways = [way_up(parents, end)[::-1] for end in ends]
    if not ways:
        return 0
    common = 0
    while all(len(way) > common + 1 and way[common + 1] == ways[0][common + 1] for way in ways):
        common += 1
    return len({host for way in ways for host in way[common:]})


def change(before: Parents, after: Parents) -> tuple[int, int, int]:
    """Links added, links removed, and the area."""
    old, new = {tuple(sorted(link)) for link in links_of(before)}, {tuple(sorted(link)) for link in links_of(after)}
    ends = {end for link in old ^ new for end in link if end in after}
    return len(new - old), len(old - new), area_of(after, ends)


def alternate(count: int, changes: int, rng: RandomStream) -> dict[str, list[tuple[int, int, int]]]:
    keys = rng.sample(range(REFERENCE.keys), count)
    found: dict[str, list[tuple[int, int, int]]] = {"join": [], "leave": []}
    parents = parents_of(keys)
    for _ in range(changes):
        keys.append(rng.choice([key for key in range(REFERENCE.keys) if key not in keys]))
        larger = parents_of(keys)
        found["join"].append(change(parents, larger))
        keys.remove(rng.choice(keys))
        parents = parents_of(keys)
        found["leave"].append(change(larger, parents))
    return found


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: how many joins, and as many leaves."""
    made: dict[str, float] = {}
    areas: dict[str, list[float]] = {"join": [], "leave": []}
    for count in SIZES:
        for kind, changes in alternate(count, parameters["changes"], random_stream(seed, "area", count)).items():
            added, removed, area = (mean(column) for column in zip(*changes, strict=True))
            made |= {f"added by a {kind}|{count} hosts": added, f"removed by a {kind}|{count} hosts": removed}
            made[f"area of a {kind}|{count} hosts"] = area
            areas[kind].append(area)
    for kind, found in areas.items():
        made[f"growth of the area|{kind}"] = found[-1] / found[0]
    return made


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    for colour, kind in zip(COLOURS, ("join", "leave"), strict=False):
        points = sorted((int(it.group.split()[0]), it.value) for it in measured if it.figure == f"area of a {kind}")
        axes.plot([at for at, _ in points], [value for _, value in points], "o-", color=colour, label=kind)
    axes.set(xlabel="hosts", ylabel="hosts of the subtree that changes", ylim=(0, None))
    axes.legend()


EXPERIMENT = define(__file__, run=run, variants=(Variant("stable"),), figures=measured_in_runs, plot=plot)
