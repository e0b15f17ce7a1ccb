"""Replying to those who look for a place: whom a broker would take in, and whether it may.

A request comes from a part of the tree that has no leader, and must not be taken in by a broker of that same part:
there would be a circle. From whom the request comes tells it in most cases:

- from the broker above us: we are in that part. We remember so (`mark`), and pass the request on, to those below us
  over their links and once on the air; so it comes out of the part wherever somebody outside can hear it.
- from anybody else: we wait for `guard_delay`, in case that it comes from above as well, and reply to the one of those
  who were heard that is nearest to the requester. At once, if our distance to the leader that both know is less than
  the requester's (nobody below it is that near), if we are in the tree that it wants to join, or if it is new. If not,
  we look whether there is a leader above us: `RootCheck` walks up to the root, and a root without a leader, or anybody
  who is marked, says no.

When somebody asks to be below us (`RadioJoin`), distances and marks do not count: they may be old. Every join is
checked with a walk up to the leader. That is what makes circles impossible, even when any number of parts look for a
place at the same time. In each part without a leader one broker is its root, and asks; that part stays without a leader
from before the walk begins until it is taken in or has given up the request (what it is then told is answered with
`RadioLeave`). So nobody whose way up leads into that part reaches a leader in between, and whoever reaches one is
outside of it.

Source: dynamic-topologies.md 3.11.1, 3.11.3; D-115. There the rule of distances is checked again at the join, and a
circle that comes of old distances is broken later.
"""

import msgspec

from tidings.machine.effects import BROADCAST, Drop, Effect, Send, SetTimer, Transport
from tidings.model.bounds import RADIO_DISTANCE_MAX, RADIO_PATH_MAX
from tidings.model.identity import NodeId
from tidings.protocols.overlay.witree.branches import Branches, RouteKey
from tidings.protocols.overlay.witree.messages import (
    RadioJoin,
    RadioJoined,
    RadioRefused,
    RootCheck,
    RootChecked,
    RouteReply,
    RouteRequest,
)
from tidings.protocols.overlay.witree.params import WiTreeParams

ASKED_AGAIN = "asked again to be below us"
NOT_FROM_BELOW = "says what only one below may say"
NOT_ASKED = "answers what was not asked"
OF_ANOTHER_PART = "replies to a request of a part that we are not in"
PATH_TOO_LONG = "has passed too many brokers"
TOO_MANY_REQUESTS = "too many requests wait for a reply"


class HeardRequest(msgspec.Struct):
    request: RouteRequest
    """As it was heard from whoever is nearest to the requester."""
    sender: NodeId


class JoinRequest(msgspec.Struct, frozen=True):
    node: NodeId
    join: RadioJoin


