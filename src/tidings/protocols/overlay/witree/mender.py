"""Finding a place for a part of the tree that has no leader: what its root does.

Whoever loses the broker above it is the root of what is below it, and looks for a place for all of that. So does a
broker that is new, and a leader that hears of a tree that its own is to join: the one with the greater name gives way.

1. It sends a `RouteRequest` to those below it and on the air, and collects replies for `collect_for` seconds. Each says
   which broker outside would take the part in (*end*), and on which path inside the part it was heard.
2. It takes the reply of the broker nearest to the leader; of several, the one with the shortest path. The end of that
   path is to ask, which need not be the requester itself. `RootHandover` walks down that path and makes each broker on
   it the root in turn, by turning the link to the one before. Links and neighbours stay what they are.
3. The last one asks for a link to the end, and over it to be taken in (`RadioJoin`). Then those below hear who their
   leader is (`TreeHello`), and the broker that lost the link hears which one has taken its place (`LinkMended`).
4. If that fails it takes the next reply, or requests anew: `retries` times, then it leads what is below it.

There is one root in a part at any moment: who hands over is not the root any more, and who is asked is one only when it
hears of it. If the link between the two breaks in between, there are two parts, and both ends are roots.

Source: dynamic-topologies.md 3.11.1, 3.11.3 (W-1 to W-3); D-115 to D-117.
"""

import msgspec

from tidings.machine.effects import CancelTimer, Effect, Send, SetTimer
from tidings.machine.message import Contact
from tidings.machine.streams import RandomStream
from tidings.model.bounds import RADIO_PATH_MAX
from tidings.model.identity import NodeId
from tidings.protocols.overlay.witree.branches import USER, Branches
from tidings.protocols.overlay.witree.messages import (
    LinkMended,
    RadioJoin,
    RadioJoined,
    RootHandover,
    RouteReply,
    RouteRequest,
)
from tidings.protocols.overlay.witree.params import WiTreeParams
from tidings.protocols.overlay.witree.responder import RouteResponder
from tidings.pubsub.notes import Reattached, RootElected
from tidings.pubsub.signals import LinkUnwanted, LinkWanted, NeighbourReplaced, ReconfigurationId

STRATEGY = "radio"
"""As it is called in the note Reattached."""


class RouteSearch(msgspec.Struct):
    """For a place for the part whose root we are."""

    replaces: ReconfigurationId = ""
    """The link that was lost; empty where none was."""
    way: tuple[NodeId, ...] = ()
    """From the broker that lost it to us, without us."""
    target: NodeId = ""
    """The leader whose tree is to be joined; empty where any will do."""
    tries: int = 0
    """How often nobody took us in."""
    number: int = 0
    """Of the request whose replies are collected."""
    replies: list[RouteReply] = []
    asked: NodeId = ""
    """Who was asked to take us in."""
    join: int = 0
    """Under which number; 0 while the link to it is not up."""


