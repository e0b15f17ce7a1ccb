"""How a broker of a spanning tree that is going to be stopped comes to be a leaf of it, where other links allow that.

The idea. It says that it is farther from the root than it is, by `DRAINED_HOPS`, so that whoever has another way to the
root takes that, and who has none stays. Nobody takes an offer that is worse than what he told himself: it might be
his own come round; so the root is asked to raise its sequence, under which all distances are new. A root gives way: it
takes itself for the youngest broker, and another one becomes the root.

Every change of the broker above costs a round trip in which the link is in neither place; what is promised is asked for
behind it, as after any break. Whoever is the only way between others cannot become a leaf: that is told by who waits.

Timer. "drain": it is no leaf yet, and asks again, `TRIES_MAX` times.
"""

from typing import TYPE_CHECKING

from tidings.machine.effects import CancelTimer, Effect, Send, SetTimer
from tidings.model.bounds import VERSION_MAX
from tidings.protocols.overlay.messages import RenewTree

if TYPE_CHECKING:
    from tidings.protocols.overlay.spanning_tree import SpanningTree

DRAINED_HOPS = 32
"""More than the ways around it are longer in any network that is likely; far less than `distance_max`."""

TRIES_MAX = 5
TRY_AGAIN = 1.0
"""How often the root is asked, and seconds between two times."""


class SpanningDrain:
    def __init__(self, tree: "SpanningTree") -> None:
        self.tree = tree
        self.is_on = False
        self.tries = 0

    def distance(self, distance: int) -> int:
        """What is said; a root has none."""
        if not self.is_on or distance == 0:
            return distance
        return max(distance, min(distance + DRAINED_HOPS, self.tree.params.distance_max - 1))

    def change(self, now: float, is_on: bool) -> list[Effect]:
        if is_on == self.is_on:
            return []
        self.is_on, self.tries = is_on, 0
        told = self.tree.tell_offer()
        return [*told, *self.go_on(now)] if is_on else [*told, CancelTimer("drain")]

    def go_on(self, now: float) -> list[Effect]:
        tree = self.tree
        if len(tree.neighbours) < 2 or self.tries >= TRIES_MAX:
            return []
        self.tries += 1
        again = SetTimer("drain", now + TRY_AGAIN)
        if tree.parent is not None:
            root, sequence = tree.root, min(tree.sequence + 1, VERSION_MAX - 1)
            return [Send(tree.parent, RenewTree(*root, sequence)), again]
        tree.own = now + tree.params.clock_offset, tree.node_id
        return [*tree.review(now), again]
