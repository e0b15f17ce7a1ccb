"""E22: degrees in the tree that brokers on a ring form.

The published setting is a hash table in order: all hosts know who has which keys. So nothing is simulated in time: the
part of the product that works out a broker's neighbours (`protocols/overlay/dhtree/neighbours.py`) is asked for all of
them, for random sets of hosts. That machines come to the same tree by messages is for the tests of DHTree.

Measured in the run: there are no messages, and so no trace that a metric could read.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tidings.lab.definition import define
from tidings.lab.experiment import Canvas, Measured, Variant
from tidings.lab.figures import measured_in_runs
from tidings.lab.plots import COLOURS
from tidings.machine.streams import random_stream
from tidings.protocols.overlay.dhtree.neighbours import tree_of
from tidings.protocols.overlay.dhtree.reference import ReferenceTree
from tidings.trace.writer import Writer

BINARY, QUATERNARY = ReferenceTree(2, 8), ReferenceTree(4, 8)
"""255 and 21,845 keys."""

HOSTS = (10_000, 16_000, 20_000)
"""On the tree with four children."""

CHILDREN_SHOWN = 8


def children_of_hosts(reference: ReferenceTree, hosts: int, seed: int) -> list[int]:
    """How many children each has, for a random set of hosts; and one of them is the root, above all others."""
    keys = random_stream(seed, "hosts", reference.arity, hosts).sample(range(reference.keys), hosts)
    tree = tree_of(reference, {str(key): key for key in keys})
    counts = [len(places.children) for places in tree.values()]
    roots = sum(places.parent is None for places in tree.values())
    assert roots == 1 and sum(counts) == hosts - 1, "no tree"
    return counts


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    """Parameters: hosts on the binary tree, and which share of the published numbers on the other."""
    made: dict[str, float] = {}
    binary = Counter(children_of_hosts(BINARY, parameters["binary_hosts"], seed))
    made["most children|binary"] = max(binary)
    for count in range(3):
        made[f"children, binary|{count}"] = binary[count] / parameters["binary_hosts"]
    shares = []
    for published in HOSTS:
        hosts = round(parameters["share"] * published)
        counts = Counter(children_of_hosts(QUATERNARY, hosts, seed))
        shares.append(sum(many for count, many in counts.items() if count > QUATERNARY.arity) / hosts)
        made[f"above the reference|{published} hosts"] = shares[-1]
        for count in range(CHILDREN_SHOWN):
            made[f"children, {published} hosts|{count}"] = counts[count] / hosts
    return {**made, "fewer as keys are used|": shares[0] - shares[-1]}


def plot(canvas: Canvas, measured: Sequence[Measured]) -> None:
    axes = canvas.subplots(1, 1)
    for colour, label in zip(COLOURS, ("binary", *(f"{hosts} hosts" for hosts in HOSTS)), strict=False):
        points = sorted((int(each.group), each.value) for each in measured if each.figure == f"children, {label}")
        axes.plot([at for at, _ in points], [value for _, value in points], "o-", color=colour, label=label)
    axes.set(xlabel="children", ylabel="share of the hosts")
    axes.legend()


EXPERIMENT = define(__file__, run=run, variants=(Variant("stable"),), figures=measured_in_runs, plot=plot)
