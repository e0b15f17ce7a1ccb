"""Advertisements to which the way is lost: what readers of history are told is missing in their answer.

The problem. Whoever reads what the network stores asks the brokers of all publishers that are known. When a broker
dies, or a link on the way to it, routing forgets what is advertised there, so that nobody asks for it any more: the
answer has less in it, and looks like any other.

The idea. Routing says of what it forgets whether somebody withdrew it (`Forgotten.is_lost`). What was lost is
remembered here, and each look that it would have concerned names its broker as absent, and its publisher as one that
could not be reached, unless it is known on another way.

How long. What a broker stored when it was lost is too old after `history_age`, and forgotten there if it comes back;
for `marks_age` longer it would still tell that there was something. After both nothing is missing that was promised. A
broker that is back and does not advertise what it did has forgotten it; when it is heard of again, its other
advertisements are given `reading_timeout` to follow.

State. The lost advertisements, the one that was lost first in front, at most `LOST_MAX`.
"""

from typing import NamedTuple

from tidings.model.filter import Filter
from tidings.model.identity import NodeId
from tidings.protocols.delivery.edge.advertisements import origin_of
from tidings.protocols.delivery.edge.clients import ServedClient
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.pubsub.signals import AdvertisementId, Known

LOST_MAX = 10_000


class LostOffer(NamedTuple):
    publisher: NodeId
    filter: Filter
    ends_at: float


class Absences:
    def __init__(self, params: EdgeParams) -> None:
        self.params = params
        self.lost: dict[AdvertisementId, LostOffer] = {}

    def lose(self, now: float, known: Known) -> None:
        kept_for = self.params.history_age + self.params.marks_age
        self.lost.pop(known.advertisement, None)
        self.lost[known.advertisement] = LostOffer(known.publisher, known.filter, now + kept_for)
        if len(self.lost) > LOST_MAX:
            del self.lost[next(iter(self.lost))]

    def withdraw(self, advertisement: AdvertisementId) -> None:
        self.lost.pop(advertisement, None)

    def learn(self, now: float, known: Known) -> None:
        """It is there again, and so is its broker."""
        if self.lost:
            self.lost.pop(known.advertisement, None)
            self.come_back(now, origin_of(known.advertisement))

    def come_back(self, now: float, broker: NodeId) -> None:
        ends_at = now + self.params.reading_timeout
        for advertisement, offer in self.lost.items():
            if origin_of(advertisement) == broker and offer.ends_at > ends_at:
                self.lost[advertisement] = offer._replace(ends_at=ends_at)

    def concerning(self, now: float, filter: Filter, client: ServedClient) -> dict[AdvertisementId, NodeId]:
        """What a look for this filter lacks: advertisements, with their publishers."""
        self.lost = {id: offer for id, offer in self.lost.items() if offer.ends_at > now}
        return {
            id: offer.publisher
            for id, offer in self.lost.items()
            if client.is_of(offer.publisher) and offer.filter.overlaps(filter)
        }

    def check(self) -> None:
        assert len(self.lost) <= LOST_MAX, "more is lost than LOST_MAX allows"
