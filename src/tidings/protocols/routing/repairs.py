"""Repairing the tables when a link is lost, and when another takes its place.

The one rule (`router.py`) makes the tables right whatever happens, and the simplest way to apply it to a lost link is
to forget at once what the neighbour wanted (STRAWMAN). But links are lost to be replaced: then most of what is
taken back everywhere on one side is told again a moment later. The published alternatives wait, or find out what may
stay. They all work on the same four things, and a repair is a class in a file of its own that uses those it needs:

    ghosts          `subscriptions.defer` turns what a lost neighbour wants into a ghost's: it is not told anew to
                    anybody and not taken back from anybody, until `subscriptions.release`
    holding back    `link.holds_back` keeps filters from being told on a new link, until the repair clears it and calls
                    `subscriptions.reconcile_link`
    messages        its own, named in `messages`; only these are heard from nodes that are no neighbours, too
    timers          its own, under names that are tuples, such as ("unsubscribe", ghost)

What the overlay must tell for it is its level, `needs`; `check_level` refuses a repair on an overlay that tells less,
since it would not fail at once but lose events at the first change of a link.

Advertisements are withdrawn at once whatever the repair: publications are taken from one neighbour only, and delivery
must hear at once that something may have been lost.

Source: dynamic-topologies.md 2.3 (levels), 3.2.2 (ghosts), 3.3 to 3.8.
"""

from collections.abc import Callable
from typing import ClassVar, Protocol

from tidings.machine.effects import Effect
from tidings.machine.inputs import TimerKey
from tidings.machine.message import Message
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.protocols.routing.links import NeighbourLink
from tidings.protocols.routing.params import RepairName
from tidings.protocols.routing.subscriptions import RoutingSubscriptions
from tidings.protocols.routing.tables import Ghost
from tidings.pubsub.signals import Level, NeighbourReplaced


class Repair(Protocol):
    """Made from the subscriptions of its router, through which it sees the tables, the links and (`state.params`) the
    parameters."""

    needs: ClassVar[Level]
    messages: ClassVar[tuple[type[Message], ...]]
    rests: ClassVar[bool]
    """Whether a lost neighbour is remembered for a while (`rests.py`). Then `lost` is never called."""

    def __init__(self, subscriptions: RoutingSubscriptions) -> None: ...

    def lost(self, now: float, ghost: Ghost, effects: list[Effect]) -> None:
        """Nothing will come from the neighbour `ghost.lost` any more, and it is no neighbour. When this returns it
        wants nothing: `subscriptions.withdraw(now, ghost.lost, effects)`, or `defer` with the ghost as it is."""
        ...

    def up(self, now: float, link: NeighbourLink) -> list[Effect]:
        """There is a new neighbour, and nothing has been told to it."""
        ...

    def told(self, now: float, link: NeighbourLink) -> list[Effect]:
        """All filters and advertisements were sent to a new neighbour; what is sent now comes behind them."""
        ...

    def replaced(self, now: float, replaced: NeighbourReplaced) -> list[Effect]:
        """The overlay knows which link takes the place of one that `lost` was told of."""
        ...

    def receive(self, now: float, sender: NodeId, message: Message) -> list[Effect]:
        """One of `messages`. The sender may be no neighbour; the link that it names may be gone."""
        ...

    def fired(self, now: float, key: TimerKey) -> list[Effect]: ...

    def check(self) -> None: ...


class Strawman:
    """STRAWMAN: a lost neighbour has taken back everything, a new one is told everything.

    The baseline beside every cleverer repair. It needs to know nothing of a change but that a neighbour came or went,
    sends no message of its own and keeps nothing, so there is never a ghost and INV-R1 holds after every step. It is
    right after any changes in any order. Its price: when a link is replaced, most filters of one side are removed on
    their whole way and added again a moment later.

    Source: dynamic-topologies.md 3.3.
    """

    needs: ClassVar[Level] = Level.LINKS
    messages: ClassVar[tuple[type[Message], ...]] = ()
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

    def fired(self, now: float, key: TimerKey) -> list[Effect]:
        return []

    def check(self) -> None:
        assert not self.subscriptions.tables.ghosts, "a ghost of a neighbour whose loss was settled"


class Resuming(Strawman):
    """A lost neighbour may come back: what it wants stays told for `rest_for` seconds, and so does what it was told.

    The default. Like STRAWMAN it needs to know nothing of a change but that a neighbour came or went, and it is right
    after any changes in any order, once those who do not come back are forgotten. A link that is back costs what has
    changed meanwhile. Its price: until then events go to where a lost neighbour wanted them, and are dropped there.
    """

    rests: ClassVar[bool] = True


MakeRepair = Callable[[RoutingSubscriptions], Repair]

REPAIRS: dict[RepairName, type[Repair]] = {"strawman": Strawman, "resuming": Resuming}

TELLS = {
    Level.LINKS: "when neighbours come and go",
    Level.REPLACEMENTS: "which new link replaces which old one",
    Level.PATHS: "all brokers between an old link and the new one",
}


def check_level(repair: Repair, overlay: str, level: Level) -> None:
    """UsageError where the repair needs to know what the overlay of that name and level cannot tell (D-7)."""
    if repair.needs > level:
        fitting = ", ".join(name for name, known in REPAIRS.items() if known.needs <= level)
        raise UsageError(
            f"repair: {type(repair).__name__} needs to know {TELLS[repair.needs]} (level {repair.needs.name}), and "
            f"overlay {overlay} tells only {TELLS[level]} ({level.name}); with it use one of: {fitting}"
        )
