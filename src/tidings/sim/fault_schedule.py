"""A plan of faults: drawn from the seed of a run, and carried out in a simulator.

**Drawing.** A mix says how much of each kind may happen, and within which span of
time; how much does happen, to whom, when and for how long is drawn. Each kind draws from a stream of its own, so that
adding one kind to a mix leaves the others as they were for the same seed. Times are whole milliseconds, so that a plan
reads well and its text is exact.

A *swizzle* (the word and the idea come from the tests of FoundationDB) clogs some nodes one after the other, in random
order, and unclogs them one after the other in another random order: the network grinds to a halt piece by piece and
comes back piece by piece, which meets orders of events that no single fault does.

**Carrying out.** Everything is known before the run, so nothing here keeps state that a
fault could leave behind. Faults of the network are a rule around all others that looks into the plan: what may pass at
which time. Faults of nodes are calls at their times. Crashes of a node that overlap are first joined to one, which
begins with the first and ends with the last; and a node that is down at time 0 starts when its crash ends.

Each fault writes a row of kind `fault` when it begins, and one when it is over.
"""

import math
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from tidings.machine.effects import Transport
from tidings.machine.streams import RandomStream, random_stream
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.sim.faults import (
    Break,
    Clog,
    Corrupt,
    Crash,
    Fault,
    FaultPlan,
    FullDisk,
    Partition,
    Pause,
    Skew,
    SlowDisk,
    plan_of,
)
from tidings.sim.network.loss import Losing
from tidings.sim.network.rule import Fates, LostPacket, Rule, later
from tidings.sim.simulator import Simulator
from tidings.workloads.churn import FOR_EVER

FaultType = TypeVar("FaultType", Pause, SlowDisk, FullDisk)

CUT_OFF = LostPacket("cut off by a partition")


class Disturbed(Losing):
    """The network as the plan lets it be: partitions lose packets, clogged nodes make them wait."""

    lost = CUT_OFF

    def __init__(self, inner: Rule, plan: FaultPlan) -> None:
        super().__init__(inner)
        self.partitions = [fault for fault in plan.faults if isinstance(fault, Partition)]
        self.clogs = [fault for fault in plan.faults if isinstance(fault, Clog)]

    def fate(self, now: float, sender: NodeId, to: NodeId, size_bytes: int, transport: Transport) -> Fates:
        if not self.clogs and not self.partitions:
            return self.inner.fate(now, sender, to, size_bytes, transport)
        leaves_at = self.unclogged_at(now, sender, to)
        if leaves_at == now:
            return super().fate(now, sender, to, size_bytes, transport)
        return later(super().fate(leaves_at, sender, to, size_bytes, transport), leaves_at - now)

    def reach(self, now: float, sender: NodeId, to: NodeId, size_bytes: int) -> list[tuple[NodeId, Fates]] | None:
        heard = self.inner.reach(now, sender, to, size_bytes)
        return None if heard is None else [(hearer, self.heard(now, sender, hearer, fates)) for hearer, fates in heard]

    def heard(self, now: float, sender: NodeId, hearer: NodeId, fates: Fates) -> Fates:
        """What becomes of a broadcast at one of those who would hear it."""
        wait = self.unclogged_at(now, sender, hearer) - now
        return CUT_OFF if self.is_lost(now, wait, sender, hearer) else later(fates, wait)

    def is_lost(self, now: float, wait: float, sender: NodeId, to: NodeId) -> bool:
        time = now + wait
        return any(cut.at <= time < cut.until and cut.cuts(sender, to) for cut in self.partitions)

    def unclogged_at(self, now: float, sender: NodeId, to: NodeId) -> float:
        """When neither end is clogged any more; one fault may take over from another."""
        time, before = now, -1.0
        while before < time:
            before = time
            for clog in self.clogs:
                if clog.at <= time < clog.until and clog.node in (sender, to):
                    time = clog.until
        return time


class Downtime(msgspec.Struct, frozen=True):
    """Crashes of one node that overlap, as one."""

    begin: float
    end: float
    forgetting: bool
    silent: bool


