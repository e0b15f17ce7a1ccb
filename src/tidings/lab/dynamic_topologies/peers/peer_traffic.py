"""Dispatchers that come and go on an LSTree, with subscriptions and events: the setting of chapter 15
(dynamic-topologies.md 4.5), and what is counted in it.

The tree is that of E16 to E21 (RDGM, MAXDEGREE 5) under churn as in a file-sharing network, of which the recorded trace
is not to be had. A node subscribes with a given probability to 7 of 400 patterns when it comes. Repairs are STRAWMAN,
TDU and asymmetric ILA, without Flush, both times 1.5 s. A *reconfiguration* is a node that comes or goes.

Counted inside the run, since a trace of every message of hours would take longer than the run:

    routing      filters told and taken back, those in messages of a repair included: the unit cost of the source
    bytes        30 for each of these and each event, 4 for each node that a message of the overlay names, 40 for a
                 header
    misrouted    events that end at a dispatcher where nobody wants them: each wrong way ends in one

Events cross the tree in both directions alike; the first `WARM` seconds after the last of the first nodes has joined
are not counted.
"""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from tidings.lab.dynamic_topologies.lstree.churned import MEDIAN_SESSION, SIGMA, SPACING, ChurnedTree, Survey
from tidings.lab.dynamic_topologies.repairs.rewired import INFORMED, STRAWMAN, TIMED, counted
from tidings.lab.experiment import Variant
from tidings.machine.effects import Effect, Send
from tidings.machine.inputs import Input, Received
from tidings.machine.streams import random_stream
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.nodes.dispatcher import Dispatcher
from tidings.protocols.overlay.lstree.lstree import LsTree
from tidings.protocols.routing.params import RoutingParams
from tidings.pubsub.client import OpenSubscription
from tidings.pubsub.publications import Publications
from tidings.pubsub.requests import Publish
from tidings.sim.node import SimulatedNode
from tidings.trace.writer import Writer
from tidings.workloads.churn import peer_sessions
from tidings.workloads.patterns import alphabet

REPAIRS = (STRAWMAN, TIMED, INFORMED)
SYMBOLS, PATTERNS_EACH, EVENT_SYMBOLS = 400, 7, 40
WARM = 60.0
HEADER_BYTES, PATTERN_BYTES, NODE_BYTES = 40, 30, 4
SLOT = 60.0
"""Seconds over which traffic is added up for a series."""


class PeerSetting(msgspec.Struct, frozen=True, kw_only=True):
    repair: str = STRAWMAN
    peers: int = 270
    """At most; at least two thirds of that are there."""
    density: float = 0.2
    events_per_minute: float = 15.0
    seconds: float = 7200.0

    def routing(self) -> RoutingParams:
        chosen: dict[str, Any] = {"repair": self.repair, "activation": "asymmetric"}
        return RoutingParams(
            strategy="subscription",
            reduction="plain",
            acknowledges=False,
            advertises=False,
            unsubscribe_after=1.5,
            subscribe_after=1.5,
            flush="none",
            engine="plain",
            **chosen,
        )


def variants(name: str, values: tuple[float, ...], repairs: tuple[str, ...] = REPAIRS) -> tuple[Variant, ...]:
    return tuple(
        Variant(f"{repair}, {name} {value:g}", {"repair": repair, name: value})
        for value in values
        for repair in repairs
    )


class PeerSurvey(Survey):
    """What is sent from `begin` on, by kind, and by kind and slot."""

    def __init__(self) -> None:
        super().__init__()
        self.begin = 0.0
        self.patterns = 0.0
        self.bytes: Counter[str] = Counter()
        self.slots: Counter[tuple[str, int]] = Counter()
        self.misrouted = 0
        self.arrived: tuple[NodeId, int] | None = None

    def on_effects(self, now: float, node: SimulatedNode, effects: list[Effect]) -> None:
        if now < self.begin:
            return
        for effect in effects:
            if type(effect) is Send:
                self.count(now, effect.message)
                if type(effect.message) is Publications:
                    self.arrived = None

    def count(self, now: float, message: Any) -> None:
        if type(message) in LsTree.messages:
            self.add(now, "overlay", HEADER_BYTES + NODE_BYTES * nodes_named(message))
        elif type(message) is Publications:
            self.add(now, "events", len(message.numbers) * (HEADER_BYTES + PATTERN_BYTES))
        for name, carried in counted(message):
            told = carried if name == "Activate" else 1
            self.patterns += told
            self.add(now, "routing", HEADER_BYTES + PATTERN_BYTES * told)

    def add(self, now: float, kind: str, size_bytes: int) -> None:
        self.bytes[kind] += size_bytes
        self.slots[kind, int((now - self.begin) / SLOT)] += size_bytes

    def on_input(self, now: float, node: SimulatedNode, input: Input) -> None:
        is_event = now >= self.begin and type(input) is Received and type(input.message) is Publications
        self.arrived = (node.id, wanted_here(node)) if is_event else None

    def on_step(self, now: float, node: SimulatedNode) -> None:
        """An event came, nobody here wanted it, and it went no further."""
        if self.arrived == (node.id, wanted_here(node)):
            self.misrouted += 1
        self.arrived = None


