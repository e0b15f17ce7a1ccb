"""Receiver: the subscriber's side of congestion control. It measures what it can take and tells the publisher.

The problem. A best-effort network drops what it cannot carry. A publisher whose events are dropped on the way to one
subscriber cannot see it, and does not even know who its subscribers are.

The idea. Each paced subscriber watches, for each publisher, how often something is lost and how long a round trip
takes, and computes the rate that TCP would have under these conditions. If more comes, it says so: for each of its
flows (what matches one of its filters) it tells the publisher how many events a second it can take. The publisher slows
down those events and no others, and names the slowest receiver of each flow, its *limiting receiver*, in the events
themselves. Only the limiting receiver may speed the flow up again; it reports in every round trip, the others when they
get more than they can take. In an uncongested network nobody reports anything.

State, for each publisher, in `paced.py`: the round trip, the loss intervals (`rates.py`), and a row for
each flow with its rate and quota. Which flows an event belongs to: also there.

Signals heard: `Heard` counts; the gap before an event is judged when ordering has told what is in it (`GapSeen`),
losses when ordering has given up waiting (`EventLost`); `RoundTrip`; `StreamGone`. Messages sent: `Feedback`, at most
one in a round trip (or as many as its flows need), and where asked for, `Acknowledgement` for each event of a limited
flow. Timers: ("tick", stream), each round trip, at longer distances while nothing comes; ("report", stream), a report
that waits to see whether somebody else makes it superfluous (F-4).

Guaranteed: no report says more than TCP would take, apart from the floor of one event in a round trip; a subscription
that ends releases its flows. Not guaranteed: that the publisher obeys; it may not use congestion control at all.

Source: the transport specification, 3.6, 3.7 and section 5, G-16 to G-32.
"""

from collections.abc import Iterator
from random import Random
from typing import cast

from tidings.machine.effects import CancelTimer, Drop, Effect, SetTimer
from tidings.machine.inputs import Fired
from tidings.model.bounds import FLOWS_MAX
from tidings.model.identity import name_of
from tidings.protocols.transport.congestion.paced import SEEN_BITS, FlowInterests, PacedFlow, PacedStream, interests_of
from tidings.protocols.transport.headers import WRAP
from tidings.protocols.transport.marks import TO, Kind, head_of
from tidings.protocols.transport.messages import Acknowledgement, Feedback, encode_control
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.signals import (
    Configure,
    EventLost,
    GapSeen,
    Heard,
    Leaving,
    Listen,
    RoundTrip,
    StopListening,
    Stream,
    StreamGone,
    TransportPart,
    publisher_text,
)
from tidings.protocols.transport.views import FlowRow
from tidings.pubsub.notes import FeedbackSent, LossEvent, RateAssessed

IDLE_PERIOD_MAX = 1.0
"""Seconds between two ticks of a publisher that sends nothing; less than any time-out of flows."""

REFRAINED_MAX = 4
"""Reports in a row that may be left to another receiver; then ours is needed all the same."""

EARLY = 1e-9
"""Seconds by which a tick may seem to come too early, since times are rounded."""

TOO_MANY_STREAMS = "as many publishers are followed as are allowed; the oldest is forgotten"

NOTHING: list[Effect] = []


