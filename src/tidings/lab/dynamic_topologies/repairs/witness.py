"""Events on a tree whose links are replaced: who should get each, who does, and which hops were for nothing.

Every dispatcher publishes at random moments at the same rate (G-12), from shortly before the first change until the
tables have come to rest. In E1 the clients outside a *core* change their minds besides, about once a second each
(G-13), until links are replaced no more; what is delivered is looked at inside the core alone.

The witness sees the tree as it is and what clients want as they say it, and needs no look at any table. A hop is
*misrouted* if nobody on the far side of its link wants the event when it is sent (G-15). Sets of dispatchers are
integers, a bit for each: hops are counted by the million.

Misrouted hops are rows of the trace, for the metrics. What is measured here, since rows would be too many:

    event hops               hops of events while links are replaced
    due, delivered           events times dispatchers of the core that wanted them when they were published, and how
                             many got them: `before` the first change, `during` them, `after` the last timer
    misrouted after          misrouted hops then
    traffic, phase           weighed messages of all kinds a second (E13): `stable` before the burst, `burst` in it
"""

from collections.abc import Mapping
from functools import partial
from math import log
from typing import Any

import msgspec

from tidings.lab.dynamic_topologies.repairs.rewired import (
    BEGIN,
    BURST_BEGIN,
    BURST_END,
    COUNTED,
    END,
    UNTIL,
    CostRows,
    Rewired,
    Setting,
    attribute_of,
    counted,
    filter_of,
    weight_of,
)
from tidings.machine.effects import Deliver, Effect, Send
from tidings.machine.inputs import Input
from tidings.machine.streams import RandomStream, random_stream
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.pubsub.client import Arrived, CloseSubscription, OpenSubscription
from tidings.pubsub.publications import Publications, encode_head
from tidings.pubsub.requests import Publish
from tidings.sim.node import SimulatedNode
from tidings.trace.writer import Writer
from tidings.workloads.patterns import alphabet

EVENTS = "dynamic-topologies/events"
"""Experiments that differ in the rate of events share their runs."""

EVENT_SYMBOLS = 9
PUBLISH_BEGIN, LAST = 2.5, 0.1
"""Events are published until so long before the end of a run."""
MINDS_BEGIN = 2.0
STABLE = 7.3
"""By then the last link is there, and the last timer of any repair has fired."""
IN_FLIGHT = 0.02
"""Seconds in which an event has arrived wherever it goes."""


class Witness(CostRows):
    def __init__(self, trace: Writer, setting: Setting) -> None:
        super().__init__(trace)
        self.setting = setting
        self.bits: dict[NodeId, int] = {}
        self.near: dict[NodeId, dict[NodeId, None]] = {}
        self.sides: dict[tuple[NodeId, NodeId], int] = {}
        self.wanting: dict[str, int] = {}
        """Who wants each symbol."""
        self.core = 0
        self.symbols: dict[bytes, str] = {}
        """Of each event, by its head."""
        self.due: dict[tuple[NodeId, int], tuple[float, int]] = {}
        self.got: dict[tuple[NodeId, int], int] = {}
        self.numbers: dict[NodeId, int] = {}
        self.hops = self.misrouted_after = 0
        self.traffic = {"stable": 0.0, "burst": 0.0}

    def know(self, rewired: Rewired) -> None:
        """The tree and the clients at first."""
        self.bits = {name: 1 << place for place, name in enumerate(rewired.names)}
        self.near = {name: {} for name in rewired.names}
        for one, other in rewired.edges:
            self.link(one, other)
        for name, symbols in rewired.wanted().items():
            for symbol in symbols:
                self.want(name, symbol)
        inner = round(self.setting.core * len(rewired.names))
        self.core = sum(self.bits[name] for name in rewired.names[:inner])

    def link(self, one: NodeId, other: NodeId) -> None:
        self.near[one][other] = self.near[other][one] = None
        self.sides.clear()

    def unlink(self, one: NodeId, other: NodeId) -> None:
        del self.near[one][other], self.near[other][one]
        self.sides.clear()

    def want(self, name: NodeId, symbol: str) -> None:
        self.wanting[symbol] = self.wanting.get(symbol, 0) | self.bits[name]

    def unwant(self, name: NodeId, symbol: str) -> None:
        self.wanting[symbol] &= ~self.bits[name]

    def side(self, near: NodeId, far: NodeId) -> int:
        """Everybody who is reached over that link."""
        found = self.sides.get((near, far))
        if found is None:
            found = self.bits[far]
            for other in self.near[far]:
                if other != near:
                    found |= self.side(far, other)
            self.sides[near, far] = found
        return found

    def wanters(self, symbols: str) -> int:
        wanting, found = self.wanting, 0
        for symbol in symbols:
            found |= wanting.get(symbol, 0)
        return found

    def on_input(self, now: float, node: SimulatedNode, input: Input) -> None:
        if type(input) is Publish:
            number = self.numbers[node.id] = self.numbers.get(node.id, 0) + 1
            symbols = self.symbols[encode_head(input.event.attributes)]
            self.due[node.id, number] = now, self.wanters(symbols) & self.core
            self.got[node.id, number] = 0
        else:
            super().on_input(now, node, input)

    def on_effects(self, now: float, node: SimulatedNode, effects: list[Effect]) -> None:
        super().on_effects(now, node, effects)
        for effect in effects:
            if type(effect) is Send:
                if type(effect.message) is Publications:
                    self.see_hop(now, node.id, effect.to, effect.message)
                elif self.setting.has_burst and type(effect.message) in COUNTED:
                    self.add_traffic(now, sum(weight_of(*each) for each in counted(effect.message)))
            elif type(effect) is Deliver and type(effect.item) is Arrived:
                for number in effect.item.numbers:
                    self.got[effect.item.publisher, number] |= self.bits[node.id]

    def see_hop(self, now: float, near: NodeId, far: NodeId, batch: Publications) -> None:
        self.add_traffic(now, len(batch.numbers))
        if BEGIN <= now < END:
            self.hops += len(batch.numbers)
        if not self.reconfiguration or self.setting.strategy == "flooding":
            return
        for head in batch.heads:
            if not self.side(near, far) & self.wanters(self.symbols[head]):
                self.note(now, near, "misrouted")
                self.misrouted_after += now >= STABLE

    def add_traffic(self, now: float, weight: float) -> None:
        if self.setting.has_burst:
            phase = "burst" if BURST_BEGIN <= now < BURST_END + self.setting.repair_after else "stable"
            if now >= BEGIN and (phase == "burst" or now < BURST_BEGIN):
                self.traffic[phase] += weight

    def measures(self) -> dict[str, float]:
        counts = dict.fromkeys((f"{kind} {phase}" for kind in ("due", "delivered") for phase in PHASES), 0)
        for event, (published_at, due) in self.due.items():
            for phase, (begin, end) in PHASES.items():
                if begin <= published_at < end:
                    counts[f"due {phase}"] += due.bit_count()
                    counts[f"delivered {phase}"] += (due & self.got[event]).bit_count()
        seconds = {"stable": BURST_BEGIN - BEGIN, "burst": BURST_END + self.setting.repair_after - BURST_BEGIN}
        return {
            "events": float(len(self.due)),
            "event hops": float(self.hops),
            "misrouted after": float(self.misrouted_after),
            **{name: float(count) for name, count in counts.items()},
            **{f"traffic, {phase}": weight / seconds[phase] for phase, weight in self.traffic.items()},
        }