class RadioMender:
    def __init__(self, params: WiTreeParams, branches: Branches, responder: RouteResponder, rng: RandomStream) -> None:
        self.params, self.branches, self.responder, self.rng = params, branches, responder, rng
        self.node_id = branches.node_id
        self.search: RouteSearch | None = None
        self.leads = self.repairs = 0
        """How often we became a leader, and how often a link that we lost was replaced."""

    # The search begins.

    def begin(self, now: float, search: RouteSearch) -> list[Effect]:
        self.search = search
        return self.request(now)

    def lose(self, now: float, node: NodeId, reason: str) -> list[Effect]:
        """A neighbour is gone."""
        branches = self.branches
        link, was_above = branches.neighbours[node].link, branches.above == node
        effects = branches.lose(now, node, reason)
        return [*effects, *self.begin(now, RouteSearch(replaces=link))] if was_above else effects

    def give_way(self, now: float, target: NodeId) -> list[Effect]:
        """A leader whose tree is to join another one. If that fails it leads on."""
        self.branches.is_leader = False
        return [CancelTimer("group"), *self.begin(now, RouteSearch(target=target, tries=self.params.retries))]

    def handed(self, now: float, sender: NodeId, handover: RootHandover) -> list[Effect]:
        """The one above us has made us the root."""
        self.branches.above = None
        way = (*handover.way, sender)[-RADIO_PATH_MAX:] if handover.replaces else ()
        self.search = RouteSearch(handover.replaces, way, handover.target, handover.tries)
        if handover.path:
            return self.hand_over(now, handover.end, handover.path)
        return self.ask(now, handover.end)

    def request(self, now: float) -> list[Effect]:
        search, branches = self.search, self.branches
        assert search is not None
        search.number, search.replies, search.asked, search.join = branches.next_number(), [], "", 0
        branches.mark = self.node_id, search.number
        request = RouteRequest(
            *(self.node_id, search.number, branches.leader, branches.distance, search.target), steps=0
        )
        return [*self.responder.spread(request), SetTimer("collect", now + self.params.collect_for)]

    def replied(self, reply: RouteReply) -> None:
        search = self.search
        is_ours = search is not None and reply.number == search.number and not search.asked
        if search is not None and is_ours and len(search.replies) < self.params.replies_max:
            search.replies.append(reply)

    # A reply is taken.

    def choose(self, now: float) -> list[Effect]:
        """The best of those that are left."""
        search = self.search
        assert search is not None
        if not search.replies:
            return self.fail(now)
        best = min(search.replies, key=lambda reply: (reply.distance, len(reply.path), reply.end))
        search.replies.remove(best)
        if not best.path:
            return self.ask(now, best.end)
        return self.hand_over(now, best.end, best.path[::-1])

    def hand_over(self, now: float, end: NodeId, path: tuple[NodeId, ...]) -> list[Effect]:
        search, branches, heir = self.search, self.branches, path[0]
        assert search is not None
        if heir not in branches.neighbours:
            return self.fail(now)
        handover = RootHandover(end, path[1:], search.replaces, search.way, search.target, search.tries)
        self.search, branches.above = None, heir
        return [CancelTimer("collect"), Send(heir, handover)]

    def ask(self, now: float, end: NodeId) -> list[Effect]:
        search, branches = self.search, self.branches
        assert search is not None
        if end == self.node_id or end in branches.neighbours or len(branches.neighbours) > self.params.neighbours_max:
            return self.fail(now)
        search.asked, search.join = end, 0
        wanted: list[Effect] = [LinkWanted(Contact(end), USER), SetTimer("join", now + self.params.join_timeout)]
        return [*wanted, *self.linked(end)] if end in branches.peers else wanted

    def linked(self, node: NodeId) -> list[Effect]:
        """If it is the one that we want to ask, now is the time."""
        search = self.search
        if search is None or search.asked != node or search.join:
            return []
        search.join = self.branches.next_number()
        return [Send(node, RadioJoin(search.join, search.replaces))]

    def is_asked(self, node: NodeId, number: int) -> bool:
        search = self.search
        return search is not None and bool(search.join) and (search.asked, search.join) == (node, number)

    # How it ends.

    def joined(self, now: float, sender: NodeId, joined: RadioJoined) -> list[Effect]:
        search, branches = self.search, self.branches
        assert search is not None
        self.search = None
        taken = branches.take_above(now, sender, joined.number, search.replaces)
        branches.hello_at = now
        branches.follow(now, joined.leader, joined.sequence, joined.distance)
        effects = [CancelTimer("join"), *taken, *branches.tell_leader()]
        if search.replaces:
            whole = (*search.way, self.node_id)[-RADIO_PATH_MAX:]
            effects += self.mended(now, LinkMended(search.replaces, search.way, whole, sender))
        return effects

    def mended(self, now: float, mended: LinkMended) -> list[Effect]:
        """For us, or for one whose handover made us the root."""
        if mended.path:
            back = mended.path[-1]
            further = msgspec.structs.replace(mended, path=mended.path[:-1])
            return [Send(back, further)] if back in self.branches.neighbours else []
        lost = self.branches.lost.pop(mended.reconfiguration, None)
        if lost is None or not mended.whole:
            return []
        self.repairs += 1
        way = mended.whole
        replaced = NeighbourReplaced(mended.reconfiguration, lost.neighbour, way[-1], mended.far, way=way)
        return [replaced, Reattached(now - lost.at, STRATEGY, len(mended.whole))]

    def refused(self, now: float) -> list[Effect]:
        """By the one that was asked; or it did not answer, or is gone."""
        search = self.search
        assert search is not None
        parted: list[Effect] = [CancelTimer("join"), LinkUnwanted(search.asked, USER)]
        search.asked, search.join = "", 0
        return [*parted, *self.choose(now)]

    def fail(self, now: float) -> list[Effect]:
        search = self.search
        assert search is not None
        search.tries += 1
        return self.request(now) if search.tries <= self.params.retries else self.lead(now)

    def lead(self, now: float) -> list[Effect]:
        """Nobody takes us in: we lead those below us."""
        self.search = None
        self.branches.lead()
        self.leads += 1
        return [
            CancelTimer("collect"),
            *self.branches.tell_leader(),
            SetTimer("group", now + self.params.group_period),
            SetTimer("air", now + self.rng.uniform(0.0, self.params.jitter)),
            RootElected(self.leads),
        ]

    def check(self) -> None:
        branches = self.branches
        is_orphan = not branches.is_attached
        assert (self.search is not None) == is_orphan, "an orphan that does not look for a place, or another that does"
        assert self.search is None or len(self.search.replies) <= self.params.replies_max, "too many replies"