def downtimes(plan: FaultPlan) -> dict[NodeId, list[Downtime]]:
    """Of each node that crashes: when it is down, in order and apart from each other."""
    spans: dict[NodeId, list[Downtime]] = {}
    for fault in plan.faults:
        if isinstance(fault, Crash):
            mine = spans.setdefault(fault.node, [])
            if mine and fault.at <= mine[-1].end:
                earlier = mine.pop()
                end, forgetting = max(earlier.end, fault.until), earlier.forgetting or fault.forgetting
                mine.append(Downtime(earlier.begin, end, forgetting, earlier.silent))
            else:
                mine.append(Downtime(fault.at, fault.until, fault.forgetting, fault.silent))
    return spans


def first_starts(plan: FaultPlan) -> dict[NodeId, float]:
    """When the nodes start that are down at time 0; all others start then."""
    return {node: spans[0].end for node, spans in downtimes(plan).items() if spans[0].begin == 0}


class FaultSchedule:
    """`FaultSchedule(simulator, plan).schedule()`, before the first node is added."""

    def __init__(self, simulator: Simulator, plan: FaultPlan) -> None:
        self.simulator, self.plan = simulator, plan
        self.lasting: list[Fault] = []
        """Faults that have begun and are not over."""

    def schedule(self) -> None:
        call_at = self.simulator.call_at
        for fault in self.plan.faults:
            call_at(fault.at, partial(self.begin, fault))
            if fault.until < FOR_EVER:
                call_at(fault.until, partial(self.end, fault))
        for node, spans in downtimes(self.plan).items():
            for span in spans:
                if span.begin > 0:
                    call_at(span.begin, partial(self.simulator.crash, node, is_silent=span.silent))
                if 0 < span.begin < span.end < FOR_EVER:
                    call_at(span.end, partial(self.restart, node, span))

    def restart(self, node: NodeId, span: Downtime) -> None:
        self.simulator.restart(node, keep_state=not span.forgetting)
        if self.lasting_at(node, Pause):
            self.simulator.pause(node)

    def begin(self, fault: Fault) -> None:
        self.lasting.append(fault)
        self.write(fault, "begins")
        if isinstance(fault, Pause):
            self.simulator.pause(fault.node)
        elif isinstance(fault, Skew):
            self.set_clock(fault.node, fault.offset, fault.drift)
        elif isinstance(fault, SlowDisk | FullDisk):
            self.set_disk(fault.node)
        elif isinstance(fault, Break):
            self.simulator.break_link(fault.one, fault.other)

    def end(self, fault: Fault) -> None:
        self.lasting.remove(fault)
        self.write(fault, "is over")
        if isinstance(fault, Pause) and not self.lasting_at(fault.node, Pause):
            self.simulator.resume(fault.node)
        elif isinstance(fault, Skew):
            self.set_clock(fault.node, 0.0, 0.0)
        elif isinstance(fault, SlowDisk | FullDisk):
            self.set_disk(fault.node)
        elif isinstance(fault, Break):
            self.simulator.break_link(fault.one, fault.other)

    def lasting_at(self, node: NodeId, kind: type[FaultType]) -> list[FaultType]:
        return [fault for fault in self.lasting if isinstance(fault, kind) and node in fault.nodes]

    def set_clock(self, node: NodeId, jump: float, drift: float) -> None:
        """From now on the clock runs at another rate, after a jump ahead."""
        now, clock = self.simulator.now, self.simulator.nodes[node].clock
        shows = (now if clock is None else clock.read(now)) + jump
        self.simulator.set_clock(node, shows - now * (1 + drift), drift)

    def set_disk(self, node: NodeId) -> None:
        """The slowest of the faults that last counts."""
        delays = [fault.delay for fault in self.lasting_at(node, SlowDisk)]
        disk = self.simulator.nodes[node].disk
        disk.delay = max(delays, default=self.simulator.params.save_delay)
        disk.is_full = bool(self.lasting_at(node, FullDisk))

    def write(self, fault: Fault, what: str) -> None:
        detail = msgspec.json.encode(str(fault)).decode()
        for node in fault.nodes:
            self.simulator.write(self.simulator.now, node, "fault", message=fault.kind, reason=what, detail=detail)


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
    full_disks: int = 0
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


def draw_full_disk(rng: RandomStream, mix: FaultMix, nodes: list[NodeId]) -> list[Fault]:
    return [FullDisk(*draw_span(rng, mix), rng.choice(nodes))]


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
    "full_disks": draw_full_disk,
    "corruptions": draw_corruption,
}
"""By the name of the count in `FaultMix`."""
