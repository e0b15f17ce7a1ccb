"""Whole transports around one carrier whose links lose messages: one publisher, node 0, and several receivers.

Every message crosses `links` links, half of them before the carrier copies it for its receivers and half behind, each
of which loses a share of what crosses it; data, requests, repairs, echoes and digests alike. Each receiver has one
reliable subscription, number 1.
"""

from heapq import heappop, heappush
from random import Random
from typing import Any

from tidings.machine.effects import CancelTimer, Deliver, Effect, SetTimer
from tidings.machine.inputs import Fired
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.language.parser import parse
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.signals import (
    CarriedEvent,
    Caught,
    Emit,
    Handed,
    Listen,
    PublishEvent,
    Recall,
    Recalled,
    Unwatch,
    Watch,
)
from tidings.protocols.transport.transport import TransportNode
from tidings.pubsub.publications import encode_head, event_of

TRAVEL, JITTER = 0.02, 0.003


class RecoveryNetwork:
    def __init__(self, seed: int, loss: float, links: int, filters: list[str]) -> None:
        self.rng, self.loss, self.links = Random(seed), loss, links
        self.now, self.ticket = 0.0, 0
        self.queue: list[tuple[float, int, int, Any]] = []
        self.timers: dict[tuple[int, Any], int] = {}
        self.nodes: dict[int, TransportNode] = {}
        self.filters: dict[int, Filter] = {}
        self.asked: dict[int, dict[Any, Filter]] = {}
        self.handed: dict[int, list[Handed]] = {}
        self.emitted: list[tuple[int, Emit]] = []
        params = TransportParams(is_reliable=True)
        for place in range(len(filters) + 1):
            self.asked[place], self.handed[place] = {}, []
            self.nodes[place] = TransportNode(1000 + place, params, Random(seed * 1000 + place))
            self.perform(place, self.nodes[place].start(0.0))
        for place, text in enumerate(filters, 1):
            self.filters[place] = parse(text)
            self.tell(place, Listen(1, self.filters[place], is_reliable=True))

    def publish(self, at: float, event: Event) -> None:
        self.push(at, 0, PublishEvent(encode_head(event.attributes), event.payload))

    def run(self, until: float) -> None:
        while self.queue and self.queue[0][0] <= until:
            self.now, ticket, place, input = heappop(self.queue)
            if type(input) is Fired:
                if self.timers.get((place, input.key)) != ticket:
                    continue
                del self.timers[place, input.key]
            self.tell(place, input)

    def tell(self, place: int, input: Any) -> None:
        self.perform(place, self.nodes[place].handle(self.now, input))
        self.nodes[place].recovery.check()

    def push(self, at: float, place: int, input: Any) -> int:
        self.ticket += 1
        heappush(self.queue, (at, self.ticket, place, input))
        return self.ticket

    def perform(self, place: int, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case SetTimer(key, at):
                    self.timers[place, key] = self.push(at, place, Fired(key))
                case CancelTimer(key):
                    self.timers.pop((place, key), None)
                case Watch(key, text):
                    self.asked[place][key] = parse(text)
                case Unwatch(key):
                    self.asked[place].pop(key, None)
                case Deliver(Handed() as handed):
                    self.handed[place].append(handed)
                case Recall(stream, sequence):
                    self.push(self.now, place, Recalled(stream, sequence, problem="this carrier keeps nothing"))
                case Emit():
                    self.emitted.append((place, effect))
                    self.carry(place, effect)

    def carry(self, sender: int, emit: Emit) -> None:
        if self.is_lost(self.links // 2):
            return
        event = event_of(emit.head, b"")
        for place in self.nodes:
            caught = (1,) if place in self.filters and self.filters[place].matches(event) else ()
            is_wanted = caught or any(filter.matches(event) for filter in self.asked[place].values())
            if place != sender and is_wanted and not self.is_lost(self.links - self.links // 2):
                content = CarriedEvent(emit.head, emit.payload, f"node-{sender}", 0, self.now, caught)
                self.push(self.now + TRAVEL + self.rng.expovariate(1 / JITTER), place, Caught(content))

    def is_lost(self, links: int) -> bool:
        return any(self.rng.random() < self.loss for _ in range(links))
