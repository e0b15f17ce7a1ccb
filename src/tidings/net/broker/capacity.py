"""How much can a broker forward in a second, on this machine?

What routing does with a batch is measured by itself: its bytes are decoded, it is matched and passed on to one
neighbour, and what leaves is encoded. That is done over and over for batches of some size, in processor time. Sockets
are not in it, nor TLS, nor what clients cost; so it is an upper end, and good for comparing sizes.

`measure_capacity` is what a broker does when it starts and nobody has told it: a fifth of a second.
"""

from time import thread_time
from typing import NamedTuple

from tidings.machine.effects import Send
from tidings.machine.inputs import Received
from tidings.protocols.routing.messages import AdvertisementAdded, SubscriptionAdded, TablesBegun
from tidings.protocols.routing.params import RoutingParams
from tidings.protocols.routing.router import Router
from tidings.pubsub.publications import Publications, encode_head
from tidings.pubsub.signals import NeighbourUp
from tidings.wire import decode, encode

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Of the batches of PopSub's measurement (E14)."""

PAYLOAD_BYTES = 100
FILTERS = 100
"""Filters of the neighbour; each publication matches one of them."""

MEASURED_FOR = 0.2


class BatchCost(NamedTuple):
    size: int
    publications_per_second: float
    units: float
    """What a batch costs, in publications that travel alone."""


class ForwardingBroker:
    """A router between two neighbours; from the first come publications, the second wants them."""

    def __init__(self) -> None:
        self.router = Router("b", RoutingParams(acknowledges=False, publications_window_bytes=1 << 50))
        for neighbour in "pq":
            self.router.handle(0.0, NeighbourUp(neighbour, 1))
            self.router.handle(0.0, Received(neighbour, TablesBegun(1, self.router.lives)))
        self.router.handle(0.0, Received("p", AdvertisementAdded(0, "p/1@p", "p", "TRUE", "p", 1)))
        for place in range(FILTERS):
            self.router.handle(0.0, Received("q", SubscriptionAdded(0, f"kind = {place} AND x > 10")))
        self.number = 0

    def batch(self, size: int) -> bytes:
        numbers = tuple(range(self.number + 1, self.number + size + 1))
        self.number += size
        heads = tuple(encode_head({"kind": number % FILTERS, "x": number % 80 + 11}) for number in numbers)
        return encode(Publications("p", "p/1@p", 1.0, 0, numbers, heads, (bytes(PAYLOAD_BYTES),) * size))

    def forward(self, data: bytes) -> int:
        """How many were passed on."""
        count = 0
        for effect in self.router.handle(1.0, Received("p", decode(data), len(data))):
            if type(effect) is Send and type(effect.message) is Publications:
                encode(effect.message)
                count += len(effect.message.numbers)
        return count


def publications_per_second(broker: ForwardingBroker, size: int, seconds: float) -> float:
    """In processor time of this thread."""
    count, spent = 0, 0.0
    while spent < seconds:
        batches = [broker.batch(size) for _ in range(max(1, 64 // size))]
        begun = thread_time()
        passed = sum(map(broker.forward, batches))
        spent += thread_time() - begun
        assert passed == size * len(batches), "not everything was passed on"
        count += passed
    return count / spent


def measure_capacity(seconds: float = MEASURED_FOR) -> float:
    """Publications a second that travel alone."""
    broker = ForwardingBroker()
    publications_per_second(broker, 1, seconds / 10)
    return publications_per_second(broker, 1, seconds)


def batch_costs(seconds: float = 0.5, sizes: tuple[int, ...] = SIZES) -> list[BatchCost]:
    """For each size as long; the first is 1."""
    broker = ForwardingBroker()
    publications_per_second(broker, sizes[0], seconds / 10)
    rates = [publications_per_second(broker, size, seconds) for size in sizes]
    return [BatchCost(size, rate, size * rates[0] / rate) for size, rate in zip(sizes, rates, strict=True)]


def cost_slope(costs: list[BatchCost]) -> float:
    """What each further publication of a batch costs, as in 1 + slope * (n - 1): least squares of relative errors."""
    further = [((cost.size - 1) / cost.units, (cost.units - 1) / cost.units) for cost in costs if cost.size > 1]
    return sum(x * y for x, y in further) / sum(x * x for x, _ in further)
