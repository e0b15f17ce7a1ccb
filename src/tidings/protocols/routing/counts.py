"""What gossip around failures reads of a router: counts of subscriptions, and what has passed."""

from collections.abc import Iterable, Mapping

from tidings.model.identity import NodeId
from tidings.protocols.routing.router import Router
from tidings.pubsub.publications import Publications
from tidings.pubsub.signals import AdvertisementId


class RoutingCounts:
    """`RoutingCounts(router)`, of one with a census and a `rescue_window`."""

    def __init__(self, router: Router) -> None:
        assert router.census is not None and router.params.rescue_window
        self.census, self.carrier, self.tables = router.census, router.carrier, router.tables

    def subscription_counts(self) -> Mapping[AdvertisementId, int]:
        return self.census.counts()

    def publication_rates(self) -> Mapping[AdvertisementId, float]:
        """How many of the numbers that are remembered of all publishers are of this one."""
        return {
            advertisement: float(len(numbers)) for advertisement, numbers in self.carrier.around.trail.numbers.items()
        }

    def filter_texts(self) -> Iterable[str]:
        return self.tables.filters

    def sent_lately(self, now: float, neighbour: NodeId) -> list[Publications]:
        return self.carrier.around.sent_lately(now, neighbour)

    def wanted_by(self, neighbour: NodeId) -> tuple[str, ...]:
        return tuple(self.tables.texts.get(neighbour, ()))

    def has_passed(self, advertisement: AdvertisementId, number: int) -> bool:
        return self.carrier.around.has_passed(advertisement, number)
