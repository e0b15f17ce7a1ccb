"""The publisher's flow table: which of its events are limited to which rate, and by whom.

A row is a *flow*: all events that match one filter, told by its Bloom row. It has a quota, events a second, and a
*limiting receiver*, the one that can take least of this flow. Receivers report what they can take; the table keeps of
these reports only what matters:

    a report of a flow that a row limits to no more already (its filter covers the flow's)       is ignored
    rows that the report's filter covers and that have a higher quota                              go
    the same filter, from its limiting receiver                       the quota changes, up or down
    the same filter, from somebody else, lower                        that one limits the flow from now on

So a rate can rise only by the word of its limiting receiver, there are never two rows of one filter, and the table is
much smaller than the number of subscriptions. A row that nobody has confirmed for `flow_timeout` goes.

That one filter covers another is told by Bloom rows, which may say so wrongly (`price < 100` and `price < 200` have the
same row); or by the filters themselves, if receivers and publisher both say `covering="exact"`.

The rows are small: 2000 of them with 256 bits each take less than 1 MB.

Source: the transport specification, 3.7.4 and 3.7.5, X-8.
"""

from collections import Counter, deque
from collections.abc import Hashable
from typing import TYPE_CHECKING, Literal

import msgspec

from tidings.matching.bloom import bits_of_tags, tags_of_event
from tidings.model.errors import UsageError
from tidings.model.filter import Filter
from tidings.model.language.parser import parse
from tidings.protocols.transport.headers import FlowMark
from tidings.protocols.transport.limits import Bucket, Valve
from tidings.protocols.transport.marks import Kind
from tidings.protocols.transport.messages import FlowReport
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.rows import kept
from tidings.protocols.transport.signals import Departed, Leaving
from tidings.pubsub.publications import BadPublication, read_head

if TYPE_CHECKING:
    from tidings.protocols.transport.congestion.queues import Waiting

REMEMBERED_MAX = 1024
"""Rows of events whose flows are remembered; all are forgotten when the table changes."""

TABLE_FULL = "the flow table is full, and nobody has more rows than the one who reports"
NO_FILTER = "the filter of a report cannot be read"

Key = int | str
"""Of a row: its bits, or the text of its filter where filters are compared."""


class LimitedFlow:
    __slots__ = (
        "bits",
        "bucket",
        "feedback_at",
        "filter",
        "flow",
        "key",
        "limiting",
        "marks",
        "queue",
        "quota",
        "round_trip",
        "told",
        "travel",
        "valve",
        "who",
    )

    def __init__(self, key: Key, bits: int, filter: Filter | None, now: float) -> None:
        self.key, self.bits, self.filter = key, bits, filter
        self.flow = self.limiting = 0
        self.who: Hashable = 0
        self.quota = self.told = self.travel = self.round_trip = 0.0
        self.feedback_at = now
        self.bucket = Bucket(now, 0.0, 0.0)
        self.queue: deque[Waiting] | None = None
        self.marks: tuple[FlowMark, ...] = ()
        self.valve: Valve | None = None

    def mark(self) -> FlowMark:
        return FlowMark(self.flow, self.limiting, self.travel)


class ReceiverClaim(msgspec.Struct, frozen=True):
    """What a receiver says of itself in a feedback, checked."""

    subscriber: int
    who: Hashable
    travel: float
    round_trip: float


class Change(msgspec.Struct, frozen=True):
    what: Literal["add", "update", "switch", "remove"]
    row: LimitedFlow


