"""A broker: access lets clients and other brokers in, the overlay picks the links that events take, routing carries
filters and publications over them, delivery serves the clients, and inspection shows all of it to those who may look.
Before a broker is stopped it is drained: its clients go elsewhere.
What a neighbour tells of its tables may have to wait before it is offered to any of them (`backlog.py`).

The parts know each other only through signals (`pubsub/signals.py`); here they are put side by side. Their order is
the order in which each input is offered to them: who is there comes before what is done with it. Which overlay and
which routing there are is a matter of their parameters (`choices.py`).
"""

from collections.abc import Callable, Iterator, Mapping
from random import Random

import msgspec

from tidings.machine.effects import Effect
from tidings.machine.inputs import Fired, Input, Received
from tidings.machine.node import Node, Part
from tidings.model.identity import NodeId
from tidings.model.work import ENDLESS, UNITS_PER_MS, WORK
from tidings.nodes.backlog import CHANGES, TableBacklog
from tidings.nodes.backlog import TIMER as BACKLOG_TIMER
from tidings.nodes.choices import AnyRoutingParams, OverlayParams, kind_of, make_groups, make_parts
from tidings.nodes.failovers import AnyFailover, fitted_routing, make_failover, wants_failover
from tidings.protocols.access.access import Access
from tidings.protocols.access.drain import Draining
from tidings.protocols.access.judge import Judge, Signatures, open_judge
from tidings.protocols.access.params import AccessParams
from tidings.protocols.coordination.coordination import Coordination
from tidings.protocols.coordination.params import CoordinationParams
from tidings.protocols.delivery.edge.edge import Edge
from tidings.protocols.delivery.edge.exchange import HistoryExchange
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.edge.views import stored_count, unfinished
from tidings.protocols.delivery.messages import PublishMessage, ReplyFar, ReplyMessage, ReplySettledFar
from tidings.protocols.gossip.failover.params import FailoverParams
from tidings.protocols.gossip.lpbcast import LpbcastParams
from tidings.protocols.inspection.inspection import Inspection, InspectionParams
from tidings.protocols.overlay.lstree.lstree import LsTree
from tidings.protocols.overlay.scripted import ScriptedOverlay
from tidings.protocols.overlay.spanning_tree import SpanningTreeParams
from tidings.protocols.overlay.witree.witree import WiTree
from tidings.protocols.presence.params import PresenceParams
from tidings.protocols.presence.presence import PresenceWatch
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.repairs.shift import ShiftRepair
from tidings.protocols.routing.router import Router
from tidings.pubsub.gathered import GatheredPublications
from tidings.pubsub.publications import Publications, PublicationsAround
from tidings.pubsub.rows import BrokerRow, Gauge, View

PASSING = frozenset(
    {Publications, GatheredPublications, PublicationsAround, *HistoryExchange.messages, PublishMessage, ReplyMessage}
) - {ReplyFar, ReplySettledFar}
"""What comes for somebody else, or for what only this broker has. Not replies: to a publisher that has gone they are
tried here as long as its events are stored, and for somebody else they pass over two links of the tree."""

ONLY_WAY = (
    "{count} links of the tree, over which events may pass, to {neighbours}; if it stays so there is no other way "
    "between these: link some of them with each other (--link), or stop it all the same and they are apart until it is "
    "back"
)

PLANNED_WAY = (
    "{count} links of the tree, over which events may pass, to {neighbours}; tidings plan apply --drain {broker} moves "
    "them while events flow"
)

BACKLOG = "backlog"
BACKLOG_KEY = BACKLOG, BACKLOG_TIMER

QUESTION_UNITS_MAX = 4 * UNITS_PER_MS
"""Work of one step beyond which questions about patterns are answered on the safe side (`model/work.py`)."""

NO_ROWS: Mapping[str, View] = dict.fromkeys(("routes", "destinations", "streams"), lambda _: ())
"""Tables that one kind of routing has and another has not."""


