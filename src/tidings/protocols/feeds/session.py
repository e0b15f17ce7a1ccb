"""The beginning of a session: in which order trees are joined, so that friends are found before publishers are asked.

The problem. Who comes with fifty feeds and no friends could ask fifty publishers, and so would everybody else.

The idea. A *virgin* joins one tree at its publisher, waits `spacing`, and looks at whom it met there: those are readers
of that feed, near by, and many of them read others of its feeds too. They become friends, and whatever they read is
joined through them. After at most `staggered_max` publishers the rest is joined at once. Who has been here before
(*reentrant*) probes the friends it had; one that lives is enough to find the others.

State. `waiting`: feeds that are not joined, in random order; how many were joined at publishers, and when the last was.

Timers. "next"; "settled", when looking for friends goes back to its usual pace.

Takes `CoordinateFixed`, `FeedsChanged`, `FriendsChanged`, `PulseAnswered`, `JoinEnded`, `RootTaken`; tells
`JoinWanted`, `AuditsContinual`, `ProbeWanted`, `NodeMet`.

Guaranteed. Every feed is joined as long as somebody of its tree answers (P-84): a join that fails is tried again by the
forest.

Source: peer-to-peer.md 3E (P-69, P-78 to P-84).
"""

from collections.abc import Callable
from random import Random

from tidings.machine.effects import Effect, SetTimer
from tidings.machine.inputs import Fired, Input, Signal
from tidings.model.identity import NodeId
from tidings.protocols.feeds.params import FeedSessionParams
from tidings.pubsub.feeds import (
    AuditsContinual,
    CoordinateFixed,
    FeedId,
    FeedsChanged,
    FriendsChanged,
    JoinEnded,
    JoinWanted,
    NodeMet,
    ProbeWanted,
    PulseAnswered,
    RootTaken,
)

STALE_MAX = 64


class FeedSession:
    messages: tuple[type, ...] = ()
    hears: tuple[type, ...] = (CoordinateFixed, FeedsChanged, FriendsChanged, PulseAnswered, JoinEnded, RootTaken)
    tells: tuple[type[Signal], ...] = (JoinWanted, AuditsContinual, ProbeWanted, NodeMet)

    def __init__(
        self,
        covering: Callable[[FeedId], list[NodeId]],
        params: FeedSessionParams,
        rng: Random,
        stale: tuple[NodeId, ...] = (),
    ) -> None:
        """`stale` are friends of the session before."""
        self.covering, self.params, self.rng = covering, params, rng
        self.friends: tuple[NodeId, ...] = stale[:STALE_MAX]
        self.probed: tuple[NodeId, ...] = ()
        """Friends of before that have not answered."""
        self.waiting: dict[FeedId, None] = {}
        self.known: frozenset[FeedId] = frozenset()
        self.has_place = self.has_friends = self.is_staggering = False
        self.direct = 0
        """Trees that were joined at their publishers because no friend read the feed."""
        self.next_at = 0.0

    def start(self, now: float) -> list[Effect]:
        self.probed, self.waiting, self.known = self.friends, {}, frozenset()
        self.has_place = self.has_friends = self.is_staggering = False
        self.direct, self.next_at = 0, now
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case CoordinateFixed() if not self.has_place:
                return self.begin(now)
            case FeedsChanged(feeds):
                return self.feeds_changed(now, feeds)
            case FriendsChanged(friends):
                self.has_friends = bool(friends)
                self.friends = friends or self.friends
                return self.join_covered()
            case PulseAnswered(node) if node in self.probed:
                self.probed = tuple(it for it in self.probed if it != node)
                return [NodeMet(node)]
            case JoinEnded(feed, is_attached) if is_attached:
                self.waiting.pop(feed, None)
            case RootTaken(_, _, is_ours) if is_ours and self.is_staggering:
                # Nobody was there to be met, so nobody is spared by waiting.
                self.direct, self.next_at = max(0, self.direct - 1), now
                return [SetTimer("next", now)]
            case Fired("next"):
                return self.next(now)
            case Fired("settled"):
                return [AuditsContinual(False)]
        return []

    def begin(self, now: float) -> list[Effect]:
        self.has_place = True
        probes: list[Effect] = [ProbeWanted(node) for node in self.probed]
        if probes:
            # Whoever answers becomes a friend, and covers what it covers.
            self.next_at = now + self.params.probe_timeout
        return [AuditsContinual(True), *probes, *self.next(now)]

    def feeds_changed(self, now: float, feeds: tuple[FeedId, ...]) -> list[Effect]:
        new = [feed for feed in feeds if feed not in self.known]
        self.known = frozenset(feeds)
        self.waiting = {feed: None for feed in self.waiting if feed in self.known}
        self.waiting |= dict.fromkeys(new)
        if not self.has_place or not new:
            return []
        if self.has_friends and not self.is_staggering:
            # In a running session friends are asked, and the publisher only where none reads it.
            return self.join_now(new)
        return self.next(now)

    def join_now(self, feeds: list[FeedId]) -> list[Effect]:
        for feed in feeds:
            self.waiting.pop(feed, None)
        return [JoinWanted(feed) for feed in feeds]

    def join_covered(self) -> list[Effect]:
        if not self.has_place:
            return []
        return self.join_now([feed for feed in self.waiting if self.covering(feed)])

    def next(self, now: float) -> list[Effect]:
        """One more at its publisher, if it is time; all the rest, if there were enough."""
        self.is_staggering = True
        effects = self.join_covered()
        if self.waiting and now >= self.next_at:
            if self.direct >= self.params.staggered_max:
                return effects + self.settle(now, [JoinWanted(feed, is_direct=True) for feed in self.waiting])
            feed = self.rng.choice(list(self.waiting))
            del self.waiting[feed]
            self.direct += 1
            self.next_at = now + self.params.spacing
            effects.append(JoinWanted(feed, is_direct=True))
        if not self.waiting:
            return self.settle(now, effects)
        return [*effects, SetTimer("next", self.next_at)]

    def settle(self, now: float, effects: list[Effect]) -> list[Effect]:
        self.waiting.clear()
        self.is_staggering = False
        return [*effects, SetTimer("settled", now + self.params.settling)]

    def check(self) -> None:
        assert self.direct <= self.params.staggered_max, "more staggered joins than may be"
        assert self.waiting.keys() <= self.known, "waits to join what is not read"
