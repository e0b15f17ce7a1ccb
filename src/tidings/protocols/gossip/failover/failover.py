"""Failover by gossip (GEPS): events around brokers that failed, by way of those that are similar to them.

The problem. In a tree there is one way between two brokers. A broker that fails cuts off everybody behind it until it
is back, or the tree has found another way, and events for them are lost or wait.

The idea. Nobody can know who stands behind the failure and wants this event, but brokers that want much the same can be
found beforehand. Each counts the subscriptions that passed it, by advertisement (`similarity.py`), and knows the
brokers of its own level of the tree whose counters have most in common with its own (`views.py`). It tells its view to
the broker above and to those below, and so everybody knows such brokers of the next levels too (`levels.py`). When an
event has to go to a neighbour that failed, it goes to all members of the view of that neighbour's level instead, who
carry it on by their tables and tell it one level further (`propagation.py`). Without a failure nothing is sent but the
views, and events go as they always do.

Cycles. Every `period` a broker asks the members of its view whether they are there, `answer_within` later it tells
those who answered its view, and the levels to the broker above and those below. Where the broker above is gone, or
nobody is below, it asks the members of the parent or child view for theirs (S-32). That is at most r + 2 r' brokers a
cycle.

Who is there at first? Nobody tells a newcomer of the tree but the broker above it: with each report that names the
others below it, and some of the levels further down as far as it heard of them. An experiment may say so itself
(`Introduce`).

A place in the tree. The overlay says who is above us and how deep we are (`Placed`). When the one above fails many
overlays say at once that we are a root; the group is changed only when that has lasted for `place_after`, which a
broker that comes back does not need. Who is above us stays known until somebody else is.

State. `horizon`: our place, and what is known of other levels; `views`: siblings; `propagation`: what went around.
`links`: to members, and for a while to others.

Timers. "cycle"; "answers", `answer_within` after it; "place"; ("notice", node) where detection is slowed down.

Afterwards. What a neighbour missed while it was gone is kept, and offered when it is back (`retransmission.py`).

Takes `PeerUp`, `PeerDown`, `LinkFailed` from access, `Placed`, `NeighbourUp`, `NeighbourDown` from the overlay,
`Stranded` from routing; tells `Rescued`, `LinkWanted`, `LinkUnwanted`.

Guaranteed: GE-1 to GE-7. Who lies can take one place in each view and lose what is sent to it; a live broker is evicted
by forged failures from nobody's view who hears it (`views.py`). Not guaranteed: that an event arrives, or in order.

Source: dependable.md 3.3, with the repairs of 5.2.
"""

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from tidings.machine.effects import CancelTimer, Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received, Signal
from tidings.machine.message import Contact, Message
from tidings.machine.streams import random_stream
from tidings.model.bounds import VIEW_MEMBERS_MAX
from tidings.model.identity import NodeId
from tidings.protocols.gossip.failover.horizon import HorizonPlace, TreeHorizon
from tidings.protocols.gossip.failover.introduction import Introduce
from tidings.protocols.gossip.failover.levels import (
    by_score,
    group_of,
    report_levels,
)
from tidings.protocols.gossip.failover.links import SideLinks
from tidings.protocols.gossip.failover.messages import (
    GossipAsked,
    GossipOffered,
    GossipPublications,
    LevelMember,
    LevelReport,
    LevelView,
    SiblingAnswer,
    SiblingHeartbeat,
    SiblingView,
    ViewAnswer,
    ViewRequest,
)
from tidings.protocols.gossip.failover.params import FailoverParams
from tidings.protocols.gossip.failover.propagation import NOT_HELD, CountedRoutes, GossipPropagation
from tidings.protocols.gossip.failover.retransmission import Retransmission
from tidings.protocols.gossip.failover.similarity import SimilarityScale, filters_of, vector_of
from tidings.protocols.gossip.failover.views import SiblingViews
from tidings.pubsub.notes import CycleEnded
from tidings.pubsub.publications import Publications
from tidings.pubsub.rows import Gauge
from tidings.pubsub.signals import (
    AdvertisementId,
    LinkFailed,
    LinkUnwanted,
    LinkWanted,
    NeighbourDown,
    NeighbourUp,
    PeerDown,
    PeerUp,
    Placed,
    Rescued,
    Stranded,
)

IDLE_CYCLES = 3
"""After so many a link that nothing was sent over is let go."""

QUIET_CYCLES = 10
"""Without a failure, after which a view that had grown shrinks by one."""

NOT_LINKED = "comes from a node that is not linked"
NOT_A_NEIGHBOUR = "comes from a broker that is neither above nor below"
NOT_ASKED = "answers what was not asked"
TOO_FAR_AHEAD = "a cycle that nobody has come to"
OTHER_GROUP = "a view of another group"
NOT_NOTICED = "the neighbour has failed, and nobody has noticed"


