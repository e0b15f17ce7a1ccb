"""A client: access finds a broker that serves it, delivery keeps what it asked for and what it published."""

from collections.abc import Callable
from random import Random

from tidings.machine.node import Node
from tidings.model.identity import NodeId
from tidings.protocols.access.guest import Guest
from tidings.protocols.access.params import GuestParams
from tidings.protocols.delivery.session.params import SessionParams
from tidings.protocols.delivery.session.session import Session


class ClientNode(Node):
    """`session` and `guest` can be looked at, for what they hold; inputs go through `handle`."""

    def __init__(
        self,
        node_id: NodeId,
        access: GuestParams,
        delivery: SessionParams,
        rng: Random,
        sign: Callable[[bytes], bytes] | None = None,
        first_publication: int = 1,
        is_repeating: bool = False,
    ) -> None:
        self.guest = Guest(node_id, access, rng, sign)
        self.session = Session(delivery, rng, first_publication, is_repeating)
        self.publishing = self.session.publishing
        super().__init__({"access": self.guest, "delivery": self.session})