def wanted_here(node: SimulatedNode) -> int:
    assert isinstance(node.machine, Dispatcher)
    return node.machine.local.counts.total()


def nodes_named(message: Any) -> int:
    """Contacts and colours name one each."""
    values = [getattr(message, name) for name in message.__struct_fields__]
    return sum(len(value) if isinstance(value, tuple) else isinstance(value, msgspec.Struct) for value in values)


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> dict[str, float]:
    known = {name: value for name, value in parameters.items() if name in PeerSetting.__struct_fields__}
    setting = msgspec.convert(known, PeerSetting)
    survey = PeerSurvey()
    tree = ChurnedTree({"instance": "RDGM", "pings": 1}, seed, trace, survey, setting.routing())
    changes = schedule(tree, survey, setting, seed)
    tree.simulator.run(survey.begin + setting.seconds)
    spikes = [survey.slots["routing", slot] + survey.slots["overlay", slot] for slot in range(slots_of(setting))]
    events = survey.bytes["events"] / slots_of(setting)
    return {
        "changes": float(changes),
        "cost": survey.patterns / max(1, changes),
        "misrouted": survey.misrouted / max(1, changes),
        "routing bytes": survey.bytes["routing"] / max(1, changes),
        "overlay bytes": survey.bytes["overlay"] / max(1, changes),
        "event bytes": float(survey.bytes["events"]),
        "spike": max(spikes) / events if events else 0.0,
    }


def slots_of(setting: PeerSetting) -> int:
    return int(setting.seconds / SLOT)


def schedule(tree: ChurnedTree, survey: PeerSurvey, setting: PeerSetting, seed: int) -> int:
    """Who comes and goes, subscribes and publishes; how many of the first two are within what is measured."""
    least = max(1, round(setting.peers * 2 / 3))
    simulator, draws = tree.simulator, random_stream(seed, "peers")
    sessions = peer_sessions(least, setting.peers, median=MEDIAN_SESSION, sigma=SIGMA, until=setting.seconds, seed=seed)
    present = [session for session in sessions if session.begin == 0]
    begin = survey.begin = len(present) * SPACING + WARM
    changes = 0
    for number, session in enumerate(present):
        simulator.call_at(number * SPACING, partial(come, tree, session.node, interests(draws, setting.density)))
    for session in sessions:
        if session.begin > 0:
            changes += 1
            joining = partial(come, tree, session.node, interests(draws, setting.density))
            simulator.call_at(begin + session.begin, joining)
        if session.end < setting.seconds:
            changes += 1
            simulator.call_at(begin + session.end, partial(tree.crash, session.node))
    for number in range(round(setting.seconds * setting.events_per_minute / 60)):
        at = begin + draws.random() * setting.seconds
        simulator.call_at(at, partial(publish, tree, number, draws.random(), symbols(draws)))
    return changes


def interests(draws: Any, density: float) -> list[str]:
    return draws.sample(alphabet(SYMBOLS), PATTERNS_EACH) if draws.random() < density else []


def symbols(draws: Any) -> str:
    chosen = alphabet(SYMBOLS)
    return "".join(chosen[draws.below(SYMBOLS)] for _ in range(EVENT_SYMBOLS))


def come(tree: ChurnedTree, name: NodeId, patterns: list[str]) -> None:
    tree.join(name)
    for pattern in patterns:
        tree.simulator.inject(tree.simulator.now, name, OpenSubscription(None, f"symbols LIKE '%{pattern}%'"))


def publish(tree: ChurnedTree, number: int, place: float, text: str) -> None:
    """By one of those that are there now."""
    alive = tree.alive()
    event = Event({"id": f"{number}", "symbols": text}, b"")
    tree.simulator.inject(tree.simulator.now, alive[int(place * len(alive))], Publish(event))
