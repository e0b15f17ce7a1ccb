"""The reference tree: the shape that all brokers want their tree to have, and where on a ring each of its nodes stands.

The nodes of the tree are labelled with keys, and keys are shared out among brokers on a ring: each has those from the
broker before it (exclusive) to itself (inclusive), an `Arc`. A broker sits in the tree at the *topmost* of its keys,
the first in breadth-first order, and leaves its other keys to those above. So the tree of the brokers is the reference
tree with most of its nodes left out, and what is known of its shape carries over.

For the degree of brokers to stay small the labels have to lie well: of the children of a node at most one has a key
outside the interval between the node and its parent, and that one on the far side. Then a broker meets no more than two
arcs that are not its own below it. Here every subtree has a block of keys without holes. A node whose parent is to the
right has the block of one child, then its own key, then the blocks of the others; one whose parent is to the left the
same mirrored; the root half of them on each side. With two children that is the binary search tree.

Nothing is stored: a node of a tree with a million keys is found by going down from the root.

Source: dynamic-topologies.md 3.10.2, 3.10.5.
"""

from collections.abc import Iterable, Iterator

import msgspec

from tidings.model.errors import UsageError

KEYS_MAX = 2**40
"""A node is found in so many steps as there are levels, and keys go over the wire."""


class Arc(msgspec.Struct, frozen=True):
    """Keys behind `after`, up to and including `through`, around the end of the ring if need be; all of them where both
    are the same."""

    after: int
    through: int

    def __contains__(self, key: int) -> bool:
        if self.after < self.through:
            return self.after < key <= self.through
        return key > self.after or key <= self.through

    def meets(self, low: int, high: int) -> bool:
        """Whether one of these keys, from `low` to `high`, is in it."""
        return low in self or high in self or low <= self.through <= high

    def covers(self, low: int, high: int) -> bool:
        """Whether all of them are."""
        if self.after == self.through:
            return True
        return low in self and high in self and not (low <= self.after < high)


class ReferenceNode(msgspec.Struct, frozen=True):
    """A node, and the block of keys that its subtree has."""

    key: int
    low: int
    high: int
    before: int
    """How many of its children have their blocks in front of its own key."""


class ReferenceTree(msgspec.Struct, frozen=True):
    """`ReferenceTree(arity=2, levels=4)` has the keys 0 to 14, and 7 is its root."""

    arity: int = 2
    levels: int = 30

    def __post_init__(self) -> None:
        if self.arity < 2 or self.levels < 1 or self.block(0) > KEYS_MAX:
            raise UsageError(
                f"reference tree: arity {self.arity} with {self.levels} levels; use at least two children, one level, "
                f"and at most {KEYS_MAX} keys"
            )

    @property
    def keys(self) -> int:
        return self.block(0)

    def block(self, depth: int) -> int:
        """How many keys a subtree has whose uppermost node is so deep."""
        return int((self.arity ** (self.levels - depth) - 1) // (self.arity - 1))

    @property
    def root(self) -> ReferenceNode:
        before = self.arity // 2
        return ReferenceNode(before * self.block(1), 0, self.keys - 1, before)

    def children(self, node: ReferenceNode) -> list[ReferenceNode]:
        size = (node.high - node.low) // self.arity
        if not size:
            return []
        inner = (size - 1) // self.arity
        found = []
        for place in range(self.arity):
            is_left = place < node.before
            low = node.low + place * size + (0 if is_left else 1)
            before = 1 if is_left else self.arity - 1
            found.append(ReferenceNode(low + before * inner, low, low + size - 1, before))
        return found

    def way_to(self, key: int) -> list[ReferenceNode]:
        """From the root down to the node with this key."""
        way = [self.root]
        while way[-1].key != key:
            way.append(next(child for child in self.children(way[-1]) if child.low <= key <= child.high))
        return way

    def is_above(self, key: int, other: int) -> bool:
        """Whether the node with this key is on the way to the other one's."""
        return key != other and any(node.key == key for node in self.way_to(other))

    def topmost(self, arc: Arc) -> int:
        """The first of these keys in breadth-first order."""
        level: Iterable[ReferenceNode] = (self.root,)
        while True:
            met = [node for node in level if arc.meets(node.low, node.high)]
            for node in met:
                if node.key in arc:
                    return node.key
            # An arc that has no key of a level lies within few of its blocks: one that has a whole block has its key.
            level = [child for node in met for child in self.children(node)]

    def nodes(self) -> Iterator[ReferenceNode]:
        """All of them, breadth first; for trees that are small."""
        level = [self.root]
        while level:
            yield from level
            level = [child for node in level for child in self.children(node)]
