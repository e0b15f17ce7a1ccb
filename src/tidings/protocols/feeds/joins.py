"""Joining the tree of a feed: asking to be a child, and being asked to be a parent.

Asked by `j`, a node `i` of the tree has four answers, and each keeps the rule that parents are nearer to the publisher:

    a  j is nearer to the publisher than i      ask my parent
    b  there is room, or j is a child already   you are my child
    c  all my children are nearer than j        ask the one of them that is nearest to you
    d  some child is farther than j             you are my child, in the place of the farthest one, which is told to ask
                                                the child (j among them) that is nearest to it

Keys fall while a request climbs (a) and rise while it descends (c), so in a tree that stands still it ends. Where trees
change below it, a request is sent on `HOPS_MAX` times at most.

Who asks begins with the friends that read the feed, the nearest first, and asks the publisher only if none does. Who
lost its parent begins with the ancestors it knew, the nearest first. A parent is left only when there is a new one,
unless it has put us out; and after each change what was missed is pulled from the new one.

Source: peer-to-peer.md 3D.2, 3D.3, 3D.5, 3E (P-50 to P-63, P-66 to P-70, P-78, P-79).
"""

from collections.abc import Callable
from random import Random

from tidings.machine.effects import CancelTimer, Drop, Effect, Send, SetTimer
from tidings.machine.message import Place
from tidings.model.identity import NodeId
from tidings.protocols.feeds.messages import (
    ChangeParent,
    JoinAccepted,
    JoinDenied,
    JoinForwarded,
    ParentLeft,
    Purpose,
    TreeJoin,
    UpdatesAsked,
)
from tidings.protocols.feeds.params import HOPS_MAX
from tidings.protocols.feeds.tree import Attempt, Grove, Key, Tree, TreeChild
from tidings.pubsub.feeds import FeedId, JoinEnded, NodeMet, PeerWatched, RootWanted, distance

NOT_ASKED = "answers a request to join that was never made, or was given up"
CIRCLE = "would be above itself"
FRIENDS_ASKED_MAX = 6


