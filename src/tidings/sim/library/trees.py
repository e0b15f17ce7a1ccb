"""Trees: brokers that find each other from a few contacts, and whatever can happen to them; then they are looked at.

Dispatchers on an LSTree, whose applications subscribe and change their minds. Faults of every kind are drawn from the
seed: crashes, with a word and without, for a while or for good; brokers that come and go many times (flap), that stand
still (busy), that are replaced by one of the same name that knows nothing, or by one of another name (which is what a
new address is where names are addresses), links that break, and networks that are split in two or in three.

Five seconds after the last fault is over (`settling`) all who are there must be one tree, seen the same from both ends,
and every routing table must be that of one who sees everything. Nothing else is excused.

Brokers look for nearer ones to be below only after half a minute in one place, so that none does in such a run. With
`moving` they do so all the time, over links of which each has a latency of its own, and are looked at when all have
found their places (`MOVING_SETTLING`).
"""

from collections.abc import Mapping
from functools import partial

from msgspec.structs import replace

from tidings.machine.node import Machine
from tidings.machine.streams import RandomStream, random_stream
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.model.language.parser import parse
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.protocols.overlay.lstree.lstree import LsTree
from tidings.protocols.overlay.lstree.params import LsTreeParams
from tidings.protocols.presence.params import PresenceParams
from tidings.protocols.routing.params import RepairName, RoutingParams
from tidings.protocols.routing.router import Router
from tidings.pubsub.client import CloseSubscription, OpenSubscription
from tidings.sim.cast import TimedInput
from tidings.sim.checkers import Checker, Problem
from tidings.sim.faults import Break, Crash, Fault, FaultPlan, Partition, Pause, plan_of
from tidings.sim.network.latency import Constant, Jittered, Matrix
from tidings.sim.network.rule import Rule
from tidings.sim.node import Draws, Make
from tidings.sim.scenario import Scenario
from tidings.sim.simulator import Simulator
from tidings.sim.topologies import Topology
from tidings.workloads.churn import FOR_EVER

BEGIN = 3.0
"""When all who begin are one tree, in seconds."""

SETTLING = 5.0
MOVING_SETTLING = 20.0
RESTLESS = LsTreeParams(nearer_first=0.5, nearer_period=4.0, gossip_period=10.0)

PATTERNS = 12
BOOTSTRAP = 3
FLAPS_MAX = 4


def trees(
    nodes: int = 10,
    faults: int = 6,
    span: float = 8.0,
    length_max: float = 3.0,
    subscriptions: int = 30,
    repair: RepairName = "timed",
    moving: bool = False,
) -> Scenario:
    """Faults of every kind strike brokers that mend their tree by themselves; 5 s later all is as it should be."""
    if nodes < 4 or faults < 0:
        raise UsageError(f"nodes: {nodes} with {faults} faults; give at least 4 nodes, and no fewer than 0 faults")
    names = tuple(f"b{number}" for number in range(nodes))
    return Scenario(
        name="trees",
        topology=lambda seed: Topology("trees", names, ()),
        roles=lambda made: cast_trees(names, repair, RESTLESS if moving else LsTreeParams()),
        workload=lambda made, seed: draw_interests(names, subscriptions, BEGIN + span, seed),
        network=lambda made, until, seed: distances(names, seed) if moving else Jittered(Constant(0.005), 0.02),
        faults=lambda made, until, seed: draw_trouble(names, faults, until, length_max, seed),
        checkers=lambda made: [AllIsWell(names)],
        duration=BEGIN + span,
        settling=MOVING_SETTLING if moving else SETTLING,
    )


def distances(names: tuple[NodeId, ...], seed: int) -> Rule:
    """5 to 55 ms one way, the same at all times."""
    rng = random_stream(seed, "distances")
    pairs = {(one, other): 0.005 + 0.05 * rng.random() for one in names for other in names if one < other}
    return Matrix({**pairs, **{(other, one): delay for (one, other), delay in pairs.items()}})


