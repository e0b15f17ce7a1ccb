"""The coordinator: plans a collection, asks every so often how far it is, and plans anew.

The idea (Patel thesis, sections 3.4.3 and 3.4.4). The coordinator, any host and mostly the sink itself, knows how many
blocks each host answers for and what it believes of the paths (`estimates.py`). It finds the quickest collection
(`planning/flows`) and tells every host its part. Every `period` seconds it asks all for their status; when all have
answered, or those who have not are out of time, rates that were reached change what it believes, and it plans again for
the blocks where they are now. When everything is to be there before the next plan, the plan is the final one.

What the source left out: hosts die. One without a link for `lost_after` is lost; then, and where nothing moves although
something is missing, everybody says exactly which blocks it answers for (`HoldingsAsked`). Blocks for which nobody does
are given back to their origin, or to whoever kept a copy; where neither is there, the sink hears that they are lost.

State: a `Coordinated` for each collection. Timers, each with the name of the collection: "period", "status" (an answer
is missing), "holdings", "lost" with the host.

Guaranteed. As long as the coordinator and the sink live and can reach each other: every block that some linked host has
comes to the sink, once every host has a path to it. If the coordinator dies, the sink goes on in its place
(`gatherer.py`), for nothing here is needed that cannot be asked for again.
"""

from collections.abc import Iterator
from random import Random

from tidings.machine.effects import CancelTimer, Compute, Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Computed, Fired, Input, Received, Signal
from tidings.model.bounds import COLLECTION_SUM_MAX, COLLECTIONS_MAX
from tidings.model.identity import NodeId
from tidings.planning.flows.plan import CollectionPlan
from tidings.protocols.collect.coordinator_state import Coordinated, PlanJob
from tidings.protocols.collect.estimates import Estimates
from tidings.protocols.collect.messages import (
    BlocksLost,
    BlocksReclaimed,
    CollectRequest,
    DirectedShare,
    Directive,
    HoldingsAsked,
    HoldingsTold,
    StatusRequest,
    StatusUpdate,
)
from tidings.protocols.collect.params import CollectParams
from tidings.protocols.collect.runs import NumberRun, numbers_in, parts_of, runs_of
from tidings.protocols.collect.signals import BlockArrived, CollectionClosed, CoordinationWanted, MembersKnown
from tidings.pubsub.signals import PeerDown, PeerUp

NOT_ASKED = "answers what was not asked"
TOO_MANY = "as many collections as are allowed are coordinated here already"
TOO_MUCH = "a collection of more blocks than are planned for"
RATE_OPEN = 1e9
"""Blocks a second that are as good as no plan for a rate: the window is then as wide as it may be."""


