"""Routing by destination (Siena's B-DRP): match once, write down who may want it, and send it there.

The problem. Tables along the way (`router.py`) make every broker match every event that passes, and need a tree. Where
links are plentiful and a loss now and then is no harm, there is a simpler way.

The idea. Every broker tells all others, by flooding, two things about itself: its neighbours (`LinkState`), and what
its clients may want, as Bloom rows (`Predicates`). So each knows the whole network. The publisher's broker, the *home*,
compares an event with the rows of all brokers once; those that may want it are the *destinations*, written into the
message (`Directed`). From there on it is plain unicast: a broker groups the destinations by the next hop, and where the
ways part each copy takes only the destinations on its side. A destination matches exactly, so that a false positive of
the rows costs a message and never gives a wrong delivery.

State. `knowledge`: the links and predicates of all brokers (`knowledge.py`). `filters`: those of our clients.
`queues`: what waits for each neighbour. `memo`: destinations by the head of an event, forgotten when
anything changes.

Timers. "announce": our predicates changed; one flood for all changes within `announce_after`. ("serve", neighbour): the
next message may go to this neighbour.

Best effort, and no more. A link takes `rate_max` publications a second; `queue_max` wait, and the next one is dropped,
counted, and nobody is told. There are no acknowledgements: `Want`, `Unwant`, `Offer` and `Unoffer` are `Settled` at
once and name this broker only, and a `Forward` that asks for more is told that nobody can say. Advertisements are not
passed on, so `Known` is told of our own clients' only. No guarantee of delivery may be built on this.

Guaranteed: on links that do not change, with queues that do not overflow, every broker that wants an event gets it
exactly once, and all events of one publisher to one subscriber take the same way. While links change, an event may be
lost; `hops_left` ends what goes in circles.

Works on any connected graph: give it all peers as neighbours (`overlay/overlay.py`).
Source: the transport specification, section 3.1 (T-10 to T-13).
"""

from collections import deque
from collections.abc import Iterator
from itertools import groupby

import msgspec

from tidings.machine.effects import CancelTimer, Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received, Signal
from tidings.matching.bloom import bits_of_event
from tidings.matching.index import Index
from tidings.model.bounds import DESTINATION_HOPS_MAX, DESTINATIONS_MAX, NEIGHBOURS_MAX
from tidings.model.filter import Filter
from tidings.model.identity import NodeId
from tidings.protocols.routing.destinations.knowledge import Knowledge
from tidings.protocols.routing.destinations.messages import Directed, LinkState, Predicates
from tidings.protocols.routing.destinations.params import DestinationParams
from tidings.pubsub.publications import BadPublication, Publications, pick, read_head
from tidings.pubsub.rows import DestinationRow, Gauge, View
from tidings.pubsub.signals import (
    AdvertisementId,
    Forgotten,
    Forward,
    Known,
    Level,
    Matched,
    NeighbourDown,
    NeighbourReplaced,
    NeighbourUp,
    Offer,
    Settled,
    SubscriptionKey,
    Ticket,
    Unoffer,
    Unwant,
    Want,
)

QUEUE_FULL = "the queue to this neighbour is full"
NEIGHBOUR_GONE = "the neighbour it waited for is gone"


class LinkQueue(msgspec.Struct):
    free_at: float = 0.0
    """When the link takes the next message."""
    waiting: deque[Directed] = msgspec.field(default_factory=deque)
    size: int = 0
    """Publications that wait."""


class Queues:
    """What waits for each neighbour: a queue that the link empties at its own pace, and that drops its tail.

    A link takes `rate_max` publications a second. What comes faster waits, `queue_max` publications at most; a message
    that does not fit is dropped, and nobody is told (T-13). One timer for each neighbour that has something waiting.
    """

    def __init__(self, params: DestinationParams) -> None:
        self.params = params
        self.by_neighbour: dict[NodeId, LinkQueue] = {}

    def open(self, neighbour: NodeId) -> None:
        self.by_neighbour[neighbour] = LinkQueue()

    def close(self, neighbour: NodeId) -> list[Effect]:
        queue = self.by_neighbour.pop(neighbour)
        return [CancelTimer(("serve", neighbour)), *(Drop(message, NEIGHBOUR_GONE) for message in queue.waiting)]

    def put(self, now: float, neighbour: NodeId, message: Directed) -> list[Effect]:
        queue, count = self.by_neighbour[neighbour], len(message.batch.numbers)
        if not queue.waiting and queue.free_at <= now:
            queue.free_at = now + count / self.params.rate_max
            return [Send(neighbour, message, self.params.transport)]
        if queue.size + count > self.params.queue_max:
            return [Drop(message, QUEUE_FULL)]
        queue.waiting.append(message)
        queue.size += count
        return [SetTimer(("serve", neighbour), queue.free_at)] if len(queue.waiting) == 1 else []

    def serve(self, now: float, neighbour: NodeId) -> list[Effect]:
        queue, effects = self.by_neighbour[neighbour], list[Effect]()
        while queue.waiting and queue.free_at <= now:
            message = queue.waiting.popleft()
            count = len(message.batch.numbers)
            queue.size -= count
            queue.free_at += count / self.params.rate_max
            effects.append(Send(neighbour, message, self.params.transport))
        return [*effects, SetTimer(("serve", neighbour), queue.free_at)] if queue.waiting else effects

    def check(self) -> None:
        for queue in self.by_neighbour.values():
            assert queue.size == sum(len(message.batch.numbers) for message in queue.waiting), "a queue is miscounted"
            assert queue.size <= self.params.queue_max, "a queue is too long"


