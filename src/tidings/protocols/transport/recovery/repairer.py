"""Answering the requests of others from what we keep.

    request heard   kept here, nobody answers yet, and not in hold-down: wait a random time, timer ("repair", ...)
    timer           wait for leave of congestion control; then write and send the repair; hold-down
    repair heard    ours is not needed any more; hold-down

Hold-down: for three distances after a repair was sent or heard, requests for the same event are those that crossed it,
and are not answered. Publishers hear the repairs of their events too (`tidings_of`), and are quiet where another was
quicker.

A repair is the event with the header it had, so whoever has it already knows it again. Two ways to send it:

    republish   the attributes of the event itself, marked as a repair: all who lost it get it
    unicast     addressed to the requester (`tidings_to`), the attributes inside: nobody else gets it
    auto        unicast while one asks; republish when two do, or when the same one asks again

Others do not hear an answer by unicast, so they cannot refrain from theirs. Of a large group each therefore answers
only with chance `UNICAST_ANSWERS` / group; publishers always do. A requester that is not reached that way (nobody
routes to it, or its answers are lost) is noticed by its rounds: from round `UNREACHED_ROUND` on, in mode unicast too,
the answer is republished. The other way round, a requester may ask for what only seems to be for it, by the Bloom row:
the network will never bring it that as a republished event. So publishers, who have all of theirs, answer every second
round by unicast even in mode republish; the requester then sees that it is not for it, and is quiet.

Strangers. A requester may ask `requests_per_second` times; all together get `repairs_per_second` repairs, what is more
waits for its turn up to `DELAY_MAX`; one event is sent once in a hold-down; `PENDING_MAX` repairs wait at a time. What
a requester claims about waits and distances is clamped. A request for what we never had costs a few look-ups.

Not guaranteed: that a repair is what its publisher sent. The header is not signed.

Source: the transport specification, 3.5.5, G-11, G-14.
"""

from random import Random
from typing import Literal

import msgspec

from tidings.machine.effects import CancelTimer, Drop, Effect, SetTimer
from tidings.protocols.transport.limits import Bucket, Buckets
from tidings.protocols.transport.marks import TO, Kind, head_of, mark_repair
from tidings.protocols.transport.messages import LossRepair, LossRequest, encode_control
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.recovery.cache import Kept
from tidings.protocols.transport.recovery.requester import Key, fact_key
from tidings.protocols.transport.recovery.streams import FARTHER, RecoveryStream, repair_first_max
from tidings.protocols.transport.signals import Emit, Leaving, Stream, Unneeded
from tidings.pubsub.notes import RepairSent, Suppressed

HOLD_DOWN = 3.0
"""Distances for which an event that was repaired is not sent again."""

PENDING_MAX = 1000
"""Repairs that wait to be sent."""

HELD_MAX = 10_000
"""Events in hold-down; beyond it the oldest is forgotten."""

REQUESTERS_MAX = 1000
"""Requesters whose rate is watched."""

DELAY_MAX = 1.0
"""Seconds that a repair waits for its turn when more are sent than `repairs_per_second`."""

BURST = 0.1
"""Seconds' worth of repairs that may leave at once."""

UNICAST_ANSWERS = 2.0
UNREACHED_ROUND = 2

ASKS_TOO_OFTEN = "this requester asks more often than requests_per_second"
TOO_MANY_REPAIRS = "more repairs are asked for than repairs_per_second"
TOO_MANY_PENDING = "as many repairs as are allowed wait to be sent"


class PendingRepair(msgspec.Struct):
    """A repair that waits."""

    kept: Kept
    request: LossRequest
    heard_at: float
    distance: float
    is_shared: bool = False
    """Whether somebody else asked as well."""
    has_turn: bool = False
    """Whether it is counted against `repairs_per_second` already."""
    is_leaving: bool = False


class Hold(msgspec.Struct):
    until: float
    seen: int = 1
    """Repairs of the event, ours included."""
    held: float | None = None
    """How long we waited before ours; None if another was quicker."""
    delay: float | None = None
    """How long anybody took, in distances, where we would have answered."""


