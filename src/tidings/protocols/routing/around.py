"""Publications around a failure, as routing sees them: what cannot go on is told, what was brought around goes on.

Where `rescue_window` says that somebody knows a way around failures, a publication that had to go to a neighbour that
is lost, and may come back, is told as `Stranded`: the neighbour is a ghost (`repairs/`) or rests (`rests.py`). Somebody
brings it elsewhere, and there it is told as `Rescued` and carried on by the tables, as `PublicationsAround`: so every
broker behind knows that it did not come on the tree, and takes it from whatever neighbour, also when the way to its
publisher is not known just now.

Twice is once, in either of two ways. Plainly, a number counts as passed whichever way it came first. That costs no
repetition, and suits networks in which nothing is promised. Where somebody is promised all events in order
(`is_apart`), he takes none that came around, since nobody can say what is missing before it: for him the tree and
history are what counts. So there a number that came around does not count as passed for the tree, and may pass a broker
twice, once each way; delivery recognises it.

What passed lately is remembered for some moments (`in_flight_for`), for when a link breaks nobody knows what of it has
arrived: whoever can bring it anew asks for it (`sent_lately`), and what has arrived is recognised.

A batch of another publisher than the one who advertised is dropped, and so is one whose numbers do not ascend.
"""

from collections import deque
from collections.abc import Callable, Iterator
from operator import lt

from msgspec.structs import replace

from tidings.machine.effects import Drop, Effect, Send
from tidings.model.identity import NodeId
from tidings.protocols.routing.links import NeighbourLink
from tidings.protocols.routing.messages import PublicationsTaken
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.parcels import size_of
from tidings.protocols.routing.passage import Passage
from tidings.protocols.routing.requests import PendingRequest
from tidings.protocols.routing.tables import LiveHop, Tables
from tidings.pubsub.publications import Numbers, Publications, PublicationsAround, pick
from tidings.pubsub.signals import Rescued, Stranded

OTHER_PUBLISHER = "its advertisement is another publisher's"
NOT_ASCENDING = "its numbers do not ascend"
PASSED_ALREADY = "passed already, or a later one did"
NOBODY_AROUND = "came around a failure, and nothing does here"

Carry = Callable[[float, LiveHop, Publications, PendingRequest | None], list[Effect]]


