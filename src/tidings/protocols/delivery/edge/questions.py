"""The asker's side of history: which publishers are known, whom to ask for what, and what to do with the answers.

A question names all advertisements of a publisher that are known here, with the position of the stream. A
publisher that came from another broker is advertised by both for a while, and each stores a part of its publications;
so there is one answer from each, and they are put in order before anything is passed on. While an answer is awaited the
stream passes on nothing. What arrives is kept, within bounds (`early_bytes_max`), and put in order with the answers:
publications and answers are paced apart, so that either may come first. Where something was given up meanwhile, here or
on the way, the mark `gap` says up to which number, and if the answers do not reach so far it is asked again.

An answer is one page, and no longer than there is room. If there is more, or it is longer than the room has become,
the stream lags, and asks again when the client has taken enough. A question that is not answered is posed again after
a while, as it was, since it may have been given up on the way. (Where a link broke the publisher becomes known again,
which asks anew by itself.) It keeps its round, and what came meanwhile is kept. Where thousands of questions wait for
each other none is answered soon; if those posed again were new ones, the answers to the first would count for
nothing, and the next ones too.

An advertisement may concern thousands of subscriptions, and each asks. When a step has done as much as a step may
(`model/work.py`), or looking has taken its share of the time, further streams lag as if there were no room, and go on
at the timer "held", the clients in turn (`looks.py`).
"""

from collections.abc import Sequence

from msgspec.structs import replace

from tidings.machine.effects import Drop, Effect, Send, SetTimer
from tidings.model.bounds import PUBLISHERS_MAX
from tidings.model.filter import Filter
from tidings.model.identity import NodeId
from tidings.model.work import WORK
from tidings.protocols.delivery.edge.admission import (
    NOT_ACTIVE,
    Admission,
    PublisherStream,
    ServedSubscription,
    deliver,
    fall_back,
)
from tidings.protocols.delivery.edge.advertisements import origin_of
from tidings.protocols.delivery.edge.answers import lost_behind, merged
from tidings.protocols.delivery.edge.clients import ServedClient
from tidings.protocols.delivery.edge.history import NEVER, behind
from tidings.protocols.delivery.edge.looks import LookTurns
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.edge.references import TOO_FAR, References
from tidings.protocols.delivery.messages import History, Reference
from tidings.pubsub.client import Missed
from tidings.pubsub.signals import AdvertisementId, Known, SubscriptionKey

OLD_ANSWER = "answers a question that nobody waits for any more"
FORGOTTEN = "older publications were asked for than are stored"

AT_MOST = "; so many at most: some of them may not match, or were declined, have come, or were told of before"
GROUP_LATE = "the group began with another member, which was heard first, behind what the publisher published before"
LATE_FORGOTTEN = (
    "the publisher became known after the subscription, and its oldest publications are no longer stored; some of them "
    "may have come after the receipt"
)

WANTED_MAX = 1000
"""Advertisements that one question names, so that it fits a frame."""

QUESTION_UNITS, NAMED_UNITS = 1500, 25
"""The work of a question, and of each advertisement that it names."""

Wanted = tuple[AdvertisementId, int | None]
"""An advertisement, and the number behind which its publications are wanted, if there is one."""