class Repairer:
    def __init__(self, node_id: int, params: TransportParams, rng: Random) -> None:
        self.node_id, self.params, self.rng = node_id, params, rng
        self.pending: dict[Key, PendingRepair] = {}
        self.held: dict[Key, Hold] = {}
        self.configure(params)
        self.sent = 0

    def configure(self, params: TransportParams) -> None:
        self.params = params
        limits = params.recovery
        self.requesters = Buckets(limits.requests_per_second, limits.requests_per_second, REQUESTERS_MAX)
        self.repairs = Bucket(0.0, limits.repairs_per_second, limits.repairs_per_second * BURST)

    def admits(self, now: float, request: LossRequest) -> bool:
        return self.requesters.take(now, request.requester)

    def asked(
        self, now: float, state: RecoveryStream, sequence: int, kept: Kept, request: LossRequest, distance: float
    ) -> list[Effect]:
        """`distance` is ours to the requester, or what comes nearest to it."""
        key = state.stream, sequence
        waiting = self.pending.get(key)
        if waiting is not None:
            if request.requester != waiting.request.requester:
                waiting.is_shared = True
            elif request.round > waiting.request.round:
                waiting.request = request
            return []
        hold = self.held.get(key)
        if hold is not None and now < hold.until and (hold.held is not None or not self.answers_alone(state, request)):
            return []
        if len(self.pending) >= PENDING_MAX:
            return [Drop(request, TOO_MANY_PENDING)]
        state.repairs.adapt(repair_first_max(state.group_size), state.group_size)
        self.pending[key] = PendingRepair(kept, request, now, distance)
        return [SetTimer(("repair", *key), now + state.repairs.draw(self.rng, distance))]

    def due(self, now: float, state: RecoveryStream, sequence: int) -> list[Effect]:
        key = state.stream, sequence
        pending = self.pending.get(key)
        if pending is None:
            return []
        way = self.way_of(pending, state)
        if way == "unicast" and not pending.has_turn and not self.is_chosen(state):
            del self.pending[key]
            return [Suppressed(fact_key(*key))]
        if not pending.has_turn:
            wait = self.repairs.book(now, DELAY_MAX)
            if wait is None:
                del self.pending[key]
                return [Drop(pending.request, TOO_MANY_REPAIRS)]
            pending.has_turn = True
            if wait:
                return [SetTimer(("repair", *key), now + wait)]
        pending.is_leaving = True
        return [Leaving(Kind.REPAIR, bits=pending.kept[2] or pending.request.bits, ticket=key)]

    def send(self, now: float, state: RecoveryStream, sequence: int) -> list[Effect]:
        """The repair leaves now."""
        key = state.stream, sequence
        pending = self.pending.pop(key)
        way = self.way_of(pending, state)
        self.hold(now, state, key, pending, is_ours=True)
        state.repairs.sent_first()
        state.ring.sent_repair(now)
        self.sent += 1
        return [self.repair(now, pending, way), RepairSent(fact_key(*key), way)]

    def way_of(self, pending: PendingRepair, state: RecoveryStream) -> Literal["republish", "unicast"]:
        mode, round_ = self.params.recovery.repair_mode, pending.request.round
        if mode == "republish":
            is_alone = self.answers_alone(state, pending.request)
        elif mode == "auto":
            is_alone = not (pending.is_shared or round_)
        else:
            is_alone = round_ < UNREACHED_ROUND
        return "unicast" if is_alone else "republish"

    def answers_alone(self, state: RecoveryStream, request: LossRequest) -> bool:
        """As its publisher, by unicast: what others republish may never reach this requester."""
        recovery, is_publisher = self.params.recovery, state.stream[1] == self.node_id
        may = recovery.answers_alone and recovery.repair_mode == "republish"
        return may and is_publisher and request.round % 2 == 1

    def is_chosen(self, state: RecoveryStream) -> bool:
        if state.stream[1] == self.node_id or state.group_size <= UNICAST_ANSWERS:
            return True
        return self.rng.random() < UNICAST_ANSWERS / state.group_size

    def repair(self, now: float, pending: PendingRepair, way: str) -> Emit:
        header, content, _ = pending.kept
        request = pending.request
        inside = content.head if way == "unicast" else b""
        message = LossRepair(self.node_id, now, request.requester, request.sent, now - pending.heard_at, header, inside)
        for_one = head_of({TO: request.requester}, Kind.REPAIR) if inside else b""
        head = for_one or mark_repair(content.head, header.publisher)
        return Emit(head, encode_control(message, content.payload), Kind.REPAIR)

    def heard(self, now: float, state: RecoveryStream, sequence: int, repair: LossRepair) -> list[Effect]:
        """Another has repaired something that we keep, or would have."""
        key = state.stream, sequence
        pending = self.pending.get(key)
        if pending is not None and self.answers_alone(state, pending.request):
            return []
        self.pending.pop(key, None)
        state.ring.heard_repair(sequence, pending is not None)
        if pending is not None:
            self.hold(now, state, key, pending, is_ours=False)
            return [*self.called_off(key, pending), Suppressed(fact_key(*key))]
        hold = self.held.get(key)
        if hold is None or hold.until <= now:
            self.hold_down(now, state, sequence)
            return []
        hold.seen += 1
        if hold.held is not None and repair.held > FARTHER * hold.held:
            state.repairs.outran()
        return []

    def hold_down(self, now: float, state: RecoveryStream, sequence: int) -> None:
        """Everybody gets a repair of it that we had no part in."""
        self.keep_hold((state.stream, sequence), Hold(now + HOLD_DOWN * state.distance), state)

    def hold(self, now: float, state: RecoveryStream, key: Key, pending: PendingRepair, is_ours: bool) -> None:
        elapsed = now - pending.heard_at
        hold = Hold(now + HOLD_DOWN * pending.distance, 1, elapsed if is_ours else None, elapsed / pending.distance)
        self.keep_hold(key, hold, state)

    def keep_hold(self, key: Key, hold: Hold, state: RecoveryStream) -> None:
        self.end_hold(key, state)
        self.held[key] = hold
        if len(self.held) > HELD_MAX:
            del self.held[next(iter(self.held))]

    def end_hold(self, key: Key, state: RecoveryStream) -> None:
        """What is known now is how many repaired it."""
        hold = self.held.pop(key, None)
        if hold is not None and hold.delay is not None:
            state.repairs.ended(hold.seen - 1, hold.delay)

    def review(self, now: float, states: dict[Stream, RecoveryStream]) -> None:
        for key in [key for key, hold in self.held.items() if hold.until <= now]:
            self.end_hold(key, states[key[0]])

    def forget(self, stream: Stream) -> list[Effect]:
        for key in [key for key in self.held if key[0] == stream]:
            del self.held[key]
        effects: list[Effect] = []
        for key in [key for key in self.pending if key[0] == stream]:
            effects += self.called_off(key, self.pending.pop(key))
        return effects

    def called_off(self, key: Key, pending: PendingRepair) -> list[Effect]:
        return [Unneeded(Kind.REPAIR, key) if pending.is_leaving else CancelTimer(("repair", *key))]

    def check(self) -> None:
        assert len(self.pending) <= PENDING_MAX, "more repairs wait than PENDING_MAX"
        assert len(self.held) <= HELD_MAX, "more events are in hold-down than HELD_MAX"
        self.requesters.check()
