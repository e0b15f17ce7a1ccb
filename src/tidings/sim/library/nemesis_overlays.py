"""Which overlay a run of the nemesis has: one that tells enough for its repair.

    strawman, resuming, timed   the spanning tree of the links that are configured (LINKS)
    notified, informed          LSTree: brokers know names of others, and find their tree (REPLACEMENTS)
    path                        a script, which replaces links by others all the time (PATHS)
    shift                       a script too, whose links only plans change (`nemesis_plans.py`)

A script is no overlay that mends itself: a broker that starts again would ask for the neighbours of its beginning. So
where links are replaced brokers do not crash and are not paused; links break, and the network does what it likes.
Links are replaced at random moments, several at a time or none for long. Where plans change them, brokers know from
their disks which neighbours they had last.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from tidings.machine.streams import random_stream
from tidings.model.bounds import CONTACTS_MAX
from tidings.model.identity import NodeId
from tidings.nodes.choices import OverlayParams
from tidings.protocols.overlay.lstree.params import LsTreeParams
from tidings.protocols.overlay.scripted import ScriptedParams, rewiring
from tidings.protocols.overlay.spanning_tree import SpanningTreeParams
from tidings.protocols.routing.params import RepairName
from tidings.sim.cast import TimedInput
from tidings.workloads.nemesis.campaign import BEGIN
from tidings.workloads.substitutions import Pair, substitutions

DrawnRepair = RepairName | Literal["any"]

DRAWN: tuple[RepairName, ...] = (
    *("resuming", "resuming", "resuming", "resuming", "resuming"),
    *("strawman", "timed", "notified", "informed", "path"),
)

CHANGES_MAX = 40
"""Links that a script replaces."""


def draw_repair(repair: DrawnRepair, seed: int) -> RepairName:
    if repair != "any":
        return repair
    drawn = random_stream(seed, "nemesis repair").choice(DRAWN)
    is_planned = drawn == "path" and random_stream(seed, "nemesis planned").random() < 0.5
    return "shift" if is_planned else drawn


def tree_of(names: Sequence[NodeId], links: Sequence[Pair]) -> list[Pair]:
    """Some of these links, that reach everybody."""
    reached, tree = {names[0]}, []
    while more := next(((one, other) for one, other in links if (one in reached) != (other in reached)), None):
        tree.append(more)
        reached |= {*more}
    assert len(reached) == len(names), "the links do not reach everybody"
    return tree


def make_overlays(repair: RepairName, names: Sequence[NodeId], links: Sequence[Pair]) -> Mapping[NodeId, OverlayParams]:
    match repair:
        case "path" | "shift":
            near: dict[NodeId, list[NodeId]] = {name: [] for name in names}
            for one, other in tree_of(names, links):
                near[one].append(other)
                near[other].append(one)
            is_kept = repair == "shift"
            return {name: ScriptedParams(neighbours=tuple(near[name]), is_durable=is_kept) for name in names}
        case "notified" | "informed":
            return {
                name: LsTreeParams(contacts=tuple(other for other in names if other != name)[: CONTACTS_MAX - 1])
                for name in names
            }
        case _:
            return dict.fromkeys(names, SpanningTreeParams())


def draw_rewirings(names: Sequence[NodeId], links: Sequence[Pair], until: float, seed: int) -> list[TimedInput]:
    """What a script asks of whom."""
    rng = random_stream(seed, "nemesis script")
    count = rng.below(CHANGES_MAX + 1)
    repair_after, told_after = rng.choice((0.01, 0.3, 2.0)), rng.choice((0.0, 0.5))
    # Nothing is asked of anybody behind the end, so a link that breaks is replaced before.
    span = max(0.0, until - BEGIN - repair_after - told_after) * rng.choice((0.1, 0.5, 1.0))
    times = sorted(round(BEGIN + rng.random() * span, 3) for _ in range(count))
    inputs: list[TimedInput] = []
    for number, change in enumerate(substitutions(tree_of(names, links), times, repair_after, seed)):
        broken, linked, told = rewiring(f"r{number}", change.head, change.tail)
        told_at = change.linked_at + told_after
        for at, steps in ((change.broken_at, broken), (change.linked_at, linked), (told_at, told)):
            inputs += [TimedInput(at, broker, request) for broker, request in steps]
    return inputs