def cast_trees(names: tuple[NodeId, ...], repair: RepairName, overlay: LsTreeParams) -> Mapping[NodeId, Make]:
    """Each has the first ones as contacts: some of these are there in the end, or nobody could find anybody."""
    first = names[: BOOTSTRAP + 1]
    contacts = {name: tuple(each for each in first if each != name)[:BOOTSTRAP] for name in names}
    overlays = {name: replace(overlay, contacts=contacts[name]) for name in names}
    return {name: partial(make_dispatcher, name, overlays[name], repair) for name in names}


def make_dispatcher(name: NodeId, overlay: LsTreeParams, repair: RepairName, draws: Draws) -> Machine:
    params = DispatcherParams(
        overlay=overlay,
        routing=RoutingParams(strategy="subscription", reduction="plain", repair=repair, engine="plain"),
        presence=PresenceParams(),
    )
    return Dispatcher(name, params, draws("links"))


def draw_interests(names: tuple[NodeId, ...], count: int, until: float, seed: int) -> list[TimedInput]:
    rng, inputs, opened = random_stream(seed, "interests"), list[TimedInput](), dict.fromkeys(names, 0)
    for at in sorted(round(rng.uniform(1.0, until), 3) for _ in range(count)):
        name = rng.choice(names)
        if opened[name] and rng.random() < 0.4:
            inputs.append(TimedInput(at, name, CloseSubscription(None, 1 + rng.below(opened[name]))))
        else:
            opened[name] += 1
            inputs.append(TimedInput(at, name, OpenSubscription(None, f"pattern = {rng.below(PATTERNS)}")))
    return inputs


# Faults.


