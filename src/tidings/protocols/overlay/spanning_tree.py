"""Spanning tree: of all links between brokers, those that events take.

The problem. Brokers are linked as their operators like, in rings and meshes too. Routing wants a tree: one way between
any two, so that nothing arrives twice and tables are short. When a link or a broker fails, other links must take over;
and both ends of a link must agree whether it belongs to the tree, or routing tables would hold what nobody stands for.

The idea, in two halves.

*Who is above me?* As bridges in a local network do: one broker is the root, everybody tells its peers how far away
that is (`TreeOffer`), and goes below a peer that offers the best root. The best is the one that started first, among
equals the first by name; so a broker that joins, or comes back, does not turn over the tree of those that are there.
What is dangerous is an offer that is, some hops back, our own: a root that has died would live on, passed round in a
circle with growing distances. So an offer is taken only when it cannot be our own: when its distance is less than the
least that we ever told ourselves for this root (the *feasibility condition*). A broker with no such offer stands
alone, as its own root, and what it loses by caution it asks for: `RenewTree` travels up to the root, which raises its
sequence and offers again; under a new sequence all distances are new. If the root is dead nobody answers, and those
who believed in it hear so from the broker above them, one after the other. Nothing is counted to infinity.

*Is this link in the tree?* A broker claims the link to whom it is below: `Join`, answered by `Joined`. When it goes
elsewhere it says `Leave`, answered by `Left`, and joins elsewhere only then. A link is a neighbour's (`NeighbourUp`)
while the claim of either end holds. The answers are what makes both ends see the same: on a link that keeps its order,
all that was sent under an old claim has arrived before `Left`, and nothing under a new one comes before `Join` or
`Joined`. When the way to the root turns round, both ends claim the link for a moment, one claim takes over from the
other, and the link stays up throughout: whoever is asked to let go, and is about to join the one who asks, waits for
its own `Joined` before it says `Left`. Nobody waits for ever, since the choices of who is above whom make no circle.
And whoever leaves for a root that is worse than ours has not heard of ours yet: it is asked to `Stay`, once.

State. `peers`: who is linked, what each offers, whether it is below us. `root`, `sequence`, `distance`: what we offer.
A root is known by the time it started and its name, so its next life is another root.
`parent`: whom we have chosen; `claim`: the link we claim, and how far that came. `told`: for each root, the newest
sequence and the least distance that we told.

Only configured links are taken: the end at which a link is configured offers it, the other end answers. A link that
some part of a node asked for at run time, beside the tree, is offered by nobody; but for those that failover keeps,
which are spares and offered by both ends (`tell_places`). They are not shorter by two hops, so that the tree is not
another one for them, until somebody above is lost.

Timers. "renew", only while a better root is in sight that cannot be taken: asks again, another peer each time. "drain",
while we are drained (`drain.py`).
Takes `PeerUp`, `PeerDown` from access; tells `NeighbourUp`, `NeighbourDown`. Its epochs count up over the life of the
node. Links tell of their own loss, so there are no keep-alives, and a network in which nothing happens is silent.

Guaranteed. Once links stop coming and going, the neighbours are a spanning tree of each connected part, the same seen
from both ends. The broker above is changed only after the old link went down. On links that form a tree every link
comes up as soon as both ends have heard each other, and stays up when the root changes. Before things settle there may
be two ways between two brokers for a moment; routing recognises what comes twice.
Not guaranteed: shortest paths. A broker stays where it is unless that saves `gain_min` hops, since each change costs
routing its tables on that link. Brokers further than `distance_max` from the root stay apart.

Sources: Perlman, "An Algorithm for Distributed Computation of a Spanning Tree in an Extended LAN" (1985) for the root
and the offers; the feasibility condition and the sequence of the destination as in Babel (RFC 8966, 2.4 to 2.6).
"""

from enum import Enum

import msgspec

from tidings.machine.effects import CancelTimer, Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received, Signal
from tidings.model.bounds import VERSION_MAX
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.protocols.overlay.drain import SpanningDrain
from tidings.protocols.overlay.messages import Join, Joined, Leave, Left, RenewTree, Stay, TreeOffer
from tidings.pubsub.notes import Reattached
from tidings.pubsub.signals import DrainChanged, Level, NeighbourDown, NeighbourUp, PeerDown, PeerUp, Placed

