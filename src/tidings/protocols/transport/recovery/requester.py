"""Asking for what was lost, one loss at a time.

    waiting   a random time, so that of many who lost it one asks; when another is heard asking, twice as long again
    asked     twice as long each round, until the event comes or `rounds_max` requests were in vain

In the first state hearing another's request restarts the timer with a doubled interval; for half of that interval
further ones count as duplicates only, and after `rounds_max` restarts we ask in any case: a peer that repeats its
request for ever cannot keep us quiet. A request that was overheard just before we noticed the loss ourselves counts as
well. Timer ("request", stream, sequence).

Those who answer listen to `requests_per_second` requests of one node. We keep to that ourselves: what is more waits for
its turn, and a request whose turn would come too late is left out, which costs its loss a round.

Doubt. A filter that asks for a range (`price > 100`) has a Bloom row that every event with a price matches; then nearly
all that seems lost is not for us. Where most repairs of a publisher showed that, its events are asked of the publisher
alone, and in a form that it answers to us alone (`repairer.py`): that costs two messages which nobody else gets, and
the answer says whether the event is for us. After `ALONE_ROUNDS` such rounds in vain everybody is asked.

What became of it is told to the stream's `Tuner`: how many first requests there were beyond one, and how long it took
until the first.

Source: the transport specification, 3.5.4.
"""

from random import Random

import msgspec

from tidings.machine.effects import CancelTimer, Effect, SetTimer
from tidings.protocols.transport.buckets import Bucket
from tidings.protocols.transport.codec import encode_control
from tidings.protocols.transport.formats import WRAP, LossRequest
from tidings.protocols.transport.marks import Kind
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.recovery.requests import request_head
from tidings.protocols.transport.recovery.streams import FARTHER, RecoveryStream, clamped
from tidings.protocols.transport.signals import Leaving, Stream, event_key
from tidings.pubsub.notes import RepairRequested, Suppressed

WAIT_MAX = 4.0
"""Seconds up to which waits double: what is lost again and again is not kept for long by those who have it."""

TURN_MAX = 5.0
"""Seconds that a request waits for its turn."""

BURST = 0.5
"""Seconds' worth of requests that may leave at once."""

ALONE_ROUNDS = 2
ALONE_ROUND = 1
"""The round that such a request claims: a publisher answers odd ones by unicast."""

OVERHEARD_MAX = 256
"""Requests of others for what we have not missed yet; beyond it the oldest is forgotten."""

OVERHEARD_SECONDS = 2.0
"""How long such a request makes us wait longer when we notice the loss."""

Key = tuple[Stream, int]


class LostEvent(msgspec.Struct):
    lost_at: float
    bits: int
    subscriptions: tuple[int, ...]
    after: int
    before: int
    """The carrier's numbers around it."""
    round: int = 0
    """Requests that we sent."""
    backoffs: int = 0
    quiet_until: float = 0.0
    has_turn: bool = False
    """Whether the request that is due next is counted against our rate already."""
    first_at: float | None = None
    """When the first request for it was sent, by whoever."""
    seen: int = 0
    """First requests for it, ours included."""


