"""Round trips: how long the way to a publisher and back takes, by two clocks that nobody set.

The problem. Request timers and allowed rates are measured in round trips. Publisher and subscriber share no clock, and
the network below tells nothing.

The idea. When a publisher is first heard, it is sent an echo, and its answer comes back through the content network,
whose latency is what matters (T-76). From then on nothing more need be sent. Each event tells when it left; the change
of (arrival - departure) since the echo is the change of the way here, whatever the clocks say. A receiver that limits
a flow has better: the publisher tells in each event how long its last feedback took, by both clocks; added to what the
event took, by both clocks, the difference between them is gone (T-75).

    limiting:   feedback's travel + (now - departed)
    others:     way up, from the last echo + (now - departed)

Estimates are smoothed. Timers: ("echo", stream), an echo that is not answered is repeated `echo_tries` times with waits
that double; one that is, after `echo_every`, as the way up may change unseen.

What a publisher claims is bounded: a sample below 0, or above `ROUND_TRIP_MAX`, is dropped, and with it the way up that
it was made from, until the next echo. A publisher that lies about its times slows down or hurries only what it sends
itself.
"""

from random import Random

from tidings.machine.effects import CancelTimer, Drop, Effect, SetTimer
from tidings.machine.inputs import Fired
from tidings.protocols.transport.marks import TO, Kind, head_of
from tidings.protocols.transport.messages import EchoReply, EchoRequest, encode_control
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.signals import (
    Configure,
    Heard,
    Leaving,
    Listen,
    RoundTrip,
    StopListening,
    Stream,
    StreamGone,
    Told,
    TransportPart,
)

ROUND_TRIP_MAX = 60.0
ROUND_TRIP_MIN = 1e-4
"""Seconds; what is measured to be less is taken to be so much."""
ROUND_TRIP_ERROR = 0.01
"""Seconds by which a sample may be below 0: clocks tick, and drift since the last echo."""

CHANGE = 0.02
"""The other parts hear of a change when it is more than this share."""

ECHOES_PER_SECOND = 100.0
"""Echoes that we answer; others are dropped."""

NOT_ASKED = "answers an echo that was not sent"
IMPOSSIBLE = "a round trip that cannot be"
TOO_MANY = "more echoes than are answered in a second"


class Trip:
    """What is known of the way to one publisher."""

    __slots__ = ("nonce", "seconds", "told", "tries", "up")

    def __init__(self) -> None:
        self.nonce = 0
        self.tries = 0
        self.up: float | None = None
        """The way up by both clocks: round trip less (arrival - departure) at the same time."""
        self.seconds: float | None = None
        self.told = 0.0
        """What the other parts know."""


