"""Dispatchers that walk about with radios, and what is measured of them: the runs of E29 to E34.

The setting is that of chapter 16 (dynamic-topologies.md 4.6): a square kilometre, a reach of 200 m, random waypoints
with pauses of 5 s; a fifth of all dispatchers want 7 of 96 patterns each, all publish events of 9 symbols. The tree is
a WiTree, tables are repaired in one of three ways with T_u = T_s = 2 s and without FLUSH, and events are said on the
air once for all neighbours that want them. "flooding" has neither tree nor tables. The radio is that of the simulator
(2 Mbit/s, carrier sense, collisions, 5 transmissions of a packet to one node; G-40). A dispatcher notices at once that
a packet to one node was not answered. The same seed has the same walks, subscriptions and events in every variant.

What is counted as the cost of a repair is what the source counts, in the trace (`repairs/rewired.py`): each filter
that is told or taken back, and the messages of the repair, under the name of the last link that was lost before. The
rest is taken inside the run, because it would need a row for every packet, or the places of all nodes:

    overlay bytes, routing bytes    what either says, with 62 bytes of headers each (G-45); a filter counts 30 bytes
    transmissions                   packets in the air, of all layers, repeated ones too (G-43)
    delivered                       share of the deliveries that were due: to each dispatcher that wants an event, but
                                    its publisher
    delivered in reach              the same, of those to which there was a way over any radios in reach of each other
                                    when the event was published (G-42)
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from tidings.lab.dynamic_topologies.repairs.rewired import CostRows, counted
from tidings.machine.effects import Deliver, Effect, Send
from tidings.machine.node import Machine
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.nodes.dispatcher import Dispatcher, DispatcherParams
from tidings.protocols.overlay.overlay import AllPeersParams
from tidings.protocols.overlay.witree.params import WiTreeParams
from tidings.protocols.overlay.witree.witree import WiTree
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.radio_flood import RadioFloodingParams
from tidings.pubsub.client import Arrived, OpenSubscription
from tidings.pubsub.notes import LinkChanged
from tidings.pubsub.requests import Publish
from tidings.sim.network.radio import (
    Point,
    PositionOf,
    Radio,
    RadioParams,
    RandomWaypoint,
    Transmission,
    WaypointParams,
)
from tidings.sim.node import Draws, SimulatedNode
from tidings.sim.simulator import Simulator, SimulatorParams
from tidings.trace.writer import Writer
from tidings.wire import encode
from tidings.workloads.patterns import Patterns

SWEEP = "dynamic-topologies/walkers"
"""These experiments share their runs."""

FLOODING = "flooding"

HEADERS_BYTES, FILTER_BYTES = 62, 30
RADIO = RadioParams(reach=200.0, sense_reach=200.0, headers_bytes=HEADERS_BYTES, tries=5)
WORLD = SimulatorParams(jitter=1e-6, silence_timeout=0.05, connect_timeout=0.3, delivered_max=1)
REST = 2.0
"""Seconds at the end in which nothing new is published."""
LOOK = 0.5
"""Seconds between two looks at who is in reach of whom."""


class WalkSetting(msgspec.Struct, frozen=True, kw_only=True):
    repair: str = "strawman"
    """Or "flooding"."""
    dispatchers: int = 50
    speed: float = 1.0
    rate: float = 50.0
    """Events a second, of all together."""
    settle: float = 200.0
    measured: float = 200.0

    @property
    def until(self) -> float:
        return self.settle + self.measured

    def names(self) -> list[NodeId]:
        return [f"d{number:03}" for number in range(self.dispatchers)]

    def params(self) -> DispatcherParams:
        if self.repair == FLOODING:
            return DispatcherParams(overlay=AllPeersParams(), routing=RadioFloodingParams(engine="plain"))
        chosen: dict[str, Any] = {"repair": self.repair}
        routing = RoutingParams(
            strategy="subscription",
            reduction="plain",
            carriage="aired",
            acknowledges=False,
            advertises=False,
            unsubscribe_after=2.0,
            subscribe_after=2.0,
            flush="none",
            engine="plain",
            turn_entries=100_000,
            **chosen,
        )
        return DispatcherParams(overlay=WiTreeParams(), routing=routing)


class CountingRadio(Radio):
    """Counts the packets in the air from a time on."""

    count, count_from = 0, 0.0

    def transmit(
        self, now: float, begin: float, sender: NodeId, here: Point, size_bytes: int, repeat: int
    ) -> Transmission | None:
        self.count += now >= self.count_from
        return super().transmit(now, begin, sender, here, size_bytes, repeat)


class WalkRows(CostRows):
    """Writes what a repair costs, and adds up bytes and deliveries."""

    def __init__(self, trace: Writer, begin: float) -> None:
        super().__init__(trace)
        self.begin_at = begin
        self.begun: dict[str, None] = {}
        self.overlay_bytes = self.routing_bytes = 0
        self.came: set[tuple[NodeId, NodeId, int]] = set()
        """Who got which event: its publisher and its number."""

    def on_effects(self, now: float, node: SimulatedNode, effects: list[Effect]) -> None:
        if now < self.begin_at:
            return
        for effect in effects:
            if isinstance(effect, LinkChanged):
                self.link_changed(now, node.id, effect)
            elif isinstance(effect, Deliver) and isinstance(effect.item, Arrived):
                item = effect.item
                self.came |= {(node.id, item.publisher, number) for number in item.numbers}
            elif isinstance(effect, Send):
                self.add_bytes(effect)
        super().on_effects(now, node, effects)

    def link_changed(self, now: float, node: NodeId, changed: LinkChanged) -> None:
        if changed.reconfiguration not in self.begun:
            self.begun[changed.reconfiguration] = None
            self.reconfiguration = changed.reconfiguration
        self.note(now, node, "link_changed")

    def add_bytes(self, send: Send) -> None:
        if isinstance(send.message, WiTree.messages):
            self.overlay_bytes += len(encode(send.message)) + HEADERS_BYTES
        for kind, patterns in counted(send.message):
            filters = patterns if kind == "Activate" else 1
            self.routing_bytes += FILTER_BYTES * filters + HEADERS_BYTES


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> Mapping[str, float]:
    setting = msgspec.convert({**parameters}, WalkSetting)
    speed, names = setting.speed, setting.names()
    walks = RandomWaypoint(WaypointParams(speed_min=speed, speed_max=speed, pause_max=5.0, pause_min=5.0), seed)
    radio = CountingRadio(names, walks.position, RADIO)
    radio.count_from = setting.settle
    rows = WalkRows(trace, setting.settle)
    simulator = Simulator(seed, radio, params=WORLD, observers=(rows,))
    for number, name in enumerate(names):
        simulator.add(name, partial(make_dispatcher, name, setting.params()), at=0.01 * number)
    law = Patterns(
        seed=seed,
        dispatchers=setting.dispatchers,
        rate=setting.rate / setting.dispatchers,
        duration=setting.measured - REST,
    )
    wanted: dict[NodeId, set[str]] = {}
    for row in law.subscriptions().rows():
        name = names[row["place"]]
        wanted.setdefault(name, set()).add(row["pattern"])
        simulator.inject(setting.settle / 2, name, OpenSubscription(None, row["filter"]))
    events = [
        (setting.settle + row["published_at"], names[int(row["publisher"][1:])], row["symbols"])
        for row in law.events().rows()
    ]
    for at, name, symbols in events:
        simulator.inject(at, name, Publish(Event({"symbols": symbols})))
    simulator.run(setting.until)
    return {
        "reconfigurations": float(len(rows.begun)),
        "overlay bytes": float(rows.overlay_bytes),
        "routing bytes": float(rows.routing_bytes),
        "transmissions": float(radio.count),
        "events": float(len(events)),
        **shares(events, wanted, rows.came, Islands(names, RandomWaypoint(walks.params, seed).position)),
    }


Published = tuple[float, NodeId, str]
"""When, by whom, and with which symbols."""


def shares(
    events: list[Published],
    wanted: Mapping[NodeId, set[str]],
    came: set[tuple[NodeId, NodeId, int]],
    islands: "Islands",
) -> dict[str, float]:
    due = in_reach = come = come_in_reach = 0
    numbers: dict[NodeId, int] = {}
    for at, publisher, symbols in sorted(events):
        number = numbers[publisher] = numbers.get(publisher, 0) + 1
        near = islands.of(publisher, at)
        for name, patterns in wanted.items():
            if name == publisher or patterns.isdisjoint(symbols):
                continue
            has_come = (name, publisher, number) in came
            due, come = due + 1, come + has_come
            if name in near:
                in_reach, come_in_reach = in_reach + 1, come_in_reach + has_come
    return {"delivered": come / max(1, due), "delivered in reach": come_in_reach / max(1, in_reach)}


class Islands:
    """Who could hear whom, directly or through others, as seen every now and then."""

    def __init__(self, names: list[NodeId], position: PositionOf) -> None:
        self.names, self.position = names, position
        self.at, self.sides = -1, dict[NodeId, frozenset[NodeId]]()

    def of(self, name: NodeId, at: float) -> frozenset[NodeId]:
        if int(at / LOOK) != self.at:
            self.at = int(at / LOOK)
            self.sides = self.look(self.at * LOOK)
        return self.sides[name]

    def look(self, at: float) -> dict[NodeId, frozenset[NodeId]]:
        places = {name: self.position(name, at) for name in self.names}
        sides: dict[NodeId, frozenset[NodeId]] = {}
        for name in self.names:
            if name in sides:
                continue
            side, ahead = {name}, [name]
            while ahead:
                here = places[ahead.pop()]
                others = [other for other in self.names if other not in side]
                near = [other for other in others if math.dist(here, places[other]) <= RADIO.reach]
                side |= set(near)
                ahead += near
            sides |= dict.fromkeys(side, frozenset(side))
        return sides


def make_dispatcher(name: NodeId, params: DispatcherParams, draws: Draws) -> Machine:
    return Dispatcher(name, params, draws("links"))
