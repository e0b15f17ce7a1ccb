"""Sender: the publisher's side of congestion control, and the gate through which everything leaves.

The problem. Events for a subscriber behind a slow link are dropped on the way, after they have cost everything. Sending
less of everything would punish all other subscribers.

The idea. Receivers say how many events a second they can take of what they want (`Receiver`). The publisher keeps a
table of *flows* (`flows.py`), each with the rate of its slowest receiver, and lets an event leave when all flows that
it belongs to have a token for it. Events of no flow leave at once: they are wanted by nobody who is short of room. What
has to wait waits in a short queue (`queues.py`); what does not fit is *withheld*. Numbers and times are given to
events when they leave, so a withheld event is no gap and waiting is no delay that a receiver could mistake for one of
the network.

Nothing is limited before the first report. With `slow_start` a publisher begins with few events a second and doubles
that as long as something waits and nobody reports, and receivers report from the beginning (G-21).

State: the table; what waits; the controller (`control.py`); the budget for feedback (`limits.py`, which
tells what a lying receiver can do); a bucket for requests and repairs. Those take tokens like events, and besides may
not be more than a small share of what this node receives and sends (T-99); what is too much waits.

Signals heard: `Leaving`, answered by `Admitted`; `Told` with feedback and acknowledgements; `Departed` for their
numbers; `Heard` is counted. Timers: "due", when something that waits may leave; "expire",
when a flow that nobody confirmed ends; "deadline", when acknowledgements are overdue; "control", when the next request
or repair may leave; "start" during slow start.

Guaranteed: an event that matches no flow never waits; no flow is faster than its quota allows, but for what its valve
lets through; flows keep their order; every event that is not sent is a `Drop`. Not guaranteed: that all receivers of a
flow get what they could take. The slowest decides.

Source: the transport specification, 3.7.4 to 3.7.6, 3.10, section 5.
"""

import math
from collections.abc import Hashable
from random import Random

from tidings.machine.effects import Deliver, Drop, Effect, SetTimer
from tidings.machine.inputs import Fired
from tidings.matching.bloom import FILL_MAX
from tidings.protocols.transport.congestion.control import Controller, TokenBuckets, Windows
from tidings.protocols.transport.congestion.flows import Change, FlowTable, LimitedFlow, ReceiverClaim
from tidings.protocols.transport.congestion.paced import flow_of, quota_floor
from tidings.protocols.transport.congestion.queues import Queueing
from tidings.protocols.transport.congestion.rates import Meter
from tidings.protocols.transport.headers import FlowMark
from tidings.protocols.transport.limits import Bucket, FeedbackBudget
from tidings.protocols.transport.marks import Kind
from tidings.protocols.transport.messages import Acknowledgement, Feedback, FlowReport
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.signals import (
    Admitted,
    Configure,
    Departed,
    Heard,
    Leaving,
    Listen,
    NotAdmitted,
    Quality,
    StopListening,
    Ticket,
    Told,
    TransportPart,
    Unneeded,
)
from tidings.protocols.transport.views import FlowRow
from tidings.pubsub.notes import FlowChanged, Transmitted, Withheld

WITHHELD = "withheld: more is published of this flow than its receivers can take"
CONTROL_WITHHELD = "too many requests and repairs wait already"
TOO_MUCH_FEEDBACK = "more feedback than is read in a second"
NOT_FOR_US = "for another publisher"
OTHER_PROFILE = "Bloom rows of another size, or too full to tell anything"
FORGED_FLOW = "the flow's number is not that of its filter"
CLOCK_TOO_FAR = "clocks too far apart to mean anything"

ROUND_TRIP_MAX = 2.0
"""Seconds that are believed of a receiver's round trip: it sets the least quota and how long a row may stay."""

TRAVEL_MAX = 1e11
"""Seconds between two clocks: those that count from 1970 and those that count from the start of a machine both fit."""

CONTROL_MAX = 500
"""Requests and repairs that wait."""

CONTROL_WINDOW = 1.0
"""Seconds over which what we receive and send is measured; as many may leave at once as in this time."""

RATE_CHANGE = 0.1
"""A rate that changes by no more than this share is not worth telling."""

START_RATE = 10.0
START_PERIOD = 0.2
"""Slow start: events a second at first, and seconds in which that doubles."""

AT_ONCE = frozenset({Kind.FEEDBACK, Kind.ECHO_REQUEST, Kind.ECHO_REPLY, Kind.DIGEST, Kind.ACKNOWLEDGEMENT})


