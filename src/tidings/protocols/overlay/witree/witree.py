"""WiTree: brokers that hear each other by radio, move about, and are a tree.

The problem. Brokers are carried around. Each hears whoever is near enough; links come and go without a word, nobody can
be reached who is out of reach, and nobody knows who is where. Yet all who can hear each other, directly or through
others, are to be one tree, and a link that is lost is to be replaced within a second or two. At no time may there be a
circle.

The idea. One broker, nobody special, is the *leader* of a tree. It says so at regular times to everybody in its tree
(`TreeHello`, from each broker to those below it), and everybody repeats it on the air (`GroupHello`). Of two
neighbours, the one farther from the leader has to find a new place if their link breaks, for itself and all that is
below it (`mender.py`): it asks on the air, and so does everybody below it, so that the new link may be anywhere at the
rim of that part. Who hears that and is outside replies, and may take the part in (`responder.py`). Where nobody does,
there is another leader. When the trees of two leaders hear each other, one of them is taken into the other in the same
way: that of the leader with the greater name.

What travels how. On the air, to whoever hears it and perhaps to nobody: hellos and requests. As a datagram to one
broker in reach: the reply. All else goes over the links of the tree, in order, and a link on which something cannot be
delivered is lost. Nothing is ever sent to a broker that is out of reach. Links are asked of access (`LinkWanted`), in
the simulator and on sockets alike.

A neighbour that was not heard for two hellos is asked over its link; if it does not answer it is lost. So is the one
above when three hellos of the leader have not come through it, whatever the reason.

State. `branches`: neighbours, who is above, who leads. `mender`: the search that is under way. `responder`: requests of
others. Timers: "hello", "group" (a leader's hello), "air" (the hello of a group is repeated), "collect", "join",
"merge", ("guard", requester).

Takes `PeerUp`, `PeerDown`, `LinkFailed` from access; tells routing `NeighbourUp`, `NeighbourDown`, and at the broker
that lost the one above it `NeighbourReplaced`.

Guaranteed, whatever is late or lost: no circle of links, at any moment. When nothing moves any more, all who can hear
each other are one tree with one leader, seen the same from both ends. Somebody who lies (about leaders, distances,
walks to the leader) can make a circle only through himself, which lasts for as long as he says the hellos of a leader
in it; he can make nobody keep more than the bounds allow, and makes no neighbour of anybody who did not ask or accept
himself.
Not guaranteed: that a broker keeps its link while it could; short ways. Trees are at most RADIO_PATH_MAX links deep:
whoever is farther from the leader is another tree.

Source: dynamic-topologies.md 3.11, section 14.1.2 of its source, after MAODV.
"""

from collections.abc import Iterator
from random import Random
from typing import Any

from msgspec.structs import replace

from tidings.machine.effects import BROADCAST, Drop, Effect, Send, SetTimer, Transport
from tidings.machine.inputs import Fired, Input, Received, Signal
from tidings.machine.streams import random_stream
from tidings.model.bounds import RADIO_DISTANCE_MAX
from tidings.model.identity import NodeId
from tidings.protocols.overlay.witree.branches import USER, Branches
from tidings.protocols.overlay.witree.mender import RadioMender, RouteSearch
from tidings.protocols.overlay.witree.messages import (
    GroupHello,
    LinkMended,
    OtherGroup,
    RadioHello,
    RadioJoin,
    RadioJoined,
    RadioLeave,
    RadioRefused,
    RootCheck,
    RootChecked,
    RootHandover,
    RouteReply,
    RouteRequest,
    TreeHello,
)
from tidings.protocols.overlay.witree.params import WiTreeParams
from tidings.protocols.overlay.witree.responder import NOT_ASKED, NOT_FROM_BELOW, RouteResponder
from tidings.pubsub.rows import BrokerRow, Gauge
from tidings.pubsub.signals import (
    Level,
    LinkFailed,
    LinkUnwanted,
    LinkWanted,
    NeighbourDown,
    NeighbourReplaced,
    NeighbourUp,
    PeerDown,
    PeerUp,
)

