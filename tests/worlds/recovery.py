"""Several `Recovery` machines and a network between them that routes by content, without the rest of the transport.

Each node has one reliable subscription, number 1. What a machine lets out reaches every other node that asked for it,
or whose application's filter it matches, after the delay of that pair. Who hears and who misses an event is said by the
test; `faults` decides about requests and repairs.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any

from tidings.machine.effects import CancelTimer, Drop, Effect, Note, SetTimer
from tidings.machine.inputs import Fired
from tidings.matching.bloom import bits_of_event
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.language.parser import parse
from tidings.model.values import Value
from tidings.protocols.transport.codec import decode_control
from tidings.protocols.transport.formats import Data, LossRepair, LossRequest
from tidings.protocols.transport.marks import TO, Kind, unmark
from tidings.protocols.transport.params import RecoveryParams, TransportParams
from tidings.protocols.transport.recovery.recovery import Recovery
from tidings.protocols.transport.signals import (
    CarriedEvent,
    Departed,
    EventLost,
    Heard,
    Leaving,
    Listen,
    Recovered,
    RoundTrip,
    Stream,
    Told,
    Unwatch,
    Watch,
)
from tidings.pubsub.publications import encode_head, event_of

PUBLISHER = 99
STREAM: Stream = ("z", PUBLISHER)
DELAY = 0.05
PARAMS = TransportParams(is_reliable=True)


def params_with(**recovery: Any) -> TransportParams:
    return TransportParams(is_reliable=True, recovery=RecoveryParams(**recovery))


def event(sequence: int, attributes: dict[str, Value], departed: float = 0.0) -> tuple[Data, bytes, int]:
    """Header, head and Bloom row."""
    row = bits_of_event(Event(attributes), PARAMS.profile)
    return Data(PUBLISHER, sequence, departed), encode_head(attributes), row


def heard(sequence: int, attributes: dict[str, Value], number: int = 0, payload: bytes = b"p") -> Heard:
    header, head, _ = event(sequence, attributes)
    return Heard(STREAM, sequence, header, CarriedEvent(head, payload, "z", number, 0.0, (1,)))


def lost(sequence: int, attributes: dict[str, Value], subscriptions: tuple[int, ...] = (1,)) -> EventLost:
    return EventLost(STREAM, sequence, event(sequence, attributes)[2], 0.0, subscriptions)


def of(kind: type, effects: list[Effect]) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, kind)]


def timer(effects: list[Effect], word: str) -> float:
    """When the timer of this kind fires; there is exactly one."""
    (found,) = [one.at for one in of(SetTimer, effects) if one.key[0] == word]
    return float(found)


def messages(effects: list[Effect]) -> list[Any]:
    return [decode_control(outgoing.payload)[0] for outgoing in of(Leaving, effects)]


class World:
    def __init__(self, seed: int, params: TransportParams = PARAMS) -> None:
        self.rng, self.params = Random(seed), params
        self.now, self.ticket = 0.0, 0
        self.nodes: dict[int, Recovery] = {}
        self.filters: dict[int, Filter] = {}
        self.asked: dict[int, dict[Any, Filter]] = {}
        self.has: dict[int, set[int]] = {}
        self.queue: list[tuple[float, int, int, Any]] = []
        self.timers: dict[tuple[int, Any], int] = {}
        self.log: list[tuple[float, int, Any]] = []
        self.delay: Callable[[int, int], float] = lambda sender, receiver: DELAY
        self.faults: Callable[[Kind, int, int], bool] = lambda kind, sender, receiver: False
        self.transported = self.reached = 0

    def add(self, node_id: int, filter: str = "", params: TransportParams | None = None) -> Recovery:
        """Without a filter: a publisher and nothing else."""
        node = Recovery(node_id, params or self.params, Random(self.rng.random()))
        self.nodes[node_id], self.asked[node_id], self.has[node_id] = node, {}, set()
        self.perform(node_id, node.start(self.now))
        if filter:
            self.filters[node_id] = parse(filter)
            self.tell(node_id, Listen(1, self.filters[node_id], is_reliable=True))
        return node

    # What a test does.

    def tell(self, node_id: int, input: Any) -> list[Effect]:
        effects = self.nodes[node_id].handle(self.now, input)
        self.nodes[node_id].check()
        self.perform(node_id, effects)
        return effects

    def publish(self, sequence: int, attributes: dict[str, Value], misses: tuple[int, ...] = ()) -> None:
        """All whose filter matches hear it, but for those that are named."""
        header, head, row = event(sequence, attributes, self.now)
        if PUBLISHER in self.nodes:
            self.tell(PUBLISHER, Departed(sequence, header, head, b"p", row))
        for node_id, filter in self.filters.items():
            if node_id not in misses and filter.matches(Event(attributes)):
                self.has[node_id].add(sequence)
                self.tell(node_id, Heard(STREAM, sequence, header, CarriedEvent(head, b"p", "z", 0, 0.0, (1,))))

    def miss(self, node_id: int, sequence: int, attributes: dict[str, Value]) -> None:
        if sequence not in self.has[node_id]:
            self.tell(node_id, lost(sequence, attributes))

    def measure(self, node_id: int, distance: float) -> None:
        self.tell(node_id, RoundTrip(STREAM, 2 * distance))

    def run(self, until: float) -> None:
        while self.queue and self.queue[0][0] <= until:
            self.now, ticket, node_id, input = heappop(self.queue)
            if type(input) is Fired:
                if self.timers.get((node_id, input.key)) != ticket:
                    continue
                del self.timers[node_id, input.key]
                self.tell(node_id, input)
            else:
                self.arrive(node_id, *input)
        self.now = until

    # What it does itself.

    def push(self, at: float, node_id: int, input: Any) -> int:
        self.ticket += 1
        heappush(self.queue, (at, self.ticket, node_id, input))
        return self.ticket

    def perform(self, node_id: int, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case SetTimer(key, at):
                    self.timers[node_id, key] = self.push(at, node_id, Fired(key))
                case CancelTimer(key):
                    self.timers.pop((node_id, key), None)
                case Watch(key, text):
                    self.asked[node_id][key] = parse(text)
                case Unwatch(key):
                    del self.asked[node_id][key]
                case Leaving():
                    self.log.append((self.now, node_id, effect))
                    self.carry(node_id, effect)
                case Recovered(_, sequence):
                    assert sequence not in self.has[node_id], "recovered twice"
                    self.has[node_id].add(sequence)
                    self.log.append((self.now, node_id, effect))
                case _:
                    self.log.append((self.now, node_id, effect))

    def carry(self, sender: int, outgoing: Leaving) -> None:
        plain = event_of(outgoing.head, b"")
        for node_id in self.nodes:
            if node_id == sender:
                continue
            to = plain.attributes.get(TO)
            is_caught = to is None and node_id in self.filters and self.filters[node_id].matches(plain)
            is_asked = to == node_id or any(filter.matches(plain) for filter in self.asked[node_id].values())
            if is_caught or is_asked:
                self.reached += 1
                if not self.faults(outgoing.kind, sender, node_id):
                    self.push(self.now + self.delay(sender, node_id), node_id, (outgoing, is_caught))

    def arrive(self, node_id: int, outgoing: Leaving, is_caught: bool) -> None:
        """As the shim tells it."""
        message, payload = decode_control(outgoing.payload)
        head, _ = unmark(outgoing.head)
        content = CarriedEvent(head, payload, "a carrier's name", 7, 0.0, (1,) if is_caught else ())
        if isinstance(message, LossRepair):
            content = CarriedEvent(message.head or head, payload, "a carrier's name", 7, 0.0, content.subscriptions)
            sequence = message.data.sequence
            stream = STREAM if node_id in self.filters else None
            self.tell(node_id, Told(message, content, stream, sequence, sequence not in self.has[node_id]))
        elif isinstance(message, LossRequest):
            stream = None if message.publisher == node_id else STREAM
            self.tell(node_id, Told(message, content, stream, message.sequence))

    # What it tells.

    def sent(self, kind: Kind) -> list[tuple[float, int, Any]]:
        """Time, sender, message."""
        return [
            (at, node_id, decode_control(effect.payload)[0])
            for at, node_id, effect in self.log
            if type(effect) is Leaving and effect.kind is kind
        ]

    def recoveries(self) -> list[tuple[int, int]]:
        return [(node_id, effect.sequence) for _, node_id, effect in self.log if type(effect) is Recovered]

    def notes(self, kind: type[Note]) -> list[tuple[int, Note]]:
        return [(who, effect) for _, who, effect in self.log if type(effect) is kind]

    def drops(self) -> list[str]:
        return [effect.reason for _, _, effect in self.log if type(effect) is Drop]