class Coordinator:
    messages: tuple[type, ...] = (CollectRequest, StatusUpdate, HoldingsTold)
    hears: tuple[type, ...] = (PeerUp, PeerDown, MembersKnown, CoordinationWanted, CollectionClosed, BlockArrived)
    tells: tuple[type[Signal], ...] = ()

    def __init__(self, node_id: NodeId, params: CollectParams, rng: Random) -> None:
        self.node_id, self.params, self.rng = node_id, params, rng
        self.estimates = Estimates(params.rate_unknown_bps)
        self.linked: dict[NodeId, None] = {}
        self.jobs: dict[str, Coordinated] = {}

    def start(self, now: float) -> list[Effect]:
        self.linked.clear()
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Received(sender, CollectRequest() as request):
                return self.begin(now, sender, request)
            case CoordinationWanted(request):
                return self.begin(now, self.node_id, request, is_takeover=True)
            case Received(sender, StatusUpdate() as status):
                work = self.jobs.get(status.job)
                if work is None or sender not in work.awaited or status.plan != work.plan:
                    return [Drop(status, NOT_ASKED)]
                work.awaited.pop(sender)
                work.statuses[sender] = status
                work.learn(self.estimates, sender, status, self.params.slack)
                return [] if work.awaited else self.all_told(now, work)
            case Received(sender, HoldingsTold() as told):
                work = self.jobs.get(told.job)
                if work is None or sender not in work.unheard or told.round != work.round:
                    return [Drop(told, NOT_ASKED)]
                return self.hear_holdings(now, work, sender, told)
            case Computed(("plan", str(job), int(plan)), result, error) if job in self.jobs:
                return self.planned(now, self.jobs[job], plan, result, error)
            case Fired((kind, str(job))) if job in self.jobs:
                return self.due(now, kind, self.jobs[job])
            case Fired(("lost", str(job), str(node))) if job in self.jobs and node not in self.linked:
                work = self.jobs[job]
                work.lost[node] = None
                return self.ask_holdings(now, work)
            case PeerUp(peer):
                self.linked[peer] = None
                return self.peer_up(now, peer)
            case PeerDown(peer):
                self.linked.pop(peer, None)
                return [effect for work in self.jobs.values() for effect in self.peer_down(now, work, peer)]
            case MembersKnown(members, paths):
                for each in members:
                    node = each.contact.node
                    if each.up_bps:
                        self.estimates.up[node] = each.up_bps
                    if each.down_bps:
                        self.estimates.down[node] = each.down_bps
                if not self.jobs:
                    self.estimates.paths = {(sender, peer): rate for sender, peer, rate in paths}
            case CollectionClosed(job) if job in self.jobs:
                del self.jobs[job]
                return [CancelTimer((kind, job)) for kind in ("period", "status", "holdings")]
            case BlockArrived(job, origin) if job in self.jobs and self.jobs[job].is_direct:
                return self.next_in_pool(self.jobs[job], origin)
        return []

    def is_there(self, node: NodeId) -> bool:
        return node == self.node_id or node in self.linked

    # Beginning.

    def begin(self, now: float, sink: NodeId, request: CollectRequest, is_takeover: bool = False) -> list[Effect]:
        if sum(count for _, count in request.sources) > COLLECTION_SUM_MAX:
            return [Drop(request, TOO_MUCH)]
        if request.job in self.jobs or len(self.jobs) >= COLLECTIONS_MAX or not (self.is_there(sink)):
            return [Drop(request, TOO_MANY)]
        work = self.jobs[request.job] = Coordinated(sink, request, self.params)
        if is_takeover:
            # Where the blocks are is not known here: ask before anything is planned.
            away = [node for node in work.everybody if not self.is_there(node)]
            return [
                *(effect for node in away for effect in self.peer_down(now, work, node)),
                *self.ask_holdings(now, work),
            ]
        if work.is_direct:
            return self.fill_pool(work)
        return self.plan(work, dict(request.missing))

    def plan(self, work: Coordinated, held: dict[NodeId, int]) -> list[Effect]:
        work.plan += 1
        work.is_planning = True
        hosts = [node for node in work.everybody if self.is_there(node)]
        graph = work.graph(self.estimates, held, hosts, self.linked, self.params.peers)
        return [Compute(("plan", work.job, work.plan), PlanJob(graph, work.sink))]

    def planned(
        self, now: float, work: Coordinated, plan: int, found: CollectionPlan | None, error: str | None
    ) -> list[Effect]:
        if plan != work.plan or not work.is_planning:
            return []
        work.is_planning = False
        again = self.again(now, work)
        if found is None:
            # Better straight to the sink than not at all.
            held = work.held_now() or dict(work.request.missing)
            straight: dict[NodeId, tuple[DirectedShare, ...]] = {
                node: (DirectedShare(work.sink, held.get(node, 0), RATE_OPEN),) for node in work.hosts
            }
            return [*self.direct(work, straight, {}, True, 0), *again]
        period = self.params.period
        is_final = found.horizon <= period or not period
        shares: dict[NodeId, tuple[DirectedShare, ...]] = {}
        for (sender, receiver), blocks in found.sends.items():
            share = DirectedShare(receiver, blocks, found.rate(sender, receiver))
            shares[sender] = (*shares.get(sender, ()), share)
        back: dict[NodeId, tuple[tuple[NodeId, int], ...]] = {}
        for (holder, origin), blocks in found.handbacks.items():
            back[holder] = (*back.get(holder, ()), (origin, blocks))
        work.rates = {pair: found.rate(*pair) for pair in found.sends}
        return [*self.direct(work, shares, back, is_final, found.horizon), *again]

    def direct(
        self,
        work: Coordinated,
        shares: dict[NodeId, tuple[DirectedShare, ...]],
        back: dict[NodeId, tuple[tuple[NodeId, int], ...]],
        is_final: bool,
        horizon: int,
    ) -> list[Effect]:
        number = work.number
        return [
            Send(node, Directive(work.job, number, shares.get(node, ()), is_final, back.get(node, ()), horizon))
            for node in work.everybody
            if self.is_there(node)
        ]

    def again(self, now: float, work: Coordinated) -> list[Effect]:
        period = self.params.period or self.params.lost_after
        return [SetTimer(("period", work.job), now + period)]

    # Direct transfer.

    def fill_pool(self, work: Coordinated) -> list[Effect]:
        """The next sources begin; in random order."""
        if not work.waiting and not work.active:
            work.waiting = [node for node, count in work.request.missing if count]
            self.rng.shuffle(work.waiting)
            work.unsent = dict(work.request.missing)
        room = (work.request.pool or len(work.sizes)) - len(work.active)
        begun, work.waiting = work.waiting[:room], work.waiting[room:]
        work.active |= dict.fromkeys(begun)
        work.plan += 1
        share = DirectedShare(work.sink, COLLECTION_SUM_MAX, RATE_OPEN)
        return [Send(node, Directive(work.job, work.number, (share,), True)) for node in begun if self.is_there(node)]

    def next_in_pool(self, work: Coordinated, origin: NodeId) -> list[Effect]:
        work.unsent[origin] = work.unsent.get(origin, 0) - 1
        if work.unsent[origin] > 0 or origin not in work.active:
            return []
        del work.active[origin]
        return self.fill_pool(work) if work.waiting else []

    # How far it is.

    def due(self, now: float, kind: object, work: Coordinated) -> list[Effect]:
        if kind == "period":
            if work.is_planning or work.unheard:
                return self.again(now, work)
            if not self.params.period or work.is_direct:
                return self.look_for_losses(now, work)
            work.awaited = dict.fromkeys(node for node in work.hosts if self.is_there(node))
            asked = [Send(node, StatusRequest(work.job, work.plan)) for node in work.awaited]
            if not asked:
                return self.again(now, work)
            return [*asked, SetTimer(("status", work.job), now + self.params.status_timeout)]
        if kind == "holdings again" and not work.unheard:
            return self.ask_holdings(now, work)
        if kind == "status" and work.awaited:
            work.awaited.clear()
            return self.all_told(now, work)
        if kind == "holdings" and work.unheard:
            # Somebody who is linked does not answer: nothing is known of what it has, so nothing is done.
            work.unheard.clear()
            return self.again(now, work)
        return []

    def all_told(self, now: float, work: Coordinated) -> list[Effect]:
        stop: list[Effect] = [CancelTimer(("status", work.job))]
        held = work.held_now()
        if sum(held.values()) == 0:
            # All that is left is on its way, or lost.
            work.idle += 1
            return [*stop, *(self.ask_holdings(now, work) if work.idle > 1 else self.again(now, work))]
        work.idle = 0
        return [*stop, *self.plan(work, held)]

    def look_for_losses(self, now: float, work: Coordinated) -> list[Effect]:
        """Where nobody plans again: what is missing is looked for all the same, when nothing came for a while."""
        work.idle += 1
        return self.ask_holdings(now, work) if work.idle > 1 else self.again(now, work)

    def peer_down(self, now: float, work: Coordinated, peer: NodeId) -> list[Effect]:
        if peer not in work.everybody:
            return []
        work.gone[peer] = None
        effects: list[Effect] = [SetTimer(("lost", work.job, peer), now + self.params.lost_after)]
        if work.awaited.pop(peer, 0) is None and not work.awaited:
            effects += self.all_told(now, work)
        if work.unheard.pop(peer, 0) is None and not work.unheard:
            effects += self.all_heard(now, work)
        return effects

    def peer_up(self, now: float, peer: NodeId) -> list[Effect]:
        effects: list[Effect] = []
        for work in self.jobs.values():
            if work.gone.pop(peer, 0) is None:
                effects.append(CancelTimer(("lost", work.job, peer)))
                work.lost.pop(peer, None)
                # The sink opens the collection there again, if it has forgotten it.
                effects.append(SetTimer(("holdings again", work.job), now + 1.0))
        return effects

    # Who has what.

    def ask_holdings(self, now: float, work: Coordinated) -> list[Effect]:
        work.round += 1
        work.idle = 0
        work.found, work.spares = {}, {}
        work.unheard = dict.fromkeys(node for node in (*work.everybody,) if self.is_there(node))
        return [
            *(Send(node, HoldingsAsked(work.job, work.round)) for node in work.unheard),
            SetTimer(("holdings", work.job), now + self.params.status_timeout),
        ]

    def hear_holdings(self, now: float, work: Coordinated, sender: NodeId, told: HoldingsTold) -> list[Effect]:
        if told.origin in work.sizes:
            size = work.sizes[told.origin]
            work.found.setdefault(told.origin, set()).update(numbers_in(told.runs, size))
            for seq in numbers_in(told.spare, size):
                work.spares.setdefault((told.origin, seq), sender)
        if not told.is_last:
            return []
        del work.unheard[sender]
        return [] if work.unheard else self.all_heard(now, work)

    def all_heard(self, now: float, work: Coordinated) -> list[Effect]:
        if not self.is_there(work.sink):
            return self.again(now, work)
        return [CancelTimer(("holdings", work.job)), *self.reclaim(work), *self.soon(now, work)]

    def reclaim(self, work: Coordinated) -> Iterator[Effect]:
        for origin, size in work.sizes.items():
            missing = [seq for seq in range(size) if seq not in work.found.get(origin, ())]
            if not missing:
                continue
            if self.is_there(origin):
                yield from self.tell(origin, work, origin, runs_of(missing))
                continue
            kept: dict[NodeId, list[int]] = {}
            for seq in missing:
                kept.setdefault(work.spares.get((origin, seq), ""), []).append(seq)
            for holder, numbers in kept.items():
                if holder:
                    yield from self.tell(holder, work, origin, runs_of(numbers))
                elif origin in work.lost:
                    for part in parts_of(runs_of(numbers)):
                        yield Send(work.sink, BlocksLost(work.job, origin, part))

    def tell(self, holder: NodeId, work: Coordinated, origin: NodeId, runs: tuple[NumberRun, ...]) -> Iterator[Effect]:
        if work.is_direct:
            share = DirectedShare(work.sink, COLLECTION_SUM_MAX, RATE_OPEN)
            work.plan += 1
            yield Send(holder, Directive(work.job, work.number, (share,), True))
        for part in parts_of(runs):
            yield Send(holder, BlocksReclaimed(work.job, origin, part))

    def soon(self, now: float, work: Coordinated) -> list[Effect]:
        """A new plan, as soon as what was reclaimed is counted."""
        if work.is_direct or not self.params.period:
            return self.again(now, work)
        return [SetTimer(("period", work.job), now + 0.5)]

    def check(self) -> None:
        for work in self.jobs.values():
            assert all(rate >= 0 for rate in work.rates.values())
