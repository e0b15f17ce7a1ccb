"""Updates: down the tree as they come, pulled where they are missing, and never to whoever does not read the feed.

The publisher pushes to its children, they to theirs. A duplicate is dropped; that is normal while a parent is changed.
What is missing shows as a gap in the numbers, or when somebody above says that the latest number is higher (an answer
to a ping, or a *void update*); then it is pulled, from the parent first and from one ancestor after the other. When
nobody has it any more, the application is told which numbers were missed.

With a key only what is signed counts: what is not is neither delivered nor sent on.

Source: peer-to-peer.md 3D.4, G-10, G-11 (P-62 to P-65, P-75 to P-77).
"""

from typing import Protocol

import msgspec

from tidings.machine.effects import Deliver, Drop, Effect, Send, SetTimer
from tidings.machine.message import Message
from tidings.model.bounds import FEED_PAYLOAD_BYTES_MAX
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.protocols.feeds.messages import (
    FeedUpdate,
    ItemSubmitted,
    ParentLeft,
    UpdatesAsked,
    UpdatesPulled,
    UpdateText,
    VoidUpdate,
)
from tidings.protocols.feeds.tree import Grove, Tree
from tidings.pubsub.feeds import FeedId, FeedItem, ItemsMissed, PublishItem, number_of, reign_of

NOISE = "an update of a feed that is not read here"
STRAY = "an update from somebody who is no parent"
KNOWN = "an update that is here already"
UNSIGNED = "an update without the signature of its feed"
NOT_ALLOWED = "an item from somebody who may not publish this feed"
EARLIER_REIGN = "an update of a reign that is over"


class FeedSignatures(Protocol):
    """What checks Ed25519 signatures; the machine has no cryptography of its own."""

    def verify(self, public_key: bytes, signature: bytes, data: bytes) -> bool: ...


def signed_bytes(feed: FeedId, number: int, at: float, payload: bytes) -> bytes:
    """What a publisher signs."""
    return msgspec.msgpack.encode(["feed.item", feed, number, at, payload])


