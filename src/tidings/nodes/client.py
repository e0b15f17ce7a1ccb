"""A client: access finds a broker that serves it, delivery keeps what it asked for and what it published.

It is also the carrier of a transport (`protocols/transport/carrier.py`): the session answers for it.
"""

from collections.abc import Callable, Mapping
from random import Random

from tidings.machine.node import Node, Part
from tidings.model.identity import NodeId
from tidings.protocols.access.guest import Guest
from tidings.protocols.access.params import GuestParams
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.delivery.session.session import Session
from tidings.pubsub.client import PublishBatch, Window


class ClientNode(Node):
    """`session` and `guest` can be looked at, for what they hold; inputs go through `handle`. `others` are parts
    besides those two."""

    def __init__(
        self,
        node_id: NodeId,
        access: GuestParams,
        delivery: SessionParams,
        rng: Random,
        sign: Callable[[bytes], bytes] | None = None,
        first_publication: int = 1,
        is_repeating: bool = False,
        life: str = "",
        others: Mapping[str, Part] | None = None,
    ) -> None:
        self.guest = Guest(node_id, access, rng, sign)
        self.session = Session(delivery, rng, first_publication, is_repeating, life)
        super().__init__({"access": self.guest, "delivery": self.session, **(others or {})})

    repeats = False

    @property
    def window(self) -> Window:
        return self.session.publishing

    def takes(self, request: PublishBatch) -> bool:
        return self.session.takes(request)

    def position(self, subscription: int, publisher: str) -> int | None:
        return self.session.position(subscription, publisher)
