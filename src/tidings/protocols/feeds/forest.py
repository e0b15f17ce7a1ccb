"""The forest: a tree for each feed that is read here, and only for these.

The problem. What a publisher says should reach its thousands of readers within a second, without the publisher sending
it thousands of times, and without anybody who carries what he does not read.

The idea. The readers of a feed are a tree with the publisher at its root; each has up to `children_max` children. Who
comes is taken in from below, by somebody near who reads the feed too, and moves up where it belongs (`joins.py`). Every
parent is nearer to the publisher than its children, so there are no circles. Updates are pushed down and pulled where
they are missing (`updates.py`). Who leaves hands over its place first (`departures.py`); who dies is missed by its
children within `silence_max`.

State. `grove`: each tree with parent, children, ancestors, what is known of its updates (`tree.py`, `update_log.py`).

Timers, each with the feed: "join" and "retry", "rejoin", "gap", "void", "left", and ("child", feed, node).

Takes `PulseHeard`, `PulseAnswered`, `PeerSilent`, `CoordinateFixed`, `JoinWanted`, `RootFound`; tells `FeedsChanged`,
`JoinEnded`, `NodeMet`, `PeerWatched`, `RootWanted`, `RootTaken`.

Guaranteed. No noise: an update reaches readers of its feed only, as `noise` counts. Each is delivered once. A tree
without failures loses nothing, whoever joins, moves or leaves properly. A reader whose ancestor dies has what was
published meanwhile when it has another, as far as somebody still keeps it, and is told what nobody keeps. Not
guaranteed: order; an update that was pulled comes after later ones.

Source: peer-to-peer.md 3D, G-8 to G-14, G-34 (P-50 to P-77).
"""

from collections.abc import Callable, Iterable
from random import Random

from tidings.machine.effects import CancelTimer, Deliver, Drop, Effect, SetTimer
from tidings.machine.inputs import Fired, Input, Received, Signal
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.protocols.feeds.departures import NOT_THE_PARENT, TreeDepartures
from tidings.protocols.feeds.joins import Joins
from tidings.protocols.feeds.messages import (
    AdoptChild,
    ChangeParent,
    FeedMessage,
    FeedUpdate,
    ItemSubmitted,
    JoinAccepted,
    JoinDenied,
    JoinForwarded,
    ParentLeft,
    ParentLet,
    RejoinAt,
    RootHanded,
    TreeJoin,
    UpdatesAsked,
    UpdatesPulled,
    VoidUpdate,
)
from tidings.protocols.feeds.own import OwnStanding
from tidings.protocols.feeds.params import TreeParams
from tidings.protocols.feeds.tree import Grove, Tree
from tidings.protocols.feeds.updates import FeedSignatures, Updates
from tidings.pubsub.feeds import (
    AllLeft,
    Ancestry,
    CoordinateFixed,
    FeedAdopted,
    FeedId,
    FeedsChanged,
    JoinEnded,
    JoinWanted,
    LeaveAll,
    NodeMet,
    OfferFeed,
    PeerSilent,
    PeerWatched,
    PublishItem,
    PulseAnswered,
    PulseHeard,
    RootFound,
    RootTaken,
    RootWanted,
    SubscribeFeed,
    UnsubscribeFeed,
    VersionsSeen,
)


