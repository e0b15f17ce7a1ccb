"""As publishers ask: of what few want, directly where low latency was asked for, in batches where it was not.

The problem. Which way suits a stream that few want depends on what it is for. An alarm is worth a copy for each broker
that wants it, and a reading of a meter is not.

The idea. Both carriages in one: `advertise(filter, latency="low")` chooses direct delivery (`direct.py`) for what
belongs to the advertisement and is not popular, anything else batches (`batching.py`). Streams of which somebody behind
the link was promised something stay on the tree or are batched, whatever was asked, as the rule of direct delivery is.

Guaranteed: what is guaranteed of either.
"""

from typing import ClassVar

from tidings.machine.effects import Effect
from tidings.machine.message import Message
from tidings.model.identity import NodeId
from tidings.protocols.routing.carriage.batching import BatchingCarriage
from tidings.protocols.routing.carriage.direct import DirectCarriage
from tidings.protocols.routing.popularity import StreamKey
from tidings.pubsub.gathered import GatheredPublications
from tidings.pubsub.publications import Publications


class AskedCarriage(DirectCarriage, BatchingCarriage):
    messages: ClassVar[tuple[type[Message], ...]] = (*DirectCarriage.messages, *BatchingCarriage.messages)

    def divert(self, now: float, neighbour: NodeId, parcel: Publications, effects: list[Effect]) -> bool:
        way = DirectCarriage if self.latency(parcel.advertisement) == "low" else BatchingCarriage
        return way.divert(self, now, neighbour, parcel, effects)

    def receive(self, now: float, sender: NodeId, message: Message) -> list[Effect]:
        way = BatchingCarriage if isinstance(message, GatheredPublications) else DirectCarriage
        return way.receive(self, now, sender, message)

    def way_of(self, key: StreamKey) -> str:
        if self.latency(key[1]) != "low":
            return "tree" if self.popularity.streams[key].is_popular else "batching"
        return "tree" if super().way_of(key) == "tree" else "direct"
