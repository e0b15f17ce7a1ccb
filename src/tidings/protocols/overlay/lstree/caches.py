"""Whom a broker of an LSTree knows: those around its place, and some anywhere.

The *Regional* cache is what the broker above tells: those above it, and those beside. It changes when that broker says
so and costs nothing while nobody comes or goes. The *Global* cache holds a few brokers of the whole tree, passed on now
and then and tried now and then. It is what is left when everybody nearby has failed at once.

Neither has to be up to date: whether somebody may go below somebody else is decided by the one who is asked, from what
the request says. Both are bounded. A contact is hearsay until a link to it is up; it is then that access proves the
name.

Source: dynamic-topologies.md 3.9.1, 3.9.9; D-88 to D-90.
"""

from collections.abc import Iterable

import msgspec

from tidings.machine.message import Contact
from tidings.machine.streams import RandomStream
from tidings.model.identity import NodeId, is_address, is_visitor


class RegionalCache(msgspec.Struct):
    ancestors: tuple[Contact, ...] = ()
    """The nearest first."""
    siblings: tuple[Contact, ...] = ()

    def clear(self) -> None:
        self.ancestors = self.siblings = ()

    def names(self) -> set[NodeId]:
        return {contact.node for contact in (*self.ancestors, *self.siblings)}


FORMER_FACTOR = 3
"""How many contacts that did not answer are remembered, for each that is kept."""

FORMER_FOR = 600.0
FORMER_KEPT = 2
"""Seconds for which all of them are, and how many after that: most of those who left long ago have left for good."""

LOST_LATELY = 120.0
"""Seconds in which somebody who fell silent may well be out of reach, and no more."""


class GlobalCache:
    """`GlobalCache("b", 10, rng)`: at most ten, never `b` itself; when it is full, a new contact takes the place of one
    that is drawn.

    Who does not answer is *former*: of no use to a search, but perhaps only out of reach. Roots ask some of them now
    and then, so that a network that was cut in two for any time finds together again. After a while all but a few of
    them are forgotten, so that brokers that left for good leave nothing behind."""

    def __init__(self, node_id: NodeId, size: int, rng: RandomStream) -> None:
        self.node_id, self.size, self.rng = node_id, size, rng
        self.entries: dict[NodeId, Contact] = {}
        self.former: dict[NodeId, tuple[str, float]] = {}
        """Where each listened and when it fell silent, who did so longest ago first."""

    def __contains__(self, node: NodeId) -> bool:
        return node in self.entries

    def add(self, contacts: Iterable[Contact]) -> bool:
        """Whether anything is new."""
        is_new = False
        for contact in contacts:
            node = contact.node
            if node == self.node_id or is_address(node) or is_visitor(node):
                continue
            if node in self.entries:
                if contact.address and contact != self.entries[node]:
                    self.entries[node], is_new = contact, True
                continue
            self.former.pop(node, None)
            if len(self.entries) >= self.size:
                del self.entries[self.rng.choice(list(self.entries))]
            self.entries[node], is_new = contact, True
        return is_new

    def silent(self, now: float, contact: Contact) -> None:
        """It does not answer."""
        node = contact.node
        known = self.entries.pop(node, contact)
        if node not in self.former:
            self.former[node] = known.address, now
        self.forget_former(now)

    def forget_former(self, now: float) -> None:
        while self.former:
            node, (_, silent_at) = next(iter(self.former.items()))
            is_old = now > silent_at + FORMER_FOR and len(self.former) > FORMER_KEPT
            if not is_old and len(self.former) <= FORMER_FACTOR * self.size:
                return
            del self.former[node]

    def has_lost_lately(self, now: float) -> bool:
        return any(now < silent_at + LOST_LATELY for _, silent_at in self.former.values())

    def draw_former(self, count: int) -> list[Contact]:
        return self.rng.sample([Contact(node, address) for node, (address, _) in self.former.items()], count)

    def draw(self, count: int) -> list[Contact]:
        return self.rng.sample(list(self.entries.values()), count)
