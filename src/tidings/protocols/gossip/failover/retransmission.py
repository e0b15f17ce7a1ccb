"""Retransmission: what a neighbour missed while it was gone is kept, and offered when it is back.

The problem. Gossip brings most of what cannot go over a failed broker to most of those behind it, and promises nothing.
What it did not bring is lost to whoever has no history to ask, and what was on its way when the link broke was not even
told around.

The idea. The broker in front of the failure knows what is missing behind it. It keeps what is stranded there, and what
it had sent in the last moments before, for `kept_for` seconds. When the neighbour is back, it is told the numbers of
what is kept, at the end of each of the next `OFFERS` cycles; it asks for what has not passed there, and routes that as
anything that came around. Those further behind get it from there, as the tables are, and from the brokers next to them
what these kept. A cycle goes by before the first digest, in which tables are told.

Offers and answers are those of large publications (`propagation.py`), with the neighbour itself in the place of the
broker that failed, and no hops left.

Bounds: `kept_bytes_max` for all neighbours together, the oldest go first; a digest names `STRANDED_NAMES_MAX` numbers.

Guaranteed: if brokers that failed are back within `kept_for`, those that kept for them live, and there is room, then
whatever was accepted has passed every broker that wants it some cycles later. Whoever has a guarantee does without:
nothing that came around is for it, and history brings what is missing.

Source: the author's first future work (dependable.md 6, FW-1), and Costa and others, whose digests along the tree
section 3.2 of the thesis proposes to combine with GEPS (FW-14).
"""

from collections.abc import Iterable

from tidings.machine.effects import Drop, Effect
from tidings.model.bounds import STRANDED_NAMES_MAX
from tidings.model.identity import NodeId
from tidings.protocols.gossip.failover.messages import GossipOffered
from tidings.protocols.gossip.failover.propagation import batch_bytes, plain
from tidings.pubsub.publications import Publications, pick
from tidings.pubsub.signals import AdvertisementId

OFFERS = 4
"""Cycles at whose end a neighbour that is back is told what is kept for it."""

KEPT_TOO_LONG = "kept for a broker that failed, and it has not come back"
NO_ROOM_TO_KEEP = "kept for a broker that failed, and newer ones need the room"

KeptName = tuple[NodeId, AdvertisementId, int]
"""For whom, an advertisement, and a number under it."""


class Retransmission:
    def __init__(self, kept_for: float, kept_bytes_max: int) -> None:
        self.kept_for, self.kept_bytes_max = kept_for, kept_bytes_max
        self.kept: dict[KeptName, tuple[float, Publications]] = {}
        """Each alone, and since when; the oldest first."""
        self.size_bytes = 0
        self.offers: dict[NodeId, int] = {}
        """Neighbours that are back, and how many offers are left; one more than that at first."""
        self.given = 0

    def keep(self, now: float, neighbour: NodeId, batch: Publications) -> list[Effect]:
        """It cannot go there now."""
        if not self.kept_for:
            return []
        for place, number in enumerate(batch.numbers):
            name = neighbour, batch.advertisement, number
            if name not in self.kept:
                one = plain(pick(batch, (place,), receipt=0))
                self.kept[name] = now, one
                self.size_bytes += batch_bytes(one)
        effects: list[Effect] = []
        while self.size_bytes > self.kept_bytes_max:
            effects.append(Drop(self.forget(next(iter(self.kept))), NO_ROOM_TO_KEEP))
        return effects

    def came(self, neighbour: NodeId) -> None:
        if self.kept_for:
            self.offers[neighbour] = OFFERS + 1

    def went(self, neighbour: NodeId) -> None:
        self.offers.pop(neighbour, None)

    def cycle(self, now: float) -> tuple[list[tuple[NodeId, GossipOffered]], list[Effect]]:
        """What is offered to whom now, and what is given up."""
        dropped: list[Effect] = []
        while self.kept and next(iter(self.kept.values()))[0] < now - self.kept_for:
            dropped.append(Drop(self.forget(next(iter(self.kept))), KEPT_TOO_LONG))
        offered: list[tuple[NodeId, GossipOffered]] = []
        for neighbour in list(self.offers):
            self.offers[neighbour] -= 1
            if self.offers[neighbour] < OFFERS:
                offered += [(neighbour, each) for each in self.digests(neighbour)]
            if not self.offers[neighbour]:
                # It has whatever it did not ask for.
                del self.offers[neighbour]
                for name in [name for name in self.kept if name[0] == neighbour]:
                    self.forget(name)
        return offered, dropped

    def digests(self, neighbour: NodeId) -> Iterable[GossipOffered]:
        numbers: dict[AdvertisementId, list[int]] = {}
        for node, advertisement, number in self.kept:
            if node == neighbour:
                numbers.setdefault(advertisement, []).append(number)
        for advertisement, mine in numbers.items():
            mine.sort()
            for begin in range(0, len(mine), STRANDED_NAMES_MAX):
                yield GossipOffered(advertisement, tuple(mine[begin : begin + STRANDED_NAMES_MAX]), neighbour)

    def find(self, neighbour: NodeId, advertisement: AdvertisementId, number: int) -> Publications | None:
        """It asks for this."""
        found = self.kept.get((neighbour, advertisement, number))
        if found is None:
            return None
        self.given += 1
        return found[1]

    def forget(self, name: KeptName) -> Publications:
        _, batch = self.kept.pop(name)
        self.size_bytes -= batch_bytes(batch)
        return batch

    def check(self) -> None:
        assert self.size_bytes == sum(batch_bytes(batch) for _, batch in self.kept.values()) <= self.kept_bytes_max
        assert all(0 < left <= OFFERS + 1 for left in self.offers.values())
