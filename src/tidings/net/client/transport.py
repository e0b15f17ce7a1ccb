"""The transport in a client: order, recovery and congestion control, end to end.

    async with tidings.connect(url, ordered=True, reliable=True, paced=True) as client:
        subscription = await client.subscribe("magnitude >= 4.5", paced=False)
        client.on_quality(print)

`ordered` is for both directions: what this client publishes has headers that tell of its order, and what it receives is
put in order by them; "basic" does so with shorter headers, without finding losses; "strict" lets events wait for one
before them that was lost, until it is repaired or given up. `reliable`: losses are repaired from the caches of other
receivers, from the publisher's, or from the history of a broker, and this client keeps events to repair the losses of
others. `paced`: as a receiver it tells publishers how much it can take, as a publisher it obeys. The last two need
`ordered=True`, since losses are found by it.

Publishing under congestion control, in the words of the specification: an event is SENT when `publish` returns and no
flow holds it; QUEUED when it waits in a short queue for its turn, `publish` returning all the same; WOULD_BLOCK is a
`try_publish` that returns False, where `publish` waits, because that queue is full. DROPPED, or withheld, is an event
in a queue that had to give way, as receivers report less than before: it is counted, and `on_quality` tells.

A client without any of this has no transport at all, and its bytes are those of the plain network.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from tidings.model.bounds import ATTRIBUTES_MAX
from tidings.model.errors import UsageError
from tidings.net.client.items import Items
from tidings.net.client.outbound import OutgoingBatch
from tidings.nodes.transport_client import TransportClient
from tidings.protocols.transport.adapter.traffic import overhead_of
from tidings.protocols.transport.carrier import Carried, Modes, RoomMade, SetModes, checked_modes, modes_of
from tidings.protocols.transport.params import CongestionParams, OrderingParams, TransportParams
from tidings.protocols.transport.signals import Configure, Quality
from tidings.protocols.transport.views import TransportState

if TYPE_CHECKING:
    from tidings.net.client.client import Client
    from tidings.net.client.subscription import Subscription

Ordered = bool | Literal["basic", "strict"]

RELIABLE = OrderingParams(joins="listening", digest_latch=0.2)
"""The first events after subscribing are not lost without being missed; and events that wait at a broker are not taken
for lost because a digest overtook them."""

EXACT = CongestionParams(covering="exact")
"""Bloom rows tell flows apart by equality alone, and applications also ask for ranges."""

STRICT_PATIENCE = 10.0
"""Seconds that events wait for one before them that was lost, where order is strict."""


def make_params(
    ordered: Ordered, reliable: bool, paced: bool, transport: TransportParams | None
) -> TransportParams | None:
    """What the words of `connect` mean; None for no transport."""
    if transport is None and not (ordered or reliable or paced):
        return None
    ordering = RELIABLE if reliable else OrderingParams()
    given = transport or TransportParams(is_ordered=False, ordering=ordering, congestion=EXACT)
    return changed_params(given, ordered or None, reliable or None, paced or None)


def changed_params(
    params: TransportParams, ordered: Ordered | None, reliable: bool | None, paced: bool | None
) -> TransportParams:
    """With those that are not None in place of what there was."""
    ordering = params.ordering
    if ordered is not None:
        mode: Literal["basic", "enhanced", "static"] = "basic" if ordered == "basic" else ordering.mode
        if ordered in (True, "strict") and ordering.mode == "basic":
            mode = "enhanced"
        patience = ordering.patience if ordered is not True else 0.0
        if ordered == "strict":
            patience = ordering.patience or STRICT_PATIENCE
            if not (params.is_reliable if reliable is None else reliable):
                raise UsageError("ordered='strict' waits for what was lost to be repaired; give reliable=True as well")
        ordering = msgspec.structs.replace(ordering, mode=mode, patience=patience)
    changes: dict[str, Any] = {
        "is_ordered": params.is_ordered if ordered is None else bool(ordered),
        "is_reliable": params.is_reliable if reliable is None else reliable,
        "is_paced": params.is_paced if paced is None else paced,
        "ordering": ordering,
    }
    return msgspec.structs.replace(params, **changes)


class Carrying:
    """`client` is the one whose machine has the transport, `items` what that delivers."""

    def __init__(self, client: "Client", items: Items, machine: TransportClient) -> None:
        self.client, self.items, self.machine = client, items, machine
        self.listeners: list[Callable[[Quality], None]] = []
        client.outgoing.overhead_bytes = overhead_of(machine.params)
        client.advertisements.heads.attributes_max = ATTRIBUTES_MAX - 1

    @property
    def handlers(self) -> Mapping[type, Callable[[Any], None]]:
        return {
            Carried: self.items.arrived,
            Quality: self.told,
            RoomMade: self.client.outgoing.accepted,
        }

    def equip(
        self,
        subscription: "Subscription",
        ordered: bool | None,
        reliable: bool | None,
        paced: bool | None,
        priority: float,
    ) -> None:
        subscription.modes = modes_of(self.machine.params, ordered, reliable, paced, priority)
        subscription.change_modes = self.change_modes

    def change_modes(self, subscription: "Subscription", modes: Modes) -> None:
        subscription.modes = checked_modes(modes, self.machine.params)
        self.client.host.step(SetModes(subscription.number, modes))

    def configure(
        self, params: TransportParams | None, ordered: Ordered | None, reliable: bool | None, paced: bool | None
    ) -> None:
        changed = changed_params(params or self.machine.params, ordered, reliable, paced)
        self.client.host.step(Configure(changed))
        self.client.outgoing.overhead_bytes = overhead_of(changed)

    # Publishing under congestion control.

    @property
    def is_limiting(self) -> bool:
        return self.machine.transport.is_limiting

    def may_leave(self, head: bytes, payload: bytes) -> bool:
        return self.machine.transport.has_room(head, payload)

    async def wait_for_turn(self, head: bytes, payload: bytes) -> None:
        outgoing, size_bytes = self.client.outgoing, len(head) + len(payload)
        await outgoing.wait_for_room(size_bytes, 1, lambda: self.machine.transport.has_room(head, payload))

    async def publish_slowly(self, advertisement: int, heads: Sequence[bytes], payloads: Sequence[bytes]) -> None:
        """One by one, each when there is a place for it."""
        for head, payload in zip(heads, payloads, strict=True):
            self.client.check_open("publish_encoded")
            await self.wait_for_turn(head, payload)
            self.client.hand_over(OutgoingBatch(advertisement, (head,), (payload,)))

    def state(self) -> TransportState:
        return self.machine.state()

    def told(self, quality: Quality) -> None:
        for number in quality.subscriptions:
            subscription = self.client.subscriptions.get(number)
            if subscription is not None:
                subscription.told(quality)
        for listener in self.listeners:
            # Behind this step of the machine: a listener that raises is no fault of the machine.
            self.client.host.loop.call_soon(listener, quality)
