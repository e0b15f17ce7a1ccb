"""Ping with failure detection: who of my neighbours is alive, and how far away is it?

The problem. A node that crashed and a node that is slow look the same from outside: both are silent. No protocol can
tell them apart for certain, so a failure detector only *suspects*, and takes it back when it was wrong.

The idea. Time is cut into rounds of `period` seconds. In each round we send every neighbour a `Probe` with the number
of the round, and it answers with an `Echo` of the same number. At the end of a round we look at the neighbours one by
one: whoever has left the last `misses` probes unanswered is suspected. An answer clears the suspicion. So a crash is
noticed after `misses` to `misses + 1` periods, and one lost message is forgiven when `misses` is at least 2.

State. The number of the current round; when each of the last `misses` rounds was sent; per neighbour the last round it
answered, whether it is suspected, and the round trips measured (how many, the last, the shortest). That the probes of a
round all leave at the same moment is what keeps this small: one list of times serves all neighbours.

Messages. `Probe(round)`, answered by `Echo(round)`, both over the transport that `PingParams` names.
Timer. "round", once per period; the first comes at a random part of a period, so that the nodes of a network which
were started together do not all probe at once.
Tells. `PeerSuspected` and `PeerRecovered`: as signals for the other protocols of the node, and delivered to the
application.

Guaranteed. A neighbour that stays dead is suspected, and stays so (completeness). A neighbour is suspected only if
`misses` probes in a row, or their answers, were lost or took longer than their time; once messages arrive in less than
`misses` periods there and back, every suspicion of a living neighbour ends. Not guaranteed: that a suspect is dead. A
neighbour further away than `misses` periods is suspected for ever; choose `period` well above the usual round trip.

A case that is easily forgotten: a node that restarts begins again, and answers to its former life are still under way.
Its rounds therefore start at a random number, and an answer to a probe that this life never sent is dropped.

Source: the keep-alive of the Patel thesis (section 4.4.3) reduced to its core; the properties are those of an
eventually perfect failure detector.
"""

import math
from random import Random

import msgspec

from tidings.machine.effects import Deliver, Drop, Effect, Send, SetTimer, Transport
from tidings.machine.inputs import Fired, Input, Received, Signal
from tidings.machine.message import Count, Message
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId

FIRST_ROUND_MAX = 2**32

NOT_A_NEIGHBOUR = "not a neighbour"
NEVER_SENT = "answers a probe that was never sent"
ALREADY_ANSWERED = "the same or a later answer came before"
TOO_LATE = "the answer took longer than the rounds that are remembered"


class PingParams(msgspec.Struct, frozen=True):
    period: float = 1.0
    """Seconds from one round to the next; well above the usual round trip, since an answer should arrive within it."""

    misses: int = 3
    """Unanswered probes in a row that make a suspect. Detection takes between `misses` and `misses + 1` periods."""

    transport: Transport = Transport.DATAGRAM
    """A datagram that is lost is one miss. A stream loses nothing, but delays what follows a loss."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.period) and self.period > 0):
            raise UsageError(f"period: {self.period} is no span of time; give seconds above 0")
        if self.misses < 1:
            raise UsageError(f"misses: {self.misses} would suspect everybody; give at least 1")


class Probe(Message, frozen=True):
    """Are you there?"""

    round: Count


class Echo(Message, frozen=True):
    """Yes: the answer to the `Probe` of that round."""

    round: Count


class PeerSuspected(Signal, frozen=True):
    neighbour: NodeId


class PeerRecovered(Signal, frozen=True):
    neighbour: NodeId


class Neighbour:
    """What we know of one neighbour."""

    __slots__ = ("answered", "last", "round_trips", "shortest", "suspected")

    def __init__(self, round: int) -> None:
        self.answered = round
        self.suspected = False
        self.round_trips = 0
        self.last = math.inf
        self.shortest = math.inf


class Ping:
    """`Ping(["b", "c"], PingParams(), rng)` probes its neighbours, and answers whoever probes it."""

    messages: tuple[type, ...] = (Probe, Echo)
    hears: tuple[type, ...] = ()
    tells: tuple[type[Signal], ...] = (PeerSuspected, PeerRecovered)

    def __init__(self, neighbours: list[NodeId], params: PingParams, rng: Random) -> None:
        self.params, self.rng = params, rng
        self.round = int(rng.random() * FIRST_ROUND_MAX)
        self.sent_at: dict[int, float] = {}
        self.neighbours = {name: Neighbour(self.round) for name in neighbours}

    @property
    def suspects(self) -> list[NodeId]:
        return [name for name, neighbour in self.neighbours.items() if neighbour.suspected]

    def start(self, now: float) -> list[Effect]:
        # Started again with its state kept, it must not blame others for the time it was down itself.
        self.sent_at.clear()
        for neighbour in self.neighbours.values():
            neighbour.answered = self.round
        return [SetTimer("round", now + self.rng.random() * self.params.period)]

    def handle(self, now: float, input: Input) -> list[Effect]:
        # Asked by exact class, not by `match`: the simulator is measured with this protocol, and it is twice as fast.
        if type(input) is Received:
            sender, message = input.sender, input.message
            if type(message) is Probe:
                return [Send(sender, Echo(message.round), self.params.transport)]
            if type(message) is Echo:
                return self.take_answer(now, sender, message)
        elif type(input) is Fired and input.key == "round":
            return self.judge() + self.next_round(now)
        return []

    def judge(self) -> list[Effect]:
        """Whom the last rounds made a suspect."""
        effects: list[Effect] = []
        for name, neighbour in self.neighbours.items():
            if not neighbour.suspected and self.round - neighbour.answered >= self.params.misses:
                neighbour.suspected = True
                effects += tell(PeerSuspected(name))
        return effects

    def next_round(self, now: float) -> list[Effect]:
        self.round += 1
        self.sent_at[self.round] = now
        self.sent_at.pop(self.round - self.params.misses, None)
        probe, transport = Probe(self.round), self.params.transport
        probes = [Send(name, probe, transport) for name in self.neighbours]
        return [*probes, SetTimer("round", now + self.params.period)]

    def take_answer(self, now: float, sender: NodeId, echo: Echo) -> list[Effect]:
        neighbour = self.neighbours.get(sender)
        sent_at = self.sent_at.get(echo.round)
        if neighbour is None or sent_at is None or echo.round <= neighbour.answered:
            return [Drop(echo, self.why_refused(neighbour, echo.round))]
        neighbour.answered = echo.round
        neighbour.round_trips += 1
        neighbour.last = now - sent_at
        neighbour.shortest = min(neighbour.shortest, neighbour.last)
        if not neighbour.suspected:
            return []
        neighbour.suspected = False
        return tell(PeerRecovered(sender))

    def why_refused(self, neighbour: Neighbour | None, round: int) -> str:
        if neighbour is None:
            return NOT_A_NEIGHBOUR
        if round > self.round:
            return NEVER_SENT
        return ALREADY_ANSWERED if round <= neighbour.answered else TOO_LATE

    def check(self) -> None:
        assert len(self.sent_at) <= self.params.misses, "times are kept of more rounds than can still be answered"
        for name, neighbour in self.neighbours.items():
            assert neighbour.answered <= self.round, f"{name} answered a round that was never sent"
            assert neighbour.shortest <= neighbour.last, f"the shortest round trip to {name} is not the shortest"
            assert neighbour.round_trips or not math.isfinite(neighbour.last), f"{name}: a round trip is not counted"


def tell(signal: Signal) -> list[Effect]:
    """To the other protocols of this node, and to the application."""
    return [signal, Deliver(signal)]