class BrokerParams(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of the parts. What they share (`clock_offset`) is the same in all of them."""

    access: AccessParams = AccessParams()
    overlay: OverlayParams = SpanningTreeParams()
    routing: AnyRoutingParams = RoutingParams()
    delivery: EdgeParams = EdgeParams()
    inspection: InspectionParams = InspectionParams()
    groups: LpbcastParams = LpbcastParams()
    """Where routing goes by popularity and gossips."""
    failover: FailoverParams = FailoverParams()
    """Where routing asks for it (`RoutingParams.failover`)."""
    coordination: CoordinationParams = CoordinationParams()
    """Taking part in plans, and carrying them out; only where the overlay is scripted and the repair is "shift" can a
    plan say which neighbours there are."""
    presence: PresenceParams | None = None
    """Whether neighbours that fall silent are looked for; else the host says who is gone."""

    @property
    def windows(self) -> Mapping[str, Mapping[str, int]]:
        """For each kind of peer the settings that say how many bytes may be on the way to one; each may be exceeded by
        one message."""
        brokers = {"delivery.history_window_bytes": self.delivery.history_window_bytes}
        if isinstance(self.routing, RoutingParams):
            brokers["routing.publications_window_bytes"] = self.routing.publications_window_bytes
            brokers["routing.changes_bytes_max"] = self.routing.changes_bytes_max
        return {"broker": brokers, "client": {"delivery.client_window_bytes": self.delivery.client_window_bytes}}


class BrokerNode(Node):
    """`BrokerNode("b1", BrokerParams(access=AccessParams(links=("b2",))), rng)`. The parts can be looked at; inputs go
    through `handle`. `address()` is where it listens. `own` says more about the broker than its name, `views` adds
    tables to those that are shown."""

    def __init__(
        self,
        node_id: NodeId,
        params: BrokerParams,
        rng: Random,
        judge: Judge = open_judge,
        signatures: Signatures | None = None,
        sign: Callable[[bytes], bytes] | None = None,
        address: Callable[[], str] = lambda: "",
        own: Callable[[BrokerRow], BrokerRow] | None = None,
        views: Mapping[str, View] | None = None,
    ) -> None:
        self.node_id, self.params = node_id, params
        kind = f"{kind_of(params.overlay)}/{kind_of(params.routing)}"
        self.draining = Draining(
            node_id,
            params.access,
            why_busy=self.why_busy,
            neighbours=lambda: self.overlay.neighbours,
            stored=lambda: stored_count(self.edge),
            address=address,
            is_open=judge is open_judge,
        )
        away = self.draining.away
        self.access = Access(node_id, params.access, judge, rng, signatures, sign, address, kind, away)
        routing, has_failover = params.routing, wants_failover(params.routing)
        if has_failover:
            routing = fitted_routing(routing, gives_guarantees=True, failover=params.failover)
        self.overlay, self.routing = make_parts(node_id, params.overlay, routing, rng)
        self.draining.tells = tuple(kind for kind in Draining.tells if kind in self.overlay.hears)
        self.coordination = Coordination(
            node_id,
            params.coordination,
            neighbours=lambda: self.overlay.neighbours,
            is_steered=isinstance(self.routing, Router) and isinstance(self.routing.repair, ShiftRepair),
            is_open=judge is open_judge,
            is_kept=lambda: not isinstance(self.overlay, ScriptedOverlay) or self.overlay.is_kept,
        )
        self.edge = Edge(
            node_id,
            params.delivery,
            self.routing,
            params.routing.engine,
            is_best_effort=self.routing.is_best_effort,
            overtakes=isinstance(params.routing, RoutingParams) and params.routing.overtakes,
        )
        self.inspection = Inspection(
            lambda: self.row() if own is None else own(self.row()),
            configured=params.access.links,
            is_open=judge is open_judge,
            views={
                **NO_ROWS,
                **self.routing.views(),
                **self.edge.views(),
                **self.draining.views(),
                **self.coordination.views(),
                **(views or {}),
            },
            is_synchronised=self.routing.is_synchronised,
            params=params.inspection,
        )
        self.backlog = TableBacklog()
        parts: dict[str, Part] = {
            BACKLOG: self.backlog,
            "access": self.access,
            "draining": self.draining,
            "overlay": self.overlay,
            "coordination": self.coordination,
            "routing": self.routing,
            "delivery": self.edge,
            "inspection": self.inspection,
        }
        parts |= make_groups(node_id, self.routing, params.groups, rng, address)
        self.presence = None if params.presence is None else PresenceWatch(node_id, params.presence)
        if self.presence is not None:
            parts["presence"] = self.presence
        self.failover: AnyFailover | None = None
        if has_failover:
            self.failover = parts["failover"] = make_failover(node_id, params.failover, self.overlay, self.routing, rng)
        super().__init__(parts)
        self.questions_cut_short = 0

    def handle(self, now: float, input: Input) -> list[Effect]:
        if self.draining.is_on and type(input) is Received and type(input.message) in PASSING:
            self.draining.passed(now)
        cut_short, WORK.limit = WORK.cut_short, WORK.units + QUESTION_UNITS_MAX
        try:
            if type(input) is Received and (self.backlog.waiting or type(input.message) in CHANGES):
                return self.receive_in_order(now, input)
            if type(input) is Fired and input.key == BACKLOG_KEY:
                return self.work_off(now)
            return super().handle(now, input)
        finally:
            WORK.limit = ENDLESS
            self.questions_cut_short += WORK.cut_short - cut_short

    def receive_in_order(self, now: float, received: Received) -> list[Effect]:
        if not self.backlog.must_wait(now, received):
            return super().handle(now, received)
        effects = self.settle(now, BACKLOG, self.backlog.put(now, received))
        while (oldest := self.backlog.take_excess(received.sender)) is not None:
            effects += super().handle(now, oldest)
        return effects

    def work_off(self, now: float) -> list[Effect]:
        """A turn of what waits."""
        effects: list[Effect] = []
        for received in self.backlog.take_turn():
            effects += super().handle(now, received)
        return effects + self.settle(now, BACKLOG, self.backlog.arm(now))

    def why_not_ready(self) -> str:
        """Empty when the broker may be sent traffic: it has read its store, every configured link was tried, it knows
        its place in the overlay, and all neighbours told what routing has to know."""
        for part in (self.edge, self.access, self.overlay, self.routing, self.draining):
            if unsettled := part.why_unsettled():
                return unsettled
        return ""

    def why_busy(self) -> str:
        """What is to happen, when all clients have gone, before the broker may be stopped and nobody notices."""
        neighbours = self.overlay.neighbours
        if self.overlay.is_tree and len(neighbours) > 1:
            way = PLANNED_WAY if isinstance(self.overlay, ScriptedOverlay) else ONLY_WAY
            return way.format(count=len(neighbours), neighbours=", ".join(neighbours), broker=self.node_id)
        for part in (self.overlay, self.routing):
            if unsettled := part.why_unsettled():
                return f"its place in the network: {unsettled}"
        if self.draining.peers and not neighbours:
            return f"a place in the network, without which nobody can ask for the {stored_count(self.edge)} events here"
        if self.backlog.waiting:
            return "what its neighbours told of their tables"
        return unfinished(self.edge)

    def gauges(self) -> Iterator[Gauge]:
        meaning = "questions about two filters that were answered on the safe side, for want of time"
        yield Gauge("questions_cut_short", meaning, self.questions_cut_short)
        for part in (self.access, self.routing, self.edge, self.draining):
            yield from part.gauges()
        if isinstance(self.overlay, LsTree | WiTree):
            yield from self.overlay.gauges()
        for other in (self.presence, self.failover):
            if other is not None:
                yield from other.gauges()

    def row(self) -> BrokerRow:
        params, routing = self.params, self.params.routing
        row = BrokerRow(
            broker=self.node_id,
            overlay=kind_of(params.overlay),
            routing=kind_of(routing),
            not_ready=self.why_not_ready(),
            drained=self.draining.why_unsettled(),
        )
        if isinstance(self.overlay, LsTree | WiTree):
            row = self.overlay.described(row)
        if not isinstance(routing, RoutingParams):
            return row
        return msgspec.structs.replace(
            row, strategy=routing.strategy, reduction=routing.reduction, parent=routing.parent or ""
        )
