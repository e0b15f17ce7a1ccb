"""Pulse: who of those we rely on is there, and what they tell while they are asked.

The problem. A peer relies on its friends, and in each tree on its parent. One of them that dies says nothing.

The idea. Each of them is pinged once every `period`, whatever number of roles it plays, and has `timeout` to answer.
The ping carries our friends, the answer theirs, so that everybody meets the friends of friends and of fans; and the
answer carries how the other stands in the trees in which it is our parent, so that everybody knows its ancestors. Those
who are pinged watch in turn: a fan or a child that pings no longer is forgotten, without a word.

State. `peers`: who is pinged, with the ping that has no answer yet. Who is needed is read from the parts that need them
(`friends`, `parents`, `ancestries`), so that it cannot differ.

Timers. ("ping", node), in a phase of its own for each; ("silent", node).

Takes `PeerWatched` and `ProbeWanted`; tells `PulseHeard`, `PulseAnswered`, `PeerSilent`.

Guaranteed. A peer that is needed and dies is told as silent between `timeout` and `period + timeout` seconds later; one
that lives and answers in time never. Candidates are never pinged (P-39), except friends of an earlier session (P-83).

Source: peer-to-peer.md 3C.2, G-3 and G-4 (P-26, P-33, P-36, P-60, P-61).
"""

from collections.abc import Iterable
from random import Random
from typing import Protocol

import msgspec

from tidings.machine.effects import CancelTimer, Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received, Signal
from tidings.model.identity import NodeId
from tidings.protocols.feeds.messages import PulseEcho, PulsePing
from tidings.protocols.feeds.own import OwnStanding
from tidings.protocols.feeds.params import PulseParams
from tidings.pubsub.feeds import (
    Ancestry,
    FeedId,
    PeerSilent,
    PeerWatched,
    ProbeWanted,
    PulseAnswered,
    PulseHeard,
)

NOT_PINGED = "answers a ping that was never sent, or was answered"
TOO_MANY = "as many peers as are allowed are pinged already"


class FriendView(Protocol):
    def friend_names(self) -> tuple[NodeId, ...]: ...

    def is_fan(self, node: NodeId) -> bool: ...


class TreeView(Protocol):
    def feeds_below(self, parent: NodeId) -> tuple[FeedId, ...]:
        """In which this node is our parent."""
        ...

    def ancestries_for(self, child: NodeId, feeds: Iterable[FeedId]) -> tuple[Ancestry, ...]:
        """Of those in which it is our child."""
        ...


class PulsedPeer(msgspec.Struct):
    round: int = 0
    asked: tuple[FeedId, ...] = ()
    is_waiting: bool = False


class Pulse:
    messages: tuple[type, ...] = (PulsePing, PulseEcho)
    hears: tuple[type, ...] = (PeerWatched, ProbeWanted)
    tells: tuple[type[Signal], ...] = (PulseHeard, PulseAnswered, PeerSilent)

    def __init__(
        self, own: OwnStanding, friends: FriendView, trees: TreeView, params: PulseParams, rng: Random
    ) -> None:
        self.own, self.friends, self.trees, self.params, self.rng = own, friends, trees, params, rng
        self.peers: dict[NodeId, PulsedPeer] = {}

    def start(self, now: float) -> list[Effect]:
        self.peers.clear()
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Received(sender, PulsePing() as ping):
                return [*self.own.news(sender, ping), *self.answer(sender, ping)]
            case Received(sender, PulseEcho() as echo):
                return [*self.own.news(sender, echo), *self.answered(now, sender, echo)]
            case Fired(("ping", str(node))) if node in self.peers:
                return self.ping(now, node)
            case Fired(("silent", str(node))) if node in self.peers:
                return self.silent(node)
            case PeerWatched(node) if node not in self.peers and node != self.own.node_id:
                if len(self.peers) >= self.params.peers_max:
                    return [Drop(input, TOO_MANY)]
                self.peers[node] = PulsedPeer()
                # In a phase of its own: the pings of many friendships that began together do not meet.
                return [SetTimer(("ping", node), now + self.rng.uniform(0.0, self.params.period))]
            case ProbeWanted(node) if node != self.own.node_id:
                if node not in self.peers and len(self.peers) >= self.params.peers_max:
                    return [Drop(input, TOO_MANY)]
                self.peers.setdefault(node, PulsedPeer())
                return self.send_ping(now, node)
        return []

    def is_needed(self, node: NodeId) -> bool:
        return node in self.friends.friend_names() or bool(self.trees.feeds_below(node))

    def ping(self, now: float, node: NodeId) -> list[Effect]:
        if not self.is_needed(node):
            del self.peers[node]
            return [CancelTimer(("silent", node))]
        return self.send_ping(now, node)

    def send_ping(self, now: float, node: NodeId) -> list[Effect]:
        peer, friends = self.peers[node], self.friends.friend_names()
        peer.round += 1
        peer.asked, peer.is_waiting = self.trees.feeds_below(node), True
        ping = PulsePing(self.own.versions, peer.round, friends, peer.asked, node in friends)
        return [
            Send(node, ping),
            SetTimer(("silent", node), now + self.params.timeout),
            SetTimer(("ping", node), now + self.params.period),
        ]

    def answer(self, sender: NodeId, ping: PulsePing) -> list[Effect]:
        # First what it tells: who is a fan or a child afterwards is what the answer says.
        heard = PulseHeard(sender, ping.friends, ping.feeds, ping.as_friend)
        ancestries = self.trees.ancestries_for(sender, ping.feeds)
        is_fan = self.friends.is_fan(sender)
        echo = PulseEcho(self.own.versions, ping.round, self.friends.friend_names(), ancestries, is_fan)
        return [heard, Send(sender, echo)]

    def answered(self, now: float, sender: NodeId, echo: PulseEcho) -> list[Effect]:
        peer = self.peers.get(sender)
        if peer is None or not peer.is_waiting or peer.round != echo.round:
            return [Drop(echo, NOT_PINGED)]
        peer.is_waiting = False
        answered = PulseAnswered(sender, echo.friends, peer.asked, echo.ancestries, echo.is_fan)
        return [CancelTimer(("silent", sender)), answered]

    def silent(self, node: NodeId) -> list[Effect]:
        del self.peers[node]
        return [CancelTimer(("ping", node)), PeerSilent(node)]

    def check(self) -> None:
        assert len(self.peers) <= self.params.peers_max, "more peers are pinged than may be"
        assert self.own.node_id not in self.peers, "pings itself"
