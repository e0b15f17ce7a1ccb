"""One publisher, some receivers, and links between them that carry only so much.

The machines are real, `Sender` and `Receiver`; everything else of the transport is played here in its plainest form.
Events get their numbers when they leave, and tell of the `record` events before them. What reaches a receiver is judged
at once, without a latch: what the record tells of and has not come is lost, if it is for us. The round trip is that of
each event, smoothed. Feedback takes one way back and is never lost.

A link is a queue of `queue_max` events that are carried one after the other, and what does not fit is dropped. Times of
publications are those of a Poisson process.
"""

from collections import deque
from random import Random
from typing import Any

from tests.worlds.timed import TimedWorld
from tidings.machine.effects import Drop, Effect, Note
from tidings.matching.bloom import bits_of_event
from tidings.model.event import Event
from tidings.model.language.parser import parse
from tidings.protocols.transport.congestion.receiver import Receiver
from tidings.protocols.transport.congestion.sender import Sender
from tidings.protocols.transport.headers import Data
from tidings.protocols.transport.marks import Kind
from tidings.protocols.transport.messages import decode_control
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.signals import (
    Admitted,
    CarriedEvent,
    Departed,
    EventLost,
    GapSeen,
    Heard,
    Leaving,
    Listen,
    RoundTrip,
    Told,
)
from tidings.pubsub.publications import encode_head, event_of

PUBLISHER = 1
STREAM = ("publisher", PUBLISHER)
GAIN = 0.1


class Link:
    def __init__(self, rate: float, queue_max: int) -> None:
        self.rate, self.queue_max = rate, queue_max
        self.leaving: deque[float] = deque()
        """When each of those that wait or are carried is through."""
        self.dropped = 0

    def carry(self, now: float) -> float | None:
        """When it is through; None if it is dropped."""
        while self.leaving and self.leaving[0] <= now:
            self.leaving.popleft()
        if len(self.leaving) > self.queue_max:
            self.dropped += 1
            return None
        through = max(now, self.leaving[-1] if self.leaving else now) + 1.0 / self.rate
        self.leaving.append(through)
        return through


class Listener:
    """A receiver with one filter, and what the rest of the transport would know for it."""

    def __init__(self, number: int, text: str, link: Link, params: TransportParams, seed: int, clock: float) -> None:
        self.number, self.link, self.clock = number, link, clock
        self.filter = parse(text)
        self.machine = Receiver(number, params, Random(seed))
        self.last = -1
        self.received: dict[int, None] = {}
        self.lost: dict[int, None] = {}
        self.round_trip = 0.0
        self.delays = 0.0
        self.feedback = 0
        self.times: list[float] = []


class Bottleneck(TimedWorld[Sender | Receiver]):
    is_checked = False

    def __init__(self, params: TransportParams, one_way: float = 0.02, seed: int = 1, record: int = 2) -> None:
        super().__init__()
        self.params, self.one_way, self.record = params, one_way, record
        self.rng = Random(seed)
        self.sender = Sender(PUBLISHER, params, Random(seed))
        self.listeners: dict[int, Listener] = {}
        self.sequence = 0
        self.sent: dict[int, tuple[float, Event]] = {}
        self.departures: deque[float] = deque()
        self.drops: dict[str, int] = {}
        self.notes: dict[type[Note], int] = {}
        self.start(0, self.sender)

    def listen(self, text: str, link: Link, clock: float = 0.0, is_paced: bool = True) -> Listener:
        number = 100 + len(self.listeners)
        listener = Listener(number, text, link, self.params, number, clock)
        self.listeners[number] = listener
        self.start(number, listener.machine, clock)
        self.tell(number, Listen(1, listener.filter, is_paced=is_paced))
        return listener

    def publish(self, rate: float, attributes: list[dict[str, Any]], weights: list[float], until: float) -> None:
        """Events with these attributes, by chance, at this rate from now on."""
        at = self.now
        while True:
            at += self.rng.expovariate(rate)
            if at >= until:
                return
            event = Event(attributes=self.rng.choices(attributes, weights)[0])
            bits = bits_of_event(event, self.params.profile)
            self.push(at, 0, Leaving(Kind.DATA, encode_head(dict(event.attributes)), b"", bits))

    def arrive(self, number: int, thing: Any) -> None:
        if not isinstance(thing, Data):
            self.tell(number, thing)
            return
        listener, sequence, header = self.listeners[number], thing.sequence, thing
        now = self.now + listener.clock
        listener.delays += self.now - header.departed
        listener.times.append(self.now)
        sample = self.one_way + self.now - header.departed
        for mark in header.flows:
            if mark.limiting == listener.number:
                sample = mark.feedback_travel + now - header.departed
        listener.round_trip = (
            listener.round_trip + GAIN * (sample - listener.round_trip) if listener.round_trip else sample
        )
        head = encode_head(dict(self.sent[sequence][1].attributes))
        signals: list[Any] = [Heard(STREAM, sequence, header, CarriedEvent(head, b"", subscriptions=(1,)))]
        signals += self.judge(listener, sequence)
        signals.append(RoundTrip(STREAM, listener.round_trip))
        for signal in signals:
            self.tell(number, signal)

    def judge(self, listener: Listener, sequence: int) -> list[Any]:
        """What ordering would say of the gap before this event."""
        listener.received[sequence] = None
        last, listener.last = listener.last, max(listener.last, sequence)
        if last < 0 or sequence <= last + 1:
            return []
        covered = range(max(last + 1, sequence - self.record), sequence)
        lost = [number for number in covered if listener.filter.matches(self.sent[number][1])]
        missing = sequence - last - 1
        found: list[Any] = [GapSeen(STREAM, sequence, missing, missing - len(covered), len(lost))]
        for number in lost:
            listener.lost[number] = None
            found.append(EventLost(STREAM, number, 0, self.sent[number][0], (1,)))
        return found

    # Effects.

    def carry_out(self, number: int, effect: Effect) -> None:
        match effect:
            case Admitted(outgoing, flows):
                self.transmit(outgoing, flows)
            case Leaving(kind, _, payload):
                if kind is Kind.FEEDBACK:
                    self.listeners[number].feedback += 1
                message, _ = decode_control(payload)
                self.push(self.now + self.one_way, 0, Told(message, CarriedEvent(b"", b"")))
            case Drop(_, reason):
                self.drops[reason] = self.drops.get(reason, 0) + 1
            case Note():
                self.notes[type(effect)] = self.notes.get(type(effect), 0) + 1

    def transmit(self, outgoing: Leaving, flows: Any) -> None:
        event = event_of(outgoing.head, outgoing.payload)
        sequence, self.sequence = self.sequence, self.sequence + 1
        self.sent[sequence] = self.now, event
        self.departures.append(self.now)
        while self.departures[0] < self.now - 1.0:
            self.departures.popleft()
        header = Data(PUBLISHER, sequence, self.now, float(len(self.departures)), bool(flows), flows)
        for listener in self.listeners.values():
            if listener.filter.matches(event):
                through = listener.link.carry(self.now)
                if through is not None:
                    self.push(through + self.one_way, listener.number, header)
        signal = Departed(sequence, header, outgoing.head, outgoing.payload, outgoing.bits)
        self.tell(0, signal)
