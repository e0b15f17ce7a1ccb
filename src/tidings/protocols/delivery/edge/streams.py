"""What a subscription knows of one publisher, and the subscription itself: plain state, used by `subscriptions.py`."""

from collections.abc import Iterable
from typing import Literal

from tidings.model.filter import Filter
from tidings.model.identity import NodeId
from tidings.protocols.delivery.edge.clients import ServedClient
from tidings.protocols.delivery.edge.history import NEVER
from tidings.protocols.delivery.edge.outlet import Outlet
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.messages import History, Subscribe
from tidings.pubsub.client import Guarantee, Policy
from tidings.pubsub.publications import Publications
from tidings.pubsub.signals import SubscriptionKey

State = Literal["active", "asked", "lagging", "silent"]
"""active: what arrives is passed on. asked: history was asked for, and what arrives is in it or will follow it.
lagging: there was no room; history is asked for when there is. silent: nothing is to be expected yet."""


class PublisherStream:
    """A publisher as seen by a subscription."""

    __slots__ = (
        "answers",
        "asked_at",
        "awaited",
        "early",
        "early_max",
        "effective_at",
        "origins",
        "position",
        "publisher",
        "round",
        "state",
    )

    def __init__(self, publisher: NodeId, state: State, position: int | None, effective_at: float) -> None:
        self.publisher, self.state = publisher, state
        self.position = position
        """The number up to which everything was passed on, or given up with a reason."""
        self.effective_at = effective_at
        """What was accepted earlier is not wanted."""
        self.round = 0
        """Of the latest question."""
        self.asked_at = 0.0
        self.awaited: dict[NodeId, None] = {}
        """The brokers that store something of the publisher and have not answered."""
        self.answers: list[History] = []
        self.origins = 0
        """How many brokers were asked."""
        self.early: list[Publications] = []
        """What came behind the answer of one broker before that of another."""
        self.early_max: int | None = None
        """The last of these that was kept, where there were too many."""

    def ask(self, now: float, round: int, origins: Iterable[NodeId]) -> None:
        self.state, self.round, self.asked_at = "asked", round, now
        self.awaited, self.answers = dict.fromkeys(origins), []
        self.origins = len(self.awaited)
        self.early, self.early_max = [], None

    def has_answered(self, origin: NodeId) -> bool:
        """Whether this broker has, and others have not."""
        return self.state == "asked" and bool(self.answers) and origin not in self.awaited

    def keep_early(self, batch: Publications, count_max: int) -> None:
        if self.early_max is None and sum(len(each.numbers) for each in self.early) >= count_max:
            self.early_max = self.early[-1].numbers[-1]
        if self.early_max is None:
            self.early.append(batch)


class ServedSubscription:
    __slots__ = (
        "after",
        "client",
        "delivered",
        "dropped",
        "filter",
        "filter_text",
        "group",
        "guarantee",
        "is_settled",
        "key",
        "known_before",
        "lagging",
        "matched",
        "missed",
        "number",
        "outlet",
        "policy",
        "round",
        "since",
        "streams",
    )

    def __init__(self, client: ServedClient, asked: Subscribe, filter: Filter, params: EdgeParams) -> None:
        self.client, self.number, self.filter, self.filter_text = client, asked.number, filter, filter.text()
        self.key: SubscriptionKey = (client.name, asked.number)
        self.matched = ((asked.number,),)
        self.guarantee: Guarantee = asked.guarantee
        self.after, self.group = dict(asked.after), asked.group
        self.since: float | None = None
        """Since when publications are wanted of a publisher that has no position; None is from now on."""
        self.policy: Policy = asked.policy
        self.outlet = Outlet(client, min(asked.window, params.window_max), min(asked.queue_max, params.queue_max))
        self.streams: dict[NodeId, PublisherStream] = {}
        self.lagging: dict[NodeId, None] = {}
        self.is_settled = False
        self.known_before = 0
        """The latest advertisement that routing knew when it was told of this subscription."""
        self.round = 0
        self.delivered = 0
        self.dropped: dict[str, int] = {}
        self.missed: dict[tuple[NodeId, str], int] = {}
        """Given up for want of room, and the client was not told yet."""

    def effective_at(self, position: int | None) -> float:
        is_by_time = self.guarantee == "reference" and position is None and not self.group
        return self.since if is_by_time and self.since is not None else NEVER

    def give_up(self, batch: Publications, reason: str) -> None:
        count = len(batch.numbers)
        self.dropped[reason] = self.dropped.get(reason, 0) + count
        key = (batch.publisher, reason)
        self.missed[key] = self.missed.get(key, 0) + count

    def check(self) -> None:
        self.outlet.check()
        assert self.lagging.keys() == {name for name, stream in self.streams.items() if stream.state == "lagging"}, (
            "who lags is noted wrongly"
        )
        assert not self.lagging or self.number in self.client.lagging, "nobody wakes a lagging subscription"