ON_AIR = (RadioHello, GroupHello, RouteRequest, RouteReply)
"""What is heard from anybody in reach."""

NOT_A_PEER = "comes from a node that is no peer"
NOT_A_NEIGHBOUR = "comes from a broker that is no neighbour"
NOT_FROM_ABOVE = "says what only the one above may say"
STARTED_AGAIN = "started again"
LEFT = "is no neighbour any more"
SILENT = "was not heard for too long"
NO_LEADER_HEARD = "no hello of a leader came through it for too long"
ROUND = "the way to the leader leads around a circle"


class WiTree:
    """`WiTree("b", WiTreeParams(), rng)`."""

    level, is_tree = Level.REPLACEMENTS, True
    messages: tuple[type, ...] = (
        *ON_AIR,
        TreeHello,
        RootHandover,
        RadioJoin,
        RadioJoined,
        RadioRefused,
        RadioLeave,
        RootCheck,
        RootChecked,
        LinkMended,
        OtherGroup,
    )
    hears: tuple[type, ...] = (PeerUp, PeerDown, LinkFailed)
    tells: tuple[type[Signal], ...] = (NeighbourUp, NeighbourDown, NeighbourReplaced, LinkWanted, LinkUnwanted)

    def __init__(self, node_id: NodeId, params: WiTreeParams, rng: Random) -> None:
        self.node_id, self.params = node_id, params
        self.rng = random_stream(rng.getrandbits(64), "witree")
        self.begin_anew(0, 0)
        self.aired_at = 0.0
        """When we last said anything on the air."""
        self.target: NodeId = ""
        """Of a leader: the one whose tree ours is to join."""
        self.merge_at = 0.0
        """Before then it does not try again, whoever is heard."""
        self.told: dict[NodeId, float] = {}
        """When we last told those above of the tree of another leader."""

    def begin_anew(self, epochs: int, numbers: int) -> None:
        self.branches = Branches(self.node_id, self.params)
        self.branches.epochs, self.branches.numbers = epochs, numbers
        self.responder = RouteResponder(self.params, self.branches)
        self.mender = RadioMender(self.params, self.branches, self.responder, self.rng)

    # What a node asks of its overlay.

    @property
    def neighbours(self) -> list[NodeId]:
        return list(self.branches.neighbours)

    def why_unsettled(self) -> str:
        return "" if self.branches.is_attached else "looking for a tree to be part of"

    def start(self, now: float) -> list[Effect]:
        before, mender = self.branches, self.mender
        effects = [effect for node in list(before.neighbours) for effect in before.lose(now, node, STARTED_AGAIN)]
        if mender.search is not None and mender.search.asked:
            effects.append(LinkUnwanted(mender.search.asked, USER))
        self.begin_anew(before.epochs, before.numbers)
        self.mender.leads, self.mender.repairs = mender.leads, mender.repairs
        self.told.clear()
        self.merge_at = now
        hello = SetTimer("hello", now + self.rng.uniform(0.0, self.params.hello_period))
        return [*effects, hello, *self.mender.begin(now, RouteSearch())]

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Received(sender, message) if isinstance(message, self.messages):
                effects = self.receive(now, sender, message)
            case PeerUp(broker):
                effects = self.peer_up(now, broker)
            case PeerDown(broker, _, reason):
                effects = self.peer_down(now, broker, reason)
            case LinkFailed(broker):
                effects = self.mender.refused(now) if self.is_waiting_for(broker) else []
            case Fired(key):
                effects = self.fired(now, key)
            case _:
                return []
        if any(isinstance(effect, Send) and effect.to == BROADCAST for effect in effects):
            self.aired_at = now
        return effects

    # Links.

    def peer_up(self, now: float, node: NodeId) -> list[Effect]:
        effects = self.peer_down(now, node, STARTED_AGAIN) if node in self.branches.peers else []
        self.branches.peers[node] = None
        return [*effects, *self.mender.linked(node)]

    def peer_down(self, now: float, node: NodeId, reason: str) -> list[Effect]:
        self.branches.peers.pop(node, None)
        self.responder.forget(node)
        if node in self.branches.neighbours:
            return self.mender.lose(now, node, reason)
        return self.mender.refused(now) if self.is_waiting_for(node) else []

    def is_waiting_for(self, node: NodeId) -> bool:
        return self.mender.search is not None and self.mender.search.asked == node

    def part_from(self, now: float, node: NodeId, reason: str) -> list[Effect]:
        goodbye: list[Effect] = [Send(node, RadioLeave())]
        return [*goodbye, *self.mender.lose(now, node, reason)]

    # What others say.

    def receive(self, now: float, sender: NodeId, message: Any) -> list[Effect]:
        branch = self.branches.neighbours.get(sender)
        if branch is not None:
            branch.heard_at, branch.is_asked = now, False
        if isinstance(message, ON_AIR):
            return self.hear(now, sender, message)
        if sender not in self.branches.peers:
            return [Drop(message, NOT_A_PEER)]
        return self.read(now, sender, message)

    def hear(self, now: float, sender: NodeId, message: Any) -> list[Effect]:
        """On the air."""
        match message:
            case RadioHello(is_question):
                return self.answer(sender) if is_question and sender in self.branches.peers else []
            case GroupHello(leader):
                return self.other_group(now, leader)
            case RouteRequest():
                return self.responder.requested(now, sender, message)
            case RouteReply(requester) if requester == self.node_id:
                self.mender.replied(message)
                return []
            case RouteReply():
                return self.responder.replied(message)
        return []

    def answer(self, sender: NodeId) -> list[Effect]:
        return [Send(sender, RadioHello() if sender in self.branches.neighbours else RadioLeave())]

    def read(self, now: float, sender: NodeId, message: Any) -> list[Effect]:
        """Over a link."""
        match message:
            case RadioJoin():
                return self.responder.asked(now, sender, message)
            case RadioJoined(number) if self.mender.is_asked(sender, number):
                return [*self.mender.joined(now, sender, message), self.repeat_on_air(now)]
            case RadioJoined():
                return [Drop(message, NOT_ASKED), Send(sender, RadioLeave())]
            case RadioRefused(number):
                return self.mender.refused(now) if self.mender.is_asked(sender, number) else []
        if sender not in self.branches.neighbours:
            return [Drop(message, NOT_A_NEIGHBOUR)]
        match message:
            case RadioLeave():
                return self.mender.lose(now, sender, LEFT)
            case RootCheck():
                return self.responder.walk(sender, message)
            case RootChecked():
                return self.responder.checked(now, sender, message)
            case LinkMended():
                return self.mender.mended(now, message)
            case OtherGroup(leader):
                is_below = sender != self.branches.above
                return self.other_group(now, leader) if is_below else [Drop(message, NOT_FROM_BELOW)]
        if sender != self.branches.above:
            return [Drop(message, NOT_FROM_ABOVE)]
        return self.from_above(now, sender, message)

    def from_above(self, now: float, sender: NodeId, message: Any) -> list[Effect]:
        match message:
            case RootHandover():
                return self.mender.handed(now, sender, message)
            case TreeHello(leader, sequence, distance):
                return self.tree_hello(now, sender, leader, sequence, distance)
        return []

    def tree_hello(self, now: float, sender: NodeId, leader: NodeId, sequence: int, distance: int) -> list[Effect]:
        branches = self.branches
        if distance >= RADIO_DISTANCE_MAX:
            return self.part_from(now, sender, ROUND)
        before = branches.distance, branches.mark
        is_news = branches.follow(now, leader, sequence, distance)
        is_other = is_news or before != (distance, None)
        return [
            *(branches.tell_leader() if is_other else ()),
            *([self.repeat_on_air(now)] if is_news else []),
        ]

    def repeat_on_air(self, now: float) -> Effect:
        return SetTimer("air", now + self.rng.uniform(0.0, self.params.jitter))

    def other_group(self, now: float, leader: NodeId) -> list[Effect]:
        """The tree of this leader is near. If ours is to give way, our leader has to know, once in a while."""
        branches = self.branches
        is_ours_to_go = bool(branches.leader) and leader < branches.leader
        if not is_ours_to_go or now < self.told.get(leader, -self.params.group_period) + self.params.group_period:
            return []
        self.told.pop(leader, None)
        self.told[leader] = now
        if len(self.told) > self.params.requests_max:
            del self.told[next(iter(self.told))]
        if branches.above is not None:
            return [Send(branches.above, OtherGroup(leader))]
        if not branches.is_leader or now < self.merge_at:
            return []
        self.target, self.merge_at = leader, now + self.params.group_period
        return [SetTimer("merge", now + self.rng.uniform(0.0, self.params.collect_for))]

    # Time goes by.

    def fired(self, now: float, key: object) -> list[Effect]:
        mender, branches = self.mender, self.branches
        match key:
            case "hello":
                return self.look_around(now)
            case "group" if branches.is_leader:
                branches.lead()
                again = SetTimer("group", now + self.params.group_period)
                return [*branches.tell_leader(), again, self.repeat_on_air(now)]
            case "air" if branches.is_attached:
                return [Send(BROADCAST, GroupHello(branches.leader, branches.sequence), Transport.DATAGRAM)]
            case "collect" if mender.search is not None and not mender.search.asked:
                return mender.choose(now)
            case "join" if mender.search is not None and mender.search.asked:
                return mender.refused(now)
            case "merge" if branches.is_leader:
                return mender.give_way(now, self.target)
            case ("guard", str(requester)):
                return self.responder.guarded(now, requester)
        return []

    def look_around(self, now: float) -> list[Effect]:
        """Say that we are here, and see who was not heard for too long."""
        params, branches = self.params, self.branches
        again = now + params.hello_period * self.rng.uniform(0.9, 1.1)
        effects: list[Effect] = [SetTimer("hello", again)]
        if now >= self.aired_at + 0.5 * params.hello_period:
            effects.append(Send(BROADCAST, RadioHello(), Transport.DATAGRAM))
        asked_after = params.hellos_missed * params.hello_period
        for node, branch in list(branches.neighbours.items()):
            silence = now - branch.heard_at
            if branch.is_asked and silence > asked_after + params.hello_period:
                effects += self.part_from(now, node, SILENT)
            elif not branch.is_asked and silence > asked_after:
                branch.is_asked = True
                effects.append(Send(node, RadioHello(is_question=True)))
        if branches.above is not None and now > branches.hello_at + params.groups_missed * params.group_period:
            effects += self.part_from(now, branches.above, NO_LEADER_HEARD)
        return effects

    # What others may look at.

    def described(self, row: BrokerRow) -> BrokerRow:
        branches = self.branches
        return replace(
            row,
            above=branches.above or "",
            depth=float(branches.distance),
            colour=branches.leader,
            repairs=self.mender.repairs,
        )

    def gauges(self) -> Iterator[Gauge]:
        yield Gauge("tree_repairs", "times that the broker above was lost and another one found", self.mender.repairs)
        yield Gauge("tree_elections", "times that this broker became the root of a tree", self.mender.leads)
        yield Gauge("tree_neighbours", "brokers above and below in the tree", len(self.neighbours))

    def check(self) -> None:
        self.branches.check()
        self.responder.check_state()
        self.mender.check()
        assert len(self.told) <= self.params.requests_max, "more leaders than are remembered"
