"""The agent: a broker's own part in a plan.

It follows one deployer at a time. An *engagement* ends when the deployer says so, or has been gone for longer than it
would wait for a step. An order names an action and its brokers; what the broker is to do follows from its place among
them and from its neighbours as they are: who has already the neighbours that the action gives it has done its part,
whoever asks and however often. So an order may be repeated, by a deployer that has started again too, and an action
that was cut short in the middle is gone on with from whatever came of it.

    shift(i, j, k)    i asks j and k to be ready (`Prepare`), has its overlay ask for the link to k, and leaves the rest
                      to routing; j and k take part when both their deployer and i have told them
    append(i, j)      i asks for the link; both have done it when they are neighbours
    detach(i, j)      i lets go of it; both have done it when they are none

What is done is reported when it would survive a crash (`NeighboursKept`), since the deployer builds upon it. A failure
is reported, and forgotten: the next order begins anew. State: the engagement, the action under way, those that are
done and not kept. Timers: "again" while there is one, "lapse" for a deployer that is gone.
"""

from collections.abc import Callable, Iterable

import msgspec

from tidings.machine.effects import CancelTimer, Effect, Send, SetTimer
from tidings.machine.message import Contact
from tidings.model.bounds import ACTION_BROKERS_MAX, NAME_CHARS_MAX
from tidings.model.identity import NodeId
from tidings.protocols.coordination.messages import (
    ActionOrder,
    ActionReported,
    Disengage,
    Disengaged,
    Engage,
    Engaged,
    Prepare,
    Prepared,
)
from tidings.protocols.coordination.params import CoordinationParams
from tidings.pubsub.signals import (
    KeepNeighbours,
    LinkUnwanted,
    LinkWanted,
    NeighbourUnwanted,
    NeighbourWanted,
    ShiftBegun,
    ShiftOver,
    ShiftStopped,
)

AGENT = "plan"
"""Under which name it asks access for links."""

SHIFT = "shift:"
"""With what the names of shifts begin; routing knows them by it (`routing/repairs/shift.py`)."""

NOT_STEERED = "its neighbours are not for a plan to say; it needs overlay kind 'scripted' and routing repair 'shift'"
NOT_DEPLOYER = "is not one of those whose orders are followed here (coordination.deployers)"


class OrderedAction(msgspec.Struct):
    """The action under way here."""

    plan: str
    number: int
    operation: str
    brokers: tuple[Contact, ...]
    shift: str = ""
    """The name of the shift, when it is known."""
    ends_at: float = 0.0
    prepared: set[NodeId] = msgspec.field(default_factory=set)
    is_begun: bool = False
    """Whether routing has been told."""

    @property
    def names(self) -> tuple[NodeId, ...]:
        return tuple(each.node for each in self.brokers)


