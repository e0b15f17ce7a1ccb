"""Deliveries of the session, caught by the transport event by event.

An event that comes for one subscription after it came for another is a repetition to the transport, not to the session:
the session lets nothing through twice. Such an event goes to its subscription at once, unless a repair was there first.
Whatever came for the application and does not go on to it is taken by us.
"""

from collections.abc import Hashable, Mapping, Sequence

from tidings.machine.effects import Deliver, Drop, Effect
from tidings.nodes.carried.recalling import Recalls
from tidings.nodes.carried.receiving import Ledger, contents_of
from tidings.protocols.transport.codec import decode_data
from tidings.protocols.transport.marking import DATA_TAIL, NAME_BYTES
from tidings.protocols.transport.ordering.stream import REPEATED, TOO_OLD
from tidings.protocols.transport.signals import Caught, Content, Handed
from tidings.protocols.transport.transport import TransportNode
from tidings.pubsub.client import Arrived

CAME_BEFORE = (REPEATED, TOO_OLD)
"""Why the transport drops what the session has not delivered to this subscription before."""


class Catching:
    """`own` are the subscriptions of the transport itself."""

    def __init__(self, transport: TransportNode, ledger: Ledger, recalls: Recalls, own: Mapping[int, Hashable]) -> None:
        self.transport, self.ledger, self.recalls, self.own = transport, ledger, recalls, own

    def catch(self, now: float, items: Sequence[Arrived]) -> list[Effect]:
        """What the transport orders for the publications of one delivery."""
        for item in items:
            if item.subscription in self.own:
                self.ledger.consume((item.subscription,), len(item.numbers))
            self.recalls.saw(item.publisher, item.numbers[-1])
        effects: list[Effect] = []
        handle = self.transport.handle
        for content in contents_of(items, self.own):
            caught = handle(now, Caught(content))
            if len(caught) != 1 or type(caught[0]) is not Deliver:
                caught = self.settle(content, caught)
            effects += caught
        return effects

    def settle(self, content: Content, effects: list[Effect]) -> list[Effect]:
        head, wanted = content.head, content.subscriptions
        if not wanted:
            return effects
        if not head.endswith(DATA_TAIL) and NAME_BYTES in head:
            self.ledger.consume(wanted)
            return effects
        settled: list[Effect] = []
        for effect in effects:
            if type(effect) is Drop and type(effect.item) is Content:
                if effect.reason in CAME_BEFORE:
                    settled += self.again(content, effect.item)
                    continue
                self.ledger.consume(effect.item.subscriptions)
            settled.append(effect)
        return settled

    def again(self, content: Content, inner: Content) -> list[Effect]:
        """The transport had it before; but these subscriptions had not, unless as a repair."""
        header, _ = decode_data(content.payload)
        stream = content.source, header.publisher
        following = self.transport.shim.streams.all.get(stream)
        sequence = header.sequence if following is None else following.whole(header.sequence)
        given = self.ledger.given.get((stream, sequence), ())
        had = tuple([number for number in inner.subscriptions if number in given])
        lacking = tuple([number for number in inner.subscriptions if number not in given])
        self.ledger.consume(had)
        effects: list[Effect] = [Drop(inner, REPEATED)] if had else []
        if lacking:
            fresh = Content(inner.head, inner.payload, inner.source, inner.number, inner.accepted_at, lacking)
            effects.append(Deliver(Handed(fresh, stream, sequence)))
        return effects
