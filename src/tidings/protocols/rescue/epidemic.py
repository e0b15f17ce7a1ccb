"""An epidemic for publications that a broken link has stranded, where there is no history to fetch them from.

The problem. While a link is broken and not replaced yet, events for the other side arrive at its end and can go
nowhere. Brokers fetch such events from history. Dispatchers store nothing, and when the new link is there the events
are gone: their routes lead elsewhere now.

The idea (3.13). Routing says what is stranded (`Stranded`) and takes what came around (`Rescued`). In between an
epidemic carries it, push and pull: who holds something tells one neighbour, drawn at random, what it holds, every
`period` seconds and at once when a new neighbour comes; who has not seen that asks for it; and who hears a digest tells
what it holds besides. So a publication spreads from neighbour to neighbour over the tree as it is by then, and wherever
one gets it for the first time its router carries it on by its tables: the first behind the new link serves all of that
side. Whoever had it before recognises its number and drops it, so it is delivered once.

All copies of a publication die at about the same time, `keep_for` seconds after it was stranded: each is passed on with
the time that is left. Otherwise those who have forgotten it would be infected again by the others.

State. `held`: what we can give to others, oldest first. `seen`: the names of those that we held, so that they are not
asked for again. Messages: `StrandedDigest`, `StrandedRequest`, `StrandedPublication`. Timer: "round", while anything is
held.

Bounds: `events_max` and `bytes_max` held, the oldest goes first and is dropped with a reason; `STRANDED_NAMES_MAX` in a
message and four times as many seen. A neighbour that lies can have a publication of its own carried on, as it could by
routing; it cannot have us hold more, or anything for longer than `keep_for`.

Guaranteed: nothing is delivered twice while routing remembers its number (`rescue_window`). What is stranded, and not
dropped for want of room, reaches a side that is linked again within `keep_for` with a probability that grows to one
with the rounds that are left. Not guaranteed: order; what was on the wire itself when the link broke, of which nobody
here knows; what is published when no old route is remembered any more.

Source: dynamic-topologies.md 3.13; push-pull anti-entropy of Demers and others (1987).
"""

from collections.abc import Iterable
from random import Random

import msgspec

from tidings.machine.effects import Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received, Signal
from tidings.machine.streams import random_stream
from tidings.model.bounds import STRANDED_NAMES_MAX, STRANDED_SECONDS_MAX
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.protocols.rescue.messages import StrandedDigest, StrandedName, StrandedPublication, StrandedRequest
from tidings.pubsub.publications import Publications
from tidings.pubsub.signals import NeighbourDown, NeighbourUp, Rescued, Stranded

ROUND = "round"
SEEN_MAX = 4 * STRANDED_NAMES_MAX
NO_ROOM = "stranded, and newer ones need the room"
NO_NEIGHBOUR = "comes from a node that is no neighbour"
NOT_NEW = "held or seen already"


class EpidemicParams(msgspec.Struct, frozen=True, kw_only=True):
    period: float = 0.1
    """Seconds between two digests."""
    keep_for: float = 10.0
    """Seconds for which a stranded publication is held, by all who have it together. More than the overlay needs to
    replace a link."""
    events_max: int = 1000
    bytes_max: int = 1024 * 1024
    """What one node holds."""

    def __post_init__(self) -> None:
        if not 0 < self.period <= self.keep_for <= STRANDED_SECONDS_MAX:
            raise UsageError(
                f"period: {self.period} and keep_for: {self.keep_for} are no spans of time, one below the other, up to "
                f"{STRANDED_SECONDS_MAX:g} s"
            )
        if not (1 <= self.events_max <= STRANDED_NAMES_MAX and self.bytes_max >= 1):
            raise UsageError(
                f"events_max: {self.events_max}, bytes_max: {self.bytes_max}; give 1 to {STRANDED_NAMES_MAX}"
            )


class HeldPublication(msgspec.Struct, frozen=True):
    batch: Publications
    """Of one publication."""
    until: float

    @property
    def size_bytes(self) -> int:
        return len(self.batch.heads[0]) + len(self.batch.payloads[0])