SEQUENCE_STEP_MAX = 1000
"""How far a root raises its sequence at once, so that nobody makes it count to the end of numbers in one message."""

Root = tuple[float, NodeId]
"""When it started, and its name; the lower one is better."""

NOT_A_PEER = "comes from a node that is no peer"
BAD_OFFER = "no broker offers this: itself at no distance, or another within bounds"
NOT_ASKED = "answers what was not asked"
JOINED_ALREADY = "has joined already"
NOT_JOINED = "has not joined"
STARTED_AGAIN = "started again"
LEFT = "another link took its place in the tree"


class SpanningTreeParams(msgspec.Struct, frozen=True, tag_field="kind", tag="spanning-tree"):
    distance_max: int = 255
    """Hops from the root to a broker."""

    gain_min: int = 2
    """Hops that a change of the broker above must save, when the root stays the same."""

    renew_after: float = 0.5
    """Seconds until a root that did not answer is asked again, by another way; more than a round trip to it."""

    clock_offset: float = 0.0
    """Time of day less machine time: brokers on several machines compare their age by the time of day. Wrong clocks do
    no harm but to make a younger broker the root."""

    roots_max: int = 4096
    """Roots for which we remember what we told; at least as many as there are brokers. With fewer, a root that is
    forgotten may be believed again after its death, and the names of several may go round for a long time."""

    def __post_init__(self) -> None:
        if not 1 <= self.distance_max <= 2**31:
            raise UsageError(f"distance_max: {self.distance_max} hops; give 1 to {2**31}")
        if self.gain_min < 1:
            raise UsageError(f"gain_min: {self.gain_min} would change for nothing; give at least 1")
        if not 0 < self.renew_after < float("inf"):
            raise UsageError(f"renew_after: {self.renew_after} is no span of time; give seconds above 0")
        if self.roots_max < 1:
            raise UsageError(f"roots_max: {self.roots_max} remembers nothing; give at least 1")


class ClaimStage(Enum):
    """Of our own claim on a link."""

    JOINING = "joining"
    HELD = "held"
    LEAVING = "leaving"


class Peer(msgspec.Struct):
    offer: TreeOffer | None = None
    is_below: bool = False
    """It claims the link."""
    has_to_wait: bool = False
    """It said `Leave`, and hears `Left` when our own claim has taken over."""
    was_kept: bool = False
    """It was asked to stay since we last changed what we offer."""
    epoch: int | None = None
    """That of the neighbour, while the link is in the tree."""
    is_offered: bool = True
    """Whether it is told what we offer."""