class Requester:
    def __init__(self, node_id: int, params: TransportParams, rng: Random) -> None:
        self.node_id, self.params, self.rng = node_id, params, rng
        self.losses: dict[Key, LostEvent] = {}
        self.overheard: dict[Key, float] = {}
        self.sent = 0
        self.bucket: Bucket | None = None

    @property
    def is_full(self) -> bool:
        return len(self.losses) >= self.params.recovery.requests_max

    def configure(self, params: TransportParams) -> None:
        self.params, self.bucket = params, None

    def lost(self, now: float, state: RecoveryStream, sequence: int, loss: LostEvent) -> list[Effect]:
        key = state.stream, sequence
        self.losses[key] = loss
        state.adapt_requests()
        heard_at = self.overheard.pop(key, None)
        if heard_at is None or now - heard_at > OVERHEARD_SECONDS:
            return [SetTimer(("request", *key), now + self.interval(state, loss))]
        loss.seen, loss.first_at = 1, now
        return self.back_off(now, state, sequence, loss)

    def interval(self, state: RecoveryStream, loss: LostEvent) -> float:
        doublings = min(self.params.recovery.rounds_max, loss.round + loss.backoffs)
        once = state.requests.draw(self.rng, state.distance)
        return max(once, min(WAIT_MAX, self.params.recovery.backoff**doublings * once))

    def back_off(self, now: float, state: RecoveryStream, sequence: int, loss: LostEvent) -> list[Effect]:
        loss.backoffs += 1
        wait = self.interval(state, loss)
        loss.quiet_until = now + wait / 2
        return [
            SetTimer(("request", state.stream, sequence), now + wait),
            Suppressed(fact_key(state.stream, sequence)),
        ]

    def heard(self, now: float, state: RecoveryStream, sequence: int, request: LossRequest) -> list[Effect]:
        """Another asks for what we lost as well."""
        loss = self.losses[state.stream, sequence]
        loss.first_at = now if loss.first_at is None else loss.first_at
        if request.round == 0:
            loss.seen += 1
            if loss.round and clamped(request.distance) > FARTHER * state.distance:
                state.requests.outran()
        if loss.round or now < loss.quiet_until or loss.backoffs >= self.params.recovery.rounds_max:
            return []
        return self.back_off(now, state, sequence, loss)

    def overhear(self, now: float, key: Key) -> None:
        """Another asks for what we have neither got nor missed."""
        self.overheard.pop(key, None)
        self.overheard[key] = now
        if len(self.overheard) > OVERHEARD_MAX:
            del self.overheard[next(iter(self.overheard))]

    def due(self, now: float, state: RecoveryStream, sequence: int) -> list[Effect] | None:
        """Ask; None when that was done often enough."""
        loss = self.losses[state.stream, sequence]
        if loss.round >= self.params.recovery.rounds_max:
            return None
        if not loss.has_turn:
            wait = self.turn(now)
            if wait is None:
                loss.round += 1
                return [SetTimer(("request", state.stream, sequence), now + WAIT_MAX)]
            if wait:
                loss.has_turn = True
                return [SetTimer(("request", state.stream, sequence), now + wait)]
        loss.has_turn = False
        effects = self.request(now, state, sequence, loss)
        if loss.round == 0:
            loss.seen += 1
            if loss.first_at is None:
                state.requests.sent_first()
                loss.first_at = now
        loss.round += 1
        return [*effects, SetTimer(("request", state.stream, sequence), now + self.interval(state, loss))]

    def turn(self, now: float) -> float | None:
        rate = self.params.recovery.requests_per_second
        if self.bucket is None:
            self.bucket = Bucket(now, rate, rate * BURST)
        return self.bucket.book(now, TURN_MAX)

    def request(self, now: float, state: RecoveryStream, sequence: int, loss: LostEvent) -> list[Effect]:
        self.sent += 1
        publisher, is_alone = state.stream[1], state.is_doubtful and loss.round < ALONE_ROUNDS
        row_bytes = max(self.params.profile.size_bytes, (loss.bits.bit_length() + 7) // 8)
        message = LossRequest(
            self.node_id,
            publisher,
            sequence % WRAP,
            now,
            state.requests.mean * state.distance,
            state.distance,
            loss.bits,
            row_bytes,
            ALONE_ROUND if is_alone else loss.round,
            *state.echo(now),
        )
        head = request_head(publisher, 0 if is_alone else loss.bits, self.params.recovery.domain)
        return [
            Leaving(Kind.REQUEST, head, encode_control(message), loss.bits),
            RepairRequested(fact_key(state.stream, sequence), loss.round),
        ]

    def end(self, state: RecoveryStream, sequence: int) -> list[Effect]:
        """It came, or will not."""
        loss = self.losses.pop((state.stream, sequence))
        if loss.first_at is not None:
            state.requests.ended(max(0, loss.seen - 1), (loss.first_at - loss.lost_at) / state.distance)
        return [CancelTimer(("request", state.stream, sequence))]

    def check(self) -> None:
        assert len(self.losses) <= self.params.recovery.requests_max, "more losses are asked for than requests_max"
        assert len(self.overheard) <= OVERHEARD_MAX, "more requests are remembered than OVERHEARD_MAX"
        for loss in self.losses.values():
            assert loss.round <= self.params.recovery.rounds_max, "asked more often than rounds_max"


def fact_key(stream: Stream, sequence: int) -> str:
    """By what a request says of the event: all who ask and answer call it the same."""
    return event_key(("", stream[1]), sequence)