class EventEpidemic:
    """`EventEpidemic("a", EpidemicParams(), rng)`."""

    messages: tuple[type, ...] = (StrandedDigest, StrandedRequest, StrandedPublication)
    hears: tuple[type, ...] = (Stranded, NeighbourUp, NeighbourDown)
    tells: tuple[type[Signal], ...] = (Rescued,)

    def __init__(self, node_id: NodeId, params: EpidemicParams, rng: Random) -> None:
        self.node_id, self.params = node_id, params
        self.rng = random_stream(rng.getrandbits(64), "epidemic")
        self.neighbours: dict[NodeId, None] = {}
        self.held: dict[StrandedName, HeldPublication] = {}
        self.held_bytes = 0
        self.seen: dict[StrandedName, None] = {}

    def start(self, now: float) -> list[Effect]:
        self.neighbours.clear()
        return [SetTimer(ROUND, now + self.params.period)] if self.held else []

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Stranded(_, batch):
                return self.hold(
                    now, [(single(batch, place), self.params.keep_for) for place in range(len(batch.numbers))]
                )
            case NeighbourUp(neighbour):
                self.neighbours[neighbour] = None
                self.expire(now)
                return [self.digest_for(neighbour)] if self.held else []
            case NeighbourDown(neighbour):
                self.neighbours.pop(neighbour, None)
            case Fired(key) if key == ROUND:
                return self.go_round(now)
            case Received(sender, message) if sender not in self.neighbours:
                return [Drop(message, NO_NEIGHBOUR)]
            case Received(sender, StrandedDigest() as digest):
                return self.compare(now, sender, digest)
            case Received(sender, StrandedRequest(names)):
                return self.give(now, sender, names)
            case Received(sender, StrandedPublication() as publication):
                return self.take(now, sender, publication)
        return []

    def hold(self, now: float, coming: Iterable[tuple[Publications, float]]) -> list[Effect]:
        """Those that are new, each for so long."""
        effects: list[Effect] = [] if self.held else [SetTimer(ROUND, now + self.params.period)]
        for batch, left in coming:
            name = batch.advertisement, batch.numbers[0]
            if name in self.seen:
                continue
            self.seen[name] = None
            self.held[name] = kept = HeldPublication(batch, now + min(left, self.params.keep_for))
            self.held_bytes += kept.size_bytes
        while len(self.held) > self.params.events_max or self.held_bytes > self.params.bytes_max:
            effects.append(Drop(self.forget(next(iter(self.held))).batch, NO_ROOM))
        while len(self.seen) > SEEN_MAX:
            del self.seen[next(name for name in self.seen if name not in self.held)]
        return effects

    def forget(self, name: StrandedName) -> HeldPublication:
        gone = self.held.pop(name)
        self.held_bytes -= gone.size_bytes
        return gone

    def expire(self, now: float) -> None:
        for name in [name for name, kept in self.held.items() if kept.until <= now]:
            self.forget(name)

    def go_round(self, now: float) -> list[Effect]:
        self.expire(now)
        if not self.held:
            return []
        again = SetTimer(ROUND, now + self.params.period)
        return [self.digest_for(self.rng.choice(list(self.neighbours))), again] if self.neighbours else [again]

    def digest_for(self, neighbour: NodeId, is_answer: bool = False) -> Effect:
        return Send(neighbour, StrandedDigest(tuple(self.held), is_answer))

    def compare(self, now: float, sender: NodeId, digest: StrandedDigest) -> list[Effect]:
        self.expire(now)
        effects: list[Effect] = []
        if missing := tuple(name for name in dict.fromkeys(digest.names) if name not in self.seen):
            effects.append(Send(sender, StrandedRequest(missing)))
        if not digest.is_answer and not self.held.keys() <= set(digest.names):
            effects.append(self.digest_for(sender, is_answer=True))
        return effects

    def give(self, now: float, sender: NodeId, names: tuple[StrandedName, ...]) -> list[Effect]:
        self.expire(now)
        asked = [self.held[name] for name in dict.fromkeys(names) if name in self.held]
        return [
            Send(
                sender,
                StrandedPublication(
                    publisher=kept.batch.publisher,
                    advertisement=kept.batch.advertisement,
                    accepted_at=kept.batch.accepted_at,
                    number=kept.batch.numbers[0],
                    head=kept.batch.heads[0],
                    payload=kept.batch.payloads[0],
                    left=kept.until - now,
                ),
            )
            for kept in asked
        ]

    def take(self, now: float, sender: NodeId, publication: StrandedPublication) -> list[Effect]:
        if (publication.advertisement, publication.number) in self.seen:
            return [Drop(publication, NOT_NEW)]
        batch = Publications(
            publication.publisher,
            publication.advertisement,
            publication.accepted_at,
            0,
            (publication.number,),
            (publication.head,),
            (publication.payload,),
        )
        return [*self.hold(now, [(batch, publication.left)]), Rescued(batch, sender)]

    def check(self) -> None:
        assert len(self.held) <= self.params.events_max and self.held_bytes <= self.params.bytes_max
        assert self.held_bytes == sum(kept.size_bytes for kept in self.held.values())
        assert self.held.keys() <= self.seen.keys() and len(self.seen) <= SEEN_MAX


def single(batch: Publications, place: int) -> Publications:
    return Publications(
        batch.publisher,
        batch.advertisement,
        batch.accepted_at,
        0,
        (batch.numbers[place],),
        (batch.heads[place],),
        (batch.payloads[place],),
    )
