"""The settings of gossip around failed brokers, and of the ways that it is compared with."""

import math
from typing import Literal

import msgspec

from tidings.model.bounds import GOSSIP_HOPS_MAX, VIEW_LEVELS_MAX, VIEW_MEMBERS_MAX
from tidings.model.errors import UsageError
from tidings.protocols.gossip.failover.levels import Skip
from tidings.protocols.gossip.failover.similarity import Measure

FailoverName = Literal["none", "gossip", "random", "neighbourhood"]


class FailoverParams(msgspec.Struct, frozen=True, kw_only=True):
    period: float = 2.0
    """T: seconds of a cycle in which views are looked after. The same in the whole network."""

    answer_within: float = 0.5
    """Seconds in which a member answers; more than the longest round trip there is."""

    siblings: int = 10
    """r: brokers of our own group that we know."""

    siblings_max: int = 20
    """As many when many fail, where the size `adapts`."""

    adapts: bool = False
    """Whether the view is doubled in a cycle in which more than a tenth of it failed, and shrinks by one for each ten
    cycles without (FW-5)."""

    level_members: int = 6
    """r': brokers that we know of each other level."""

    levels: int = 6
    """N: levels above and below of which we know. More cost no more messages."""

    merged_levels: int = 3
    """Levels at the top of the tree that are one group, since they are small. The same in the whole network."""

    hops: int = 2
    """Brokers that a publication passes off the tree: those who are told, and whom they tell."""

    skip: Skip = "any"
    """Which levels beyond a failure are passed over (G-17)."""

    measure: Measure = "minima"
    """What similarity is (`similarity.py`). The same in the whole network."""

    literal_seen: bool = False
    """Whether who has had a publication already does not tell it on, as the source says literally; for comparison
    (G-20a)."""

    notice_after: float = 0.0
    """Seconds for which a lost neighbour is not known to be lost, and publications for it are lost: for experiments in
    which detection takes time (G-18)."""

    push_bytes_max: int = 128 * 1024
    """Publications up to this size are sent at once; larger ones are offered, and sent to who asks. To offer first
    costs a round trip, and saves something only where most have it already."""

    held_bytes_max: int = 16 * 1024 * 1024
    """Publications that are offered and may be asked for still."""

    kept_for: float = 60.0
    """Seconds for which it is kept what a neighbour misses that is gone, to be offered when it is back
    (`retransmission.py`). 0 keeps nothing, as in the source."""

    kept_bytes_max: int = 16 * 1024 * 1024
    """For all neighbours together; beyond it the oldest are given up."""

    waiting_max: int = 256
    """Publications that wait for a link to one broker."""

    relays_max: int = 65_536
    """Publications of which it is remembered that they were told on, or offered: more than come around failures in the
    time in which one crosses the network."""

    place_after: float = 10.0
    """Seconds for which a new place in the tree must last until the group is changed. More than a broker that failed
    needs to come back."""

    def __post_init__(self) -> None:
        for name in ("period", "answer_within"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"{name}: {getattr(self, name)} is no span of time; give seconds above 0")
        for name in ("notice_after", "place_after", "kept_for"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UsageError(f"{name}: {getattr(self, name)} is no span of time; give seconds, 0 or more")
        if self.answer_within >= self.period:
            raise UsageError(f"answer_within: {self.answer_within} is not below period {self.period}; make it shorter")
        for name in ("siblings", "siblings_max", "level_members"):
            if not 1 <= getattr(self, name) <= VIEW_MEMBERS_MAX:
                raise UsageError(f"{name}: {getattr(self, name)} brokers; give 1 to {VIEW_MEMBERS_MAX}")
        if self.siblings > self.siblings_max:
            raise UsageError(f"siblings: {self.siblings} is above siblings_max {self.siblings_max}; raise that")
        if not 1 <= self.levels <= VIEW_LEVELS_MAX:
            raise UsageError(f"levels: {self.levels}; give 1 to {VIEW_LEVELS_MAX}")
        if not 1 <= self.hops <= GOSSIP_HOPS_MAX:
            raise UsageError(f"hops: {self.hops}; give 1 to {GOSSIP_HOPS_MAX}")
        for name in ("merged_levels", "waiting_max", "relays_max"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}: {getattr(self, name)}; give at least 1")
        for name in ("push_bytes_max", "held_bytes_max", "kept_bytes_max"):
            if getattr(self, name) < 0:
                raise UsageError(f"{name}: {getattr(self, name)} bytes; give 0 or more")


class RandomViewsParams(msgspec.Struct, frozen=True, kw_only=True):
    """RGEPS: as gossip around failures, to anybody."""

    period: float = 2.0
    """Seconds after which the view is another one."""

    members: int = 6
    known: int = 32
    """Brokers of which the view is drawn; they are exchanged with others in every period."""

    hops: int = 3

    def __post_init__(self) -> None:
        if not 0 < self.period < math.inf:
            raise UsageError(f"period: {self.period} is no span of time; give seconds above 0")
        if not 1 <= self.members <= self.known <= VIEW_MEMBERS_MAX:
            raise UsageError(
                f"members: {self.members} of known: {self.known}; give 1 to {VIEW_MEMBERS_MAX}, one not above the other"
            )
        if not 1 <= self.hops <= GOSSIP_HOPS_MAX:
            raise UsageError(f"hops: {self.hops}; give 1 to {GOSSIP_HOPS_MAX}")


class NeighbourhoodParams(msgspec.Struct, frozen=True, kw_only=True):
    """deltaFT: what is within delta + 1 hops is known."""

    period: float = 2.0
    """Seconds in which changes are gathered."""

    delta: int = 3
    """Brokers that may fail one behind the other."""

    def __post_init__(self) -> None:
        if not 0 < self.period < math.inf:
            raise UsageError(f"period: {self.period} is no span of time; give seconds above 0")
        if not 1 <= self.delta <= VIEW_LEVELS_MAX:
            raise UsageError(f"delta: {self.delta} brokers; give 1 to {VIEW_LEVELS_MAX}")


AnyFailoverParams = FailoverParams | RandomViewsParams | NeighbourhoodParams
