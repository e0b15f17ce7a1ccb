"""Gossip: every event reaches every node, although nobody knows the network and messages get lost.

The problem. Events are published anywhere and wanted everywhere. Sending each to everybody is dear, and a tree breaks
when a node does.

The idea. Every `period` seconds a node tells one neighbour, drawn at random, which events it holds (a *digest*: names
only). The neighbour asks for those it has never seen, and gets them. An event spreads like a rumour: the number of
nodes that hold it about doubles in each period until most do, and the digests that follow reach the rest. A lost
message costs a period, not an event, since some later digest names the event again.

State. `held`: the newest `held_max` events, which we can give to others. `seen`: the names of the newest `seen_max`
events, so that one that is no longer held is not asked for, and delivered, again. `asked`: which names we have asked
for and when, so that two neighbours who offer the same event at the same time are not both asked for it.

Messages. `Digest(keys)` names at most `keys_max` held events, drawn at random when there are more;
`GossipRequest(keys)` asks for some of them; `GossipRepair(event)` carries one event, so each may be lost for itself. An
event is named by its `(source, id)`. Timer. "round", once per period; the first comes at a random part of a period.
Takes. `Publish(event)` from the application. Delivers each event, its own included, once.

Guaranteed. No event is delivered twice while its name is among the newest `seen_max`. If the network is connected and
messages arrive with some probability above zero, every event that its holders do not evict reaches all nodes with
probability one; with `held_max` above the number of events alive at a time this takes a number of periods that grows
with the logarithm of the number of nodes. Not guaranteed: any order, or a time.

The bounds are part of the protocol. When `held` is full the oldest event goes, as a drop with its reason; who has not
heard of it by then may never do. When `asked` is full nothing more is asked for until an answer comes or a question is
older than `ask_again_after`. A request for more than `keys_max` events is answered for that many.

Source: push-pull anti-entropy (Demers and others, "Epidemic Algorithms for Replicated Database Maintenance", 1987).
"""

import math
from random import Random
from typing import Annotated

import msgspec

from tidings.machine.effects import Deliver, Drop, Effect, Send, SetTimer, Transport
from tidings.machine.inputs import Fired, Input, Received, Signal
from tidings.machine.message import Message
from tidings.model.bounds import GOSSIP_KEY_CHARS_MAX, GOSSIP_KEYS_MAX
from tidings.model.errors import UsageError
from tidings.model.event import Event
from tidings.model.identity import NodeId
from tidings.pubsub.requests import Publish

EVICTED = "held is full"
KEY_TOO_LONG = "source or id is too long for a digest"
NO_KEY = "has no source or no id"
SEEN_ALREADY = "seen already"

KeyText = Annotated[str, msgspec.Meta(min_length=1, max_length=GOSSIP_KEY_CHARS_MAX)]
EventKey = tuple[KeyText, KeyText]
Keys = Annotated[tuple[EventKey, ...], msgspec.Meta(max_length=GOSSIP_KEYS_MAX)]


class GossipParams(msgspec.Struct, frozen=True):
    period: float = 1.0
    """Seconds from one digest to the next."""

    held_max: int = 1000
    """Events kept for others; more than are published while an event spreads."""

    seen_max: int = 10_000
    """Names remembered; at least `held_max`, or what we hold ourselves would be taken for new."""

    keys_max: int = GOSSIP_KEYS_MAX
    """Names in a digest or request, at most `GOSSIP_KEYS_MAX`."""

    asked_max: int = 1000
    """Requests under way; at least `keys_max`, so that one digest can be asked for as a whole."""

    ask_again_after: float = 3.0
    """Seconds after which an unanswered request is taken for lost; at least a round trip."""

    transport: Transport = Transport.STREAM

    def __post_init__(self) -> None:
        for name in ("period", "ask_again_after"):
            span = getattr(self, name)
            if not (math.isfinite(span) and span > 0):
                raise UsageError(f"{name}: {span} is no span of time; give seconds above 0")
        if self.held_max < 1:
            raise UsageError(f"held_max: {self.held_max} leaves nothing to tell; give at least 1")
        if self.seen_max < self.held_max:
            raise UsageError(f"seen_max: {self.seen_max} is below held_max; give at least {self.held_max}")
        if not 1 <= self.keys_max <= GOSSIP_KEYS_MAX:
            raise UsageError(f"keys_max: {self.keys_max} does not fit a message; give 1 to {GOSSIP_KEYS_MAX}")
        if self.asked_max < self.keys_max:
            raise UsageError(f"asked_max: {self.asked_max} is below keys_max; give at least {self.keys_max}")