class Sender(TransportPart):
    tells = (Admitted, NotAdmitted)

    def __init__(self, node_id: int, params: TransportParams, rng: Random) -> None:
        self.node_id, self.params = node_id, params
        self.withheld = 0
        """Events that were not sent."""
        self.paced: dict[int, None] = {}
        """Subscriptions of this node under congestion control."""
        self.control_queue: dict[tuple[Kind, Ticket | None], Leaving] = {}
        self.control_bucket = Bucket(0.0, params.congestion.control_min, params.congestion.control_min)
        self.meter = Meter(0.0)
        """What this node receives and sends."""
        self.armed: dict[str, float] = {}
        """When each timer is set for."""
        self.reset(0.0)
        self.handlers = {
            Leaving: self.outgoing,
            Unneeded: self.unneeded,
            Heard: self.heard,
            Told: self.told,
            Departed: self.departed,
            Fired: self.fired,
            Listen: self.listen,
            StopListening: self.listen,
            Configure: self.configure,
        }

    @property
    def is_limiting(self) -> bool:
        """Whether receivers limit any of our flows."""
        return bool(self.table.rows)

    def has_room(self, leaving: Leaving) -> bool:
        """Whether it would leave, or have a place in the queue of each of its flows."""
        queue_max = self.params.congestion.queue_max
        return all(row.queue is None or len(row.queue) < queue_max for row in self.table.matching(leaving))

    def reset(self, now: float) -> None:
        congestion = self.params.congestion
        self.table = FlowTable(self.params)
        self.controller: Controller = (
            Windows(congestion) if congestion.control == "window" else TokenBuckets(congestion)
        )
        self.queueing = Queueing(self.table, self.controller, now)
        self.budget = FeedbackBudget(congestion.sources_per_second)
        self.starting: LimitedFlow | None = None
        self.count_at_start = 0

    def start(self, now: float) -> list[Effect]:
        self.meter = Meter(now)
        self.control_bucket.filled_at = now
        self.armed.clear()
        self.control_queue.clear()
        return [*self.drain(now), *self.arm_expiry(), *self.begin_slowly(now)]

    # Everything that leaves.

    def outgoing(self, now: float, signal: Leaving) -> list[Effect]:
        if signal.kind is Kind.DATA:
            self.meter.count += 1
            if not self.table.rows:
                return [Admitted(signal)]
            return self.admit(now, signal)
        if signal.kind in AT_ONCE or not (self.paced or self.params.is_paced):
            return [Admitted(signal)]
        return self.control(now, signal)

    def admit(self, now: float, signal: Leaving) -> list[Effect]:
        rows = self.table.matching(signal)
        if not rows:
            return [Admitted(signal)]
        queueing = self.queueing
        if signal.kind is Kind.DATA:
            queueing.offer(now, rows)
        if queueing.is_free(rows) and queueing.may_leave(now, rows):
            queueing.leave(now, rows)
            return [*self.let_go(signal, rows), *self.arm(now)]
        withheld = queueing.put(now, signal, rows)
        queueing.press(now, rows)
        effects: list[Effect] = [effect for item in withheld for effect in self.withhold(item)]
        return effects + self.drain(now)

    def let_go(self, signal: Leaving, rows: tuple[LimitedFlow, ...] | list[LimitedFlow]) -> list[Effect]:
        if signal.kind is not Kind.DATA:
            return [Admitted(signal)]
        marks = self.marks_of(rows)
        if not marks:
            return [Admitted(signal)]
        return [Admitted(signal, marks), Transmitted(marks[0].flow)]

    def marks_of(self, rows: tuple[LimitedFlow, ...] | list[LimitedFlow]) -> tuple[FlowMark, ...]:
        """For the header: the flow with the lowest quota first. Nobody limits the flow of slow start."""
        if self.starting is not None:
            rows = [row for row in rows if row is not self.starting]
        if not rows:
            return ()
        if len(rows) == 1:
            row = rows[0]
            if not row.marks:
                row.marks = (row.mark(),)
            return row.marks
        marks = tuple(row.mark() for row in sorted(rows, key=lambda row: row.quota))
        return marks[:1] if self.params.congestion.limiting_header == "single" else marks

    def withhold(self, item: Leaving) -> list[Effect]:
        if item.kind is not Kind.DATA:
            return [Drop(item, CONTROL_WITHHELD), NotAdmitted(item)]
        self.withheld += 1
        note = Withheld(self.withheld)
        return [Drop(item, WITHHELD), note, Deliver(Quality("withheld", None, value=float(self.withheld)))]

    def drain(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for item in self.queueing.drain(now):
            effects += self.let_go(item.outgoing, item.rows)
        return effects + self.arm(now)

    def arm(self, now: float) -> list[Effect]:
        return self.set_timer("due", self.queueing.due_at()) + self.set_timer("deadline", self.controller.deadline())

    def set_timer(self, name: str, at: float | None) -> list[Effect]:
        """A timer that is set for this time already, or for none, is left alone."""
        if at is None or at == math.inf or self.armed.get(name) == at:
            return []
        self.armed[name] = at
        return [SetTimer(name, at)]

    # Requests and repairs.

    def control(self, now: float, signal: Leaving) -> list[Effect]:
        if len(self.control_queue) >= CONTROL_MAX:
            return [Drop(signal, CONTROL_WITHHELD), NotAdmitted(signal)]
        self.control_queue[signal.kind, signal.ticket] = signal
        return self.drain_control(now)

    def unneeded(self, now: float, signal: Unneeded) -> list[Effect]:
        if self.control_queue.pop((signal.kind, signal.ticket), None) is None:
            self.queueing.take_back(now, signal)
            return self.drain(now)
        return []

    def drain_control(self, now: float) -> list[Effect]:
        congestion = self.params.congestion
        received = self.meter.measure(now, CONTROL_WINDOW)
        rate = max(congestion.control_min, congestion.control_share * received)
        bucket = self.control_bucket
        bucket.rate, bucket.depth = rate, max(1.0, rate * CONTROL_WINDOW)
        bucket.fill(now)
        effects: list[Effect] = []
        while self.control_queue and bucket.has_token:
            bucket.tokens -= 1.0
            effects += self.admit(now, self.control_queue.pop(next(iter(self.control_queue))))
        if self.control_queue:
            effects += self.set_timer("control", bucket.next_at)
        return effects

    # What receivers say.

    def told(self, now: float, signal: Told) -> list[Effect]:
        message = signal.message
        kind = type(message)
        if kind is Feedback:
            return self.feedback(now, signal) if self.params.is_paced else []
        if kind is Acknowledgement:
            return self.acknowledged(now, signal)
        return []

    def feedback(self, now: float, signal: Told) -> list[Effect]:
        message = signal.message
        assert isinstance(message, Feedback)
        if message.publisher != self.node_id:
            return [Drop(message, NOT_FOR_US)]
        if abs(now - message.sent) > TRAVEL_MAX:
            return [Drop(message, CLOCK_TOO_FAR)]
        who: Hashable = signal.content.source or message.subscriber
        comparisons = len(message.reports) * len(self.table.rows)
        if not self.budget.admits(now, who, comparisons, self.is_known(message, who)):
            return [Drop(message, TOO_MUCH_FEEDBACK)]
        round_trip = min(ROUND_TRIP_MAX, max(self.params.congestion.tick_min, message.round_trip))
        claim = ReceiverClaim(message.subscriber, who, now - message.sent, round_trip)
        effects: list[Effect] = []
        for report in message.reports:
            effects += self.report(now, claim, report, message.is_release)
        return effects + self.drain(now) + self.arm_expiry()

    def is_known(self, message: Feedback, who: Hashable) -> bool:
        """Does it limit the first flow that it reports?"""
        row = self.table.of_flow(message.reports[0].flow) if message.reports else None
        return row is not None and row.limiting == message.subscriber and row.who == who

    def report(self, now: float, claim: ReceiverClaim, report: FlowReport, is_release: bool) -> list[Effect]:
        profile = self.params.profile
        if report.bits >> profile.bits or report.bits.bit_count() > FILL_MAX * profile.bits:
            return [Drop(report, OTHER_PROFILE)]
        if report.flow != flow_of(report.bits, report.filter, profile.size_bytes):
            return [Drop(report, FORGED_FLOW)]
        if is_release:
            return self.change(now, self.table.release(claim, report))
        effects = self.end_slow_start(now)
        quota = max(report.quota, quota_floor(claim.round_trip))
        changes = self.table.report(now, claim, report, quota)
        if isinstance(changes, str):
            return [*effects, Drop(report, changes)]
        return effects + self.change(now, changes)

    def change(self, now: float, changes: list[Change]) -> list[Effect]:
        """Tell the controller and the queues, and whoever wants to know."""
        effects: list[Effect] = []
        for change in changes:
            row = change.row
            if change.what == "add":
                self.controller.added(row, now)
                self.queueing.row_added(now, row)
            elif change.what == "remove":
                self.queueing.row_removed(now, row)
                self.controller.removed(row)
            else:
                self.controller.reported(row, now)
                self.queueing.wake(now, (row,))
            effects += self.tell(change)
        return effects

    def tell(self, change: Change) -> list[Effect]:
        row, is_gone = change.row, change.what == "remove"
        rate = math.inf if is_gone else self.controller.rate_of(row)
        if change.what == "update" and abs(rate - row.told) <= RATE_CHANGE * row.told:
            return []
        row.told = rate
        return [
            FlowChanged(change.what, row.flow, row.limiting, row.quota, len(self.table.rows)),
            Deliver(Quality("rate", None, row.flow, rate)),
        ]

    def acknowledged(self, now: float, signal: Told) -> list[Effect]:
        message = signal.message
        assert isinstance(message, Acknowledgement)
        row = self.table.of_flow(message.flow)
        who: Hashable = signal.content.source or message.subscriber
        if row is None or row.limiting != message.subscriber or row.who != who:
            return []
        self.controller.acknowledged(row, message, now)
        self.queueing.wake(now, (row,))
        return self.drain(now)

    # What happens besides.

    def departed(self, now: float, signal: Departed) -> list[Effect]:
        if self.table.rows:
            for row in self.table.matching(signal):
                self.controller.departed(row, signal.sequence, now)
        return []

    def heard(self, now: float, signal: Heard) -> list[Effect]:
        self.meter.count += 1
        return []

    def fired(self, now: float, input: Fired) -> list[Effect]:
        name = input.key
        assert isinstance(name, str)
        self.armed.pop(name, None)
        match name:
            case "control":
                return self.drain_control(now)
            case "expire":
                return [*self.change(now, self.table.expire(now)), *self.drain(now), *self.arm_expiry()]
            case "deadline":
                rows = [self.table.rows[key] for key in self.controller.check_deadlines(now)]
                self.queueing.wake(now, rows)
            case "start":
                return self.speed_up(now)
        return self.drain(now)

    def arm_expiry(self) -> list[Effect]:
        if "expire" in self.armed:
            return []
        return self.set_timer("expire", self.table.expiry_at())

    def listen(self, now: float, request: Listen | StopListening) -> list[Effect]:
        if request.is_paced:
            self.paced[request.subscription] = None
        else:
            self.paced.pop(request.subscription, None)
        return []

    def configure(self, now: float, request: Configure) -> list[Effect]:
        """All flows are free until receivers report again; what waits leaves."""
        before, self.params = self.params, request.params
        params = self.params
        if (params.is_paced, params.congestion, params.profile) == (before.is_paced, before.congestion, before.profile):
            return []
        effects = self.change(now, [self.table.remove(row) for row in list(self.table.rows.values())])
        effects += self.drain(now)
        self.reset(now)
        return effects + self.drain_control(now) + self.begin_slowly(now)

    # Slow start (G-21).

    def begin_slowly(self, now: float) -> list[Effect]:
        if not (self.params.is_paced and self.params.congestion.slow_start):
            return []
        self.count_at_start = self.meter.count
        row = self.starting = LimitedFlow("", 0, None, now)
        row.quota, row.feedback_at, row.round_trip = START_RATE, math.inf, START_PERIOD
        self.table.rows[row.key] = row
        self.table.structure_changed()
        self.controller.added(row, now)
        return self.set_timer("start", now + START_PERIOD)

    def speed_up(self, now: float) -> list[Effect]:
        """Twice as fast while something waits; free as soon as nothing does."""
        row = self.starting
        if row is None:
            return []
        if row.queue:
            row.quota *= 2.0
            self.queueing.wake(now, (row,))
        elif self.meter.count > self.count_at_start:
            return self.end_slow_start(now) + self.drain(now)
        return self.drain(now) + self.set_timer("start", now + START_PERIOD)

    def end_slow_start(self, now: float) -> list[Effect]:
        row, self.starting = self.starting, None
        if row is None or self.table.rows.get(row.key) is not row:
            return []
        return self.change(now, [self.table.remove(row)])

    # What can be seen.

    def states(self) -> tuple[FlowRow, ...]:
        return tuple(
            FlowRow(
                side="publisher",
                flow=row.flow,
                receiver=row.limiting,
                rate=self.controller.rate_of(row),
                quota=row.quota,
                queue=len(row.queue or ()),
            )
            for row in self.table.rows.values()
        )

    def check(self) -> None:
        congestion = self.params.congestion
        assert len(self.table.rows) <= congestion.flows_max
        assert len(self.control_queue) <= CONTROL_MAX
        for key, row in self.table.rows.items():
            assert row.key == key
            assert row.quota >= quota_floor(ROUND_TRIP_MAX)
            assert row.queue is None or len(row.queue) <= congestion.queue_max + CONTROL_MAX
        self.queueing.check()
