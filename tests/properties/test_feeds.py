"""Peers under a network that does its worst, among peers that lie."""

from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.properties.hostile_network import NAMES, HostileNetwork, names
from tests.properties.message_strategies import of_message
from tidings.machine.effects import Deliver, Effect
from tidings.machine.inputs import Input
from tidings.machine.message import Message
from tidings.machine.node import Machine
from tidings.machine.streams import random_stream
from tidings.nodes.peer import PeerNode, PeerParams
from tidings.protocols.feeds.messages import FeedMessage
from tidings.pubsub.feeds import FeedItem, OfferFeed, PublishItem, SubscribeFeed, UnsubscribeFeed
from tidings.wire import encode

FEEDS = ("http://f/", "http://g/", "http://h/")
"""The first is published by "a", the others are adopted."""

about_feeds = st.one_of([of_message(kind) for kind in FeedMessage.__subclasses__() if "feed" in kind.__struct_fields__])


class HostilePeers(HostileNetwork):
    def make(self, name: str, life: int) -> Machine:
        others = tuple(it for it in NAMES if it != name)
        node = PeerNode(name, PeerParams(contacts=others, version=life), random_stream(1, name, life))
        # A liar can send anybody what he does not read; it is dropped, and no fault of ours.
        node.forest.check = node.forest.grove.check  # type: ignore[method-assign]
        return node

    def observe(self, name: str, input: Input | None, effects: list[Effect]) -> None:
        seen = self.seen.setdefault((name, self.lives[name]), set()) if hasattr(self, "seen") else set()
        for effect in effects:
            if isinstance(effect, Deliver) and isinstance(effect.item, FeedItem):
                key = effect.item.feed, effect.item.number
                assert key not in seen, "delivered twice"
                seen.add(key)

    @property
    def seen(self) -> dict[Any, Any]:
        found: dict[Any, Any] = self.__dict__.setdefault("all_seen", {})
        return found

    def peer(self, name: str) -> PeerNode:
        machine = self.machines[name]
        assert isinstance(machine, PeerNode)
        return machine

    @rule(name=names, feed=st.sampled_from(FEEDS))
    def read(self, name: str, feed: str) -> None:
        trees = self.peer(name).forest.trees
        if feed in trees and not trees[feed].is_leaving:
            return
        if feed == FEEDS[0] and name == "a":
            if feed not in trees:
                self.step(name, OfferFeed(feed))
        else:
            self.step(name, SubscribeFeed(feed, "a" if feed == FEEDS[0] else ""))

    @rule(name=names, feed=st.sampled_from(FEEDS))
    def give_up(self, name: str, feed: str) -> None:
        tree = self.peer(name).forest.trees.get(feed)
        if tree is not None and not tree.is_leaving:
            self.step(name, UnsubscribeFeed(feed))

    @rule(name=names, feed=st.sampled_from(FEEDS))
    def publish(self, name: str, feed: str) -> None:
        tree = self.peer(name).forest.trees.get(feed)
        if tree is not None and tree.publisher == name:
            self.step(name, PublishItem(feed, b"x", self.now))

    @rule(sender=st.sampled_from((*NAMES, "stranger")), to=names, message=about_feeds, feed=st.sampled_from(FEEDS))
    def lie(self, sender: str, to: str, message: Any, feed: str) -> None:
        if sender != to:
            self.forge_one(sender, to, msgspec.structs.replace(message, feed=feed))

    def forge_one(self, sender: str, to: str, message: Message) -> None:
        self.hand_over(sender, to, encode(message))


TestHostilePeers = HostilePeers.TestCase
TestHostilePeers.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