def draw_trouble(names: tuple[NodeId, ...], most: int, until: float, length_max: float, seed: int) -> FaultPlan:
    rng, drawn = random_stream(seed, "tree trouble"), list[Fault]()
    for _ in range(rng.below(most + 1)):
        drawn += rng.choice(KINDS)(rng, names, until, length_max)
    # At least a half of them is there in the end: who is gone for good is drawn from the others.
    gone = rng.sample(names[len(names) // 2 :], rng.below(1 + len(names) // 4))
    drawn += [Crash(moment(rng, until), FOR_EVER, name, True, rng.random() < 0.5) for name in gone]
    return plan_of(drawn)


def moment(rng: RandomStream, until: float) -> float:
    return round(rng.uniform(BEGIN, until), 3)


def draw_times(rng: RandomStream, until: float, length_max: float) -> tuple[float, float]:
    at = moment(rng, until)
    return at, round(at + 0.01 + rng.uniform(0.0, length_max), 3)


def crash(rng: RandomStream, names: tuple[NodeId, ...], until: float, length_max: float) -> list[Fault]:
    return [Crash(*draw_times(rng, until, length_max), rng.choice(names), False, rng.random() < 0.5)]


def flap(rng: RandomStream, names: tuple[NodeId, ...], until: float, length_max: float) -> list[Fault]:
    at, name, faults = moment(rng, until), rng.choice(names), list[Fault]()
    for _ in range(2 + rng.below(FLAPS_MAX - 1)):
        end = round(at + rng.uniform(0.01, 0.4), 3)
        faults.append(Crash(at, end, name, False, rng.random() < 0.5))
        at = round(end + rng.uniform(0.01, 0.6), 3)
    return faults


def busy(rng: RandomStream, names: tuple[NodeId, ...], until: float, length_max: float) -> list[Fault]:
    return [Pause(*draw_times(rng, until, length_max), rng.choice(names))]


def replaced(rng: RandomStream, names: tuple[NodeId, ...], until: float, length_max: float) -> list[Fault]:
    """By one that knows nothing of what the other knew."""
    return [Crash(*draw_times(rng, until, length_max), rng.choice(names), True, rng.random() < 0.5)]


def moved(rng: RandomStream, names: tuple[NodeId, ...], until: float, length_max: float) -> list[Fault]:
    """One that was there from the beginning goes; another one, who was not, comes."""
    old, new = rng.sample(names[len(names) // 2 :], 2)
    at, end = draw_times(rng, until, length_max)
    return [Crash(at, FOR_EVER, old, True, rng.random() < 0.5), Crash(0.0, end, new, True)]


def broken(rng: RandomStream, names: tuple[NodeId, ...], until: float, length_max: float) -> list[Fault]:
    one, other = rng.sample(names, 2)
    return [Break(*draw_times(rng, until, length_max), one, other)]


def split(rng: RandomStream, names: tuple[NodeId, ...], until: float, length_max: float) -> list[Fault]:
    """In two, or in three."""
    mixed, times = rng.sample(names, len(names)), draw_times(rng, until, length_max)
    parts = 2 + rng.below(2)
    size = len(mixed) // parts
    return [Partition(*times, tuple(mixed[part * size : (part + 1) * size])) for part in range(parts - 1)]


KINDS = (crash, flap, busy, replaced, moved, broken, split)


# What must hold in the end.


class AllIsWell(Checker):
    name = "all is well"

    def __init__(self, names: tuple[NodeId, ...]) -> None:
        self.names = names
        self.tables = 0

    def at_end(self, world: Simulator) -> list[Problem]:
        alive = {
            name: machine
            for name in self.names
            if world.nodes[name].process is not None and isinstance(machine := world.nodes[name].machine, Dispatcher)
        }
        said = [*self.tree_problems(alive), *self.table_problems(alive)]
        return [Problem(self.name, text, node, world.now) for node, text in said]

    def figures(self) -> dict[str, int]:
        return {"tables": self.tables}

    def tree_problems(self, alive: Mapping[NodeId, Dispatcher]) -> list[tuple[NodeId, str]]:
        trees = {name: node.overlay for name, node in alive.items() if isinstance(node.overlay, LsTree)}
        roots = [name for name, tree in trees.items() if tree.kin.above is None]
        said = [("", f"there are {len(roots)} roots: {', '.join(roots)}")] if len(roots) != 1 else []
        if len({tree.kin.place.colour for tree in trees.values()}) > 1:
            said.append(("", "the tree has several colours"))
        for name, tree in trees.items():
            for other in tree.neighbours:
                if other not in trees:
                    said.append((name, f"has the neighbour {other}, which is gone"))
                elif name not in trees[other].neighbours:
                    said.append((name, f"has the neighbour {other}, which does not say so"))
        return said

    def table_problems(self, alive: Mapping[NodeId, Dispatcher]) -> list[tuple[NodeId, str]]:
        """A pattern is wanted of a neighbour just when somebody on its side subscribed to it."""
        near = {name: [each for each in node.overlay.neighbours if each in alive] for name, node in alive.items()}
        own = {name: {parse(each).text() for each in node.local.subscriptions.values()} for name, node in alive.items()}
        said = []
        for name, node in alive.items():
            assert isinstance(node.routing, Router)
            for other in near[name]:
                self.tables += 1
                known = set(node.routing.tables.texts.get(other, ()))
                if known != (right := wanted_behind(near, own, other, name)):
                    said.append((name, f"knows of {other} {sorted(known)}, and right is {sorted(right)}"))
            if ghosts := node.routing.tables.ghosts:
                # Of those who are gone, for as long as the repair keeps them; never of a neighbour.
                lost = [ghost.lost for ghost in ghosts]
                said += [(name, f"has ghosts of its neighbour {each}") for each in near[name] if each in lost]
        return said


def wanted_behind(
    near: Mapping[NodeId, list[NodeId]], own: Mapping[NodeId, set[str]], first: NodeId, without: NodeId
) -> set[str]:
    """What is wanted by those who are reached through the first, not going back."""
    passed, ahead = {without, first}, [first]
    wanted: set[str] = set()
    while ahead:
        name = ahead.pop()
        wanted |= own[name]
        new = [each for each in near[name] if each not in passed]
        passed.update(new)
        ahead += new
    return wanted