class Forest:
    messages: tuple[type, ...] = (
        *(TreeJoin, JoinDenied, JoinForwarded, JoinAccepted, ChangeParent, ParentLeft, ParentLet),
        *(AdoptChild, RejoinAt, RootHanded, FeedUpdate, UpdatesAsked, UpdatesPulled, VoidUpdate, ItemSubmitted),
    )
    hears: tuple[type, ...] = (
        *(SubscribeFeed, UnsubscribeFeed, OfferFeed, PublishItem, LeaveAll),
        *(CoordinateFixed, PulseHeard, PulseAnswered, PeerSilent, JoinWanted, RootFound),
    )
    tells: tuple[type[Signal], ...] = (
        *(FeedsChanged, JoinEnded, NodeMet, PeerWatched, RootWanted, RootTaken, VersionsSeen),
    )

    def __init__(
        self,
        own: OwnStanding,
        covering: Callable[[FeedId], list[NodeId]],
        params: TreeParams,
        rng: Random,
        signatures: FeedSignatures | None = None,
    ) -> None:
        """`covering` names friends that read a feed, the nearest first."""
        self.own, self.params, self.rng = own, params, rng
        self.grove = Grove(own, params)
        self.joins = Joins(self.grove, covering, rng)
        self.updates = Updates(self.grove, signatures)
        self.departures = TreeDepartures(self.grove, self.joins)
        self.is_leaving_all = False

    @property
    def trees(self) -> dict[FeedId, Tree]:
        return self.grove.trees

    def start(self, now: float) -> list[Effect]:
        """What was read is still read, and where everybody is in the trees is forgotten."""
        for tree in list(self.trees.values()):
            if tree.is_leaving:
                del self.trees[tree.feed]
            tree.parent, tree.attempt, tree.failures, tree.gap_tries = "", None, 0, 0
            tree.chain, tree.is_rejoin_set, tree.skips_rejoin = (), False, False
            tree.children.clear()
            tree.feeders.clear()
            if not tree.is_fixed:
                # Whoever published it, this node perhaps, may have been followed by somebody else.
                tree.publisher, tree.root_place = "", ()
        self.is_leaving_all = False
        return [self.feeds_changed()] if self.trees else []

    def feeds_changed(self) -> FeedsChanged:
        return FeedsChanged(tuple(feed for feed, tree in self.trees.items() if not tree.is_leaving))

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Received(sender, FeedMessage() as message):
                effects = [*self.own.news(sender, message), *self.hear(now, sender, message)]
                return effects + self.end_departures()
            case Fired((str(word), str(feed), *rest)):
                tree = self.trees.get(feed)
                return self.fired(now, tree, word, *rest) + self.end_departures() if tree is not None else []
            case PulseHeard(node, _, feeds):
                return self.child_heard(now, node, feeds)
            case PulseAnswered(node, _, asked, ancestries):
                return self.parent_heard(now, node, asked, {it.feed: it for it in ancestries})
            case PeerSilent(node):
                return self.peer_silent(now, node) + self.end_departures()
            case JoinWanted(feed, is_direct) if feed in self.trees:
                return self.join(now, self.trees[feed], is_direct)
            case RootFound(feed, node, reign) if feed in self.trees:
                return self.root_found(now, self.trees[feed], node, reign)
            case CoordinateFixed(place):
                roots = [tree for tree in self.trees.values() if self.grove.is_root(tree)]
                return [effect for tree in roots for effect in self.root(now, tree, place)]
            case _:
                return self.requested(now, input)

    # Requests.

    def requested(self, now: float, request: Input) -> list[Effect]:
        match request:
            case SubscribeFeed(feed, publisher, key):
                return self.subscribe(now, feed, publisher, key)
            case OfferFeed(feed, secondaries, key):
                return self.offer(now, feed, secondaries, key)
            case UnsubscribeFeed(feed):
                tree = self.trees.get(feed)
                if tree is None or tree.is_leaving:
                    raise UsageError(f"unsubscribe: {feed} is not read here")
                return [*self.leave(now, tree), *self.end_departures()]
            case PublishItem():
                return self.updates.publish(now, request)
            case LeaveAll():
                self.is_leaving_all = True
                trees = [tree for tree in self.trees.values() if not tree.is_leaving]
                return [effect for tree in trees for effect in self.leave(now, tree)] + self.end_departures()
        return []

    def subscribe(self, now: float, feed: FeedId, publisher: NodeId, key: bytes) -> list[Effect]:
        tree = self.trees.get(feed)
        if tree is None:
            if publisher == self.own.node_id:
                raise UsageError(f"subscribe: {feed} is published here; offer it instead")
            self.grove.plant(feed, publisher, key)
        elif tree.is_leaving:
            # It was about to leave: whoever still serves us goes on to.
            tree.is_leaving = tree.has_said_goodbye = False
            cancelled = CancelTimer(("left", feed))
            return [cancelled, self.feeds_changed(), *([] if tree.parent else self.join(now, tree, False))]
        return [self.feeds_changed()]

    def offer(self, now: float, feed: FeedId, secondaries: tuple[NodeId, ...], key: bytes) -> list[Effect]:
        if feed in self.trees:
            raise UsageError(f"offer: {feed} is read here already; a node publishes a feed or reads it from others")
        tree = self.grove.plant(feed, self.own.node_id, key)
        tree.secondaries = secondaries
        return [self.feeds_changed(), *(self.root(now, tree, self.own.place) if self.own.place else [])]

    def root(self, now: float, tree: Tree, place: tuple[float, ...]) -> list[Effect]:
        tree.root_place = place
        void = SetTimer(("void", tree.feed), now + self.params.void_period) if self.says_void else None
        return [*([void] if void else []), JoinEnded(tree.feed, True)]

    @property
    def says_void(self) -> bool:
        return self.params.void_period < float("inf")

    def join(self, now: float, tree: Tree, is_direct: bool) -> list[Effect]:
        if tree.is_leaving or tree.parent or tree.attempt is not None or self.grove.is_root(tree):
            return []
        starts = [node for node in self.joins.starts(tree, is_direct) if node]
        if not starts:
            return self.joins.want_root(tree)
        return self.joins.seek(now, tree, "first", starts)

    def leave(self, now: float, tree: Tree) -> list[Effect]:
        effects = self.departures.leave(now, tree)
        taken: list[Effect] = []
        if self.grove.is_root(tree) and not tree.is_fixed:
            taken = [RootTaken(tree.feed, tree.reign, False)]
        return [*effects, *taken, self.feeds_changed()]

    def end_departures(self) -> list[Effect]:
        over = [tree.feed for tree in self.trees.values() if self.departures.is_over(tree)]
        for feed in over:
            del self.trees[feed]
        effects: list[Effect] = [CancelTimer(("left", feed)) for feed in over]
        if self.is_leaving_all and not self.trees:
            self.is_leaving_all = False
            effects.append(Deliver(AllLeft()))
        return effects

    # Messages.

    def hear(self, now: float, sender: NodeId, message: FeedMessage) -> list[Effect]:
        match message:
            case FeedUpdate():
                return self.updates.pushed(now, sender, message)
            case TreeJoin():
                return self.joins.asked(now, sender, message)
            case JoinAccepted():
                return [*self.joins.accepted(now, sender, message), *self.begin_rejoins(now)]
            case JoinForwarded():
                return self.joins.forwarded(now, sender, message)
            case JoinDenied():
                return self.joins.denied(now, sender, message)
            case ChangeParent():
                return self.joins.put_out(now, sender, message)
            case ParentLeft():
                return self.departures.child_left(sender, message)
            case ParentLet():
                self.departures.parent_let(sender, message)
            case AdoptChild():
                return self.departures.adopt(now, sender, message)
            case RejoinAt():
                return self.departures.rejoin_at(now, sender, message)
            case RootHanded():
                return self.handed(now, sender, message)
            case UpdatesAsked():
                return self.updates.asked(sender, message)
            case UpdatesPulled():
                return self.updates.pulled(now, sender, message)
            case VoidUpdate():
                return self.updates.void(now, sender, message)
            case ItemSubmitted():
                return self.updates.submitted(now, sender, message)
        return []

    def fired(self, now: float, tree: Tree, word: str, *rest: object) -> list[Effect]:
        match word:
            case "join" if tree.attempt is not None:
                return self.joins.next_start(now, tree)
            case "retry" if not self.grove.is_attached(tree) and tree.attempt is None:
                return self.joins.seek(now, tree, "repair", [it for it in self.joins.starts(tree) if it])
            case "rejoin":
                return self.joins.rejoin(now, tree)
            case "gap":
                return self.updates.mend_gap(now, tree)
            case "void" if self.grove.is_root(tree):
                return self.updates.say_void(now, tree)
            case "left":
                return self.departures.time_is_up(now, tree)
            case "child" if rest and rest[0] in tree.children:
                del tree.children[str(rest[0])]
                return self.departures.let_go(tree) if tree.is_leaving and not tree.children else []
        return []

    def begin_rejoins(self, now: float) -> list[Effect]:
        """Not before all trees are joined, and then in a phase of its own for each."""
        period = self.params.rejoin_period
        if period == float("inf") or not all(self.grove.is_attached(tree) for tree in self.trees.values()):
            return []
        effects: list[Effect] = []
        for tree in self.trees.values():
            if not tree.is_rejoin_set and not self.grove.is_root(tree):
                tree.is_rejoin_set = True
                effects.append(SetTimer(("rejoin", tree.feed), now + self.rng.uniform(0.0, period)))
        return effects

    # Who is there.

    def child_heard(self, now: float, node: NodeId, feeds: tuple[FeedId, ...]) -> list[Effect]:
        named = [tree for feed in feeds if (tree := self.trees.get(feed)) is not None and node in tree.children]
        return [SetTimer(("child", tree.feed, node), now + self.params.silence_max) for tree in named]

    def parent_heard(
        self, now: float, node: NodeId, asked: tuple[FeedId, ...], ancestries: dict[FeedId, Ancestry]
    ) -> list[Effect]:
        effects: list[Effect] = []
        for feed in asked:
            tree = self.trees.get(feed)
            if tree is None or tree.parent != node or tree.is_leaving:
                continue
            ancestry = ancestries.get(feed)
            if ancestry is not None and self.own.node_id not in ancestry.chain and ancestry.root.reign >= tree.reign:
                effects += self.follow(now, tree, ancestry)
                continue
            # It knows nothing of us, or it is below us, or behind.
            self.joins.detach(tree)
            known = ancestry is None
            if not known:
                tree.feeders.pop(node, None)
            effects += self.joins.repair(now, tree, tree.chain if known else (tree.publisher,))
        return effects

    def follow(self, now: float, tree: Tree, ancestry: Ancestry) -> list[Effect]:
        tree.chain = (tree.parent, *ancestry.chain)[: len(ancestry.chain) + 1]
        tree.publisher, tree.reign, tree.root_place = ancestry.root.node, ancestry.root.reign, ancestry.root.place
        return [*self.joins.shed(tree), *self.updates.learn(now, tree, ancestry.latest)]

    def peer_silent(self, now: float, node: NodeId) -> list[Effect]:
        effects: list[Effect] = []
        for tree in list(self.trees.values()):
            tree.feeders.pop(node, None)
            if tree.parent != node:
                continue
            self.joins.detach(tree)
            if not tree.is_leaving:
                effects += self.joins.repair(now, tree, tree.chain[1:])
        return effects

    # Roots that are found.

    def root_found(self, now: float, tree: Tree, node: NodeId, reign: int) -> list[Effect]:
        was_root = self.grove.is_root(tree)
        if tree.is_fixed or tree.is_leaving or reign < tree.reign:
            return []
        if node == self.own.node_id:
            return self.become_root(now, tree, reign) if not was_root or reign > tree.reign else []
        if node == tree.publisher and tree.parent:
            return []
        effects: list[Effect] = []
        if was_root:
            effects = [CancelTimer(("void", tree.feed)), RootTaken(tree.feed, tree.reign, False)]
            effects.append(Deliver(FeedAdopted(tree.feed, tree.reign, False)))
        tree.publisher, tree.reign = node, reign
        if tree.parent or tree.attempt is not None:
            return effects
        return [*effects, *self.joins.seek(now, tree, "repair" if was_root else "first", [node])]

    def handed(self, now: float, sender: NodeId, handed: RootHanded) -> list[Effect]:
        tree = self.trees.get(handed.feed)
        if tree is None or tree.is_fixed or sender != tree.parent or sender != tree.publisher or tree.is_leaving:
            return [Drop(handed, NOT_THE_PARENT)]
        return self.become_root(now, tree, max(tree.reign + 1, handed.reign))

    def become_root(self, now: float, tree: Tree, reign: int) -> list[Effect]:
        if not self.own.place:
            return []
        effects = self.departures.let_go(tree)
        effects += [CancelTimer((word, tree.feed)) for word in ("join", "retry", "rejoin", "gap")]
        tree.parent, tree.attempt, tree.chain, tree.failures, tree.gap_tries = "", None, (), 0, 0
        tree.is_rejoin_set = False
        tree.publisher, tree.reign = self.own.node_id, reign
        effects += self.root(now, tree, self.own.place)
        return [*effects, RootTaken(tree.feed, reign, True), Deliver(FeedAdopted(tree.feed, reign, True))]

    # What other parts read.

    def feeds_below(self, parent: NodeId) -> tuple[FeedId, ...]:
        return self.grove.feeds_below(parent)

    def ancestries_for(self, child: NodeId, feeds: Iterable[FeedId]) -> tuple[Ancestry, ...]:
        return self.grove.ancestries_for(child, feeds)

    def check(self) -> None:
        self.grove.check()
        assert self.updates.noise == 0, "an update of a feed that is not read here"