class Receiver(TransportPart):
    """`node_id` is the number by which publishers know us."""

    tells = (Leaving,)

    def __init__(self, node_id: int, params: TransportParams, rng: Random) -> None:
        self.node_id, self.params, self.rng = node_id, params, rng
        self.interests = FlowInterests()
        self.sessions: dict[Stream, PacedStream] = {}
        self.round_trips: dict[Stream, float] = {}
        """Of streams without a session so far."""
        self.acknowledges = acknowledges(params)
        self.handlers = {
            Heard: self.heard,
            GapSeen: self.saw_gap,
            EventLost: self.lost,
            RoundTrip: self.measured,
            Fired: self.fired,
            Listen: self.listen,
            StopListening: self.listen,
            StreamGone: self.stream_gone,
            Configure: self.configure,
        }

    # What we want.

    def listen(self, now: float, request: Listen | StopListening) -> list[Effect]:
        if not (isinstance(request, Listen) and request.is_paced):
            return self.forget(now, request.subscription)
        params, is_exact = self.params, self.params.congestion.covering == "exact"
        interests = interests_of(request.filter, params.profile, request.priority, is_exact, params.topic_attribute)
        effects = self.forget(now, request.subscription, keep=frozenset(interest.flow for interest in interests))
        self.interests.put(request.subscription, request.filter, interests)
        for session in self.sessions.values():
            session.routes.clear()
            for flow, interest in self.interests.flows().items():
                if flow in session.rows:
                    session.rows[flow].interest = interest
        return effects

    def forget(self, now: float, subscription: int, keep: frozenset[int] = frozenset()) -> list[Effect]:
        """Flows that no subscription wants any more are released (G-27)."""
        if subscription not in self.interests.subscriptions:
            return []
        self.interests.remove(subscription)
        effects: list[Effect] = []
        wanted = self.interests.flows()
        for session in list(self.sessions.values()):
            session.routes.clear()
            gone = [row for flow, row in session.rows.items() if flow not in wanted and flow not in keep]
            for row in gone:
                del session.rows[row.interest.flow]
            limiting = [row for row in gone if row.is_limiting]
            session.limiting_count -= len(limiting)
            if limiting:
                effects += self.report(now, session, limiting, is_release=True)
            if not session.rows and not keep:
                effects += self.end(session)
        return effects

    def end(self, session: PacedStream) -> list[Effect]:
        del self.sessions[session.stream]
        return [CancelTimer(("tick", session.stream)), CancelTimer(("report", session.stream))]

    def configure(self, now: float, request: Configure) -> list[Effect]:
        self.params, self.acknowledges = request.params, acknowledges(request.params)
        for session in self.sessions.values():
            session.params = self.params.congestion
        return []

    # What comes.

    def heard(self, now: float, signal: Heard) -> list[Effect]:
        content = signal.content
        session = self.sessions.get(signal.stream)
        if session is None:
            if not self.interests.of(content.subscriptions, content.head):
                return NOTHING
            session, effects = self.begin(now, signal)
        else:
            effects = NOTHING
        rows = session.routes.get(content.subscriptions)
        if rows is None:
            rows = self.route(now, session, signal)
        session.arrived(signal.sequence, bool(rows))
        if not rows:
            return effects
        header = signal.header
        session.meter.count += 1
        for row in rows:
            row.meter.count += 1
        session.publish_rate = header.rate
        if header.flows or session.limiting_count:
            session.hear_marks(rows, header, self.node_id)
            if self.acknowledges and session.limiting_count:
                effects = effects + self.acknowledge(now, session, rows)
        if session.ticks_idle:
            effects = effects + self.wake(now, session)
        return effects

    def begin(self, now: float, signal: Heard) -> tuple[PacedStream, list[Effect]]:
        effects: list[Effect] = []
        if len(self.sessions) >= self.params.streams_max:
            oldest = next(iter(self.sessions.values()))
            effects = [Drop(oldest.stream, TOO_MANY_STREAMS), *self.end(oldest)]
        session = self.sessions[signal.stream] = PacedStream(signal.stream, now, self.params.congestion)
        session.last = session.joined = signal.sequence - 1
        seconds = self.round_trips.pop(signal.stream, 0.0)
        if seconds:
            session.learn_round_trip(now, seconds)
            effects.append(SetTimer(("tick", session.stream), now + session.period))
        return session, effects

    def route(self, now: float, session: PacedStream, signal: Heard) -> tuple[PacedFlow, ...]:
        content = signal.content
        interests = self.interests.of(content.subscriptions, content.head)
        for interest in interests:
            if interest.flow not in session.rows:
                session.rows[interest.flow] = PacedFlow(interest, now)
        rows = tuple(session.rows[interest.flow] for interest in interests)
        if self.interests.remembered.get(content.subscriptions) is not None:
            session.routes[content.subscriptions] = rows
        return rows

    def saw_gap(self, now: float, signal: GapSeen) -> list[Effect]:
        session = self.sessions.get(signal.stream)
        if session is None or not session.is_last_paced or signal.sequence != session.last:
            return []
        is_loss = session.intervals.arrived_behind(signal.uncovered, signal.relevant, session.rho())
        return self.lose(now, session) if is_loss else NOTHING

    def lost(self, now: float, signal: EventLost) -> list[Effect]:
        session = self.sessions.get(signal.stream)
        if session is None or not self.interests.is_paced(signal.subscriptions):
            return []
        return self.lose(now, session, signal.sequence)

    def lose(self, now: float, session: PacedStream, sequence: int = -1) -> list[Effect]:
        interval = session.intervals.open
        if not session.lose(now, sequence):
            return []
        p, allowed = session.intervals.loss_event_rate, session.allowed
        return [LossEvent(publisher_text(session.stream), interval, p, told(allowed))]

    def measured(self, now: float, signal: RoundTrip) -> list[Effect]:
        session = self.sessions.get(signal.stream)
        if session is None:
            if len(self.round_trips) >= self.params.streams_max:
                del self.round_trips[next(iter(self.round_trips))]
            self.round_trips[signal.stream] = signal.seconds
            return []
        if session.learn_round_trip(now, signal.seconds):
            return [SetTimer(("tick", session.stream), now + session.period)]
        return []

    def stream_gone(self, now: float, signal: StreamGone) -> list[Effect]:
        self.round_trips.pop(signal.stream, None)
        session = self.sessions.get(signal.stream)
        return self.end(session) if session else []

    # What we say about it.

    def fired(self, now: float, input: Fired) -> list[Effect]:
        what, stream = cast(tuple[str, Stream], input.key)
        session = self.sessions.get(stream)
        if session is None:
            return []
        return self.tick(now, session) if what == "tick" else self.report_late(now, session)

    def tick(self, now: float, session: PacedStream) -> list[Effect]:
        is_idle = session.meter.count == session.count_at_tick
        session.count_at_tick = session.meter.count
        session.ticks_idle = session.ticks_idle + 1 if is_idle else 0
        wait = session.period * 2 ** min(session.ticks_idle, 16)
        at = now + max(session.period, min(wait, IDLE_PERIOD_MAX))
        effects: list[Effect] = [SetTimer(("tick", session.stream), at)]
        allowed, total = session.assess(now)
        rows = session.reported()
        if session.intervals.closed or rows:
            quotas = tuple([told(row.quota) for row in session.rows.values()])
            effects.append(RateAssessed(publisher_text(session.stream), told(allowed), total, quotas))
        if not rows:
            return effects
        if self.params.congestion.suppression:
            return effects + self.wait_to_report(now, session, rows)
        return effects + self.report(now, session, rows)

    def wake(self, now: float, session: PacedStream) -> list[Effect]:
        """Events come again: back to one tick in a round trip."""
        session.ticks_idle = 0
        return [SetTimer(("tick", session.stream), now + session.period)]

    def report(self, now: float, session: PacedStream, rows: list[PacedFlow], is_release: bool = False) -> list[Effect]:
        publisher = session.stream[1]
        session.reported_at = now
        head = head_of({TO: publisher}, Kind.FEEDBACK)
        size_bytes = self.params.profile.size_bytes
        effects: list[Effect] = []
        for first in range(0, len(rows), FLOWS_MAX):
            reports = tuple(session.report_of(row) for row in rows[first : first + FLOWS_MAX])
            message = Feedback(self.node_id, publisher, now, session.round_trip, reports, size_bytes, is_release)
            effects.append(Leaving(Kind.FEEDBACK, head, encode_control(message)))
        return [*effects, FeedbackSent(publisher_text(session.stream), len(rows), is_release)]

    # Reports that others may make superfluous (F-4).

    def wait_to_report(self, now: float, session: PacedStream, rows: list[PacedFlow]) -> list[Effect]:
        """Those who limit a flow do not wait; of the others those who can take least, against what they get, speak
        first. A report that has just been made is enough for a round trip."""
        if any(row.is_limiting for row in rows):
            session.waiting = {}
            is_early = now < session.reported_at + session.period - EARLY
            return [] if is_early else self.report(now, session, rows)
        share = min((row.quota / row.meter.rate for row in rows if row.meter.rate > row.quota), default=1.0)
        session.waiting = {row.interest.flow: row.refreshed for row in rows}
        at = max(now, session.reported_at + session.period)
        return [SetTimer(("report", session.stream), at + session.period * share * self.rng.random())]

    def report_late(self, now: float, session: PacedStream) -> list[Effect]:
        """Unless somebody else has reported the same flow since, or has done so too often for it to help us."""
        rows = []
        for row in session.reported():
            refreshed = session.waiting.get(row.interest.flow)
            if refreshed is None:
                continue
            if row.refreshed != refreshed and row.refrained < REFRAINED_MAX:
                row.refrained += 1
            else:
                row.refrained = 0
                rows.append(row)
        session.waiting = {}
        return self.report(now, session, rows) if rows else []

    # Acknowledgements (F-3a, F-6).

    def acknowledge(self, now: float, session: PacedStream, rows: tuple[PacedFlow, ...]) -> list[Effect]:
        publisher = session.stream[1]
        head = head_of({TO: publisher}, Kind.ACKNOWLEDGEMENT)
        missing = ~(session.seen >> 1) & (1 << SEEN_BITS) - 1
        effects: list[Effect] = []
        for row in rows:
            if row.is_limiting:
                numbers = session.last % WRAP, row.meter.count % WRAP
                message = Acknowledgement(self.node_id, publisher, row.interest.flow, *numbers, missing, now)
                effects.append(Leaving(Kind.ACKNOWLEDGEMENT, head, encode_control(message)))
        return effects

    # What can be seen.

    def states(self) -> Iterator[FlowRow]:
        for session in self.sessions.values():
            for flow, row in session.rows.items():
                yield FlowRow(
                    side="receiver",
                    publisher=name_of(publisher_text(session.stream)),
                    flow=flow,
                    filter=row.interest.text,
                    rate=row.meter.rate,
                    quota=row.quota,
                    is_limiting=row.is_limiting,
                )

    def check(self) -> None:
        wanted = self.interests.flows()
        for stream, session in self.sessions.items():
            assert stream == session.stream
            assert all(flow == row.interest.flow for flow, row in session.rows.items())
            assert all(flow in wanted for flow in session.rows)
            assert session.limiting_count == sum(row.is_limiting for row in session.rows.values())
            assert 0.0 <= session.intervals.loss_event_rate <= 1.0
        assert len(self.sessions) <= self.params.streams_max


def acknowledges(params: TransportParams) -> bool:
    return params.congestion.control == "window" or params.congestion.acknowledgements


def told(rate: float) -> float | None:
    """Traces know no infinity."""
    return None if rate == float("inf") else rate
