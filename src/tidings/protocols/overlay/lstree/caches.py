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


class GlobalCache:
    """`GlobalCache("b", 10, rng)`: at most ten, never `b` itself; when it is full, a new contact takes the place of one
    that is drawn.

    Who does not answer is *former*: of no use to a search, but perhaps only out of reach. Roots ask some of them now
    and then, so that a network that was cut in two for any time finds together again."""

    def __init__(self, node_id: NodeId, size: int, rng: RandomStream) -> None:
        self.node_id, self.size, self.rng = node_id, size, rng
        self.entries: dict[NodeId, Contact] = {}
        self.former: dict[NodeId, Contact] = {}
        """Who fell silent longest ago comes first."""

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

    def silent(self, contact: Contact) -> None:
        """It does not answer."""
        node = contact.node
        known = self.entries.pop(node, contact)
        self.former.pop(node, None)
        self.former[node] = known
        if len(self.former) > FORMER_FACTOR * self.size:
            del self.former[next(iter(self.former))]

    def draw_former(self, count: int) -> list[Contact]:
        return self.rng.sample(list(self.former.values()), count)

    def draw(self, count: int) -> list[Contact]:
        return self.rng.sample(list(self.entries.values()), count)
