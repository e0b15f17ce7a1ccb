"""How a broker that has its place comes to be below a nearer one.

The problem. A search asks who is known, not who is near: a broker in Paris goes below one in Sydney that goes below one
in Rome, and an event from Paris to Rome travels round the world. Among 300 hosts of PlanetLab the way in the tree takes
some ten times as long as the direct one. Choosing well while one searches is of little use, since whoever comes
first knows nobody who is near; and it would make repairs wait for measurements.

The idea. Repairs stay as quick as they are, and afterwards, with all the time in the world, a broker *looks* around: it
measures the round trips to the one above, to those beside and further above, and to a few of the Global cache. The
nearest that is clearly nearer than the one above is asked like any candidate, and nobody insists: its degree
counts. If it refuses because it has enough neighbours, those below it are near too, and are measured next. When one
accepts, the broker moves, with everybody below it: one link replaces another, under a name, as when a link is mended,
and the old one is told (`ChildLeave`). Each look comes later than the one before, until the broker searches again: a
tree that is left alone is soon as quiet as any, and where all are so busy that round trips mean nothing, nobody moves
often.

Why there is no circle. The order of places is asked as always. While a request is out our place stands still (L-INV3):
we take nobody below us for whom it would have to change, and should the one above give us a new colour meanwhile, the
request counts as never sent; if it is accepted all the same, that is answered `ChildLeave`.

A broker that is going to be stopped has those below it go elsewhere in the same way (`drain.py`). Then whoever takes us
is better than the one above; those who have enough neighbours are asked once more in the end, to take us all the same.

A search that comes later goes by what was measured: of those beside, and of the Global cache, the nearest come first.

Timers. "nearer": it is time to look. "moving": the one that was asked does not answer.

Not guaranteed: the shortest ways. Whoever lies about how quickly he answers can only be slower than he is.

Beyond the source, which knows no distances (dynamic-topologies.md 3.9).
"""

import math

from tidings.machine.effects import CancelTimer, Drop, Effect, Send, SetTimer
from tidings.machine.message import Contact
from tidings.machine.streams import RandomStream
from tidings.model.identity import NodeId
from tidings.protocols.overlay.lstree.exchange import ContactExchange
from tidings.protocols.overlay.lstree.kinship import Kinship, link_name
from tidings.protocols.overlay.lstree.messages import ChildLeave, ParentAccept, ParentRefuse, ParentRequest
from tidings.protocols.overlay.lstree.messages import RefusalReason as Reason
from tidings.protocols.overlay.lstree.params import LsTreeParams
from tidings.protocols.overlay.lstree.seeker import NOT_VALID, Seeker

MOVED = "found a nearer broker to be below"

REQUESTS_MAX = 8
"""Brokers that are asked in one look."""

LEAVING_REQUESTS_MAX = 64
"""Brokers that are asked by one whose broker is going to be stopped."""


