"""Repairing the tables when a link is lost, and when another takes its place.

The one rule (`router.py`) makes the tables right whatever happens, and the simplest way to apply it to a lost link is
to forget at once what the neighbour wanted (STRAWMAN). But links are lost to be replaced: then most of what is
taken back everywhere on one side is told again a moment later. The alternatives wait, or find out what may stay:

    strawman    a lost neighbour has taken back everything                              `strawman.py`
    resuming    it is remembered for a while, in case that it comes back itself         `strawman.py`, `rests.py`
    timed       what it wanted is taken back a while later (TDU)                        `timed.py`
    notified    the same, or as soon as the new link has made up for it (NDU)           `notified.py`
    informed    besides, the ends of the new link hear what need not be told (ILA)      `informed.py`
    shift       as resuming; and a plan may put one link in the place of another, losing nothing   `shift.py`
    path        one message walks from the old link to the new and edits tables (RP)    `path.py`

They all work on the same five things, and a repair is a class in a file of its own that uses those it needs:

    ghosts          `subscriptions.defer` turns what a lost neighbour wants into a ghost's: it is not told anew to
                    anybody and not taken back from anybody, until `subscriptions.release`
    withholding     `link.is_withheld` keeps the walk through the filters from beginning on a new link, until the repair
                    clears it and calls `subscriptions.walk_on`
    holding back    `link.holds_back` keeps some filters from being told there, until the repair clears it and calls
                    `subscriptions.look_again`. Who waits for such a filter to be installed waits on
    messages        its own, named in `messages`; only these are heard from nodes that are no neighbours, too
    timers          its own, under names that are tuples, such as ("unsubscribe", ghost)

What the overlay must tell for it is its level, `needs`; `check_level` (`choice.py`) refuses a repair on an overlay that
tells less, since it would not fail at once but lose events at the first change of a link.

Advertisements are withdrawn at once whatever the repair: publications are taken from one neighbour only, and delivery
must hear at once that something may have been lost. What a new neighbour offers counts when it has been told
everything, held back or not: then the questions of delivery do not overtake the subscriptions.

Source: dynamic-topologies.md 2.3 (levels), 3.2.2 (ghosts), 3.3 to 3.8.
"""

from typing import ClassVar, Protocol

from tidings.machine.effects import Effect
from tidings.machine.inputs import Input, Signal, TimerKey
from tidings.machine.message import Message
from tidings.model.identity import NodeId
from tidings.protocols.routing.links import NeighbourLink
from tidings.protocols.routing.subscriptions import RoutingSubscriptions
from tidings.protocols.routing.tables import Ghost
from tidings.pubsub.signals import Level, NeighbourReplaced


class Repair(Protocol):
    """Made from the subscriptions of its router, through which it sees the tables, the links and (`state.params`) the
    parameters."""

    needs: ClassVar[Level]
    messages: ClassVar[tuple[type[Message], ...]]
    hears: ClassVar[tuple[type, ...]]
    tells: ClassVar[tuple[type[Signal], ...]]
    """Signals and requests of its own, as those of any part of a node."""
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

    def hear(self, now: float, input: Input) -> list[Effect]:
        """One of those it hears."""
        ...

    def parted(self, now: float, neighbour: NodeId) -> list[Effect]:
        """There is no neighbour of that name any more. If there is still a link to it afterwards, that is lost."""
        ...

    def stands_in(self, neighbour: NodeId) -> NeighbourLink | None:
        """The link to one that is no neighbour any more, while it still has to answer."""
        ...

    def fired(self, now: float, key: TimerKey) -> list[Effect]: ...

    def check(self) -> None: ...
