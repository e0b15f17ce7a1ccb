"""Dispatchers on a tree whose links are replaced: the common setting of chapter 7 (dynamic-topologies.md 4.1).

A run is 8 s: until 3 s nothing changes, until 7 s links are replaced at even intervals, and then everything comes to
rest. Dispatchers are those that ship, with subscription forwarding and without acknowledgements and advertisements,
which the source does not have. Names say nothing about places in the tree (G-9). The same seed has the same tree,
subscriptions, events and changes whatever the repair.

A pattern is a symbol, an event a handful of them. A symbol in an event is an attribute of its own here, and the filter
asks for that attribute, since tables and messages are the same as with a search in a text, and matching is much faster.

What is counted is not what our messages take (several filters may travel in one), but what the source counts: an
observer writes a row for each filter that is told or taken back and each message of a repair while links are replaced,
with the name of the last reconfiguration that began before; so does it for the first change of a table at each
dispatcher and, where events are published (`witness.py`), for each hop of one to where nobody wants it (2.7, 2.8). The
metrics `reconfiguration_cost`, `involved_dispatchers`, `misrouted_events` and `message_overhead` read these rows.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from tidings.machine.effects import Effect, Send
from tidings.machine.inputs import Input, Received
from tidings.machine.node import Machine
from tidings.machine.streams import random_stream
from tidings.model.bounds import TABLE_DIGEST_BYTES
from tidings.model.identity import NodeId
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.protocols.delivery.local import LocalParams
from tidings.protocols.overlay.scripted import ScriptedParams, rewiring
from tidings.protocols.routing.messages import SubscriptionAdded, SubscriptionRemoved, TableChanges
from tidings.protocols.routing.packets import changes_of
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.repairs.messages import Activate, Flush, PathEdit, PathEdited
from tidings.pubsub.client import OpenSubscription
from tidings.sim.network.latency import Constant
from tidings.sim.node import Draws, SimulatedNode
from tidings.sim.observers import Observer
from tidings.sim.simulator import Simulator, SimulatorParams
from tidings.sim.topologies.shapes import balanced_tree, bounded_tree
from tidings.trace.record import Record
from tidings.trace.writer import Writer
from tidings.workloads.patterns import Patterns
from tidings.workloads.substitutions import Pair, Substitution, substitutions

HOP = 0.0001
"""Seconds from one dispatcher to the next (G-11)."""
LINK_SET_UP = 10 * HOP
"""By then a new link is there, and both ends have begun to speak."""
SUBSCRIBE_AT, BEGIN, END, UNTIL = 1.0, 3.0, 7.0, 8.0
BURST_BEGIN, BURST_END = 5.0, 5.5

TABLES = "dynamic-topologies/tables"
"""Experiments on tables alone share their runs."""

STRAWMAN, TIMED, NOTIFIED, INFORMED, PATH = REPAIRS = ("strawman", "timed", "notified", "informed", "path")


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a run; those of table 7.1 by default."""

    repair: str = STRAWMAN
    dispatchers: int = 100
    degree: int = 4
    is_random_tree: bool = False
    symbols: int = 96
    density: float = 0.2
    changes_rate: float = 3.0
    """Reconfigurations a second."""
    repair_after: float = 0.1
    unsubscribe_after: float = 0.15
    subscribe_after: float = 0.15
    shares_end: bool = False
    """Whether the new link has an end of the old one."""
    has_flush: bool = True
    literal: bool = False
    is_tuned: bool = False
    end: float = END
    """When links are replaced no more."""
    until: float = UNTIL
    strategy: str = "subscription"
    event_rate: float = 0.0
    """Events a second of each dispatcher; 0 where only tables are looked at."""
    core: float = 1.0
    """The share of dispatchers whose clients do not change their minds."""
    has_burst: bool = False
    """Whether links are replaced for half a second only."""

    def change_times(self) -> list[float]:
        begin, end = (BURST_BEGIN, BURST_END) if self.has_burst else (BEGIN, self.end)
        return [begin + place / self.changes_rate for place in range(round((end - begin) * self.changes_rate))]

    def routing(self) -> RoutingParams:
        chosen: dict[str, Any] = {"repair": self.repair, "activation": "symmetric", "strategy": self.strategy}
        return RoutingParams(
            reduction="plain",
            acknowledges=False,
            advertises=False,
            unsubscribe_after=self.unsubscribe_after,
            subscribe_after=self.subscribe_after,
            is_tuned=self.is_tuned,
            flush="flood" if self.has_flush or self.repair == PATH else "none",
            literal_duplicates=self.literal,
            engine="plain",
            turn_entries=100_000,
            **chosen,
        )

    def tree(self, seed: int) -> list[Pair]:
        shape = partial(bounded_tree, seed=seed) if self.is_random_tree else balanced_tree
        topology = shape(self.dispatchers, degree=self.degree)
        names = names_of(self.dispatchers, seed)
        places = {name: place for place, name in enumerate(topology.nodes)}
        return [(names[places[edge.a]], names[places[edge.b]]) for edge in topology.edges]


def names_of(count: int, seed: int) -> list[NodeId]:
    names = [f"d{number:03}" for number in range(count)]
    random_stream(seed, "names").shuffle(names)
    return names


def make_dispatcher(
    name: NodeId, neighbours: tuple[NodeId, ...], routing: RoutingParams, is_counting: bool, draws: Draws
) -> Machine:
    overlay = ScriptedParams(neighbours=neighbours)
    params = DispatcherParams(overlay=overlay, routing=routing, delivery=LocalParams(is_counting=is_counting))
    return Dispatcher(name, params, draws("links"))


