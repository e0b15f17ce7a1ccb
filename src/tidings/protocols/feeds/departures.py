"""Leaving the tree of a feed so that nobody below misses anything.

The leaver's child that is nearest to the publisher takes its place: the parent adopts it, even if that is one child
more than it may have. The other children look for a place at that child. Until each has one, and says so, the leaver
goes on to forward, `leave_wait` seconds at most. Then it tells its own parent, and is gone when that has let go: until
then updates may be under way, and whoever gets one reads the feed (G-34), so nothing is noise.

A root that leaves hands the feed to the child nearest to it, where the feed has no publisher of its own.

Source: peer-to-peer.md 3D.6, G-34 (P-71, P-72).
"""

from tidings.machine.effects import CancelTimer, Drop, Effect, Send, SetTimer
from tidings.model.identity import NodeId
from tidings.protocols.feeds.joins import Joins
from tidings.protocols.feeds.messages import (
    AdoptChild,
    ParentLeft,
    ParentLet,
    RejoinAt,
    RootHanded,
)
from tidings.protocols.feeds.tree import Grove, Tree

NOT_A_CHILD = "speaks for a child, and is none"
NOT_THE_PARENT = "speaks as a parent, and is none"


class TreeDepartures:
    def __init__(self, grove: Grove, joins: Joins) -> None:
        self.grove, self.own, self.params, self.joins = grove, grove.own, grove.params, joins

    def leave(self, now: float, tree: Tree) -> list[Effect]:
        """Whether it is over is asked of `is_over`."""
        tree.is_leaving, tree.attempt = True, None
        effects: list[Effect] = [CancelTimer((name, tree.feed)) for name in ("join", "retry", "rejoin", "gap", "void")]
        effects.append(SetTimer(("left", tree.feed), now + self.params.leave_wait))
        if not tree.children:
            return [*effects, *self.let_go(tree)]
        heir = min(tree.children, key=lambda it: self.grove.key(tree, it, tree.children[it].place))
        place = tree.children[heir].place
        if self.grove.is_root(tree):
            if not tree.is_fixed:
                effects.append(Send(heir, RootHanded(self.own.versions, tree.feed, tree.reign + 1)))
        elif tree.parent:
            effects.append(Send(tree.parent, AdoptChild(self.own.versions, tree.feed, heir, place)))
        told = RejoinAt(self.own.versions, tree.feed, heir)
        return [*effects, *(Send(child, told) for child in tree.children if child != heir)]

    def let_go(self, tree: Tree) -> list[Effect]:
        """Nobody is served any more."""
        return [Send(feeder, ParentLeft(self.own.versions, tree.feed)) for feeder in tree.feeders]

    def is_over(self, tree: Tree) -> bool:
        return tree.is_leaving and not tree.children and not tree.feeders

    def time_is_up(self, now: float, tree: Tree) -> list[Effect]:
        """Children that have not gone find out for themselves; a parent that does not answer is asked once more."""
        tree.children.clear()
        if not tree.feeders:
            return []
        left = self.let_go(tree)
        if tree.has_said_goodbye:
            tree.feeders.clear()
            return left
        tree.has_said_goodbye = True
        return [*left, SetTimer(("left", tree.feed), now + self.params.join_timeout)]

    # Others leave.

    def child_left(self, sender: NodeId, message: ParentLeft) -> list[Effect]:
        tree = self.grove.trees.get(message.feed)
        let = Send(sender, ParentLet(self.own.versions, message.feed))
        if tree is None or sender not in tree.children:
            return [let]
        del tree.children[sender]
        effects: list[Effect] = [let, CancelTimer(("child", tree.feed, sender))]
        if tree.is_leaving and not tree.children:
            effects += self.let_go(tree)
        return effects

    def parent_let(self, sender: NodeId, message: ParentLet) -> None:
        tree = self.grove.trees.get(message.feed)
        if tree is not None and sender != tree.parent:
            tree.feeders.pop(sender, None)
        elif tree is not None and tree.is_leaving:
            tree.feeders.pop(sender, None)
            tree.parent = ""

    def adopt(self, now: float, sender: NodeId, message: AdoptChild) -> list[Effect]:
        tree, child = self.grove.trees.get(message.feed), message.child
        if tree is None or sender not in tree.children or child in (self.own.node_id, tree.parent, tree.publisher):
            return [Drop(message, NOT_A_CHILD)]
        if tree.is_leaving or not self.grove.is_attached(tree):
            # It finds a place by itself.
            return []
        if self.grove.key(tree, child, message.place) < self.grove.own_key(tree):
            return [Drop(message, NOT_A_CHILD)]
        return self.joins.accept(now, tree, child, message.place, is_adopted=True)

    def rejoin_at(self, now: float, sender: NodeId, message: RejoinAt) -> list[Effect]:
        tree = self.grove.trees.get(message.feed)
        if tree is None or sender != tree.parent or tree.is_leaving:
            return [Drop(message, NOT_THE_PARENT)]
        return self.joins.seek(now, tree, "repair", [message.node, *tree.chain[1:], tree.publisher])
