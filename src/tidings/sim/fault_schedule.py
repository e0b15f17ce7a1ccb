"""Carrying out a plan of faults in a simulator.

Everything is known before the run, so nothing here keeps state that a fault could leave behind. Faults of the network
are a rule around all others that looks into the plan: what may pass at which time. Faults of nodes are calls at their
times. Crashes of a node that overlap are first joined to one, which begins with the first and ends with the last; and a
node that is down at time 0 starts when its crash ends.

Each fault writes a row of kind `fault` when it begins, and one when it is over.
"""

from functools import partial
from typing import TypeVar

import msgspec

from tidings.machine.effects import Transport
from tidings.model.identity import NodeId
from tidings.sim.faults import Clog, Crash, Fault, FaultPlan, Partition, Pause, Skew, SlowDisk
from tidings.sim.network.loss import Losing
from tidings.sim.network.rule import Fates, LostPacket, Rule, later
from tidings.sim.simulator import Simulator
from tidings.workloads.churn import FOR_EVER

FaultType = TypeVar("FaultType", Pause, SlowDisk)

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
        elif isinstance(fault, SlowDisk):
            self.set_disk(fault.node)

    def end(self, fault: Fault) -> None:
        self.lasting.remove(fault)
        self.write(fault, "is over")
        if isinstance(fault, Pause) and not self.lasting_at(fault.node, Pause):
            self.simulator.resume(fault.node)
        elif isinstance(fault, Skew):
            self.set_clock(fault.node, 0.0, 0.0)
        elif isinstance(fault, SlowDisk):
            self.set_disk(fault.node)

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
        self.simulator.nodes[node].disk.delay = max(delays, default=self.simulator.params.save_delay)

    def write(self, fault: Fault, what: str) -> None:
        detail = msgspec.json.encode(str(fault)).decode()
        for node in fault.nodes:
            self.simulator.write(self.simulator.now, node, "fault", message=fault.kind, reason=what, detail=detail)
