"""A repair that waits: what a lost neighbour wanted is taken back only after a while (dynamic-topologies.md 3.4).

It stands here to keep the seam of repairs honest: a deferring repair needs nothing but what `repairs.py` names.
"""

from typing import ClassVar

from tidings.machine.effects import CancelTimer, Effect, SetTimer
from tidings.machine.inputs import TimerKey
from tidings.machine.message import Message
from tidings.model.identity import NodeId
from tidings.protocols.routing.links import NeighbourLink
from tidings.protocols.routing.subscriptions import RoutingSubscriptions
from tidings.protocols.routing.tables import Ghost
from tidings.pubsub.signals import Level, NeighbourReplaced


class TimedRepair:
    needs: ClassVar[Level] = Level.LINKS
    messages: ClassVar[tuple[type[Message], ...]] = ()
    rests: ClassVar[bool] = False
    unsubscribe_after = 1.0

    def __init__(self, subscriptions: RoutingSubscriptions) -> None:
        self.subscriptions = subscriptions

    def lost(self, now: float, ghost: Ghost, effects: list[Effect]) -> None:
        if self.subscriptions.links:
            self.subscriptions.defer(now, ghost, effects)
            effects.append(SetTimer(("unsubscribe", ghost), now + self.unsubscribe_after))
            return
        # Nobody is left to be told: whoever comes must not hear of what nobody wants.
        self.subscriptions.withdraw(now, ghost.lost, effects)
        for older in list(self.subscriptions.tables.ghosts):
            self.subscriptions.release(now, older, effects)
            effects.append(CancelTimer(("unsubscribe", older)))

    def up(self, now: float, link: NeighbourLink) -> list[Effect]:
        return []

    def told(self, now: float, link: NeighbourLink) -> list[Effect]:
        return []

    def replaced(self, now: float, replaced: NeighbourReplaced) -> list[Effect]:
        return []

    def receive(self, now: float, sender: NodeId, message: Message) -> list[Effect]:
        return []

    def fired(self, now: float, key: TimerKey) -> list[Effect]:
        effects: list[Effect] = []
        match key:
            case ("unsubscribe", Ghost() as ghost):
                self.subscriptions.release(now, ghost, effects)
        return effects

    def check(self) -> None:
        assert self.subscriptions.links or not self.subscriptions.tables.ghosts, "nobody is there to wait for"