class GossipFailover:
    """`GossipFailover("b", FailoverParams(), routing, rng)`."""

    messages: tuple[type, ...] = (
        *(SiblingHeartbeat, SiblingAnswer, SiblingView, LevelReport, ViewRequest, ViewAnswer),
        *(GossipPublications, GossipOffered, GossipAsked),
    )
    hears: tuple[type, ...] = (
        *(PeerUp, PeerDown, LinkFailed, Placed, NeighbourUp, NeighbourDown, Stranded),
        Introduce,
    )
    tells: tuple[type[Signal], ...] = (Rescued, LinkWanted, LinkUnwanted)

    def __init__(self, node_id: NodeId, params: FailoverParams, routes: CountedRoutes, rng: Random) -> None:
        self.node_id, self.params, self.routes = node_id, params, routes
        self.rng = random_stream(rng.getrandbits(64), "failover")
        self.scale = SimilarityScale(params.measure)
        self.views = SiblingViews(node_id, params.siblings, self.scale.rank)
        self.links = SideLinks(params.waiting_max)
        self.propagation = GossipPropagation(node_id, params, routes, self.send)
        self.horizon = TreeHorizon(node_id, params, self.links)
        self.retransmission = Retransmission(params.kept_for, params.kept_bytes_max)
        self.next_place: HorizonPlace | None = None
        """Where we are by now, until that is believed."""
        self.is_counting = False
        """Whether it is for us to find out how deep we are: one deeper than the broker above."""
        self.unanswered: dict[NodeId, None] = {}
        self.asked: dict[NodeId, None] = {}
        """Members to whom a question could be sent in this cycle."""
        self.unlinked: dict[NodeId, None] = {}
        """Members to whom there was no link at the end of the last one."""
        self.unnoticed: dict[NodeId, None] = {}
        self.quiet = 0
        self.contacted = 0

    def start(self, now: float) -> list[Effect]:
        """After a crash that left the state intact the views are as old as they are, and soon renewed."""
        effects = self.links.restart()
        self.unanswered.clear()
        self.unnoticed.clear()
        self.next_place = None
        self.retransmission.offers.clear()
        first = now + self.rng.random() * self.params.period
        return [*effects, SetTimer("cycle", first)]

    def handle(self, now: float, input: Input) -> list[Effect]:
        if type(input) is Received:
            return self.hear(now, input.sender, input.message)
        match input:
            case Stranded(neighbour, batch):
                return self.stranded(now, neighbour, batch)
            case PeerUp(broker):
                effects = self.links.came(broker, input.address)
                if broker not in self.unanswered:
                    return effects
                self.asked[broker] = None
                return [*effects, self.heartbeat(broker)]
            case PeerDown(broker):
                self.links.went(broker)
            case LinkFailed(broker):
                return self.links.failed(broker)
            case Placed(above, depth):
                self.is_counting = depth is None
                return self.placed(now, HorizonPlace(above, self.horizon.depth_below(above, depth)))
            case NeighbourUp(neighbour):
                self.links.neighbours[neighbour] = None
                self.horizon.came(neighbour)
                self.retransmission.came(neighbour)
                self.unnoticed.pop(neighbour, None)
            case NeighbourDown(neighbour):
                return self.neighbour_down(now, neighbour)
            case Introduce(contacts, cycle):
                self.views.hear_cycle(cycle)
                self.views.introduce(contacts)
                return self.keep_links()
            case Fired("cycle"):
                return self.begin_cycle(now)
            case Fired("answers"):
                return self.finish_cycle(now)
            case Fired("place"):
                return self.take_place()
            case Fired(("notice", str(node))):
                self.unnoticed.pop(node, None)
        return []

    # Where we are.

    def placed(self, now: float, place: HorizonPlace) -> list[Effect]:
        before, self.next_place = self.horizon.place, place
        if before is None:
            return self.take_place()
        is_orphan = place.above is None and before.above is not None
        if not is_orphan and group_of(place.depth, self.params.merged_levels) == self.horizon.group:
            return [CancelTimer("place"), *self.take_place()]
        if not is_orphan:
            self.horizon.move(HorizonPlace(place.above, before.depth))
        return [SetTimer("place", now + self.params.place_after), *self.keep_links()]

    def take_place(self) -> list[Effect]:
        """It is believed where we are."""
        if self.next_place is None:
            return []
        place, self.next_place = self.next_place, None
        if self.horizon.move(place):
            self.views.clear()
            self.views.introduce(self.horizon.candidates())
        return self.keep_links()

    def neighbour_down(self, now: float, node: NodeId) -> list[Effect]:
        self.links.neighbours.pop(node, None)
        self.horizon.went(node, self.views.cycle)
        self.retransmission.went(node)
        effects: list[Effect] = []
        for batch in self.routes.sent_lately(now, node) if self.params.kept_for else ():
            effects += self.retransmission.keep(now, node, batch)
        if not self.params.notice_after:
            return effects
        self.unnoticed[node] = None
        return [*effects, SetTimer(("notice", node), now + self.params.notice_after)]

    def stranded(self, now: float, neighbour: NodeId, batch: Publications) -> list[Effect]:
        """It cannot go there: it goes around, and is kept."""
        kept = self.retransmission.keep(now, neighbour, batch)
        if neighbour in self.unnoticed:
            return [*kept, Drop(batch, NOT_NOTICED)]
        is_down, horizon = not self.horizon.is_above(neighbour), self.horizon
        recipients, beyond = horizon.recipients(is_down), horizon.beyond(neighbour)
        return kept + self.propagation.strand(batch, neighbour, is_down, beyond, recipients)

    def give_back(self, sender: NodeId, asked: GossipAsked) -> list[Effect]:
        """It failed itself, and is back."""
        effects: list[Effect] = []
        for number in dict.fromkeys(asked.numbers):
            kept = self.retransmission.find(sender, asked.advertisement, number)
            effects.append(
                Drop(asked, NOT_HELD) if kept is None else Send(sender, GossipPublications(kept, sender, True, 0))
            )
        return effects

    def own_level(self) -> LevelView:
        members = [
            LevelMember(member.contact, self.scale.rank(member.vector)) for member in self.views.members.values()
        ]
        members.sort(key=by_score)
        return LevelView((self.node_id,), tuple(members[:VIEW_MEMBERS_MAX]), tuple(self.views.failures.items()))

    # A cycle.

    def begin_cycle(self, now: float) -> list[Effect]:
        are_filters = self.params.measure == "filters"
        counts = filters_of(self.routes.filter_texts()) if are_filters else self.routes.subscription_counts()
        self.scale.set(vector_of(counts), self.rates())
        asked = self.views.begin_cycle()
        self.horizon.forget_lost(self.views.cycle)
        self.unanswered = dict.fromkeys(asked)
        self.contacted = len(asked)
        effects = self.keep_links()
        self.asked = {node: None for node in asked if node in self.links.peers}
        effects += [self.heartbeat(node) for node in self.asked]
        if len(asked) < self.params.siblings and (gone := self.views.next_gone()) is not None:
            self.contacted += 1
            effects += self.send(gone, SiblingHeartbeat(self.views.cycle))
        return [
            *effects,
            SetTimer("answers", now + self.params.answer_within),
            SetTimer("cycle", now + self.params.period),
        ]

    def is_silent(self, node: NodeId) -> bool:
        """It was asked and does not answer, or cannot be reached for a whole cycle: a link that is lost may be one that
        nobody wants at the other end, and come back."""
        return node in self.asked if node in self.links.peers else node in self.unlinked

    def rates(self) -> Mapping[AdvertisementId, float] | None:
        return self.routes.publication_rates() if self.params.measure == "weighted" else None

    def heartbeat(self, node: NodeId) -> Send:
        return Send(node, SiblingHeartbeat(self.views.cycle))

    def finish_cycle(self, now: float) -> list[Effect]:
        views = self.views
        suspected = views.finish_cycle([node for node in self.unanswered if self.is_silent(node)])
        self.unlinked = {node: None for node in views.members if node not in self.links.peers}
        self.unanswered = {}
        self.horizon.take_answers()
        self.adapt(len(suspected))
        effects: list[Effect] = []
        failures, recoveries = tuple(views.failures.items()), tuple(views.recoveries.items())
        group, vector = self.horizon.group, self.scale.vector
        for node, member in views.members.items():
            view = SiblingView(views.cycle, group, vector, views.told_to(node), failures, recoveries)
            effects += self.send(member.contact, view)
        effects += self.report()
        effects += self.ask_for_views()
        offered, dropped = self.retransmission.cycle(now)
        effects += [*dropped, *[Send(node, offer) for node, offer in offered]]
        effects.append(CycleEnded(views.cycle, self.contacted))
        return effects + self.keep_links()

    def adapt(self, failed: int) -> None:
        if not self.params.adapts:
            return
        if failed * 10 > self.views.size:
            self.quiet = 0
            self.views.resize(min(2 * self.views.size, self.params.siblings_max))
            return
        self.quiet = 0 if failed else self.quiet + 1
        if self.quiet >= QUIET_CYCLES and self.views.size > self.params.siblings:
            self.quiet = 0
            self.views.resize(self.views.size - 1)

    def report(self) -> list[Effect]:
        """To the broker above what is below, and to those below what is above, and who is beside them."""
        own, effects = self.own_level(), list[Effect]()
        down, up = self.horizon.levels_beyond(True), self.horizon.levels_beyond(False)
        for node in self.links.neighbours:
            is_above = self.horizon.is_above(node)
            levels = report_levels(own, down if is_above else up, self.params.levels)
            introduced = () if is_above else self.horizon.introductions(node, down)
            effects.append(Send(node, LevelReport(self.views.cycle, self.horizon.depth, levels, introduced)))
        self.contacted += len(effects)
        return effects

    def ask_for_views(self) -> list[Effect]:
        """Where nobody tells us of the next level up or down, its members do."""
        effects: list[Effect] = []
        for is_down in (False, True):
            place = self.horizon.place
            is_root = place is None or (place.above is None and not is_down)
            if is_root or self.horizon.is_told_of(is_down):
                self.horizon.fallback.pop(is_down, None)
                continue
            members = self.horizon.view_of(is_down)[: self.params.level_members]
            self.contacted += len(members)
            for member in members:
                effects += self.send(member.contact, ViewRequest(self.views.cycle))
        return effects

    def keep_links(self) -> list[Effect]:
        contacts = [member.contact for member in self.views.members.values()]
        for is_down in (False, True):
            contacts += [member.contact for member in self.horizon.view_of(is_down)]
        return self.links.keep(self.views.cycle, contacts, IDLE_CYCLES)

    def send(self, contact: Contact, message: Message) -> list[Effect]:
        return self.links.send(self.views.cycle, contact, message)

    # What others say.

    def hear(self, now: float, sender: NodeId, message: Any) -> list[Effect]:
        if sender not in self.links.peers:
            return [Drop(message, NOT_LINKED)]
        match message:
            case GossipPublications():
                return self.propagation.hear(message, self.horizon.onward(message, self.views.failures))
            case GossipOffered():
                return self.propagation.hear_offer(self.links.contact(sender), message)
            case GossipAsked() if message.failed == sender:
                return self.give_back(sender, message)
            case GossipAsked():
                return self.propagation.hear_question(self.links.contact(sender), message)
            case ViewAnswer():
                return [] if self.horizon.hear_answer(sender, message) else [Drop(message, NOT_ASKED)]
        if not self.views.hear_cycle(message.cycle):
            return [Drop(message, TOO_FAR_AHEAD)]
        match message:
            case SiblingHeartbeat():
                return [Send(sender, SiblingAnswer(self.views.cycle, self.horizon.group))]
            case SiblingAnswer(_, group):
                return self.answered(sender, group)
            case SiblingView(_, group):
                if group != self.horizon.group or self.horizon.place is None:
                    return [Drop(message, OTHER_GROUP)]
                self.views.merge(self.links.contact(sender), message)
                self.unanswered.pop(sender, None)
                return []
            case LevelReport():
                return self.hear_report(now, sender, message)
            case ViewRequest():
                answer = ViewAnswer(self.horizon.group, self.own_level().members)
                return [Send(sender, answer)]
        return [Drop(message, NOT_ASKED)]

    def answered(self, sender: NodeId, group: int) -> list[Effect]:
        self.unanswered.pop(sender, None)
        if group != self.horizon.group:
            self.views.remove(sender)
        else:
            self.views.answered(sender)
        return []

    def hear_report(self, now: float, sender: NodeId, report: LevelReport) -> list[Effect]:
        if sender not in self.links.neighbours:
            return [Drop(report, NOT_A_NEIGHBOUR)]
        horizon, moved = self.horizon, list[Effect]()
        horizon.hear_report(sender, report)
        is_above = horizon.is_above(sender)
        if self.is_counting and is_above and horizon.depth != report.depth + 1:
            moved = self.placed(now, HorizonPlace(sender, report.depth + 1))
        if horizon.place is not None and group_of(report.depth, self.params.merged_levels) == horizon.group:
            self.views.introduce([self.links.contact(sender)])
        if is_above:
            horizon.hear_introductions(report)
            self.views.introduce(horizon.candidates())
        return moved

    # What others may look at.

    def gauges(self) -> Iterator[Gauge]:
        yield Gauge("failover_siblings", "brokers of our level of the tree that we know", len(self.views.members))
        yield Gauge("failover_failed", "brokers of our level that are taken to have failed", len(self.views.failures))
        yield Gauge("failover_told", "messages with publications that went around a failure", self.propagation.told)
        yield Gauge("failover_kept", "publications kept for brokers that failed", len(self.retransmission.kept))
        yield Gauge("failover_given", "publications that brokers had missed and were given", self.retransmission.given)
        yield Gauge("failover_taken", "messages with publications that came around one", self.propagation.taken)

    def check(self) -> None:
        self.views.check()
        self.links.check()
        self.propagation.check()
        self.retransmission.check()
        self.horizon.check()
