"""A transport client that is talked to by hand: the test is its application and its broker. Checked after each step."""

from collections.abc import Sequence
from typing import Any

from tests.worlds.desk import Desk, sent
from tidings.machine.effects import Effect
from tidings.machine.inputs import LinkUp, Received
from tidings.machine.streams import random_stream
from tidings.nodes.transport_client import TransportClient
from tidings.protocols.access.messages import Attached
from tidings.protocols.access.params import GuestParams
from tidings.protocols.delivery.messages import Advertise, Delivery, PublishMessage, Subscribe
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.transport.carrier import Modes, OpenCarried
from tidings.protocols.transport.marks import Kind, mark
from tidings.protocols.transport.params import TransportParams
from tidings.protocols.transport.sequences import Departures
from tidings.pubsub.client import OpenAdvertisement, OpenSubscription, PublishBatch, Receipt
from tidings.pubsub.publications import encode_head

ORDERED = TransportParams()
RELIABLE = TransportParams(is_reliable=True)
ALL = TransportParams(is_reliable=True, is_paced=True)
OFF = TransportParams(is_ordered=False)


class ClientDesk(Desk[TransportClient]):
    def __init__(self, params: TransportParams = ORDERED, is_attached: bool = True, **session: Any) -> None:
        draws = random_stream(1, "session"), random_stream(1, "transport")
        guest = GuestParams(brokers=("b",))
        self.client = TransportClient("ann", guest, SessionParams(**session), draws[0], params, draws[1])
        self.epoch = 0
        super().__init__(self.client)
        if is_attached:
            self.attach()

    def hear(self, message: Any) -> list[Effect]:
        return self.handle(Received("b", message))

    def attach(self, publish_bound: str = "") -> list[Effect]:
        self.epoch += 1
        self.handle(LinkUp("b", self.epoch))
        return self.hear(Attached("ann", publish_bound, ""))

    # What tests do again and again.

    def subscribe(self, filter: str = "x >= 0", modes: Modes | None = None, ticket: Any = "s", **more: Any) -> int:
        """The number of a subscription that is confirmed."""
        request = OpenSubscription(ticket, filter, **more)
        effects = self.handle(request if modes is None else OpenCarried(request, modes))
        (message,) = sent(effects, Subscribe)
        self.hear(receipt("subscribe", message.number, filter))
        number: int = message.number
        return number

    def advertise(self, filter: str = "TRUE") -> int:
        (message,) = sent(self.handle(OpenAdvertisement("a", filter)), Advertise)
        self.hear(receipt("advertise", message.number, filter))
        number: int = message.number
        return number

    def publish(self, values: Sequence[int], ticket: Any = None, advertisement: int = 1) -> list[Effect]:
        heads = tuple(encode_head({"x": value}) for value in values)
        payloads = tuple(b"%d" % value for value in values)
        return self.handle(PublishBatch(advertisement, heads, payloads, ticket))


class Other:
    """A publisher with a transport, somewhere: makes the bytes that it would publish."""

    def __init__(self, name: str = "pub", number: int = 7, params: TransportParams = ORDERED) -> None:
        self.name, self.number = name, number
        self.publishing = Departures(number, params)
        self.published = 0
        self.made: list[tuple[int, bytes, bytes]] = []

    def make(self, value: int, at: float = 0.0) -> tuple[int, bytes, bytes]:
        """Number at its broker, head, payload."""
        head = encode_head({"x": value})
        _, _, header = self.publishing.depart(at, self.publishing.bits_of(head), ())
        self.published += 1
        made = self.published, mark(head, Kind.DATA), header + b"%d" % value
        self.made.append(made)
        return made

    def delivery(self, events: Sequence[tuple[int, bytes, bytes]], *subscriptions: int) -> Delivery:
        numbers, heads, payloads = (tuple(column) for column in zip(*events, strict=True))
        return Delivery(self.name, 50.0, numbers, heads, payloads, (tuple(subscriptions),))


def receipt(kind: Any, number: int, filter: str = "") -> Receipt:
    return Receipt(kind, number, ("b",), 1, 50.0, filter)


def publications(effects: Sequence[Effect]) -> list[PublishMessage]:
    return sent(effects, PublishMessage)
