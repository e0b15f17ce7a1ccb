"""The register: who publishes a feed that has no publisher of its own, without anybody who keeps all of it.

The problem. Readers of a feed have to find each other before there is a tree, and one of them, and no more, has to ask
the origin. Nobody knows all readers.

The idea. Names of peers and of feeds have *keys*, words of 128 bits. The few peers whose keys are nearest to that of a
feed (by XOR) remember who publishes it. Whoever looks asks the nearest it knows for nearer ones, until there are none:
each peer knows some at each distance, and more the nearer they are, so that takes few questions. Who finds nobody
claims the feed, tells the nearest, and is its publisher: it *adopts* it. Claims are repeated and forgotten; each is a
reign with a number that grows, and the later reign counts, so of two that claim at once one gives way.

That the nearest are asked tells them that somebody reads the feed. They see no item of it.

State. `records`: feed -> publisher, reign, until when that is believed. `buckets`: peers by their distance. `searches`
under way, one for each feed. `reigns`: feeds that we publish.

Messages. `RootAsked(feed, claim)`, `RootTold(feed, node, reign, nearest)`.

Timers. ("ask", feed, node), ("claim", feed), ("contact").

Takes `RootWanted`, `RootTaken`, `NodeMet`, `PeerSilent`; tells `RootFound`.

Guaranteed. In a network that stands still and in which everybody who is asked answers, the readers of a feed end with
one publisher. While it is divided each part has one. Not guaranteed: that who is told to publish does: its readers find
out (`protocols/feeds/forest.py`), say that it is gone, and it is not believed again in that reign.

Source: the lookups of Kademlia (Maymounkov, Mazieres 2002), cut down; issue of feeds without servers.
"""

from random import Random

import msgspec
import xxhash

from tidings.machine.effects import CancelTimer, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received, Signal
from tidings.model.bounds import FEED_NEAREST_MAX
from tidings.model.identity import NodeId
from tidings.protocols.feeds.messages import FeedMessage, RootAsked, RootTold
from tidings.protocols.feeds.own import OwnStanding
from tidings.protocols.feeds.params import RegisterParams
from tidings.pubsub.feeds import (
    FeedId,
    NodeMet,
    PeerSilent,
    PulseHeard,
    RootFound,
    RootTaken,
    RootWanted,
    VersionsSeen,
)


def key_of(name: str) -> int:
    return xxhash.xxh3_128_intdigest(name.encode())


class RootRecord(msgspec.Struct):
    node: NodeId
    reign: int
    until: float


class RootSearch(msgspec.Struct):
    """For the publisher of a feed; with a claim, for whom to tell that we are."""

    claim: int
    asked: dict[NodeId, bool | None]
    """Whether it answered; None while it is waited for."""
    known: dict[NodeId, int]
    """Distances to the key of the feed."""
    found: NodeId = ""
    reign: int = 0
    gone: NodeId = ""
    gone_reign: int = 0


