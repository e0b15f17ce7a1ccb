"""The two repairs that need to know nothing but that a neighbour came or went, and send nothing of their own.

Source: dynamic-topologies.md 3.3.
"""

from typing import ClassVar

from tidings.machine.effects import Effect
from tidings.machine.inputs import Input, Signal, TimerKey
from tidings.machine.message import Message
from tidings.model.identity import NodeId
from tidings.protocols.routing.links import NeighbourLink
from tidings.protocols.routing.subscriptions import RoutingSubscriptions
from tidings.protocols.routing.tables import Ghost
from tidings.pubsub.signals import Level, NeighbourReplaced


class Strawman:
    """STRAWMAN: a lost neighbour has taken back everything, a new one is told everything.

    The baseline beside every cleverer repair. It keeps nothing, so there is never a ghost and INV-R1 holds after every
    step. It is right after any changes in any order. Its price: when a link is replaced, most filters of one side are
    removed on their whole way and added again a moment later.
    """

    needs: ClassVar[Level] = Level.LINKS
    messages: ClassVar[tuple[type[Message], ...]] = ()
    hears: ClassVar[tuple[type, ...]] = ()
    tells: ClassVar[tuple[type[Signal], ...]] = ()
    rests: ClassVar[bool] = False

    def __init__(self, subscriptions: RoutingSubscriptions) -> None:
        self.subscriptions = subscriptions

    def lost(self, now: float, ghost: Ghost, effects: list[Effect]) -> None:
        self.subscriptions.withdraw(now, ghost.lost, effects)

    def up(self, now: float, link: NeighbourLink) -> list[Effect]:
        return []

    def told(self, now: float, link: NeighbourLink) -> list[Effect]:
        return []

    def replaced(self, now: float, replaced: NeighbourReplaced) -> list[Effect]:
        """The ends of the new link hear of it by NeighbourUp; that is enough."""
        return []

    def receive(self, now: float, sender: NodeId, message: Message) -> list[Effect]:
        return []

    def hear(self, now: float, input: Input) -> list[Effect]:
        return []

    def parted(self, now: float, neighbour: NodeId) -> list[Effect]:
        return []

    def stands_in(self, neighbour: NodeId) -> NeighbourLink | None:
        return None

    def fired(self, now: float, key: TimerKey) -> list[Effect]:
        return []

    def check(self) -> None:
        assert not self.subscriptions.tables.ghosts, "a ghost of a neighbour whose loss was settled"


class Resuming(Strawman):
    """A lost neighbour may come back: what it wants stays told for `rest_for` seconds, and so does what it was told.

    The default. Like STRAWMAN it needs to know nothing of a change but that a neighbour came or went, and it is right
    after any changes in any order, once those who do not come back are forgotten. A link that is back costs what has
    changed meanwhile. Its price: until then events go to where a lost neighbour wanted them, and are dropped there; as
    many of them at most as there are filters to be told again, unless the time is fixed (`rest_patience.py`).
    """

    rests: ClassVar[bool] = True