class Mover:
    def __init__(
        self, params: LsTreeParams, kin: Kinship, exchange: ContactExchange, seeker: Seeker, rng: RandomStream
    ) -> None:
        self.params, self.kin, self.exchange, self.seeker, self.rng = params, kin, exchange, seeker, rng
        self.wait = params.nearer_first
        self.seen: dict[NodeId, Contact] | None = None
        """Whose round trips this look measures; None while there is none."""
        self.tried: set[NodeId] = set()
        self.beyond: list[Contact] = []
        """Those below whoever refused because it has enough neighbours."""
        self.leaving: list[Contact] | None = None
        """Who is still to be asked, where we go because the one above is going to be stopped; None else."""
        self.full: list[Contact] = []
        """Those who have enough neighbours; where nobody else is left they are asked to take us all the same."""
        self.insists = False
        self.asked: Contact | None = None
        self.number = 0
        self.moves = 0

    # Looking.

    def settled(self, now: float) -> list[Effect]:
        """We are below another one than before."""
        self.wait = self.params.nearer_first
        return self.rest(now)

    def leave(self, now: float) -> list[Effect]:
        """The one above is going to be stopped: whoever takes us is better, and nobody is measured before."""
        kin = self.kin
        if kin.above is None or self.asked is not None or self.leaving is not None:
            return []
        near = [*kin.regional.ancestors[1:], *kin.regional.siblings]
        known = {it.node: it for it in (*self.exchange.cache.entries.values(), *self.rng.sample(near, len(near)))}
        distance = self.exchange.round_trips
        self.tried.clear()
        self.seen, self.beyond, self.full, self.insists = {}, [], [], False
        self.leaving = sorted(known.values(), key=lambda it: distance.get(it.node, math.inf))
        return self.proceed(now)

    def next_to_leave_for(self) -> Contact | None:
        leaving = self.leaving
        assert leaving is not None
        while leaving or self.beyond or (self.full and not self.insists):
            if not leaving and self.beyond:
                leaving[:], self.beyond = self.beyond, []
            elif not leaving:
                leaving[:], self.insists = self.full, True
                self.tried -= {contact.node for contact in self.full}
            contact = leaving.pop(0)
            if not self.is_excluded(contact.node):
                return contact
        return None

    def rest(self, now: float) -> list[Effect]:
        self.seen, self.beyond, self.leaving, self.full, self.insists = None, [], None, [], False
        self.tried.clear()
        if not self.params.is_near:
            return []
        wait, self.wait = min(self.wait, self.params.nearer_period), min(2 * self.wait, self.params.nearer_period)
        return [SetTimer("nearer", now + wait * (1.0 + self.rng.random()))]

    def look(self, now: float) -> list[Effect]:
        kin = self.kin
        if kin.above is None or self.asked is not None:
            return []
        near = [*kin.regional.ancestors[1:], *kin.regional.siblings]
        others = self.rng.sample(list(self.exchange.cache.entries.values()), self.params.nearer_probes // 2)
        chosen = {contact.node: contact for contact in (*others, *self.rng.sample(near, len(near)))}
        self.seen = {}
        return self.measure(now, list(chosen.values()))

    def measure(self, now: float, contacts: list[Contact]) -> list[Effect]:
        assert self.kin.above is not None and self.seen is not None
        chosen = [each for each in contacts if not self.is_excluded(each.node)][: self.params.nearer_probes]
        self.seen |= {contact.node: contact for contact in chosen}
        return self.exchange.measure(now, [self.kin.above.contact, *chosen])

    def is_excluded(self, node: NodeId) -> bool:
        return node == self.kin.node_id or self.kin.is_neighbour(node) or node in self.tried

    def measured(self, now: float) -> list[Effect]:
        """All have had their time."""
        return [] if self.seen is None or self.asked is not None else self.proceed(now)

    def proceed(self, now: float) -> list[Effect]:
        if self.kin.above is None or self.seen is None:
            return self.stop(now)
        if self.leaving is not None:
            following = self.next_to_leave_for() if len(self.tried) < LEAVING_REQUESTS_MAX else None
            return self.rest(now) if following is None else self.ask(now, following)
        contact = self.nearest() if len(self.tried) < REQUESTS_MAX else None
        if contact is not None:
            return self.ask(now, contact)
        if self.beyond and len(self.tried) < REQUESTS_MAX:
            beyond, self.beyond = self.beyond, []
            unknown = [each for each in beyond if each.node not in self.seen and not self.is_excluded(each.node)]
            if unknown:
                return self.measure(now, unknown)
        return self.rest(now)

    def nearest(self) -> Contact | None:
        """Of those who are clearly nearer than the one above."""
        assert self.kin.above is not None and self.seen is not None
        known = self.exchange.round_trips
        above = known.get(self.kin.above.contact.node)
        if above is None:
            return None
        most = min(self.params.nearer_share * above, above - self.params.nearer_least)
        fitting = [node for node in self.seen if known.get(node, above) <= most and not self.is_excluded(node)]
        return self.seen[min(fitting, key=known.__getitem__)] if fitting else None

    # Asking.

    def ask(self, now: float, contact: Contact) -> list[Effect]:
        self.tried.add(contact.node)
        self.asked, self.kin.moving_to = contact, contact.node
        self.seeker.number += 1
        self.number = self.seeker.number
        effects = self.kin.want(contact)
        if contact.node in self.kin.peers:
            effects += self.send_request()
        return [*effects, SetTimer("moving", now + 2 * self.seeker.patience.seconds)]

    def peer_came(self, node: NodeId) -> list[Effect]:
        return self.send_request() if self.is_asked(node) and not self.kin.is_moving else []

    def send_request(self) -> list[Effect]:
        kin = self.kin
        assert kin.above is not None and self.asked is not None
        kin.is_moving = True
        colour, depth = kin.place.colour, kin.place.depth
        insists = self.insists
        request = ParentRequest(self.number, colour, depth, insists, insists, is_root=False, replaces=kin.above.link)
        return [Send(self.asked.node, request)]

    def peer_went(self, node: NodeId) -> None:
        if self.is_asked(node):
            # Access asks for the link again, and then the request is sent again.
            self.kin.is_moving = False

    def is_asked(self, node: NodeId) -> bool:
        return self.asked is not None and self.asked.node == node

    def is_answer(self, sender: NodeId, number: int) -> bool:
        return self.is_asked(sender) and self.kin.is_moving and number == self.number

    def refused(self, now: float, sender: NodeId, message: ParentRefuse) -> list[Effect]:
        if message.reason is Reason.MAXDEGREE:
            self.beyond += message.contacts
            if self.leaving is not None and self.asked is not None and not self.insists:
                self.full.append(self.asked)
        return [*self.forget(), *self.proceed(now), *self.seeker.let_go(sender)]

    def accepted(self, now: float, sender: NodeId, message: ParentAccept) -> list[Effect]:
        kin = self.kin
        assert kin.above is not None
        forgotten = self.forget()
        if not self.seeker.is_valid(sender, message):
            leave = ChildLeave(link_name(kin.node_id, message.number))
            gone: list[Effect] = [Drop(message, NOT_VALID), Send(sender, leave)]
            return [*forgotten, *gone, *self.proceed(now), *self.seeker.let_go(sender)]
        self.moves += 1
        lost = kin.above
        parted: list[Effect] = [Send(lost.contact.node, ChildLeave(lost.link)), *kin.lose_above(MOVED)]
        return [*forgotten, *parted, *self.seeker.attach(now, sender, message, lost), *self.rest(now)]

    def gave_no_answer(self, now: float, node: NodeId) -> list[Effect]:
        """It cannot be linked, or the time for it is over."""
        if not self.is_asked(node):
            return []
        return [*self.forget(), *self.proceed(now), *self.seeker.let_go(node)]

    def fired(self, now: float, timer: str) -> list[Effect]:
        match timer:
            case "nearer":
                return self.look(now)
            case "moving" if self.asked is not None:
                return self.gave_no_answer(now, self.asked.node)
        return []

    def forget(self) -> list[Effect]:
        """The request: what is answered to it from here on comes too late."""
        self.asked, self.kin.moving_to, self.kin.is_moving = None, "", False
        return [CancelTimer("moving")]

    def stop(self, now: float) -> list[Effect]:
        """The one above is lost, or our place has changed: what was asked from there does not count."""
        asked, rest = self.asked, self.rest(now)
        return rest if asked is None else [*self.forget(), *self.seeker.let_go(asked.node), *rest]

    def check(self) -> None:
        assert self.asked is None or self.kin.above is not None, "a move by one that has no place"
        assert self.kin.moving_to == ("" if self.asked is None else self.asked.node), "moves to whom it does not ask"
        assert not self.kin.is_moving or self.asked is not None, "a place that stands still for nothing"
