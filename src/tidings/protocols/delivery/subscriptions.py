"""The subscriber's side of an edge: which publications each client gets, from which one on, and what happens when it
is slow.

The problem. While a subscription spreads through the network, publications of some publishers reach us already and
those of others do not: what a subscriber gets in that time is a matter of luck. Later, links break and publications are
lost with them. A subscription shall have a definite beginning, and no holes behind it.

The idea. For each subscription and publisher there is a *stream* with a state and a position, the number up to which
everything was passed on. Only an active stream passes on what arrives; anything else is dropped here, because it will
come in another way:

    none        streams are active at once.
    installed   active when routing says that the subscription is in place everywhere (`Settled`); then the receipt
                goes out. Nothing comes before it.
    reference   history is asked for at once, behind the position or since a time; its answer makes the stream active.

An advertisement that becomes known later, or again after a break, makes its publisher's stream ask for history: behind
its position, or if it has none since the beginning of the subscription. Since the subscription goes ahead of the
question and new publications come behind the answer, there is no gap, and since numbers ascend, no repetition. All
advertisements of a publisher share one stream, so that its order is kept among them.

Slow clients. A subscription has an *outlet*: a window and a queue. When there is no room, the policy decides:

    wait          the stream lags: it stops where it is, and when the client has taken enough it asks for history.
    drop oldest   the front of the queue makes room.
    drop newest   what just came is given up.
    disconnect    the client is turned out.

History is asked for as far as there is room, whatever the policy. What is given up is counted by reason, and the client
is told with `Missed` when it next takes something; if history was forgotten before it was asked for, at once.

Guaranteed. Per publisher, ascending numbers without repetition. With "installed" and "reference": everything that
matches from the beginning on, as long as histories hold it and the policy is wait; otherwise `Missed`. Not guaranteed:
order between publishers (G-57).

Source: PSDG 3.6.5 to 3.6.7; repairs G-1, G-45 (the algorithm's contract), G-46, G-48, G-49, G-51, G-55.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from tidings.machine.effects import Disconnect, Drop, Effect, Send, SetTimer
from tidings.machine.publications import Publications
from tidings.machine.signals import AdvertisementId, Known, Matched, SubscriptionKey, Unwant, Want
from tidings.model.filter import Filter
from tidings.model.identity import NodeId
from tidings.protocols.delivery.batches import behind, cut, pick, size_bytes
from tidings.protocols.delivery.clients import BadRequest, Client, Request, Requests, read_filter
from tidings.protocols.delivery.messages import Delivery, History, Missed, Reference, Subscribe, Taken, Unsubscribe
from tidings.protocols.delivery.packing import batches_of, joined
from tidings.protocols.delivery.params import EdgeParams
from tidings.protocols.delivery.references import References
from tidings.protocols.delivery.streams import Stream, Subscription

NO_SUBSCRIPTION = "for a subscription that is not there"
NOT_ACTIVE = "the subscription is not active for this publisher yet"
REPEATED = "passed on before"
TOO_EARLY = "accepted before the time asked for"
OLD_ANSWER = "answers a question that nobody waits for any more"
NOT_UNDER_WAY = "takes what was not on the way"
QUEUE_FULL = "the queue is full: the client takes publications more slowly than they come"
FORGOTTEN = "older publications were asked for than are stored"

WANTED_MAX = 1000
"""Advertisements that one question names, so that it fits a frame."""

Wanted = tuple[AdvertisementId, int | None]
"""An advertisement, and the number behind which its publications are wanted, if there is one."""


class Subscriptions:
    def __init__(self, node_id: NodeId, params: EdgeParams, requests: Requests, references: References) -> None:
        self.node_id, self.params, self.requests, self.references = node_id, params, requests, references
        self.all: dict[SubscriptionKey, Subscription] = {}
        self.of_client: dict[NodeId, dict[int, Subscription]] = {}
        self.known: dict[AdvertisementId, tuple[Known, int]] = {}
        """Advertisements as routing knows them, each with the count of such news at the time."""
        self.of_publisher: dict[NodeId, dict[AdvertisementId, None]] = {}
        self.news = 0
        self.asked: dict[tuple[SubscriptionKey, NodeId], None] = {}
        """Streams that wait for an answer, the one that has waited longest first."""

    # Coming and going.

    def subscribe(self, now: float, client: Client, asked: Subscribe) -> list[Effect]:
        filter = read_filter(asked.filter, client.subscribe_bound, "subscribe to")
        mine = self.of_client.setdefault(client.name, {})
        earlier = mine.get(asked.number)
        if earlier is None and len(mine) >= self.params.subscriptions_max:
            raise BadRequest(f"a client has at most {self.params.subscriptions_max} subscriptions; unsubscribe one")
        if earlier is not None and earlier.filter != filter:
            raise BadRequest(f"subscription {asked.number} has another filter; unsubscribe it, or take the next number")
        if asked.window < 1:
            raise BadRequest("window: 0 lets nothing through; ask for at least 1")
        if earlier is not None:
            self.forget(earlier)
        subscription = Subscription(client, asked, filter, self.params)
        mine[asked.number] = self.all[subscription.key] = subscription
        subscription.known_before = self.news
        request = Request("subscribe", client, asked.number, subscription.filter_text, subscription)
        ticket = self.requests.add(request)
        # The subscription leaves ahead of the question for history, on every link.
        effects: list[Effect] = [Want(subscription.key, filter, ticket)]
        if asked.guarantee != "installed":
            arrived_at = now + self.params.clock_offset
            is_from_installation = asked.after and asked.since is None and self.params.unlisted == "installation"
            since = arrived_at if asked.since is None else asked.since
            subscription.since = None if is_from_installation else since
        if asked.guarantee == "reference":
            effects += self.ask(now, subscription, self.publishers_for(filter))
        return effects

    def unsubscribe(self, client: Client, asked: Unsubscribe) -> list[Effect] | None:
        """None if there is nothing to end."""
        subscription = self.of_client.get(client.name, {}).get(asked.number)
        if subscription is None:
            return None
        ticket = self.requests.add(Request("unsubscribe", client, asked.number))
        self.forget(subscription)
        return [*self.tell_missed(subscription), Unwant(subscription.key, ticket)]

    def leave(self, client: Client) -> list[Effect]:
        mine = list(self.of_client.pop(client.name, {}).values())
        for subscription in mine:
            self.forget(subscription)
        return [Unwant(subscription.key) for subscription in mine]

    def forget(self, subscription: Subscription) -> None:
        del self.all[subscription.key]
        self.of_client.get(subscription.client.name, {}).pop(subscription.number, None)
        for publisher, stream in subscription.streams.items():
            if stream.state == "asked":
                self.asked.pop((subscription.key, publisher), None)
        subscription.client.lagging.pop(subscription.number, None)
        subscription.outlet.close()

    def is_current(self, subscription: Subscription | None) -> bool:
        """Whether it was not ended, or made again, meanwhile."""
        return subscription is not None and self.all.get(subscription.key) is subscription

    def settled(self, now: float, subscription: Subscription, at: float) -> list[Effect]:
        """The subscription is in place everywhere: the receipt has just gone out."""
        subscription.is_settled = True
        if subscription.guarantee != "installed":
            return []
        subscription.since = at - 2 * self.params.clock_error
        # What was advertised meanwhile may not have been waited for.
        late = {
            known.publisher: None
            for known, news in self.known.values()
            if news > subscription.known_before and known.filter.overlaps(subscription.filter)
        }
        return self.ask(now, subscription, list(late))

    # Advertisements.

    def learn(self, now: float, known: Known) -> list[Effect]:
        self.news += 1
        self.known[known.advertisement] = (known, self.news)
        self.of_publisher.setdefault(known.publisher, {})[known.advertisement] = None
        effects: list[Effect] = []
        for subscription in list(self.all.values()):
            is_complete = subscription.guarantee == "reference" or (
                subscription.guarantee == "installed" and subscription.is_settled
            )
            if is_complete and known.filter.overlaps(subscription.filter):
                effects += self.ask(now, subscription, [known.publisher])
        return effects

    def unlearn(self, advertisement: AdvertisementId) -> None:
        entry = self.known.pop(advertisement, None)
        if entry is not None:
            publisher = entry[0].publisher
            del self.of_publisher[publisher][advertisement]
            if not self.of_publisher[publisher]:
                del self.of_publisher[publisher]

    def publishers_for(self, filter: Filter) -> list[NodeId]:
        return list({known.publisher: None for known, _ in self.known.values() if known.filter.overlaps(filter)})

    # Asking for history.

    def ask(self, now: float, subscription: Subscription, publishers: Sequence[NodeId]) -> list[Effect]:
        """Ask for the history of these publishers, except those that wait for room."""
        streams = [self.stream(subscription, publisher) for publisher in publishers]
        streams = [stream for stream in streams if stream.state != "lagging"]
        if not streams:
            return []
        subscription.round += 1
        limit = max(1, subscription.outlet.room // len(streams))
        effects: list[Effect] = [] if self.asked else [SetTimer("ask", now + self.params.ask_again_after)]
        questions: list[list[Wanted]] = [[]]
        for stream in streams:
            stream.state, stream.round, stream.asked_at = "asked", subscription.round, now
            key = (subscription.key, stream.publisher)
            self.asked.pop(key, None)
            self.asked[key] = None
            advertisements = self.of_publisher.get(stream.publisher, {})
            if len(questions[-1]) + len(advertisements) > WANTED_MAX:
                questions.append([])
            questions[-1] += [(advertisement, stream.position) for advertisement in advertisements]
        for wanted in questions:
            effects += self.put_question(now, subscription, limit, wanted)
        return effects

    def put_question(self, now: float, subscription: Subscription, limit: int, wanted: list[Wanted]) -> list[Effect]:
        question = Reference(
            subscription.client.name,
            subscription.number,
            subscription.round,
            subscription.filter_text,
            tuple(wanted),
            subscription.since,
            subscription.group,
            limit,
            (self.node_id,),
        )
        effects: list[Effect] = []
        for hop, there in self.references.by_hop(question, None).items():
            # Where no way is known it becomes known again, and then it is asked for.
            if hop is not None:
                effects.append(Send(hop, replace(question, wanted=tuple(there))))
        here = tuple(each for each in wanted if each[0] in self.references.acceptance.offered)
        for answer in self.references.answer(now, question, subscription.filter, here):
            effects += self.hear(now, answer)
        return effects

    def ask_again(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for key, publisher in list(self.asked):
            subscription = self.all[key]
            if now - subscription.streams[publisher].asked_at < self.params.ask_again_after:
                break
            effects += self.ask(now, subscription, [publisher])
        if self.asked:
            key, publisher = next(iter(self.asked))
            at = self.all[key].streams[publisher].asked_at + self.params.ask_again_after
            effects.append(SetTimer("ask", at))
        return effects

    def hear(self, now: float, history: History) -> list[Effect]:
        """An answer to a question of ours."""
        subscription = self.all.get((history.client, history.subscription))
        stream = None if subscription is None else subscription.streams.get(history.publisher)
        if subscription is None or stream is None or stream.state != "asked" or stream.round != history.round:
            return [Drop(history, OLD_ANSWER)]
        if history.problem:
            return [Drop(history, history.problem)]
        effects: list[Effect] = []
        if history.group_at is not None and stream.position is None:
            stream.effective_at = history.group_at
        if history.is_truncated and history.is_last:
            message = Missed(subscription.number, history.publisher, 0, FORGOTTEN)
            effects.append(Send(subscription.client.name, message))
        for batch in batches_of(history):
            ready = self.admit(subscription, stream, batch, effects, is_history=True)
            if ready is not None:
                effects.append(self.deliver(subscription, ready))
            if stream.publisher in subscription.lagging:
                return effects
        if history.is_last:
            effects += self.conclude(now, subscription, stream, history)
        return effects

    def conclude(self, now: float, subscription: Subscription, stream: Stream, history: History) -> list[Effect]:
        """The answer is complete."""
        del self.asked[subscription.key, stream.publisher]
        if history.through:
            stream.position = max(stream.position or 0, history.through)
        if not history.has_more:
            stream.state = "active"
            return []
        self.fall_back(subscription, stream)
        return self.catch_up(now, subscription.client)

    # Publications.

    def pass_on(self, now: float, matched: Matched) -> list[Effect]:
        """Publications arrived."""
        batch, wanted = matched.batch, matched.wanted
        first = wanted[0]
        effects: list[Effect] = []
        if len(first) == 1 and wanted.count(first) == len(wanted):
            # The usual case: one subscription wants all of them.
            subscription = self.all.get(first[0])
            if subscription is None:
                return [Drop(batch, NO_SUBSCRIPTION)]
            ready = self.admit(subscription, self.stream_of(subscription, batch), batch, effects)
            if ready is not None:
                effects.append(self.deliver(subscription, ready))
            return effects
        leaving: dict[NodeId, list[tuple[Subscription, Publications]]] = {}
        for subscription, part in self.shares(batch, wanted, effects):
            ready = self.admit(subscription, self.stream_of(subscription, part), part, effects)
            if ready is not None:
                leaving.setdefault(subscription.client.name, []).append((subscription, ready))
        for client, shares in leaving.items():
            if len(shares) == 1:
                effects.append(self.deliver(*shares[0]))
            else:
                effects += [Send(client, delivery) for delivery in joined(shares)]
        return effects

    def shares(
        self, batch: Publications, wanted: Sequence[tuple[SubscriptionKey, ...]], effects: list[Effect]
    ) -> list[tuple[Subscription, Publications]]:
        """For each subscription what of the batch it wants. Those that want the same get the same object."""
        places_of_keys: dict[tuple[SubscriptionKey, ...], list[int]] = {}
        for place, keys in enumerate(wanted):
            places_of_keys.setdefault(keys, []).append(place)
        places_of: dict[SubscriptionKey, list[int]] = {}
        for keys, places in places_of_keys.items():
            for key in keys:
                earlier = places_of.get(key)
                places_of[key] = places if earlier is None else sorted(earlier + places)
        parts: dict[int, Publications] = {}
        made = []
        for key, places in places_of.items():
            subscription = self.all.get(key)
            part = parts.get(id(places))
            if part is None:
                part = parts[id(places)] = batch if len(places) == len(wanted) else pick(batch, places)
            if subscription is None:
                effects.append(Drop(part, NO_SUBSCRIPTION))
            else:
                made.append((subscription, part))
        return made

    def stream_of(self, subscription: Subscription, batch: Publications) -> Stream:
        return subscription.streams.get(batch.publisher) or self.stream(subscription, batch.publisher)

    def stream(self, subscription: Subscription, publisher: NodeId) -> Stream:
        """What is known of this publisher, from now on if not before."""
        stream = subscription.streams.get(publisher)
        if stream is None:
            self.make_room(subscription)
            is_active = subscription.guarantee != "installed" or subscription.is_settled
            position = subscription.after.get(publisher)
            effective_at = subscription.effective_at(position)
            stream = Stream(publisher, "active" if is_active else "silent", position, effective_at)
            subscription.streams[publisher] = stream
        elif stream.state == "silent" and subscription.is_settled:
            stream.state = "active"
        return stream

    def make_room(self, subscription: Subscription) -> None:
        """Forget the publisher that is gone for longest; one that is still there must stay."""
        if len(subscription.streams) >= self.params.streams_max:
            streams = subscription.streams.items()
            gone = (name for name, it in streams if name not in self.of_publisher and it.state != "lagging")
            oldest = next(gone, None)
            if oldest is not None:
                del subscription.streams[oldest]
                self.asked.pop((subscription.key, oldest), None)

    def admit(
        self,
        subscription: Subscription,
        stream: Stream,
        batch: Publications,
        effects: list[Effect],
        is_history: bool = False,
    ) -> Publications | None:
        """What of a batch leaves for the client now. The rest waits, or is given up: `effects` says so."""
        if stream.state != "active" and not is_history:
            if not (stream.state == "silent" and subscription.is_settled):
                effects.append(Drop(batch, NOT_ACTIVE))
                return None
            stream.state = "active"
        numbers = batch.numbers
        if stream.position is not None and numbers[0] <= stream.position:
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

    def admit_part(
        self,
        subscription: Subscription,
        stream: Stream,
        batch: Publications,
        effects: list[Effect],
        is_history: bool,
    ) -> Publications | None:
        """As `admit`, where not everything can leave at once."""
        outlet = subscription.outlet
        count = outlet.count_fitting(batch, self.params.pending_bytes_max)
        rest = cut(batch, count) if count < len(batch.numbers) else None
        if rest is not None and (is_history or subscription.policy == "wait"):
            self.fall_back(subscription, stream)
        elif rest is not None:
            stream.position = batch.numbers[-1]
        ready = None
        if count:
            kept = batch if rest is None else cut(batch, 0, count)
            stream.position = max(stream.position or 0, kept.numbers[-1])
            ready = self.queue_up(subscription, kept)
        if rest is not None and stream.state != "lagging":
            self.turn_away(subscription, rest, effects)
        return ready

    def turn_away(self, subscription: Subscription, rest: Publications, effects: list[Effect]) -> None:
        """There is no room for these, and the subscription does not wait."""
        if subscription.policy == "drop oldest":
            self.drop_oldest(subscription, rest, effects)
            return
        self.give_up(subscription, rest, effects)
        client = subscription.client
        if subscription.policy == "disconnect" and not client.is_turned_out:
            client.is_turned_out = True
            effects += [*self.tell_missed(subscription), Disconnect(client.name, QUEUE_FULL)]

    def queue_up(self, subscription: Subscription, batch: Publications) -> Publications | None:
        """There is room for all of it: answers with what leaves at once."""
        outlet = subscription.outlet
        outlet.put(batch)
        leaving = outlet.flow()
        if not leaving:
            return None
        # Whenever the window has room nothing waits, so what leaves is of this batch, and one piece.
        (ready,) = leaving
        subscription.delivered += len(ready.numbers)
        return ready

    def drop_oldest(self, subscription: Subscription, batch: Publications, effects: list[Effect]) -> None:
        outlet, count = subscription.outlet, len(batch.numbers)
        while (fitting := outlet.count_fitting(batch, self.params.pending_bytes_max)) < count:
            oldest = outlet.take_out(count - fitting)
            if oldest is None:
                # Nothing waits: what has just come is the oldest itself.
                self.give_up(subscription, cut(batch, 0, count - fitting), effects)
                if not fitting:
                    return
                batch, count = cut(batch, count - fitting), fitting
            else:
                self.give_up(subscription, oldest, effects)
        outlet.put(batch)

    def give_up(self, subscription: Subscription, batch: Publications, effects: list[Effect]) -> None:
        subscription.give_up(batch, QUEUE_FULL)
        effects.append(Drop(batch, QUEUE_FULL))

    def deliver(self, subscription: Subscription, batch: Publications) -> Send:
        return Send(
            subscription.client.name,
            Delivery(
                batch.publisher, batch.accepted_at, batch.numbers, batch.heads, batch.payloads, subscription.matched
            ),
        )

    # Room.

    def fall_back(self, subscription: Subscription, stream: Stream) -> None:
        if stream.state == "asked":
            self.asked.pop((subscription.key, stream.publisher), None)
        stream.state = "lagging"
        subscription.lagging[stream.publisher] = None
        subscription.client.lagging[subscription.number] = None

    def take(self, now: float, client: Client, taken: Taken) -> list[Effect]:
        subscription = self.of_client.get(client.name, {}).get(taken.subscription)
        if subscription is None:
            return [Drop(taken, NO_SUBSCRIPTION)]
        effects: list[Effect] = []
        if subscription.outlet.taken(taken.count):
            effects.append(Drop(taken, NOT_UNDER_WAY))
        effects += self.tell_missed(subscription)
        for batch in subscription.outlet.flow():
            subscription.delivered += len(batch.numbers)
            effects.append(self.deliver(subscription, batch))
        return effects + self.catch_up(now, client) if client.lagging else effects

    def tell_missed(self, subscription: Subscription) -> list[Effect]:
        missed, subscription.missed = subscription.missed, {}
        return [
            Send(subscription.client.name, Missed(subscription.number, publisher, count, reason))
            for (publisher, reason), count in missed.items()
        ]

    def catch_up(self, now: float, client: Client) -> list[Effect]:
        """Subscriptions that had to stop go on, where half of the room or more is free again."""
        effects: list[Effect] = []
        for number in list(client.lagging):
            subscription = self.of_client[client.name][number]
            outlet = subscription.outlet
            if 2 * outlet.room < outlet.capacity or 2 * client.pending_bytes > self.params.pending_bytes_max:
                continue
            publishers = list(subscription.lagging)
            del client.lagging[number]
            subscription.lagging.clear()
            for publisher in publishers:
                subscription.streams[publisher].state = "silent"
            effects += self.ask(now, subscription, publishers)
        return effects

    def check(self) -> None:
        for key, subscription in self.all.items():
            subscription.check()
            assert self.of_client[key[0]][key[1]] is subscription
        for key, publisher in self.asked:
            assert self.all[key].streams[publisher].state == "asked", "an answer is awaited for no question"
