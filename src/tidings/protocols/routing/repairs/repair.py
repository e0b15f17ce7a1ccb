"""Repairing the tables when a link is lost, and when another takes its place.

The one rule (`router.py`) makes the tables right whatever happens, and the simplest way to apply it to a lost link is
to forget at once what the neighbour wanted (`strawman.py`). But links are lost to be replaced: then most of what is
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

from typing import ClassVar, Protocol

from tidings.machine.effects import Effect
from tidings.machine.inputs import TimerKey
from tidings.machine.message import Message
from tidings.model.identity import NodeId
from tidings.protocols.routing.links import NeighbourLink
from tidings.protocols.routing.tables import Ghost
from tidings.pubsub.signals import Level, NeighbourReplaced


class Repair(Protocol):
    """Made from the `Subscriptions` of its router, through which it sees the tables and the links."""

    needs: ClassVar[Level]
    messages: ClassVar[tuple[type[Message], ...]]

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
