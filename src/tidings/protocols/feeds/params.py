"""What can be set about feeds: of friendship, of pulses, of trees, and of how a session begins."""

import math

import msgspec

from tidings.model.bounds import (
    FEED_CHAIN_MAX,
    FEED_FRIENDS_MAX,
    FEED_NEAREST_MAX,
    FEED_PULL_MAX,
    FEED_ROOTS_MAX,
    FEED_TREES_MAX,
)
from tidings.model.errors import UsageError
from tidings.protocols.feeds.utility import Law


class PulseParams(msgspec.Struct, frozen=True, kw_only=True):
    period: float = 30.0
    """Seconds between two pings of the same peer."""

    timeout: float = 15.0
    """Seconds without an answer after which it has failed."""

    peers_max: int = 2000
    """Peers that are pinged: friends, and a parent in each tree."""

    @property
    def silence_max(self) -> float:
        """Seconds after which whoever pings us, and does no longer, is forgotten."""
        return self.period + self.timeout

    def __post_init__(self) -> None:
        check_spans(self, "period", "timeout")
        if self.timeout > self.period:
            raise UsageError(f"timeout: {self.timeout} is longer than period; a peer has one ping on its way at most")


class FriendshipParams(msgspec.Struct, frozen=True, kw_only=True):
    friends_max: int = 6
    """`alpha`. Fans, who have us as a friend, may be twice as many."""

    gain: float = 0.01
    """`delta`: an exchange of friends must raise the utility by more than this part."""

    audit_period: float = 30.0
    """Seconds between two audits."""

    audit_timeout: float = 15.0
    """Seconds that a candidate has to answer."""

    continual_pause: float = 0.5
    """Seconds between audits while trees are joined for the first time."""

    law: Law = "both"
    """What makes a good friend; the others are baselines."""

    @property
    def fans_max(self) -> int:
        return 2 * self.friends_max

    @property
    def candidates_max(self) -> int:
        """Friends of friends, friends of fans, and fans."""
        return 3 * self.friends_max**2 + 2 * self.friends_max

    def __post_init__(self) -> None:
        check_spans(self, "audit_period", "audit_timeout", "continual_pause")
        if not 1 <= self.friends_max <= FEED_FRIENDS_MAX:
            raise UsageError(f"friends_max: {self.friends_max}; give 1 to {FEED_FRIENDS_MAX}")
        if self.gain < 0:
            raise UsageError(f"gain: {self.gain} would exchange friends for worse ones; give at least 0")


class TreeParams(msgspec.Struct, frozen=True, kw_only=True):
    children_max: int = 5
    """`beta`, in each tree."""

    rejoin_period: float = 600.0
    """Seconds after which a node looks for a parent higher up; inf is never."""

    join_timeout: float = 5.0
    """Seconds that whoever is asked to be a parent has to answer."""

    retry_first: float = 5.0
    """Seconds before a join that found nobody is tried again; then twice as long, and so on."""

    retry_max: float = 60.0

    leave_wait: float = 30.0
    """Seconds for which who leaves serves the children that have not gone."""

    silence_max: float = 45.0
    """Seconds after which a child that does not ping is deleted; that of pulses."""

    cache: int = 10
    """Updates that are kept of each feed."""

    publisher_cache: int = 100
    """The same at its publisher."""

    window: int = 1024
    """Numbers of a feed below the highest that are told apart; what is older counts as known."""

    gap_wait: float = 1.0
    """Seconds that a missing update may still be on its way, and then whoever is asked for it has."""

    gap_tries: int = 6
    """Ancestors that are asked for it."""

    void_period: float = 60.0
    """Seconds between two words of a publisher on which number is the latest; inf is never."""

    feeds_max: int = FEED_TREES_MAX

    def __post_init__(self) -> None:
        check_spans(self, "join_timeout", "retry_first", "retry_max", "leave_wait", "silence_max", "gap_wait")
        for name in ("rejoin_period", "void_period"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name}: {getattr(self, name)} is no span of time; give seconds above 0, or inf")
        if self.children_max < 1 or self.window < 1 or self.gap_tries < 1:
            raise UsageError("children_max, window, gap_tries: give at least 1 each")
        if not 1 <= self.cache <= self.publisher_cache <= FEED_PULL_MAX:
            raise UsageError(
                f"cache: {self.cache} and publisher_cache: {self.publisher_cache} must be at least 1, in this order, "
                f"and at most {FEED_PULL_MAX}"
            )
        if not 1 <= self.feeds_max <= FEED_TREES_MAX:
            raise UsageError(f"feeds_max: {self.feeds_max}; give 1 to {FEED_TREES_MAX}")


HOPS_MAX = FEED_CHAIN_MAX
"""How often a request to join is sent on before it begins again at the publisher."""


class FeedSessionParams(msgspec.Struct, frozen=True, kw_only=True):
    spacing: float = 20.0
    """Seconds between two trees that are joined at their publishers."""

    staggered_max: int = 12
    """Trees that are joined so, one after the other; then all others at once."""

    settling: float = 60.0
    """Seconds after which looking for friends is left to its usual pace, once all trees are joined."""

    probe_timeout: float = 15.0
    """Seconds that friends of the session before have to answer."""

    def __post_init__(self) -> None:
        check_spans(self, "spacing", "settling", "probe_timeout")
        if self.staggered_max < 1:
            raise UsageError(f"staggered_max: {self.staggered_max}; give at least 1")


class RegisterParams(msgspec.Struct, frozen=True, kw_only=True):
    copies: int = 3
    """Peers nearest to the key of a feed that are told who publishes it."""

    width: int = 3
    """Peers that are asked at the same time."""

    timeout: float = 3.0
    """Seconds that one has to answer."""

    claim_period: float = 60.0
    """Seconds after which a publisher says again that it is one."""

    record_life: float = 180.0
    """Seconds for which its word counts; several times `claim_period`."""

    bucket: int = 8
    """Peers that are remembered at each distance from ourselves."""

    asked_max: int = 64
    """Peers that are asked for one feed, at most."""

    records_max: int = FEED_ROOTS_MAX

    clock_offset: float = 0.0
    """Added to `now` it gives a time that grows over all lives: reigns are numbered by it."""

    def __post_init__(self) -> None:
        check_spans(self, "timeout", "claim_period", "record_life")
        for name in ("copies", "width", "bucket", "asked_max", "records_max"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}: {getattr(self, name)}; give at least 1")
        if self.copies > FEED_NEAREST_MAX:
            raise UsageError(f"copies: {self.copies}; give at most {FEED_NEAREST_MAX}")
        if self.record_life <= self.claim_period:
            raise UsageError(f"record_life: {self.record_life} is over before the next claim; give several periods")


def check_spans(params: object, *names: str) -> None:
    for name in names:
        if not 0 < getattr(params, name) < math.inf:
            raise UsageError(f"{name}: {getattr(params, name)} is no span of time; give seconds above 0")
