"""Recovery: lost events, asked for through the network itself and repaired by whoever has them.

The problem. A best-effort network loses events. Its brokers keep nothing and acknowledge nothing, and publishers do not
know their receivers. But an event that is lost on the way to one receiver has mostly reached others, and those keep it
for a while.

The idea is that of scalable reliable multicast (SRM). Whoever misses an event waits a random time and asks everybody
who may have it; whoever has it waits a random time and repairs; each refrains when it hears another do the same. Who
"everybody" is nobody needs to know: a request is an event too, and the network routes it by content (`requester.py`).

    EventLost  ordering misses an event  ->  losses.py, requester.py: timers, rounds, suppression
    request    another misses an event   ->  repairer.py: timers, hold-down, republish or unicast
    repair     an event comes again      ->  `Recovered`, at once, flagged; ordering delivers it
    Heard      an event comes            ->  cache.py: kept for others, a number that adapts
    Admitted   a request or repair may leave: it is written and sent
    Departed   an event of ours left     ->  kept as well: publishers answer for their own events
    history    nobody had it             ->  losses.py: read from the carrier's history, or given up

State. For each stream a `RecoveryStream`; losses that are asked for; repairs that wait, and those in hold-down; losses
that wait for the history; distances. Timers ("request", stream, sequence), ("repair", stream, sequence), ("recall",
stream), "review" (cache sizes, once in `cache_period` while there is a stream).

Who takes part: every subscription with `is_reliable` volunteers, and every publisher whose parameters say
`is_reliable`. A node that wants to be a cache for others subscribes reliably and ignores what it gets.

A repair that nobody here asked for is delivered as well, if it is new, for a reliable subscription, and not from before
we began to follow its publisher: a loss that one receiver noticed is then repaired for all (MT 4.2.2). Repairs pass by
the delay estimates, rates and round trips of the other parts, which hear `Recovered` and not `Heard`.

Guaranteed: nothing is delivered twice, requests and repairs stay within the bounds of `RecoveryParams`, every loss ends
(recovered, or given up with `Quality("given_up")`). Not guaranteed: that a loss is repaired; that a repair is what its
publisher sent (headers are not signed).

Source: the transport specification, 3.5; X-6, X-7, G-10 to G-15, G-33, G-35.
"""

from random import Random
from typing import cast

from tidings.machine.effects import Drop, Effect, SetTimer
from tidings.machine.inputs import Fired
from tidings.protocols.transport.headers import Data
from tidings.protocols.transport.marks import Kind
from tidings.protocols.transport.messages import LossRepair, LossRequest
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.recovery.cache import CacheRoom
from tidings.protocols.transport.recovery.losses import NOT_WANTED_ANY_MORE, Losses
from tidings.protocols.transport.recovery.repairer import ASKS_TOO_OFTEN, Repairer
from tidings.protocols.transport.recovery.requester import Key, Volunteering, fact_key
from tidings.protocols.transport.recovery.streams import Distances, RecoveryStream, clamped
from tidings.protocols.transport.signals import (
    WRITTEN_LATE,
    Admitted,
    CarriedEvent,
    Configure,
    Departed,
    Emit,
    EventLost,
    GivenUp,
    Heard,
    Leaving,
    Listen,
    NotAdmitted,
    Quality,
    Recall,
    Recalled,
    Recovered,
    RoundTrip,
    StopListening,
    Stream,
    StreamGone,
    Told,
    TransportPart,
    Unneeded,
    Unwatch,
    Watch,
    Way,
)
from tidings.pubsub.notes import CacheSearched

NOT_FOR_US = "a repair that no filter here matches"
NOT_FOLLOWED = "a repair of an event from before we followed its publisher"