class Fetching:
    def __init__(self, node_id: NodeId, params: EdgeParams, references: References, admission: Admission) -> None:
        self.node_id, self.params, self.references, self.admission = node_id, params, references, admission
        self.known: dict[AdvertisementId, tuple[Known, int]] = {}
        """Advertisements as routing knows them, each with the count of such news at the time."""
        self.of_publisher: dict[NodeId, dict[AdvertisementId, None]] = {}
        self.news = 0
        self.rounds = 0
        """Of all subscriptions: one that is made again must not take an answer to its former self for its own."""
        self.asked: dict[tuple[SubscriptionKey, NodeId], ServedSubscription] = {}
        """Streams that wait for an answer, the one that has waited longest first."""
        self.placed: list[ServedSubscription] = []
        """Subscriptions of which it has become known where they begin, in this step."""
        self.held = LookTurns()
        """Who has streams that go on at the timer "held"."""

    # Advertisements.

    def learn(self, known: Known) -> None:
        self.news += 1
        self.known[known.advertisement] = (known, self.news)
        self.of_publisher.setdefault(known.publisher, {})[known.advertisement] = None

    def unlearn(self, now: float, advertisement: AdvertisementId) -> list[Effect]:
        """It is withdrawn, or out of reach. Nobody waits for an answer from there any longer."""
        entry = self.known.pop(advertisement, None)
        if entry is None:
            return []
        self.news += 1
        publisher = entry[0].publisher
        others = self.of_publisher[publisher]
        del others[advertisement]
        if not others:
            del self.of_publisher[publisher]
            for (_, name), subscription in self.asked.items():
                if name == publisher:
                    self.place(subscription, publisher, None)
            return []
        waiting = [subscription for (_, name), subscription in self.asked.items() if name == publisher]
        return [effect for subscription in waiting for effect in self.ask(now, subscription, [publisher])]

    def publishers_for(self, subscription: ServedSubscription, news: int = 0) -> list[NodeId]:
        """Who may publish what the subscription wants, as far as it was heard of after so many news."""
        publishers: dict[NodeId, None] = {}
        verdicts: dict[Filter, bool] = {}
        for known, at in self.known.values():
            if at <= news or known.publisher in publishers or not subscription.client.is_of(known.publisher):
                continue
            overlaps = verdicts.get(known.filter)
            if overlaps is None:
                overlaps = verdicts[known.filter] = known.filter.overlaps(subscription.filter)
            if overlaps:
                publishers[known.publisher] = None
        return list(publishers)

    # Streams.

    def place(self, subscription: ServedSubscription, publisher: NodeId, position: int | None) -> None:
        """The subscription begins behind this number of the publisher; None if that is not to be known."""
        if publisher not in subscription.unplaced:
            return
        del subscription.unplaced[publisher]
        if position is not None:
            subscription.begun[publisher] = position
            if subscription.guarantee == "installed":
                subscription.after.setdefault(publisher, position)
                stream = subscription.streams.get(publisher)
                if stream is not None:
                    stream.position = max(stream.position or 0, position)
        if not subscription.unplaced:
            self.placed.append(subscription)

    def stream(self, subscription: ServedSubscription, publisher: NodeId) -> PublisherStream:
        """What is known of this publisher, from now on if not before."""
        stream = subscription.streams.get(publisher)
        if stream is None:
            self.make_room(subscription)
            is_active = subscription.guarantee != "installed" or subscription.is_settled
            position = subscription.position_after(publisher)
            is_by_time = subscription.guarantee == "reference" and position is None
            effective_at = subscription.effective_at if is_by_time else NEVER
            stream = PublisherStream(publisher, "active" if is_active else "silent", position, effective_at)
            subscription.streams[publisher] = stream
        return stream

    def make_room(self, subscription: ServedSubscription) -> None:
        """Forget the publisher that is gone for longest; one that is still there must stay."""
        if len(subscription.streams) >= self.params.streams_max:
            streams = subscription.streams.items()
            gone = (name for name, it in streams if name not in self.of_publisher and it.state != "lagging")
            oldest = next(gone, None)
            if oldest is not None:
                stream = subscription.streams.pop(oldest)
                self.admission.forget_early(stream)
                if stream.position is not None and len(subscription.after) < self.params.positions_max:
                    subscription.after[oldest] = stream.position
                self.asked.pop((subscription.key, oldest), None)

    def forget(self, subscription: ServedSubscription) -> None:
        for publisher, stream in subscription.streams.items():
            self.admission.forget_early(stream)
            if stream.state == "asked":
                del self.asked[subscription.key, publisher]
        subscription.client.lagging.pop(subscription.number, None)

    def forget_kept(self, subscription: ServedSubscription) -> None:
        """There will be no receipt for it."""
        subscription.keeps_early = False
        for stream in subscription.streams.values():
            if stream.state == "silent":
                self.admission.forget_early(stream)
                stream.gap = 0

    # Questions.

    def ask(self, now: float, subscription: ServedSubscription, publishers: Sequence[NodeId]) -> list[Effect]:
        """Ask for the history of these publishers, except those that wait for room."""
        streams = [self.stream(subscription, publisher) for publisher in publishers]
        streams = [stream for stream in streams if stream.state != "lagging"]
        if not streams:
            return []
        if self.has_to_wait(now, subscription.client):
            return self.hold(now, subscription, streams)
        self.rounds += 1
        for stream in streams:
            self.admission.forget_early(stream)
            origins = [origin_of(each) for each in self.of_publisher.get(stream.publisher, ())]
            stream.ask(now, self.rounds, self.news, origins)
            if not origins:  # It has gone since the stream lags.
                self.place(subscription, stream.publisher, None)
        return self.pose(now, subscription, streams)

    def pose(self, now: float, subscription: ServedSubscription, streams: Sequence[PublisherStream]) -> list[Effect]:
        """The question of these streams, to the brokers from which they await an answer."""
        room_bytes = max(0, self.params.pending_bytes_max - subscription.client.pending_bytes)
        limits = (max(1, subscription.outlet.room // len(streams)), room_bytes // len(streams))
        if not subscription.is_complete:
            # Before the receipt nothing is passed on: it is only asked where the group begins.
            limits = (0, 0)
        effects: list[Effect] = [] if self.asked else [SetTimer("ask", now + self.params.ask_again_after)]
        questions: dict[tuple[float | None, bool, bool], list[list[Wanted]]] = {}
        for stream in streams:
            offered = self.of_publisher.get(stream.publisher, ())
            advertisements = [each for each in offered if origin_of(each) in stream.awaited]
            key = (subscription.key, stream.publisher)
            self.asked.pop(key, None)
            self.asked[key] = subscription
            stream.asked_at = now
            parts = questions.setdefault(subscription.wanted_since(stream), [[]])
            if len(parts[-1]) + len(advertisements) > WANTED_MAX:
                parts.append([])
            parts[-1] += [(advertisement, stream.position) for advertisement in advertisements]
            WORK.units += QUESTION_UNITS + NAMED_UNITS * len(advertisements)
        question = Reference(
            subscription.client.name,
            subscription.number,
            streams[0].round,
            subscription.filter_text,
            (),
            None,
            False,
            subscription.group,
            subscription.client.group_owner if subscription.group else "",
            *limits,
            (self.node_id,),
        )
        for (since, is_from_now, is_late), parts in questions.items():
            for wanted in parts:
                if wanted:
                    named = tuple(wanted[:PUBLISHERS_MAX])
                    part = replace(question, since=since, is_from_now=is_from_now, is_late=is_late, wanted=named)
                    effects += self.put(now, subscription, part)
        return effects

    def put(self, now: float, subscription: ServedSubscription, question: Reference) -> list[Effect]:
        effects: list[Effect] = []
        for hop, there in self.references.by_hop(question, None).items():
            # Where no way is known it becomes known again, and then it is asked for.
            if hop is not None:
                effects += self.references.flows.put(hop, replace(question, wanted=tuple(there)))
        began = WORK.units
        answers = self.references.answer(now, question, subscription.filter)
        self.references.flows.looks.spend(now, WORK.units - began)
        self.held.spend(subscription.client, WORK.units - began)
        for answer in answers:
            effects += self.hear(now, subscription, answer)
        return effects

    def has_to_wait(self, now: float, client: ServedClient) -> bool:
        are_used_up = WORK.is_spent or self.references.flows.looks.are_used_up(now)
        return are_used_up or self.held.has_priority_over(client)

    def hold(self, now: float, subscription: ServedSubscription, streams: Sequence[PublisherStream]) -> list[Effect]:
        """Not in this step."""
        for stream in streams:
            if stream.state == "asked":
                self.admission.forget_early(stream)
                self.asked.pop((subscription.key, stream.publisher), None)
            fall_back(subscription, stream)
        effects: list[Effect] = [] if self.held else [SetTimer("held", now + self.params.held_for)]
        self.held.wait(subscription.client)
        return effects

    def let_go_on(self, now: float) -> list[Effect]:
        """Those that were held, as far as there is time for them."""
        effects: list[Effect] = []
        while self.held and not (WORK.is_spent or self.references.flows.looks.are_used_up(now)):
            effects += self.catch_up(now, self.held.next())
        return [*effects, SetTimer("held", now + self.params.held_for)] if self.held else effects

    def ask_again(self, now: float) -> list[Effect]:
        """Those that have waited long ask the same question once more; the first answer to it counts."""
        effects: list[Effect] = []
        for (_, publisher), subscription in list(self.asked.items()):
            stream = subscription.streams[publisher]
            # As the timer was set: the difference of two times is rounded, and may fall short of what was added.
            if stream.asked_at + self.params.ask_again_after > now or WORK.is_spent:
                break
            effects += self.pose(now, subscription, [stream])
        if self.asked:
            (_, publisher), subscription = next(iter(self.asked.items()))
            due = subscription.streams[publisher].asked_at + self.params.ask_again_after
            effects.append(SetTimer("ask", max(due, now + self.params.held_for)))
        return effects

    # Answers.

    def hear(self, now: float, subscription: ServedSubscription | None, history: History) -> list[Effect]:
        """An answer to a question of ours."""
        stream = None if subscription is None else subscription.streams.get(history.publisher)
        if subscription is None or stream is None or stream.state != "asked" or stream.round != history.round:
            return [Drop(history, OLD_ANSWER)]
        if history.problem and history.problem != TOO_FAR:
            # The way becomes known again.
            return [Drop(history, history.problem)]
        origin = origin_of(history.advertisement)
        if origin not in stream.awaited:
            return [Drop(history, OLD_ANSWER)]
        del stream.awaited[origin]
        stream.answers.append(history)
        return [] if stream.awaited else self.conclude(now, subscription, stream)

    def conclude(self, now: float, subscription: ServedSubscription, stream: PublisherStream) -> list[Effect]:
        """Every broker that stores something of the publisher has answered."""
        del self.asked[subscription.key, stream.publisher]
        if not subscription.is_complete:
            begin = subscription.begin_of(stream.answers)
            stream.state, stream.answers = "silent", []
            if not subscription.keeps_early:
                self.admission.forget_early(stream)
            self.place(subscription, stream.publisher, begin)
            return []
        answers, begin = stream.answers, subscription.begin_of(stream.answers)
        # Of what came by itself, that which lies before the beginning was on its way already.
        early = [part for batch, _ in stream.early if (part := behind(batch, begin)) is not None]
        stream.answers = []
        self.admission.forget_early(stream)
        effects: list[Effect] = []
        group_times = [each.group_at for each in answers if each.group_at is not None]
        if group_times and stream.position is None:
            stream.effective_at = min(group_times)
        begun_late = max((each.begun_late for each in answers), default=0)
        if stream.position is None and begun_late:
            missed = Missed(subscription.number, stream.publisher, begun_late, GROUP_LATE + AT_MOST)
            effects.append(Send(subscription.client.name, missed))
        if stream.position is None and subscription.group and any(each.begin > begin for each in answers):
            # Only one of the publisher's brokers knows where the group begins: the others have to look from there on.
            stream.position, stream.state = begin, "silent"
            self.place(subscription, stream.publisher, begin)
            return effects + self.ask(now, subscription, [stream.publisher])
        is_truncated, missing = lost_behind(stream.position, answers)
        is_far = any(each.problem for each in answers)
        if is_truncated or is_far:
            is_late = stream.position is None and subscription.wanted_since(stream)[0] is None
            reason, missing = (TOO_FAR, 0) if is_far else (LATE_FORGOTTEN if is_late else FORGOTTEN, missing)
            forgotten = max((end for each in answers for _, end in each.lacking), default=0)
            before, may_be_told = stream.told_before(missing, forgotten)
            has_come = bool(early) and early[0].numbers[0] <= forgotten
            is_counted = len(answers) == 1 and answers[0].is_counted and missing == answers[0].missing
            if missing and (not is_counted or may_be_told or has_come):
                reason += AT_MOST
            if before is None or before < missing:
                message = Missed(subscription.number, stream.publisher, missing - (before or 0), reason)
                effects.append(Send(subscription.client.name, message))
        self.place(subscription, stream.publisher, begin)
        stopped = [each.through for each in answers if each.has_more]
        complete = max(each.through for each in answers)
        if stream.gap > complete:
            stopped.append(complete)
        newest = [each.numbers[-1] for each in early]
        through = min(stopped) if stopped else max([*newest, complete])
        for batch in merged(answers, early, through):
            ready = self.admission.admit(subscription, stream, batch, effects, is_history=True)
            if ready is not None:
                effects.append(deliver(subscription, ready))
            if stream.publisher in subscription.lagging:
                return effects
        if through:
            stream.position = max(stream.position or 0, through)
        if not stopped:
            stream.state = "active"
            return effects
        fall_back(subscription, stream)
        return effects + self.catch_up(now, subscription.client)

    def release(self, now: float, subscription: ServedSubscription) -> list[Effect]:
        """What came before the receipt, and was accepted behind the beginning, follows it (`strict_ack`)."""
        effects: list[Effect] = []
        if not subscription.keeps_early:
            return effects
        for stream in subscription.streams.values():
            if stream.state != "silent" or not (stream.early or stream.gap):
                continue
            if stream.gap:
                effects += self.ask(now, subscription, [stream.publisher])
                continue
            kept, stream.state = [batch for batch, _ in stream.early], "active"
            self.admission.forget_early(stream)
            for batch in kept:
                later = behind(batch, stream.position or 0)
                if later is None:
                    effects.append(Drop(batch, NOT_ACTIVE))
                    continue
                ready = self.admission.admit(subscription, stream, later, effects)
                if ready is not None:
                    effects.append(deliver(subscription, ready))
        return effects

    def catch_up(self, now: float, client: ServedClient) -> list[Effect]:
        """Subscriptions that had to stop go on, where half of the room or more is free again."""
        effects: list[Effect] = []
        for number, subscription in list(client.lagging.items()):
            if number not in client.lagging:
                # An answer from here has come at once, and has let others go on.
                continue
            outlet = subscription.outlet
            if 2 * outlet.room < outlet.capacity or 2 * client.pending_bytes > self.params.pending_bytes_max:
                continue
            if self.has_to_wait(now, client):
                return effects + self.hold(now, subscription, ())
            publishers = list(subscription.lagging)
            del client.lagging[number]
            subscription.lagging.clear()
            for publisher in publishers:
                subscription.streams[publisher].state = "silent"
            effects += self.ask(now, subscription, publishers)
        return effects

    def check(self) -> None:
        self.held.check()
        for (_, publisher), subscription in self.asked.items():
            assert subscription.streams[publisher].state == "asked", "an answer is awaited for no question"
