"""The place of a peer in the tree of one feed, and all of these together.

A tree has its publisher at the root and only readers in it. What keeps it sane is one rule: everybody is nearer to the
publisher than its children (`key`; equal distances are told apart by name, and the root is nearer than anybody). So no
tree ever contains a circle, however many join, leave and fail at once.
"""

from collections.abc import Iterable

import msgspec

from tidings.machine.message import Place
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.protocols.feeds.messages import Purpose
from tidings.protocols.feeds.own import OwnStanding
from tidings.protocols.feeds.params import TreeParams
from tidings.protocols.feeds.update_log import UpdateLog
from tidings.pubsub.feeds import Ancestry, FeedId, RootPlace, distance

Key = tuple[float, NodeId]

ROOT_KEY: Key = (-1.0, "")


class TreeChild(msgspec.Struct):
    place: Place
    is_adopted: bool = False
    """Taken from one who left, whatever children there were."""


class Attempt(msgspec.Struct):
    """To find a parent."""

    purpose: Purpose
    target: NodeId
    starts: list[NodeId]
    """Whom to ask if this leads nowhere."""
    hops: int = 0


class Tree:
    def __init__(self, feed: FeedId, publisher: NodeId, key: bytes, log: UpdateLog, is_fixed: bool) -> None:
        self.feed, self.publisher, self.signing_key, self.log = feed, publisher, key, log
        self.is_fixed = is_fixed
        """Whether the publisher was named by who subscribed, and is not for us to find or to replace."""
        self.reign = 0
        self.root_place: Place = ()
        self.parent: NodeId = ""
        self.chain: tuple[NodeId, ...] = ()
        """From the parent up to the root; of before, where there is no parent."""
        self.children: dict[NodeId, TreeChild] = {}
        self.feeders: dict[NodeId, None] = {}
        """Who may still send us updates: parents, and earlier ones that have not let go."""
        self.attempt: Attempt | None = None
        self.failures = 0
        self.skips_rejoin = self.is_rejoin_set = False
        self.is_leaving = self.has_said_goodbye = False
        self.secondaries: tuple[NodeId, ...] = ()
        self.gap_tries = 0
        self.is_waiting_for_root = False

    @property
    def height(self) -> int:
        return len(self.chain)


class Grove:
    """All trees of a peer, and what is the same for them."""

    def __init__(self, own: OwnStanding, params: TreeParams) -> None:
        self.own, self.params = own, params
        self.trees: dict[FeedId, Tree] = {}

    def plant(self, feed: FeedId, publisher: NodeId, key: bytes) -> Tree:
        params = self.params
        if len(self.trees) >= params.feeds_max:
            raise UsageError(f"subscribe: {params.feeds_max} feeds are read already; give one up, or raise feeds_max")
        size = params.publisher_cache if publisher == self.own.node_id else params.cache
        tree = Tree(feed, publisher, key, UpdateLog(size, params.window), is_fixed=bool(publisher))
        self.trees[feed] = tree
        return tree

    def is_root(self, tree: Tree) -> bool:
        return tree.publisher == self.own.node_id

    def is_attached(self, tree: Tree) -> bool:
        return self.is_root(tree) or bool(tree.parent)

    def key(self, tree: Tree, node: NodeId, place: Place) -> Key:
        return ROOT_KEY if node == tree.publisher else (distance(place, tree.root_place), node)

    def own_key(self, tree: Tree) -> Key:
        return self.key(tree, self.own.node_id, self.own.place)

    def ancestry(self, tree: Tree) -> Ancestry:
        root = RootPlace(tree.publisher, tree.reign, tree.root_place)
        return Ancestry(tree.feed, root, tree.chain, tree.log.told)

    def feeds_below(self, parent: NodeId) -> tuple[FeedId, ...]:
        return tuple(feed for feed, tree in self.trees.items() if tree.parent == parent)

    def ancestries_for(self, child: NodeId, feeds: Iterable[FeedId]) -> tuple[Ancestry, ...]:
        """Of one that has lost its own parent the chain is of before: the child learns when there is a new one."""
        found = (self.trees.get(feed) for feed in dict.fromkeys(feeds))
        return tuple(self.ancestry(it) for it in found if it is not None and child in it.children and it.root_place)

    def check(self) -> None:
        params, own = self.params, self.own.node_id
        for tree in self.trees.values():
            limit = params.children_max + sum(child.is_adopted for child in tree.children.values())
            assert len(tree.children) <= limit, "more children than beta"
            assert own not in tree.children and own != tree.parent, "its own parent or child"
            assert not tree.parent or tree.parent in tree.feeders, "a parent that does not feed"
            assert not (self.is_root(tree) and tree.parent), "a root with a parent"
            assert tree.parent not in tree.children or not tree.parent, "parent and child at once"
            mine = self.own_key(tree) if tree.root_place and self.is_attached(tree) else None
            for node, child in tree.children.items():
                assert mine is None or mine < self.key(tree, node, child.place), "a child nearer to the root"