class PlanAgent:
    def __init__(
        self,
        node_id: NodeId,
        params: CoordinationParams,
        neighbours: Callable[[], Iterable[NodeId]],
        is_steered: bool,
        is_kept: Callable[[], bool] = lambda: True,
    ) -> None:
        self.node_id, self.params, self.neighbours, self.is_steered = node_id, params, neighbours, is_steered
        self.is_kept = is_kept
        self.unkept: dict[int, OrderedAction] = {}
        """Those that are done, and not on the disk: not reported yet."""
        self.plan = ""
        self.deployer: NodeId = ""
        self.action: OrderedAction | None = None
        self.done: set[int] = set()
        """Actions of the plan that are done here: a link that gives way to another is there for a moment longer."""
        self.asked: dict[tuple[str, int], tuple[NodeId, Prepare]] = {}
        """Shifts for which somebody asks us to be ready, and nobody has ordered them yet."""
        self.peers: set[NodeId] = set()

    def start(self) -> None:
        self.plan, self.deployer, self.action = "", "", None
        self.unkept.clear()
        self.done.clear()
        self.asked.clear()
        self.peers.clear()

    # The deployer.

    def engage(self, sender: NodeId, message: Engage) -> list[Effect]:
        problem = ""
        if not self.is_steered:
            problem = NOT_STEERED
        elif self.params.deployers is not None and sender not in self.params.deployers:
            problem = f"{sender} {NOT_DEPLOYER}"
        elif self.plan and (self.plan, self.deployer) != (message.plan, sender):
            problem = f"it takes part in plan {self.plan!r} of {self.deployer}; abort that, or wait until it is over"
        if problem:
            return [Send(sender, Engaged(message.plan, (), problem))]
        if self.plan != message.plan:
            self.unkept.clear()
            self.done.clear()
        self.plan, self.deployer = message.plan, sender
        here = tuple(self.neighbours())[:ACTION_BROKERS_MAX]
        return [CancelTimer("lapse"), Send(sender, Engaged(message.plan, here, ""))]

    def disengage(self, sender: NodeId, message: Disengage) -> list[Effect]:
        effects: list[Effect] = []
        if (message.plan, sender) == (self.plan, self.deployer):
            effects += self.stop("the plan is over")
            self.plan = self.deployer = ""
        return [*effects, Send(sender, Disengaged(message.plan))]

    def peer_up(self, broker: NodeId) -> list[Effect]:
        self.peers.add(broker)
        action = self.action
        if action is None or not action.shift or action.is_begun or action.names[0] != self.node_id:
            return []
        return self.ask(action)

    def peer_down(self, now: float, broker: NodeId) -> list[Effect]:
        self.peers.discard(broker)
        effects: list[Effect] = []
        action = self.action
        if action is not None and action.operation == "shift" and not action.is_begun and broker in action.names:
            # One that was just let go may have to come back, and does so at once.
            action.prepared.discard(broker)
            action.ends_at = min(action.ends_at, now + 2 * self.params.ask_again_after)
        if broker == self.deployer:
            effects.append(SetTimer("lapse", now + 2 * self.params.step_timeout))
        return effects

    def lapse(self) -> list[Effect]:
        if not self.deployer or self.deployer in (*self.peers, self.node_id):
            return []
        effects = self.stop("its deployer is gone")
        self.plan = self.deployer = ""
        return effects

    # Orders.

    def order(self, now: float, sender: NodeId, order: ActionOrder) -> list[Effect]:
        if (order.plan, sender) != (self.plan, self.deployer):
            return [Send(sender, ActionReported(order.plan, order.number, False, "it takes no part in this plan"))]
        action = OrderedAction(order.plan, order.number, order.operation, order.brokers)
        action.ends_at = now + self.params.prepare_timeout
        expected = 3 if order.operation == "shift" else 2
        if self.node_id not in action.names or len(set(action.names)) != expected:
            return [self.reported(action, "it takes no part in this action")]
        if action.number in self.done or self.is_done(action):
            if self.action is None or self.action.number != action.number:
                return self.report_when_kept(action)
            return []
        if self.action is not None:
            if self.action.number == order.number:
                return []
            return [self.reported(action, f"action {self.action.number} is under way")]
        if problem := self.problem_of(action):
            return [self.reported(action, problem)]
        self.action = action
        return [SetTimer("again", now + self.params.ask_again_after), *self.begin(now, action)]

    def is_done(self, action: OrderedAction) -> bool:
        here, names = set(self.neighbours()), action.names
        place = names.index(self.node_id)
        if action.operation == "shift":
            mover, old, new = names
            return ((new in here and old not in here), mover not in here, mover in here)[place]
        return (names[1 - place] in here) == (action.operation == "append")

    def problem_of(self, action: OrderedAction) -> str:
        here, names = set(self.neighbours()), action.names
        place = names.index(self.node_id)
        if action.operation == "shift":
            lacks = [name for name in ((names[1],), (names[0], names[2]), (names[1],))[place] if name not in here]
            if lacks:
                return f"{', '.join(lacks)} is no neighbour of {self.node_id} now"
        gains = {"shift": place != 1, "append": True, "detach": False}[action.operation]
        if gains and len(here) >= self.params.neighbours_max:
            return f"{self.node_id} has {len(here)} neighbours, and may have no more (coordination.neighbours_max)"
        return ""

    def begin(self, now: float, action: OrderedAction) -> list[Effect]:
        first, second = action.brokers[:2]
        if action.operation == "append":
            return [NeighbourWanted(second)] if first.node == self.node_id else []
        if action.operation == "detach":
            return [NeighbourUnwanted(second.node)] if first.node == self.node_id else []
        if first.node == self.node_id:
            # Another name for each attempt, also of one who has started again.
            action.shift = f"{SHIFT}{int(now * 1000)}:{action.number}:{action.plan}"[:NAME_CHARS_MAX]
            return [LinkWanted(action.brokers[2], AGENT), *self.ask(action)]
        waiting = self.asked.pop((action.plan, action.number), None)
        return [] if waiting is None else self.prepare(waiting[0], waiting[1])

    def begun(self, action: OrderedAction) -> ShiftBegun:
        mover, old, new = action.names
        return ShiftBegun(action.shift, mover, old, new, self.params.prepare_timeout)

    def ask(self, action: OrderedAction) -> list[Effect]:
        """Have the others be ready; also who has been, and may have given it up since."""
        prepare = Prepare(action.shift, action.plan, action.number)
        return [Send(name, prepare) for name in action.names[1:] if name in self.peers]

    def prepare(self, sender: NodeId, message: Prepare) -> list[Effect]:
        action = self.action
        if action is None or (action.plan, action.number) != (message.plan, message.number):
            self.asked = {(message.plan, message.number): (sender, message)}
            return []
        if sender != action.names[0] or action.operation != "shift" or self.node_id == sender:
            return []
        if action.shift == message.shift:
            return [Send(sender, Prepared(message.shift, ""))]
        # An earlier attempt is one that the other has given up.
        stopped: list[Effect] = [ShiftStopped(action.shift, "another attempt begins")] if action.is_begun else []
        action.shift, action.is_begun = message.shift, True
        begun = self.begun(action)
        return [*stopped, begun, Send(sender, Prepared(message.shift, ""))]

    def prepared(self, sender: NodeId, message: Prepared) -> list[Effect]:
        action = self.action
        if action is None or action.shift != message.shift or action.names[0] != self.node_id or action.is_begun:
            return []
        action.prepared.add(sender)
        if not action.prepared >= set(action.names[1:]):
            return []
        action.is_begun = True
        begun = self.begun(action)
        return [begun, NeighbourWanted(action.brokers[2], action.shift)]

    # How it goes on.

    def again(self, now: float) -> list[Effect]:
        action = self.action
        if action is None:
            return []
        if action.operation != "shift" and self.is_done(action):
            return self.end("")
        if not action.is_begun and self.is_done(action):
            # It was done before we started again; if we are wrong, because the mover is gone, we are ordered anew.
            self.action = None
            return [CancelTimer("again"), *(self.report_when_kept(action) if self.deployer else [])]
        if not action.is_begun and now >= action.ends_at:
            return self.end("the others were not ready in time")
        asked = self.ask(action) if action.operation == "shift" and action.names[0] == self.node_id else []
        return [*([] if action.is_begun else asked), SetTimer("again", now + self.params.ask_again_after)]

    def neighbours_changed(self) -> list[Effect]:
        action = self.action
        return self.end("") if action is not None and action.operation != "shift" and self.is_done(action) else []

    def shift_over(self, over: ShiftOver) -> list[Effect]:
        action = self.action
        if action is None or action.shift != over.shift:
            return []
        return self.end("" if over.is_done else over.problem or "the shift was given up")

    def end(self, problem: str) -> list[Effect]:
        action, self.action = self.action, None
        assert action is not None
        effects: list[Effect] = [CancelTimer("again")]
        if not problem:
            self.done.add(action.number)
        if action.operation == "shift" and action.names[0] == self.node_id:
            effects.append(LinkUnwanted(action.names[2], AGENT))
        if not self.deployer:
            return effects
        return [*effects, *([self.reported(action, problem)] if problem else self.report_when_kept(action))]

    def report_when_kept(self, action: OrderedAction) -> list[Effect]:
        if self.is_kept():
            return [self.reported(action)]
        self.unkept[action.number] = action
        return [KeepNeighbours()]

    def kept(self) -> list[Effect]:
        """All that is done would survive a crash."""
        unkept, self.unkept = self.unkept, {}
        return [self.reported(action) for action in unkept.values()] if self.deployer else []

    def stop(self, reason: str) -> list[Effect]:
        """What has begun and can be undone is; what is decided is finished by routing."""
        if self.action is None:
            return []
        stopped: list[Effect] = [ShiftStopped(self.action.shift, reason)] if self.action.is_begun else []
        return [*stopped, *self.end(reason)]

    def reported(self, action: OrderedAction, problem: str = "") -> Effect:
        return Send(self.deployer, ActionReported(action.plan, action.number, not problem, problem))