NOT_A_NEIGHBOUR = "comes from a node that is no neighbour"
TOO_MANY_NEIGHBOURS = "has as many neighbours as it can tell of already"
NO_ROUTE = "there is no way to this broker now"
TOO_MANY_HOPS = "passed too many brokers"
BAD_HEAD = "its attributes cannot be read"
NO_RECEIPTS = (
    "this network is best effort: it was sent on, and nobody can say whether it arrived; publish without a receipt"
)


class DestinationRouter:
    """`DestinationRouter("a", DestinationParams())`, behind the same signals as `Router`."""

    messages: tuple[type, ...] = (LinkState, Predicates, Directed)
    is_best_effort = True
    hears: tuple[type, ...] = (Forward, Want, Unwant, Offer, Unoffer, NeighbourUp, NeighbourDown, NeighbourReplaced)
    tells: tuple[type[Signal], ...] = (Settled, Known, Forgotten, Matched)

    def __init__(self, node_id: NodeId, params: DestinationParams) -> None:
        self.node_id, self.params = node_id, params
        self.knowledge, self.queues = Knowledge(node_id, params), Queues(params)
        self.filters: dict[SubscriptionKey, Filter] = {}
        self.index = Index(params.engine)
        self.offers: dict[AdvertisementId, None] = {}
        self.memo: dict[bytes, tuple[NodeId, ...] | None] = {}
        self.is_announcing = False

    # What others may look at.

    @property
    def neighbours(self) -> list[NodeId]:
        return list(self.queues.by_neighbour)

    def check_overlay(self, overlay: str, level: Level, is_tree: bool) -> None:
        """Any will do: ways are found anew whenever a link comes or goes."""

    def is_synchronised(self, neighbour: NodeId) -> bool:
        """Whether it has told who its own neighbours are."""
        return neighbour in self.knowledge.topology.lists

    def why_unsettled(self) -> str:
        waiting = [name for name in self.neighbours if not self.is_synchronised(name)]
        return f"waiting for the links of {', '.join(waiting)}" if waiting else ""

    def hop_toward(self, advertisement: AdvertisementId) -> NodeId | None:
        """Advertisements do not travel, so nobody knows the way to a publisher."""
        return None

    def views(self) -> dict[str, View]:
        return {"destinations": lambda _: self.destination_rows()}

    def destination_rows(self) -> Iterator[DestinationRow]:
        hops = self.knowledge.topology.routes()
        for broker, (_, rows) in self.knowledge.rows.items():
            yield DestinationRow(broker=broker, hop=hops.get(broker, ""), predicates=len(rows))

    def gauges(self) -> Iterator[Gauge]:
        yield Gauge("neighbours", "brokers over which events are routed", len(self.neighbours))
        yield Gauge("destinations", "brokers that are known, itself included", len(self.knowledge.rows))
        meaning = "publications that wait for a neighbour"
        for neighbour, queue in self.queues.by_neighbour.items():
            yield Gauge("waiting_for_neighbour", meaning, queue.size, {"neighbour": neighbour})

    # Inputs.

    def start(self, now: float) -> list[Effect]:
        lost = [effect for name in self.neighbours for effect in self.queues.close(name)]
        self.is_announcing = False
        return [*lost, *self.links_changed(), *self.knowledge.wants_changed(list(self.filters.values()))]

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Received(sender, message) if isinstance(message, self.messages):
                return self.hear(now, sender, message)
            case Forward(batch, ticket):
                settled = [] if ticket is None else [Settled(ticket, problem=NO_RECEIPTS)]
                return [*self.publish(now, batch), *settled]
            case Want(key, filter, ticket):
                self.filters[key] = filter
                self.index.add(key, filter)
                return [*self.announce_soon(now), *self.settle(ticket)]
            case Unwant(key, ticket):
                self.filters.pop(key, None)
                self.index.discard(key)
                return [*self.announce_soon(now), *self.settle(ticket)]
            case Offer(advertisement, publisher, filter, ticket):
                self.offers[advertisement] = None
                return [Known(advertisement, publisher, filter, None), *self.settle(ticket)]
            case Unoffer(advertisement, ticket):
                forgotten = [Forgotten(advertisement)] if advertisement in self.offers else []
                self.offers.pop(advertisement, None)
                return [*forgotten, *self.settle(ticket)]
            case NeighbourUp(neighbour):
                return self.neighbour_up(neighbour)
            case NeighbourDown(neighbour) if neighbour in self.neighbours:
                return [*self.queues.close(neighbour), *self.links_changed()]
            case Fired("announce"):
                self.is_announcing = False
                return self.knowledge.wants_changed(list(self.filters.values()))
            case Fired(("serve", str(neighbour))) if neighbour in self.neighbours:
                return self.queues.serve(now, neighbour)
        return []

    def settle(self, ticket: Ticket | None) -> list[Effect]:
        return [] if ticket is None else [Settled(ticket, (self.node_id,), 1)]

    def announce_soon(self, now: float) -> list[Effect]:
        if self.is_announcing:
            return []
        self.is_announcing = True
        return [SetTimer("announce", now + self.params.announce_after)]

    def neighbour_up(self, neighbour: NodeId) -> list[Effect]:
        if len(self.neighbours) >= NEIGHBOURS_MAX:
            return [Drop(neighbour, TOO_MANY_NEIGHBOURS)]
        self.queues.open(neighbour)
        return [*self.links_changed(), *self.knowledge.tell_all(neighbour)]

    def links_changed(self) -> list[Effect]:
        self.memo.clear()
        return self.knowledge.links_changed(self.neighbours)

    def hear(self, now: float, sender: NodeId, message: object) -> list[Effect]:
        match message:
            case _ if sender not in self.queues.by_neighbour:
                return [Drop(message, NOT_A_NEIGHBOUR)]
            case LinkState() | Predicates():
                self.memo.clear()
                return self.knowledge.hear(sender, message)
            case Directed(destinations, hops_left, batch):
                return self.carry(now, destinations, hops_left, batch)
        return []

    # Events.

    def publish(self, now: float, batch: Publications) -> list[Effect]:
        """We are the home: who may want these? Publications with the same destinations travel together."""
        places: dict[tuple[NodeId, ...], list[int]] = {}
        effects: list[Effect] = []
        for place, head in enumerate(batch.heads):
            destinations = self.destinations_of(head)
            if destinations is None:
                effects.append(Drop(pick(batch, (place,), batch.receipt), BAD_HEAD))
            else:
                places.setdefault(destinations, []).append(place)
        readable = sorted(place for chosen in places.values() for place in chosen)
        if readable:
            effects += self.deliver(pick(batch, readable, batch.receipt))
        for destinations, chosen in places.items():
            if destinations:
                effects += self.pass_on(now, destinations, DESTINATION_HOPS_MAX, pick(batch, chosen, batch.receipt))
        return effects

    def destinations_of(self, head: bytes) -> tuple[NodeId, ...] | None:
        """The other brokers that may want such an event; None if it cannot be read."""
        if head not in self.memo:
            if len(self.memo) >= self.params.memo_max:
                self.memo.clear()
            self.memo[head] = self.find_destinations(head)
        return self.memo[head]

    def find_destinations(self, head: bytes) -> tuple[NodeId, ...] | None:
        try:
            return self.knowledge.may_want(bits_of_event(read_head(head), self.params.profile))
        except BadPublication:
            return None

    def deliver(self, batch: Publications) -> list[Effect]:
        """Exact matching for our own clients."""
        try:
            events = [read_head(head) for head in batch.heads]
        except BadPublication:
            return [Drop(batch, BAD_HEAD)]
        wanted = [tuple(keys) for keys in self.index.match_batch(events)] if len(self.index) else []
        places = [place for place, keys in enumerate(wanted) if keys]
        if not places:
            return []
        return [Matched(pick(batch, places, batch.receipt), [wanted[place] for place in places])]  # type: ignore[misc]

    def carry(self, now: float, destinations: tuple[NodeId, ...], hops_left: int, batch: Publications) -> list[Effect]:
        effects: list[Effect] = []
        if self.node_id in destinations:
            effects += self.deliver(batch)
        others = tuple(name for name in destinations if name != self.node_id)
        if others and hops_left == 0:
            return [*effects, Drop(batch, TOO_MANY_HOPS)]
        return effects + self.pass_on(now, others, hops_left - 1, batch) if others else effects

    def pass_on(
        self, now: float, destinations: tuple[NodeId, ...], hops_left: int, batch: Publications
    ) -> list[Effect]:
        """One copy for each next hop, and in it the destinations that lie that way."""
        effects: list[Effect] = []
        routes = self.knowledge.topology.routes()
        lost = [name for name in destinations if routes.get(name) not in self.queues.by_neighbour]
        if lost:
            effects.append(Drop(Directed(tuple(lost), hops_left, batch), NO_ROUTE))
        way = sorted((routes[name], name) for name in set(destinations) - set(lost))
        for hop, entries in groupby(way, key=lambda entry: entry[0]):
            names = [name for _, name in entries]
            for begin in range(0, len(names), DESTINATIONS_MAX):
                some = tuple(names[begin : begin + DESTINATIONS_MAX])
                effects += self.queues.put(now, hop, Directed(some, hops_left, batch))
        return effects

    def check(self) -> None:
        assert len(self.memo) <= self.params.memo_max, "more heads are remembered than memo_max allows"
        assert len(self.filters) == len(self.index), "the index is not of our filters"
        assert self.knowledge.neighbours == self.neighbours, "our own links are not known"
        self.knowledge.check()
        self.queues.check()
