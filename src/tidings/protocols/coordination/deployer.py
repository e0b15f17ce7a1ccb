"""The deployer: carries a plan out, step by step, and is believed in nothing that agents do not confirm.

    engaging    a link to every broker of the plan, and each says that it takes part, and which neighbours it has. All
                of it together must be the tree with which the plan begins, or how far it had come.
    running     the actions of a step are ordered, at once where they share no broker (G-32) and do not face each other
                (`planning/concurrency.py`). An action is done when all its brokers say so. One that failed is ordered
                again, until `step_timeout` is over. The next step begins when all of this one are done (S-87).
    aborting    nothing new is ordered; what has begun is waited for.
    done, aborted    the brokers are let go.

What is known is saved with every change, so that a deployer that starts again goes on from there (S-89): it engages
the same brokers, and orders once more what was not reported; agents that have done it say so at once.

Bounds: a plan is at most `PLAN_BYTES_MAX`; a step ends when nothing of it was done for `step_timeout`, engaging after
`engage_timeout`.
"""

from collections.abc import Iterator

import msgspec

from tidings.machine.effects import CancelTimer, Effect, Save, Send, SetTimer
from tidings.machine.message import Contact
from tidings.model.bounds import TEXT_CHARS_MAX
from tidings.model.identity import NodeId
from tidings.planning.checker import problem_in
from tidings.planning.concurrency import TreeSides
from tidings.planning.operations import Action, Connected, effects_of
from tidings.planning.plan import TopologyPlan
from tidings.planning.tree import Link, link
from tidings.protocols.coordination.messages import (
    ActionOrder,
    ActionReported,
    CarryOut,
    Disengage,
    Disengaged,
    Engage,
    Engaged,
)
from tidings.protocols.coordination.params import CoordinationParams
from tidings.pubsub.notes import PlanExecuted
from tidings.pubsub.rows import CoordinationRow, PlannedActionRow, PlanRow
from tidings.pubsub.signals import LinkUnwanted, LinkWanted

DEPLOYER = "deployer"
KEPT = "plan"
CARRIED_OUT = frozenset(("append", "detach", "shift"))
UNDER_WAY = ("engaging", "running", "aborting")


class PlannedWork(msgspec.Struct):
    """An action of the plan, and what became of it."""

    action: Action
    step: int
    state: str = "waiting"
    problem: str = ""
    reported: dict[NodeId, bool] = {}


class KeptPlan(msgspec.Struct):
    """All that is known of the plan; what is saved, as JSON."""

    name: str
    plan: TopologyPlan
    contacts: dict[NodeId, str]
    state: str
    work: list[PlannedWork]
    step: int = 0
    began_at: float = 0.0
    ended_at: float | None = None
    problem: str = ""


