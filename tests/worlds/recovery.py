"""Receivers that recover what a carrier between them loses, each with one reliable subscription, number 1.

In a `RecoveryWorld` they are `Recovery` machines, without the rest of the transport. What a machine lets out reaches
every other node that asked for it, or whose application's filter it matches, after the delay of that pair.

In a `RecoveryNetwork` they are whole transports around one carrier: one publisher, node 0, and several receivers. Every
message crosses `links` links, half of them before the carrier copies it for its receivers and half behind, each of
which loses a share of what crosses it; data, requests, repairs, echoes and digests alike.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from tests.worlds.desk import of
from tests.worlds.timed import CarrierWorld
from tidings.machine.effects import Deliver, Drop, Effect, Note, SetTimer
from tidings.machine.inputs import Input
from tidings.matching.bloom import bits_of_event
from tidings.model.event import Event
from tidings.model.language.parser import parse
from tidings.model.values import Value
from tidings.protocols.transport.headers import Data
from tidings.protocols.transport.marks import TO, Kind, unmark, without_publisher
from tidings.protocols.transport.messages import LossRepair, LossRequest, decode_control
from tidings.protocols.transport.params import RecoveryParams, TransportParams
from tidings.protocols.transport.recovery.recovery import Recovery
from tidings.protocols.transport.signals import (
    Admitted,
    CarriedEvent,
    Caught,
    Departed,
    Emit,
    EventLost,
    Handed,
    Heard,
    Leaving,
    Listen,
    PublishEvent,
    Recall,
    Recalled,
    Recovered,
    RoundTrip,
    Stream,
    Told,
    Unwatch,
    Watch,
)
from tidings.protocols.transport.transport import TransportNode
from tidings.pubsub.publications import encode_head, event_of

PUBLISHER = 99
STREAM: Stream = ("z", PUBLISHER)
DELAY = 0.05
TRAVEL, JITTER = 0.02, 0.003
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


def timer(effects: list[Effect], word: str) -> float:
    """When the timer of this kind fires; there is exactly one."""
    (found,) = [one.at for one in of(SetTimer, effects) if one.key[0] == word]
    return float(found)


def messages(effects: list[Effect]) -> list[Any]:
    return [decode_control(outgoing.payload)[0] for outgoing in of(Emit, effects)]


class UnpacedRecovery(Recovery):
    """What asks for leave gets it at once, as without congestion control."""

    def handle(self, now: float, input: Input) -> list[Effect]:
        effects: list[Effect] = []
        for effect in super().handle(now, input):
            effects += self.handle(now, Admitted(effect)) if isinstance(effect, Leaving) else [effect]
        return effects


class RecoveryWorld(CarrierWorld[Recovery]):
    """Who hears and who misses an event is said by the test; `faults` decides about requests and repairs."""

    def __init__(self, seed: int, params: TransportParams = PARAMS) -> None:
        super().__init__()
        self.rng, self.params = Random(seed), params
        self.has: dict[int, set[int]] = {}
        self.log: list[tuple[float, int, Any]] = []
        self.delay: Callable[[int, int], float] = lambda sender, receiver: DELAY
        self.faults: Callable[[Kind, int, int], bool] = lambda kind, sender, receiver: False
        self.transported = self.reached = 0

    def add(self, node_id: int, filter: str = "", params: TransportParams | None = None) -> Recovery:
        """Without a filter: a publisher and nothing else."""
        node = UnpacedRecovery(node_id, params or self.params, Random(self.rng.random()))
        self.has[node_id] = set()
        self.start(node_id, node)
        if filter:
            self.filters[node_id] = parse(filter)
            self.tell(node_id, Listen(1, self.filters[node_id], is_reliable=True))
        return node

    # What a test does.

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

    # What it does itself.

    def carry_out(self, number: int, effect: Effect) -> None:
        match effect:
            case Emit():
                self.log.append((self.now, number, effect))
                self.carry(number, effect)
            case Recovered(_, sequence):
                assert sequence not in self.has[number], "recovered twice"
                self.has[number].add(sequence)
                self.log.append((self.now, number, effect))
            case Watch() | Unwatch():
                super().carry_out(number, effect)
            case _:
                self.log.append((self.now, number, effect))

    def carry(self, sender: int, outgoing: Emit) -> None:
        plain = event_of(outgoing.head, b"")
        for node_id in self.nodes:
            if node_id == sender:
                continue
            to = plain.attributes.get(TO)
            is_caught = to is None and self.catches(node_id, plain)
            if is_caught or to == node_id or self.watches(node_id, plain):
                self.reached += 1
                if not self.faults(outgoing.kind, sender, node_id):
                    self.push(self.now + self.delay(sender, node_id), node_id, (outgoing, is_caught))

    def arrive(self, number: int, thing: tuple[Emit, bool]) -> None:
        """As the shim tells it."""
        node_id, (outgoing, is_caught) = number, thing
        message, payload = decode_control(outgoing.payload)
        head, _ = unmark(outgoing.head)
        content = CarriedEvent(head, payload, "a carrier's name", 7, 0.0, (1,) if is_caught else ())
        if isinstance(message, LossRepair):
            head = message.head or without_publisher(head, message.data.publisher)
            content = CarriedEvent(head, payload, "a carrier's name", 7, 0.0, content.subscriptions)
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
            if type(effect) is Emit and effect.kind is kind
        ]

    def recoveries(self) -> list[tuple[int, int]]:
        return [(node_id, effect.sequence) for _, node_id, effect in self.log if type(effect) is Recovered]

    def notes(self, kind: type[Note]) -> list[tuple[int, Note]]:
        return [(who, effect) for _, who, effect in self.log if type(effect) is kind]

    def drops(self) -> list[str]:
        return [effect.reason for _, _, effect in self.log if type(effect) is Drop]


class RecoveryNetwork(CarrierWorld[TransportNode]):
    def __init__(self, seed: int, loss: float, links: int, filters: list[str]) -> None:
        super().__init__()
        self.rng, self.loss, self.links = Random(seed), loss, links
        self.handed: dict[int, list[Handed]] = {}
        self.emitted: list[tuple[int, Emit]] = []
        for place in range(len(filters) + 1):
            self.handed[place] = []
            self.start(place, TransportNode(1000 + place, PARAMS, Random(seed * 1000 + place)))
        for place, text in enumerate(filters, 1):
            self.filters[place] = parse(text)
            self.tell(place, Listen(1, self.filters[place], is_reliable=True))

    def publish(self, at: float, event: Event) -> None:
        self.push(at, 0, PublishEvent(encode_head(event.attributes), event.payload))

    def carry_out(self, number: int, effect: Effect) -> None:
        match effect:
            case Deliver(Handed() as handed):
                self.handed[number].append(handed)
            case Recall(stream, sequence):
                self.push(self.now, number, Recalled(stream, sequence, problem="this carrier keeps nothing"))
            case Emit():
                self.emitted.append((number, effect))
                self.carry(number, effect)
            case _:
                super().carry_out(number, effect)

    def carry(self, sender: int, emit: Emit) -> None:
        if self.is_lost(self.links // 2):
            return
        event = event_of(emit.head, b"")
        for place in self.nodes:
            caught = (1,) if self.catches(place, event) else ()
            is_wanted = caught or self.watches(place, event)
            if place != sender and is_wanted and not self.is_lost(self.links - self.links // 2):
                content = CarriedEvent(emit.head, emit.payload, f"node-{sender}", 0, self.now, caught)
                self.push(self.now + TRAVEL + self.rng.expovariate(1 / JITTER), place, Caught(content))

    def is_lost(self, links: int) -> bool:
        return any(self.rng.random() < self.loss for _ in range(links))
