"""Where subscriptions begin: a number of each publisher, found without comparing clocks.

The problem. A subscription with a promise begins with its receipt: what is accepted anywhere after it must arrive,
whatever breaks. When a link comes back, or the client goes to another broker, somebody has to know what was accepted
after the receipt and what before. The receipt has a time, and publications have one, but these are of two clocks.

The idea. A publisher numbers what it publishes. So before the receipt is given, the brokers of all publishers that are
known here are asked how far they have come (`LookFar`): a publication with a higher number may have come after the
receipt, one with a lower number did not. The question leaves behind the subscription, at once, and is answered while
that spreads; so it costs no time. The client is told the numbers ahead of its receipt (`Beginning`), and names them
when it continues elsewhere. Subscriptions that come while a question for the same publisher is under way wait for the
next one, and share it: a thousand of them cost two questions.

A publisher that is not known here when the subscription comes has no number, and needs none: its advertisement knows
with which number it began, and everything under it is asked for from there on (`references.py`). That may be more than
was promised, if it was advertised long ago and only heard of late; it is never less.

A question that is not answered is asked again once, and then given up: the publisher is then one that was not known.

State. Publishers for which subscriptions wait, and those that are asked for. Timer "begin".
"""

from collections.abc import Callable, Iterable

from tidings.machine.effects import Effect, SetTimer
from tidings.model.bounds import MARKS_MAX
from tidings.model.identity import NodeId
from tidings.protocols.delivery.edge.admission import ServedSubscription
from tidings.protocols.delivery.edge.advertisements import origin_of, publisher_of
from tidings.protocols.delivery.edge.inquiries import Inquiries
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.edge.questions import Fetching
from tidings.protocols.delivery.messages import LookFar, MarksFar
from tidings.pubsub.signals import AdvertisementId

TRIES_MAX = 2
"""How often a broker is asked how far a publisher has come."""


class PositionQuestion:
    """How far has this publisher come? Each of its brokers is asked."""

    def __init__(self, publisher: NodeId, subscriptions: list[ServedSubscription]) -> None:
        self.publisher, self.subscriptions = publisher, subscriptions
        self.reading = self.tries = self.last = 0
        self.asked_at = 0.0
        self.awaited: dict[NodeId, None] = {}
        """The brokers that have not answered."""


class Beginnings:
    """`number()` gives a number for a question that no other has."""

    def __init__(
        self, node_id: NodeId, params: EdgeParams, fetching: Fetching, inquiries: Inquiries, number: Callable[[], int]
    ) -> None:
        self.node_id, self.params, self.fetching, self.inquiries = node_id, params, fetching, inquiries
        self.number = number
        self.waiting: dict[NodeId, list[ServedSubscription]] = {}
        """Who is to be asked for at the end of this step, or when the question that is under way is answered."""
        self.asked: dict[NodeId, PositionQuestion] = {}
        """The one that was asked longest ago first."""
        self.is_timed = False

    def start(self) -> None:
        self.waiting.clear()
        self.asked.clear()
        self.is_timed = False

    def want(self, subscription: ServedSubscription, publishers: Iterable[NodeId]) -> None:
        for publisher in publishers:
            subscription.unplaced[publisher] = None
            self.waiting.setdefault(publisher, []).append(subscription)

    def flush(self, now: float) -> list[Effect]:
        """Ask for those whose questions have to leave."""
        ready = [publisher for publisher in self.waiting if publisher not in self.asked]
        if not ready:
            return []
        for publisher in ready:
            self.asked[publisher] = PositionQuestion(publisher, self.waiting.pop(publisher))
        return [*self.ask(now, ready), *self.arm(now)]

    def ask(self, now: float, publishers: Iterable[NodeId]) -> list[Effect]:
        reading = self.number()
        wanted: list[AdvertisementId] = []
        for publisher in publishers:
            question = self.asked.pop(publisher)
            known = self.fetching.of_publisher.get(publisher, {})
            first = {origin_of(each): each for each in reversed(known)}
            question.reading, question.asked_at, question.tries = reading, now, question.tries + 1
            question.awaited, question.last = dict.fromkeys(first), 0
            self.asked[publisher] = question
            wanted += first.values()
        effects: list[Effect] = []
        for hop, there in self.inquiries.by_hop(wanted).items():
            for place in range(0, len(there), MARKS_MAX):
                far = LookFar(reading, tuple(there[place : place + MARKS_MAX]), (self.node_id,))
                # Where no way is known it becomes known again, or is forgotten.
                effects += [] if hop is None else self.inquiries.flows.put(hop, far)
        for advertisement, last, _, _ in self.inquiries.marks(wanted):
            self.note(reading, advertisement, last)
        return effects

    # Answers.

    def hear(self, message: MarksFar) -> bool:
        """Whether it answers a question of ours."""
        heard = [self.note(message.reading, advertisement, last) for advertisement, last, _, _ in message.marks]
        return any(heard)

    def note(self, reading: int, advertisement: AdvertisementId, last: int) -> bool:
        question, origin = self.asked.get(publisher_of(advertisement)), origin_of(advertisement)
        if question is None or question.reading != reading or origin not in question.awaited:
            return False
        del question.awaited[origin]
        question.last = max(question.last, last)
        if not question.awaited:
            self.conclude(question, question.last)
        return True

    def conclude(self, question: PositionQuestion, position: int | None) -> None:
        del self.asked[question.publisher]
        for subscription in question.subscriptions:
            self.fetching.place(subscription, question.publisher, position)

    # Publishers become known, and unknown; time passes.

    def learn(self, now: float, publisher: NodeId) -> list[Effect]:
        """What was asked may be lost, or there is another broker to ask."""
        return self.ask(now, [publisher]) if publisher in self.asked else []

    def unlearn(self, advertisement: AdvertisementId) -> None:
        publisher = publisher_of(advertisement)
        known = self.fetching.of_publisher.get(publisher, {})
        if not known:
            for subscription in self.waiting.pop(publisher, ()):
                self.fetching.place(subscription, publisher, None)
        question = self.asked.get(publisher)
        if question is not None and not any(origin_of(each) == origin_of(advertisement) for each in known):
            question.awaited.pop(origin_of(advertisement), None)
            if not question.awaited:
                self.conclude(question, question.last if known else None)

    def ask_again(self, now: float) -> list[Effect]:
        self.is_timed = False
        late: list[NodeId] = []
        for question in list(self.asked.values()):
            if question.asked_at + self.params.ask_again_after > now:
                break
            if question.tries < TRIES_MAX:
                late.append(question.publisher)
            else:
                self.conclude(question, None)
        return [*(self.ask(now, late) if late else ()), *self.arm(now)]

    def arm(self, now: float) -> list[Effect]:
        if self.is_timed or not self.asked:
            return []
        self.is_timed = True
        first = next(iter(self.asked.values()))
        return [SetTimer("begin", max(now, first.asked_at + self.params.ask_again_after))]

    def check(self) -> None:
        assert all(publisher in self.asked for publisher in self.waiting), "somebody waits and nobody asks"
        assert self.is_timed or not self.asked, "nobody looks after the questions"
        for publisher, question in self.asked.items():
            assert question.awaited, "an answer is awaited from nobody"
            assert all(publisher in it.unplaced for it in question.subscriptions), "asked for nobody"
