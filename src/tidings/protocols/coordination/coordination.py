"""Coordination: the part of a broker that takes part in plans, and carries one out if it is asked to.

It puts agent and deployer (each on a page of its own) behind one interface, because a broker that carries a plan out
mostly takes part in it: what the one says to the other in the same broker does not leave it. Requests are those of the
broker's own application, or come from clients with the role admin (`PlanAsked`).

Messages and roles: `messages.py`. Timers: those of agent and deployer. Saved: "plan".
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from tidings.machine.effects import Drop, Effect, Load, Send
from tidings.machine.inputs import Fired, Input, Loaded, Received, Signal
from tidings.model.bounds import TEXT_CHARS_MAX
from tidings.model.identity import NodeId
from tidings.protocols.coordination.agent import PlanAgent
from tidings.protocols.coordination.deployer import KEPT, Deployer
from tidings.protocols.coordination.messages import (
    AbortPlan,
    ActionOrder,
    ActionReported,
    AskedPlan,
    CarryOut,
    Disengage,
    Disengaged,
    Engage,
    Engaged,
    PlanAnswered,
    PlanAsked,
    Prepare,
    Prepared,
    ResumePlan,
)
from tidings.protocols.coordination.params import CoordinationParams
from tidings.pubsub.notes import RequestRefused
from tidings.pubsub.rows import View
from tidings.pubsub.signals import (
    ClientDown,
    ClientUp,
    KeepNeighbours,
    LinkUnwanted,
    LinkWanted,
    NeighbourDown,
    NeighboursKept,
    NeighbourUnwanted,
    NeighbourUp,
    NeighbourWanted,
    PeerDown,
    PeerUp,
    ShiftBegun,
    ShiftOver,
    ShiftStopped,
)

ADMIN = "admin"
NOT_PERMITTED = "not permitted: this needs a token with the role admin"
NOT_A_PEER = "comes from a node that is no peer"
NOT_A_CLIENT = "comes from a node that is no client"
NOTHING_TO_ABORT = "no plan is carried out here; see `plan status`"


class Coordination:
    messages: tuple[type, ...] = (
        *(PlanAsked, Engage, Engaged, ActionOrder, ActionReported, Disengage, Disengaged),
        *(Prepare, Prepared),
    )
    hears: tuple[type, ...] = (
        *(PeerUp, PeerDown, ClientUp, ClientDown, NeighbourUp, NeighbourDown),
        *(CarryOut, AbortPlan, ResumePlan, ShiftOver, NeighboursKept),
    )
    tells: tuple[type[Signal], ...] = (
        *(LinkWanted, LinkUnwanted),
        *(NeighbourWanted, NeighbourUnwanted, ShiftBegun, ShiftStopped, KeepNeighbours),
    )

    def __init__(
        self,
        node_id: NodeId,
        params: CoordinationParams | None = None,
        neighbours: Callable[[], Iterable[NodeId]] = tuple,
        is_steered: bool = False,
        is_open: bool = False,
        is_kept: Callable[[], bool] = lambda: True,
    ) -> None:
        self.node_id, self.params, self.is_open = node_id, params or CoordinationParams(), is_open
        self.agent = PlanAgent(node_id, self.params, neighbours, is_steered, is_kept)
        self.deployer = Deployer(node_id, self.params)
        self.clients: dict[NodeId, ClientUp] = {}
        self.peers: set[NodeId] = set()
        self.now = 0.0
        if not is_steered:
            self.tells = LinkWanted, LinkUnwanted

    def start(self, now: float) -> list[Effect]:
        self.now = now
        self.clients.clear()
        self.peers.clear()
        self.agent.start()
        self.deployer.linked.clear()
        return [Load(KEPT)] if self.params.is_durable else []

    def handle(self, now: float, input: Input) -> list[Effect]:
        self.now = now
        waiting, effects = deque(self.take(now, input)), list[Effect]()
        while waiting:
            effect = waiting.popleft()
            if type(effect) is Send and effect.to == self.node_id:
                # What deployer and agent of the same broker say to each other.
                waiting.extendleft(reversed(self.hear(now, self.node_id, effect.message)))
            else:
                effects.append(effect)
        return effects

    def take(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Received(sender, PlanAsked() as asked):
                return self.asked(now, sender, asked)
            case Received(sender, message):
                return self.hear(now, sender, message) if sender in self.peers else [Drop(message, NOT_A_PEER)]
            case PeerUp(broker):
                self.peers.add(broker)
                return [*self.agent.peer_up(broker), *self.deployer.peer_up(broker)]
            case PeerDown(broker):
                self.peers.discard(broker)
                return [*self.agent.peer_down(now, broker), *self.deployer.peer_down(broker)]
            case NeighbourUp() | NeighbourDown():
                return self.agent.neighbours_changed()
            case ClientUp(client):
                self.clients[client] = input
            case ClientDown(client):
                self.clients.pop(client, None)
            case ShiftOver():
                return self.agent.shift_over(input)
            case NeighboursKept():
                return self.agent.kept()
            case CarryOut() | AbortPlan() | ResumePlan():
                return self.requested(now, input)[1]
            case Fired(key):
                return self.fired(now, key)
            case Loaded(_, entries):
                data = dict(entries).get(KEPT)
                return [] if data is None else self.deployer.restarted(now, data)
        return []

    def fired(self, now: float, key: Any) -> list[Effect]:
        match key:
            case "again":
                return self.agent.again(now)
            case "lapse":
                return self.agent.lapse()
            case "tick":
                return self.deployer.ticked(now)
            case str():
                return self.deployer.too_late(now, key)
        return []

    def hear(self, now: float, sender: NodeId, message: object) -> list[Effect]:
        match message:
            case Engage():
                return self.agent.engage(sender, message)
            case ActionOrder():
                return self.agent.order(now, sender, message)
            case Disengage():
                return self.agent.disengage(sender, message)
            case Prepare():
                return self.agent.prepare(sender, message)
            case Prepared():
                return self.agent.prepared(sender, message)
            case Engaged():
                return self.deployer.hear_engaged(now, sender, message)
            case ActionReported():
                return self.deployer.hear_report(now, sender, message)
            case Disengaged():
                return self.deployer.hear_disengaged(sender, message)
        return []

    # What applications ask.

    def requested(self, now: float, request: CarryOut | AbortPlan | ResumePlan) -> tuple[str, list[Effect]]:
        match request:
            case CarryOut():
                return self.deployer.carry_out(now, request)
            case AbortPlan(reason):
                if not self.deployer.is_busy:
                    return NOTHING_TO_ABORT, []
                return "", self.deployer.abort(now, reason)
            case ResumePlan():
                return self.deployer.resume(now)

    def asked(self, now: float, sender: NodeId, asked: PlanAsked) -> list[Effect]:
        client = self.clients.get(sender)
        if client is None:
            return [Drop(asked, NOT_A_CLIENT)]
        is_whole = client.tenant is None or not client.tenant.name
        if not (self.is_open or (ADMIN in client.roles and is_whole)):
            note = RequestRefused(client.client, client.principal, "plan", NOT_PERMITTED)
            return [note, Send(sender, PlanAnswered(asked.number, "", NOT_PERMITTED))]
        problem, effects = self.carried(now, asked)
        name = self.deployer.kept.name if self.deployer.kept is not None else ""
        return [*effects, Send(sender, PlanAnswered(asked.number, name, problem[:TEXT_CHARS_MAX]))]

    def carried(self, now: float, asked: PlanAsked) -> tuple[str, list[Effect]]:
        if asked.verb == "abort":
            return self.requested(now, AbortPlan())
        if asked.verb == "resume":
            return self.requested(now, ResumePlan())
        try:
            said = msgspec.json.decode(asked.plan, type=AskedPlan)
        except (msgspec.DecodeError, ValueError, RecursionError) as problem:
            return f"the plan cannot be read: {problem}", []
        return self.requested(now, CarryOut(said.plan, said.contacts, said.name))

    def views(self) -> dict[str, View]:
        return {
            "plan": lambda _: self.deployer.plan_rows(self.now),
            "plan-actions": lambda _: self.deployer.action_rows(),
            "itt": lambda _: self.deployer.path_rows(),
        }

    def check(self) -> None:
        assert self.deployer.leaving <= set(self.deployer.brokers()) if self.deployer.kept else True