class Updates:
    def __init__(self, grove: Grove, signatures: FeedSignatures | None) -> None:
        self.grove, self.own, self.params, self.signatures = grove, grove.own, grove.params, signatures
        self.noise = self.duplicates = self.sent = self.received = 0

    # From the application.

    def publish(self, now: float, request: PublishItem) -> list[Effect]:
        tree = self.grove.trees.get(request.feed)
        if tree is None:
            raise UsageError(f"publish: {request.feed} is not read here; subscribe to it, or offer it")
        if len(request.payload) > FEED_PAYLOAD_BYTES_MAX:
            raise UsageError(f"publish: {len(request.payload)} bytes; an item has {FEED_PAYLOAD_BYTES_MAX} at most")
        if not self.grove.is_root(tree):
            text = UpdateText(request.number, request.at, request.payload, request.signature)
            return [Send(tree.publisher, ItemSubmitted(self.own.versions, tree.feed, text))]
        number = request.number or self.next_number(tree)
        text = UpdateText(number, request.at, request.payload, request.signature)
        if not self.is_signed(tree, text):
            raise UsageError(f"publish: {request.feed} is a signed feed; give a number and a signature by its key")
        tree.log.settle()
        return self.take(now, tree, self.own.node_id, text)

    def next_number(self, tree: Tree) -> int:
        latest = tree.log.latest
        return latest + 1 if latest and reign_of(latest) == tree.reign else number_of(tree.reign, 1)

    def submitted(self, now: float, sender: NodeId, submitted: ItemSubmitted) -> list[Effect]:
        tree = self.grove.trees.get(submitted.feed)
        if tree is None or not self.grove.is_root(tree) or sender not in tree.secondaries:
            return [Drop(submitted, NOT_ALLOWED)]
        text = submitted.update
        text = UpdateText(text.number or self.next_number(tree), text.at, text.payload, text.signature)
        tree.log.settle()
        return self.take(now, tree, sender, text)

    # From others.

    def pushed(self, now: float, sender: NodeId, message: FeedUpdate) -> list[Effect]:
        tree = self.grove.trees.get(message.feed)
        self.received += 1
        if tree is None:
            self.noise += 1
            return [Drop(message, NOISE), Send(sender, ParentLeft(self.own.versions, message.feed))]
        if sender not in tree.feeders:
            return [Drop(message, STRAY), Send(sender, ParentLeft(self.own.versions, message.feed))]
        return self.take(now, tree, sender, message.update)

    def take(self, now: float, tree: Tree, sender: NodeId, text: UpdateText) -> list[Effect]:
        if tree.log.has(text.number):
            self.duplicates += 1
            return [Drop(text.number, KNOWN)]
        if tree.log.is_settled and reign_of(text.number) < reign_of(tree.log.latest):
            return [Drop(text.number, EARLIER_REIGN)]
        if not self.is_signed(tree, text):
            return [Drop(text.number, UNSIGNED)]
        tree.log.add(text)
        message = FeedUpdate(self.own.versions, tree.feed, text)
        delivered = Deliver(FeedItem(tree.feed, text.number, text.at, text.payload))
        return [delivered, *self.to_children(tree, sender, message), *self.watch_gap(now, tree)]

    def to_children(self, tree: Tree, sender: NodeId, message: Message) -> list[Effect]:
        children = [child for child in tree.children if child != sender]
        self.sent += len(children)
        return [Send(child, message) for child in children]

    def is_signed(self, tree: Tree, text: UpdateText) -> bool:
        if not tree.signing_key:
            return True
        if self.signatures is None:
            return False
        data = signed_bytes(tree.feed, text.number, text.at, text.payload)
        return self.signatures.verify(tree.signing_key, text.signature, data)

    # Pulled.

    def asked(self, sender: NodeId, message: UpdatesAsked) -> list[Effect]:
        """By whoever asks: that it reads the feed is what it says by asking."""
        tree = self.grove.trees.get(message.feed)
        if tree is None:
            return []
        found = tree.log.answer(message.latest, message.missing)
        return [Send(sender, UpdatesPulled(self.own.versions, tree.feed, found, tree.log.told))]

    def pulled(self, now: float, sender: NodeId, message: UpdatesPulled) -> list[Effect]:
        tree = self.grove.trees.get(message.feed)
        if tree is None or (sender not in tree.feeders and sender not in tree.chain):
            return [Drop(message, STRAY)]
        # The lowest first: what came before the first update is not missing.
        effects: list[Effect] = []
        for text in sorted(message.updates, key=lambda it: it.number):
            effects += self.take(now, tree, sender, text)
        if sender in tree.chain:
            # Who has nothing, or waits for older ones itself, does not say where the feed begins.
            if message.latest:
                tree.log.settle()
            tree.log.learn(message.latest)
        return [*effects, *self.watch_gap(now, tree)]

    # Gaps.

    def void(self, now: float, sender: NodeId, message: VoidUpdate) -> list[Effect]:
        tree = self.grove.trees.get(message.feed)
        if tree is None or sender != tree.parent:
            return [Drop(message, STRAY)]
        more = self.learn(now, tree, message.latest)
        told = VoidUpdate(self.own.versions, tree.feed, message.latest)
        return [*more, *(Send(child, told) for child in tree.children)]

    def learn(self, now: float, tree: Tree, latest: int) -> list[Effect]:
        log = tree.log
        if latest and (not log.is_settled or (latest > log.latest and reign_of(latest) > reign_of(log.latest))):
            # Nothing of this reign has come, or nobody has said where it begins: that is for the parent to say.
            return [Send(tree.parent, UpdatesAsked(self.own.versions, tree.feed, tree.log.latest, ()))]
        tree.log.learn(latest)
        return self.watch_gap(now, tree)

    def say_void(self, now: float, tree: Tree) -> list[Effect]:
        told = VoidUpdate(self.own.versions, tree.feed, tree.log.latest)
        again = SetTimer(("void", tree.feed), now + self.params.void_period)
        return [again, *(Send(child, told) for child in tree.children if tree.log.latest)]

    def watch_gap(self, now: float, tree: Tree) -> list[Effect]:
        if tree.gap_tries or self.grove.is_root(tree) or not tree.log.missing():
            return []
        tree.gap_tries = 1
        return [SetTimer(("gap", tree.feed), now + self.params.gap_wait)]

    def mend_gap(self, now: float, tree: Tree) -> list[Effect]:
        missing = tree.log.missing()
        if not missing:
            tree.gap_tries = 0
            return []
        again = SetTimer(("gap", tree.feed), now + self.params.gap_wait)
        if not tree.parent:
            return [again]
        tries, tree.gap_tries = tree.gap_tries, tree.gap_tries + 1
        if tries <= min(self.params.gap_tries, len(tree.chain)):
            ask = UpdatesAsked(self.own.versions, tree.feed, tree.log.latest, missing)
            return [again, Send(tree.chain[tries - 1], ask)]
        tree.gap_tries = 0
        lost = tree.log.give_up(missing[-1])
        return [Deliver(ItemsMissed(tree.feed, lost[0], lost[-1]))] if lost else []