class CostRows(Observer):
    """Writes what the source counts, from the first change on."""

    def __init__(self, trace: Writer) -> None:
        self.trace = trace
        self.reconfiguration = ""
        self.involved: set[tuple[NodeId, str]] = set()
        self.details: dict[tuple[str, int], str] = {}

    def begin(self, now: float, name: str, substitution: Substitution) -> None:
        self.reconfiguration = name
        for end in dict.fromkeys((*substitution.old, *substitution.new)):
            self.note(now, end, "link_changed")

    def detail(self, patterns: int) -> str:
        key = self.reconfiguration, patterns
        if key not in self.details:
            said: dict[str, Any] = {"reconfiguration": self.reconfiguration}
            if patterns >= 0:
                said["patterns"] = patterns
            self.details[key] = msgspec.json.encode(said).decode()
        return self.details[key]

    def on_effects(self, now: float, node: SimulatedNode, effects: list[Effect]) -> None:
        if not self.reconfiguration:
            return
        for effect in effects:
            if type(effect) is Send and type(effect.message) in COUNTED:
                for message, patterns in counted(effect.message):
                    self.write(now, node.id, "send", effect.to, message, patterns)

    def on_input(self, now: float, node: SimulatedNode, input: Input) -> None:
        if self.reconfiguration and type(input) is Received and type(input.message) in COUNTED:
            key = node.id, self.reconfiguration
            changing = [message for message, _ in counted(input.message) if message in CHANGING]
            if changing and key not in self.involved:
                self.involved.add(key)
                self.write(now, node.id, "receive", input.sender, changing[0], -1)

    def note(self, now: float, node: NodeId, name: str) -> None:
        self.trace.write(Record(time=now, node=node, kind="note", message=name, detail=self.detail(-1)))

    def write(self, now: float, node: NodeId, kind: Any, peer: NodeId, message: str, patterns: int) -> None:
        row = Record(time=now, node=node, kind=kind, peer=peer, message=message, detail=self.detail(patterns))
        self.trace.write(row)


CHANGING = ("SubscriptionAdded", "SubscriptionRemoved", "PathEdit")
COUNTED = frozenset((SubscriptionAdded, SubscriptionRemoved, TableChanges, Flush, Activate, PathEdit, PathEdited))


def counted(message: Any) -> list[tuple[str, int]]:
    """What a message counts as: kinds, each with the filters that it carries."""
    match message:
        case SubscriptionAdded() | SubscriptionRemoved() | Flush() | PathEdited():
            return [(type(message).__name__, -1)]
        case TableChanges():
            changes = (type(change).__name__ for change in changes_of(message))
            return [(name, -1) for name in changes if name in CHANGING]
        case Activate(held_back=held_back, onward=onward):
            return [("Activate", (len(held_back) + len(onward or b"")) // TABLE_DIGEST_BYTES)]
        case PathEdit(added=added, removed=removed):
            return [("PathEdit", len(added) + len(removed))]
    return []


def weight_of(message: str, patterns: int) -> float:
    """Table 7.2."""
    return 0.1 if message in ("Flush", "PathEdited") else 1.0 if patterns < 0 else max(0.1, patterns)


class Rewired:
    """A run up to the point where it can begin."""

    def __init__(self, setting: Setting, seed: int, observers: tuple[Observer, ...], is_counting: bool = True) -> None:
        self.setting, self.seed = setting, seed
        self.edges, self.names = setting.tree(seed), names_of(setting.dispatchers, seed)
        params = SimulatorParams(delivered_max=1)
        self.simulator = Simulator(seed, Constant(HOP), params=params, observers=observers)
        routing = setting.routing()
        near: dict[NodeId, list[NodeId]] = {name: [] for name in self.names}
        for one, other in self.edges:
            near[one].append(other)
            near[other].append(one)
        for name in self.names:
            self.simulator.add(name, partial(make_dispatcher, name, tuple(near[name]), routing, is_counting))
        for name, symbols in self.wanted().items():
            for symbol in symbols:
                self.simulator.inject(SUBSCRIBE_AT, name, OpenSubscription(None, filter_of(symbol)))
        self.plan = substitutions(
            self.edges, setting.change_times(), setting.repair_after, seed, setting.degree, setting.shares_end
        )

    def wanted(self) -> dict[NodeId, list[str]]:
        """What the clients of each dispatcher want at first, in the order in which they say so."""
        setting = self.setting
        law = Patterns(
            seed=self.seed,
            dispatchers=setting.dispatchers,
            symbols=setting.symbols,
            subscriber_density=setting.density,
        )
        wanted: dict[NodeId, list[str]] = {}
        for row in law.subscriptions().rows():
            wanted.setdefault(self.names[row["place"]], []).append(str(row["pattern"]))
        return wanted

    def schedule(self, costs: CostRows) -> None:
        for number, substitution in enumerate(self.plan):
            name = f"r{number}"
            broken, linked, told = rewiring(name, substitution.head, substitution.tail)
            begin = partial(costs.begin, substitution.broken_at, name, substitution)
            self.simulator.call_at(substitution.broken_at, begin)
            told_at = substitution.linked_at + LINK_SET_UP
            for at, steps in ((substitution.broken_at, broken), (substitution.linked_at, linked), (told_at, told)):
                for broker, request in steps:
                    self.simulator.inject(at, broker, request)


def filter_of(symbol: str) -> str:
    return f"{attribute_of(symbol)} > 0"


def attribute_of(symbol: str) -> str:
    return f"s{ord(symbol):x}"


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> Mapping[str, float]:
    setting, costs = msgspec.convert({**parameters}, Setting), CostRows(trace)
    rewired = Rewired(setting, seed, (costs,))
    rewired.schedule(costs)
    rewired.simulator.run(setting.until)
    return {"reconfigurations": float(len(rewired.plan))}