class FlowTable:
    def __init__(self, params: TransportParams) -> None:
        self.profile, self.topic_attribute = params.profile, params.topic_attribute
        self.params = params.congestion
        self.rows: dict[Key, LimitedFlow] = {}
        self.remembered: dict[int, tuple[LimitedFlow, ...]] = {}
        self.by_flow: dict[int, LimitedFlow] | None = None

    @property
    def is_exact(self) -> bool:
        return self.params.covering == "exact"

    def covers(self, wide: LimitedFlow, narrow: LimitedFlow) -> bool:
        if wide.filter is not None and narrow.filter is not None:
            return wide.filter.covers(narrow.filter)
        return wide.bits & narrow.bits == wide.bits

    def matching(self, leaving: Leaving | Departed) -> tuple[LimitedFlow, ...]:
        """The rows of an event; the one with the lowest quota first. Requests and repairs belong to the flows of the
        event that they are about, as far as its bits tell."""
        bits = leaving.bits
        is_event = isinstance(leaving, Departed) or leaving.kind is Kind.DATA
        if not bits and is_event:
            bits = self.whole_row(leaving.head)
        rows = self.remembered.get(bits)
        if rows is None:
            if len(self.remembered) >= REMEMBERED_MAX:
                self.remembered.clear()
            rows = tuple(row for row in self.rows.values() if bits & row.bits == row.bits)
            self.remembered[bits] = rows
        if rows and is_event and self.is_exact:
            rows = self.read(rows, leaving.head)
        return rows if len(rows) < 2 else tuple(sorted(rows, key=lambda row: row.quota))

    def whole_row(self, head: bytes) -> int:
        """However full it is: an event with many attributes is no less limited."""
        try:
            event = read_head(head)
        except BadPublication:
            return 0
        return bits_of_tags(kept(tags_of_event(event), self.topic_attribute), self.profile)

    def read(self, rows: tuple[LimitedFlow, ...], head: bytes) -> tuple[LimitedFlow, ...]:
        try:
            event = read_head(head)
        except BadPublication:
            return rows
        return tuple(row for row in rows if row.filter is None or row.filter.matches(event))

    def of_flow(self, flow: int) -> LimitedFlow | None:
        if self.by_flow is None:
            self.by_flow = {row.flow: row for row in self.rows.values()}
        return self.by_flow.get(flow)

    def structure_changed(self) -> None:
        self.remembered.clear()
        self.by_flow = None

    # Reports.

    def key_of(self, report: FlowReport) -> tuple[Key, Filter | None]:
        """UsageError for a filter that cannot be read."""
        if not self.is_exact or not report.filter:
            return report.bits, None
        filter = parse(report.filter)
        return filter.text(), filter

    def report(self, now: float, claim: ReceiverClaim, report: FlowReport, quota: float) -> list[Change] | str:
        """What changes in the table; a text where the report is refused. `quota` is the report's, or the floor."""
        try:
            key, filter = self.key_of(report)
        except UsageError:
            return NO_FILTER
        row = self.rows.get(key)
        if row is not None and is_of(row, claim):
            return self.update(now, row, claim, report, quota)
        if row is not None and row.quota <= quota:
            return []
        probe = row or LimitedFlow(key, report.bits, filter, now)
        for other in self.rows.values():
            if other is not row and other.quota <= quota and self.covers(other, probe):
                return []
        changes = []
        if row is None:
            room = self.make_room(claim)
            if room is None:
                return TABLE_FULL
            changes = room
            self.rows[key] = probe
            changes.append(Change("add", probe))
        else:
            changes.append(Change("switch", row))
        self.renew(now, probe, claim, report, quota)
        self.structure_changed()
        return changes + self.prune(probe)

    def update(
        self, now: float, row: LimitedFlow, claim: ReceiverClaim, report: FlowReport, quota: float
    ) -> list[Change]:
        before = row.quota
        self.renew(now, row, claim, report, quota)
        changes = [Change("update", row)]
        if quota < before:
            return changes + self.prune(row)
        if quota > before:
            for other in self.rows.values():
                if other is not row and other.quota < quota and self.covers(other, row):
                    return [*changes, self.remove(row)]
        return changes

    def renew(self, now: float, row: LimitedFlow, claim: ReceiverClaim, report: FlowReport, quota: float) -> None:
        if row.flow != report.flow:
            self.by_flow = None
        row.flow, row.limiting, row.who = report.flow, claim.subscriber, claim.who
        row.quota, row.travel, row.round_trip, row.feedback_at = quota, claim.travel, claim.round_trip, now
        row.marks = ()

    def prune(self, row: LimitedFlow) -> list[Change]:
        """Rows that this one makes superfluous."""
        covered = [
            other
            for other in self.rows.values()
            if other is not row and other.quota > row.quota and self.covers(row, other)
        ]
        return [self.remove(other) for other in covered]

    def remove(self, row: LimitedFlow) -> Change:
        del self.rows[row.key]
        self.structure_changed()
        return Change("remove", row)

    def make_room(self, claim: ReceiverClaim) -> list[Change] | None:
        """Where the table is full, whoever has most rows loses the oldest; nobody loses one to somebody with more."""
        if len(self.rows) < self.params.flows_max:
            return []
        counts = Counter(row.who for row in self.rows.values())
        who, count = max(counts.items(), key=lambda pair: pair[1])
        if count <= counts[claim.who] + 1:
            return None
        oldest = min((row for row in self.rows.values() if row.who == who), key=lambda row: row.feedback_at)
        return [self.remove(oldest)]

    def release(self, claim: ReceiverClaim, report: FlowReport) -> list[Change]:
        """Its limiting receiver does not want this flow any more (G-27)."""
        try:
            key, _ = self.key_of(report)
        except UsageError:
            return []
        row = self.rows.get(key)
        return [self.remove(row)] if row is not None and is_of(row, claim) else []

    # Time.

    def timeout_of(self, row: LimitedFlow) -> float:
        return max(self.params.flow_timeout, 10.0 * row.round_trip)

    def expire(self, now: float) -> list[Change]:
        stale = [row for row in self.rows.values() if row.feedback_at + self.timeout_of(row) <= now]
        return [self.remove(row) for row in stale]

    def expiry_at(self) -> float | None:
        return min((row.feedback_at + self.timeout_of(row) for row in self.rows.values()), default=None)


def is_of(row: LimitedFlow, claim: ReceiverClaim) -> bool:
    """Is this the receiver that limits the row? Where the carrier names senders, the name must be the same too."""
    return row.limiting == claim.subscriber and row.who == claim.who