class Deployer:
    def __init__(self, node_id: NodeId, params: CoordinationParams) -> None:
        self.node_id, self.params = node_id, params
        self.kept: KeptPlan | None = None
        self.engaged: dict[NodeId, tuple[NodeId, ...]] = {}
        self.linked: set[NodeId] = set()
        self.leaving: set[NodeId] = set()
        """Those that have not said yet that they know the plan to be over."""
        self.plans = 0
        self.sides = TreeSides(())
        """Of the tree with which the step began."""

    # What is asked.

    def carry_out(self, now: float, asked: CarryOut) -> tuple[str, list[Effect]]:
        """Why not, and what is done."""
        if self.is_busy:
            assert self.kept is not None
            return f"plan {self.kept.name!r} is carried out by {self.node_id}; wait for it, or abort it first", []
        if problem := problem_in(asked.plan):
            return f"the plan is not sound: {problem}", []
        unknown = {action.operation for action in asked.plan.actions} - CARRIED_OUT
        if unknown:
            return f"{', '.join(sorted(unknown))}: only shift, append and detach can be carried out; plan without", []
        self.plans += 1
        name = asked.name or f"{self.node_id}-{self.plans}"
        contacts = {each.node: each.address for each in asked.contacts}
        work = [
            PlannedWork(action, number, reported={})
            for number, step in enumerate(asked.plan.steps, start=1)
            for action in step
        ]
        self.kept = KeptPlan(name, asked.plan, contacts, "engaging", work, began_at=now)
        return "", self.engage(now)

    @property
    def is_busy(self) -> bool:
        return self.kept is not None and self.kept.state in UNDER_WAY

    def resume(self, now: float) -> tuple[str, list[Effect]]:
        kept = self.kept
        if kept is None or kept.state != "aborted":
            return "there is no plan here that was aborted; see `plan status`", []
        for each in kept.work:
            if each.state != "done":
                each.state, each.problem, each.reported = "waiting", "", {}
        kept.state, kept.problem, kept.ended_at = "engaging", "", None
        return "", self.engage(now)

    def restarted(self, now: float, data: bytes) -> list[Effect]:
        """We have started again, and this is how far a plan had come."""
        try:
            self.kept = msgspec.json.decode(data, type=KeptPlan)
        except msgspec.DecodeError:
            return []
        if not self.is_busy:
            return []
        for each in self.kept.work:
            if each.state == "ordered":
                each.state, each.reported = "waiting", {}
        self.kept.state = "engaging" if self.kept.state != "aborting" else "aborting"
        return self.engage(now) if self.kept.state == "engaging" else self.abort(now, self.kept.problem)

    # Engaging.

    def brokers(self) -> list[NodeId]:
        assert self.kept is not None
        return sorted({*self.kept.plan.initial.brokers, *self.kept.plan.goal.brokers})

    def engage(self, now: float) -> list[Effect]:
        assert self.kept is not None
        self.engaged.clear()
        self.leaving.clear()
        others = [name for name in self.brokers() if name != self.node_id]
        wanted = [LinkWanted(self.contact(name), DEPLOYER) for name in others]
        told = [Send(name, Engage(self.kept.name)) for name in self.brokers() if self.is_reached(name)]
        limits = [SetTimer("engage", now + self.params.engage_timeout), self.tick(now)]
        return [*self.keep(), *wanted, *told, *limits]

    def contact(self, name: NodeId) -> Contact:
        assert self.kept is not None
        return Contact(name, self.kept.contacts.get(name, ""))

    def is_reached(self, name: NodeId) -> bool:
        return name == self.node_id or name in self.linked

    def peer_up(self, broker: NodeId) -> list[Effect]:
        self.linked.add(broker)
        if self.kept is None or not self.is_busy or broker not in self.brokers():
            return []
        return [Send(broker, Engage(self.kept.name))]

    def peer_down(self, broker: NodeId) -> list[Effect]:
        self.linked.discard(broker)
        return []

    def hear_engaged(self, now: float, sender: NodeId, message: Engaged) -> list[Effect]:
        kept = self.kept
        if kept is None or message.plan != kept.name or sender not in self.brokers() or not self.is_busy:
            return []
        if message.problem:
            return self.abort(now, f"{sender}: {message.problem}") if kept.state != "aborting" else []
        self.engaged[sender] = message.neighbours
        if kept.state != "engaging" or len(self.engaged) < len(self.brokers()):
            return []
        if problem := self.problem_of_tree():
            return self.abort(now, problem)
        kept.state, kept.step = "running", 0
        return [CancelTimer("engage"), *self.next_step(now)]

    def problem_of_tree(self) -> str:
        """Whether the tree is where the plan is, give or take what may have begun."""
        kept = self.kept
        assert kept is not None
        expected, open_links = self.links_done(), set[Link]()
        for each in kept.work:
            if each.state != "done" and self.has_begun:
                open_links |= set().union(*self.links_of(each.action))
        found = {link(name, other) for name, others in self.engaged.items() for other in others}
        differing = (found ^ expected) - open_links
        if not differing:
            return ""
        a, b = sorted(differing)[0]
        what = "is there, and the plan does not know it" if (a, b) in found else "is missing"
        return f"the network is not the tree of the plan: the link {a} - {b} {what}; plan anew from today's tree"

    def links_done(self) -> set[Link]:
        """Those that there are after what is done of the plan."""
        assert self.kept is not None
        links = set(self.kept.plan.initial.links)
        for each in self.kept.work:
            if each.state == "done":
                comes, goes = self.links_of(each.action)
                links = (links - goes) | comes
        return links

    def links_of(self, action: Action) -> tuple[set[Link], set[Link]]:
        """Those that come, and those that go."""
        assert self.kept is not None
        effects = effects_of(action, frozenset(self.kept.plan.goal.links))
        adds, deletes = (
            {item.link for item in some if isinstance(item, Connected)} for some in (effects.adds, effects.deletes)
        )
        return adds, deletes

    @property
    def has_begun(self) -> bool:
        assert self.kept is not None
        return self.kept.step > 0

    # Steps.

    def next_step(self, now: float) -> list[Effect]:
        kept = self.kept
        assert kept is not None
        left = [each.step for each in kept.work if each.state != "done"]
        if not left:
            return self.finish(now, "done")
        kept.step = min(left)
        self.sides = TreeSides(sorted(self.links_done()))
        return [*self.keep(), SetTimer("step", now + self.params.step_timeout), *self.order_more()]

    def work_of_step(self) -> Iterator[tuple[int, PlannedWork]]:
        assert self.kept is not None
        return ((number, each) for number, each in enumerate(self.kept.work) if each.step == self.kept.step)

    def order_more(self) -> list[Effect]:
        """Those of the step that can be done beside what is under way."""
        work = list(self.work_of_step())
        under_way = [each.action for _, each in work if each.state == "ordered"]
        waiting = [(number, each) for number, each in work if each.state == "waiting"]
        begun = set(self.sides.next_of((each.action for _, each in waiting), under_way))
        effects: list[Effect] = []
        for number, each in waiting:
            if each.action in begun:
                each.state, each.reported = "ordered", {}
                effects += self.orders(number, each)
        return effects

    def orders(self, number: int, each: PlannedWork) -> list[Effect]:
        """To those that have not reported; to all while the mover has not, whose word decides: to the others a mover
        that has crashed looks like one that has moved."""
        assert self.kept is not None
        brokers = tuple(self.contact(name) for name in each.action.brokers)
        order = ActionOrder(self.kept.name, number, each.action.operation, brokers)  # type: ignore[arg-type]
        silent = [name for name in each.action.brokers if name not in each.reported]
        asked = each.action.brokers if each.action.brokers[0] in silent else silent
        return [Send(name, order) for name in asked if self.is_reached(name)]

    def hear_report(self, now: float, sender: NodeId, report: ActionReported) -> list[Effect]:
        kept = self.kept
        if kept is None or report.plan != kept.name or report.number >= len(kept.work) or not self.is_busy:
            return []
        each = kept.work[report.number]
        if each.state != "ordered" or sender not in each.action.brokers:
            return []
        if not report.is_done:
            each.problem = f"{sender}: {report.problem}"[:TEXT_CHARS_MAX]
            if kept.state == "running":
                # It is ordered again with the next tick, until the time for the step is over.
                return []
        each.reported[sender] = report.is_done
        if len(each.reported) < len(each.action.brokers):
            return []
        if not all(each.reported.values()):
            each.state = "failed"
            return self.keep() if self.is_waiting() else self.finish(now, "aborted")
        each.state, each.problem = "done", ""
        if kept.state == "aborting":
            return [*self.keep(), *([] if self.is_waiting() else self.finish(now, "aborted"))]
        if all(other.state == "done" for _, other in self.work_of_step()):
            return self.next_step(now)
        # Those that have to wait for others have that time too.
        return [*self.keep(), SetTimer("step", now + self.params.step_timeout), *self.order_more()]

    def is_waiting(self) -> bool:
        assert self.kept is not None
        return any(each.state == "ordered" for each in self.kept.work)

    def tick(self, now: float) -> Effect:
        return SetTimer("tick", now + self.params.ask_again_after)

    def ticked(self, now: float) -> list[Effect]:
        """Ask again where there was no answer."""
        kept = self.kept
        if kept is None or not (self.is_busy or self.leaving):
            return []
        effects: list[Effect] = [self.tick(now)]
        if kept.state == "engaging":
            lacking = [name for name in self.brokers() if name not in self.engaged and self.is_reached(name)]
            effects += [Send(name, Engage(kept.name)) for name in lacking]
        elif kept.state == "running":
            for number, each in self.work_of_step():
                if each.state == "ordered":
                    effects += self.orders(number, each)
        elif kept.state != "aborting":
            effects += [Send(name, Disengage(kept.name)) for name in sorted(self.leaving) if self.is_reached(name)]
        return effects

    def too_late(self, now: float, timer: str) -> list[Effect]:
        kept = self.kept
        if kept is None:
            return []
        if timer == "leave":
            return self.let_go(self.leaving.copy())
        if kept.state == "engaging" and timer == "engage":
            silent = [name for name in self.brokers() if name not in self.engaged]
            return self.abort(now, f"no answer from {', '.join(silent)}; are they started, and their addresses known?")
        if kept.state == "running" and timer == "step":
            failed = [each for _, each in self.work_of_step() if each.state != "done"]
            why = failed[0].problem or "not all of its brokers have answered"
            return self.abort(now, f"{failed[0].action} of step {kept.step} was not done in time: {why}")
        return self.finish(now, "aborted") if kept.state == "aborting" and timer == "step" else []

    # Ends.

    def abort(self, now: float, problem: str) -> list[Effect]:
        kept = self.kept
        assert kept is not None
        kept.state, kept.problem = "aborting", problem[:TEXT_CHARS_MAX]
        if not self.is_waiting():
            return self.finish(now, "aborted")
        return [*self.keep(), CancelTimer("engage"), SetTimer("step", now + self.params.prepare_timeout)]

    def finish(self, now: float, state: str) -> list[Effect]:
        kept = self.kept
        assert kept is not None
        for each in kept.work:
            if each.state == "ordered":
                each.state, each.problem = "failed", "nobody knows; see the tree"
        kept.state, kept.ended_at = state, now
        self.leaving = set(self.brokers())
        told: list[Effect] = [Send(name, Disengage(kept.name)) for name in self.brokers() if self.is_reached(name)]
        notes: list[Effect] = [PlanExecuted(now - kept.began_at)] if state == "done" else []
        timers: list[Effect] = [
            CancelTimer("step"),
            CancelTimer("engage"),
            SetTimer("leave", now + self.params.engage_timeout),
        ]
        return [*notes, *self.keep(), *timers, *told, self.tick(now)]

    def hear_disengaged(self, sender: NodeId, message: Disengaged) -> list[Effect]:
        if self.kept is None or message.plan != self.kept.name or self.is_busy or sender not in self.leaving:
            return []
        return self.let_go({sender})

    def let_go(self, names: set[NodeId]) -> list[Effect]:
        self.leaving -= names
        return [LinkUnwanted(name, DEPLOYER) for name in sorted(names) if name != self.node_id]

    def keep(self) -> list[Effect]:
        return [Save(KEPT, msgspec.json.encode(self.kept))] if self.params.is_durable else []

    # What others may look at.

    def plan_rows(self, now: float) -> Iterator[PlanRow]:
        if self.kept is not None:
            kept = self.kept
            yield PlanRow(
                plan=kept.name,
                state=kept.state,
                step=kept.step,
                steps=len(kept.plan.steps),
                actions_done=sum(each.state == "done" for each in kept.work),
                actions=len(kept.work),
                began_at=kept.began_at,
                seconds=(now if kept.ended_at is None else kept.ended_at) - kept.began_at,
                problem=kept.problem,
            )

    def action_rows(self) -> Iterator[PlannedActionRow]:
        for number, each in enumerate(self.kept.work if self.kept else ()):
            yield PlannedActionRow(
                number=number, step=each.step, action=str(each.action), state=each.state, problem=each.problem
            )

    def path_rows(self) -> Iterator[CoordinationRow]:
        """The paths under which the source keeps the same in ZooKeeper (3.5.4)."""
        for number, each in enumerate(self.kept.work if self.kept else ()):
            yield CoordinationRow(path=f"/itt/plan/steps/{each.step}/{number}", data=f"{each.action} {each.state}")
            if each.state == "ordered":
                for name in each.action.brokers:
                    said = each.reported.get(name)
                    status = "pending" if said is None else "successful" if said else "error"
                    yield CoordinationRow(path=f"/itt/brokers/{name}", data=str(each.action))
                    yield CoordinationRow(path=f"/itt/brokers/{name}/status", data=status)