class RoundTrips(TransportPart):
    """Part of `TransportNode`. Measures while some subscription is reliable or paced."""

    tells = (RoundTrip, Leaving)

    def __init__(self, node_id: int, params: TransportParams, rng: Random) -> None:
        self.node_id, self.params, self.rng = node_id, params, rng
        self.trips: dict[Stream, Trip] = {}
        self.subscriptions: dict[int, None] = {}
        """Those that need a round trip: while there is one, we measure."""
        self.echoes, self.echoes_since = 0, 0.0
        self.handlers = {
            Heard: self.heard,
            Told: self.told,
            Fired: self.fired,
            Listen: self.listen,
            StopListening: self.listen,
            StreamGone: self.gone,
            Configure: self.configure,
        }

    def start(self, now: float) -> list[Effect]:
        return [effect for stream, trip in self.trips.items() for effect in self.ask(now, stream, trip)]

    def listen(self, now: float, request: Listen | StopListening) -> list[Effect]:
        if request.is_reliable or request.is_paced:
            self.subscriptions[request.subscription] = None
        else:
            self.subscriptions.pop(request.subscription, None)
        if self.subscriptions:
            return []
        cancelled: list[Effect] = [CancelTimer(("echo", stream)) for stream in self.trips]
        self.trips.clear()
        return cancelled

    def configure(self, now: float, request: Configure) -> list[Effect]:
        self.params = request.params
        for trip in self.trips.values():
            trip.tries = min(trip.tries, request.params.echo_tries)
        return []

    def heard(self, now: float, heard: Heard) -> list[Effect]:
        if not self.subscriptions:
            return []
        trip = self.trips.get(heard.stream)
        if trip is None:
            if heard.stream[1] == self.node_id:
                return []
            trip = self.trips[heard.stream] = Trip()
            return self.ask(now, heard.stream, trip)
        down = now - heard.header.departed
        for mark in heard.header.flows:
            if mark.limiting == self.node_id:
                trip.up = mark.feedback_travel
                break
        if trip.up is None:
            return []
        return self.sample(heard.stream, trip, trip.up + down)

    def sample(self, stream: Stream, trip: Trip, seconds: float) -> list[Effect]:
        if not -ROUND_TRIP_ERROR <= seconds <= ROUND_TRIP_MAX:
            trip.up = None
            return [Drop(RoundTrip(stream, seconds), IMPOSSIBLE)]
        seconds = max(seconds, ROUND_TRIP_MIN)
        known, gain = trip.seconds, self.params.round_trip_gain
        trip.seconds = seconds if known is None else (1 - gain) * known + gain * seconds
        if abs(trip.seconds - trip.told) <= CHANGE * trip.told:
            return []
        trip.told = trip.seconds
        return [RoundTrip(stream, trip.seconds)]

    def ask(self, now: float, stream: Stream, trip: Trip) -> list[Effect]:
        trip.nonce, trip.tries = self.rng.getrandbits(32), trip.tries + 1
        wait = self.params.echo_first * 2.0 ** (trip.tries - 1)
        echo = EchoRequest(self.node_id, stream[1], trip.nonce, now)
        head = head_of({TO: stream[1]}, Kind.ECHO_REQUEST)
        return [
            Leaving(Kind.ECHO_REQUEST, head, encode_control(echo)),
            SetTimer(("echo", stream), now + wait),
        ]

    def fired(self, now: float, fired: Fired) -> list[Effect]:
        stream: Stream = fired.key[1]  # type: ignore[index]
        trip = self.trips.get(stream)
        if trip is None:
            return []
        if trip.tries >= self.params.echo_tries:
            trip.tries = 0
            return [SetTimer(("echo", stream), now + self.params.echo_every)]
        return self.ask(now, stream, trip)

    def told(self, now: float, told: Told) -> list[Effect]:
        match told.message:
            case EchoRequest() as echo:
                return self.answer(now, echo)
            case EchoReply() as reply:
                return self.answered(now, told.content.source, reply)
        return []

    def answer(self, now: float, echo: EchoRequest) -> list[Effect]:
        if now - self.echoes_since >= 1.0:
            self.echoes, self.echoes_since = 0, now
        self.echoes += 1
        if self.echoes > ECHOES_PER_SECOND:
            return [Drop(echo, TOO_MANY)]
        reply = EchoReply(echo.subscriber, self.node_id, echo.nonce, echo.sent, 0.0, now)
        head = head_of({TO: echo.subscriber}, Kind.ECHO_REPLY)
        return [Leaving(Kind.ECHO_REPLY, head, encode_control(reply))]

    def answered(self, now: float, source: str, reply: EchoReply) -> list[Effect]:
        stream = source, reply.publisher
        trip = self.trips.get(stream)
        if trip is None or reply.nonce != trip.nonce or not trip.tries:
            return [Drop(reply, NOT_ASKED)]
        seconds = now - reply.echoed - reply.held
        trip.tries = 0
        again: list[Effect] = [SetTimer(("echo", stream), now + self.params.echo_every)]
        if not 0.0 <= seconds <= ROUND_TRIP_MAX:
            return [Drop(reply, IMPOSSIBLE), *again]
        trip.up = seconds - (now - reply.sent)
        return [*again, *self.sample(stream, trip, seconds)]

    def gone(self, now: float, gone: StreamGone) -> list[Effect]:
        if self.trips.pop(gone.stream, None) is None:
            return []
        return [CancelTimer(("echo", gone.stream))]

    def seconds(self, stream: Stream) -> float:
        """As it is known now; 0 while nothing was measured."""
        trip = self.trips.get(stream)
        return (trip.seconds or 0.0) if trip else 0.0

    def check(self) -> None:
        for trip in self.trips.values():
            assert trip.tries <= self.params.echo_tries, "echoes are repeated too often"