class Recovery(TransportPart):
    """Part of `TransportNode`; `node_id` is our number as requester, repairer and publisher."""

    tells = (Leaving, Unneeded, Emit, Recovered, GivenUp, Watch, Unwatch, Recall)

    def __init__(self, node_id: int, params: TransportParams, rng: Random) -> None:
        self.node_id, self.params, self.rng = node_id, params, rng
        self.distances = Distances(params.recovery)
        self.budget = CacheRoom(params.recovery.cache_total, params.recovery.cache_bytes)
        self.own = self.make_stream(("", node_id), params.recovery.own_cache)
        self.streams: dict[Stream, RecoveryStream] = {self.own.stream: self.own}
        self.losses = Losses(node_id, params, rng)
        self.repairer = Repairer(node_id, params, rng)
        self.volunteering = Volunteering(node_id)
        self.reliable = self.volunteering.reliable
        self.is_reviewing = False
        self.requests_heard = self.repairs_heard = self.recovered_count = self.mistaken = 0
        """Mistaken: repairs of what seemed to be for us by its Bloom row, and was not."""
        self.handlers = {
            Heard: self.heard,
            Told: self.told,
            EventLost: self.lost,
            Recovered: self.recovered,
            RoundTrip: self.round_trip,
            Admitted: self.admitted,
            NotAdmitted: self.not_admitted,
            Departed: self.departed,
            StreamGone: self.stream_gone,
            Recalled: self.recalled,
            Listen: self.listen,
            StopListening: self.listen,
            Configure: self.configure,
            Fired: self.fired,
        }

    def start(self, now: float) -> list[Effect]:
        """After a crash nothing is under way: what was asked for is asked for again, and what waited is forgotten."""
        self.is_reviewing = False
        self.repairer.pending.clear()
        for loss in self.losses.requester.losses.values():
            loss.is_leaving = False
        effects: list[Effect] = self.volunteering.again(self.params)
        effects += [
            SetTimer(("request", *key), now + self.distances.of(key[0])) for key in self.losses.requester.losses
        ]
        for stream in list(self.losses.history.readings):
            effects += self.losses.unanswered(now, stream)
        return [*effects, *self.review_later(now)] if len(self.streams) > 1 else effects

    def state_of(self, now: float, stream: Stream) -> tuple[RecoveryStream, list[Effect]]:
        state = self.streams.get(stream)
        if state is not None:
            return state, []
        state = self.streams[stream] = self.make_stream(stream, self.params.recovery.cache_min)
        return state, self.review_later(now)

    def make_stream(self, stream: Stream, size: int) -> RecoveryStream:
        return RecoveryStream(stream, self.params.recovery, self.budget, self.distances, size)

    def review_later(self, now: float) -> list[Effect]:
        if self.is_reviewing:
            return []
        self.is_reviewing = True
        return [SetTimer("review", now + self.params.recovery.cache_period)]

    # What comes, and what leaves.

    def heard(self, now: float, heard: Heard) -> list[Effect]:
        if self.reliable.isdisjoint(heard.content.subscriptions):
            return []
        state = self.streams.get(heard.stream)
        effects: list[Effect] = []
        if state is None:
            state, effects = self.state_of(now, heard.stream)
        sequence, content = heard.sequence, heard.content
        if state.first < 0:
            state.first = sequence
        ring = state.ring
        ring.heard += 1
        ring.put(sequence, (heard.header, content, 0))
        if content.number:
            state.numbers.append((sequence, content.number))
        return effects

    def departed(self, now: float, departed: Departed) -> list[Effect]:
        if self.volunteering.is_publisher:
            content = CarriedEvent(departed.head, departed.payload)
            self.own.ring.put(departed.sequence, (departed.header, content, departed.bits))
        return []

    def lost(self, now: float, lost: EventLost) -> list[Effect]:
        subscriptions = tuple(number for number in lost.subscriptions if number in self.reliable)
        if not subscriptions:
            return []
        state, effects = self.state_of(now, lost.stream)
        return effects + self.losses.add(now, state, lost, subscriptions)

    def recovered(self, now: float, recovered: Recovered) -> list[Effect]:
        """It came late by itself."""
        state = self.streams.get(recovered.stream)
        return [] if state is None else self.losses.end(state, recovered.sequence)

    def recalled(self, now: float, recalled: Recalled) -> list[Effect]:
        found, effects = self.losses.recalled(now, recalled)
        for sequence, header, content in found:
            effects += self.bring(self.streams[recalled.stream], sequence, header, content, "history")
        return effects

    # Our requests and repairs.

    def admitted(self, now: float, admitted: Admitted) -> list[Effect]:
        leaving = admitted.outgoing
        if leaving.kind not in WRITTEN_LATE:
            return []
        stream, sequence = cast(Key, leaving.ticket)
        if leaving.kind is Kind.REQUEST:
            return self.losses.requester.ask(now, self.streams[stream], sequence)
        return [*self.repairer.send(now, self.streams[stream], sequence), *self.review_later(now)]

    def not_admitted(self, now: float, refused: NotAdmitted) -> list[Effect]:
        key = cast(Key, refused.outgoing.ticket)
        if refused.outgoing.kind is Kind.REQUEST:
            return self.losses.requester.not_admitted(now, key)
        del self.repairer.pending[key]
        return []

    # Requests and repairs of others.

    def told(self, now: float, told: Told) -> list[Effect]:
        if type(told.message) is LossRequest:
            return self.requested(now, told, told.message)
        if type(told.message) is LossRepair:
            return self.repaired(now, told, told.message)
        return []

    def requested(self, now: float, told: Told, request: LossRequest) -> list[Effect]:
        self.requests_heard += 1
        if not self.repairer.admits(now, request):
            return [Drop(request, ASKS_TOO_OFTEN)]
        state = self.state_told(told, request.publisher)
        if state is None:
            return []
        state.joined(request.requester)
        if request.repairer == self.node_id:
            self.distances.exchanged(now, request.requester, request.repair_sent, request.repair_held)
        if (state.stream, told.sequence) in self.losses.requester.losses:
            return self.losses.requester.heard(now, state, told.sequence, request)
        if state.ring.had(told.sequence):
            return self.look_up(now, state, told.sequence, request)
        if state is not self.own:
            self.losses.requester.overhear(now, (state.stream, told.sequence))
        return []

    def state_told(self, told: Told, publisher: int) -> RecoveryStream | None:
        stream = self.own.stream if publisher == self.node_id else told.stream
        return None if stream is None else self.streams.get(stream)

    def look_up(self, now: float, state: RecoveryStream, sequence: int, request: LossRequest) -> list[Effect]:
        """Something that we had."""
        claimed = clamped(request.distance)
        near = claimed if state is self.own else state.distance
        distance = self.distances.peers.get(request.requester, near)
        state.ring.learn(request.request_wait, claimed, distance, request.round)
        kept = state.ring.look_up(sequence)
        state.requests_heard += 1
        note = CacheSearched(fact_key(state.stream, sequence), kept is not None, len(state.ring.order))
        if kept is None:
            return [note]
        state.hits += 1
        return [note, *self.repairer.asked(now, state, sequence, kept, request, distance)]

    def repaired(self, now: float, told: Told, repair: LossRepair) -> list[Effect]:
        self.repairs_heard += 1
        state = self.state_told(told, repair.data.publisher)
        if state is None:
            return []
        state.joined(repair.repairer)
        if repair.requester == self.node_id:
            self.distances.exchanged(now, repair.repairer, repair.request_sent, repair.held)
        state.last_repair = repair.repairer, repair.sent, now
        sequence = told.sequence
        if sequence in state.ring.entries or sequence in state.ring.missed:
            held = self.repairer.heard(now, state, sequence, repair)
            return [*held, *self.review_later(now)]
        if state is self.own:
            return []
        return self.take_repair(now, told, state, repair)

    def take_repair(self, now: float, told: Told, state: RecoveryStream, repair: LossRepair) -> list[Effect]:
        """An event that we may lack. Where others got the repair too, requests for it that come now crossed it."""
        if (state.stream, told.sequence) not in self.losses:
            if not told.is_new:
                return []
            if told.sequence < state.first or state.first < 0:
                return [Drop(told.message, NOT_FOLLOWED)]
        if not repair.head:
            self.repairer.hold_down(now, state, told.sequence)
        return self.bring(state, told.sequence, repair.data, told.content, "repaired")

    def bring(
        self, state: RecoveryStream, sequence: int, header: Data, content: CarriedEvent, way: Way
    ) -> list[Effect]:
        """An event that was lost is here; it is for those whose filter matches it exactly (G-35)."""
        effects = self.losses.end(state, sequence)
        subscriptions = self.volunteering.wanted_by(content)
        number = content.number if way == "history" else 0
        restored = CarriedEvent(
            content.head, content.payload, state.stream[0], number, content.accepted_at, subscriptions
        )
        state.repaired(is_for_us=bool(subscriptions))
        if not subscriptions:
            self.mistaken += 1
            return [*effects, Drop(restored, NOT_FOR_US)]
        self.recovered_count += 1
        state.ring.put(sequence, (header, restored, 0))
        return [*effects, Recovered(state.stream, sequence, restored, way)]

    # Streams, subscriptions, timers.

    def round_trip(self, now: float, told: RoundTrip) -> list[Effect]:
        if told.stream in self.streams or self.reliable:
            self.distances.round_trip(told.stream, told.seconds)
        return []

    def stream_gone(self, now: float, gone: StreamGone) -> list[Effect]:
        stream = gone.stream
        state = self.streams.get(stream)
        if state is None or state is self.own:
            self.distances.publishers.pop(stream, None)
            return []
        effects = self.losses.forget(state)
        effects += self.repairer.forget(stream)
        self.distances.publishers.pop(stream, None)
        del self.streams[stream]
        state.ring.clear()
        return effects

    def listen(self, now: float, request: Listen | StopListening) -> list[Effect]:
        changed = self.volunteering.listen(request, self.params)
        return changed if request.is_reliable else changed + self.forget_unwanted()

    def forget_unwanted(self) -> list[Effect]:
        """Losses of subscriptions that are gone are nobody's."""
        effects: list[Effect] = []
        for stream, sequence in self.losses.unwanted(self.reliable):
            effects += self.losses.end(self.streams[stream], sequence)
            effects += [Drop(Quality("given_up", stream, sequence), NOT_WANTED_ANY_MORE), GivenUp(stream, sequence)]
        return effects

    def configure(self, now: float, request: Configure) -> list[Effect]:
        self.params = params = request.params
        self.losses.configure(params)
        self.repairer.configure(params)
        self.distances.configure(params.recovery)
        self.budget.count_max, self.budget.bytes_max = params.recovery.cache_total, params.recovery.cache_bytes
        self.budget.keep()
        self.own.ring.resize(params.recovery.own_cache)
        for state in self.streams.values():
            state.configure(params.recovery)
        return self.volunteering.changed(params)

    def fired(self, now: float, fired: Fired) -> list[Effect]:
        if fired.key == "review":
            return self.review(now)
        assert isinstance(fired.key, tuple)
        kind, stream, *rest = fired.key
        state = self.streams.get(stream)
        if state is None:
            return []
        if kind == "recall":
            return self.losses.unanswered(now, stream)
        if kind == "request":
            return self.losses.due(now, state, rest[0])
        return self.repairer.due(now, state, rest[0])

    def review(self, now: float) -> list[Effect]:
        self.is_reviewing = False
        self.repairer.review(now, self.streams)
        for state in self.streams.values():
            if state is not self.own:
                state.ring.review(now, self.params.recovery)
        return self.review_later(now) if len(self.streams) > 1 or self.repairer.held else []

    def check(self) -> None:
        assert not self.budget.is_exceeded, "more is kept than the bounds allow"
        assert self.budget.count == sum(len(state.ring.order) for state in self.streams.values())
        for state in self.streams.values():
            state.check()
        for part in (self.losses, self.repairer, self.distances):
            part.check()
        for stream, _ in self.losses.requester.losses:
            assert stream in self.streams, "a loss of a stream that is not known"
