"""Publications that are held while a link takes the place of another (`repairs/shift.py`).

For a moment the three brokers of a shift pass on only what is between them already; what comes from elsewhere waits
here, in the order in which it came, as do marks of what was left out. Neighbours are bounded by their windows, for what
is held is taken no further; the clients of the broker are not, so there is a bound of bytes, beyond which publications
are left out with a mark, as on a link that is slow (`parcels.py`).
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from tidings.model.identity import NodeId
from tidings.protocols.routing.messages import PublicationsSkipped
from tidings.protocols.routing.parcels import size_of
from tidings.protocols.routing.requests import PendingRequest
from tidings.protocols.routing.tables import LiveHop
from tidings.pubsub.publications import Publications
from tidings.pubsub.signals import AdvertisementId

HELD_BYTES_MAX = 32 * 1024 * 1024


class HeldBatch(NamedTuple):
    source: LiveHop
    batch: Publications
    request: PendingRequest | None


class HeldMark(NamedTuple):
    source: LiveHop
    mark: PublicationsSkipped


class HeldPublications:
    def __init__(self, passing: Iterable[NodeId]) -> None:
        self.passing = frozenset(passing)
        """Neighbours whose publications go on."""
        self.waiting: deque[HeldBatch | HeldMark] = deque()
        self.bytes = self.count = 0
        self.advertisements: set[AdvertisementId] = set()
        """Those of which publications wait: until these have left, nobody is told that they are withdrawn."""

    def holds(self, source: LiveHop) -> bool:
        return source not in self.passing

    def put(self, source: LiveHop, batch: Publications, request: PendingRequest | None) -> bool:
        """False where there is no room."""
        size_bytes = size_of(batch)
        if self.bytes + size_bytes > HELD_BYTES_MAX:
            return False
        self.bytes += size_bytes
        self.count += len(batch.numbers)
        self.advertisements.add(batch.advertisement)
        self.waiting.append(HeldBatch(source, batch, request))
        return True

    def put_mark(self, source: LiveHop, mark: PublicationsSkipped) -> None:
        """One for all that was left out of an advertisement in this place."""
        last = self.waiting[-1] if self.waiting else None
        if isinstance(last, HeldMark) and last.mark.advertisement == mark.advertisement:
            self.waiting.pop()
        self.waiting.append(HeldMark(source, mark))
