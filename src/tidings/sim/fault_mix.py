"""Drawing a plan of faults from the seed of a run.

A mix says how much of each kind may happen, and within which span of time; how much does happen, to whom, when and for
how long is drawn. Each kind draws from a stream of its own, so that adding one kind to a mix leaves the others as they
were for the same seed. Times are whole milliseconds, so that a plan reads well and its text is exact.

A *swizzle* (the word and the idea come from the tests of FoundationDB) clogs some nodes one after the other, in random
order, and unclogs them one after the other in another random order: the network grinds to a halt piece by piece and
comes back piece by piece, which meets orders of events that no single fault does.
"""

import math
from collections.abc import Callable, Collection, Sequence

import msgspec

from tidings.machine.streams import RandomStream, random_stream
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.sim.faults import Clog, Corrupt, Crash, Fault, FaultPlan, Partition, Pause, Skew, SlowDisk, plan_of


class FaultMix(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Counts are the most that may happen; how many do is drawn, from none to all."""

    begin: float = 0.0
    end: float = 60.0
    """All faults lie between these, in seconds."""

    length_max: float = 15.0
    """No fault takes longer."""

    crashes: int = 0
    crashes_forgetting: int = 0
    pauses: int = 0
    partitions: int = 0
    one_way_partitions: int = 0
    swizzles: int = 0
    skewed_clocks: int = 0
    slow_disks: int = 0
    corruptions: int = 0

    share_max: float = 0.5
    """The largest share of the nodes that a partition cuts off, and that a swizzle clogs."""

    offset_max: float = 1.0
    drift_max: float = 0.01
    """Of skewed clocks: they are ahead by at most `offset_max`, and fast or slow by at most `drift_max`."""

    disk_delay_max: float = 2.0
    corruption_max: float = 0.5
    """The largest share of a node's frames that is corrupted."""

    def __post_init__(self) -> None:
        if not 0 <= self.begin < self.end < math.inf:
            raise UsageError(f"faults: begin {self.begin}, end {self.end}; give 0 <= begin < end")
        for name in ("length_max", "offset_max", "drift_max", "disk_delay_max"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"faults: {name} {getattr(self, name)}; give a number above 0")
        for name in ("share_max", "corruption_max"):
            if not 0 < getattr(self, name) <= 1:
                raise UsageError(f"faults: {name} {getattr(self, name)}; give a number above 0, up to 1")
        if self.drift_max >= 1:
            raise UsageError(f"faults: drift_max {self.drift_max}; a clock that stands still is not possible")
        for name in DRAWERS:
            if getattr(self, name) < 0:
                raise UsageError(f"faults: {name} {getattr(self, name)}; give a count from 0")

    def before(self, until: float) -> "FaultMix":
        """The same in less time, where there is less."""
        return msgspec.structs.replace(self, begin=min(self.begin, until / 2), end=min(self.end, until))


def draw_faults(mix: FaultMix, nodes: Sequence[NodeId], seed: int, exempt: Collection[NodeId] = ()) -> FaultPlan:
    """Nobody who is exempt is struck, though one may be on the other side of a partition."""
    candidates = [node for node in nodes if node not in exempt]
    faults: list[Fault] = []
    if candidates:
        for name, draw in DRAWERS.items():
            rng = random_stream(seed, "faults", name)
            for _ in range(rng.below(getattr(mix, name) + 1)):
                faults += draw(rng, mix, candidates)
    return plan_of(faults)


def draw_span(rng: RandomStream, mix: FaultMix) -> tuple[float, float]:
    at = moment(rng, mix.begin, mix.end)
    return at, max(moment(rng, at, min(at + mix.length_max, mix.end)), round(at + 0.001, 3))


def moment(rng: RandomStream, low: float, high: float) -> float:
    return round(rng.uniform(low, high), 3)


def draw_some(rng: RandomStream, mix: FaultMix, nodes: list[NodeId]) -> list[NodeId]:
    """At least one node, at most the largest share."""
    return rng.sample(nodes, 1 + rng.below(max(1, int(mix.share_max * len(nodes)))))


def draw_crash(rng: RandomStream, mix: FaultMix, nodes: list[NodeId]) -> list[Fault]:
    return [Crash(*draw_span(rng, mix), rng.choice(nodes), False, rng.random() < 0.5)]


def draw_forgetting(rng: RandomStream, mix: FaultMix, nodes: list[NodeId]) -> list[Fault]:
    return [Crash(*draw_span(rng, mix), rng.choice(nodes), True, rng.random() < 0.5)]


def draw_pause(rng: RandomStream, mix: FaultMix, nodes: list[NodeId]) -> list[Fault]:
    return [Pause(*draw_span(rng, mix), rng.choice(nodes))]


def draw_partition(rng: RandomStream, mix: FaultMix, nodes: list[NodeId]) -> list[Fault]:
    return [Partition(*draw_span(rng, mix), tuple(draw_some(rng, mix, nodes)))]


def draw_one_way(rng: RandomStream, mix: FaultMix, nodes: list[NodeId]) -> list[Fault]:
    side = tuple(draw_some(rng, mix, nodes))
    return [Partition(*draw_span(rng, mix), side, rng.choice(("outgoing", "incoming")))]


def draw_swizzle(rng: RandomStream, mix: FaultMix, nodes: list[NodeId]) -> list[Fault]:
    at, until = draw_span(rng, mix)
    middle = (at + until) / 2
    faults: list[Fault] = []
    for node in draw_some(rng, mix, nodes):
        begin, end = moment(rng, at, middle), moment(rng, middle, until)
        faults.append(Clog(begin, max(end, round(begin + 0.001, 3)), node))
    return faults


def draw_skew(rng: RandomStream, mix: FaultMix, nodes: list[NodeId]) -> list[Fault]:
    offset = round(rng.uniform(0.0, mix.offset_max), 3)
    drift = round(rng.uniform(-mix.drift_max, mix.drift_max), 6)
    return [Skew(*draw_span(rng, mix), rng.choice(nodes), offset, drift)]


def draw_slow_disk(rng: RandomStream, mix: FaultMix, nodes: list[NodeId]) -> list[Fault]:
    return [SlowDisk(*draw_span(rng, mix), rng.choice(nodes), round(rng.uniform(0.0, mix.disk_delay_max), 3))]


def draw_corruption(rng: RandomStream, mix: FaultMix, nodes: list[NodeId]) -> list[Fault]:
    return [Corrupt(*draw_span(rng, mix), rng.choice(nodes), round(rng.uniform(0.0, mix.corruption_max), 3))]


DRAWERS: dict[str, Callable[[RandomStream, FaultMix, list[NodeId]], list[Fault]]] = {
    "crashes": draw_crash,
    "crashes_forgetting": draw_forgetting,
    "pauses": draw_pause,
    "partitions": draw_partition,
    "one_way_partitions": draw_one_way,
    "swizzles": draw_swizzle,
    "skewed_clocks": draw_skew,
    "slow_disks": draw_slow_disk,
    "corruptions": draw_corruption,
}
"""By the name of the count in `FaultMix`."""