class RouteResponder:
    def __init__(self, params: WiTreeParams, branches: Branches) -> None:
        self.params, self.branches, self.node_id = params, branches, branches.node_id
        self.heard: dict[NodeId, HeardRequest] = {}
        """Requests that wait for `guard_delay`, by requester."""
        self.passed: dict[NodeId, int] = {}
        """By requester: the last request that we have passed on, or replied to."""
        self.checks: dict[RouteKey, HeardRequest | JoinRequest] = {}
        """What waits for an answer of our root."""

    # Requests.

    def requested(self, now: float, sender: NodeId, request: RouteRequest) -> list[Effect]:
        requester = request.requester
        if requester == self.node_id or self.passed.get(requester) == request.number:
            return []
        if sender == self.branches.above:
            return self.pass_on(request)
        heard = self.heard.get(requester)
        if heard is not None and heard.request.number == request.number:
            if request.steps < heard.request.steps:
                heard.request, heard.sender = request, sender
            return []
        if heard is None and len(self.heard) >= self.params.requests_max:
            return [Drop(request, TOO_MANY_REQUESTS)]
        self.heard[requester] = HeardRequest(request, sender)
        return [SetTimer(("guard", requester), now + self.params.guard_delay)]

    def pass_on(self, request: RouteRequest) -> list[Effect]:
        """It is our own part that looks."""
        self.remember(request)
        self.heard.pop(request.requester, None)
        self.branches.mark = request.requester, request.number
        if request.steps >= RADIO_PATH_MAX:
            return [Drop(request, PATH_TOO_LONG)]
        further = msgspec.structs.replace(request, steps=request.steps + 1)
        return self.spread(further)

    def spread(self, request: RouteRequest) -> list[Effect]:
        return [*self.branches.tell_below(request), Send(BROADCAST, request, Transport.DATAGRAM)]

    def remember(self, request: RouteRequest) -> None:
        self.passed.pop(request.requester, None)
        self.passed[request.requester] = request.number
        if len(self.passed) > self.params.requests_max:
            del self.passed[next(iter(self.passed))]

    def guarded(self, now: float, requester: NodeId) -> list[Effect]:
        """Time to reply, if we may."""
        heard, branches = self.heard.pop(requester, None), self.branches
        if heard is None or branches.mark is not None or not branches.is_attached or self.is_full:
            return []
        request = heard.request
        self.remember(request)
        if request.target and request.target != branches.leader:
            return []
        is_nearer = request.leader == branches.leader and branches.distance < request.distance
        if is_nearer or request.target or not request.leader:
            return self.reply(heard)
        return self.check(now, (requester, request.number), heard)

    @property
    def is_full(self) -> bool:
        return len(self.branches.neighbours) >= self.params.neighbours_max

    def reply(self, heard: HeardRequest) -> list[Effect]:
        request = heard.request
        reply = RouteReply(request.requester, request.number, self.node_id, self.branches.distance, ())
        return [Send(heard.sender, reply, Transport.DATAGRAM)]

    def replied(self, reply: RouteReply) -> list[Effect]:
        """To another broker of our part: up to it."""
        above = self.branches.above
        if above is None or self.branches.mark != (reply.requester, reply.number):
            return [Drop(reply, OF_ANOTHER_PART)]
        if len(reply.path) >= RADIO_PATH_MAX:
            return [Drop(reply, PATH_TOO_LONG)]
        return [Send(above, msgspec.structs.replace(reply, path=(*reply.path, self.node_id)))]

    # Joins.

    def asked(self, now: float, sender: NodeId, join: RadioJoin) -> list[Effect]:
        branches = self.branches
        if sender == branches.above:
            return [Send(sender, RadioRefused(join.number))]
        stale = branches.lose(now, sender, ASKED_AGAIN) if sender in branches.neighbours else []
        return [*stale, *self.check(now, (sender, join.number), JoinRequest(sender, join))]

    def forget(self, node: NodeId) -> None:
        """It is not linked any more: what it asked is settled."""
        gone = [key for key, check in self.checks.items() if isinstance(check, JoinRequest) and check.node == node]
        for key in gone:
            del self.checks[key]

    # Whether there is a leader above us.

    def check(self, now: float, key: RouteKey, purpose: HeardRequest | JoinRequest) -> list[Effect]:
        branches = self.branches
        if branches.above is None or branches.mark is not None:
            return self.settle(now, key, purpose, has_leader=branches.is_leader)
        self.checks[key] = purpose
        if len(self.checks) > self.params.requests_max:
            del self.checks[next(iter(self.checks))]
        return [Send(branches.above, RootCheck(*key, (self.node_id,)))]

    def walk(self, sender: NodeId, walk: RootCheck) -> list[Effect]:
        """Somebody below us wants to know."""
        branches = self.branches
        if sender not in branches.neighbours or sender == branches.above:
            return [Drop(walk, NOT_FROM_BELOW)]
        is_round = self.node_id in walk.path or len(walk.path) >= RADIO_PATH_MAX
        if branches.above is None or branches.mark is not None or is_round:
            has_leader = branches.is_leader and not is_round
            return [Send(sender, RootChecked(walk.requester, walk.number, walk.path[:-1], has_leader))]
        return [Send(branches.above, msgspec.structs.replace(walk, path=(*walk.path, self.node_id)))]

    def checked(self, now: float, sender: NodeId, answer: RootChecked) -> list[Effect]:
        branches = self.branches
        if sender != branches.above:
            # Where the way up has changed meanwhile, the answer is worth nothing.
            return [Drop(answer, NOT_ASKED)]
        if answer.path:
            back = answer.path[-1]
            if back not in branches.neighbours or back == branches.above:
                return [Drop(answer, NOT_ASKED)]
            return [Send(back, msgspec.structs.replace(answer, path=answer.path[:-1]))]
        key = answer.requester, answer.number
        purpose = self.checks.pop(key, None)
        if purpose is None:
            return [Drop(answer, NOT_ASKED)]
        return self.settle(now, key, purpose, answer.has_leader)

    def settle(self, now: float, key: RouteKey, purpose: HeardRequest | JoinRequest, has_leader: bool) -> list[Effect]:
        branches = self.branches
        if isinstance(purpose, HeardRequest):
            return self.reply(purpose) if has_leader else []
        node, join = purpose.node, purpose.join
        is_fit = branches.distance < RADIO_DISTANCE_MAX and node in branches.peers and node not in branches.neighbours
        if not has_leader or self.is_full or not is_fit:
            return [Send(node, RadioRefused(join.number))]
        taken = branches.take_below(now, node, join.number, join.replaces)
        accept = RadioJoined(join.number, branches.leader, branches.sequence, branches.distance + 1)
        return [Send(node, accept), *taken]

    def check_state(self) -> None:
        most = self.params.requests_max
        assert max(len(self.heard), len(self.passed), len(self.checks)) <= most, "more requests than requests_max"