class Register:
    messages: tuple[type, ...] = (RootAsked, RootTold)
    hears: tuple[type, ...] = (RootWanted, RootTaken, NodeMet, PeerSilent, PulseHeard)
    tells: tuple[type[Signal], ...] = (RootFound, VersionsSeen)

    def __init__(self, own: OwnStanding, contacts: tuple[NodeId, ...], params: RegisterParams, rng: Random) -> None:
        self.own, self.params, self.rng = own, params, rng
        self.contacts = tuple(it for it in contacts if it != own.node_id)
        self.key = key_of(own.node_id)
        self.records: dict[FeedId, RootRecord] = {}
        self.buckets: dict[int, dict[NodeId, None]] = {}
        self.searches: dict[FeedId, RootSearch] = {}
        self.reigns: dict[FeedId, int] = {}

    def start(self, now: float) -> list[Effect]:
        self.records.clear()
        self.searches.clear()
        self.reigns.clear()
        for contact in self.contacts:
            self.meet(contact)
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Received(sender, FeedMessage() as message):
                self.meet(sender)
                heard = self.own.news(sender, message)
                if isinstance(message, RootAsked):
                    return [*heard, *self.asked(now, sender, message)]
                assert isinstance(message, RootTold)
                return [*heard, *self.told(now, sender, message)]
            case Fired(("ask", str(feed), str(node))):
                return self.unanswered(now, feed, node)
            case Fired(("claim", str(feed))) if feed in self.reigns:
                return self.search(now, feed, self.reigns[feed])
            case RootWanted(feed, gone, reign):
                return self.wanted(now, feed, gone, reign)
            case RootTaken(feed, reign, is_ours):
                if is_ours:
                    self.reigns[feed] = reign
                    return self.search(now, feed, reign)
                self.reigns.pop(feed, None)
                self.searches.pop(feed, None)
                return [CancelTimer(("claim", feed))]
            case NodeMet(node) | PulseHeard(node):
                self.meet(node)
            case PeerSilent(node):
                self.lose(node)
        return []

    # Whom we know.

    def meet(self, node: NodeId) -> None:
        if node == self.own.node_id:
            return
        bucket = self.buckets.setdefault((key_of(node) ^ self.key).bit_length(), {})
        if node not in bucket and len(bucket) >= self.params.bucket:
            # Whoever has been there for long is likely to stay.
            return
        bucket.pop(node, None)
        bucket[node] = None

    def lose(self, node: NodeId) -> None:
        if node not in self.contacts:
            self.buckets.get((key_of(node) ^ self.key).bit_length(), {}).pop(node, None)

    def nearest(self, feed: FeedId) -> list[NodeId]:
        key = key_of(feed)
        known = [node for bucket in self.buckets.values() for node in bucket]
        return sorted(known, key=lambda node: key_of(node) ^ key)[:FEED_NEAREST_MAX]

    # Asked by others.

    def asked(self, now: float, sender: NodeId, message: RootAsked) -> list[Effect]:
        feed, record = message.feed, self.record(now, message.feed)
        ours = self.reigns.get(feed, 0)
        if message.claim and (record is None or self.counts(message.claim, sender, record.reign, record.node)):
            record = self.keep(now, feed, sender, message.claim)
        node, reign = (record.node, record.reign) if record is not None else ("", 0)
        if ours and (not node or self.counts(ours, self.own.node_id, reign, node)):
            node, reign = self.own.node_id, ours
        found: list[Effect] = []
        if ours and node != self.own.node_id:
            found = [RootFound(feed, node, reign)]
        nearest = tuple(it for it in self.nearest(feed) if it != sender)[: self.params.bucket]
        return [Send(sender, RootTold(self.own.versions, feed, node, reign, nearest)), *found]

    def counts(self, reign: int, node: NodeId, other_reign: int, other: NodeId) -> bool:
        """Whether the first is the publisher where two say that they are."""
        return (reign, node) >= (other_reign, other)

    def record(self, now: float, feed: FeedId) -> RootRecord | None:
        record = self.records.get(feed)
        if record is not None and record.until < now:
            del self.records[feed]
            return None
        return record

    def keep(self, now: float, feed: FeedId, node: NodeId, reign: int) -> RootRecord:
        self.records.pop(feed, None)
        if len(self.records) >= self.params.records_max:
            del self.records[next(iter(self.records))]
        record = self.records[feed] = RootRecord(node, reign, now + self.params.record_life)
        return record

    # Asking.

    def wanted(self, now: float, feed: FeedId, gone: NodeId, reign: int) -> list[Effect]:
        if feed in self.searches or feed in self.reigns:
            return []
        if gone and (record := self.records.get(feed)) is not None and (record.node, record.reign) == (gone, reign):
            del self.records[feed]
        effects = self.search(now, feed, 0)
        if (search := self.searches.get(feed)) is not None:
            search.gone, search.gone_reign = gone, reign
        return effects

    def search(self, now: float, feed: FeedId, claim: int) -> list[Effect]:
        key = key_of(feed)
        known = {node: key_of(node) ^ key for node in self.nearest(feed)}
        self.searches[feed] = search = RootSearch(claim, {}, known)
        record = self.record(now, feed)
        if record is not None and not claim:
            search.found, search.reign = record.node, record.reign
        again: list[Effect] = [SetTimer(("claim", feed), now + self.params.claim_period)] if claim else []
        return [*again, *self.go_on(now, feed, search)]

    def go_on(self, now: float, feed: FeedId, search: RootSearch) -> list[Effect]:
        """Ask those nearest to the key that have not been asked; it is over when the nearest have answered."""
        params = self.params
        near = sorted(search.known, key=lambda node: search.known[node])
        answering = [node for node in near if search.asked.get(node, True) is not False][: params.copies]
        unasked = [node for node in answering if node not in search.asked]
        waiting = sum(answer is None for answer in search.asked.values())
        effects: list[Effect] = []
        room = params.asked_max - len(search.asked)
        for node in unasked[: max(0, min(params.width - waiting, room))]:
            search.asked[node] = None
            effects += [
                Send(node, RootAsked(self.own.versions, feed, search.claim)),
                SetTimer(("ask", feed, node), now + params.timeout),
            ]
        if effects or waiting:
            return effects
        return self.finish(now, feed, search)

    def told(self, now: float, sender: NodeId, message: RootTold) -> list[Effect]:
        search = self.searches.get(message.feed)
        if search is None or search.asked.get(sender, True) is not None:
            return []
        search.asked[sender] = True
        key = key_of(message.feed)
        for node in message.nearest:
            if node != self.own.node_id and len(search.known) < 4 * self.params.asked_max:
                search.known.setdefault(node, key_of(node) ^ key)
                self.meet(node)
        is_gone = message.node == search.gone and message.reign <= search.gone_reign
        if message.node and not is_gone and self.counts(message.reign, message.node, search.reign, search.found):
            search.found, search.reign = message.node, message.reign
        return [CancelTimer(("ask", message.feed, sender)), *self.go_on(now, message.feed, search)]

    def unanswered(self, now: float, feed: FeedId, node: NodeId) -> list[Effect]:
        search = self.searches.get(feed)
        self.lose(node)
        if search is None or search.asked.get(node, True) is not None:
            return []
        search.asked[node] = False
        return self.go_on(now, feed, search)

    def finish(self, now: float, feed: FeedId, search: RootSearch) -> list[Effect]:
        del self.searches[feed]
        own = self.own.node_id
        if search.claim:
            if search.found and search.found != own and self.counts(search.reign, search.found, search.claim, own):
                return [RootFound(feed, search.found, search.reign)]
            return []
        if search.found and search.found != own:
            return [RootFound(feed, search.found, search.reign)]
        if not self.own.place:
            return []
        # Later than any that is known, also of lives that are forgotten.
        reign = max(search.gone_reign + 1, search.reign + 1, int(now + self.params.clock_offset))
        return [RootFound(feed, own, reign)]

    def check(self) -> None:
        params = self.params
        assert len(self.records) <= params.records_max, "more records than may be"
        assert all(len(bucket) <= params.bucket for bucket in self.buckets.values()), "a bucket runs over"
        assert all(len(it.asked) <= params.asked_max for it in self.searches.values()), "more are asked than may be"
        assert self.own.node_id not in {node for bucket in self.buckets.values() for node in bucket}, "knows itself"
