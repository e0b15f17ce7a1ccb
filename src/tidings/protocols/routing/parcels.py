"""Publications on their way to one neighbour: as many as it takes, and a mark in the place of those that were left out.

The problem. Publications come as fast as publishers like, and a link takes what it takes. A link whose queue is full
ends; whatever waited there is lost, and when it is back the same happens again.

The idea. What is on the way to a neighbour is kept within a window of bytes, which the neighbour opens again by telling
how much it has taken (`PublicationsTaken`). What comes beyond that waits, up to `parcels_bytes_max`. What comes beyond
that as well is left out: its publisher's broker stores it, and whoever must not miss it asks there. So the neighbour is
told, in the place where the publications would have been, up to which number of the publisher some are missing
(`PublicationsSkipped`).

Every message counts as at least `MESSAGE_BYTES`, so that the window bounds messages as well as bytes.
"""

from collections import deque

from tidings.machine.effects import Drop, Effect, Send
from tidings.machine.window import SendWindow
from tidings.model.identity import NodeId
from tidings.protocols.routing.messages import PublicationsSkipped
from tidings.pubsub.gathered import GatheredPublications
from tidings.pubsub.publications import Publications

LEFT_OUT = "left out: the next broker does not take publications as fast as they come"
LINK_GONE = "waited for a neighbour that was lost"

MESSAGE_BYTES = 512
"""What the smallest message counts."""


Parcel = Publications | GatheredPublications


def batch_of(parcel: Parcel) -> Publications:
    return parcel.batch if isinstance(parcel, GatheredPublications) else parcel


def size_of(batch: Publications) -> int:
    """What a batch counts at both ends of a window."""
    return MESSAGE_BYTES + sum(map(len, batch.heads)) + sum(map(len, batch.payloads))


class ParcelFlow:
    """One life of a link. The taker's end is `TakenBytes`, kept with the link."""

    def __init__(self, neighbour: NodeId, window_bytes: int, parcels_bytes_max: int) -> None:
        self.neighbour, self.parcels_bytes_max = neighbour, parcels_bytes_max
        self.window = SendWindow(window_bytes)
        self.waiting: deque[Parcel | PublicationsSkipped] = deque()
        """Marks stand for themselves only: what was left out after one is in the next. So there are at most one for
        each parcel that waits and advertisement of its publisher."""
        self.waiting_bytes = 0
        self.marks: dict[str, dict[str, int]] = {}
        """Publishers, and advertisements of theirs, of which something was left out behind all parcels of the publisher
        that wait, and up to which number: these marks go behind everything that waits now, and ahead of the next
        parcel of the publisher, under whichever advertisement, for its numbers ascend over all of them."""

    def put(self, parcel: Parcel, effects: list[Effect]) -> bool:
        """Send it, or let it wait. False where it was left out."""
        batch = batch_of(parcel)
        size_bytes = size_of(batch)
        if not self.waiting and not self.marks and self.window.has_room:
            self.window.send(size_bytes)
            effects.append(Send(self.neighbour, parcel))
            return True
        if self.waiting_bytes + size_bytes > self.parcels_bytes_max:
            self.mark(batch.publisher, batch.advertisement, batch.numbers[-1])
            effects.append(Drop(batch, LEFT_OUT))
            return False
        self.place_marks(batch.publisher)
        self.waiting.append(parcel)
        self.waiting_bytes += size_bytes
        return True

    def put_mark(self, skipped: PublicationsSkipped, effects: list[Effect]) -> None:
        """Others left something out, further up the way."""
        self.mark(skipped.publisher, skipped.advertisement, skipped.through)
        self.flow(effects)

    def mark(self, publisher: str, advertisement: str, through: int) -> None:
        mine = self.marks.setdefault(publisher, {})
        mine[advertisement] = max(through, mine.get(advertisement, 0))

    def place_marks(self, publisher: str) -> None:
        for advertisement, through in sorted(self.marks.pop(publisher, {}).items(), key=lambda mark: mark[1]):
            self.waiting.append(PublicationsSkipped(publisher, advertisement, through))

    def hear(self, total_bytes: int, effects: list[Effect]) -> None:
        if self.window.hear(total_bytes):
            self.flow(effects)

    def flow(self, effects: list[Effect]) -> None:
        while self.window.has_room and (self.waiting or self.marks):
            if not self.waiting:
                self.place_marks(next(iter(self.marks)))
            message = self.waiting.popleft()
            size_bytes = MESSAGE_BYTES
            if not isinstance(message, PublicationsSkipped):
                size_bytes = size_of(batch_of(message))
                self.waiting_bytes -= size_bytes
            self.window.send(size_bytes)
            effects.append(Send(self.neighbour, message))

    def close(self) -> list[Effect]:
        """The link is gone: its publishers become known again elsewhere, which says that something may be lost."""
        return [
            Drop(each if isinstance(each, PublicationsSkipped) else batch_of(each), LINK_GONE) for each in self.waiting
        ]

    def check(self) -> None:
        waiting = [size_of(batch_of(each)) for each in self.waiting if not isinstance(each, PublicationsSkipped)]
        assert self.waiting_bytes == sum(waiting) <= self.parcels_bytes_max
        assert not self.window.has_room or not (self.waiting or self.marks), "something waits although there is room"