class AroundFailures:
    def __init__(self, params: RoutingParams, tables: Tables, passage: Passage, carry: Carry) -> None:
        self.params, self.tables, self.passage, self.carry = params, tables, passage, carry
        self.around = Passage(params.publishers_max, params.rescue_window) if params.is_apart else passage
        self.trail = Passage(params.publishers_max, params.rescue_window) if params.is_apart else passage
        """The numbers that came by the tree, where that itself remembers the last one only."""
        self.recent: deque[tuple[float, LiveHop, Publications]] = deque()
        """What was carried in the last moments, when, and where it came from."""
        self.recent_bytes = 0

    @property
    def is_stranding(self) -> bool:
        """Whether somebody may be lost to whom something has to go."""
        return self.params.rescue_window > 0 and bool(self.tables.ghosts or self.tables.absent)

    def stranded(self, source: LiveHop, batch: Publications) -> Iterator[tuple[Stranded, bool]]:
        """What would go to neighbours that are lost; and whether it is known that they do not get it."""
        assert self.tables.ghost_index is not None
        if self.tables.ghosts:
            for lost, places in self.tables.ghost_index.find_heads_links(batch.heads).places.items():
                if lost != source and lost not in self.tables.texts:
                    yield Stranded(lost, pick(batch, places, receipt=0)), True
        if self.tables.absent:
            for lost, places in self.tables.link_index.find_heads_links(batch.heads).places.items():
                if lost in self.tables.absent and lost != source:
                    yield Stranded(lost, pick(batch, places, receipt=0)), False

    def remember(self, now: float, source: LiveHop, batch: Publications) -> None:
        """It is carried now."""
        recent = self.recent
        recent.append((now, source, batch))
        self.recent_bytes += size_of(batch)
        while self.recent_bytes > self.params.in_flight_bytes_max or recent[0][0] < now - self.params.in_flight_for:
            self.recent_bytes -= size_of(recent.popleft()[2])
            if not recent:
                return

    def sent_lately(self, now: float, neighbour: NodeId) -> list[Publications]:
        """What was sent to a neighbour that is lost now, and may not have arrived."""
        since = now - self.params.in_flight_for
        return [
            stranded.batch
            for at, source, batch in self.recent
            if at >= since and source != neighbour
            for stranded, _ in self.stranded(source, batch)
            if stranded.neighbour == neighbour
        ]

    def rescue(self, now: float, rescued: Rescued) -> list[Effect]:
        """The advertisement may be unknown for now: the way to its publisher is what failed."""
        return self.take(now, rescued.stand_in_for, rescued.batch, self.around)

    def take_back(self, now: float, source: LiveHop, batch: Publications) -> list[Effect]:
        """Of a carriage that took it another way than the tree, and in whatever order; nothing has failed."""
        return self.take(now, source, batch, None)

    def receive(self, now: float, link: NeighbourLink, batch: PublicationsAround) -> list[Effect]:
        taken_bytes = link.publications_taken.take(size_of(batch))
        effects: list[Effect] = [] if taken_bytes is None else [Send(link.neighbour, PublicationsTaken(taken_bytes))]
        if not self.params.rescue_window:
            return [*effects, Drop(batch, NOBODY_AROUND)]
        return effects + self.take(now, link.neighbour, batch, self.around)

    def take(self, now: float, source: LiveHop, batch: Publications, around: Passage | None) -> list[Effect]:
        chosen = self.tables.known_way(batch.advertisement)
        if chosen is not None and chosen[1].publisher != batch.publisher:
            return [Drop(batch, OTHER_PUBLISHER)]
        if not do_ascend(batch.numbers):
            return [Drop(batch, NOT_ASCENDING)]
        if not batch.numbers:
            return []
        effects: list[Effect] = []
        places = self.passage.take(batch) if around is None else self.new_places(batch)
        if places is not None:
            passed = [place for place in range(len(batch.numbers)) if place not in set(places)]
            effects.append(Drop(pick(batch, passed, receipt=0), PASSED_ALREADY))
            if not places:
                return effects
            batch = pick(batch, places, receipt=0)
        is_told = around is not None and self.params.advertises
        batch = as_around(batch) if is_told else replace(batch, receipt=0)
        return effects + self.carry(now, source, batch, None)

    def new_places(self, batch: Publications) -> list[int] | None:
        """None where all are new."""
        places = self.around.take(batch)
        if self.around is self.passage:
            return places
        chosen = range(len(batch.numbers)) if places is None else places
        id = batch.advertisement
        new = [place for place in chosen if not self.trail.has(id, batch.numbers[place])]
        return None if len(new) == len(batch.numbers) else new

    def has_passed(self, advertisement: str, number: int) -> bool:
        return self.trail.has(advertisement, number) or self.around.has(advertisement, number)

    def came_by_tree(self, batch: Publications) -> None:
        if self.trail is not self.passage and batch.numbers:
            self.trail.take(batch)

    def check(self) -> None:
        self.around.check()
        self.trail.check()
        assert self.recent_bytes == sum(size_of(batch) for _, _, batch in self.recent)
        assert self.recent_bytes <= self.params.in_flight_bytes_max


def as_around(batch: Publications) -> PublicationsAround:
    return PublicationsAround(
        batch.publisher,
        batch.advertisement,
        batch.accepted_at,
        0,
        batch.numbers,
        batch.heads,
        batch.payloads,
    )


def do_ascend(numbers: Numbers) -> bool:
    return all(map(lt, numbers, numbers[1:]))
