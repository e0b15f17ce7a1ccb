"""Publications on their way into the outlet of a subscription: which are let in, and what if there is no room.

Everything goes through here, whether it has just been published or comes out of a history. First it is asked whether
it is wanted at all: the stream must be active, the number above its position (unless the network is best effort, where
events overtake each other and the client tells what came twice), the time not too early. Then it is asked whether there
is room. The first question has one right answer; the second is a matter of the subscription's policy.
"""

from tidings.machine.effects import Disconnect, Drop, Effect, Send
from tidings.protocols.delivery.edge.batches import behind, size_bytes
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.edge.publishers import origin_of
from tidings.protocols.delivery.edge.streams import PublisherStream, ServedSubscription
from tidings.protocols.delivery.messages import Delivery
from tidings.pubsub.client import Missed
from tidings.pubsub.publications import Publications, cut

NOT_ACTIVE = "the subscription is not active for this publisher yet"
REPEATED = "passed on before"
TOO_EARLY = "accepted before the time asked for"
QUEUE_FULL = "the queue is full: the client takes publications more slowly than they come"


class Admission:
    def __init__(self, params: EdgeParams, is_best_effort: bool = False) -> None:
        self.params, self.is_best_effort = params, is_best_effort

    def admit(
        self,
        subscription: ServedSubscription,
        stream: PublisherStream,
        batch: Publications,
        effects: list[Effect],
        is_history: bool = False,
    ) -> Publications | None:
        """What of a batch leaves for the client now. The rest waits, or is given up: `effects` says so."""
        if stream.state != "active" and not is_history and not self.wakes(subscription, stream, batch, effects):
            return None
        numbers = batch.numbers
        if stream.position is not None and numbers[0] <= stream.position and not self.is_best_effort:
            effects.append(Drop(batch, REPEATED))
            newer = behind(batch, stream.position)
            if newer is None:
                return None
            batch, numbers = newer, newer.numbers
        if batch.accepted_at < stream.effective_at:
            effects.append(Drop(batch, TOO_EARLY))
            return None
        outlet, client, size = subscription.outlet, subscription.client, size_bytes(batch)
        if (
            outlet.under_way + len(numbers) <= outlet.window
            and not outlet.waiting
            and client.pending_bytes + size <= self.params.pending_bytes_max
        ):
            stream.position = numbers[-1]
            outlet.send(batch, size)
            subscription.delivered += len(numbers)
            return batch
        return self.admit_part(subscription, stream, batch, effects, is_history)

    def wakes(
        self, subscription: ServedSubscription, stream: PublisherStream, batch: Publications, effects: list[Effect]
    ) -> bool:
        """Whether the stream becomes active by what has arrived."""
        if stream.state == "silent" and subscription.is_settled:
            stream.state = "active"
            return True
        if stream.has_answered(origin_of(batch.advertisement)):
            stream.keep_early(batch, subscription.outlet.capacity)
        else:
            effects.append(Drop(batch, NOT_ACTIVE))
        return False

    def admit_part(
        self,
        subscription: ServedSubscription,
        stream: PublisherStream,
        batch: Publications,
        effects: list[Effect],
        is_history: bool,
    ) -> Publications | None:
        """As `admit`, where not everything can leave at once."""
        count = subscription.outlet.count_fitting(batch, self.params.pending_bytes_max)
        rest = cut(batch, slice(count, None), receipt=0) if count < len(batch.numbers) else None
        if rest is not None and (is_history or subscription.policy == "wait"):
            fall_back(subscription, stream)
        elif rest is not None:
            stream.position = batch.numbers[-1]
        ready = None
        if count:
            kept = batch if rest is None else cut(batch, slice(count), receipt=0)
            stream.position = max(stream.position or 0, kept.numbers[-1])
            ready = queue_up(subscription, kept)
        if rest is not None and stream.state != "lagging":
            if ready is not None and subscription.policy == "disconnect":
                # What still fits leaves before the goodbye; behind it nothing would arrive.
                effects.append(deliver(subscription, ready))
                ready = None
            self.turn_away(subscription, rest, effects)
        return ready

    def turn_away(self, subscription: ServedSubscription, rest: Publications, effects: list[Effect]) -> None:
        """There is no room for these, and the subscription does not wait."""
        if subscription.policy == "drop oldest":
            self.drop_oldest(subscription, rest, effects)
            return
        give_up(subscription, rest, effects)
        client = subscription.client
        if subscription.policy == "disconnect" and not client.is_turned_out:
            client.is_turned_out = True
            effects += [*tell_missed(subscription), Disconnect(client.name, QUEUE_FULL)]

    def drop_oldest(self, subscription: ServedSubscription, batch: Publications, effects: list[Effect]) -> None:
        outlet, count = subscription.outlet, len(batch.numbers)
        while (fitting := outlet.count_fitting(batch, self.params.pending_bytes_max)) < count:
            oldest = outlet.take_out(count - fitting)
            if oldest is None:
                # Nothing waits: what has just come is the oldest itself.
                give_up(subscription, cut(batch, slice(count - fitting), receipt=0), effects)
                if not fitting:
                    return
                batch, count = cut(batch, slice(count - fitting, None), receipt=0), fitting
            else:
                give_up(subscription, oldest, effects)
        outlet.put(batch)


def queue_up(subscription: ServedSubscription, batch: Publications) -> Publications | None:
    """There is room for all of it: answers with what leaves at once."""
    subscription.outlet.put(batch)
    leaving = subscription.outlet.flow()
    if not leaving:
        return None
    # Whenever the window has room nothing waits, so what leaves is of this batch, and one piece.
    (ready,) = leaving
    subscription.delivered += len(ready.numbers)
    return ready


def give_up(subscription: ServedSubscription, batch: Publications, effects: list[Effect]) -> None:
    subscription.give_up(batch, QUEUE_FULL)
    effects.append(Drop(batch, QUEUE_FULL))


def fall_back(subscription: ServedSubscription, stream: PublisherStream) -> None:
    """The stream stops where it is, and asks for history when there is room."""
    stream.state = "lagging"
    subscription.lagging[stream.publisher] = None
    subscription.client.lagging[subscription.number] = subscription


def deliver(subscription: ServedSubscription, batch: Publications) -> Send:
    return Send(
        subscription.client.name,
        Delivery(batch.publisher, batch.accepted_at, batch.numbers, batch.heads, batch.payloads, subscription.matched),
    )


def tell_missed(subscription: ServedSubscription) -> list[Effect]:
    """What was given up since the client was last told."""
    missed, subscription.missed = subscription.missed, {}
    return [
        Send(subscription.client.name, Missed(subscription.number, publisher, count, reason))
        for (publisher, reason), count in missed.items()
    ]
