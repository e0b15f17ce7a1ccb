"""Who is next to whom in the tree: worked out by each broker for itself from who owns which keys.

A broker sits at the topmost of its keys. Its parent is the owner of the nearest node above that is somebody's topmost
key; its children are found by going down until, on each way, a node is somebody's topmost key. All brokers that know
the same arcs come to the same tree: m is a child of n exactly when n is the parent of m (D-INV1), and together they
span all brokers (D-INV2).

Who owns a key may have to be asked for, elsewhere and one after the other. So the search works on what is known so
far and names the keys that it has to know besides; when it is told, it is made again. A subtree whose keys are all of
one owner is not entered: if its uppermost key is not the owner's topmost, none below it is.

Source: dynamic-topologies.md 3.10.3.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable

import msgspec

from tidings.model.identity import NodeId
from tidings.protocols.overlay.dhtree.reference import Arc, ReferenceTree


class KeyOwner(msgspec.Struct, frozen=True):
    """A broker and its keys. It stands on the ring at the last of them."""

    broker: NodeId
    arc: Arc


class KeyOwners:
    """Those that are known, by where they stand on the ring."""

    def __init__(self, reference: ReferenceTree, owners: Iterable[KeyOwner] = ()) -> None:
        self.reference = reference
        self.at: dict[int, KeyOwner] = {}
        self.keys: list[int] = []
        self.tops: dict[int, int] = {}
        for owner in owners:
            self.place(owner)

    def __len__(self) -> int:
        return len(self.at)

    def add(self, owner: KeyOwner) -> None:
        """In the place of whoever was known to stand there, or to have any of its keys."""
        for key in [key for key in self.keys if key in owner.arc]:
            self.remove(key)
        self.place(owner)

    def place(self, owner: KeyOwner) -> None:
        insort(self.keys, owner.arc.through)
        self.at[owner.arc.through] = owner
        self.tops[owner.arc.through] = self.reference.topmost(owner.arc)

    def remove(self, key: int) -> None:
        self.keys.remove(key)
        del self.at[key], self.tops[key]

    def of(self, key: int) -> KeyOwner | None:
        if not self.keys:
            return None
        # Whoever stands there or next behind it; at the end of the ring the first one.
        place = bisect_left(self.keys, key)
        owner = self.at[self.keys[place % len(self.keys)]]
        return owner if key in owner.arc else None

    def top(self, owner: KeyOwner) -> int:
        return self.tops[owner.arc.through]


class Places(msgspec.Struct, frozen=True):
    """Where a broker is in the tree, or the keys whose owners it has to know to say."""

    parent: KeyOwner | None = None
    children: tuple[KeyOwner, ...] = ()
    unknown: tuple[int, ...] = ()

    @property
    def neighbours(self) -> tuple[KeyOwner, ...]:
        return self.children if self.parent is None else (self.parent, *self.children)


def places_of(owners: KeyOwners, mine: KeyOwner) -> Places:
    """`mine` is among the owners."""
    reference, unknown = owners.reference, []
    way = reference.way_to(owners.top(mine))
    parent = None
    for above in reversed(way[:-1]):
        owner = owners.of(above.key)
        if owner is None:
            unknown.append(above.key)
            break
        if owners.top(owner) == above.key:
            parent = owner
            break
    children = []
    below = reference.children(way[-1])[::-1]
    while below:
        node = below.pop()
        owner = owners.of(node.key)
        if owner is None:
            unknown.append(node.key)
        elif owners.top(owner) == node.key:
            children.append(owner)
        elif not owner.arc.covers(node.low, node.high):
            below += reference.children(node)[::-1]
    return Places(parent, tuple(children), tuple(unknown))


def tree_of(reference: ReferenceTree, keys: dict[NodeId, int]) -> dict[NodeId, Places]:
    """The tree of brokers that stand at these keys, all of them known: the oracle, and the published setting."""
    owners = KeyOwners(reference, owners_of(keys))
    return {owner.broker: places_of(owners, owner) for owner in owners.at.values()}


def owners_of(keys: dict[NodeId, int]) -> list[KeyOwner]:
    around = sorted((key, broker) for broker, key in keys.items())
    before = [around[-1], *around]
    return [KeyOwner(broker, Arc(after, key)) for (key, broker), (after, _) in zip(around, before[:-1], strict=True)]