class SpanningTree:
    """`SpanningTree("b", SpanningTreeParams())`: of all peers, those that are neighbours."""

    level, is_tree = Level.LINKS, True
    messages: tuple[type, ...] = (TreeOffer, RenewTree, Join, Joined, Leave, Left, Stay)
    hears: tuple[type, ...] = (PeerUp, PeerDown, DrainChanged)
    tells: tuple[type[Signal], ...] = (NeighbourUp, NeighbourDown)

    def __init__(self, node_id: NodeId, params: SpanningTreeParams) -> None:
        self.node_id, self.params = node_id, params
        self.peers: dict[NodeId, Peer] = {}
        self.own: Root = (0.0, node_id)
        self.own_sequence = 0
        self.root, self.sequence, self.distance = self.own, 0, 0
        self.parent: NodeId | None = None
        self.claim: tuple[NodeId, ClaimStage] | None = None
        self.told: dict[Root, tuple[int, int]] = {}
        self.asked: tuple[Root, int] | None = None
        """The root and the sequence that we asked for."""
        self.asked_count = 0
        self.lost_at: float | None = None
        """When the broker above went, while we are not below another one; `renewals` we asked for since."""
        self.renewals = 0
        self.epochs = 0
        self.drain = SpanningDrain(self)
        self.is_telling_places = self.takes_spares = False
        self.told_place: Placed | None = None

    def tell_places(self) -> None:
        """Somebody wants to know where we are, and brings events around brokers that fail. The links that he keeps for
        it are spares: when the one above is gone, the tree mends itself over them."""
        self.is_telling_places = self.takes_spares = True
        self.tells = (*SpanningTree.tells, Placed)

    def start(self, now: float) -> list[Effect]:
        effects = [effect for name in list(self.peers) for effect in self.lose(now, name, STARTED_AGAIN)]
        self.own = now + self.params.clock_offset, self.node_id
        self.drain.is_on = False
        self.choose()
        # What was sent to peers that are gone is of no use, and neither are their timers.
        return [effect for effect in effects if isinstance(effect, NeighbourDown)] + self.tell_place()

    def tell_place(self) -> list[Effect]:
        place = Placed(self.parent, self.distance)
        if not self.is_telling_places or place == self.told_place:
            return []
        self.told_place = place
        return [place]

    def handle(self, now: float, input: Input) -> list[Effect]:
        effects = self.take(now, input)
        return effects + self.tell_place() if self.is_telling_places else effects

    def take(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Received(sender, message) if isinstance(message, self.messages):
                peer = self.peers.get(sender)
                return [Drop(message, NOT_A_PEER)] if peer is None else self.hear(now, sender, peer, message)
            case PeerUp(broker):
                effects = self.lose(now, broker, STARTED_AGAIN)
                is_offered = input.is_configured or self.takes_spares
                self.peers[broker] = Peer(is_offered=is_offered)
                return [*effects, Send(broker, self.offer())] if is_offered else effects
            case PeerDown(broker, _, reason):
                return self.lose(now, broker, reason)
            case Fired("renew"):
                self.asked = None
                return self.review(now)
            case DrainChanged(is_on):
                return self.drain.change(now, is_on)
            case Fired("drain") if self.drain.is_on:
                return self.drain.go_on(now)
        return []

    def lose(self, now: float, broker: NodeId, reason: str) -> list[Effect]:
        peer = self.peers.pop(broker, None)
        if peer is None:
            return []
        downs: list[Effect] = [] if peer.epoch is None else [NeighbourDown(broker, peer.epoch, reason)]
        if self.claim is not None and self.claim[0] == broker:
            if self.claim[1] is ClaimStage.HELD:
                self.lost_at, self.renewals = now, 0
            self.claim = None
        return downs + self.review(now)

    def hear(self, now: float, sender: NodeId, peer: Peer, message: object) -> list[Effect]:
        match message:
            case TreeOffer(_, root, sequence, distance):
                is_beyond = distance > self.params.distance_max or sequence >= VERSION_MAX
                if (root == sender) != (distance == 0) or is_beyond:
                    return [Drop(message, BAD_OFFER)]
                peer.offer = message
                if peer.is_offered:
                    return self.review(now)
                peer.is_offered = True
                return [Send(sender, self.offer()), *self.review(now)]
            case RenewTree(born_at, root, sequence):
                return self.renew(now, (born_at, root), sequence)
            case Join() if not peer.is_below:
                peer.is_below = True
                return [Send(sender, Joined()), *self.tell(sender)]
            case Joined() if self.claim == (sender, ClaimStage.JOINING):
                self.claim = sender, ClaimStage.HELD
                effects = self.tell(sender) + self.reattached(now, sender)
                return effects + self.pursue()
            case Leave() if peer.is_below and not peer.has_to_wait:
                peer.has_to_wait = True
                return self.pursue()
            case Stay() if self.claim == (sender, ClaimStage.LEAVING):
                self.claim = sender, ClaimStage.HELD
                return self.pursue()
            case Left() if self.claim == (sender, ClaimStage.LEAVING):
                self.claim = None
                return self.tell(sender) + self.pursue()
            case Join():
                return [Drop(message, JOINED_ALREADY)]
            case Leave():
                return [Drop(message, NOT_JOINED)]
        return [Drop(message, NOT_ASKED)]

    def reattached(self, now: float, above: NodeId) -> list[Effect]:
        if self.lost_at is None or above != self.parent:
            return []
        seconds, self.lost_at = now - self.lost_at, None
        return [Reattached(seconds, "spanning tree", self.renewals)]

    # Who is above me?

    def review(self, now: float) -> list[Effect]:
        """Something changed: choose anew, tell the peers if our own offer is another, claim the link."""
        before = self.offer()
        self.choose()
        # Whoever hears from us that we have its root has heard before that we are below it, if we are.
        joining = self.join()
        told: list[Effect] = []
        if self.offer() != before:
            told = self.tell_offer()
            for peer in self.peers.values():
                peer.was_kept = False
        return [*joining, *told, *self.ask_for_renewal(now), *self.pursue()]

    def choose(self) -> None:
        offers = {name: peer.offer for name, peer in self.peers.items() if peer.offer and self.may_take(peer.offer)}
        self.parent = self.best(offers)
        if self.parent is None:
            self.root, self.sequence, self.distance = self.own, self.own_sequence, 0
            return
        offer = offers[self.parent]
        self.root, self.sequence, self.distance = root_of(offer), offer.sequence, offer.distance + 1
        newest, least = self.told.pop(self.root, (-1, 0))
        if newest == self.sequence:
            self.told[self.root] = newest, min(least, self.distance)
        else:
            self.told[self.root] = self.sequence, self.distance
        if len(self.told) > self.params.roots_max:
            del self.told[next(iter(self.told))]

    def may_take(self, offer: TreeOffer) -> bool:
        """Is it better than standing alone, and certainly not our own?"""
        if root_of(offer) >= self.own or offer.root == self.node_id or offer.distance >= self.params.distance_max:
            return False
        newest, least = self.told.get(root_of(offer), (-1, 0))
        return offer.sequence > newest or (offer.sequence == newest and offer.distance < least)

    def best(self, offers: dict[NodeId, TreeOffer]) -> NodeId | None:
        if not offers:
            return None
        root = min(root_of(offer) for offer in offers.values())
        ranked = sorted((offer.distance, name) for name, offer in offers.items() if root_of(offer) == root)
        least, nearest = ranked[0]
        present = offers.get(self.parent) if self.parent is not None else None
        if present is not None and root_of(present) == root and present.distance < least + self.params.gain_min:
            return self.parent
        return nearest

    def ask_for_renewal(self, now: float) -> list[Effect]:
        """A better root than ours is offered, but perhaps by somebody below us: let it raise its sequence."""
        offering = self.better_root()
        if not offering:
            cancelled: list[Effect] = [] if self.asked is None else [CancelTimer("renew")]
            self.asked, self.asked_count = None, 0
            return cancelled
        root = offering[0][0]
        wanted = self.told.get(root, (-1, 0))[0] + 1
        if self.asked == (root, wanted):
            return []
        self.asked = root, wanted
        _, _, name = offering[self.asked_count % len(offering)]
        self.asked_count += 1
        self.renewals += 1
        return [Send(name, RenewTree(*root, wanted)), SetTimer("renew", now + self.params.renew_after)]

    def better_root(self) -> list[tuple[Root, int, NodeId]]:
        """Who offers the best root that is better than ours, the nearest first: (root, distance, peer)."""
        offers = [(peer.offer, name) for name, peer in self.peers.items() if peer.offer is not None]
        better = sorted(
            (root_of(offer), offer.distance, name)
            for offer, name in offers
            if root_of(offer) < self.root and offer.root != self.node_id and offer.distance < self.params.distance_max
        )
        return [entry for entry in better if entry[0] == better[0][0]]

    def renew(self, now: float, root: Root, sequence: int) -> list[Effect]:
        if root != self.root or not self.sequence < sequence <= self.sequence + SEQUENCE_STEP_MAX:
            # Otherwise a newer offer of ours is on its way to whoever asks.
            return []
        if self.parent is not None:
            return [Send(self.parent, RenewTree(*root, sequence))]
        self.own_sequence = sequence
        return self.review(now)

    def offer(self) -> TreeOffer:
        return TreeOffer(*self.root, self.sequence, self.drain.distance(self.distance))

    def tell_offer(self) -> list[Effect]:
        return [Send(name, self.offer()) for name, peer in self.peers.items() if peer.is_offered]

    # Is this link in the tree?

    def pursue(self) -> list[Effect]:
        """Bring our claim, one step at a time, to where it should be, and let go who waits for no reason."""
        effects, target = self.join(), self.target()
        if self.claim is not None and self.claim[1] is ClaimStage.HELD and self.claim[0] != target:
            claimed, _ = self.claim
            self.claim = claimed, ClaimStage.LEAVING
            effects.append(Send(claimed, Leave()))
        for name, peer in self.peers.items():
            if peer.has_to_wait and not self.is_about_to_join(name, target):
                effects += self.keep(name, peer) if self.will_come_back(peer) else self.let_go(name, peer)
        return effects

    def join(self) -> list[Effect]:
        target = self.target()
        if self.claim is not None or target is None:
            return []
        self.claim = target, ClaimStage.JOINING
        return [Send(target, Join())]

    def is_about_to_join(self, name: NodeId, target: NodeId | None) -> bool:
        """The way to the root turns round on this link: our claim is going to take over from theirs. But two that leave
        each other do not wait for each other."""
        if self.claim is not None and self.claim[0] == name:
            return self.claim[1] is ClaimStage.JOINING
        return name == target

    def target(self) -> NodeId | None:
        """Below whom we want to be. While we wait for a renewal we keep what we have."""
        if self.asked is not None and self.claim is not None:
            offer = self.peers[self.claim[0]].offer
            if offer is not None and root_of(offer) == self.asked[0]:
                return self.claim[0]
        return self.parent

    def will_come_back(self, peer: Peer) -> bool:
        """It leaves for a root that is worse than ours, because it has not heard of ours yet. Asked once to stay, it
        has heard by the time it answers; what it then does is meant."""
        return not peer.was_kept and peer.offer is not None and root_of(peer.offer) > self.root

    def keep(self, name: NodeId, peer: Peer) -> list[Effect]:
        peer.has_to_wait, peer.was_kept = False, True
        return [Send(name, Stay())]

    def let_go(self, name: NodeId, peer: Peer) -> list[Effect]:
        peer.is_below = peer.has_to_wait = False
        return [*self.tell(name), Send(name, Left())]

    def tell(self, name: NodeId) -> list[Effect]:
        """The signal, if the link came into the tree or left it."""
        peer, is_claimed = self.peers[name], self.claim in ((name, ClaimStage.HELD), (name, ClaimStage.LEAVING))
        if (peer.is_below or is_claimed) == (peer.epoch is not None):
            return []
        if peer.epoch is not None:
            epoch, peer.epoch = peer.epoch, None
            return [NeighbourDown(name, epoch, LEFT)]
        self.epochs += 1
        peer.epoch = self.epochs
        return [NeighbourUp(name, self.epochs)]

    def why_unsettled(self) -> str:
        """What is still to be found out before our neighbours are those that we will have; empty when nothing is."""
        offered = {name: peer.offer for name, peer in self.peers.items() if peer.is_offered}
        waiting = [name for name, offer in offered.items() if offer is None or root_of(offer) != self.root]
        if waiting:
            return f"not yet in one tree with {', '.join(waiting)}"
        if self.claim is not None and self.claim[1] is not ClaimStage.HELD:
            return f"{self.claim[1].value} {self.claim[0]}"
        return ""

    @property
    def neighbours(self) -> list[NodeId]:
        return [name for name, peer in self.peers.items() if peer.epoch is not None]

    def check(self) -> None:
        assert len(self.told) <= self.params.roots_max, "more roots are remembered than roots_max allows"
        assert self.root <= self.own and (self.root == self.own) == (self.parent is None), "a root from nowhere"
        assert self.distance <= self.params.distance_max, "too far from the root"
        assert self.parent is None or self.parent in self.peers, "below a broker that is no peer"
        assert self.claim is None or self.claim[0] in self.peers, "a claim on a link that is gone"
        if self.parent is not None:
            newest, least = self.told[self.root]
            assert (newest, least) <= (self.sequence, self.distance), "what was told is not remembered"
        for name, peer in self.peers.items():
            is_claimed = self.claim in ((name, ClaimStage.HELD), (name, ClaimStage.LEAVING))
            assert (peer.epoch is not None) == (peer.is_below or is_claimed), "a neighbour that is none"
            assert not peer.has_to_wait or (peer.is_below and self.is_about_to_join(name, self.target())), (
                "kept waiting for nothing"
            )


def root_of(offer: TreeOffer) -> Root:
    return offer.born_at, offer.root