PHASES = {"before": (PUBLISH_BEGIN, BEGIN - IN_FLIGHT), "during": (BEGIN, END), "after": (STABLE, UNTIL - LAST)}


def publish(rewired: Rewired, witness: Witness) -> None:
    setting, letters = rewired.setting, alphabet(rewired.setting.symbols)
    for name in rewired.names if setting.event_rate else ():
        draws = random_stream(rewired.seed, "events", name)
        at = PUBLISH_BEGIN + interval(draws, setting.event_rate)
        while at < setting.until - LAST:
            symbols = "".join(letters[draws.below(len(letters))] for _ in range(EVENT_SYMBOLS))
            event = Event({attribute_of(symbol): 1 for symbol in symbols})
            witness.symbols[encode_head(event.attributes)] = symbols
            rewired.simulator.inject(at, name, Publish(event))
            at += interval(draws, setting.event_rate)


def interval(draws: RandomStream, rate: float) -> float:
    return -log(1.0 - draws.random()) / rate


def change_minds(rewired: Rewired, witness: Witness) -> None:
    """Outside the core a client opens or closes a subscription about once a second."""
    simulator, letters = rewired.simulator, alphabet(rewired.setting.symbols)
    wanted = rewired.wanted()
    for name in rewired.names:
        if witness.bits[name] & witness.core:
            continue
        draws = random_stream(rewired.seed, "minds", name)
        is_open = dict(enumerate(wanted.get(name, ()), start=1))
        opened, at = len(is_open), MINDS_BEGIN + interval(draws, 1.0)
        while at < END:
            if is_open and draws.below(2):
                number = sorted(is_open)[draws.below(len(is_open))]
                symbol = is_open.pop(number)
                simulator.call_at(at, partial(witness.unwant, name, symbol))
                simulator.inject(at, name, CloseSubscription(None, number))
            else:
                symbol = letters[draws.below(len(letters))]
                if symbol not in is_open.values():
                    opened += 1
                    is_open[opened] = symbol
                    simulator.call_at(at, partial(witness.want, name, symbol))
                    simulator.inject(at, name, OpenSubscription(None, filter_of(symbol)))
            at += interval(draws, 1.0)


def play(rewired: Rewired, witness: Witness) -> None:
    """The whole run, with this witness among its observers."""
    witness.know(rewired)
    for substitution in rewired.plan:
        rewired.simulator.call_at(substitution.broken_at, partial(witness.unlink, *substitution.old))
        rewired.simulator.call_at(substitution.linked_at, partial(witness.link, *substitution.new))
    rewired.schedule(witness)
    publish(rewired, witness)
    change_minds(rewired, witness)
    rewired.simulator.run(rewired.setting.until)


def run(variant: str, parameters: Mapping[str, Any], seed: int, trace: Writer) -> Mapping[str, float]:
    setting = msgspec.convert({**parameters}, Setting)
    witness = Witness(trace, setting)
    rewired = Rewired(setting, seed, (witness,), is_counting=setting.core == 1.0)
    play(rewired, witness)
    return {"reconfigurations": float(len(rewired.plan)), **witness.measures()}
