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
                goes out. Nothing comes before it. What arrives before it is dropped, or kept (`strict_ack`) and passed
                on behind it, as far as its publisher's broker accepted it after the beginning.
    reference   history is asked for at once, behind the position or since a time; its answer makes the stream active.

Where a subscription begins is known by the number of each publisher before its receipt goes out (`beginnings.py`). An
advertisement that becomes known later, or again after a break, makes its publisher's stream ask for history: behind its
position, or if it has none, everything since the publisher advertised. Since the subscription goes ahead of the
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

Source: PSDG 3.6.5 to 3.6.7; repairs G-1, G-45 (the algorithm's contract, and `strict_ack`), G-46, G-48, G-49,
G-51, G-55.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from msgspec.structs import replace

from tidings.machine.effects import Drop, Effect, Send, SetTimer
from tidings.model.filter import Filter
from tidings.model.identity import TENANT_MARK, NodeId, tenant_of
from tidings.model.weight import units_at_most
from tidings.model.work import WORK
from tidings.protocols.delivery.edge.admission import Admission, ServedSubscription, UnlookedNews, deliver, tell_missed
from tidings.protocols.delivery.edge.beginnings import Beginnings
from tidings.protocols.delivery.edge.clients import BadRequest, NetworkRequest, Requests, ServedClient, read_filter
from tidings.protocols.delivery.edge.deliveries import joined, places_by_key
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.edge.questions import Fetching
from tidings.protocols.delivery.messages import (
    Beginning,
    Behind,
    DeliveriesTaken,
    History,
    Subscribe,
    Taken,
    Unsubscribe,
)
from tidings.pubsub.client import Missed, Receipt
from tidings.pubsub.publications import Publications, pick
from tidings.pubsub.signals import Known, Matched, Skipped, SubscriptionKey, Unwant, Want, Wants

NO_SUBSCRIPTION = "for a subscription that is not there"
NOT_UNDER_WAY = "takes what was not on the way"
OTHER_TENANT = "of another tenant than the subscription"
LEFT_OUT = "left out between brokers, where more came than a link takes"

TOO_MANY_POSITIONS = "more positions than a client may name"

POSITIONS_TOLD_MAX = 1000
"""Where a subscription begins is told of so many publishers in one message."""

TOO_DEAR = (
    "searching for all your patterns would take {units} units of work on the longest string, and {most} are allowed; "
    "ask for fewer or shorter patterns, or for beginnings ('word%'), which are not searched for"
)

ENDED_AT_ONCE_MAX = 64
"""Subscriptions of a client that left which routing is told of in one step."""

LET_GO_AT_ONCE_MAX = 2000
"""Batches that waited for subscriptions which have ended of which as many are let go of in one step."""

LOOKED_AT_ONCE_MAX = 64
"""Subscriptions up to which all are looked at in the step in which an advertisement becomes known."""

LOOK_UNITS = 75
"""The work of looking whether a subscription and an advertisement overlap, where no patterns meet."""


class ServedSubscriptions:
    def __init__(
        self,
        params: EdgeParams,
        requests: Requests,
        admission: Admission,
        fetching: Fetching,
        beginnings: Beginnings,
    ) -> None:
        self.params, self.requests, self.admission = params, requests, admission
        self.fetching, self.beginnings = fetching, beginnings
        self.all: dict[SubscriptionKey, ServedSubscription] = {}
        self.of_client: dict[NodeId, dict[int, ServedSubscription]] = {}
        self.unlooked: dict[NodeId, UnlookedNews] = {}
        """By publisher."""
        self.is_look_timed = False
        self.ended: dict[SubscriptionKey, None] = {}
        """Those of clients that left of which routing was not told yet."""
        self.remains: deque[deque[Publications]] = deque()
        """Queues of subscriptions that have ended, which are let go of in parts."""
        self.search_units: Counter[str] = Counter()
        """By principal: what searching for the patterns of its subscriptions may cost."""

    def start(self) -> None:
        """There is no timer any more, and nobody to ask for."""
        self.unlooked.clear()
        self.ended.clear()
        self.remains.clear()
        self.fetching.held.clear()
        self.is_look_timed = False

    # Coming and going.

    def behind(self, now: float, client: ServedClient, named: Behind) -> list[Effect]:
        """Positions ahead of their subscription. What there is no room for is refused with it."""
        if len(client.behind) >= self.params.subscriptions_max and named.subscription not in client.behind:
            return [Drop(named, TOO_MANY_POSITIONS)]
        waiting = client.behind.setdefault(named.subscription, {})
        count = sum(len(each) for each in client.behind.values() if each is not None)
        if waiting is None or count + len(named.positions) > self.params.positions_max:
            client.behind[named.subscription] = None
            return [Drop(named, TOO_MANY_POSITIONS)]
        waiting.update(named.positions)
        return []

    def subscribe(self, now: float, client: ServedClient, asked: Subscribe) -> list[Effect]:
        filter = read_filter(asked.filter, client, client.subscribe_bound, "subscribe to")
        mine = self.of_client.setdefault(client.name, {})
        earlier = mine.get(asked.number)
        if earlier is None and len(mine) >= self.params.subscriptions_max:
            raise BadRequest(f"a client has at most {self.params.subscriptions_max} subscriptions; unsubscribe one")
        if earlier is not None and earlier.filter != filter:
            raise BadRequest(f"subscription {asked.number} has another filter; unsubscribe it, or take the next number")
        if asked.window < 1:
            raise BadRequest("window: 0 lets nothing through; ask for at least 1")
        behind = client.behind.pop(asked.number, {})
        if behind is None:
            raise BadRequest(f"a subscription names at most {self.params.positions_max} positions; continue with fewer")
        if earlier is None:
            self.check_units(client, filter)
            client.use.add_subscription()
        else:
            self.forget(earlier)
            client.use.subscriptions += 1
        subscription = ServedSubscription(client, asked, filter, self.params)
        subscription.after |= behind
        self.search_units[client.principal] += subscription.search_units
        mine[asked.number] = self.all[subscription.key] = subscription
        self.ended.pop(subscription.key, None)
        subscription.known_before = self.fetching.news
        request = NetworkRequest("subscribe", client, asked.number, client.shown(filter), subscription)
        ticket = self.requests.add(request)
        is_sure = asked.guarantee != "none"
        # The subscription leaves ahead of the question for history, on every link.
        effects: list[Effect] = [Want(subscription.key, filter, ticket, is_sure), *self.look_later(now)]
        if asked.guarantee == "none":
            return effects
        known = self.fetching.publishers_for(subscription)
        unlisted = [publisher for publisher in known if subscription.position_after(publisher) is None]
        if asked.guarantee == "installed" and asked.group:
            # The group may have begun earlier, and its broker says where.
            subscription.unplaced = dict.fromkeys(unlisted)
            return effects + self.fetching.ask(now, subscription, unlisted)
        if asked.guarantee == "installed":
            self.beginnings.want(subscription, unlisted)
            return effects
        if asked.since is None and not asked.is_continued:
            subscription.unplaced = dict.fromkeys(unlisted)
            subscription.asked_at = None if subscription.is_from_now else now + self.params.clock_offset
            if asked.group:
                # Members shall begin alike, whoever of them heard of a publisher before.
                subscription.since = subscription.asked_at
        return effects + self.fetching.ask(now, subscription, known)

    def unsubscribe(self, now: float, client: ServedClient, asked: Unsubscribe) -> list[Effect] | None:
        """None if there is nothing to end."""
        subscription = self.of_client.get(client.name, {}).get(asked.number)
        if subscription is None:
            return None
        ticket = self.requests.add(NetworkRequest("unsubscribe", client, asked.number))
        self.forget(subscription)
        return [*tell_missed(subscription), Unwant(subscription.key, ticket), *self.look_later(now)]

    def leave(self, now: float, client: ServedClient) -> list[Effect]:
        """Routing is told of the first at once, and of the others in the steps that follow."""
        mine = list(self.of_client.pop(client.name, {}).values())
        for subscription in mine:
            self.forget(subscription)
        self.ended.update(dict.fromkeys([subscription.key for subscription in mine]))
        return [*self.end_some(), *self.look_later(now)]

    def end_some(self) -> list[Effect]:
        keys = list(islice(self.ended, ENDED_AT_ONCE_MAX))
        for key in keys:
            del self.ended[key]
        return [Unwant(key) for key in keys]

    def let_go(self) -> None:
        """A part of what is left of subscriptions that have ended; the more there is, the larger."""
        count = max(LET_GO_AT_ONCE_MAX, sum(map(len, self.remains)) // 16)
        while self.remains and count:
            queue = self.remains[0]
            for _ in range(min(count, len(queue))):
                queue.popleft()
                count -= 1
            if not queue:
                self.remains.popleft()

    def check_units(self, client: ServedClient, filter: Filter) -> None:
        units, most = self.search_units[client.principal] + units_at_most(filter), self.params.search_units_max
        if units > most:
            raise BadRequest(TOO_DEAR.format(units=units, most=most))

    def forget(self, subscription: ServedSubscription) -> None:
        del self.all[subscription.key]
        self.search_units[subscription.client.principal] -= subscription.search_units
        if not self.search_units[subscription.client.principal]:
            del self.search_units[subscription.client.principal]
        subscription.client.use.subscriptions -= 1
        self.of_client.get(subscription.client.name, {}).pop(subscription.number, None)
        self.fetching.forget(subscription)
        queue = subscription.outlet.close()
        if queue:
            self.remains.append(queue)

    def is_current(self, subscription: ServedSubscription | None) -> bool:
        """Whether it was not ended, or made again, meanwhile."""
        return subscription is not None and self.all.get(subscription.key) is subscription

    def settled(self, now: float, subscription: ServedSubscription, receipt: Receipt) -> list[Effect]:
        """The subscription is in place everywhere. The receipt goes out, if it is known where it begins."""
        subscription.receipt = receipt
        return self.give_receipts(now, [subscription])

    def give_receipts(self, now: float, subscriptions: Iterable[ServedSubscription]) -> list[Effect]:
        effects: list[Effect] = []
        for subscription in subscriptions:
            receipt = subscription.receipt
            if receipt is None or subscription.unplaced or not self.is_current(subscription):
                continue
            subscription.receipt, subscription.is_settled = None, True
            for positions in parts_of(subscription.begun):
                effects += subscription.client.put(Beginning(subscription.number, positions))
            subscription.begun = {}
            effects += subscription.client.put(replace(receipt, at=now + self.params.clock_offset))
            if subscription.guarantee == "installed":
                # What was advertised meanwhile may not have been waited for.
                news = 0 if subscription.group else subscription.known_before
                late = self.fetching.publishers_for(subscription, news)
                effects += self.fetching.ask(now, subscription, late)
                effects += self.fetching.release(now, subscription)
        return effects

    # Advertisements.

    def learn(self, now: float, known: Known) -> list[Effect]:
        """An advertisement became known, or is known again: whoever must not miss anything asks for history. Where
        there are many to ask, that takes several steps, and is done once for all advertisements that came meanwhile."""
        self.fetching.learn(known)
        unlooked = self.unlooked.get(known.publisher)
        news = [known] if unlooked is None else [*unlooked.news, known]
        left = list(reversed(self.all.values()))
        self.unlooked[known.publisher] = UnlookedNews(news, left, self.fetching.news, {})
        if len(self.all) <= LOOKED_AT_ONCE_MAX:
            # There may be no time for it in this step: then the rest is looked at later.
            return [*self.look(now, known.publisher), *self.look_later(now)]
        return self.look_later(now)

    def look_later(self, now: float) -> list[Effect]:
        if self.is_look_timed or not (self.unlooked or self.ended or self.remains):
            return []
        self.is_look_timed = True
        return [SetTimer("held", now + self.params.held_for)]

    def go_on(self, now: float) -> list[Effect]:
        """At the timer "held": those ask who were held, as many are looked at as one step may look at, and of clients
        that left some more subscriptions are ended."""
        self.is_look_timed = False
        self.let_go()
        effects = [*self.end_some(), *self.fetching.let_go_on(now)]
        for publisher in list(self.unlooked):
            effects += self.look(now, publisher)
            if WORK.is_spent:
                break
        return effects + self.look_later(now)

    def look(self, now: float, publisher: NodeId) -> list[Effect]:
        """Who asks because of what became known of this publisher, as many as one step may look at."""
        unlooked = self.unlooked[publisher]
        effects: list[Effect] = []
        while unlooked.left and not WORK.is_spent:
            subscription = unlooked.left.pop()
            WORK.units += LOOK_UNITS * len(unlooked.news)
            has_to_ask = subscription.has_to_ask(publisher, unlooked.news_count) and self.is_current(subscription)
            if has_to_ask and unlooked.concern(subscription):
                effects += self.fetching.ask(now, subscription, [publisher])
        if not unlooked.left:
            del self.unlooked[publisher]
        return effects

    def skipped(self, now: float, skipped: Skipped) -> list[Effect]:
        """Publications were left out on the way: whoever must not miss them asks for history, the others are told."""
        known = self.fetching.known.get(skipped.advertisement)
        if known is None:
            return []
        effects: list[Effect] = []
        for subscription in list(self.all.values()):
            if not subscription.concerns(known[0]):
                continue
            stream = subscription.streams.get(skipped.publisher)
            if subscription.guarantee == "none":
                missed = Missed(subscription.number, skipped.publisher, 0, LEFT_OUT)
                effects.append(Send(subscription.client.name, missed))
            elif stream is not None and stream.state == "asked":
                stream.gap = max(stream.gap, skipped.through)
            elif subscription.is_complete and (stream is None or (stream.position or 0) < skipped.through):
                effects += self.fetching.ask(now, subscription, [skipped.publisher])
        return effects

    def hear(self, now: float, history: History) -> list[Effect]:
        return self.fetching.hear(now, self.all.get((history.client, history.subscription)), history)

    # Publications.

    def pass_on(self, now: float, matched: Matched) -> list[Effect]:
        """Publications arrived."""
        batch, wanted = matched.batch, matched.wanted
        effects: list[Effect] = []
        unlooked = self.unlooked.get(batch.publisher)
        places_of: Mapping[SubscriptionKey, list[int] | None]
        if type(wanted) is Wants:
            places_of = wanted.places
        elif not wanted:
            return effects
        elif len(wanted[0]) == 1 and wanted.count(wanted[0]) == len(wanted):
            # The usual case: one subscription wants all of them.
            places_of = {wanted[0][0]: None}
        else:
            places_of = places_by_key(wanted)
        # Those that want the same get the same object.
        parts: dict[int, Publications] = {}
        tenant = tenant_of(batch.publisher) if TENANT_MARK in batch.publisher else ""
        leaving: dict[NodeId, list[tuple[ServedSubscription, Publications]]] = {}
        for key, places in places_of.items():
            part = batch
            if places is not None and len(places) < len(batch.numbers):
                known = parts.get(id(places))
                part = parts[id(places)] = pick(batch, places, receipt=0) if known is None else known
            subscription = self.all.get(key)
            if subscription is None:
                effects.append(Drop(part, NO_SUBSCRIPTION))
                continue
            if subscription.client.tenant_name != tenant:
                effects.append(Drop(part, OTHER_TENANT))
                continue
            if unlooked is not None and subscription.has_to_ask(batch.publisher, unlooked.news_count):
                effects += self.fetching.ask(now, subscription, [batch.publisher])
            stream = subscription.streams.get(batch.publisher) or self.fetching.stream(subscription, batch.publisher)
            ready = self.admission.admit(subscription, stream, part, effects)
            if ready is not None:
                leaving.setdefault(subscription.client.name, []).append((subscription, ready))
        for mine in leaving.values():
            if len(mine) == 1:
                effects.append(deliver(*mine[0]))
            else:
                effects += [mine[0][0].client.send(delivery) for delivery in joined(mine)]
        return effects

    # Room.

    def take(self, now: float, client: ServedClient, taken: Taken) -> list[Effect]:
        subscription = self.of_client.get(client.name, {}).get(taken.subscription)
        if subscription is None:
            return [Drop(taken, NO_SUBSCRIPTION)]
        effects: list[Effect] = []
        if subscription.outlet.taken(taken.count):
            effects.append(Drop(taken, NOT_UNDER_WAY))
        effects += [*tell_missed(subscription), *self.flow(client)]
        return effects + self.fetching.catch_up(now, client) if client.lagging else effects

    def arrived(self, now: float, client: ServedClient, taken: DeliveriesTaken) -> list[Effect]:
        """The connection has room again."""
        if not client.window.hear(taken.total_bytes):
            return []
        return self.flow(client)

    def flow(self, client: ServedClient) -> list[Effect]:
        """What waits for the client leaves as far as there is room: of each subscription a batch, in turn."""
        effects: list[Effect] = []
        waiting = [each for each in self.of_client.get(client.name, {}).values() if each.outlet.waiting]
        while client.window.has_room and (waiting or client.answers):
            # Ahead of events: among them is the receipt before which nothing may come.
            if client.answers:
                effects.append(client.send(client.answers.popleft()))
                continue
            for subscription in list(waiting):
                batch = subscription.outlet.leave()
                if batch is None:
                    waiting.remove(subscription)
                    continue
                subscription.delivered += len(batch.numbers)
                effects.append(deliver(subscription, batch))
        return effects

    def check(self) -> None:
        for use in {id(each.client.use): each.client.use for each in self.all.values()}.values():
            count = sum(each.client.use is use for each in self.all.values())
            assert count == use.subscriptions, "the subscriptions of a tenant are miscounted"
        for key, subscription in self.all.items():
            subscription.check()
            assert self.of_client[key[0]][key[1]] is subscription
        assert not self.ended.keys() & self.all.keys(), "one that is there would be ended"
        assert self.is_look_timed or not self.ended, "nobody tells routing what has ended"
        assert self.is_look_timed or not self.remains, "nobody lets go of what has ended"
        assert sum(each.search_units for each in self.all.values()) == self.search_units.total()


def parts_of(positions: Mapping[NodeId, int]) -> Iterator[tuple[tuple[NodeId, int], ...]]:
    """As many as fit a message at a time."""
    rows = list(positions.items())
    for place in range(0, len(rows), POSITIONS_TOLD_MAX):
        yield tuple(rows[place : place + POSITIONS_TOLD_MAX])
