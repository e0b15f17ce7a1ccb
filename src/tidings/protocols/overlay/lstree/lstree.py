"""LSTree: brokers that form a tree by themselves, and mend it when any of them fail.

The problem. Whoever starts a broker knows one that is there already, and no more. From that all brokers are to become
one tree, with few neighbours each; and when brokers fail without a word, any number of them and the root as well, the
others are to be one tree again within a second or so, by changes near to where it broke. At no time may there be a
circle, and nobody is to look for one: a circle would have to be found by everybody in it.

The idea. The tree has a root, though it is nobody special and no event has to pass it. Each broker finds the one above
it by itself (`search.py`): it asks candidates one after the other to be below them (`ParentRequest`), and each answers
at once, from its own state and the request alone (`candidate.py`). Who loses the one above does the same again, with
everybody below it staying where they are: a broker that fails costs one new link for each that was below it. Circles
are impossible because of an order of all brokers (`order.py`). Whoever is left without a candidate becomes a root,
under a colour of its own. Roots look for other trees: two that meet compare their colours, and it is clear which of
them goes below the other (`MergeHint` tells the root that has to). Who has its place looks for a nearer one, where that
is asked for (`mover.py`).

How a request travels. Candidates are not linked. The search asks access for a link (`LinkWanted`), which proves who is
there; says `ParentRequest` when the link is up; keeps it if the answer is yes, and lets go of it otherwise. It is the
same in the simulator and on sockets. Contacts of which only the address is known are linked in the same way, and are
candidates when their name is known.

State. `kin`: the place in the tree, who is above and below. `seeker`: the search that is under way. `exchange`: the
Global cache. `mover`: the look for a nearer one.

Timers. "request": the candidate has not answered. "busy": one that was busy is asked again. "join": the contacts of the
beginning have had their time. "merge": a root looks for other trees; it does so soon after it became one, and ever more
rarely. "redistribute": a root gives out new depths. "gossip", "pinged", "save": those of `exchange.py`.
"nearer", "moving": those of `mover.py`. "drain": that of `drain.py`.

Takes `PeerUp`, `PeerDown`, `LinkFailed` from access; tells routing `NeighbourUp`, `NeighbourDown`, and which link takes
the place of which: `NeighbourReplaced` at the broker that lost the one above and found another. The other end of the
lost link, should it live, learns from the name of the reconfiguration no more than that the link is gone.

Guaranteed, whatever is late or lost: no circle of links that hold, at any moment (L-INV1 to L-INV3). When nothing fails
any more, and the contacts that brokers have still connect them, all of them are one tree of one colour, seen the same
from both ends. Somebody who lies about depth, colour or others can make a circle only through himself, can make nobody
keep more than the bounds allow, and makes no neighbour of anybody who did not ask or accept himself.
Not guaranteed: `degree_max`, where nobody else is left to be above; short ways.

Source: dynamic-topologies.md 3.9, ch. 10 of its source. Beyond it: a root that nobody has ever been below gives up its
colour before it asks, so that a newcomer never turns over the tree that it finds.
"""

from collections.abc import Iterator
from random import Random
from typing import Any

from msgspec.structs import replace

from tidings.machine.effects import Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Loaded, Received, Signal
from tidings.machine.message import Contact
from tidings.machine.streams import random_stream
from tidings.model.identity import NodeId
from tidings.protocols.overlay.lstree.candidate import decide
from tidings.protocols.overlay.lstree.drain import TreeDrain
from tidings.protocols.overlay.lstree.exchange import STORED, ContactExchange
from tidings.protocols.overlay.lstree.kinship import Kinship, Relative, TreeMode, link_name
from tidings.protocols.overlay.lstree.messages import (
    ChildLeave,
    ColourUpdate,
    ContactPing,
    ContactPong,
    DepthsSpent,
    FindAnother,
    GlobalUpdate,
    MergeHint,
    ParentAccept,
    ParentRefuse,
    ParentRequest,
    RefusalReason,
    RegionalUpdate,
)
from tidings.protocols.overlay.lstree.mover import Mover
from tidings.protocols.overlay.lstree.order import BrokerPlace, Colour, comes_before
from tidings.protocols.overlay.lstree.params import LsTreeParams
from tidings.protocols.overlay.lstree.seeker import JOIN_USER, Seeker
from tidings.pubsub.rows import BrokerRow, Gauge
from tidings.pubsub.signals import (
    DrainChanged,
    Level,
    LinkFailed,
    LinkUnwanted,
    LinkWanted,
    NeighbourDown,
    NeighbourReplaced,
    NeighbourUp,
    PeerDown,
    PeerUp,
    Placed,
)