class Joins:
    def __init__(self, grove: Grove, covering: Callable[[FeedId], list[NodeId]], rng: Random) -> None:
        self.grove, self.own, self.params = grove, grove.own, grove.params
        self.covering, self.rng = covering, rng

    # Being asked.

    def asked(self, now: float, sender: NodeId, join: TreeJoin) -> list[Effect]:
        grove, tree = self.grove, self.grove.trees.get(join.feed)
        if tree is None:
            return [Send(sender, JoinDenied(self.own.versions, join.feed))]
        if tree.is_leaving or not tree.root_place or not grove.is_attached(tree) or join.reign > tree.reign:
            # Whoever has no place itself, or knows of an earlier root only, gives none away.
            where = tree.parent if tree.is_leaving else tree.publisher
            return self.send_on(tree, sender, where if join.reign <= tree.reign else "")
        if join.reign < tree.reign and join.purpose == "rejoin":
            return self.send_on(tree, sender, tree.publisher)
        theirs = grove.key(tree, sender, join.place)
        if sender == tree.publisher:
            return [Drop(join, CIRCLE)]
        if grove.own_key(tree) > theirs:
            return self.send_on(tree, sender, tree.parent if tree.parent != sender else tree.publisher)
        children = tree.children
        if sender in children or len(children) < self.params.children_max:
            return self.accept(now, tree, sender, join.place)
        keys = {node: grove.key(tree, node, child.place) for node, child in children.items()}
        if all(key < theirs for key in keys.values()):
            return self.send_on(tree, sender, self.nearest(children, join.place))
        return self.replace(now, tree, sender, join.place, keys)

    def send_on(self, tree: Tree, sender: NodeId, node: NodeId) -> list[Effect]:
        if not node or node == self.own.node_id:
            return [Send(sender, JoinDenied(self.own.versions, tree.feed))]
        return [Send(sender, JoinForwarded(self.own.versions, tree.feed, node, tree.reign))]

    def nearest(self, children: dict[NodeId, TreeChild], place: Place) -> NodeId:
        return min(children, key=lambda node: (distance(children[node].place, place), node))

    def accept(self, now: float, tree: Tree, node: NodeId, place: Place, is_adopted: bool = False) -> list[Effect]:
        known = tree.children.get(node)
        is_extra = is_adopted and len(tree.children) >= self.params.children_max
        tree.children[node] = TreeChild(place, is_extra if known is None else known.is_adopted)
        ancestry = self.grove.ancestry(tree)
        accepted = JoinAccepted(self.own.versions, tree.feed, ancestry.root, ancestry.chain)
        return [Send(node, accepted), SetTimer(("child", tree.feed, node), now + self.params.silence_max)]

    def replace(self, now: float, tree: Tree, node: NodeId, place: Place, keys: dict[NodeId, Key]) -> list[Effect]:
        farthest = max(keys, key=lambda it: keys[it])
        evicted = tree.children.pop(farthest)
        accepted = self.accept(now, tree, node, place)
        where = self.nearest(tree.children, evicted.place)
        told = ChangeParent(self.own.versions, tree.feed, where)
        return [*accepted, Send(farthest, told), CancelTimer(("child", tree.feed, farthest))]

    # Asking.

    def seek(self, now: float, tree: Tree, purpose: Purpose, starts: list[NodeId]) -> list[Effect]:
        """Look for a parent, beginning at the first of these that answers."""
        skipped = (self.own.node_id, "", *tree.children)
        starts = [node for node in dict.fromkeys(starts) if node not in skipped]
        if not starts:
            return self.found_nobody(now, tree, purpose)
        tree.attempt = Attempt(purpose, starts[0], starts[1:])
        return self.ask(now, tree)

    def ask(self, now: float, tree: Tree) -> list[Effect]:
        attempt = tree.attempt
        assert attempt is not None
        join = TreeJoin(
            self.own.versions,
            tree.feed,
            self.own.place,
            tree.log.latest,
            tree.reign,
            attempt.hops,
            attempt.purpose,
        )
        return [Send(attempt.target, join), SetTimer(("join", tree.feed), now + self.params.join_timeout)]

    def starts(self, tree: Tree, is_direct: bool = False) -> list[NodeId]:
        friends = [] if is_direct else self.covering(tree.feed)[:FRIENDS_ASKED_MAX]
        return [*friends, tree.publisher]

    def repair(self, now: float, tree: Tree, ancestors: tuple[NodeId, ...]) -> list[Effect]:
        """The parent is gone, or has put us out: these are who may take us."""
        return self.seek(now, tree, "repair", [*ancestors, *self.starts(tree)])

    def next_start(self, now: float, tree: Tree) -> list[Effect]:
        attempt = tree.attempt
        assert attempt is not None
        starts = [node for node in attempt.starts if node not in tree.children]
        if not starts:
            return self.found_nobody(now, tree, attempt.purpose)
        tree.attempt = Attempt(attempt.purpose, starts[0], starts[1:])
        return self.ask(now, tree)

    def found_nobody(self, now: float, tree: Tree, purpose: Purpose) -> list[Effect]:
        tree.attempt = None
        ended: list[Effect] = [CancelTimer(("join", tree.feed))]
        if tree.parent or self.grove.is_root(tree):
            return ended
        wait = min(self.params.retry_first * 2 ** min(tree.failures, 16), self.params.retry_max)
        tree.failures += 1
        retry = SetTimer(("retry", tree.feed), now + wait * self.rng.uniform(0.75, 1.0))
        return [*ended, retry, *self.want_root(tree), JoinEnded(tree.feed, False)]

    def want_root(self, tree: Tree) -> list[Effect]:
        if tree.is_fixed:
            return []
        return [RootWanted(tree.feed, tree.publisher, tree.reign)]

    def denied(self, now: float, sender: NodeId, denied: JoinDenied) -> list[Effect]:
        tree = self.grove.trees.get(denied.feed)
        if tree is None or not self.is_target(tree, sender):
            return [Drop(denied, NOT_ASKED)]
        return self.next_start(now, tree)

    def forwarded(self, now: float, sender: NodeId, forwarded: JoinForwarded) -> list[Effect]:
        tree = self.grove.trees.get(forwarded.feed)
        if tree is None or tree.attempt is None or not self.is_target(tree, sender):
            return [Drop(forwarded, NOT_ASKED)]
        attempt, met = tree.attempt, NodeMet(sender)
        attempt.hops += 1
        if attempt.hops >= HOPS_MAX or forwarded.node == self.own.node_id or forwarded.node in tree.children:
            # We asked somebody below us, or trees change faster than we ask.
            return [met, *self.next_start(now, tree)]
        if attempt.purpose != "rejoin" and sender not in attempt.starts and sender != tree.publisher:
            # If it leads to somebody who is gone, whoever led there knows better by then.
            attempt.starts.append(tree.publisher)
            attempt.starts = list(dict.fromkeys(attempt.starts))
        attempt.target = forwarded.node
        return [met, *self.ask(now, tree)]

    def accepted(self, now: float, sender: NodeId, accepted: JoinAccepted) -> list[Effect]:
        tree = self.grove.trees.get(accepted.feed)
        left = Send(sender, ParentLeft(self.own.versions, accepted.feed))
        if tree is None:
            return [Drop(accepted, NOT_ASKED), left]
        # An ancestor takes us unasked where our parent leaves and asked it to.
        if (not self.is_target(tree, sender) and sender not in tree.chain[1:]) or tree.is_leaving:
            return [Drop(accepted, NOT_ASKED), *([] if tree.parent == sender else [left])]
        if self.own.node_id in accepted.chain or sender in tree.children or accepted.root.node == self.own.node_id:
            return [Drop(accepted, CIRCLE), left, *self.next_start(now, tree)]
        return self.attach(now, tree, sender, accepted)

    def attach(self, now: float, tree: Tree, parent: NodeId, accepted: JoinAccepted) -> list[Effect]:
        old, was_attached = tree.parent, self.grove.is_attached(tree)
        tree.attempt, tree.failures = None, 0
        tree.parent, tree.feeders[parent] = parent, None
        tree.publisher, tree.reign = accepted.root.node, accepted.root.reign
        tree.root_place, tree.chain = accepted.root.place, (parent, *accepted.chain)[:HOPS_MAX]
        effects: list[Effect] = [CancelTimer(("join", tree.feed)), CancelTimer(("retry", tree.feed)), NodeMet(parent)]
        if old == parent:
            return effects
        pull = UpdatesAsked(self.own.versions, tree.feed, tree.log.latest, tree.log.missing())
        effects += [PeerWatched(parent), Send(parent, pull)]
        if old:
            effects.append(Send(old, ParentLeft(self.own.versions, tree.feed)))
        return [*effects, *self.shed(tree), *([] if was_attached else [JoinEnded(tree.feed, True)])]

    def shed(self, tree: Tree) -> list[Effect]:
        """Children that are nearer to the root than we, since we know it better now, look for another place."""
        mine = self.grove.own_key(tree)
        nearer = [it for it, child in tree.children.items() if self.grove.key(tree, it, child.place) < mine]
        effects: list[Effect] = []
        for node in nearer:
            del tree.children[node]
            told = ChangeParent(self.own.versions, tree.feed, tree.publisher)
            effects += [Send(node, told), CancelTimer(("child", tree.feed, node))]
        return effects

    def is_target(self, tree: Tree, sender: NodeId) -> bool:
        return tree.attempt is not None and tree.attempt.target == sender

    # Being put out, and looking for a better place.

    def put_out(self, now: float, sender: NodeId, change: ChangeParent) -> list[Effect]:
        tree = self.grove.trees.get(change.feed)
        if tree is None or tree.parent != sender:
            return [Drop(change, NOT_ASKED)]
        tree.skips_rejoin = True
        self.detach(tree)
        tree.feeders.pop(sender, None)
        if tree.is_leaving:
            return []
        return self.seek(now, tree, "repair", [change.node, sender, *tree.chain[1:], *self.starts(tree)])

    def detach(self, tree: Tree) -> None:
        tree.parent = ""
        tree.attempt = None

    def rejoin(self, now: float, tree: Tree) -> list[Effect]:
        """Now and then, at an ancestor that is not the parent: the higher, the more rarely."""
        again = SetTimer(("rejoin", tree.feed), now + self.params.rejoin_period)
        skips, tree.skips_rejoin = tree.skips_rejoin, False
        if skips or tree.height < 2 or tree.attempt is not None or not tree.parent or tree.is_leaving:
            return [again]
        ancestor = tree.chain[self.draw_ancestor(tree.height) - 1]
        return [again, *self.seek(now, tree, "rejoin", [ancestor])]

    def draw_ancestor(self, height: int) -> int:
        """How many steps above, from 2 to `height`: one more is `beta` times as rare."""
        weights = [float(self.params.children_max) ** -steps for steps in range(2, height + 1)]
        drawn = self.rng.uniform(0.0, sum(weights))
        for steps, weight in enumerate(weights, start=2):
            drawn -= weight
            if drawn < 0:
                return steps
        return 2