class Digest(Message, frozen=True):
    """These events can be had from me."""

    keys: Keys


class GossipRequest(Message, frozen=True):
    keys: Keys


class GossipRepair(Message, frozen=True):
    event: Event


class Gossip:
    """`Gossip(["b", "c"], GossipParams(), rng)`: every period tell one neighbour what we hold."""

    messages: tuple[type, ...] = (Digest, GossipRequest, GossipRepair)
    hears: tuple[type, ...] = (Publish,)
    tells: tuple[type[Signal], ...] = ()

    def __init__(self, neighbours: list[NodeId], params: GossipParams, rng: Random) -> None:
        self.neighbours, self.params, self.rng = list(neighbours), params, rng
        self.held: dict[EventKey, Event] = {}
        self.seen: dict[EventKey, None] = {}
        self.asked: dict[EventKey, float] = {}

    def start(self, now: float) -> list[Effect]:
        self.asked.clear()
        return [SetTimer("round", now + self.rng.random() * self.params.period)]

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Fired("round"):
                return [*self.tell_somebody(), SetTimer("round", now + self.params.period)]
            case Received(sender, Digest(keys)):
                return self.ask_for_missing(now, sender, keys)
            case Received(sender, GossipRequest(keys)):
                return self.repair(sender, keys)
            case Received(_, GossipRepair(event)) | Publish(event):
                return self.take(event)
        return []

    def tell_somebody(self) -> list[Effect]:
        if not self.held or not self.neighbours:
            return []
        keys = list(self.held)
        if len(keys) > self.params.keys_max:
            keys = self.rng.sample(keys, self.params.keys_max)
        return [self.send(self.rng.choice(self.neighbours), Digest(tuple(keys)))]

    def ask_for_missing(self, now: float, sender: NodeId, keys: tuple[EventKey, ...]) -> list[Effect]:
        self.forget_old_questions(now)
        free = self.params.asked_max - len(self.asked)
        missing = [key for key in keys if key not in self.seen and key not in self.asked]
        asking = tuple(dict.fromkeys(missing))[: min(free, self.params.keys_max)]
        self.asked.update(dict.fromkeys(asking, now))
        return [self.send(sender, GossipRequest(asking))] if asking else []

    def forget_old_questions(self, now: float) -> None:
        # Questions stand in the order in which they were asked, so the old ones are in front.
        while self.asked:
            key = next(iter(self.asked))
            if now - self.asked[key] < self.params.ask_again_after:
                break
            del self.asked[key]

    def repair(self, sender: NodeId, keys: tuple[EventKey, ...]) -> list[Effect]:
        wanted = dict.fromkeys(keys[: self.params.keys_max])
        return [self.send(sender, GossipRepair(self.held[key])) for key in wanted if key in self.held]

    def take(self, event: Event) -> list[Effect]:
        source, id = event.key
        if not source or not id:
            return [Drop(event, NO_KEY)]
        if len(source) > GOSSIP_KEY_CHARS_MAX or len(id) > GOSSIP_KEY_CHARS_MAX:
            return [Drop(event, KEY_TOO_LONG)]
        key = (source, id)
        self.asked.pop(key, None)
        if key in self.seen:
            return [Drop(event, SEEN_ALREADY)]
        self.seen[key] = None
        if len(self.seen) > self.params.seen_max:
            del self.seen[next(iter(self.seen))]
        self.held[key] = event
        if len(self.held) <= self.params.held_max:
            return [Deliver(event)]
        oldest = next(iter(self.held))
        return [Deliver(event), Drop(self.held.pop(oldest), EVICTED)]

    def send(self, to: NodeId, message: Message) -> Send:
        return Send(to, message, self.params.transport)

    def check(self) -> None:
        params = self.params
        assert len(self.held) <= params.held_max, "more is held than held_max allows"
        assert len(self.seen) <= params.seen_max, "more names are remembered than seen_max allows"
        assert len(self.asked) <= params.asked_max, "more is asked for than asked_max allows"
        assert all(key in self.seen for key in self.held), "an event is held whose name is not remembered"
        assert not any(key in self.seen for key in self.asked), "an event is asked for that was seen already"
        assert all(event.key == key for key, event in self.held.items()), "an event is held under another's name"