NOT_A_PEER = "comes from a node that is no peer"
NOT_FROM_ABOVE = "says what only the one above may say"
NOT_FROM_BELOW = "says what only one below may say"
NOT_A_NEIGHBOUR = "comes from a broker that is no neighbour"
NOT_LATER = "a colour that is no later one"
TOO_FAR_AHEAD = "a colour or a depth that no tree has reached"
NOT_ASKED = "answers what was not asked"
STARTED_AGAIN = "started again"
ASKED_AGAIN = "asked again to be below us"
LEFT = "is not below us"
LEFT_BEFORE = "leaves what it asked for before it asked again"


class LsTree:
    """`LsTree("b", LsTreeParams(contacts=("a",)), rng)`."""

    level, is_tree = Level.REPLACEMENTS, True
    messages: tuple[type, ...] = (
        ParentRequest,
        ParentAccept,
        ParentRefuse,
        ColourUpdate,
        RegionalUpdate,
        ChildLeave,
        FindAnother,
        MergeHint,
        DepthsSpent,
        GlobalUpdate,
        ContactPing,
        ContactPong,
    )
    hears: tuple[type, ...] = (PeerUp, PeerDown, LinkFailed, DrainChanged)
    tells: tuple[type[Signal], ...] = (NeighbourUp, NeighbourDown, NeighbourReplaced, LinkWanted, LinkUnwanted)

    def __init__(self, node_id: NodeId, params: LsTreeParams, rng: Random) -> None:
        self.node_id, self.params = node_id, params
        seed = rng.getrandbits(64)
        # Looking around is drawn apart, so that a run without it is the same.
        self.rng, self.moving_rng = random_stream(seed, "lstree"), random_stream(seed, "lstree moves")
        self.kin = Kinship(node_id, params, self.rng)
        self.exchange = ContactExchange(self.kin, params, self.rng)
        self.exchange.cache.add(Contact(name) for name in params.contacts)
        self.seeker = Seeker(params, self.kin, self.exchange, self.rng)
        self.mover = Mover(params, self.kin, self.exchange, self.seeker, self.moving_rng)
        self.drain = TreeDrain(self.kin)
        self.redistributed_at = -params.redistribute_pause
        self.is_telling_places = False
        self.told_place: Placed | None = None

    def tell_places(self) -> None:
        """Somebody wants to know where we are."""
        self.is_telling_places, self.tells = True, (*LsTree.tells, Placed)

    # What a node asks of its overlay.

    @property
    def neighbours(self) -> list[NodeId]:
        return self.kin.neighbours

    def why_unsettled(self) -> str:
        if self.kin.mode is not TreeMode.SEARCHING:
            return ""
        return "looking for a broker to be below" + (
            "" if self.seeker.lost is None else " since the one above was lost"
        )

    def start(self, now: float) -> list[Effect]:
        kin = self.kin
        downs: list[Effect] = [*(kin.lose_above(STARTED_AGAIN) if kin.above is not None else ())]
        for node in list(kin.below):
            downs += kin.lose_below(node, STARTED_AGAIN)
        # Access wants after a restart what it wanted before.
        downs += [LinkUnwanted(node, JOIN_USER) for node in self.seeker.joining]
        downs += [effect for node in list(kin.wanted) for effect in kin.unwant(node)]
        self.kin = Kinship(self.node_id, self.params, self.rng)
        self.kin.epochs = kin.epochs
        exchange = ContactExchange(self.kin, self.params, self.rng)
        exchange.cache, exchange.round_trips = self.exchange.cache, self.exchange.round_trips
        seeker = Seeker(self.params, self.kin, exchange, self.rng)
        seeker.patience = self.seeker.patience
        seeker.repairs, seeker.elections = self.seeker.repairs, self.seeker.elections
        moves = self.mover.moves
        self.exchange, self.seeker = exchange, seeker
        self.mover = Mover(self.params, self.kin, exchange, seeker, self.moving_rng)
        self.mover.moves = moves
        self.drain = TreeDrain(self.kin)
        effects = [*(effect for effect in downs if isinstance(effect, Signal)), *exchange.start(now)]
        return effects if self.params.is_durable else effects + seeker.begin(now)

    def handle(self, now: float, input: Input) -> list[Effect]:
        effects = self.take(now, input)
        return effects + self.tell_place() if self.is_telling_places else effects

    def tell_place(self) -> list[Effect]:
        kin = self.kin
        if kin.mode is TreeMode.SEARCHING and self.told_place is None:
            return []
        above = None if kin.above is None else kin.above.contact.node
        # Depths are real numbers here, and grow by less than one from link to link.
        place = Placed(above, None if above is not None else 0)
        if place == self.told_place:
            return []
        self.told_place = place
        return [place]

    def take(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Received(sender, message) if isinstance(message, self.messages):
                known = sender in self.kin.peers
                return self.hear(now, sender, message) if known else [Drop(message, NOT_A_PEER)]
            case PeerUp(broker):
                return self.peer_up(now, input)
            case PeerDown(broker, _, reason):
                return self.peer_down(now, broker, reason)
            case LinkFailed(broker, reason):
                pinged = self.exchange.pinged.get(broker)
                effects = [] if pinged is None else self.exchange.failed(now, pinged)
                return [
                    *effects,
                    *self.seeker.link_failed(now, broker, reason),
                    *self.mover.gave_no_answer(now, broker),
                ]
            case DrainChanged(is_on):
                return self.drain.change(now, is_on)
            case Fired(str(timer)):
                return self.fired(now, timer)
            case Loaded(_, entries):
                stored = [self.exchange.loaded(data) for name, data in entries if name == STORED]
                self.exchange.cache.add(contact for contacts in stored for contact in contacts)
                is_new = self.seeker.search is None and not self.kin.place.colour
                return self.seeker.begin(now) if is_new else []
        return []

    # Links.

    def peer_up(self, now: float, up: PeerUp) -> list[Effect]:
        node = up.broker
        effects = self.peer_down(now, node, STARTED_AGAIN) if node in self.kin.peers else []
        contact = self.kin.peers[node] = Contact(node, up.address)
        effects += [*self.exchange.peer_came(now, node), *self.mover.peer_came(node)]
        return [*effects, *self.seeker.peer_came(now, contact, up.asked)]

    def peer_down(self, now: float, node: NodeId, reason: str) -> list[Effect]:
        kin = self.kin
        kin.peers.pop(node, None)
        self.seeker.peer_went(node)
        self.mover.peer_went(node)
        if kin.is_above(node):
            return [*self.mover.stop(now), *self.seeker.lose(now, reason)]
        return [*kin.lose_below(node, reason), *kin.tell_region()] if node in kin.below else []

    # Roots.

    def compared(self, now: float, node: NodeId, colour: Colour) -> list[Effect]:
        """Somebody's tree has this colour: if it is another one, below which ours may go, our root hears of it."""
        is_other = bool(self.kin.place.colour) and comes_before(self.kin.place.colour, colour)
        return self.seeker.hinted(now, self.kin.peers[node], colour) if is_other else []

    def depths_spent(self, now: float) -> list[Effect]:
        kin = self.kin
        if kin.above is not None:
            return [Send(kin.above.contact.node, DepthsSpent())]
        is_early = now < self.redistributed_at + self.params.redistribute_pause
        return [] if is_early else self.redistribute(now)

    def redistribute(self, now: float) -> list[Effect]:
        if self.kin.mode is not TreeMode.ROOT:
            return [SetTimer("redistribute", now + self.params.redistribute_pause)]
        self.redistributed_at = now
        again = SetTimer("redistribute", now + self.params.redistribute_after)
        return [*self.kin.become_root(), again]

    # What others say.

    def hear(self, now: float, sender: NodeId, message: Any) -> list[Effect]:
        kin, seeker, asked = self.kin, self.seeker, self.seeker.asked
        is_answer = seeker.is_asked(sender)
        match message:
            case ParentRequest():
                return self.consider(now, sender, message)
            case ParentAccept(number) if is_answer and asked is not None and asked.number == number:
                effects = seeker.accepted(now, sender, message)
                return [*effects, *self.mover.settled(now)] if kin.is_above(sender) else effects
            case ParentAccept(number) if self.mover.is_answer(sender, number):
                return self.mover.accepted(now, sender, message)
            case ParentRefuse(number) if self.mover.is_answer(sender, number):
                return self.mover.refused(now, sender, message)
            case ParentRefuse(number) if is_answer and asked is not None and asked.number == number:
                return seeker.refused(now, sender, message)
            case ParentAccept(number):
                if kin.above is not None and kin.above.link == link_name(self.node_id, number):
                    return [Drop(message, NOT_ASKED)]
                leave = ChildLeave(link_name(self.node_id, number))
                return [Send(sender, leave), *self.seeker.let_go(sender)]
            case ColourUpdate(colour, depth) if kin.is_above(sender):
                return self.recolour(now, message, colour, depth)
            case RegionalUpdate(ancestors, siblings, depth) if kin.is_above(sender):
                return self.regional(now, sender, ancestors, siblings, depth)
            case FindAnother() if kin.is_above(sender):
                return self.mover.leave(now)
            case ColourUpdate() | RegionalUpdate() | FindAnother():
                return [Drop(message, NOT_FROM_ABOVE)]
            case ChildLeave(link) if sender in kin.below:
                if link != kin.below[sender].link:
                    return [Drop(message, LEFT_BEFORE)]
                return [*kin.lose_below(sender, LEFT), *kin.tell_region()]
            case MergeHint(root, colour) if sender in kin.below:
                return self.seeker.hinted(now, root, colour)
            case DepthsSpent() if sender in kin.below:
                return self.depths_spent(now)
            case ChildLeave() | MergeHint() | DepthsSpent():
                return [Drop(message, NOT_FROM_BELOW)]
            case GlobalUpdate(contacts):
                is_near = kin.is_neighbour(sender)
                return self.exchange.hear(now, sender, contacts) if is_near else [Drop(message, NOT_A_NEIGHBOUR)]
            case ContactPing(colour):
                return [Send(sender, ContactPong(kin.place.colour)), *self.compared(now, sender, colour)]
            case ContactPong(colour) if sender in self.exchange.pinged_at:
                effects = self.exchange.answered(now, sender)
                if colour == kin.place.colour:
                    self.seeker.is_of_our_tree(sender)
                return [*effects, *self.compared(now, sender, colour), *self.seeker.let_go(sender)]
        return [Drop(message, NOT_ASKED)]

    def consider(self, now: float, sender: NodeId, request: ParentRequest) -> list[Effect]:
        kin, number = self.kin, request.number
        lost = kin.lose_below(sender, ASKED_AGAIN) if sender in kin.below else []
        if kin.is_beyond(request.colour, request.depth):
            refusal = ParentRefuse(number, RefusalReason.NOT_VIABLE, ())
            return [*lost, Drop(request, TOO_FAR_AHEAD), Send(sender, refusal)]
        answer = decide(kin, sender, request)
        if answer.refusal is not None:
            effects = [*lost, Send(sender, ParentRefuse(number, answer.refusal, answer.contacts))]
            if lost:
                effects += kin.tell_region()
            if answer.wins and request.is_root:
                effects += self.seeker.hinted(now, kin.peers[sender], request.colour)
            if answer.refusal is RefusalReason.BUSY:
                effects += self.seeker.met(now, kin.peers[sender], BrokerPlace(request.colour, request.depth))
            return effects + self.depths_spent(now) if answer.is_spent else effects
        kin.place = BrokerPlace(kin.place.colour, answer.depth)
        relative = Relative(kin.peers[sender], kin.next_epoch(), link_name(sender, number))
        # Whom we know comes before it is below us, so that it is not told of itself.
        known = self.exchange.tell_all()
        taken = kin.take_below(relative, request.replaces)
        colour, depth = kin.place.colour, kin.place.depth
        accept = ParentAccept(number, colour, depth, kin.chain(), kin.beside(sender))
        # The acceptance comes before whatever routing has to say on the link.
        told = [Send(sender, accept), *([Send(sender, known)] if known.contacts else [])]
        return [*lost, *told, *taken, *kin.tell_region(but=sender)]

    def recolour(self, now: float, message: ColourUpdate, colour: Colour, depth: float) -> list[Effect]:
        kin = self.kin
        assert kin.above is not None
        if not comes_before(kin.place.colour, colour) or kin.is_beyond(colour, depth):
            return [Drop(message, NOT_LATER)]
        kin.above.depth = depth
        stopped = self.mover.stop(now)
        kin.adopt(colour, depth)
        return [*stopped, *kin.tell_colour()]

    def regional(
        self, now: float, sender: NodeId, ancestors: tuple[Contact, ...], siblings: tuple[Contact, ...], depth: float
    ) -> list[Effect]:
        kin = self.kin
        assert kin.above is not None
        chain, before = kin.regional.ancestors, kin.place
        kin.above.depth = min(kin.above.depth, depth)
        kin.take_region(sender, ancestors, siblings)
        kin.follow_depth()
        is_other = chain != kin.regional.ancestors or before != kin.place
        stopped = self.mover.stop(now) if before != kin.place else []
        return [*stopped, *kin.tell_region()] if is_other else stopped

    # Time goes by.

    def fired(self, now: float, timer: str) -> list[Effect]:
        match timer:
            case "redistribute" if self.kin.above is None:
                return self.redistribute(now)
            case "gossip":
                return self.exchange.run_round(now)
            case "pinged":
                silent = list(self.exchange.pinged.values())
                effects = [effect for contact in silent for effect in self.exchange.failed(now, contact)]
                effects += [effect for contact in silent for effect in self.seeker.let_go(contact.node)]
                return [*effects, *self.mover.measured(now)]
            case "nearer" | "moving":
                return self.mover.fired(now, timer)
            case "drain":
                return self.drain.go_on(now) if self.kin.is_drained else []
            case "save":
                return self.exchange.save()
        return self.seeker.fired(now, timer)

    # What others may look at.

    def described(self, row: BrokerRow) -> BrokerRow:
        place, above = self.kin.place, self.kin.above
        return replace(
            row,
            above="" if above is None else above.contact.node,
            depth=place.depth,
            colour=f"{place.colour.root}/{place.colour.length}" if place.colour else "",
            repairs=self.seeker.repairs,
            alone=self.seeker.why_alone(),
        )

    def gauges(self) -> Iterator[Gauge]:
        yield Gauge("tree_repairs", "times that the broker above was lost and another one found", self.seeker.repairs)
        yield Gauge("tree_elections", "times that this broker became the root of a tree", self.seeker.elections)
        yield Gauge("tree_moves", "times that this broker went below a nearer one", self.mover.moves)
        yield Gauge("tree_neighbours", "brokers above and below in the tree", len(self.neighbours))

    def check(self) -> None:
        self.kin.check()
        self.exchange.check()
        self.seeker.check()
        self.mover.check()
